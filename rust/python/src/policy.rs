//! `ExportedPolicy`: a trained policy from a file of `rlfast export`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::Element as _;
use rlfast_core::nn::{Observations, Policy};
use rlfast_core::rng::torch::Generator;

use crate::prelude::*;

/// A trained policy.
#[pyclass(frozen, module = "rlfast._core")]
pub struct ExportedPolicy {
    policy: Policy,
    generator: Mutex<Generator>,
}

#[pymethods]
impl ExportedPolicy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let policy = Policy::open(&path).python()?;
        Ok(Self { policy, generator: Mutex::new(Generator::of_policy(0)) })
    }

    #[pyo3(signature = (obs, *, deterministic = None))]
    fn __call__<'py>(&self, obs: &Object<'py>, deterministic: Option<bool>) -> PyResult<Object<'py>> {
        let (converted, doubles);
        let array = match array::of(obs) {
            Some(array) => array,
            None => {
                converted = array::from_any(obs, None)?;
                &converted
            }
        };
        let (given, shape) = (array.shape(), self.policy.shape());
        let rows = if given == shape { None } else { Some(self.rows(given)?) };
        let draws = if deterministic.unwrap_or(!self.policy.is_random()) {
            None
        } else {
            let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
            Some(self.policy.draws(rows.unwrap_or(1), &mut generator).python()?)
        };
        // SAFETY: the thread stays attached while they are read, and runs nothing of Python's.
        let seen = if let Some(singles) = unsafe { array::elements(array) } {
            Observations::Singles(singles)
        } else {
            if !b"biuf".contains(&array::kind(array)) {
                return Err(raised!(PyTypeError, "observations are numbers, got an array of {}", array.dtype()));
            }
            doubles = array::from_any(array, Some(f64::get_dtype(array.py())))?;
            // SAFETY: as above.
            Observations::Doubles(unsafe { array::elements(&doubles) }.expect("invariant: NumPy made doubles"))
        };
        self.act(obs.py(), seen, rows, draws.as_deref())
    }

    /// There is no hidden state: episodes may begin at any time.
    fn reset(&self) {}

    fn seed(&self, seed: u64) {
        *self.generator.lock().unwrap_or_else(PoisonError::into_inner) = Generator::of_policy(seed);
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        py.import("json")?.call_method1("loads", (self.policy.description(),))
    }

    fn __repr__(&self) -> String {
        let (shape, action) = (self.policy.shape(), self.policy.action_shape());
        format!("ExportedPolicy(observations of {shape:?}, actions of {action:?})")
    }
}

impl ExportedPolicy {
    /// The number of observations in an array of this shape.
    fn rows(&self, given: &[usize]) -> PyResult<usize> {
        let shape = self.policy.shape();
        match given.split_first() {
            Some((&rows, rest)) if rest == shape => Ok(rows),
            _ => Err(raised!(
                PyValueError,
                "an observation has the shape {shape:?}, and several have one more axis before these; got {given:?}"
            )),
        }
    }

    /// The actions of so many rows, or one action for None.
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: Observations<'_>,
        rows: Option<usize>,
        draws: Option<&[f32]>,
    ) -> PyResult<Object<'py>> {
        let policy = &self.policy;
        let mut room = [0; array::NPY_MAXDIMS];
        let shape = array::join(rows.as_slice(), policy.action_shape(), &mut room)?;
        if policy.is_discrete() {
            if shape.is_empty() {
                let mut action = [0];
                policy.choose(obs, draws, &mut action).python()?;
                return Ok(action[0].into_pyobject(py)?.into_any());
            }
            let mut actions = NewArray::new(py, shape)?;
            policy.choose(obs, draws, actions.items()).python()?;
            return Ok(actions.array);
        }
        if policy.is_double() {
            let mut actions = NewArray::new(py, shape)?;
            policy.control(obs, draws, actions.items()).python()?;
            return Ok(actions.array);
        }
        let mut actions = NewArray::<f32>::new(py, shape)?;
        let mut doubles = vectors::filled(0.0, actions.items().len()).python()?;
        policy.control(obs, draws, &mut doubles).python()?;
        actions.items().iter_mut().zip(doubles).for_each(|(action, double)| *action = double as f32);
        Ok(actions.array)
    }
}
