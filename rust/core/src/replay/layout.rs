//! The layout of rows: where each leaf of a transition is stored.
//!
//! The small leaves of a transition share one record, so that reading a random row costs one or two cache misses
//! instead of one
//! for each field. A leaf above [`RECORD_LEAF`] bytes has a column of its own, and an observation whose shape is that
//! of a stack
//! of frames is stored as frame numbers. `obs_next` has no place of its own when it has the structure of `obs`: see
//! [`Place::Next`] and `table.rs`.
//!
//! ```text
//! record: | episode u32 | terminated u8 | truncated u8 | done u8 | link u8 | obs ... | the rest |
//! ```

use crate::error::{Error, Result, value_error};

/// Leaves of at most this many bytes are stored in the record.
pub const RECORD_LEAF: usize = 512;
/// Bytes before the first leaf of a record.
pub const HEADER: usize = 8;
/// Offset of the episode number (u32).
pub const EPISODE: usize = 0;
/// Offset of the `terminated` flag.
pub const TERMINATED: usize = 4;
/// Offset of the `truncated` flag.
pub const TRUNCATED: usize = 5;
/// Offset of the `done` flag.
pub const DONE: usize = 6;
/// Offset of the link (see [`link`]).
pub const LINK: usize = 7;

/// Where a row's `obs_next` is stored.
pub mod link {
    /// `obs_next` is not stored (reading gives the row's own `obs`), or the slot holds no row.
    pub const NONE: u8 = 0;
    /// `obs_next` is the `obs` of the next row of the ring.
    pub const NEXT: u8 = 1;
    /// `obs_next` is in a side row.
    pub const SIDE: u8 = 2;
}

/// NumPy's name of f64 in this machine's byte order.
const DOUBLE: &str = if cfg!(target_endian = "little") { "<f8" } else { ">f8" };
/// NumPy's name of f32 in this machine's byte order.
pub const SINGLE: &str = if cfg!(target_endian = "little") { "<f4" } else { ">f4" };
/// The most frames of a stack.
pub(super) const MAX_STACK: usize = 16;
/// The most keys in the path of a leaf.
pub const MAX_DEPTH: usize = 256;
/// The most bytes of one row, all leaves together; larger rows are refused before any sum can overflow.
const MAX_ROW: u128 = 1 << 48;
/// The first key of the path of a retired leaf; see [`Leaf::retire`].
const RETIRED: &str = "\0";
/// The fewest bytes of a frame that is stored once and referred to by number.
const MIN_FRAME: usize = 256;
/// The fewest bytes of such a frame where frames are stacked along the last axis, so that the frame must be gathered
/// pixel by pixel.
const MIN_PIXEL_FRAME: usize = 1024;
/// Channels of a colour image. A last axis whose length is a multiple of it is a stack of colour images.
const COLOURS: usize = 3;

/// One leaf of a nested transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The keys of its path, such as `["obs", "agent", "position"]`.
    pub path: Vec<String>,
    /// NumPy's name of its dtype, such as `<f4`.
    pub dtype: String,
    /// Bytes of one item.
    pub itemsize: usize,
    /// Shape of one row.
    pub shape: Vec<usize>,
}

impl Leaf {
    /// Returns the bytes of one row.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.itemsize * self.shape.iter().product::<usize>()
    }

    /// Returns the bytes of one row without overflow. An axis of length 0 counts as 1, as NumPy also bounds the product
    /// of the other axes.
    fn needed(&self) -> u128 {
        let axes = self.shape.iter().map(|&length| length.max(1) as u128);
        axes.fold(self.itemsize as u128, u128::saturating_mul)
    }

    /// Returns the first key of the path.
    #[must_use]
    pub fn root(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Retires the leaf with number `number`: another one can have its path. It keeps its bytes in each row, and nobody reads them.
    pub fn retire(&mut self, number: usize) {
        self.path = vec![RETIRED.to_owned(), number.to_string()];
    }

    /// Returns whether the leaf was retired.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.root() == RETIRED
    }

    /// Returns the number of frames if a row has the shape of a stack of frames and, if they are stacked along the last
    /// axis, the bytes that each frame has of a pixel.
    fn stack(&self) -> Option<(usize, Option<usize>)> {
        let (&first, &last) = (self.shape.first()?, self.shape.last()?);
        if self.shape.len() < 2 {
            return None;
        }
        let fits = |stack: usize, least: usize| (2..=MAX_STACK).contains(&stack) && self.nbytes() / stack >= least;
        if fits(first, MIN_FRAME) {
            return Some((first, None));
        }
        let channels = if last.is_multiple_of(COLOURS) { COLOURS } else { 1 };
        let stack = last / channels;
        (self.shape.len() >= 3 && fits(stack, MIN_PIXEL_FRAME)).then_some((stack, Some(channels * self.itemsize)))
    }

    /// Returns whether a row has the shape of a picture.
    fn is_picture(&self) -> bool {
        self.shape.len() >= 2 && self.nbytes() >= MIN_PIXEL_FRAME
    }

    fn same_rows(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.path[1..] == other.path[1..]
    }
}

