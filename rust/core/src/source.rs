//! Where rows come from.

/// The source of the rows of one leaf: row `k` begins at `ptr + k * stride`. A null pointer stands for zeros.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The address of row 0.
    pub ptr: *const u8,
    /// Bytes from one row to the next.
    pub stride: isize,
    /// The numbers of the frames of all rows, in order: see `replay::recognition`. Null if they have none.
    pub numbers: *const u64,
}

// SAFETY: the addresses are followed only by functions whose callers promise that they are good.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl Source {
    /// A source of zeros.
    pub const ZEROS: Self = Self::rows(std::ptr::null(), 0);

    /// Returns a source of rows that begin `stride` bytes apart, without numbers.
    #[must_use]
    #[inline]
    pub const fn rows(ptr: *const u8, stride: isize) -> Self {
        Self { ptr, stride, numbers: std::ptr::null() }
    }

    /// Returns the address of row `k`.
    #[must_use]
    #[inline]
    pub fn row(self, k: usize) -> *const u8 {
        if self.ptr.is_null() { self.ptr } else { self.ptr.wrapping_offset(self.stride * k as isize) }
    }

    /// Returns the lowest address of `rows` rows of `bytes` bytes, and the address after the highest.
    #[inline(always)]
    pub(crate) fn addresses(self, bytes: usize, rows: usize) -> (usize, usize) {
        let one = self.ptr.addr();
        let other = one.wrapping_add_signed(self.stride.wrapping_mul(rows as isize - 1));
        (one.min(other), one.max(other).wrapping_add(bytes))
    }
}

/// Whether two shapes are the same.
// Slices are compared by `memcmp`, which takes a hundred nanoseconds for the addresses that empty ones have.
#[must_use]
#[inline(always)]
pub fn is_shape(dims: &[usize], shape: &[usize]) -> bool {
    dims.len() == shape.len() && dims.iter().zip(shape).all(|(dim, length)| dim == length)
}

/// Whether elements of axes with these lengths and strides stand in C order without gaps.
#[must_use]
pub fn is_packed(dims: &[usize], strides: &[isize], itemsize: usize) -> bool {
    let mut expected = itemsize as isize;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected *= dim as isize;
    }
    true
}

/// The strides of an array in C order without gaps.
#[must_use]
pub fn packed_strides(dims: &[usize], itemsize: usize) -> Vec<isize> {
    let mut strides = vec![itemsize as isize; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(dims[axis] as isize);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_without_gaps_have_packed_strides() {
        for (dims, wanted) in [(&[][..], &[][..]), (&[3], &[8]), (&[2, 3, 4], &[96, 32, 8])] {
            assert_eq!(packed_strides(dims, 8), wanted);
            assert!(is_packed(dims, wanted, 8));
        }
        assert!(is_shape(&[], &[]) && is_shape(&[2, 3], &[2, 3]) && !is_shape(&[2], &[]) && !is_shape(&[2], &[3]));
        assert!(is_packed(&[1, 2], &[99, 8], 8), "an axis of one element has no gaps");
        assert!(!is_packed(&[2, 2], &[24, 8], 8) && !is_packed(&[2], &[-8], 8));
    }
}
