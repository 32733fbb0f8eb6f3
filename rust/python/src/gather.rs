//! Makes nested dicts of new arrays from row numbers.
//!
//! There are three steps, so that no Python code runs while the engine is locked: the engine's [`Plan`] lists the arrays,
//! [`Allocated::new`] makes them for the engine to fill, and [`Allocated::nest`] puts them into dicts and batches.
//!
//! [`Plan`]: rlfast_host::plan::Plan

use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use rlfast_core::replay::gather::{Content, Output};
use rlfast_core::source::is_shape;
use rlfast_core::vectors::product;
use rlfast_host::plan::{Field, Value};
use rlfast_host::session::Prepared;

use crate::array::NPY_MAXDIMS;
use crate::batch::{self, with_fields};
use crate::columns::Columns;
use crate::prelude::*;

/// Arrays, and the addresses to which the engine writes their rows.
pub struct Allocated<'a, 'py> {
    py: Python<'py>,
    prepared: &'a Prepared<Columns>,
    arrays: Vec<Option<Object<'py>>>,
    /// For the engine.
    pub outputs: Vec<Output>,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl<'a, 'py> Allocated<'a, 'py> {
    /// Makes the arrays for `rows` rows, in the leading axes `shape`; `out` may give some of them.
    pub fn new(
        py: Python<'py>,
        prepared: &'a Prepared<Columns>,
        rows: usize,
        shape: &[usize],
        out: Option<&Object<'py>>,
    ) -> PyResult<Self> {
        let Prepared { columns, plan, pairs, .. } = prepared;
        let planned = plan.arrays();
        let (arrays, outputs) = (vec![None; planned.len()], Vec::with_capacity(planned.len()));
        let mut made = Self { py, prepared, arrays, outputs, bytes: 0 };
        for pair in pairs {
            let obs = &planned[pair.obs];
            let (descr, bytes) = (columns.descr(py, obs.leaf), product(&[rows, pair.bytes]).python()?);
            let mut room = [0; NPY_MAXDIMS];
            let dims = array::join(&[rows], &obs.shape, &mut room)?;
            dims[1] += 1; // a frame more than obs, which shows the first frames of each row, and obs_next the last
            let (block, dst) = array::empty(descr, dims, bytes)?;
            dims[1] -= 1;
            for (at, first) in [(pair.obs, 0), (pair.next, pair.frame)] {
                let view = array::over(descr, dims, Some(pair.bytes), dst.wrapping_add(first), true, block.clone())?;
                made.arrays[at] = Some(view);
            }
            made.add(pair.block, obs.stack, dst, bytes);
        }
        for (at, item) in planned.iter().enumerate() {
            if made.arrays[at].is_some() {
                continue;
            }
            let (descr, bytes) = (columns.descr(py, item.leaf), product(&[item.bytes, rows]).python()?);
            let mut room = [0; NPY_MAXDIMS];
            let dims = array::join(shape, &item.shape, &mut room)?;
            let (array, dst) = match (out, plan.key_of(at).map(|key| &columns.keys[key])) {
                (Some(out), Some(key)) if out.contains(key)? => checked(descr, dims, out.get_item(key)?)?,
                _ => array::empty(descr, dims, bytes)?,
            };
            made.arrays[at] = Some(array);
            made.add(item.content, item.stack, dst, bytes);
        }
        Ok(made)
    }

    fn add(&mut self, content: Content, stack: usize, dst: *mut u8, bytes: usize) {
        self.outputs.push(Output { content, stack, dst });
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The arrays, once their rows are written, in a dict, with a batch around the inner ones.
    pub fn nest(mut self) -> PyResult<Bound<'py, PyDict>> {
        self.nested(self.prepared.plan.fields())
    }

    fn nested(&mut self, fields: &[Field]) -> PyResult<Bound<'py, PyDict>> {
        let (py, columns) = (self.py, &self.prepared.columns);
        let dict = PyDict::new(py);
        for field in fields {
            let key = &columns.keys[field.key];
            match &field.value {
                Value::Array(at) => dict.set_item(key, self.arrays[*at].take())?,
                Value::Batch(inner) if inner.is_empty() => dict.set_item(key, batch::empty(py, &columns.batch)?)?,
                Value::Batch(inner) => dict.set_item(key, with_fields(&columns.batch, self.nested(inner)?)?)?,
            }
        }
        Ok(dict)
    }
}

/// An array that a caller gives to be filled, and its first byte.
fn checked<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    dims: &[usize],
    given: Object<'py>,
) -> PyResult<(Object<'py>, *mut u8)> {
    let fits = array::of(&given).filter(|array| {
        is_shape(array.shape(), dims)
            && array::has(array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE)
            && array.dtype().is_equiv_to(descr)
    });
    if let Some(data) = fits.map(array::data) {
        return Ok((given, data));
    }
    let got = given.getattr("shape").map_or_else(|_| given.get_type().to_string(), |shape| shape.to_string());
    Err(raised!(PyValueError, "out needs writable C-contiguous arrays of dtype {descr} and shape {dims:?}, got {got}"))
}
