//! NumPy arrays: making them, reading them, and lending them memory of ours.

use std::any::Any;
use std::os::raw::{c_int, c_void};

use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO};
use numpy::npyffi::objects::{PyArray_Descr, PyArrayObject};
use numpy::npyffi::types::npy_intp;
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object};
use numpy::{Element, PyArray1, PyArrayDescr, PyArrayDescrMethods as _, PyArrayMethods as _};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList};
use rlfast_core::convert::NumberType;
use rlfast_core::{recycle, vectors};

use crate::error::{IntoPython as _, raised};

/// Any object of Python's.
pub type Object<'py> = Bound<'py, PyAny>;

/// Axes that every NumPy supports.
pub const NPY_MAXDIMS: usize = 32;

/// An array that is borrowed from an object.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a>(&'a PyArrayObject);

impl<'a> ArrayRef<'a> {
    /// The array that `object` is; None if it is none, or of a subclass of `ndarray`.
    #[inline(always)]
    pub fn of(object: &'a Object<'_>) -> Option<Self> {
        // SAFETY: a live object; the type object is NumPy's own. An `ndarray` lives as long as the reference to the object.
        unsafe {
            let is_array = ffi::Py_TYPE(object.as_ptr()) == get_type_object(object.py(), NpyTypes::PyArray_Type);
            is_array.then(|| Self(&*object.as_ptr().cast::<PyArrayObject>()))
        }
    }

    /// The lengths of its axes.
    #[inline(always)]
    pub fn dims(self) -> &'a [npy_intp] {
        // SAFETY: NumPy keeps `nd` dimensions, and may keep none at all for an array without axes.
        if self.0.nd == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.0.dimensions, self.0.nd as usize) } }
    }

    /// The bytes from one entry of each axis to the next.
    #[inline(always)]
    pub fn strides(self) -> &'a [npy_intp] {
        // SAFETY: as for the dimensions.
        if self.0.nd == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.0.strides, self.0.nd as usize) } }
    }

    /// How many elements it has.
    pub fn len(self) -> usize {
        self.dims().iter().product::<npy_intp>() as usize
    }

    /// The address of the first element.
    #[inline(always)]
    pub fn data(self) -> *mut u8 {
        self.0.data.cast()
    }

    /// The owner of its memory, or null.
    #[inline(always)]
    pub fn base(self) -> *mut ffi::PyObject {
        self.0.base
    }

    /// Whether its bytes are in C order without gaps.
    #[inline(always)]
    pub fn is_contiguous(self) -> bool {
        self.has(NPY_ARRAY_C_CONTIGUOUS)
    }

    /// Whether it has all these flags.
    #[inline(always)]
    pub fn has(self, flags: c_int) -> bool {
        self.0.flags & flags == flags
    }

    /// Whether its dtype is this one: the same object, or, as those that were unpickled are, one like it.
    #[inline(always)]
    pub fn has_dtype(self, descr: &Bound<'_, PyArrayDescr>) -> bool {
        self.0.descr.cast() == descr.as_ptr() || self.has_equal_dtype(descr)
    }

    #[cold]
    fn has_equal_dtype(self, descr: &Bound<'_, PyArrayDescr>) -> bool {
        self.dtype(descr.py()).is_equiv_to(descr)
    }

    /// Its dtype.
    #[inline]
    pub fn dtype<'py>(self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        // SAFETY: an array always has a dtype.
        unsafe { Bound::from_borrowed_ptr(py, self.0.descr.cast()).cast_into_unchecked() }
    }

    /// The letter of the kind of its dtype.
    #[inline]
    pub fn kind(self) -> u8 {
        // SAFETY: as above.
        unsafe { (*self.0.descr).kind as u8 }
    }

    /// Its elements in C order; None if they are of another type, with gaps between them, or not aligned.
    ///
    /// # Safety
    /// While the elements are read, the thread stays attached and runs nothing of Python's, so that nobody writes to them.
    #[inline]
    pub unsafe fn elements<T: Element>(self, py: Python<'_>) -> Option<&'a [T]> {
        if !self.has(NPY_ARRAY_CARRAY_RO) || !self.has_dtype(&T::get_dtype(py)) {
            return None;
        }
        let (data, count) = (self.0.data.cast::<T>(), self.len());
        // SAFETY: so many elements of this type, contiguous and aligned; without any, the address may be null.
        Some(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, count) } })
    }

    /// Whether it holds numbers or bools.
    #[inline]
    pub fn is_number(self) -> bool {
        matches!(self.kind(), b'b' | b'i' | b'u' | b'f' | b'c')
    }
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
        let made = PY_ARRAY_API.PyArray_FromScalar(py, object.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made).map(Some)
    }
}

/// What NumPy makes of a list or another object of Python's.
pub fn from_any<'py>(object: &Object<'py>) -> PyResult<Object<'py>> {
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
) -> PyResult<(Object<'py>, *mut u8)> {
    let py = descr.py();
    if bytes >= recycle::LARGE {
        let block = recycle::OUTPUTS.block(bytes).python()?;
        let data = block.base();
        return Ok((over(descr, dims, None, data, true, keeper(py, block)?)?, data));
    }
    plain(descr, dims)
}

/// A fresh, unfilled array in memory of NumPy's own, and its first byte.
fn plain<'py>(descr: &Bound<'py, PyArrayDescr>, dims: &mut [npy_intp]) -> PyResult<(Object<'py>, *mut u8)> {
    // SAFETY: NumPy allocates the memory.
    let array = unsafe { described(descr, dims, None, std::ptr::null_mut(), 0)? };
    // SAFETY: the array that was made just now.
    let data = unsafe { (*array.as_ptr().cast::<PyArrayObject>()).data.cast() };
    Ok((array, data))
}

