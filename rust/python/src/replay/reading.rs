//! Reading rows: drawn ones, or those of an index.

use rlfast_core::error::Result;
use rlfast_core::replay::Replay as Engine;
use rlfast_core::replay::provenance::Provenance;
use rlfast_core::replay::view::ColumnView;
use rlfast_host::session::Selection;

use super::Replay;
use crate::batch::with_fields;
use crate::columns::{KeyPath, State};
use crate::gather::Allocated;
use crate::index::Remembering;
use crate::prelude::*;

/// The fields of rows that a caller requests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Request<'a, 'py> {
    /// The top-level keys; None is all.
    pub keys: Option<&'a [String]>,
    /// How many rows are stacked into one; None is the buffer's own number.
    pub stack: Option<usize>,
    /// Arrays to be filled.
    pub out: Option<&'a Object<'py>>,
    /// Whether the fields are all that there is of the rows: no columns of objects.
    pub is_plain: bool,
}

impl Replay {
    /// The rows at `index`, whose shape is `shape`, in a nested dict.
    pub(crate) fn gathered<'py>(
        &self,
        py: Python<'py>,
        index: &Index,
        request: Request<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.gathered_with(py, Selection::Given(index), &index.shape, request, |_, _| Ok(()))?.0)
    }

    /// Returns the rows in new arrays, and their records and weights at the time of the copy.
    fn gathered_with<'py, T: Send>(
        &self,
        py: Python<'py>,
        mut selection: Selection<'_>,
        shape: &[usize],
        request: Request<'_, 'py>,
        beside: impl Fn(&mut Engine, &[i64]) -> Result<T> + Sync,
    ) -> PyResult<(Bound<'py, PyDict>, T)> {
        let (keys, stack) = (request.keys, request.stack);
        let mut share = request.out.is_none() && shape.len() == 1;
        loop {
            let prepared = self.state.with(py, |state| state.prepare(&mut selection, keys, stack, share)).python()?;
            if request.is_plain {
                prepared.columns.check_plain()?;
            }
            let allocated = Allocated::new(py, &prepared, selection.rows().len(), shape, request.out)?;
            let outputs = &allocated.outputs;
            // SAFETY: each output was made with room for its rows.
            let gather = |state: &mut State| unsafe { state.gather(&prepared, &mut selection, outputs, &beside) };
            if let Some(beside) = self.state.over(py, allocated.bytes, gather).python()? {
                return Ok((allocated.nest()?, beside));
            }
            // Another thread wrote in between. Without shared blocks, nothing depends on what the rows are before they are copied.
            share = false;
        }
    }
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (index, keys = None, stack_num = None, out = None, is_plain = false))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        index: Index,
        keys: Option<Items<String>>,
        stack_num: Option<usize>,
        out: Option<&Object<'py>>,
        is_plain: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let request = Request { keys: keys.as_deref(), stack: stack_num, out, is_plain };
        self.gathered(py, &index, request)
    }

    #[pyo3(signature = (batch_size, out = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: usize,
        out: Option<&Object<'py>>,
    ) -> PyResult<(Object<'py>, Remembering)> {
        let mut index = vectors::filled(0, batch_size).python()?;
        let request = Request { out, is_plain: true, ..Request::default() };
        let known = |engine: &mut Engine, index: &[i64]| Ok((engine.weights(index, None)?, engine.generations(index)?));
        let drawn = Selection::Drawn(&mut index);
        let (fields, (weights, generations)) = self.gathered_with(py, drawn, &[batch_size], request, known)?;
        if let Some(weights) = weights {
            fields.set_item(&crate::once::names(py).weight, Shaped::from(weights))?;
        }
        Ok((with_fields(&self.batch, fields)?, Provenance::of(index, generations).into()))
    }

    #[pyo3(signature = (batch_size, ring = None))]
    fn draw(&self, py: Python<'_>, batch_size: usize, ring: Option<usize>) -> PyResult<Remembering> {
        let mut index = vectors::filled(0, batch_size).python()?;
        let draw = |state: &mut State| {
            state.options_mut().draw(&mut index, ring)?;
            state.engine().provenance(index)
        };
        Ok(self.state.over(py, batch_size.saturating_mul(32), draw).python()?.into())
    }

    fn view<'py>(&self, py: Python<'py>, path: KeyPath) -> PyResult<Object<'py>> {
        // What there is to copy, if it is not stored as such.
        let bytes = self.state.with(py, |state| state.engine().column_bytes(&path)).python()?;
        let look = |state: &mut State| {
            let at = state.engine().leaf(&path)?;
            Result::Ok((state.columns().clone(), at, state.engine().column(at)?))
        };
        let (columns, at, view) = self.state.over(py, bytes, look).python()?;
        let ColumnView { region, offset, stride, writable } = view;
        let dims = [&[self.total], &columns.schema.columns()[at].leaf.shape[..]].concat();
        let (data, keeper) = (region.at(offset), array::keeper(py, region)?);
        array::over(columns.descr(py, at), &dims, Some(stride), data, writable, keeper)
    }
}
