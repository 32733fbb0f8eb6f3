//! Atomics: the standard ones, or with `--cfg loom` loom's, which explores every order of the threads' operations.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, Ordering, fence};
