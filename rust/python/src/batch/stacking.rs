//! Dicts of equal keys, such as the infos of several environments, as a batch of arrays with a row for each.

use numpy::Element;
use pyo3::PyTypeInfo;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::{MAX_DEPTH, empty, is_made_here, with_fields};
use crate::array::NPY_MAXDIMS;
use crate::prelude::*;

/// The entries of an array of objects with one axis.
pub fn rows_of<'py>(array: &Array<'py>) -> Option<Vec<Object<'py>>> {
    let (&[rows], &[stride]) = (array.shape(), array.strides()) else { return None };
    if array::kind(array) != b'O' {
        return None;
    }
    let entry = |row: usize| {
        // SAFETY: a row of the array, which holds a reference to an object, or null for None; objects are aligned or read as bytes.
        unsafe {
            let entry = array::data(array).offset(row as isize * stride).cast::<*mut pyo3::ffi::PyObject>();
            Bound::from_borrowed_ptr_or_opt(array.py(), entry.read_unaligned())
        }
    };
    (0..rows).map(entry).collect()
}

/// A batch of class `batch` with the stacked values of dicts; None unless all have the same keys with numbers of one type, arrays
/// of one shape and type, or such dicts, which Python code stacks.
pub fn stacked<'py>(rows: &[Object<'py>], batch: &Bound<'py, PyType>, depth: usize) -> PyResult<Option<Object<'py>>> {
    let py = batch.py();
    let dicts: Option<Vec<&Bound<'py, PyDict>>> = rows.iter().map(|row| row.cast_exact::<PyDict>().ok()).collect();
    let Some((dicts, &first)) = dicts.as_ref().and_then(|dicts| Some((dicts, dicts.first()?))) else { return Ok(None) };
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
    if let Some(made) = numbers(values, &[values.len()])? {
        return Ok(Some(made));
    }
    if array::of(&values[0]).is_some() {
        return stacked_arrays(values);
    }
    let arrays: Option<Vec<_>> = values.iter().map(array::from_scalar).collect::<PyResult<_>>()?;
    arrays.map_or(Ok(None), |arrays| stacked_arrays(&arrays))
}

/// Numbers of Python's that are all floats, all bools or all ints of at most 64 bits, in an array of this shape; None for others.
#[inline(always)]
pub fn numbers<'py>(values: &[Object<'py>], shape: &[usize]) -> PyResult<Option<Object<'py>>> {
    if values[0].is_exact_instance_of::<PyFloat>() {
        numbers_of::<PyFloat, f64>(values, shape)
    } else if values[0].is_exact_instance_of::<PyBool>() {
        numbers_of::<PyBool, bool>(values, shape)
    } else if values[0].is_exact_instance_of::<PyInt>() {
        numbers_of::<PyInt, i64>(values, shape)
    } else {
        Ok(None)
    }
}

/// Objects of exactly the type `P` as numbers of type `T`.
#[inline(always)]
fn numbers_of<'py, P: PyTypeInfo, T: Element + for<'a> FromPyObject<'a, 'py>>(
    values: &[Object<'py>],
    shape: &[usize],
) -> PyResult<Option<Object<'py>>> {
    let mut made = NewArray::new(values[0].py(), shape)?;
    for (place, value) in made.items().iter_mut().zip(values) {
        match value.is_exact_instance_of::<P>().then(|| value.extract::<T>()) {
            Some(Ok(number)) => *place = number,
            _ => return Ok(None),
        }
    }
    Ok(Some(made.array))
}

/// Contiguous arrays of numbers of one dtype and shape along a new first axis.
pub fn stacked_arrays<'py>(values: &[Object<'py>]) -> PyResult<Option<Object<'py>>> {
    let Some(arrays) = values.iter().map(array::of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (shape, descr) = (arrays[0].shape(), arrays[0].dtype());
    let alike =
        |array: &&Array<'_>| array::has_dtype(array, &descr) && array.shape() == shape && array.is_c_contiguous();
    let is_number = array::is_number(arrays[0]) && array::number_type(&descr).is_some();
    if !arrays.iter().all(alike) || !is_number || shape.len() == NPY_MAXDIMS {
        return Ok(None);
    }
    let mut room = [0; NPY_MAXDIMS];
    let dims = array::join(&[arrays.len()], shape, &mut room)?;
    let bytes = arrays[0].len() * descr.itemsize();
    let (stack, data) = array::empty(&descr, dims, bytes * arrays.len())?;
    for (at, array) in arrays.iter().enumerate() {
        // SAFETY: a fresh array with room for `bytes` of each, which each contiguous array has; nobody else writes while attached.
        unsafe { std::ptr::copy_nonoverlapping(array::data(array), data.add(at * bytes), bytes) };
    }
    Ok(Some(stack))
}
