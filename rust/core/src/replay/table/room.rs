//! How much room rows need, found before any of them is written.

use super::{Ending, Table};
use crate::error::Result;
use crate::memory;
use crate::replay::layout::Place;
use crate::source::Source;

/// Numbers of side rows, and of frames in each store.
#[derive(Debug)]
pub(in crate::replay) struct Room {
    sides: usize,
    frames: Vec<u32>,
}

impl Table {
    /// Returns an upper bound of the side rows and frames that `rows` take when they are written one after the other to
    /// an empty ring.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for `rows`.
    pub(in crate::replay) unsafe fn room(
        &self,
        rows: impl Iterator<Item = usize>,
        sources: &[Source],
        ending: impl Fn(usize) -> Ending,
    ) -> Room {
        let layout = &self.layout;
        let mut room = Room { sides: 1, frames: vec![0; layout.frames.len()] };
        for place in &layout.places {
            if let Place::Frames { store, stack, .. } = *place {
                room.frames[store] += 2 * stack as u32;
            }
        }
        let mut before: Option<(usize, bool)> = None;
        for k in rows {
            let at = |leaf: usize, k: usize| sources[leaf].row(k);
            let same = |p: usize| {
                let mut twins = layout.obs.iter().zip(&layout.next);
                // SAFETY: the caller promises both rows of the sources.
                twins.all(|(&obs, &next)| unsafe { same_bytes(at(next, p), at(obs, k), layout.nbytes[obs]) })
            };
            let linked = before.is_some_and(|(p, sided)| sided && same(p));
            let sided = self.takes_side(sources, k, ending(k));
            room.sides = room.sides + usize::from(sided) - usize::from(linked);
            for (twin, &obs) in layout.obs.iter().enumerate() {
                let Place::Frames { store, stack, pixel, .. } = layout.places[obs] else { continue };
                let (frame, pixel) = (layout.frames[store], pixel.unwrap_or(layout.frames[store]));
                // SAFETY: as above.
                unsafe {
                    if !linked {
                        let known = before.map_or(std::ptr::null(), |(p, _)| at(obs, p));
                        room.frames[store] += fresh_frames(at(obs, k), known, stack, frame, pixel);
                    }
                    if sided {
                        room.frames[store] += fresh_frames(at(layout.next[twin], k), at(obs, k), stack, frame, pixel);
                    }
                }
            }
            before = Some((k, sided));
        }
        room
    }

    /// Reserves the side rows and frames of `rooms`, one for each ring.
    ///
    /// # Errors
    /// If the system has no more room; no row is changed then.
    pub(in crate::replay) fn reserve_room(&mut self, rooms: &[Room]) -> Result<()> {
        if self.layout.linked() {
            self.side.reserve(rooms.iter().map(|room| room.sides).sum())?;
        }
        if self.storage.codec().is_some() {
            return Ok(()); // frames are packed as they come, so they never need the room that they would take together
        }
        for (stores, room) in self.frames.iter_mut().zip(rooms) {
            for (store, &frames) in stores.iter_mut().zip(&room.frames) {
                store.reserve(frames)?;
            }
        }
        Ok(())
    }
}

/// Returns whether both pointers are not null and their bytes are the same.
///
/// # Safety
/// Each is null or readable for `bytes`.
unsafe fn same_bytes(a: *const u8, b: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    !a.is_null() && !b.is_null() && unsafe { memory::equal(a, b, bytes) }
}

/// Returns an upper bound of the frames of a stack that [`intern`] stores, if `known` is the stack before it. `pixel`
/// bytes of each frame are contiguous: all of them, if frames are stacked along the first axis.
///
/// # Safety
/// Both are null or readable for `stack` frames of `frame` bytes.
unsafe fn fresh_frames(new: *const u8, known: *const u8, stack: usize, frame: usize, pixel: usize) -> u32 {
    if new.is_null() {
        return 1;
    }
    let at = |base: *const u8, j: usize| if base.is_null() { base } else { base.wrapping_add(j * pixel) };
    let same = |a: *const u8, b: *const u8| {
        let mut pieces = (0..frame / pixel).map(|place| place * stack * pixel);
        // SAFETY: the caller's promise.
        !b.is_null() && pieces.all(|at| unsafe { memory::equal(a.wrapping_add(at), b.wrapping_add(at), pixel) })
    };
    let shared = |j: &usize| {
        (*j + 1 < stack && same(at(new, *j), at(known, *j + 1))) || (*j > 0 && same(at(new, *j), at(new, *j - 1)))
    };
    (0..stack).filter(|j| !shared(j)).count() as u32
}
