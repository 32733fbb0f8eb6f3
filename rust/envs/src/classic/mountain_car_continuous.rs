//! MountainCarContinuous: the mountain car with a continuous force as action.

use crate::options::{bounds_of, low_and_high};
use crate::{Env, Episode, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

/// Bounds of the position: the ends of the valley.
const POSITION: [f64; 2] = [-1.2, 0.6];
const SPEED_LIMIT: f64 = 0.07;
const GOAL: f64 = 0.45;
const POWER: f64 = 0.0015;
const GRAVITY: f64 = 0.0025;
/// Bounds of the first position; the first velocity is 0.
const START: [f64; 2] = [-0.6, -0.4];
const OPTIONS: [ResetOption; 2] = low_and_high(START);

/// The mountain car with a continuous action and Gymnasium's constants. With a [`TimeLimit`](crate::wrapper::TimeLimit)
/// of 999 it is `MountainCarContinuous-v0`.
///
/// Observations are position and velocity; the action is a force, clipped to [-1, 1]. The reward is minus a tenth of
/// the square of the unclipped action, plus 100 for reaching the top of the right hill, where an episode terminates.
///
/// As in Gymnasium, the first step of an episode is computed in double precision and all later ones in single
/// precision, except where a value is replaced by one of its limits.
#[derive(Clone, Debug)]
pub struct MountainCarContinuous {
    goal_velocity: f64,
    position: f64,
    velocity: f64,
    /// Whether position and velocity are single-precision numbers: after the first step.
    single: bool,
    episode: Episode,
}

impl MountainCarContinuous {
    /// Returns an environment that must be reset first. The goal is reached only with at least `goal_velocity`, which
    /// is 0 in Gymnasium.
    pub fn new(goal_velocity: f64) -> Self {
        Self { goal_velocity, position: 0.0, velocity: 0.0, single: false, episode: Episode::new() }
    }

    /// Moves the car, and returns whether it has reached the goal.
    fn accelerate(&mut self, action: f32) -> bool {
        // A sum or product of two singles that is computed in double precision and then rounded equals the one in
        // single precision.
        let single = self.single;
        let round = |value: f64| if single { f64::from(value as f32) } else { value };

        let slope = GRAVITY * round(3.0 * self.position).cos();
        let force = f64::from(action).clamp(-1.0, 1.0);
        let acceleration = if force == f64::from(action) {
            f64::from(action * POWER as f32 - slope as f32)
        } else {
            force * POWER - slope
        };
        let velocity = round(self.velocity + round(acceleration));
        let limit = round(SPEED_LIMIT);
        self.velocity = velocity.clamp(-limit, limit);
        // A velocity that was replaced by its limit is compared in double precision.
        let fast = if velocity > limit {
            SPEED_LIMIT >= self.goal_velocity
        } else if velocity < -limit {
            -SPEED_LIMIT >= self.goal_velocity
        } else {
            velocity >= round(self.goal_velocity)
        };

        self.position = round(self.position + self.velocity).clamp(round(POSITION[0]), round(POSITION[1]));
        if self.position == round(POSITION[0]) && self.velocity < 0.0 {
            self.velocity = 0.0;
        }
        self.position >= round(GOAL) && fast
    }

    fn write(&self, observation: &mut [f32]) {
        observation.copy_from_slice(&[self.position as f32, self.velocity as f32]);
    }
}

impl Default for MountainCarContinuous {
    fn default() -> Self {
        Self::new(0.0)
    }
}

impl Env for MountainCarContinuous {
    type Observation = f32;
    type Action = f32;

    fn observation_space(&self) -> Space {
        Space::vector::<f32>(&[POSITION[0], -SPEED_LIMIT], &[POSITION[1], SPEED_LIMIT])
    }

    fn action_space(&self) -> Space {
        Space::symmetric::<f32>(&[1.0])
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &OPTIONS
    }

    fn reset_with(&mut self, seed: Option<u64>, options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        let [low, high] = bounds_of(options, &OPTIONS, f64::INFINITY)?;
        self.position = self.episode.begin(seed).uniform(low, high);
        self.velocity = 0.0;
        self.single = false;
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[f32]) -> Result<(), StepError> {
        let legal = matches!(action, [force] if force.is_finite());
        self.episode.check(action, legal, || self.action_space())
    }

    fn step(&mut self, action: &[f32], observation: &mut [f32]) -> Outcome {
        let terminated = self.accelerate(action[0]);
        self.write(observation);
        // The observation is the state from now on.
        [self.position, self.velocity] = [f64::from(observation[0]), f64::from(observation[1])];
        self.single = true;
        self.episode.running = !terminated;
        let effort = f64::from(action[0]) * f64::from(action[0]) * 0.1;
        Outcome { reward: if terminated { 100.0 } else { 0.0 } - effort, terminated, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        [self.position, self.velocity].save(to);
        self.single.save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ([position, velocity], single, episode) = State::load(from)?;
        *self = Self { position, velocity, single, episode, ..*self };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
