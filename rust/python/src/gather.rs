//! Makes nested dicts of new arrays from row numbers.
//!
//! There are three steps, so that no Python code runs while the engine is locked: the engine's [`Plan`] lists the arrays,
//! [`Allocated::new`] makes them for the engine to fill, and [`Allocated::nest`] puts them into dicts and batches.

use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use rlfast_core::replay::gather::Output;
use rlfast_core::replay::plan::Plan;
use rlfast_core::replay::session::Prepared;
use rlfast_core::vectors::product;

use crate::array::NPY_MAXDIMS;
use crate::batch::nested;
use crate::columns::Columns;
use crate::prelude::*;

/// Arrays, and the addresses to which the engine writes their rows.
pub struct Allocated<'py> {
    arrays: Vec<Option<Object<'py>>>,
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
        out: Option<&Object<'py>>,
    ) -> PyResult<Self> {
        let Prepared { columns, plan, pairs, .. } = prepared;
        let planned = plan.arrays();
        let outputs = Vec::with_capacity(planned.len());
        let mut made = Self { arrays: vec![None; planned.len()], outputs, bytes: 0 };
        for pair in pairs {
            let obs = &planned[pair.obs];
            let descr = columns.schema.columns()[obs.leaf].dtype.descr.bind(py);
            let mut room = [0; NPY_MAXDIMS];
            let dims = array::join(&[rows as npy_intp], &obs.shape, &mut room)?;
            dims[1] += 1; // a frame more than obs, which shows the first frames of each row, and obs_next the last
            let (block, dst) = array::empty(descr, dims, product(&[rows, pair.bytes]).python()?)?;
            dims[1] -= 1;
            let mut strides = array::packed_strides(dims, descr.itemsize());
            strides[0] = pair.bytes as npy_intp;
            for (at, first) in [(pair.obs, 0), (pair.next, pair.frame)] {
                let (strides, data) = (Some(&mut strides[..]), dst.wrapping_add(first));
                made.arrays[at] = Some(array::over(descr, dims, strides, data, true, block.clone())?);
            }
            made.outputs.push(Output { content: pair.block, stack: obs.stack, dst });
            made.bytes = made.bytes.saturating_add(pair.bytes * rows);
        }
        for (at, item) in planned.iter().enumerate() {
            if made.arrays[at].is_some() {
                continue;
            }
            let descr = columns.schema.columns()[item.leaf].dtype.descr.bind(py);
            let mut room = [0; NPY_MAXDIMS];
            let dims = array::join(shape, &item.shape, &mut room)?;
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
    out: Option<&Object<'py>>,
) -> PyResult<Option<Object<'py>>> {
    let Some(out) = out else { return Ok(None) };
    match plan.key_of(array).map(|key| &columns.keys[key]) {
        Some(key) if out.contains(key)? => Ok(Some(out.get_item(key)?)),
        _ => Ok(None),
    }
}

/// An array that a caller gives to be filled, and its first byte.
fn checked<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &[npy_intp],
    given: Object<'py>,
) -> PyResult<(Object<'py>, *mut u8)> {
    let py = descr.py();
    let bad = || {
        let got = given.getattr("shape").map_or_else(|_| given.get_type().to_string(), |shape| shape.to_string());
        raised!(PyValueError, "out needs writable C-contiguous arrays of dtype {descr} and shape {dims:?}, got {got}")
    };
    let Some(array) = ArrayRef::of(&given) else { return Err(bad()) };
    let fits = array.dims() == dims && array.has(NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE);
    if !fits || !array.dtype(py).is_equiv_to(descr) {
        return Err(bad());
    }
    let data = array.data();
    Ok((given, data))
}
