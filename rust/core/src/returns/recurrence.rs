//! The recurrence of discounted returns and advantages: `x[t] = increment[t] + decay * x[t + 1]` within each episode.

use super::{Ends, Real};
use crate::simd::Kernel;

/// Steps of one column that are computed together and stay in the first-level cache.
pub(super) const BLOCK: usize = 1024;
/// Elements that are computed together, independent of one another.
const LANES: usize = 8;

/// The numbers that the recurrence adds at each step.
pub(super) trait Increments<T>: Copy {
    /// Returns the same with all arrays cut to length `len`, so that the optimiser knows the common length and drops
    /// bounds checks.
    fn of_len(self, len: usize) -> Self;
    /// Returns the increments of the `G` elements from `i` on. `ends` is false if no episode ends among them.
    fn group<const G: usize>(&self, i: usize, ends: bool) -> [T; G];
}

/// Computes `x` by the recurrence; at the end of an episode `x[t] = increment[t]`.
pub(super) struct Recurrence<'a, T, I> {
    pub increments: I,
    pub ends: Ends<'a>,
    pub decay: T,
    pub x: &'a mut [T],
}

impl<T: Real, I: Increments<T>> Kernel for Recurrence<'_, T, I> {
    type Output = ();

    /// The fields are moved into local variables first, which the optimiser keeps in registers.
    #[inline(always)]
    fn run(self) {
        let Self { increments, ends, decay, x } = self;
        let len = ends.len();
        let (increments, ends, x) = (increments.of_len(len), ends.of_len(len), &mut x[..len]);
        let lanes = Recurrence { increments, ends, decay, x };
        match ends.columns {
            16.. => lanes.columns::<16>(),
            8.. => lanes.columns::<8>(),
            4.. => lanes.columns::<4>(),
            2.. => lanes.columns::<1>(),
            _ => lanes.one_column(),
        }
    }
}

impl<T: Real, I: Increments<T>> Recurrence<'_, T, I> {
    /// Computes groups of `G <= columns` elements, last group first. Elements of a group do not depend on one another,
    /// as each depends on the one `columns` later.
    #[inline(always)]
    fn columns<const G: usize>(self) {
        let Self { increments, ends, decay, x } = self;
        let last_row = ends.len() - ends.columns.min(ends.len());
        for (i, last) in x.iter_mut().enumerate().skip(last_row) {
            *last = increments.group::<1>(i, true)[0];
        }
        if ends.columns == G && !x.is_empty() {
            // A group needs the group computed just before. It is passed on in registers, as loading it while it is
            // stored is slow.
            let mut next = *group::<T, G>(x, last_row);
            for i in (0..last_row).step_by(G).rev() {
                next = columns_group::<T, I, G>(increments, ends, decay, i, next);
                *group_mut(x, i) = next;
            }
            return;
        }
        for i in (last_row % G..last_row).step_by(G).rev() {
            let next = *group::<T, G>(x, i + ends.columns);
            *group_mut(x, i) = columns_group::<T, I, G>(increments, ends, decay, i, next);
        }
        for i in (0..last_row % G).rev() {
            let next = *group::<T, 1>(x, i + ends.columns);
            *group_mut(x, i) = columns_group::<T, I, 1>(increments, ends, decay, i, next);
        }
    }

    /// Computes blocks of a single column, last block first.
    #[inline(always)]
    fn one_column(self) {
        let Self { increments, ends, decay, x } = self;
        let (len, mut block) = (ends.len(), Block::new(decay));
        for start in blocks(len) {
            block.fill(increments, ends, start, len.min(start + BLOCK), x);
        }
    }
}

/// Returns the starts of the blocks of a single column, last block first.
#[inline(always)]
pub(super) fn blocks(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(BLOCK).rev()
}

/// Returns the `G` elements from `i` on, given `next`, the elements one row later.
#[inline(always)]
fn columns_group<T: Real, I: Increments<T>, const G: usize>(
    increments: I,
    ends: Ends<'_>,
    decay: T,
    i: usize,
    mut next: [T; G],
) -> [T; G] {
    let any = ends.any::<G>(i);
    let mut now = increments.group::<G>(i, any);
    if any {
        zero_where(&mut next, &ends.group(i));
    }
    for k in 0..G {
        now[k] = now[k] + decay * next[k];
    }
    now
}

impl Ends<'_> {
    /// Returns the start of the episode of element `stop - 1` of a single column, or `start` if it begins before that.
    #[inline(always)]
    fn episode_start(&self, start: usize, stop: usize) -> usize {
        let mut first = stop - 1;
        while first > start {
            if first - start >= 32 && !self.any::<32>(first - 32) {
                first -= 32;
            } else if first - start >= 8 {
                let flags = u64::from_le_bytes(self.group::<8>(first - 8).map(u8::from));
                first -= flags.leading_zeros() as usize / 8;
                if flags != 0 {
                    break;
                }
            } else if self.flagged(first - 1) {
                break;
            } else {
                first -= 1;
            }
        }
        first
    }
}

