//! The values that a batch takes without running any Python code.

use std::slice;

use pyo3::ffi;

use super::{MAX_DEPTH, empty, is_batch, stacking, with_fields};
use crate::prelude::*;

/// Sets `fields` to what a batch of class `batch` holds for the plain values among those `given`, and to the values themselves for others;
/// returns whether all are plain: numbers and lists of them become arrays, dicts of plain values and lists of dicts of numbers become
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
        let plain = converted(&value, batch, depth)?;
        all &= plain.is_some();
        fields.set_item(key, plain.unwrap_or(value))?;
    }
    Ok(all)
}

/// What a batch holds for a value; None if Python code decides.
#[inline(always)]
fn converted<'py>(value: &Object<'py>, batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Option<Object<'py>>> {
    if let Some(array) = array::of(value) {
        let rows = if array::is_number(array) { return Ok(Some(value.clone())) } else { stacking::rows_of(array) };
        return rows.map_or(Ok(None), |rows| stacking::stacked(&rows, batch, 0));
    }
    if let Some(array) = number(value)? {
        return Ok(Some(array));
    }
    if value.is_none() || is_batch(value) {
        return Ok(Some(value.clone()));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        return of_dict(dict, batch, depth);
    }
    let items: Vec<_> = if let Ok(list) = value.cast_exact::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>()
        && tuple.iter().all(|item| array::is_plain_number(&item))
    {
        tuple.iter().collect() // others may be hidden states
    } else {
        return Ok(None);
    };
    if !items.iter().all(array::is_plain_number) {
        return stacking::stacked(&items, batch, 0);
    }
    let array = array::from_any(value, None)?;
    Ok(array::is_number(&array).then(|| array.into_any())) // there may be integers beyond 64 bits
}

/// A number as an array of no axes; None for another value, and for an integer beyond 64 bits.
#[inline(always)]
fn number<'py>(value: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    if let Some(made) = stacking::numbers(slice::from_ref(value), &[])? {
        return Ok(Some(made));
    }
    let made = array::from_scalar(value)?;
    Ok(made.filter(|made| array::of(made).is_some_and(array::is_number)))
}

fn of_dict<'py>(dict: &Bound<'py, PyDict>, batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Option<Object<'py>>> {
    if dict.is_empty() {
        return empty(dict.py(), batch.as_unbound()).map(Some);
    }
    if depth == MAX_DEPTH || !dict.keys().iter().all(|key| key.is_exact_instance_of::<PyString>()) {
        return Ok(None);
    }
    let inner = PyDict::new(dict.py());
    if convert(dict, &inner, batch, depth + 1)? {
        return with_fields(batch.as_unbound(), inner).map(Some);
    }
    Ok(None)
}
