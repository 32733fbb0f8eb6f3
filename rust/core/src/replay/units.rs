//! What an anchor row expands into: the rows that follow it, an n-step return, a window, a hindsight goal.

use crate::error::Result;
use crate::prefetch::prefetch_at;
use crate::replay::layout::TERMINATED;
use crate::replay::rings::Rings;
use crate::replay::table::Table;
use crate::rng::Stream;

/// Answers about rows and the episode around them.
#[derive(Clone, Copy, Debug)]
pub struct Units<'a> {
    /// Which rows are where.
    rings: &'a Rings,
    /// Their bytes.
    table: &'a Table,
}

impl<'a> Units<'a> {
    /// Looks at the rows of `rings`, for which `table` was made.
    pub(super) fn new(rings: &'a Rings, table: &'a Table) -> Self {
        table.check_rings(rings);
        Self { rings, table }
    }

    /// The sequence number of a row and the last one of its episode; None where no row is.
    fn ahead(&self, index: usize) -> Option<(u64, u64)> {
        let ring = self.rings.ring_of(index);
        let seq = ring.seq(index)?;
        Some((seq, ring.span(self.table.episode(index)).1))
    }

    /// n-step returns (Sutton and Barto, 2018, eq. 7.1, without the bootstrap): for each row the discounted sum of the
    /// `k <= n` rewards that its episode still has, the factor of the bootstrap value (`gamma^k`, or 0 when the last of
    /// those rows terminated), and that last row.
    pub fn nstep(
        &self,
        index: &[i64],
        n: usize,
        gamma: f64,
        sums: &mut [f64],
        discounts: &mut [f64],
        last: &mut [i64],
    ) {
        let agents = self.table.agents();
        let reward = self.table.rewards();
        sums.fill(0.0);
        for &i in index {
            prefetch_at(self.table.record(i as usize));
        }
        for (k, &i) in index.iter().enumerate() {
            let i = i as usize;
            let ring = self.rings.ring_of(i);
            let steps = match ring.seq(i) {
                Some(seq) => (ring.span(self.table.episode(i)).1 - seq + 1).min(n as u64),
                None => 1,
            };
            let (mut row, mut factor, mut newest) = (i, 1.0, i);
            for _ in 0..steps {
                for (agent, sum) in sums[k * agents..(k + 1) * agents].iter_mut().enumerate() {
                    *sum += factor * reward(row, agent);
                }
                factor *= gamma;
                newest = row;
                row = ring.after(row);
            }
            discounts[k] = if self.table.flag(newest, TERMINATED) { 0.0 } else { factor };
            last[k] = newest as i64;
        }
    }

    /// For rows that say by leaves of their own where an episode ends: the float32 leaf `value` in each row and the
    /// `length - 1` after it in its ring, up to the first in which one of the float32 leaves `ends` is not 0, or the ring's
    /// newest; `values` is left as it is past that. Also that last row, and how many lie before it.
    ///
    /// # Errors
    /// `Value` for a leaf that is not one float32 in the row's record.
    pub fn follow(
        &self,
        index: &[i64],
        value: usize,
        ends: &[usize],
        values: &mut [f32],
        last: &mut [i64],
        before: &mut [i64],
    ) -> Result<()> {
        let value = self.table.floats(value)?;
        let ends = ends.iter().map(|&leaf| self.table.floats(leaf)).collect::<Result<Vec<_>>>()?;
        let length = values.len() / index.len().max(1);
        for &i in index {
            self.table.prefetch(i as usize, length * self.table.layout.stride);
        }
        for (k, &i) in index.iter().enumerate() {
            let ring = self.rings.ring_of(i as usize);
            let steps = ring.seq(i as usize).map_or(1, |seq| (ring.head - seq).min(length as u64)) as usize;
            let (mut row, mut newest) = (i as usize, 0);
            for step in 0..steps {
                values[k * length + step] = value(row);
                newest = step;
                last[k] = row as i64;
                if ends.iter().any(|end| end(row) != 0.0) {
                    break;
                }
                row = ring.after(row);
            }
            before[k] = newest as i64;
        }
        Ok(())
    }

    /// Each row and the `length - 1` after it in its episode, the last one repeated past the end; and how many there are.
    pub fn unroll(&self, index: &[i64], length: usize, rows: &mut [i64], counts: &mut [i64]) {
        for (k, &i) in index.iter().enumerate() {
            let i = i as usize;
            let ring = self.rings.ring_of(i);
            let count = self.ahead(i).map_or(1, |(seq, end)| (end - seq + 1).min(length as u64));
            let mut row = i;
            for j in 0..length {
                rows[k * length + j] = row as i64;
                if (j as u64) + 1 < count {
                    row = ring.after(row);
                }
            }
            counts[k] = count as i64;
        }
    }

    /// For each row the `before` rows of its episode ahead of it and the `length` from it on; a row outside the episode is
    /// replaced by the nearest inside and marked false.
    pub fn window(&self, index: &[i64], before: usize, length: usize, rows: &mut [i64], mask: &mut [bool]) {
        let width = before + length;
        for (k, &i) in index.iter().enumerate() {
            let i = i as usize;
            let ring = self.rings.ring_of(i);
            let Some(seq) = ring.seq(i) else {
                rows[k * width..(k + 1) * width].fill(i as i64);
                mask[k * width..(k + 1) * width].fill(false);
                continue;
            };
            let (first, last) = ring.span(self.table.episode(i));
            for j in 0..width {
                let wanted = seq as i128 + j as i128 - before as i128;
                let inside = wanted >= i128::from(first) && wanted <= i128::from(last);
                rows[k * width + j] = ring.index(wanted.clamp(first.into(), last.into()) as u64) as i64;
                mask[k * width + j] = inside;
            }
        }
    }

    /// Hindsight goals by the "future" strategy (Andrychowicz et al., 2017, arXiv:1707.01495, section 4.5): with probability
    /// `1 - 1/future_k` a row takes as its goal what a row at or after it in its episode, fewer than `horizon` steps later,
    /// achieved.
    pub fn hindsight(
        &self,
        index: &[i64],
        future_k: f64,
        horizon: usize,
        random: &mut Stream,
        relabel: &mut [bool],
        goals: &mut [i64],
    ) {
        let probability = 1.0 - 1.0 / future_k;
        for (k, &i) in index.iter().enumerate() {
            // Both draws are always made, so that one row's outcome does not move the next one's.
            let (coin, word) = (random.uniform(), random.uniform());
            let i = i as usize;
            let choice = self.ahead(i).map_or(1, |(seq, end)| (end - seq + 1).min(horizon.max(1) as u64));
            let ring = self.rings.ring_of(i);
            let step = ((word * choice as f64) as u64).min(choice - 1);
            relabel[k] = coin < probability && ring.seq(i).is_some();
            goals[k] = ring.seq(i).map_or(i, |seq| ring.index(seq + step)) as i64;
        }
    }
}
