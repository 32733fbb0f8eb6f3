//! The table, which stores the bytes of all rows.
//!
//! **Observations are stored once.** A row's `obs_next` is first written to a side row. When the next row of the ring
//! arrives, its `obs` is compared with that side row, bit for bit. If they are the same, the side row is freed, and the
//! link of the earlier row becomes [`link::NEXT`]; if not (an episode ended, or observations do not continue), the side
//! row stays. Stacks of frames are compared frame by frame in the same way, and only new frames are stored. This loses
//! nothing, needs no option, and takes at most the memory of two columns.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Result, value_error};
use crate::memory::{self, Region, Storage};
use crate::pack::Codec;
use crate::pool;
use crate::prefetch::prefetch_at;
use crate::replay::frames::FrameStore;
use crate::replay::layout::{Copied, DONE, EPISODE, LINK, Layout, Leaf, Place, SINGLE, TERMINATED, TRUNCATED, link};
use crate::replay::pixels;
use crate::replay::recognition::{Numbers, Seen, is_same, numbers};
use crate::replay::ring::Ring;
use crate::replay::rings::Rings;
use crate::replay::side::SideStore;
use crate::vectors::product;

/// The most bytes of a record that are prefetched. The processor prefetches later ones itself.
const PREFETCHED: usize = 512;

/// The source of the rows of one leaf: row `k` begins at `ptr + k * stride`. A null pointer stands for zeros.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The address of row 0.
    pub ptr: *const u8,
    /// Bytes from one row to the next.
    pub stride: isize,
    /// The numbers of the frames of all rows, in order: see `recognition`. Null if they have none.
    pub numbers: *const u64,
}

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
    #[inline]
    pub(crate) fn row(self, k: usize) -> *const u8 {
        if self.ptr.is_null() { self.ptr } else { self.ptr.wrapping_offset(self.stride * k as isize) }
    }

    /// Returns the lowest address of `rows` rows of `bytes` bytes, and the address after the highest.
    #[inline(always)]
    fn addresses(self, bytes: usize, rows: usize) -> (usize, usize) {
        let one = self.ptr.addr();
        let other = one.wrapping_add_signed(self.stride.wrapping_mul(rows as isize - 1));
        (one.min(other), one.max(other).wrapping_add(bytes))
    }
}

/// The flags of a row that may end its episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
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

/// The columns of all rings.
#[derive(Debug)]
pub struct Table {
    /// The layout of a row.
    pub(super) layout: Layout,
    /// The row records.
    pub(super) records: Arc<Region>,
    /// The columns of leaves that are not in the record.
    pub(super) columns: Vec<Arc<Region>>,
    /// The side row (u32) of each row whose link is `SIDE`.
    side_rows: Option<Arc<Region>>,
    side: SideStore,
    /// The frame stores, `frames[ring][store]`.
    pub(super) frames: Vec<Vec<FrameStore>>,
    /// The numbers of the frames of the newest row of each ring, for each of `layout.obs`; none if no leaf has frames.
    seen: Vec<Seen>,
    /// For each ring the number of rows to reserve; 0 outside of `reserve`.
    rows_wanted: Vec<u32>,
    /// Working memory for the row being written, for stacks along the last axis.
    split_frames: Vec<u8>,
    /// The smallest range of addresses that contains all records and columns.
    hull: Range<usize>,
    total: usize,
    storage: Storage,
}

