//! Rows in.

use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlfast_core::replay::Added;
use rlfast_core::replay::ring::Running;

use super::{Replay, State};
use crate::array::{integers, vector};
use crate::error::{IntoPython as _, SchemaMismatch, mismatch};
use crate::rows::Rows;

type AddedArrays<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

impl State {
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        fields: &Bound<'py, PyDict>,
        rings: Option<&[usize]>,
    ) -> PyResult<AddedArrays<'py>> {
        if self.columns.columns.is_empty() {
            return mismatch!("nothing is laid out yet");
        }
        let mut rows = std::mem::take(&mut self.rows);
        let found = self.columns.find(py, fields, rings.map(<[usize]>::len), &mut rows);
        let added = found.and_then(|()| self.add_rows(py, rings.unwrap_or(&[0]), &rows));
        rows.release();
        self.rows = rows;
        added
    }

    fn add_rows<'py>(&mut self, py: Python<'py>, rings: &[usize], rows: &Rows) -> PyResult<AddedArrays<'py>> {
        let n = rings.len();
        let agents = self.engine.agents();
        // SAFETY: filled by `add` below; on an error they are dropped unread.
        let [index, length, start] = unsafe { [(); 3].map(|()| PyArray1::<i64>::new(py, [n], false)) };
        // SAFETY: as above.
        let returns = unsafe { PyArray1::<f64>::new(py, [n * agents], false) };
        // SAFETY: fresh arrays that nobody else knows, contiguous, each of the length just given.
        let mut added = unsafe {
            Added {
                index: index.as_slice_mut()?,
                episode_return: returns.as_slice_mut()?,
                episode_length: length.as_slice_mut()?,
                episode_start: start.as_slice_mut()?,
            }
        };
        // SAFETY: `find` made a source for each column, good for all rows while the rows are kept alive by the caller.
        unsafe { self.engine.add(rings, &rows.sources, &rows.terminated, &rows.truncated, &mut added) }.python()?;
        let returns =
            if self.engine.scalar_reward() { returns.into_any() } else { returns.reshape([n, agents])?.into_any() };
        Ok((index, returns, length, start))
    }
}

impl State {
    /// A row of ring 0.
    fn append(&mut self, py: Python<'_>, values: [Option<&Bound<'_, PyAny>>; 6]) -> PyResult<i64> {
        let Self { engine, columns, rows, .. } = self;
        if columns.columns.is_empty() {
            return mismatch!("nothing is laid out yet");
        }
        columns.find_named(py, values, rows)?;
        let (mut index, mut length, mut start) = ([0], [0], [0]);
        let mut one = [0.0];
        let mut many = Vec::new();
        let agents = engine.agents();
        let episode_return = if agents == 1 {
            &mut one[..]
        } else {
            many.resize(agents, 0.0);
            &mut many[..]
        };
        let mut added =
            Added { index: &mut index, episode_return, episode_length: &mut length, episode_start: &mut start };
        // SAFETY: `find_named` made a source for each column, good while the values live, which the caller holds.
        let result = unsafe { engine.add(&[0], &rows.sources, &rows.terminated, &rows.truncated, &mut added) }.python();
        rows.release();
        result.map(|()| index[0])
    }
}

