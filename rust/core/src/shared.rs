//! A value that threads share, in a host that has a lock of its own: an interpreter that runs one thread at a time.
//!
//! Two locks are a deadlock when one thread waits for the second while it has the first, and another the other way round. Here
//! nobody can: [`Shared`] is waited for outside the host's lock alone, and what is done under it never asks for the host's.
//! The types say so: work is a closure, so that no guard is carried elsewhere, and it must be `Send`, which what belongs to
//! the host's lock is not.
//!
//! A process that forks keeps the locks and loses the threads that hold them. So work outside the host's lock is counted, and
//! a fork waits until there is none ([`Gate`]); work inside it cannot be there, as the forking thread has the host's lock.

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

/// Whoever has a lock that the callers of [`Shared`] hold.
pub trait Host {
    /// Does `work` without the host's lock, which is taken again afterwards.
    fn outside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;
}

/// A value behind a lock.
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

/// How many forks lie between this process and the one that first asked, where forks are watched: another number than before
/// means another process.
#[must_use]
pub fn descent() -> usize {
    #[cfg(all(unix, not(any(loom, miri))))]
    return fork::descent();
    #[cfg(not(all(unix, not(any(loom, miri)))))]
    return 0;
}

impl<T: Send> Shared<T> {
    /// Nobody has it yet.
    pub fn new(value: T) -> Self {
        #[cfg(all(unix, not(any(loom, miri))))]
        fork::watch();
        Self { value: Mutex::new(value) }
    }

    /// Does short work inside the host's lock; if another thread has the value, outside of it, after waiting there.
    #[cfg(not(loom))]
    #[inline]
    pub fn with<R: Send>(&self, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.with_at(&GATE, host, work)
    }

    /// Does long work, outside the host's lock, so that others have that meanwhile.
    #[cfg(not(loom))]
    pub fn outside<R: Send>(&self, host: &impl Host, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.outside_at(&GATE, host, work)
    }

    /// Does short work inside the host's lock, or gives back what it was `given` if another thread has the value.
    ///
    /// # Errors
    /// `given`, if the value could not be had.
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
            let _inside = gate.pass();
            work(&mut self.lock())
        })
    }

    /// A panic of other work leaves a value that is still valid, if not the one that was wanted.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work outside the host's lock passes through, unless a fork is about to happen, which waits for those inside.
///
/// Made of counters alone: a child finds them as they were, and has no thread that would have to be woken.
#[derive(Debug)]
struct Gate {
    inside: AtomicUsize,
    forks: AtomicUsize,
}

/// Somebody who went through a gate.
struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Release);
    }
}

// Each side says that it is there and then looks for the other; the fences see to it that one of them finds the other.
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "models call most of it; under miri no process forks"))]
impl Gate {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { inside: AtomicUsize::new(0), forks: AtomicUsize::new(0) }
    }

    /// Goes through, when there is no fork.
    fn pass(&self) -> Inside<'_> {
        loop {
            while self.forks.load(Ordering::Relaxed) > 0 {
                pause();
            }
            self.inside.fetch_add(1, Ordering::Relaxed);
            let inside = Inside(self);
            fence(Ordering::SeqCst);
            if self.forks.load(Ordering::Relaxed) == 0 {
                return inside;
            }
        }
    }

    /// Nobody else goes through from now on; returns when nobody is inside.
    fn close(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.inside.load(Ordering::Acquire) > 0 {
            pause();
        }
    }

    /// The fork is over, and this is the process it was made in.
    fn open(&self) {
        self.forks.fetch_sub(1, Ordering::Release);
    }

    /// The fork is over, and this is the child: other threads, and forks of theirs, are not here.
    fn reset(&self) {
        self.inside.store(0, Ordering::Relaxed);
        self.forks.store(0, Ordering::Relaxed);
    }
}

/// Forks are rare and short: no thread has to be woken at once.
#[cfg(not(loom))]
fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

#[cfg(test)]
mod tests;
