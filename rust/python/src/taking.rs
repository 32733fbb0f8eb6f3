//! From row numbers to a nested dict of fresh arrays.
//!
//! Done in three steps, so that no Python code runs while the engine is locked: [`Plan`] says which arrays there will be,
//! [`Plan::fill`] makes and fills them, and [`Filled::nest`] puts them into dicts and batches.

use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use rlfast_core::replay::gather::{Output, Reader, What};
use rlfast_core::replay::layout::{Layout, Place};
use rlfast_core::vectors::product;

use crate::array;
use crate::columns::{Columns, Kind, Node};
use crate::error::IntoPython as _;

/// Keys that are stacked under `stack_num`.
const STACKED: [&str; 4] = ["obs", "obs_next", "info", "policy"];
/// Keys that a transition always has, empty if need be, in this order.
const STANDARD: [&str; 9] = ["obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy"];
/// Axes that every NumPy supports.
const NPY_MAXDIMS: usize = 32;
/// Frames from this size on share one block between obs and obs_next.
const SHARED_FRAME: usize = 1024;

/// A key of the result.
#[derive(Debug)]
struct Entry {
    name: Py<PyString>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The array with this number.
    Array(usize),
    Group(Vec<Entry>),
}

/// One array of the result.
#[derive(Clone, Debug)]
struct Item {
    what: What,
    stack: usize,
    /// Shape and bytes of one row.
    shape: Vec<npy_intp>,
    bytes: usize,
    /// The column whose dtype and shape it has.
    column: usize,
    /// For obs and obs_next that may share a block: their twin, and whether it is obs_next.
    twin: Option<(usize, bool)>,
}

/// Which arrays there will be, under which keys.
#[derive(Debug)]
pub struct Plan {
    entries: Vec<Entry>,
    items: Vec<Item>,
}

/// An obs and an obs_next, by their numbers, that share a block.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    obs: usize,
    next: usize,
    twin: usize,
    /// Bytes of a row of the block.
    bytes: usize,
}

/// The arrays, and where their rows are to be written.
pub struct Room<'py> {
    arrays: Vec<Option<Bound<'py, PyAny>>>,
    /// For the engine.
    pub outputs: Vec<Output>,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// The arrays, filled.
pub struct Filled<'py> {
    plan: Arc<Plan>,
    arrays: Vec<Option<Bound<'py, PyAny>>>,
}

impl Item {
    fn new(what: What, stack: usize, column: usize, shape: &[usize], layout: &Layout) -> Self {
        let stacked = (stack > 1).then_some(stack as npy_intp);
        let shape = stacked.into_iter().chain(shape.iter().map(|&n| n as npy_intp)).collect();
        Self { what, stack, shape, bytes: layout.output_bytes(what, stack), column, twin: None }
    }
}

impl Plan {
    /// The arrays for `keys` (None: all), with obs, obs_next, info and policy stacked `stack` times.
    pub fn new(
        py: Python<'_>,
        columns: &Columns,
        layout: &Layout,
        keys: Option<&[String]>,
        stack: usize,
    ) -> PyResult<Self> {
        let mut plan = Self { entries: Vec::new(), items: Vec::new() };
        let stack_of = |key: &str| if STACKED.contains(&key) { stack } else { 1 };
        let mut names: Vec<String> = match keys {
            Some(keys) => keys.to_vec(),
            None => STANDARD.iter().map(|&name| name.to_owned()).collect(),
        };
        if keys.is_none() {
            for node in &columns.root {
                let name = node.name.bind(py).to_str()?;
                if !STANDARD.contains(&name) {
                    names.push(name.to_owned());
                }
            }
        }
        for key in names {
            let name = PyString::intern(py, &key).unbind();
            let node = columns.root.iter().find(|node| node.name.bind(py) == key.as_str());
            let content = match (node, key.as_str()) {
                (Some(node), _) => plan.content(py, &node.kind, stack_of(&key), &What::Leaf, layout),
                (None, "obs_next") if columns.ignores_obs_next() => {
                    let of_next = |leaf| layout.next_leaf(leaf).map_or(What::ObsOfNext(leaf), What::Leaf);
                    match columns.root.iter().find(|node| node.name.bind(py) == "obs") {
                        Some(obs) => plan.content(py, &obs.kind, stack, &of_next, layout),
                        None => Content::Group(Vec::new()),
                    }
                }
                (None, standard) if STANDARD.contains(&standard) => Content::Group(Vec::new()),
                (None, unknown) => return Err(PyKeyError::new_err(unknown.to_owned())),
            };
            plan.entries.push(Entry { name, content });
        }
        for item in &mut plan.items {
            let What::Leaf(leaf) = item.what else { continue };
            let twin = match layout.place(leaf) {
                Place::Next { twin } => Some((twin, true)),
                _ => layout.twin(leaf).filter(|_| layout.linked()).map(|twin| (twin, false)),
            };
            item.twin = twin.filter(|&(twin, _)| {
                let obs = layout.obs(twin);
                let (framed, frame) = match layout.place(obs) {
                    Place::Frames { pixel: Some(_), .. } => return false, // two windows of one block are not whole there
                    Place::Frames { stack, .. } => (true, layout.leaves()[obs].nbytes() / stack),
                    _ => (false, layout.leaves()[obs].nbytes()),
                };
                frame >= SHARED_FRAME && framed == (item.stack == 1)
            });
        }
        Ok(plan)
    }

