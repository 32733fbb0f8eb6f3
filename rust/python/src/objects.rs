//! Columns of Python objects: NumPy arrays of them that Python made, and that rows are written to together with the numbers.

use std::os::raw::c_int;

use numpy::PyUntypedArray;
use numpy::npyffi::flags::{NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO};
use pyo3::ffi;

use crate::prelude::*;

/// A column of objects.
#[derive(Debug)]
pub struct ObjectColumn {
    /// The keys from the outermost to that of the column.
    pub path: Vec<String>,
    /// An array of objects, with a row for each slot. It is Python's own, which users read and write.
    pub array: Py<PyUntypedArray>,
}

impl ObjectColumn {
    /// The column of an array with `total` rows.
    pub fn new(path: Vec<String>, array: &Object<'_>, total: usize) -> PyResult<Self> {
        let rows = array::of(array).and_then(|array| rows(array, NPY_ARRAY_CARRAY));
        let Some(rows) = rows.filter(|rows| rows.len == total) else {
            return Err(raised!(
                PyValueError,
                "{} needs {total} rows of objects in C order, got {}",
                path.join("."),
                array.repr()?
            ));
        };
        Ok(Self { path, array: rows.array.clone().unbind() })
    }

    /// Another reference to it.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { path: self.path.clone(), array: self.array.clone_ref(py) }
    }
}

type Slot = *mut ffi::PyObject;

/// An array of objects, `len` times `items` of them.
struct Rows<'a, 'py> {
    array: &'a Array<'py>,
    slots: *mut Slot,
    len: usize,
    items: usize,
}

/// The objects of an array; None unless it has these flags.
fn rows<'a, 'py>(array: &'a Array<'py>, flags: c_int) -> Option<Rows<'a, 'py>> {
    let (&len, shape) = array.shape().split_first()?;
    let fits = array::kind(array) == b'O' && array::has(array, flags);
    fits.then(|| Rows { array, slots: array::data(array).cast(), len, items: shape.iter().product() })
}

/// Rows of objects that are to be written, and the objects that they replace.
pub struct IncomingObjects {
    /// The slots of each column and of its new rows, and the objects of a row.
    columns: Vec<(*mut Slot, *const Slot, usize)>,
    replaced: Vec<Slot>,
    total: usize,
    rows: usize,
}

// SAFETY: it is made, used and dropped by a thread that stays attached: `Shared::try_with` asks for more than it needs.
unsafe impl Send for IncomingObjects {}

impl IncomingObjects {
    /// Finds `rows` rows for columns of `total` rows, an array for each column.
    ///
    /// # Errors
    /// `SchemaMismatch` for other arrays.
    pub fn find(columns: &[ObjectColumn], given: &[Object<'_>], total: usize, count: usize) -> PyResult<Self> {
        let Some(first) = given.first() else {
            return match columns {
                [] => Ok(Self { columns: Vec::new(), replaced: Vec::new(), total, rows: count }),
                [column, ..] => mismatch!("{} is a column of objects", column.path.join(".")),
            };
        };
        if given.len() != columns.len() {
            return mismatch!("there are {} columns of objects, got {}", columns.len(), given.len());
        }
        let (py, mut found, mut items) = (first.py(), vectors::with_room(columns.len()).python()?, 0);
        for (column, value) in columns.iter().zip(given) {
            let to = rows(column.array.bind(py), NPY_ARRAY_CARRAY);
            let from = array::of(value).and_then(|array| rows(array, NPY_ARRAY_CARRAY_RO));
            let (Some(to), Some(from)) = (to, from) else {
                return mismatch!("{} are no objects in C order", column.path.join("."));
            };
            if to.len != total || from.len != count || to.items != from.items {
                return mismatch!("{} has rows of another shape", column.path.join("."));
            }
            items += to.items;
            found.push((to.slots, from.slots.cast_const(), to.items));
        }
        let replaced = vectors::with_room(vectors::product(&[items, count]).python()?).python()?;
        Ok(Self { columns: found, replaced, total, rows: count })
    }

    /// Writes row `k` of the new rows to slot `index[k]` of the columns. Nothing of Python's runs: the objects that were
    /// there live until this is dropped.
    ///
    /// # Safety
    /// The thread has been attached since `find` and nothing of Python's has run.
    pub unsafe fn write(&mut self, index: impl ExactSizeIterator<Item = usize>) {
        assert!(index.len() == self.rows && self.replaced.is_empty(), "invariant: one slot for each row, once");
        for (k, row) in index.enumerate() {
            assert!(row < self.total, "invariant: a slot of the columns");
            for &(to, from, items) in &self.columns {
                for item in 0..items {
                    // SAFETY: an item of row `k` and one of a slot, as `find` has checked. A null stands for None.
                    unsafe {
                        let new = *from.add(k * items + item);
                        ffi::Py_XINCREF(new);
                        self.replaced.push(to.add(row * items + item).replace(new));
                    }
                }
            }
        }
    }
}

impl Drop for IncomingObjects {
    fn drop(&mut self) {
        for object in self.replaced.drain(..) {
            // SAFETY: attached, and each was a reference of an array's.
            unsafe { ffi::Py_XDECREF(object) }
        }
    }
}
