//! A small persistent thread pool for work that comes in independent chunks.
//!
//! * The caller works too, and can finish alone: threads *claim* chunks, and [`run`] waits only for chunks that were
//!   claimed.
//!   A helper thread that is not scheduled before it claims a chunk delays nobody.
//! * Threads are spawned by the first [`run`] that can use them, and sleep between jobs.
//! * After `fork()` the child has none of these threads. The pool knows its process; in another process it is leaked
//!   (its locks may be held by threads that no longer exist) and a new one is made. The locks are the standard library's
//!   because on Linux they keep no state outside themselves, which a fork could leave inconsistent.
//!
//! Any thread may run any chunk, in any order, so chunks must not depend on one another. Then the result is the same
//! for any
//! number of threads.

mod job;

use std::ffi::OsStr;
use std::panic::resume_unwind;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;

use crate::error::{Result, value_error};
use job::{Condvar, Job, Mutex, lock};

/// The most threads that work on one job, callers included; 0 means one for each core.
static THREADS: AtomicUsize = AtomicUsize::new(0);
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Sets the most threads that work on one job, the caller included. 1 keeps all work on the caller. The number of cores
/// is a second bound. Helper threads beyond the bound stay asleep.
///
/// # Panics
/// If `threads` is 0.
pub fn set_threads(threads: usize) {
    assert!(threads > 0, "at least the caller must work");
    THREADS.store(threads, Ordering::Relaxed);
}

/// The environment variable that sets the number of threads of a process.
const VARIABLE: &str = "RLFAST_NUM_THREADS";

/// Sets the most threads, as [`set_threads`] does, to a number from outside.
///
/// # Errors
/// `Value` for a number below 1.
pub fn bound_threads(threads: i64) -> Result<()> {
    match usize::try_from(threads) {
        Ok(threads) if threads > 0 => set_threads(threads),
        _ => return value_error!("at least one thread must work, got {threads}"),
    }
    Ok(())
}

/// Sets the most threads to the number in `RLFAST_NUM_THREADS`, if there is one.
///
/// # Errors
/// `Value` for anything but a whole number of at least 1; nothing is changed then.
pub fn bound_threads_by_environment() -> Result<()> {
    match std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        Some(given) => number_in(&given).map(set_threads),
        None => Ok(()),
    }
}

fn number_in(given: &OsStr) -> Result<usize> {
    match given.to_str().and_then(|text| text.trim().parse().ok()).filter(|&threads| threads > 0) {
        Some(threads) => Ok(threads),
        None => value_error!("{VARIABLE} must be a whole number of at least 1, got {given:?}: all cores are used"),
    }
}

/// Returns the most threads that work on one job: the cores that this process may use, or fewer after [`set_threads`].
pub fn threads() -> usize {
    // The system reads several files to count the cores, so the number is kept.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
    match THREADS.load(Ordering::Relaxed) {
        0 => cores,
        threads => threads.min(cores),
    }
}

/// Calls `work(chunk)` once for every chunk of `0..chunks`, on this thread and idle helper threads, and returns when
/// all calls have returned.
///
/// Waking a helper thread costs some microseconds, so a chunk should take longer than that. `work` may call `run`
/// itself.
///
/// # Panics
/// If a call of `work` panics, with the first panic. Other chunks may or may not have run.
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
    let pool = Pool::current();
    pool.submit(&job, helpers);
    while let Some(chunk) = job.claim() {
        job.work(chunk);
    }
    pool.withdraw(&job);
    job.wait();
    // Every claimed chunk is finished, so no thread calls `work` any more.
    if let Some(panic) = job.panic() {
        resume_unwind(panic);
    }
}

/// The helper threads of one process, and their queue of jobs.
struct Pool {
    process: u32,
    queue: Mutex<Queue>,
    work_waits: Condvar,
}

struct Queue {
    /// Jobs that may have unclaimed chunks; usually none or one.
    jobs: Vec<Arc<Job>>,
    /// The number of helper threads. They never end; asleep they cost nothing.
    helpers: usize,
}

impl Pool {
    /// Returns the pool of this process, and makes it if there is none.
    fn current() -> &'static Pool {
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

    /// Offers `job` to at most `helpers` helper threads, and spawns those that do not exist yet.
    fn submit(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut queue = lock(&self.queue);
        queue.jobs.push(Arc::clone(job));
        while queue.helpers < helpers {
            let spawned = thread::Builder::new().name("rlfast-pool".to_owned()).spawn(|| self.run_helper());
            // At the system's limit of threads, the existing helpers and the caller do the work.
            let Ok(_detached) = spawned else { break };
            queue.helpers += 1;
        }
        drop(queue);
        for _ in 0..helpers {
            self.work_waits.notify_one();
        }
    }

    /// Stops offering `job` to helper threads.
    fn withdraw(&self, job: &Arc<Job>) {
        lock(&self.queue).jobs.retain(|other| !Arc::ptr_eq(other, job));
    }

    /// Runs chunks of queued jobs for ever: the body of a helper thread.
    fn run_helper(&self) {
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

    /// Returns how often `run` calls each chunk.
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

    #[test]
    fn numbers_of_threads_from_outside_are_checked() {
        for threads in [0, -1, i64::MIN] {
            let text = bound_threads(threads).unwrap_err().to_string();
            assert_eq!(text, format!("at least one thread must work, got {threads}"));
        }
        assert_eq!(number_in(OsStr::new(" 3 ")).unwrap(), 3);
        for given in ["0", "-1", "many", "1.5"] {
            let text = number_in(OsStr::new(given)).unwrap_err().to_string();
            let wanted = format!("must be a whole number of at least 1, got \"{given}\": all cores are used");
            assert!(text.ends_with(&wanted), "{text}");
        }
    }
}
