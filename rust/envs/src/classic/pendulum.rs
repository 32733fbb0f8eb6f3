//! Pendulum: swinging a pendulum up and holding it there.

use std::f64::consts::PI;

use crate::math::{squared, squared_single};
use crate::options::{bounds, values};
use crate::{Env, Episode, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

const SPEED_LIMIT: f64 = 8.0;
const TORQUE_LIMIT: f32 = 2.0;
/// Duration of a step in seconds.
const STEP: f64 = 0.05;
const MASS: f64 = 1.0;
const LENGTH: f64 = 1.0;
/// Largest absolute angle and angular velocity of a first state.
const START: [f64; 2] = [PI, 1.0];
const OPTIONS: [ResetOption; 2] =
    [ResetOption { name: "x_init", default: START[0] }, ResetOption { name: "y_init", default: START[1] }];

/// The frictionless pendulum with Gymnasium's constants. With a [`TimeLimit`](crate::wrapper::TimeLimit) of 200 it is
/// `Pendulum-v1`.
///
/// Observations are the cosine and the sine of the angle, which is 0 upright, and the angular velocity; the action is a
/// torque, clipped to [-2, 2]. The reward is minus the sum of the squared angle, a tenth of the squared velocity and a
/// thousandth of the squared torque. Episodes never terminate.
#[derive(Clone, Debug)]
pub struct Pendulum {
    gravity: f64,
    angle: f64,
    velocity: f64,
    /// The sine of `angle`, which the observation and the next step need.
    sine: f64,
    episode: Episode,
}

impl Pendulum {
    /// Returns an environment that must be reset first, with `gravity` in m/s², which is 10 in Gymnasium.
    pub fn new(gravity: f64) -> Self {
        Self { gravity, angle: 0.0, velocity: 0.0, sine: 0.0, episode: Episode::new() }
    }

    /// Returns the cost of the present state and `torque`.
    fn cost(&self, torque: f32) -> f64 {
        squared(normalized(self.angle)) + 0.1 * squared(self.velocity) + f64::from(0.001 * squared_single(torque))
    }

    fn turn(&mut self, torque: f32) {
        // The term of the torque has single precision, as the action has.
        let torque = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
        let acceleration = 3.0 * self.gravity / (2.0 * LENGTH) * self.sine + torque;
        self.velocity = (self.velocity + acceleration * STEP).clamp(-SPEED_LIMIT, SPEED_LIMIT);
        self.angle += self.velocity * STEP;
    }

    fn write(&mut self, observation: &mut [f32]) {
        // Asserted first, so that the compiler computes sine and cosine by one call.
        assert_eq!(observation.len(), 3, "an observation has 3 elements");
        let (sine, cosine) = self.angle.sin_cos();
        self.sine = sine;
        observation.copy_from_slice(&[cosine as f32, sine as f32, self.velocity as f32]);
    }
}

/// Returns the equivalent angle between -pi and pi, as Python's `%` computes it.
fn normalized(angle: f64) -> f64 {
    const TURN: f64 = 2.0 * PI;
    let shifted = angle + PI;
    // The remainder is slow and rarely needed. A difference of two numbers within a factor of two is exact.
    let turned = match shifted.abs() {
        less if less < TURN => shifted,
        less if less < 2.0 * TURN => shifted - TURN.copysign(shifted),
        _ => shifted % TURN,
    };
    (if turned < 0.0 { turned + TURN } else { turned }) - PI
}

impl Default for Pendulum {
    fn default() -> Self {
        Self::new(10.0)
    }
}

impl Env for Pendulum {
    type Observation = f32;
    type Action = f32;

    fn observation_space(&self) -> Space {
        Space::symmetric::<f32>(&[1.0, 1.0, SPEED_LIMIT])
    }

    fn action_space(&self) -> Space {
        Space::symmetric::<f32>(&[f64::from(TORQUE_LIMIT)])
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &OPTIONS
    }

    fn reset_with(&mut self, seed: Option<u64>, options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        let greatest = values(options, &OPTIONS);
        for bound in greatest {
            bounds(-bound, bound, f64::INFINITY)?;
        }
        let generator = self.episode.begin(seed);
        [self.angle, self.velocity] = greatest.map(|bound| generator.uniform(-bound, bound));
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[f32]) -> Result<(), StepError> {
        let legal = matches!(action, [torque] if torque.is_finite());
        self.episode.check(action, legal, || self.action_space())
    }

    fn step(&mut self, action: &[f32], observation: &mut [f32]) -> Outcome {
        let torque = action[0].clamp(-TORQUE_LIMIT, TORQUE_LIMIT);
        let cost = self.cost(torque);
        self.turn(torque);
        self.write(observation);
        Outcome { reward: -cost, terminated: false, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        [self.angle, self.velocity].save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ([angle, velocity], episode): ([f64; 2], _) = State::load(from)?;
        *self = Self { angle, velocity, sine: angle.sin(), episode, ..*self };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
