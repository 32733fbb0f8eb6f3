//! NumPy arrays: making them, reading them, and lending them memory of ours.

use std::ops::Deref;
use std::os::raw::{c_int, c_void};
use std::{ptr, slice};

use numpy::npyffi::flags::{NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NPY_ARRAY_ENSUREARRAY, NPY_ARRAY_FORCECAST};
use numpy::npyffi::objects::{PyArray_Descr, PyArrayObject};
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object};
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods as _, PyArrayMethods as _, PyUntypedArray,
    PyUntypedArrayMethods as _,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyFloat, PyInt, PyList};
use rlfast_core::convert::NumberType;
use rlfast_core::source::packed_strides;
use rlfast_core::{recycle, vectors};

use crate::error::{IntoPython as _, raised};

/// Any object of Python's.
pub type Object<'py> = Bound<'py, PyAny>;

/// An array of NumPy's own class.
pub type Array<'py> = Bound<'py, PyUntypedArray>;

/// Axes that every NumPy supports.
pub const NPY_MAXDIMS: usize = 32;

/// The array that `object` is; None if it is none, or of a subclass of `ndarray`.
#[inline(always)]
pub fn of<'a, 'py>(object: &'a Object<'py>) -> Option<&'a Array<'py>> {
    object.cast_exact().ok()
}

#[inline(always)]
fn header<'a>(array: &'a Array<'_>) -> &'a PyArrayObject {
    // SAFETY: an `ndarray`, which lives as long as the reference to the object.
    unsafe { &*array.as_array_ptr() }
}

/// The address of the first element.
#[inline(always)]
pub fn data(array: &Array<'_>) -> *mut u8 {
    header(array).data.cast()
}

/// The owner of the memory, or null.
#[inline(always)]
pub fn base(array: &Array<'_>) -> *mut ffi::PyObject {
    header(array).base
}

/// Whether it has all these flags.
#[inline(always)]
pub fn has(array: &Array<'_>, flags: c_int) -> bool {
    header(array).flags & flags == flags
}

/// Whether its dtype is this one: the same object, or, as those that were unpickled are, one like it.
#[inline(always)]
pub fn has_dtype(array: &Array<'_>, descr: &Bound<'_, PyArrayDescr>) -> bool {
    header(array).descr.cast() == descr.as_ptr() || has_equal_dtype(array, descr)
}

#[cold]
fn has_equal_dtype(array: &Array<'_>, descr: &Bound<'_, PyArrayDescr>) -> bool {
    array.dtype().is_equiv_to(descr)
}

/// The letter of the kind of its dtype.
#[inline]
pub fn kind(array: &Array<'_>) -> u8 {
    // SAFETY: an array always has a dtype.
    unsafe { (*header(array).descr).kind as u8 }
}

/// Whether it holds numbers or bools.
#[inline]
pub fn is_number(array: &Array<'_>) -> bool {
    b"biufc".contains(&kind(array))
}

/// Its elements in C order; None if they are of another type than `T`, with gaps between them, or not aligned.
///
/// # Safety
/// While the elements are read, the thread stays attached and runs nothing of Python's, so that nobody writes to them.
#[inline]
pub unsafe fn elements<'a, T: Element>(array: &'a Array<'_>) -> Option<&'a [T]> {
    // SAFETY: as the caller promises; the elements are of this type.
    unsafe { elements_as(array, &T::get_dtype(array.py())) }
}

/// As [`elements`], of an array of this dtype.
///
/// # Safety
/// As [`elements`]; elements of this dtype are valid ones of `T`.
#[inline]
pub unsafe fn elements_as<'a, T>(array: &'a Array<'_>, descr: &Bound<'_, PyArrayDescr>) -> Option<&'a [T]> {
    if !has(array, NPY_ARRAY_CARRAY_RO) || !has_dtype(array, descr) {
        return None;
    }
    let count = array.len();
    // SAFETY: so many elements of this type, contiguous and aligned; without any, the address may be null.
    Some(if count == 0 { &[] } else { unsafe { slice::from_raw_parts(data(array).cast(), count) } })
}

/// Whether an object is exactly a float, an int or a bool of Python's.
#[inline]
pub fn is_plain_number(value: &Object<'_>) -> bool {
    value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
}

/// A NumPy scalar as an array of no axes; None for another object.
pub fn from_scalar<'py>(object: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    let py = object.py();
    // SAFETY: a live object, and the type object is NumPy's own; a scalar without a dtype keeps its own.
    unsafe {
        if ffi::PyObject_TypeCheck(object.as_ptr(), get_type_object(py, NpyTypes::PyGenericArrType_Type)) == 0 {
            return Ok(None);
        }
        let made = PY_ARRAY_API.PyArray_FromScalar(py, object.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made).map(Some)
    }
}

