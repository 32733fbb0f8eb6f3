//! MountainCar: swinging out of a valley with an engine too weak to climb out of it.

use crate::options::{bounds_of, low_and_high};
use crate::{Env, Episode, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

/// Bounds of the position: the ends of the valley.
const POSITION: [f64; 2] = [-1.2, 0.6];
const SPEED_LIMIT: f64 = 0.07;
const GOAL: f64 = 0.5;
const FORCE: f64 = 0.001;
const GRAVITY: f64 = 0.0025;
/// Bounds of the first position; the first velocity is 0.
const START: [f64; 2] = [-0.6, -0.4];
const OPTIONS: [ResetOption; 2] = low_and_high(START);

/// The mountain car of Moore (1990) with Gymnasium's constants. With a [`TimeLimit`](crate::wrapper::TimeLimit) of 200
/// it is `MountainCar-v0`.
///
/// Observations are position and velocity. Action 0 accelerates to the left, 2 to the right, 1 not at all. The reward
/// is -1 for every step. An episode terminates on top of the right hill.
#[derive(Clone, Debug)]
pub struct MountainCar {
    goal_velocity: f64,
    position: f64,
    velocity: f64,
    episode: Episode,
}

impl MountainCar {
    /// Returns an environment that must be reset first. The goal is reached only with at least `goal_velocity`, which
    /// is 0 in Gymnasium.
    pub fn new(goal_velocity: f64) -> Self {
        Self { goal_velocity, position: 0.0, velocity: 0.0, episode: Episode::new() }
    }

    fn accelerate(&mut self, direction: f64) {
        let acceleration = direction * FORCE + (3.0 * self.position).cos() * -GRAVITY;
        self.velocity = (self.velocity + acceleration).clamp(-SPEED_LIMIT, SPEED_LIMIT);
        self.position = (self.position + self.velocity).clamp(POSITION[0], POSITION[1]);
        if self.position == POSITION[0] && self.velocity < 0.0 {
            self.velocity = 0.0;
        }
    }

    fn write(&self, observation: &mut [f32]) {
        observation.copy_from_slice(&[self.position as f32, self.velocity as f32]);
    }
}

impl Default for MountainCar {
    fn default() -> Self {
        Self::new(0.0)
    }
}

impl Env for MountainCar {
    type Observation = f32;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::vector::<f32>(&[POSITION[0], -SPEED_LIMIT], &[POSITION[1], SPEED_LIMIT])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &OPTIONS
    }

    fn reset_with(&mut self, seed: Option<u64>, options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        let [low, high] = bounds_of(options, &OPTIONS, f64::INFINITY)?;
        self.position = self.episode.begin(seed).uniform(low, high);
        self.velocity = 0.0;
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0..=2]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [f32]) -> Outcome {
        self.accelerate((action[0] - 1) as f64);
        self.write(observation);
        let terminated = self.position >= GOAL && self.velocity >= self.goal_velocity;
        self.episode.running = !terminated;
        Outcome { reward: -1.0, terminated, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        [self.position, self.velocity].save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ([position, velocity], episode) = State::load(from)?;
        *self = Self { position, velocity, episode, ..*self };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
