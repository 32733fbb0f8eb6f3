//! Dicts of equal keys, such as the infos of several environments, as a batch of arrays with a row for each.

use numpy::Element;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::{empty, is_made_here, with_fields};
use crate::array::NPY_MAXDIMS;
use crate::prelude::*;

/// Dicts that are nested deeper are left to Python code.
const MAX_DEPTH: usize = 8;

/// The entries of an array of objects with one axis.
pub fn rows_of_array<'py>(py: Python<'py>, array: ArrayRef<'_>) -> Option<Vec<Object<'py>>> {
    let (&[rows], &[stride]) = (array.dims(), array.strides()) else { return None };
    if array.kind() != b'O' {
        return None;
    }
    let entry = |row: npy_intp| {
        // SAFETY: a row of the array, which holds a reference to an object, or null for None; objects are aligned or read as bytes.
        unsafe {
            let entry = array.data().offset(row * stride).cast::<*mut pyo3::ffi::PyObject>().read_unaligned();
            Bound::from_borrowed_ptr_or_opt(py, entry)
        }
    };
    (0..rows).map(entry).collect()
}

/// The items of a list or tuple.
pub fn items<'py>(value: &Object<'py>) -> Option<Vec<Object<'py>>> {
    match value.cast::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => Some(value.cast::<PyTuple>().ok()?.iter().collect()),
    }
}

/// A batch of class `batch` with the stacked values of dicts; None unless all have the same keys with numbers of one type, arrays
/// of one shape and type, or such dicts, which Python code stacks.
pub fn stacked<'py>(rows: &[Object<'py>], batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Option<Object<'py>>> {
    let py = batch.py();
    let dicts: Option<Vec<&Bound<'py, PyDict>>> = rows.iter().map(|row| row.cast_exact::<PyDict>().ok()).collect();
    let Some((dicts, first)) = dicts.as_deref().and_then(|dicts| Some((dicts, *dicts.first()?))) else {
        return Ok(None);
    };
    if depth == MAX_DEPTH || !is_made_here(batch) || dicts.iter().any(|dict| dict.len() != first.len()) {
        return Ok(None);
    }
    if first.is_empty() {
        return empty(py, batch.as_unbound()).map(Some);
    }
    let fields = PyDict::new(py);
    let mut column = Vec::with_capacity(dicts.len());
    for (key, _) in first.iter() {
        if !key.is_exact_instance_of::<PyString>() {
            return Ok(None);
        }
        column.clear();
        for dict in dicts {
            let Some(value) = dict.get_item(&key)? else { return Ok(None) };
            column.push(value);
        }
        let nested = column[0].is_exact_instance_of::<PyDict>();
        let value = if nested { stacked(&column, batch, depth + 1)? } else { stacked_values(&column)? };
        let Some(value) = value else { return Ok(None) };
        fields.set_item(key, value)?;
    }
    with_fields(batch.as_unbound(), fields).map(Some)
}

/// An array of values of one type.
fn stacked_values<'py>(values: &[Object<'py>]) -> PyResult<Option<Object<'py>>> {
    let py = values[0].py();
    if values[0].is_exact_instance_of::<PyFloat>() {
        return numbers(py, values.iter().map(|value| value.cast_exact::<PyFloat>().ok()?.extract::<f64>().ok()));
    }
    if values[0].is_exact_instance_of::<PyBool>() {
        return numbers(py, values.iter().map(|value| value.cast_exact::<PyBool>().ok().map(|flag| flag.is_true())));
    }
    if values[0].is_exact_instance_of::<PyInt>() {
        return numbers(py, values.iter().map(|value| value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()));
    }
    if ArrayRef::of(&values[0]).is_some() {
        return stacked_arrays(values);
    }
    let arrays: Option<Vec<_>> = values.iter().map(array::from_scalar).collect::<PyResult<_>>()?;
    arrays.map_or(Ok(None), |arrays| stacked_arrays(&arrays))
}

fn numbers<'py, T: Element + Copy>(
    py: Python<'py>,
    values: impl Iterator<Item = Option<T>>,
) -> PyResult<Option<Object<'py>>> {
    let values: Option<Vec<T>> = values.collect();
    values.map(|values| array::vector(py, &values)).transpose()
}

/// Contiguous arrays of numbers of one dtype and shape along a new first axis.
fn stacked_arrays<'py>(values: &[Object<'py>]) -> PyResult<Option<Object<'py>>> {
    let py = values[0].py();
    let Some(arrays) = values.iter().map(ArrayRef::of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (shape, descr) = (arrays[0].dims(), arrays[0].dtype(py));
    let alike = |array: &ArrayRef<'_>| array.has_dtype(&descr) && array.dims() == shape && array.is_contiguous();
    let axes = shape.len() + 1;
    if !arrays.iter().all(alike) || !arrays[0].is_number() || array::number_type(&descr).is_none() || axes > NPY_MAXDIMS
    {
        return Ok(None);
    }
    let mut dims = [0; NPY_MAXDIMS];
    dims[0] = arrays.len() as npy_intp;
    dims[1..axes].copy_from_slice(shape);
    let itemsize = numpy::PyArrayDescrMethods::itemsize(&descr);
    let bytes = shape.iter().product::<npy_intp>() as usize * itemsize;
    let (stack, data) = array::empty(&descr, &mut dims[..axes], bytes * arrays.len())?;
    for (at, array) in arrays.iter().enumerate() {
        // SAFETY: a fresh array with room for `bytes` of each, which each contiguous array has; nobody else writes while attached.
        unsafe { std::ptr::copy_nonoverlapping(array.data(), data.add(at * bytes), bytes) };
    }
    Ok(Some(stack))
}
