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
