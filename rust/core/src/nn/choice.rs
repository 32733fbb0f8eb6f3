//! Outputs of networks for batches, and actions that are chosen from them.
//!
//! Another library that computes the same network rounds differently, so it may choose another action where two are
//! nearly as good. A choice that is so near is not made here: the caller asks the other library.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::functions::{Function, exp};
use super::network::Network;
use super::tile::{Done, Rows};
use crate::error::{Error, Result, value_error};
use crate::pool;
use crate::vectors::filled;

/// How an action is chosen from the numbers that a network computes for the actions of a row.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    /// The first action with the greatest number.
    Greatest,
    /// The action with the greatest `exp(number) / clock`, for one clock of each row and action: with clocks from the
    /// exponential distribution, a sample of the categorical distribution whose logits are the numbers.
    Clocks(&'a [f32]),
}

/// How real actions come from the numbers that a network computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// The slot of the means.
    pub mean: usize,
    /// The slot of the standard deviations, for actions that are drawn.
    pub deviation: Option<usize>,
    /// Whether actions are the hyperbolic tangents of what is drawn.
    pub squash: bool,
}

/// The rounding errors of two libraries together, as a share of the sum of the magnitudes of what they add. Tests measure
/// them; they are below a tenth of it.
const MARGIN: f32 = 1e-5;
/// What further operations on probabilities add to the relative error.
const PROBABILITY_MARGIN: f64 = 1e-5;
/// Products that are worth the wake-up of another thread.
const WORTH_SHARING: usize = 4_000_000;
/// Rows of images that are worth a thread of their own.
const IMAGES: usize = 4;
/// Products of one chunk of shared work.
const CHUNK: usize = 1_000_000;

impl Network {
    /// Writes the numbers of some slots for each row of `obs`, row by row.
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, `Room` without memory.
    pub fn forward(&self, obs: &[f32], slots: &[usize], out: &mut [&mut [f32]]) -> Result<()> {
        let rows = self.rows(obs)?;
        let fits =
            |(&slot, out): (&usize, &&mut [f32])| self.width(slot).is_some_and(|width| out.len() == rows * width);
        if slots.len() != out.len() || !slots.iter().zip(out.iter()).all(fits) {
            return value_error!("the results of {rows} rows have other lengths");
        }
        let out: Vec<DisjointRows<f32>> = out.iter_mut().map(|out| DisjointRows::of(out, rows)).collect();
        self.each(obs, rows, |done| {
            for (&slot, out) in slots.iter().zip(&out) {
                for k in 0..done.rows.len() {
                    // SAFETY: a row is shown once, to one thread.
                    done.copy(slot, k, unsafe { out.row(done.rows.start + k) });
                }
            }
            true
        })?;
        Ok(())
    }

    /// Writes real actions for each row of `obs`: means, plus deviations times the `normals`, one for each number.
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, `Room` without memory.
    pub fn draw(&self, obs: &[f32], drawing: &Drawing, normals: &[f32], actions: &mut [f32]) -> Result<()> {
        let Drawing { mean, deviation, squash } = *drawing;
        match deviation {
            None => self.forward(obs, &[mean], &mut [actions])?,
            Some(deviation) => {
                if normals.len() != actions.len() {
                    return value_error!("{} numbers need as many normal ones, got {}", actions.len(), normals.len());
                }
                let mut deviations = filled(0.0, actions.len())?;
                self.forward(obs, &[mean, deviation], &mut [actions, &mut deviations])?;
                for ((action, deviation), normal) in actions.iter_mut().zip(deviations).zip(normals) {
                    *action += deviation * normal;
                }
            }
        }
        if squash {
            Function::Tanh.apply(actions);
        }
        Ok(())
    }

    /// Returns the action with the greatest output for one observation; None where [`Self::choose`] makes no choice.
    ///
    /// # Errors
    /// `Mismatch` for another number of elements, `Room` without memory.
    pub fn choose_one(&self, obs: &[f32]) -> Result<Option<i64>> {
        if obs.len() != self.inputs() {
            let text = format!("an observation has {} numbers, got {}", self.inputs(), obs.len());
            return Err(Error::Mismatch(text));
        }
        let mut action = [0];
        Ok(self.choose(obs, Choice::Greatest, &mut action)?.then_some(action[0]))
    }

    /// Writes an action for each row of `obs`, chosen from the last slot; the result is false if a choice is too near to
    /// be made, or a number is not finite. Then the actions mean nothing.
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, `Room` without memory.
    pub fn choose(&self, obs: &[f32], choice: Choice<'_>, actions: &mut [i64]) -> Result<bool> {
        self.step(obs, choice, actions, None)
    }