/// Where a leaf is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the row record.
    Record {
        /// Bytes from the start of the record.
        offset: usize,
    },
    /// In a column of its own.
    Column {
        /// The number of the column.
        column: usize,
    },
    /// As `stack` frame numbers (u32) in the row record, for frames in a frame store. A picture that is not one of a stack
    /// has one number.
    Frames {
        /// Bytes from the start of the record.
        offset: usize,
        /// The number of the frame store.
        store: usize,
        /// Frames of one row.
        stack: usize,
        /// The bytes that each frame has of a pixel, if frames are stacked along the last axis; None along the first
        /// axis.
        pixel: Option<usize>,
    },
    /// As the `obs` leaf of the next row or of a side row; for `obs_next` leaves.
    Next {
        /// The number in [`Layout::obs`] of the twin, the leaf of `obs` with the same path.
        twin: usize,
    },
}

/// A leaf whose bytes are copied without change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub leaf: usize,
    /// Bytes of one row.
    pub bytes: usize,
    /// The column; None for the record.
    pub column: Option<usize>,
    /// The offset in the record; 0 in a column.
    pub offset: usize,
}

/// The places of all leaves.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The leaves, in the order in which they were added.
    pub(super) leaves: Vec<Leaf>,
    /// Bytes of one row of each leaf.
    pub(super) nbytes: Vec<usize>,
    /// How many leaves the first row had.
    pub(super) first: usize,
    /// The places of the leaves.
    pub(super) places: Vec<Place>,
    /// The numbers of the `obs` leaves of the first row.
    pub(super) obs: Vec<usize>,
    /// For each of `obs` the number of its twin in `obs_next`; empty unless `obs_next` is stored by links.
    pub(super) next: Vec<usize>,
    /// Whether `obs_next` is stored at the ends of episodes alone. Elsewhere it is the next row's `obs`, whatever was
    /// added.
    pub(super) ends_only: bool,
    /// The number of the leaf `rew`.
    pub(super) reward: Option<usize>,
    /// Bytes of a record.
    pub(super) stride: usize,
    /// The bytes of the record that hold `obs`; a side row begins with the same bytes.
    pub(super) obs_part: std::ops::Range<usize>,
    /// For each of `obs` the offset of its column's bytes in a side row.
    pub(super) side_column: Vec<usize>,
    /// Bytes of a side row.
    pub(super) side_stride: usize,
    /// Bytes of one row of each column.
    pub(super) columns: Vec<usize>,
    /// Bytes of one frame of each frame store.
    pub(super) frames: Vec<usize>,
    /// Whether there are single pictures that are frames.
    pub(super) single: bool,
    /// Whether any frames are stacked along the last axis.
    pub(super) any_pixels: bool,
    /// The leaves whose bytes are copied without change to the record or a column.
    pub(super) copied: Vec<Copied>,
}

