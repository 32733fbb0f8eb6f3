//! Generalized advantage estimation.

use super::recurrence::{Increments, Recurrence, group, zero_where};
use super::{Column, Ends, Real};
use crate::simd;

/// Writes the advantages of generalized advantage estimation (Schulman et al., arXiv:1506.02438, eq. 16) into
/// `advantages`: `A[t] = delta[t] + gamma lambda A[t+1]` with `delta[t] = r[t] + gamma V(next obs) - V(obs)` of eq. 10.
///
/// `next_values[t]` is the value of the observation after step `t`, also where the episode was truncated there.
///
/// # Panics
/// If the lengths differ.
///
/// ```
/// use rlfast_core::returns::{Ends, gae};
/// let (terminated, truncated) = ([false; 3], [false, true, false]);
/// let mut advantages = [0.0_f64; 3];
/// let ends = Ends::new(&terminated, Some(&truncated), 1);
/// gae(&[1.0; 3], &[0.5; 3], &[0.5, 10.0, 0.5], ends, 0.9, 0.8, &mut advantages);
/// assert!((advantages[0] - 7.79).abs() < 1e-12 && advantages[1] == 9.5);
/// ```
pub fn gae<T: Real>(
    rewards: &[T],
    values: &[T],
    next_values: &[T],
    ends: Ends<'_>,
    gamma: f64,
    gae_lambda: f64,
    advantages: &mut [T],
) {
    ends.assert_same_len(&[rewards, values, next_values, advantages]);
    let deltas = Deltas { rewards, values, next_values, ends, gamma: T::from_f64(gamma) };
    simd::run(Recurrence { increments: deltas, ends, decay: T::from_f64(gamma * gae_lambda), x: advantages });
}

/// The temporal differences `delta[t]` of [`gae`].
#[derive(Clone, Copy)]
pub(super) struct Deltas<'a, T, R, V, N> {
    pub rewards: R,
    pub values: V,
    pub next_values: N,
    pub ends: Ends<'a>,
    pub gamma: T,
}

impl<T: Real, R: Column<T>, V: Column<T>, N: Column<T>> Increments<T> for Deltas<'_, T, R, V, N> {
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        Self {
            rewards: self.rewards.of_len(len),
            values: self.values.of_len(len),
            next_values: self.next_values.of_len(len),
            ends: self.ends.of_len(len),
            ..self
        }
    }

    #[inline(always)]
    fn group<const G: usize>(&self, i: usize, ends: bool) -> [T; G] {
        let (rewards, values) = (self.rewards.group::<G>(i), self.values.group::<G>(i));
        let mut deltas = self.next_values.group::<G>(i);
        if ends {
            zero_where(&mut deltas, group(self.ends.terminated, i));
        }
        for k in 0..G {
            deltas[k] = rewards[k] + self.gamma * deltas[k] - values[k];
        }
        deltas
    }
}
