//! `Replay`: the engine behind a lock.
//!
//! A method locks the engine, does its work, unlocks it, and only then makes dicts and batches: no Python code runs under
//! the lock. A thread that has to wait for the lock lets go of the interpreter first, since the holder may need it.

use std::path::Path;
use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use numpy::{PyArray1, PyArrayMethods as _};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use rlfast_core::memory::Storage;
use rlfast_core::replay::gather::What;
use rlfast_core::replay::layout::Place;
use rlfast_core::replay::ring::Running;
use rlfast_core::replay::{Added, Config, Replay as Engine, snapshot};

use crate::array::{self, RegionKeeper, integers, vector};
use crate::columns::{Columns, Rows};
use crate::error::{IntoPython as _, mismatch, to_python};
use crate::index::{Memory, recall, remembering};
use crate::segment_tree::SegmentTree;
use crate::taking::{Filled, Plan, single};

/// What the lock guards.
struct State {
    engine: Engine,
    columns: Arc<Columns>,
    /// The plan for all keys, and the stack it is for.
    all: Option<(usize, Arc<Plan>)>,
    rows: Rows,
}

/// The replay engine: typed columns over one or more rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Replay {
    // A mutex and not a read-write lock: sampling moves the random stream, so almost every call writes.
    state: Mutex<State>,
    batch: Py<PyType>,
}

type Columned<'py> = (Bound<'py, PyTuple>, Bound<'py, PyAny>, Vec<usize>);
type AddedArrays<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

type Returns<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>, Bound<'py, PyAny>);
type Goals<'py> = (Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<i64>>);

impl Replay {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Some(guard) => guard,
            None => py.detach(|| self.state.lock()),
        }
    }

    fn ring(state: &State, ring: Option<usize>) -> PyResult<Option<usize>> {
        match ring {
            Some(r) if r >= state.engine.rings().len() => Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "ring {r} is not there; the buffer has {} rings",
                state.engine.rings().len()
            ))),
            _ => Ok(ring),
        }
    }
}

impl State {
    fn plan(&mut self, py: Python<'_>, keys: Option<&[String]>, stack: usize) -> PyResult<Arc<Plan>> {
        if let (None, Some((for_stack, plan))) = (keys, &self.all) {
            if *for_stack == stack {
                return Ok(plan.clone());
            }
        }
        let plan = Arc::new(Plan::new(py, &self.columns, self.engine.reader().python()?, keys, stack)?);
        if keys.is_none() {
            self.all = Some((stack, plan.clone()));
        }
        Ok(plan)
    }

