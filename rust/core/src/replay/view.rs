//! Whole columns as memory.

use std::sync::Arc;

use crate::error::Result;
use crate::memory::{Region, Storage};
use crate::replay::Replay;
use crate::replay::gather::{Content, Output};
use crate::vectors::{collected, product};

/// The memory of a column: row `i` stands `offset + i * stride` bytes into the region.
#[derive(Debug)]
pub struct ColumnView {
    /// The memory.
    pub region: Arc<Region>,
    /// Where row 0 is.
    pub offset: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Whether the rows are stored there; if not, the memory is a copy.
    pub stored: bool,
}

impl Replay {
    /// The column of a leaf. A column that is not stored in one piece is copied to memory of its own: live rows have their values, and
    /// other rows zeros, which take no memory.
    ///
    /// # Errors
    /// `Value` before any row was laid out; `Memory` and `Room` when a copy does not fit.
    pub fn column(&self, leaf: usize) -> Result<ColumnView> {
        if let Some((region, offset, stride)) = self.laid_out()?.strided(leaf) {
            return Ok(ColumnView { region: region.clone(), offset, stride, stored: true });
        }
        let (gatherer, content) = (self.gatherer()?, Content::Leaf(leaf));
        let stride = gatherer.layout().output_bytes(content, 1);
        let region = Region::sparse(product(&[stride, self.rings().total()])?, &Storage::Ram)?;
        for slots in self.rings().stretches() {
            let index = collected(slots.clone().map(|slot| slot as i64))?;
            let output = [Output { content, stack: 1, dst: region.at(slots.start * stride) }];
            // SAFETY: the index names slots of live rows, for which the fresh region has room from the first of them on.
            unsafe { gatherer.gather(&index, &output) };
        }
        Ok(ColumnView { region, offset: 0, stride, stored: false })
    }
}
