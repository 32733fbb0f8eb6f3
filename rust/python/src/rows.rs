//! Rows as Python gives them: where the bytes of each column are, found without changing anything.

use std::cell::Cell;

use numpy::npyffi::objects::PyArrayObject;
use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use rlfast_core::convert::{self, NumberType, as_doubles, as_single, as_singles, put_float, put_integer};
use rlfast_core::replay::schema::{Kind, Node, Role};
use rlfast_core::replay::table::Source;

use crate::array;
use crate::columns::{Column, Columns, KEYWORDS};
use crate::error::mismatch;

/// The columns of a step as hosts have it, in their order.
pub const STEP: [&str; 6] = ["obs", "actions", "obs_next", "rewards", "dones", "timeouts"];

/// Where the engine reads rows from, and what keeps that memory alive.
#[derive(Default)]
pub struct RowSources {
    /// For each column.
    pub sources: Vec<Source>,
    /// For each row.
    pub terminated: Vec<bool>,
    /// For each row.
    pub truncated: Vec<bool>,
    cells: Vec<[u8; 8]>,
    converted: Vec<Vec<f64>>,
    cast: Vec<Vec<u8>>,
    singles: Vec<Vec<f32>>,
    kept: Vec<Py<PyAny>>,
}

// SAFETY: the addresses are only followed inside the call that found them.
unsafe impl Send for RowSources {}
// SAFETY: as above.
unsafe impl Sync for RowSources {}

thread_local! {
    /// Memory that one row after the other is found in.
    static SCRATCH: Cell<Option<Box<RowSources>>> = const { Cell::new(None) };
}

impl RowSources {
    /// Does `work` with rows whose memory was used before, and lets go of what they kept alive.
    pub fn with_scratch<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        let mut rows = SCRATCH.take().unwrap_or_default();
        let result = work(&mut rows);
        rows.release();
        SCRATCH.set(Some(rows));
        result
    }

    fn start(&mut self, columns: usize, rows: usize) {
        self.sources.clear();
        self.sources.resize(columns, Source::ZEROS);
        self.cells.resize(columns, [0; 8]);
        self.release();
        for flags in [&mut self.terminated, &mut self.truncated] {
            flags.clear();
            flags.resize(rows, false);
        }
    }

    fn any_done(&self) -> bool {
        self.terminated.contains(&true) || self.truncated.contains(&true)
    }

    /// Lets go of what was kept alive.
    fn release(&mut self) {
        self.converted.clear();
        self.cast.clear();
        self.singles.clear();
        self.kept.clear();
    }
}

impl Columns {
    /// Finds each column's bytes in `fields`, one row (None) or `rows` of them, without changing anything.
    ///
    /// # Errors
    /// `SchemaMismatch` when something is not exactly what the columns hold.
    pub fn find(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyDict>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        out.start(self.schema.columns().len(), rows.unwrap_or(1));
        self.find_in(py, self.schema.root(), fields, rows, out, true)?;
        if self.schema.finals().is_empty() || !out.any_done() {
            return Ok(());
        }
        match fields.get_item(pyo3::intern!(py, "obs_next"))? {
            Some(value) => self.find_finals(py, &value, rows, out),
            None => Ok(()),
        }
    }

    /// What rows that end an episode led to.
    fn find_finals(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let node = &self.schema.finals()[0];
        if value.is_none()
            || (matches!(node.kind, Kind::Group(_)) && self.dict_of(py, value)?.is_some_and(|inner| inner.is_empty()))
        {
            return Ok(());
        }
        self.find_at(py, node, value, rows, out)
    }

