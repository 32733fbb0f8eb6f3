//! Decides whether several threads share a step, and distributes the work.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rlfast_core::pool;

use super::part::Part;
use super::{Autoreset, Events};
use crate::Env;

/// Nanoseconds of work below which a step stays on the caller's thread, as waking another thread costs as much as it
/// saves. In virtual machines it may cost ten times as much, so above this bound both ways are tried and timed.
const WORTH_SHARING: f64 = 16_000.0;
/// The least nanoseconds of work in a chunk.
const CHUNK: f64 = 5_000.0;
/// The most chunks for each thread. With more chunks, less work waits for a thread that the system suspends within one.
const CHUNKS_PER_THREAD: usize = 4;
/// The number of first steps by which the cost of each way is measured.
const TRIALS: u32 = 8;
/// The number of steps between two measurements after that.
const TIMED: u32 = 64;
/// The number of steps after which the slower way is tried again, as the cost of a thread changes with the load of the
/// machine.
const RETRY: u32 = 4096;

/// Measures the cost of steps, and decides whether threads share them.
pub(super) struct Sharing {
    alone: Cost,
    /// The cost of a shared step, with waking and waiting.
    shared: Cost,
    steps: u32,
    /// The number of chunks of every step, for tests.
    #[cfg(test)]
    pub always: Option<usize>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            alone: Cost(f64::INFINITY),
            shared: Cost(f64::INFINITY),
            steps: 0,
            #[cfg(test)]
            always: None,
        }
    }
}

/// Nanoseconds for one row, measured over a whole step. Parts of a step do not serve, as cores that work at the same
/// time slow each other down.
#[derive(Clone, Copy)]
struct Cost(f64);

impl Cost {
    /// Updates the estimate with a measurement. Lower values count at once and higher ones only in small increments, because an
    /// interrupted thread makes a step seem longer, and nothing makes it seem shorter.
    fn learn(&mut self, start: Instant, rows: usize) {
        self.0 = (start.elapsed().as_nanos() as f64 / rows as f64).min(self.0 * 1.1);
    }
}

impl Sharing {
    /// Runs `part`, alone or in chunks that threads claim. The result is the same.
    pub fn run<E: Env>(&mut self, part: Part<'_, E>, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let rows = part.rows();
        if rows == 0 {
            return;
        }
        let timed = self.is_trial() || self.steps.is_multiple_of(TIMED);
        let chunks = if part.ids.is_none_or(<[usize]>::is_sorted) { self.chunks(rows) } else { 1 };
        self.steps = self.steps.wrapping_add(1);
        let start = timed.then(Instant::now);
        if chunks > 1 {
            share(part, chunks, autoreset, events);
        } else {
            part.run(autoreset, events);
        }
        if let Some(start) = start {
            let cost = if chunks > 1 { &mut self.shared } else { &mut self.alone };
            cost.learn(start, rows);
        }
    }

    /// Returns whether the work on `rows` rows is long enough to use another thread.
    pub fn is_long(&self, rows: usize) -> bool {
        self.alone.0.is_finite() && self.alone.0 * rows as f64 >= WORTH_SHARING
    }

    /// Returns whether this step is used to measure the cost of one of the two ways.
    fn is_trial(&self) -> bool {
        self.steps % RETRY < 2 * TRIALS
    }

    fn chunks(&self, rows: usize) -> usize {
        #[cfg(test)]
        if let Some(chunks) = self.always {
            return chunks.min(rows);
        }
        let threads = pool::threads();
        let is_shared = match self.steps % RETRY {
            ..TRIALS => false,
            TRIALS.. if self.is_trial() => true,
            _ => self.shared.0 < self.alone.0,
        };
        if threads == 1 || !is_shared || !self.is_long(rows) {
            return 1;
        }
        let work = self.alone.0 * rows as f64;
        ((work / CHUNK) as usize).clamp(2, threads * CHUNKS_PER_THREAD).min(rows)
    }
}

/// Splits `part` into `chunks`, which several threads run.
fn share<E: Env>(mut rest: Part<'_, E>, chunks: usize, autoreset: Autoreset, events: &mut Events<E::Observation>) {
    let total = rest.rows();
    let mut parts = Vec::with_capacity(chunks);
    for chunk in 1..chunks {
        let rows = total * chunk / chunks - rest.first_row;
        let (part, later) = rest.split(rows);
        parts.push(part);
        rest = later;
    }
    parts.push(rest);
    // Each part is locked once, by the thread that claimed it: the mutex hands it over.
    let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new((Some(part), Events::default()))).collect();
    pool::run(chunks, |chunk| {
        let mut slot = parts[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (part, events) = &mut *slot;
        if let Some(part) = part.take() {
            part.run(autoreset, events);
        }
    });
    for slot in parts {
        let (_, more) = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        events.append(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quicker_way_is_taken_and_the_other_tried_now_and_then() {
        let is_shared = |alone, shared, steps| {
            Sharing { alone: Cost(alone), shared: Cost(shared), steps, ..Sharing::default() }.chunks(10_000) > 1
        };
        let many = pool::threads() > 1;
        for period in [0, RETRY, 7 * RETRY] {
            assert!(!is_shared(20.0, 5.0, period), "the first steps are alone");
            assert_eq!(is_shared(20.0, f64::INFINITY, period + TRIALS), many, "then sharing is tried");
            assert_eq!(is_shared(20.0, 15.0, period + 2 * TRIALS), many);
            assert!(!is_shared(20.0, 21.0, period + 2 * TRIALS));
            assert!(!is_shared(1.0, 0.5, period + 2 * TRIALS), "too short to be worth a thread");
        }
    }

    #[test]
    fn a_cost_follows_good_news_at_once_and_bad_news_slowly() {
        let (mut cost, long_ago) = (Cost(1e12), Instant::now() - std::time::Duration::from_secs(1));
        cost.learn(long_ago, 1000);
        assert!((1e6..1e8).contains(&cost.0), "{}", cost.0);
        cost.0 = 10.0;
        cost.learn(long_ago, 1000);
        assert!((cost.0 - 11.0).abs() < 1e-9, "{}", cost.0);
    }
}
