//! Many environments of one kind that step together, into memory that the caller gives.
//!
//! [`Vector`] is generic over the environment, so that a step of a thousand of them is one loop without an indirect call;
//! [`AnyVector`] hides the type from callers who choose it at run time. Where a step is worth it, threads share it in
//! contiguous chunks; every environment draws from its own stream, so the result does not depend on their number.
//!
//! ```
//! use rlfast_envs::vector::{Autoreset, Output, Vector};
//! use rlfast_envs::{classic::CartPole, wrapper::TimeLimit};
//! let envs = (0..2).map(|_| TimeLimit::new(CartPole::default(), 500)).collect();
//! let mut vector = Vector::new(envs, Autoreset::NextStep);
//! let (mut obs, mut rew, mut terminated, mut truncated) = ([0.0_f32; 8], [0.0; 2], [0; 2], [0; 2]);
//! vector.reset(None, &[Some(42), Some(43)], None, &mut obs)?;
//! let output = Output { obs: &mut obs[..], rew: &mut rew, terminated: &mut terminated, truncated: &mut truncated };
//! vector.step(None, &[1, 0], output)?;
//! assert_eq!(rew, [1.0, 1.0]);
//! # Ok::<(), rlfast_envs::vector::VectorError>(())
//! ```

mod any;
mod autoreset;
mod error;
mod output;
mod part;
mod sharing;
mod values;

pub use any::AnyVector;
pub use autoreset::Autoreset;
pub use error::VectorError;
pub use output::{Events, Output};
pub use values::{Erase, OwnedValues, Values, ValuesMut};

use crate::{Env, InfoField, LoadError, ResetOption, Space, State as _};
use part::Part;
use sharing::Sharing;

/// Environments of type `E`, numbered from 0.
pub struct Vector<E: Env> {
    envs: Vec<E>,
    /// Whose episode ended, so that the next step resets them.
    over: Vec<bool>,
    autoreset: Autoreset,
    /// Elements of one observation, one action and one info.
    sizes: (usize, usize, usize),
    events: Events<E::Observation>,
    sharing: Sharing,
}

