//! Catch: a ball falls, and a paddle catches it.

use crate::{Env, Episode, LoadError, OptionsError, Outcome, ResetOption, Space, State, StepError};

/// The number of rows and of columns of fields.
const FIELDS: i64 = 7;
/// The number of rows and of columns of pixels of a field.
const PIXELS: usize = 12;
const SIZE: usize = FIELDS as usize * PIXELS;
/// The number of pictures in an observation.
const FRAMES: usize = 4;
/// The row of the paddle, which the ball reaches after as many steps.
const BOTTOM: i64 = FIELDS - 1;
const BALL: u8 = 255;
const PADDLE: u8 = 128;

/// The game Catch (Mnih et al., "Recurrent models of visual attention", 2014, section 4.2) on 7 by 7 fields, as `Catch-v0`.
///
/// The ball falls by one field in each step, straight or to a side, and comes back from the walls. Action 0 moves the paddle to the
/// left, 2 to the right, 1 not at all. An episode terminates when the ball arrives at the bottom after 6 steps; the last reward is 1
/// if the paddle is there, and -1 otherwise, and all others are 0. A player who does not look at the ball catches it in about
/// one of seven episodes, and a perfect player in all.
///
/// Fields are as large as they are so that convolutions learn the game in a minute of one core: a field has the width of three
/// strides of the first layer of [Mnih et al., 2015](https://doi.org/10.1038/nature14236), and the reward is six steps away.
///
/// An observation is the newest four pictures of 84 by 84 pixels, the oldest first. At the start of an episode, all are the first.
#[derive(Clone, Debug)]
pub struct Catch {
    /// Row and column of the ball and column of the paddle in the newest pictures, the oldest first.
    fields: [[i64; 3]; FRAMES],
    /// The columns that the ball moves in a step: -1, 0 or 1.
    drift: i64,
    episode: Episode,
}

impl Catch {
    /// Returns an environment that must be reset first.
    pub fn new() -> Self {
        Self { fields: [[0, 0, FIELDS / 2]; FRAMES], drift: 0, episode: Episode::new() }
    }

    fn write(&self, observation: &mut [u8]) {
        observation.fill(0);
        for (picture, &[row, ball, paddle]) in observation.chunks_exact_mut(SIZE * SIZE).zip(&self.fields) {
            fill(picture, BOTTOM, paddle, PADDLE);
            fill(picture, row, ball, BALL);
        }
    }
}

/// Paints a field of a picture.
fn fill(picture: &mut [u8], row: i64, column: i64, value: u8) {
    let left = column as usize * PIXELS;
    for line in picture.chunks_exact_mut(SIZE).skip(row as usize * PIXELS).take(PIXELS) {
        line[left..left + PIXELS].fill(value);
    }
}

impl Default for Catch {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for Catch {
    type Observation = u8;
    type Action = i64;

    fn observation_space(&self) -> Space {
        let length = FRAMES * SIZE * SIZE;
        let (low, high) = (vec![0.0; length], vec![255.0; length]);
        Space::Box { low, high, shape: vec![FRAMES, SIZE, SIZE], dtype: crate::DType::UInt8 }
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset_options(&self) -> &'static [ResetOption] {
        &[]
    }

    fn reset_with(&mut self, seed: Option<u64>, _: &[f64], observation: &mut [u8]) -> Result<(), OptionsError> {
        let generator = self.episode.begin(seed);
        let ball = generator.below(FIELDS as u64) as i64;
        self.drift = generator.below(3) as i64 - 1;
        self.fields = [[0, ball, FIELDS / 2]; FRAMES];
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0..=2]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [u8]) -> Outcome {
        let [row, ball, paddle] = self.fields[FRAMES - 1];
        if !(0..FIELDS).contains(&(ball + self.drift)) {
            self.drift = -self.drift;
        }
        let (row, ball) = (row + 1, ball + self.drift);
        let paddle = (paddle + action[0] - 1).clamp(0, FIELDS - 1);
        self.fields.rotate_left(1);
        self.fields[FRAMES - 1] = [row, ball, paddle];
        self.write(observation);
        let terminated = row == BOTTOM;
        self.episode.running = !terminated;
        let reward = match (terminated, ball == paddle) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Outcome { reward, terminated, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        self.fields.save(to);
        self.drift.save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let (fields, drift, episode) = State::load(from)?;
        *self = Self { fields, drift, episode };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
