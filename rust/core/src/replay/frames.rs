//! The frames of one ring, each stored once.
//!
//! A row refers to its frames by number. Numbers ascend in the order of arrival and wrap at 2^32. A row refers to
//! frames of the row before it or to new ones, so the smallest number of a row is never less than that of the row
//! before. Frames are therefore freed in the order of their arrival, and the store is a queue of chunks.

use std::collections::VecDeque;

use crate::error::Result;
use crate::memory::{self, Storage};
use crate::replay::slabs::{Chunk, Slabs};

/// The most bytes of a chunk.
const CHUNK: usize = 4 << 20;
/// The approximate number of chunks of all rings together when they are full, so that the free part of each ring's
/// newest chunk is small beside the rest.
const CHUNKS: usize = 4096;

/// Rings with at least this many bytes of frames use huge pages. In smaller ones a half-filled huge page would waste
/// too much memory.
const HUGE_RING: usize = 256 << 20;

/// The frames of one ring and one leaf.
#[derive(Debug)]
pub struct FrameStore {
    frame: usize,
    shift: u32,
    /// Number of the oldest frame that a row may refer to.
    tail: u32,
    /// Number of the next frame.
    head: u32,
    /// Chunk number of `chunks[0]`.
    first: u32,
    chunks: VecDeque<Chunk>,
    /// Free chunks: those that never held frames, then those whose frames were freed.
    spare: Vec<Chunk>,
    /// How many of `spare` never held frames, and so take no memory.
    fresh: usize,
    slabs: Slabs,
}

impl FrameStore {
    /// Returns an empty store of frames of `frame` bytes for one of `rings` rings, which has `capacity` rows.
    #[must_use]
    pub fn new(frame: usize, capacity: usize, rings: usize, storage: Storage) -> Self {
        // More chunks waste more bytes in their last pages; fewer waste more in the newest chunk.
        let chunks = (CHUNKS / rings).clamp(16, 96);
        let wanted = (CHUNK / frame).min(capacity / chunks).max(16);
        let shift = wanted.ilog2();
        Self {
            frame,
            shift,
            tail: 0,
            head: 0,
            first: 0,
            chunks: VecDeque::new(),
            spare: Vec::new(),
            fresh: 0,
            slabs: Slabs::new(frame << shift, frame * capacity >= HUGE_RING, storage),
        }
    }

    /// Returns the bytes of a frame.
    #[must_use]
    pub fn frame(&self) -> usize {
        self.frame
    }

    /// Returns the number of stored frames.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    /// Returns the number of the oldest frame.
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns the bytes used in memory or on disk.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        (self.slabs.mapped() - self.fresh) * self.slabs.chunk_bytes()
    }

    /// Reserves room for `count` more frames, so that `push` cannot fail halfway through a row.
    ///
    /// # Errors
    /// When the system has no more room.
    pub fn reserve(&mut self, count: u32) -> Result<()> {
        if self.chunks.is_empty() {
            self.first = self.head >> self.shift;
        }
        let last = self.head.wrapping_add(count).wrapping_sub(1);
        while self.chunk_at(last) >= self.chunks.len() {
            if self.spare.is_empty() {
                self.spare.extend(self.slabs.map()?.rev());
                self.fresh = if self.slabs.is_on_disk() { 0 } else { self.spare.len() };
            }
            self.fresh = self.fresh.min(self.spare.len() - 1);
            let chunk = self.spare.pop().expect("invariant: a slab has chunks");
            self.chunks.push_back(chunk);
        }
        Ok(())
    }

    /// Stores a frame, for which `reserve` has made room, and returns its number.
    ///
    /// # Safety
    /// `src` is readable for a frame.
    pub unsafe fn push(&mut self, src: *const u8) -> u32 {
        let id = self.head;
        // SAFETY: `at` gives a whole frame of a chunk that `reserve` made; the caller promises `src`.
        unsafe { memory::copy(src, self.at(id), self.frame) };
        self.head = id.wrapping_add(1);
        id
    }

    /// Returns the address of a frame.
    #[must_use]
    #[inline]
    pub fn at(&self, id: u32) -> *mut u8 {
        let inside = (id & ((1 << self.shift) - 1)) as usize;
        let chunk = &self.chunks[self.chunk_at(id)];
        chunk.at(inside * self.frame)
    }

    #[inline]
    fn chunk_at(&self, id: u32) -> usize {
        ((id >> self.shift).wrapping_sub(self.first) & (u32::MAX >> self.shift)) as usize
    }

    /// Frees all frames before `tail`.
    pub fn release(&mut self, tail: u32) {
        debug_assert!(tail.wrapping_sub(self.tail) <= self.count(), "invariant: frames die in order");
        self.tail = tail;
        let dead = self.chunk_at(tail).min(self.chunks.len());
        for _ in 0..dead {
            self.spare.extend(self.chunks.pop_front());
            self.first = self.first.wrapping_add(1) & (u32::MAX >> self.shift);
        }
    }

    /// Frees all frames; the next one has the number `start`.
    pub fn restart(&mut self, start: u32) {
        self.spare.extend(self.chunks.drain(..));
        self.tail = start;
        self.head = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wrap_of_their_numbers() {
        let mut store = FrameStore::new(256, 64, 1, Storage::Ram);
        store.restart(u32::MAX - 30);
        let mut live = VecDeque::new();
        for k in 0..200_u8 {
            store.reserve(2).unwrap();
            let frame = [k; 256];
            // SAFETY: `frame` is 256 bytes.
            live.push_back((unsafe { store.push(frame.as_ptr()) }, k));
            if live.len() > 20 {
                live.pop_front();
                store.release(live[0].0);
            }
            assert_eq!(store.count() as usize, live.len());
            for &(id, value) in &live {
                // SAFETY: a held frame of 256 bytes.
                assert!(unsafe { memory::equal(store.at(id), [value; 256].as_ptr(), 256) });
            }
        }
        assert!(store.nbytes() <= 4 * 16 * 256);
    }
}
