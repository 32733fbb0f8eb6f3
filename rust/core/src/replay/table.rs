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
use crate::memory::{Codec, Region, Storage};
use crate::pool;
use crate::prefetch::prefetch_at;
use crate::replay::frames::FrameStore;
use crate::replay::layout::{EPISODE, LINK, Layout, Leaf, Place, SINGLE, link};
use crate::replay::recognition::Seen;
use crate::replay::ring::Ring;
use crate::replay::side::SideStore;
use crate::vectors::product;

mod room;
mod sources;
mod writing;

pub(super) use writing::Ending;

/// The most bytes of a record that are prefetched. The processor prefetches later ones itself.
const PREFETCHED: usize = 512;

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
    /// Slots of all rings.
    pub(super) total: usize,
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

    /// Adds columns of zeros, or of `values` at these paths, after the leaves `retired` were retired.
    ///
    /// # Errors
    /// As [`Layout::retire`] and [`Layout::extend`]; `Memory`; and `Value` for values of another size.
    pub(super) fn extend(&mut self, leaves: Vec<Leaf>, retired: &[usize], values: &[(&[String], &[u8])]) -> Result<()> {
        let mut layout = self.layout.clone();
        layout.retire(retired)?;
        layout.extend(leaves)?;
        let fresh = &layout.columns[self.columns.len()..];
        let needed = self.total as u128 * fresh.iter().sum::<usize>() as u128;
        self.storage.check(&format!("{} more columns of {} rows", fresh.len(), self.total), needed)?;
        let fresh: Vec<_> =
            fresh.iter().map(|&n| Region::zeroed(product(&[self.total, n])?, &self.storage)).collect::<Result<_>>()?;
        for (path, bytes) in values {
            let place = layout.find(path).map(|leaf| layout.places[leaf]);
            let region = match place {
                Some(Place::Column { column }) if column >= self.columns.len() => &fresh[column - self.columns.len()],
                _ => return value_error!("{} is no new column", path.join(".")),
            };
            if region.len() != bytes.len() {
                return value_error!("{} has {} bytes, got {}", path.join("."), region.len(), bytes.len());
            }
            // SAFETY: the region is new, as long as the bytes, and nobody else has it.
            unsafe { region.base().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
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

    /// Returns the address of the side row of a row whose link is `SIDE`.
    pub(super) fn side_at(&self, index: usize) -> *const u8 {
        self.side.at(self.side_row(index))
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
}
