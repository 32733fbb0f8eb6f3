//! The interface of environments.

use std::fmt;

use crate::vector::Output;
use crate::{DType, Element, LoadError, OptionsError, ResetOption, Space};
#[cfg(doc)]
use crate::{Episode, State};

/// The result of a step, without the observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Reward of the step.
    pub reward: f64,
    /// Whether the episode reached a terminal state, after which there are no rewards.
    pub terminated: bool,
    /// Whether the episode was ended for a reason outside the task, such as a time limit.
    pub truncated: bool,
}

/// Why a step cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// There is no running episode.
    #[error("step needs a running episode: call reset first, and after each episode")]
    NeedsReset,
    /// The action is outside the action space.
    #[error("action {got} is not among the {wanted}")]
    Action {
        /// The action that was given.
        got: String,
        /// The action space.
        wanted: String,
    },
}

impl StepError {
    /// Makes the error for an `action` that is outside of `space`.
    #[cold]
    pub fn action(action: &[impl fmt::Debug], space: &Space) -> Self {
        Self::Action { got: format!("{action:?}"), wanted: space.to_string() }
    }
}

/// A named entry of `info`, one number or an array of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoField {
    /// Key in the `info` dictionary.
    pub name: &'static str,
    /// The type of its numbers there; each value must be representable as an `f64`.
    pub dtype: DType,
    /// The shape of the array; empty for one number.
    pub shape: Vec<usize>,
}

impl InfoField {
    /// Makes an entry of one `T`.
    pub fn scalar<T: Element>(name: &'static str) -> Self {
        Self { name, dtype: T::DTYPE, shape: Vec::new() }
    }

    /// Makes an entry that is a vector of `length` `T`s.
    pub fn vector<T: Element>(name: &'static str, length: usize) -> Self {
        Self { name, dtype: T::DTYPE, shape: vec![length] }
    }

    /// Returns the number of numbers in the entry.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the entry has no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The largest number of environments that [`Env::step_lanes`] steps: few enough that their data fits in the L1 cache.
pub const LANES: usize = 64;

/// An environment for one agent.
///
/// The same seed and actions give the same episodes, bit for bit on one machine: an environment draws random numbers only from
/// its own stream. Observations, actions and infos are flat rows in memory of the caller, so that many environments fill one
/// batch without a copy. Steps do not allocate memory.
///
/// A caller calls [`check`](Env::check) before each [`step`](Env::step). The two are separate so that a vector of environments
/// can reject an invalid action before any environment has been stepped.
///
/// The folder `examples/rust_env` is a crate with a custom environment, from spaces to saved states. [`Episode`] and [`State`]
/// implement what all environments have in common.
pub trait Env: Send {
    /// The type of an observation's elements.
    type Observation: Element;
    /// The type of an action's elements: `i64` for discrete actions.
    type Action: Element;

    /// Returns the observation space; its length is that of the slices given to `reset` and `step`.
    fn observation_space(&self) -> Space;

    /// Returns the action space; its length is that of the slices given to `check` and `step`.
    fn action_space(&self) -> Space;

    /// Returns the options of [`reset_with`](Env::reset_with); there are none by default.
    fn reset_options(&self) -> &'static [ResetOption] {
        &[]
    }

    /// Starts an episode and writes its first observation.
    ///
    /// With a seed, the random stream restarts from it, as with `reset(seed=...)` in Gymnasium. Without a seed, the stream
    /// continues; its initial seed is 0. `options` apply to this reset only: one value for each of
    /// [`reset_options`](Env::reset_options), or none for their defaults.
    ///
    /// # Errors
    /// If the values of `options` are invalid; nothing has changed then. The defaults are always valid.
    ///
    /// # Panics
    /// If the length of `observation` is not that of the observation space; `step` panics in this case, too.
    fn reset_with(
        &mut self,
        seed: Option<u64>,
        options: &[f64],
        observation: &mut [Self::Observation],
    ) -> Result<(), OptionsError>;

    /// Calls [`reset_with`](Env::reset_with) without options.
    ///
    /// # Panics
    /// As [`reset_with`](Env::reset_with).
    fn reset(&mut self, seed: Option<u64>, observation: &mut [Self::Observation]) {
        self.reset_with(seed, &[], observation).expect("invariant: defaults are possible");
    }

    /// Checks whether [`step`](Env::step) may be called with `action` now.
    ///
    /// # Errors
    /// If no episode is running, or the action is invalid. Real actions beyond their bounds are valid if Gymnasium's environment
    /// clips them; NaN and infinity are always invalid.
    fn check(&self, action: &[Self::Action]) -> Result<(), StepError>;

    /// Makes one step and writes the observation that it led to; at the end of an episode, this is the final observation.
    /// [`check`](Env::check) must accept `action` now; otherwise the result is unspecified, and the environment may panic.
    fn step(&mut self, action: &[Self::Action], observation: &mut [Self::Observation]) -> Outcome;

    /// Returns whether [`step_lanes`](Env::step_lanes) is faster than calling [`step`](Env::step) for each environment.
    fn has_lanes() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Steps at most [`LANES`] environments, with the same results as [`step`](Env::step), bit for bit. Environments override
    /// this if one (SIMD) instruction can process several of them.
    ///
    /// `env` returns the environment in a holder; `output` has a row for each environment. Callers enable wider vector registers,
    /// for which the implementation must be `#[inline(always)]`.
    ///
    /// Some of the environments may be in no episode. They are reset afterwards, and their rows are ignored.
    ///
    /// # Panics
    /// Always, unless it is overridden.
    fn step_lanes<T>(
        _holders: &mut [T],
        _env: impl Fn(&mut T) -> &mut Self,
        _actions: &[Self::Action],
        _output: Output<'_, &mut [Self::Observation]>,
    ) where
        Self: Sized,
    {
        unimplemented!("these environments have no lanes")
    }

    /// Returns the entries of `info` after each reset and step; there are none by default.
    fn info_fields(&self) -> Vec<InfoField> {
        Vec::new()
    }

    /// Writes the values of [`info_fields`](Env::info_fields) after the last reset or step, one field after the other.
    ///
    /// # Panics
    /// If the length of `info` is not the sum of the lengths of all fields.
    fn info(&self, info: &mut [f64]) {
        assert!(info.is_empty(), "this environment has no infos");
    }

    /// Appends the state of the environment to `to`: the simulated state, the random stream, and whether an episode is running.
    /// The arguments of its constructor are not included. [`State`] defines the encoding.
    fn save(&self, to: &mut Vec<u8>);

    /// Restores a state that [`save`](Env::save) wrote for an environment with the same constructor arguments, and removes it
    /// from the front of `from`.
    ///
    /// # Errors
    /// If `from` ends too early, or holds a state that is impossible for this environment; nothing has changed then.
    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError>;
}
