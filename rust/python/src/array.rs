//! NumPy arrays: making them, reading them, and lending them memory of ours.

use std::os::raw::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO};
use numpy::npyffi::objects::{PyArray_Descr, PyArrayObject};
use numpy::npyffi::types::npy_intp;
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object};
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods as _, PyArrayDyn, PyArrayMethods as _,
    PyUntypedArrayMethods as _,
};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyInt, PyList};
use rlfast_core::convert::NumberType;
use rlfast_core::memory::Region;
use rlfast_core::{recycle, vectors};

use crate::error::IntoPython as _;

/// Axes that every NumPy supports.
pub const NPY_MAXDIMS: usize = 32;

/// Whether `object` is exactly an `ndarray`.
#[inline]
pub fn is_array(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    // SAFETY: callers pass live objects; the type object is NumPy's own.
    unsafe { ffi::Py_TYPE(object) == get_type_object(py, NpyTypes::PyArray_Type) }
}

/// Whether `object` is a NumPy scalar.
#[inline]
pub fn is_scalar(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    // SAFETY: callers pass live objects; the type object is NumPy's own.
    unsafe { ffi::PyObject_TypeCheck(object, get_type_object(py, NpyTypes::PyGenericArrType_Type)) != 0 }
}

/// A NumPy scalar as an array of no axes.
pub fn from_scalar<'py>(scalar: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = scalar.py();
    // SAFETY: callers checked that it is a scalar; without a dtype it keeps its own.
    unsafe {
        let made = PY_ARRAY_API.PyArray_FromScalar(py, scalar.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// What NumPy makes of a list or another object of Python's.
pub fn from_any<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    // SAFETY: a live object; no dtype is asked for, nor anything else.
    unsafe {
        let null = std::ptr::null_mut();
        let made = PY_ARRAY_API.PyArray_FromAny(py, object.as_ptr(), null, 0, 0, 0, std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Returns the bytes of a NumPy scalar, which follow its header: the layout of `numpy/arrayscalars.h`, part of NumPy's ABI.
///
/// # Safety
/// `object` is a scalar of a number of `nbytes` at most 8.
#[inline]
pub unsafe fn scalar_into(object: *mut ffi::PyObject, nbytes: usize, cell: &mut [u8; 8]) {
    debug_assert!(nbytes <= cell.len(), "invariant: a number of at most eight bytes");
    // SAFETY: as promised; the head's size is a multiple of eight, so nothing stands between.
    unsafe {
        let value = object.cast::<u8>().add(size_of::<ffi::PyObject>());
        std::ptr::copy_nonoverlapping(value, cell.as_mut_ptr(), nbytes);
    }
}

/// The fields of an array.
///
/// # Safety
/// `object` is an `ndarray` that outlives the reference.
#[inline]
pub unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a PyArrayObject {
    // SAFETY: as promised.
    unsafe { &*object.cast::<PyArrayObject>() }
}

/// The dimensions and strides of an array.
///
/// # Safety
/// As `fields`.
#[inline]
pub unsafe fn axes(array: &PyArrayObject) -> (&[npy_intp], &[npy_intp]) {
    let nd = array.nd as usize;
    if nd == 0 {
        return (&[], &[]);
    }
    // SAFETY: NumPy keeps `nd` dimensions and strides.
    unsafe { (std::slice::from_raw_parts(array.dimensions, nd), std::slice::from_raw_parts(array.strides, nd)) }
}

/// Returns whether an array's bytes are in C order without gaps.
#[inline]
pub fn is_contiguous(array: &PyArrayObject) -> bool {
    array.flags & NPY_ARRAY_C_CONTIGUOUS != 0
}

/// The type of a dtype's numbers; None where they are no plain numbers, or their bytes are not in this machine's order.
pub fn number_type(descr: &Bound<'_, PyArrayDescr>) -> Option<NumberType> {
    if descr.is_native_byteorder() == Some(false) {
        return None;
    }
    NumberType::of_kind(descr.kind(), descr.itemsize())
}

/// The strides of an array in C order without gaps.
pub fn packed_strides(dims: &[npy_intp], itemsize: usize) -> Vec<npy_intp> {
    let mut strides = vec![itemsize as npy_intp; dims.len()];
    for axis in (0..dims.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].wrapping_mul(dims[axis + 1]);
    }
    strides
}

/// A fresh, unfilled array and its first byte.
pub fn empty<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &mut [npy_intp],
    bytes: usize,
) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    let py = descr.py();
    if bytes >= recycle::LARGE {
        let block = recycle::OUTPUTS.block(bytes).python()?;
        let data = block.base();
        let keeper = Bound::new(py, Recycled { _block: block })?.into_any();
        return Ok((over(descr, dims, None, data, true, keeper)?, data));
    }
    plain(descr, dims)
}

/// A fresh, unfilled array in memory of NumPy's own, and its first byte.
fn plain<'py>(descr: &Bound<'py, PyArrayDescr>, dims: &mut [npy_intp]) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    let py = descr.py();
    // SAFETY: NumPy steals the reference to the dtype, so it gets one of its own; `dims` has `dims.len()` entries.
    unsafe {
        let subtype = get_type_object(py, NpyTypes::PyArray_Type);
        let descr = descr.clone().into_ptr().cast::<PyArray_Descr>();
        let (nd, null) = (dims.len() as c_int, std::ptr::null_mut());
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            subtype,
            descr,
            nd,
            dims.as_mut_ptr(),
            null,
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, made)?;
        let data = fields(array.as_ptr()).data.cast();
        Ok((array, data))
    }
}

