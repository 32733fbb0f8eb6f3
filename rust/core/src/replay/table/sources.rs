//! Whether rows come from the table itself.

use std::ops::Range;

use super::Table;
use crate::memory::{self, Region};
use crate::source::Source;

/// Sources, and the copies that some of them point to.
#[derive(Debug)]
pub(in crate::replay) struct CopiedSources {
    pub(in crate::replay) sources: Vec<Source>,
    kept: Vec<Vec<u8>>,
}

impl Table {
    /// Returns the sources with copies of those rows that are in this table, which writing could change before they are
    /// read; None if there are none.
    ///
    /// # Safety
    /// Each source, one for each leaf, is readable for `rows` rows.
    pub(in crate::replay) unsafe fn copy_overlapping(&self, sources: &[Source], rows: usize) -> Option<CopiedSources> {
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

    pub(super) fn hull_now(&self) -> Range<usize> {
        let regions = || std::iter::once(&self.records).chain(&self.columns);
        let start = regions().map(|region| region.base().addr()).min().unwrap_or(0);
        let end = regions().map(|region| region.base().addr() + region.len()).max().unwrap_or(0);
        start..end
    }
}
