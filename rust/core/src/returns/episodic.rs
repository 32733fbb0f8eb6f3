//! Advantages and returns of rows of a buffer, from arrays of float32 or float64.

use std::borrow::Cow;

use super::gae::Deltas;
use super::recurrence::{BLOCK, Block, Increments, blocks, group, group_mut};
use super::{Column, Ends, Real as _};
use crate::simd::{self, Kernel};

/// An array whose numbers are read as f64.
#[derive(Clone)]
pub enum Floats<'a> {
    /// An array of float32.
    F32(Cow<'a, [f32]>),
    /// An array of float64.
    F64(Cow<'a, [f64]>),
}

impl<'a> From<&'a [f32]> for Floats<'a> {
    fn from(numbers: &'a [f32]) -> Self {
        Self::F32(Cow::Borrowed(numbers))
    }
}

impl<'a> From<&'a [f64]> for Floats<'a> {
    fn from(numbers: &'a [f64]) -> Self {
        Self::F64(Cow::Borrowed(numbers))
    }
}

/// Reads float32 as float64.
impl Column<f64> for &[f32] {
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        &self[..len]
    }

    #[inline(always)]
    fn group<const G: usize>(&self, i: usize) -> [f64; G] {
        let (array, mut wide) = (group::<f32, G>(self, i), [0.0; G]);
        for k in 0..G {
            wide[k] = f64::from(array[k]);
        }
        wide
    }
}

/// A column of zeros.
#[derive(Clone, Copy)]
struct Zeros;

impl Column<f64> for Zeros {
    #[inline(always)]
    fn of_len(self, _len: usize) -> Self {
        self
    }

    #[inline(always)]
    fn group<const G: usize>(&self, _i: usize) -> [f64; G] {
        [0.0; G]
    }
}

/// Evaluates an expression with the array inside `Floats`, compiled for both types.
macro_rules! with_floats {
    ($floats:ident => $run:expr) => {
        match $floats {
            Floats::F32($floats) => {
                let $floats = &$floats[..];
                $run
            }
            Floats::F64($floats) => {
                let $floats = &$floats[..];
                $run
            }
        }
    };
}

/// The rows of a buffer that form a flat roll-out.
#[derive(Clone, Copy)]
pub struct BufferRows<'a> {
    /// The index of each row in the buffer.
    pub places: &'a [i64],
    /// The indices of the newest rows of running episodes, in ascending order.
    pub unfinished: &'a [i64],
}

/// Writes the generalized advantages of a flat roll-out, as [`gae`](super::gae) computes them, and `returns[t] =
/// advantages[t] + V(obs)`.
///
/// An episode also ends at a row that is `unfinished`. Without `values`, the value of a row is the next value of the
/// row before it, and that of an episode's first row is 0. Without `next_values`, next values are 0.
///
/// # Panics
/// If the lengths differ.
///
/// ```
/// use rlfast_core::returns::{Floats, BufferRows, episodic};
/// let (never, [mut returns, mut advantages]) = ([false; 2], [[0.0; 2]; 2]);
/// let rows = BufferRows { places: &[7, 3], unfinished: &[7] };
/// let (rewards, ones) = (Floats::from(&[1.0_f32, 1.0][..]), Floats::from(&[1.0, 1.0][..]));
/// episodic(&rewards, Some(&ones), Some(&ones), (&never, &never), rows, 0.5, 1.0, &mut returns, &mut advantages);
/// assert_eq!((returns, advantages), ([1.5, 1.5], [0.5, 0.5]));
/// ```
#[expect(clippy::too_many_arguments, reason = "the arrays and numbers of the formula")]
pub fn episodic(
    rewards: &Floats<'_>,
    values: Option<&Floats<'_>>,
    next_values: Option<&Floats<'_>>,
    (terminated, truncated): (&[bool], &[bool]),
    rows: BufferRows<'_>,
    gamma: f64,
    gae_lambda: f64,
    returns: &mut [f64],
    advantages: &mut [f64],
) {
    let mut truncated = truncated.to_vec();
    assert_eq!(rows.places.len(), truncated.len(), "one place for each step");
    simd::run(FlagUnfinished { rows, flags: &mut truncated });
    let ends = Ends::new(terminated, Some(&truncated), 1);
    ends.assert_same_len(&[&*returns, &*advantages]);
    let from_before = if values.is_none() { values_before(next_values, ends) } else { Vec::new() };
    let from_before = Floats::F64(Cow::Owned(from_before));
    let values = values.unwrap_or(&from_before);
    let decay = gamma * gae_lambda;
    with_floats!(rewards => with_floats!(values => match next_values {
        Some(next_values) => with_floats!(next_values => {
            let increments = Deltas { rewards, values, next_values, ends, gamma };
            simd::run(Estimate { increments, values, ends, decay, returns, advantages });
        }),
        None => {
            let increments = Deltas { rewards, values, next_values: Zeros, ends, gamma };
            simd::run(Estimate { increments, values, ends, decay, returns, advantages });
        }
    }));
}

