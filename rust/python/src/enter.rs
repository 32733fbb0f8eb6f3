//! When to let go of the interpreter.

use pyo3::marker::Ungil;
use pyo3::prelude::*;

/// Work over fewer bytes than this is done before another thread could have taken over; getting the interpreter back from a
/// busy thread can take 5 ms.
const WORTH_IT: usize = 64 << 10;

/// Does `work` over `bytes` of data, detached from the interpreter where that pays.
pub fn enter<R: Ungil>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> R + Ungil) -> R {
    if bytes < WORTH_IT { work() } else { py.detach(work) }
}
