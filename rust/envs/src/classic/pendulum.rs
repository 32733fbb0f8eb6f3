//! Pendulum: swinging a pendulum up and holding it there.

use std::f64::consts::PI;

use crate::lanes::flagged;
use crate::math::{square, square_single, squared, squared_single};
use crate::options::{bounds, values};
use crate::vector::Output;
use crate::{Env, Episode, LANES, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

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

    fn write(&mut self, observation: &mut [f32]) {
        // Asserted first, so that the compiler computes sine and cosine by one call.
        assert_eq!(observation.len(), 3, "an observation has 3 elements");
        let (sine, cosine) = self.angle.sin_cos();
        self.sine = sine;
        observation.copy_from_slice(&[cosine as f32, sine as f32, self.velocity as f32]);
    }
}

/// Returns the cost of a state and a torque.
fn cost([angle, velocity]: [f64; 2], torque: f32) -> f64 {
    squared(normalized(angle)) + 0.1 * squared(velocity) + f64::from(0.001 * squared_single(torque))
}

/// Returns the cost of a state and a torque, computed without branches, and whether it certainly equals [`cost`].
#[inline(always)]
fn quick_cost([angle, velocity]: [f64; 2], torque: f32) -> (f64, bool) {
    let (angle, is_near) = near_normalized(angle);
    let ((angle, first), (velocity, second), (torque, third)) =
        (square(angle), square(velocity), square_single(torque));
    (angle + 0.1 * velocity + f64::from(0.001 * torque), is_near & first & second & third)
}

/// Returns angle and velocity after a step, from the sine of the angle before it.
#[inline(always)]
fn turned([angle, velocity]: [f64; 2], sine: f64, gravity: f64, torque: f32) -> [f64; 2] {
    // The term of the torque has single precision, as the action has.
    let torque = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
    let acceleration = 3.0 * gravity / (2.0 * LENGTH) * sine + torque;
    let velocity = (velocity + acceleration * STEP).clamp(-SPEED_LIMIT, SPEED_LIMIT);
    [angle + velocity * STEP, velocity]
}

const TURN: f64 = 2.0 * PI;

/// Returns the equivalent angle between -pi and pi, as Python's `%` computes it.
fn normalized(angle: f64) -> f64 {
    match near_normalized(angle) {
        (near, true) => near,
        _ => upward((angle + PI) % TURN) - PI,
    }
}

/// Returns the equivalent angle, computed without the remainder, which is slow, and whether that was possible.
#[inline(always)]
fn near_normalized(angle: f64) -> (f64, bool) {
    let shifted = angle + PI;
    // A difference of two numbers within a factor of two is exact.
    let turned = if shifted.abs() < TURN { shifted } else { shifted - TURN.copysign(shifted) };
    (upward(turned) - PI, shifted.abs() < 2.0 * TURN)
}

#[inline(always)]
fn upward(turned: f64) -> f64 {
    if turned < 0.0 { turned + TURN } else { turned }
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
        let (torque, state) = (action[0].clamp(-TORQUE_LIMIT, TORQUE_LIMIT), [self.angle, self.velocity]);
        [self.angle, self.velocity] = turned(state, self.sine, self.gravity, torque);
        self.write(observation);
        Outcome { reward: -cost(state, torque), terminated: false, truncated: false }
    }

    fn has_lanes() -> bool {
        true
    }

    /// The states are transposed, so that plain loops over one component compile to vector instructions.
    #[inline(always)]
    fn step_lanes<T>(
        holders: &mut [T],
        env: impl Fn(&mut T) -> &mut Self,
        actions: &[f32],
        output: Output<'_, &mut [f32]>,
    ) {
        let count = holders.len();
        assert!(count <= LANES && actions.len() == count, "an action for each, and not too many");
        let [mut angles, mut velocities, mut sines, mut gravities, mut costs] = [[0.0; LANES]; 5];
        let (mut torques, mut doubts) = ([0.0; LANES], [0; LANES]);
        for (k, holder) in holders.iter_mut().enumerate() {
            let env = env(holder);
            (angles[k], velocities[k], sines[k], gravities[k]) = (env.angle, env.velocity, env.sine, env.gravity);
            torques[k] = actions[k].clamp(-TORQUE_LIMIT, TORQUE_LIMIT);
        }
        let mut k = 0;
        while k < count {
            let (cost, is_certain) = quick_cost([angles[k], velocities[k]], torques[k]);
            (costs[k], doubts[k]) = (cost, !is_certain as u8);
            k += 1;
        }
        for k in flagged(doubts) {
            costs[k] = cost([angles[k], velocities[k]], torques[k]);
        }
        let mut k = 0;
        while k < count {
            [angles[k], velocities[k]] = turned([angles[k], velocities[k]], sines[k], gravities[k], torques[k]);
            k += 1;
        }
        output.terminated.fill(0);
        output.truncated.fill(0);
        let rows = output.obs.chunks_exact_mut(3).zip(output.rew);
        for (k, (holder, (observation, reward))) in holders.iter_mut().zip(rows).enumerate() {
            let env = env(holder);
            (env.angle, env.velocity) = (angles[k], velocities[k]);
            env.write(observation);
            *reward = -costs[k];
        }
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
