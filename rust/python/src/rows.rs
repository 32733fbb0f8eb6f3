//! Finds the bytes of each column in rows that Python passes, without changing anything.

use std::borrow::Cow;
use std::fmt::Arguments;

use pyo3::types::{PyBool, PyFloat, PyInt};
use rlfast_core::convert::{as_single, put_float, put_integer};
use rlfast_core::error::Result;
use rlfast_core::replay::Added;
use rlfast_host::incoming::{GivenArray, Incoming};
use rlfast_host::matching::{Host, KEYWORDS, STEP};

use crate::columns::{Column, Columns};
use crate::error::to_mismatch;
use crate::prelude::*;
use crate::stacks;

/// The values of a row in the order of [`KEYWORDS`]; a missing value is None.
pub type Listed<'a, 'py> = [Option<&'a Object<'py>>; KEYWORDS.len()];

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
pub type AddedArrays<'py> = (Object<'py>, Object<'py>, Object<'py>, Object<'py>);

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
        match rows {
            None => self.schema.find(&mut Finder::<true> { columns: self, py, rows: 1, out }, fields),
            Some(rows) => self.schema.find(&mut Finder::<false> { columns: self, py, rows, out }, fields),
        }
    }

    /// Returns the fields of a dict or a batch; None for anything else.
    #[inline]
    pub fn fields_of<'py>(&self, py: Python<'py>, value: &Object<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Ok(dict) = value.cast::<PyDict>() {
            return Ok(Some(dict.clone()));
        }
        if value.get_type_ptr().cast() == self.batch.as_ptr() || value.is_instance(self.batch.bind(py))? {
            return Ok(Some(value.getattr(&crate::once::names(py).__dict__)?.cast_into::<PyDict>()?));
        }
        Ok(None)
    }

    /// As `find`, for one row whose values are given in the order of `KEYWORDS`; a missing value is None.
    #[inline]
    pub fn find_listed(&self, py: Python<'_>, values: &Listed<'_, '_>, out: &mut RowSources) -> PyResult<()> {
        out.found.start(self.schema.columns().len(), 1);
        self.schema.find_listed(&mut Finder::<true> { columns: self, py, rows: 1, out }, values)
    }

    /// As `find`, for a step of `rows` environments in the order of `STEP`.
    pub fn find_step<'py>(
        &self,
        py: Python<'py>,
        values: [&Object<'py>; STEP.len()],
        rows: usize,
        out: &mut RowSources,
    ) -> PyResult<()> {
        out.found.start(self.schema.columns().len(), rows);
        self.schema.find_step(&mut Finder::<false> { columns: self, py, rows, out }, values)
    }
}

/// Finds rows in dicts and batches: `ONE` without a leading axis, or several along it. The compiler makes code for one row.
struct Finder<'a, 'py, const ONE: bool> {
    columns: &'a Columns,
    py: Python<'py>,
    rows: usize,
    out: &'a mut RowSources,
}

