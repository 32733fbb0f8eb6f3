//! Collecting without a host: a network or a random stream acts, environments step, and a replay engine stores, until a limit is reached.

mod acting;
mod rows;

use std::time::{Duration, Instant};

use rlfast_core::error::{Error, Result};
use rlfast_core::nn::Network;
use rlfast_core::replay::Replay;
use rlfast_core::rng::draws::BitSource;
use rlfast_core::vectors::{filled, product};

use crate::DType;
use crate::vector::{AnyVector, Autoreset};
pub use acting::{Acting, RealActions};
use rows::{Places, StepRows};

/// Which environments are stepped, and for how long. The rules are those of the limits of rlfast's collectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many vector steps.
    Steps(usize),
    /// So many episodes, counted in the order in which they end. When one ends and fewer are missing than environments
    /// are running, its environment is not stepped any more.
    Episodes(usize),
    /// For each environment, so many episodes.
    Quotas(Vec<i64>),
}

impl Limit {
    /// Returns the limit with a name: "steps" and "episodes" have one number, "quotas" one for each environment.
    ///
    /// # Errors
    /// `Value` for another name, or another count of numbers.
    pub fn named(name: &str, numbers: Vec<i64>) -> Result<Self> {
        match (name, &numbers[..]) {
            ("steps", &[left]) if left >= 0 => Ok(Self::Steps(left as usize)),
            ("episodes", &[left]) if left >= 0 => Ok(Self::Episodes(left as usize)),
            ("quotas", _) => Ok(Self::Quotas(numbers)),
            _ => Err(Error::Value(format!("a limit is of steps, episodes or quotas, got {name} of {numbers:?}"))),
        }
    }

    fn reached(&self, ready: &[usize]) -> bool {
        match self {
            Self::Steps(missing) | Self::Episodes(missing) => *missing == 0,
            Self::Quotas(_) => ready.is_empty(),
        }
    }

    /// Counts a vector step in which the episodes of `ended` ended, and takes environments out of `ready`.
    fn advance(&mut self, ended: &[usize], ready: &mut Vec<usize>) {
        match self {
            Self::Steps(missing) => *missing -= 1,
            Self::Episodes(missing) => {
                *missing = missing.saturating_sub(ended.len());
                let surplus = ready.len().saturating_sub(*missing).min(ended.len());
                ready.retain(|id| !ended[..surplus].contains(id));
            }
            Self::Quotas(left) => {
                ended.iter().for_each(|&id| left[id] -= 1);
                if !ended.is_empty() {
                    ready.retain(|&id| left[id] > 0);
                }
            }
        }
    }
}

/// What happened in [`collect`].
#[derive(Debug, Default, PartialEq)]
pub struct Collected {
    /// Vector steps that were taken.
    pub vector_steps: usize,
    /// Transitions, which are the steps of single environments but those that only reset one.
    pub steps: usize,
    /// How many of them each environment has made.
    pub rows: Vec<i64>,
    /// The returns of the episodes that ended, in the order in which they did.
    pub returns: Vec<f64>,
    /// Their lengths.
    pub lengths: Vec<i64>,
    /// Environments whose episode ended and that were not reset, as the limit takes them out. Those that reset themselves are
    /// not among them.
    pub stale: Vec<usize>,
    /// Whether it ended as a choice was too near for the network to make: the caller takes one step by other means.
    pub undecided: bool,
    /// The environment of the first reward that is not finite, and the reward, after which it ended.
    pub not_finite: Option<(usize, f64)>,
}

/// The state of a collection: what continues after a pause.
#[derive(Debug)]
pub struct CollectState<'a> {
    /// The newest observations of all environments, row by row.
    pub obs: &'a mut [f32],
    /// The environments that are stepped, ascending.
    pub ready: Vec<usize>,
    /// What is still to be done.
    pub limit: Limit,
}

/// A collection pauses after so long, so that a host can look for signals.
const LONGEST: Duration = Duration::from_millis(50);

