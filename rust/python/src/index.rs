//! Index arrays that record the rows that were drawn.
//!
//! The array that sampling returns is a plain `int64` array. Its memory belongs to an [`IndexOwner`], which also knows the
//! generation of each row and, after relabelling, the row that each goal came from. Slices share that memory and so remember
//! too; copies do not, and are taken as plain integers.

use std::cell::UnsafeCell;

use rlfast_core::replay::provenance::{Provenance, strided};
use rlfast_core::{memory, vectors};

use crate::prelude::*;

/// The owner of an index array's memory.
#[pyclass(frozen, module = "rlfast._core")]
pub struct IndexOwner {
    /// The memory that NumPy shows. Users may write to it, so Rust holds no reference to it.
    shown: Box<[UnsafeCell<i64>]>,
    provenance: Provenance,
}

// SAFETY: `shown` is only ever reached through the NumPy array over it, under Python's own rules; the rest never changes.
unsafe impl Sync for IndexOwner {}

impl IndexOwner {
    /// Returns the records of the elements of an array over this memory; None if an element was changed.
    fn recall(&self, first: isize, dims: &[npy_intp], strides: &[npy_intp]) -> PyResult<Option<Provenance>> {
        let n = self.shown.len();
        if first == 0 && dims == [n as npy_intp] && strides == [8] {
            let (shown, known) = (self.shown.as_ptr().cast(), self.provenance.index.as_ptr().cast());
            // SAFETY: `n` i64 of the owner's memory each; attached, so nobody writes them at this moment.
            let same = unsafe { memory::equal(shown, known, 8 * n) };
            return if same { self.provenance.copied().map(Some).python() } else { Ok(None) };
        }
        let axes = dims.iter().zip(strides).map(|(&length, &stride)| (length as usize, stride / 8));
        let places = strided(first, axes).python()?;
        // SAFETY: an i64 of the owner's memory; attached, so nobody writes it at this moment.
        self.provenance.part(&places, |place| unsafe { self.shown[place].get().read() }).python()
    }
}

/// An index, and the records of its rows.
pub struct Remembering {
    /// The rows, in C order.
    pub rows: Provenance,
    /// The shape of the index.
    pub shape: Vec<npy_intp>,
}

impl Remembering {
    /// Returns the records of the elements of `index`; None for an array without records, or one that was changed.
    fn recall(index: &Object<'_>) -> PyResult<Option<Self>> {
        let py = index.py();
        let Some(array) = ArrayRef::of(index) else { return Ok(None) };
        let mut owner = index.clone();
        while let Some(array) = ArrayRef::of(&owner) {
            // SAFETY: an object that the array keeps alive, or null.
            let Some(base) = (unsafe { Bound::from_borrowed_ptr_or_opt(py, array.base()) }) else { return Ok(None) };
            owner = base;
        }
        let Ok(owner) = owner.cast::<IndexOwner>() else { return Ok(None) };
        if !array.has_dtype(&numpy::dtype::<i64>(py)) {
            return Ok(None);
        }
        let (dims, strides) = (array.dims(), array.strides());
        let first = (array.data() as isize - owner.get().shown.as_ptr() as isize) / 8;
        let rows = owner.get().recall(first, dims, strides)?;
        Ok(rows.map(|rows| Self { rows, shape: dims.to_vec() }))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Remembering {
    type Error = PyErr;

    /// Makes an index without records: its rows have no generations and no goals.
    fn extract(index: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(remembered) = Self::recall(&index)? {
            return Ok(remembered);
        }
        let Index { values: rows, shape } = index.extract()?;
        Ok(Self { rows: Provenance { index: rows, ..Provenance::default() }, shape })
    }
}

impl<T: Into<Provenance>> From<T> for Remembering {
    fn from(rows: T) -> Self {
        let rows = rows.into();
        let shape = vec![rows.index.len() as npy_intp];
        Self { rows, shape }
    }
}

impl<'py> IntoPyObject<'py> for Remembering {
    type Target = PyAny;
    type Output = Object<'py>;
    type Error = PyErr;

    fn into_pyobject(mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        let shown = self.rows.index.iter().map(|&row| UnsafeCell::new(row));
        let shown = vectors::collected(shown).python()?.into_boxed_slice();
        let data = shown.as_ptr().cast::<u8>().cast_mut();
        let owner = Bound::new(py, IndexOwner { shown, provenance: self.rows })?.into_any();
        array::over(&numpy::dtype::<i64>(py), &mut self.shape, None, data, true, owner)
    }
}

/// Returns the same rows in an array that records the row of each one's goal (-1: its own goal).
#[pyfunction]
pub fn carry(mut index: Remembering, goals: Index) -> PyResult<Remembering> {
    let (rows, goals) = (index.rows.index.len(), goals.values);
    if rows != goals.len() {
        return Err(raised!(PyValueError, "one goal for each row: got {rows} rows and {} goals", goals.len()));
    }
    index.rows.goals = Some(goals);
    Ok(index)
}

/// Returns `index + by`, for a part of a buffer whose rows have other numbers; the array has the records of
/// `index` does.
#[pyfunction]
pub fn shift(index: Remembering, by: i64) -> PyResult<Remembering> {
    let rows = index.rows.shifted(by);
    let rows = rows.ok_or_else(|| raised!(PyIndexError, "there are no rows {by} after these"))?;
    Ok(Remembering { rows, ..index })
}

/// The goals given to `carry` (also for slices of its result), or None.
#[pyfunction]
pub fn carried(index: &Object<'_>) -> PyResult<Option<Shaped<i64>>> {
    let index = Remembering::recall(index)?;
    Ok(index.and_then(|Remembering { rows, shape }| Some(Shaped::new(rows.goals?, shape))))
}