    /// Finds what stands at a key.
    fn find_at(
        &self,
        py: Python<'_>,
        node: &Node,
        value: &Bound<'_, PyAny>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        match &node.kind {
            Kind::Leaf(at) => self.read(py, *at, value, rows, out),
            Kind::Foreign => Ok(()),
            Kind::Group(nodes) => match self.dict_of(py, value)? {
                Some(inner) => self.find_in(py, nodes, &inner, rows, out, false),
                None => mismatch!("{} is not nested", self.keys[node.key]),
            },
        }
    }

    fn find_in(
        &self,
        py: Python<'_>,
        nodes: &[Node],
        fields: &Bound<'_, PyDict>,
        rows: Option<usize>,
        out: &mut RowSources,
        top: bool,
    ) -> PyResult<()> {
        let mut found = 0;
        for node in nodes {
            if let Kind::Leaf(at) = node.kind
                && self.schema.columns()[at].role() == Role::Ignored
            {
                continue;
            }
            let Some(value) = fields.get_item(&self.keys[node.key])? else {
                if node.kind.is_foreign() {
                    continue;
                }
                return mismatch!("{} is missing", self.keys[node.key]);
            };
            found += 1;
            if top && value.is_none() && self.may_lack_next && self.keys[node.key].bind(py) == "obs_next" {
                continue;
            }
            self.find_at(py, node, &value, rows, out)?;
            if matches!(node.kind, Kind::Leaf(_)) {
                out.kept.push(value.unbind()); // another thread may take it out of the dict before it is copied
            }
        }
        if found == fields.len() || (top && self.all_unstored(py, fields, fields.len() - found)?) {
            return Ok(());
        }
        self.check_unknown(py, nodes, fields, top)
    }

    /// Whether `others` of the usual keys are there without being read, because they hold nothing or are not stored: the quick
    /// way to what `check_unknown` finds.
    fn all_unstored(&self, py: Python<'_>, fields: &Bound<'_, PyDict>, others: usize) -> PyResult<bool> {
        let mut count = 0;
        for (name, without) in
            [(pyo3::intern!(py, "info"), self.lacks_info), (pyo3::intern!(py, "policy"), self.lacks_policy)]
        {
            if count < others
                && without
                && let Some(value) = fields.get_item(name)?
            {
                count += usize::from(self.dict_of(py, &value)?.is_some_and(|inner| inner.is_empty()));
            }
        }
        let unread =
            [(pyo3::intern!(py, "done"), true), (pyo3::intern!(py, "obs_next"), !self.schema.saves_obs_next())];
        for (name, unread) in unread {
            count += usize::from(count < others && unread && fields.contains(name)?);
        }
        Ok(count == others)
    }

    /// Lets keys pass that hold nothing (an empty `info`), or are not stored (`done`, an ignored `obs_next`).
    fn check_unknown(&self, py: Python<'_>, nodes: &[Node], fields: &Bound<'_, PyDict>, top: bool) -> PyResult<()> {
        for (key, value) in fields.iter() {
            let known = |name: &Py<PyString>| name.is(&key) || name.bind(py).as_any().eq(&key).unwrap_or(false);
            if nodes.iter().any(|node| known(&self.keys[node.key])) {
                continue;
            }
            let name = key.extract::<std::borrow::Cow<'_, str>>()?;
            let unstored = top && (name == "done" || (name == "obs_next" && !self.schema.saves_obs_next()));
            let empty = self.dict_of(py, &value)?.is_some_and(|inner| inner.is_empty());
            if !unstored && !empty {
                return mismatch!("{name} is not a column");
            }
        }
        Ok(())
    }

    fn dict_of<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Ok(dict) = value.cast::<PyDict>() {
            return Ok(Some(dict.clone()));
        }
        if value.get_type_ptr().cast() == self.batch.as_ptr() || value.is_instance(self.batch.bind(py))? {
            return Ok(Some(value.getattr(pyo3::intern!(py, "__dict__"))?.cast_into::<PyDict>()?));
        }
        Ok(None)
    }

    fn read(
        &self,
        py: Python<'_>,
        at: usize,
        value: &Bound<'_, PyAny>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        if column.role() == Role::Ignored {
            return Ok(());
        }
        if !array::is_array(py, value.as_ptr()) {
            if rows.is_none() && column.leaf.shape.is_empty() && scalar(column, value, &mut out.cells[at]) {
                self.place_cell(at, out);
                return Ok(());
            }
            if !array::is_scalar(py, value.as_ptr()) {
                return mismatch!("{} is no array", column.leaf.path.join("."));
            }
            let value = array::from_scalar(value)?;
            self.read_array(py, at, &value, rows, out)?;
            out.kept.push(value.unbind());
            return Ok(());
        }
        self.read_array(py, at, value, rows, out)
    }

    fn place_cell(&self, at: usize, out: &mut RowSources) {
        let cell = out.cells[at];
        match self.schema.columns()[at].role() {
            Role::Terminated => out.terminated[0] = cell[0] != 0,
            Role::Truncated => out.truncated[0] = cell[0] != 0,
            _ => out.sources[at] = Source { ptr: out.cells[at].as_ptr(), stride: 0 },
        }
    }

    fn read_array(
        &self,
        py: Python<'_>,
        at: usize,
        value: &Bound<'_, PyAny>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        // SAFETY: an array, alive through `value`.
        let array = unsafe { array::fields(value.as_ptr()) };
        // SAFETY: as above.
        let (dims, strides) = unsafe { array::axes(array) };
        let (outer, inner) = dims.split_at(usize::from(rows.is_some()).min(dims.len()));
        let same_shape = is_shape(inner, &column.leaf.shape) && rows.is_none_or(|n| outer == [n as npy_intp]);
        if !same_shape {
            return mismatch!("{} has shape {dims:?}", column.leaf.path.join("."));
        }
        if !array::is_contiguous(array) && !inner_contiguous(inner, &strides[outer.len()..], column.leaf.itemsize) {
            return mismatch!("{} is not contiguous", column.leaf.path.join("."));
        }
        let source = Source { ptr: array.data.cast(), stride: if outer.is_empty() { 0 } else { strides[0] } };
        let same_dtype = has_dtype(py, array, column);
        match column.role() {
            Role::Terminated if same_dtype => read_flags(source, &mut out.terminated),
            Role::Truncated if same_dtype => read_flags(source, &mut out.truncated),
            Role::Reward if !same_dtype => {
                let width = column.leaf.shape.iter().product();
                let values = native_number(array)
                    // SAFETY: the array has a row of the column's shape for each row, as was checked.
                    .and_then(|number| unsafe { as_doubles(number, source, rows.unwrap_or(1), width) });
                let Some(values) = values else {
                    return mismatch!("rew is not of a dtype that is read directly");
                };
                out.converted.push(values);
                let values = out.converted.last().expect("invariant: just pushed");
                out.sources[at] = Source { ptr: values.as_ptr().cast(), stride: 8 * width as isize };
            }
            _ if same_dtype => out.sources[at] = source,
            _ => return self.read_cast(at, array, source, rows, out),
        }
        Ok(())
    }

    /// Numbers of another dtype than the column's.
    fn read_cast(
        &self,
        at: usize,
        array: &PyArrayObject,
        source: Source,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        let width = column.leaf.shape.iter().product();
        // SAFETY: the array has a row of the column's shape for each row, as was checked before its dtype.
        let cast = |(from, to)| unsafe { convert::cast(from, source, rows.unwrap_or(1), width, to) };
        let values = native_number(array).zip(column.number).and_then(cast);
        let Some(values) = values else {
            return mismatch!("{} is of another dtype", column.leaf.path.join("."));
        };
        let source = Source { ptr: values.as_ptr(), stride: (width * column.leaf.itemsize) as isize };
        match column.role() {
            Role::Terminated => read_flags(source, &mut out.terminated),
            Role::Truncated => read_flags(source, &mut out.truncated),
            _ => out.sources[at] = source,
        }
        out.cast.push(values);
        Ok(())
    }

    /// As `find`, for one row whose values are given in the order of [`KEYWORDS`]; a missing value is None.
    pub fn find_named(
        &self,
        py: Python<'_>,
        values: [Option<&Bound<'_, PyAny>>; KEYWORDS.len()],
        out: &mut RowSources,
    ) -> PyResult<()> {
        out.start(self.schema.columns().len(), 1);
        if let Some(other) = &self.beside_keywords {
            return mismatch!("{other} is missing");
        }
        for (at, name) in KEYWORDS.iter().enumerate() {
            match (self.by_keyword[at].map(|node| &self.schema.root()[node]), values[at]) {
                (Some(&Node { kind: Kind::Leaf(column), .. }), Some(value)) => {
                    self.read(py, column, value, None, out)?
                }
                (Some(Node { kind: Kind::Foreign, .. }), _) => return mismatch!("{name} is kept outside the columns"),
                (Some(node), Some(value)) => self.find_at(py, node, value, None, out)?,
                (Some(_), None) => return mismatch!("{name} is missing"),
                (None, Some(_)) if *name != "obs_next" || self.schema.saves_obs_next() => {
                    return mismatch!("{name} is not a column");
                }
                (None, _) => {}
            }
        }
        match values[KEYWORDS.len() - 1] {
            Some(obs_next) if !self.schema.finals().is_empty() && out.any_done() => {
                self.find_finals(py, obs_next, None, out)
            }
            _ => Ok(()),
        }
    }
}

