//! Writes rows: links each to the row before, and stores what is new.

use super::Table;
use crate::error::Result;
use crate::memory;
use crate::replay::frames::FrameStore;
use crate::replay::layout::{Copied, DONE, EPISODE, LINK, Place, TERMINATED, TRUNCATED, link};
use crate::replay::pixels;
use crate::replay::recognition::{Numbers, Seen, is_same, numbers};
use crate::replay::ring::Ring;
use crate::source::Source;

/// The flags of a row that may end its episode.
#[derive(Clone, Copy, Debug)]
pub(in crate::replay) struct Ending {
    pub terminated: bool,
    pub truncated: bool,
    /// Whether the row has a valid `obs_next`, if it ends its episode.
    pub known: bool,
}

impl Ending {
    pub fn done(self) -> bool {
        self.terminated || self.truncated
    }
}

impl Table {
    /// Writes row `k` of the sources into the slot at the ring's cursor, for which `reserve` has made room. With `goes_on`, row
    /// `k + 1` is the next one of this ring, and will be written.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for row `k`, and with `goes_on` for the next.
    pub(in crate::replay) unsafe fn write(
        &mut self,
        ring: &Ring,
        r: usize,
        sources: &[Source],
        k: usize,
        ending: Ending,
        goes_on: bool,
    ) {
        if !self.layout.any_pixels {
            // SAFETY: the caller's promise.
            return unsafe { self.write_row(ring, r, sources, k, ending, goes_on) };
        }
        let sided = self.takes_side(sources, k, ending);
        let mut bytes = std::mem::take(&mut self.split_frames);
        let wanted = |leaf: usize| sided || !matches!(self.layout.places[leaf], Place::Next { .. });
        // SAFETY: the caller's promise; these sources have one row each, in `bytes`.
        unsafe {
            let sources = pixels::split_row(&self.layout, sources, k, wanted, &mut bytes);
            self.write_row(ring, r, &sources, 0, ending, false);
        }
        self.split_frames = bytes;
    }

    /// The same for sources in which frames are stacked along the first axis.
    unsafe fn write_row(&mut self, ring: &Ring, r: usize, sources: &[Source], k: usize, ending: Ending, goes_on: bool) {
        let index = ring.offset + ring.cursor;
        let before = (ring.len > 0 && ring.capacity > 1).then(|| ring.newest_slot());
        // SAFETY: the caller promises the sources; every target is inside this table.
        unsafe {
            let linked = before.is_some_and(|previous| self.resolve(r, previous, sources, k));
            if ring.len == ring.capacity {
                self.evict(ring, r, index);
            }
            let framed = !self.layout.frames.is_empty();
            if framed {
                self.write_frames(ring, r, index, before, linked, sources, k);
            }
            match before {
                Some(previous) if linked => {
                    self.side.put(self.side_row(previous));
                    self.set_byte(previous, LINK, link::NEXT);
                }
                Some(previous) if self.next_obs_serves(previous) => self.set_byte(previous, LINK, link::NEXT),
                _ => {}
            }
            let record = self.record(index);
            for &Copied { leaf, bytes, column, offset } in &self.layout.copied {
                let start = column.map_or(record, |column| self.cell(column, index));
                put(sources[leaf].row(k), start.wrapping_add(offset), bytes);
            }
            let mut sided = self.takes_side(sources, k, ending);
            let mut link = if sided { link::SIDE } else { link::NONE };
            if sided && goes_on && !framed && ring.capacity > 1 && self.is_next(sources, k) {
                (sided, link) = (false, link::NEXT);
            }
            self.set_flags(index, (ending.terminated, ending.truncated), link);
            if sided {
                self.write_side(r, index, sources, k);
            }
            if framed {
                self.note_seen(r, sources, k, sided);
            }
        }
    }

