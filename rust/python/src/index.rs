//! Index arrays that remember.
//!
//! The array that sampling returns is a plain `int64` array. The memory it stands on belongs to a [`IndexOwner`], which also
//! knows the generation of each slot, and, after relabelling, the row that each goal came from. Slices still stand on that
//! memory and so remember too; copies do not, and are taken as bare integers.

use std::cell::UnsafeCell;

use numpy::PyArray1;
use numpy::npyffi::types::npy_intp;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use rlfast_core::error::Result;
use rlfast_core::vectors;

use crate::array;
use crate::error::IntoPython as _;

/// Where the rows of an index array come from.
#[derive(Debug, Default)]
pub struct Provenance {
    /// The index as it was given out.
    pub index: Vec<i64>,
    /// The generation of each slot.
    pub generations: Option<Vec<u64>>,
    /// For each row the row of its goal, or -1.
    pub goals: Option<Vec<i64>>,
}

impl Provenance {
    fn copied(&self) -> Result<Self> {
        Ok(Self {
            index: vectors::copied(&self.index)?,
            generations: self.generations.as_deref().map(vectors::copied).transpose()?,
            goals: self.goals.as_deref().map(vectors::copied).transpose()?,
        })
    }
}

/// The owner of an index array's memory.
#[pyclass(frozen, module = "rlfast._core")]
pub struct IndexOwner {
    /// What NumPy shows; users may write to it, so nothing in Rust refers to it but by address.
    shown: Box<[UnsafeCell<i64>]>,
    provenance: Provenance,
}

// SAFETY: `shown` is only ever reached through the NumPy array over it, under Python's own rules; the rest never changes.
unsafe impl Sync for IndexOwner {}

impl IndexOwner {
    /// The usual case, all elements in order: what they remember, or `Some(None)` when one was changed since.
    fn whole(&self, first: isize, dims: &[npy_intp], strides: &[npy_intp]) -> Option<PyResult<Option<Provenance>>> {
        let n = self.shown.len();
        if first != 0 || dims != [n as npy_intp] || strides != [8] {
            return None;
        }
        // SAFETY: `n` i64 of the keeper's own memory; attached, so nobody writes them at this moment.
        let same = unsafe {
            rlfast_core::memory::equal(self.shown.as_ptr().cast(), self.provenance.index.as_ptr().cast(), 8 * n)
        };
        Some(if same { self.provenance.copied().map(Some).python() } else { Ok(None) })
    }
}

/// An index array that remembers.
pub fn remembering<'py>(
    py: Python<'py>,
    provenance: Provenance,
    shape: Option<Vec<npy_intp>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut dims = shape.unwrap_or_else(|| vec![provenance.index.len() as npy_intp]);
    let shown = vectors::collected(provenance.index.iter().map(|&i| UnsafeCell::new(i))).python()?.into_boxed_slice();
    let data = shown.as_ptr().cast::<u8>().cast_mut();
    let keeper = Bound::new(py, IndexOwner { shown, provenance })?.into_any();
    array::over(&numpy::dtype::<i64>(py), &mut dims, None, data, true, keeper)
}

