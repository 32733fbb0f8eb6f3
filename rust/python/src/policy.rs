//! `ExportedPolicy`: a trained policy from a file of `rlfast export`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::Element as _;
use rlfast_core::nn::{Observations, ObservedArray, Policy};
use rlfast_core::rng::torch::Generator;

use crate::prelude::*;

/// A trained policy.
#[pyclass(frozen, module = "rlfast._core")]
pub struct ExportedPolicy {
    policy: Policy,
    generator: Mutex<Generator>,
    /// The hidden states after the last step, row by row; empty where episodes begin.
    hidden: Mutex<Vec<f32>>,
}

#[pymethods]
impl ExportedPolicy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let policy = Policy::open(&path).python()?;
        Ok(Self { policy, generator: Mutex::new(Generator::of_policy(0)), hidden: Mutex::default() })
    }

    #[pyo3(signature = (obs, *, deterministic = None))]
    fn __call__<'py>(&self, obs: &Object<'py>, deterministic: Option<bool>) -> PyResult<Object<'py>> {
        if !self.policy.observation()[0].keys.is_empty() {
            let (rows, numbers) = self.gathered(obs)?;
            return self.step(obs.py(), Observations::Doubles(&numbers), rows, deterministic);
        }
        let (converted, doubles);
        let array = match array::of(obs) {
            Some(array) => array,
            None => {
                converted = array::from_any(obs, None)?;
                &converted
            }
        };
        let rows = rows_of(array.shape(), &self.policy.observation()[0])?;
        // SAFETY: the thread stays attached while they are read, and runs nothing of Python's.
        let seen = if let Some(singles) = unsafe { array::elements(array) } {
            Observations::Singles(singles)
        } else {
            check_kind(array)?;
            doubles = array::from_any(array, Some(f64::get_dtype(array.py())))?;
            // SAFETY: as above.
            Observations::Doubles(unsafe { array::elements(&doubles) }.expect("invariant: NumPy made doubles"))
        };
        self.step(obs.py(), seen, rows, deterministic)
    }

    #[pyo3(signature = (rows = None))]
    fn reset(&self, rows: Option<&Object<'_>>) -> PyResult<()> {
        let size = self.policy.hidden();
        let Some(rows) = rows else {
            self.kept().clear();
            return Ok(());
        };
        let rows = array::from_any(rows, None)?;
        let is_mask = array::kind(&rows) == b'b';
        if !is_mask && (!b"iu".contains(&array::kind(&rows)) || rows.shape().len() != 1) {
            return Err(raised!(PyTypeError, "rows are a flag for each observation, or numbers of rows"));
        }
        let numbers = array::from_any(&rows, Some(i64::get_dtype(rows.py())))?;
        // SAFETY: the thread stays attached while they are read, and runs nothing of Python's.
        let numbers = unsafe { array::elements::<i64>(&numbers) }.expect("invariant: NumPy made integers");
        let known = self.kept().len().checked_div(size).unwrap_or(0);
        if known == 0 {
            return Ok(()); // all episodes are at their beginning
        }
        if is_mask && numbers.len() != known {
            return Err(raised!(PyValueError, "there are {known} hidden states, got {} flags", numbers.len()));
        }
        let chosen = numbers.iter().enumerate().filter(|(_, flag)| !is_mask || **flag != 0);
        let chosen: Vec<i64> = chosen.map(|(k, &number)| if is_mask { k as i64 } else { number }).collect();
        if let Some(row) = chosen.iter().find(|&&row| !(0..known as i64).contains(&row)) {
            return Err(raised!(PyIndexError, "there are {known} hidden states, and none is that of row {row}"));
        }
        let mut hidden = self.kept();
        for row in chosen {
            hidden.iter_mut().skip(row as usize * size).take(size).for_each(|number| *number = 0.0);
        }
        Ok(())
    }

    fn seed(&self, seed: u64) {
        *self.generator.lock().unwrap_or_else(PoisonError::into_inner) = Generator::of_policy(seed);
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        py.import("json")?.call_method1("loads", (self.policy.description(),))
    }

    fn __repr__(&self) -> String {
        let arrays = self.policy.observation().iter().map(|array| match array.keys.as_slice() {
            [] => format!("{:?}", array.shape),
            keys => format!("{} {:?}", keys.join("."), array.shape),
        });
        let arrays: Vec<String> = arrays.collect();
        format!("ExportedPolicy(observations of {}, actions of {:?})", arrays.join(", "), self.policy.action_shape())
    }
}

/// The number of observations in an array; None for a single one.
fn rows_of(given: &[usize], known: &ObservedArray) -> PyResult<Option<usize>> {
    let shape = known.shape.as_slice();
    match given.split_first() {
        _ if given == shape => Ok(None),
        Some((&rows, rest)) if rest == shape => Ok(Some(rows)),
        _ => Err(raised!(
            PyValueError,
            "{} has the shape {shape:?}, and of several it has one more axis before these; got {given:?}",
            if known.keys.is_empty() { "an observation".to_owned() } else { format!("{:?}", known.keys.join(".")) }
        )),
    }
}

