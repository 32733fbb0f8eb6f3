//! One ring of rows and its table of episodes.
//!
//! Every row ever written to a ring has a unique sequence number, a `u64` that counts up. Its slot is the sequence
//! number modulo the capacity. The order of rows, which of them are live, and whether a slot still holds a row that was
//! read before (its *generation*) are therefore comparisons of sequence numbers, also across the end of the ring.

use std::collections::VecDeque;

/// The consecutive rows of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Sequence number of its first row.
    pub start: u64,
    /// Sequence number of its newest row.
    pub last: u64,
    /// Whether it has ended.
    pub done: bool,
}

/// The statistics of the running episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningEpisode {
    /// Return so far, one value for each agent; empty means zero.
    pub episode_return: Vec<f64>,
    /// Steps so far.
    pub length: u64,
    /// Slot of its first row, counted from the start of the ring.
    pub start: usize,
}

/// The rows of one environment.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Global index of its first slot.
    pub(super) offset: usize,
    /// Number of slots.
    pub(super) capacity: usize,
    /// Sequence number of the next row.
    pub(super) head: u64,
    /// Slot of the next row: `head` modulo `capacity`.
    pub(super) cursor: usize,
    /// Number of live rows.
    pub(super) len: usize,
    /// The episodes that have live rows, oldest first.
    pub(super) episodes: VecDeque<Episode>,
    /// Number of `episodes[0]`. Rows store the number of their episode; numbers wrap at 2^32.
    pub(super) first_episode: u32,
    /// The running episode's statistics.
    pub(super) running: RunningEpisode,
}

/// The state of a ring in a snapshot.
pub(super) struct Saved {
    pub head: u64,
    pub cursor: u64,
    pub len: u64,
    pub first_episode: u32,
    pub episodes: VecDeque<Episode>,
    pub running: RunningEpisode,
}

impl Ring {
    /// Returns an empty ring at `offset`.
    #[must_use]
    pub(super) fn new(offset: usize, capacity: usize) -> Self {
        Self {
            offset,
            capacity,
            head: 0,
            cursor: 0,
            len: 0,
            episodes: VecDeque::new(),
            first_episode: 0,
            running: RunningEpisode::default(),
        }
    }

