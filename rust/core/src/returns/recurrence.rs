//! The recurrence under all returns: `x[t] = increment[t] + decay * x[t + 1]` within each episode.

use super::{Ends, Real};
use crate::simd::Kernel;

/// Steps of one column that are worked on together: they stay in the first-level cache from pass to pass.
const BLOCK: usize = 1024;

/// What each step adds.
pub(super) trait Increments<T>: Copy {
    /// The same, with the common length of its arrays stated where the optimiser sees it: one bounds check serves all.
    fn of_len(self, len: usize) -> Self;
    /// The increments of the `G` elements from `i` on; where `ends` is false, no episode ends among them.
    fn group<const G: usize>(&self, i: usize, ends: bool) -> [T; G];
}

/// Fills `x`; at the end of an episode `x[t] = increment[t]`.
pub(super) struct Recurrence<'a, T, I> {
    pub increments: I,
    pub ends: Ends<'a>,
    pub decay: T,
    pub x: &'a mut [T],
}

impl<T: Real, I: Increments<T>> Kernel for Recurrence<'_, T, I> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let len = self.ends.len();
        self.increments = self.increments.of_len(len);
        self.ends = self.ends.of_len(len);
        self.x = &mut self.x[..len];
        match self.ends.columns {
            16.. => self.columns::<16>(),
            8.. => self.columns::<8>(),
            4.. => self.columns::<4>(),
            2.. => self.columns::<1>(),
            _ => self.one_column(),
        }
    }
}

impl<T: Real, I: Increments<T>> Recurrence<'_, T, I> {
    /// In groups of `G <= columns` elements, last first: within a group nothing depends on one another, whatever the rows.
    #[inline(always)]
    fn columns<const G: usize>(&mut self) {
        let len = self.ends.len();
        let last_row = len - self.ends.columns.min(len);
        for i in last_row..len {
            self.x[i] = self.increments.group::<1>(i, true)[0];
        }
        for i in (last_row % G..last_row).step_by(G).rev() {
            self.columns_group::<G>(i);
        }
        for i in (0..last_row % G).rev() {
            self.columns_group::<1>(i);
        }
    }

    #[inline(always)]
    fn columns_group<const G: usize>(&mut self, i: usize) {
        let ends = self.ends.group::<G>(i);
        let mut now = self.increments.group::<G>(i, any(&ends));
        let mut next = *group::<T, G>(self.x, i + self.ends.columns);
        if any(&ends) {
            zero_where(&mut next, &ends);
        }
        for k in 0..G {
            now[k] = now[k] + self.decay * next[k];
        }
        *group_mut(self.x, i) = now;
    }

    /// Blocks of increments, last first, then their episodes one by one.
    #[inline(always)]
    fn one_column(&mut self) {
        let len = self.ends.len();
        for start in (0..len).step_by(BLOCK).rev() {
            let end = len.min(start + BLOCK);
            self.fill_increments(start, end);
            let mut stop = end;
            while stop > start {
                let first = self.ends.episode_start(start, stop);
                if stop < len && !self.ends.flagged(stop - 1) {
                    self.x[stop - 1] = self.x[stop - 1] + self.decay * self.x[stop];
                }
                accumulate(&mut self.x[first..stop], self.decay);
                stop = first;
            }
        }
    }

    #[inline(always)]
    fn fill_increments(&mut self, start: usize, end: usize) {
        const G: usize = 16;
        let whole = end - (end - start) % G;
        for i in (start..whole).step_by(G) {
            // The last element ends its episode without a flag.
            let ends = any(&self.ends.group::<G>(i)) || i + G == self.ends.len();
            *group_mut(self.x, i) = self.increments.group::<G>(i, ends);
        }
        for i in whole..end {
            self.x[i] = self.increments.group::<1>(i, true)[0];
        }
    }
}

impl Ends<'_> {
    /// Where the episode of element `stop - 1` of a single column starts, but not before `start`.
    #[inline(always)]
    fn episode_start(&self, start: usize, stop: usize) -> usize {
        const G: usize = 32;
        let mut first = stop - 1;
        while first > start {
            if first - start >= G && !any(&self.group::<G>(first - G)) {
                first -= G;
            } else if self.flagged(first - 1) {
                break;
            } else {
                first -= 1;
            }
        }
        first
    }
}

/// `x[t] += decay * x[t + 1]`, backwards, without its chain of one multiplication and addition a step: three passes make each
/// element the discounted sum of the eight from it on, then those eight steps apart are added up, eight chains at a time.
#[inline(always)]
fn accumulate<T: Real>(x: &mut [T], decay: T) {
    let decay_2 = decay * decay;
    let decay_4 = decay_2 * decay_2;
    look_ahead::<T, 1>(x, decay);
    look_ahead::<T, 2>(x, decay_2);
    look_ahead::<T, 4>(x, decay_4);
    let decay_8 = decay_4 * decay_4;
    let mut next = [T::ZERO; 8];
    let mut start = x.len();
    while start >= 8 {
        start -= 8;
        let mut now = *group::<T, 8>(x, start);
        for k in 0..8 {
            now[k] = now[k] + decay_8 * next[k];
        }
        *group_mut(x, start) = now;
        next = now;
    }
    for k in 0..start {
        x[k] = x[k] + decay_8 * next[8 - start + k];
    }
}

/// `x[t] += weight * x[t + LAG]`, with what was there before.
#[inline(always)]
fn look_ahead<T: Real, const LAG: usize>(x: &mut [T], weight: T) {
    for i in 0..x.len().saturating_sub(LAG) {
        x[i] = x[i] + weight * x[i + LAG];
    }
}

/// Whether any of the flags is set; all are looked at, which takes a few vector instructions.
#[inline(always)]
pub(super) fn any<const G: usize>(flags: &[bool; G]) -> bool {
    let mut any = false;
    for &flag in flags {
        any |= flag;
    }
    any
}

/// Puts zeros in the place of the values whose flag is set.
#[inline(always)]
pub(super) fn zero_where<T: Real, const G: usize>(values: &mut [T; G], flags: &[bool; G]) {
    for k in 0..G {
        values[k] = values[k].zero_if(flags[k]);
    }
}

/// The `G` elements from `i` on.
#[inline(always)]
pub(super) fn group<T, const G: usize>(array: &[T], i: usize) -> &[T; G] {
    array[i..i + G].try_into().expect("invariant: the slice has G elements")
}

/// As `group`.
#[inline(always)]
pub(super) fn group_mut<T, const G: usize>(array: &mut [T], i: usize) -> &mut [T; G] {
    (&mut array[i..i + G]).try_into().expect("invariant: the slice has G elements")
}
