//! Draws rows and copies them, while other processes write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{Field, Role, RowLayout};
use super::memory::Memory;
use super::ring::{FIRST, FLAGS, Ring, TERMINATED};
use crate::error::{Error, Result, value_error};
use crate::prefetch::prefetch_at;
use crate::replay::priorities::Priorities;
use crate::replay::provenance::Provenance;
use crate::replay::{check_beta, check_stack};
use crate::rng::Stream;
use crate::vectors::{collected, filled, with_room};

/// How often rows are drawn again that were overwritten while they were copied.
const ROUNDS: usize = 10_000;
/// Draws by priority in one pass through the tree.
const DRAW_BLOCK: usize = 256;
/// Rows that are copied together, while those after them are prefetched.
const COPIED_ROWS: usize = 16;
/// Bytes of a row that are prefetched; the processor prefetches later ones itself.
const PREFETCHED: usize = 256;

/// N-step returns in the place of rewards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NStep {
    /// The largest number of rewards.
    pub steps: usize,
    /// The discount.
    pub gamma: f64,
}

/// The options of a reader.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of frames of a stack.
    pub stack: usize,
    /// What a drawn row is expanded to; None for the row itself.
    pub nstep: Option<NStep>,
    /// The exponent of priorities; None for uniform draws.
    pub alpha: Option<f64>,
    /// The exponent of importance weights.
    pub beta: f64,
    /// Whether weights are divided by the largest of the batch.
    pub weight_norm: bool,
    /// The seed of the draws.
    pub seed: u64,
}

/// The memory that rows are copied to.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// An address for each column, with room for all rows, each of as many as are stacked.
    pub columns: &'a [*mut u8],
    /// The discount of the value after the rewards of each row; empty without n-step returns.
    pub discounts: &'a mut [f64],
    /// The index of the last of these rows; likewise.
    pub last: &'a mut [i64],
}

// SAFETY: the addresses are followed only by functions whose callers promise that they are good.
unsafe impl Send for Outputs<'_> {}

/// The rows that were drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The index of each row.
    pub index: Vec<i64>,
    /// The position of each row in its ring, which no other row ever has.
    pub positions: Vec<u64>,
    /// Importance weights; None for uniform draws.
    pub weights: Option<Vec<f64>>,
}

impl From<Drawn> for Provenance {
    fn from(drawn: Drawn) -> Self {
        Self::of(drawn.index, drawn.positions)
    }
}

/// A reader, with priorities and random draws of its own.
pub struct Reader {
    memory: Arc<Memory>,
    layout: RowLayout,
    options: Options,
    sampler: Stream,
    /// The head of each ring when it was last looked at.
    heads: Vec<u64>,
    /// The oldest row of each ring at that time.
    oldest: Vec<u64>,
    /// The number of rows of each ring that were removed, for which priorities are 0.
    bases: Vec<u64>,
    priorities: Option<Priorities>,
    stale: u64,
}

impl Reader {
    /// Returns a reader. New rows get the largest priority ever given when it first sees them.
    ///
    /// # Errors
    /// `Value` for options that are out of range, or a layout that is not that of the memory; `Room` if priorities do not fit into
    /// memory.
    pub fn new(memory: Arc<Memory>, layout: RowLayout, options: Options) -> Result<Self> {
        let there = memory.dimensions();
        if layout.stride != there.stride {
            return value_error!("rows of {} words do not fit into those of {}", layout.stride, there.stride);
        }
        check_stack(options.stack)?;
        check_beta(options.beta)?;
        if let Some(NStep { steps, gamma }) = options.nstep
            && (steps == 0 || !(0.0..=1.0).contains(&gamma))
        {
            return value_error!("n-step returns need at least 1 step and gamma in [0, 1], got {steps} and {gamma}");
        }
        let priorities = options.alpha.map(|alpha| Priorities::new(there.rings * there.capacity, alpha)).transpose()?;
        let [heads, oldest, bases] = [(); 3].map(|()| vec![0; there.rings]);
        let sampler = Stream::named(options.seed, "sampler");
        Ok(Self { memory, layout, options, sampler, heads, oldest, bases, priorities, stale: 0 })
    }

