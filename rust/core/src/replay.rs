//! The replay engine: one [`Replay`] of four independent parts.
//!
//! * **rows**: [`table`] stores the bytes ([`layout`] assigns their places; [`frames`] and [`side`] store each
//!   observation once),
//!   and [`rings`] tracks which rows are live, in which order, and in which episode;
//! * **sampler**: draws row numbers, uniformly over live rows or by [`priorities`];
//! * **unit**: expands a row number ([`units`] into n-step returns and windows, [`gather`] into rows and frame stacks);
//! * **relabelling**: changes goals in the batch, never in the store.
//!
//! A row number is `ring offset + slot`. A row's *generation* is its sequence number: see [`ring`].

pub mod expand;
pub mod frames;
pub mod gather;
pub mod layout;
mod pixels;
pub mod priorities;
pub mod provenance;
mod recognition;
pub mod ring;
pub mod rings;
mod sampler;
pub mod side;
mod slabs;
pub mod snapshot;
pub mod table;
mod units;
pub mod view;

use crate::error::{Error, Result, value_error};
use crate::memory::Storage;
use crate::replay::gather::Gatherer;
use crate::replay::layout::{Layout, Leaf};
use crate::replay::priorities::Priorities;
use crate::replay::ring::{Ring, RunningEpisode};
use crate::replay::rings::Rings;
use crate::replay::snapshot::Journal;
use crate::replay::table::{Ending, Table};
use crate::replay::units::Units;
use crate::rng::Stream;
use crate::source::Source;
use crate::vectors::with_room;

/// The options of a buffer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of slots of each ring.
    pub capacities: Vec<usize>,
    /// Whether `obs_next` is stored for every row; if not, it is the next row's `obs`.
    pub save_obs_next: bool,
    /// Number of rows that are stacked when a row is read.
    pub stack_num: usize,
    /// Whether only rows are drawn whose stack lies within their episode.
    pub sample_avail: bool,
    /// The exponent of priorities; None draws uniformly.
    pub alpha: Option<f64>,
    /// The exponent of importance weights.
    pub beta: f64,
    /// Whether importance weights are divided by the largest one of the batch.
    pub weight_norm: bool,
    /// Root seed of the random streams.
    pub seed: u64,
    /// Where the columns are stored.
    pub storage: Storage,
}

/// The results of `add`. The slices have one element for each row; `episode_return` has one for each row and agent.
#[derive(Debug)]
pub struct Added<'a> {
    /// Index of the row.
    pub index: &'a mut [i64],
    /// Return of the episode that the row ended, else 0.
    pub episode_return: &'a mut [f64],
    /// Length of the episode that the row ended, else 0.
    pub episode_length: &'a mut [i64],
    /// Index of the first row of its episode.
    pub episode_start: &'a mut [i64],
}

/// What is known of rows beside their columns.
pub struct Statistics {
    /// The running episode of each ring.
    running: Vec<RunningEpisode>,
    /// The slots of rows, and their leaves in the tree of priorities.
    priorities: Vec<(usize, f64)>,
}

/// A replay buffer.
pub struct Replay {
    config: Config,
    rings: Rings,
    table: Option<Table>,
    priorities: Option<Priorities>,
    sampler: Stream,
    hindsight: Stream,
    journal: Option<Journal>,
}

impl Replay {
    /// Returns an empty buffer, whose columns `define` adds.
    ///
    /// # Errors
    /// `Value` for invalid capacities or exponents; `Memory` when the priorities do not fit into memory.
    pub fn new(config: Config) -> Result<Self> {
        check_stack(config.stack_num)?;
        let rings = Rings::new(&config.capacities)?;
        let priorities = match config.alpha {
            None => None,
            Some(alpha) => {
                let total = rings.total();
                Storage::Ram.check(&format!("the priorities of {total} rows"), priority_bytes(total))?;
                Some(Priorities::new(total, alpha)?)
            }
        };
        let sampler = Stream::named(config.seed, "sampler");
        let hindsight = Stream::named(config.seed, "hindsight");
        Ok(Self { config, rings, table: None, priorities, sampler, hindsight, journal: None })
    }

    /// Lays out the columns of a row. A later call adds columns of zeros.
    ///
    /// # Errors
    /// `Value` for inconsistent columns, `Memory` with the bytes needed; nothing is changed then.
    pub fn define(&mut self, leaves: Vec<Leaf>) -> Result<()> {
        self.redefine(leaves, &[], &[])
    }