/// What the elements of `index` remember, in their order; None for an array that remembers nothing, or that was changed
/// since.
pub fn recall(index: &Bound<'_, PyAny>) -> PyResult<Option<Provenance>> {
    let py = index.py();
    let mut owner = index.clone();
    while array::is_array(py, owner.as_ptr()) {
        // SAFETY: an array, alive through `owner`.
        let base = unsafe { array::fields(owner.as_ptr()) }.base;
        // SAFETY: a live object or null.
        let Some(base) = (unsafe { Bound::from_borrowed_ptr_or_opt(py, base) }) else { return Ok(None) };
        owner = base;
    }
    let Ok(keeper) = owner.cast::<IndexOwner>() else { return Ok(None) };
    let keeper = keeper.get();
    if !array::is_array(py, index.as_ptr()) {
        return Ok(None);
    }
    // SAFETY: an array, alive through `index`.
    let array = unsafe { array::fields(index.as_ptr()) };
    // SAFETY: as above.
    let (dims, strides) = unsafe { array::axes(array) };
    if array.descr.cast() != numpy::dtype::<i64>(py).as_ptr() {
        return Ok(None);
    }
    let first = (array.data as isize - keeper.shown.as_ptr() as isize) / 8;
    if let Some(whole) = keeper.whole(first, dims, strides) {
        return whole;
    }
    let places = places(first, dims, strides).python()?;
    let length = places.len();
    let mut found = Provenance {
        index: vectors::with_room(length).python()?,
        generations: keeper.provenance.generations.as_ref().map(|_| vectors::with_room(length)).transpose().python()?,
        goals: keeper.provenance.goals.as_ref().map(|_| vectors::with_room(length)).transpose().python()?,
    };
    for place in places {
        let Some(k) = usize::try_from(place).ok().filter(|&k| k < keeper.shown.len()) else { return Ok(None) };
        // SAFETY: an i64 inside the keeper's memory; attached, so nobody writes it at this moment.
        let now = unsafe { keeper.shown[k].get().read() };
        if now != keeper.provenance.index[k] {
            return Ok(None);
        }
        found.index.push(now);
        if let (Some(to), Some(from)) = (&mut found.generations, &keeper.provenance.generations) {
            to.push(from[k]);
        }
        if let (Some(to), Some(from)) = (&mut found.goals, &keeper.provenance.goals) {
            to.push(from[k]);
        }
    }
    Ok(Some(found))
}

/// The positions of an array's elements in the memory it stands on, in C order.
fn places(first: isize, dims: &[npy_intp], strides: &[npy_intp]) -> Result<Vec<isize>> {
    if dims.contains(&0) {
        return Ok(Vec::new());
    }
    let mut out = vec![first];
    for (&dim, &stride) in dims.iter().zip(strides) {
        let mut finer = vectors::with_room(vectors::product(&[out.len(), dim as usize])?)?;
        finer.extend(out.iter().flat_map(|&base| (0..dim).map(move |k| base + k * stride / 8)));
        out = finer;
    }
    Ok(out)
}

/// The same rows in an array that remembers, for each, the row its goal comes from (-1: its own goal).
#[pyfunction]
pub fn carry<'py>(index: &Bound<'py, PyAny>, goals: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let (rows, shape) = array::integers(index)?;
    let (goals, _) = array::integers(goals)?;
    if rows.len() != goals.len() {
        return Err(PyValueError::new_err(format!(
            "one goal for each row: got {} rows and {} goals",
            rows.len(),
            goals.len()
        )));
    }
    let generations = recall(index)?.and_then(|found| found.generations);
    remembering(index.py(), Provenance { index: rows, generations, goals: Some(goals) }, Some(shape))
}

/// The rows `by` further on, for a part of a buffer that counts its rows from elsewhere; the array still remembers what
/// `index` does.
#[pyfunction]
pub fn shift<'py>(index: &Bound<'py, PyAny>, by: i64) -> PyResult<Bound<'py, PyAny>> {
    let (mut rows, shape) = array::integers(index)?;
    let mut found = recall(index)?.unwrap_or_default();
    let goals = found.goals.iter_mut().flatten().filter(|goal| **goal >= 0);
    for row in rows.iter_mut().chain(goals) {
        *row = row.checked_add(by).ok_or_else(|| PyIndexError::new_err(format!("there is no row {by} after {row}")))?;
    }
    remembering(index.py(), Provenance { index: rows, ..found }, Some(shape))
}

/// The goals given to `carry` (also for slices of its result), or None.
#[pyfunction]
pub fn carried<'py>(index: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(goals) = recall(index)?.and_then(|found| found.goals) else {
        return Ok(None);
    };
    let (_, shape) = array::integers(index)?;
    Ok(Some(array::shaped(PyArray1::from_vec(index.py(), goals), &shape)?))
}
