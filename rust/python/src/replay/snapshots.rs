//! Saving and restoring.

use std::path::Path;

use pyo3::types::PyBytes;
use rlfast_core::replay::{Replay as Engine, snapshot};

use super::Replay;
use crate::prelude::*;

impl Replay {
    /// Restores the engine and the Python columns; nothing changes if either fails.
    fn restored(
        &self,
        py: Python<'_>,
        restore: impl FnOnce(&mut Engine) -> rlfast_core::error::Result<()> + Send,
    ) -> PyResult<()> {
        let (config, columns) = self.state.with(py, |state| (state.engine().config().clone(), state.columns().clone()));
        let mut fresh = Engine::new(config).python()?;
        py.detach(|| restore(&mut fresh)).python()?;
        let columns = columns.restored(py, &fresh)?;
        drop(self.write(py, 0, |state| state.replace(fresh, columns))?);
        Ok(())
    }
}

/// A copy for Python. (`PyBytes::new` panics where there is no memory.)
fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |place| {
        place.copy_from_slice(bytes);
        Ok(())
    })
}

#[pymethods]
impl Replay {
    fn reseed(&self, py: Python<'_>, seed: u64) {
        self.state.with(py, |state| state.options_mut().reseed(seed));
    }

    fn dump<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.state.detached(py, |state| state.engine().dump(&[])).python()?;
        self::bytes(py, &bytes)
    }

    fn restore(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<()> {
        self.restored(py, |engine| engine.restore(snapshot).map(drop))
    }

    #[pyo3(signature = (path, extra = None))]
    fn save(&self, py: Python<'_>, path: String, extra: Option<&[u8]>) -> PyResult<()> {
        let extra = extra.unwrap_or_default();
        self.state.detached(py, |state| state.engine().save(Path::new(&path), extra)).python()
    }

    #[staticmethod]
    fn read_header(py: Python<'_>, path: String) -> PyResult<(Vec<usize>, Bound<'_, PyBytes>)> {
        let header = snapshot::header(Path::new(&path)).python()?;
        let extra = bytes(py, &header.extra)?;
        Ok((header.capacities, extra))
    }

    fn flush(&self, py: Python<'_>, extra: &[u8]) -> PyResult<()> {
        self.state.detached(py, |state| state.rows_mut().flush(extra)).python()
    }

    #[staticmethod]
    fn newest_base(folder: &str) -> PyResult<Option<String>> {
        let newest = snapshot::newest_base(Path::new(folder)).python()?;
        Ok(newest.map(|(_, path)| path.to_string_lossy().into_owned()))
    }

    fn reopen(&self, py: Python<'_>, folder: String) -> PyResult<u64> {
        self.restored(py, |engine| engine.reopen(Path::new(&folder)))?;
        Ok(self.state.with(py, |state| state.engine().lost()))
    }

    fn open(&self, py: Python<'_>, path: String) -> PyResult<()> {
        self.restored(py, |engine| engine.open(Path::new(&path)).map(drop))
    }
}