    /// Adds columns as [`Self::define`] does, and retires the leaves `retired`, whose paths the new ones may have. New
    /// columns at the paths of `values` begin with those bytes instead of zeros.
    ///
    /// # Errors
    /// As [`Self::define`], and `Value` for a retired leaf that every row needs, or for values of another size.
    pub fn redefine(&mut self, leaves: Vec<Leaf>, retired: &[usize], values: &[(&[String], &[u8])]) -> Result<()> {
        self.config.storage.check_process()?;
        self.rewrites();
        match &mut self.table {
            Some(table) => table.extend(leaves, retired, values),
            None => {
                let single = self.config.storage.codec().is_some();
                let layout = Layout::new(leaves, self.config.save_obs_next, single)?;
                let beside = self.priorities.as_ref().map_or(0, |_| priority_bytes(self.rings.total()));
                let (capacities, storage) = (&self.config.capacities, self.config.storage.clone());
                self.table = Some(Table::new(layout, capacities, storage, beside)?);
                Ok(())
            }
        }
    }

    /// Returns the options, with the present ones of sampling.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sets the number of rows that are stacked when a row is read.
    ///
    /// # Errors
    /// As [`check_stack`].
    pub fn set_stack_num(&mut self, stack_num: usize) -> Result<()> {
        check_stack(stack_num)?;
        self.config.stack_num = stack_num;
        Ok(())
    }

    /// Sets whether only rows are drawn whose stack lies within their episode.
    ///
    /// # Errors
    /// Never fails; it returns a `Result` as the other setters do.
    pub fn set_sample_avail(&mut self, sample_avail: bool) -> Result<()> {
        self.config.sample_avail = sample_avail;
        Ok(())
    }

