//! The engine's errors as Python's own.

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use rlfast_core::error::Error;

create_exception!(
    rlfast._core,
    SchemaMismatch,
    pyo3::exceptions::PyException,
    "What was given is not exactly what the columns hold. Raised before anything is changed."
);

/// Turns an engine error into the exception that its documentation names.
pub fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Value(_) => PyValueError::new_err(text),
        Error::Index(_) => PyIndexError::new_err(text),
        Error::Schema(_) => SchemaMismatch::new_err(text),
        Error::Memory { .. } => PyMemoryError::new_err(text),
        Error::Io { source, .. } => match source.raw_os_error() {
            // With its number, Python picks the right subclass (FileNotFoundError, PermissionError, ...).
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
    }
}

/// `.map_err(to_python)` for the engine's results.
pub trait IntoPython<T> {
    /// The result with Python's exception in the place of the engine's error.
    fn python(self) -> PyResult<T>;
}

impl<T> IntoPython<T> for rlfast_core::error::Result<T> {
    fn python(self) -> PyResult<T> {
        self.map_err(to_python)
    }
}

/// A `SchemaMismatch` with a formatted message.
macro_rules! mismatch {
    ($($arg:tt)*) => { Err($crate::error::SchemaMismatch::new_err(format!($($arg)*))) };
}
pub(crate) use mismatch;
