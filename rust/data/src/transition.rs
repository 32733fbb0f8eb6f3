//! One row of RL Unplugged's Atari data.

use crate::error::{Error, Result, broken};
use crate::example::{self, List};

/// Images of one observation.
pub const STACK: usize = 4;

/// The values of a row; `t` is its step, and `tp1` the one after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    /// `a_t`.
    pub action: i64,
    /// `a_tp1`.
    pub next_action: i64,
    /// `r_t`.
    pub reward: f32,
    /// `d_t`; 0 if the step led to a terminal state.
    pub discount: f32,
    /// `episode_id`.
    pub episode: i64,
    /// `episode_return`, of clipped rewards.
    pub episode_return: f32,
}

/// A row whose images are PNG files.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'a> {
    /// `o_t`, oldest first.
    pub obs: [&'a [u8]; STACK],
    /// `o_tp1`.
    pub next: [&'a [u8]; STACK],
    /// The other features.
    pub values: Values,
}

const NAMES: [&str; 8] = ["o_t", "o_tp1", "a_t", "a_tp1", "r_t", "d_t", "episode_id", "episode_return"];

/// Reads a row from a `tf.train.Example`.
///
/// # Errors
/// `Record` if a feature is missing or of another kind, or the message is damaged.
pub fn parse(message: &[u8]) -> Result<Transition<'_>> {
    let mut found: [Option<List<'_>>; NAMES.len()] = [None; NAMES.len()];
    example::features(message, |name, list| {
        if let Some(place) = NAMES.iter().position(|known| known.as_bytes() == name) {
            found[place] = Some(list);
        }
        Ok(())
    })?;
    if let Some(missing) = found.iter().position(Option::is_none) {
        return broken!("there is no feature {}", NAMES[missing]);
    }
    let list = |k: usize| found[k].expect("invariant: none is missing");
    Ok(Transition {
        obs: list(0).strings().map_err(named(0))?,
        next: list(1).strings().map_err(named(1))?,
        values: Values {
            action: list(2).int().map_err(named(2))?,
            next_action: list(3).int().map_err(named(3))?,
            reward: list(4).float().map_err(named(4))?,
            discount: list(5).float().map_err(named(5))?,
            episode: list(6).int().map_err(named(6))?,
            episode_return: list(7).float().map_err(named(7))?,
        },
    })
}

fn named(k: usize) -> impl Fn(Error) -> Error {
    move |error| Error::Record(format!("{} {error}", NAMES[k]))
}
