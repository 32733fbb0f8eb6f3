//! Sequences as arguments. pyo3's own `Vec<T>` allocates as many items as a sequence's length, and the process ends where
//! that is beyond all memory: `range(10**13)` has that many.

use std::ops::Deref;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PySequence, PyString};
use rlfast_core::vectors;

use crate::error::{IntoPython as _, raised};

/// The items of a sequence.
#[derive(Debug)]
pub struct Items<T>(pub Vec<T>);

impl<T> Deref for Items<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, 'py, T: FromPyObjectOwned<'py>> FromPyObject<'a, 'py> for Items<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Err(raised!(PyTypeError, "a sequence is wanted here, got a string"));
        }
        // SAFETY: a live object.
        let is_sequence = unsafe { pyo3::ffi::PySequence_Check(object.as_ptr()) } != 0;
        let sequence = match is_sequence {
            // SAFETY: a sequence by the protocol, as pyo3 takes for one as well.
            true => unsafe { object.cast_unchecked::<PySequence>() },
            false => object.cast::<PySequence>()?,
        };
        let length = sequence.len()?;
        let mut items = vectors::with_room(length).python()?;
        for item in object.try_iter()? {
            if items.len() == length {
                return Err(raised!(PyValueError, "a sequence of {length} items gave more of them"));
            }
            items.push(item?.extract::<T>().map_err(Into::into)?);
        }
        Ok(Self(items))
    }
}
