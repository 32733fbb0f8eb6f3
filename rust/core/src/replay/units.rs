//! The expansion of a row number: the rows after it, an n-step return, a window, a hindsight goal.

use crate::error::Result;
use crate::prefetch::prefetch_at;
use crate::replay::layout::TERMINATED;
use crate::replay::rings::Rings;
use crate::replay::table::Table;
use crate::rng::Stream;

/// Expands row numbers of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units<'a> {
    /// The rings, which know the order of rows.
    rings: &'a Rings,
    /// The bytes of the rows.
    table: &'a Table,
}

/// Room for the results of [`Units::nstep`]: one element for each row, and `sums` one for each row and agent.
pub(super) struct NStepOutput<'a> {
    pub sums: &'a mut [f64],
    pub discounts: &'a mut [f64],
    pub last: &'a mut [i64],
    pub generations: &'a mut [u64],
}

impl<'a> Units<'a> {
    /// Returns the expansions for `rings`, for which `table` was made.
    pub(super) fn new(rings: &'a Rings, table: &'a Table) -> Self {
        rings.check_table(table);
        Self { rings, table }
    }

    /// Returns the sequence numbers of a row and of the last row of its episode; None where no row is.
    fn ahead_in_episode(&self, index: usize) -> Option<(u64, u64)> {
        let ring = self.rings.ring_of(index);
        let seq = ring.seq(index)?;
        Some((seq, ring.span(self.table.episode(index)).1))
    }

    /// Writes n-step returns (Sutton and Barto, 2018, eq. 7.1) without the bootstrap value. For each row these are
    /// `sums`, the discounted sum of the `k <= n` rewards from it on that its episode has; `discounts`, the factor of
    /// the bootstrap value (`gamma^k`, or 0 when the last of those rows terminated); `last`, the last of those rows; and
    /// `generations`, the generation of that row.
    pub fn nstep(&self, index: &[i64], n: usize, gamma: f64, out: NStepOutput<'_>) {
        match self.table.agents() {
            1 => self.nstep_of(1, index, n, gamma, out), // compiled for one agent
            agents => self.nstep_of(agents, index, n, gamma, out),
        }
    }

    #[inline(always)]
    fn nstep_of(&self, agents: usize, index: &[i64], n: usize, gamma: f64, out: NStepOutput<'_>) {
        let NStepOutput { sums, discounts, last, generations } = out;
        let reward = self.table.rewards();
        sums.fill(0.0);
        for &i in index {
            prefetch_at(self.table.record(i as usize));
        }
        for (k, &i) in index.iter().enumerate() {
            let i = i as usize;
            let ring = self.rings.ring_of(i);
            let seq = ring.seq(i);
            let steps = seq.map_or(1, |seq| (ring.span(self.table.episode(i)).1 - seq + 1).min(n as u64));
            let (mut row, mut factor, mut newest) = (i, 1.0, i);
            let sums = &mut sums[k * agents..(k + 1) * agents];
            for _ in 0..steps {
                for (agent, sum) in sums.iter_mut().enumerate() {
                    *sum += factor * reward(row, agent);
                }
                factor *= gamma;
                newest = row;
                row = ring.after(row);
            }
            discounts[k] = if self.table.flag(newest, TERMINATED) { 0.0 } else { factor };
            last[k] = newest as i64;
            generations[k] = seq.map_or(u64::MAX, |seq| seq + (steps - 1)); // the rows after one have the next numbers
        }
    }

    /// Reads the float32 leaf `value` in each row and the `length - 1` rows after it, where the float32 leaves `ends`
    /// mark the ends of episodes: reading stops after the first row in which one of `ends` is not 0, or after the
    /// ring's newest row. Later elements of `values` stay as they are. `last` gets the last row that was read, and
    /// `before` the number of rows before it.
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

    /// Writes each row and the `length - 1` rows after it in its episode, where the last row repeats past the end of
    /// the episode. `counts` gets the number of rows without the repetitions.
    pub fn unroll(&self, index: &[i64], length: usize, rows: &mut [i64], counts: &mut [i64]) {
        for (k, &i) in index.iter().enumerate() {
            let i = i as usize;
            let ring = self.rings.ring_of(i);
            let count = self.ahead_in_episode(i).map_or(1, |(seq, end)| (end - seq + 1).min(length as u64));
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

    /// Writes for each row the `before` rows before it and the `length` rows from it on. A row outside the episode is
    /// replaced by the nearest one inside, and its `mask` is false.
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

    /// Draws hindsight goals by the "future" strategy (Andrychowicz et al., 2017, arXiv:1707.01495, section 4.5).
    /// `relabel` is true with probability `1 - 1/future_k`. `goals` gets the row whose achieved goal replaces the
    /// desired one: uniformly one from the row itself to `horizon - 1` steps later in its episode.
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
            // Two numbers are drawn for every row, so that the result of one row does not shift the draws of the next.
            let (coin, word) = (random.uniform(), random.uniform());
            let i = i as usize;
            let choice = self.ahead_in_episode(i).map_or(1, |(seq, end)| (end - seq + 1).min(horizon.max(1) as u64));
            let ring = self.rings.ring_of(i);
            let step = ((word * choice as f64) as u64).min(choice - 1);
            relabel[k] = coin < probability && ring.seq(i).is_some();
            goals[k] = ring.seq(i).map_or(i, |seq| ring.index(seq + step)) as i64;
        }
    }
}