    fn content(
        &mut self,
        py: Python<'_>,
        kind: &Kind,
        stack: usize,
        what: &dyn Fn(usize) -> What,
        layout: &Layout,
    ) -> Content {
        match kind {
            Kind::Leaf(leaf) => {
                let shape = &layout.leaves()[*leaf].shape;
                self.items.push(Item::new(what(*leaf), stack, *leaf, shape, layout));
                Content::Array(self.items.len() - 1)
            }
            Kind::Foreign => Content::Group(Vec::new()),
            Kind::Group(nodes) => {
                let keep = |node: &&Node| !matches!(node.kind, Kind::Foreign);
                let entries = nodes
                    .iter()
                    .filter(keep)
                    .map(|node| Entry {
                        name: node.name.clone_ref(py),
                        content: self.content(py, &node.kind, stack, what, layout),
                    })
                    .collect();
                Content::Group(entries)
            }
        }
    }

    /// Makes the arrays for `rows` rows, in the leading axes `shape`, of which `pairs` share blocks; `out` may give some of them.
    pub fn room<'py>(
        &self,
        py: Python<'py>,
        columns: &Columns,
        rows: usize,
        shape: &[npy_intp],
        pairs: &[Pair],
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Room<'py>> {
        let mut room =
            Room { arrays: vec![None; self.items.len()], outputs: Vec::with_capacity(self.items.len()), bytes: 0 };
        for pair in pairs {
            let column = &columns.columns[self.items[pair.obs].column];
            let stack = self.items[pair.obs].stack;
            let (block, frames, frame) =
                Block::new(column.descr.bind(py), &column.leaf.shape, stack, rows, pair.bytes)?;
            room.outputs.push(Output { what: What::Block(pair.twin), stack, dst: block.data });
            room.bytes = room.bytes.saturating_add(pair.bytes * rows);
            room.arrays[pair.obs] = Some(block.view(column.descr.bind(py), 0, &frames, frame)?);
            room.arrays[pair.next] = Some(block.view(column.descr.bind(py), 1, &frames, frame)?);
        }
        for (at, item) in self.items.iter().enumerate() {
            if room.arrays[at].is_some() {
                continue;
            }
            let column = &columns.columns[item.column];
            let mut axes = [0; NPY_MAXDIMS];
            let dims = join(shape, &item.shape, &mut axes)?;
            let bytes = product(&[item.bytes, rows]).python()?;
            let given = match out {
                Some(out) => self.given(py, out, at)?,
                None => None,
            };
            let (array, dst) = match given {
                Some(array) => into(column.descr.bind(py), dims, array)?,
                None => array::empty(column.descr.bind(py), dims, bytes)?,
            };
            room.outputs.push(Output { what: item.what, stack: item.stack, dst });
            room.bytes = room.bytes.saturating_add(bytes);
            room.arrays[at] = Some(array);
        }
        Ok(room)
    }

    /// Whether an obs and an obs_next might share a block.
    pub fn may_share(&self) -> bool {
        self.items.iter().any(|item| item.twin.is_some())
    }

    /// The pairs that can share a block for the rows at `index`.
    pub fn pairs(&self, reader: Reader<'_>, index: &[i64]) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (obs, item) in self.items.iter().enumerate() {
            let Some((twin, false)) = item.twin else { continue };
            let next = self.items.iter().position(|other| other.twin == Some((twin, true)));
            if let Some(next) = next.filter(|_| !index.is_empty() && reader.shifts(index, twin, item.stack)) {
                let bytes = reader.layout().output_bytes(What::Block(twin), item.stack);
                pairs.push(Pair { obs, next, twin, bytes });
            }
        }
        pairs
    }

    /// The array that `out` gives for the item, if it does: by its top-level key.
    fn given<'py>(&self, py: Python<'py>, out: &Bound<'py, PyAny>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = self.entries.iter().find(|entry| matches!(entry.content, Content::Array(item) if item == at));
        match entry {
            Some(entry) if out.contains(&entry.name)? => Ok(Some(out.get_item(entry.name.bind(py))?)),
            _ => Ok(None),
        }
    }
}

