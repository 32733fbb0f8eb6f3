//! stub
use parking_lot::Mutex;
use pyo3::prelude::*;
use rlfast_core::segment_tree::SumTree;
use std::sync::Arc;
#[pyclass(frozen, module = "rlfast._core")]
pub struct SegmentTree {
    tree: Arc<Mutex<SumTree>>,
}
impl SegmentTree {
    pub fn sharing(tree: Arc<Mutex<SumTree>>) -> Self {
        Self { tree }
    }
}
#[pymethods]
impl SegmentTree {
    fn __len__(&self) -> usize {
        self.tree.lock().len()
    }
}