/// Sets the flags of the rows that are `unfinished`.
struct FlagUnfinished<'a> {
    rows: BufferRows<'a>,
    flags: &'a mut [bool],
}

impl Kernel for FlagUnfinished<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { rows: BufferRows { places, unfinished }, flags } = self;
        let mut start = 0;
        while start < flags.len() {
            let (first, len) = (places[start], consecutive(&places[start..]));
            let from = unfinished.partition_point(|&place| place < first);
            for place in &unfinished[from..] {
                let offset = place.abs_diff(first) as usize;
                if offset >= len {
                    break;
                }
                flags[start + offset] = true;
            }
            start += len;
        }
    }
}

/// Returns how many places from the first on are consecutive integers, as a buffer's rows mostly are.
#[inline(always)]
fn consecutive(places: &[i64]) -> usize {
    const G: usize = 16;
    let mut len = 1;
    while len + G <= places.len() {
        let (next, expected) = (group::<i64, G>(places, len), places[0].wrapping_add(len as i64));
        let mut difference = 0;
        for (k, place) in next.iter().enumerate() {
            difference |= place ^ expected.wrapping_add(k as i64);
        }
        if difference != 0 {
            break;
        }
        len += G;
    }
    while len < places.len() && places[len] == places[0].wrapping_add(len as i64) {
        len += 1;
    }
    len
}

fn values_before(next_values: Option<&Floats<'_>>, ends: Ends<'_>) -> Vec<f64> {
    let Some(next_values) = next_values else { return vec![0.0; ends.len()] };
    let of = |i: usize| with_floats!(next_values => Column::<f64>::group::<1>(&next_values, i)[0]);
    let before = |i: usize| if i == 0 { 0.0 } else { of(i - 1).zero_if(ends.flagged(i - 1)) };
    (0..ends.len()).map(before).collect()
}

/// Computes advantages in blocks, and the returns of each block while it is in the first-level cache.
struct Estimate<'a, I, C> {
    increments: I,
    values: C,
    ends: Ends<'a>,
    decay: f64,
    returns: &'a mut [f64],
    advantages: &'a mut [f64],
}

impl<I: Increments<f64>, C: Column<f64>> Kernel for Estimate<'_, I, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { increments, values, ends, decay, returns, advantages } = self;
        let len = ends.len();
        let (increments, values, ends) = (increments.of_len(len), values.of_len(len), ends.of_len(len));
        let (returns, advantages) = (&mut returns[..len], &mut advantages[..len]);
        let mut block = Block::new(decay);
        for start in blocks(len) {
            let stop = len.min(start + BLOCK);
            block.fill(increments, ends, start, stop, advantages);
            add(values, advantages, start, stop, returns);
        }
    }
}

/// Writes `returns = advantages + values` from `start` to `stop`.
#[inline(always)]
fn add(values: impl Column<f64>, advantages: &[f64], start: usize, stop: usize, returns: &mut [f64]) {
    const G: usize = 8;
    let whole = stop - (stop - start) % G;
    for i in (start..whole).step_by(G) {
        let (advantages, mut sums) = (group::<f64, G>(advantages, i), values.group::<G>(i));
        for k in 0..G {
            sums[k] += advantages[k];
        }
        *group_mut(returns, i) = sums;
    }
    for i in whole..stop {
        returns[i] = advantages[i] + values.group::<1>(i)[0];
    }
}