impl Table {
    /// Returns a table of zeros for rings of these capacities. `beside` bytes of memory are needed for other purposes.
    ///
    /// # Errors
    /// `Memory` or `Io` with the bytes needed, before any is allocated.
    pub(super) fn new(layout: Layout, capacities: &[usize], storage: Storage, beside: u128) -> Result<Self> {
        let total: usize = capacities.iter().sum();
        let sides = if layout.linked() { 4 } else { 0 }; // bytes of the number of a side row
        // How short packed frames are is not known before they come.
        let frames = if storage.codec().is_some() { layout.frames.iter().sum() } else { 0 };
        let row = layout.row_bytes() + sides - frames;
        let needed = total as u128 * row as u128 + if storage.is_on_disk() { 0 } else { beside };
        storage.check(&format!("{total} rows of {row} bytes"), needed)?;
        let records = Region::zeroed(product(&[total, layout.stride])?, &storage)?;
        let column = |&length: &usize| Region::zeroed(product(&[total, length])?, &storage);
        let columns = layout.columns.iter().map(column).collect::<Result<_>>()?;
        let side_rows = if layout.linked() { Some(Region::sparse(total * 4, &storage)?) } else { None };
        let stores = |&capacity: &usize| -> Vec<FrameStore> {
            layout
                .frames
                .iter()
                .map(|&bytes| FrameStore::new(bytes, capacity, capacities.len(), storage.clone()))
                .collect()
        };
        let frames = capacities.iter().map(stores).collect();
        let side = SideStore::new(layout.side_stride, storage.clone());
        let rows_wanted = vec![0; capacities.len()];
        let seen = if layout.frames.is_empty() {
            Vec::new()
        } else {
            vec![Seen::NOTHING; capacities.len() * layout.obs.len()]
        };
        let split_frames = Vec::new();
        let mut table = Self {
            layout,
            records,
            columns,
            side_rows,
            side,
            frames,
            seen,
            rows_wanted,
            split_frames,
            hull: 0..0,
            total,
            storage,
        };
        table.hull = table.hull_now();
        Ok(table)
    }

    /// Adds columns of zeros.
    ///
    /// # Errors
    /// As [`Layout::extend`], and `Memory`.
    pub(super) fn extend(&mut self, leaves: Vec<Leaf>) -> Result<()> {
        let mut layout = self.layout.clone();
        layout.extend(leaves)?;
        let fresh = &layout.columns[self.columns.len()..];
        let needed = self.total as u128 * fresh.iter().sum::<usize>() as u128;
        self.storage.check(&format!("{} more columns of {} rows", fresh.len(), self.total), needed)?;
        let fresh: Vec<_> =
            fresh.iter().map(|&n| Region::zeroed(product(&[self.total, n])?, &self.storage)).collect::<Result<_>>()?;
        self.columns.extend(fresh);
        self.layout = layout;
        self.hull = self.hull_now();
        Ok(())
    }

    /// Returns whether rows are on disk.
    pub(super) fn is_on_disk(&self) -> bool {
        self.storage.is_on_disk()
    }

    /// Returns how frames are packed; None if they are stored as they are.
    pub(super) fn codec(&self) -> Option<Codec> {
        self.storage.codec()
    }

    /// Returns the layout of a row.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the region of a leaf, the offset of row 0 in it, and the bytes from one row to the next; None if the
    /// leaf is stored as frames or in other rows.
    #[must_use]
    pub fn strided(&self, leaf: usize) -> Option<(&Arc<Region>, usize, usize)> {
        match self.layout.places[leaf] {
            Place::Record { offset } => Some((&self.records, offset, self.layout.stride)),
            Place::Column { column } => Some((&self.columns[column], 0, self.layout.columns[column])),
            Place::Frames { .. } | Place::Next { .. } => None,
        }
    }

    /// Checks that `rings` have the slots of this table.
    ///
    /// # Panics
    /// If they have others.
    pub(super) fn check_rings(&self, rings: &Rings) {
        assert!(rings.total() == self.total && rings.len() == self.frames.len(), "invariant: rings of this table");
    }

    /// Returns the bytes used by `written` rows. Frames and side rows count in whole chunks, and reserved room does not
    /// count.
    #[must_use]
    pub fn nbytes(&self, written: usize) -> usize {
        let frames: usize = self.frames.iter().flatten().map(FrameStore::nbytes).sum();
        let fixed = self.layout.stride + self.layout.columns.iter().sum::<usize>();
        let numbers = if self.layout.linked() && !self.layout.ends_only { 4 } else { 0 }; // at ends alone they are few
        written * (fixed + numbers) + frames + self.side.nbytes()
    }

