//! `rlfast.functional.returns` over the core's kernels: arrays in, checked, and fresh arrays out.

use std::borrow::Cow;

use numpy::{Element, PyArrayDyn, PyUntypedArray};
use pyo3::marker::Ungil;
use rlfast_core::convert::as_flags;
use rlfast_core::returns::estimator::{Estimator, MOST, Wanted, columns_of, fraction};
use rlfast_core::returns::{self, BufferRows, Ends, Floats, Real};

use crate::prelude::*;

/// Elements from which on work takes several milliseconds, so that others should have the interpreter meanwhile.
const LONG: usize = 1 << 23;

/// A float type that arrays may have.
trait Float: Real + Element {}
impl Float for f32 {}
impl Float for f64 {}

/// Runs the estimator `name` on arrays of numbers of one shape, the first of which are the rewards, and on the flags `(terminated,
/// truncated)` of that shape. If any array is float64, single-precision ones are widened. Time is the first axis, and the others are independent columns.
#[pyfunction]
#[pyo3(signature = (name, floats, flags, numbers, /))]
pub fn estimate<'py>(
    name: &str,
    floats: Items<Option<Object<'py>>>,
    flags: (Object<'py>, Option<Object<'py>>),
    numbers: Items<f64>,
) -> PyResult<Object<'py>> {
    let (estimator, floats) = (Estimator::new(name, &numbers.0).python()?, &floats.0[..]);
    match floats.iter().flatten().all(is_single) {
        true => estimate_of::<f32>(estimator, floats, flags),
        false => estimate_of::<f64>(estimator, floats, flags),
    }
}

fn estimate_of<'py, T: Float>(
    estimator: Estimator,
    floats: &[Option<Object<'py>>],
    (terminated, truncated): (Object<'py>, Option<Object<'py>>),
) -> PyResult<Object<'py>> {
    let py = terminated.py();
    let none = py.None().into_bound(py);
    let float = |at: usize| floats.get(at).and_then(Option::as_ref);
    let shape = named("rewards", float(0).unwrap_or(&none))?.shape().to_vec();
    let (columns, wanted) = (columns_of(&shape).python()?, Wanted::Shape(&shape));
    let mut numbers: [Cow<'_, [T]>; MOST.0] = Default::default();
    for (at, name) in estimator.inputs().iter().enumerate() {
        if let Some(array) = float(at).or_else(|| (at < estimator.needed()).then_some(&none)) {
            numbers[at] = T::read(read_floats(name, array, wanted)?).python()?;
        }
    }
    let terminated = read_flags("terminated", &terminated, wanted)?;
    let truncated = truncated.as_ref().map(|flags| read_flags("truncated", flags, wanted)).transpose()?;
    let outputs = (0..estimator.outputs()).map(|_| NewArray::<T>::new(py, &shape));
    let mut outputs = outputs.collect::<PyResult<Vec<_>>>()?;
    if !terminated.is_empty() {
        let ends = Ends::new(&terminated, truncated.as_deref(), columns);
        let mut filled = outputs.iter_mut().map(NewArray::items);
        let filled = [filled.next().unwrap_or_default(), filled.next().unwrap_or_default()];
        away(py, terminated.len(), || estimator.run(numbers.each_ref().map(|numbers| &numbers[..]), ends, filled));
    }
    let mut arrays: Vec<_> = outputs.into_iter().map(|output| output.array).collect();
    if arrays.len() == 1 { Ok(arrays.remove(0)) } else { Ok(PyTuple::new(py, arrays)?.into_any()) }
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
    let rows = named("rewards", rewards)?.len();
    let wanted = Wanted::Rows(rows);
    let rewards = read_floats("rewards", rewards, wanted)?;
    let values = values.map(|values| read_floats("values", values, wanted)).transpose()?;
    let next_values = next_values.map(|values| read_floats("next_values", values, wanted)).transpose()?;
    let terminated = read_flags("terminated", terminated, wanted)?;
    let truncated = read_flags("truncated", truncated, wanted)?;
    let places = read::<i64, i64>("indices", places, wanted)?;
    unfinished.values.sort_unstable();
    let (mut returns, mut advantages) = (NewArray::<f64>::new(py, &[rows])?, NewArray::<f64>::new(py, &[rows])?);
    let buffer = BufferRows { places: &places, unfinished: &unfinished };
    let (values, next_values, flags) = (values.as_ref(), next_values.as_ref(), (&terminated[..], &truncated[..]));
    let (out, beside) = (returns.items(), advantages.items());
    away(py, rows, || {
        returns::episodic(&rewards, values, next_values, flags, buffer, gamma, gae_lambda, out, beside);
    });
    Ok((returns.array, advantages.array))
}

