//! How rows are drawn by priority.

use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;
use rlfast_core::error::Result;
use rlfast_core::vectors;

use super::{Replay, State};
use crate::array::{doubles, integers, shaped, vector};
use crate::error::IntoPython as _;
use crate::index::recall;
use crate::segment_tree::SegmentTree;

impl State {
    /// Importance weights; None where there are no priorities.
    ///
    /// # Errors
    /// `Room`.
    pub fn weights(&mut self, index: &[i64], normalize: Option<bool>) -> Result<Option<Vec<f64>>> {
        let engine = self.options_mut();
        let (beta, norm) = (engine.config.beta, normalize.unwrap_or(engine.config.weight_norm));
        let Some(priorities) = engine.priorities_mut() else { return Ok(None) };
        let mut out = vectors::filled(0.0, index.len())?;
        priorities.weights(index, beta, norm, &mut out);
        Ok(Some(out))
    }
}

fn no_priorities() -> PyErr {
    PyAttributeError::new_err("this buffer draws uniformly: it has no priorities")
}

#[pymethods]
impl Replay {
    #[getter]
    fn prioritized(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.engine().priorities().is_some())
    }

    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<SegmentTree> {
        let leaves = self.state.with(py, |state| state.engine().priorities().map(|priorities| priorities.tree.len()));
        Ok(SegmentTree::of(self.state.clone(), leaves.ok_or_else(no_priorities)?))
    }

    #[getter]
    fn stale_updates(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.engine().priorities().map_or(0, |priorities| priorities.stale))
    }

    #[getter]
    fn get_max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        let max = self.state.with(py, |state| state.engine().priorities().map(|priorities| priorities.max));
        max.ok_or_else(no_priorities)
    }

    #[setter]
    fn set_max_priority(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        if !(value > 0.0 && value.is_finite()) {
            return Err(PyValueError::new_err(format!("the largest priority must be finite and > 0, got {value}")));
        }
        let set = self.state.with(py, |state| state.options_mut().priorities_mut().map(|held| held.max = value));
        set.ok_or_else(no_priorities)
    }

    #[pyo3(signature = (index, normalize = None))]
    fn weights<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        normalize: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (index, shape) = integers(index)?;
        let weights = self.state.over(py, index.len() * 16, |state| {
            state.engine().rings().check(&index)?;
            state.weights(&index, normalize)
        });
        let weights = weights.python()?.ok_or_else(no_priorities)?;
        shaped(vector(py, &weights)?, &shape)
    }

    fn update_priority(&self, py: Python<'_>, index: &Bound<'_, PyAny>, priority: &Bound<'_, PyAny>) -> PyResult<u64> {
        let generations = recall(index)?.and_then(|found| found.generations);
        let (index, _) = integers(index)?;
        let (priority, _) = doubles(priority)?;
        let update =
            |state: &mut State| state.options_mut().update_priorities(&index, generations.as_deref(), &priority);
        self.state.over(py, priority.len() * 16, update).python()
    }
}
