//! All rings of a buffer, and the neighbours of a row in its episode: previous and next row, first and last row, stack.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::replay::ring::Ring;
use crate::replay::table::Table;
use crate::vectors::with_room;

/// The rings of a buffer, one after the other in one space of indices.
#[derive(Clone, Debug)]
pub struct Rings {
    rings: Vec<Ring>,
    /// The capacity of each ring, when all are the same.
    uniform: Option<usize>,
    total: usize,
}

impl Rings {
    /// Returns empty rings of these capacities.
    ///
    /// # Errors
    /// `Value` when there are none, or their capacities add up to more than 2^63.
    pub fn new(capacities: &[usize]) -> Result<Self> {
        let Some(&first) = capacities.first() else {
            return Err(Error::Value("a replay buffer needs at least one ring, got none".to_owned()));
        };
        let mut rings = with_room(capacities.len())?;
        let mut offset = 0_usize;
        for &capacity in capacities {
            rings.push(Ring::new(offset, capacity));
            offset = offset
                .checked_add(capacity)
                .filter(|&sum| sum <= i64::MAX as usize)
                .ok_or_else(|| Error::Value("the capacities add up to more than 2^63 rows".to_owned()))?;
        }
        let uniform = (first > 0 && capacities.iter().all(|&c| c == first)).then_some(first);
        Ok(Self { rings, uniform, total: offset })
    }

    /// Returns a ring, mutably.
    #[inline]
    pub(super) fn ring_mut(&mut self, r: usize) -> &mut Ring {
        &mut self.rings[r]
    }

    /// Returns the number of slots of all rings.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of live rows of all rings.
    #[must_use]
    pub fn live(&self) -> usize {
        self.rings.iter().map(|r| r.len).sum()
    }

    /// Returns the number of the ring that owns a slot.
    #[must_use]
    #[inline(always)]
    pub fn of(&self, index: usize) -> usize {
        match self.uniform {
            Some(_) if self.rings.len() == 1 => 0,
            Some(capacity) => match (u32::try_from(index), u32::try_from(capacity)) {
                (Ok(index), Ok(capacity)) => (index / capacity) as usize,
                _ => index / capacity,
            },
            None => self.rings.partition_point(|r| r.offset <= index) - 1,
        }
    }

    /// Returns the ring that owns a slot.
    #[must_use]
    #[inline(always)]
    pub fn ring_of(&self, index: usize) -> &Ring {
        &self.rings[self.of(index)]
    }

    /// Returns the slot after `index` in its ring, which after the last slot is the first.
    #[must_use]
    #[inline]
    pub fn after(&self, index: usize) -> usize {
        if self.rings.len() == 1 {
            return if index + 1 == self.total { 0 } else { index + 1 };
        }
        self.ring_of(index).after(index)
    }

    /// Checks that the table has the slots of these rings.
    ///
    /// # Panics
    /// If it has others.
    pub(super) fn check_table(&self, table: &Table) {
        assert!(self.total == table.total && self.len() == table.frames.len(), "invariant: rings of this table");
    }