/// Lets `network`, or a random stream alone, act in those of `envs` that are ready, and adds every transition to the ring of its environment, until
/// the limit is reached, a choice is too near, a reward is not finite, or it takes long. Environments whose episode ends are reset if they are
/// still ready, unless they do it themselves; a step that only resets one is no transition.
///
/// # Errors
/// `Mismatch` for environments, a network or columns of other shapes and types than this function takes, and `Value` for a
/// wrong number of observations, environments, bounds or random numbers, with nothing changed; and what steps and the engine raise: a step
/// may have been taken then that was not stored.
pub fn collect<S: BitSource>(
    envs: &mut dyn AnyVector,
    replay: &mut Replay,
    network: Option<&Network>,
    running: &mut CollectState<'_>,
    mut acting: Acting<'_, S>,
) -> Result<Collected> {
    acting.check(network, envs.num_envs())?;
    let action = acting.action(network);
    let width = network.map_or(envs.observation_space().len(), Network::inputs);
    check(envs, width, running, action)?;
    let Some(places) = Places::of(replay, width, &envs.action_space().shape(), action) else {
        return Err(Error::Mismatch("the columns are not those of transitions alone".to_owned()));
    };
    let mut rows = StepRows::new(running.ready.len(), width, action)?;
    let mut done = Collected { rows: filled(0, envs.num_envs())?, ..Collected::default() };
    let start = Instant::now();
    while !running.limit.reached(&running.ready)
        && done.not_finite.is_none()
        && (!done.vector_steps.is_multiple_of(16) || start.elapsed() < LONGEST)
    {
        let count = running.ready.len();
        rows.shrink(count, width);
        rows.read(running.obs, &running.ready, width);
        if !acting.act(network, done.vector_steps, (&running.ready, done.rows.len()), &mut rows)? {
            done.undecided = true;
            break;
        }
        let valid = rows.step(envs, &running.ready, running.obs, width)?;
        valid.iter().for_each(|&id| done.rows[id] += 1);
        done.steps += valid.len();
        rows.store(replay, places, width)?;
        let ended = rows.ended(&mut done);
        done.vector_steps += 1;
        done.not_finite = rows.not_finite();
        running.limit.advance(&ended, &mut running.ready);
        if envs.autoreset() != Autoreset::Disabled {
            continue;
        }
        let (again, stale): (Vec<_>, Vec<_>) = ended.into_iter().partition(|id| running.ready.contains(id));
        done.stale.extend(stale);
        rows.reset(envs, &again, running.obs, width)?;
    }
    Ok(done)
}

fn check(envs: &dyn AnyVector, inputs: usize, running: &CollectState<'_>, action: (DType, usize)) -> Result<()> {
    let (width, space) = (envs.observation_space().len(), envs.action_space());
    let numbers = (envs.observation_dtype(), envs.action_dtype(), space.len());
    let wanted = (DType::Float32, action.0, action.1);
    if numbers != wanted {
        return Err(Error::Mismatch(format!("environments with {wanted:?} collect, these have {numbers:?}")));
    }
    if !envs.info_fields().is_empty() || width != inputs {
        return Err(Error::Mismatch(format!(
            "observations have {width} numbers and no infos, the network takes {inputs}"
        )));
    }
    let all = envs.num_envs();
    let ascending = running.ready.is_sorted_by(|one, next| one < next);
    if running.obs.len() != product(&[all, width])? || !ascending || running.ready.last().is_some_and(|&id| id >= all) {
        return Err(Error::Value(format!("{all} environments need as many observations, and ready ones among them")));
    }
    if matches!(&running.limit, Limit::Quotas(left) if left.len() != all) {
        return Err(Error::Value(format!("{all} environments need as many quotas")));
    }
    if running.ready.is_empty() && !running.limit.reached(&running.ready) {
        return Err(Error::Value("no environment is ready".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
