//! The errors of readers.

use std::io;

use rlfast_core::error::Error as CoreError;

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
    #[error(transparent)]
    System(#[from] CoreError),
}

/// The result of reading.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// As [`CoreError::io`].
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let error = CoreError::io(context);
        move |source| Self::System(error(source))
    }
}

impl From<Error> for CoreError {
    fn from(error: Error) -> Self {
        match error {
            Error::Record(text) | Error::File(text) => Self::Value(text),
            Error::System(error) => error,
        }
    }
}

/// `Err(Error::Record(..))` with a formatted message.
macro_rules! broken {
    ($($arg:tt)*) => { Err($crate::error::Error::Record(format!($($arg)*))) };
}
pub(crate) use broken;