/// An array over memory that `keeper` keeps alive.
pub fn over<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &mut [npy_intp],
    strides: Option<&mut [npy_intp]>,
    data: *mut u8,
    writable: bool,
    keeper: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    let flags = if writable { NPY_ARRAY_CARRAY } else { NPY_ARRAY_CARRAY_RO };
    // SAFETY: as in `empty`; `keeper` becomes the array's base, so the memory outlives it.
    unsafe {
        let subtype = get_type_object(py, NpyTypes::PyArray_Type);
        let descr = descr.clone().into_ptr().cast::<PyArray_Descr>();
        let strides = strides.map_or(std::ptr::null_mut(), <[npy_intp]>::as_mut_ptr);
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            subtype,
            descr,
            dims.len() as c_int,
            dims.as_mut_ptr(),
            strides,
            data.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, made)?;
        let set = PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), keeper.into_ptr());
        if set < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

/// A 1-d array of values. (`PyArray1::from_slice` panics where there is no memory.)
pub fn vector<'py, T: Element + Copy>(py: Python<'py>, values: &[T]) -> PyResult<Bound<'py, PyArray1<T>>> {
    let (array, data) = plain(&T::get_dtype(py), &mut [values.len() as npy_intp])?;
    // SAFETY: a fresh array of as many values of this type.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), data.cast::<T>(), values.len()) };
    Ok(array.cast_into()?)
}

/// Returns a new array of a shape and the address of its first value. The caller writes all values before they are read.
pub fn fresh<'py, T: Element>(py: Python<'py>, shape: &[usize]) -> PyResult<(Bound<'py, PyAny>, *mut T)> {
    let mut dims = [0; NPY_MAXDIMS];
    let dims = &mut dims[..shape.len()];
    dims.iter_mut().zip(shape).for_each(|(axis, &length)| *axis = length as npy_intp);
    let (array, data) = plain(&T::get_dtype(py), dims)?;
    Ok((array, data.cast()))
}