impl Layout {
    /// Returns the layout for the leaves of the first row. An `obs_next` with the structure of `obs` is stored by
    /// links; without `save_obs_next`, at the ends of episodes alone. With `single`, a picture is a frame also where it
    /// is not one of a stack.
    ///
    /// # Errors
    /// `Value` for a path that is empty or occurs twice, a `rew` that is not f64, or a flag that is not one bool;
    /// `Room` for a row that is too large.
    pub fn new(leaves: Vec<Leaf>, save_obs_next: bool, single: bool) -> Result<Self> {
        check(&leaves)?;
        let obs: Vec<usize> = (0..leaves.len()).filter(|&i| leaves[i].root() == "obs").collect();
        let next = twins(&leaves, &obs).unwrap_or_default();
        let mut layout = Self {
            first: leaves.len(),
            nbytes: leaves.iter().map(Leaf::nbytes).collect(),
            places: vec![Place::Record { offset: 0 }; leaves.len()],
            reward: leaves.iter().position(|l| l.path == ["rew"]),
            leaves,
            obs,
            ends_only: !save_obs_next && !next.is_empty(),
            next,
            stride: HEADER,
            obs_part: HEADER..HEADER,
            side_column: Vec::new(),
            side_stride: 0,
            columns: Vec::new(),
            frames: Vec::new(),
            single: false,
            any_pixels: false,
            copied: Vec::new(),
        };
        let framed = layout.linked() || !save_obs_next;
        for i in layout.obs.clone() {
            layout.put(i, framed, single);
        }
        layout.obs_part = HEADER..layout.stride;
        for i in 0..layout.leaves.len() {
            match layout.leaves[i].root() {
                "obs" => {}
                "terminated" => layout.places[i] = Place::Record { offset: TERMINATED },
                "truncated" => layout.places[i] = Place::Record { offset: TRUNCATED },
                "done" => layout.places[i] = Place::Record { offset: DONE },
                _ => match layout.next.iter().position(|&n| n == i) {
                    Some(twin) => layout.places[i] = Place::Next { twin },
                    None => layout.put(i, false, false),
                },
            }
        }
        layout.stride = layout.stride.next_multiple_of(8);
        layout.lay_out_side();
        layout.note_copied();
        Ok(layout)
    }

    /// Adds leaves, each in a column of its own.
    ///
    /// # Errors
    /// `Value` for a path that exists, and as [`Layout::new`].
    pub fn extend(&mut self, leaves: Vec<Leaf>) -> Result<()> {
        let mut all = self.leaves.clone();
        all.extend(leaves.iter().cloned());
        check(&all)?;
        for leaf in leaves {
            if leaf.path == ["rew"] {
                self.reward = Some(self.leaves.len());
            }
            self.places.push(match leaf.root() {
                "terminated" => Place::Record { offset: TERMINATED },
                "truncated" => Place::Record { offset: TRUNCATED },
                "done" => Place::Record { offset: DONE },
                _ => {
                    self.columns.push(leaf.nbytes());
                    Place::Column { column: self.columns.len() - 1 }
                }
            });
            self.nbytes.push(leaf.nbytes());
            self.leaves.push(leaf);
        }
        self.note_copied();
        Ok(())
    }

    /// Retires leaves; see [`Leaf::retire`].
    ///
    /// # Errors
    /// `Value` for a leaf that every row needs.
    pub fn retire(&mut self, leaves: &[usize]) -> Result<()> {
        for &leaf in leaves {
            let root = self.leaves[leaf].root();
            if matches!(root, "obs" | "obs_next" | "act" | "rew" | "terminated" | "truncated" | "done") {
                return value_error!("the column {root:?} cannot be replaced");
            }
            self.leaves[leaf].retire(leaf);
        }
        Ok(())
    }

    /// Returns the leaves, in the order in which they were added.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns where a leaf is stored.
    #[must_use]
    pub fn place(&self, leaf: usize) -> Place {
        self.places[leaf]
    }

    /// Returns the twin number of an `obs` leaf: its position among the `obs` leaves of the first row. None for other
    /// leaves.
    #[must_use]
    pub fn twin(&self, leaf: usize) -> Option<usize> {
        self.obs.iter().position(|&obs| obs == leaf)
    }

    /// Returns the `obs_next` leaf of an `obs` leaf, if `obs_next` is stored by links.
    #[must_use]
    pub fn next_leaf(&self, leaf: usize) -> Option<usize> {
        self.next.get(self.twin(leaf)?).copied()
    }

    /// Returns the `obs` leaf with this twin number.
    #[must_use]
    pub fn obs(&self, twin: usize) -> usize {
        self.obs[twin]
    }

    /// Returns the number of frames and the bytes that each has of a pixel, for a leaf of `obs` or `obs_next` whose
    /// frames are stacked along the last axis; None for other leaves.
    #[must_use]
    pub fn pixels(&self, leaf: usize) -> Option<(usize, usize)> {
        match self.places[leaf] {
            Place::Frames { stack, pixel, .. } => Some((stack, pixel?)),
            Place::Next { twin } => self.pixels(self.obs[twin]),
            _ => None,
        }
    }

