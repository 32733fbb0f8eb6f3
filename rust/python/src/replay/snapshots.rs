//! Saving and restoring.

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rlfast_core::replay::{Replay as Engine, snapshot};

use super::Replay;
use crate::error::{IntoPython as _, to_python};

impl Replay {
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
        (state.engine, state.columns) = (fresh, Arc::new(columns));
        state.plans.clear();
        Ok(())
    }
}

#[pymethods]
impl Replay {
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