/// The integers of an index of any shape.
pub struct Index {
    /// The integers, in C order.
    pub rows: Vec<i64>,
    /// The shape.
    pub shape: Vec<npy_intp>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Index {
    type Error = PyErr;

    fn extract(index: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = index.py();
        if is_array(py, index.as_ptr()) {
            // SAFETY: an array, alive as long as `index`.
            let array = unsafe { fields(index.as_ptr()) };
            if is_contiguous(array) && array.descr.cast() == numpy::dtype::<i64>(py).as_ptr() {
                // SAFETY: as above.
                let (dims, _) = unsafe { axes(array) };
                let count = dims.iter().product::<npy_intp>() as usize;
                let data = if count == 0 { NonNull::dangling().as_ptr() } else { array.data.cast::<i64>() };
                // SAFETY: `count` aligned integers; while attached nobody else writes them.
                let rows = unsafe { std::slice::from_raw_parts(data, count) };
                return Ok(Self { rows: vectors::copied(rows).python()?, shape: dims.to_vec() });
            }
        }
        if let Ok(list) = index.cast_exact::<PyList>()
            && let Some(rows) = list.iter().map(|row| row.cast_exact::<PyInt>().ok()?.extract().ok()).collect()
        {
            return Ok(Self { rows, shape: vec![list.len() as npy_intp] });
        }
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("asarray", (index,))?;
        let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
        let count: usize = array.getattr("size")?.extract()?;
        if kind != "i" && kind != "u" && count > 0 {
            let dtype = array.getattr("dtype")?;
            return Err(PyTypeError::new_err(format!("an index is an array of integers, got dtype {dtype}")));
        }
        let array = numpy.call_method1("ascontiguousarray", (array, "int64"))?;
        let shape = array.getattr("shape")?.extract()?;
        let flat = array.call_method0("ravel")?.cast_into::<PyArray1<i64>>()?;
        Ok(Self { rows: vectors::copied(flat.readonly().as_slice()?).python()?, shape })
    }
}

/// The numbers of an array, or of anything that NumPy makes one of, as doubles, and the shape.
pub fn doubles(value: &Bound<'_, PyAny>) -> PyResult<(Vec<f64>, Vec<npy_intp>)> {
    let array = match value.cast::<PyArrayDyn<f64>>() {
        Ok(array) if array.is_c_contiguous() => array.clone(),
        _ => {
            let numpy = value.py().import("numpy")?;
            let array = numpy.call_method1("asarray", (value, "float64"))?;
            let options = [("order", "C")].into_py_dict(value.py())?;
            array.call_method("copy", (), Some(&options))?.cast_into()?
        }
    };
    let shape = array.shape().iter().map(|&length| length as npy_intp).collect();
    let values = vectors::copied(array.readonly().as_slice()?).python()?;
    Ok((values, shape))
}

/// Numbers that become an array of some shape.
pub struct Shaped<T> {
    values: Vec<T>,
    shape: Vec<npy_intp>,
}

impl<T> Shaped<T> {
    /// The array's elements in C order, and its shape.
    pub fn new(values: Vec<T>, shape: Vec<npy_intp>) -> Self {
        Self { values, shape }
    }

    /// A matrix, row by row.
    pub fn matrix(values: Vec<T>, rows: usize, columns: usize) -> Self {
        Self::new(values, vec![rows as npy_intp, columns as npy_intp])
    }
}

impl<T> From<Vec<T>> for Shaped<T> {
    fn from(values: Vec<T>) -> Self {
        let shape = vec![values.len() as npy_intp];
        Self { values, shape }
    }
}

impl<'py, T: Element + Copy> IntoPyObject<'py> for Shaped<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if size_of_val(&self.values[..]) >= recycle::LARGE {
            let shape: Vec<usize> = self.shape.iter().map(|&length| length as usize).collect();
            return Ok(PyArray1::from_vec(py, self.values).reshape(shape)?.into_any());
        }
        // A copy of a few costs less than an object that owns the vector.
        let (array, data) = plain(&T::get_dtype(py), &mut self.shape)?;
        // SAFETY: a fresh array of as many values of this type.
        unsafe { std::ptr::copy_nonoverlapping(self.values.as_ptr(), data.cast::<T>(), self.values.len()) };
        Ok(array)
    }
}

/// Keeps a region alive for the views of it.
#[pyclass(frozen, module = "rlfast._core")]
pub struct RegionKeeper {
    _region: Arc<Region>,
}

impl RegionKeeper {
    /// A keeper for `region`.
    pub fn new(region: Arc<Region>) -> Self {
        Self { _region: region }
    }
}

/// Keeps the memory of a large output, which is used again afterwards.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Recycled {
    _block: recycle::Block,
}
