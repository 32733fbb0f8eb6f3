//! `rlfast.functional.returns` over the core's kernels: arrays in, checked, and fresh arrays out.

use numpy::{Element, PyArrayDyn, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict as _;
use rlfast_core::returns::{self, BufferRows, Ends, Floats, Real, VTrace};
use rlfast_core::vectors::product;

use crate::array::{integers, unfilled};
use crate::error::IntoPython as _;

type Object<'py> = Bound<'py, PyAny>;

/// Elements from which on work takes several milliseconds, so that others should have the interpreter meanwhile.
const LONG: usize = 1 << 23;

/// A float type that arrays may have.
trait Float: Real + Element {}
impl Float for f32 {}
impl Float for f64 {}

/// Calls a generic function with the float type of an array: float32, or else float64.
macro_rules! by_dtype {
    ($of:expr, $Float:ident => $call:expr) => {
        if $of.cast::<PyArrayDyn<f32>>().is_ok() {
            type $Float = f32;
            $call
        } else {
            type $Float = f64;
            $call
        }
    };
}

/// What every estimator needs; time is the first axis, and the others are independent columns.
struct RollOut<'a, 'py> {
    rewards: &'a Object<'py>,
    terminated: &'a Object<'py>,
    truncated: Option<&'a Object<'py>>,
    shape: Vec<usize>,
}

impl<'a, 'py> RollOut<'a, 'py> {
    fn new(
        rewards: &'a Object<'py>,
        terminated: &'a Object<'py>,
        truncated: Option<&'a Object<'py>>,
    ) -> PyResult<Self> {
        let shape = array("rewards", rewards)?.shape().to_vec();
        if shape.is_empty() {
            return Err(PyValueError::new_err("rewards: got a single number, wanted [T] or [T, N]"));
        }
        Ok(Self { rewards, terminated, truncated, shape })
    }

    /// An array of the roll-out's shape.
    fn array<T: Element>(&self, name: &str, object: &Object<'py>) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
        let typed = typed::<T>(name, object)?;
        if typed.shape() != self.shape {
            let (got, wanted) = (typed.shape(), &self.shape);
            return Err(PyValueError::new_err(format!(
                "{name}: got shape {got:?}, wanted that of rewards, {wanted:?}"
            )));
        }
        packed(typed)
    }

    /// An array of the roll-out's shape, of either float type.
    fn floats(&self, name: &str, object: &Object<'py>) -> PyResult<EitherFloat<'py>> {
        if object.cast::<PyArrayDyn<f32>>().is_ok() {
            return Ok(EitherFloat::F32(self.array(name, object)?));
        }
        Ok(EitherFloat::F64(self.array(name, object)?))
    }

    /// A fresh, unfilled array of the roll-out's shape.
    fn output<T: Float>(&self) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
        output(self.rewards.py(), &self.shape)
    }

    /// Runs `kernel` on the rewards, named inputs of the same shape and the ends of episodes; its outputs are fresh arrays.
    #[inline(always)]
    fn estimate<T: Float, const I: usize, const O: usize>(
        &self,
        inputs: [(&str, &Object<'py>); I],
        kernel: impl FnOnce(&[T], [&[T]; I], Ends<'_>, [&mut [T]; O]) + Send,
    ) -> PyResult<[Object<'py>; O]> {
        let rewards = self.array::<T>("rewards", self.rewards)?;
        let inputs = each(inputs, |(name, object)| self.array::<T>(name, object))?;
        let outputs = each([(); O], |()| self.output::<T>())?;
        let mut locked = each(outputs.each_ref(), |output| Ok(output.try_readwrite()?))?;
        let (rewards, inputs) = (rewards.as_slice()?, each(inputs.each_ref(), |input| Ok(input.as_slice()?))?);
        let filled = each(locked.each_mut(), |output| Ok(output.as_slice_mut()?))?;
        self.run(|ends| kernel(rewards, inputs, ends, filled))?;
        drop(locked);
        Ok(outputs.map(Bound::into_any))
    }

    /// Runs `kernel` with the ends of episodes, unless there is nothing to do.
    fn run(&self, kernel: impl FnOnce(Ends<'_>) + Send) -> PyResult<()> {
        let terminated = self.array::<bool>("terminated", self.terminated)?;
        let truncated = self.truncated.map(|flags| self.array::<bool>("truncated", flags)).transpose()?;
        let (terminated, truncated) = (terminated.as_slice()?, truncated.as_ref().map(|flags| flags.as_slice()));
        let truncated = truncated.transpose()?;
        let columns: usize = self.shape[1..].iter().product();
        if !terminated.is_empty() {
            let elements = terminated.len();
            away(self.rewards.py(), elements, || kernel(Ends::new(terminated, truncated, columns)));
        }
        Ok(())
    }
}

/// What `make` gives for each item, or its first error.
#[inline(always)]
fn each<A, B, const N: usize>(items: [A; N], mut make: impl FnMut(A) -> PyResult<B>) -> PyResult<[B; N]> {
    let mut error = None;
    let made = items.map(|item| make(item).map_err(|failed| error.get_or_insert(failed)).ok());
    match error {
        Some(error) => Err(error),
        None => Ok(made.map(|item| item.expect("invariant: there was no error"))),
    }
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

fn fraction(name: &str, value: f64) -> PyResult<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name}: got {value}, wanted a number from 0 to 1")))
}

/// Advantages by generalized advantage estimation: `rlfast.functional.gae`.
#[pyfunction]
#[pyo3(signature = (rewards, values, next_values, terminated, truncated, gamma, gae_lambda, /))]
pub fn gae<'py>(
    rewards: &Object<'py>,
    values: &Object<'py>,
    next_values: &Object<'py>,
    terminated: &Object<'py>,
    truncated: Option<&Object<'py>>,
    gamma: f64,
    gae_lambda: f64,
) -> PyResult<Object<'py>> {
    fraction("gamma", gamma)?;
    fraction("gae_lambda", gae_lambda)?;
    let roll_out = RollOut::new(rewards, terminated, truncated)?;
    let inputs = [("values", values), ("next_values", next_values)];
    let [advantages] = by_dtype!(rewards, T => roll_out.estimate::<T, _, _>(inputs, |rewards, [values, next_values], ends, [out]| {
        returns::gae(rewards, values, next_values, ends, gamma, gae_lambda, out);
    }))?;
    Ok(advantages)
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
    unfinished: &Object<'py>,
    gamma: f64,
    gae_lambda: f64,
) -> PyResult<(Object<'py>, Object<'py>)> {
    fraction("gamma", gamma)?;
    fraction("gae_lambda", gae_lambda)?;
    let roll_out = RollOut::new(rewards, terminated, Some(truncated))?;
    let rewards = roll_out.floats("rewards", rewards)?;
    let values = values.map(|values| roll_out.floats("values", values)).transpose()?;
    let next_values = next_values.map(|values| roll_out.floats("next_values", values)).transpose()?;
    let terminated = roll_out.array::<bool>("terminated", terminated)?;
    let truncated = roll_out.array::<bool>("truncated", truncated)?;
    let places = roll_out.array::<i64>("indices", places)?;
    let (returns, advantages) = (roll_out.output::<f64>()?, roll_out.output::<f64>()?);
    let (mut filled_returns, mut filled_advantages) = (returns.try_readwrite()?, advantages.try_readwrite()?);
    let (returns_out, advantages_out) = (filled_returns.as_slice_mut()?, filled_advantages.as_slice_mut()?);
    let values = values.as_ref().map(EitherFloat::as_floats).transpose()?;
    let next_values = next_values.as_ref().map(EitherFloat::as_floats).transpose()?;
    let rewards = rewards.as_floats()?;
    let flags = (terminated.as_slice()?, truncated.as_slice()?);
    let mut unfinished = integers(unfinished)?.0;
    unfinished.sort_unstable();
    let rows = BufferRows { places: places.as_slice()?, unfinished: &unfinished };
    away(roll_out.rewards.py(), rows.places.len(), || {
        returns::episodic(rewards, values, next_values, flags, rows, gamma, gae_lambda, returns_out, advantages_out);
    });
    Ok((returns.into_any(), advantages.into_any()))
}

/// An array that may be of either float type.
enum EitherFloat<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

impl EitherFloat<'_> {
    fn as_floats(&self) -> PyResult<Floats<'_>> {
        Ok(match self {
            Self::F32(array) => Floats::F32(array.as_slice()?),
            Self::F64(array) => Floats::F64(array.as_slice()?),
        })
    }
}

