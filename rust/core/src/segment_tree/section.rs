//! Draws from a range of leaves.

use std::ops::Range;

use super::{Node, SumTree, WIDTH};

/// A range of leaves of a [`SumTree`], as the fewest nodes and leaves that cover it. Leaves outside the range have no
/// influence on a draw, however large they are.
pub struct Section<'a> {
    /// The leaves, and then the levels above them.
    levels: Vec<&'a [Node]>,
    /// The positive values that cover the range, from left to right: their level, and their place in it.
    pieces: Vec<(usize, usize)>,
    /// The sum of the pieces up to and including each.
    ends: Vec<f64>,
}

impl SumTree {
    /// Returns the leaves of `range` to draw from, in O(log n).
    ///
    /// # Panics
    /// If `range` reaches outside the tree.
    pub fn section(&self, range: Range<usize>) -> Section<'_> {
        assert!(range.end <= self.len, "{range:?} reaches outside a tree of {}", self.len);
        let levels: Vec<&[Node]> =
            std::iter::once(&self.leaves[..]).chain(self.sums.levels.iter().map(|level| &level[..])).collect();
        let (mut start, mut end) = (range.start, range.end.max(range.start));
        let (mut pieces, mut later) = (Vec::new(), Vec::new());
        for level in 0..levels.len() {
            // Values that fill a node are one value of the level above, which the top level does not have.
            let whole = start.next_multiple_of(WIDTH)..end / WIDTH * WIDTH;
            if whole.is_empty() || level + 1 == levels.len() {
                pieces.extend((start..end).map(|slot| (level, slot)));
                break;
            }
            pieces.extend((start..whole.start).map(|slot| (level, slot)));
            later.extend((whole.end..end).rev().map(|slot| (level, slot)));
            (start, end) = (whole.start / WIDTH, whole.end / WIDTH);
        }
        pieces.extend(later.into_iter().rev());
        let value = |&(level, slot): &(usize, usize)| levels[level][slot / WIDTH].0[slot % WIDTH];
        pieces.retain(|piece| value(piece) > 0.0);
        let mut sum = 0.0;
        let ends = pieces
            .iter()
            .map(|piece| {
                sum += value(piece);
                sum
            })
            .collect();
        Section { levels, pieces, ends }
    }
}

impl Section<'_> {
    /// Returns the sum of the leaves of the range.
    pub fn total(&self) -> f64 {
        self.ends.last().copied().unwrap_or(0.0)
    }

    /// Returns the leaf that owns `mass`, counted from the start of the range, as [`SumTree::find_many`] does; None if no
    /// leaf is positive. The mass must not be NaN or negative.
    pub fn find(&self, mass: f64) -> Option<usize> {
        let last = self.pieces.len().checked_sub(1)?;
        let piece = self.ends.partition_point(|&end| end < mass).min(last);
        let (level, mut slot) = self.pieces[piece];
        let mut rest = if piece == 0 { mass } else { mass - self.ends[piece - 1] };
        for nodes in self.levels[..level].iter().rev() {
            slot = slot * WIDTH + nodes[slot].descend(&mut rest);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// A tree of small whole numbers, whose sums are exact, and its leaves.
    fn tree(len: usize, stream: &mut Stream) -> (SumTree, Vec<f64>) {
        let leaves: Vec<f64> = (0..len).map(|_| stream.below(4) as f64).collect();
        let mut tree = SumTree::new(len);
        tree.set_range(0, &leaves);
        (tree, leaves)
    }

    #[test]
    fn the_leaf_of_a_mass_is_the_one_that_counting_finds() {
        let mut stream = Stream::new(3);
        for len in [1, 7, 8, 9, 63, 64, 65, 300, 512, 513, 5000] {
            let (tree, leaves) = tree(len, &mut stream);
            for _ in 0..200 {
                let (one, other) = (stream.below(len as u64 + 1) as usize, stream.below(len as u64 + 1) as usize);
                let range = one.min(other)..one.max(other);
                let section = tree.section(range.clone());
                let total: f64 = leaves[range.clone()].iter().sum();
                assert_eq!(section.total(), total);
                for mass in [0.0, 0.5, total / 2.0, total, total + 9.0, stream.uniform() * total] {
                    let mut sum = 0.0;
                    let owner = range.clone().find(|&leaf| {
                        sum += leaves[leaf];
                        sum > 0.0 && sum >= mass
                    });
                    let last = range.clone().rev().find(|&leaf| leaves[leaf] > 0.0);
                    assert_eq!(section.find(mass), owner.or(last), "{mass} of {range:?} of {len}");
                }
            }
        }
    }

    #[test]
    fn leaves_outside_take_no_precision_away() {
        let mut tree = SumTree::new(100);
        tree.fill_range(0..100, 1e290);
        tree.set_range(40, &[1.0, 2.0, 3.0]);
        let section = tree.section(40..43);
        assert_eq!((section.total(), section.find(0.5), section.find(2.5)), (6.0, Some(40), Some(41)));
        assert_eq!((section.find(3.5), section.find(1e9)), (Some(42), Some(42)));
    }

    #[test]
    fn a_range_without_a_positive_leaf_has_none() {
        let mut tree = SumTree::new(20);
        tree.set(3, 1.0);
        for range in [4..20, 0..3, 5..5] {
            let section = tree.section(range);
            assert_eq!((section.total(), section.find(0.0)), (0.0, None));
        }
    }
}