/// Sums of rewards with what follows them: `BasePolicy.compute_nstep_return`.
#[pyfunction]
#[pyo3(signature = (sums, discounts, next_values, /))]
pub fn bootstrapped<'py>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    match is_single(next_values) {
        true => bootstrapped_of::<f32>(sums, discounts, next_values),
        false => bootstrapped_of::<f64>(sums, discounts, next_values),
    }
}

fn bootstrapped_of<'py, T: Float>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    let (py, shape) = (sums.py(), named("next_values", next_values)?.shape());
    let shapes = [named("sums", sums)?.shape(), named("discounts", discounts)?.shape(), shape];
    let sums = read::<f64, f64>("sums", sums, Wanted::Any)?;
    let discounts = read::<f64, f64>("discounts", discounts, Wanted::Any)?;
    let next_values = read::<T, T>("next_values", next_values, Wanted::Any)?;
    returns::check_bootstrapped(shapes).python()?;
    let mut returns = NewArray::<T>::new(py, shape)?;
    returns::bootstrapped(&sums, &discounts, &next_values, returns.items());
    Ok(returns.array)
}

/// Whether an object is an array of float32.
fn is_single(object: &Object<'_>) -> bool {
    object.cast::<PyArrayDyn<f32>>().is_ok()
}

/// An array of either float type.
fn read_floats<'a>(name: &str, object: &'a Object<'_>, wanted: Wanted<'_>) -> PyResult<Floats<'a>> {
    match is_single(object) {
        true => read::<f32, f32>(name, object, wanted).map(Floats::F32),
        false => read::<f64, f64>(name, object, wanted).map(Floats::F64),
    }
}

fn read_flags<'a>(name: &str, object: &'a Object<'_>, wanted: Wanted<'_>) -> PyResult<Cow<'a, [bool]>> {
    as_flags(read::<u8, bool>(name, object, wanted)?).python()
}

/// The elements of an array with the dtype of `D`, as `T`. They stay as they are while this thread is attached and calls nothing of
/// Python's; where the work on them is detached, they are a copy.
fn read<'a, T: Element + Copy, D: Element>(
    name: &str,
    object: &'a Object<'_>,
    wanted: Wanted<'_>,
) -> PyResult<Cow<'a, [T]>> {
    let (array, dtype) = (named(name, object)?, numpy::dtype::<D>(object.py()));
    if !array::has_dtype(array, &dtype) {
        return Err(raised!(PyTypeError, "{name}: got dtype {}, wanted {dtype}", array.dtype()));
    }
    wanted.check(name, array.shape()).python()?;
    // SAFETY: attached while they are read, see above; `T` has the size of `D`, and takes all bits.
    match unsafe { array::elements_as(array, &dtype) } {
        Some(elements) if elements.len() < LONG => Ok(Cow::Borrowed(elements)),
        Some(elements) => vectors::copied(elements).map(Cow::Owned).python(),
        None => Ok(Cow::Owned(Shaped::<T>::converted(object)?.values)),
    }
}

fn named<'a, 'py>(name: &str, object: &'a Object<'py>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    object.cast().map_err(|_| raised!(PyTypeError, "{name}: got {}, wanted an array", object.get_type()))
}

/// Runs `work` on arrays of `elements`: attached, so that no other thread writes to them, or on copies (see [`read`]).
fn away<R: Ungil>(py: Python<'_>, elements: usize, work: impl FnOnce() -> R + Ungil) -> R {
    if elements < LONG { work() } else { py.detach(work) }
}
