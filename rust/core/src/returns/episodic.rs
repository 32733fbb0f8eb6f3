//! Advantages and returns of rows taken out of a buffer, from arrays as they come.

use super::gae::Deltas;
use super::recurrence::{Recurrence, group};
use super::{Column, Ends, Real as _};
use crate::simd::{self, Kernel};

/// Numbers that are read as f64.
#[derive(Clone, Copy)]
pub enum Floats<'a> {
    /// Narrow ones.
    F32(&'a [f32]),
    /// Wide ones.
    F64(&'a [f64]),
    /// Nothing but zeros, as many as are asked for.
    Zero,
}

impl Column<f64> for Floats<'_> {
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        match self {
            Self::F32(array) => Self::F32(&array[..len]),
            Self::F64(array) => Self::F64(&array[..len]),
            Self::Zero => Self::Zero,
        }
    }

    #[inline(always)]
    fn group<const G: usize>(&self, i: usize) -> [f64; G] {
        match self {
            Self::F32(array) => {
                let (array, mut wide) = (group::<f32, G>(array, i), [0.0; G]);
                for k in 0..G {
                    wide[k] = f64::from(array[k]);
                }
                wide
            }
            Self::F64(array) => *group::<f64, G>(array, i),
            Self::Zero => [0.0; G],
        }
    }
}

/// Which rows of a buffer a flat roll-out is made of.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The place of each in the buffer.
    pub places: &'a [i64],
    /// Places of the newest rows of episodes that still run, in order.
    pub unfinished: &'a [i64],
}

/// Generalized advantages of a flat roll-out, as [`gae`](super::gae) has them, and `returns[t] = advantages[t] + V(obs)`.
///
/// An episode also ends at a row that is `unfinished`. Without `values` those of the rows before are taken from `next_values`,
/// and the first of an episode is 0.
///
/// # Panics
/// If the lengths differ.
///
/// ```
/// use rlfast_core::returns::{Floats, Rows, episodic};
/// let (never, [mut returns, mut advantages]) = ([false; 2], [[0.0; 2]; 2]);
/// let rows = Rows { places: &[7, 3], unfinished: &[7] };
/// let (rewards, ones) = (Floats::F32(&[1.0, 1.0]), Floats::F64(&[1.0, 1.0]));
/// episodic(rewards, Some(ones), ones, (&never, &never), rows, 0.5, 1.0, &mut returns, &mut advantages);
/// assert_eq!((returns, advantages), ([1.5, 1.5], [0.5, 0.5]));
/// ```
#[expect(clippy::too_many_arguments, reason = "they are those of the formula")]
pub fn episodic(
    rewards: Floats<'_>,
    values: Option<Floats<'_>>,
    next_values: Floats<'_>,
    (terminated, truncated): (&[bool], &[bool]),
    rows: Rows<'_>,
    gamma: f64,
    gae_lambda: f64,
    returns: &mut [f64],
    advantages: &mut [f64],
) {
    let mut truncated = truncated.to_vec();
    rows.flag_unfinished(&mut truncated);
    let ends = Ends::new(terminated, Some(&truncated), 1);
    ends.assert_same_len(&[&*returns, &*advantages]);
    let from_before = if values.is_none() { values_before(next_values, ends) } else { Vec::new() };
    let values = values.unwrap_or(Floats::F64(&from_before));
    let increments = Deltas { rewards, values, next_values, ends, gamma };
    simd::run(Recurrence { increments, ends, decay: gamma * gae_lambda, x: &mut *advantages });
    simd::run(Sum { values, advantages, returns });
}

impl Rows<'_> {
    fn flag_unfinished(self, flags: &mut [bool]) {
        assert_eq!(self.places.len(), flags.len(), "one place for each step");
        let mut start = 0;
        while start < flags.len() {
            let (first, len) = (self.places[start], consecutive(&self.places[start..]));
            let from = self.unfinished.partition_point(|&place| place < first);
            for place in &self.unfinished[from..] {
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

/// How many of the places, from the first on, follow one another by one. A buffer's rows mostly do.
fn consecutive(places: &[i64]) -> usize {
    const G: usize = 16;
    let expected = |i: usize| places[0].wrapping_add(i as i64);
    let mut len = 1;
    while let Some(next) = places.get(len..len + G) {
        let mut difference = 0;
        for (k, place) in next.iter().enumerate() {
            difference |= place ^ expected(len + k);
        }
        if difference != 0 {
            break;
        }
        len += G;
    }
    while len < places.len() && places[len] == expected(len) {
        len += 1;
    }
    len
}

fn values_before(next_values: Floats<'_>, ends: Ends<'_>) -> Vec<f64> {
    let before = |i: usize| next_values.group::<1>(i)[0].zero_if(ends.flagged(i));
    let steps = 0..ends.len().saturating_sub(1);
    (!ends.is_empty()).then_some(0.0).into_iter().chain(steps.map(before)).collect()
}

/// `returns = advantages + values`.
struct Sum<'a> {
    values: Floats<'a>,
    advantages: &'a [f64],
    returns: &'a mut [f64],
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        const G: usize = 16;
        let len = self.returns.len();
        let (values, advantages) = (self.values.of_len(len), &self.advantages[..len]);
        let whole = len - len % G;
        for i in (0..whole).step_by(G) {
            let (advantages, mut sums) = (group::<f64, G>(advantages, i), values.group::<G>(i));
            for k in 0..G {
                sums[k] += advantages[k];
            }
            self.returns[i..i + G].copy_from_slice(&sums);
        }
        for (i, sum) in self.returns.iter_mut().enumerate().skip(whole) {
            *sum = advantages[i] + values.group::<1>(i)[0];
        }
    }
}
