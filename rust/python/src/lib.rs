//! The Python module `rlfast._core`: the only crate that names pyo3, and no algorithm lives in it.

mod array;
mod columns;
mod error;
mod index;
mod replay;
mod segment_tree;
mod taking;

use pyo3::prelude::*;

/// The native half of rlfast.
#[pymodule]
mod _core {
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::error::SchemaMismatch;
    #[pymodule_export]
    use super::index::{carried, carry};
    #[pymodule_export]
    use super::replay::Replay;
    #[pymodule_export]
    use super::segment_tree::SegmentTree;
}
