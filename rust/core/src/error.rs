//! What can go wrong, one variant for each thing a caller can act on.

use std::io;

/// The engine's error. The Python crate maps each variant to the built-in exception named beside it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value that no caller should pass (`ValueError`).
    #[error("{0}")]
    Value(String),
    /// A row or ring that does not exist (`IndexError`).
    #[error("{0}")]
    Index(String),
    /// What this process cannot do (`RuntimeError`).
    #[error("{0}")]
    Process(String),
    /// The columns cannot fit (`MemoryError`).
    #[error(
        "{what} would take {needed} bytes, but this process can have {limit} bytes of memory; use a smaller capacity, or \
         storage=<folder> to keep the rows on disk"
    )]
    Memory {
        /// What was to be allocated.
        what: String,
        /// Bytes it would take.
        needed: u128,
        /// Bytes that there are.
        limit: u64,
    },
    /// What a caller asked for cannot be held (`MemoryError`).
    #[error("this would take {needed} bytes of memory, more than can be had: ask for less")]
    Room {
        /// Bytes it would take.
        needed: u128,
    },
    /// The operating system refused (`OSError` and its subclasses).
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: String,
        /// The system's own error.
        source: io::Error,
    },
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What an error of the system becomes, said in `context`.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }
}

/// `Err(Error::Value(..))` with a formatted message.
macro_rules! value_error {
    ($($arg:tt)*) => { Err($crate::error::Error::Value(format!($($arg)*))) };
}
pub(crate) use value_error;