/// What NumPy makes of a list or another object, converted to a dtype if one is given, in C order.
pub fn from_any<'py>(object: &Object<'py>, descr: Option<Bound<'py, PyArrayDescr>>) -> PyResult<Array<'py>> {
    let (py, descr) = (object.py(), descr.map_or(ptr::null_mut(), |descr| descr.into_ptr().cast()));
    let flags = NPY_ARRAY_CARRAY_RO | NPY_ARRAY_ENSUREARRAY | NPY_ARRAY_FORCECAST;
    // SAFETY: a live object; NumPy steals the reference to the dtype, and makes an array of its own class.
    unsafe {
        let made = PY_ARRAY_API.PyArray_FromAny(py, object.as_ptr(), descr, 0, 0, flags, ptr::null_mut());
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
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

/// The type of a dtype's numbers; None where they are no plain numbers, or their bytes are not in this machine's order.
pub fn number_type(descr: &Bound<'_, PyArrayDescr>) -> Option<NumberType> {
    if descr.is_native_byteorder() == Some(false) {
        return None;
    }
    NumberType::of_kind(descr.kind(), descr.itemsize())
}

/// A fresh, unfilled array and its first byte.
pub fn empty<'py>(descr: &Bound<'py, PyArrayDescr>, dims: &[usize], bytes: usize) -> PyResult<(Object<'py>, *mut u8)> {
    let py = descr.py();
    if bytes >= recycle::LARGE {
        let block = recycle::OUTPUTS.block(bytes).python()?;
        let data = block.base();
        return Ok((over(descr, dims, None, data, true, keeper(py, block)?)?, data));
    }
    plain(descr, dims)
}

/// A fresh, unfilled array in memory of NumPy's own, and its first byte.
fn plain<'py>(descr: &Bound<'py, PyArrayDescr>, dims: &[usize]) -> PyResult<(Object<'py>, *mut u8)> {
    // SAFETY: NumPy allocates the memory.
    let array = unsafe { described(descr, dims, None, ptr::null_mut(), 0)? };
    // SAFETY: the array that was made just now.
    let data = unsafe { (*array.as_ptr().cast::<PyArrayObject>()).data.cast() };
    Ok((array, data))
}

/// An array over memory that `keeper` keeps alive, in C order; `stride` are the bytes from one row to the next, if there are gaps
/// between these.
pub fn over<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &[usize],
    stride: Option<usize>,
    data: *mut u8,
    writable: bool,
    keeper: Object<'py>,
) -> PyResult<Object<'py>> {
    let py = descr.py();
    let flags = if writable { NPY_ARRAY_CARRAY } else { NPY_ARRAY_CARRAY_RO };
    let mut strides = stride.map(|_| packed_strides(dims, descr.itemsize()));
    if let (Some(stride), Some(strides)) = (stride, &mut strides) {
        strides[0] = stride as isize;
    }
    // SAFETY: `keeper` becomes the array's base, so the memory outlives it.
    unsafe {
        let array = described(descr, dims, strides.as_deref(), data, flags)?;
        let set = PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), keeper.into_ptr());
        if set < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

/// An array of this dtype and shape; without strides, its elements are in C order.
///
/// # Safety
/// `data` is null, for memory of NumPy's own, or good for the array while it lives.
#[inline]
unsafe fn described<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &[usize],
    strides: Option<&[isize]>,
    data: *mut u8,
    flags: c_int,
) -> PyResult<Object<'py>> {
    let (py, axes, dims) = (descr.py(), dims.len() as c_int, dims.as_ptr().cast_mut().cast());
    let strides = strides.map_or(ptr::null_mut(), |strides| strides.as_ptr().cast_mut());
    let owned = descr.clone().into_ptr().cast::<PyArray_Descr>();
    // SAFETY: NumPy steals a reference to the dtype; there is a length, and a stride if any, for each axis, which it only reads.
    unsafe {
        let kind = get_type_object(py, NpyTypes::PyArray_Type);
        let data = data.cast::<c_void>();
        let made =
            PY_ARRAY_API.PyArray_NewFromDescr(py, kind, owned, axes, dims, strides, data, flags, ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Room for the lengths of the axes of an array.
pub type Axes = [usize; NPY_MAXDIMS];

/// The axes of an index and those of a row, one after the other.
pub fn join<'a>(index: &[usize], row: &[usize], room: &'a mut Axes) -> PyResult<&'a mut [usize]> {
    let count = index.len() + row.len();
    if count > NPY_MAXDIMS {
        return Err(raised!(PyValueError, "an array has at most {NPY_MAXDIMS} axes, these rows need {count}"));
    }
    room[..index.len()].copy_from_slice(index);
    room[index.len()..count].iter_mut().zip(row).for_each(|(axis, &length)| *axis = length);
    Ok(&mut room[..count])
}

