//! Discounted returns.

use super::{Ends, Real};

/// Discounted returns `G[t] = r[t] + gamma G[t+1]` (Sutton and Barto, 2018, eq. 3.9) into `returns`.
///
/// Where an episode is cut, by truncation or by the last row, `gamma next_values[t]` stands for the rest of it; without
/// `next_values` the rest counts as nothing.
///
/// # Panics
/// If the lengths differ.
pub fn discounted<T: Real>(rewards: &[T], next_values: Option<&[T]>, ends: Ends<'_>, gamma: f64, returns: &mut [T]) {
    ends.assert_same_len(&[rewards, next_values.unwrap_or(rewards), returns]);
    let gamma = T::from_f64(gamma);
    for block in ends.blocks_backwards() {
        returns[block.clone()].copy_from_slice(&rewards[block.clone()]);
        if let Some(next_values) = next_values {
            for i in block.clone() {
                let cut = ends.at(i) & !ends.terminated[i];
                returns[i] = if cut { rewards[i] + gamma * next_values[i] } else { rewards[i] };
            }
        }
        ends.accumulate(returns, block, gamma);
    }
}
