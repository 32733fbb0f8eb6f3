//! The frames of one ring, each stored once.
//!
//! A row refers to its frames by number. Numbers ascend in the order of arrival and wrap at 2^32. A row refers to
//! frames of the row before it or to new ones, so the smallest number of a row is never less than that of the row
//! before. Frames are therefore freed in the order of their arrival, and the store is a queue of chunks. Where storage is packed, a
//! chunk is packed once all of its frames are behind the newest, and its memory serves the next chunk.

use std::collections::VecDeque;
use std::slice;

use crate::error::Result;
use crate::memory::{self, Codec, Storage};
use crate::pack::{Packed, Unpacker};
use crate::replay::slabs::{Chunk, Slabs};

/// The most bytes of a chunk.
const CHUNK: usize = 4 << 20;
/// The approximate number of chunks of all rings together when they are full, so that the free part of each ring's
/// newest chunk is small beside the rest.
const CHUNKS: usize = 4096;

/// Rings with at least this many bytes of frames use huge pages. In smaller ones a half-filled huge page would waste
/// too much memory.
const HUGE_RING: usize = 32 << 20;

/// The binary logarithm of the number of frames in a chunk that is to be packed. Larger chunks have fewer keys, but their frames differ
/// more from the key: of 4, 8, 16 and 32 frames, 8 and 16 are best over four games.
const PACKED_SHIFT: u32 = 3;
/// Frames behind the newest that are not packed, as the next rows are compared with them.
const BEHIND: u32 = 16;

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// In memory at this address.
    At(*const u8),
    /// In a packed chunk, at this place.
    Packed(&'a Packed, usize),
}

impl PartialEq for Frame<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::At(one), Self::At(other)) => one == other,
            (Self::Packed(one, place), Self::Packed(other, there)) => std::ptr::eq(one, other) && place == there,
            _ => false,
        }
    }
}

#[derive(Debug)]
enum Held {
    Plain(Chunk),
    Packed(Packed),
}

/// The frames of one ring and one leaf.
#[derive(Debug)]
pub struct FrameStore {
    frame: usize,
    codec: Option<Codec>,
    shift: u32,
    /// Number of the oldest frame that a row may refer to.
    tail: u32,
    /// Number of the next frame.
    head: u32,
    /// Chunk number of `chunks[0]`.
    first: u32,
    chunks: VecDeque<Held>,
    /// How many of `chunks`, from the first on, are packed or could not be.
    done: usize,
    /// Bytes of the packed chunks.
    packed: usize,
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
        let codec = storage.codec();
        let shift = if codec.is_some() { PACKED_SHIFT } else { wanted.ilog2() };
        // A row usually brings one new frame, so all of these chunks are written when the ring is full.
        let huge = codec.is_none() && frame * capacity >= HUGE_RING;
        let dense = if huge { capacity.div_ceil(1 << shift) } else { 0 };
        Self {
            frame,
            codec,
            shift,
            tail: 0,
            head: 0,
            first: 0,
            chunks: VecDeque::new(),
            done: 0,
            packed: 0,
            spare: Vec::new(),
            fresh: 0,
            slabs: Slabs::new(frame << shift, dense, storage),
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

    /// Returns the number of the next frame.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.head
    }