    /// Reserves room for a row of each of `rings`, so that writing them cannot fail.
    ///
    /// # Errors
    /// If the system has no more room; nothing is changed then.
    pub(super) fn reserve(&mut self, rings: &[usize]) -> Result<()> {
        if self.layout.linked() {
            self.side.reserve(rings.len())?;
        }
        if self.layout.frames.is_empty() {
            return Ok(());
        }
        if self.storage.codec().is_some() {
            self.pack(rings);
        }
        for &r in rings {
            self.rows_wanted[r] += 1;
        }
        let per_row = if self.layout.linked() { 2 } else { 1 };
        let mut result = Ok(());
        for &r in rings {
            let rows = std::mem::take(&mut self.rows_wanted[r]); // 0: seen already
            if rows > 0 && result.is_ok() {
                result = self.reserve_frames(r, rows * per_row);
            }
        }
        result
    }

    /// Packs the chunks that are behind the newest frames of these rings. Vector environments fill them in the same step, so the
    /// threads of the pool share them.
    fn pack(&mut self, rings: &[usize]) {
        let stores = 0..self.layout.frames.len();
        let mut due: Vec<_> = rings.iter().flat_map(|&r| stores.clone().map(move |store| (r, store))).collect();
        due.retain(|&(r, store)| self.frames[r][store].due() > 0);
        due.sort_unstable();
        due.dedup();
        if due.len() < 2 {
            return; // `reserve` of the store packs it
        }
        let packed: Vec<_> = due.iter().map(|_| OnceLock::new()).collect();
        pool::run(due.len(), |k| {
            let (r, store) = due[k];
            packed[k].get_or_init(|| self.frames[r][store].pack());
        });
        for ((r, store), packed) in due.into_iter().zip(packed) {
            self.frames[r][store].install(packed.into_inner().unwrap_or_default());
        }
    }

    /// Reserves room for `stacks` more stacks of each leaf in a ring.
    fn reserve_frames(&mut self, r: usize, stacks: u32) -> Result<()> {
        self.layout.places.iter().try_for_each(|place| match *place {
            Place::Frames { store, stack, .. } => self.frames[r][store].reserve(stacks * stack as u32),
            _ => Ok(()),
        })
    }

    /// Prefetches the first `bytes` bytes of a row's record.
    #[inline]
    pub(super) fn prefetch(&self, index: usize, bytes: usize) {
        let (record, last) = (self.record(index), bytes.min(PREFETCHED).saturating_sub(1));
        (0..last).step_by(64).for_each(|byte| prefetch_at(record.wrapping_add(byte)));
        prefetch_at(record.wrapping_add(last));
    }

    #[inline]
    pub(super) fn record(&self, index: usize) -> *mut u8 {
        assert!(index < self.total, "invariant: a row inside the table");
        self.records.base().wrapping_add(index * self.layout.stride)
    }

    #[inline]
    pub(super) fn cell(&self, column: usize, index: usize) -> *mut u8 {
        assert!(index < self.total, "invariant: a row inside the table");
        self.columns[column].base().wrapping_add(index * self.layout.columns[column])
    }

    /// Returns the number of a row's episode.
    #[inline]
    pub(super) fn episode(&self, index: usize) -> u32 {
        // SAFETY: a record starts with the aligned header (regions are page-aligned, strides are multiples of 8).
        unsafe { self.record(index).add(EPISODE).cast::<u32>().read() }
    }

    #[inline]
    pub(super) fn flag(&self, index: usize, offset: usize) -> bool {
        self.byte(index, offset) != 0
    }

    #[inline]
    pub(super) fn byte(&self, index: usize, offset: usize) -> u8 {
        assert!(offset < self.layout.stride, "invariant: inside the record");
        // SAFETY: one byte inside the record.
        unsafe { self.record(index).add(offset).read() }
    }