impl<'py, const ONE: bool> Host for Finder<'_, 'py, ONE> {
    type Fields = Bound<'py, PyDict>;
    type Value = Object<'py>;
    type Error = PyErr;

    #[inline]
    fn get(&self, fields: &Self::Fields, key: usize) -> PyResult<Option<Self::Value>> {
        fields.get_item(&self.columns.keys[key])
    }

    #[inline]
    fn count(&self, fields: &Self::Fields) -> usize {
        fields.len()
    }

    fn visit(&self, fields: &Self::Fields, mut visit: impl FnMut(&str, &Self::Value) -> PyResult<()>) -> PyResult<()> {
        fields.iter().try_for_each(|(key, value)| visit(&key.extract::<Cow<'_, str>>()?, &value))
    }

    #[inline]
    fn nested(&self, value: &Self::Value) -> PyResult<Option<Self::Fields>> {
        self.columns.fields_of(self.py, value)
    }

    #[inline]
    fn is_none(&self, value: &Self::Value) -> bool {
        value.is_none()
    }

    #[inline]
    fn take(&mut self, at: usize, value: &Self::Value) -> PyResult<()> {
        let (column, rows) = (&self.columns.schema.columns()[at], (!ONE).then_some(self.rows));
        if let Some(array) = array::of(value) {
            let given = given(array, column);
            // SAFETY: the caller keeps the array alive.
            unsafe { self.out.found.place(at, column, given, rows) }.python()?;
            if !ONE
                && given.same_dtype
                && let Some(shown) = stacks::shown_by(array)
                && let Some(numbers) = shown.numbers_of(self.rows, column.leaf.nbytes())
            {
                // SAFETY: a number for each frame, which live as long as the array; `FrameRing` never changes frames that it showed.
                unsafe { self.out.found.place_numbers(at, numbers.as_ptr()) };
            }
            return Ok(());
        }
        if ONE && column.leaf.shape.is_empty() && scalar(column, value, self.out.found.cell(at)) {
            self.out.found.place_cell(at, column);
            return Ok(());
        }
        let scalar = array::from_scalar(value)?;
        let Some(array) = scalar.as_ref().and_then(array::of) else {
            return mismatch!("{} is no array", column.leaf.path.join("."));
        };
        // SAFETY: the array is kept alive.
        unsafe { self.out.found.place(at, column, given(array, column), rows) }.python()?;
        self.out.kept.extend(scalar.map(Bound::unbind));
        Ok(())
    }

    fn take_flat(&mut self, at: usize, value: &Self::Value) -> PyResult<()> {
        let Some(array) = array::of(value) else { return self.take(at, value) };
        let column = &self.columns.schema.columns()[at];
        // SAFETY: the caller keeps the array alive.
        unsafe { self.out.found.place_flat(at, column, given(array, column), self.rows) }.python()
    }

    fn take_numbers(&mut self, at: usize, value: &Self::Value) -> PyResult<()> {
        let column = &self.columns.schema.columns()[at];
        self.out.found.place_singles(at, column, singles(value, column, self.rows)).python()
    }

    #[inline]
    fn keep(&mut self, value: Self::Value) {
        self.out.kept.push(value.unbind());
    }

    #[inline]
    fn any_done(&self) -> bool {
        self.out.found.any_done()
    }

    fn refusal(text: Arguments<'_>) -> PyErr {
        to_mismatch(text)
    }
}

/// An array as the engine sees it.
#[inline(always)]
fn given<'a>(array: &'a Array<'_>, column: &Column) -> GivenArray<'a> {
    let same_dtype = array::has_dtype(array, column.dtype.descr.bind(array.py()));
    GivenArray {
        data: array::data(array),
        dims: array.shape(),
        strides: array.strides(),
        is_contiguous: array.is_c_contiguous(),
        same_dtype,
        number: if same_dtype { column.number } else { array::number_type(&array.dtype()) },
    }
}

/// Numbers as float32, one for each row; None for what NumPy had better convert.
fn singles(value: &Object<'_>, column: &Column, rows: usize) -> Option<Vec<f32>> {
    if let Some(array) = array::of(value) {
        // SAFETY: an array, alive through `value`.
        return unsafe { given(array, column).singles(rows) };
    }
    match value.cast_exact::<PyList>() {
        Ok(list) if list.len() == rows => list.iter().map(|item| single(&item)).collect(),
        Ok(_) => None,
        Err(_) => Some(vec![single(value)?; rows]),
    }
}

/// Exactly a float, an int or a bool of Python's.
fn single(value: &Object<'_>) -> Option<f32> {
    array::is_plain_number(value).then(|| value.extract::<f64>().ok().and_then(as_single)).flatten()
}

/// Writes a number to a cell as the column's dtype; false when it is none that fits exactly.
fn scalar(column: &Column, value: &Object<'_>, cell: &mut [u8; 8]) -> bool {
    let Some(number) = column.number else { return false };
    if let Ok(float) = value.cast_exact::<PyFloat>() {
        return put_float(float.value(), number, cell);
    }
    if let Ok(flag) = value.cast_exact::<PyBool>() {
        return put_integer(i64::from(flag.is_true()), number, cell);
    }
    if column.dtype.scalar.as_ref().is_some_and(|scalar| value.get_type_ptr().cast() == scalar.as_ptr()) {
        // SAFETY: exactly a scalar of this column, whose dtype has eight bytes at most.
        unsafe { array::scalar_into(value.as_ptr(), column.leaf.itemsize, cell) };
        return true;
    }
    match value.is_instance_of::<PyInt>() {
        true => value.extract().is_ok_and(|x| put_integer(x, number, cell)),
        false => value.is_instance_of::<PyFloat>() && value.extract().is_ok_and(|x| put_float(x, number, cell)),
    }
}
