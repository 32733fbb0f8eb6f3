//! Writing rows.

use std::sync::atomic::Ordering;

use rlfast_core::error::Result;
use rlfast_core::replay::Added;

use super::{LastAdded, Replay};
use crate::array::vector;
use crate::columns::{Columns, State};
use crate::error::SchemaMismatch;
use crate::prelude::*;
use crate::rows::{AddedArrays, RowSources};

impl Replay {
    /// Runs work that adds rows to the columns and returns None if those have changed: first with the columns of the last
    /// rows, as reading the present ones takes a lock.
    pub(super) fn with_columns<R>(
        &self,
        py: Python<'_>,
        work: impl Fn(&Arc<Columns>, &mut RowSources) -> PyResult<Option<R>>,
    ) -> PyResult<R> {
        let mut last = self.last_added.take(py).unwrap_or_default();
        let result = self.with_last(py, &mut last, work);
        last.rows.release();
        self.last_added.put(py, last);
        result
    }

    #[inline]
    fn with_last<R>(
        &self,
        py: Python<'_>,
        last: &mut LastAdded,
        work: impl Fn(&Arc<Columns>, &mut RowSources) -> PyResult<Option<R>>,
    ) -> PyResult<R> {
        if let Some(columns) = &last.columns {
            match work(columns, &mut last.rows) {
                Ok(Some(done)) => return Ok(done),
                Err(error) if !error.is_instance_of::<SchemaMismatch>(py) => return Err(error),
                _ => last.rows.release(),
            }
        }
        let columns = last.columns.insert(self.columns_now(py));
        if columns.schema.columns().is_empty() {
            return mismatch!("nothing is laid out yet");
        }
        // None: another thread defined columns while a row was looked at. The row is looked at again with more care.
        work(columns, &mut last.rows)?.map_or_else(|| mismatch!("the columns have changed meanwhile"), Ok)
    }

    fn add_rows<'py>(
        &self,
        py: Python<'py>,
        columns: &Arc<Columns>,
        rings: &[usize],
        rows: &RowSources,
    ) -> PyResult<Option<AddedArrays<'py>>> {
        let add = |added: &mut Added<'_>| {
            // SAFETY: the rows were found for these columns, each with a source that is good for all of them: the memory is kept alive
            // by them, or by the caller's arguments.
            let add = |state: &mut State| unsafe { state.add(columns, rings, &rows.found, added) };
            self.state.with(py, add)
        };
        let (done, arrays) = columns.added(py, rings.len(), add)?;
        Ok(done.map(|()| arrays))
    }
}

/// Ring numbers, one for each row.
fn ring_numbers(rings: Index) -> PyResult<Vec<usize>> {
    let rings = rings.values;
    if let Some(bad) = rings.iter().find(|&&r| r < 0) {
        return Err(raised!(PyIndexError, "ring {bad} is not there; rings count from 0"));
    }
    Ok(rings.into_iter().map(|r| r as usize).collect()) // in the memory of the first
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (fields, rings = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyDict>,
        rings: Option<Index>,
    ) -> PyResult<AddedArrays<'py>> {
        let rings = rings.map(ring_numbers).transpose()?;
        self.with_columns(py, |columns, rows| {
            columns.find(py, fields, rings.as_ref().map(Vec::len), rows)?;
            self.add_rows(py, columns, rings.as_deref().unwrap_or(&[0]), rows)
        })
    }

    #[pyo3(signature = (careful, always = false))]
    fn on_mismatch(&self, py: Python<'_>, careful: Py<PyAny>, always: bool) {
        drop(self.fallback.with(py, |fallback| fallback.replace(Arc::new(careful))));
        self.always_falls_back.store(always, Ordering::Relaxed);
    }

    fn close_episode(&self, py: Python<'_>, ring: usize) -> PyResult<()> {
        self.state.with(py, |state| state.rows_mut().close_episode(ring)).python()
    }

    #[pyo3(signature = (ring = None, keep_statistics = false))]
    fn reset(&self, py: Python<'_>, ring: Option<usize>, keep_statistics: bool) -> PyResult<()> {
        self.state.with(py, |state| state.rows_mut().reset(ring, keep_statistics)).python()
    }

    #[pyo3(signature = (fields, sizes, cursors, known = None))]
    fn load(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyDict>,
        sizes: Items<usize>,
        cursors: Items<usize>,
        known: Option<Items<bool>>,
    ) -> PyResult<()> {
        let (columns, total) = self.state.with(py, |state| (state.columns().clone(), state.engine().rings().total()));
        let mut rows = RowSources::default();
        columns.find(py, fields, Some(total), &mut rows)?;
        let known = known.as_ref().map(|known| &known.0[..]);
        // SAFETY: as in `add_rows`.
        let load = |state: &mut State| unsafe { state.load(&columns, &rows.found, known, &sizes.0, &cursors.0) };
        let loaded = self.state.over(py, total.saturating_mul(columns.schema.row_bytes()), load).python()?;
        loaded.map_or_else(|| mismatch!("the columns have changed meanwhile"), Ok)
    }

    fn has_obs_next(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<bool>> {
        Ok(self.state.with(py, |state| state.engine().have_obs_next(&index.values)).python()?.into())
    }

    fn running<'py>(&self, py: Python<'py>, ring: usize) -> PyResult<(Object<'py>, u64, usize)> {
        let running = |state: &mut State| {
            let engine = state.engine();
            Result::Ok((engine.running(ring)?.clone(), engine.rings()[ring].offset(), engine.scalar_reward()))
        };
        let (running, offset, scalar) = self.state.with(py, running).python()?;
        let total = match &running.episode_return[..] {
            [] => 0.0_f64.into_pyobject(py)?.into_any(),
            [one] if scalar => one.into_pyobject(py)?.into_any(),
            many => vector(py, many)?,
        };
        Ok((total, running.length, offset + running.start))
    }

    fn set_running(
        &self,
        py: Python<'_>,
        ring: usize,
        episode_return: &Object<'_>,
        length: u64,
        start: usize,
    ) -> PyResult<()> {
        let episode_return = match episode_return.extract::<f64>() {
            Ok(one) => vec![one],
            Err(_) => episode_return.extract::<Items<f64>>()?.0,
        };
        let set = |state: &mut State| state.rows_mut().set_running(ring, episode_return, length, start);
        self.state.with(py, set).python()
    }
}
