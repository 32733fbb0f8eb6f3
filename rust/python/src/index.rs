//! Index arrays that record the rows that were drawn.
//!
//! The array that sampling returns is a plain `int64` array. Its memory belongs to an [`IndexOwner`], which also knows the
//! generation of each row and, after relabelling, the row that each goal came from. Slices share that memory and so remember
//! too; copies do not, and are taken as plain integers.

use rlfast_core::replay::provenance::{self, Provenance};

use crate::prelude::*;

/// The owner of an index array's memory.
#[pyclass(frozen, module = "rlfast._core")]
pub struct IndexOwner(provenance::IndexOwner);

/// An index, and the records of its rows.
pub struct Remembering {
    /// The rows, in C order.
    pub rows: Provenance,
    /// The shape of the index.
    pub shape: Vec<usize>,
}

impl Remembering {
    /// Returns the records of the elements of `index`; None for an array without records, or one that was changed.
    fn recall(index: &Object<'_>) -> PyResult<Option<Self>> {
        let py = index.py();
        let Some(array) = array::of(index) else { return Ok(None) };
        let mut owner = index.clone();
        while let Some(array) = array::of(&owner) {
            // SAFETY: an object that the array keeps alive, or null.
            let Some(base) = (unsafe { Bound::from_borrowed_ptr_or_opt(py, array::base(array)) }) else {
                return Ok(None);
            };
            owner = base;
        }
        let Ok(owner) = owner.cast::<IndexOwner>() else { return Ok(None) };
        if !array::has_dtype(array, &numpy::dtype::<i64>(py)) {
            return Ok(None);
        }
        // SAFETY: attached, and nothing of Python's runs.
        let rows = unsafe { owner.get().0.recall(array::data(array), array.shape(), array.strides()) }.python()?;
        Ok(rows.map(|rows| Self { rows, shape: array.shape().to_vec() }))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Remembering {
    type Error = PyErr;

    /// Makes an index without records: its rows have no generations and no goals.
    fn extract(index: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(remembered) = Self::recall(&index)? {
            return Ok(remembered);
        }
        let Index { values: index, shape } = index.extract()?;
        Ok(Self { rows: Provenance { index, ..Provenance::default() }, shape })
    }
}

impl<T: Into<Provenance>> From<T> for Remembering {
    fn from(rows: T) -> Self {
        let rows = rows.into();
        let shape = vec![rows.index.len()];
        Self { rows, shape }
    }
}

impl<'py> IntoPyObject<'py> for Remembering {
    type Target = PyAny;
    type Output = Object<'py>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Object<'py>> {
        let owner = provenance::IndexOwner::new(self.rows).python()?;
        let data = owner.data();
        let owner = Bound::new(py, IndexOwner(owner))?.into_any();
        array::over(&numpy::dtype::<i64>(py), &self.shape, None, data, true, owner)
    }
}

/// Returns the same rows in an array that records the row of each one's goal (-1: its own goal).
#[pyfunction]
pub fn carry(mut index: Remembering, goals: Index) -> PyResult<Remembering> {
    index.rows = index.rows.with_goals(goals.values).python()?;
    Ok(index)
}

/// Returns `index + by`, for a part of a buffer whose rows have other numbers; the array has the records of
/// `index` does.
#[pyfunction]
pub fn shift(index: Remembering, by: i64) -> PyResult<Remembering> {
    Ok(Remembering { rows: index.rows.shifted(by).python()?, ..index })
}

/// The goals given to `carry` (also for slices of its result), or None.
#[pyfunction]
pub fn carried(index: &Object<'_>) -> PyResult<Option<Shaped<i64>>> {
    let index = Remembering::recall(index)?;
    Ok(index.and_then(|Remembering { rows, shape }| Some(Shaped::new(rows.goals?, shape))))
}
