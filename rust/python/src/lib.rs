//! The Python module `rlfast._core`: the only crate that names pyo3, and no algorithm lives in it.

use pyo3::prelude::*;

/// The native half of rlfast.
#[pymodule]
mod _core {
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
