//! Arrays of numbers and flags as the kernels read and write them.

use numpy::{Element, PyArrayDyn, PyArrayMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::marker::Ungil;
use pyo3::types::IntoPyDict as _;
use rlfast_core::returns::Floats;

use super::Object;
use crate::prelude::*;

/// Elements from which on work takes several milliseconds, so that others should have the interpreter meanwhile.
const LONG: usize = 1 << 23;

/// An aligned array in C order. Its elements stay as they are while this thread is attached and calls nothing of Python's; where
/// the work on them is detached, it is a copy to which there is no other reference.
pub(super) struct Input<'py, T>(pub(super) Bound<'py, PyArrayDyn<T>>);

impl<'py, T: Element> Input<'py, T> {
    /// The array itself, or a copy.
    pub(super) fn new(array: &Bound<'py, PyArrayDyn<T>>) -> PyResult<Self> {
        if array.is_c_contiguous() && array.is_aligned() && array.len() < LONG {
            return Ok(Self(array.clone()));
        }
        let options = [("order", "C")].into_py_dict(array.py())?;
        let copy = array.py().import("numpy")?.call_method("array", (array,), Some(&options))?;
        Ok(Self(copy.cast_into()?))
    }

    pub(super) fn items(&self) -> &[T] {
        // SAFETY: aligned, contiguous, and not written while this is read: see above.
        unsafe { self.0.as_slice() }.expect("invariant: aligned and contiguous")
    }
}

impl<'py> Input<'py, bool> {
    /// The same flags in bytes of 0 and 1, the only ones that Rust's `bool` may have: views of bytes have others, too.
    pub(super) fn flags(self) -> PyResult<Self> {
        // SAFETY: as many bytes as flags, and not written while this is read, as in `items`.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.data().cast::<u8>(), self.0.len()) };
        if bytes.iter().fold(0, |all, byte| all | byte) <= 1 {
            return Ok(self);
        }
        let bytes = self.0.call_method1("view", ("uint8",))?;
        Ok(Self(self.0.py().import("numpy")?.call_method1("not_equal", (bytes, 0))?.cast_into()?))
    }
}

/// The shape of a roll-out, which is that of its rewards.
pub(super) fn roll_out(rewards: &Object<'_>) -> PyResult<Vec<usize>> {
    let shape = array("rewards", rewards)?.shape().to_vec();
    if shape.is_empty() {
        return Err(raised!(PyValueError, "rewards: got a single number, wanted [T] or [T, N]"));
    }
    Ok(shape)
}

/// What an argument beside the rewards must be like.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// Of this shape, which is that of the rewards.
    Shape(&'a [usize]),
    /// Of any shape with one element for each of so many rewards.
    Rows(usize),
}

/// Reads an array with elements of this type.
pub(super) fn read<'py, T: Element>(name: &str, object: &Object<'py>, wanted: Wanted<'_>) -> PyResult<Input<'py, T>> {
    fitting(name, typed::<T>(name, object)?, wanted)
}

#[inline]
fn fitting<'py, T: Element>(
    name: &str,
    array: &Bound<'py, PyArrayDyn<T>>,
    wanted: Wanted<'_>,
) -> PyResult<Input<'py, T>> {
    let wanted = match wanted {
        Wanted::Shape(shape) if array.shape() != shape => format!("that of rewards, {shape:?}"),
        Wanted::Rows(rows) if array.len() != rows => format!("one for each of {rows} rewards"),
        _ => return Input::new(array),
    };
    Err(raised!(PyValueError, "{name}: got shape {:?}, wanted {wanted}", array.shape()))
}

/// An array of either float type.
pub(super) enum FloatArray<'py> {
    F32(Input<'py, f32>),
    F64(Input<'py, f64>),
}

impl<'py> FloatArray<'py> {
    pub(super) fn new(name: &str, object: &Object<'py>, wanted: Wanted<'_>) -> PyResult<Self> {
        match object.cast() {
            Ok(singles) => fitting(name, singles, wanted).map(Self::F32),
            Err(_) => read(name, object, wanted).map(Self::F64),
        }
    }

    #[inline]
    pub(super) fn floats(&self) -> Floats<'_> {
        match self {
            Self::F32(array) => Floats::F32(array.items()),
            Self::F64(array) => Floats::F64(array.items()),
        }
    }
}

/// Whether an object is an array of float32.
pub(super) fn is_single(object: &Object<'_>) -> bool {
    object.cast::<PyArrayDyn<f32>>().is_ok()
}

/// Runs `work` on arrays of `elements`: attached, so that no other thread writes to them, or on copies (see [`Input`]).
pub(super) fn away<R: Ungil>(py: Python<'_>, elements: usize, work: impl FnOnce() -> R + Ungil) -> R {
    if elements < LONG { work() } else { py.detach(work) }
}

pub(super) fn array<'a, 'py>(name: &str, object: &'a Object<'py>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    object.cast().map_err(|_| {
        let got = object.get_type();
        raised!(PyTypeError, "{name}: got {got}, wanted an array")
    })
}

pub(super) fn typed<'a, 'py, T: Element>(
    name: &str,
    object: &'a Object<'py>,
) -> PyResult<&'a Bound<'py, PyArrayDyn<T>>> {
    let untyped = array(name, object)?;
    untyped.cast().map_err(|_| {
        let (got, wanted) = (untyped.dtype(), numpy::dtype::<T>(object.py()));
        raised!(PyTypeError, "{name}: got dtype {got}, wanted {wanted}")
    })
}
