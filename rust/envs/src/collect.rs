//! Collecting without a host: a network acts, environments step, and a replay engine stores, until a limit is reached.

mod rows;

use std::time::{Duration, Instant};

use rlfast_core::error::{Error, Result};
use rlfast_core::nn::{Choice, Network};
use rlfast_core::replay::Replay;
use rlfast_core::rng::draws::{BitSource, epsilon_greedy};
use rlfast_core::vectors::{filled, product};

use crate::DType;
use crate::vector::{AnyVector, Autoreset};
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

/// How random actions come into the choices of a network.
#[derive(Debug)]
pub enum Noise<'a, S> {
    /// Not at all.
    None,
    /// Each action is replaced with probability `epsilon` by one of `0..count`.
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

/// Lets `network` act in those of `envs` that are ready, and adds every transition to the ring of its environment, until
/// the limit is reached, a choice is too near, or it takes long. Environments whose episode ends are reset if they are
/// still ready, unless they do it themselves; a step that only resets one is no transition.
///
/// # Errors
/// `Mismatch` for environments, a network or columns of other shapes and types than this function takes, and `Value` for a
/// wrong number of observations, environments or clocks, with nothing changed; and what steps and the engine raise: a step
/// may have been taken then that was not stored.
pub fn collect<S: BitSource>(
    envs: &mut dyn AnyVector,
    replay: &mut Replay,
    network: &Network,
    running: &mut CollectState<'_>,
    mut noise: Noise<'_, S>,
) -> Result<Collected> {
    let width = network.inputs();
    check(envs, network, running)?;
    let Some(places) = Places::of(replay, width) else {
        return Err(Error::Mismatch("the columns are not those of transitions alone".to_owned()));
    };
    let mut rows = StepRows::new(running.ready.len(), width)?;
    let mut done = Collected { rows: filled(0, envs.num_envs())?, ..Collected::default() };
    let start = Instant::now();
    while !running.limit.reached(&running.ready) && (!done.vector_steps.is_multiple_of(16) || start.elapsed() < LONGEST)
    {
        let count = running.ready.len();
        rows.shrink(count, width);
        rows.read(running.obs, &running.ready, width);
        let choice = match &noise {
            Noise::Clocks(clocks) => Choice::Clocks(part(clocks, done.vector_steps, count * network.outputs())?),
            _ => Choice::Greatest,
        };
        if !network.choose(&rows.obs, choice, &mut rows.actions)? {
            done.undecided = true;
            break;
        }
        if let Noise::Epsilon { epsilon, count, source } = &mut noise {
            epsilon_greedy(source, *epsilon, *count, &mut rows.actions, &mut rows.flags);
        }
        let valid = rows.step(envs, &running.ready, running.obs, width)?;
        valid.iter().for_each(|&id| done.rows[id] += 1);
        done.steps += valid.len();
        rows.store(replay, places, width)?;
        let ended = rows.ended(&mut done);
        done.vector_steps += 1;
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

fn check(envs: &dyn AnyVector, network: &Network, running: &CollectState<'_>) -> Result<()> {
    let (width, space) = (envs.observation_space().len(), envs.action_space());
    let numbers = (envs.observation_dtype(), envs.action_dtype(), space.len());
    if numbers != (DType::Float32, DType::Int64, 1) {
        let wanted = "single floats and one whole number as action";
        return Err(Error::Mismatch(format!("environments with {wanted} collect, these have {numbers:?}")));
    }
    if !envs.info_fields().is_empty() || width != network.inputs() {
        let inputs = network.inputs();
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

fn part(clocks: &[f32], step: usize, length: usize) -> Result<&[f32]> {
    match clocks.get(step * length..(step + 1) * length) {
        Some(clocks) => Ok(clocks),
        None => Err(Error::Value(format!("there are {} clocks for step {step}, of {length}", clocks.len()))),
    }
}

#[cfg(test)]
mod tests;
