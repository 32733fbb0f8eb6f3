//! Finds the bytes of each column in rows that Python passes, without changing anything.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use rlfast_core::convert::{as_single, put_float, put_integer};
use rlfast_core::error::Result;
use rlfast_core::replay::Added;
use rlfast_core::replay::incoming::{GivenArray, Incoming};
use rlfast_core::replay::schema::{Kind, Node, Role};

use crate::array::{self, ArrayRef, NewArray};
use crate::columns::{Column, Columns, KEYWORDS};
use crate::error::{IntoPython as _, mismatch};
use crate::stacks;

/// The columns of a step as hosts have it, in their order.
pub const STEP: [&str; 6] = ["obs", "actions", "obs_next", "rewards", "dones", "timeouts"];

/// The addresses that the engine reads rows from, and the owners of that memory.
#[derive(Default)]
pub struct RowSources {
    /// The addresses.
    pub found: Incoming,
    kept: Vec<Py<PyAny>>,
}

impl RowSources {
    /// Releases the owners of the memory.
    pub fn release(&mut self) {
        self.found.release();
        self.kept.clear();
    }
}

/// What Python is told of added rows, in the order of [`Added`].
pub type AddedArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Columns {
    /// Makes the arrays for what is told of `rows` added rows, filled by `add`. Returns what that returns, and the arrays.
    ///
    /// # Errors
    /// Those of `add`, as [`PyErr`], or `MemoryError`.
    #[inline]
    pub fn added<'py, R>(
        &self,
        py: Python<'py>,
        rows: usize,
        add: impl FnOnce(&mut Added<'_>) -> Result<R>,
    ) -> PyResult<(R, AddedArrays<'py>)> {
        let (agents, scalar) = self.schema.agents();
        let shape = if scalar { &[rows][..] } else { &[rows, agents] };
        // On an error they are dropped unread.
        let (mut index, mut returns) = (NewArray::new(py, &[rows])?, NewArray::new(py, shape)?);
        let (mut length, mut start) = (NewArray::new(py, &[rows])?, NewArray::new(py, &[rows])?);
        let done = add(&mut Added {
            index: index.items(),
            episode_return: returns.items(),
            episode_length: length.items(),
            episode_start: start.items(),
        });
        Ok((done.python()?, (index.array, returns.array, length.array, start.array)))
    }

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
        out.found.start(self.schema.columns().len(), rows.unwrap_or(1));
        self.find_in(py, self.schema.root(), fields, rows, out, true)?;
        if self.schema.finals().is_empty() || !out.found.any_done() {
            return Ok(());
        }
        match fields.get_item(pyo3::intern!(py, "obs_next"))? {
            Some(value) => self.find_finals(py, &value, rows, out),
            None => Ok(()),
        }
    }

    /// Finds the next observations of rows that end an episode.
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

    /// Finds the value of a key.
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
            let leaf = match node.kind {
                Kind::Leaf(at) if self.schema.columns()[at].role() == Role::Ignored => continue,
                Kind::Leaf(at) => Some(at),
                _ => None,
            };
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
            let Some(at) = leaf else {
                self.find_at(py, node, &value, rows, out)?;
                continue;
            };
            self.read(py, at, &value, rows, out)?;
            out.kept.push(value.unbind()); // another thread may take it out of the dict before it is copied
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

    #[inline]
    fn read(
        &self,
        py: Python<'_>,
        at: usize,
        value: &Bound<'_, PyAny>,
        rows: Option<usize>,
        out: &mut RowSources,
    ) -> PyResult<()> {
        let column = &self.schema.columns()[at];
        if let Some(array) = ArrayRef::of(value) {
            // SAFETY: the caller keeps the array alive.
            unsafe { out.found.place(at, column, given(py, array, column), rows) }.python()?;
            if let Some(rows) = rows {
                recognise(py, array, at, column, rows, out);
            }
            return Ok(());
        }
        if rows.is_none() && column.leaf.shape.is_empty() && scalar(column, value, out.found.cell(at)) {
            out.found.place_cell(at, column);
            return Ok(());
        }
        let value = array::from_scalar(value)?;
        let Some(array) = value.as_ref().and_then(ArrayRef::of) else {
            return mismatch!("{} is no array", column.leaf.path.join("."));
        };
        // SAFETY: the array is kept alive.
        unsafe { out.found.place(at, column, given(py, array, column), rows) }.python()?;
        out.kept.extend(value.map(Bound::unbind));
        Ok(())
    }

    /// Finds values that are given in a fixed order: what `names` call them, of the outermost nodes at `places`, each read by `read`; a
    /// missing value is None.
    #[inline]
    fn find_listed<'a, 'py>(
        &self,
        names: &[&str; 6],
        places: &[Option<usize>; 6],
        values: &[Option<&'a Bound<'py, PyAny>>; 6],
        mut read: impl FnMut(&str, &Node, &'a Bound<'py, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        for k in 0..names.len() {
            match (places[k], values[k]) {
                (Some(at), Some(value)) => read(names[k], &self.schema.root()[at], value)?,
                (None, None) => {}
                (Some(_), None) => return mismatch!("{} is missing", names[k]),
                (None, Some(_)) if names[k] != "obs_next" || self.schema.saves_obs_next() => {
                    return mismatch!("{} is not a column", names[k]);
                }
                (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// As `find`, for one row whose values are given in the order of [`KEYWORDS`]; a missing value is None.
    pub fn find_named(
        &self,
        py: Python<'_>,
        values: &[Option<&Bound<'_, PyAny>>; KEYWORDS.len()],
        out: &mut RowSources,
    ) -> PyResult<()> {
        out.found.start(self.schema.columns().len(), 1);
        if let Some(other) = &self.beside_keywords {
            return mismatch!("{other} is missing");
        }
        let read = |name: &str, node: &Node, value: &_| match node.kind {
            Kind::Leaf(at) => self.read(py, at, value, None, out),
            Kind::Foreign => mismatch!("{name} is kept outside the columns"),
            Kind::Group(_) => self.find_at(py, node, value, None, out),
        };
        self.find_listed(&KEYWORDS, &self.by_keyword, values, read)?;
        match values[KEYWORDS.len() - 1] {
            Some(obs_next) if !self.schema.finals().is_empty() && out.found.any_done() => {
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
        out.found.start(self.schema.columns().len(), rows);
        if self.schema.root().len() != STEP.len() {
            return mismatch!("a step has the columns {STEP:?}");
        }
        let read = |name: &str, node: &Node, value: &Bound<'_, PyAny>| match (&node.kind, name) {
            (&Kind::Leaf(at), "rewards" | "dones" | "timeouts") => {
                let column = &self.schema.columns()[at];
                out.found.place_singles(at, column, singles(value, column, rows)).python()
            }
            (&Kind::Leaf(at), "actions") => match ArrayRef::of(value) {
                Some(array) => {
                    let column = &self.schema.columns()[at];
                    // SAFETY: the caller keeps the array alive.
                    unsafe { out.found.place_flat(at, column, given(py, array, column), rows) }.python()
                }
                None => self.read(py, at, value, Some(rows), out),
            },
            (Kind::Foreign, _) => mismatch!("{name} is kept outside the columns"),
            _ => self.find_at(py, node, value, Some(rows), out),
        };
        self.find_listed(&STEP, &[0, 1, 2, 3, 4, 5].map(Some), &values.map(Some), read)
    }
}

/// Finds the numbers of the frames of an array of stacks, which was placed as it is.
#[inline]
fn recognise(py: Python<'_>, array: ArrayRef<'_>, at: usize, column: &Column, rows: usize, out: &mut RowSources) {
    let Some(shown) = stacks::shown_by(py, array) else { return };
    if let Some(numbers) =
        shown.numbers_of(rows, column.leaf.nbytes()).filter(|_| array.has_dtype(column.dtype.descr.bind(py)))
    {
        // SAFETY: a number for each frame, which live as long as the array; `FrameRing` never changes frames that it showed.
        unsafe { out.found.place_numbers(at, numbers.as_ptr()) };
    }
}

/// An array as the engine sees it.
#[inline(always)]
fn given<'a>(py: Python<'_>, array: ArrayRef<'a>, column: &Column) -> GivenArray<'a> {
    let same_dtype = array.has_dtype(column.dtype.descr.bind(py));
    GivenArray {
        data: array.data(),
        dims: array.dims(),
        strides: array.strides(),
        is_contiguous: array.is_contiguous(),
        same_dtype,
        number: if same_dtype { column.number } else { array::number_type(&array.dtype(py)) },
    }
}

/// Numbers as float32, one for each row; None for what NumPy had better convert.
fn singles(value: &Bound<'_, PyAny>, column: &Column, rows: usize) -> Option<Vec<f32>> {
    if let Some(array) = ArrayRef::of(value) {
        // SAFETY: an array, alive through `value`.
        return unsafe { given(value.py(), array, column).singles(rows) };
    }
    match value.cast_exact::<PyList>() {
        Ok(list) if list.len() == rows => list.iter().map(|item| single(&item)).collect(),
        Ok(_) => None,
        Err(_) => Some(vec![single(value)?; rows]),
    }
}

/// Exactly a float, an int or a bool of Python's.
fn single(value: &Bound<'_, PyAny>) -> Option<f32> {
    let plain = value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>();
    plain.then(|| value.extract::<f64>().ok().and_then(as_single)).flatten()
}

/// Writes a Python number to a cell as the column's dtype; false when it is none that fits exactly.
fn scalar(column: &Column, value: &Bound<'_, PyAny>, cell: &mut [u8; 8]) -> bool {
    let object = value.as_ptr();
    let Some(number) = column.number else { return false };
    if let Ok(float) = value.cast_exact::<PyFloat>() {
        return put_float(float.value(), number, cell);
    }
    if let Ok(flag) = value.cast_exact::<PyBool>() {
        return put_integer(i64::from(flag.is_true()), number, cell);
    }
    if column.dtype.scalar.as_ref().is_some_and(|scalar| value.get_type_ptr().cast() == scalar.as_ptr()) {
        // SAFETY: exactly a scalar of this column, whose dtype has eight bytes at most.
        unsafe { array::scalar_into(object, column.leaf.itemsize, cell) };
        return true;
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
