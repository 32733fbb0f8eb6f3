//! The engine's errors as Python's own.

use std::io::ErrorKind;

use pyo3::exceptions::{
    PyAssertionError, PyIndexError, PyKeyError, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyType};
use pyo3::{PyErr, create_exception};
use rlfast_core::error::{Error, system_number};

use crate::once::Once;

create_exception!(
    rlfast._core,
    SchemaMismatch,
    pyo3::exceptions::PyException,
    "What was given is not exactly what the columns hold. Raised before anything is changed."
);

/// The class `OutOfRange`. (`create_exception!` takes one base only.)
pub fn load(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let bases = (py.get_type::<PyIndexError>(), py.get_type::<PyValueError>(), py.get_type::<PyAssertionError>());
    let doc = "A leaf or a mass outside a segment tree. An AssertionError as well, since that is what Tianshou raises.";
    let class = OUT_OF_RANGE.fill(py, || {
        let members = [("__module__", "rlfast._core"), ("__doc__", doc)].into_py_dict(py)?;
        let class = py.get_type::<PyType>().call1(("OutOfRange", bases, members))?;
        Ok(class.cast_into()?.unbind())
    })?;
    Ok(class.bind(py))
}

static OUT_OF_RANGE: Once<Py<PyType>> = Once::new();

/// Turns an engine error into the exception that its documentation names.
#[cold]
fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Value(_) => PyValueError::new_err(text),
        Error::Type(_) => PyTypeError::new_err(text),
        Error::Process(_) => PyRuntimeError::new_err(text),
        Error::Index(_) => PyIndexError::new_err(text),
        Error::Mismatch(_) => SchemaMismatch::new_err(text),
        Error::Key(_) => PyKeyError::new_err(text),
        Error::Outside(_) => Python::attach(|py| PyErr::from_type(OUT_OF_RANGE.get(py).bind(py).clone(), text)),
        Error::Memory { .. } | Error::Room { .. } => PyMemoryError::new_err(text),
        Error::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
        // With its number, Python picks the right subclass (FileNotFoundError, PermissionError, ...).
        Error::Io { source, .. } => match system_number(&source) {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
    }
}

/// The results of the other crates, with their errors as the exceptions that [`to_python`] makes.
pub trait IntoPython<T> {
    /// The result with Python's exception in the place of the error.
    fn python(self) -> PyResult<T>;
}

impl<T, E: Into<Error>> IntoPython<T> for Result<T, E> {
    #[inline]
    fn python(self) -> PyResult<T> {
        self.map_err(|error| to_python(error.into()))
    }
}

/// A `SchemaMismatch` with a formatted message.
macro_rules! mismatch {
    ($($arg:tt)*) => { Err($crate::error::to_mismatch(format_args!($($arg)*))) };
}
pub(crate) use mismatch;

/// One of Python's exceptions with a formatted message.
macro_rules! raised {
    ($kind:ident, $($arg:tt)*) => { pyo3::exceptions::$kind::new_err(format!($($arg)*)) };
}
pub(crate) use raised;

#[cold]
pub fn to_mismatch(text: std::fmt::Arguments<'_>) -> PyErr {
    SchemaMismatch::new_err(text.to_string())
}
