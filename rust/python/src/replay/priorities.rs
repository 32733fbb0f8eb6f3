//! How rows are drawn by priority.

use rlfast_core::replay::priorities::Priorities;

use super::Replay;
use crate::columns::State;
use crate::index::Remembering;
use crate::prelude::*;
use crate::segment_tree::SegmentTree;

impl Replay {
    /// Runs a function on the priorities; AttributeError if rows are drawn uniformly.
    fn with_priorities<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut Priorities) -> T + Send,
    ) -> PyResult<T> {
        let answer = self.state.with(py, |state| state.options_mut().priorities_mut().map(question));
        answer.ok_or_else(|| raised!(PyAttributeError, "this buffer draws uniformly: it has no priorities"))
    }
}

#[pymethods]
impl Replay {
    #[getter]
    fn prioritized(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.engine().priorities().is_some())
    }

    #[getter]
    fn stale_updates(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.engine().priorities().map_or(0, Priorities::stale))
    }

    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<SegmentTree> {
        Ok(SegmentTree::of(self.state.clone(), self.with_priorities(py, |priorities| priorities.tree().len())?))
    }

    #[getter]
    fn get_max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_priorities(py, |priorities| priorities.max())
    }

    #[setter]
    fn set_max_priority(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.with_priorities(py, |priorities| priorities.set_max(value))?.python()
    }

    #[pyo3(signature = (index, normalize = None))]
    fn weights(&self, py: Python<'_>, index: Index, normalize: Option<bool>) -> PyResult<Shaped<f64>> {
        self.with_priorities(py, |_| ())?;
        let weigh = |state: &mut State| state.options_mut().weights(&index, normalize);
        let weights = self.state.over(py, index.len() * 16, weigh).python()?;
        Ok(Shaped::new(weights.expect("invariant: a prioritized buffer stays one"), index.shape))
    }

    fn update_priority(&self, py: Python<'_>, index: Remembering, priority: Shaped<f64>) -> PyResult<u64> {
        let (rows, priority) = (index.rows, priority.values);
        let update = |state: &mut State| {
            state.options_mut().update_priorities(&rows.index, rows.generations.as_deref(), &priority)
        };
        self.state.over(py, priority.len() * 16, update).python()
    }
}
