//! Collecting without a host: a network acts, environments step, and a replay engine stores, until a limit is reached.

use std::time::{Duration, Instant};

use rlfast_core::error::{Error, Result};
use rlfast_core::nn::{Choice, Network};
use rlfast_core::replay::table::Source;
use rlfast_core::replay::{Added, Replay};
use rlfast_core::rng::draws::{BitSource, epsilon_greedy};
use rlfast_core::vectors::{filled, product};

use crate::DType;
use crate::vector::{AnyVector, Autoreset, Output, Values, ValuesMut};

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

/// Where the columns of a transition are among those of a replay engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    columns: usize,
    obs: usize,
    obs_next: usize,
    act: usize,
    rew: usize,
    env_id: Option<usize>,
}

impl Places {
    /// Finds the columns; None if they are not exactly those that [`collect`] fills, with observations of `width` floats.
    fn of(replay: &Replay, width: usize) -> Option<Self> {
        let leaves = replay.table()?.layout().leaves();
        let (mut obs, mut obs_next, mut act, mut rew, mut env_id) = (None, None, None, None, None);
        let mut flags = 0;
        for (at, leaf) in leaves.iter().enumerate() {
            let path: Vec<_> = leaf.path.iter().map(String::as_str).collect();
            let is = |dtype: &str, shape: &[usize]| leaf.dtype == dtype && leaf.shape == shape;
            let place = match path.as_slice() {
                ["terminated" | "truncated" | "done"] if is("|b1", &[]) => {
                    flags += 1;
                    continue;
                }
                ["obs"] if is("<f4", &[width]) => &mut obs,
                ["obs_next"] if is("<f4", &[width]) => &mut obs_next,
                ["act"] if is("<i8", &[]) => &mut act,
                ["rew"] if is("<f8", &[]) => &mut rew,
                ["info", "env_id"] if is("<i8", &[]) => &mut env_id,
                _ => return None,
            };
            *place = Some(at);
        }
        let found = Self { columns: leaves.len(), obs: obs?, obs_next: obs_next?, act: act?, rew: rew?, env_id };
        (flags == 3 && replay.config().save_obs_next).then_some(found)
    }
}

/// What happened in [`collect`].
#[derive(Debug, Default, PartialEq)]
pub struct Collected {
    /// Vector steps that were taken.
    pub vector_steps: usize,
    /// Steps of single environments.
    pub steps: usize,
    /// The returns of the episodes that ended, in the order in which they did.
    pub returns: Vec<f64>,
    /// Their lengths.
    pub lengths: Vec<i64>,
    /// Environments whose episode ended and that were not reset, as the limit takes them out.
    pub stale: Vec<usize>,
    /// Whether it ended as a choice was too near for the network to make: the caller takes one step by other means.
    pub undecided: bool,
}

/// The state of a collection: what continues after a pause.
#[derive(Debug)]
pub struct Running<'a> {
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
/// still ready.
///
/// # Errors
/// `Mismatch` for environments, a network or columns of other shapes and types than this function takes, and `Value` for a
/// wrong number of observations, environments or clocks, with nothing changed; and what steps and the engine raise: a step
/// may have been taken then that was not stored.
pub fn collect<S: BitSource>(
    envs: &mut dyn AnyVector,
    replay: &mut Replay,
    network: &Network,
    running: &mut Running<'_>,
    mut noise: Noise<'_, S>,
) -> Result<Collected> {
    let width = network.inputs();
    check(envs, network, running)?;
    let Some(places) = Places::of(replay, width) else {
        return Err(Error::Mismatch("the columns are not those of transitions alone".to_owned()));
    };
    let mut rows = Rows::new(running.ready.len(), width)?;
    let mut done = Collected::default();
    let start = Instant::now();
    while !running.limit.reached(&running.ready) && (done.vector_steps % 16 != 0 || start.elapsed() < LONGEST) {
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
        rows.step(envs, &running.ready)?;
        rows.store(replay, places, &running.ready)?;
        rows.write(running.obs, &running.ready, width);
        let ended = rows.ended(&running.ready, &mut done);
        done.vector_steps += 1;
        done.steps += count;
        running.limit.advance(&ended, &mut running.ready);
        let (again, stale): (Vec<_>, Vec<_>) = ended.into_iter().partition(|id| running.ready.contains(id));
        done.stale.extend(stale);
        rows.reset(envs, &again, running.obs, width)?;
    }
    Ok(done)
}

