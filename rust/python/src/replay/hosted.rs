//! Steps as Stable-Baselines3 and CleanRL have them: a row of each ring a step, in the columns `obs`, `actions`, `obs_next` and,
//! one float32 each, `rewards`, `dones` and `timeouts`. What takes such a host a dozen calls of NumPy is one call here.

use std::sync::{Arc, LazyLock};

use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlfast_core::error::Result;
use rlfast_core::replay::Added;
use rlfast_core::replay::hosted;
use rlfast_core::vectors::{collected, filled};

use super::reading::Request;
use super::{Replay, State};
use crate::array::{integers, shaped};
use crate::columns::Columns;
use crate::error::{IntoPython as _, mismatch};
use crate::items::Items;
use crate::rows::{RowSources, STEP};

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| STEP.map(str::to_owned).to_vec());

type Singles<'py> = Bound<'py, PyArray2<f32>>;

impl State {
    /// A row of each ring; None if the columns are not `columns` any more.
    fn record(&mut self, columns: &Arc<Columns>, rows: &RowSources) -> Result<Option<bool>> {
        if !self.has(columns) {
            return Ok(None);
        }
        let engine = self.rows_mut();
        let rings: Vec<usize> = (0..engine.rings().len()).collect();
        let n = rings.len();
        let (mut index, mut length, mut start) = (vec![0; n], vec![0; n], vec![0; n]);
        let mut returns = vec![0.0; n * engine.agents()];
        let mut added = Added {
            index: &mut index,
            episode_return: &mut returns,
            episode_length: &mut length,
            episode_start: &mut start,
        };
        // SAFETY: `find_step` made a source for each column, good for all rows while the values live, which the caller holds.
        unsafe { engine.add(&rings, &rows.sources, &rows.terminated, &rows.truncated, &mut added) }?;
        Ok(Some(rings.iter().all(|&r| engine.goes_on(r))))
    }
}

#[pymethods]
impl Replay {
    fn record(
        &self,
        obs: &Bound<'_, PyAny>,
        obs_next: &Bound<'_, PyAny>,
        actions: &Bound<'_, PyAny>,
        rewards: &Bound<'_, PyAny>,
        dones: &Bound<'_, PyAny>,
        timeouts: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = obs.py();
        let (columns, rings) = self.state.with(py, |state| (state.columns().clone(), state.engine().rings().len()));
        RowSources::with_scratch(|rows| {
            columns.find_step(py, [obs, actions, obs_next, rewards, dones, timeouts], rings, rows)?;
            let recorded = self.state.with(py, |state| state.record(&columns, rows)).python()?;
            recorded.map_or_else(|| mismatch!("the columns have changed meanwhile"), Ok)
        })
    }

    #[pyo3(signature = (index, keys = None))]
    fn transitions<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        keys: Option<Items<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (index, shape) = integers(index)?;
        let keys = keys.as_ref().map_or(&KEYS[..], |keys| &keys.0);
        let request = Request { keys: Some(keys), ..Request::default() };
        let fields = self.gathered(py, &index, &shape, request)?.nest(py, &self.batch)?;
        if let Some(rewards) = fields.get_item(intern!(py, "rewards"))? {
            let rewards = rewards.cast_into::<PyArray1<f32>>()?;
            fields.set_item(intern!(py, "rewards"), rewards.reshape([index.len(), 1])?)?;
        }
        let timeouts = fields.get_item(intern!(py, "timeouts"))?;
        if let (Some(dones), Some(timeouts)) = (fields.get_item(intern!(py, "dones"))?, timeouts) {
            let dones = dones.cast_into::<PyArray1<f32>>()?.readonly();
            let timeouts = timeouts.cast_into::<PyArray1<f32>>()?.readonly();
            let ends = dones.as_slice()?.iter().zip(timeouts.as_slice()?).map(|(done, timeout)| done * (1.0 - timeout));
            fields.set_item(intern!(py, "dones"), column(py, collected(ends).python()?)?)?;
            fields.del_item(intern!(py, "timeouts"))?;
        }
        Ok(fields)
    }
}

/// `[B, 1]`.
fn column(py: Python<'_>, values: Vec<f32>) -> PyResult<Singles<'_>> {
    let rows = values.len();
    PyArray1::from_vec(py, values).reshape([rows, 1])
}

/// The engine's rows of steps of environments whose rings have `capacity` rows each.
#[pyfunction]
#[pyo3(signature = (steps, capacity, envs = None))]
pub fn step_rows<'py>(
    steps: &Bound<'py, PyAny>,
    capacity: i64,
    envs: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (mut rows, shape) = integers(steps)?;
    let envs = envs.map(integers).transpose()?;
    if let Some((_, beside)) = envs.as_ref().filter(|(_, beside)| *beside != shape) {
        return Err(PyValueError::new_err(format!(
            "one environment for each step: got shapes {beside:?} and {shape:?}"
        )));
    }
    hosted::step_rows(&mut rows, capacity, envs.as_ref().map(|(envs, _)| &envs[..])).python()?;
    shaped(PyArray1::from_vec(steps.py(), rows), &shape)
}

/// Of the rewards that `follow` gives, with `before` of them after the first: the sum, each times its power, and the discount
/// of what comes after, `[B, 1]` both. The sums are NumPy's to the bit.
#[pyfunction]
pub fn discounted<'py>(
    py: Python<'py>,
    rewards: PyReadonlyArray2<'py, f32>,
    before: PyReadonlyArray1<'py, i64>,
    powers: PyReadonlyArray1<'py, f32>,
    discounts: PyReadonlyArray1<'py, f32>,
) -> PyResult<(Singles<'py>, Singles<'py>)> {
    let (rewards, length) = (rewards.as_array(), powers.len()?);
    let (before, powers, discounts) = (before.as_slice()?, powers.as_slice()?, discounts.as_slice()?);
    if rewards.dim() != (before.len(), length)
        || before.iter().any(|&count| count as usize >= discounts.len().min(length))
    {
        return Err(PyValueError::new_err("rewards [B, n] need before [B] below n, and n powers and discounts"));
    }
    let mut terms = filled(0.0, length).python()?;
    let row = |(row, &count): (numpy::ndarray::ArrayView1<'_, f32>, &i64)| {
        let rewards = row.iter().copied();
        hosted::discounted_sum(rewards, powers, count as usize, &mut terms)
    };
    let sums = collected(rewards.outer_iter().zip(before).map(row)).python()?;
    let discounts = collected(before.iter().map(|&count| discounts[count as usize])).python()?;
    Ok((column(py, sums)?, column(py, discounts)?))
}
