//! Rows of a snapshot in another layout.

use crate::error::Result;
use crate::replay::gather::{Content, Gatherer, Output};
use crate::replay::layout::{LINK, Place, TERMINATED, TRUNCATED, link};
use crate::replay::ring::Ring;
use crate::replay::rings::Rings;
use crate::replay::table::{Ending, Table};
use crate::source::Source;
use crate::vectors;

/// Writes the live rows of `from` into `to`, an empty table of the same columns in another layout, and returns it.
///
/// # Errors
/// When there is no room.
pub(super) fn rewritten(from: &Table, rings: &Rings, mut to: Table) -> Result<Table> {
    let layout = from.layout();
    let reader = Gatherer::new(rings, from);
    let size = |leaf: usize| layout.output_bytes(Content::Leaf(leaf), 1);
    let mut row: Vec<Vec<u8>> =
        (0..layout.leaves().len()).map(|leaf| vectors::filled(0, size(leaf))).collect::<Result<_>>()?;
    for (r, ring) in rings.iter().enumerate() {
        let mut written = Ring::new(ring.offset, ring.capacity);
        if ring.len > 0 {
            written.cursor = ring.index(ring.oldest()) - ring.offset;
        }
        for seq in ring.oldest()..ring.head {
            let index = ring.index(seq);
            let outputs = row.iter_mut().enumerate();
            let outputs: Vec<_> = outputs
                .map(|(leaf, bytes)| Output { content: Content::Leaf(leaf), stack: 1, dst: bytes.as_mut_ptr() })
                .collect();
            // SAFETY: the index is that of a live row, and each output has room for one.
            unsafe { reader.gather(&[index as i64], &outputs) };
            let has_next = from.byte(index, LINK) != link::NONE;
            let source = |(leaf, bytes): (usize, &Vec<u8>)| match layout.place(leaf) {
                Place::Next { .. } if !has_next => Source::ZEROS,
                _ => Source::rows(bytes.as_ptr(), 0),
            };
            let sources: Vec<_> = row.iter().enumerate().map(source).collect();
            let ending = Ending {
                terminated: from.flag(index, TERMINATED),
                truncated: from.flag(index, TRUNCATED),
                known: true,
            };
            to.reserve(&[r])?;
            // SAFETY: each source is a whole row of its leaf.
            unsafe { to.write(&written, r, &sources, 0, ending, false) };
            written.push(ending.done());
            to.set_episode(index, from.episode(index));
        }
    }
    Ok(to)
}
