//! Makes objects of `rlfast.data.Batch` without running Python code.
//!
//! A batch is an object of a Python class whose `__dict__` holds its fields. It is allocated here with its dict. Its
//! `__init__` is [`init`].

mod plain;
pub mod stacking;

use std::os::raw::{c_int, c_void};

use pyo3::{Borrowed, ffi, get_trampoline_function};

use crate::once::{Once, names};
use crate::prelude::*;

/// Dicts that are nested deeper, such as one that holds itself, are left to Python code.
pub const MAX_DEPTH: usize = 8;

/// Returns a new object of type `batch` without fields; `__init__` is not called, and `__dict__` is made on first access.
pub fn empty<'py>(py: Python<'py>, batch: &Py<PyType>) -> PyResult<Object<'py>> {
    let kind = batch.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: a heap type always has tp_alloc, which gives a new reference or sets an error.
    unsafe {
        let alloc: ffi::allocfunc = std::mem::transmute(ffi::PyType_GetSlot(kind, ffi::Py_tp_alloc));
        Bound::from_owned_ptr_or_err(py, alloc(kind, 0))
    }
}

/// A new object of type `batch` whose `__dict__` is `dict`; its `__init__` is not called.
pub fn with_fields<'py>(batch: &Py<PyType>, dict: Bound<'py, PyDict>) -> PyResult<Object<'py>> {
    let py = dict.py();
    let object = empty(py, batch)?;
    set_fields(&object, &dict)?;
    Ok(object)
}

/// Returns a batch of class `batch` for a dict, and for the dicts in it; anything else as it is.
#[pyfunction]
pub fn nested_batch<'py>(value: &Object<'py>, batch: &Bound<'py, PyType>) -> PyResult<Object<'py>> {
    let (Ok(given), py) = (value.cast::<PyDict>(), value.py()) else { return Ok(value.clone()) };
    // SAFETY: attached; a dict that holds itself ends here.
    if unsafe { ffi::Py_EnterRecursiveCall(c" in a nested batch".as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let made = nested(given, batch);
    // SAFETY: entered above.
    unsafe { ffi::Py_LeaveRecursiveCall() };
    made
}

fn nested<'py>(given: &Bound<'py, PyDict>, batch: &Bound<'py, PyType>) -> PyResult<Object<'py>> {
    let fields = PyDict::new(batch.py());
    for entry in given.as_mapping().items()?.iter() {
        let (key, value): (Object<'py>, Object<'py>) = entry.extract()?;
        fields.set_item(key, nested_batch(&value, batch)?)?;
    }
    with_fields(batch.as_unbound(), fields)
}

/// Makes `fields` the `__dict__` of `batch`.
fn set_fields(batch: &Object<'_>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    // SAFETY: a live object that has a dict, as instances of Python subclasses do, and a live dict.
    let set = unsafe { ffi::PyObject_GenericSetDict(batch.as_ptr(), fields.as_ptr(), std::ptr::null_mut()) };
    if set < 0 { Err(PyErr::fetch(batch.py())) } else { Ok(()) }
}

/// The base of `rlfast.data.Batch`. Its `__init__` takes plain fields by name without running any Python code, and hands
/// everything else to `_init`, which the subclass has.
///
/// Written against the C interface, as a `#[pyclass]` would build the keywords twice, for `__new__` and for `__init__`.
pub fn load(py: Python<'_>) -> PyResult<&Object<'_>> {
    Ok(BASE.fill(py, || new_base_type(py).map(Bound::unbind))?.bind(py))
}

static BASE: Once<Py<PyAny>> = Once::new();

fn new_base_type(py: Python<'_>) -> PyResult<Object<'_>> {
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_init, pfunc: initializer() },
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

/// Whether `value` is a batch of any class.
fn is_batch(value: &Object<'_>) -> bool {
    let base = BASE.get(value.py());
    // SAFETY: a live object and a class.
    unsafe { ffi::PyObject_TypeCheck(value.as_ptr(), base.as_ptr().cast()) != 0 }
}

/// Whether objects of class `batch` are made by [`init`], and not by an `__init__` of a subclass.
fn is_made_here(batch: &Bound<'_, PyType>) -> bool {
    // SAFETY: a heap type, as the classes of batches are.
    unsafe { ffi::PyType_GetSlot(batch.as_type_ptr(), ffi::Py_tp_init) == initializer() }
}

/// `BatchBase.__init__`, as the interpreter calls it; a panic becomes an exception.
fn initializer() -> *mut c_void {
    get_trampoline_function!(initproc, init) as *mut c_void
}

/// `BatchBase.__init__(self, *args, **kwargs)`.
///
/// # Safety
/// A live object, a tuple, and a dict or null.
unsafe fn init(
    py: Python<'_>,
    this: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> PyResult<c_int> {
    // SAFETY: as the caller promises.
    unsafe {
        let this = Borrowed::from_ptr(py, this);
        let args = Borrowed::from_ptr(py, args);
        let kwargs = Borrowed::from_ptr_or_opt(py, kwargs);
        initialize(&this, &args, kwargs.as_deref()).map(|()| 0)
    }
}

fn initialize(this: &Object<'_>, args: &Object<'_>, kwargs: Option<&Object<'_>>) -> PyResult<()> {
    let py = this.py();
    let args = args.cast::<PyTuple>()?;
    // A caller written in C may hold the keywords, and would see them change and share them with the batch.
    let fields = PyDict::new(py);
    let Some(given) = kwargs.map(|kwargs| kwargs.cast::<PyDict>()).transpose()? else {
        return if args.is_empty() { set_fields(this, &fields) } else { hand_over(this, args, &fields) };
    };
    if !args.is_empty() || has_other_parameters(given)? {
        return hand_over(this, args, given);
    }
    match plain::convert(given, &fields, &this.get_type(), 0)? {
        true => set_fields(this, &fields),
        false => hand_over(this, args, &fields),
    }
}

/// Whether parameters of `Batch` are given that are no fields. To compare lengths first is quicker than to look both up.
fn has_other_parameters(given: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = given.py();
    let names = [names(py).batch_dict.bind(py), names(py).copy.bind(py)];
    let (mut place, mut key) = (0, std::ptr::null_mut());
    // SAFETY: a live dict, which nothing changes meanwhile, and its keys.
    while unsafe { ffi::PyDict_Next(given.as_ptr(), &raw mut place, &raw mut key, std::ptr::null_mut()) } != 0 {
        // SAFETY: as above.
        match unsafe { ffi::PyUnicode_GetLength(key) } {
            ..0 => return Err(PyErr::fetch(py)),
            4 | 10 => return Ok(given.contains(names[0])? || given.contains(names[1])?),
            _ => {}
        }
    }
    Ok(false)
}

/// Lets the subclass take what is not plain.
fn hand_over(this: &Object<'_>, args: &Bound<'_, PyTuple>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    this.call_method(names(this.py())._init.bind(this.py()), args, Some(fields)).map(drop)
}