fn check(envs: &dyn AnyVector, network: &Network, running: &Running<'_>) -> Result<()> {
    let (width, space) = (envs.observation_space().len(), envs.action_space());
    let numbers = (envs.observation_dtype(), envs.action_dtype(), space.len());
    if numbers != (DType::Float32, DType::Int64, 1) || envs.autoreset() != Autoreset::Disabled {
        let wanted = "single floats, one whole number as action and no autoreset";
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

/// The rows of one vector step.
struct Rows {
    obs: Vec<f32>,
    next: Vec<f32>,
    actions: Vec<i64>,
    flags: Vec<bool>,
    rewards: Vec<f64>,
    ends: Vec<u8>,
    cuts: Vec<u8>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    ids: Vec<i64>,
    index: Vec<i64>,
    returns: Vec<f64>,
    lengths: Vec<i64>,
    starts: Vec<i64>,
    sources: Vec<Source>,
}

impl Rows {
    fn new(count: usize, width: usize) -> Result<Self> {
        let numbers = || filled(0.0_f32, product(&[count, width])?);
        let (integers, doubles, flags) = (|| filled(0_i64, count), || filled(0.0_f64, count), || filled(false, count));
        Ok(Self {
            obs: numbers()?,
            next: numbers()?,
            actions: integers()?,
            flags: flags()?,
            rewards: doubles()?,
            ends: filled(0, count)?,
            cuts: filled(0, count)?,
            terminated: flags()?,
            truncated: flags()?,
            ids: integers()?,
            index: integers()?,
            returns: doubles()?,
            lengths: integers()?,
            starts: integers()?,
            sources: Vec::new(),
        })
    }

    fn shrink(&mut self, count: usize, width: usize) {
        self.obs.truncate(count * width);
        self.next.truncate(count * width);
        for numbers in [&mut self.actions, &mut self.ids, &mut self.index, &mut self.lengths, &mut self.starts] {
            numbers.truncate(count);
        }
        for flags in [&mut self.flags, &mut self.terminated, &mut self.truncated] {
            flags.truncate(count);
        }
        self.rewards.truncate(count);
        self.returns.truncate(count);
        self.ends.truncate(count);
        self.cuts.truncate(count);
    }

    fn read(&mut self, obs: &[f32], ready: &[usize], width: usize) {
        for (row, &id) in self.obs.chunks_exact_mut(width).zip(ready) {
            row.copy_from_slice(&obs[id * width..][..width]);
        }
        self.ids.iter_mut().zip(ready).for_each(|(to, &id)| *to = id as i64);
    }

    fn write(&self, obs: &mut [f32], ready: &[usize], width: usize) {
        for (row, &id) in self.next.chunks_exact(width).zip(ready) {
            obs[id * width..][..width].copy_from_slice(row);
        }
    }

    fn step(&mut self, envs: &mut dyn AnyVector, ready: &[usize]) -> Result<()> {
        let some = (ready.len() < envs.num_envs()).then_some(ready);
        let (terminated, truncated) = (&mut self.ends[..], &mut self.cuts[..]);
        let output = Output { obs: ValuesMut::Float32(&mut self.next), rew: &mut self.rewards, terminated, truncated };
        envs.step(some, Values::Int64(&self.actions), output)?;
        self.terminated.iter_mut().zip(&self.ends).for_each(|(to, &flag)| *to = flag != 0);
        self.truncated.iter_mut().zip(&self.cuts).for_each(|(to, &flag)| *to = flag != 0);
        Ok(())
    }

    fn store(&mut self, replay: &mut Replay, places: Places, rings: &[usize]) -> Result<()> {
        let width = (self.obs.len() / rings.len() * size_of::<f32>()) as isize;
        let sources = &mut self.sources;
        sources.clear();
        sources.resize(places.columns, Source::ZEROS);
        sources[places.obs] = Source::rows(self.obs.as_ptr().cast(), width);
        sources[places.obs_next] = Source::rows(self.next.as_ptr().cast(), width);
        sources[places.act] = Source::rows(self.actions.as_ptr().cast(), 8);
        sources[places.rew] = Source::rows(self.rewards.as_ptr().cast(), 8);
        if let Some(at) = places.env_id {
            sources[at] = Source::rows(self.ids.as_ptr().cast(), 8);
        }
        let mut added = Added {
            index: &mut self.index,
            episode_return: &mut self.returns,
            episode_length: &mut self.lengths,
            episode_start: &mut self.starts,
        };
        // SAFETY: `Places::of` compared the engine's columns with these types and shapes; each has a row for each ring.
        unsafe { replay.add(rings, &self.sources, &self.terminated, &self.truncated, &mut added) }
    }

    /// The environments whose episode ended; their returns and lengths are added to `done`.
    fn ended(&self, ready: &[usize], done: &mut Collected) -> Vec<usize> {
        let mut ended = Vec::new();
        for (k, &id) in ready.iter().enumerate() {
            if self.terminated[k] || self.truncated[k] {
                ended.push(id);
                done.returns.push(self.returns[k]);
                done.lengths.push(self.lengths[k]);
            }
        }
        ended
    }

    fn reset(&mut self, envs: &mut dyn AnyVector, again: &[usize], obs: &mut [f32], width: usize) -> Result<()> {
        if again.is_empty() {
            return Ok(());
        }
        let first = &mut self.next[..again.len() * width];
        envs.reset(Some(again), &vec![None; again.len()], None, ValuesMut::Float32(first))?;
        for (row, &id) in first.chunks_exact(width).zip(again) {
            obs[id * width..][..width].copy_from_slice(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
