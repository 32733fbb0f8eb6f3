//! The state that the lock of a `Replay` protects. Nothing here calls Python.

use std::sync::Arc;

use pyo3::prelude::*;
use rlfast_core::error::Result;
use rlfast_core::replay::Replay as Engine;
use rlfast_core::replay::plan::Plan;
use rlfast_core::segment_tree::SumTree;

use crate::columns::Columns;
use crate::rows::RowSources;

/// Plans that are kept; those that ask for few keys always ask for the same.
const PLANS: usize = 8;

/// A plan, with the keys (None: all) and the stack that it is for.
type KeptPlan = (Option<Vec<String>>, usize, Arc<Plan>);

/// The engine, and the columns as Python names them.
pub(crate) struct State {
    engine: Engine,
    columns: Arc<Columns>,
    plans: Vec<KeptPlan>,
    fallback: Option<Arc<Py<PyAny>>>,
    /// How often rows were changed.
    writes: u64,
}

impl State {
    pub fn new(engine: Engine, columns: Columns) -> Self {
        Self { engine, columns: Arc::new(columns), plans: Vec::new(), fallback: None, writes: 0 }
    }

    /// The engine, for reading.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, for changes of its rows.
    pub fn rows_mut(&mut self) -> &mut Engine {
        self.writes += 1;
        &mut self.engine
    }

    /// The engine, for changes of anything but its rows.
    pub fn options_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// Returns whether these are still the columns, so that their numbers and sizes are valid.
    pub fn has(&self, columns: &Arc<Columns>) -> bool {
        Arc::ptr_eq(&self.columns, columns)
    }

    /// How often rows were changed.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The callable that adds the rows which `append` cannot.
    pub fn fallback(&self) -> Option<Arc<Py<PyAny>>> {
        self.fallback.clone()
    }

    /// Sets the callable and returns the previous one.
    pub fn set_fallback(&mut self, fallback: Arc<Py<PyAny>>) -> Option<Arc<Py<PyAny>>> {
        self.fallback.replace(fallback)
    }

    /// The tree of a prioritized buffer.
    pub fn tree_mut(&mut self) -> &mut SumTree {
        let priorities = self.engine.priorities_mut();
        priorities.expect("invariant: a prioritized buffer stays one").tree_mut()
    }

    /// Lays out the columns that `columns` has beyond `held`; None if the columns are not `held` any more.
    pub fn define(&mut self, held: &Arc<Columns>, mut columns: Columns) -> Result<Option<Arc<Columns>>> {
        if !self.has(held) {
            return Ok(None);
        }
        let known = held.schema.columns().len();
        let leaves: Vec<_> = columns.schema.columns()[known..].iter().map(|column| column.leaf.clone()).collect();
        if !leaves.is_empty() {
            self.rows_mut().define(leaves)?;
        }
        columns.look_at(&self.engine);
        Ok(Some(self.set_columns(columns)))
    }

    /// Puts another engine and its columns in the place of these.
    pub fn replace(&mut self, engine: Engine, columns: Columns) -> Arc<Columns> {
        *self.rows_mut() = engine;
        self.set_columns(columns)
    }

    /// Gives the former columns back, to be dropped when the lock is not held.
    fn set_columns(&mut self, columns: Columns) -> Arc<Columns> {
        self.plans.clear();
        std::mem::replace(&mut self.columns, Arc::new(columns))
    }

    /// The plan for some keys and a stack.
    pub fn plan(&mut self, keys: Option<&[String]>, stack: usize) -> Result<Arc<Plan>> {
        if let Some(kept) = self.plans.iter().find(|kept| kept.1 == stack && kept.0.as_deref() == keys) {
            return Ok(kept.2.clone());
        }
        let layout = self.engine.gatherer()?.layout();
        let plan = Arc::new(Plan::new(&self.columns.schema, layout, keys, stack)?);
        if self.plans.len() == PLANS {
            self.plans.remove(0);
        }
        self.plans.push((keys.map(<[String]>::to_vec), stack, plan.clone()));
        Ok(plan)
    }

    /// Writes a row to each ring; None if the columns are not `columns` any more, for which the rows were found.
    pub fn record(&mut self, columns: &Arc<Columns>, rows: &RowSources) -> Result<Option<bool>> {
        if !self.has(columns) {
            return Ok(None);
        }
        // SAFETY: `find_step` made a source for each column, good for all rows while the values live, which the caller holds.
        unsafe { self.rows_mut().record(rows.found.sources(), rows.found.terminated(), rows.found.truncated()) }
            .map(Some)
    }
}
