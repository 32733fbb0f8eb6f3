//! What environments written in Python return: copies of it, and arrays with a row for each environment.

use std::ptr;

use numpy::npyffi::objects::PyArrayObject;
use numpy::npyffi::types::NPY_ORDER::NPY_CORDER;
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object};
use pyo3::ffi;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt};

use crate::batch::MAX_DEPTH;
use crate::batch::stacking::stacked_arrays;
use crate::prelude::*;

/// The values of an answer of `step`: observation, reward, terminated, truncated, info.
const STEP_VALUES: usize = 5;

/// Whether it is of a type of NumPy's, or of a subclass.
fn is_a(value: &Object<'_>, kind: NpyTypes) -> bool {
    // SAFETY: a live object, and a type object of NumPy's own.
    unsafe { ffi::PyObject_TypeCheck(value.as_ptr(), get_type_object(value.py(), kind)) != 0 }
}

/// A number of Python's or NumPy's; no truth value.
fn is_number(value: &Object<'_>) -> bool {
    value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || is_a(value, NpyTypes::PyNumberArrType_Type)
}

/// A number as float64; None for others, and for those that NumPy does not convert.
fn float(value: &Object<'_>) -> Option<f64> {
    let is_float = is_number(value) && !is_a(value, NpyTypes::PyTimedeltaArrType_Type);
    is_float.then(|| value.extract().ok()).flatten()
}

/// A truth value of Python's or NumPy's.
fn is_flag(value: &Object<'_>) -> bool {
    value.is_exact_instance_of::<PyBool>() || is_a(value, NpyTypes::PyBoolArrType_Type)
}

/// Whether a copy would be the object itself.
fn is_immutable(value: &Object<'_>) -> bool {
    array::of(value).is_none() // the usual case
        && (is_number(value)
            || is_flag(value)
            || value.is_none()
            || value.is_exact_instance_of::<PyString>()
            || value.is_exact_instance_of::<PyBytes>())
}

/// Copies of nested values, with the copies of dicts that hold arrays or containers, as one may occur twice.
#[derive(Default)]
struct Copies<'py>(Vec<(Bound<'py, PyDict>, Bound<'py, PyDict>)>);

impl<'py> Copies<'py> {
    /// A copy; None for what Python code copies.
    fn of(&mut self, value: &Object<'py>, depth: usize) -> PyResult<Option<Object<'py>>> {
        if is_immutable(value) {
            return Ok(Some(value.clone()));
        }
        if let Some(array) = array::of(value) {
            return if array.dtype().has_object() { Ok(None) } else { copied_array(array).map(Some) };
        }
        if depth == MAX_DEPTH {
            return Ok(None);
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            return Ok(self.of_dict(dict, depth)?.map(Bound::into_any));
        }
        let Ok(tuple) = value.cast_exact::<PyTuple>() else { return Ok(None) };
        let mut parts = Vec::with_capacity(tuple.len());
        for part in tuple.iter() {
            let Some(part) = self.of(&part, depth + 1)? else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(PyTuple::new(value.py(), parts)?.into_any()))
    }

    fn of_dict(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Some((_, known)) = self.0.iter().find(|(one, _)| one.is(dict)) {
            return Ok(Some(known.clone()));
        }
        let (py, copy, mut known) = (dict.py(), dict.copy()?, false);
        let (mut place, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: a live dict.
        while unsafe { ffi::PyDict_Next(dict.as_ptr(), &raw mut place, &raw mut key, &raw mut value) } != 0 {
            // SAFETY: live objects. They are held, as the garbage collector may run code that changes the dict.
            let (key, value) = unsafe { (Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)) };
            if is_immutable(&value) {
                continue;
            }
            if !known {
                self.0.push((dict.clone(), copy.clone()));
                known = true;
            }
            let Some(part) = self.of(&value, depth + 1)? else { return Ok(None) };
            copy.set_item(key, part)?;
        }
        Ok(Some(copy))
    }
}

/// A copy in C order.
fn copied_array<'py>(array: &Array<'py>) -> PyResult<Object<'py>> {
    let py = array.py();
    if array.is_c_contiguous() && !array.is_empty() {
        let (descr, shape) = (array.dtype(), array.shape());
        let bytes = array.len() * descr.itemsize();
        let (copy, data) = array::empty(&descr, shape, bytes)?;
        // SAFETY: a fresh array of as many bytes, which hold no references; nobody else writes while attached.
        unsafe { ptr::copy_nonoverlapping(array::data(array), data, bytes) };
        return Ok(copy);
    }
    // SAFETY: a live array, which NumPy copies.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewCopy(py, array.as_ptr().cast::<PyArrayObject>(), NPY_CORDER);
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Returns a copy of a number, text or array, or of a dict or tuple of such; None for what Python code copies.
#[pyfunction]
pub fn plain_copy<'py>(value: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    Copies::default().of(value, 0)
}