    /// Returns whether the `obs_next` of row `k` is the `obs` of the next row of the sources. There are no frames.
    unsafe fn is_next(&self, sources: &[Source], k: usize) -> bool {
        self.layout.obs.iter().zip(&self.layout.next).all(|(&obs, &next)| {
            let (one, other) = (sources[next].row(k), sources[obs].row(k + 1));
            // SAFETY: the caller promises the sources for both rows.
            one == other || (!other.is_null() && unsafe { memory::equal(one, other, self.layout.nbytes[obs]) })
        })
    }

    /// Notes the numbers of the frames of the row that was just written.
    unsafe fn note_seen(&mut self, r: usize, sources: &[Source], k: usize, sided: bool) {
        let twins = self.layout.obs.len();
        for (twin, seen) in self.seen[r * twins..][..twins].iter_mut().enumerate() {
            let leaf = self.layout.obs[twin];
            let Place::Frames { stack, .. } = self.layout.places[leaf] else { continue };
            // SAFETY: the caller promises the sources.
            unsafe {
                seen.obs = numbers(sources[leaf], k, stack);
                seen.next = if sided { numbers(sources[self.layout.next[twin]], k, stack) } else { Seen::NOTHING.next };
            }
        }
    }

    fn seen(&self, r: usize, twin: usize) -> &Seen {
        &self.seen[r * self.layout.obs.len() + twin]
    }

    /// Returns whether the `obs_next` of a row is not stored because the next row's `obs` will serve.
    fn next_obs_serves(&self, index: usize) -> bool {
        self.layout.linked() && self.byte(index, LINK) == link::NONE && !self.flag(index, DONE)
    }

    /// Returns whether a row gets a side row when it is written.
    pub(super) fn takes_side(&self, sources: &[Source], k: usize, ending: Ending) -> bool {
        let layout = &self.layout;
        layout.linked()
            && ((ending.done() && ending.known) || !layout.ends_only)
            && layout.next.iter().all(|&next| !sources[next].row(k).is_null())
    }

    /// Frees the side rows and frames of all live rows of a ring.
    pub(in crate::replay) fn clear(&mut self, ring: &Ring, r: usize) {
        for seq in ring.oldest()..ring.head {
            let index = ring.index(seq);
            if self.byte(index, LINK) == link::SIDE {
                self.side.put(self.side_row(index));
            }
            self.set_byte(index, LINK, link::NONE);
        }
        for store in &mut self.frames[r] {
            store.restart(0);
        }
    }

    /// Frees the side row of a slot whose row is to be replaced.
    pub(in crate::replay) fn forget(&mut self, index: usize) {
        if self.byte(index, LINK) == link::SIDE {
            self.side.put(self.side_row(index));
        }
        self.set_byte(index, LINK, link::NONE);
    }

    /// Frees the frames that no row of a ring refers to.
    pub(in crate::replay) fn release(&mut self, ring: &Ring, r: usize) {
        if !self.layout.frames.is_empty() && ring.len > 0 {
            self.release_frames(r, ring.index(ring.oldest()));
        }
    }

    pub(in crate::replay) fn set_episode(&mut self, index: usize, number: u32) {
        assert!(index < self.total, "invariant: a row inside the table");
        // SAFETY: a record starts with the aligned header.
        unsafe { self.record(index).add(EPISODE).cast::<u32>().write(number) }
    }

    /// Returns whether the incoming `obs` equals the `obs_next` in the side row of the previous row.
    unsafe fn resolve(&mut self, r: usize, previous: usize, sources: &[Source], k: usize) -> bool {
        if self.byte(previous, LINK) != link::SIDE {
            return false;
        }
        let id = self.side_row(previous);
        for (twin, &leaf) in self.layout.obs.iter().enumerate() {
            let place = self.layout.places[leaf];
            let (new, kept) = (sources[leaf].row(k), self.in_side(id, twin, place));
            // SAFETY: the caller promises the sources; the side row holds this leaf, or its frame numbers.
            let same = unsafe {
                match place {
                    Place::Frames { store, stack, .. } => {
                        let (store, given) = (&self.frames[r][store], numbers(sources[leaf], k, stack));
                        let seen = &self.seen(r, twin).next;
                        (0..stack).all(|j| {
                            is_same(&given, j, seen, j)
                                || (!new.is_null() && store.equals(Self::id(kept, j), new.add(j * store.frame())))
                        })
                    }
                    _ => !new.is_null() && memory::equal(new, kept, self.layout.nbytes[leaf]),
                }
            };
            if !same {
                return false;
            }
        }
        true
    }

