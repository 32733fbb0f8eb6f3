//! The values that a batch takes without running any Python code.

use numpy::Element;
use pyo3::ffi;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::{empty, is_batch, stacking, with_fields};
use crate::prelude::*;

/// Dicts that are nested deeper, such as one that holds itself, are left to Python code.
const MAX_DEPTH: usize = 8;

/// What a batch holds for a value.
enum Plain<'py> {
    /// The value itself.
    Kept,
    /// Another object.
    Made(Object<'py>),
    /// Python code decides.
    Unknown,
}

/// Sets `fields` to what a batch of class `batch` holds for the plain values among those `given`, and to the values themselves for others;
/// returns whether all are plain: numbers and lists of them become arrays, dicts of plain values and several dicts of numbers become
/// batches, and arrays of numbers, batches and None stay.
pub fn convert<'py>(
    given: &Bound<'py, PyDict>,
    fields: &Bound<'py, PyDict>,
    batch: &Bound<'py, PyType>,
    depth: usize,
) -> PyResult<bool> {
    let py = given.py();
    let mut all = true;
    let (mut place, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a live dict.
    while unsafe { ffi::PyDict_Next(given.as_ptr(), &raw mut place, &raw mut key, &raw mut value) } != 0 {
        // SAFETY: live objects. They are held, as the garbage collector may run code that changes the dict.
        let (key, value) = unsafe { (Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)) };
        match converted(&value, batch, depth)? {
            Plain::Kept => fields.set_item(key, value)?,
            Plain::Made(plain) => fields.set_item(key, plain)?,
            Plain::Unknown => {
                fields.set_item(key, value)?;
                all = false;
            }
        }
    }
    Ok(all)
}

#[inline(always)]
fn converted<'py>(value: &Object<'py>, batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Plain<'py>> {
    let py = value.py();
    if let Some(array) = ArrayRef::of(value) {
        return if array.is_number() { Ok(Plain::Kept) } else { of_rows(stacking::rows_of_array(py, array), batch) };
    }
    if let Some(array) = number(value)? {
        return Ok(Plain::Made(array));
    }
    if value.is_none() || is_batch(value)? {
        return Ok(Plain::Kept);
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        return of_dict(dict, batch, depth);
    }
    if value.is_exact_instance_of::<PyList>() || value.is_exact_instance_of::<PyTuple>() {
        return of_sequence(value, batch);
    }
    Ok(Plain::Unknown)
}

/// A number as an array of no axes; None for another value, and for an integer beyond 64 bits.
#[inline(always)]
fn number<'py>(value: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    let py = value.py();
    if value.is_exact_instance_of::<PyFloat>() {
        return scalar(py, value.extract::<f64>()?).map(Some);
    }
    if value.is_exact_instance_of::<PyBool>() {
        return scalar(py, value.extract::<bool>()?).map(Some);
    }
    if value.is_exact_instance_of::<PyInt>() {
        return value.extract::<i64>().ok().map(|number| scalar(py, number)).transpose();
    }
    let made = array::from_scalar(value)?;
    Ok(made.filter(|made| ArrayRef::of(made).is_some_and(ArrayRef::is_number)))
}

fn of_dict<'py>(dict: &Bound<'py, PyDict>, batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Plain<'py>> {
    let py = dict.py();
    if dict.is_empty() {
        return empty(py, batch.as_unbound()).map(Plain::Made);
    }
    if depth == MAX_DEPTH || !dict.keys().iter().all(|key| key.is_exact_instance_of::<PyString>()) {
        return Ok(Plain::Unknown);
    }
    let inner = PyDict::new(py);
    match convert(dict, &inner, batch, depth + 1)? {
        true => with_fields(batch.as_unbound(), inner).map(Plain::Made),
        false => Ok(Plain::Unknown),
    }
}

/// A list or tuple of numbers, or of dicts.
fn of_sequence<'py>(value: &Object<'py>, batch: &Bound<'py, PyType>) -> PyResult<Plain<'py>> {
    let Some(items) = stacking::items(value) else { return Ok(Plain::Unknown) };
    if !items.iter().all(array::is_plain_number) {
        return of_rows(Some(items), batch);
    }
    let array = array::from_any(value)?;
    match ArrayRef::of(&array).is_some_and(ArrayRef::is_number) {
        true => Ok(Plain::Made(array)),
        false => Ok(Plain::Unknown), // integers beyond 64 bits
    }
}

fn of_rows<'py>(rows: Option<Vec<Object<'py>>>, batch: &Bound<'py, PyType>) -> PyResult<Plain<'py>> {
    match rows {
        Some(rows) => Ok(stacking::stacked(&rows, batch, 0)?.map_or(Plain::Unknown, Plain::Made)),
        None => Ok(Plain::Unknown),
    }
}

/// A number as an array of no axes.
fn scalar<T: Element>(py: Python<'_>, value: T) -> PyResult<Object<'_>> {
    let mut made = NewArray::new(py, &[])?;
    made.items()[0] = value;
    Ok(made.array)
}