/// Discounted returns: `rlfast.functional.discounted_returns`.
#[pyfunction]
#[pyo3(signature = (rewards, next_values, terminated, truncated, gamma, /))]
pub fn discounted_returns<'py>(
    rewards: &Object<'py>,
    next_values: Option<&Object<'py>>,
    terminated: &Object<'py>,
    truncated: Option<&Object<'py>>,
    gamma: f64,
) -> PyResult<Object<'py>> {
    fraction("gamma", gamma)?;
    let roll_out = RollOut::new(rewards, terminated, truncated)?;
    let [discounted] = by_dtype!(rewards, T => match next_values {
        Some(values) => roll_out.estimate::<T, _, _>([("next_values", values)], |rewards, [values], ends, [out]| {
            returns::discounted(rewards, Some(values), ends, gamma, out);
        }),
        None => roll_out.estimate::<T, _, _>([], |rewards, [], ends, [out]| {
            returns::discounted(rewards, None, ends, gamma, out);
        }),
    })?;
    Ok(discounted)
}

/// Sums of rewards with what follows them: `BasePolicy.compute_nstep_return`.
#[pyfunction]
#[pyo3(signature = (sums, discounts, next_values, /))]
pub fn bootstrapped<'py>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    by_dtype!(next_values, T => bootstrapped_of::<T>(sums, discounts, next_values))
}

