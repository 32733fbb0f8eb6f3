//! The chunks of one job: threads claim them, and the caller waits until all are finished.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::PoisonError;

// With `--cfg loom`, loom's versions, which explore every order of the threads' operations.
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

/// Iterations for which the caller spins on chunks that other threads run, before it sleeps. They take some
/// microseconds, about as long as falling asleep and waking.
const SPINS: usize = if cfg!(loom) { 1 } else { 2000 };

/// Locks a mutex, also a poisoned one: no code that may panic runs under these locks, so their data is always
/// consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chunks of one call of [`run`](super::run).
pub struct Job {
    chunks: usize,
    /// The next chunk to be claimed; at least `chunks` when all are claimed.
    next: AtomicUsize,
    /// The number of finished chunks. Release and Acquire: a thread that reads `chunks` here sees the writes of all
    /// chunks.
    finished: AtomicUsize,
    /// Locked between the last increment of `finished` and the notification, so that a waiting caller does not miss it.
    gate: Mutex<()>,
    all_finished: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    work: Work,
}

/// A pointer to the caller's closure, whose lifetime is erased: the borrow checker cannot follow it into the helper
/// threads.
struct Work(*const (dyn Fn(usize) + Sync + 'static));
// SAFETY: the closure is `Sync`, so any thread may call it; `Job::work` states when.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Job {
    /// Returns a job of `chunks` unclaimed chunks of `work`.
    ///
    /// `work` must live until [`Job::wait`] has returned.
    pub fn new<'a>(chunks: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Self {
        // SAFETY: this only erases the lifetime 'a. `run` keeps the closure alive until every claimed chunk has
        // finished, and
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

    /// Returns a chunk that no other thread has claimed, or None if all are. The caller must run it with [`Job::work`].
    pub fn claim(&self) -> Option<usize> {
        // Relaxed, as the counter guards no other memory. Threads that find no chunk raise it past the end.
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

    /// Takes the payload of the first panic.
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

/// Run by `RUSTFLAGS="--cfg loom" cargo test -p rlfast-core --release --lib loom` (or `make loom`).
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// One cell for each chunk. loom fails if two threads access a cell at once, or if the caller reads it before its
    /// chunk has finished.
    struct Cells<const N: usize>([UnsafeCell<usize>; N]);

    // SAFETY: a cell is written by its chunk alone; loom checks it.
    unsafe impl<const N: usize> Sync for Cells<N> {}

    impl<const N: usize> Cells<N> {
        fn add(&self, chunk: usize) {
            // SAFETY: only this chunk accesses the cell before the chunk is finished.
            self.0[chunk].with_mut(|cell| unsafe { *cell += chunk + 1 });
        }
    }

    fn work_off(job: &Job) {
        while let Some(chunk) = job.claim() {
            job.work(chunk);
        }
    }

    /// Runs a job on `helpers` threads and this one, which waits for all chunks, checks what they wrote, and drops the
    /// closure while helpers may still try to claim.
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
        // Three threads have too many orders to try all; this tries those with at most two preemptions.
        let mut some = loom::model::Builder::new();
        some.preemption_bound = Some(2);
        some.check(|| share::<3>(2));
    }
}
