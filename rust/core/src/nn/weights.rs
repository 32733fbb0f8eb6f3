//! Numbers of somebody else.

use std::fmt;
use std::ptr::NonNull;

/// Numbers that somebody else keeps, such as a tensor.
#[derive(Clone, Copy)]
pub struct Weights {
    data: NonNull<f32>,
    len: usize,
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} numbers", self.len)
    }
}

// SAFETY: they are only read, by functions whose callers keep them alive.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

impl Weights {
    /// Returns the `len` numbers at `data`; None for an address that no float can have.
    ///
    /// # Safety
    /// The numbers stay there as long as networks of them are used. Others may change them meanwhile; a pass that runs
    /// at the same time may then see some old and some new numbers.
    #[must_use]
    pub unsafe fn new(data: *const f32, len: usize) -> Option<Self> {
        NonNull::new(data.cast_mut()).filter(|data| data.is_aligned()).map(|data| Self { data, len })
    }

    pub(super) fn data(&self) -> *const f32 {
        self.data.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