    /// Returns the memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets the exponent of importance weights.
    ///
    /// # Errors
    /// `Value` if it is out of range.
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        check_beta(beta)?;
        self.options.beta = beta;
        Ok(())
    }

    /// Returns the number of updates that were ignored because their row had been overwritten.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Returns the number of rows of each ring at this time.
    pub fn sizes(&self) -> Vec<i64> {
        let size = |ring: Ring<'_>| {
            let head = ring.head();
            (head - ring.oldest(head)) as i64
        };
        (0..self.heads.len()).map(|r| size(self.memory.ring(r))).collect()
    }

    /// Returns the rows that are there now, ring by ring, oldest first.
    ///
    /// # Errors
    /// `Room` without memory for them.
    pub fn live(&mut self) -> Result<Provenance> {
        self.look();
        let count = self.heads.iter().zip(&self.oldest).map(|(head, oldest)| head - oldest).sum::<u64>() as usize;
        let (mut index, mut positions) = (with_room(count)?, with_room(count)?);
        for r in 0..self.heads.len() {
            index.extend((self.oldest[r]..self.heads[r]).map(|position| self.index(r, position)));
            positions.extend(self.oldest[r]..self.heads[r]);
        }
        Ok(Provenance::of(index, positions))
    }

    fn capacity(&self) -> u64 {
        self.memory.dimensions().capacity as u64
    }

    fn index(&self, ring: usize, position: u64) -> i64 {
        (ring as u64 * self.capacity() + position % self.capacity()) as i64
    }

    /// Looks at the rows that are there now, and gives new ones their priority.
    fn look(&mut self) {
        let capacity = self.capacity();
        for r in 0..self.heads.len() {
            let ring = self.memory.ring(r);
            let (head, base) = (ring.head(), ring.base());
            let (seen, oldest) = (self.heads[r], ring.oldest(head));
            (self.heads[r], self.oldest[r]) = (head, oldest);
            let Some(priorities) = &mut self.priorities else { continue };
            let start = r * capacity as usize;
            if self.bases[r] != base {
                self.bases[r] = base;
                for slot in start..start + capacity as usize {
                    if priorities.tree().leaf(slot) > 0.0 {
                        priorities.tree_mut().set(slot, 0.0);
                    }
                }
            }
            let fresh = seen.max(oldest)..head;
            if !fresh.is_empty() {
                let slots: Vec<usize> = fresh.map(|position| start + (position % capacity) as usize).collect();
                priorities.admit(&slots);
            }
        }
    }

    /// Returns the ring and the position of the row at an index, among the rows that were there at the last look.
    fn locate(&self, index: usize) -> (usize, u64) {
        let capacity = self.capacity();
        let (r, slot) = (index / capacity as usize, index as u64 % capacity);
        let newest = self.heads[r].wrapping_sub(1);
        let back = newest % capacity + capacity - slot;
        (r, newest.wrapping_sub(if back < capacity { back } else { back - capacity }))
    }

    /// Returns whether a row, by ring and position, was there at the last look.
    fn is_there(&self, (ring, position): (usize, u64)) -> bool {
        self.oldest[ring] <= position && position < self.heads[ring]
    }

    /// Draws one row for each of `at`, with replacement.
    fn draw(&mut self, at: &[usize], out: &mut [(usize, u64)]) -> Result<()> {
        self.look();
        let sizes: Vec<u64> = self.heads.iter().zip(&self.oldest).map(|(head, oldest)| head - oldest).collect();
        let (live, total) = (sizes.iter().sum::<u64>(), sizes.len() as u64 * self.capacity());
        if live == 0 {
            return value_error!(
                "cannot draw {} rows from an empty buffer (0 of {total} rows filled): add transitions first",
                at.len()
            );
        }
        if self.priorities.is_some() {
            return self.draw_by_priority(at, out);
        }
        if live == total && sizes.len() > 1 {
            for &k in at {
                let index = self.sampler.below(total) as usize;
                out[k] = self.locate(index);
            }
            return Ok(());
        }
        let ends: Vec<u64> = sizes
            .iter()
            .scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            })
            .collect();
        for &k in at {
            let draw = self.sampler.below(live);
            let r = ends.partition_point(|&end| end <= draw);
            out[k] = (r, self.heads[r] - (ends[r] - draw));
        }
        Ok(())
    }

    fn draw_by_priority(&mut self, at: &[usize], out: &mut [(usize, u64)]) -> Result<()> {
        for at in at.chunks(DRAW_BLOCK) {
            let tree = self.priorities.as_ref().expect("invariant: drawn by priority").tree();
            let total = tree.total();
            if total <= 0.0 {
                return value_error!("cannot draw by priority: the priorities of all rows are zero");
            }
            let (mut masses, mut slots) = ([0.0; DRAW_BLOCK], [0; DRAW_BLOCK]);
            let (masses, slots) = (&mut masses[..at.len()], &mut slots[..at.len()]);
            masses.iter_mut().for_each(|mass| *mass = self.sampler.uniform() * total);
            tree.find_many(masses, slots);
            at.iter().zip(slots).for_each(|(&k, &mut slot)| out[k] = self.locate(slot));
        }
        Ok(())
    }

    /// Draws `rows` rows of those that are there, without copying them.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn draw_only(&mut self, rows: usize) -> Result<Drawn> {
        let mut drawn = filled((0, 0), rows)?;
        let all: Vec<usize> = (0..rows).collect();
        if rows > 0 {
            self.draw(&all, &mut drawn)?;
        }
        self.described(&drawn)
    }

    /// Draws `rows` rows and copies them. Rows that are overwritten meanwhile are drawn again.
    ///
    /// # Errors
    /// `Value` if there is no row, or rows are overwritten faster than they can be copied; `Room` without memory for the indices.
    ///
    /// # Safety
    /// As [`Self::copy`], for `rows` rows.
    pub unsafe fn sample(&mut self, rows: usize, outputs: &mut Outputs<'_>) -> Result<Drawn> {
        let mut drawn = filled((0, 0), rows)?;
        let mut left: Vec<usize> = (0..rows).collect();
        let (memory, mut rows) = (self.memory.clone(), Vec::with_capacity(COPIED_ROWS));
        for _ in 0..ROUNDS {
            if left.is_empty() {
                return self.described(&drawn);
            }
            self.draw(&left, &mut drawn)?;
            let (mut again, mut ahead) = (Vec::new(), left.chunks(COPIED_ROWS));
            ahead.next().into_iter().for_each(|first| self.prefetch(first, &drawn));
            for block in left.chunks(COPIED_ROWS) {
                ahead.next().into_iter().for_each(|following| self.prefetch(following, &drawn));
                rows.clear();
                for &k in block {
                    if self.is_there(drawn[k]) {
                        rows.push(self.row(&memory, k, drawn[k]));
                    } else {
                        again.push(k);
                    }
                }
                // SAFETY: as the caller promises.
                unsafe { self.copy(&rows, outputs) };
                again.extend(rows.iter().filter(|row| !row.is_kept(self.options.stack)).map(|row| row.place));
            }
            left = again;
        }
        value_error!("rows are overwritten faster than they can be copied: make the buffer larger")
    }

    fn prefetch(&self, at: &[usize], drawn: &[(usize, u64)]) {
        let bytes = (8 * self.layout.stride).min(PREFETCHED);
        for &k in at {
            let row = self.memory.ring(drawn[k].0).address(drawn[k].1);
            (0..bytes).step_by(64).for_each(|byte| prefetch_at(row.wrapping_add(byte)));
        }
    }

    fn described(&mut self, drawn: &[(usize, u64)]) -> Result<Drawn> {
        let index = collected(drawn.iter().map(|&(r, position)| self.index(r, position)))?;
        let positions = collected(drawn.iter().map(|&(_, position)| position))?;
        let weights = self.weights(&index)?;
        Ok(Drawn { index, positions, weights })
    }

    /// Returns the importance weights of rows; None for uniform draws.
    ///
    /// # Errors
    /// `Room` without memory for them.
    fn weights(&mut self, index: &[i64]) -> Result<Option<Vec<f64>>> {
        let Some(priorities) = &mut self.priorities else { return Ok(None) };
        let mut weights = filled(0.0, index.len())?;
        priorities.weights(index, self.options.beta, self.options.weight_norm, &mut weights);
        Ok(Some(weights))
    }

    /// Copies the rows at an index: those at `positions`, or without them those that are there now.
    ///
    /// # Errors
    /// `Index` if a row is not there, or not any more.
    ///
    /// # Safety
    /// As [`Self::copy`], for as many rows as the index has.
    pub unsafe fn take(
        &mut self,
        index: &[i64],
        positions: Option<&[u64]>,
        outputs: &mut Outputs<'_>,
    ) -> Result<Drawn> {
        let total = self.heads.len() * self.memory.dimensions().capacity;
        if let Some(bad) = index.iter().find(|&&index| index < 0 || index as usize >= total) {
            return Err(Error::Index(format!("row {bad} is not there: the buffer has {total} rows")));
        }
        let mut taken = filled((0, 0), index.len())?;
        self.look();
        for (k, &row) in index.iter().enumerate() {
            let mut rounds = 0..ROUNDS;
            loop {
                let located = self.locate(row as usize);
                let is_there = self.is_there(located);
                taken[k] = (located.0, positions.map_or(located.1, |positions| positions[k]));
                if is_there && self.is_there(taken[k]) {
                    let copied = [self.row(&self.memory, k, taken[k])];
                    // SAFETY: as the caller promises.
                    unsafe { self.copy(&copied, outputs) };
                    if copied[0].is_kept(self.options.stack) {
                        break;
                    }
                }
                if !is_there || positions.is_some() || rounds.next().is_none() {
                    let gone = if is_there { "was overwritten" } else { "holds nothing" };
                    return Err(Error::Index(format!("row {row} {gone}: draw the rows that are there by sample")));
                }
                self.look();
            }
        }
        self.described(&taken)
    }

    /// Returns a row that was there at the last look (else this may panic), and what it is expanded to.
    fn row<'a>(&self, memory: &'a Memory, place: usize, (number, position): (usize, u64)) -> Row<'a> {
        let (ring, oldest) = (memory.ring(number), self.oldest[number]);
        let Window { last, factor } = self.follow(ring, position, self.heads[number], |_, _| {});
        // Only stacks reach back in the episode.
        let least = |position: u64| match self.options.stack {
            1 => position,
            _ => ring.word(position, FIRST).clamp(oldest, position),
        };
        let words = ring.row(position);
        let flags = if last == position { &words[FLAGS] } else { &ring.row(last)[FLAGS] }.load(Ordering::Relaxed);
        Row { place, ring, number, position, words, last, factor, flags, own: least(position), next: least(last) }
    }

    /// Copies rows to their places in the outputs: see [`Row::is_kept`].
    ///
    /// # Safety
    /// Each address in the outputs has room for the rows at these places, and so have the slices, if there are n-step returns.
    unsafe fn copy(&self, rows: &[Row<'_>], outputs: &mut Outputs<'_>) {
        let (stack, agents) = (self.options.stack, self.layout.agents);
        for (field, &dst) in self.layout.fields.iter().zip(outputs.columns) {
            let &Field { at, bytes, role } = field;
            match role {
                Role::Reward if self.options.nstep.is_some() => {
                    for row in rows {
                        // SAFETY: the caller promises room for a double for each agent, of an array that need not be aligned.
                        let sums = unsafe { dst.cast::<f64>().add(row.place * agents) };
                        // SAFETY: as above.
                        (0..agents).for_each(|agent| unsafe { sums.add(agent).write_unaligned(0.0) });
                        self.follow(row.ring, row.position, self.heads[row.number], |position, factor| {
                            for agent in 0..agents {
                                let reward = f64::from_bits(row.ring.word(position, at + agent));
                                // SAFETY: as above.
                                unsafe {
                                    let sum = sums.add(agent);
                                    sum.write_unaligned(sum.read_unaligned() + factor * reward);
                                }
                            }
                        });
                    }
                }
                Role::Flags(bits) => {
                    for row in rows {
                        // SAFETY: the caller promises room for a byte of each row.
                        unsafe { dst.add(row.place).write(u8::from(row.flags & bits != 0)) };
                    }
                }
                Role::Stacked if stack > 1 => {
                    for (row, frame) in frames(rows, stack) {
                        let position = row.position.saturating_sub((stack - 1 - frame) as u64).max(row.own);
                        // SAFETY: the caller promises room for all frames of each row.
                        unsafe {
                            copy_words(row.words(position), at, bytes, dst.add((row.place * stack + frame) * bytes))
                        };
                    }
                }
                Role::Plain | Role::Reward | Role::Stacked => {
                    for row in rows {
                        // SAFETY: the caller promises room for this column of each row.
                        unsafe { copy_words(row.words, at, bytes, dst.add(row.place * bytes)) };
                    }
                }
                Role::Next(twin) => {
                    for (row, frame) in frames(rows, stack) {
                        let back = (stack - 1 - frame) as u64;
                        let inside = row.last >= row.next + back;
                        let (position, at) =
                            if inside { (row.last - back, at) } else { (row.next, twin.unwrap_or(at)) };
                        // SAFETY: as above.
                        unsafe {
                            copy_words(row.words(position), at, bytes, dst.add((row.place * stack + frame) * bytes))
                        };
                    }
                }
            }
        }
        if self.options.nstep.is_some() {
            for row in rows {
                outputs.discounts[row.place] = if row.flags & TERMINATED != 0 { 0.0 } else { row.factor };
                outputs.last[row.place] = self.index(row.number, row.last);
            }
        }
    }

    /// Calls `each` with the rows of an n-step return and their discounts.
    fn follow(&self, ring: Ring<'_>, position: u64, head: u64, mut each: impl FnMut(u64, f64)) -> Window {
        let Some(NStep { steps, gamma }) = self.options.nstep else { return Window { last: position, factor: 1.0 } };
        let (mut last, mut factor) = (position, 1.0);
        let first = ring.word(position, FIRST);
        for row in position..head.min(position.saturating_add(steps as u64)) {
            if row > position && (ring.word(row - 1, FLAGS) != 0 || ring.word(row, FIRST) != first) {
                break;
            }
            each(row, factor);
            factor *= gamma;
            last = row;
        }
        Window { last, factor }
    }

    /// Sets priorities, and returns how many were ignored because their row was overwritten or removed.
    ///
    /// # Errors
    /// `Value` if rows are drawn uniformly, or a priority is invalid; `Index` for a row that is not there. Nothing is changed then.
    pub fn update_priorities(&mut self, index: &[i64], positions: Option<&[u64]>, priorities: &[f64]) -> Result<u64> {
        if index.len() != priorities.len() {
            return value_error!(
                "one priority for each index: got {} indices and {} priorities",
                index.len(),
                priorities.len()
            );
        }
        let total = self.heads.len() * self.memory.dimensions().capacity;
        if let Some(bad) = index.iter().find(|&&index| index < 0 || index as usize >= total) {
            return Err(Error::Index(format!("row {bad} is not there: the buffer has {total} rows")));
        }
        let Some(held) = &self.priorities else {
            return value_error!("this buffer draws uniformly: it has no priorities to update");
        };
        let leaves = held.leaves(priorities)?;
        self.look();
        let known = |k: usize| {
            let located = self.locate(index[k] as usize);
            self.is_there(located) && positions.is_none_or(|given| given[k] == located.1)
        };
        let kept: Vec<usize> = (0..index.len()).filter(|&k| known(k)).collect();
        let refused = (index.len() - kept.len()) as u64;
        self.stale += refused;
        let held = self.priorities.as_mut().expect("invariant: looked at above");
        let slots: Vec<usize> = kept.iter().map(|&k| index[k] as usize).collect();
        let leaves: Vec<f64> = kept.iter().map(|&k| leaves[k]).collect();
        held.tree_mut().set_many(&slots, &leaves);
        held.raise_max(kept.iter().map(|&k| priorities[k]));
        Ok(refused)
    }
}

