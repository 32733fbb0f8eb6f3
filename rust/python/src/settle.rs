//! The quick half of making a `Batch`: what a step of an environment is made of.

use std::os::raw::{c_int, c_void};

use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple, PyType};
use pyo3::{Borrowed, ffi, intern};

use crate::array;
use crate::taking::bare;

/// The base of `rlfast.data.Batch`: an `__init__` that takes plain fields by name without running any Python code, and hands
/// everything else to `_init`, which the subclass has.
///
/// Made by hand, since a `#[pyclass]` would build the keywords once for `__new__` and once more for `__init__`.
pub fn settling_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_init, pfunc: init as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"rlfast._core.Settling".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: a whole specification; the interpreter copies what it keeps, and the name is static.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// `Settling.__init__(self, *args, **kwargs)`.
unsafe extern "C" fn init(this: *mut ffi::PyObject, args: *mut ffi::PyObject, kwargs: *mut ffi::PyObject) -> c_int {
    // SAFETY: the interpreter calls this attached, with a live object, a tuple, and a dict or null.
    unsafe {
        let py = Python::assume_attached();
        let this = Borrowed::from_ptr(py, this);
        let args = Borrowed::from_ptr(py, args);
        let kwargs = Borrowed::from_ptr_or_opt(py, kwargs);
        match settled(&this, &args, kwargs.as_deref()) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    }
}

fn settled(this: &Bound<'_, PyAny>, args: &Bound<'_, PyAny>, kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let py = this.py();
    let args = args.cast::<PyTuple>()?;
    // A caller written in C may hold this dict, and would see it change and share it with the batch.
    let fields = match kwargs {
        Some(kwargs) => kwargs.cast::<PyDict>()?.copy()?,
        None => PyDict::new(py),
    };
    let special = |name| fields.contains(name);
    if !args.is_empty() || special(intern!(py, "batch_dict"))? || special(intern!(py, "copy"))? {
        this.call_method(intern!(py, "_init"), args, Some(&fields))?;
        return Ok(());
    }
    let class = this.get_type();
    if settle(&fields, class)?.is_some() {
        this.call_method(intern!(py, "_init"), (), Some(&fields))?;
        return Ok(());
    }
    // SAFETY: a live object that has a dict, as instances of Python subclasses do, and a live dict.
    let set = unsafe { ffi::PyObject_GenericSetDict(this.as_ptr(), fields.as_ptr(), std::ptr::null_mut()) };
    if set < 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}

/// Turns the plain values of `fields` into what a batch of class `batch` holds, in place: bool, int, float and NumPy
/// scalars become arrays of no axes, an empty dict becomes an empty batch, and arrays of numbers stay. Gives the names of the fields that
/// are none of these, or None.
fn settle<'py>(fields: &Bound<'py, PyDict>, batch: Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyList>>> {
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
        } else if array::is_scalar(py, value.as_ptr()) {
            let value = array::from_scalar(&value)?;
            // SAFETY: an array, alive through `value`.
            is_number(unsafe { array::fields(value.as_ptr()) }).then_some(value)
        } else {
            match value.cast_exact::<PyDict>() {
                Ok(dict) if dict.is_empty() => Some(bare(py, batch.as_unbound())?),
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
