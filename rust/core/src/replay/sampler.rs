//! Drawing of row numbers, uniformly over live rows or by priority.

use crate::error::{Error, Result, value_error};
use crate::replay::Replay;
use crate::vectors::{collected, filled, with_room};

/// How often rows without a whole stack are drawn again, before all rows are searched for whole stacks. Where a tenth of the rows
/// have one, fewer than one draw in 800 takes longer, so drawing does not depend on the number of rows.
const ROUNDS: usize = 64;
/// Rows that are drawn by priority in one pass through the tree.
const DRAW_BLOCK: usize = 256;

impl Replay {
    /// Draws rows with replacement, from one ring or from all. With `sample_avail`, it draws only rows whose stack lies
    /// within their episode.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist, `Value` when there is no row to draw.
    pub fn draw(&mut self, out: &mut [i64], ring: Option<usize>) -> Result<()> {
        ring.map_or(Ok(()), |r| self.ring(r).map(drop))?;
        if out.is_empty() {
            return Ok(());
        }
        let live = ring.map_or_else(|| self.rings.live(), |r| self.rings[r].len);
        if live == 0 {
            return value_error!(
                "cannot draw {} rows from an empty buffer (0 of {} rows filled): add transitions first",
                out.len(),
                self.rings.total()
            );
        }
        self.draw_any(out, ring)?;
        if self.config.sample_avail && self.config.stack_num > 1 {
            self.replace_partial_stacks(out, ring)?;
        }
        Ok(())
    }

    fn draw_any(&mut self, out: &mut [i64], ring: Option<usize>) -> Result<()> {
        match (&self.priorities, ring) {
            (Some(_), None) => self.draw_by_priority(out),
            (Some(_), Some(r)) => self.draw_from_ring_by_priority(r, out),
            (None, _) => {
                self.draw_uniform(out, ring);
                Ok(())
            }
        }
    }

    fn draw_uniform(&mut self, out: &mut [i64], ring: Option<usize>) {
        let rings = &self.rings;
        let only = match ring {
            Some(r) => Some(r),
            None if rings.len() == 1 => Some(0),
            None => None,
        };
        if let Some(r) = only {
            let ring = &rings[r];
            for i in out.iter_mut() {
                let seq = ring.oldest() + self.sampler.below(ring.len as u64);
                *i = ring.index(seq) as i64;
            }
        } else if rings.live() == rings.total() {
            for i in out.iter_mut() {
                *i = self.sampler.below(rings.total() as u64) as i64;
            }
        } else {
            let ends: Vec<u64> = rings
                .iter()
                .scan(0, |sum, ring| {
                    *sum += ring.len as u64;
                    Some(*sum)
                })
                .collect();
            let total = ends[ends.len() - 1];
            for i in out.iter_mut() {
                let draw = self.sampler.below(total);
                let r = ends.partition_point(|&end| end <= draw);
                *i = rings[r].index(rings[r].head - (ends[r] - draw)) as i64;
            }
        }
    }

    fn draw_by_priority(&mut self, out: &mut [i64]) -> Result<()> {
        let priorities = self.priorities.as_ref().expect("invariant: drawn by priority");
        let tree = &priorities.tree;
        let total = tree.total();
        if total <= 0.0 {
            return value_error!("cannot draw by priority: the priorities of all rows are zero");
        }
        for out in out.chunks_mut(DRAW_BLOCK) {
            let (mut masses, mut slots) = ([0.0; DRAW_BLOCK], [0; DRAW_BLOCK]);
            let (masses, slots) = (&mut masses[..out.len()], &mut slots[..out.len()]);
            masses.iter_mut().for_each(|mass| *mass = self.sampler.uniform() * total);
            tree.find_many(masses, slots);
            for (i, &mut slot) in out.iter_mut().zip(slots) {
                *i = slot as i64;
            }
        }
        Ok(())
    }