    /// Sets the exponent of importance weights.
    ///
    /// # Errors
    /// `Value` for a number that is not finite.
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        check_beta(beta)?;
        self.config.beta = beta;
        Ok(())
    }

    /// Sets whether importance weights are divided by the largest one of the batch.
    ///
    /// # Errors
    /// Never fails; it returns a `Result` as the other setters do.
    pub fn set_weight_norm(&mut self, weight_norm: bool) -> Result<()> {
        self.config.weight_norm = weight_norm;
        Ok(())
    }

    /// Returns the rings.
    #[must_use]
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Returns the rows; None before `define`.
    #[must_use]
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Returns a number of each ring.
    #[must_use]
    pub fn of_rings(&self, look: impl Fn(&Ring) -> usize) -> Vec<i64> {
        self.rings.iter().map(|ring| look(ring) as i64).collect()
    }

    /// Returns the columns; none before they are defined.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        self.table.as_ref().map_or(&[], |table| table.layout().leaves())
    }

    /// Returns the bytes that rows take in memory or on disk, without reserved address space.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.nbytes(self.rings.live()))
    }

    /// Returns the priorities; None when rows are drawn uniformly.
    #[must_use]
    pub fn priorities(&self) -> Option<&Priorities> {
        self.priorities.as_ref()
    }

    /// Returns the priorities, mutably; None when rows are drawn uniformly.
    #[must_use]
    pub fn priorities_mut(&mut self) -> Option<&mut Priorities> {
        self.priorities.as_mut()
    }

    /// Returns a reader of rows.
    ///
    /// # Errors
    /// `Value` before `define`.
    pub fn gatherer(&self) -> Result<Gatherer<'_>> {
        Ok(Gatherer::new(&self.rings, self.laid_out()?))
    }

    /// Returns the functions that expand row numbers.
    ///
    /// # Errors
    /// `Value` before `define`.
    fn units(&self) -> Result<Units<'_>> {
        Ok(Units::new(&self.rings, self.laid_out()?))
    }

    fn laid_out(&self) -> Result<&Table> {
        self.config.storage.check_process()?;
        self.table.as_ref().ok_or_else(|| Error::Value("the buffer is empty: nothing was added yet".to_owned()))
    }

    /// Writes one row to each of `rings`, in order. A ring may occur several times.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist or has no slot, `Value` before `define`, `Memory` or `Io` when there is
    /// no room. Nothing is changed then.
    ///
    /// # Safety
    /// `sources` has one entry for each leaf, readable for `rings.len()` rows.
    pub unsafe fn add(
        &mut self,
        rings: &[usize],
        sources: &[Source],
        terminated: &[bool],
        truncated: &[bool],
        added: &mut Added<'_>,
    ) -> Result<()> {
        if let Some(&bad) = rings.iter().find(|&&r| self.rings.get(r).is_none_or(|ring| ring.capacity == 0)) {
            return Err(Error::Index(match self.rings.get(bad) {
                Some(_) => format!("ring {bad} has no slot to write to"),
                None => format!("ring {bad} is not there; the buffer has rings 0 to {}", self.rings.len() - 1),
            }));
        }
        self.config.storage.check_process()?;
        let Some(table) = &mut self.table else {
            return value_error!("the columns are not laid out yet");
        };
        // SAFETY: the caller promises the sources.
        let copied = unsafe { table.copy_overlapping(sources, rings.len()) };
        let sources = copied.as_ref().map_or(sources, |copied| &copied.sources);
        table.reserve(rings)?;
        if rings.len() > 1 {
            let next = |r: usize| self.rings[r].offset + self.rings[r].cursor;
            rings.chunk_by(|a, b| a == b).for_each(|same| table.prefetch(next(same[0]), table.layout.stride));
        }
        let (agents, reward) = (table.agents(), table.layout.reward.map(|leaf| sources[leaf]));
        for (k, &r) in rings.iter().enumerate() {
            let ring = self.rings.ring_mut(r);
            let ending = Ending { terminated: terminated[k], truncated: truncated[k], known: true };
            let (index, done) = (ring.offset + ring.cursor, ending.done());
            // SAFETY: the caller promises the sources.
            unsafe { table.write(ring, r, sources, k, ending, rings.get(k + 1) == Some(&r)) };
            let number = ring.push(done);
            table.set_episode(index, number);
            added.index[k] = index as i64;
            added.episode_start[k] = (ring.offset + ring.running.start) as i64;
            let reward = reward.map_or(std::ptr::null(), |source| source.row(k)).cast::<f64>();
            // SAFETY: the caller promises `agents` f64 for each row of the reward; null stands for zeros.
            let reward = |agent| if reward.is_null() { 0.0 } else { unsafe { reward.add(agent).read_unaligned() } };
            update_statistics(ring.cursor, &mut ring.running, done, agents, reward, added, k);
        }
        if let Some(priorities) = &mut self.priorities {
            let slots: Vec<usize> = added.index.iter().map(|&i| i as usize).collect();
            priorities.admit(&slots);
        }
        if let Some(journal) = &self.journal {
            rings.iter().for_each(|&r| journal.count(r, self.rings[r].head));
        }
        Ok(())
    }

    /// Returns whether the `obs` of a ring's newest row is the `obs_next` of the row before it.
    #[must_use]
    pub fn continues_episode(&self, r: usize) -> bool {
        let ring = &self.rings[r];
        let Some(table) = self.table.as_ref().filter(|_| ring.len > 1) else { return false };
        table.byte(ring.index(ring.head - 2), layout::LINK) == layout::link::NEXT
    }

    /// Ends the running episode of a ring as truncated at its newest row. Does nothing when no episode is running.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist.
    pub fn close_episode(&mut self, r: usize) -> Result<()> {
        self.ring(r)?;
        self.config.storage.check_process()?;
        let ring = self.rings.ring_mut(r);
        let (newest, cursor) = (ring.newest_slot(), ring.cursor);
        if let (Some(episode), Some(table)) = (ring.episodes.back_mut().filter(|e| !e.done), &mut self.table) {
            episode.done = true;
            table.set_byte(newest, layout::TRUNCATED, 1);
            table.set_byte(newest, layout::DONE, 1);
            ring.running = RunningEpisode { start: cursor, ..RunningEpisode::default() };
        }
        Ok(())
    }

    /// Removes all rows of a ring, or of all rings. With `keep_statistics`, the running episode keeps its return and
    /// length.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist.
    pub fn reset(&mut self, ring: Option<usize>, keep_statistics: bool) -> Result<()> {
        self.config.storage.check_process()?;
        let which = match ring {
            Some(r) => {
                self.ring(r)?;
                r..r + 1
            }
            None => 0..self.rings.len(),
        };
        for r in which {
            self.clear(r, 0);
            if !keep_statistics {
                self.rings.ring_mut(r).running = RunningEpisode::default();
            }
        }
        Ok(())
    }

    /// Notes that stored rows are changed, so that the next flush writes all of them.
    fn rewrites(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.rewritten = true;
        }
    }

    fn clear(&mut self, r: usize, cursor: usize) {
        self.rewrites();
        if let Some(table) = &mut self.table {
            table.clear(&self.rings[r], r);
        }
        if let Some(priorities) = &mut self.priorities {
            let slots: Vec<usize> =
                (self.rings[r].oldest()..self.rings[r].head).map(|seq| self.rings[r].index(seq)).collect();
            priorities.tree.set_many(&slots, &vec![0.0; slots.len()]);
        }
        self.rings.ring_mut(r).clear(cursor);
    }

    /// Returns whether the `obs_next` of a row that ends its episode is stored, in a buffer that stores `obs_next` at
    /// the ends of episodes alone: in a side row, or as the `obs` of the next episode's first row if they are the same.
    #[must_use]
    pub fn has_obs_next(&self, index: usize) -> bool {
        self.table.as_ref().is_some_and(|table| match table.byte(index, layout::LINK) {
            layout::link::SIDE => true,
            layout::link::NEXT => table.flag(index, layout::DONE),
            _ => false,
        })
    }

    /// Replaces all rows by those of full-length columns, in which the `sizes[r]` rows before slot `cursors[r]` are
    /// live. `known` flags the rows with a valid `obs_next`, in a buffer that stores it at the ends of episodes alone.
    ///
    /// # Errors
    /// `Value` for sizes or cursors that do not fit the rings, `Memory` or `Io` when there is no room. Nothing is
    /// changed then.
    ///
    /// # Safety
    /// `sources` has one entry for each leaf, readable for `total` rows.
    pub unsafe fn load(
        &mut self,
        sources: &[Source],
        flags: (&[bool], &[bool]),
        known: Option<&[bool]>,
        sizes: &[usize],
        cursors: &[usize],
    ) -> Result<()> {
        self.laid_out()?;
        let total = self.rings.total();
        if let Some(known) = known.filter(|known| known.len() != total) {
            return value_error!("{total} rows need as many flags, got {}", known.len());
        }
        if sizes.len() != self.rings.len() || cursors.len() != self.rings.len() {
            return value_error!(
                "{} rings need as many sizes and cursors, got {} and {}",
                self.rings.len(),
                sizes.len(),
                cursors.len()
            );
        }
        for (r, ring) in self.rings.iter().enumerate() {
            if sizes[r] > ring.capacity || cursors[r] > ring.capacity.saturating_sub(1) {
                return value_error!(
                    "ring {r} has {} slots, so size {} with cursor {} cannot be",
                    ring.capacity,
                    sizes[r],
                    cursors[r]
                );
            }
        }
        let table = self.table.as_mut().expect("invariant: laid out");
        // SAFETY: the caller promises the sources.
        let copied = unsafe { table.copy_overlapping(sources, self.rings.total()) };
        let sources = copied.as_ref().map_or(sources, |copied| &copied.sources);
        let rows = |ring: &ring::Ring, r: usize| {
            let (offset, capacity, size, cursor) = (ring.offset, ring.capacity, sizes[r], cursors[r]);
            (0..size).map(move |k| offset + (cursor + capacity - size + k) % capacity)
        };
        let ending = |index: usize| Ending {
            terminated: flags.0[index],
            truncated: flags.1[index],
            known: known.is_none_or(|known| known[index]),
        };
        let rooms = self.rings.iter().enumerate();
        // SAFETY: as above.
        let rooms: Vec<_> = rooms.map(|(r, ring)| unsafe { table.room(rows(ring, r), sources, ending) }).collect();
        table.reserve_room(&rooms)?;
        for (r, &cursor) in cursors.iter().enumerate() {
            // SAFETY: as above.
            unsafe { self.replace(r, sources, ending, cursor, rows(&self.rings[r], r))? };
        }
        if let Some(priorities) = &mut self.priorities {
            let slots: Vec<usize> = self.rings.chronological().collect();
            priorities.admit(&slots);
        }
        Ok(())
    }

    /// Replaces the rows of one ring, for which `load` has reserved room.
    ///
    /// # Safety
    /// As `load`.
    unsafe fn replace(
        &mut self,
        r: usize,
        sources: &[Source],
        ending: impl Fn(usize) -> Ending,
        cursor: usize,
        rows: impl ExactSizeIterator<Item = usize>,
    ) -> Result<()> {
        let capacity = self.rings[r].capacity;
        if capacity == 0 {
            return Ok(());
        }
        self.clear(r, (cursor + capacity - rows.len()) % capacity);
        self.rings.ring_mut(r).running = RunningEpisode { start: cursor, ..RunningEpisode::default() };
        let table = self.table.as_mut().expect("invariant: laid out");
        for index in rows {
            table.reserve(&[r])?;
            let ending = ending(index);
            // SAFETY: the caller of `load` promises the sources.
            unsafe { table.write(&self.rings[r], r, sources, index, ending, false) };
            let number = self.rings.ring_mut(r).push(ending.done());
            table.set_episode(index, number);
        }
        Ok(())
    }

    /// Returns the statistics of running episodes, and the priorities of rows.
    ///
    /// # Errors
    /// `Room` without memory for them.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut priorities = Vec::new();
        if let Some(held) = &self.priorities {
            priorities = with_room(self.rings.live())?;
            priorities.extend(self.rings.chronological().map(|slot| (slot, held.tree.leaf(slot))));
        }
        Ok(Statistics { running: self.rings.iter().map(|ring| ring.running.clone()).collect(), priorities })
    }

    /// Sets the statistics of running episodes, and the priorities of rows that are still there.
    ///
    /// # Panics
    /// If they are those of another number of rings.
    pub fn set_statistics(&mut self, statistics: Statistics) {
        let Statistics { running, priorities } = statistics;
        for (r, running) in running.into_iter().enumerate() {
            self.rings.ring_mut(r).running = running;
        }
        let live = priorities.into_iter().filter(|&(slot, _)| self.generation(slot) != u64::MAX);
        let (slots, leaves): (Vec<_>, Vec<_>) = live.unzip();
        if let Some(held) = &mut self.priorities {
            held.tree.set_many(&slots, &leaves);
        }
    }

    /// Returns the statistics of a ring's running episode.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist.
    pub fn running(&self, r: usize) -> Result<&RunningEpisode> {
        Ok(&self.ring(r)?.running)
    }

    /// Sets the statistics of a ring's running episode, whose first row has the global index `start`.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist, `Value` for a row that is not in the ring.
    pub fn set_running(&mut self, r: usize, episode_return: Vec<f64>, length: u64, start: usize) -> Result<()> {
        let ring = self.ring(r)?;
        match start.checked_sub(ring.offset).filter(|&slot| slot < ring.capacity.max(1)) {
            Some(start) => self.rings.ring_mut(r).running = RunningEpisode { episode_return, length, start },
            None => return value_error!("an episode of ring {r} cannot start at row {start}"),
        }
        Ok(())
    }

    fn ring(&self, r: usize) -> Result<&ring::Ring> {
        self.rings.get(r).ok_or_else(|| {
            Error::Index(format!("ring {r} is not there; the buffer has rings 0 to {}", self.rings.len() - 1))
        })
    }

    /// Returns the number of values of one reward: 1, or the number of agents.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.table.as_ref().map_or(1, Table::agents)
    }

    /// Returns whether a reward is a scalar, and not an array with one value for each agent.
    #[must_use]
    pub fn scalar_reward(&self) -> bool {
        let reward = |table: &Table| table.layout.reward.map(|leaf| table.layout.leaves[leaf].shape.is_empty());
        self.table.as_ref().and_then(reward).unwrap_or(true)
    }

    /// Returns the row before `index`: see [`Rings::prev`].
    #[must_use]
    pub fn prev(&self, index: usize) -> usize {
        self.table.as_ref().map_or(index, |table| self.rings.prev(table, index))
    }

    /// Returns the row after `index`: see [`Rings::next`].
    #[must_use]
    pub fn next(&self, index: usize) -> usize {
        self.table.as_ref().map_or(index, |table| self.rings.next(table, index))
    }

    /// Returns the first and the last row of the episode of `index`: see [`Rings::bounds`].
    #[must_use]
    pub fn bounds(&self, index: usize) -> (usize, usize) {
        self.table.as_ref().map_or((index, index), |table| self.rings.bounds(table, index))
    }

    /// Returns the live rows of a ring, or of all rings one after the other, oldest first. With `sample_avail`, and
    /// unless `all` of them are wanted, it leaves out rows whose stack reaches beyond their episode.
    ///
    /// # Errors
    /// `Index` for a ring that does not exist, `Room` when there is no memory for the row numbers.
    pub fn chronological(&self, ring: Option<usize>, all: bool) -> Result<Vec<i64>> {
        ring.map_or(Ok(()), |r| self.ring(r).map(drop))?;
        let partial = !all && self.config.sample_avail && self.config.stack_num > 1;
        self.live_where(ring, |i| !partial || self.has_whole_stack(i))
    }

    /// Restarts all random streams from `seed`.
    pub fn reseed(&mut self, seed: u64) {
        self.config.seed = seed;
        self.sampler = Stream::named(seed, "sampler");
        self.hindsight = Stream::named(seed, "hindsight");
    }

    /// Returns the generation of a slot: the sequence number of its row, or `u64::MAX` when it holds no row.
    #[must_use]
    #[inline]
    pub fn generation(&self, index: usize) -> u64 {
        generation(self.rings.ring_of(index), index)
    }

    /// Sets priorities, and returns how many were ignored because their row was overwritten: the slot holds no row, or
    /// one of another generation than `generations[k]`.
    ///
    /// # Errors
    /// `Value` when rows are drawn uniformly, or for an invalid priority; `Index` for a slot that does not exist.
    /// Nothing is changed then.
    pub fn update_priorities(&mut self, index: &[i64], generations: Option<&[u64]>, priorities: &[f64]) -> Result<u64> {
        if index.len() != priorities.len() {
            return value_error!(
                "one priority for each index: got {} indices and {} priorities",
                index.len(),
                priorities.len()
            );
        }
        self.rings.check(index)?;
        let Some(held) = &self.priorities else {
            return value_error!("this buffer draws uniformly: it has no priorities to update");
        };
        let leaves = held.leaves(priorities)?;
        let known = |k: usize| {
            let generation = self.generation(index[k] as usize);
            generation != u64::MAX && generations.is_none_or(|given| given[k] == generation)
        };
        let kept: Vec<usize> = (0..index.len()).filter(|&k| known(k)).collect();
        let slots: Vec<usize> = kept.iter().map(|&k| index[k] as usize).collect();
        let leaves: Vec<f64> = kept.iter().map(|&k| leaves[k]).collect();
        let refused = (index.len() - kept.len()) as u64;
        if let Some(held) = &mut self.priorities {
            held.tree.set_many(&slots, &leaves);
            held.raise_max(kept.iter().map(|&k| priorities[k]));
            held.stale += refused;
        }
        Ok(refused)
    }
}

