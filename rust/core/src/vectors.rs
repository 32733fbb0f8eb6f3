//! Vectors whose length a caller chooses. `vec![]` and `collect` abort the process if there is no memory for so many
//! values; these functions return an error instead.

use crate::error::{Error, Result};
use crate::memory::Storage;

/// Requests of fewer bytes than this are like any other small allocation, which ends the process when there is no memory.
const SMALL: u128 = 64 << 10;
/// Requests of at least this many bytes are compared with the memory of the machine, as the system may grant more than it has.
const LARGE: u128 = 256 << 20;

/// Returns the product of `amounts`, such as the number of rows and the bytes of a row.
///
/// # Errors
/// [`Error::Room`] when the product is above `isize::MAX`, the most bytes that an allocation may have.
pub fn product(amounts: &[usize]) -> Result<usize> {
    if amounts.contains(&0) {
        return Ok(0); // whatever the others are
    }
    let product = amounts.iter().try_fold(1_usize, |product, &amount| product.checked_mul(amount));
    product.filter(|&product| product <= isize::MAX as usize).ok_or_else(|| {
        let needed = amounts.iter().fold(1_u128, |product, &amount| product.saturating_mul(amount as u128));
        Error::Room { needed }
    })
}

/// Returns the sum of two amounts.
///
/// # Errors
/// As [`product`].
pub fn sum(one: usize, other: usize) -> Result<usize> {
    let sum = one.checked_add(other).filter(|&sum| sum <= isize::MAX as usize);
    sum.ok_or(Error::Room { needed: one as u128 + other as u128 })
}

/// Returns an empty vector with room for `length` values.
///
/// # Errors
/// [`Error::Room`] with the bytes needed, when they cannot be allocated.
pub fn with_room<T>(length: usize) -> Result<Vec<T>> {
    let needed = length as u128 * size_of::<T>() as u128;
    if needed < SMALL {
        return Ok(Vec::with_capacity(length));
    }
    let fits = needed < LARGE || (needed <= isize::MAX as u128 && Storage::Ram.check("this", needed).is_ok());
    let mut vector = Vec::new();
    if !fits || vector.try_reserve_exact(length).is_err() {
        return Err(Error::Room { needed });
    }
    Ok(vector)
}

/// Returns a vector of `length` clones of `value`.
///
/// # Errors
/// As [`with_room`].
pub fn filled<T: Clone>(value: T, length: usize) -> Result<Vec<T>> {
    let mut vector = with_room(length)?;
    vector.resize(length, value);
    Ok(vector)
}

/// Returns a vector of the values of an iterator of known length.
///
/// # Errors
/// As [`with_room`].
pub fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut vector = with_room(values.len())?;
    vector.extend(values);
    Ok(vector)
}

/// Returns a copy of `values`.
///
/// # Errors
/// As [`with_room`].
pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut vector = with_room(values.len())?;
    vector.extend_from_slice(values);
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_can_hold_is_an_error_that_says_the_bytes() {
        for (length, bytes) in [(10_000_000_000_000, "80000000000000"), (1 << 61, "18446744073709551616")] {
            let error = filled(0_u64, length).unwrap_err().to_string();
            assert!(error.contains(bytes), "{error}");
            assert!(with_room::<u64>(length).is_err());
        }
        assert!(collected(std::iter::repeat_n(0_u8, usize::MAX)).is_err());
    }

    #[test]
    fn small_ones_are_as_usual() {
        assert_eq!(filled(7, 3).unwrap(), [7; 3]);
        assert_eq!(collected([1_u8, 2].into_iter()).unwrap(), [1, 2]);
        assert_eq!(copied(&[1.5, 2.5]).unwrap(), [1.5, 2.5]);
    }

    #[test]
    fn products_and_sums_end_at_the_largest_memory() {
        assert_eq!((product(&[3, 4]).unwrap(), product(&[]).unwrap()), (12, 1));
        assert_eq!(product(&[usize::MAX, 0, 2]).unwrap(), 0);
        assert_eq!(product(&[isize::MAX as usize]).unwrap(), isize::MAX as usize);
        assert!(product(&[1 << 32, 1 << 31]).is_err() && product(&[usize::MAX; 3]).is_err());
        assert!(sum(isize::MAX as usize, 1).is_err() && sum(usize::MAX, usize::MAX).is_err());
        assert_eq!(sum(2, 3).unwrap(), 5);
    }
}