/// An array over memory that `keeper` keeps alive.
pub fn over<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &mut [npy_intp],
    strides: Option<&mut [npy_intp]>,
    data: *mut u8,
    writable: bool,
    keeper: Object<'py>,
) -> PyResult<Object<'py>> {
    let py = descr.py();
    let flags = if writable { NPY_ARRAY_CARRAY } else { NPY_ARRAY_CARRAY_RO };
    // SAFETY: `keeper` becomes the array's base, so the memory outlives it.
    unsafe {
        let array = described(descr, dims, strides, data, flags)?;
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
    dims: &mut [npy_intp],
    strides: Option<&mut [npy_intp]>,
    data: *mut u8,
    flags: c_int,
) -> PyResult<Object<'py>> {
    let (py, null) = (descr.py(), std::ptr::null_mut());
    let (axes, strides) = (dims.len() as c_int, strides.map_or(null, <[npy_intp]>::as_mut_ptr));
    let (dims, data) = (dims.as_mut_ptr(), data.cast::<c_void>());
    let owned = descr.clone().into_ptr().cast::<PyArray_Descr>();
    // SAFETY: NumPy steals a reference to the dtype; there is a length, and a stride if any, for each axis.
    unsafe {
        let kind = get_type_object(py, NpyTypes::PyArray_Type);
        let made = PY_ARRAY_API.PyArray_NewFromDescr(py, kind, owned, axes, dims, strides, data, flags, null.cast());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Room for the lengths of the axes of an array.
pub type Axes = [npy_intp; NPY_MAXDIMS];

/// The axes of an index and those of a row, one after the other.
pub fn join<'a>(index: &[npy_intp], row: &[usize], room: &'a mut Axes) -> PyResult<&'a mut [npy_intp]> {
    let count = index.len() + row.len();
    if count > NPY_MAXDIMS {
        return Err(raised!(PyValueError, "an array has at most {NPY_MAXDIMS} axes, these rows need {count}"));
    }
    room[..index.len()].copy_from_slice(index);
    room[index.len()..count].iter_mut().zip(row).for_each(|(axis, &length)| *axis = length as npy_intp);
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
        let mut dims = [0; NPY_MAXDIMS];
        let dims = &mut dims[..shape.len()];
        dims.iter_mut().zip(shape).for_each(|(axis, &length)| *axis = length as npy_intp);
        let (array, data) = plain(&T::get_dtype(py), dims)?;
        Ok(Self { array, data: data.cast(), len: shape.iter().product() })
    }

    /// The elements. Their values are arbitrary until they are written.
    #[inline]
    pub fn items(&mut self) -> &mut [T] {
        // SAFETY: as many elements as NumPy made, of which this alone knows; bools are only reached by `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl NewArray<'_, bool> {
    /// The elements as bytes, to be set to 0 or 1.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; a bool has one byte.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.len) }
    }
}

/// The elements of an array in C order, and its shape.
pub struct Shaped<T> {
    /// The elements.
    pub values: Vec<T>,
    /// The shape.
    pub shape: Vec<npy_intp>,
}

/// An index of any shape.
pub type Index = Shaped<i64>;

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

impl<T: Element + Copy> Shaped<T> {
    /// Copies an array of this very type; None for another object.
    fn copied(object: &Object<'_>) -> PyResult<Option<Self>> {
        let Some(array) = ArrayRef::of(object) else { return Ok(None) };
        // SAFETY: they are only copied.
        let Some(values) = (unsafe { array.elements::<T>(object.py()) }) else { return Ok(None) };
        Ok(Some(Self::new(vectors::copied(values).python()?, array.dims().to_vec())))
    }

    /// Copies an object as NumPy converts it to this type, with at least `axes` axes.
    fn converted(object: &Object<'_>, axes: usize) -> PyResult<Self> {
        let py = object.py();
        let options = PyDict::new(py);
        options.set_item("ndmin", axes)?;
        options.set_item("order", "C")?;
        let made = py.import("numpy")?.call_method("array", (object, T::get_dtype(py)), Some(&options))?;
        Ok(Self::copied(&made)?.expect("invariant: a copy of this type in C order"))
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
            return Ok(Self::new(values, vec![list.len() as npy_intp]));
        }
        let array = index.py().import("numpy")?.call_method1("asarray", (index,))?;
        if let Some(found) = ArrayRef::of(&array).filter(|found| !b"iu".contains(&found.kind()) && found.len() > 0) {
            let dtype = found.dtype(index.py());
            return Err(raised!(PyTypeError, "an index is an array of integers, got dtype {dtype}"));
        }
        Self::converted(&array, 1)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Shaped<f64> {
    type Error = PyErr;

    fn extract(numbers: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Self::copied(&numbers)?.map_or_else(|| Self::converted(&numbers, 0), Ok)
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
    type Output = Object<'py>;
    type Error = PyErr;

    fn into_pyobject(mut self, py: Python<'py>) -> PyResult<Object<'py>> {
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

/// Keeps the memory of arrays alive.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Keeper {
    _memory: Box<dyn Any + Send + Sync>,
}

/// An object that keeps `memory` alive.
pub fn keeper(py: Python<'_>, memory: impl Any + Send + Sync) -> PyResult<Object<'_>> {
    Ok(Bound::new(py, Keeper { _memory: Box::new(memory) })?.into_any())
}
