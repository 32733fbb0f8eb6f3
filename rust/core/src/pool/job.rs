//! One job's chunks: who claims which, and when all are finished.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::PoisonError;

// The real ones, or loom's, which explores every order in which threads can meet.
#[cfg(loom)]
use loom::{
    hint::spin_loop,
    sync::{
        MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
#[cfg(not(loom))]
use std::{
    hint::spin_loop,
    sync::{
        MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex};

/// Turns of the wait for chunks still running elsewhere before the caller sleeps: some microseconds, about what sleeping costs.
const SPINS: usize = if cfg!(loom) { 1 } else { 2000 };

/// Locks are never held while foreign code runs, so a poisoned one still guards whole data.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chunks of one call of [`run`](super::run).
pub struct Job {
    chunks: usize,
    /// The next chunk to be claimed; at or past `chunks` when all are.
    next: AtomicUsize,
    /// Chunks that have returned. Release and Acquire: who reads the last one sees the writes of all.
    finished: AtomicUsize,
    /// Held while the last chunk announces itself, so that the announcement is not missed.
    gate: Mutex<()>,
    all_finished: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    work: Work,
}

/// A borrowed closure whose lifetime the type system cannot follow into the helpers.
struct Work(*const (dyn Fn(usize) + Sync + 'static));
// SAFETY: what it points to is `Sync`, hence callable from any thread; `Job::work` states when it may be called.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Job {
    /// `chunks` of `work`, none of them claimed.
    ///
    /// `work` must live until [`Job::wait`] has returned, with nobody who claims after that.
    pub fn new<'a>(chunks: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Self {
        // SAFETY: this only forgets the lifetime 'a. `run` keeps the closure alive until every claimed chunk has finished, and
        // `Job::work` calls it for claimed chunks alone.
        let work: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(ptr::from_ref(work)) };
        Self {
            chunks,
            next: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            gate: Mutex::new(()),
            all_finished: Condvar::new(),
            panic: Mutex::new(None),
            work: Work(work),
        }
    }

    /// Takes a chunk nobody else has. The caller must finish it with [`Job::work`].
    pub fn claim(&self) -> Option<usize> {
        // Relaxed: the chunk number is all that is communicated. Losers push `next` past the end by at most one each.
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.chunks).then_some(chunk)
    }

    /// Runs a chunk that was claimed.
    pub fn work(&self, chunk: usize) {
        // SAFETY: `chunk` was claimed and is not finished, so `run` has not returned and the closure is alive.
        let work = unsafe { &*self.work.0 };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(chunk))) {
            lock(&self.panic).get_or_insert(panic);
        }
        if self.finished.fetch_add(1, Ordering::Release) + 1 == self.chunks {
            drop(lock(&self.gate));
            self.all_finished.notify_all();
        }
    }

    /// What the first chunk that panicked said.
    pub fn panic(&self) -> Option<Box<dyn Any + Send>> {
        lock(&self.panic).take()
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire) == self.chunks
    }

    /// Waits until all chunks are finished.
    pub fn wait(&self) {
        for _ in 0..SPINS {
            if self.is_finished() {
                return;
            }
            spin_loop();
        }
        let mut gate = lock(&self.gate);
        while !self.is_finished() {
            gate = self.all_finished.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p rlfast-core --release --lib loom` (or `make loom`).
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// What each chunk writes to; loom says so if two threads meet there, or if the caller looks before a chunk has finished.
    struct Cells<const N: usize>([UnsafeCell<usize>; N]);

    // SAFETY: the tests write a cell from its chunk alone, which is what loom checks.
    unsafe impl<const N: usize> Sync for Cells<N> {}

    impl<const N: usize> Cells<N> {
        fn add(&self, chunk: usize) {
            // SAFETY: this chunk's cell, which nobody else has before the chunk is finished.
            self.0[chunk].with_mut(|cell| unsafe { *cell += chunk + 1 });
        }
    }

    fn work_off(job: &Job) {
        while let Some(chunk) = job.claim() {
            job.work(chunk);
        }
    }

    /// `helpers` claim chunks until there are none, as this thread does, which then waits, reads what all have written, and
    /// leaves: the closure is gone then, but helpers may still ask for chunks.
    fn share<const N: usize>(helpers: usize) {
        let cells = Cells::<N>(std::array::from_fn(|_| UnsafeCell::new(0)));
        let work = |chunk| cells.add(chunk);
        let job = Arc::new(Job::new(N, &work));
        for _ in 0..helpers {
            let job = Arc::clone(&job);
            thread::spawn(move || work_off(&job));
        }
        work_off(&job);
        job.wait();
        for (chunk, cell) in cells.0.iter().enumerate() {
            // SAFETY: all chunks are finished.
            assert_eq!(cell.with(|cell| unsafe { *cell }), chunk + 1);
        }
    }

    #[test]
    fn loom_a_job_is_over_when_every_chunk_has_run_once() {
        loom::model(|| share::<2>(1));
    }

    #[test]
    fn loom_two_helpers_and_the_caller_share_a_job() {
        // Three threads meet in too many orders to try all: those in which one is interrupted at most twice.
        let mut some = loom::model::Builder::new();
        some.preemption_bound = Some(2);
        some.check(|| share::<3>(2));
    }
}
