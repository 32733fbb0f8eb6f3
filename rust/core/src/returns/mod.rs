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

mod bootstrapped;
mod discounted;
mod episodic;
mod gae;
mod nstep;
mod recurrence;
mod vtrace;

use std::ops::{Add, Mul, Sub};

pub use bootstrapped::bootstrapped;
pub use discounted::discounted;
pub use episodic::{BufferRows, Floats, episodic};
pub use gae::gae;
pub use nstep::nstep;
pub use vtrace::{VTrace, vtrace};

use recurrence::group;

/// The float types of roll-outs. Everything is computed in the type of the arrays.
pub trait Real: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + Sync {
    /// 0.
    const ZERO: Self;
    /// -0, which changes nothing that it is added to.
    const NEGATIVE_ZERO: Self;
    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// 0 if `condition`, whatever `self` is; by a bit mask, which vector instructions can do where a choice would branch.
    fn zero_if(self, condition: bool) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const NEGATIVE_ZERO: Self = -0.0;
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn exp(self) -> Self {
        f32::exp(self)
    }
    #[inline(always)]
    fn zero_if(self, condition: bool) -> Self {
        f32::from_bits(self.to_bits() & u32::from(condition).wrapping_sub(1))
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const NEGATIVE_ZERO: Self = -0.0;
    fn from_f64(value: f64) -> Self {
        value
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn zero_if(self, condition: bool) -> Self {
        f64::from_bits(self.to_bits() & u64::from(condition).wrapping_sub(1))
    }
}

/// What the kernels read: an array of the type they compute in, or one that becomes it on the way.
trait Column<T>: Copy {
    /// See `Increments::of_len`.
    fn of_len(self, len: usize) -> Self;
    /// The `G` elements from `i` on.
    fn group<const G: usize>(&self, i: usize) -> [T; G];
}

impl<T: Copy> Column<T> for &[T] {
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        &self[..len]
    }

    #[inline(always)]
    fn group<const G: usize>(&self, i: usize) -> [T; G] {
        *group::<T, G>(self, i)
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
        assert!(columns > 0 && terminated.len().is_multiple_of(columns), "whole rows of {columns}");
        Self { terminated, truncated, columns }
    }

    /// See `Increments::of_len`.
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        Self { terminated: &self.terminated[..len], truncated: &self.truncated[..len], ..self }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.terminated.len()
    }

    /// Whether no later step of the column follows element `i` within its episode.
    #[inline(always)]
    fn at(&self, i: usize) -> bool {
        self.flagged(i) | (i + self.columns >= self.len())
    }

    /// Whether a flag ends the episode of element `i`.
    #[inline(always)]
    fn flagged(&self, i: usize) -> bool {
        self.terminated[i] | self.truncated[i]
    }

    fn assert_same_len<T>(&self, arrays: &[&[T]]) {
        assert!(arrays.iter().all(|array| array.len() == self.len()), "one element for each step");
    }

    /// Whether any of the `G` elements from `i` on ends its episode by a flag.
    #[inline(always)]
    fn any<const G: usize>(&self, i: usize) -> bool {
        (*group(self.terminated, i) != [false; G]) | (*group(self.truncated, i) != [false; G])
    }

    /// Which of the `G` elements from `i` on end their episode by a flag.
    #[inline(always)]
    fn group<const G: usize>(&self, i: usize) -> [bool; G] {
        let mut ends = *group::<bool, G>(self.terminated, i);
        let truncated = group::<bool, G>(self.truncated, i);
        for k in 0..G {
            ends[k] |= truncated[k];
        }
        ends
    }
}

#[cfg(test)]
mod tests;
