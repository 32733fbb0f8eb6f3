//! Memory of large outputs, which is used again after an output is freed.
//!
//! The system's allocator may return a large block to the system each time, and the page faults of a fresh block cost more than
//! filling it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::memory::{Region, Storage};

/// Outputs of at least this many bytes should come from [`OUTPUTS`]. Smaller ones are faster from the system's
/// allocator.
pub const LARGE: usize = 1 << 20;

/// The recycler of this process's outputs.
pub static OUTPUTS: Recycler = Recycler::new(16, 64 << 20);

/// A cache of free blocks of memory. Their number and their bytes are bounded; the oldest blocks are freed first.
#[derive(Debug)]
pub struct Recycler {
    free: Mutex<Vec<Arc<Region>>>,
    max_blocks: usize,
    max_bytes: usize,
}

/// A block of memory, which returns to its recycler when it is dropped.
#[derive(Debug)]
pub struct Block {
    region: Option<Arc<Region>>,
    recycler: &'static Recycler,
}

impl Recycler {
    /// Returns a recycler that keeps at most `max_blocks` free blocks of `max_bytes` bytes in all.
    #[must_use]
    pub const fn new(max_blocks: usize, max_bytes: usize) -> Self {
        Self { free: Mutex::new(Vec::new()), max_blocks, max_bytes }
    }

    /// Returns a block of at least `bytes` bytes with any content. A recycled block has at most 1.5 times as many.
    ///
    /// # Errors
    /// `Memory` when the system has no room for a new block.
    pub fn block(&'static self, bytes: usize) -> Result<Block> {
        let region = match self.used_before(bytes) {
            Some(region) => region,
            None => Region::zeroed(bytes, &Storage::Ram)?,
        };
        Ok(Block { region: Some(region), recycler: self })
    }

    fn used_before(&self, bytes: usize) -> Option<Arc<Region>> {
        let mut free = self.free.lock();
        let fits = |region: &Arc<Region>| region.len() >= bytes && region.len() <= bytes + bytes / 2;
        free.iter().rposition(fits).map(|at| free.remove(at))
    }

    fn give_back(&self, region: Arc<Region>) {
        if region.len() > self.max_bytes {
            return;
        }
        let mut free = self.free.lock();
        free.push(region);
        let mut bytes: usize = free.iter().map(|region| region.len()).sum();
        let mut oldest = 0;
        while free.len() - oldest > self.max_blocks || bytes > self.max_bytes {
            bytes -= free[oldest].len();
            oldest += 1;
        }
        let dropped: Vec<_> = free.drain(..oldest).collect();
        drop(free); // unlocks before memory returns to the system
        drop(dropped);
    }
}

impl Block {
    /// Returns the address of the first byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.region.as_ref().expect("invariant: a block has its region until it is dropped").base()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.recycler.give_back(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn free(recycler: &Recycler) -> Vec<usize> {
        recycler.free.lock().iter().map(|region| region.len()).collect()
    }

    #[test]
    fn a_block_of_a_like_size_is_used_again() {
        static RECYCLER: Recycler = Recycler::new(4, 100 * PAGE);
        let first = RECYCLER.block(10 * PAGE).unwrap().base();
        assert_eq!(RECYCLER.block(8 * PAGE).unwrap().base(), first);
        let (again, other) = (RECYCLER.block(10 * PAGE).unwrap(), RECYCLER.block(10 * PAGE).unwrap());
        assert_eq!(again.base(), first);
        assert_ne!(other.base(), first);
    }

    #[test]
    fn a_block_that_is_too_small_or_too_large_is_not_used() {
        static RECYCLER: Recycler = Recycler::new(4, 100 * PAGE);
        drop(RECYCLER.block(10 * PAGE).unwrap());
        let (larger, smaller) = (RECYCLER.block(11 * PAGE).unwrap(), RECYCLER.block(6 * PAGE).unwrap());
        assert_eq!(free(&RECYCLER), [10 * PAGE]);
        drop((larger, smaller));
        assert_eq!(free(&RECYCLER), [10 * PAGE, 11 * PAGE, 6 * PAGE]);
    }

    #[test]
    fn the_oldest_blocks_go_beyond_the_number() {
        static RECYCLER: Recycler = Recycler::new(2, 100 * PAGE);
        let blocks = [1, 3, 9].map(|pages| RECYCLER.block(pages * PAGE).unwrap());
        for block in blocks {
            drop(block);
        }
        assert_eq!(free(&RECYCLER), [3 * PAGE, 9 * PAGE]);
    }

    #[test]
    fn the_oldest_blocks_go_beyond_the_bytes_and_huge_ones_are_never_kept() {
        static RECYCLER: Recycler = Recycler::new(9, 10 * PAGE);
        let blocks = [2, 4, 6, 11].map(|pages| RECYCLER.block(pages * PAGE).unwrap());
        for block in blocks {
            drop(block);
        }
        assert_eq!(free(&RECYCLER), [4 * PAGE, 6 * PAGE]);
    }
}
