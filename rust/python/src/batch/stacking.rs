//! Dicts of equal keys, such as the infos of several environments, as a batch of arrays with a row for each.

use numpy::npyffi::types::npy_intp;
use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::plain::is_number;
use super::{empty, is_made_here, with_fields};
use crate::array::{self, NPY_MAXDIMS};

/// Dicts that are nested deeper are left to Python code.
const MAX_DEPTH: usize = 8;

/// The entries of an array of objects with one axis.
pub fn rows_of_array<'py>(array: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let py = array.py();
    // SAFETY: callers checked that it is an array, which is alive through `array`.
    let fields = unsafe { array::fields(array.as_ptr()) };
    // SAFETY: as above; an array always has a dtype.
    let ((dims, strides), kind) = unsafe { (array::axes(fields), (*fields.descr).kind) };
    if kind as u8 != b'O' || dims.len() != 1 {
        return None;
    }
    let entry = |row: npy_intp| {
        // SAFETY: a row of the array, which holds a reference to an object, or null for None; objects are aligned or read as bytes.
        unsafe {
            let entry = fields.data.offset(row * strides[0]).cast::<*mut pyo3::ffi::PyObject>().read_unaligned();
            Bound::from_borrowed_ptr_or_opt(py, entry)
        }
    };
    (0..dims[0]).map(entry).collect()
}

/// The items of a list or tuple.
pub fn items<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match value.cast::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => Some(value.cast::<PyTuple>().ok()?.iter().collect()),
    }
}

/// A batch of class `batch` with the stacked values of dicts; None unless all have the same keys with numbers of one type, arrays
/// of one shape and type, or such dicts, which Python code stacks.
pub fn stacked<'py>(
    rows: &[Bound<'py, PyAny>],
    batch: &Bound<'py, PyType>,
    depth: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
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
fn stacked_values<'py>(values: &[Bound<'py, PyAny>]) -> PyResult<Option<Bound<'py, PyAny>>> {
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
    if array::is_scalar(py, values[0].as_ptr()) {
        let arrays = values.iter().map(|value| match array::is_scalar(py, value.as_ptr()) {
            true => array::from_scalar(value).map(Some),
            false => Ok(None),
        });
        let arrays: Option<Vec<_>> = arrays.collect::<PyResult<_>>()?;
        return arrays.map_or(Ok(None), |arrays| stacked_arrays(&arrays));
    }
    stacked_arrays(values)
}

fn numbers<'py, T: Element + Copy>(
    py: Python<'py>,
    values: impl Iterator<Item = Option<T>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let values: Option<Vec<T>> = values.collect();
    values.map(|values| Ok(array::vector(py, &values)?.into_any())).transpose()
}

/// Contiguous arrays of numbers of one dtype and shape along a new first axis.
fn stacked_arrays<'py>(values: &[Bound<'py, PyAny>]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = values[0].py();
    if !values.iter().all(|value| array::is_array(py, value.as_ptr())) {
        return Ok(None);
    }
    // SAFETY: arrays, which are alive through `values`.
    let arrays: Vec<_> = values.iter().map(|value| unsafe { array::fields(value.as_ptr()) }).collect();
    // SAFETY: as above.
    let shape = |at: usize| unsafe { array::axes(arrays[at]) }.0;
    // SAFETY: the dtype of a live array.
    let descr: Bound<'py, PyArrayDescr> =
        unsafe { Bound::from_borrowed_ptr(py, arrays[0].descr.cast()).cast_into_unchecked() };
    let alike = (0..arrays.len())
        .all(|at| arrays[at].descr == arrays[0].descr && shape(at) == shape(0) && array::is_contiguous(arrays[at]));
    let axes = shape(0).len() + 1;
    if !alike || !is_number(arrays[0]) || array::number_type(&descr).is_none() || axes > NPY_MAXDIMS {
        return Ok(None);
    }
    let mut dims = [0; NPY_MAXDIMS];
    dims[0] = arrays.len() as npy_intp;
    dims[1..axes].copy_from_slice(shape(0));
    let itemsize = numpy::PyArrayDescrMethods::itemsize(&descr);
    let bytes = shape(0).iter().product::<npy_intp>() as usize * itemsize;
    let (stack, data) = array::empty(&descr, &mut dims[..axes], bytes * arrays.len())?;
    for (at, array) in arrays.iter().enumerate() {
        // SAFETY: a fresh array with room for `bytes` of each, which each contiguous array has; nobody else writes while attached.
        unsafe { std::ptr::copy_nonoverlapping(array.data.cast::<u8>(), data.add(at * bytes), bytes) };
    }
    Ok(Some(stack))
}
