//! `Replay`: the engine behind a lock.
//!
//! A method reads its arguments, does its work in a closure under the lock, and only then makes dicts and batches: see
//! `shared.rs`.

pub mod append;
mod episodes;
mod holding;
pub mod hosted;
mod priorities;
mod reading;
mod snapshots;
mod writing;

use std::sync::atomic::AtomicBool;

use pyo3::pybacked::PyBackedBytes;
use rlfast_core::memory::Storage;
use rlfast_core::replay::ring::Ring;
use rlfast_core::replay::{Config, Replay as Engine};
use rlfast_host::schema::Schema;

use crate::columns::{Column, ColumnSpec, Columns, KeyPath, ObjectSpec, State};
use crate::prelude::*;
use crate::rows::RowSources;
use crate::shared::Spare;

/// The replay engine: typed columns over one or more rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Replay {
    #[pyo3(get)]
    capacities: Vec<usize>,
    #[pyo3(get)]
    offsets: Vec<usize>,
    #[pyo3(get)]
    total: usize,
    state: Shared<State>,
    batch: Py<PyType>,
    last_added: Spare<Box<LastAdded>>,
    /// The callable that converts rows to the form of the columns.
    convert: Shared<Option<Arc<Py<PyAny>>>>,
    /// Whether it converts all rows, also those that seem to have that form.
    always_converts: AtomicBool,
}

/// The columns and memory of the last rows, which are used again for the next ones.
#[derive(Default)]
struct LastAdded {
    columns: Option<Arc<Columns>>,
    /// The memory that rows are found in.
    rows: RowSources,
}

type ColumnDescription<'py> = (Bound<'py, PyTuple>, Object<'py>, Vec<usize>);

impl Replay {
    pub(crate) fn columns_now(&self, py: Python<'_>) -> Arc<Columns> {
        self.state.with(py, |state| state.columns().clone())
    }

    /// A number of each ring.
    fn each_ring(&self, py: Python<'_>, look: fn(&Ring) -> usize) -> Shaped<i64> {
        self.state.with(py, |state| state.engine().of_rings(look)).into()
    }
}

/// Options of the engine as properties: the name, the type, the getter and the setter.
macro_rules! options {
    ($($option:ident: $type:ty, $get:ident, $set:ident;)*) => {
        #[pymethods]
        impl Replay {
            $(#[getter]
            fn $get(&self, py: Python<'_>) -> $type {
                self.state.with(py, |state| state.engine().config().$option)
            }

            #[setter]
            fn $set(&self, py: Python<'_>, value: $type) -> PyResult<()> {
                self.state.with(py, |state| state.options_mut().$set(value)).python()
            })*
        }
    };
}

options! {
    stack_num: usize, get_stack_num, set_stack_num;
    sample_avail: bool, get_sample_avail, set_sample_avail;
    beta: f64, get_beta, set_beta;
    weight_norm: bool, get_weight_norm, set_weight_norm;
}

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (capacities, *, batch, save_obs_next = true, stack_num = 1, sample_avail = false, alpha = None,
        beta = 1.0, weight_norm = true, seed = 0, storage = "ram"))]
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
        storage: &str,
    ) -> PyResult<Self> {
        let storage = Storage::named(storage).python()?;
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
        let columns = Columns::new(py, batch.clone_ref(py), Schema::new(save_obs_next));
        Ok(Self {
            capacities: engine.config().capacities.clone(),
            offsets: engine.rings().iter().map(Ring::offset).collect(),
            total: engine.rings().total(),
            state: Shared::new(State::new(engine, columns)),
            batch,
            last_added: Spare::new(),
            convert: Shared::new(None),
            always_converts: AtomicBool::new(false),
        })
    }

    #[pyo3(signature = (columns, objects = Items(Vec::new()), version = None, retired = Items(Vec::new()), values = Items(Vec::new())))]
    fn define(
        &self,
        py: Python<'_>,
        columns: Items<ColumnSpec<'_>>,
        objects: Items<ObjectSpec<'_>>,
        version: Option<u64>,
        retired: Items<KeyPath>,
        values: Items<(KeyPath, PyBackedBytes)>,
    ) -> PyResult<bool> {
        let retired: Vec<_> = retired.iter().map(|path| path.0.clone()).collect();
        let values: Vec<_> = values.iter().map(|(path, bytes)| (&path[..], &bytes[..])).collect();
        loop {
            let held = self.columns_now(py);
            if version.is_some_and(|version| version != held.version) {
                return Ok(false);
            }
            let next = held.with(py, &columns, &objects, &retired, self.total)?;
            let defined = self.write(py, 0, |state| state.define(&held, next, &values))?.python()?;
            if defined.is_some() {
                return Ok(true);
            }
        }
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.columns().version)
    }

    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyTuple>, Object<'py>)>> {
        let columns = self.columns_now(py);
        let described = columns
            .objects
            .iter()
            .map(|column| Ok((PyTuple::new(py, &column.path)?, column.array.bind(py).clone().into_any())));
        described.collect()
    }

    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<ColumnDescription<'py>>> {
        let described = |column: &Column| {
            let path = PyTuple::new(py, &column.leaf.path)?;
            Ok((path, column.dtype.descr.bind(py).clone().into_any(), column.leaf.shape.clone()))
        };
        self.columns_now(py).schema.shown().map(described).collect()
    }

    #[getter]
    fn links_next(&self, py: Python<'_>) -> bool {
        self.columns_now(py).schema.may_lack_next()
    }

    #[getter]
    fn finals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let columns = self.columns_now(py);
        let finals = columns.schema.columns().iter().filter(|column| columns.schema.is_final(column));
        finals.map(|column| PyTuple::new(py, &column.leaf.path)).collect()
    }

    fn nbytes(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.engine().nbytes())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.engine().rings().live())
    }

    fn sizes(&self, py: Python<'_>) -> Shaped<i64> {
        self.each_ring(py, Ring::live)
    }

    fn cursors(&self, py: Python<'_>) -> Shaped<i64> {
        self.each_ring(py, Ring::cursor)
    }
}
