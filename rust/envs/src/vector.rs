//! Vectors of environments of one type, which are stepped together and write to memory of the caller.
//!
//! [`Vector`] is generic over the environment, so that a step of all environments is one loop without indirect calls;
//! [`AnyVector`] hides the type from callers that choose it at run time. Long steps are divided among threads in contiguous
//! chunks. Each environment has its own random stream, so the results do not depend on the number of threads.
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
    /// Whether the next step of each environment resets it, because its episode has ended.
    over: Vec<bool>,
    autoreset: Autoreset,
    /// The number of elements of one observation, one action and one info.
    sizes: (usize, usize, usize),
    events: Events<E::Observation>,
    sharing: Sharing,
}

impl<E: Env> Vector<E> {
    /// Makes a vector of `envs`, which must have the same spaces, options and info fields. They must be reset first.
    ///
    /// # Panics
    /// If `envs` is empty.
    pub fn new(envs: Vec<E>, autoreset: Autoreset) -> Self {
        let first = envs.first().expect("a vector has at least one environment");
        let info_elements = first.info_fields().iter().map(InfoField::len).sum();
        let sizes = (first.observation_space().len(), first.action_space().len(), info_elements);
        let over = vec![false; envs.len()];
        Self { envs, over, autoreset, sizes, events: Events::default(), sharing: Sharing::default() }
    }

    /// Returns whether a step of `rows` environments, judging by earlier steps, is long enough to let other threads of the caller
    /// run meanwhile.
    pub fn is_long(&self, rows: usize) -> bool {
        self.sharing.is_long(rows)
    }

    /// Returns the number of environments.
    pub fn num_envs(&self) -> usize {
        self.envs.len()
    }

    /// Returns when environments are reset after the end of an episode.
    pub fn autoreset(&self) -> Autoreset {
        self.autoreset
    }

    /// Returns the observation space of one environment.
    pub fn observation_space(&self) -> Space {
        self.envs[0].observation_space()
    }

    /// Returns the action space of one environment.
    pub fn action_space(&self) -> Space {
        self.envs[0].action_space()
    }

    /// Returns the options of a reset.
    pub fn reset_options(&self) -> &'static [ResetOption] {
        self.envs[0].reset_options()
    }

    /// Returns the entries of one environment's info.
    pub fn info_fields(&self) -> Vec<InfoField> {
        self.envs[0].info_fields()
    }

    /// Starts an episode in each of `ids` (None: all) and writes the first observations, one row each. With the seed None, an
    /// environment continues its random stream. `options` are values of [`reset_options`](Self::reset_options) for all of them.
    ///
    /// # Errors
    /// If `ids` are not distinct numbers of environments, a slice has the wrong length, or the `options` are invalid; nothing has
    /// changed then.
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
            self.envs[id].reset_with(seed, options.unwrap_or_default(), obs)?; // if it fails, it fails for the first environment
            self.over[id] = false;
        }
        Ok(())
    }

    /// Steps each of `ids` (None: all) with its action and fills one row of `output` each. [`events`](Self::events) returns
    /// which environments were reset.
    ///
    /// # Errors
    /// As `reset`, and if an environment is in no episode or its action is invalid. Nothing has changed then.
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

    /// Returns the resets that happened in the last step.
    pub fn events(&self) -> &Events<E::Observation> {
        &self.events
    }

    /// Writes the infos after the last reset or step, one row for each of `ids` (None: all), field after field.
    ///
    /// # Errors
    /// If `ids` are not distinct numbers of environments, or `info` has the wrong length.
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

    /// Returns the complete state of environment `id`, without the arguments of its constructor.
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

    /// Restores in environment `id` a state that [`save`](Self::save) returned for one with the same constructor arguments.
    ///
    /// # Errors
    /// If there is no such environment, or the state is impossible for it; nothing has changed then.
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

    /// Checks `ids` and returns the number of rows.
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

    /// Checks the actions of `ids`. Environments that the step only resets ignore their actions.
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
