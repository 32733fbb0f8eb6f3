//! A mutex for a host that has a global lock of its own, such as the lock of the Python interpreter.
//!
//! Two locks deadlock when one thread holds the first and waits for the second while another thread holds the second
//! and waits for the first. [`Shared`] rules this out: a thread waits for the value only after it has released the
//! host's lock, and the work under the value's mutex never takes the host's lock. The types enforce it: the work is a
//! closure, so no guard escapes, and the closure must be `Send`, which objects under the host's lock are not.
//!
//! A forked child inherits the mutexes but not the threads that hold them. Work outside the host's lock is therefore
//! counted, and a fork waits until there is none ([`Gate`]). Work inside the host's lock cannot run during a fork, as
//! the forking thread holds that lock.

#[cfg(all(unix, not(any(loom, miri))))]
mod fork;

use std::sync::{PoisonError, TryLockError};

#[cfg(loom)]
use loom::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering, fence},
    },
    thread::yield_now as pause,
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering, fence},
};

/// The owner of a global lock that callers of [`Shared`] hold.
pub trait Host {
    /// Releases the host's lock, runs `work`, and takes the lock again.
    fn outside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;
}

/// A value behind a mutex.
///
/// ```
/// use rlfast_core::shared::{Host, Shared};
/// struct Alone;
/// impl Host for Alone {
///     fn outside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
///         work()
///     }
/// }
/// let sum = Shared::new(1);
/// sum.with(&Alone, |sum| *sum += 2);
/// assert_eq!(sum.outside(&Alone, |sum| *sum), 3);
/// assert_eq!(sum.try_with(4, |sum, more| *sum + more), Ok(7));
/// ```
#[derive(Debug, Default)]
pub struct Shared<T> {
    value: Mutex<T>,
}

#[cfg(not(loom))]
static GATE: Gate = Gate::new();

/// Returns the number of forks between the process that first called this and the current one. A number that has
/// changed means that this is another process. It is always 0 on systems without `pthread_atfork`.
#[must_use]
pub fn fork_count() -> usize {
    #[cfg(all(unix, not(any(loom, miri))))]
    return fork::fork_count();
    #[cfg(not(all(unix, not(any(loom, miri)))))]
    return 0;
}

impl<T: Send> Shared<T> {
    /// Returns `value` behind an unlocked mutex.
    pub fn new(value: T) -> Self {
        #[cfg(all(unix, not(any(loom, miri))))]
        fork::watch();
        Self { value: Mutex::new(value) }
    }

    /// Runs short work under the host's lock. If another thread holds the value, releases the host's lock, waits for
    /// the value and runs the work there.
    #[cfg(not(loom))]
    #[inline]
    pub fn with<R: Send>(&self, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.with_at(&GATE, host, work)
    }

    /// Runs long work with the host's lock released, so that other threads of the host go on meanwhile.
    #[cfg(not(loom))]
    pub fn outside<R: Send>(&self, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.outside_at(&GATE, host, work)
    }

    /// Runs long work on this value and on another one, with the host's lock released. It waits for the other value while it
    /// holds this one, so all work on two such values must name them in the same order.
    #[cfg(not(loom))]
    pub fn outside_with<U: Send, R: Send>(
        &self,
        other: &Shared<U>,
        host: &impl Host,
        work: impl FnOnce(&mut T, &mut U) -> R + Send,
    ) -> R {
        self.outside(host, |value| work(value, &mut other.lock()))
    }

    /// Runs short work under the host's lock, or returns `given` as an error if another thread holds the value.
    ///
    /// # Errors
    /// `given`, if another thread holds the value.
    #[inline]
    pub fn try_with<A: Send, R: Send>(&self, given: A, work: impl FnOnce(&mut T, A) -> R + Send) -> Result<R, A> {
        match self.value.try_lock() {
            Ok(mut value) => Ok(work(&mut value, given)),
            Err(TryLockError::Poisoned(value)) => Ok(work(&mut value.into_inner(), given)),
            Err(TryLockError::WouldBlock) => Err(given),
        }
    }

    #[cfg_attr(all(loom, not(test)), allow(dead_code, reason = "models call it"))]
    #[inline]
    fn with_at<R: Send>(&self, gate: &Gate, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.try_with(work, |value, work| work(value)).unwrap_or_else(|work| self.outside_at(gate, host, work))
    }

    fn outside_at<R: Send>(&self, gate: &Gate, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        host.outside(|| {
            let _passage = gate.pass();
            work(&mut self.lock())
        })
    }

    /// Locks the mutex, also a poisoned one: work that panicked may have stopped halfway, but the value is still a
    /// valid one.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the work outside the host's lock. A fork waits until there is none, and keeps new work out meanwhile.
///
/// It consists of counters alone, which a forked child can reset; a condition variable could lose its waiting threads.
#[derive(Debug)]
struct Gate {
    inside: AtomicUsize,
    forks: AtomicUsize,
}

/// One piece of work that [`Gate`] counts, until it is dropped.
struct Passage<'a>(&'a Gate);

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Release);
    }
}

// Work and forks each raise their own counter and then read the other's. The fences ensure that at least one of them
// sees the other.
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "models call most of it; under miri no process forks"))]
impl Gate {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { inside: AtomicUsize::new(0), forks: AtomicUsize::new(0) }
    }

    /// Counts one piece of work, after any fork has ended.
    fn pass(&self) -> Passage<'_> {
        loop {
            while self.forks.load(Ordering::Relaxed) > 0 {
                pause();
            }
            self.inside.fetch_add(1, Ordering::Relaxed);
            let passage = Passage(self);
            fence(Ordering::SeqCst);
            if self.forks.load(Ordering::Relaxed) == 0 {
                return passage;
            }
        }
    }

    /// Keeps new work out, and returns when no work is running.
    fn close(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.inside.load(Ordering::Acquire) > 0 {
            pause();
        }
    }

    /// Lets work in again, in the parent after a fork.
    fn open(&self) {
        self.forks.fetch_sub(1, Ordering::Release);
    }

    /// Sets both counters to 0, in the child after a fork, which has no other threads.
    fn reset(&self) {
        self.inside.store(0, Ordering::Relaxed);
        self.forks.store(0, Ordering::Relaxed);
    }
}

/// Sleeps for a moment. Forks are rare and short, so a delay does no harm.
#[cfg(not(loom))]
fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

#[cfg(test)]
mod tests;