    /// Returns the number of frames of a row of a leaf that is stored as a stack of frames; None for other leaves, also
    /// for single pictures.
    #[must_use]
    pub fn stacked(&self, leaf: usize) -> Option<usize> {
        match self.places[leaf] {
            Place::Frames { stack, .. } if stack > 1 => Some(stack),
            _ => None,
        }
    }

    /// Returns whether `obs_next` is stored by links, in all rows or at the ends of episodes.
    #[must_use]
    pub fn linked(&self) -> bool {
        !self.next.is_empty()
    }

    /// Returns the number of the leaf at `path`.
    #[must_use]
    pub fn find(&self, path: &[String]) -> Option<usize> {
        self.leaves.iter().position(|l| l.path == path)
    }

    /// Returns the least bytes that one row takes.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.stride + self.columns.iter().sum::<usize>() + self.frames.iter().sum::<usize>()
    }

    fn put(&mut self, i: usize, framed: bool, single: bool) {
        let (nbytes, itemsize) = (self.leaves[i].nbytes(), self.leaves[i].itemsize);
        let picture = single && self.leaves[i].is_picture();
        let stack = if framed { self.leaves[i].stack().or(picture.then_some((1, None))) } else { None };
        self.places[i] = match stack {
            Some((stack, pixel)) => {
                self.frames.push(nbytes / stack);
                self.any_pixels |= pixel.is_some();
                self.single |= stack == 1;
                Place::Frames { offset: self.room(4 * stack, 4), store: self.frames.len() - 1, stack, pixel }
            }
            None if nbytes <= RECORD_LEAF => Place::Record { offset: self.room(nbytes, itemsize) },
            None => {
                self.columns.push(nbytes);
                Place::Column { column: self.columns.len() - 1 }
            }
        };
    }

    /// Reserves `nbytes` in the record, aligned for items of `itemsize`, and returns their offset.
    fn room(&mut self, nbytes: usize, itemsize: usize) -> usize {
        let align = match itemsize {
            1 | 2 | 4 => itemsize,
            n if n.is_multiple_of(8) => 8,
            _ => 1,
        };
        let offset = self.stride.next_multiple_of(align);
        self.stride = offset + nbytes;
        offset
    }

    fn note_copied(&mut self) {
        let copied = |leaf: usize| {
            let (column, offset) = match self.places[leaf] {
                Place::Record { offset } if offset >= HEADER => (None, offset),
                Place::Column { column } => (Some(column), 0),
                _ => return None,
            };
            Some(Copied { leaf, bytes: self.nbytes[leaf], column, offset })
        };
        self.copied = (0..self.leaves.len()).filter_map(copied).collect();
    }

    fn lay_out_side(&mut self) {
        let mut end = self.obs_part.len();
        for &i in &self.obs {
            end = end.next_multiple_of(8);
            self.side_column.push(end);
            if let Place::Column { .. } = self.places[i] {
                end += self.leaves[i].nbytes();
            }
        }
        self.side_stride = end.next_multiple_of(8).max(8);
    }
}

fn check(leaves: &[Leaf]) -> Result<()> {
    let mut needed = 0_u128;
    for (i, leaf) in leaves.iter().enumerate() {
        if leaf.path.is_empty() {
            return value_error!("a column needs a name, got an empty path");
        }
        if leaf.path.len() > MAX_DEPTH {
            return value_error!("a column is nested at most {MAX_DEPTH} deep, got one at depth {}", leaf.path.len());
        }
        needed = needed.saturating_add(leaf.needed());
        if needed > MAX_ROW {
            return Err(Error::Room { needed });
        }
        if leaves[..i].iter().any(|l| l.path == leaf.path) {
            return value_error!("the column {:?} is there twice", leaf.path.join("."));
        }
        if leaf.path == ["rew"] && leaf.dtype != DOUBLE {
            return value_error!("rew is kept as float64, got {}", leaf.dtype);
        }
        let flag = matches!(leaf.path[0].as_str(), "terminated" | "truncated" | "done");
        if flag && (leaf.dtype != "|b1" || leaf.path.len() != 1 || leaf.nbytes() != 1) {
            return value_error!(
                "{} is one bool for each row, got {} of shape {:?}",
                leaf.root(),
                leaf.dtype,
                leaf.shape
            );
        }
    }
    Ok(())
}

