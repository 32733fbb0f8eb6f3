//! Returns and advantages over roll-outs.
//!
//! Every array is time-major: `[T, columns]` in C order, one row a step, one column an environment; a flat roll-out of
//! several episodes is one column. Row `t` is the transition *out of* observation `t`. Where an episode ends is told by two flags:
//!
//! * `terminated`: the episode is over and what follows is worth nothing. The value of the next observation is not read.
//! * `truncated`: somebody stopped watching. The recursion stops, and the value of the next observation, that is of the episode's
//!   *final* observation and not of the next episode's first, stands for what was not seen.
//!
//! The last row ends every column as a truncation does. Masking *selects*, it never multiplies by zero: a NaN behind a
//! boundary stays there.

mod discounted;
mod gae;
mod nstep;
mod vtrace;

use std::ops::{Add, Mul, Range, Sub};

pub use discounted::discounted;
pub use gae::gae;
pub use nstep::nstep;
pub use vtrace::{VTrace, vtrace};

/// Elements that are worked on together, so that the passes over them find them in the first-level cache.
const BLOCK: usize = 2048;

/// The float types of roll-outs. Everything is computed in the type of the arrays.
pub trait Real: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + Sync {
    /// 0.
    const ZERO: Self;
    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn exp(self) -> Self {
        f32::exp(self)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    fn from_f64(value: f64) -> Self {
        value
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
}

/// Where the episodes of a roll-out end.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    terminated: &'a [bool],
    truncated: &'a [bool],
    columns: usize,
}

impl<'a> Ends<'a> {
    /// The flags of a `[T, columns]` roll-out; no `truncated` means that nothing was.
    ///
    /// # Panics
    /// If the flags differ in length or do not fill whole rows.
    pub fn new(terminated: &'a [bool], truncated: Option<&'a [bool]>, columns: usize) -> Self {
        // Without truncations an episode ends where it terminates, so the same flags serve for both.
        let truncated = truncated.unwrap_or(terminated);
        assert_eq!(terminated.len(), truncated.len(), "one flag of each kind for each step");
        assert!(columns > 0 && terminated.len() % columns == 0, "whole rows of {columns}");
        Self { terminated, truncated, columns }
    }

    fn len(&self) -> usize {
        self.terminated.len()
    }

    /// Whether no later step of the column follows element `i` within its episode.
    fn at(&self, i: usize) -> bool {
        self.terminated[i] | self.truncated[i] | (i + self.columns >= self.len())
    }

    fn assert_same_len<T>(&self, arrays: &[&[T]]) {
        assert!(arrays.iter().all(|array| array.len() == self.len()), "one element for each step");
    }

    /// Whole rows, about [`BLOCK`] elements at a time, last first.
    fn blocks_backwards(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let step = (BLOCK / self.columns).max(1) * self.columns;
        let len = self.len();
        (0..len.div_ceil(step)).rev().map(move |block| block * step..len.min((block + 1) * step))
    }

    /// `x[t] += decay * x[t + 1]` within each episode of the rows of `range`, backwards. The rows after `range` are done.
    fn accumulate<T: Real>(&self, x: &mut [T], range: Range<usize>, decay: T) {
        for start in range.step_by(self.columns).rev() {
            let (now, next) = x[start..].split_at_mut(self.columns);
            let terminated = &self.terminated[start..start + self.columns];
            let truncated = &self.truncated[start..start + self.columns];
            // Empty `next` on the last row: nothing is added.
            for (((now, &next), &terminated), &truncated) in now.iter_mut().zip(&*next).zip(terminated).zip(truncated) {
                let carried = *now + decay * next;
                *now = if terminated | truncated { *now } else { carried };
            }
        }
    }
}

#[cfg(test)]
mod tests;
