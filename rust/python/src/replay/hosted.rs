//! Steps as Stable-Baselines3 and CleanRL have them: a row of each ring a step, in the columns `obs`, `actions`, `obs_next` and,
//! one float32 each, `rewards`, `dones` and `timeouts`. What takes such a host a dozen calls of NumPy is one call here.

use std::sync::LazyLock;

use numpy::{PyArray1, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use rlfast_host::hosted;
use rlfast_host::matching::STEP;

use super::Replay;
use super::reading::Request;
use crate::once::names;
use crate::prelude::*;

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| STEP.map(str::to_owned).to_vec());

#[pymethods]
impl Replay {
    fn record(
        &self,
        obs: &Object<'_>,
        obs_next: &Object<'_>,
        actions: &Object<'_>,
        rewards: &Object<'_>,
        dones: &Object<'_>,
        timeouts: &Object<'_>,
    ) -> PyResult<bool> {
        let py = obs.py();
        let rings = self.state.with(py, |state| state.engine().rings().len());
        self.with_columns(py, |columns, rows| {
            columns.check_plain()?;
            columns.find_step(py, [obs, actions, obs_next, rewards, dones, timeouts], rings, rows)?;
            // SAFETY: `find_step` made a source for each column, good for all rows while the values live, which the caller holds.
            self.write(py, 0, |state| unsafe { state.record(columns, &rows.found) })?.python()
        })
    }

    #[pyo3(signature = (index, keys = None))]
    fn transitions<'py>(
        &self,
        py: Python<'py>,
        index: Index,
        keys: Option<Items<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let request = Request { keys: Some(keys.as_deref().unwrap_or(&KEYS)), ..Request::default() };
        let fields = self.gathered(py, &index, request)?;
        let column_at = |key| match fields.get_item(key)? {
            Some(value) => PyResult::Ok(Some(value.cast_into::<PyArray1<f32>>()?)),
            None => Ok(None),
        };
        let names = names(py);
        let [rewards, dones, timeouts] = [&names.rewards, &names.dones, &names.timeouts].map(|name| name.bind(py));
        if let Some(values) = column_at(rewards)? {
            fields.set_item(rewards, values.reshape([index.len(), 1])?)?;
        }
        if let (Some(ends), Some(cuts)) = (column_at(dones)?, column_at(timeouts)?) {
            let (ends, cuts) = (ends.readonly(), cuts.readonly());
            fields.set_item(dones, column(hosted::terminal(ends.as_slice()?, cuts.as_slice()?).python()?))?;
            fields.del_item(timeouts)?;
        }
        Ok(fields)
    }
}

/// `[B, 1]`.
fn column(values: Vec<f32>) -> Shaped<f32> {
    let rows = values.len();
    Shaped::matrix(values, rows, 1)
}

/// The engine's rows of steps of environments whose rings have `capacity` rows each.
#[pyfunction]
#[pyo3(signature = (steps, capacity, envs = None))]
pub fn step_rows(steps: Index, capacity: i64, envs: Option<Index>) -> PyResult<Shaped<i64>> {
    let Index { values: mut rows, shape } = steps;
    if let Some(Index { shape: beside, .. }) = envs.as_ref().filter(|envs| envs.shape != shape) {
        return Err(raised!(PyValueError, "one environment for each step: got shapes {beside:?} and {shape:?}"));
    }
    hosted::step_rows(&mut rows, capacity, envs.as_ref().map(|envs| &envs.values[..])).python()?;
    Ok(Shaped::new(rows, shape))
}

/// Of the rewards that `follow` gives, with `before` of them after the first: the sum, each times its power, and the discount
/// of what comes after, `[B, 1]` both. The sums are NumPy's to the bit.
#[pyfunction]
pub fn discounted(
    rewards: PyReadonlyArray2<'_, f32>,
    before: PyReadonlyArray1<'_, i64>,
    powers: PyReadonlyArray1<'_, f32>,
    discounts: PyReadonlyArray1<'_, f32>,
) -> PyResult<(Shaped<f32>, Shaped<f32>)> {
    let (rewards, before) = (rewards.as_slice()?, before.as_slice()?);
    let (sums, discounts) =
        hosted::discounted_sums(rewards, before, powers.as_slice()?, discounts.as_slice()?).python()?;
    Ok((column(sums), column(discounts)))
}
