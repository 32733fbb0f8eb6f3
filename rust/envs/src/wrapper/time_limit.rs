//! A limit on the length of episodes.

use crate::vector::Output;
use crate::{Env, InfoField, LoadError, OptionsError, Outcome, ResetOption, Space, State as _, StepError};

/// Truncates episodes after a number of steps.
#[derive(Clone, Debug)]
pub struct TimeLimit<E> {
    env: E,
    limit: u64,
    steps: u64,
}

impl<E: Env> TimeLimit<E> {
    /// Returns `env` with episodes of at most `limit` steps.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn new(env: E, limit: u64) -> Self {
        assert!(limit > 0, "an episode has at least one step");
        Self { env, limit, steps: limit }
    }

    fn count(&mut self, mut outcome: Outcome) -> Outcome {
        self.steps += 1;
        outcome.truncated |= self.steps == self.limit;
        outcome
    }
}

/// Returns the closure unchanged; its signature tells the compiler that the result borrows from the argument.
fn finding<T, E, F: Fn(&mut T) -> &mut E>(env: F) -> F {
    env
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

    fn reset_options(&self) -> &'static [ResetOption] {
        self.env.reset_options()
    }

    fn reset_with(
        &mut self,
        seed: Option<u64>,
        options: &[f64],
        observation: &mut [Self::Observation],
    ) -> Result<(), OptionsError> {
        self.env.reset_with(seed, options, observation)?;
        self.steps = 0;
        Ok(())
    }

    fn check(&self, action: &[Self::Action]) -> Result<(), StepError> {
        if self.steps == self.limit {
            return Err(StepError::NeedsReset);
        }
        self.env.check(action)
    }

    fn step(&mut self, action: &[Self::Action], observation: &mut [Self::Observation]) -> Outcome {
        let outcome = self.env.step(action, observation);
        self.count(outcome)
    }

    fn has_lanes() -> bool {
        E::has_lanes()
    }

    #[inline(always)]
    fn step_lanes<T>(
        holders: &mut [T],
        env: impl Fn(&mut T) -> &mut Self,
        actions: &[Self::Action],
        mut output: Output<'_, &mut [Self::Observation]>,
    ) {
        E::step_lanes(holders, finding(|holder| &mut env(holder).env), actions, output.again());
        for (holder, truncated) in holders.iter_mut().zip(output.truncated) {
            let Self { limit, steps, .. } = env(holder);
            *steps += 1;
            *truncated |= u8::from(steps == limit);
        }
    }

    fn info_fields(&self) -> Vec<InfoField> {
        self.env.info_fields()
    }

    fn info(&self, info: &mut [f64]) {
        self.env.info(info);
    }

    fn save(&self, to: &mut Vec<u8>) {
        self.steps.save(to);
        self.env.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let steps = u64::load(from)?;
        if steps > self.limit {
            return Err(LoadError::Invalid("its episode is longer than the time limit"));
        }
        self.env.load(from)?;
        self.steps = steps;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classic::CartPole;

    fn limited(limit: u64) -> TimeLimit<CartPole> {
        TimeLimit::new(CartPole::default(), limit)
    }

    #[test]
    fn the_last_step_is_truncated_and_the_next_refused() {
        let (mut env, mut observation) = (limited(2), [0.0; 4]);
        assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
        for _ in 0..2 {
            env.reset(Some(1), &mut observation);
            assert!(!env.step(&[0], &mut observation).truncated);
            assert!(env.step(&[0], &mut observation).truncated);
            assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
        }
    }

    #[test]
    fn a_longer_episode_than_the_limit_is_not_loaded() {
        let (mut long, mut short, mut observation) = (limited(9), limited(2), [0.0; 4]);
        long.reset(Some(1), &mut observation);
        for _ in 0..3 {
            long.step(&[0], &mut observation);
        }
        let mut bytes = Vec::new();
        long.save(&mut bytes);
        short.reset(Some(1), &mut observation);
        assert!(matches!(short.load(&mut bytes.as_slice()), Err(LoadError::Invalid(_))));
        assert!(matches!(long.load(&mut &bytes[..20]), Err(LoadError::Short)));
        assert_eq!((short.check(&[0]), long.check(&[0])), (Ok(()), Ok(())));
    }
}