/// The shape of an index and that of a row, one after the other.
fn join<'a>(
    index: &[npy_intp],
    row: &[npy_intp],
    room: &'a mut [npy_intp; NPY_MAXDIMS],
) -> PyResult<&'a mut [npy_intp]> {
    let count = index.len() + row.len();
    if count > NPY_MAXDIMS {
        return Err(PyValueError::new_err(format!("an array has at most {NPY_MAXDIMS} axes, these rows need {count}")));
    }
    room[..index.len()].copy_from_slice(index);
    room[index.len()..count].copy_from_slice(row);
    Ok(&mut room[..count])
}

/// Memory for obs and obs_next in one.
struct Block<'py> {
    array: Bound<'py, PyAny>,
    data: *mut u8,
    rows: usize,
    row: usize,
}

impl<'py> Block<'py> {
    /// Room for `rows` rows of `row` bytes; also gives the shape of a frame stack in it, and the bytes of a frame.
    fn new(
        descr: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
        stack: usize,
        rows: usize,
        row: usize,
    ) -> PyResult<(Self, Vec<npy_intp>, usize)> {
        let mut frames: Vec<npy_intp> = if stack > 1 { vec![stack as npy_intp] } else { Vec::new() };
        frames.extend(shape.iter().map(|&n| n as npy_intp));
        let frame = row / (frames[0] as usize + 1);
        let mut dims = vec![rows as npy_intp, frames[0] + 1];
        dims.extend_from_slice(&frames[1..]);
        let (array, data) = array::empty(descr, &mut dims, product(&[rows, row]).python()?)?;
        Ok((Self { array, data, rows, row }, frames, frame))
    }

    /// The stacks that begin with frame `first`.
    fn view(
        &self,
        descr: &Bound<'py, PyArrayDescr>,
        first: usize,
        frames: &[npy_intp],
        frame: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut strides = vec![descr.itemsize() as npy_intp; frames.len() + 1];
        for axis in (1..frames.len()).rev() {
            strides[axis] = strides[axis + 1] * frames[axis];
        }
        strides[0] = self.row as npy_intp;
        let mut dims = vec![self.rows as npy_intp];
        dims.extend_from_slice(frames);
        let data = self.data.wrapping_add(first * frame);
        array::over(descr, &mut dims, Some(&mut strides), data, true, self.array.clone())
    }
}

/// Checks an array to be filled.
fn into<'py>(
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

impl<'py> Room<'py> {
    /// The arrays of `plan`, once their rows are written.
    pub fn filled(self, plan: Arc<Plan>) -> Filled<'py> {
        Filled { plan, arrays: self.arrays }
    }
}

impl<'py> Filled<'py> {
    /// The arrays in a dict, with a batch around the inner ones.
    pub fn nest(mut self, py: Python<'py>, batch: &Py<PyType>) -> PyResult<Bound<'py, PyDict>> {
        nest(py, &self.plan.entries, &mut self.arrays, batch)
    }
}

fn nest<'py>(
    py: Python<'py>,
    entries: &[Entry],
    arrays: &mut [Option<Bound<'py, PyAny>>],
    batch: &Py<PyType>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for entry in entries {
        match &entry.content {
            Content::Array(at) => dict.set_item(&entry.name, arrays[*at].take())?,
            Content::Group(inner) if inner.is_empty() => dict.set_item(&entry.name, bare(py, batch)?)?,
            Content::Group(inner) => dict.set_item(&entry.name, around(batch, nest(py, inner, arrays, batch)?)?)?,
        }
    }
    Ok(dict)
}

/// A new object of type `batch` without fields (its `__dict__` is made when somebody asks for it); `__init__` is not called.
pub fn bare<'py>(py: Python<'py>, batch: &Py<PyType>) -> PyResult<Bound<'py, PyAny>> {
    let kind = batch.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: a heap type always has tp_alloc, which gives a new reference or sets an error.
    unsafe {
        let alloc: ffi::allocfunc = std::mem::transmute(ffi::PyType_GetSlot(kind, ffi::Py_tp_alloc));
        Bound::from_owned_ptr_or_err(py, alloc(kind, 0))
    }
}

/// A new object of type `batch` whose `__dict__` is `dict`; its `__init__` is not called.
pub fn around<'py>(batch: &Py<PyType>, dict: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let py = dict.py();
    let object = bare(py, batch)?;
    // SAFETY: the object was just made, so nothing else has seen it when it gets its dict.
    if unsafe { ffi::PyObject_GenericSetDict(object.as_ptr(), dict.as_ptr(), std::ptr::null_mut()) } < 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(object)
}
