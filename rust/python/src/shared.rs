//! Values that threads share, and when to let go of the interpreter.
//!
//! No Python code ever runs under a lock, and no lock is waited for while the interpreter is held: arguments are read before,
//! results are made after, and in between stands a closure that cannot hold anything of Python's (`Send` sees to that).

use std::cell::Cell;
use std::sync::Arc;

use pyo3::prelude::*;
use rlfast_core::shared::{Host, Shared as Core};

/// Work over fewer bytes than this is done before another thread could have taken over; getting the interpreter back from a
/// busy thread can take 5 ms.
const WORTH_IT: usize = 64 << 10;

/// The interpreter, which this thread is attached to.
struct Interpreter<'py>(Python<'py>);

impl Host for Interpreter<'_> {
    fn outside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.detach(work)
    }
}

/// A value that several objects may hold.
pub struct Shared<T>(Arc<Core<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send> Shared<T> {
    /// Shares `value`.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Core::new(value)))
    }

    /// Does short work: attached, unless another thread has the value.
    #[inline]
    pub fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.0.with(&Interpreter(py), work)
    }

    /// Does work over `bytes` of data, detached from the interpreter where that pays.
    #[inline]
    pub fn over<R: Send>(&self, py: Python<'_>, bytes: usize, work: impl FnOnce(&mut T) -> R + Send) -> R {
        if bytes < WORTH_IT { self.with(py, work) } else { self.detached(py, work) }
    }

    /// Does long work, detached from the interpreter.
    pub fn detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.0.outside(&Interpreter(py), work)
    }

    /// Does short work attached, which must not call Python; gives `given` back if another thread has the value.
    #[inline]
    pub fn try_with<A: Send, R: Send>(
        &self,
        _py: Python<'_>,
        given: A,
        work: impl FnOnce(&mut T, A) -> R + Send,
    ) -> Result<R, A> {
        self.0.try_with(given, work)
    }
}

/// A place where attached threads leave a value for the next one, without a lock.
pub struct Spare<T>(Cell<Option<T>>);

// SAFETY: only what is attached reaches the cell, for a move in or out, and one thread at a time is attached, as this module is
// declared to need the interpreter's lock.
unsafe impl<T: Send> Sync for Spare<T> {}

impl<T> Spare<T> {
    /// Nothing is there yet.
    pub fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Takes out what is there.
    #[inline]
    pub fn take(&self, _py: Python<'_>) -> Option<T> {
        self.0.take()
    }

    /// Leaves `value`, in place of what is there.
    #[inline]
    pub fn put(&self, _py: Python<'_>, value: T) {
        drop(self.0.replace(Some(value)));
    }
}
