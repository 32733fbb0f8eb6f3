//! The rows of one vector step: what the environments answer, and where an engine stores it.

use rlfast_core::error::Result;
use rlfast_core::replay::{Added, Replay};
use rlfast_core::source::Source;
use rlfast_core::vectors::{filled, product};

use super::Collected;
use crate::DType;
use crate::vector::{AnyVector, Output, Values, ValuesMut};

/// Where the columns of a transition are among those of a replay engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    columns: usize,
    obs: usize,
    obs_next: usize,
    act: usize,
    rew: usize,
    env_id: Option<usize>,
}

impl Places {
    /// Finds the columns; None if they are not exactly those that [`collect`] fills, with observations of `width` floats and
    /// actions of this shape and type.
    pub(super) fn of(replay: &Replay, width: usize, shape: &[usize], (dtype, _): (DType, usize)) -> Option<Self> {
        let action = if dtype == DType::Float32 { "<f4" } else { "<i8" };
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
                ["act"] if is(action, shape) => &mut act,
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

/// The rows of one vector step.
pub(super) struct StepRows {
    pub(super) obs: Vec<f32>,
    /// Actions that are numbers of their own.
    pub(super) actions: Vec<i64>,
    /// Real actions as the policy chose them, and as environments receive them; empty without.
    pub(super) reals: Vec<f32>,
    pub(super) mapped: Vec<f32>,
    /// How many of them an action has.
    size: usize,
    /// Room for a flag for each environment.
    pub(super) flags: Vec<bool>,
    next: Vec<f32>,
    /// The environments of the rows that are transitions. In the others, an environment was only reset.
    valid: Vec<usize>,
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

impl StepRows {
    pub(super) fn new(count: usize, width: usize, (dtype, size): (DType, usize)) -> Result<Self> {
        let size = if dtype == DType::Float32 { size } else { 0 };
        let numbers = || filled(0.0_f32, product(&[count, width])?);
        let reals = || filled(0.0_f32, product(&[count, size])?);
        let (integers, doubles, flags) = (|| filled(0_i64, count), || filled(0.0_f64, count), || filled(false, count));
        Ok(Self {
            obs: numbers()?,
            actions: integers()?,
            reals: reals()?,
            mapped: reals()?,
            size,
            flags: flags()?,
            next: numbers()?,
            valid: Vec::new(),
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

    pub(super) fn shrink(&mut self, count: usize, width: usize) {
        self.obs.truncate(count * width);
        self.next.truncate(count * width);
        self.reals.truncate(count * self.size);
        self.mapped.truncate(count * self.size);
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

    pub(super) fn read(&mut self, obs: &[f32], ready: &[usize], width: usize) {
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

    /// Steps the environments that are ready, writes their newest observations to `obs`, and moves the rows that are transitions
    /// to the front.
    pub(super) fn step(
        &mut self,
        envs: &mut dyn AnyVector,
        ready: &[usize],
        obs: &mut [f32],
        width: usize,
    ) -> Result<&[usize]> {
        let some = (ready.len() < envs.num_envs()).then_some(ready);
        let (terminated, truncated) = (&mut self.ends[..], &mut self.cuts[..]);
        let output = Output { obs: ValuesMut::Float32(&mut self.next), rew: &mut self.rewards, terminated, truncated };
        let real = self.size > 0;
        let actions = if real { Values::Float32(&self.mapped) } else { Values::Int64(&self.actions) };
        envs.step(some, actions, output)?;
        self.terminated.iter_mut().zip(&self.ends).for_each(|(to, &flag)| *to = flag != 0);
        self.truncated.iter_mut().zip(&self.cuts).for_each(|(to, &flag)| *to = flag != 0);
        self.write(obs, ready, width);
        if let Values::Float32(last) = envs.final_obs() {
            for (&row, last) in envs.ended().iter().zip(last.chunks_exact(width)) {
                self.next[row * width..][..width].copy_from_slice(last);
            }
        }
        self.valid.clear();
        self.valid.extend_from_slice(ready);
        if !envs.resets().is_empty() {
            self.drop(envs.resets(), width);
        }
        Ok(&self.valid)
    }

    /// Removes the rows `resets`, given in ascending order.
    fn drop(&mut self, resets: &[usize], width: usize) {
        let mut to = 0;
        for from in (0..self.valid.len()).filter(|row| resets.binary_search(row).is_err()) {
            self.valid[to] = self.valid[from];
            self.ids[to] = self.ids[from];
            self.actions[to] = self.actions[from];
            self.reals.copy_within(from * self.size..(from + 1) * self.size, to * self.size);
            self.rewards[to] = self.rewards[from];
            self.terminated[to] = self.terminated[from];
            self.truncated[to] = self.truncated[from];
            self.obs.copy_within(from * width..(from + 1) * width, to * width);
            self.next.copy_within(from * width..(from + 1) * width, to * width);
            to += 1;
        }
        self.valid.truncate(to);
    }

    /// Adds the transitions of the newest step to the rings of their environments.
    pub(super) fn store(&mut self, replay: &mut Replay, places: Places, width: usize) -> Result<()> {
        let rows = self.valid.len();
        if rows == 0 {
            return Ok(());
        }
        let width = (width * size_of::<f32>()) as isize;
        let sources = &mut self.sources;
        sources.clear();
        sources.resize(places.columns, Source::ZEROS);
        sources[places.obs] = Source::rows(self.obs.as_ptr().cast(), width);
        sources[places.obs_next] = Source::rows(self.next.as_ptr().cast(), width);
        sources[places.act] = match self.size {
            0 => Source::rows(self.actions.as_ptr().cast(), 8),
            size => Source::rows(self.reals.as_ptr().cast(), (size * size_of::<f32>()) as isize),
        };
        sources[places.rew] = Source::rows(self.rewards.as_ptr().cast(), 8);
        if let Some(at) = places.env_id {
            sources[at] = Source::rows(self.ids.as_ptr().cast(), 8);
        }
        let mut added = Added {
            index: &mut self.index[..rows],
            episode_return: &mut self.returns[..rows],
            episode_length: &mut self.lengths[..rows],
            episode_start: &mut self.starts[..rows],
        };
        let (terminated, truncated) = (&self.terminated[..rows], &self.truncated[..rows]);
        // SAFETY: `Places::of` compared the engine's columns with these types and shapes; each has a row for each ring.
        unsafe { replay.add(&self.valid, &self.sources, terminated, truncated, &mut added) }
    }

    /// The environments whose episode ended; their returns and lengths are added to `done`.
    pub(super) fn ended(&self, done: &mut Collected) -> Vec<usize> {
        let mut ended = Vec::new();
        for (k, &id) in self.valid.iter().enumerate() {
            if self.terminated[k] || self.truncated[k] {
                ended.push(id);
                done.returns.push(self.returns[k]);
                done.lengths.push(self.lengths[k]);
            }
        }
        ended
    }

    /// The environment of the first reward of the newest step that is not finite, and the reward.
    pub(super) fn not_finite(&self) -> Option<(usize, f64)> {
        let mut rewards = self.valid.iter().copied().zip(self.rewards.iter().copied());
        rewards.find(|(_, reward)| !reward.is_finite())
    }

    pub(super) fn reset(
        &mut self,
        envs: &mut dyn AnyVector,
        again: &[usize],
        obs: &mut [f32],
        width: usize,
    ) -> Result<()> {
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
