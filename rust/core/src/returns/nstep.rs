//! N-step returns along a roll-out.

use super::{Ends, Real};

/// N-step returns (Sutton and Barto, 2018, eq. 7.1) into `returns`: the discounted rewards of the next `n_step` steps of the
/// episode, as many as there are, plus `gamma^k` times the value of the observation after the last of them, where `k` is
/// how many there were; nothing after termination.
///
/// # Panics
/// If the lengths differ or `n_step` is 0.
pub fn nstep<T: Real>(rewards: &[T], next_values: &[T], ends: Ends<'_>, n_step: usize, gamma: f64, returns: &mut [T]) {
    ends.assert_same_len(&[rewards, next_values, returns]);
    assert!(n_step > 0, "at least one step");
    let gamma = T::from_f64(gamma);
    let one_step = |i: usize| {
        let next_value = if ends.terminated[i] { T::ZERO } else { next_values[i] };
        rewards[i] + gamma * next_value
    };
    for (i, target) in returns.iter_mut().enumerate() {
        *target = one_step(i);
    }
    let columns = ends.columns;
    let inner = ends.len().saturating_sub(columns);
    // The (m + 1)-step return is one reward and the m-step return of the next step. In ascending order the next step is
    // still the m-step one, so each pass works in place and without a chain.
    for _ in 1..n_step.min(ends.len() / columns) {
        for i in 0..inner {
            let longer = rewards[i] + gamma * returns[i + columns];
            returns[i] = if ends.terminated[i] | ends.truncated[i] { returns[i] } else { longer };
        }
    }
}
