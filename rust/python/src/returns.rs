//! `rlfast.functional.returns` over the core's kernels: arrays in, checked, and fresh arrays out.

mod arrays;

use std::borrow::Cow;

use numpy::{Element, PyUntypedArrayMethods as _};
use rlfast_core::returns::estimator::{Estimator, MOST, fraction};
use rlfast_core::returns::{self, BufferRows, Ends, Real};

use arrays::{FloatArray, Input, Wanted, array, away, is_single, read, roll_out, typed};

use crate::prelude::*;

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
    floats: &Bound<'py, PyTuple>,
    flags: (Object<'py>, Option<Object<'py>>),
    numbers: Items<f64>,
) -> PyResult<Object<'py>> {
    let estimator = Estimator::new(name, &numbers.0).python()?;
    if floats.iter_borrowed().all(|array| array.is_none() || is_single(&array)) {
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
    let wanted = Wanted::Shape(&shape);
    let mut inputs = [const { None }; MOST.0];
    for (at, (place, name)) in inputs.iter_mut().zip(estimator.inputs()).enumerate() {
        let object = floats.get_item(at)?;
        if at < estimator.needed() || !object.is_none() {
            *place = Some(FloatArray::new(name, &object, wanted)?);
        }
    }
    let mut numbers: [Cow<'_, [T]>; MOST.0] = Default::default();
    for (numbers, input) in numbers.iter_mut().zip(inputs.iter().flatten()) {
        *numbers = T::read(input.floats()).python()?;
    }
    let terminated = read("terminated", &terminated, wanted)?.flags()?;
    let truncated = truncated.map(|flags| read("truncated", &flags, wanted)?.flags()).transpose()?;
    let mut outputs = [const { None }; MOST.1];
    for output in outputs.iter_mut().take(estimator.outputs()) {
        *output = Some(NewArray::<T>::new(py, &shape)?);
    }
    if !terminated.items().is_empty() {
        let slices = numbers.each_ref().map(|numbers| &numbers[..]);
        let filled = outputs.each_mut().map(|output| output.as_mut().map_or(&mut [][..], NewArray::items));
        let truncated = truncated.as_ref().map(Input::items);
        let ends = Ends::new(terminated.items(), truncated, shape[1..].iter().product());
        away(py, slices[0].len(), || estimator.run(slices, ends, filled));
    }
    match outputs {
        [Some(one), None] => Ok(one.array),
        all => {
            Ok(PyTuple::new(py, all.into_iter().flatten().map(|output| output.array).collect::<Vec<_>>())?.into_any())
        }
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
    let rows = array("rewards", rewards)?.len();
    let wanted = Wanted::Rows(rows);
    let rewards = FloatArray::new("rewards", rewards, wanted)?;
    let values = values.map(|values| FloatArray::new("values", values, wanted)).transpose()?;
    let next_values = next_values.map(|values| FloatArray::new("next_values", values, wanted)).transpose()?;
    let terminated = read("terminated", terminated, wanted)?.flags()?;
    let truncated = read("truncated", truncated, wanted)?.flags()?;
    let places = read::<i64>("indices", places, wanted)?;
    unfinished.values.sort_unstable();
    let (mut returns, mut advantages) = (NewArray::<f64>::new(py, &[rows])?, NewArray::<f64>::new(py, &[rows])?);
    let values = values.as_ref().map(FloatArray::floats);
    let next_values = next_values.as_ref().map(FloatArray::floats);
    let (rewards, flags) = (rewards.floats(), (terminated.items(), truncated.items()));
    let rows = BufferRows { places: places.items(), unfinished: &unfinished.values };
    let (returns_out, advantages_out) = (returns.items(), advantages.items());
    away(py, rows.places.len(), || {
        returns::episodic(rewards, values, next_values, flags, rows, gamma, gae_lambda, returns_out, advantages_out);
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
    let (sums, discounts) = (typed::<f64>("sums", sums)?, typed::<f64>("discounts", discounts)?);
    let next_values = typed::<T>("next_values", next_values)?;
    let shape = next_values.shape();
    if shape.len() != 2 || sums.shape() != &shape[..1] || discounts.shape() != &shape[..1] {
        return Err(raised!(
            PyValueError,
            "got sums {:?}, discounts {:?} and next_values {shape:?}, wanted [B], [B] and [B, M]",
            sums.shape(),
            discounts.shape(),
        ));
    }
    let (sums, discounts, next_values) = (Input::new(sums)?, Input::new(discounts)?, Input::new(next_values)?);
    let mut returns = NewArray::<T>::new(sums.0.py(), next_values.0.shape())?;
    returns::bootstrapped(sums.items(), discounts.items(), next_values.items(), returns.items());
    Ok(returns.array)
}
