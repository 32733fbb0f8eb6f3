//! `rlfast.functional.returns` over the core's kernels: arrays in, checked, and fresh arrays out.

use numpy::{Element, PyArrayDyn, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyTuple};
use rlfast_core::returns::estimator::{Estimator, MOST, fraction};
use rlfast_core::returns::{self, BufferRows, Ends, Floats, Real};
use rlfast_core::vectors::product;

use crate::array::{Index, unfilled};
use crate::error::IntoPython as _;
use crate::items::Items;

type Object<'py> = Bound<'py, PyAny>;

/// Elements from which on work takes several milliseconds, so that others should have the interpreter meanwhile.
const LONG: usize = 1 << 23;

/// A float type that arrays may have.
trait Float: Real + Element {}
impl Float for f32 {}
impl Float for f64 {}

fn is_single(object: &Object<'_>) -> bool {
    object.cast::<PyArrayDyn<f32>>().is_ok()
}

/// Runs the estimator `name` on arrays of numbers of one shape and float type, the first of which are the rewards, and on the flags
/// `(terminated, truncated)` of that shape. Time is the first axis, and the others are independent columns.
#[pyfunction]
#[pyo3(signature = (name, floats, flags, numbers, /))]
pub fn estimate<'py>(
    name: &str,
    floats: &Bound<'py, PyTuple>,
    flags: (Object<'py>, Option<Object<'py>>),
    numbers: Items<f64>,
) -> PyResult<Object<'py>> {
    let estimator = Estimator::new(name, &numbers.0).python()?;
    if is_single(&floats.get_item(0)?) {
        estimate_of::<f32>(estimator, floats, flags)
    } else {
        estimate_of::<f64>(estimator, floats, flags)
    }
}

fn estimate_of<'py, T: Float>(
    estimator: Estimator,
    floats: &Bound<'py, PyTuple>,
    (terminated, truncated): (Object<'py>, Option<Object<'py>>),
) -> PyResult<Object<'py>> {
    let py = floats.py();
    let shape = roll_out(&floats.get_item(0)?)?;
    let mut inputs = [const { None }; MOST.0];
    for (at, (place, name)) in inputs.iter_mut().zip(estimator.inputs()).enumerate() {
        let object = floats.get_item(at)?;
        if at < estimator.needed() || !object.is_none() {
            *place = Some(shaped::<T>(name, &object, &shape)?);
        }
    }
    let terminated = shaped::<bool>("terminated", &terminated, &shape)?;
    let truncated = truncated.map(|flags| shaped::<bool>("truncated", &flags, &shape)).transpose()?;
    let outputs = (0..estimator.outputs()).map(|_| output::<T>(py, &shape)).collect::<PyResult<Vec<_>>>()?;
    let mut slices: [&[T]; MOST.0] = [&[]; MOST.0];
    for (slice, input) in slices.iter_mut().zip(inputs.iter().flatten()) {
        *slice = input.as_slice()?;
    }
    let mut filled: [&mut [T]; MOST.1] = [&mut [], &mut []];
    for (slice, output) in filled.iter_mut().zip(&outputs) {
        // SAFETY: a fresh array that nobody else knows.
        *slice = unsafe { output.as_slice_mut()? };
    }
    let (terminated, truncated) =
        (terminated.as_slice()?, truncated.as_ref().map(|flags| flags.as_slice()).transpose()?);
    if !terminated.is_empty() {
        let ends = Ends::new(terminated, truncated, shape[1..].iter().product());
        away(py, terminated.len(), || estimator.run(slices, ends, filled));
    }
    match &outputs[..] {
        [one] => Ok(one.clone().into_any()),
        all => Ok(PyTuple::new(py, all)?.into_any()),
    }
}

/// Returns and advantages of a buffer's rows: `BasePolicy.compute_episodic_return`. Each float array is float32 or float64.
#[pyfunction]
#[pyo3(signature = (rewards, values, next_values, terminated, truncated, places, unfinished, gamma, gae_lambda, /))]
#[expect(clippy::too_many_arguments, reason = "they are those of the Python function")]
pub fn episodic_returns<'py>(
    rewards: &Object<'py>,
    values: Option<&Object<'py>>,
    next_values: Option<&Object<'py>>,
    terminated: &Object<'py>,
    truncated: &Object<'py>,
    places: &Object<'py>,
    mut unfinished: Index,
    gamma: f64,
    gae_lambda: f64,
) -> PyResult<(Object<'py>, Object<'py>)> {
    let py = rewards.py();
    let (gamma, gae_lambda) = (fraction("gamma", gamma).python()?, fraction("gae_lambda", gae_lambda).python()?);
    let shape = roll_out(rewards)?;
    let rewards = EitherFloat::new("rewards", rewards, &shape)?;
    let values = values.map(|values| EitherFloat::new("values", values, &shape)).transpose()?;
    let next_values = next_values.map(|values| EitherFloat::new("next_values", values, &shape)).transpose()?;
    let terminated = shaped::<bool>("terminated", terminated, &shape)?;
    let truncated = shaped::<bool>("truncated", truncated, &shape)?;
    let places = shaped::<i64>("indices", places, &shape)?;
    let (returns, advantages) = (output::<f64>(py, &shape)?, output::<f64>(py, &shape)?);
    // SAFETY: fresh arrays that nobody else knows.
    let (returns_out, advantages_out) = unsafe { (returns.as_slice_mut()?, advantages.as_slice_mut()?) };
    let values = values.as_ref().map(EitherFloat::as_floats).transpose()?;
    let next_values = next_values.as_ref().map(EitherFloat::as_floats).transpose()?;
    let rewards = rewards.as_floats()?;
    let flags = (terminated.as_slice()?, truncated.as_slice()?);
    unfinished.rows.sort_unstable();
    let rows = BufferRows { places: places.as_slice()?, unfinished: &unfinished.rows };
    away(py, rows.places.len(), || {
        returns::episodic(rewards, values, next_values, flags, rows, gamma, gae_lambda, returns_out, advantages_out);
    });
    Ok((returns.into_any(), advantages.into_any()))
}

