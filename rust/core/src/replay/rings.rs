//! All rings of a buffer, and the questions about episodes that every part asks: previous, next, stack, span.

use crate::error::{Error, Result};
use crate::replay::ring::Ring;
use crate::replay::table::Table;

/// The rings, side by side in one index space.
#[derive(Clone, Debug)]
pub struct Rings {
    rings: Vec<Ring>,
    /// Capacity of each, when all are the same.
    uniform: Option<usize>,
    total: usize,
}

impl Rings {
    /// Empty rings.
    ///
    /// # Errors
    /// `Value` when there is none, or one has no room.
    pub fn new(capacities: &[usize]) -> Result<Self> {
        let Some(&first) = capacities.first() else {
            return Err(Error::Value("a replay buffer needs at least one ring, got none".to_owned()));
        };
        let mut rings = Vec::with_capacity(capacities.len());
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

    /// Slots of all rings.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Live rows of all rings.
    #[must_use]
    pub fn live(&self) -> usize {
        self.rings.iter().map(|r| r.len).sum()
    }

    /// The number of the ring that owns a slot.
    #[must_use]
    #[inline]
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

    /// The ring that owns a slot.
    #[must_use]
    #[inline]
    pub fn ring_of(&self, index: usize) -> &Ring {
        &self.rings[self.of(index)]
    }

    /// The slot after `index` in its ring, around the end.
    #[must_use]
    #[inline]
    pub fn after(&self, index: usize) -> usize {
        if self.rings.len() == 1 {
            return if index + 1 == self.total { 0 } else { index + 1 };
        }
        self.ring_of(index).after(index)
    }

    /// The row before, inside the episode; the row itself at the episode's oldest live row, or where no row is.
    #[must_use]
    pub fn prev(&self, table: &Table, index: usize) -> usize {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(seq) if seq > ring.span(table.episode(index)).0 => ring.index(seq - 1),
            _ => index,
        }
    }

    /// The row after, inside the episode; the row itself at the episode's newest row, or where no row is.
    #[must_use]
    #[inline]
    pub fn next(&self, table: &Table, index: usize) -> usize {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(seq) if seq < ring.span(table.episode(index)).1 => ring.index(seq + 1),
            _ => index,
        }
    }

    /// The oldest and the newest live row of the episode of a row.
    #[must_use]
    pub fn bounds(&self, table: &Table, index: usize) -> (usize, usize) {
        let ring = self.ring_of(index);
        match ring.seq(index) {
            Some(_) => {
                let (first, last) = ring.span(table.episode(index));
                (ring.index(first), ring.index(last))
            }
            None => (index, index),
        }
    }

    /// Whether the `stack` rows that end in this one are all live and of one episode.
    #[must_use]
    pub fn has_stack(&self, table: &Table, index: usize, stack: usize) -> bool {
        let ring = self.ring_of(index);
        ring.seq(index).is_some_and(|seq| seq + 1 >= ring.span(table.episode(index)).0 + stack as u64)
    }

    /// The `stack` rows that end in this one, oldest first; before the episode's oldest live row, that row repeats.
    pub fn stack(&self, table: &Table, index: usize, stack: usize, mut row: impl FnMut(usize, usize, bool)) {
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

    /// An iterator over live rows, oldest first, ring by ring.
    pub fn chronological(&self) -> impl Iterator<Item = usize> + '_ {
        self.rings.iter().flat_map(|ring| (ring.oldest()..ring.head).map(|seq| ring.index(seq)))
    }

    /// Checks that `index` names slots.
    ///
    /// # Errors
    /// `Index` with the first one that does not.
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

impl std::ops::DerefMut for Rings {
    fn deref_mut(&mut self) -> &mut [Ring] {
        &mut self.rings
    }
}
