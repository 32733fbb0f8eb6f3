//! Replay rings that processes share: their memory, and who writes and reads them.

use std::os::fd::AsRawFd as _;

use pyo3::types::PyBytes;
use rlfast_core::error::Result;
use rlfast_core::replay::Added;
use rlfast_core::replay::provenance::Provenance;
use rlfast_core::shared_memory::{
    Dimensions, Drawn, Memory, NStep, Options, Outputs, Reader, RowLayout, Writer, rings_at,
};
use rlfast_host::schema::Schema;
use rlfast_host::session::Prepared;

use crate::batch::with_fields;
use crate::columns::{ColumnSpec, Columns};
use crate::gather::Allocated;
use crate::index::Remembering;
use crate::once::names;
use crate::prelude::*;
use crate::process::own;
use crate::rows::{AddedArrays, RowSources};
use crate::shared::Spare;

/// Finds the columns of rows, and where they are in a row.
fn columns_of(py: Python<'_>, columns: &[ColumnSpec<'_>], batch: Py<PyType>) -> PyResult<(Columns, RowLayout)> {
    let columns = Columns::new(py, batch, Schema::new(true)).with(py, columns, &[], &[], 0)?;
    let leaves: Vec<_> = columns.schema.columns().iter().map(|column| column.leaf.clone()).collect();
    let layout = RowLayout::new(&leaves).python()?;
    Ok((columns, layout))
}

/// The memory of rings, which other processes can map.
#[pyclass(frozen, module = "rlfast._core")]
pub struct RingMemory {
    #[pyo3(get)]
    rings: usize,
    #[pyo3(get)]
    capacity: usize,
    #[pyo3(get)]
    nbytes: usize,
    memory: Arc<Memory>,
}

impl From<Memory> for RingMemory {
    fn from(memory: Memory) -> Self {
        let Dimensions { rings, capacity, .. } = memory.dimensions();
        Self { rings, capacity, nbytes: memory.nbytes(), memory: Arc::new(memory) }
    }
}

#[pymethods]
impl RingMemory {
    #[staticmethod]
    fn create(
        py: Python<'_>,
        columns: Items<ColumnSpec<'_>>,
        rings: usize,
        capacity: usize,
        text: &[u8],
        batch: Py<PyType>,
    ) -> PyResult<Self> {
        let (_, layout) = columns_of(py, &columns.0, batch)?;
        Ok(Memory::create(rings, capacity, layout.stride(), text).python()?.into())
    }

    #[staticmethod]
    fn attach(file: i32) -> PyResult<Self> {
        Ok(Memory::attach(own(file)?).python()?.into())
    }

    fn fileno(&self) -> i32 {
        self.memory.file().as_raw_fd()
    }

    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.memory.text())
    }
}

/// Appends rows to some rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct RingWriter {
    columns: Columns,
    writer: Shared<Writer>,
    /// The numbers of the rings, for rows that are given by their places among these.
    rings: Vec<usize>,
    /// The memory that rows are found in, which is used again.
    rows: Spare<RowSources>,
}

#[pymethods]
impl RingWriter {
    #[new]
    fn new(
        py: Python<'_>,
        memory: &RingMemory,
        columns: Items<ColumnSpec<'_>>,
        rings: Items<usize>,
        batch: Py<PyType>,
    ) -> PyResult<Self> {
        let (columns, layout) = columns_of(py, &columns.0, batch)?;
        let writer = Writer::new(memory.memory.clone(), layout, &rings.0).python()?;
        Ok(Self { columns, writer: Shared::new(writer), rings: rings.0, rows: Spare::new() })
    }

    #[pyo3(signature = (fields, places = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyDict>,
        places: Option<Index>,
    ) -> PyResult<AddedArrays<'py>> {
        let rings = rings_at(&self.rings, places.as_deref()).python()?;
        self.rows.with(py, |rows| {
            self.columns.find(py, fields, Some(rings.len()), rows)?;
            let (found, rings) = (&rows.found, &rings[..]);
            let add = |writer: &mut Writer, added: &mut Added<'_>| {
                // SAFETY: the rows were found for these columns, each with a source that is good for all of them: the memory is kept
                // alive by them, or by the caller's arguments.
                unsafe { writer.add(rings, found.sources(), found.terminated(), found.truncated(), added) }
            };
            Ok(self.columns.added(py, rings.len(), |added| self.writer.with(py, |writer| add(writer, added)))?.1)
        })
    }

    #[pyo3(signature = (places = None))]
    fn close_episodes(&self, py: Python<'_>, places: Option<Index>) -> PyResult<()> {
        let rings = rings_at(&self.rings, places.as_deref()).python()?;
        self.writer.with(py, |writer| rings.iter().try_for_each(|&ring| writer.close_episode(ring))).python()
    }

    fn reset(&self, py: Python<'_>, keep_statistics: bool) -> PyResult<()> {
        self.writer.with(py, |writer| writer.reset(keep_statistics)).python()
    }

    fn release(&self, py: Python<'_>) {
        self.writer.with(py, Writer::release);
    }
}