impl Columns {
    /// As `find`, for a step of `rows` environments in the order of [`STEP`]: actions may come in any shape of as many entries, and
    /// the last three as any numbers, one for all or one for each.
    pub fn find_step(
        &self,
        py: Python<'_>,
        values: [&Bound<'_, PyAny>; STEP.len()],
        rows: usize,
        out: &mut RowSources,
    ) -> PyResult<()> {
        out.start(self.schema.columns().len(), rows);
        if self.schema.root().len() != STEP.len() {
            return mismatch!("a step has the columns {STEP:?}");
        }
        for ((node, value), name) in self.schema.root().iter().zip(values).zip(STEP) {
            match (&node.kind, name) {
                (&Kind::Leaf(at), "rewards" | "dones" | "timeouts") => self.read_numbers(py, at, value, rows, out)?,
                (&Kind::Leaf(at), "actions") => self.read_flat(py, at, value, rows, out)?,
                (Kind::Foreign, _) => return mismatch!("{name} is kept outside the columns"),
                _ => self.find_at(py, node, value, Some(rows), out)?,
            }
        }
        Ok(())
    }

    /// An array of as many entries as the rows have, whatever its shape.
    fn read_flat(
        &self,
        py: Python<'_>,
        at: usize,
        value: &Bound<'_, PyAny>,
        rows: usize,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        if !array::is_array(py, value.as_ptr()) {
            return mismatch!("{} is no array", column.leaf.path.join("."));
        }
        // SAFETY: an array, alive through `value`.
        let array = unsafe { array::fields(value.as_ptr()) };
        // SAFETY: as above.
        let (dims, _) = unsafe { array::axes(array) };
        let fits = dims.iter().product::<npy_intp>() as usize * column.leaf.itemsize == rows * column.leaf.nbytes();
        if !fits || !array::is_contiguous(array) || !has_dtype(py, array, column) {
            return mismatch!("{} has another shape or dtype, or is not contiguous", column.leaf.path.join("."));
        }
        out.sources[at] = Source { ptr: array.data.cast(), stride: column.leaf.nbytes() as isize };
        Ok(())
    }

    /// Numbers for a column of one float32.
    fn read_numbers(
        &self,
        py: Python<'_>,
        at: usize,
        value: &Bound<'_, PyAny>,
        rows: usize,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        let single = column.number == Some(NumberType::F32) && column.leaf.shape.is_empty();
        let Some(values) = single.then(|| singles(py, value, rows)).flatten() else {
            return mismatch!("{} is not read directly", column.leaf.path.join("."));
        };
        out.sources[at] = Source { ptr: values.as_ptr().cast(), stride: 4 };
        out.singles.push(values);
        Ok(())
    }
}

/// Whether an array has a column's dtype: the same object, or, as those that were unpickled are, one like it.
fn has_dtype(py: Python<'_>, array: &PyArrayObject, column: &Column) -> bool {
    array.descr.cast() == column.dtype.descr.as_ptr() || {
        // SAFETY: the dtype of a live array.
        let other: Bound<'_, PyArrayDescr> =
            unsafe { Bound::from_borrowed_ptr(py, array.descr.cast()).cast_into_unchecked() };
        other.is_equiv_to(column.dtype.descr.bind(py))
    }
}

/// The type of an array's numbers; None where its bytes are not in this machine's order.
fn native_number(array: &PyArrayObject) -> Option<NumberType> {
    // SAFETY: an array always has a dtype.
    let (number, order) = unsafe { ((*array.descr).type_num, (*array.descr).byteorder as u8) };
    if matches!(order, b'=' | b'|') { array::number_type(number) } else { None }
}

/// Numbers as float32, one for each row; None for what NumPy had better convert.
fn singles(py: Python<'_>, value: &Bound<'_, PyAny>, rows: usize) -> Option<Vec<f32>> {
    if !array::is_array(py, value.as_ptr()) {
        return match value.cast_exact::<PyList>() {
            Ok(list) if list.len() == rows => list.iter().map(|item| single(&item)).collect(),
            Ok(_) => None,
            Err(_) => Some(vec![single(value)?; rows]),
        };
    }
    // SAFETY: an array, alive through `value`.
    let array = unsafe { array::fields(value.as_ptr()) };
    // SAFETY: as above.
    let (dims, strides) = unsafe { array::axes(array) };
    let stride = match dims {
        [] | [1] => 0,
        &[count] if count as usize == rows => strides[0],
        _ => return None,
    };
    let source = Source { ptr: array.data.cast(), stride };
    // SAFETY: the array has an item for each row, `stride` bytes apart, or one for all.
    unsafe { as_singles(native_number(array)?, source, rows) }
}

/// Exactly a float, an int or a bool of Python's.
fn single(value: &Bound<'_, PyAny>) -> Option<f32> {
    let plain = value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>();
    plain.then(|| value.extract::<f64>().ok().and_then(as_single)).flatten()
}

fn is_shape(dims: &[npy_intp], shape: &[usize]) -> bool {
    dims.len() == shape.len() && dims.iter().zip(shape).all(|(&dim, &length)| dim as usize == length)
}

fn inner_contiguous(dims: &[npy_intp], strides: &[npy_intp], itemsize: usize) -> bool {
    let mut expected = itemsize as npy_intp;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected *= dim;
    }
    true
}