/// Returns a copy of an environment's answer, by `plain_copy`; None unless it is a tuple as `step` returns, with a number as its reward.
#[pyfunction]
pub fn own_answer<'py>(answer: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    let Ok(values) = answer.cast_exact::<PyTuple>() else { return Ok(None) };
    if values.len() != STEP_VALUES || !is_number(&values.get_item(1)?) {
        return Ok(None);
    }
    if values.get_item(STEP_VALUES - 1)?.is_exact_instance_of::<PyDict>() { plain_copy(answer) } else { Ok(None) }
}

/// Returns arrays with a row for each environment, in a dict if the values are dicts of arrays; None for values that Python code stacks.
#[pyfunction]
pub fn plain_rows<'py>(values: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    let values: Vec<_> = if let Ok(list) = values.cast_exact::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = values.cast_exact::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return Ok(None);
    };
    if values.is_empty() { Ok(None) } else { rows_of(&values, 0) }
}

fn rows_of<'py>(values: &[Object<'py>], depth: usize) -> PyResult<Option<Object<'py>>> {
    let dicts: Option<Vec<&Bound<'py, PyDict>>> =
        values.iter().map(|value| value.cast_exact::<PyDict>().ok()).collect();
    let Some(dicts) = dicts else { return stacked_arrays(values) };
    let first = dicts[0];
    if depth == MAX_DEPTH || dicts.iter().any(|dict| dict.len() != first.len()) {
        return Ok(None);
    }
    let (fields, mut column) = (PyDict::new(first.py()), Vec::with_capacity(dicts.len()));
    for key in first.keys() {
        column.clear();
        for dict in &dicts {
            let Some(value) = dict.get_item(&key)? else { return Ok(None) };
            column.push(value);
        }
        let Some(rows) = rows_of(&column, depth + 1)? else { return Ok(None) };
        fields.set_item(key, rows)?;
    }
    Ok(Some(fields.into_any()))
}

/// Rewards, float64, and two arrays of flags.
type Numbers<'py> = (Object<'py>, Object<'py>, Object<'py>);

/// Returns the observations, the infos, and the rewards and flags, of the answers of environments; None in the place of the last unless
/// they are numbers and truth values.
#[pyfunction]
pub fn answer_columns<'py>(
    py: Python<'py>,
    answers: Items<Bound<'py, PyTuple>>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Option<Numbers<'py>>)> {
    let column = |at| answers.iter().map(|answer| answer.get_item(at)).collect::<PyResult<Vec<_>>>();
    let (obs, infos) = (column(0)?, column(STEP_VALUES - 1)?);
    Ok((PyList::new(py, obs)?, PyList::new(py, infos)?, numbers_of(py, &answers)?))
}

fn numbers_of<'py>(py: Python<'py>, answers: &[Bound<'py, PyTuple>]) -> PyResult<Option<Numbers<'py>>> {
    let shape = [answers.len()];
    let mut rewards = NewArray::<f64>::new(py, &shape)?;
    let (mut ends, mut cuts) = (NewArray::<bool>::new(py, &shape)?, NewArray::<bool>::new(py, &shape)?);
    for (at, answer) in answers.iter().enumerate() {
        let Some(reward) = float(&answer.get_item(1)?) else { return Ok(None) };
        rewards.items()[at] = reward;
        for (flags, value) in [(&mut ends, 2), (&mut cuts, 3)] {
            let flag = answer.get_item(value)?;
            if !is_flag(&flag) {
                return Ok(None);
            }
            flags.bytes()[at] = flag.is_truthy()?.into();
        }
    }
    Ok(Some((rewards.array, ends.array, cuts.array)))
}
