//! The errors of readers.

use std::io;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One record is broken, and reading can go on with the next.
    #[error("{0}")]
    Record(String),
    /// The file is broken from here on.
    #[error("{0}")]
    File(String),
    /// A call of the operating system failed.
    #[error("{context}: {source}")]
    Io {
        /// Description of the operation that failed.
        context: String,
        /// The system's own error.
        source: io::Error,
    },
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a function that turns an error of the system into [`Error::Io`] with this `context`.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }
}

/// `Err(Error::Record(..))` with a formatted message.
macro_rules! broken {
    ($($arg:tt)*) => { Err($crate::error::Error::Record(format!($($arg)*))) };
}
pub(crate) use broken;
