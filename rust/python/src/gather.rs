//! From row numbers to a nested dict of fresh arrays.
//!
//! Done in three steps, so that no Python code runs while the engine is locked: a [`KeyedPlan`] says which arrays there will be,
//! [`KeyedPlan::allocate`] makes them for the engine to fill, and [`Gathered::nest`] puts them into dicts and batches.

use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use rlfast_core::replay::gather::{Content, Output};
use rlfast_core::replay::layout::Layout;
use rlfast_core::replay::plan::{Plan, PlannedArray, SharedPair, TRANSITION_KEYS, stack_of};
use rlfast_core::vectors::product;

use crate::array;
use crate::batch::{Field, Value, nested};
use crate::columns::{Columns, Kind};
use crate::error::IntoPython as _;

/// Axes that every NumPy supports.
const NPY_MAXDIMS: usize = 32;

/// A plan of the core, and the keys that its arrays get.
#[derive(Debug)]
pub struct KeyedPlan {
    fields: Vec<Field>,
    /// The arrays.
    pub plan: Plan,
}

/// Arrays, and where the engine writes their rows.
pub struct Allocated<'py> {
    arrays: Vec<Option<Bound<'py, PyAny>>>,
    /// For the engine.
    pub outputs: Vec<Output>,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// Arrays whose rows are written.
pub struct Gathered<'py> {
    plan: Arc<KeyedPlan>,
    arrays: Vec<Option<Bound<'py, PyAny>>>,
}

impl KeyedPlan {
    /// The arrays for `keys` (None: all), with obs, obs_next, info and policy stacked `stack` times.
    pub fn new(
        py: Python<'_>,
        columns: &Columns,
        layout: &Layout,
        keys: Option<&[String]>,
        stack: usize,
    ) -> PyResult<Self> {
        let mut planned = Self { fields: Vec::new(), plan: Plan::default() };
        let node_at = |key: &str| columns.root.iter().find(|node| node.name.bind(py) == key);
        for key in keys.map_or_else(|| all_keys(py, columns), |keys| Ok(keys.to_vec()))? {
            let value = match (node_at(&key), key.as_str()) {
                (Some(node), _) => planned.add(py, &node.kind, stack_of(&key, stack), &Content::Leaf, layout),
                (None, "obs_next") if columns.ignores_obs_next() => match node_at("obs") {
                    Some(obs) => planned.add(py, &obs.kind, stack, &|leaf| layout.next_content(leaf), layout),
                    None => Value::Batch(Vec::new()),
                },
                (None, standard) if TRANSITION_KEYS.contains(&standard) => Value::Batch(Vec::new()),
                (None, unknown) => return Err(PyKeyError::new_err(unknown.to_owned())),
            };
            planned.fields.push(Field { name: PyString::intern(py, &key).unbind(), value });
        }
        Ok(planned)
    }

    /// Adds the arrays of what stands at a key; `content` says what holds each leaf.
    fn add(
        &mut self,
        py: Python<'_>,
        kind: &Kind,
        stack: usize,
        content: &dyn Fn(usize) -> Content,
        layout: &Layout,
    ) -> Value {
        match kind {
            Kind::Leaf(leaf) => Value::Array(self.plan.push(layout, content(*leaf), *leaf, stack)),
            Kind::Foreign => Value::Batch(Vec::new()),
            Kind::Group(nodes) => {
                let kept = nodes.iter().filter(|node| !matches!(node.kind, Kind::Foreign));
                let field = |(name, kind): (&Py<PyString>, &Kind)| Field {
                    name: name.clone_ref(py),
                    value: self.add(py, kind, stack, content, layout),
                };
                Value::Batch(kept.map(|node| (&node.name, &node.kind)).map(field).collect())
            }
        }
    }