/// The working memory for a block of steps of a single column.
pub(super) struct Block<T> {
    /// The decay over 1, 2, 4 and 8 steps.
    decays: [T; 4],
    /// The increments of the block, with room for a whole group before them and for one element after them.
    increments: [T; LANES + BLOCK + 1],
}

impl<T: Real> Block<T> {
    #[inline(always)]
    pub(super) fn new(decay: T) -> Self {
        let decay_2 = decay * decay;
        let decay_4 = decay_2 * decay_2;
        Self { decays: [decay, decay_2, decay_4, decay_4 * decay_4], increments: [T::ZERO; LANES + BLOCK + 1] }
    }

    /// Computes `x` from `start` to `stop`, given `x` after `stop`, one episode or part of an episode at a time, last
    /// first.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        increments: impl Increments<T>,
        ends: Ends<'_>,
        start: usize,
        stop: usize,
        x: &mut [T],
    ) {
        let whole = stop - (stop - start) % LANES;
        for i in (start..whole).step_by(LANES) {
            *group_mut(&mut self.increments, LANES + i - start) = increments.group::<LANES>(i, false);
        }
        for i in whole..stop {
            self.increments[LANES + i - start] = increments.group::<1>(i, false)[0];
        }
        let mut stop = stop;
        while stop > start {
            let first = ends.episode_start(start, stop);
            let last = &mut self.increments[LANES + stop - 1 - start];
            *last = if ends.is_last(stop - 1) {
                increments.group::<1>(stop - 1, true)[0]
            } else {
                *last + self.decays[0] * x[stop]
            };
            self.accumulate(start, first, stop, x);
            stop = first;
        }
    }

    /// Computes `x[t] = increment[t] + decay * x[t + 1]` from `stop - 1` back to `first`. Instead of one chain with a
    /// multiplication and an addition for each step, it forms the discounted sums of two, four and eight increments
    /// from each element on, and then adds those that are eight steps apart, in eight independent chains.
    #[inline(always)]
    fn accumulate(&mut self, start: usize, first: usize, stop: usize, x: &mut [T]) {
        let [decay, decay_2, decay_4, decay_8] = self.decays;
        self.increments[LANES + stop - start] = T::NEGATIVE_ZERO;
        let (mut twos_behind, mut fours_behind) = ([T::NEGATIVE_ZERO; LANES], [T::NEGATIVE_ZERO; LANES]);
        let (mut sums, mut i) = ([T::ZERO; LANES], stop);
        while i > first {
            let (now, next) = (*group(&self.increments, i - start), *group(&self.increments, i - start + 1));
            let twos = add(now, decay, next);
            let fours = add(twos, decay_2, later::<T, 2>(twos, twos_behind));
            let eights = add(fours, decay_4, later::<T, 4>(fours, fours_behind));
            sums = add(eights, decay_8, sums);
            (twos_behind, fours_behind) = (twos, fours);
            if i < LANES {
                for (k, sum) in sums.into_iter().enumerate().skip(LANES - i) {
                    x[i + k - LANES] = sum;
                }
                return;
            }
            i -= LANES;
            // This also writes elements before the episode, which are computed later.
            *group_mut(x, i) = sums;
        }
    }
}

#[inline(always)]
fn add<T: Real>(mut now: [T; LANES], weight: T, later: [T; LANES]) -> [T; LANES] {
    for k in 0..LANES {
        now[k] = now[k] + weight * later[k];
    }
    now
}

/// Returns the elements `BY` steps later, from this group and the group after it (`behind`).
#[inline(always)]
fn later<T: Real, const BY: usize>(now: [T; LANES], behind: [T; LANES]) -> [T; LANES] {
    let mut later = behind;
    for k in 0..LANES {
        later[k] = if k + BY < LANES { now[k + BY] } else { behind[k + BY - LANES] };
    }
    later
}

/// Replaces the values whose flag is set by zeros.
#[inline(always)]
pub(super) fn zero_where<T: Real, const G: usize>(values: &mut [T; G], flags: &[bool; G]) {
    for k in 0..G {
        values[k] = values[k].zero_if(flags[k]);
    }
}

/// Returns the `G` elements from `i` on.
#[inline(always)]
pub(super) fn group<T, const G: usize>(array: &[T], i: usize) -> &[T; G] {
    array[i..i + G].try_into().expect("invariant: the slice has G elements")
}

/// Returns the `G` elements from `i` on, mutably.
#[inline(always)]
pub(super) fn group_mut<T, const G: usize>(array: &mut [T], i: usize) -> &mut [T; G] {
    (&mut array[i..i + G]).try_into().expect("invariant: the slice has G elements")
}