    /// Returns the row before `index` in its episode, or `index` itself at the episode's oldest live row and where no
    /// row is.
    #[must_use]
    pub(super) fn prev(&self, table: &Table, index: usize) -> usize {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(seq) if seq > ring.span(table.episode(index)).0 => ring.index(seq - 1),
            _ => index,
        }
    }

    /// Returns the row after `index` in its episode, or `index` itself at the episode's newest row and where no row is.
    #[must_use]
    #[inline]
    pub(super) fn next(&self, table: &Table, index: usize) -> usize {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(seq) if seq < ring.span(table.episode(index)).1 => ring.index(seq + 1),
            _ => index,
        }
    }

    /// Returns the oldest and the newest live row of the episode of a row, or `index` twice where no row is.
    #[must_use]
    pub(super) fn bounds(&self, table: &Table, index: usize) -> (usize, usize) {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(_) => {
                let (first, last) = ring.span(table.episode(index));
                (ring.index(first), ring.index(last))
            }
            None => (index, index),
        }
    }

    /// Returns whether the `stack` rows up to and including `index` are live and of one episode.
    #[must_use]
    pub(super) fn has_stack(&self, table: &Table, index: usize, stack: usize) -> bool {
        let ring = self.ring_of(index);
        ring.seq(index).is_some_and(|seq| seq + 1 >= ring.span(table.episode(index)).0 + stack as u64)
    }

    /// Calls `row(position, index, is_padding)` for each of the `stack` rows up to and including `index`, oldest first.
    /// Before the episode's oldest live row, that row repeats as padding.
    pub(super) fn stack(&self, table: &Table, index: usize, stack: usize, mut row: impl FnMut(usize, usize, bool)) {
        let ring = self.ring_of(index);
        let Some(seq) = ring.seq(index) else {
            (0..stack).for_each(|j| row(j, index, false));
            return;
        };
        let first = ring.span(table.episode(index)).0;
        for j in 0..stack {
            let back = (stack - 1 - j) as u64;
            let inside = seq >= first + back;
            row(j, ring.index(if inside { seq - back } else { first }), !inside);
        }
    }

    /// Returns an iterator over live rows, ring by ring, oldest first.
    pub fn chronological(&self) -> impl Iterator<Item = usize> + '_ {
        self.rings.iter().flat_map(|ring| (ring.oldest()..ring.head).map(|seq| ring.index(seq)))
    }

    /// Returns an iterator over the slots of live rows, as ranges without a gap.
    pub fn stretches(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.rings.iter().flat_map(|ring| {
            let (first, end) = (ring.offset, ring.offset + ring.cursor);
            let (whole, wrapped) = (ring.len == ring.capacity, ring.len.saturating_sub(ring.cursor));
            let last = first + ring.capacity;
            let stretches =
                if whole { [first..last, last..last] } else { [end + wrapped - ring.len..end, last - wrapped..last] };
            stretches.into_iter().filter(|stretch| !stretch.is_empty())
        })
    }

    /// Checks that every element of `index` is a slot.
    ///
    /// # Errors
    /// `Index` with the first one that is not.
    pub fn check(&self, index: &[i64]) -> Result<()> {
        let mut worst = 0_u64;
        for &i in index {
            worst = worst.max(i as u64);
        }
        if worst < self.total as u64 {
            return Ok(());
        }
        let at = index.iter().position(|&i| i as u64 >= self.total as u64).unwrap_or(0);
        match index.get(at) {
            None => Ok(()),
            Some(bad) => Err(Error::Index(format!(
                "index {bad} (at position {at}) is outside the buffer, which has slots 0 to {}",
                self.total as i64 - 1
            ))),
        }
    }
}

impl std::ops::Deref for Rings {
    type Target = [Ring];

    fn deref(&self) -> &[Ring] {
        &self.rings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(rings: &mut Rings, r: usize, rows: usize) {
        for _ in 0..rows {
            rings.ring_mut(r).push(false);
        }
    }

    #[test]
    fn stretches_are_the_live_slots() {
        for (cleared, rows) in [(0, 0), (0, 3), (0, 5), (0, 7), (3, 1), (3, 4), (3, 9)] {
            let mut rings = Rings::new(&[2, 5]).unwrap();
            rings.ring_mut(1).clear(cleared);
            pushed(&mut rings, 1, rows);
            let (mut live, mut found): (Vec<_>, Vec<_>) =
                (rings.chronological().collect(), rings.stretches().flatten().collect());
            live.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, live);
            assert!(rings.stretches().count() <= 2);
        }
    }

    #[test]
    fn a_slot_of_no_ring_holds_no_row() {
        let mut rings = Rings::new(&[4]).unwrap();
        pushed(&mut rings, 0, 6);
        assert!((0..4).all(|index| rings[0].seq(index).is_some()));
        assert!((4..12).chain([usize::MAX]).all(|index| rings[0].seq(index).is_none()));
    }
}
