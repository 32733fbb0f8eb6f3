//! The rows of RL Unplugged's shards.

use std::path::PathBuf;

use rlfast_data::shards::{Row, Shards};
use rlfast_data::transition::STACK;

use crate::array::vector;
use crate::prelude::*;

/// The rows of RL Unplugged's shards of Atari games.
#[pyclass(frozen, module = "rlfast._core")]
pub struct UnpluggedShards {
    shards: Shared<Shards>,
}

#[pymethods]
impl UnpluggedShards {
    #[new]
    fn new(folder: PathBuf, skip_broken: bool) -> PyResult<Self> {
        Ok(Self { shards: Shared::new(Shards::new(&folder, skip_broken).python()?) })
    }

    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.shards.detached(py, |shards| shards.open(&path)).python()
    }

    fn read(&self, py: Python<'_>, count: usize) -> PyResult<(u64, bool)> {
        self.shards.detached(py, |shards| shards.read(count)).python()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.shards.with(py, |shards| shards.rows().len())
    }

    #[getter]
    fn skipped(&self, py: Python<'_>) -> Vec<String> {
        self.shards.with(py, |shards| shards.skipped().to_vec())
    }

    fn values<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.shards.with(py, |shards| shards.rows_at(start, stop).map(<[Row]>::to_vec)).python()?;
        let columns = PyDict::new(py);
        let put = |name: &str, column: PyResult<Object<'py>>| columns.set_item(name, column?);
        put("a_t", column(py, &rows, |row| row.values.action))?;
        put("a_tp1", column(py, &rows, |row| row.values.next_action))?;
        put("r_t", column(py, &rows, |row| row.values.reward))?;
        put("d_t", column(py, &rows, |row| row.values.discount))?;
        put("episode_id", column(py, &rows, |row| row.values.episode))?;
        put("episode_return", column(py, &rows, |row| row.values.episode_return))?;
        put("record", column(py, &rows, |row| row.record))?;
        put("continues", column(py, &rows, |row| row.continues))?;
        Ok(columns)
    }

    fn observations<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<(Object<'py>, Object<'py>)> {
        let look = |shards: &mut Shards| (shards.rows_at(start, stop).map(<[Row]>::len), shards.size());
        let (count, size) = self.shards.with(py, look);
        let [height, width] = size.unwrap_or_default();
        let shape = [count.python()?, STACK, height, width];
        let (mut obs, mut next) = (NewArray::new(py, &shape)?, NewArray::new(py, &shape)?);
        let (obs_room, next_room) = (obs.items(), next.items());
        self.shards.detached(py, |shards| shards.decode(start..stop, obs_room, next_room)).python()?;
        Ok((obs.array, next.array))
    }
}

fn column<'py, T: numpy::Element + Copy>(
    py: Python<'py>,
    rows: &[Row],
    value: impl Fn(&Row) -> T,
) -> PyResult<Object<'py>> {
    vector(py, &rows.iter().map(value).collect::<Vec<_>>())
}
