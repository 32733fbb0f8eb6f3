//! Copying rows out of the table.
//!
//! Rows are copied tile by tile: the records of a tile are prefetched, then each leaf is copied in a loop of its own,
//! which is compiled for each common size. Where the source differs from row to row (obs_next, stacks, frames), the
//! addresses are collected in a list first. Large gathers are divided among the thread pool.

use crate::memory;
use crate::pack::Unpacker;
use crate::pool;
use crate::prefetch::prefetch_at;
use crate::replay::frames::{Frame, FrameStore, unpacker};
use crate::replay::layout::{LINK, Layout, Place, link};
use crate::replay::pixels;
use crate::replay::rings::Rings;
use crate::replay::table::Table;

/// Rows that are copied while the next ones are prefetched.
const TILE: usize = 64;
/// Gathers of at least this many bytes use the thread pool.
const PARALLEL: usize = 1 << 20;

/// How many rows ahead records are prefetched.
const SOON: usize = 16;

/// Rows on disk that one thread announces at a time.
const ANNOUNCED: usize = 16;

/// The content of one output array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A leaf as it was added.
    Leaf(usize),
    /// `obs_next` of the `obs` leaf with this number, read from the next row's `obs` because it is not stored.
    ObsOfNext(usize),
    /// `obs` and `obs_next` of the twin with this number: `stack + 1` frames, of which the first `stack` are `obs` and
    /// the last `stack` are `obs_next`.
    Block(usize),
}

impl Layout {
    /// Returns the content that gives the `obs_next` of an `obs` leaf, in a buffer without `save_obs_next`.
    #[must_use]
    pub fn next_content(&self, leaf: usize) -> Content {
        self.next_leaf(leaf).map_or(Content::ObsOfNext(leaf), Content::Leaf)
    }
}

/// One output array, which gets `stack` items for each row (1: no stacking), one row after the other.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Its content.
    pub content: Content,
    /// Rows that are stacked into one.
    pub stack: usize,
    /// The first byte of the array, which has room for all rows.
    pub dst: *mut u8,
}

// SAFETY: outputs do not overlap, and threads write different rows of them.
unsafe impl Sync for Output {}
// SAFETY: as above; the address is valid on any thread.
unsafe impl Send for Output {}

/// A reader of the rows of one table.
#[derive(Clone, Copy, Debug)]
pub struct Gatherer<'a> {
    /// The rings, which know the order of rows.
    rings: &'a Rings,
    /// The bytes of the rows.
    table: &'a Table,
}

/// A list of the pieces of output rows.
trait Pieces<'a>: Default {
    fn clear(&mut self);

    /// Appends a piece at an address; null stands for zeros.
    fn at(&mut self, address: *const u8);

    /// Appends frames of a store.
    fn frames(&mut self, store: &'a FrameStore, ids: impl Iterator<Item = u32>);

    /// Returns whether the pieces of `next` follow one later than these.
    fn shifts_to(&self, next: &Self) -> bool;
}

/// Pieces in stores that do not pack frames.
impl<'a> Pieces<'a> for Vec<*const u8> {
    fn clear(&mut self) {
        self.clear();
    }

    #[inline]
    fn at(&mut self, address: *const u8) {
        self.push(address);
    }

    #[inline]
    fn frames(&mut self, store: &'a FrameStore, ids: impl Iterator<Item = u32>) {
        self.extend(ids.map(|id| store.at(id)));
    }

    fn shifts_to(&self, next: &Self) -> bool {
        self[1..] == next[..next.len() - 1]
    }
}

impl<'a> Pieces<'a> for Vec<Frame<'a>> {
    fn clear(&mut self) {
        self.clear();
    }

    fn at(&mut self, address: *const u8) {
        self.push(Frame::At(address));
    }

    fn frames(&mut self, store: &'a FrameStore, ids: impl Iterator<Item = u32>) {
        self.extend(ids.map(|id| store.find(id)));
    }

    fn shifts_to(&self, next: &Self) -> bool {
        self[1..] == next[..next.len() - 1]
    }
}