/// Sums of rewards with what follows them: `BasePolicy.compute_nstep_return`.
#[pyfunction]
#[pyo3(signature = (sums, discounts, next_values, /))]
pub fn bootstrapped<'py>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    if is_single(next_values) {
        bootstrapped_of::<f32>(sums, discounts, next_values)
    } else {
        bootstrapped_of::<f64>(sums, discounts, next_values)
    }
}

fn bootstrapped_of<'py, T: Float>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    let (sums, discounts) = (packed(typed::<f64>("sums", sums)?)?, packed(typed::<f64>("discounts", discounts)?)?);
    let next_values = packed(typed::<T>("next_values", next_values)?)?;
    let shape = next_values.shape();
    if shape.len() != 2 || sums.shape() != &shape[..1] || discounts.shape() != &shape[..1] {
        return Err(PyValueError::new_err(format!(
            "got sums {:?}, discounts {:?} and next_values {shape:?}, wanted [B], [B] and [B, M]",
            sums.shape(),
            discounts.shape(),
        )));
    }
    let returns = output::<T>(next_values.py(), shape)?;
    // SAFETY: a fresh array that nobody else knows.
    let filled = unsafe { returns.as_slice_mut()? };
    returns::bootstrapped(sums.as_slice()?, discounts.as_slice()?, next_values.as_slice()?, filled);
    Ok(returns.into_any())
}

/// An array that may be of either float type.
enum EitherFloat<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

impl<'py> EitherFloat<'py> {
    fn new(name: &str, object: &Object<'py>, shape: &[usize]) -> PyResult<Self> {
        if is_single(object) {
            return Ok(Self::F32(shaped(name, object, shape)?));
        }
        Ok(Self::F64(shaped(name, object, shape)?))
    }

    fn as_floats(&self) -> PyResult<Floats<'_>> {
        Ok(match self {
            Self::F32(array) => Floats::F32(array.as_slice()?),
            Self::F64(array) => Floats::F64(array.as_slice()?),
        })
    }
}

// -- arrays ----------------------------------------------------------------------------------------------------------

/// The shape of a roll-out, which is that of its rewards.
fn roll_out(rewards: &Object<'_>) -> PyResult<Vec<usize>> {
    let shape = array("rewards", rewards)?.shape().to_vec();
    if shape.is_empty() {
        return Err(PyValueError::new_err("rewards: got a single number, wanted [T] or [T, N]"));
    }
    Ok(shape)
}

/// An array of the roll-out's shape.
fn shaped<'py, T: Element>(name: &str, object: &Object<'py>, shape: &[usize]) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let typed = typed::<T>(name, object)?;
    if typed.shape() != shape {
        let got = typed.shape();
        return Err(PyValueError::new_err(format!("{name}: got shape {got:?}, wanted that of rewards, {shape:?}")));
    }
    packed(typed)
}

/// A fresh array: read by nobody before a kernel has written every element; if one fails it is dropped unread.
fn output<'py, T: Float>(py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    unfilled::<T>(py, product(shape).python()?)?.reshape(shape)
}

/// Does `work` on arrays of so many elements: attached, so that nobody writes to them meanwhile, or on copies (see [`packed`]).
fn away<R: Ungil>(py: Python<'_>, elements: usize, work: impl FnOnce() -> R + Ungil) -> R {
    if elements < LONG { work() } else { py.detach(work) }
}

fn array<'a, 'py>(name: &str, object: &'a Object<'py>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    object.cast().map_err(|_| {
        let got = object.get_type();
        PyTypeError::new_err(format!("{name}: got {got}, wanted an array"))
    })
}

fn typed<'a, 'py, T: Element>(name: &str, object: &'a Object<'py>) -> PyResult<&'a Bound<'py, PyArrayDyn<T>>> {
    let untyped = array(name, object)?;
    untyped.cast().map_err(|_| {
        let (got, wanted) = (untyped.dtype(), numpy::dtype::<T>(object.py()));
        PyTypeError::new_err(format!("{name}: got dtype {got}, wanted {wanted}"))
    })
}

/// The array itself, or a copy in C order; always a copy where the work on it will be detached.
fn packed<'py, T: Element>(array: &Bound<'py, PyArrayDyn<T>>) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    if array.is_c_contiguous() && array.len() < LONG {
        return Ok(array.try_readonly()?);
    }
    let options = [("order", "C")].into_py_dict(array.py())?;
    let copy = array.py().import("numpy")?.call_method("array", (array,), Some(&options))?;
    Ok(copy.cast_into::<PyArrayDyn<T>>()?.try_readonly()?)
}
