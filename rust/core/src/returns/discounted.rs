//! Discounted returns.

use super::recurrence::{Increments, Recurrence, group};
use super::{Ends, Real};
use crate::simd;

/// Writes the discounted returns `G[t] = r[t] + gamma G[t+1]` (Sutton and Barto, 2018, eq. 3.9) into `returns`.
///
/// Where an episode is cut, by truncation or by the last row, `gamma next_values[t]` stands for the rest of its return;
/// without `next_values` that is 0.
///
/// # Panics
/// If the lengths differ.
pub fn discounted<T: Real>(rewards: &[T], next_values: Option<&[T]>, ends: Ends<'_>, gamma: f64, returns: &mut [T]) {
    ends.assert_same_len(&[rewards, next_values.unwrap_or(rewards), returns]);
    let gamma = T::from_f64(gamma);
    let rewards = Rewards { rewards, next_values, ends, gamma };
    simd::run(Recurrence { increments: rewards, ends, decay: gamma, x: returns });
}

/// The rewards, plus the discounted next value where an episode was cut.
#[derive(Clone, Copy)]
struct Rewards<'a, T> {
    rewards: &'a [T],
    next_values: Option<&'a [T]>,
    ends: Ends<'a>,
    gamma: T,
}

impl<T: Real> Increments<T> for Rewards<'_, T> {
    #[inline(always)]
    fn of_len(self, len: usize) -> Self {
        Self {
            rewards: &self.rewards[..len],
            next_values: self.next_values.map(|next_values| &next_values[..len]),
            ends: self.ends.of_len(len),
            ..self
        }
    }

    #[inline(always)]
    fn group<const G: usize>(&self, i: usize, ends: bool) -> [T; G] {
        let mut rewards = *group::<T, G>(self.rewards, i);
        if let Some(next_values) = self.next_values.filter(|_| ends) {
            for (k, reward) in rewards.iter_mut().enumerate() {
                if self.ends.is_last(i + k) && !self.ends.terminated[i + k] {
                    *reward = *reward + self.gamma * next_values[i + k];
                }
            }
        }
        rewards
    }
}