fn check_kind(array: &Array<'_>) -> PyResult<()> {
    if b"biuf".contains(&array::kind(array)) {
        return Ok(());
    }
    Err(raised!(PyTypeError, "observations are numbers, got an array of {}", array.dtype()))
}

impl ExportedPolicy {
    /// No Python runs while the lock is held.
    fn kept(&self) -> MutexGuard<'_, Vec<f32>> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hidden states before a step of so many rows.
    fn hidden_of(&self, rows: usize) -> PyResult<Vec<f32>> {
        let size = self.policy.hidden();
        if size == 0 {
            return Ok(Vec::new());
        }
        let hidden = vectors::copied(&self.kept()).python()?;
        if hidden.is_empty() {
            return vectors::filled(0.0, rows.saturating_mul(size)).python();
        }
        if hidden.len() != rows.saturating_mul(size) {
            return Err(raised!(
                PyValueError,
                "there are hidden states of {} observations, and this step has {rows}: begin new episodes with reset()",
                hidden.len() / size
            ));
        }
        Ok(hidden)
    }

    /// The numbers of observations that are dicts, row by row, and their rows, None for a single one.
    fn gathered(&self, obs: &Object<'_>) -> PyResult<(Option<usize>, Vec<f64>)> {
        let (mut arrays, mut found) = (Vec::new(), None);
        for known in self.policy.observation() {
            let name = known.keys.join(".");
            let mut value = obs.clone();
            for key in &known.keys {
                value = value.get_item(key).map_err(|_| {
                    let kind = obs.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
                    raised!(PyValueError, "observations are dicts that have {name:?}, and this {kind} has not")
                })?;
            }
            let array = array::from_any(&value, None)?;
            check_kind(&array)?;
            let rows = rows_of(array.shape(), known)?;
            if *found.get_or_insert(rows) != rows {
                return Err(raised!(PyValueError, "{name:?} has another number of rows than what is before it"));
            }
            arrays.push(array::from_any(&array, Some(f64::get_dtype(obs.py())))?);
        }
        let rows = found.flatten();
        let mut numbers = vectors::with_room(rows.unwrap_or(1).saturating_mul(self.policy.numbers())).python()?;
        for row in 0..rows.unwrap_or(1) {
            for array in &arrays {
                // SAFETY: the thread stays attached while they are read, and runs nothing of Python's.
                let all = unsafe { array::elements::<f64>(array) }.expect("invariant: NumPy made doubles");
                let width = all.len() / rows.unwrap_or(1);
                numbers.extend_from_slice(&all[row * width..][..width]);
            }
        }
        Ok((rows, numbers))
    }

    /// Draws what is drawn, and takes a step of so many rows, or of a single one for None.
    fn step<'py>(
        &self,
        py: Python<'py>,
        obs: Observations<'_>,
        rows: Option<usize>,
        deterministic: Option<bool>,
    ) -> PyResult<Object<'py>> {
        let mut hidden = self.hidden_of(rows.unwrap_or(1))?;
        let draws = if deterministic.unwrap_or(!self.policy.is_random()) {
            None
        } else {
            let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
            Some(self.policy.draws(rows.unwrap_or(1), &mut generator).python()?)
        };
        let actions = self.act(py, obs, &mut hidden, rows, draws.as_deref())?;
        if !hidden.is_empty() {
            *self.kept() = hidden;
        }
        Ok(actions)
    }

    /// The actions of so many rows, or one action for None.
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: Observations<'_>,
        hidden: &mut [f32],
        rows: Option<usize>,
        draws: Option<&[f32]>,
    ) -> PyResult<Object<'py>> {
        let policy = &self.policy;
        let mut room = [0; array::NPY_MAXDIMS];
        let shape = array::join(rows.as_slice(), policy.action_shape(), &mut room)?;
        if policy.is_discrete() {
            if shape.is_empty() {
                let mut action = [0];
                policy.choose(obs, hidden, draws, &mut action).python()?;
                return Ok(action[0].into_pyobject(py)?.into_any());
            }
            let mut actions = NewArray::new(py, shape)?;
            policy.choose(obs, hidden, draws, actions.items()).python()?;
            return Ok(actions.array);
        }
        if policy.is_double() {
            let mut actions = NewArray::new(py, shape)?;
            policy.control(obs, hidden, draws, actions.items()).python()?;
            return Ok(actions.array);
        }
        let mut actions = NewArray::<f32>::new(py, shape)?;
        let mut doubles = vectors::filled(0.0, actions.items().len()).python()?;
        policy.control(obs, hidden, draws, &mut doubles).python()?;
        actions.items().iter_mut().zip(doubles).for_each(|(action, double)| *action = double as f32);
        Ok(actions.array)
    }
}
