//! A small standing thread pool for work that comes in independent chunks.
//!
//! * The caller works too, and can finish alone: helpers *claim* chunks, and [`run`] waits only for chunks that were claimed.
//!   A helper that the scheduler never wakes, or puts to sleep before it claimed anything, delays nobody.
//! * Nothing starts at import: threads are spawned by the first [`run`] that can use them, and sleep between jobs.
//! * After `fork()` the child has none of these threads. The pool remembers its process; in another process it is leaked (its
//!   locks may be held by threads that no longer exist) and a new one is made. The locks are the standard library's because
//!   on Linux they keep no state outside themselves that a fork could tear.
//!
//! Which thread runs a chunk is chance, so chunks must not depend on one another; then the result is the same for any
//! number of threads.

mod job;

use std::panic::resume_unwind;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;

use job::{Condvar, Job, Mutex, lock};

/// The most threads that work on one job, callers included; 0 means one for each core.
static THREADS: AtomicUsize = AtomicUsize::new(0);
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Bounds the threads that work on one job, the caller included. 1 keeps all work on the caller; there are never more than cores.
/// Helpers that exist already sleep.
///
/// # Panics
/// If `threads` is 0.
pub fn set_threads(threads: usize) {
    assert!(threads > 0, "at least the caller must work");
    THREADS.store(threads, Ordering::Relaxed);
}

/// The most threads that work on one job: the cores this process may use, or fewer by [`set_threads`].
pub fn threads() -> usize {
    // The answer is worked out from several files, so it is asked for once.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
    match THREADS.load(Ordering::Relaxed) {
        0 => cores,
        threads => threads.min(cores),
    }
}

/// Calls `work(chunk)` once for every chunk of `0..chunks`, on this thread and any idle helpers, and returns when all are done.
///
/// Waking a helper costs some microseconds: chunks should be larger than that. `work` may call `run` itself.
///
/// # Panics
/// With the first panic of `work`; the chunks after it may or may not have run.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// rlfast_core::pool::run(100, |chunk| {
///     sum.fetch_add(chunk, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub fn run(chunks: usize, work: impl Fn(usize) + Sync) {
    let helpers = threads().min(chunks).saturating_sub(1);
    if helpers == 0 {
        return (0..chunks).for_each(work);
    }
    let job = Arc::new(Job::new(chunks, &work));
    let pool = Pool::here();
    pool.submit(&job, helpers);
    while let Some(chunk) = job.claim() {
        job.work(chunk);
    }
    pool.withdraw(&job);
    job.wait();
    // `work` outlives this point, and every claimed chunk is finished: nobody calls it any more.
    if let Some(panic) = job.panic() {
        resume_unwind(panic);
    }
}

/// The helpers of one process.
struct Pool {
    process: u32,
    queue: Mutex<Queue>,
    work_waits: Condvar,
}

struct Queue {
    /// Jobs whose callers are still claiming; usually none or one.
    jobs: Vec<Arc<Job>>,
    /// Helpers that exist. They never end, as they cost nothing asleep.
    helpers: usize,
}

impl Pool {
    /// The pool of this process.
    fn here() -> &'static Pool {
        let process = process::id();
        let mut current = POOL.load(Ordering::Acquire);
        loop {
            // SAFETY: POOL holds null or a pool leaked below, which lives for ever; `process` is never written again.
            let pool = unsafe { current.as_ref() };
            if let Some(pool) = pool.filter(|pool| pool.process == process) {
                return pool;
            }
            let fresh = Box::into_raw(Box::new(Pool::new(process)));
            match POOL.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => current = fresh,
                Err(winner) => {
                    // SAFETY: `fresh` came from `Box::into_raw` above and was not published.
                    drop(unsafe { Box::from_raw(fresh) });
                    current = winner;
                }
            }
        }
    }

    fn new(process: u32) -> Self {
        Self { process, queue: Mutex::new(Queue { jobs: Vec::new(), helpers: 0 }), work_waits: Condvar::new() }
    }

    /// Offers `job` to as many as `helpers` helpers, spawning those that do not exist yet.
    fn submit(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut queue = lock(&self.queue);
        queue.jobs.push(Arc::clone(job));
        while queue.helpers < helpers {
            let spawned = thread::Builder::new().name("rlfast-pool".to_owned()).spawn(|| self.help());
            // A process at its thread limit works on with the helpers it has: the caller finishes alone if need be.
            let Ok(_detached) = spawned else { break };
            queue.helpers += 1;
        }
        drop(queue);
        for _ in 0..helpers {
            self.work_waits.notify_one();
        }
    }

    /// Stops offering `job`.
    fn withdraw(&self, job: &Arc<Job>) {
        lock(&self.queue).jobs.retain(|other| !Arc::ptr_eq(other, job));
    }

    /// The life of a helper.
    fn help(&self) {
        let mut queue = lock(&self.queue);
        loop {
            let claimed = queue.jobs.iter().find_map(|job| job.claim().map(|chunk| (Arc::clone(job), chunk)));
            let Some((job, chunk)) = claimed else {
                queue = self.work_waits.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            job.work(chunk);
            while let Some(chunk) = job.claim() {
                job.work(chunk);
            }
            queue = lock(&self.queue);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;

    /// Each chunk's number of calls.
    fn calls(chunks: usize) -> Vec<usize> {
        let calls: Vec<_> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
        run(chunks, |chunk| {
            calls[chunk].fetch_add(1, Ordering::Relaxed);
        });
        calls.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_chunk_runs_once() {
        for chunks in [0, 1, 2, 3, 100, 10_000] {
            assert_eq!(calls(chunks), vec![1; chunks]);
        }
    }

    #[test]
    fn helpers_really_help() {
        if threads() < 2 {
            return;
        }
        // Two chunks that wait for each other can only finish on two threads.
        let meeting = Barrier::new(2);
        run(2, |_| {
            meeting.wait();
        });
    }

    #[test]
    fn a_held_up_helper_delays_nobody() {
        // Another job keeps the helpers busy; this one must finish without them.
        let (started, release) = (Barrier::new(2), Mutex::new(()));
        let hold = lock(&release);
        thread::scope(|scope| {
            let held = scope.spawn(|| {
                run(threads().max(2), |chunk| {
                    if chunk == 0 {
                        started.wait();
                    }
                    drop(lock(&release));
                });
            });
            started.wait();
            assert_eq!(calls(50), vec![1; 50]);
            drop(hold);
            held.join().expect("the held job ends well");
        });
    }

    #[test]
    fn callers_may_come_from_many_threads_and_nest() {
        let sum = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        run(4, |outer| {
                            run(3, |inner| {
                                sum.fetch_add((outer * 3 + inner) as u64, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 8 * 50 * 66);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_pool_whole() {
        let done = AtomicUsize::new(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            run(20, |chunk| {
                assert!(chunk != 7, "chunk seven");
                thread::sleep(Duration::from_micros(50));
                done.fetch_add(1, Ordering::Relaxed);
            });
        }))
        .expect_err("chunk 7 panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"chunk seven"));
        // With one thread only, a panic ends the loop at once.
        if threads() > 1 {
            assert_eq!(done.into_inner(), 19);
        }
        assert_eq!(calls(100), vec![1; 100]);
    }
}