impl<E: Env> Vector<E> {
    /// `envs`, which wait for their first reset. They must be alike.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(envs: Vec<E>, autoreset: Autoreset) -> Self {
        let first = envs.first().expect("a vector has at least one environment");
        let info_elements = first.info_fields().iter().map(InfoField::len).sum();
        let sizes = (first.observation_space().len(), first.action_space().len(), info_elements);
        let over = vec![false; envs.len()];
        Self { envs, over, autoreset, sizes, events: Events::default(), sharing: Sharing::default() }
    }

    /// Whether a step of `rows` environments takes long enough to let others work meanwhile, as far as steps before this tell.
    pub fn is_long(&self, rows: usize) -> bool {
        self.sharing.is_long(rows)
    }

    /// How many there are.
    pub fn num_envs(&self) -> usize {
        self.envs.len()
    }

    /// Who resets them.
    pub fn autoreset(&self) -> Autoreset {
        self.autoreset
    }

    /// What each one's observations look like.
    pub fn observation_space(&self) -> Space {
        self.envs[0].observation_space()
    }

    /// What each one's actions look like.
    pub fn action_space(&self) -> Space {
        self.envs[0].action_space()
    }

    /// What a reset takes beside the seed.
    pub fn reset_options(&self) -> &'static [ResetOption] {
        self.envs[0].reset_options()
    }

    /// What each one tells beside.
    pub fn info_fields(&self) -> Vec<InfoField> {
        self.envs[0].info_fields()
    }

    /// Begins an episode in each of `ids` (None: all) and writes the first observations, one row each. A seed of None goes on
    /// with the environment's stream; `options` are values of [`reset_options`](Self::reset_options) for all of them.
    ///
    /// # Errors
    /// If `ids` are not distinct numbers of environments, other slices are not as long as they must be, or no environment can
    /// start with the `options`; nothing has changed then.
    pub fn reset(
        &mut self,
        ids: Option<&[usize]>,
        seeds: &[Option<u64>],
        options: Option<&[f64]>,
        obs: &mut [E::Observation],
    ) -> Result<(), VectorError> {
        let rows = self.rows(ids)?;
        let elements = self.sizes.0;
        if (seeds.len(), obs.len()) != (rows, rows * elements) {
            return Err(VectorError::Lengths { rows });
        }
        let wanted = self.reset_options().len();
        if let Some(got) = options.map(<[f64]>::len).filter(|&got| got != wanted) {
            return Err(VectorError::OptionCount { got, wanted });
        }
        for (row, (&seed, obs)) in seeds.iter().zip(obs.chunks_exact_mut(elements)).enumerate() {
            let id = ids.map_or(row, |ids| ids[row]);
            self.envs[id].reset_with(seed, options.unwrap_or_default(), obs)?; // the first refuses, or none does
            self.over[id] = false;
        }
        Ok(())
    }

    /// Steps each of `ids` (None: all) with its action and fills one row of `output` each. What is out of the ordinary is
    /// told by [`events`](Self::events).
    ///
    /// # Errors
    /// As `reset`; and if an environment is in no episode or refuses its action. Nothing has changed then.
    pub fn step(
        &mut self,
        ids: Option<&[usize]>,
        actions: &[E::Action],
        output: Output<'_, &mut [E::Observation]>,
    ) -> Result<(), VectorError> {
        let rows = self.rows(ids)?;
        let (elements, action_elements, info_elements) = self.sizes;
        if actions.len() != rows * action_elements || !output.holds(rows, elements) {
            return Err(VectorError::Lengths { rows });
        }
        self.check(ids, actions)?;
        self.events.clear();
        let Self { envs, over, autoreset, events, .. } = self;
        let part = Part { envs, over, first_env: 0, ids, first_row: 0, actions, output, info_elements };
        self.sharing.run(part, *autoreset, events);
        Ok(())
    }

    /// What happened in the last step beside the ordinary.
    pub fn events(&self) -> &Events<E::Observation> {
        &self.events
    }

    /// Writes each one's infos as of its last reset or step, those of one after the other, field after field.
    ///
    /// # Errors
    /// As `reset`.
    pub fn info(&self, ids: Option<&[usize]>, info: &mut [f64]) -> Result<(), VectorError> {
        let rows = self.rows(ids)?;
        if info.len() != rows * self.sizes.2 {
            return Err(VectorError::Lengths { rows });
        }
        for (row, info) in info.chunks_exact_mut(self.sizes.2.max(1)).enumerate() {
            self.envs[ids.map_or(row, |ids| ids[row])].info(info);
        }
        Ok(())
    }

    /// All that decides what environment `id` will do, apart from what it was built with.
    ///
    /// # Errors
    /// If there is no such environment.
    pub fn save(&self, id: usize) -> Result<Vec<u8>, VectorError> {
        self.rows(Some(&[id]))?;
        let mut state = Vec::new();
        self.over[id].save(&mut state);
        self.envs[id].save(&mut state);
        Ok(state)
    }

    /// Lets environment `id` continue from what [`save`](Self::save) gave for one built alike.
    ///
    /// # Errors
    /// If there is no such environment, or it cannot be in that state; nothing has changed then.
    pub fn load(&mut self, id: usize, state: &[u8]) -> Result<(), VectorError> {
        self.rows(Some(&[id]))?;
        self.load_checked(id, state).map_err(|error| VectorError::Load { id, error })
    }

    fn load_checked(&mut self, id: usize, mut state: &[u8]) -> Result<(), LoadError> {
        let over = bool::load(&mut state)?;
        let env = &mut self.envs[id];
        let mut before = Vec::new();
        env.save(&mut before);
        env.load(&mut state)?;
        if !state.is_empty() {
            env.load(&mut before.as_slice()).expect("invariant: what was saved can be loaded");
            return Err(LoadError::Invalid("it is longer than those"));
        }
        self.over[id] = over;
        Ok(())
    }

    /// The number of rows that `ids` ask for.
    fn rows(&self, ids: Option<&[usize]>) -> Result<usize, VectorError> {
        let Some(ids) = ids else { return Ok(self.envs.len()) };
        if let Some(&id) = ids.iter().find(|&&id| id >= self.envs.len()) {
            return Err(VectorError::Unknown { id, last: self.envs.len() - 1 });
        }
        if !ids.is_sorted_by(|one, next| one < next) {
            let mut seen = vec![false; self.envs.len()];
            if let Some(&id) = ids.iter().find(|&&id| std::mem::replace(&mut seen[id], true)) {
                return Err(VectorError::Twice { id });
            }
        }
        Ok(ids.len())
    }

    /// Whether each can take its action. One that will only be reset ignores it.
    fn check(&self, ids: Option<&[usize]>, actions: &[E::Action]) -> Result<(), VectorError> {
        for (row, action) in actions.chunks_exact(self.sizes.1).enumerate() {
            let id = ids.map_or(row, |ids| ids[row]);
            if !self.over[id] {
                self.envs[id].check(action).map_err(|error| VectorError::Step { id, error })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