    fn take<'py>(
        &mut self,
        py: Python<'py>,
        index: &[i64],
        shape: &[npy_intp],
        keys: Option<&[String]>,
        stack: Option<usize>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Filled<'py>> {
        self.engine.rings().check(index).python()?;
        let plan = self.plan(py, keys, stack.unwrap_or(self.engine.config.stack_num))?;
        plan.fill(py, &self.columns, self.engine.reader().python()?, index, shape, out)
    }

    fn memory(&self, index: Vec<i64>) -> Memory {
        let generations = index.iter().map(|&i| self.engine.generation(i as usize)).collect();
        Memory { index, generations: Some(generations), goals: None }
    }

    fn find(&self, path: &Bound<'_, PyTuple>) -> PyResult<usize> {
        let wanted: Vec<String> = path.extract()?;
        let at = self.columns.columns.iter().position(|column| column.leaf.path == wanted);
        at.ok_or_else(|| PyKeyError::new_err(wanted.join(".")))
    }

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

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (capacities, *, wrap = None, batch = None, save_obs_next = true, stack_num = 1, sample_avail = false, alpha = None,
        beta = 1.0, weight_norm = true, seed = 0, storage = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a constructor")]
    fn new(
        py: Python<'_>,
        capacities: Vec<usize>,
        wrap: Option<Py<PyAny>>,
        batch: Option<Py<PyType>>,
        save_obs_next: bool,
        stack_num: usize,
        sample_avail: bool,
        alpha: Option<f64>,
        beta: f64,
        weight_norm: bool,
        seed: u64,
        storage: Option<String>,
    ) -> PyResult<Self> {
        let storage = match storage {
            None => Storage::Ram,
            Some(folder) => Storage::file(Path::new(&folder)).python()?,
        };
        let batch = match (batch, wrap) {
            (Some(batch), _) => batch,
            (None, Some(wrap)) => wrap.call1(py, (PyDict::new(py),))?.bind(py).get_type().unbind(),
            (None, None) => return Err(PyValueError::new_err("batch is missing")),
        };
        let config =
            Config { capacities, save_obs_next, stack_num, sample_avail, alpha, beta, weight_norm, seed, storage };
        let engine = Engine::new(config).python()?;
        let columns = Arc::new(Columns::new(batch.clone_ref(py), save_obs_next));
        Ok(Self { state: Mutex::new(State { engine, columns, all: None, rows: Rows::default() }), batch })
    }

    // -- structure ----------------------------------------------------------------------------------------------------

    #[getter]
    fn capacities(&self, py: Python<'_>) -> Vec<usize> {
        self.lock(py).engine.config.capacities.clone()
    }

    #[getter]
    fn offsets(&self, py: Python<'_>) -> Vec<usize> {
        self.lock(py).engine.rings().iter().map(|ring| ring.offset).collect()
    }

    #[getter]
    fn total(&self, py: Python<'_>) -> usize {
        self.lock(py).engine.rings().total()
    }

    #[getter]
    fn get_stack_num(&self, py: Python<'_>) -> usize {
        self.lock(py).engine.config.stack_num
    }

    #[setter]
    fn set_stack_num(&self, py: Python<'_>, value: usize) -> PyResult<()> {
        if value == 0 {
            return Err(PyValueError::new_err("stack_num must be at least 1, got 0"));
        }
        self.lock(py).engine.config.stack_num = value;
        Ok(())
    }

    #[getter]
    fn get_sample_avail(&self, py: Python<'_>) -> bool {
        self.lock(py).engine.config.sample_avail
    }

    #[setter]
    fn set_sample_avail(&self, py: Python<'_>, value: bool) {
        self.lock(py).engine.config.sample_avail = value;
    }

    #[getter]
    fn get_beta(&self, py: Python<'_>) -> f64 {
        self.lock(py).engine.config.beta
    }

    #[setter]
    fn set_beta(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        if !value.is_finite() {
            return Err(PyValueError::new_err(format!("beta must be a finite number, got {value}")));
        }
        self.lock(py).engine.config.beta = value;
        Ok(())
    }

    #[getter]
    fn get_weight_norm(&self, py: Python<'_>) -> bool {
        self.lock(py).engine.config.weight_norm
    }

    #[setter]
    fn set_weight_norm(&self, py: Python<'_>, value: bool) {
        self.lock(py).engine.config.weight_norm = value;
    }

    #[pyo3(signature = (columns, foreign = Vec::new()))]
    fn define(&self, py: Python<'_>, columns: Vec<Columned<'_>>, foreign: Vec<Bound<'_, PyTuple>>) -> PyResult<()> {
        let held = self.lock(py).columns.clone();
        let next = held.with(py, &columns, &foreign)?;
        let leaves = next.columns[held.columns.len()..].iter().map(|column| column.leaf.clone()).collect::<Vec<_>>();
        let mut state = self.lock(py);
        if !leaves.is_empty() || state.engine.table().is_none() {
            state.engine.define(leaves).python()?;
        }
        state.columns = Arc::new(next);
        state.all = None;
        Ok(())
    }

    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Columned<'py>>> {
        let columns = self.lock(py).columns.clone();
        let stored = columns.columns.iter().filter(|column| column.leaf.path != ["done"]);
        stored
            .map(|column| {
                let path = PyTuple::new(py, &column.leaf.path)?;
                Ok((path, column.descr.bind(py).clone().into_any(), column.leaf.shape.clone()))
            })
            .collect()
    }

    fn nbytes(&self, py: Python<'_>) -> usize {
        let state = self.lock(py);
        state.engine.table().map_or(0, |table| table.nbytes(state.engine.rings().live()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).engine.rings().live()
    }

    fn sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let sizes: Vec<i64> = self.lock(py).engine.rings().iter().map(|ring| ring.len as i64).collect();
        vector(py, &sizes)
    }

    fn cursors<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let cursors: Vec<i64> = self.lock(py).engine.rings().iter().map(|ring| ring.cursor as i64).collect();
        vector(py, &cursors)
    }

    // -- writing ------------------------------------------------------------------------------------------------------

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

    #[pyo3(signature = (*, obs, act, rew, terminated, truncated, obs_next = None, ring = 0))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments")]
    fn append<'py>(
        &self,
        py: Python<'py>,
        obs: Bound<'py, PyAny>,
        act: Bound<'py, PyAny>,
        rew: Bound<'py, PyAny>,
        terminated: Bound<'py, PyAny>,
        truncated: Bound<'py, PyAny>,
        obs_next: Option<Bound<'py, PyAny>>,
        ring: usize,
    ) -> PyResult<usize> {
        let mut state = self.lock(py);
        let state = &mut *state;
        if state.columns.columns.is_empty() {
            return mismatch!("nothing is laid out yet");
        }
        let mut rows = std::mem::take(&mut state.rows);
        let values = [
            ("obs", Some(obs)),
            ("act", Some(act)),
            ("rew", Some(rew)),
            ("terminated", Some(terminated)),
            ("truncated", Some(truncated)),
            ("obs_next", obs_next),
        ];
        let added = state.columns.find_named(py, &values, &mut rows).and_then(|()| {
            let (mut at, mut length, mut start) = ([0_i64], [0_i64], [0_i64]);
            let mut returns = vec![0.0; state.engine.agents()];
            let mut added = Added {
                index: &mut at,
                episode_return: &mut returns,
                episode_length: &mut length,
                episode_start: &mut start,
            };
            // SAFETY: `find_named` made a source for each column, alive as long as the values are.
            unsafe { state.engine.add(&[ring], &rows.sources, &rows.terminated, &rows.truncated, &mut added) }
                .python()?;
            Ok(at[0] as usize)
        });
        rows.release();
        state.rows = rows;
        added
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

    // -- reading ------------------------------------------------------------------------------------------------------

    #[pyo3(signature = (index, keys = None, stack_num = None, out = None))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        keys: Option<Vec<String>>,
        stack_num: Option<usize>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (index, shape) = integers(index)?;
        let filled = self.lock(py).take(py, &index, &shape, keys.as_deref(), stack_num, out)?;
        filled.nest(py, &self.batch)
    }

    #[pyo3(signature = (batch_size, out = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: usize,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyAny>)> {
        let mut state = self.lock(py);
        let mut index = vec![0; batch_size];
        state.engine.draw(&mut index, None).python()?;
        let filled = state.take(py, &index, &[batch_size as npy_intp], None, None, out)?;
        let weights = state.engine.priorities().is_some().then(|| state.weights(&index, None));
        let memory = state.memory(index);
        drop(state);
        let fields = filled.nest(py, &self.batch)?;
        if let Some(weights) = weights {
            fields.set_item(pyo3::intern!(py, "weight"), vector(py, &weights))?;
        }
        Ok((fields, remembering(py, memory, None)?))
    }

    #[pyo3(signature = (batch_size, ring = None))]
    fn draw<'py>(&self, py: Python<'py>, batch_size: usize, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.lock(py);
        let ring = Self::ring(&state, ring)?;
        let mut index = vec![0; batch_size];
        state.engine.draw(&mut index, ring).python()?;
        let memory = state.memory(index);
        drop(state);
        remembering(py, memory, None)
    }

    fn view<'py>(&self, py: Python<'py>, path: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.lock(py);
        let at = state.find(path)?;
        let total = state.engine.rings().total();
        let columns = state.columns.clone();
        let column = &columns.columns[at];
        let table = state.engine.table().expect("invariant: columns are laid out");
        let (region, offset, stride) = match table.layout.places[at] {
            Place::Record { offset } => (&table.records, offset, table.layout.stride),
            Place::Column { column } => (&table.columns[column], 0, table.layout.columns[column]),
            Place::Frames { .. } | Place::Next { .. } => {
                let index: Vec<i64> = (0..total as i64).collect();
                let plan = Arc::new(single(at, What::Leaf(at)));
                let reader = state.engine.reader().python()?;
                let filled = plan.fill(py, &columns, reader, &index, &[total as npy_intp], None)?;
                return filled.single().ok_or_else(|| PyKeyError::new_err("nothing to view"));
            }
        };
        let mut dims = vec![total as npy_intp];
        dims.extend(column.leaf.shape.iter().map(|&n| n as npy_intp));
        let mut strides = vec![column.leaf.itemsize as npy_intp; dims.len()];
        for axis in (1..dims.len() - 1).rev() {
            strides[axis] = strides[axis + 1] * dims[axis + 1];
        }
        strides[0] = stride as npy_intp;
        let writable = !matches!(column.leaf.root(), "obs" | "terminated" | "truncated" | "done");
        let (region, data) = (region.clone(), region.at(offset));
        drop(state);
        let keeper = Bound::new(py, RegionKeeper::new(region))?.into_any();
        array::over(column.descr.bind(py), &mut dims, Some(&mut strides), data, writable, keeper)
    }

    fn set_column(&self, py: Python<'_>, path: &Bound<'_, PyTuple>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let column = self.view(py, path)?;
        let root: String = path.get_item(0)?.extract()?;
        if matches!(root.as_str(), "obs" | "obs_next" | "terminated" | "truncated" | "done") {
            return Err(PyValueError::new_err(format!("{root} cannot be overwritten in place; use load")));
        }
        let wanted = column.getattr("shape")?;
        let got = values.getattr("shape")?;
        if !wanted.eq(&got)? {
            return Err(PyValueError::new_err(format!("the column has shape {wanted}, got {got}")));
        }
        py.import("numpy")?.call_method1("copyto", (column, values))?;
        Ok(())
    }

    // -- episodes -----------------------------------------------------------------------------------------------------

    fn prev<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.prev(i))
    }

    fn next<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.next(i))
    }

    fn episode_start<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.bounds(i).0)
    }

    fn episode_end<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.bounds(i).1)
    }

    fn unfinished<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rows: Vec<i64> = {
            let state = self.lock(py);
            let running = state.engine.rings().iter().filter(|ring| ring.is_running());
            running.map(|ring| ring.newest_slot() as i64).collect()
        };
        vector(py, &rows)
    }

    #[pyo3(signature = (ring = None))]
    fn chronological<'py>(&self, py: Python<'py>, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.lock(py);
        let ring = Self::ring(&state, ring)?;
        let memory = state.memory(state.engine.chronological(ring));
        drop(state);
        remembering(py, memory, None)
    }

    fn unroll<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
        let (index, _) = integers(index)?;
        let (mut rows, mut counts) = (vec![0; index.len() * length], vec![0; index.len()]);
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.units().python()?.unroll(&index, length, &mut rows, &mut counts);
        drop(state);
        let rows = vector(py, &rows).reshape([index.len(), length])?.into_any();
        Ok((rows, vector(py, &counts)))
    }

    fn window<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        before: usize,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (index, _) = integers(index)?;
        let width = before + length;
        let (mut rows, mut mask) = (vec![0; index.len() * width], vec![false; index.len() * width]);
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.units().python()?.window(&index, before, length, &mut rows, &mut mask);
        drop(state);
        let shape = [index.len(), width];
        Ok((vector(py, &rows).reshape(shape)?.into_any(), vector(py, &mask).reshape(shape)?.into_any()))
    }

    fn nstep<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        n_step: usize,
        gamma: f64,
    ) -> PyResult<Returns<'py>> {
        if n_step == 0 {
            return Err(PyValueError::new_err("n_step must be at least 1, got 0"));
        }
        let goals = recall(index).and_then(|memory| memory.goals);
        let (index, _) = integers(index)?;
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        let agents = state.engine.agents();
        let (mut sums, mut discounts) = (vec![0.0; index.len() * agents], vec![0.0; index.len()]);
        let mut last = vec![0; index.len()];
        state.engine.units().python()?.nstep(&index, n_step, gamma, &mut sums, &mut discounts, &mut last);
        let scalar = state.engine.scalar_reward();
        let memory = Memory { goals, ..state.memory(last) };
        drop(state);
        let sums = vector(py, &sums);
        let sums = if scalar { sums.into_any() } else { sums.reshape([index.len(), agents])?.into_any() };
        Ok((sums, vector(py, &discounts), remembering(py, memory, None)?))
    }

    fn hindsight<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        future_k: f64,
        horizon: usize,
    ) -> PyResult<Goals<'py>> {
        let (index, _) = integers(index)?;
        let (mut relabel, mut goals) = (vec![false; index.len()], vec![0; index.len()]);
        let mut state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.hindsight(&index, future_k, horizon, &mut relabel, &mut goals).python()?;
        drop(state);
        Ok((vector(py, &relabel), vector(py, &goals)))
    }

    // -- priorities ---------------------------------------------------------------------------------------------------

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

    // -- what an index array carries ----------------------------------------------------------------------------------

    fn stamp<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let goals = recall(index).and_then(|memory| memory.goals);
        let (index, shape) = integers(index)?;
        let memory = {
            let state = self.lock(py);
            state.engine.rings().check(&index).python()?;
            Memory { goals, ..state.memory(index) }
        };
        remembering(py, memory, Some(shape))
    }

    // -- state --------------------------------------------------------------------------------------------------------

    fn reseed(&self, py: Python<'_>, seed: u64) {
        self.lock(py).engine.reseed(seed);
    }

    fn dump<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = {
            let state = self.lock(py);
            let engine = &state.engine;
            py.detach(|| engine.dump(&[]))
        };
        PyBytes::new(py, &bytes)
    }

    fn restore(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<()> {
        self.restored(py, |engine| engine.restore(snapshot).map(drop))
    }

    #[pyo3(signature = (path, extra = None))]
    fn save(&self, py: Python<'_>, path: String, extra: Option<&[u8]>) -> PyResult<()> {
        let state = self.lock(py);
        let engine = &state.engine;
        py.detach(|| engine.save(Path::new(&path), extra.unwrap_or_default())).python()
    }

    #[staticmethod]
    fn read_header<'py>(py: Python<'py>, path: String) -> PyResult<(Vec<usize>, Bound<'py, PyBytes>)> {
        let header = snapshot::header(Path::new(&path)).python()?;
        Ok((header.capacities, PyBytes::new(py, &header.extra)))
    }

    fn open(&self, py: Python<'_>, path: String) -> PyResult<()> {
        self.restored(py, |engine| engine.open(Path::new(&path)).map(drop))
    }
}