    /// Frees the side row and the frames of the oldest row, whose slot is to be written.
    fn evict(&mut self, ring: &Ring, r: usize, index: usize) {
        if self.byte(index, LINK) == link::SIDE {
            self.side.put(self.side_row(index));
            self.set_byte(index, LINK, link::NONE);
        }
        if !self.layout.frames.is_empty() && ring.capacity > 1 {
            self.release_frames(r, ring.after(index));
        }
    }

    /// Frees the frames that no row from `oldest` on refers to.
    fn release_frames(&mut self, r: usize, oldest: usize) {
        for i in 0..self.layout.obs.len() {
            if let Place::Frames { offset, store, stack, .. } = self.layout.places[self.layout.obs[i]] {
                let ids = self.record(oldest).wrapping_add(offset);
                let store = &mut self.frames[r][store];
                let tail = store.tail();
                // SAFETY: the record of a row of the table holds `stack` numbers of this leaf.
                let lowest = (0..stack).map(|j| unsafe { Self::id(ids, j) }.wrapping_sub(tail)).min().unwrap_or(0);
                store.release(tail.wrapping_add(lowest));
            }
        }
    }

    /// Writes the frame numbers of `obs`, and stores the frames that are new.
    #[allow(clippy::too_many_arguments, reason = "the state of one row being written")]
    unsafe fn write_frames(
        &mut self,
        ring: &Ring,
        r: usize,
        index: usize,
        before: Option<usize>,
        linked: bool,
        sources: &[Source],
        k: usize,
    ) {
        for twin in 0..self.layout.obs.len() {
            let leaf = self.layout.obs[twin];
            let Place::Frames { offset, store, stack, .. } = self.layout.places[leaf] else { continue };
            let known = before.map(|previous| {
                if linked {
                    Known::Same(self.in_side(self.side_row(previous), twin, self.layout.places[leaf]))
                } else {
                    Known::Shifted(self.record(previous).wrapping_add(offset))
                }
            });
            let seen = self.seen(r, twin).obs;
            let restart = ring.capacity == 1;
            let target = self.record(index).wrapping_add(offset);
            let store = &mut self.frames[r][store];
            if restart {
                store.release(store.tail().wrapping_add(store.count()));
            }
            // SAFETY: the caller promises the source; `target` is the room for the numbers inside the record.
            unsafe {
                let given = numbers(sources[leaf], k, stack);
                intern(store, sources[leaf].row(k), stack, known, target, [&given, &seen]);
            }
        }
    }

    /// Writes `obs_next` into a new side row of the row, whose link must be `SIDE`.
    unsafe fn write_side(&mut self, r: usize, index: usize, sources: &[Source], k: usize) {
        let id = self.side.take();
        for twin in 0..self.layout.obs.len() {
            let (obs, next) = (self.layout.obs[twin], self.layout.next[twin]);
            let place = self.layout.places[obs];
            let target = self.in_side(id, twin, place);
            let new = sources[next].row(k);
            // SAFETY: the caller promises the sources; `target` has room for this leaf, or its frame numbers.
            unsafe {
                if let Place::Frames { store, stack, .. } = place {
                    let own = Known::Input(sources[obs].row(k), self.own(index, place));
                    let given = [numbers(sources[next], k, stack), numbers(sources[obs], k, stack)];
                    intern(&mut self.frames[r][store], new, stack, Some(own), target, given.each_ref());
                } else {
                    put(new, target, self.layout.nbytes[obs]);
                }
            }
        }
        self.set_side_row(index, id);
    }