impl Layout {
    /// Returns the bytes of one row of an output.
    #[must_use]
    pub fn output_bytes(&self, content: Content, stack: usize) -> usize {
        match content {
            Content::Leaf(leaf) => self.nbytes[leaf] * stack,
            Content::ObsOfNext(leaf) => self.nbytes[leaf] * stack,
            Content::Block(twin) => {
                let leaf = self.obs[twin];
                match self.stacked(leaf) {
                    Some(stack) => self.nbytes[leaf] / stack * (stack + 1),
                    None => self.nbytes[leaf] * (stack + 1),
                }
            }
        }
    }
}

impl Layout {
    /// Returns [`Layout::pixels`] of the leaf of an output.
    fn output_pixels(&self, content: Content) -> Option<(usize, usize)> {
        match content {
            Content::Leaf(leaf) | Content::ObsOfNext(leaf) => self.pixels(leaf),
            Content::Block(twin) => self.pixels(self.obs[twin]),
        }
    }
}

impl<'a> Gatherer<'a> {
    /// Returns a reader of the rows of `rings`, for which `table` was made.
    pub(super) fn new(rings: &'a Rings, table: &'a Table) -> Self {
        rings.check_table(table);
        Self { rings, table }
    }

    /// Returns the layout of the table.
    #[must_use]
    pub fn layout(&self) -> &'a Layout {
        self.table.layout()
    }

    /// Copies the rows at `index` to the outputs.
    ///
    /// # Safety
    /// Every index names a slot; each `dst` has room for `index.len()` rows of [`Layout::output_bytes`].
    pub unsafe fn gather(&self, index: &[i64], outputs: &[Output]) {
        if self.table.is_on_disk() {
            let pieces = index.len().div_ceil(ANNOUNCED);
            pool::run(pieces, |piece| {
                let rows = piece * ANNOUNCED..((piece + 1) * ANNOUNCED).min(index.len());
                self.announce(&index[rows], outputs);
            });
        }
        let row: usize = outputs.iter().map(|o| self.table.layout.output_bytes(o.content, o.stack)).sum();
        let bytes = row * index.len();
        if bytes < PARALLEL || index.len() < 2 {
            // SAFETY: as promised by the caller.
            return unsafe { self.range(index, 0, outputs) };
        }
        let pieces = bytes.div_ceil(PARALLEL / 4).min(index.len());
        let per_piece = index.len().div_ceil(pieces);
        pool::run(pieces, |piece| {
            let start = piece * per_piece;
            let end = (start + per_piece).min(index.len());
            if start < end {
                // SAFETY: as promised by the caller; pieces are disjoint rows.
                unsafe { self.range(&index[start..end], start, outputs) }
            }
        });
    }

    /// Asks the system to read all that an output needs, so that the disk reads many rows at a time and not one after the other.
    fn announce(&self, index: &[i64], outputs: &[Output]) {
        let layout = &self.table.layout;
        for &i in index {
            // SAFETY: a record of the table. The next row's often holds `obs_next`.
            unsafe { memory::announce(self.table.record(i as usize), layout.stride) };
        }
        let mut pieces: Vec<*const u8> = Vec::new();
        for output in outputs {
            if let Content::Leaf(leaf) = output.content
                && matches!(layout.places[leaf], Place::Record { .. })
            {
                continue;
            }
            let bytes = layout.output_bytes(output.content, output.stack);
            for &i in index {
                pieces.clear();
                self.sources(i as usize, output.content, output.stack, &mut pieces);
                let piece = bytes / pieces.len().max(1);
                // SAFETY: pieces of the table; null stands for zeros.
                pieces.iter().filter(|piece| !piece.is_null()).for_each(|&at| unsafe { memory::announce(at, piece) });
            }
        }
    }

    /// Copies the rows at `index` to the outputs, from output row `start` on.
    unsafe fn range(&self, index: &[i64], start: usize, outputs: &[Output]) {
        let reach = outputs.iter().map(|output| self.reach(output)).max().unwrap_or(0);
        let mut sources = Vec::new();
        let mut unpacker = self.table.codec().map(unpacker);
        let mut coming = index.chunks(TILE).skip(1);
        self.prefetch(&index[..index.len().min(TILE)], reach);
        for (tile, rows) in index.chunks(TILE).enumerate() {
            let first = start + tile * TILE;
            let next = coming.next().unwrap_or_default();
            let share = next.len().div_ceil(outputs.len().max(1)).max(1);
            let mut next = next.chunks(share);
            for output in outputs {
                self.prefetch(next.next().unwrap_or_default(), reach);
                let bytes = self.table.layout.output_bytes(output.content, output.stack);
                let dst = output.dst.wrapping_add(first * bytes);
                // SAFETY: as promised by the caller.
                unsafe { self.leaf(rows, output, dst, bytes, &mut sources, unpacker.as_mut()) }
            }
        }
    }

    /// Returns how many bytes from the start of a row's record an output reads, at least.
    fn reach(&self, output: &Output) -> usize {
        let layout = &self.table.layout;
        let Content::Leaf(leaf) = output.content else { return layout.stride };
        let end = |leaf: usize| match layout.places[leaf] {
            Place::Record { offset } => offset + layout.nbytes[leaf],
            _ => layout.obs_part.end,
        };
        match layout.places[leaf] {
            // `obs_next` is usually in the next row.
            Place::Next { twin } => layout.stride + end(layout.obs[twin]),
            _ => end(leaf),
        }
    }

    /// Prefetches the first `reach` bytes of the records of `rows`.
    fn prefetch(&self, rows: &[i64], reach: usize) {
        rows.iter().for_each(|&i| self.table.prefetch(i as usize, reach));
    }

    unsafe fn leaf(
        &self,
        rows: &[i64],
        output: &Output,
        dst: *mut u8,
        bytes: usize,
        sources: &mut Vec<*const u8>,
        unpacker: Option<&mut Unpacker>,
    ) {
        let places = &self.table.layout.places;
        // SAFETY: rows are slots, so their addresses are inside the table; `dst` has room for them.
        unsafe {
            match (output.content, output.stack) {
                (Content::Leaf(leaf), 1) if matches!(places[leaf], Place::Record { .. }) => {
                    let Place::Record { offset } = places[leaf] else { unreachable!("invariant: just matched") };
                    let (base, stride) = (self.table.records.base().wrapping_add(offset), self.table.layout.stride);
                    copy_rows(rows, base, stride, dst, bytes);
                }
                (Content::Leaf(leaf), 1) if matches!(places[leaf], Place::Column { .. }) => {
                    let Place::Column { column } = places[leaf] else { unreachable!("invariant: just matched") };
                    copy_rows(rows, self.table.columns[column].base(), bytes, dst, bytes);
                }
                (Content::Leaf(leaf), 1) if let Some((base, stride, twin)) = self.plain_next(leaf) => {
                    sources.clear();
                    let (links, apart) = (self.table.records.base().wrapping_add(LINK), self.table.layout.stride);
                    sources.extend(rows.iter().map(|&i| match links.add(i as usize * apart).read() {
                        link::NEXT => base.wrapping_add(self.rings.after(i as usize) * stride),
                        link::SIDE => self.table.side_of(i as usize, twin),
                        _ => base.wrapping_add(i as usize * stride),
                    }));
                    copy_list(sources, dst, bytes);
                }
                (content, stack) if let Some(unpacker) = unpacker => {
                    self.unpacked(rows, content, stack, dst, bytes, unpacker);
                }
                (content, stack) => {
                    sources.clear();
                    for &i in rows {
                        self.sources(i as usize, content, stack, sources);
                    }
                    match self.table.layout.output_pixels(content) {
                        None => copy_list(sources, dst, bytes / (sources.len() / rows.len())),
                        Some((frames, pixel)) => {
                            let whole = bytes / stack;
                            for (k, frames) in sources.chunks_exact(frames).enumerate() {
                                pixels::join(frames, pixel, whole / frames.len(), dst.add(k * whole));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Copies an output whose pieces may be packed.
    unsafe fn unpacked(
        &self,
        rows: &[i64],
        content: Content,
        stack: usize,
        dst: *mut u8,
        bytes: usize,
        unpacker: &mut Unpacker,
    ) {
        let mut pieces: Vec<Frame<'_>> = Vec::new();
        rows.iter().for_each(|&i| self.sources(i as usize, content, stack, &mut pieces));
        let mut copy = |piece: Frame<'_>, dst: *mut u8, bytes: usize| {
            // SAFETY: whole pieces (null for zeros), for which the callers below have room.
            unsafe {
                match piece {
                    Frame::At(src) => put(src, dst, bytes),
                    Frame::Packed(chunk, place) => unpacker.copy(chunk, place, dst, bytes),
                }
            }
        };
        let Some((frames, pixel)) = self.table.layout.output_pixels(content) else {
            let piece = bytes / (pieces.len() / rows.len());
            for (k, &from) in pieces.iter().enumerate() {
                copy(from, dst.wrapping_add(k * piece), piece);
            }
            return;
        };
        let whole = bytes / stack;
        let frame = whole / frames;
        let mut split = vec![0_u8; whole];
        let split = split.as_mut_ptr();
        let places: Vec<_> = (0..frames).map(|j| split.wrapping_add(j * frame).cast_const()).collect();
        for (k, pieces) in pieces.chunks_exact(frames).enumerate() {
            for (&from, at) in pieces.iter().zip(&places) {
                copy(from, at.cast_mut(), frame);
            }
            // SAFETY: all frames were just copied; the caller promises room for the row.
            unsafe { pixels::join(&places, pixel, frame, dst.add(k * whole)) };
        }
    }

    /// For an `obs_next` leaf whose twin is stored as plain bytes, returns the address of the twin's first row, the
    /// bytes from one row to the next, and the number of the twin.
    fn plain_next(&self, leaf: usize) -> Option<(*const u8, usize, usize)> {
        let layout = &self.table.layout;
        let Place::Next { twin } = layout.places[leaf] else { return None };
        match layout.places[layout.obs[twin]] {
            Place::Record { offset } => Some((self.table.records.base().wrapping_add(offset), layout.stride, twin)),
            Place::Column { column } => Some((self.table.columns[column].base(), layout.columns[column], twin)),
            _ => None,
        }
    }

    /// Appends the addresses of the pieces of one output row; null stands for zeros.
    fn sources<P: Pieces<'a>>(&self, index: usize, content: Content, stack: usize, out: &mut P) {
        let layout = &self.table.layout;
        match (content, stack) {
            (Content::Leaf(leaf), 1) => match layout.places[leaf] {
                Place::Next { twin } => self.next(index, twin, out),
                _ => self.own(index, leaf, out),
            },
            (Content::Leaf(leaf), _) => match layout.places[leaf] {
                Place::Next { twin } => self.next_stack(index, twin, stack, out),
                _ => self.rings.stack(self.table, index, stack, |_, row, _| self.own(row, leaf, out)),
            },
            (Content::ObsOfNext(leaf), _) => {
                let next = self.rings.next(self.table, index);
                self.rings.stack(self.table, next, stack, |_, row, _| self.own(row, leaf, out));
            }
            (Content::Block(twin), _) => {
                let leaf = layout.obs[twin];
                if let Some(stack) = layout.stacked(leaf) {
                    self.own(index, leaf, out);
                    self.next_frames(index, twin, stack - 1, out);
                } else {
                    self.rings.stack(self.table, index, stack, |_, row, _| self.own(row, leaf, out));
                    self.next(index, twin, out);
                }
            }
        }
    }

    /// Appends the address of the row's leaf, or those of its frames.
    #[inline]
    fn own<P: Pieces<'a>>(&self, index: usize, leaf: usize, out: &mut P) {
        let place = self.table.layout.places[leaf];
        let r = self.rings.of(index);
        match place {
            Place::Frames { .. } if self.rings[r].seq(index).is_none() => self.no_frames(leaf, 0, out),
            Place::Frames { .. } => self.frames(r, leaf, self.table.own(index, place), 0, out),
            Place::Next { twin } => self.next(index, twin, out),
            _ => out.at(self.table.own(index, place)),
        }
    }

    /// Appends the address of the row's `obs_next`, or those of its frames.
    #[inline]
    fn next<P: Pieces<'a>>(&self, index: usize, twin: usize, out: &mut P) {
        self.next_frames(index, twin, 0, out);
    }

    /// The same from frame `from` of the stack on.
    #[inline]
    fn next_frames<P: Pieces<'a>>(&self, index: usize, twin: usize, from: usize, out: &mut P) {
        let r = self.rings.of(index);
        let ring = &self.rings[r];
        let leaf = self.table.layout.obs[twin];
        let place = self.table.layout.places[leaf];
        let at = self.table.next_of(ring, index, twin);
        match (place, at) {
            (Place::Frames { .. }, Some(ids)) => self.frames(r, leaf, ids, from, out),
            (Place::Frames { .. }, None) => self.no_frames(leaf, from, out),
            (_, at) => out.at(at.unwrap_or(std::ptr::null())),
        }
    }

    /// Appends the addresses of the stack of `obs_next`, as the actor sees it after the step: before the episode's
    /// oldest row, the `obs` of that row repeats.
    fn next_stack<P: Pieces<'a>>(&self, index: usize, twin: usize, stack: usize, out: &mut P) {
        let leaf = self.table.layout.obs[twin];
        // A row without a link is its own `obs_next`, with its own stack.
        let alone = self.table.byte(index, LINK) == link::NONE;
        self.rings.stack(self.table, index, stack, |_, row, padding| {
            if padding || alone { self.own(row, leaf, out) } else { self.next(row, twin, out) }
        });
    }

    fn frames<P: Pieces<'a>>(&self, r: usize, leaf: usize, ids: *const u8, from: usize, out: &mut P) {
        if let Place::Frames { store, stack, .. } = self.table.layout.places[leaf] {
            let store = &self.table.frames[r][store];
            // SAFETY: callers pass the frame numbers of this leaf in the record or the side row of a live row.
            out.frames(store, (from..stack).map(|j| unsafe { Table::id(ids, j) }));
        }
    }

    fn no_frames<P: Pieces<'a>>(&self, leaf: usize, from: usize, out: &mut P) {
        if let Place::Frames { stack, .. } = self.table.layout.places[leaf] {
            (from..stack).for_each(|_| out.at(std::ptr::null()));
        }
    }

    /// Returns whether in each row the stack of `obs_next` is the stack of `obs` shifted by one frame, so that one
    /// block can hold both.
    #[must_use]
    pub fn shifts(&self, index: &[i64], twin: usize, stack: usize) -> bool {
        let leaf = self.table.layout.obs[twin];
        if let Some(stack) = self.table.layout.stacked(leaf) {
            let reach = 2 * self.table.layout.stride; // `obs_next` is usually in the next row
            return index.iter().enumerate().all(|(k, &i)| {
                index.get(k + SOON).iter().for_each(|&&soon| self.table.prefetch(soon as usize, reach));
                self.frames_shift(i as usize, twin, stack)
            });
        }
        if self.table.codec().is_some() {
            return self.pieces_shift::<Vec<Frame<'_>>>(index, twin, stack);
        }
        self.pieces_shift::<Vec<*const u8>>(index, twin, stack)
    }

    /// Returns the same for stacks of rows.
    fn pieces_shift<P: Pieces<'a>>(&self, index: &[i64], twin: usize, stack: usize) -> bool {
        let leaf = self.table.layout.obs[twin];
        let (mut obs, mut next) = (P::default(), P::default());
        index.iter().all(|&i| {
            obs.clear();
            next.clear();
            self.sources(i as usize, Content::Leaf(leaf), stack, &mut obs);
            self.sources(i as usize, Content::Leaf(self.table.layout.next[twin]), stack, &mut next);
            obs.shifts_to(&next)
        })
    }

    /// Returns the same for one row whose stacks are frame numbers.
    fn frames_shift(&self, index: usize, twin: usize, stack: usize) -> bool {
        let ring = self.rings.ring_of(index);
        let own = self.table.own(index, self.table.layout.places[self.table.layout.obs[twin]]);
        let live = ring.seq(index).is_some();
        self.table
            .next_of(ring, index, twin)
            // SAFETY: a live row's record, and its `obs_next`, have `stack` numbers.
            .is_some_and(|next| live && (1..stack).all(|j| unsafe { Table::id(own, j) == Table::id(next, j - 1) }))
    }
}

