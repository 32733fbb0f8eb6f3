//! Acrobot: swinging the end of a two-link pendulum above a line by a torque on the joint between the links.

use std::f64::consts::PI;

use crate::math::{sin_cos_single, squared};
use crate::options::{bounds_of, low_and_high};
use crate::{Env, Episode, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

const GRAVITY: f64 = 9.8;
/// Length of each link.
const MASS: f64 = 1.0;
const LENGTH: f64 = 1.0;
/// Distance from a link's joint to its centre of mass.
const CENTRE: f64 = 0.5;
const INERTIA: f64 = 1.0;
/// Largest angular velocity of each joint.
const SPEED_LIMITS: [f64; 2] = [4.0 * PI, 9.0 * PI];
/// Duration of a step in seconds.
const STEP: f64 = 0.2;
/// Bounds of each component of a first state.
const START: [f64; 2] = [-0.1, 0.1];
const OPTIONS: [ResetOption; 2] = low_and_high(START);

/// The angle of the first link from hanging down, the angle of the second link from the first, and their velocities.
type Motion = [f64; 4];

/// The acrobot of Sutton (1996) with the dynamics of Sutton and Barto's book and Gymnasium's constants. With a
/// [`TimeLimit`](crate::wrapper::TimeLimit) of 500 it is `Acrobot-v1`.
///
/// Observations are cosine and sine of the first angle, cosine and sine of the second, and the angular velocities.
/// Actions 0, 1 and 2 apply torque -1, 0 and 1 to the joint between the links. The reward is -1, except for the step
/// that lifts the end above the line, whose reward is 0 and which terminates the episode.
#[derive(Clone, Debug)]
pub struct Acrobot {
    motion: Motion,
    episode: Episode,
}

impl Acrobot {
    /// Returns an environment that must be reset first.
    pub fn new() -> Self {
        Self { motion: [0.0; 4], episode: Episode::new() }
    }

    fn is_terminal(&self) -> bool {
        let [first, second, ..] = self.motion;
        -first.cos() - (second + first).cos() > 1.0
    }

    /// Writes velocities, and the sines and cosines of the angles.
    fn write(&self, sin_cos: [(f32, f32); 2], observation: &mut [f32]) {
        let [(sin_first, cos_first), (sin_second, cos_second)] = sin_cos;
        let [_, _, spin_first, spin_second] = self.motion.map(|value| value as f32);
        observation.copy_from_slice(&[cos_first, sin_first, cos_second, sin_second, spin_first, spin_second]);
    }
}

impl Default for Acrobot {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the derivative of `motion` under `torque`.
fn derivative([first, second, spin_first, spin_second]: Motion, torque: f64) -> Motion {
    let (sin_second, cos_second) = second.sin_cos();
    let arm = MASS * LENGTH * CENTRE;
    let d1 = MASS * (CENTRE * CENTRE)
        + MASS * (LENGTH * LENGTH + CENTRE * CENTRE + 2.0 * LENGTH * CENTRE * cos_second)
        + INERTIA
        + INERTIA;
    let d2 = MASS * (CENTRE * CENTRE + LENGTH * CENTRE * cos_second) + INERTIA;
    let phi2 = MASS * CENTRE * GRAVITY * (first + second - PI / 2.0).cos();
    let phi1 = -arm * squared(spin_second) * sin_second - 2.0 * arm * spin_second * spin_first * sin_second
        + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * (first - PI / 2.0).cos()
        + phi2;
    let push_second = torque + d2 / d1 * phi1 - arm * squared(spin_first) * sin_second - phi2;
    let acceleration_second = push_second / (MASS * (CENTRE * CENTRE) + INERTIA - squared(d2) / d1);
    let acceleration_first = -(d2 * acceleration_second + phi1) / d1;
    [spin_first, spin_second, acceleration_first, acceleration_second]
}

/// Returns `motion` after one step of the classic Runge-Kutta method of fourth order.
fn integrated(motion: Motion, torque: f64) -> Motion {
    let from = |step: f64, slope: Motion| -> Motion { std::array::from_fn(|i| motion[i] + step * slope[i]) };
    let k1 = derivative(motion, torque);
    let k2 = derivative(from(STEP / 2.0, k1), torque);
    let k3 = derivative(from(STEP / 2.0, k2), torque);
    let k4 = derivative(from(STEP, k3), torque);
    from(STEP / 6.0, std::array::from_fn(|i| k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

/// Returns `angle` plus or minus whole turns, between -pi and pi.
fn wrapped(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl Env for Acrobot {
    type Observation = f32;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::symmetric::<f32>(&[1.0, 1.0, 1.0, 1.0, SPEED_LIMITS[0], SPEED_LIMITS[1]])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &OPTIONS
    }

    fn reset_with(&mut self, seed: Option<u64>, options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        // Bounds are limited, as large angles would take very long to wrap.
        let [low, high] = bounds_of(options, &OPTIONS, SPEED_LIMITS[1])?;
        let generator = self.episode.begin(seed);
        // Gymnasium's first state has single precision, and so have its sines.
        let start: [f32; 4] = std::array::from_fn(|_| generator.uniform(low, high) as f32);
        self.motion = start.map(f64::from);
        self.write([sin_cos_single(start[0]), sin_cos_single(start[1])], observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0..=2]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [f32]) -> Outcome {
        let [first, second, spin_first, spin_second] = integrated(self.motion, (action[0] - 1) as f64);
        self.motion = [
            wrapped(first),
            wrapped(second),
            spin_first.clamp(-SPEED_LIMITS[0], SPEED_LIMITS[0]),
            spin_second.clamp(-SPEED_LIMITS[1], SPEED_LIMITS[1]),
        ];
        let sin_cos = |angle: f64| {
            let (sine, cosine) = angle.sin_cos();
            (sine as f32, cosine as f32)
        };
        self.write([sin_cos(self.motion[0]), sin_cos(self.motion[1])], observation);
        let terminated = self.is_terminal();
        self.episode.running = !terminated;
        Outcome { reward: if terminated { 0.0 } else { -1.0 }, terminated, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        self.motion.save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let (motion, episode): (Motion, _) = State::load(from)?;
        // Angles far outside would take very long to wrap.
        if !motion.iter().all(|value| value.abs() <= SPEED_LIMITS[1]) {
            return Err(LoadError::Invalid("an angle or a velocity is out of bounds"));
        }
        *self = Self { motion, episode };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
