//! Side rows: the `obs_next` of rows whose next row has another `obs` (the newest row of each ring, the ends of
//! episodes, and data whose observations do not continue). They are few, so their store grows in chunks.

use crate::error::Result;
use crate::memory::Storage;
use crate::replay::slabs::{Chunk, Slabs};

const CHUNK: usize = 64 << 10;

/// A pool of side rows.
#[derive(Debug)]
pub struct SideStore {
    stride: usize,
    shift: u32,
    slabs: Slabs,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    next: u32,
}

impl SideStore {
    /// Returns an empty pool of rows of `stride` bytes.
    #[must_use]
    pub fn new(stride: usize, storage: Storage) -> Self {
        let shift = (CHUNK / stride).max(16).ilog2();
        let slabs = Slabs::new(stride << shift, 0, storage);
        Self { stride, shift, slabs, chunks: Vec::new(), free: Vec::new(), next: 0 }
    }

    /// Reserves room for `count` more rows.
    ///
    /// # Errors
    /// When the system has no more room.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let fresh = count.saturating_sub(self.free.len());
        while (self.next as usize + fresh) > self.chunks.len() << self.shift {
            self.chunks.extend(self.slabs.map()?);
        }
        Ok(())
    }

    /// Returns a free row, for which `reserve` has made room. The row that was freed last comes first, as it is
    /// probably in the cache.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Frees a row.
    pub fn put(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Returns the address of a row.
    #[must_use]
    #[inline]
    pub fn at(&self, id: u32) -> *mut u8 {
        let inside = (id & ((1 << self.shift) - 1)) as usize;
        self.chunks[(id >> self.shift) as usize].at(inside * self.stride)
    }

    /// Returns the bytes used in memory or on disk.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let touched = (self.next as usize).div_ceil(1 << self.shift);
        self.slabs.chunk_bytes() * if self.slabs.is_on_disk() { self.chunks.len() } else { touched }
    }
}