    /// Returns the ring in the state of a snapshot.
    ///
    /// # Errors
    /// A description of the inconsistency, when the state is inconsistent.
    pub(super) fn restored(&self, saved: Saved) -> Result<Self, &'static str> {
        let capacity = self.capacity as u64;
        let fits = saved.len <= capacity
            && saved.cursor < capacity.max(1)
            && saved.head >= saved.len
            && (capacity == 0 || saved.head % capacity == saved.cursor)
            && saved.running.start < self.capacity.max(1);
        if !fits {
            return Err("it contradicts itself");
        }
        let (cursor, len) = (saved.cursor as usize, saved.len as usize);
        let Saved { head, first_episode, episodes, running, .. } = saved;
        let ring =
            Self { head, cursor, len, first_episode, episodes, running, ..Self::new(self.offset, self.capacity) };
        ring.check_episodes()?;
        Ok(ring)
    }

    /// Checks that episodes follow one another without a gap, from the oldest row to the newest.
    fn check_episodes(&self) -> Result<(), &'static str> {
        let mut next = None;
        for (k, e) in self.episodes.iter().enumerate() {
            let newest = k + 1 == self.episodes.len();
            if e.start > e.last || next.is_some_and(|n| n != e.start) || !(e.done || newest) {
                return Err("its episodes do not follow one another");
            }
            next = e.last.checked_add(1);
        }
        let covers = match self.episodes.front() {
            None => self.len == 0,
            Some(first) => first.start <= self.oldest() && first.last >= self.oldest() && next == Some(self.head),
        };
        if covers { Ok(()) } else { Err("its episodes do not cover its rows") }
    }

    /// Returns the global index of the first slot.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the slot of the next row.
    #[must_use]
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns the number of live rows.
    #[must_use]
    pub fn live(&self) -> usize {
        self.len
    }

    /// Returns the sequence number of the oldest live row.
    #[must_use]
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.head - self.len as u64
    }

    /// Returns the global index of a live row by its sequence number; for the number of another row, some slot of the
    /// ring.
    #[must_use]
    #[inline]
    pub fn index(&self, seq: u64) -> usize {
        let age = (self.head - seq) as usize;
        let slot = if age <= self.cursor { self.cursor - age } else { self.cursor + self.capacity - age };
        self.offset + slot
    }

    /// Returns the sequence number of the row at a global index; None when it is no live row of this ring.
    #[must_use]
    #[inline]
    pub fn seq(&self, index: usize) -> Option<u64> {
        let slot = index.wrapping_sub(self.offset);
        if slot >= self.capacity {
            return None; // a slot of another ring
        }
        let age = if slot < self.cursor { self.cursor - slot } else { self.cursor + self.capacity - slot };
        (age <= self.len).then(|| self.head - age as u64)
    }

    /// Returns the global index after `index`, which after the last slot is the first.
    #[must_use]
    #[inline]
    pub fn after(&self, index: usize) -> usize {
        if index + 1 == self.offset + self.capacity { self.offset } else { index + 1 }
    }

    /// Returns the global index of the newest row's slot (of the last slot when the ring was never written).
    #[must_use]
    pub fn newest_slot(&self) -> usize {
        self.offset + if self.cursor == 0 { self.capacity - 1 } else { self.cursor - 1 }
    }

    /// Returns the episode with the number `number`.
    #[must_use]
    #[inline]
    pub fn episode(&self, number: u32) -> Episode {
        self.episodes[number.wrapping_sub(self.first_episode) as usize]
    }

    /// Returns the first and the last sequence number of the live rows of the episode with the number `number`.
    #[must_use]
    #[inline]
    pub fn span(&self, number: u32) -> (u64, u64) {
        let episode = self.episode(number);
        (episode.start.max(self.oldest()), episode.last)
    }

    /// Returns whether an episode is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.episodes.back().is_some_and(|e| !e.done)
    }

    /// Advances the cursor after a row was written there, and returns the number of the row's episode.
    pub(super) fn push(&mut self, done: bool) -> u32 {
        let seq = self.head;
        self.head += 1;
        self.len = (self.len + 1).min(self.capacity);
        self.cursor = if self.cursor + 1 == self.capacity { 0 } else { self.cursor + 1 };
        match self.episodes.back_mut() {
            Some(episode) if !episode.done => {
                episode.last = seq;
                episode.done = done;
            }
            _ => self.episodes.push_back(Episode { start: seq, last: seq, done }),
        }
        let oldest = self.oldest();
        while self.episodes.front().is_some_and(|e| e.last < oldest) {
            self.episodes.pop_front();
            self.first_episode = self.first_episode.wrapping_add(1);
        }
        self.first_episode.wrapping_add(self.episodes.len() as u32 - 1)
    }

    /// Removes all rows; the next one goes to slot `cursor`. Sequence numbers continue, so that generations of removed
    /// rows are stale.
    pub(super) fn clear(&mut self, cursor: usize) {
        let turn = self.head.div_ceil(self.capacity.max(1) as u64); // the capacity is 0 in a main buffer of size 0
        self.head = turn * self.capacity as u64 + cursor as u64;
        self.cursor = cursor;
        self.len = 0;
        self.first_episode = self.first_episode.wrapping_add(self.episodes.len() as u32);
        self.episodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_exactly_full_is_full_and_one_less_is_not() {
        let mut ring = Ring::new(0, 4);
        for _ in 0..3 {
            ring.push(false);
        }
        assert_eq!((ring.len, ring.cursor), (3, 3));
        ring.push(false);
        assert_eq!((ring.len, ring.cursor), (4, 0));
        ring.push(false);
        assert_eq!((ring.len, ring.cursor), (4, 1));
    }

    #[test]
    fn d8_sequence_numbers_pass_two_to_the_32() {
        for start in [(1_u64 << 31) - 5, (1 << 32) - 5] {
            let mut ring = Ring::new(10, 7);
            ring.head = start;
            ring.cursor = (start % 7) as usize;
            for k in 0..30 {
                ring.push(k % 5 == 4);
                let newest = ring.head - 1;
                assert_eq!(ring.index(newest), 10 + (newest % 7) as usize);
                assert_eq!(ring.seq(ring.index(newest)), Some(newest));
                assert_eq!(ring.seq(ring.index(ring.oldest())), Some(ring.oldest()));
            }
        }
    }

    #[test]
    fn episode_numbers_wrap() {
        let mut ring = Ring::new(0, 3);
        ring.first_episode = u32::MAX - 1;
        for _ in 0..10 {
            let number = ring.push(true);
            assert_eq!(ring.episode(number).last, ring.head - 1);
        }
    }

    #[test]
    fn clearing_makes_old_rows_stale() {
        let mut ring = Ring::new(0, 3);
        ring.push(false);
        let seen = ring.seq(0).unwrap();
        ring.clear(0);
        assert_eq!(ring.seq(0), None);
        ring.push(false);
        assert_ne!(ring.seq(0), Some(seen));
    }
}
