//! The engine's error type: one variant for each kind of failure that a caller can act on.

use std::io;

/// The engine's error. The Python crate maps each variant to the built-in exception named beside it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is invalid (`ValueError`).
    #[error("{0}")]
    Value(String),
    /// An argument has the wrong type (`TypeError`).
    #[error("{0}")]
    Type(String),
    /// A row or a ring does not exist (`IndexError`).
    #[error("{0}")]
    Index(String),
    /// A leaf or a mass is outside a segment tree (`OutOfRange`, which is an `IndexError`).
    #[error("{0}")]
    Outside(String),
    /// Rows are not exactly what the columns hold (`SchemaMismatch`).
    #[error("{0}")]
    Mismatch(String),
    /// There is no column with this name (`KeyError`).
    #[error("{0}")]
    Key(String),
    /// This process may not do the operation, such as a forked child that writes to its parent's file (`RuntimeError`).
    #[error("{0}")]
    Process(String),
    /// The columns do not fit into memory (`MemoryError`).
    #[error(
        "{what} would take {needed} bytes, but this process can have {limit} bytes of memory; use a smaller capacity, or \
         storage=<folder> to keep the rows on disk"
    )]
    Memory {
        /// Description of the memory, for the message.
        what: String,
        /// Bytes that the memory would take.
        needed: u128,
        /// Bytes that are available.
        limit: u64,
    },
    /// A result does not fit into memory (`MemoryError`).
    #[error("this would take {needed} bytes of memory, more than can be had: ask for less")]
    Room {
        /// Bytes that the memory would take.
        needed: u128,
    },
    /// A call of the operating system failed (`OSError` and its subclasses).
    #[error("{context}: {source}")]
    Io {
        /// Description of the operation that failed.
        context: String,
        /// The system's own error.
        source: io::Error,
    },
}

/// The result of operations that may fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a function that turns an error of the system into [`Error::Io`] with this `context`.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }
}

/// "No space left on device", the same number on all systems.
const ENOSPC: i32 = 28;

/// Returns the number by which systems know an error, also of one that was made here; None for one that they do not know.
#[must_use]
pub fn system_number(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| (error.kind() == io::ErrorKind::StorageFull).then_some(ENOSPC))
}

/// `Err(Error::Value(..))` with a formatted message.
#[macro_export]
macro_rules! value_error {
    ($($arg:tt)*) => { Err($crate::error::Error::Value(format!($($arg)*))) };
}
pub use value_error;