    /// Makes the arrays for `rows` rows, in the leading axes `shape`, of which `pairs` share blocks; `out` may give some of them.
    pub fn allocate<'py>(
        &self,
        py: Python<'py>,
        columns: &Columns,
        rows: usize,
        shape: &[npy_intp],
        pairs: &[SharedPair],
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Allocated<'py>> {
        let planned = self.plan.arrays();
        let outputs = Vec::with_capacity(planned.len());
        let mut made = Allocated { arrays: vec![None; planned.len()], outputs, bytes: 0 };
        for pair in pairs {
            let obs = &planned[pair.obs];
            let block = Block::new(columns.columns[obs.leaf].descr.bind(py), obs, rows, pair.bytes)?;
            made.outputs.push(Output { content: pair.block, stack: obs.stack, dst: block.data });
            made.bytes = made.bytes.saturating_add(pair.bytes * rows);
            made.arrays[pair.obs] = Some(block.view(0)?);
            made.arrays[pair.next] = Some(block.view(1)?);
        }
        for (at, item) in planned.iter().enumerate() {
            if made.arrays[at].is_some() {
                continue;
            }
            let descr = columns.columns[item.leaf].descr.bind(py);
            let mut axes = [0; NPY_MAXDIMS];
            let dims = join(shape, &item.shape, &mut axes)?;
            let bytes = product(&[item.bytes, rows]).python()?;
            let given = match out {
                Some(out) => self.given(py, out, at)?,
                None => None,
            };
            let (array, dst) = match given {
                Some(array) => checked(descr, dims, array)?,
                None => array::empty(descr, dims, bytes)?,
            };
            made.outputs.push(Output { content: item.content, stack: item.stack, dst });
            made.bytes = made.bytes.saturating_add(bytes);
            made.arrays[at] = Some(array);
        }
        Ok(made)
    }

    /// The array that `out` gives for the array with this number, if it does: by its top-level key.
    fn given<'py>(&self, py: Python<'py>, out: &Bound<'py, PyAny>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let field = self.fields.iter().find(|field| matches!(field.value, Value::Array(array) if array == at));
        match field {
            Some(field) if out.contains(&field.name)? => Ok(Some(out.get_item(field.name.bind(py))?)),
            _ => Ok(None),
        }
    }
}

/// The keys of a transition, and those of columns beside them.
fn all_keys(py: Python<'_>, columns: &Columns) -> PyResult<Vec<String>> {
    let mut keys: Vec<String> = TRANSITION_KEYS.iter().map(|&key| key.to_owned()).collect();
    for node in &columns.root {
        let key = node.name.bind(py).to_str()?;
        if !TRANSITION_KEYS.contains(&key) {
            keys.push(key.to_owned());
        }
    }
    Ok(keys)
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
        let mut strides = vec![self.descr.itemsize() as npy_intp; dims.len()];
        for axis in (1..dims.len() - 1).rev() {
            strides[axis] = strides[axis + 1] * dims[axis + 1];
        }
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
    if !array::is_array(py, given.as_ptr()) {
        return Err(bad());
    }
    // SAFETY: an array, alive through `given`.
    let array = unsafe { array::fields(given.as_ptr()) };
    // SAFETY: as above.
    let (shape, _) = unsafe { array::axes(array) };
    let dtype = given.getattr("dtype")?.cast_into::<PyArrayDescr>()?;
    let writable = array.flags & numpy::npyffi::flags::NPY_ARRAY_WRITEABLE != 0;
    if shape != dims || !array::is_contiguous(array) || !writable || !dtype.is_equiv_to(descr) {
        return Err(bad());
    }
    let data = array.data.cast();
    Ok((given, data))
}

impl<'py> Allocated<'py> {
    /// The arrays of `plan`, once their rows are written.
    pub fn gathered(self, plan: Arc<KeyedPlan>) -> Gathered<'py> {
        Gathered { plan, arrays: self.arrays }
    }
}

impl<'py> Gathered<'py> {
    /// The arrays in a dict, with a batch around the inner ones.
    pub fn nest(mut self, py: Python<'py>, batch: &Py<PyType>) -> PyResult<Bound<'py, PyDict>> {
        nested(py, &self.plan.fields, &mut self.arrays, batch)
    }
}
