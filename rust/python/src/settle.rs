//! The quick half of making a `Batch`: what a step of an environment is made of.

use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyType};

use crate::array;
use crate::taking::around;

/// Turns the plain values of `fields` into what a batch of class `batch` holds, in place: bool, int and float become
/// arrays of no axes, an empty dict becomes an empty batch, and arrays of numbers stay. Gives the names of the fields that
/// are none of these, or None.
#[pyfunction]
pub fn settle<'py>(fields: &Bound<'py, PyDict>, batch: Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyList>>> {
    let py = fields.py();
    let mut others = None;
    for (key, value) in fields.iter() {
        let plain = if array::is_array(py, value.as_ptr()) {
            // SAFETY: an array, alive through `value`.
            if is_number(unsafe { array::fields(value.as_ptr()) }) {
                continue;
            }
            None
        } else if value.is_exact_instance_of::<PyFloat>() {
            Some(scalar(py, value.extract::<f64>()?)?)
        } else if value.is_exact_instance_of::<PyBool>() {
            Some(scalar(py, value.extract::<bool>()?)?)
        } else if value.is_exact_instance_of::<PyInt>() {
            // An integer beyond 64 bits takes the slow way, as any other object.
            value.extract::<i64>().ok().map(|number| scalar(py, number)).transpose()?
        } else {
            match value.cast_exact::<PyDict>() {
                Ok(dict) if dict.is_empty() => Some(around(batch.as_unbound(), PyDict::new(py))?),
                _ => None,
            }
        };
        match plain {
            Some(plain) => fields.set_item(key, plain)?,
            None => others.get_or_insert_with(|| PyList::empty(py)).append(key)?,
        }
    }
    Ok(others)
}

fn is_number(array: &numpy::npyffi::objects::PyArrayObject) -> bool {
    // SAFETY: an array always has a dtype.
    let kind = unsafe { (*array.descr).kind } as u8;
    matches!(kind, b'b' | b'i' | b'u' | b'f' | b'c')
}

/// A number as an array of no axes.
fn scalar<T: Element>(py: Python<'_>, value: T) -> PyResult<Bound<'_, PyAny>> {
    let descr: Bound<'_, PyArrayDescr> = numpy::dtype::<T>(py);
    let (array, data) = array::empty(&descr, &mut [], size_of::<T>())?;
    // SAFETY: a fresh array of one `T`.
    unsafe { data.cast::<T>().write(value) };
    Ok(array)
}
