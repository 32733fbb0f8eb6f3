//! `Replay`: the engine behind a lock.
//!
//! A method reads its arguments, does its work in a closure under the lock, and only then makes dicts and batches: see
//! `shared.rs`.

mod episodes;
pub mod hosted;
mod priorities;
mod reading;
mod snapshots;
mod state;
mod writing;

use std::path::Path;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use rlfast_core::memory::Storage;
use rlfast_core::replay::{Config, Replay as Engine, check_stack};

use crate::array::vector;
use crate::columns::Columns;
use crate::error::IntoPython as _;
use crate::items::Items;
use crate::shared::Shared;
pub(crate) use state::State;

/// The replay engine: typed columns over one or more rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Replay {
    state: Shared<State>,
    batch: Py<PyType>,
}

/// A column as it is given: its path, dtype and shape.
pub(crate) type ColumnSpec<'py> = (Bound<'py, PyTuple>, Bound<'py, PyAny>, Items<usize>);
pub(crate) type ColumnDescription<'py> = (Bound<'py, PyTuple>, Bound<'py, PyAny>, Vec<usize>);

impl Replay {
    pub(crate) fn columns_now(&self, py: Python<'_>) -> Arc<Columns> {
        self.state.with(py, |state| state.columns().clone())
    }
}

/// The number of the column at `path`.
pub(crate) fn find(columns: &Columns, path: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let wanted: Vec<String> = path.extract()?;
    let at = columns.columns.iter().position(|column| column.leaf.path == wanted);
    at.ok_or_else(|| PyKeyError::new_err(wanted.join(".")))
}

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (capacities, *, batch, save_obs_next = true, stack_num = 1, sample_avail = false, alpha = None,
        beta = 1.0, weight_norm = true, seed = 0, storage = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a constructor")]
    fn new(
        py: Python<'_>,
        capacities: Items<usize>,
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
        let config = Config {
            capacities: capacities.0,
            save_obs_next,
            stack_num,
            sample_avail,
            alpha,
            beta,
            weight_norm,
            seed,
            storage,
        };
        let engine = Engine::new(config).python()?;
        let columns = Columns::new(batch.clone_ref(py), save_obs_next);
        Ok(Self { state: Shared::new(State::new(engine, columns)), batch })
    }

    #[getter]
    fn capacities(&self, py: Python<'_>) -> Vec<usize> {
        self.state.with(py, |state| state.engine().config.capacities.clone())
    }

    #[getter]
    fn offsets(&self, py: Python<'_>) -> Vec<usize> {
        self.state.with(py, |state| state.engine().rings().iter().map(|ring| ring.offset()).collect())
    }

    #[getter]
    fn total(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.engine().rings().total())
    }

    #[getter]
    fn get_stack_num(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.engine().config.stack_num)
    }

    #[setter]
    fn set_stack_num(&self, py: Python<'_>, value: usize) -> PyResult<()> {
        check_stack(value).python()?;
        self.state.with(py, |state| state.options_mut().config.stack_num = value);
        Ok(())
    }

    #[getter]
    fn get_sample_avail(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.engine().config.sample_avail)
    }

    #[setter]
    fn set_sample_avail(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.options_mut().config.sample_avail = value);
    }

    #[getter]
    fn get_beta(&self, py: Python<'_>) -> f64 {
        self.state.with(py, |state| state.engine().config.beta)
    }

    #[setter]
    fn set_beta(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        if !value.is_finite() {
            return Err(PyValueError::new_err(format!("beta must be a finite number, got {value}")));
        }
        self.state.with(py, |state| state.options_mut().config.beta = value);
        Ok(())
    }

    #[getter]
    fn get_weight_norm(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.engine().config.weight_norm)
    }

    #[setter]
    fn set_weight_norm(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.options_mut().config.weight_norm = value);
    }

    #[pyo3(signature = (columns, foreign = Items(Vec::new())))]
    fn define(
        &self,
        py: Python<'_>,
        columns: Items<ColumnSpec<'_>>,
        foreign: Items<Bound<'_, PyTuple>>,
    ) -> PyResult<()> {
        loop {
            let held = self.columns_now(py);
            let next = held.with(py, &columns.0, &foreign.0)?;
            let defined = self.state.with(py, |state| state.define(&held, next)).python()?;
            if defined.is_some() {
                return Ok(());
            }
        }
    }

    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<ColumnDescription<'py>>> {
        let columns = self.columns_now(py);
        columns
            .shown()
            .map(|column| {
                let path = PyTuple::new(py, &column.leaf.path)?;
                Ok((path, column.descr.bind(py).clone().into_any(), column.leaf.shape.clone()))
            })
            .collect()
    }

    #[getter]
    fn links_next(&self, py: Python<'_>) -> bool {
        self.columns_now(py).may_lack_next
    }

    #[getter]
    fn finals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.columns_now(py).finals().map(|column| PyTuple::new(py, &column.leaf.path)).collect()
    }

    fn nbytes(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| {
            let engine = state.engine();
            engine.table().map_or(0, |table| table.nbytes(engine.rings().live()))
        })
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.engine().rings().live())
    }

    fn sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let size = |state: &mut State| state.engine().rings().iter().map(|ring| ring.live() as i64).collect::<Vec<_>>();
        vector(py, &self.state.with(py, size))
    }

    fn cursors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let cursor =
            |state: &mut State| state.engine().rings().iter().map(|ring| ring.cursor() as i64).collect::<Vec<_>>();
        vector(py, &self.state.with(py, cursor))
    }
}
