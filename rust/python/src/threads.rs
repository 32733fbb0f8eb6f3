//! The number of threads that share large work.

use pyo3::exceptions::PyRuntimeWarning;
use rlfast_core::pool;

use crate::prelude::*;

/// The environment variable that sets the number of threads of a process.
const VARIABLE: &str = "RLFAST_NUM_THREADS";

/// Bounds the threads that share large copies and large steps of native environments: `rlfast.set_num_threads`.
#[pyfunction]
pub fn set_num_threads(n: i64) -> PyResult<()> {
    let threads = usize::try_from(n).ok().filter(|&threads| threads > 0);
    let threads = threads.ok_or_else(|| raised!(PyValueError, "at least one thread must work, got {n}"))?;
    pool::set_threads(threads);
    Ok(())
}

/// How many threads share large work at the most: `rlfast.get_num_threads`.
#[pyfunction]
pub fn get_num_threads() -> usize {
    pool::threads()
}

/// Sets the number of threads that the environment variable gives.
pub fn from_environment(py: Python<'_>) -> PyResult<()> {
    let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) else { return Ok(()) };
    match given.to_str().and_then(|text| text.trim().parse().ok()).filter(|&threads| threads > 0) {
        Some(threads) => pool::set_threads(threads),
        None => {
            let text = format!("{VARIABLE} must be a whole number of at least 1, got {given:?}: all cores are used");
            let text = std::ffi::CString::new(text.replace('\0', "")).expect("invariant: no zero byte is left");
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
        }
    }
    Ok(())
}
