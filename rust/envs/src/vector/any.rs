//! Vectors whose type of environments is known only at run time.

use super::{Autoreset, Erase, Output, Values, ValuesMut, Vector, VectorError};
use crate::{DType, Element as _, Env, InfoField, ResetOption, Space};

/// A [`Vector`] whose type of environments is hidden. Its methods are those of [`Vector`]; values whose type is not that of the
/// environments are an error.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "they are those of `Vector`")]
pub trait AnyVector: Send {
    fn num_envs(&self) -> usize;
    fn autoreset(&self) -> Autoreset;
    fn is_long(&self, rows: usize) -> bool;
    fn observation_space(&self) -> Space;
    /// Returns the type of an observation's elements.
    fn observation_dtype(&self) -> DType;
    fn action_space(&self) -> Space;
    /// Returns the type of an action's elements.
    fn action_dtype(&self) -> DType;
    fn info_fields(&self) -> Vec<InfoField>;
    fn reset_options(&self) -> &'static [ResetOption];
    fn reset(
        &mut self,
        ids: Option<&[usize]>,
        seeds: &[Option<u64>],
        options: Option<&[f64]>,
        obs: ValuesMut<'_>,
    ) -> Result<(), VectorError>;
    fn step(
        &mut self,
        ids: Option<&[usize]>,
        actions: Values<'_>,
        output: Output<'_, ValuesMut<'_>>,
    ) -> Result<(), VectorError>;
    /// See [`Events::resets`](super::Events::resets).
    fn resets(&self) -> &[usize];
    /// See [`Events::ended`](super::Events::ended).
    fn ended(&self) -> &[usize];
    /// See [`Events::final_obs`](super::Events::final_obs).
    fn final_obs(&self) -> Values<'_>;
    /// See [`Events::final_info`](super::Events::final_info).
    fn final_info(&self) -> &[f64];
    fn info(&self, ids: Option<&[usize]>, info: &mut [f64]) -> Result<(), VectorError>;
    fn save(&self, id: usize) -> Result<Vec<u8>, VectorError>;
    fn load(&mut self, id: usize, state: &[u8]) -> Result<(), VectorError>;
}

impl<E: Env> AnyVector for Vector<E>
where
    E::Observation: Erase,
    E::Action: Erase,
{
    fn num_envs(&self) -> usize {
        self.num_envs()
    }

    fn autoreset(&self) -> Autoreset {
        self.autoreset()
    }

    fn is_long(&self, rows: usize) -> bool {
        self.is_long(rows)
    }

    fn observation_space(&self) -> Space {
        self.observation_space()
    }

    fn observation_dtype(&self) -> DType {
        E::Observation::DTYPE
    }

    fn action_space(&self) -> Space {
        self.action_space()
    }

    fn action_dtype(&self) -> DType {
        E::Action::DTYPE
    }

    fn info_fields(&self) -> Vec<InfoField> {
        self.info_fields()
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        self.reset_options()
    }

    fn reset(
        &mut self,
        ids: Option<&[usize]>,
        seeds: &[Option<u64>],
        options: Option<&[f64]>,
        obs: ValuesMut<'_>,
    ) -> Result<(), VectorError> {
        self.reset(ids, seeds, options, Erase::show_mut(obs).ok_or(VectorError::Type)?)
    }

    fn step(
        &mut self,
        ids: Option<&[usize]>,
        actions: Values<'_>,
        output: Output<'_, ValuesMut<'_>>,
    ) -> Result<(), VectorError> {
        let Output { obs, rew, terminated, truncated } = output;
        let obs = Erase::show_mut(obs).ok_or(VectorError::Type)?;
        let actions = Erase::show(actions).ok_or(VectorError::Type)?;
        self.step(ids, actions, Output { obs, rew, terminated, truncated })
    }

    fn resets(&self) -> &[usize] {
        &self.events().resets
    }

    fn ended(&self) -> &[usize] {
        &self.events().ended
    }

    fn final_obs(&self) -> Values<'_> {
        Erase::hide(&self.events().final_obs)
    }

    fn final_info(&self) -> &[f64] {
        &self.events().final_info
    }

    fn info(&self, ids: Option<&[usize]>, info: &mut [f64]) -> Result<(), VectorError> {
        self.info(ids, info)
    }

    fn save(&self, id: usize) -> Result<Vec<u8>, VectorError> {
        self.save(id)
    }

    fn load(&mut self, id: usize, state: &[u8]) -> Result<(), VectorError> {
        self.load(id, state)
    }
}
