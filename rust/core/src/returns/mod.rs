//! Returns and advantages over roll-outs.
//!
//! Every array is time-major: `[T, columns]` in C order, with one row for each step and one column for each
//! environment. A flat
//! roll-out of several episodes is one column. Row `t` is the transition *out of* observation `t`. Two flags mark the
//! ends of
//! episodes:
//!
//! * `terminated`: the episode reached a terminal state, whose value is 0. The value of the next observation is not
//!   read.
//! * `truncated`: the episode was cut, such as by a time limit. The recursion stops, and the value of the next
//!   observation stands
//!   for the rest of the return. That is the episode's *final* observation, not the first one of the next episode.
//!
//! The last row ends every column as a truncation does. Values behind a boundary are replaced by 0, never multiplied by
//! 0, so a
//! NaN there has no effect.

mod bootstrapped;
mod discounted;
mod episodic;
pub mod estimator;
mod gae;
mod nstep;
mod recurrence;
mod vtrace;

use std::borrow::Cow;
use std::ops::{Add, Mul, Sub};

pub use bootstrapped::{bootstrapped, check_bootstrapped};
pub use discounted::discounted;
pub use episodic::{BufferRows, Floats, episodic};
pub use gae::gae;
pub use nstep::nstep;
pub use vtrace::{VTrace, vtrace};

use crate::error::Result;
use crate::vectors::collected;
use recurrence::group;

/// The float types of roll-outs. All computations use the type of the arrays.
pub trait Real: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + Sync {
    /// 0.
    const ZERO: Self;
    /// -0, which added to any number leaves that number as it is, the sign of zero included.
    const NEGATIVE_ZERO: Self;
    /// Returns numbers as this type: the same memory, or a copy in which each is widened or rounded.
    ///
    /// # Errors
    /// `Room` if there is no memory for the copy.
    fn read(floats: Floats<'_>) -> Result<Cow<'_, [Self]>>;
    /// Returns `value` rounded to this type.
    fn from_f64(value: f64) -> Self;
    /// Returns e to the power of `self`.
    fn exp(self) -> Self;
    /// Returns 0 if `condition` is true, also for NaN, and `self` otherwise. It uses a bit mask, which vectorises where
    /// a choice would branch.
    fn zero_if(self, condition: bool) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const NEGATIVE_ZERO: Self = -0.0;
    #[inline]
    fn read(floats: Floats<'_>) -> Result<Cow<'_, [Self]>> {
        match floats {
            Floats::F32(numbers) => Ok(numbers),
            Floats::F64(numbers) => collected(numbers.iter().map(|&number| number as f32)).map(Cow::Owned),
        }
    }
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
    #[inline]
    fn read(floats: Floats<'_>) -> Result<Cow<'_, [Self]>> {
        match floats {
            Floats::F32(numbers) => collected(numbers.iter().map(|&number| f64::from(number))).map(Cow::Owned),
            Floats::F64(numbers) => Ok(numbers),
        }
    }
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

/// An array that kernels read as numbers of type `T`: its elements have that type or are converted to it.
trait Column<T>: Copy {
    /// Returns the same with length `len`: see `Increments::of_len`.
    fn of_len(self, len: usize) -> Self;
    /// Returns the `G` elements from `i` on.
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
    /// Returns the ends of a `[T, columns]` roll-out. Without `truncated`, no episode was truncated.
    ///
    /// # Panics
    /// If the flags differ in length or do not fill whole rows.
    pub fn new(terminated: &'a [bool], truncated: Option<&'a [bool]>, columns: usize) -> Self {
        // Without truncations an episode ends where it terminates, so `terminated` serves as both.
        let truncated = truncated.unwrap_or(terminated);
        assert_eq!(terminated.len(), truncated.len(), "one flag of each kind for each step");
        assert!(columns > 0 && terminated.len().is_multiple_of(columns), "whole rows of {columns}");
        Self { terminated, truncated, columns }
    }

    /// Returns the same with length `len`: see `Increments::of_len`.
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        Self { terminated: &self.terminated[..len], truncated: &self.truncated[..len], ..self }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.terminated.len()
    }

    /// Returns whether element `i` is the last one of its episode in its column.
    #[inline(always)]
    fn is_last(&self, i: usize) -> bool {
        self.flagged(i) | (i + self.columns >= self.len())
    }

    /// Returns whether a flag ends the episode at element `i`.
    #[inline(always)]
    fn flagged(&self, i: usize) -> bool {
        self.terminated[i] | self.truncated[i]
    }

    fn assert_same_len<T>(&self, arrays: &[&[T]]) {
        assert!(arrays.iter().all(|array| array.len() == self.len()), "one element for each step");
    }

    /// Returns whether a flag ends an episode at one of the `G` elements from `i` on.
    #[inline(always)]
    fn any<const G: usize>(&self, i: usize) -> bool {
        (*group(self.terminated, i) != [false; G]) | (*group(self.truncated, i) != [false; G])
    }

    /// Returns for each of the `G` elements from `i` on whether a flag ends the episode there.
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
