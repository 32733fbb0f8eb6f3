//! Appends rows to rings of one process.

use std::sync::Arc;

use super::layout::{Role, RowLayout};
use super::memory::Memory;
use super::owner;
use super::ring::{FIRST, FLAGS, TERMINATED, TRUNCATED};
use crate::error::{Error, Result, value_error};
use crate::memory::copy;
use crate::replay::ring::RunningEpisode;
use crate::replay::{Added, update_statistics};
use crate::shared::fork_count;
use crate::source::Source;
use crate::vectors::{copied, with_room};

/// The running episode of a ring.
#[derive(Debug, Default)]
struct Running {
    /// The position of its first row.
    first: u64,
    statistics: RunningEpisode,
}

/// The writer of some rings. Other writers must not write to them while it lives.
#[derive(Debug)]
pub struct Writer {
    memory: Arc<Memory>,
    layout: RowLayout,
    /// The number of each of its rings, in the order in which they were given.
    numbers: Vec<usize>,
    /// The running episode of each ring that is one of its own.
    rings: Vec<Option<Running>>,
    row: Vec<u64>,
    /// How the owner's words name this process.
    own: u64,
    fork_count: usize,
}

impl Writer {
    /// Returns the writer of some rings. Episodes that a dead writer left unfinished there are truncated.
    ///
    /// # Errors
    /// `Index` for a ring that is not there, `Value` for one that a running process writes to, or if the layout is not that of
    /// the memory.
    pub fn new(memory: Arc<Memory>, layout: RowLayout, rings: &[usize]) -> Result<Self> {
        let there = memory.dimensions();
        if layout.stride != there.stride {
            return value_error!("rows of {} words do not fit into those of {}", layout.stride, there.stride);
        }
        if let Some(ring) = rings.iter().find(|&&ring| ring >= there.rings) {
            return Err(Error::Index(format!("ring {ring} is not there: the buffer has {} rings", there.rings)));
        }
        let (row, fork_count) = (vec![0; layout.stride], fork_count());
        let running = (0..there.rings).map(|_| None).collect();
        let mut writer = Self { memory, layout, numbers: Vec::new(), rings: running, row, own: 0, fork_count };
        for &ring in rings {
            writer.own = owner::claim(writer.memory.owner(ring), ring)?; // those before are released by `drop` on an error
            writer.memory.ring(ring).close_episode();
            writer.rings[ring] = Some(Running { first: writer.memory.ring(ring).head(), ..Running::default() });
            writer.numbers.push(ring);
        }
        Ok(writer)
    }

    fn check(&self, ring: usize) -> Result<()> {
        if self.fork_count != fork_count() {
            return Err(Error::Process(
                "these rings are written by the parent of this process: make a writer of other rings after the fork"
                    .to_owned(),
            ));
        }
        if self.rings.get(ring).is_none_or(Option::is_none) {
            let own = &self.numbers;
            return Err(Error::Index(format!("ring {ring} is not one of this writer, which are {own:?}")));
        }
        Ok(())
    }

    /// Appends a row to each of `rings`. The indices in `added` are those of the whole buffer.
    ///
    /// # Errors
    /// `Index` for a ring of another writer, `Process` in a forked child. Nothing is written then.
    ///
    /// # Safety
    /// `sources` has one entry for each column of the layout, readable for as many rows as there are `rings`; so have the flags, and
    /// the arrays of `added`.
    pub unsafe fn add(
        &mut self,
        rings: &[usize],
        sources: &[Source],
        terminated: &[bool],
        truncated: &[bool],
        added: &mut Added<'_>,
    ) -> Result<()> {
        rings.iter().try_for_each(|&ring| self.check(ring))?;
        let Self { memory, layout, rings: own, row, .. } = self;
        let capacity = memory.dimensions().capacity;
        for (k, &r) in rings.iter().enumerate() {
            let (ring, running) = (memory.ring(r), own[r].as_mut().expect("invariant: checked above"));
            row[FIRST] = running.first;
            row[FLAGS] = (u64::from(terminated[k]) * TERMINATED) | (u64::from(truncated[k]) * TRUNCATED);
            for (field, source) in layout.fields.iter().zip(sources) {
                if field.bytes > 0 && !matches!(field.role, Role::Flags(_)) && !source.ptr.is_null() {
                    let words = &mut row[field.at..field.at + field.bytes.div_ceil(8)];
                    // SAFETY: the caller promises the source, and the words have room for its bytes.
                    unsafe { copy(source.row(k), words.as_mut_ptr().cast(), field.bytes) };
                }
            }
            let position = ring.push(row);
            let done = row[FLAGS] != 0;
            let index = |position: u64| r * capacity + (position % capacity as u64) as usize;
            added.index[k] = index(position) as i64;
            added.episode_start[k] = index(running.first) as i64;
            let reward = |agent: usize| f64::from_bits(row[layout.reward.at + agent]);
            update_statistics(0, &mut running.statistics, done, layout.agents, reward, added, k);
            if done {
                running.first = position + 1;
            }
        }
        Ok(())
    }

    /// Ends the running episode of a ring as truncated at its newest row.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn close_episode(&mut self, ring: usize) -> Result<()> {
        self.check(ring)?;
        self.memory.ring(ring).close_episode();
        let running = Running { first: self.memory.ring(ring).head(), ..Running::default() };
        self.rings[ring] = Some(running);
        Ok(())
    }

    /// Removes all rows of the writer's rings. With `keep_statistics`, the running episodes keep their return and length.
    ///
    /// # Errors
    /// `Process` in a forked child.
    pub fn reset(&mut self, keep_statistics: bool) -> Result<()> {
        for &ring in &self.numbers {
            self.check(ring)?;
            self.memory.ring(ring).clear();
            let first = self.memory.ring(ring).head();
            let running = self.rings[ring].as_mut().expect("invariant: one of its rings");
            running.first = first;
            if !keep_statistics {
                running.statistics = RunningEpisode::default();
            }
        }
        Ok(())
    }

    /// Returns the numbers of its rings, in the order in which they were given.
    #[must_use]
    pub fn rings(&self) -> &[usize] {
        &self.numbers
    }

    /// Lets other processes write to the rings. Nothing can be added any more.
    pub fn release(&mut self) {
        if self.fork_count == fork_count() {
            for &ring in &self.numbers {
                owner::release(self.memory.owner(ring), self.own);
            }
        }
        self.rings.fill_with(|| None);
        self.numbers.clear();
    }
}

/// Returns the rings at some places among those of a writer (None: all); negative places count from the end.
///
/// # Errors
/// `Index` for a place that is not there, `Room`.
pub fn rings_at(rings: &[usize], places: Option<&[i64]>) -> Result<Vec<usize>> {
    let Some(places) = places else { return copied(rings) };
    let mut found = with_room(places.len())?;
    for &place in places {
        let from_start = if place < 0 { place.saturating_add(rings.len() as i64) } else { place };
        match usize::try_from(from_start).ok().and_then(|place| rings.get(place)) {
            Some(&ring) => found.push(ring),
            None => {
                let text = format!("buffer id {place} is out of range: there are {} rings", rings.len());
                return Err(Error::Index(text));
            }
        }
    }
    Ok(found)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.release();
    }
}
