//! CartPole: keeping a pole upright by pushing the cart under it.

use crate::math::sin_cos_lanes;
use crate::options::{bounds_of, low_and_high};
use crate::vector::Output;
use crate::{Env, Episode, LANES, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

const GRAVITY: f64 = 9.8;
const CART_MASS: f64 = 1.0;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + CART_MASS;
/// Half of the pole's length: the distance of its centre of mass.
const POLE_LENGTH: f64 = 0.5;
const FORCE: f64 = 10.0;
/// Duration of a step in seconds.
const STEP: f64 = 0.02;
const POSITION_LIMIT: f64 = 2.4;
/// The largest angle of the pole, 12 degrees in radians.
const ANGLE_LIMIT: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// Bounds of each component of a first state.
const START: [f64; 2] = [-0.05, 0.05];
const OPTIONS: [ResetOption; 2] = low_and_high(START);

/// The cart-pole problem of Barto, Sutton and Anderson (1983), with the corrected equations of Florian (2005) and
/// Gymnasium's constants. With a [`TimeLimit`](crate::wrapper::TimeLimit) of 500 it is `CartPole-v1`.
///
/// Observations are cart position, cart velocity, pole angle and angular velocity. Action 0 pushes to the left, 1 to
/// the right. The reward is 1 for every step, the last one included. An episode terminates when the cart leaves the
/// track or the pole tilts too far.
#[derive(Clone, Debug)]
pub struct CartPole {
    sutton_barto_reward: bool,
    motion: Motion,
    episode: Episode,
}

/// Cart position, cart velocity, pole angle, angular velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Motion([f64; 4]);

impl Motion {
    fn pushed(self, force: f64) -> Self {
        let angle = self.0[2];
        self.moved(force, angle.sin(), angle.cos())
    }

    /// Makes one step of Euler's method.
    #[inline(always)]
    fn moved(self, force: f64, sin: f64, cos: f64) -> Self {
        let Self([position, velocity, angle, spin]) = self;
        let moment = POLE_MASS * POLE_LENGTH;
        let push = (force + moment * (spin * spin) * sin) / TOTAL_MASS;
        let inertia = POLE_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS);
        let angular_acceleration = (GRAVITY * sin - cos * push) / inertia;
        let acceleration = push - moment * angular_acceleration * cos / TOTAL_MASS;
        Self([
            position + STEP * velocity,
            velocity + STEP * acceleration,
            angle + STEP * spin,
            spin + STEP * angular_acceleration,
        ])
    }

    #[inline(always)]
    fn is_terminal(self) -> bool {
        let Self([position, _, angle, _]) = self;
        (position.abs() > POSITION_LIMIT) | (angle.abs() > ANGLE_LIMIT)
    }

    fn write(self, observation: &mut [f32]) {
        assert_eq!(observation.len(), 4, "an observation has 4 elements");
        for (element, value) in observation.iter_mut().zip(self.0) {
            *element = value as f32;
        }
    }
}

impl CartPole {
    /// Returns an environment that must be reset first. With `sutton_barto_reward`, the reward is 0, and -1 for the
    /// step that terminates the episode, as in Sutton and Barto's book.
    pub fn new(sutton_barto_reward: bool) -> Self {
        Self { sutton_barto_reward, motion: Motion([0.0; 4]), episode: Episode::new() }
    }

    /// The reward is selected without a branch, as the processor cannot predict which step ends an episode.
    #[inline(always)]
    fn reward(&self, terminated: bool) -> f64 {
        [[1.0, 1.0], [0.0, -1.0]][usize::from(self.sutton_barto_reward)][usize::from(terminated)]
    }
}

#[inline(always)]
fn force(action: i64) -> f64 {
    if action == 1 { FORCE } else { -FORCE }
}

impl Default for CartPole {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Env for CartPole {
    type Observation = f32;
    type Action = i64;

    fn observation_space(&self) -> Space {
        // Twice the limits, so that the space contains final observations as well.
        Space::symmetric::<f32>(&[2.0 * POSITION_LIMIT, f64::INFINITY, 2.0 * ANGLE_LIMIT, f64::INFINITY])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &OPTIONS
    }

    fn reset_with(&mut self, seed: Option<u64>, options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        let [low, high] = bounds_of(options, &OPTIONS, f64::INFINITY)?;
        let generator = self.episode.begin(seed);
        self.motion = Motion(std::array::from_fn(|_| generator.uniform(low, high)));
        self.motion.write(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0 | 1]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [f32]) -> Outcome {
        self.motion = self.motion.pushed(force(action[0]));
        self.motion.write(observation);
        let terminated = self.motion.is_terminal();
        self.episode.running = !terminated;
        Outcome { reward: self.reward(terminated), terminated, truncated: false }
    }

    fn has_lanes() -> bool {
        true
    }

    /// The states are transposed, so that plain loops over one component compile to vector instructions.
    #[inline(always)]
    fn step_lanes<T>(
        holders: &mut [T],
        env: impl Fn(&mut T) -> &mut Self,
        actions: &[i64],
        output: Output<'_, &mut [f32]>,
    ) {
        let (count, mut motions) = (holders.len(), [[0.0; LANES]; 4]);
        assert!(count <= LANES && actions.len() == count, "an action for each, and not too many");
        for (k, holder) in holders.iter_mut().enumerate() {
            motions.iter_mut().zip(env(holder).motion.0).for_each(|(row, value)| row[k] = value);
        }
        let [positions, velocities, angles, spins] = &mut motions;
        let (mut sines, mut cosines, mut terminal) = ([0.0; LANES], [0.0; LANES], [0; LANES]);
        sin_cos_lanes(count, angles, &mut sines, &mut cosines);
        let mut k = 0;
        while k < count {
            let motion = Motion([positions[k], velocities[k], angles[k], spins[k]]);
            let motion = motion.moved(force(actions[k]), sines[k], cosines[k]);
            [positions[k], velocities[k], angles[k], spins[k]] = motion.0;
            terminal[k] = motion.is_terminal() as u8;
            k += 1;
        }
        output.terminated.copy_from_slice(&terminal[..count]);
        output.truncated.fill(0);
        let rows = output.obs.as_chunks_mut().0.iter_mut().zip(output.rew);
        for (k, (holder, (observation, reward))) in holders.iter_mut().zip(rows).enumerate() {
            let (env, motion) = (env(holder), [positions[k], velocities[k], angles[k], spins[k]]);
            env.motion = Motion(motion);
            *observation = motion.map(|value| value as f32);
            env.episode.running = terminal[k] == 0;
            *reward = env.reward(terminal[k] != 0);
        }
    }

    fn save(&self, to: &mut Vec<u8>) {
        self.motion.0.save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let (motion, episode) = State::load(from)?;
        *self = Self { motion: Motion(motion), episode, ..*self };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