/// Returns for each leaf of `obs` its twin in `obs_next`; None unless both have the same structure.
fn twins(leaves: &[Leaf], obs: &[usize]) -> Option<Vec<usize>> {
    let next: Vec<usize> = (0..leaves.len()).filter(|&i| leaves[i].root() == "obs_next").collect();
    if next.is_empty() || obs.len() != next.len() {
        return None;
    }
    obs.iter().map(|&o| next.iter().copied().find(|&n| leaves[o].same_rows(&leaves[n]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(path: &[&str], dtype: &str, itemsize: usize, shape: &[usize]) -> Leaf {
        Leaf {
            path: path.iter().map(|&p| p.to_owned()).collect(),
            dtype: dtype.to_owned(),
            itemsize,
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn a_half_cheetah_row_is_176_bytes() {
        let leaves = vec![
            leaf(&["obs"], "<f8", 8, &[17]),
            leaf(&["act"], "<f4", 4, &[6]),
            leaf(&["rew"], "<f8", 8, &[]),
            leaf(&["terminated"], "|b1", 1, &[]),
            leaf(&["obs_next"], "<f8", 8, &[17]),
        ];
        let layout = Layout::new(leaves, true, false).unwrap();
        assert_eq!(layout.stride, 176);
        assert!(layout.linked());
        assert_eq!(layout.places[4], Place::Next { twin: 0 });
    }

    #[test]
    fn a_stack_of_images_is_kept_as_frame_numbers() {
        let stack = [4, 84, 84];
        let leaves = vec![leaf(&["obs"], "|u1", 1, &stack), leaf(&["obs_next"], "|u1", 1, &stack)];
        let layout = Layout::new(leaves, true, false).unwrap();
        assert_eq!(layout.places[0], Place::Frames { offset: 8, store: 0, stack: 4, pixel: None });
        assert_eq!(layout.frames, [84 * 84]);
    }

    #[test]
    fn a_stack_of_images_along_the_last_axis_is_kept_as_frame_numbers() {
        for (shape, itemsize, wanted) in [
            ([84, 84, 4], 1, Some((4, 1))),
            ([84, 84, 4], 4, Some((4, 4))),
            ([84, 84, 12], 1, Some((4, 3))), // of colour images
            ([84, 84, 3], 1, None),          // one colour image
            ([84, 84, 1], 1, None),
            ([10, 10, 4], 4, None), // too small
            ([84, 84, 17], 1, None),
            ([4, 84, 84], 1, None), // along the first axis
        ] {
            let leaves = vec![leaf(&["obs"], "?", itemsize, &shape), leaf(&["obs_next"], "?", itemsize, &shape)];
            let layout = Layout::new(leaves, true, false).unwrap();
            assert_eq!([layout.pixels(0), layout.pixels(1)], [wanted; 2], "{shape:?}");
        }
    }

    #[test]
    fn a_single_picture_is_a_frame_where_that_is_asked_for() {
        for (shape, single, stacked) in
            [(&[84, 84][..], true, None), (&[3, 84, 84], true, Some(3)), (&[2000], false, None)]
        {
            let leaves = vec![leaf(&["obs"], "|u1", 1, shape), leaf(&["obs_next"], "|u1", 1, shape)];
            let layout = Layout::new(leaves.clone(), true, true).unwrap();
            assert_eq!(matches!(layout.places[0], Place::Frames { .. }), single, "{shape:?}");
            assert_eq!((layout.stacked(0), layout.single), (stacked, single && stacked.is_none()));
            assert_eq!(Layout::new(leaves, true, false).unwrap().stacked(0), stacked);
        }
    }

    #[test]
    fn an_obs_next_of_another_structure_has_places_of_its_own() {
        let leaves = vec![leaf(&["obs"], "<f4", 4, &[4]), leaf(&["obs_next"], "<f8", 8, &[4])];
        let layout = Layout::new(leaves, true, false).unwrap();
        assert!(!layout.linked());
        assert!(matches!(layout.places[1], Place::Record { .. }));
    }

    #[test]
    fn bad_columns_are_refused() {
        assert!(Layout::new(vec![leaf(&["a"], "<f4", 4, &[]); 2], true, false).is_err());
        assert!(Layout::new(vec![leaf(&["rew"], "<f4", 4, &[])], true, false).is_err());
        assert!(Layout::new(vec![leaf(&["done"], "<f4", 4, &[])], true, false).is_err());
    }
}