    /// Sets the flags and the link of a row, which are adjacent.
    fn set_flags(&mut self, index: usize, (terminated, truncated): (bool, bool), link: u8) {
        assert!(index < self.total, "invariant: a row inside the table");
        const { assert!(TRUNCATED == TERMINATED + 1 && DONE == TERMINATED + 2 && LINK == TERMINATED + 3) };
        let bytes = [u8::from(terminated), u8::from(truncated), u8::from(terminated || truncated), link];
        // SAFETY: four bytes inside the header that every record starts with.
        unsafe { self.record(index).add(TERMINATED).cast::<[u8; 4]>().write(bytes) }
    }

    #[inline]
    fn set_side_row(&mut self, index: usize, id: u32) {
        let side_rows = self.side_rows.as_ref().expect("invariant: links need side rows");
        assert!(index < self.total, "invariant: a row inside the table");
        // SAFETY: one u32 for each row of the table, page-aligned, checked just above.
        unsafe { side_rows.base().cast::<u32>().add(index).write(id) }
    }

    /// Returns the address of a new side row for a row whose link is `SIDE`.
    pub(in crate::replay) fn new_side(&mut self, index: usize) -> Result<*mut u8> {
        self.side.reserve(1)?;
        let id = self.side.take();
        self.set_side_row(index, id);
        Ok(self.side.at(id))
    }
}

/// The stack whose frames the stack being written may share.
#[derive(Clone, Copy)]
enum Known {
    /// The frame numbers of an equal stack.
    Same(*const u8),
    /// The frame numbers of the stack one step before.
    Shifted(*const u8),
    /// The bytes and the frame numbers of the stack one step before.
    Input(*const u8, *const u8),
}

/// Writes the frame numbers of a stack to `target`, and stores each frame that is new. A frame is compared with the one
/// at the next place of the stack before, and with its predecessor in the same stack, as the first stack of an episode
/// often repeats its first frame. The numbers, of the new frames and of those of the stack before, save comparisons.
///
/// # Safety
/// `new` is null (zeros) or readable for `stack` frames, `known` likewise, and `target` has room for `stack` numbers.
unsafe fn intern(
    store: &mut FrameStore,
    new: *const u8,
    stack: usize,
    known: Option<Known>,
    target: *mut u8,
    [given, seen]: [&Numbers; 2],
) {
    let frame = store.frame();
    let zeros;
    let at = |j: usize| new.wrapping_add(j * frame);
    // SAFETY: the caller promises `new`, `known` and `target`; the store's frames are whole.
    unsafe {
        if let Some(Known::Same(ids)) = known {
            return memory::copy(ids, target, 4 * stack);
        }
        if new.is_null() {
            zeros = vec![0_u8; frame];
            let id = store.push(zeros.as_ptr());
            (0..stack).for_each(|j| target.cast::<u32>().add(j).write_unaligned(id));
            return;
        }
        for j in 0..stack {
            let recognised = j + 1 < stack && is_same(given, j, seen, j + 1);
            let shifted = (j + 1 < stack).then(|| match known? {
                Known::Same(_) => None,
                Known::Shifted(ids) => {
                    let id = Table::id(ids, j + 1);
                    (recognised || store.equals(id, at(j))).then_some(id)
                }
                Known::Input(bytes, ids) => {
                    let equal = || !bytes.is_null() && memory::equal(at(j), bytes.add((j + 1) * frame), frame);
                    (recognised || equal()).then(|| Table::id(ids, j + 1))
                }
            });
            let id = match shifted.flatten() {
                Some(id) => id,
                None if j > 0 && (is_same(given, j, given, j - 1) || memory::equal(at(j), at(j - 1), frame)) => {
                    Table::id(target, j - 1)
                }
                None => store.push(at(j)),
            };
            target.cast::<u32>().add(j).write_unaligned(id);
        }
    }
}

/// Copies `len` bytes, or writes zeros if `src` is null.
#[inline]
unsafe fn put(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller promises both; a null source stands for zeros.
    unsafe {
        if src.is_null() {
            memory::zero(dst, len);
        } else {
            memory::copy(src, dst, len);
        }
    }
}