    /// Writes actions as [`Self::choose`] does, and in the same pass the numbers of another slot, such as that of the next
    /// hidden state, row by row. They mean nothing without a choice either.
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, `Room` without memory.
    pub fn step(
        &self,
        obs: &[f32],
        choice: Choice<'_>,
        actions: &mut [i64],
        also: Option<(usize, &mut [f32])>,
    ) -> Result<bool> {
        let rows = self.rows(obs)?;
        if let Some((slot, ref numbers)) = also
            && self.width(slot).is_none_or(|width| numbers.len() != rows * width)
        {
            return value_error!("the results of {rows} rows have other lengths");
        }
        let also = also.map(|(slot, numbers)| (slot, DisjointRows::of(numbers, rows)));
        let clocks = match choice {
            Choice::Clocks(clocks) => clocks.len() == rows * self.outputs(),
            Choice::Greatest => true,
        };
        if actions.len() != rows || !clocks {
            return value_error!("the actions or clocks of {rows} rows have other lengths");
        }
        let (slot, width, actions) = (self.slots() - 1, self.outputs(), DisjointRows::of(actions, rows));
        self.each(obs, rows, |done| {
            let (scale, numbers) = (done.scale(slot), done.slot(slot));
            for (k, scale) in scale.iter().take(done.rows.len()).enumerate() {
                let row = done.rows.start + k;
                let chosen = match choice {
                    Choice::Greatest => greatest(numbers.row(k), *scale),
                    Choice::Clocks(clocks) => first_clock(&numbers, k, &clocks[row * width..][..width], *scale),
                };
                let Some(chosen) = chosen else { return false };
                // SAFETY: a row is shown once, to one thread.
                let action = unsafe { actions.row(row) };
                action[0] = chosen;
                if let Some((slot, numbers)) = &also {
                    // SAFETY: as above.
                    done.copy(*slot, k, unsafe { numbers.row(row) });
                }
            }
            true
        })
    }

    fn rows(&self, obs: &[f32]) -> Result<usize> {
        if !obs.len().is_multiple_of(self.inputs()) {
            return value_error!("rows have {} numbers, got {} in all", self.inputs(), obs.len());
        }
        Ok(obs.len() / self.inputs())
    }

    /// Shows each tile to `look`, on several threads if there is much work, until one returns false.
    fn each(&self, obs: &[f32], rows: usize, look: impl Fn(Done<'_>) -> bool + Sync) -> Result<bool> {
        if rows.saturating_mul(self.products()) < WORTH_SHARING || pool::threads() == 1 {
            return Ok(self.pass(obs, 0..rows, &mut self.scratch(rows)?, look));
        }
        let least = if self.has_images() { IMAGES } else { 16 };
        let chunk = (CHUNK / self.products().max(1)).next_multiple_of(least).max(least);
        let (goes_on, fits) = (AtomicBool::new(true), AtomicBool::new(true));
        pool::run(rows.div_ceil(chunk), |k| {
            let part: Range<usize> = k * chunk..rows.min((k + 1) * chunk);
            match self.scratch(part.len()) {
                Ok(mut scratch) => {
                    if goes_on.load(Ordering::Relaxed) && !self.pass(obs, part, &mut scratch, &look) {
                        goes_on.store(false, Ordering::Relaxed);
                    }
                }
                Err(_) => fits.store(false, Ordering::Relaxed),
            }
        });
        if !fits.into_inner() {
            self.scratch(chunk)?; // the same error, with its text
        }
        Ok(goes_on.into_inner())
    }
}

/// The first action with the greatest number; None if another is nearly as great or one is not finite.
fn greatest(numbers: impl Iterator<Item = f32>, scale: f32) -> Option<i64> {
    let (mut best, mut second, mut at, mut sum) = (f32::NEG_INFINITY, f32::NEG_INFINITY, 0, 0.0);
    for (action, number) in numbers.enumerate() {
        sum += number * 0.0; // NaN for infinity and NaN, else 0
        if number > best {
            (second, best, at) = (best, number, action);
        } else if number > second {
            second = number;
        }
    }
    (sum == 0.0 && best - second > MARGIN * scale).then_some(at as i64)
}

/// See [`Choice::Clocks`].
fn first_clock(numbers: &Rows<'_>, k: usize, clocks: &[f32], scale: f32) -> Option<i64> {
    let largest = numbers.row(k).fold(f32::NEG_INFINITY, f32::max);
    let (mut best, mut second, mut at, mut sum) = (-1.0, -1.0, 0, 0.0_f32);
    for (action, (number, &clock)) in numbers.row(k).zip(clocks).enumerate() {
        sum += number * 0.0 + clock * 0.0;
        let score = exp(f64::from(number) - f64::from(largest)) / f64::from(clock);
        if score > best {
            (second, best, at) = (best, score, action);
        } else if score > second {
            second = score;
        }
    }
    let margin = 2.0 * f64::from(MARGIN * scale) + PROBABILITY_MARGIN;
    (sum == 0.0 && best > second * (1.0 + margin)).then_some(at as i64)
}

/// The rows of a slice, which several threads write, each its own.
struct DisjointRows<T> {
    data: *mut T,
    width: usize,
}

// SAFETY: `row` is called for different rows by different threads.
unsafe impl<T: Send> Sync for DisjointRows<T> {}

impl<T> DisjointRows<T> {
    fn of(slice: &mut [T], rows: usize) -> Self {
        Self { data: slice.as_mut_ptr(), width: slice.len() / rows.max(1) }
    }

    /// # Safety
    /// The slice has more than `k` rows, it lives, and nobody else has this row.
    #[allow(clippy::mut_from_ref, reason = "each row is given out once")]
    unsafe fn row(&self, k: usize) -> &mut [T] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(k * self.width), self.width) }
    }
}
