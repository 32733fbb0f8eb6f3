//! V-trace targets and advantages.

use super::{Ends, Real};

/// The discount and the bounds of V-trace (Espeholt et al., arXiv:1802.01561, section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct VTrace {
    /// Discount factor.
    pub gamma: f64,
    /// The lambda of remark 2; 1 gives the V-trace of eq. 1.
    pub trace_lambda: f64,
    /// Bound of the importance ratio in the temporal differences. It determines the policy whose values are learned.
    pub rho_bar: f64,
    /// Bound of the importance ratio in the traces. It determines how fast the values are learned.
    pub c_bar: f64,
}

impl VTrace {
    /// Returns the weights `(rho, c)` of a step from the logarithm of its importance ratio.
    fn weights<T: Real>(&self, log_ratio: T) -> (T, T) {
        let ratio = log_ratio.exp();
        let clip = |bound: f64| {
            let bound = T::from_f64(bound);
            if ratio > bound { bound } else { ratio }
        };
        (clip(self.rho_bar), T::from_f64(self.trace_lambda) * clip(self.c_bar))
    }
}

/// Writes the V-trace targets (arXiv:1802.01561, eq. 1, in the recursive form of remark 1) into `targets`, and the
/// advantages `rho (r + gamma v[t+1] - V(obs))` of the policy gradient (section 4.2) into `advantages`.
///
/// `log_ratios` are `log pi(a|obs) - log mu(a|obs)` of the learner's policy `pi` and the actor's policy `mu`.
///
/// # Panics
/// If the lengths differ.
#[expect(clippy::too_many_arguments, reason = "the arrays of a roll-out")]
pub fn vtrace<T: Real>(
    rewards: &[T],
    values: &[T],
    next_values: &[T],
    log_ratios: &[T],
    ends: Ends<'_>,
    options: VTrace,
    targets: &mut [T],
    advantages: &mut [T],
) {
    ends.assert_same_len(&[rewards, values, next_values, log_ratios, targets, advantages]);
    let gamma = T::from_f64(options.gamma);
    for i in (0..ends.len()).rev() {
        let (rho, trace) = options.weights(log_ratios[i]);
        let next_value = if ends.terminated[i] { T::ZERO } else { next_values[i] };
        let delta = rho * (rewards[i] + gamma * next_value - values[i]);
        let (next_target, correction) = if ends.is_last(i) {
            (next_value, delta)
        } else {
            let next_target = targets[i + ends.columns];
            (next_target, delta + gamma * trace * (next_target - next_value))
        };
        targets[i] = values[i] + correction;
        advantages[i] = rho * (rewards[i] + gamma * next_target - values[i]);
    }
}