    /// Sets the flags and the link of a row, which are adjacent.
    fn set_flags(&mut self, index: usize, (terminated, truncated): (bool, bool), link: u8) {
        assert!(index < self.total, "invariant: a row inside the table");
        const { assert!(TRUNCATED == TERMINATED + 1 && DONE == TERMINATED + 2 && LINK == TERMINATED + 3) };
        let bytes = [u8::from(terminated), u8::from(truncated), u8::from(terminated || truncated), link];
        // SAFETY: four bytes inside the header that every record starts with.
        unsafe { self.record(index).add(TERMINATED).cast::<[u8; 4]>().write(bytes) }
    }

    pub(super) fn set_byte(&mut self, index: usize, offset: usize, value: u8) {
        assert!(index < self.total && offset < self.layout.stride, "invariant: inside the record");
        // SAFETY: one byte inside the record, just checked.
        unsafe { self.record(index).add(offset).write(value) }
    }

    /// Returns a function that reads a leaf of one float32 in the record.
    pub(super) fn floats(&self, leaf: usize) -> Result<impl Fn(usize) -> f32 + '_> {
        let Leaf { dtype, shape, path, .. } = &self.layout.leaves[leaf];
        let Place::Record { offset } = self.layout.places[leaf] else {
            return value_error!("{:?} does not stand in the record", path.join("."));
        };
        if dtype != SINGLE || !shape.is_empty() {
            return value_error!("{:?} must be one float32 a row, got {dtype} of shape {shape:?}", path.join("."));
        }
        Ok(move |index| {
            assert!(index < self.total, "invariant: a row inside the table");
            // SAFETY: four bytes inside the record of a row of the table, just checked; it need not be aligned.
            unsafe { self.record(index).add(offset).cast::<f32>().read_unaligned() }
        })
    }

    /// Returns a function that reads element `agent` of a row's reward; 0 if there are no rewards.
    #[inline]
    pub(super) fn rewards(&self) -> impl Fn(usize, usize) -> f64 + '_ {
        let (base, stride) = match self.layout.reward.map(|leaf| self.layout.places[leaf]) {
            Some(Place::Record { offset }) => (self.records.base().wrapping_add(offset), self.layout.stride),
            Some(Place::Column { column }) => (self.columns[column].base(), self.layout.columns[column]),
            _ => (std::ptr::null_mut(), 0),
        };
        let agents = self.agents();
        move |index, agent| {
            assert!(index < self.total && agent < agents, "invariant: a reward of a row of the table");
            if base.is_null() {
                return 0.0;
            }
            // SAFETY: `rew` is a leaf of `agents` f64 items in each row; both were checked just above.
            unsafe { base.add(index * stride).cast::<f64>().add(agent).read_unaligned() }
        }
    }

    /// Returns the number of values of one reward.
    pub(super) fn agents(&self) -> usize {
        self.layout.reward.map_or(1, |leaf| self.layout.nbytes[leaf] / 8)
    }

    /// Returns the number of the side row of a row whose link is `SIDE`.
    #[inline]
    fn side_row(&self, index: usize) -> u32 {
        let side_rows = self.side_rows.as_ref().expect("invariant: links need side rows");
        assert!(index < self.total, "invariant: a row inside the table");
        // SAFETY: one u32 for each row of the table, page-aligned, checked just above.
        unsafe { side_rows.base().cast::<u32>().add(index).read() }
    }

    #[inline]
    fn set_side_row(&mut self, index: usize, id: u32) {
        let side_rows = self.side_rows.as_ref().expect("invariant: links need side rows");
        assert!(index < self.total, "invariant: a row inside the table");
        // SAFETY: one u32 for each row of the table, page-aligned, checked just above.
        unsafe { side_rows.base().cast::<u32>().add(index).write(id) }
    }

    /// Returns the address of the side row of a row whose link is `SIDE`.
    pub(super) fn side_at(&self, index: usize) -> *const u8 {
        self.side.at(self.side_row(index))
    }

    /// Returns the address of a new side row for a row whose link is `SIDE`.
    pub(super) fn new_side(&mut self, index: usize) -> Result<*mut u8> {
        self.side.reserve(1)?;
        let id = self.side.take();
        self.set_side_row(index, id);
        Ok(self.side.at(id))
    }

    /// Returns frame number `j` of those at `ids`.
    ///
    /// # Safety
    /// `ids` is readable for more than `j` frame numbers.
    #[inline]
    pub(super) unsafe fn id(ids: *const u8, j: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { ids.cast::<u32>().add(j).read_unaligned() }
    }

    /// Returns the address of the bytes (or frame numbers) of a row's `obs_next` for the `obs` leaf `twin`; None if
    /// there is no row.
    #[inline]
    pub(super) fn next_of(&self, ring: &Ring, index: usize, twin: usize) -> Option<*const u8> {
        let place = self.layout.places[self.layout.obs[twin]];
        match self.byte(index, LINK) {
            link::NEXT => Some(self.own(ring.after(index), place)),
            link::SIDE => Some(self.side_of(index, twin)),
            _ if ring.seq(index).is_some() => Some(self.own(index, place)),
            _ => None,
        }
    }

    /// Returns the address of the bytes (or frame numbers) of the twin in the side row of a row whose link is `SIDE`.
    #[inline]
    pub(super) fn side_of(&self, index: usize, twin: usize) -> *const u8 {
        self.in_side(self.side_row(index), twin, self.layout.places[self.layout.obs[twin]])
    }

    /// Returns the address of the bytes (or frame numbers) of a leaf in its own row.
    #[inline(always)]
    pub(super) fn own(&self, index: usize, place: Place) -> *const u8 {
        match place {
            Place::Record { offset } | Place::Frames { offset, .. } => self.record(index).wrapping_add(offset),
            Place::Column { column } => self.cell(column, index),
            Place::Next { .. } => unreachable!("invariant: obs_next has no place of its own"),
        }
    }

    #[inline(always)]
    fn in_side(&self, id: u32, twin: usize, place: Place) -> *mut u8 {
        let row = self.side.at(id);
        match place {
            Place::Record { offset } | Place::Frames { offset, .. } => {
                row.wrapping_add(offset - self.layout.obs_part.start)
            }
            Place::Column { .. } => row.wrapping_add(self.layout.side_column[twin]),
            Place::Next { .. } => unreachable!("invariant: a leaf of obs"),
        }
    }

    /// Writes row `k` of the sources into the slot at the ring's cursor, for which `reserve` has made room.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for row `k`.
    pub(super) unsafe fn write(&mut self, ring: &Ring, r: usize, sources: &[Source], k: usize, ending: Ending) {
        if !self.layout.any_pixels {
            // SAFETY: the caller's promise.
            return unsafe { self.write_row(ring, r, sources, k, ending) };
        }
        let sided = self.takes_side(sources, k, ending);
        let mut bytes = std::mem::take(&mut self.split_frames);
        let wanted = |leaf: usize| sided || !matches!(self.layout.places[leaf], Place::Next { .. });
        // SAFETY: the caller's promise; these sources have one row each, in `bytes`.
        unsafe {
            let sources = pixels::split_row(&self.layout, sources, k, wanted, &mut bytes);
            self.write_row(ring, r, &sources, 0, ending);
        }
        self.split_frames = bytes;
    }

    /// The same for sources in which frames are stacked along the first axis.
    unsafe fn write_row(&mut self, ring: &Ring, r: usize, sources: &[Source], k: usize, ending: Ending) {
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
            let sided = self.takes_side(sources, k, ending);
            self.set_flags(index, (ending.terminated, ending.truncated), if sided { link::SIDE } else { link::NONE });
            if sided {
                self.write_side(r, index, sources, k);
            }
            if framed {
                self.note_seen(r, sources, k, sided);
            }
        }
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
    fn takes_side(&self, sources: &[Source], k: usize, ending: Ending) -> bool {
        let layout = &self.layout;
        layout.linked()
            && ((ending.done() && ending.known) || !layout.ends_only)
            && layout.next.iter().all(|&next| !sources[next].row(k).is_null())
    }

    /// Returns an upper bound of the side rows and frames that `rows` take when they are written one after the other to
    /// an empty ring.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for `rows`.
    pub(super) unsafe fn room(
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
    pub(super) fn reserve_room(&mut self, rooms: &[Room]) -> Result<()> {
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

    /// Returns the sources with copies of those rows that are in this table, which writing could change before they are
    /// read; None if there are none.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for `rows` rows.
    pub(super) unsafe fn copy_overlapping(&self, sources: &[Source], rows: usize) -> Option<CopiedSources> {
        let is_any_near = match rows {
            1 => self.is_any_near(sources, 1), // compiled for one row
            _ => self.is_any_near(sources, rows),
        };
        if !is_any_near {
            return None;
        }
        let inside = |leaf: &usize| self.overlaps(sources[*leaf], self.layout.nbytes[*leaf], rows);
        let mut leaves = (0..sources.len()).filter(inside).peekable();
        leaves.peek()?;
        let mut copied = CopiedSources { sources: sources.to_vec(), kept: Vec::new() };
        for leaf in leaves {
            let bytes = self.layout.nbytes[leaf];
            let mut kept = vec![0_u8; bytes * rows];
            for (k, row) in kept.chunks_exact_mut(bytes).enumerate() {
                // SAFETY: the caller promises the source; `row` has room for a row of it.
                unsafe { memory::copy(sources[leaf].row(k), row.as_mut_ptr(), bytes) };
            }
            copied.sources[leaf] = Source::rows(kept.as_ptr(), bytes as isize);
            copied.kept.push(kept);
        }
        Some(copied)
    }

    /// Returns whether `rows` rows of any source may share memory with the columns: a quick test before `overlaps`.
    #[inline(always)]
    fn is_any_near(&self, sources: &[Source], rows: usize) -> bool {
        let Range { start, end } = self.hull;
        sources.iter().zip(&self.layout.nbytes).any(|(source, &bytes)| {
            let (low, high) = source.addresses(bytes, rows);
            low < end && high > start
        })
    }

    /// Returns whether `rows` rows of `bytes` bytes share memory with the columns that views can show.
    fn overlaps(&self, source: Source, bytes: usize, rows: usize) -> bool {
        if source.ptr.is_null() || bytes == 0 || rows == 0 {
            return false;
        }
        let (low, high) = source.addresses(bytes, rows);
        let shares = |region: &Region| {
            let start = region.base().addr();
            low < start + region.len() && start < high
        };
        shares(&self.records) || self.columns.iter().any(|column| shares(column))
    }

    fn hull_now(&self) -> Range<usize> {
        let regions = || std::iter::once(&self.records).chain(&self.columns);
        let start = regions().map(|region| region.base().addr()).min().unwrap_or(0);
        let end = regions().map(|region| region.base().addr() + region.len()).max().unwrap_or(0);
        start..end
    }

    /// Frees the side rows and frames of all live rows of a ring.
    pub(super) fn clear(&mut self, ring: &Ring, r: usize) {
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
    pub(super) fn forget(&mut self, index: usize) {
        if self.byte(index, LINK) == link::SIDE {
            self.side.put(self.side_row(index));
        }
        self.set_byte(index, LINK, link::NONE);
    }

    /// Frees the frames that no row of a ring refers to.
    pub(super) fn release(&mut self, ring: &Ring, r: usize) {
        if !self.layout.frames.is_empty() && ring.len > 0 {
            self.release_frames(r, ring.index(ring.oldest()));
        }
    }

    pub(super) fn set_episode(&mut self, index: usize, number: u32) {
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
}

/// Numbers of side rows, and of frames in each store.
#[derive(Debug)]
pub(super) struct Room {
    sides: usize,
    frames: Vec<u32>,
}

/// Sources, and the copies that some of them point to.
#[derive(Debug)]
pub(super) struct CopiedSources {
    pub(super) sources: Vec<Source>,
    kept: Vec<Vec<u8>>,
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
