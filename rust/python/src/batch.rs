//! Makes objects of `rlfast.data.Batch` without running Python code.
//!
//! A batch is an object of a Python class whose `__dict__` holds its fields. It is allocated here with its dict. `__init__` is
//! called for keyword arguments alone, and that is [`init`].

use std::os::raw::{c_int, c_void};

use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi, intern};
use rlfast_core::replay::plan::{Field, Value};

use crate::array;

/// The `arrays`, each of which is taken once, in a dict of `fields`, whose keys are numbers of `keys`; inner fields are batches of
/// class `batch`.
pub fn nested<'py>(
    py: Python<'py>,
    fields: &[Field],
    keys: &[Py<PyString>],
    arrays: &mut [Option<Bound<'py, PyAny>>],
    batch: &Py<PyType>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for field in fields {
        let key = &keys[field.key];
        match &field.value {
            Value::Array(at) => dict.set_item(key, arrays[*at].take())?,
            Value::Batch(inner) if inner.is_empty() => dict.set_item(key, empty(py, batch)?)?,
            Value::Batch(inner) => {
                let inner = nested(py, inner, keys, arrays, batch)?;
                dict.set_item(key, with_fields(batch, inner)?)?;
            }
        }
    }
    Ok(dict)
}

/// Returns a new object of type `batch` without fields; `__init__` is not called, and `__dict__` is made on first access.
pub fn empty<'py>(py: Python<'py>, batch: &Py<PyType>) -> PyResult<Bound<'py, PyAny>> {
    let kind = batch.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: a heap type always has tp_alloc, which gives a new reference or sets an error.
    unsafe {
        let alloc: ffi::allocfunc = std::mem::transmute(ffi::PyType_GetSlot(kind, ffi::Py_tp_alloc));
        Bound::from_owned_ptr_or_err(py, alloc(kind, 0))
    }
}

/// A new object of type `batch` whose `__dict__` is `dict`; its `__init__` is not called.
pub fn with_fields<'py>(batch: &Py<PyType>, dict: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let py = dict.py();
    let object = empty(py, batch)?;
    set_fields(&object, &dict)?;
    Ok(object)
}

/// Makes `fields` the `__dict__` of `batch`.
fn set_fields(batch: &Bound<'_, PyAny>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    // SAFETY: a live object that has a dict, as instances of Python subclasses do, and a live dict.
    let set = unsafe { ffi::PyObject_GenericSetDict(batch.as_ptr(), fields.as_ptr(), std::ptr::null_mut()) };
    if set < 0 { Err(PyErr::fetch(batch.py())) } else { Ok(()) }
}

/// The base of `rlfast.data.Batch`. Its `__init__` takes plain fields by name without running any Python code, and hands
/// everything else to `_init`, which the subclass has.
///
/// Written against the C interface, as a `#[pyclass]` would build the keywords twice, for `__new__` and for `__init__`.
pub fn base_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_init, pfunc: init as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"rlfast._core.BatchBase".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: a whole specification; the interpreter copies what it keeps, and the name is static.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// `BatchBase.__init__(self, *args, **kwargs)`.
unsafe extern "C" fn init(this: *mut ffi::PyObject, args: *mut ffi::PyObject, kwargs: *mut ffi::PyObject) -> c_int {
    // SAFETY: the interpreter calls this attached, with a live object, a tuple, and a dict or null.
    unsafe {
        let py = Python::assume_attached();
        let this = Borrowed::from_ptr(py, this);
        let args = Borrowed::from_ptr(py, args);
        let kwargs = Borrowed::from_ptr_or_opt(py, kwargs);
        match initialize(&this, &args, kwargs.as_deref()) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    }
}

fn initialize(this: &Bound<'_, PyAny>, args: &Bound<'_, PyAny>, kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let py = this.py();
    let args = args.cast::<PyTuple>()?;
    // A caller written in C may hold this dict, and would see it change and share it with the batch.
    let fields = match kwargs {
        Some(kwargs) => kwargs.cast::<PyDict>()?.copy()?,
        None => PyDict::new(py),
    };
    let is_field = |name| Ok::<_, PyErr>(!fields.contains(name)?);
    let all_fields = args.is_empty() && is_field(intern!(py, "batch_dict"))? && is_field(intern!(py, "copy"))?;
    if all_fields && convert_plain(&fields, this.get_type())? {
        return set_fields(this, &fields);
    }
    this.call_method(intern!(py, "_init"), args, Some(&fields))?;
    Ok(())
}

/// Turns the plain values of `fields` into what a batch of class `batch` holds, in place: bool, int, float and NumPy
/// scalars become arrays of no axes, an empty dict becomes an empty batch, and arrays of numbers stay. Gives whether
/// all are one of these.
fn convert_plain<'py>(fields: &Bound<'py, PyDict>, batch: Bound<'py, PyType>) -> PyResult<bool> {
    let py = fields.py();
    let mut all = true;
    let (mut place, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a live dict, whose keys stay the same meanwhile.
    while unsafe { ffi::PyDict_Next(fields.as_ptr(), &raw mut place, &raw mut key, &raw mut value) } != 0 {
        // SAFETY: objects of the dict, which keeps the value until it gets another for this key.
        let (key, value) = unsafe { (Borrowed::from_ptr(py, key), Borrowed::from_ptr(py, value)) };
        let plain = if array::is_array(py, value.as_ptr()) {
            // SAFETY: an array, alive through `value`.
            if is_number(unsafe { array::fields(value.as_ptr()) }) {
                continue;
            }
            None
        } else {
            converted(&value, &batch)?
        };
        match plain {
            Some(plain) => fields.set_item(key, plain)?,
            None => all = false,
        }
    }
    Ok(all)
}

/// What a batch holds for a plain value that is no array; None for another value.
#[inline]
fn converted<'py>(value: &Bound<'py, PyAny>, batch: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    if value.is_exact_instance_of::<PyFloat>() {
        return scalar(py, value.extract::<f64>()?).map(Some);
    }
    if value.is_exact_instance_of::<PyBool>() {
        return scalar(py, value.extract::<bool>()?).map(Some);
    }
    if value.is_exact_instance_of::<PyInt>() {
        // An integer beyond 64 bits takes the slow way, as any other object.
        return value.extract::<i64>().ok().map(|number| scalar(py, number)).transpose();
    }
    if array::is_scalar(py, value.as_ptr()) {
        let value = array::from_scalar(value)?;
        // SAFETY: an array, alive through `value`.
        return Ok(is_number(unsafe { array::fields(value.as_ptr()) }).then_some(value));
    }
    match value.cast_exact::<PyDict>() {
        Ok(dict) if dict.is_empty() => empty(py, batch.as_unbound()).map(Some),
        _ => Ok(None),
    }
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