fn read_flags(source: Source, out: &mut [bool]) {
    // SAFETY: the array has a flag for each row.
    unsafe { convert::read_flags(source, out) };
}

/// Writes a Python number to a cell as the column's dtype; false when it is none that fits exactly.
fn scalar(column: &Column, value: &Bound<'_, PyAny>, cell: &mut [u8; 8]) -> bool {
    let object = value.as_ptr();
    let Some(number) = column.number else { return false };
    if column.dtype.scalar.as_ref().is_some_and(|scalar| value.get_type_ptr().cast() == scalar.as_ptr()) {
        // SAFETY: exactly a scalar of this column, whose dtype has eight bytes at most.
        unsafe { array::scalar_into(object, column.leaf.itemsize, cell) };
        return true;
    }
    if let Ok(flag) = value.cast_exact::<PyBool>() {
        return put_integer(i64::from(flag.is_true()), number, cell);
    }
    // SAFETY: a live object.
    let (is_float, is_int) = unsafe {
        let is_int = ffi::PyLong_Check(object) != 0;
        (!is_int && ffi::PyFloat_Check(object) != 0, is_int)
    };
    if is_float {
        value.extract().is_ok_and(|x| put_float(x, number, cell))
    } else {
        is_int && value.extract().is_ok_and(|x| put_integer(x, number, cell))
    }
}
