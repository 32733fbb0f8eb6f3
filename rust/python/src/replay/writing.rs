//! Writing rows.

use std::sync::atomic::Ordering;

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::types::PyInt;
use rlfast_core::error::Result;
use rlfast_core::replay::Added;

use super::{LastAdded, Replay};
use crate::array::vector;
use crate::columns::{Columns, State};
use crate::error::SchemaMismatch;
use crate::objects::IncomingObjects;
use crate::prelude::*;
use crate::rows::{AddedArrays, RowSources};

/// The rings that rows go to.
pub enum Target {
    /// One row, without an axis of rows, goes to this ring.
    One(i64),
    /// A row along the first axis goes to each of these rings.
    Each(Vec<i64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Target {
    type Error = PyErr;

    #[inline]
    fn extract(rings: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if rings.is_exact_instance_of::<PyInt>() {
            return Ok(Self::One(rings.extract()?));
        }
        let py = rings.py();
        match rings.extract::<Index>() {
            Ok(rings) => Ok(Self::Each(rings.values)),
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                Err(raised!(PyTypeError, "buffer ids are integers: {}", error.value(py)))
            }
            Err(error) => Err(error),
        }
    }
}

impl Replay {
    /// Finds rows in what was given, or in what `convert` makes of it, and writes them.
    ///
    /// `find` reads rows that have the form of the columns already: `convert` would return them as they are. Other rows are
    /// converted once, and again only if another thread changed the columns meanwhile.
    pub(super) fn put<'py, R>(
        &self,
        py: Python<'py>,
        count: Option<usize>,
        find: impl Fn(&Columns, &mut RowSources) -> PyResult<()>,
        given: impl FnOnce() -> PyResult<Object<'py>>,
        write: impl Fn(&Arc<Columns>, &RowSources, &[Object<'py>]) -> PyResult<Option<R>>,
    ) -> PyResult<R> {
        let mut refused = None;
        if !self.always_converts.load(Ordering::Relaxed) {
            let written = self.with_columns(py, |columns, rows| {
                columns.check_plain()?;
                find(columns, rows)?;
                write(columns, rows, &[])
            });
            match written {
                Err(error) if error.is_instance_of::<SchemaMismatch>(py) => refused = Some(error),
                written => return written,
            }
        }
        let Some(convert) = self.convert.with(py, |convert| convert.clone()) else {
            return Err(refused.expect("invariant: without a converter, the rows were tried"));
        };
        let given = given()?;
        loop {
            let converted = convert.bind(py).call1((&given, count))?;
            let (version, fields, objects): (u64, Bound<'py, PyDict>, Items<Object<'py>>) = converted.extract()?;
            let (columns, mut rows) = (self.columns_now(py), RowSources::default());
            if columns.version == version {
                columns.find(py, &fields, count, &mut rows)?;
                if let Some(written) = write(&columns, &rows, &objects)? {
                    return Ok(written);
                }
            }
        }
    }

    /// Runs work that adds rows to the columns and returns None if those have changed: first with the columns of the last
    /// rows, as reading the present ones takes a lock.
    pub(super) fn with_columns<R>(
        &self,
        py: Python<'_>,
        work: impl Fn(&Arc<Columns>, &mut RowSources) -> PyResult<Option<R>>,
    ) -> PyResult<R> {
        self.last_added.with(py, |last| {
            let LastAdded { columns, rows } = &mut **last;
            loop {
                let known = columns.get_or_insert_with(|| self.columns_now(py));
                let done = work(known, rows);
                rows.release();
                let is_refused = match &done {
                    Ok(done) => done.is_none(),
                    Err(error) => error.is_instance_of::<SchemaMismatch>(py),
                };
                if is_refused {
                    let now = self.columns_now(py);
                    if now.version != known.version {
                        *known = now;
                        continue;
                    }
                }
                return done?.map_or_else(|| mismatch!("the columns have changed meanwhile"), Ok);
            }
        })
    }

    /// Returns the number of a ring that can take rows; negative ones count from the end.
    #[inline]
    fn ring(&self, given: i64) -> PyResult<usize> {
        let count = self.capacities.len();
        let ring = if given < 0 { given.saturating_add_unsigned(count as u64) } else { given };
        match usize::try_from(ring).ok().and_then(|ring| Some((ring, *self.capacities.get(ring)?))) {
            None => Err(raised!(PyIndexError, "buffer id {given} is out of range: there are {count} buffers")),
            Some((_, 0)) => Err(raised!(PyValueError, "a buffer of size 0 takes no rows: make it larger")),
            Some((ring, _)) => Ok(ring),
        }
    }

    /// Writes rows, with their objects, in one turn; None if the columns have changed. `emptied` is a ring that is reset
    /// in the same turn.
    pub(super) fn write_rows<'py>(
        &self,
        py: Python<'py>,
        (columns, rows): (&Arc<Columns>, &RowSources),
        objects: &[Object<'py>],
        rings: &[usize],
        emptied: Option<usize>,
    ) -> PyResult<Option<AddedArrays<'py>>> {
        let add = |state: &mut State, added: &mut Added<'_>| -> Result<Option<()>> {
            // SAFETY: the rows were found for these columns, each with a source that is good for all of them: the memory is kept
            // alive by them, or by the caller's arguments.
            let done = unsafe { state.add(columns, rings, &rows.found, added) }?;
            match emptied.filter(|_| done.is_some()) {
                Some(ring) => state.rows_mut().reset(Some(ring), false).map(|()| done),
                None => Ok(done),
            }
        };
        let (done, arrays) = if columns.objects.is_empty() && objects.is_empty() {
            let mut raised = None;
            let written = columns.added(py, rings.len(), |added| {
                self.write(py, 0, |state| add(state, added)).unwrap_or_else(|error| {
                    raised = Some(error);
                    Ok(None)
                })
            });
            raised.map_or(written, Err)?
        } else {
            let mut objects = IncomingObjects::find(&columns.objects, objects, self.total, rings.len())?;
            self.add_with_objects(py, columns, rings, &mut objects, add)?
        };
        Ok(done.map(|()| arrays))
    }
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (batch, rings = None, emptied = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        batch: &Object<'py>,
        rings: Option<Target>,
        emptied: Option<usize>,
    ) -> PyResult<AddedArrays<'py>> {
        let (one, each);
        let (rings, count) = match rings.unwrap_or(Target::One(0)) {
            Target::One(ring) => {
                one = [self.ring(ring)?];
                (&one[..], None)
            }
            Target::Each(rings) => {
                each = rings.into_iter().map(|ring| self.ring(ring)).collect::<PyResult<Vec<_>>>()?;
                (&each[..], Some(each.len()))
            }
        };
        if emptied.is_some_and(|ring| ring >= self.capacities.len()) {
            return Err(raised!(PyIndexError, "there are {} rings, got {emptied:?}", self.capacities.len()));
        }
        let find = |columns: &Columns, rows: &mut RowSources| match columns.fields_of(py, batch)? {
            Some(fields) => columns.find(py, &fields, count, rows),
            None => mismatch!("{} is no batch", batch.get_type().name()?),
        };
        let write = |columns: &Arc<Columns>, rows: &RowSources, objects: &[Object<'py>]| {
            self.write_rows(py, (columns, rows), objects, rings, emptied)
        };
        self.put(py, count, find, || Ok(batch.clone()), write)
    }

    #[pyo3(signature = (convert, always = false))]
    fn convert_by(&self, py: Python<'_>, convert: Py<PyAny>, always: bool) {
        drop(self.convert.with(py, |known| known.replace(Arc::new(convert))));
        self.always_converts.store(always, Ordering::Relaxed);
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
