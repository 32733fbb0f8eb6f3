//! N-step returns along a roll-out.

use super::recurrence::{group, group_mut};
use super::{Ends, Real};
use crate::simd::{self, Kernel};

/// Writes the n-step returns (Sutton and Barto, 2018, eq. 7.1) into `returns`: the discounted sum of the rewards of the
/// next `k <= n_step` steps that the episode has, plus `gamma^k` times the value of the observation after the last of
/// them, unless that step terminated the episode.
///
/// # Panics
/// If the lengths differ or `n_step` is 0.
pub fn nstep<T: Real>(rewards: &[T], next_values: &[T], ends: Ends<'_>, n_step: usize, gamma: f64, returns: &mut [T]) {
    ends.assert_same_len(&[rewards, next_values, returns]);
    assert!(n_step > 0, "at least one step");
    simd::run(NStep { rewards, next_values, ends, n_step, gamma: T::from_f64(gamma), returns });
}

struct NStep<'a, T> {
    rewards: &'a [T],
    next_values: &'a [T],
    ends: Ends<'a>,
    n_step: usize,
    gamma: T,
    returns: &'a mut [T],
}

impl<T: Real> Kernel for NStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        // States the common length, so that the optimiser drops bounds checks.
        let len = self.ends.len();
        self.ends = self.ends.of_len(len);
        (self.rewards, self.next_values) = (&self.rewards[..len], &self.next_values[..len]);
        self.returns = &mut self.returns[..len];
        for i in 0..len {
            self.returns[i] = self.rewards[i] + self.gamma * self.next_values[i].zero_if(self.ends.terminated[i]);
        }
        // The (m + 1)-step return is a reward plus the discounted m-step return of the next step. In ascending order
        // that is not yet
        // overwritten, so each pass works in place, and its elements do not depend on one another.
        for _ in 1..self.n_step.min(len / self.ends.columns) {
            let inner = len - self.ends.columns;
            for i in (0..inner - inner % 16).step_by(16) {
                self.lengthen::<16>(i);
            }
            for i in inner - inner % 16..inner {
                self.lengthen::<1>(i);
            }
        }
    }
}

impl<T: Real> NStep<'_, T> {
    /// Turns m-step returns into (m + 1)-step returns for the `G` elements from `i` on.
    #[inline(always)]
    fn lengthen<const G: usize>(&mut self, i: usize) {
        let mut longer = *group::<T, G>(self.returns, i + self.ends.columns);
        let rewards = group::<T, G>(self.rewards, i);
        for k in 0..G {
            longer[k] = rewards[k] + self.gamma * longer[k];
        }
        let now = group_mut::<T, G>(self.returns, i);
        if !self.ends.any::<G>(i) {
            *now = longer;
            return;
        }
        let ends = self.ends.group::<G>(i);
        for k in 0..G {
            now[k] = if ends[k] { now[k] } else { longer[k] };
        }
    }
}
