//! `Replay`: the engine behind a lock.
//!
//! A method locks the engine, does its work, unlocks it, and only then makes dicts and batches: no Python code runs under
//! the lock. A thread that has to wait for the lock lets go of the interpreter first, since the holder may need it.

mod episodes;
pub mod hosted;
mod priorities;
mod reading;
mod snapshots;
mod writing;

use std::path::Path;
use std::sync::Arc;

use numpy::PyArray1;
use numpy::npyffi::types::npy_intp;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use rlfast_core::memory::Storage;
use rlfast_core::replay::{Config, Replay as Engine, check_stack};

use crate::array::vector;
use crate::columns::Columns;
use crate::error::IntoPython as _;
use crate::index::Memory;
use crate::rows::Rows;
use crate::taking::{Filled, Plan};

/// Plans that are kept; those that ask for few keys always ask for the same.
const PLANS: usize = 8;

/// What the lock guards.
pub(crate) struct State {
    pub engine: Engine,
    pub columns: Arc<Columns>,
    /// The latest plans, with the keys (None: all) and the stack that each is for.
    pub plans: Vec<(Option<Vec<String>>, usize, Arc<Plan>)>,
    pub rows: Rows,
    /// Takes the rows that `append` cannot; with it, and a true flag, `append` does not even try.
    pub careful: Option<(Py<PyAny>, bool)>,
}

/// The replay engine: typed columns over one or more rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Replay {
    // A mutex and not a read-write lock: sampling moves the random stream, so almost every call writes.
    state: Mutex<State>,
    batch: Py<PyType>,
}

pub(crate) type Columned<'py> = (Bound<'py, PyTuple>, Bound<'py, PyAny>, Vec<usize>);
impl Replay {
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Some(guard) => guard,
            None => py.detach(|| self.state.lock()),
        }
    }

    pub(crate) fn ring(state: &State, ring: Option<usize>) -> PyResult<Option<usize>> {
        match ring {
            Some(r) if r >= state.engine.rings().len() => Err(PyIndexError::new_err(format!(
                "ring {r} is not there; the buffer has {} rings",
                state.engine.rings().len()
            ))),
            _ => Ok(ring),
        }
    }
}

impl State {
    pub(crate) fn plan(&mut self, py: Python<'_>, keys: Option<&[String]>, stack: usize) -> PyResult<Arc<Plan>> {
        let same = |plan: &&(Option<Vec<String>>, usize, _)| plan.1 == stack && plan.0.as_deref() == keys;
        if let Some((_, _, plan)) = self.plans.iter().find(same) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(Plan::new(py, &self.columns, self.engine.reader().python()?, keys, stack)?);
        if self.plans.len() == PLANS {
            self.plans.remove(0);
        }
        self.plans.push((keys.map(<[String]>::to_vec), stack, plan.clone()));
        Ok(plan)
    }

    pub(crate) fn take<'py>(
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

    pub(crate) fn memory(&self, index: Vec<i64>) -> Memory {
        let generations = index.iter().map(|&i| self.engine.generation(i as usize)).collect();
        Memory { index, generations: Some(generations), goals: None }
    }

    pub(crate) fn find(&self, path: &Bound<'_, PyTuple>) -> PyResult<usize> {
        let wanted: Vec<String> = path.extract()?;
        let at = self.columns.columns.iter().position(|column| column.leaf.path == wanted);
        at.ok_or_else(|| PyKeyError::new_err(wanted.join(".")))
    }
}

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (capacities, *, batch, save_obs_next = true, stack_num = 1, sample_avail = false, alpha = None,
        beta = 1.0, weight_norm = true, seed = 0, storage = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a constructor")]
    fn new(
        py: Python<'_>,
        capacities: Vec<usize>,
        batch: Py<PyType>,
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
        let config =
            Config { capacities, save_obs_next, stack_num, sample_avail, alpha, beta, weight_norm, seed, storage };
        let engine = Engine::new(config).python()?;
        let columns = Arc::new(Columns::new(batch.clone_ref(py), save_obs_next));
        Ok(Self {
            state: Mutex::new(State { engine, columns, plans: Vec::new(), rows: Rows::default(), careful: None }),
            batch,
        })
    }

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
        check_stack(value).python()?;
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
        if !leaves.is_empty() {
            state.engine.define(leaves).python()?;
        }
        state.columns = Arc::new(next);
        state.plans.clear();
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
}
