//! Rows out, drawn or named.

use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rlfast_core::replay::layout::Place;

use super::Replay;
use crate::array::{self, RegionKeeper, integers, vector};
use crate::error::IntoPython as _;
use crate::index::remembering;
use crate::taking::{around, single};

#[pymethods]
impl Replay {
    #[pyo3(signature = (index, keys = None, stack_num = None, out = None))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        keys: Option<Vec<String>>,
        stack_num: Option<usize>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (index, shape) = integers(index)?;
        let filled = self.lock(py).take(py, &index, &shape, keys.as_deref(), stack_num, out)?;
        filled.nest(py, &self.batch)
    }

    #[pyo3(signature = (batch_size, out = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: usize,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let mut state = self.lock(py);
        let mut index = vec![0; batch_size];
        state.engine.draw(&mut index, None).python()?;
        let filled = state.take(py, &index, &[batch_size as npy_intp], None, None, out)?;
        let weights = state.engine.priorities().is_some().then(|| state.weights(&index, None));
        let memory = state.memory(index);
        drop(state);
        let fields = filled.nest(py, &self.batch)?;
        if let Some(weights) = weights {
            fields.set_item(pyo3::intern!(py, "weight"), vector(py, &weights))?;
        }
        Ok((around(&self.batch, fields)?, remembering(py, memory, None)?))
    }

    #[pyo3(signature = (batch_size, ring = None))]
    fn draw<'py>(&self, py: Python<'py>, batch_size: usize, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.lock(py);
        let ring = Self::ring(&state, ring)?;
        let mut index = vec![0; batch_size];
        state.engine.draw(&mut index, ring).python()?;
        let memory = state.memory(index);
        drop(state);
        remembering(py, memory, None)
    }

    fn view<'py>(&self, py: Python<'py>, path: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.lock(py);
        let at = state.find(path)?;
        let total = state.engine.rings().total();
        let columns = state.columns.clone();
        let column = &columns.columns[at];
        let table = state.engine.table().expect("invariant: columns are laid out");
        let (region, offset, stride) = match table.layout.places[at] {
            Place::Record { offset } => (&table.records, offset, table.layout.stride),
            Place::Column { column } => (&table.columns[column], 0, table.layout.columns[column]),
            Place::Frames { .. } | Place::Next { .. } => {
                let index: Vec<i64> = (0..total as i64).collect();
                let reader = state.engine.reader().python()?;
                let plan = Arc::new(single(at, reader));
                let filled = plan.fill(py, &columns, reader, &index, &[total as npy_intp], None)?;
                return filled.single().ok_or_else(|| PyKeyError::new_err("nothing to view"));
            }
        };
        let mut dims = vec![total as npy_intp];
        dims.extend(column.leaf.shape.iter().map(|&n| n as npy_intp));
        let mut strides = vec![column.leaf.itemsize as npy_intp; dims.len()];
        for axis in (1..dims.len() - 1).rev() {
            strides[axis] = strides[axis + 1] * dims[axis + 1];
        }
        strides[0] = stride as npy_intp;
        let writable = !matches!(column.leaf.root(), "obs" | "terminated" | "truncated" | "done");
        let (region, data) = (region.clone(), region.at(offset));
        drop(state);
        let keeper = Bound::new(py, RegionKeeper::new(region))?.into_any();
        array::over(column.descr.bind(py), &mut dims, Some(&mut strides), data, writable, keeper)
    }

    fn set_column(&self, py: Python<'_>, path: &Bound<'_, PyTuple>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let column = self.view(py, path)?;
        let root: String = path.get_item(0)?.extract()?;
        if matches!(root.as_str(), "obs" | "obs_next" | "terminated" | "truncated" | "done") {
            return Err(PyValueError::new_err(format!("{root} cannot be overwritten in place; use load")));
        }
        let wanted = column.getattr("shape")?;
        let got = values.getattr("shape")?;
        if !wanted.eq(&got)? {
            return Err(PyValueError::new_err(format!("the column has shape {wanted}, got {got}")));
        }
        py.import("numpy")?.call_method1("copyto", (column, values))?;
        Ok(())
    }
}
