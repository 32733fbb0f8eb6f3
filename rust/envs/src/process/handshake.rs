//! How one side sleeps until the other has something for it, without a lost wake-up and without a system call when awake.

use std::time::Duration;

use super::bell::Bell;
use super::sync::{AtomicU32, Ordering, fence};

/// Three words that a sleeper and those who wake it share.
///
/// The sleeper says that it sleeps, *then* looks at the count; the others count, *then* look whether it sleeps. Between the
/// two stands a full fence on either side, so at least one sees the other.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// How many announcements there ever were.
    pub count: &'a AtomicU32,
    /// Whether the reader sleeps, or is about to.
    pub sleeping: &'a AtomicU32,
    /// The count at which the sleeper wants to be woken.
    pub wanted: &'a AtomicU32,
}

impl Post<'_> {
    /// Tells the reader that there is something; what was written before is visible to it. Rings only if it sleeps and has waited
    /// for just this, so one sleep costs one wake however many announcements it takes.
    pub fn announce(&self, bell: &impl Bell) {
        let count = self.count.fetch_add(1, Ordering::Release).wrapping_add(1);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Acquire) != 0
            && count.wrapping_sub(self.wanted.load(Ordering::Relaxed)) as i32 >= 0
        {
            bell.ring(self.count);
        }
    }

    /// The count now; everything announced up to it is visible.
    pub fn seen(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Sleeps until `more` announcements after `seen` have been made, or for `timeout`; it may also return early, so callers
    /// look again.
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

/// `RUSTFLAGS="--cfg loom" cargo test -p rlfast-envs --release --lib loom` (or `make loom`).
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A futex without its timeout: who misses a wake-up sleeps for ever, and loom says so.
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

    // SAFETY: the tests write `value` on one side of `state` at a time, which is what loom checks.
    unsafe impl Sync for Row {}

    impl Row {
        fn idle() -> Self {
            Self { state: AtomicU32::new(0), value: UnsafeCell::new(0) }
        }

        fn answer(&self, value: u32, side: &Side) {
            // SAFETY: the state says that this row is asked: the worker's.
            self.value.with_mut(|cell| unsafe { *cell = value });
            self.state.store(2, Ordering::Release);
            side.post().announce(&side.bell);
        }
    }

    /// The parent sleeps until both answers of two workers are there, and reads what they wrote.
    #[test]
    fn loom_answers_of_two_workers_wake_the_parent() {
        // Three threads meet in too many orders to try all: those in which one is interrupted at most twice.
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
                // SAFETY: the state says answered: the parent's.
                assert_eq!(row.value.with(|cell| unsafe { *cell }), k as u32 + 10);
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }

    /// One whole step, and the worker goes to sleep before, after or while it is asked.
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
                            // SAFETY: the state says asked: the worker's.
                            let action = row.value.with(|cell| unsafe { *cell });
                            return row.answer(action + 1, &sides[1]);
                        }
                        sides[0].post().sleep(&sides[0].bell, seen, 1, Duration::ZERO);
                    }
                })
            };
            // SAFETY: the state says idle: the parent's.
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
            // SAFETY: the state says answered: the parent's.
            assert_eq!(row.value.with(|cell| unsafe { *cell }), 6);
            worker.join().unwrap();
        });
    }
}