fn bootstrapped_of<'py, T: Float>(
    sums: &Object<'py>,
    discounts: &Object<'py>,
    next_values: &Object<'py>,
) -> PyResult<Object<'py>> {
    let py = sums.py();
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
    let returns = output::<T>(py, shape)?;
    let mut filled = returns.try_readwrite()?;
    returns::bootstrapped(sums.as_slice()?, discounts.as_slice()?, next_values.as_slice()?, filled.as_slice_mut()?);
    Ok(returns.into_any())
}

/// N-step returns along a roll-out: `rlfast.functional.nstep_returns`.
#[pyfunction]
#[pyo3(signature = (rewards, next_values, terminated, truncated, n_step, gamma, /))]
pub fn nstep_returns<'py>(
    rewards: &Object<'py>,
    next_values: &Object<'py>,
    terminated: &Object<'py>,
    truncated: Option<&Object<'py>>,
    n_step: i64,
    gamma: f64,
) -> PyResult<Object<'py>> {
    fraction("gamma", gamma)?;
    let steps = usize::try_from(n_step).ok().filter(|&steps| steps > 0);
    let steps = steps.ok_or_else(|| PyValueError::new_err(format!("n_step: got {n_step}, wanted at least 1")))?;
    let roll_out = RollOut::new(rewards, terminated, truncated)?;
    let inputs = [("next_values", next_values)];
    let [targets] = by_dtype!(rewards, T => roll_out.estimate::<T, _, _>(inputs, |rewards, [next_values], ends, [out]| {
        returns::nstep(rewards, next_values, ends, steps, gamma, out);
    }))?;
    Ok(targets)
}

/// V-trace targets and advantages: `rlfast.functional.vtrace`.
#[pyfunction]
#[pyo3(signature = (rewards, values, next_values, log_ratios, terminated, truncated,
                    gamma, trace_lambda, rho_bar, c_bar, /))]
#[expect(clippy::too_many_arguments, reason = "they are those of the Python function")]
pub fn vtrace<'py>(
    rewards: &Object<'py>,
    values: &Object<'py>,
    next_values: &Object<'py>,
    log_ratios: &Object<'py>,
    terminated: &Object<'py>,
    truncated: Option<&Object<'py>>,
    gamma: f64,
    trace_lambda: f64,
    rho_bar: f64,
    c_bar: f64,
) -> PyResult<(Object<'py>, Object<'py>)> {
    fraction("gamma", gamma)?;
    fraction("trace_lambda", trace_lambda)?;
    for (name, bound) in [("rho_bar", rho_bar), ("c_bar", c_bar)] {
        if bound.is_nan() || bound <= 0.0 {
            return Err(PyValueError::new_err(format!("{name}: got {bound}, wanted a positive number")));
        }
    }
    let roll_out = RollOut::new(rewards, terminated, truncated)?;
    let options = VTrace { gamma, trace_lambda, rho_bar, c_bar };
    let inputs = [("values", values), ("next_values", next_values), ("log_ratios", log_ratios)];
    let [targets, advantages] = by_dtype!(rewards, T => {
        roll_out.estimate::<T, _, _>(inputs, |rewards, [values, next_values, ratios], ends, [targets, advantages]| {
            returns::vtrace(rewards, values, next_values, ratios, ends, options, targets, advantages);
        })
    })?;
    Ok((targets, advantages))
}
