//! What nearly every module of the binding uses. The modules that these things are from do not use this one.

pub use std::sync::Arc;

pub use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArrayMethods as _};
pub use pyo3::prelude::*;
pub use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
pub use rlfast_core::vectors;

pub(crate) use crate::array::{self, Array, Index, NewArray, Object, Shaped};
pub(crate) use crate::error::{IntoPython as _, mismatch, raised};
pub(crate) use crate::items::Items;
pub(crate) use crate::shared::Shared;
