//! The number of threads that share large work.

use std::ffi::CString;

use pyo3::exceptions::PyRuntimeWarning;
use rlfast_core::pool;

use crate::prelude::*;

/// Bounds the threads that share large copies and large steps of native environments: `rlfast.set_num_threads`.
#[pyfunction]
pub fn set_num_threads(n: i64) -> PyResult<()> {
    pool::bound_threads(n).python()
}

/// How many threads share large work at the most: `rlfast.get_num_threads`.
#[pyfunction]
pub fn get_num_threads() -> usize {
    pool::threads()
}

/// Sets the number of threads that the environment gives, and warns where it gives no number.
pub fn from_environment(py: Python<'_>) -> PyResult<()> {
    let Err(error) = pool::bound_threads_by_environment() else { return Ok(()) };
    let text = CString::new(error.to_string().replace('\0', "")).expect("invariant: no zero byte is left");
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)
}