/// Draws rows of all rings.
#[pyclass(frozen, module = "rlfast._core")]
pub struct RingReader {
    prepared: Prepared<Columns>,
    batch: Py<PyType>,
    reader: Shared<Reader>,
    has_nstep: bool,
}

impl RingReader {
    /// Fills new arrays, and returns them in a batch with what was drawn.
    fn filled<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        fill: impl FnOnce(&mut Reader, &mut Outputs<'_>) -> Result<Drawn> + Send,
    ) -> PyResult<(Object<'py>, Remembering)> {
        let allocated = Allocated::new(py, &self.prepared, rows, &[rows], None)?;
        let columns: Vec<_> = allocated.outputs.iter().map(|output| output.dst).collect();
        let returns = if self.has_nstep { rows } else { 0 };
        let (mut discounts, mut last) = (NewArray::new(py, &[returns])?, NewArray::new(py, &[returns])?);
        let mut outputs = Outputs { columns: &columns, discounts: discounts.items(), last: last.items() };
        let mut drawn = self.reader.over(py, allocated.bytes, |reader| fill(reader, &mut outputs)).python()?;
        let fields = allocated.nest()?;
        if self.has_nstep {
            fields.set_item(&names(py).discount, discounts.array)?;
            fields.set_item(&names(py).last_index, last.array)?;
        }
        if let Some(weights) = drawn.weights.take() {
            fields.set_item(&names(py).weight, Shaped::from(weights))?;
        }
        Ok((with_fields(&self.batch, fields)?, drawn.into()))
    }
}

#[pymethods]
impl RingReader {
    #[new]
    #[pyo3(signature = (memory, columns, *, batch, stack_num = 1, n_step = None, gamma = 1.0, alpha = None, beta = 1.0,
        weight_norm = true, seed = 0))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a constructor")]
    fn new(
        py: Python<'_>,
        memory: &RingMemory,
        columns: Items<ColumnSpec<'_>>,
        batch: Py<PyType>,
        stack_num: usize,
        n_step: Option<usize>,
        gamma: f64,
        alpha: Option<f64>,
        beta: f64,
        weight_norm: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let (columns, layout) = columns_of(py, &columns.0, batch.clone_ref(py))?;
        let nstep = n_step.map(|steps| NStep { steps, gamma });
        let options = Options { stack: stack_num, nstep, alpha, beta, weight_norm, seed };
        let reader = Reader::new(memory.memory.clone(), layout, options).python()?;
        let (prepared, reader) = (Prepared::whole(columns, stack_num), Shared::new(reader));
        Ok(Self { prepared, batch, reader, has_nstep: nstep.is_some() })
    }

    fn sample<'py>(&self, py: Python<'py>, batch_size: usize) -> PyResult<(Object<'py>, Remembering)> {
        // SAFETY: the arrays have room for so many rows.
        self.filled(py, batch_size, |reader, outputs| unsafe { reader.sample(batch_size, outputs) })
    }

    fn take<'py>(&self, py: Python<'py>, index: Remembering) -> PyResult<Object<'py>> {
        let Provenance { index, generations, .. } = index.rows;
        // SAFETY: the arrays have room for the rows of the index.
        let take =
            |reader: &mut Reader, out: &mut Outputs<'_>| unsafe { reader.take(&index, generations.as_deref(), out) };
        Ok(self.filled(py, index.len(), take)?.0)
    }

    fn draw(&self, py: Python<'_>, batch_size: usize) -> PyResult<Remembering> {
        let bytes = batch_size.saturating_mul(32);
        Ok(self.reader.over(py, bytes, |reader| reader.draw_only(batch_size)).python()?.into())
    }

    fn live(&self, py: Python<'_>) -> PyResult<Remembering> {
        Ok(self.reader.with(py, Reader::live).python()?.into())
    }

    fn update_priority(&self, py: Python<'_>, index: Remembering, priority: Shaped<f64>) -> PyResult<u64> {
        let (Provenance { index, generations, .. }, priority) = (index.rows, priority.values);
        let update = |reader: &mut Reader| reader.update_priorities(&index, generations.as_deref(), &priority);
        self.reader.over(py, priority.len() * 16, update).python()
    }

    fn sizes(&self, py: Python<'_>) -> Shaped<i64> {
        self.reader.with(py, |reader| reader.sizes()).into()
    }

    #[getter]
    fn prioritized(&self, py: Python<'_>) -> bool {
        self.reader.with(py, |reader| reader.options().alpha.is_some())
    }

    #[getter]
    fn get_beta(&self, py: Python<'_>) -> f64 {
        self.reader.with(py, |reader| reader.options().beta)
    }

    #[setter]
    fn set_beta(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.reader.with(py, |reader| reader.set_beta(value)).python()
    }

    #[getter]
    fn stale_updates(&self, py: Python<'_>) -> u64 {
        self.reader.with(py, |reader| reader.stale())
    }
}
