//! What the lock of a `Replay` guards. Whatever is here does its work without Python.

use std::sync::Arc;

use pyo3::prelude::*;
use rlfast_core::error::Result;
use rlfast_core::replay::Replay as Engine;
use rlfast_core::replay::layout::Layout;
use rlfast_core::segment_tree::SumTree;

use crate::columns::Columns;
use crate::gather::KeyedPlan;
use crate::rows::RowSources;

/// Plans that are kept; those that ask for few keys always ask for the same.
const PLANS: usize = 8;

/// A plan, with the keys (None: all) and the stack that it is for.
type KeptPlan = (Option<Vec<String>>, usize, Arc<KeyedPlan>);

/// The callable that adds the rows which `append` cannot, and whether it adds all.
pub(crate) type Fallback = (Arc<Py<PyAny>>, bool);

/// The engine, and the columns as Python names them.
pub(crate) struct State {
    engine: Engine,
    columns: Arc<Columns>,
    plans: Vec<KeptPlan>,
    fallback: Option<Fallback>,
    /// How often rows were changed.
    writes: u64,
}

/// Things of Python's that are not needed any more, to be dropped when the lock is not held.
#[must_use]
pub(crate) struct Dropped {
    _columns: Arc<Columns>,
    _plans: Vec<KeptPlan>,
}

impl State {
    pub fn new(engine: Engine, columns: Columns) -> Self {
        Self { engine, columns: Arc::new(columns), plans: Vec::new(), fallback: None, writes: 0 }
    }

    /// The engine, to be looked at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, to change its rows.
    pub fn rows_mut(&mut self) -> &mut Engine {
        self.writes += 1;
        &mut self.engine
    }

    /// The engine, to change anything but its rows.
    pub fn options_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// Whether these are the columns still, so that their numbers and sizes hold.
    pub fn has(&self, columns: &Arc<Columns>) -> bool {
        Arc::ptr_eq(&self.columns, columns)
    }

    /// How often rows were changed.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The callable that adds the rows which `append` cannot.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Sets it, and gives back what it was.
    pub fn set_fallback(&mut self, fallback: Fallback) -> Option<Fallback> {
        self.fallback.replace(fallback)
    }

    /// The tree of a prioritized buffer.
    pub fn tree_mut(&mut self) -> &mut SumTree {
        let priorities = self.engine.priorities_mut();
        priorities.expect("invariant: a prioritized buffer stays one").tree_mut()
    }

    /// Lays out the columns that `columns` has beyond `held`; None if the columns are not `held` any more.
    pub fn define(&mut self, held: &Arc<Columns>, mut columns: Columns) -> Result<Option<Dropped>> {
        if !self.has(held) {
            return Ok(None);
        }
        let leaves: Vec<_> = columns.columns[held.columns.len()..].iter().map(|column| column.leaf.clone()).collect();
        if !leaves.is_empty() {
            self.rows_mut().define(leaves)?;
        }
        columns.look_at(&self.engine);
        Ok(Some(self.set_columns(columns)))
    }

    /// Puts another engine and its columns in the place of these.
    pub fn replace(&mut self, engine: Engine, columns: Columns) -> Dropped {
        *self.rows_mut() = engine;
        self.set_columns(columns)
    }

    fn set_columns(&mut self, columns: Columns) -> Dropped {
        Dropped {
            _columns: std::mem::replace(&mut self.columns, Arc::new(columns)),
            _plans: std::mem::take(&mut self.plans),
        }
    }

    /// The plan for some keys, if it is known.
    pub fn plan(&self, keys: Option<&[String]>, stack: usize) -> Option<&Arc<KeyedPlan>> {
        let plan = self.plans.iter().find(|plan| plan.1 == stack && plan.0.as_deref() == keys);
        plan.map(|plan| &plan.2)
    }

    /// Keeps a plan for `columns`; gives one back that is not kept any more.
    pub fn keep(&mut self, columns: &Arc<Columns>, plan: KeptPlan) -> Option<KeptPlan> {
        if !self.has(columns) {
            return Some(plan);
        }
        let dropped = (self.plans.len() == PLANS).then(|| self.plans.remove(0));
        self.plans.push(plan);
        dropped
    }

    /// The places of the columns.
    pub fn layout(&self) -> Result<&Layout> {
        Ok(self.engine.gatherer()?.layout())
    }

    /// Writes a row to each ring; None if the columns are not `columns` any more, for which the rows were found.
    pub fn record(&mut self, columns: &Arc<Columns>, rows: &RowSources) -> Result<Option<bool>> {
        if !self.has(columns) {
            return Ok(None);
        }
        // SAFETY: `find_step` made a source for each column, good for all rows while the values live, which the caller holds.
        unsafe { self.rows_mut().record(&rows.sources, &rows.terminated, &rows.truncated) }.map(Some)
    }
}
