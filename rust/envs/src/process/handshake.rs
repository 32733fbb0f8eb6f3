//! A counter on which one side sleeps until the other increments it, without lost wake-ups, and without a system call
//! if it is awake.

use std::time::Duration;

use super::bell::Bell;
use super::sync::{AtomicU32, Ordering, fence};

/// Three words that a reader and the writers that wake it share.
///
/// The reader sets `sleeping` and *then* reads the count; a writer increments the count and *then* reads `sleeping`.
/// Each side has a full fence between its two operations, so at least one of them sees the other's write.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The number of announcements so far.
    pub count: &'a AtomicU32,
    /// Whether the reader sleeps, or is about to sleep.
    pub sleeping: &'a AtomicU32,
    /// The count at which the reader is to be woken.
    pub wanted: &'a AtomicU32,
}

impl Post<'_> {
    /// Increments the count. Everything written before is visible to a reader that sees it. It rings the bell only if
    /// the reader sleeps and the count has reached `wanted`, so one sleep costs one wake, whatever the number of
    /// announcements.
    pub fn announce(&self, bell: &impl Bell) {
        let count = self.count.fetch_add(1, Ordering::Release).wrapping_add(1);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Acquire) != 0
            && count.wrapping_sub(self.wanted.load(Ordering::Relaxed)) as i32 >= 0
        {
            bell.ring(self.count);
        }
    }

    /// Returns the count. Everything announced up to it is visible.
    pub fn seen(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Sleeps until `more` announcements after `seen` have been made, or for `timeout`. It may return early, so callers
    /// check again.
    pub fn sleep(&self, bell: &impl Bell, seen: u32, more: u32, timeout: Duration) {
        self.wanted.store(seen.wrapping_add(more), Ordering::Relaxed);
        self.sleeping.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Acquire) == seen {
            bell.wait(self.count, seen, timeout);
        }
        self.sleeping.store(0, Ordering::Release);
    }
}

/// Run by `RUSTFLAGS="--cfg loom" cargo test -p rlfast-envs --release --lib loom` (or `make loom`).
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A futex without a timeout: a reader that misses a wake-up sleeps for ever, which loom reports.
    #[derive(Default)]
    struct Model {
        gate: Mutex<()>,
        woken: Condvar,
    }

    impl Bell for Model {
        fn wait(&self, word: &AtomicU32, seen: u32, _timeout: Duration) {
            let guard = self.gate.lock().unwrap();
            if word.load(Ordering::Acquire) == seen {
                drop(self.woken.wait(guard).unwrap());
            }
        }

        fn ring(&self, _word: &AtomicU32) {
            let _guard = self.gate.lock().unwrap();
            self.woken.notify_all();
        }
    }

    #[derive(Default)]
    struct Side {
        words: [AtomicU32; 3],
        bell: Model,
    }

    impl Side {
        fn post(&self) -> Post<'_> {
            Post { count: &self.words[0], sleeping: &self.words[1], wanted: &self.words[2] }
        }
    }

    struct Row {
        state: AtomicU32,
        value: UnsafeCell<u32>,
    }

    // SAFETY: only the side that `state` names writes `value`; loom checks it.
    unsafe impl Sync for Row {}

    impl Row {
        fn idle() -> Self {
            Self { state: AtomicU32::new(0), value: UnsafeCell::new(0) }
        }

        fn answer(&self, value: u32, side: &Side) {
            // SAFETY: the state is asked, so the row is the worker's.
            self.value.with_mut(|cell| unsafe { *cell = value });
            self.state.store(2, Ordering::Release);
            side.post().announce(&side.bell);
        }
    }

    /// The parent sleeps until two workers have answered, and reads their values.
    #[test]
    fn loom_answers_of_two_workers_wake_the_parent() {
        // Three threads have too many orders to try all; this tries those with at most two preemptions.
        let mut some = loom::model::Builder::new();
        some.preemption_bound = Some(2);
        some.check(|| {
            let side = Arc::new(Side::default());
            let rows = Arc::new([Row::idle(), Row::idle()]);
            let workers = [0, 1].map(|k| {
                let (side, rows) = (side.clone(), rows.clone());
                thread::spawn(move || rows[k].answer(k as u32 + 10, &side))
            });
            loop {
                let seen = side.post().seen();
                let ready = rows.iter().filter(|row| row.state.load(Ordering::Acquire) == 2).count() as u32;
                if ready == 2 {
                    break;
                }
                side.post().sleep(&side.bell, seen, 2 - ready, Duration::ZERO);
            }
            for (k, row) in rows.iter().enumerate() {
                // SAFETY: the state is answered, so the row is the parent's.
                assert_eq!(row.value.with(|cell| unsafe { *cell }), k as u32 + 10);
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }

    /// One whole step, in which the worker goes to sleep before, during or after the request.
    #[test]
    fn loom_a_question_wakes_the_worker_and_its_answer_the_parent() {
        loom::model(|| {
            let sides = Arc::new([Side::default(), Side::default()]);
            let row = Arc::new(Row::idle());
            let worker = {
                let (sides, row) = (sides.clone(), row.clone());
                thread::spawn(move || {
                    loop {
                        let seen = sides[0].post().seen();
                        if row.state.load(Ordering::Acquire) == 1 {
                            // SAFETY: the state is asked, so the row is the worker's.
                            let action = row.value.with(|cell| unsafe { *cell });
                            return row.answer(action + 1, &sides[1]);
                        }
                        sides[0].post().sleep(&sides[0].bell, seen, 1, Duration::ZERO);
                    }
                })
            };
            // SAFETY: the state is idle, so the row is the parent's.
            row.value.with_mut(|cell| unsafe { *cell = 5 });
            row.state.store(1, Ordering::Release);
            sides[0].post().announce(&sides[0].bell);
            loop {
                let seen = sides[1].post().seen();
                if row.state.load(Ordering::Acquire) == 2 {
                    break;
                }
                sides[1].post().sleep(&sides[1].bell, seen, 1, Duration::ZERO);
            }
            // SAFETY: the state is answered, so the row is the parent's.
            assert_eq!(row.value.with(|cell| unsafe { *cell }), 6);
            worker.join().unwrap();
        });
    }
}
