//! Episodes of bounded length.

use crate::{Env, Outcome, Space, StepError};

/// Truncates episodes after a number of steps.
pub struct TimeLimit<E> {
    env: E,
    limit: u64,
    steps: u64,
}

impl<E: Env> TimeLimit<E> {
    /// `env` with episodes of at most `limit` steps.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn new(env: E, limit: u64) -> Self {
        assert!(limit > 0, "an episode has at least one step");
        Self { env, limit, steps: limit }
    }
}

impl<E: Env> Env for TimeLimit<E> {
    type Observation = E::Observation;
    type Action = E::Action;

    fn observation_space(&self) -> Space {
        self.env.observation_space()
    }

    fn action_space(&self) -> Space {
        self.env.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, observation: &mut [Self::Observation]) {
        self.steps = 0;
        self.env.reset(seed, observation);
    }

    fn step(&mut self, action: &[Self::Action], observation: &mut [Self::Observation]) -> Result<Outcome, StepError> {
        if self.steps == self.limit {
            return Err(StepError::NeedsReset);
        }
        let mut outcome = self.env.step(action, observation)?;
        self.steps += 1;
        outcome.truncated |= self.steps == self.limit;
        Ok(outcome)
    }
}