/// Copies rows of `bytes` bytes, of which row 0 is at `base` and row `i` is `i * stride` bytes later.
unsafe fn copy_rows(rows: &[i64], base: *const u8, stride: usize, dst: *mut u8, bytes: usize) {
    // SAFETY: the caller promises rows inside the column and room at `dst`.
    unsafe {
        match bytes {
            1 => copy_fixed::<1>(rows, base, stride, dst),
            2 => copy_fixed::<2>(rows, base, stride, dst),
            4 => copy_fixed::<4>(rows, base, stride, dst),
            8 => copy_fixed::<8>(rows, base, stride, dst),
            12 => copy_fixed::<12>(rows, base, stride, dst),
            16 => copy_fixed::<16>(rows, base, stride, dst),
            24 => copy_fixed::<24>(rows, base, stride, dst),
            32 => copy_fixed::<32>(rows, base, stride, dst),
            64 => copy_fixed::<64>(rows, base, stride, dst),
            _ => {
                const AHEAD: usize = 4;
                for (k, &i) in rows.iter().enumerate() {
                    if let Some(&soon) = rows.get(k + AHEAD) {
                        let soon = base.add(soon as usize * stride);
                        (0..bytes.div_ceil(64).min(24)).for_each(|line| prefetch_at(soon.wrapping_add(64 * line)));
                    }
                    memory::copy(base.add(i as usize * stride), dst.add(k * bytes), bytes);
                }
            }
        }
    }
}