/// Ring numbers, one for each row.
fn ring_numbers(rings: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let (rings, _) = integers(rings)?;
    if let Some(bad) = rings.iter().find(|&&r| r < 0) {
        return Err(PyIndexError::new_err(format!("ring {bad} is not there; rings count from 0")));
    }
    Ok(rings.into_iter().map(|r| r as usize).collect())
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (fields, rings = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyDict>,
        rings: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<AddedArrays<'py>> {
        let rings = match rings {
            None => None,
            Some(rings) => Some(ring_numbers(rings)?),
        };
        self.lock(py).add(py, fields, rings.as_deref())
    }

    #[pyo3(signature = (*, obs, act, rew, terminated, truncated, obs_next = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments")]
    fn append<'py>(
        &self,
        obs: &Bound<'py, PyAny>,
        act: &Bound<'py, PyAny>,
        rew: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        obs_next: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = obs.py();
        let values = [Some(obs), Some(act), Some(rew), Some(terminated), Some(truncated), obs_next];
        let mut state = self.lock(py);
        let refused = match &state.careful {
            Some((_, true)) => None,
            _ => match state.append(py, values) {
                Ok(index) => return Ok(index.into_pyobject(py)?.into_any()),
                Err(error) if error.is_instance_of::<SchemaMismatch>(py) => Some(error),
                Err(error) => return Err(error),
            },
        };
        let careful = state.careful.as_ref().map(|(careful, _)| careful.clone_ref(py));
        drop(state);
        let Some(careful) = careful else { return Err(refused.expect("without `careful`, the row was tried")) };
        let row = PyDict::new(py);
        for (name, value) in ["obs", "act", "rew", "terminated", "truncated", "obs_next"].iter().zip(values) {
            if let Some(value) = value {
                row.set_item(name, value)?;
            }
        }
        careful.bind(py).call1((row,))
    }

    #[pyo3(signature = (careful, always = false))]
    fn on_mismatch(&self, py: Python<'_>, careful: Py<PyAny>, always: bool) {
        self.lock(py).careful = Some((careful, always));
    }

    fn close_episode(&self, py: Python<'_>, ring: usize) -> PyResult<()> {
        self.lock(py).engine.close_episode(ring).python()
    }

    #[pyo3(signature = (ring = None, keep_statistics = false))]
    fn reset(&self, py: Python<'_>, ring: Option<usize>, keep_statistics: bool) -> PyResult<()> {
        self.lock(py).engine.reset(ring, keep_statistics).python()
    }

    fn load(&self, py: Python<'_>, fields: &Bound<'_, PyDict>, sizes: Vec<usize>, cursors: Vec<usize>) -> PyResult<()> {
        let mut state = self.lock(py);
        let state = &mut *state;
        let mut rows = Rows::default();
        state.columns.find(py, fields, Some(state.engine.rings().total()), &mut rows)?;
        // SAFETY: `find` made a source for each column, good for all rows while `fields` lives.
        unsafe { state.engine.load(&rows.sources, (&rows.terminated, &rows.truncated), &sizes, &cursors) }.python()
    }

    fn running<'py>(&self, py: Python<'py>, ring: usize) -> PyResult<(Bound<'py, PyAny>, u64, usize)> {
        let (running, offset, scalar) = {
            let state = self.lock(py);
            let running = state.engine.running(ring).python()?.clone();
            (running, state.engine.rings()[ring].offset, state.engine.scalar_reward())
        };
        let total = match &running.episode_return[..] {
            [] => 0.0_f64.into_pyobject(py)?.into_any(),
            [one] if scalar => one.into_pyobject(py)?.into_any(),
            many => vector(py, many).into_any(),
        };
        Ok((total, running.length, offset + running.start))
    }

    fn set_running(
        &self,
        py: Python<'_>,
        ring: usize,
        episode_return: &Bound<'_, PyAny>,
        length: u64,
        start: usize,
    ) -> PyResult<()> {
        let episode_return = match episode_return.extract::<f64>() {
            Ok(one) => vec![one],
            Err(_) => episode_return.extract::<Vec<f64>>()?,
        };
        let mut state = self.lock(py);
        state.engine.running(ring).python()?;
        let (offset, capacity) = (state.engine.rings()[ring].offset, state.engine.rings()[ring].capacity);
        if start < offset || start >= offset + capacity.max(1) {
            return Err(PyValueError::new_err(format!("an episode of ring {ring} cannot start at row {start}")));
        }
        state.engine.set_running(ring, Running { episode_return, length, start: start - offset }).python()
    }
}