    /// Returns the bytes used in memory or on disk.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        (self.slabs.mapped() - self.fresh) * self.slabs.chunk_bytes() + self.packed
    }

    /// Reserves room for `count` more frames, so that `push` cannot fail halfway through a row.
    ///
    /// # Errors
    /// When the system has no more room.
    pub fn reserve(&mut self, count: u32) -> Result<()> {
        let packed = self.pack();
        self.install(packed);
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
            self.chunks.push_back(Held::Plain(chunk));
        }
        Ok(())
    }

    /// Returns how many chunks are behind the newest frames and not packed.
    #[must_use]
    pub fn due(&self) -> usize {
        if self.codec.is_none() {
            return 0;
        }
        let held = self.head.wrapping_sub(self.first << self.shift);
        ((held.saturating_sub(BEHIND) >> self.shift) as usize).min(self.chunks.len()).saturating_sub(self.done)
    }

    /// Packs the chunks that are due. None stands for a chunk for which there is no memory.
    #[must_use]
    pub fn pack(&self) -> Vec<Option<Packed>> {
        let Some(codec) = self.codec else { return Vec::new() };
        let due = self.chunks.range(self.done..self.done + self.due());
        due.map(|chunk| match chunk {
            // SAFETY: the chunk is whole, nothing but this store knows its address, and nothing writes to it during this call.
            Held::Plain(chunk) => unsafe {
                Packed::new(codec, slice::from_raw_parts(chunk.at(0), self.slabs.chunk_bytes()), self.frame)
            },
            Held::Packed(_) => None,
        })
        .collect()
    }

    /// Puts the results of `pack` in the place of the chunks. A chunk for which there was no memory stays as it is.
    pub fn install(&mut self, packed: Vec<Option<Packed>>) {
        for packed in packed {
            if let Some(packed) = packed {
                self.packed += packed.nbytes();
                if let Held::Plain(chunk) = std::mem::replace(&mut self.chunks[self.done], Held::Packed(packed)) {
                    self.spare.push(chunk);
                }
            }
            self.done += 1;
        }
    }

    /// Stores a frame, for which `reserve` has made room, and returns its number.
    ///
    /// # Safety
    /// `src` is readable for a frame.
    pub unsafe fn push(&mut self, src: *const u8) -> u32 {
        let id = self.head;
        // SAFETY: `at` gives a whole frame of a chunk that `reserve` made; the caller promises `src`.
        unsafe { memory::copy(src, self.at(id).cast_mut(), self.frame) };
        self.head = id.wrapping_add(1);
        id
    }

    /// Returns the address of a frame of a store that does not pack frames, or of one of the newest frames.
    ///
    /// # Panics
    /// If the frame is packed.
    #[must_use]
    #[inline]
    pub fn at(&self, id: u32) -> *const u8 {
        let Frame::At(at) = self.find(id) else { panic!("invariant: frame {id} is not packed") };
        at
    }

    /// Returns where a frame is.
    #[must_use]
    #[inline]
    pub fn find(&self, id: u32) -> Frame<'_> {
        let inside = (id & ((1 << self.shift) - 1)) as usize;
        match &self.chunks[self.chunk_at(id)] {
            Held::Plain(chunk) => Frame::At(chunk.at(inside * self.frame)),
            Held::Packed(packed) => Frame::Packed(packed, inside),
        }
    }

    /// Returns a reader of the packed chunks; None if there are none.
    #[must_use]
    pub fn unpacker(&self) -> Option<Unpacker> {
        self.codec.map(unpacker)
    }

    /// Returns whether a frame has these bytes.
    ///
    /// # Safety
    /// `bytes` is readable for a frame.
    #[inline]
    pub unsafe fn equals(&self, id: u32, bytes: *const u8) -> bool {
        match self.find(id) {
            // SAFETY: a whole frame; the caller promises `bytes`.
            Frame::At(at) => unsafe { memory::equal(bytes, at, self.frame) },
            Frame::Packed(packed, place) => self.unpacker().is_some_and(|mut unpacker| {
                let plain = unpacker.read(packed, place, self.frame);
                // SAFETY: as above.
                unsafe { memory::equal(bytes, plain.as_ptr(), self.frame) }
            }),
        }
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
            if let Some(chunk) = self.chunks.pop_front() {
                self.free(chunk);
            }
            self.done = self.done.saturating_sub(1);
            self.first = self.first.wrapping_add(1) & (u32::MAX >> self.shift);
        }
    }

    /// Frees all frames; the next one has the number `start`.
    pub fn restart(&mut self, start: u32) {
        while let Some(chunk) = self.chunks.pop_front() {
            self.free(chunk);
        }
        self.done = 0;
        self.tail = start;
        self.head = start;
    }

    fn free(&mut self, chunk: Held) {
        match chunk {
            Held::Plain(chunk) => self.spare.push(chunk),
            Held::Packed(packed) => self.packed -= packed.nbytes(),
        }
    }
}

/// Returns a reader of the packed chunks of frame stores.
#[must_use]
pub fn unpacker(codec: Codec) -> Unpacker {
    Unpacker::new(codec, 1 << PACKED_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storages() -> Vec<Storage> {
        let mut all = vec![Storage::Ram, Storage::Packed(Codec::Lz4)];
        if !cfg!(miri) {
            all.push(Storage::Packed(Codec::Zstd)); // miri cannot call C
        }
        all
    }

    #[test]
    fn frames_survive_the_wrap_of_their_numbers() {
        for storage in storages() {
            let mut store = FrameStore::new(256, 64, 1, storage.clone());
            store.restart(u32::MAX - 60);
            let mut live = VecDeque::new();
            for k in 0..200_u8 {
                store.reserve(2).unwrap();
                let frame = [k; 256];
                // SAFETY: `frame` is 256 bytes.
                live.push_back((unsafe { store.push(frame.as_ptr()) }, k));
                if live.len() > 50 {
                    live.pop_front();
                    store.release(live[0].0);
                }
                assert_eq!(store.count() as usize, live.len());
                for &(id, value) in &live {
                    // SAFETY: 256 bytes.
                    let equals = |byte: u8| unsafe { store.equals(id, [byte; 256].as_ptr()) };
                    assert!(equals(value) && !equals(value ^ 1));
                }
            }
            assert!(store.nbytes() <= 6 * 16 * 256, "{storage:?}");
        }
    }

    #[test]
    fn all_but_the_newest_frames_are_packed() {
        for storage in storages().into_iter().skip(1) {
            let mut store = FrameStore::new(1000, 4096, 1, storage);
            for _ in 0..4096 {
                store.reserve(1).unwrap();
                // SAFETY: a frame of 1000 bytes.
                unsafe { store.push([7; 1000].as_ptr()) };
            }
            assert!(store.due() <= 1); // the next `reserve` packs it
            let plain = (0..4096).filter(|&id| matches!(store.find(id), Frame::At(_))).collect::<Vec<_>>();
            assert!(plain.len() <= (BEHIND + 2 * 8) as usize && plain.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            assert!(store.nbytes() < 4096 * 50, "{} bytes", store.nbytes());
            store.restart(0);
            assert_eq!(store.packed, 0);
        }
    }
}
