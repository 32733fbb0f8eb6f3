//! Views of whole columns.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::{Region, Storage};
use crate::replay::Replay;
use crate::replay::gather::{Content, Output};
use crate::vectors::{collected, product};

/// The memory of a column. Row `i` begins `offset + i * stride` bytes into the region.
#[derive(Debug)]
pub struct ColumnView {
    /// The region of memory.
    pub region: Arc<Region>,
    /// Offset of row 0 in the region, in bytes.
    pub offset: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Whether it is the buffer's own memory, in which rows may be overwritten: not obs, of which rows are linked, nor flags.
    pub writable: bool,
}

impl Replay {
    /// The number of the leaf at a path.
    ///
    /// # Errors
    /// `Key` for a path without a leaf, `Value` before `define`.
    pub fn leaf(&self, path: &[String]) -> Result<usize> {
        self.laid_out()?.layout().find(path).ok_or_else(|| Error::Key(path.join(".")))
    }

    /// Bytes of the live rows of the leaf at a path.
    ///
    /// # Errors
    /// As [`Self::leaf`].
    pub fn column_bytes(&self, path: &[String]) -> Result<usize> {
        let leaf = self.leaf(path)?;
        Ok(self.laid_out()?.layout().leaves()[leaf].nbytes().saturating_mul(self.rings().live()))
    }

    /// Returns the column of a leaf. A column that is not stored in one piece is copied to new memory, in which slots
    /// without a row are zero and take no memory.
    ///
    /// # Errors
    /// `Value` before `define`; `Memory` and `Room` when a copy does not fit into memory.
    pub fn column(&self, leaf: usize) -> Result<ColumnView> {
        let table = self.laid_out()?;
        let linked = matches!(table.layout().leaves()[leaf].root(), "obs" | "terminated" | "truncated" | "done");
        if let Some((region, offset, stride)) = table.strided(leaf) {
            return Ok(ColumnView { region: region.clone(), offset, stride, writable: !linked });
        }
        let (gatherer, content) = (self.gatherer()?, Content::Leaf(leaf));
        let stride = gatherer.layout().output_bytes(content, 1);
        let region = Region::sparse(product(&[stride, self.rings().total()])?, &Storage::Ram)?;
        for slots in self.rings().stretches() {
            let index = collected(slots.clone().map(|slot| slot as i64))?;
            let output = [Output { content, stack: 1, dst: region.at(slots.start * stride) }];
            // SAFETY: the indices are slots of live rows, and the new region has room for them from the first on.
            unsafe { gatherer.gather(&index, &output) };
        }
        Ok(ColumnView { region, offset: 0, stride, writable: false })
    }
}
