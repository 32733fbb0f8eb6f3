//! What an environment is.

use std::fmt;

use crate::vector::Output;
use crate::{DType, Element, LoadError, OptionsError, ResetOption, Space};
#[cfg(doc)]
use crate::{Episode, State};

/// What a step led to, beside the observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Reward of the step.
    pub reward: f64,
    /// The episode is over: no reward can follow.
    pub terminated: bool,
    /// The episode was cut short for a reason outside the task, such as a time limit.
    pub truncated: bool,
}

/// Why a step cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// There is no running episode.
    #[error("step needs a running episode: call reset first, and after each episode")]
    NeedsReset,
    /// The action lies outside the action space.
    #[error("action {got} is not among the {wanted}")]
    Action {
        /// What was given.
        got: String,
        /// The action space.
        wanted: String,
    },
}

impl StepError {
    /// That `action` is not one of `space`.
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
    /// What its numbers become there; each must be exact as an `f64` as well.
    pub dtype: DType,
    /// Empty for one number.
    pub shape: Vec<usize>,
}

impl InfoField {
    /// An entry of one `T`.
    pub fn scalar<T: Element>(name: &'static str) -> Self {
        Self { name, dtype: T::DTYPE, shape: Vec::new() }
    }

    /// An entry of `length` `T`s.
    pub fn vector<T: Element>(name: &'static str, length: usize) -> Self {
        Self { name, dtype: T::DTYPE, shape: vec![length] }
    }

    /// Numbers in the entry.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the entry has no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The most environments that [`Env::step_lanes`] steps: so few that what they need stays in the nearest cache.
pub const LANES: usize = 64;

/// A task for one agent, stepped in turn with it.
///
/// The same seed and actions give the same episodes, to the bit on one machine. Nothing is drawn from anywhere but the
/// environment's own stream. Observations, actions and infos are flat rows in memory that the caller owns, so that many
/// environments fill one batch without a copy; `step` and its kin allocate nothing.
///
/// A caller asks [`check`](Env::check) before each [`step`](Env::step). The two are separate so that a vector of environments
/// can refuse a bad action before any of them has moved.
///
/// The folder `examples/rust_env` is a crate with an environment of one's own, from spaces to saved states; [`Episode`] and
/// [`State`] do what all environments have in common.
pub trait Env: Send {
    /// Element of an observation.
    type Observation: Element;
    /// Element of an action: `i64` for discrete ones.
    type Action: Element;

    /// What observations look like; its length is that of the slices given to `reset` and `step`.
    fn observation_space(&self) -> Space;

    /// What actions look like; its length is that of the slices given to `check` and `step`.
    fn action_space(&self) -> Space;

    /// What [`reset_with`](Env::reset_with) takes: nothing, unless overridden.
    fn reset_options(&self) -> &'static [ResetOption] {
        &[]
    }

    /// Begins an episode and writes its first observation. With a seed the random stream starts afresh from it, as
    /// `reset(seed=...)` does in Gymnasium; without one it goes on, from seed 0 if there never was one. `options` are for this one
    /// start alone: a value for each of [`reset_options`](Env::reset_options), or nothing for their defaults.
    ///
    /// # Errors
    /// If there can be no such start; nothing has changed then. Only the options decide, and their defaults are possible.
    ///
    /// # Panics
    /// If `observation` has not the length of the observation space; so does `step`.
    fn reset_with(
        &mut self,
        seed: Option<u64>,
        options: &[f64],
        observation: &mut [Self::Observation],
    ) -> Result<(), OptionsError>;

    /// As [`reset_with`](Env::reset_with) without options.
    ///
    /// # Panics
    /// As that.
    fn reset(&mut self, seed: Option<u64>, observation: &mut [Self::Observation]) {
        self.reset_with(seed, &[], observation).expect("invariant: defaults are possible");
    }

    /// Whether [`step`](Env::step) would take `action` now.
    ///
    /// # Errors
    /// If no episode is running, or the action is illegal. Real actions beyond their bounds are legal where the original
    /// clips them; what is not finite never is.
    fn check(&self, action: &[Self::Action]) -> Result<(), StepError>;

    /// Takes one step and writes the observation it led to, also where the episode ends: the final one. `action` must be one
    /// that [`check`](Env::check) allows now; with another, the environment may panic or do anything that is safe.
    fn step(&mut self, action: &[Self::Action], observation: &mut [Self::Observation]) -> Outcome;

    /// Whether [`step_lanes`](Env::step_lanes) is quicker than one [`step`](Env::step) after the other.
    fn has_lanes() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Steps at most [`LANES`] environments, each as [`step`](Env::step) does, to the bit: worth overriding where one instruction
    /// can work for several of them. `env` finds them in whatever holds them; `output` has a row for each. It is called where
    /// wider registers may be used, which takes `#[inline(always)]`.
    ///
    /// Some may be in no episode: they are reset next, and what is written for them counts for nothing.
    ///
    /// # Panics
    /// Unless overridden.
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

    /// What the environment tells in `info` after each reset and step: nothing, unless overridden.
    fn info_fields(&self) -> Vec<InfoField> {
        Vec::new()
    }

    /// Writes the values of [`info_fields`](Env::info_fields) as of the last reset or step, one field after the other.
    ///
    /// # Panics
    /// If `info` has not the length of all fields together.
    fn info(&self, info: &mut [f64]) {
        assert!(info.is_empty(), "this environment has no infos");
    }

    /// Appends to `to` all that changes in the life of the environment: what it simulates, its stream, whether an episode is
    /// running. What it was built with is left out. [`State`] does the encoding.
    fn save(&self, to: &mut Vec<u8>);

    /// Continues from what [`save`](Env::save) wrote for an environment built alike, and takes it off the front of `from`.
    ///
    /// # Errors
    /// If `from` ends too early, or holds what no such environment could be in; nothing has changed then.
    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError>;
}
