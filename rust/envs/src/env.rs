//! What an environment is.

use crate::Space;

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

/// Why a step was not taken; nothing has changed then.
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

/// A task for one agent, stepped in turn with it.
///
/// The same seed and actions give the same episodes, to the bit on one machine. Nothing is drawn from anywhere but the
/// environment's own stream.
pub trait Env: Send {
    /// Element of an observation.
    type Observation: Copy + Send;
    /// Element of an action: `i64` for discrete ones.
    type Action: Copy + Send;

    /// What observations look like; its length is that of the slices given to `reset` and `step`.
    fn observation_space(&self) -> Space;

    /// What actions are legal.
    fn action_space(&self) -> Space;

    /// Begins an episode and writes its first observation. With a seed the random stream starts afresh from it, as
    /// `reset(seed=...)` does in Gymnasium; without one it goes on, from seed 0 if there never was one.
    ///
    /// # Panics
    /// If `observation` has not the length of the observation space; so does `step`.
    fn reset(&mut self, seed: Option<u64>, observation: &mut [Self::Observation]);

    /// Takes one step and writes the observation it led to, also where the episode ends: the final one.
    ///
    /// # Errors
    /// If no episode is running, or the action is illegal.
    fn step(&mut self, action: &[Self::Action], observation: &mut [Self::Observation]) -> Result<Outcome, StepError>;
}