#[inline]
unsafe fn copy_fixed<const N: usize>(rows: &[i64], base: *const u8, stride: usize, dst: *mut u8) {
    // SAFETY: as `copy_rows`.
    unsafe {
        for (k, &i) in rows.iter().enumerate() {
            let row = base.add(i as usize * stride).cast::<[u8; N]>().read();
            dst.add(k * N).cast::<[u8; N]>().write(row);
        }
    }
}

/// Copies pieces of `bytes` bytes from a list of addresses.
unsafe fn copy_list(sources: &[*const u8], dst: *mut u8, bytes: usize) {
    // SAFETY: the caller promises whole pieces (or null) and room at `dst`.
    unsafe {
        match bytes {
            4 => copy_fixed_list::<4>(sources, dst),
            8 => copy_fixed_list::<8>(sources, dst),
            16 => copy_fixed_list::<16>(sources, dst),
            32 => copy_fixed_list::<32>(sources, dst),
            _ => {
                for (k, &src) in sources.iter().enumerate() {
                    // The processor prefetches consecutive pieces itself, and most frames of a stack are consecutive.
                    let soon = sources.get(k + 2).filter(|&&soon| soon != src.wrapping_add(2 * bytes));
                    if let Some(&soon) = soon {
                        (0..bytes.div_ceil(64).min(24)).for_each(|line| prefetch_at(soon.wrapping_add(64 * line)));
                    }
                    put(src, dst.add(k * bytes), bytes);
                }
            }
        }
    }
}

#[inline]
unsafe fn copy_fixed_list<const N: usize>(sources: &[*const u8], dst: *mut u8) {
    // SAFETY: as `copy_list`.
    unsafe {
        for (k, &src) in sources.iter().enumerate() {
            let dst = dst.add(k * N).cast::<[u8; N]>();
            if src.is_null() {
                dst.write([0; N]);
            } else {
                dst.write(src.cast::<[u8; N]>().read());
            }
        }
    }
}

#[inline]
unsafe fn put(src: *const u8, dst: *mut u8, bytes: usize) {
    // SAFETY: as `copy_list`.
    unsafe { if src.is_null() { memory::zero(dst, bytes) } else { memory::copy(src, dst, bytes) } }
}