    fn draw_from_ring_by_priority(&mut self, ring: usize, out: &mut [i64]) -> Result<()> {
        let priorities = self.priorities.as_ref().expect("invariant: drawn by priority");
        let ring = &self.rings[ring];
        let section = priorities.tree.section(ring.offset..ring.offset + ring.capacity);
        for i in out.iter_mut() {
            match section.find(self.sampler.uniform() * section.total()) {
                Some(slot) => *i = slot as i64,
                None => {
                    return value_error!("cannot draw by priority: the priorities of all rows of the ring are zero");
                }
            }
        }
        Ok(())
    }

    /// Draws rows again whose stack is not whole; after some rounds, from all rows whose stack is whole.
    fn replace_partial_stacks(&mut self, out: &mut [i64], ring: Option<usize>) -> Result<()> {
        for _ in 0..ROUNDS {
            let bad = self.partial(out)?;
            if bad.is_empty() {
                return Ok(());
            }
            let mut again = filled(0, bad.len())?;
            self.draw_any(&mut again, ring)?;
            for (&k, i) in bad.iter().zip(again) {
                out[k] = i;
            }
        }
        let bad = self.partial(out)?;
        let rows = self.live_where(ring, |i| self.has_whole_stack(i))?;
        if rows.is_empty() {
            return Err(Error::Value(format!(
                "cannot draw under sample_avail: no row has a whole stack of {} rows inside its episode yet",
                self.config.stack_num
            )));
        }
        let mut again = filled(0, bad.len())?;
        self.draw_among(&rows, &mut again)?;
        for (&k, i) in bad.iter().zip(again) {
            out[k] = i;
        }
        Ok(())
    }

    /// Draws from `rows`, by priority if the buffer has priorities.
    fn draw_among(&mut self, rows: &[i64], out: &mut [i64]) -> Result<()> {
        let Some(priorities) = &self.priorities else {
            for i in out.iter_mut() {
                *i = rows[self.sampler.below(rows.len() as u64) as usize];
            }
            return Ok(());
        };
        let tree = &priorities.tree;
        let mut sum = 0.0;
        let ends = collected(rows.iter().map(|&i| {
            sum += tree.leaf(i as usize);
            sum
        }))?;
        if sum <= 0.0 {
            return value_error!("cannot draw by priority: the priorities of all rows that could be drawn are zero");
        }
        let last = rows.len() - 1;
        for i in out.iter_mut() {
            let mass = self.sampler.uniform() * sum;
            *i = rows[ends.partition_point(|&end| end <= mass).min(last)];
        }
        Ok(())
    }

    /// Returns whether the stack of a row lies within its episode.
    pub(super) fn has_whole_stack(&self, index: usize) -> bool {
        self.table.as_ref().is_some_and(|table| self.rings.has_stack(table, index, self.config.stack_num))
    }

    /// Returns the live rows for which `wanted` is true, oldest first.
    pub(super) fn live_where(&self, ring: Option<usize>, wanted: impl Fn(usize) -> bool) -> Result<Vec<i64>> {
        let mut rows = with_room(ring.map_or_else(|| self.rings.live(), |r| self.rings[r].len))?;
        rows.extend(self.live(ring).filter(|&i| wanted(i)).map(|i| i as i64));
        Ok(rows)
    }

    /// Returns the positions of drawn rows whose stack is not whole.
    fn partial(&self, drawn: &[i64]) -> Result<Vec<usize>> {
        let bad = |k: &usize| !self.has_whole_stack(drawn[*k] as usize);
        let mut positions = with_room((0..drawn.len()).filter(bad).count())?;
        positions.extend((0..drawn.len()).filter(bad));
        Ok(positions)
    }

    fn live(&self, ring: Option<usize>) -> Box<dyn Iterator<Item = usize> + '_> {
        match ring {
            None => Box::new(self.rings.chronological()),
            Some(r) => {
                let ring = &self.rings[r];
                Box::new((ring.oldest()..ring.head).map(|seq| ring.index(seq)))
            }
        }
    }
}
