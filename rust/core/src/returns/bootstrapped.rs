//! The last step of n-step returns: adding the discounted bootstrap value to the sums of rewards.

use super::Real;
use crate::error::{Result, value_error};

/// Checks the shapes of sums, discounts and next values for [`bootstrapped`].
///
/// # Errors
/// `Value` unless they are `[B]`, `[B]` and `[B, M]`.
pub fn check_bootstrapped([sums, discounts, next_values]: [&[usize]; 3]) -> Result<()> {
    if next_values.len() == 2 && sums == &next_values[..1] && discounts == sums {
        return Ok(());
    }
    value_error!(
        "got sums {sums:?}, discounts {discounts:?} and next_values {next_values:?}, wanted [B], [B] and [B, M]"
    )
}

/// Writes `out[i, j] = sums[i] + discounts[i] * next_values[i, j]`, computed in `T`. Where the discount is 0, because
/// the last state is terminal, the next value has no effect, not even NaN.
///
/// # Panics
/// If `out` and `next_values` differ in length, `sums` and `discounts` do, or `next_values` is no multiple of `sums`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sum_has_a_discount_and_a_row_of_values() {
        assert!(check_bootstrapped([&[3], &[3], &[3, 2]]).is_ok());
        for shapes in [[&[3][..], &[3], &[3]], [&[3], &[2], &[3, 2]], [&[2], &[2], &[3, 2]], [&[3, 1], &[3], &[3, 2]]] {
            assert!(check_bootstrapped(shapes).is_err(), "{shapes:?}");
        }
    }
}