/// A row that is copied.
#[derive(Debug)]
struct Row<'a> {
    /// Where it is copied to.
    place: usize,
    ring: Ring<'a>,
    /// The ring's number.
    number: usize,
    position: u64,
    words: &'a [AtomicU64],
    /// The last row of its n-step return.
    last: u64,
    /// The discount of the value after that.
    factor: f64,
    /// The flags of that.
    flags: u64,
    /// The oldest row that a stack of its frames may have.
    own: u64,
    /// The oldest row that a stack of its next frames may have.
    next: u64,
}

impl<'a> Row<'a> {
    /// Returns the words of this row or of another one of its ring.
    fn words(&self, position: u64) -> &'a [AtomicU64] {
        if position == self.position { self.words } else { self.ring.row(position) }
    }

    /// Returns whether nothing that was copied so far belongs to a later row. If the oldest row that was read is kept, so are
    /// those after it.
    fn is_kept(&self, stack: usize) -> bool {
        self.ring.is_kept(self.position.saturating_sub(stack as u64 - 1).max(self.own))
    }
}

/// Returns each row with each number of a frame.
fn frames<'a, 'b>(rows: &'b [Row<'a>], stack: usize) -> impl Iterator<Item = (&'b Row<'a>, usize)> {
    rows.iter().flat_map(move |row| (0..stack).map(move |frame| (row, frame)))
}

/// The rows of an n-step return.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The last of them.
    last: u64,
    /// The discount of the value after it.
    factor: f64,
}

/// Copies a column of a row, whose words are those from `at` on.
///
/// # Safety
/// `dst` has room for `bytes` bytes.
#[inline]
unsafe fn copy_words(row: &[AtomicU64], at: usize, bytes: usize, dst: *mut u8) {
    let (whole, rest) = (bytes / 8, bytes % 8);
    let words = &row[at..at + bytes.div_ceil(8)];
    for (k, word) in words[..whole].iter().enumerate() {
        // SAFETY: the bytes of this word are among the first `bytes`.
        unsafe { dst.cast::<u64>().add(k).write_unaligned(word.load(Ordering::Relaxed)) };
    }
    if rest > 0 {
        let last = words[whole].load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: as above, for the rest of them.
        unsafe { std::ptr::copy_nonoverlapping(last.as_ptr(), dst.add(8 * whole), rest) };
    }
}
