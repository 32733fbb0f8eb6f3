//! When threads share a step, and how.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rlfast_core::pool;

use super::part::Part;
use super::{Autoreset, Events};
use crate::Env;

/// Nanoseconds of work below which a step stays on the caller's thread: waking another costs as much as it saves even
/// where it is cheap. In virtual machines it may cost ten times as much, so above this both ways are tried and timed.
const WORTH_SHARING: f64 = 16_000.0;
/// Nanoseconds of work in a chunk, at the least.
const CHUNK: f64 = 5_000.0;
/// Chunks for each thread, at the most: more of them leave less to wait for when a thread is put to sleep in the midst of one.
const CHUNKS_PER_THREAD: usize = 4;
/// Steps alone on the caller's thread, for a first idea of what one costs.
const TRIALS: u32 = 8;
/// Later, every so many steps are timed.
const TIMED: u32 = 64;
/// And after so many, sharing that did not pay is tried again.
const RETRY: u32 = 1024;
/// A whole step is slower than its quickest chunk, by which its cost is judged while it is shared.
const LUCK: f64 = 1.25;

/// Knows what a step costs.
pub(super) struct Sharing {
    nanos_per_row: f64,
    steps: u32,
    /// What a row costs where the step is shared, waking and waiting included.
    shared_nanos_per_row: f64,
    shared_steps: u32,
    /// Tests: chunks of every step.
    #[cfg(test)]
    pub always: Option<usize>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            nanos_per_row: f64::INFINITY,
            steps: 0,
            shared_nanos_per_row: f64::INFINITY,
            shared_steps: 0,
            #[cfg(test)]
            always: None,
        }
    }
}

impl Sharing {
    /// Runs `part`, alone or in chunks that threads claim. The result is the same.
    pub fn run<E: Env>(&mut self, part: Part<'_, E>, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let rows = part.rows();
        let timed = self.steps < TRIALS || self.steps.is_multiple_of(TIMED);
        let chunks = self.chunks(rows);
        self.steps = self.steps.checked_add(1).unwrap_or(TRIALS);
        if chunks > 1 && part.ids.is_none_or(<[usize]>::is_sorted) {
            let start = Instant::now();
            let alone = share(part, chunks, autoreset, events);
            let shared = start.elapsed().as_nanos() as f64 / rows as f64;
            self.learn(alone);
            self.shared_nanos_per_row = shared.min(self.shared_nanos_per_row * 1.1);
            self.shared_steps = self.shared_steps.saturating_add(1);
        } else if timed && rows > 0 {
            let start = Instant::now();
            part.run(autoreset, events);
            self.learn(start.elapsed().as_nanos() as f64 / rows as f64);
        } else if rows > 0 {
            part.run(autoreset, events);
        }
    }

    /// Whether the work on `rows` rows is worth another thread.
    pub fn is_long(&self, rows: usize) -> bool {
        self.steps > 0 && self.nanos_per_row * rows as f64 >= WORTH_SHARING
    }

    fn chunks(&self, rows: usize) -> usize {
        #[cfg(test)]
        if let Some(chunks) = self.always {
            return chunks.min(rows);
        }
        let threads = pool::threads();
        if threads == 1 || self.steps < TRIALS || !self.is_long(rows) {
            return 1;
        }
        let is_tried = self.shared_steps >= TRIALS && !self.steps.is_multiple_of(RETRY);
        if is_tried && self.shared_nanos_per_row >= self.nanos_per_row * LUCK {
            return 1;
        }
        let work = self.nanos_per_row * rows as f64;
        ((work / CHUNK) as usize).clamp(2, threads * CHUNKS_PER_THREAD).min(rows)
    }

    /// Fast to believe in good news: a thread that was put to sleep makes a step seem long, and nothing makes it seem short.
    fn learn(&mut self, nanos_per_row: f64) {
        self.nanos_per_row = nanos_per_row.min(self.nanos_per_row * 1.1);
    }
}

/// Runs `part` in `chunks`, and gives the nanoseconds for a row of the quickest.
fn share<E: Env>(
    mut rest: Part<'_, E>,
    chunks: usize,
    autoreset: Autoreset,
    events: &mut Events<E::Observation>,
) -> f64 {
    let total = rest.rows();
    let mut parts = Vec::with_capacity(chunks);
    for chunk in 1..chunks {
        let rows = total * chunk / chunks - rest.first_row;
        let (part, later) = rest.split(rows);
        parts.push(part);
        rest = later;
    }
    parts.push(rest);
    // Each is locked once, by the thread that claimed it: the lock hands it over.
    let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new((Some(part), Events::default(), 0.0))).collect();
    pool::run(chunks, |chunk| {
        let mut slot = parts[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (part, events, nanos) = &mut *slot;
        if let Some(part) = part.take() {
            let (start, rows) = (Instant::now(), part.rows());
            part.run(autoreset, events);
            *nanos = start.elapsed().as_nanos() as f64 / rows as f64;
        }
    });
    let mut quickest = f64::INFINITY;
    for slot in parts {
        let (_, more, nanos) = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        events.append(more);
        quickest = quickest.min(nanos);
    }
    quickest
}
