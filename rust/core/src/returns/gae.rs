//! Generalized advantage estimation.

use super::{Ends, Real};

/// Advantages by generalized advantage estimation (Schulman et al., arXiv:1506.02438, eq. 16) into `advantages`:
/// `A[t] = delta[t] + gamma lambda A[t+1]` with `delta[t] = r[t] + gamma V(next obs) - V(obs)` of eq. 10.
///
/// `next_values[t]` is the value of the observation that step `t` led to, also where the episode was truncated there.
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
    let (discount, decay) = (T::from_f64(gamma), T::from_f64(gamma * gae_lambda));
    for block in ends.blocks_backwards() {
        let deltas = &mut advantages[block.clone()];
        let steps = rewards[block.clone()].iter().zip(&values[block.clone()]);
        let follow = next_values[block.clone()].iter().zip(&ends.terminated[block.clone()]);
        for ((delta, (&reward, &value)), (&next_value, &terminated)) in deltas.iter_mut().zip(steps).zip(follow) {
            let next_value = if terminated { T::ZERO } else { next_value };
            *delta = reward + discount * next_value - value;
        }
        ends.accumulate(advantages, block, decay);
    }
}
