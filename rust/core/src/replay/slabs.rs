//! Chunks of memory of one size for stores that grow.
//!
//! Several chunks are mapped at a time, and more each time, as a system bounds the number of mappings of a process.

use std::sync::Arc;

use crate::error::Result;
use crate::memory::{Region, Storage};

/// The fewest chunks that are mapped at once in memory, where a chunk takes no room until it is written.
const AHEAD: usize = 16;
/// The most bytes that are mapped at once, unless [`AHEAD`] chunks are more.
const LARGEST: usize = 64 << 20;

/// A part of a slab, which is one mapping.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    slab: Arc<Region>,
    offset: usize,
}

impl Chunk {
    /// Returns the address of a byte of the chunk.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.slab.at(self.offset + offset)
    }
}

/// A source of chunks.
#[derive(Debug)]
pub(crate) struct Slabs {
    bytes: usize,
    dense: usize,
    mapped: usize,
    storage: Storage,
}

impl Slabs {
    /// Returns a source of chunks of `bytes` bytes. The first `dense` of them are on huge pages, which suit chunks that will all
    /// be written.
    pub fn new(bytes: usize, dense: usize, storage: Storage) -> Self {
        Self { bytes, dense, mapped: 0, storage }
    }

    /// Returns the bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether chunks are on disk, where a chunk takes room before it is written.
    pub fn is_on_disk(&self) -> bool {
        self.storage.is_on_disk()
    }

    /// Returns the number of chunks mapped so far.
    pub fn mapped(&self) -> usize {
        self.mapped
    }

    /// Maps at least one more chunk, and returns the new ones. A slab is half as large as all slabs before it together,
    /// within the bounds above.
    ///
    /// # Errors
    /// When the system has no more room; nothing is changed then.
    pub fn map(&mut self) -> Result<impl DoubleEndedIterator<Item = Chunk> + use<>> {
        let least = if self.is_on_disk() { 1 } else { AHEAD };
        let count = (self.mapped / 2).min(LARGEST / self.bytes).max(least);
        let (count, map): (_, fn(usize, &Storage) -> _) = match self.dense.saturating_sub(self.mapped) {
            0 => (count, Region::sparse),
            left => (count.min(left), Region::zeroed),
        };
        let slab = map(self.bytes * count, &self.storage)?;
        self.mapped += count;
        let bytes = self.bytes;
        Ok((0..count).map(move |k| Chunk { slab: slab.clone(), offset: k * bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files to map")]
    fn chunks_on_disk_are_mapped_few_times_and_not_far_ahead() {
        let folder = std::env::temp_dir().join(format!("rlfast-slabs-{}", std::process::id()));
        let mut slabs = Slabs::new(64 << 10, 0, Storage::file(&folder).unwrap());
        let (mut maps, mut used) = (0, 0);
        while used < 3000 {
            used += slabs.map().unwrap().count();
            maps += 1;
        }
        assert_eq!(used, slabs.mapped());
        assert!(maps < 25, "{maps} mappings");
        assert!(used <= 4000, "{used} chunks where 3000 were wanted");
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn huge_pages_hold_only_chunks_that_will_be_written() {
        let mut slabs = Slabs::new(8, 20, Storage::Ram);
        let counts = [(); 3].map(|()| slabs.map().unwrap().count());
        assert_eq!(counts, [AHEAD, 20 - AHEAD, AHEAD]);
    }

    #[test]
    fn chunks_do_not_overlap() {
        let mut slabs = Slabs::new(8, 20, Storage::Ram);
        let chunks: Vec<Chunk> = slabs.map().unwrap().chain(slabs.map().unwrap()).collect();
        for (k, chunk) in chunks.iter().enumerate() {
            // SAFETY: a chunk has eight bytes.
            unsafe { chunk.at(0).cast::<u64>().write(k as u64) };
        }
        for (k, chunk) in chunks.iter().enumerate() {
            // SAFETY: as above.
            assert_eq!(unsafe { chunk.at(0).cast::<u64>().read() }, k as u64);
        }
    }
}
