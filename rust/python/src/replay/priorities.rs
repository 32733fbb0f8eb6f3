//! How rows are drawn by priority.

use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;

use super::{Replay, State};
use crate::array::{integers, vector};
use crate::error::IntoPython as _;
use crate::index::recall;
use crate::segment_tree::SegmentTree;

impl State {
    pub(crate) fn weights(&self, index: &[i64], normalize: Option<bool>) -> Vec<f64> {
        let slots: Vec<usize> = index.iter().map(|&i| i as usize).collect();
        let mut out = vec![0.0; slots.len()];
        let config = &self.engine.config;
        if let Some(priorities) = self.engine.priorities() {
            priorities.weights(&slots, config.beta, normalize.unwrap_or(config.weight_norm), &mut out);
        }
        out
    }
}

fn no_priorities() -> PyErr {
    PyAttributeError::new_err("this buffer draws uniformly: it has no priorities")
}

/// The numbers of an array, as doubles.
fn doubles(values: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let py = values.py();
    if let Ok(array) = values.cast::<PyArray1<f64>>()
        && let Ok(values) = array.to_vec()
    {
        return Ok(values);
    }
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (values, "float64"))?;
    let flat = numpy.call_method1("ascontiguousarray", (array.call_method0("ravel")?,))?;
    Ok(flat.cast_into::<PyArray1<f64>>()?.to_vec()?)
}

#[pymethods]
impl Replay {
    #[getter]
    fn prioritized(&self, py: Python<'_>) -> bool {
        self.lock(py).engine.priorities().is_some()
    }

    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<SegmentTree> {
        let state = self.lock(py);
        let priorities = state.engine.priorities().ok_or_else(no_priorities)?;
        Ok(SegmentTree::sharing(priorities.tree.clone()))
    }

    #[getter]
    fn stale_updates(&self, py: Python<'_>) -> u64 {
        self.lock(py).engine.priorities().map_or(0, |priorities| priorities.stale)
    }

    #[getter]
    fn get_max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.lock(py).engine.priorities().ok_or_else(no_priorities)?.max)
    }

    #[setter]
    fn set_max_priority(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        if !(value > 0.0 && value.is_finite()) {
            return Err(PyValueError::new_err(format!("the largest priority must be finite and > 0, got {value}")));
        }
        self.lock(py).engine.priorities_mut().ok_or_else(no_priorities)?.max = value;
        Ok(())
    }

    #[pyo3(signature = (index, normalize = None))]
    fn weights<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        normalize: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (index, shape) = integers(index)?;
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.priorities().ok_or_else(no_priorities)?;
        let weights = state.weights(&index, normalize);
        drop(state);
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        Ok(vector(py, &weights).reshape(shape)?.into_any())
    }

    fn update_priority(&self, py: Python<'_>, index: &Bound<'_, PyAny>, priority: &Bound<'_, PyAny>) -> PyResult<u64> {
        let generations = recall(index).and_then(|memory| memory.generations);
        let (index, _) = integers(index)?;
        let priority = doubles(priority)?;
        self.lock(py).engine.update_priorities(&index, generations.as_deref(), &priority).python()
    }
}
