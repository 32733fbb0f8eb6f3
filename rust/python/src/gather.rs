//! Makes nested dicts of new arrays from row numbers.
//!
//! There are three steps, so that no Python code runs while the engine is locked: the engine's [`Plan`] lists the arrays,
//! [`Allocated::new`] makes them for the engine to fill, and [`Allocated::nest`] puts them into dicts and batches.

use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlfast_core::replay::gather::Output;
use rlfast_core::replay::plan::{Plan, PlannedArray};
use rlfast_core::replay::session::Prepared;
use rlfast_core::vectors::product;

use crate::array::{self, ArrayRef, NPY_MAXDIMS};
use crate::batch::nested;
use crate::columns::Columns;
use crate::error::IntoPython as _;

/// Arrays, and the addresses to which the engine writes their rows.
pub struct Allocated<'py> {
    arrays: Vec<Option<Bound<'py, PyAny>>>,
    /// For the engine.
    pub outputs: Vec<Output>,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl<'py> Allocated<'py> {
    /// Makes the arrays for `rows` rows, in the leading axes `shape`; `out` may give some of them.
    pub fn new(
        py: Python<'py>,
        prepared: &Prepared<Columns>,
        rows: usize,
        shape: &[npy_intp],
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let Prepared { columns, plan, pairs, .. } = prepared;
        let planned = plan.arrays();
        let outputs = Vec::with_capacity(planned.len());
        let mut made = Self { arrays: vec![None; planned.len()], outputs, bytes: 0 };
        for pair in pairs {
            let obs = &planned[pair.obs];
            let block = Block::new(columns.schema.columns()[obs.leaf].dtype.descr.bind(py), obs, rows, pair.bytes)?;
            made.outputs.push(Output { content: pair.block, stack: obs.stack, dst: block.data });
            made.bytes = made.bytes.saturating_add(pair.bytes * rows);
            made.arrays[pair.obs] = Some(block.view(0)?);
            made.arrays[pair.next] = Some(block.view(1)?);
        }
        for (at, item) in planned.iter().enumerate() {
            if made.arrays[at].is_some() {
                continue;
            }
            let descr = columns.schema.columns()[item.leaf].dtype.descr.bind(py);
            let mut axes = [0; NPY_MAXDIMS];
            let dims = join(shape, &item.shape, &mut axes)?;
            let bytes = product(&[item.bytes, rows]).python()?;
            let (array, dst) = match given(columns, plan, at, out)? {
                Some(array) => checked(descr, dims, array)?,
                None => array::empty(descr, dims, bytes)?,
            };
            made.outputs.push(Output { content: item.content, stack: item.stack, dst });
            made.bytes = made.bytes.saturating_add(bytes);
            made.arrays[at] = Some(array);
        }
        Ok(made)
    }

    /// The arrays, once their rows are written, in a dict, with a batch around the inner ones.
    pub fn nest(mut self, py: Python<'py>, prepared: &Prepared<Columns>) -> PyResult<Bound<'py, PyDict>> {
        let Prepared { columns, plan, .. } = prepared;
        nested(py, plan.fields(), &columns.keys, &mut self.arrays, &columns.batch)
    }
}

/// Returns the array that `out` has for the array with this number, by its outermost key.
fn given<'py>(
    columns: &Columns,
    plan: &Plan,
    array: usize,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(out) = out else { return Ok(None) };
    match plan.key_of(array).map(|key| &columns.keys[key]) {
        Some(key) if out.contains(key)? => Ok(Some(out.get_item(key)?)),
        _ => Ok(None),
    }
}

/// The shape of an index and that of a row, one after the other.
fn join<'a>(index: &[npy_intp], row: &[usize], room: &'a mut [npy_intp; NPY_MAXDIMS]) -> PyResult<&'a mut [npy_intp]> {
    let count = index.len() + row.len();
    if count > NPY_MAXDIMS {
        return Err(PyValueError::new_err(format!("an array has at most {NPY_MAXDIMS} axes, these rows need {count}")));
    }
    room[..index.len()].copy_from_slice(index);
    for (axis, &length) in room[index.len()..count].iter_mut().zip(row) {
        *axis = length as npy_intp;
    }
    Ok(&mut room[..count])
}

/// One array of `[rows, frames + 1, ...]`, of which obs shows the first frames of each row and obs_next the last.
struct Block<'a, 'py> {
    descr: &'a Bound<'py, PyArrayDescr>,
    array: Bound<'py, PyAny>,
    data: *mut u8,
    /// The shape of obs and of obs_next.
    dims: Vec<npy_intp>,
    /// Bytes of a row of the block.
    row: usize,
}

impl<'a, 'py> Block<'a, 'py> {
    /// Memory for `rows` rows of `row` bytes.
    fn new(descr: &'a Bound<'py, PyArrayDescr>, obs: &PlannedArray, rows: usize, row: usize) -> PyResult<Self> {
        let dims: Vec<_> = std::iter::once(rows).chain(obs.shape.iter().copied()).map(|n| n as npy_intp).collect();
        let mut longer = dims.clone();
        longer[1] += 1;
        let (array, data) = array::empty(descr, &mut longer, product(&[rows, row]).python()?)?;
        Ok(Self { descr, array, data, dims, row })
    }

    /// The stacks that begin with frame `first`.
    fn view(&self, first: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut dims = self.dims.clone();
        let mut strides = array::packed_strides(&dims, self.descr.itemsize());
        strides[0] = self.row as npy_intp;
        let frame = self.row / (dims[1] as usize + 1);
        let data = self.data.wrapping_add(first * frame);
        array::over(self.descr, &mut dims, Some(&mut strides), data, true, self.array.clone())
    }
}

/// An array that a caller gives to be filled, and its first byte.
fn checked<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &[npy_intp],
    given: Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    let py = descr.py();
    let bad = || {
        let got = given.getattr("shape").map_or_else(|_| given.get_type().to_string(), |shape| shape.to_string());
        PyValueError::new_err(format!(
            "out needs writable C-contiguous arrays of dtype {descr} and shape {dims:?}, got {got}"
        ))
    };
    let Some(array) = ArrayRef::of(&given) else { return Err(bad()) };
    let fits = array.dims() == dims && array.has(NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE);
    if !fits || !array.dtype(py).is_equiv_to(descr) {
        return Err(bad());
    }
    let data = array.data();
    Ok((given, data))
}