impl Replay {
    fn map<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        step: impl Fn(&State, usize) -> usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (mut index, shape) = integers(index)?;
        {
            let state = self.lock(py);
            state.engine.rings().check(&index).python()?;
            for i in &mut index {
                *i = step(&state, *i as usize) as i64;
            }
        }
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        Ok(PyArray1::from_vec(py, index).reshape(shape)?.into_any())
    }

    /// Restores the engine and then the columns as Python names them; without the second there would not be the first.
    fn restored(
        &self,
        py: Python<'_>,
        restore: impl FnOnce(&mut Engine) -> rlfast_core::error::Result<()> + Send,
    ) -> PyResult<()> {
        let mut state = self.lock(py);
        let state = &mut *state;
        let mut fresh = Engine::new(state.engine.config.clone()).python()?;
        py.detach(|| restore(&mut fresh)).map_err(to_python)?;
        let columns = state.columns.restored(py, &fresh)?;
        fresh.keep_tree_of(&state.engine);
        (state.engine, state.columns, state.all) = (fresh, Arc::new(columns), None);
        Ok(())
    }
}

impl State {
    fn weights(&self, index: &[i64], normalize: Option<bool>) -> Vec<f64> {
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

/// Ring numbers, one for each row.
fn ring_numbers(rings: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let (rings, _) = integers(rings)?;
    rings
        .iter()
        .map(|&r| {
            usize::try_from(r).map_err(|_| {
                pyo3::exceptions::PyIndexError::new_err(format!("ring {r} is not there; rings count from 0"))
            })
        })
        .collect()
}

/// The numbers of an array, as doubles.
fn doubles(values: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let py = values.py();
    if let Ok(array) = values.cast::<PyArray1<f64>>() {
        if let Ok(values) = array.to_vec() {
            return Ok(values);
        }
    }
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (values, "float64"))?;
    let flat = numpy.call_method1("ascontiguousarray", (array.call_method0("ravel")?,))?;
    Ok(flat.cast_into::<PyArray1<f64>>()?.to_vec()?)
}