/// Returns the generation of a slot of `ring`: see [`Replay::generation`].
#[inline(always)]
fn generation(ring: &ring::Ring, index: usize) -> u64 {
    ring.seq(index).unwrap_or(u64::MAX)
}

/// The largest `stack_num`.
const MAX_STACK: usize = 1 << 12;

/// Checks that `stack_num` is in range.
///
/// # Errors
/// `Value` for 0, or above `MAX_STACK`.
pub fn check_stack(stack_num: usize) -> Result<()> {
    if (1..=MAX_STACK).contains(&stack_num) {
        return Ok(());
    }
    value_error!("stack_num must be from 1 to {MAX_STACK}, got {stack_num}")
}

/// Checks that an exponent of importance weights is a number.
///
/// # Errors
/// `Value` if it is NaN or infinite.
pub fn check_beta(beta: f64) -> Result<()> {
    if beta.is_finite() { Ok(()) } else { value_error!("beta must be a finite number, got {beta}") }
}

/// Returns the bytes of the priorities of `total` rows: eight for each leaf, and a seventh more for the inner nodes.
fn priority_bytes(total: usize) -> u128 {
    total as u128 * 8 * 8 / 7
}

/// Adds a row to the statistics of its episode. If the row ended it, writes them to `added` and restarts them.
pub(crate) fn update_statistics(
    cursor: usize,
    running: &mut RunningEpisode,
    done: bool,
    agents: usize,
    reward: impl Fn(usize) -> f64,
    added: &mut Added<'_>,
    k: usize,
) {
    running.episode_return.resize(agents, 0.0);
    for (agent, sum) in running.episode_return.iter_mut().enumerate() {
        *sum += reward(agent);
        added.episode_return[k * agents + agent] = if done { *sum } else { 0.0 };
    }
    running.length += 1;
    added.episode_length[k] = if done { running.length as i64 } else { 0 };
    if done {
        running.episode_return.fill(0.0);
        running.length = 0;
        running.start = cursor;
    }
}

#[cfg(test)]
mod tests;
