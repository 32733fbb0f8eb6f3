//! Values that threads share, and the decision when to release the interpreter.
//!
//! No Python code ever runs under a lock, and no lock is waited for while the interpreter is held: arguments are read before,
//! results are made after, and in between runs a closure that cannot contain Python objects (`Send` ensures that).

use std::cell::Cell;
use std::sync::Arc;

use pyo3::prelude::*;
use rlfast_core::shared::{Host, Shared as Core};

/// Work over fewer bytes than this is done before another thread could have taken over; getting the interpreter back from a
/// busy thread can take 5 ms.
const WORTH_IT: usize = 64 << 10;

/// A proof that this thread is attached to the interpreter.
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

    /// Runs short work, attached to the interpreter unless another thread holds the value.
    #[inline]
    pub fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.0.with(&Interpreter(py), work)
    }

    /// Runs work over `bytes` of data, detached from the interpreter if there are many.
    #[inline]
    pub fn over<R: Send>(&self, py: Python<'_>, bytes: usize, work: impl FnOnce(&mut T) -> R + Send) -> R {
        if bytes < WORTH_IT { self.with(py, work) } else { self.detached(py, work) }
    }

    /// Runs long work, detached from the interpreter.
    pub fn detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        self.0.outside(&Interpreter(py), work)
    }

    /// Runs long work on this value and on another, detached from the interpreter. Whoever needs both names them in this order.
    pub fn detached_with<U: Send, R: Send>(
        &self,
        py: Python<'_>,
        other: &Shared<U>,
        work: impl FnOnce(&mut T, &mut U) -> R + Send,
    ) -> R {
        self.0.outside_with(&other.0, &Interpreter(py), work)
    }

    /// Runs short work attached, which must not call Python; returns `given` if another thread holds the value.
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

/// A value that attached threads use one after the other, without a lock.
pub struct Spare<T>(Cell<Option<T>>);

// SAFETY: only what is attached reaches the cell, for a move in or out, and one thread at a time is attached, as this module is
// declared to need the interpreter's lock.
unsafe impl<T: Send> Sync for Spare<T> {}

impl<T: Default> Spare<T> {
    /// Makes an empty slot.
    pub fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Runs work on the value, or on a new one while another thread has it.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.0.take().unwrap_or_default();
        let result = work(&mut value);
        drop(self.0.replace(Some(value)));
        result
    }
}
