//! How the actions of a vector step come from a network, or from a random stream alone.

use rlfast_core::error::{Error, Result};
use rlfast_core::nn::{Choice, Drawing, Network};
use rlfast_core::rng::draws::{BitSource, bounded, epsilon_greedy, scaled};

use super::rows::StepRows;
use crate::DType;

/// How actions come from the numbers that a network computes, or without a network.
#[derive(Debug)]
pub enum Acting<'a, S> {
    /// One of `0..count`, which is not 0, without a network.
    Uniform {
        /// The number of actions.
        count: u32,
        /// A random stream for each environment, of which those that are ready draw.
        sources: &'a mut [S],
    },
    /// The same, but all draw from one stream, in each vector step also those that are not ready.
    Shared {
        /// The number of actions.
        count: u32,
        /// The random stream.
        source: S,
    },
    /// The action with the greatest number.
    Greatest,
    /// The same, but each action is replaced with probability `epsilon` by one of `0..count`.
    Epsilon {
        /// The probability.
        epsilon: f64,
        /// The number of actions.
        count: u32,
        /// The random stream.
        source: S,
    },
    /// See [`Choice::Clocks`]; as many for each vector step.
    Clocks(&'a [f32]),
    /// Real actions.
    Real(RealActions<'a>),
}

/// Real actions: those of the policy, which are stored, and how environments receive them.
#[derive(Clone, Debug)]
pub struct RealActions<'a> {
    /// How they are drawn.
    pub drawing: Drawing,
    /// Standard normal numbers, as many for each vector step as actions have numbers. Not used without deviations.
    pub normals: &'a [f32],
    /// Whether environments receive them limited to the interval from -1 to 1.
    pub clip: bool,
    /// Whether the interval from -1 to 1 is then stretched to the bounds.
    pub stretch: bool,
    /// The least and the greatest numbers that environments receive; None for actions as they are.
    pub bounds: Option<(&'a [f32], &'a [f32])>,
}

impl RealActions<'_> {
    /// Writes what environments receive. Returns false if an action cannot be stretched, as it is outside of -1 to 1.
    pub(super) fn map(&self, actions: &[f32], mapped: &mut [f32]) -> bool {
        mapped.copy_from_slice(actions);
        if self.clip {
            // NaN stays NaN.
            mapped.iter_mut().for_each(|number| *number = number.clamp(-1.0, 1.0));
        }
        let Some((low, high)) = self.bounds else { return true };
        if self.stretch && !mapped.iter().all(|number| number.abs() <= 1.0) {
            return false;
        }
        for row in mapped.chunks_exact_mut(low.len().max(1)) {
            for ((number, &low), &high) in row.iter_mut().zip(low).zip(high) {
                if self.stretch {
                    *number = low + (high - low) * ((*number + 1.0) / 2.0);
                }
                // Rounding may lead out of the bounds; NaN stays NaN.
                if *number < low {
                    *number = low;
                } else if *number > high {
                    *number = high;
                }
            }
        }
        true
    }
}

impl<S: BitSource> Acting<'_, S> {
    /// Returns the type of the actions that environments receive, and how many numbers an action has.
    pub(super) fn action(&self, network: Option<&Network>) -> (DType, usize) {
        match self {
            Self::Real(real) => {
                (DType::Float32, network.and_then(|network| network.width(real.drawing.mean)).unwrap_or(0))
            }
            _ => (DType::Int64, 1),
        }
    }

    /// Checks that there is a network if one is asked, and otherwise a stream for each of `all` environments, and that the
    /// numbers for real actions fit.
    pub(super) fn check(&self, network: Option<&Network>, all: usize) -> Result<()> {
        match (self, network) {
            (Self::Uniform { sources, .. }, None) if sources.len() == all => {}
            (Self::Uniform { sources, .. }, None) => {
                let found = sources.len();
                return Err(Error::Value(format!("{all} environments need as many random streams, got {found}")));
            }
            (Self::Shared { .. }, None) => {}
            (Self::Uniform { .. } | Self::Shared { .. }, Some(_)) | (_, None) => {
                return Err(Error::Value("all actions but uniform ones come from a network".to_owned()));
            }
            _ => {}
        }
        let Self::Real(RealActions { bounds: Some((low, high)), .. }) = self else { return Ok(()) };
        let (_, size) = self.action(network);
        match (low.len(), high.len()) {
            found if found == (size, size) => Ok(()),
            (low, high) => {
                Err(Error::Value(format!("actions of {size} numbers have as many bounds, got {low} and {high}")))
            }
        }
    }

    /// Writes the actions of vector step `step` to the rows of the environments `ready`, of `all`. Returns false if the network cannot
    /// tell them.
    pub(super) fn act(
        &mut self,
        network: Option<&Network>,
        step: usize,
        (ready, all): (&[usize], usize),
        rows: &mut StepRows,
    ) -> Result<bool> {
        let Some(network) = network else { return Ok(self.act_randomly(ready, all, rows)) };
        let count = rows.actions.len();
        match self {
            Self::Uniform { .. } | Self::Shared { .. } => Ok(false),
            Self::Real(real) => {
                let numbers = if real.drawing.deviation.is_some() { rows.reals.len() } else { 0 };
                let normals = part(real.normals, step, numbers)?;
                network.draw(&rows.obs, &real.drawing, normals, &mut rows.reals)?;
                Ok(real.map(&rows.reals, &mut rows.mapped))
            }
            Self::Clocks(clocks) => {
                let clocks = part(clocks, step, count * network.outputs())?;
                network.choose(&rows.obs, Choice::Clocks(clocks), &mut rows.actions)
            }
            Self::Greatest => network.choose(&rows.obs, Choice::Greatest, &mut rows.actions),
            Self::Epsilon { epsilon, count, source } => {
                let decided = network.choose(&rows.obs, Choice::Greatest, &mut rows.actions)?;
                if decided {
                    epsilon_greedy(source, *epsilon, *count, &mut rows.actions, &mut rows.flags);
                }
                Ok(decided)
            }
        }
    }

    /// Writes random actions to the rows of the environments `ready`, of `all`. Returns false for actions of a network.
    fn act_randomly(&mut self, ready: &[usize], all: usize, rows: &mut StepRows) -> bool {
        match self {
            Self::Uniform { count, sources } => {
                let actions = rows.actions.iter_mut().zip(ready);
                actions.for_each(|(action, &id)| *action = bounded(&mut sources[id], *count));
            }
            Self::Shared { count, source } => {
                let mut actions = rows.actions.iter_mut().zip(ready).peekable();
                for one in 0..all {
                    let mut drawn = [i64::from(*count)];
                    scaled(source, &mut drawn);
                    if let Some((action, _)) = actions.next_if(|&(_, &id)| id == one) {
                        *action = drawn[0];
                    }
                }
            }
            _ => return false,
        }
        true
    }
}

/// Returns the random numbers of a vector step, of which there are `length` for each.
fn part(numbers: &[f32], step: usize, length: usize) -> Result<&[f32]> {
    match numbers.get(step * length..(step + 1) * length) {
        Some(numbers) => Ok(numbers),
        None => Err(Error::Value(format!("there are {} numbers for step {step}, of {length}", numbers.len()))),
    }
}
