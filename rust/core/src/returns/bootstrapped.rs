//! The last step of n-step returns: what follows is added to sums of rewards.

use super::Real;

/// `out[i, j] = sums[i] + discounts[i] * next_values[i, j]`, computed in `T`. Where the discount is 0, what follows is not read:
/// the last state was terminal.
///
/// # Panics
/// If `out` is not as long as `next_values`, or that is no multiple of the number of sums and discounts.
pub fn bootstrapped<T: Real>(sums: &[f64], discounts: &[f64], next_values: &[T], out: &mut [T]) {
    assert!(sums.len() == discounts.len() && next_values.len() == out.len(), "arrays of different lengths");
    let columns = next_values.len().checked_div(sums.len()).unwrap_or(0);
    assert_eq!(next_values.len(), columns * sums.len(), "rows of different lengths");
    if columns == 0 {
        return;
    }
    let rows = next_values.chunks_exact(columns).zip(out.chunks_exact_mut(columns));
    for ((next, out), (&sum, &discount)) in rows.zip(sums.iter().zip(discounts)) {
        let (sum, discount) = (T::from_f64(sum), T::from_f64(discount));
        for (out, &value) in out.iter_mut().zip(next) {
            *out = sum + discount * value.zero_if(discount == T::ZERO);
        }
    }
}
