//! Writing rows.

use std::sync::atomic::Ordering;

use rlfast_core::error::Result;
use rlfast_core::replay::Added;
use rlfast_core::replay::rings::ring_numbers;

use super::{LastAdded, Replay};
use crate::array::vector;
use crate::columns::{Columns, State};
use crate::error::SchemaMismatch;
use crate::objects::IncomingObjects;
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
        self.last_added.with(py, |last| {
            let LastAdded { columns, rows } = &mut **last;
            let mut done = columns.as_ref().map_or(Ok(None), |columns| work(columns, rows));
            let is_refused = match &done {
                Ok(done) => done.is_none(),
                Err(error) => error.is_instance_of::<SchemaMismatch>(py),
            };
            if is_refused {
                rows.release();
                let columns = columns.insert(self.columns_now(py));
                if columns.schema.columns().is_empty() {
                    return mismatch!("nothing is laid out yet");
                }
                done = work(columns, rows);
            }
            rows.release();
            // None: another thread defined columns while a row was looked at. The row is looked at again with more care.
            done?.map_or_else(|| mismatch!("the columns have changed meanwhile"), Ok)
        })
    }
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (fields, rings = None, objects = None, emptied = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyDict>,
        rings: Option<Index>,
        objects: Option<Items<Object<'py>>>,
        emptied: Option<usize>,
    ) -> PyResult<AddedArrays<'py>> {
        let rings = rings.map(|rings| ring_numbers(rings.values)).transpose().python()?;
        if emptied.is_some_and(|ring| ring >= self.capacities.len()) {
            return Err(raised!(PyIndexError, "there are {} rings, got {emptied:?}", self.capacities.len()));
        }
        self.with_columns(py, |columns, rows| {
            columns.find(py, fields, rings.as_ref().map(Vec::len), rows)?;
            let rings = rings.as_deref().unwrap_or(&[0]);
            let add = |state: &mut State, added: &mut Added<'_>| -> Result<Option<()>> {
                // SAFETY: the rows were found for these columns, each with a source that is good for all of them: the memory is kept
                // alive by them, or by the caller's arguments.
                let done = unsafe { state.add(columns, rings, &rows.found, added) }?;
                match emptied.filter(|_| done.is_some()) {
                    Some(ring) => state.rows_mut().reset(Some(ring), false).map(|()| done),
                    None => Ok(done),
                }
            };
            let (done, arrays) = if columns.objects.is_empty() && objects.is_none() {
                let mut raised = None;
                let written = columns.added(py, rings.len(), |added| {
                    self.write(py, 0, |state| add(state, added)).unwrap_or_else(|error| {
                        raised = Some(error);
                        Ok(None)
                    })
                });
                raised.map_or(written, Err)?
            } else {
                let given = objects.as_deref().unwrap_or_default();
                let mut objects = IncomingObjects::find(&columns.objects, given, self.total, rings.len())?;
                self.add_with_objects(py, columns, rings, &mut objects, add)?
            };
            Ok(done.map(|()| arrays))
        })
    }

    #[pyo3(signature = (careful, always = false))]
    fn on_mismatch(&self, py: Python<'_>, careful: Py<PyAny>, always: bool) {
        drop(self.fallback.with(py, |fallback| fallback.replace(Arc::new(careful))));
        self.always_falls_back.store(always, Ordering::Relaxed);
    }

    fn close_episode(&self, py: Python<'_>, ring: usize) -> PyResult<()> {
        self.write(py, 0, |state| state.rows_mut().close_episode(ring))?.python()
    }

    #[pyo3(signature = (ring = None, keep_statistics = false))]
    fn reset(&self, py: Python<'_>, ring: Option<usize>, keep_statistics: bool) -> PyResult<()> {
        self.write(py, 0, |state| state.rows_mut().reset(ring, keep_statistics))?.python()
    }

    #[pyo3(signature = (fields, sizes, cursors, known = None, objects = None, keep = false, cleared = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments")]
    fn load(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyDict>,
        sizes: Items<usize>,
        cursors: Items<usize>,
        known: Option<Items<bool>>,
        objects: Option<Items<Object<'_>>>,
        keep: bool,
        cleared: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (columns, mut rows) = (self.columns_now(py), RowSources::default());
        columns.find(py, fields, Some(self.total), &mut rows)?;
        let (found, known) = (&rows.found, known.as_deref());
        // SAFETY: as in `add`.
        let load = |state: &mut State| unsafe { state.load(&columns, found, known, (&sizes[..], &cursors[..]), keep) };
        let loaded = match objects {
            None => self.write(py, self.total.saturating_mul(columns.schema.row_bytes()), load)?,
            Some(given) => {
                let mut objects = IncomingObjects::find(&columns.objects, &given, self.total, self.total)?;
                self.write_attached(py, &mut objects, |state, objects| {
                    let done = load(state);
                    if matches!(done, Ok(Some(()))) {
                        // SAFETY: attached since the objects were found.
                        unsafe { objects.write(0..self.total) };
                    }
                    done
                })?
            }
        };
        match loaded.python()? {
            None => mismatch!("the columns have changed meanwhile"),
            Some(()) => {
                cleared.into_iter().for_each(|cleared| cleared.clear());
                Ok(())
            }
        }
    }

    fn has_obs_next(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<bool>> {
        Ok(self.state.with(py, |state| state.engine().have_obs_next(&index)).python()?.into())
    }

    fn running<'py>(&self, py: Python<'py>, ring: usize) -> PyResult<(Object<'py>, u64, usize)> {
        let running = |state: &mut State| {
            let engine = state.engine();
            Result::Ok((engine.running(ring)?.clone(), engine.scalar_reward()))
        };
        let (running, scalar) = self.state.with(py, running).python()?;
        let total = match &running.episode_return[..] {
            [] => 0.0_f64.into_pyobject(py)?.into_any(),
            [one] if scalar => one.into_pyobject(py)?.into_any(),
            many => vector(py, many)?,
        };
        Ok((total, running.length, self.offsets[ring] + running.start))
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
        self.write(py, 0, |state| state.rows_mut().set_running(ring, episode_return, length, start))?.python()
    }
}