/// A 1-d array of values. (`PyArray1::from_slice` panics where there is no memory.)
pub fn vector<'py, T: Element + Copy>(py: Python<'py>, values: &[T]) -> PyResult<Object<'py>> {
    let mut made = NewArray::new(py, &[values.len()])?;
    made.items().copy_from_slice(values);
    Ok(made.array)
}

/// A new array in memory of NumPy's own, whose elements are written before anybody else knows it.
pub struct NewArray<'py, T> {
    /// The array.
    pub array: Object<'py>,
    data: *mut T,
    len: usize,
}

impl<'py, T: Element> NewArray<'py, T> {
    /// Makes an array of a shape.
    #[inline]
    pub fn new(py: Python<'py>, shape: &[usize]) -> PyResult<Self> {
        let (array, data) = plain(&T::get_dtype(py), shape)?;
        Ok(Self { array, data: data.cast(), len: shape.iter().product() })
    }

    /// The elements. Their values are arbitrary until they are written.
    #[inline]
    pub fn items(&mut self) -> &mut [T] {
        // SAFETY: as many elements as NumPy made, of which this alone knows; bools are only reached by `bytes`.
        unsafe { slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl NewArray<'_, bool> {
    /// The elements as bytes, to be set to 0 or 1.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; a bool has one byte.
        unsafe { slice::from_raw_parts_mut(self.data.cast(), self.len) }
    }
}

/// The elements of an array in C order, and its shape.
pub struct Shaped<T> {
    /// The elements.
    pub values: Vec<T>,
    /// The shape.
    pub shape: Vec<usize>,
}

/// An index of any shape.
pub type Index = Shaped<i64>;

impl<T> Shaped<T> {
    /// The array's elements in C order, and its shape.
    pub fn new(values: Vec<T>, shape: Vec<usize>) -> Self {
        Self { values, shape }
    }

    /// A matrix, row by row.
    pub fn matrix(values: Vec<T>, rows: usize, columns: usize) -> Self {
        Self::new(values, vec![rows, columns])
    }
}

impl<T: Element + Copy> Shaped<T> {
    /// Copies an array of this very type; None for another object.
    fn copied(object: &Object<'_>) -> PyResult<Option<Self>> {
        // SAFETY: they are only copied.
        let found = of(object).and_then(|array| unsafe { elements(array) }.map(|values| (values, array.shape())));
        found.map(|(values, shape)| Ok(Self::new(vectors::copied(values).python()?, shape.to_vec()))).transpose()
    }

    /// Copies an object as NumPy converts it to this type.
    pub fn converted(object: &Object<'_>) -> PyResult<Self> {
        let made = from_any(object, Some(T::get_dtype(object.py())))?;
        Ok(Self::copied(&made)?.expect("invariant: of this type, in C order"))
    }
}

impl<T> Deref for Shaped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Shaped<i64> {
    type Error = PyErr;

    fn extract(index: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(index) = Self::copied(&index)? {
            return Ok(index);
        }
        if let Ok(list) = index.cast_exact::<PyList>()
            && let Some(values) = list.iter().map(|row| row.cast_exact::<PyInt>().ok()?.extract().ok()).collect()
        {
            return Ok(Self::new(values, vec![list.len()]));
        }
        let array = from_any(&index, None)?;
        if !b"iu".contains(&kind(&array)) && !array.is_empty() {
            return Err(raised!(PyTypeError, "an index is an array of integers, got dtype {}", array.dtype()));
        }
        let Self { values, shape } = Self::converted(&array)?;
        Ok(Self::new(values, if shape.is_empty() { vec![1] } else { shape }))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Shaped<f64> {
    type Error = PyErr;

    fn extract(numbers: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Self::copied(&numbers)?.map_or_else(|| Self::converted(&numbers), Ok)
    }
}

impl<T> From<Vec<T>> for Shaped<T> {
    fn from(values: Vec<T>) -> Self {
        let shape = vec![values.len()];
        Self { values, shape }
    }
}

impl<'py, T: Element + Copy> IntoPyObject<'py> for Shaped<T> {
    type Target = PyAny;
    type Output = Object<'py>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Object<'py>> {
        if size_of_val(&self.values[..]) >= recycle::LARGE {
            return Ok(PyArray1::from_vec(py, self.values).reshape(self.shape)?.into_any());
        }
        // A copy of a few costs less than an object that owns the vector.
        let mut made = NewArray::new(py, &self.shape)?;
        made.items().copy_from_slice(&self.values);
        Ok(made.array)
    }
}

/// An object that keeps `memory` alive.
pub fn keeper(py: Python<'_>, memory: impl Send + 'static) -> PyResult<Object<'_>> {
    Ok(PyCapsule::new_with_value(py, memory, c"rlfast memory")?.into_any())
}
