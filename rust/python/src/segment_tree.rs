//! `rlfast.data.SegmentTree` over the core's sum tree.

use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyAssertionError, PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rlfast_core::segment_tree::{BadValue, SumTree};

use crate::array::integers;
use crate::enter::enter;

/// A sum tree over `size` leaves, all zero at first, that finds leaves in proportion to their values.
///
/// Values are float64, finite and not negative. A node is a cache line of eight children, and a parent is always summed anew
/// from its children, so sums do not drift however many updates there are.
///
/// :param size: number of leaves, at least 1; any number, not only powers of two.
/// :raises ValueError: if ``size`` is below 1.
/// :raises MemoryError: if that many leaves cannot be held; it says how many bytes they take.
#[pyclass(frozen, module = "rlfast.data")]
pub struct SegmentTree {
    // A mutex, as the replay engine that shares the tree changes it too.
    tree: Arc<Mutex<SumTree>>,
}

impl SegmentTree {
    /// The Python side of a tree that others hold as well.
    pub fn sharing(tree: Arc<Mutex<SumTree>>) -> Self {
        Self { tree }
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, SumTree> {
        // The holder may be a detached thread: it must not have to wait for us to let go of the interpreter.
        match self.tree.try_lock() {
            Some(guard) => guard,
            None => py.detach(|| self.tree.lock()),
        }
    }
}

#[pymethods]
impl SegmentTree {
    #[new]
    fn new(py: Python<'_>, size: isize) -> PyResult<Self> {
        let leaves = usize::try_from(size).ok().filter(|&leaves| leaves > 0);
        let leaves = leaves.ok_or_else(|| PyValueError::new_err(format!("size must be at least 1, got {size}")))?;
        let tree = enter(py, leaves.saturating_mul(8), || SumTree::try_new(leaves));
        let tree = tree.map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        Ok(Self::sharing(Arc::new(Mutex::new(tree))))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let tree = self.lock(py);
        format!("SegmentTree({}, total={})", tree.len(), tree.total())
    }

    /// The leaf at an integer, as a float, or those at an integer array of any shape, as an array of that shape.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let tree = self.lock(py);
        if let Some(index) = scalar::<i64>(index) {
            let leaf = leaves_at(&[index], tree.len())?[0];
            return Ok(tree.leaf(leaf).into_pyobject(py)?.into_any());
        }
        let (index, shape) = integers(index)?;
        let leaves = leaves_at(&index, tree.len())?;
        let values = leaves.into_iter().map(|leaf| tree.leaf(leaf));
        shaped(PyArray1::from_iter(py, values), &shape)
    }

    /// Sets the leaves at an integer or an integer array to a value or to an array of values that broadcasts to it. Where
    /// an index stands twice, the last value wins. Nothing changes if any index or value is refused.
    fn __setitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let (index, shape) = match scalar::<i64>(index) {
            Some(index) => (vec![index], Vec::new()),
            None => integers(index)?,
        };
        let values = match scalar::<f64>(value) {
            Some(value) => vec![value; index.len()],
            None => broadcast(value, &shape)?,
        };
        SumTree::check(&values).map_err(refuse)?;
        let mut tree = self.lock(py);
        let leaves = leaves_at(&index, tree.len())?;
        enter(py, leaves.len() * 16, || tree.set_many(&leaves, &values));
        Ok(())
    }

    /// The sum of the leaves from `start` up to, not including, `end`.
    ///
    /// :param start: first leaf. Default: 0.
    /// :param end: where to stop; None is the end of the tree, a negative one counts from there.
    /// :raises OutOfRange: if the bounds lie outside the tree.
    #[pyo3(signature = (start=0, end=None))]
    fn reduce(&self, py: Python<'_>, start: i64, end: Option<i64>) -> PyResult<f64> {
        let tree = self.lock(py);
        let len = tree.len() as i64;
        let stop = end.map_or(len, |end| if end < 0 { end + len } else { end });
        if !(0..=len).contains(&start) || !(0..=len).contains(&stop) {
            let end = end.map_or("None".to_owned(), |end| end.to_string());
            return Err(out_of_range(py, format!("leaves {start} to {end} reach outside a tree of {len}")));
        }
        Ok(tree.sum(start as usize..stop as usize))
    }

    /// The leaf that owns each mass: the first one whose cumulative sum, itself included, is above the mass. So leaf `i` is
    /// found for `value = random * tree.reduce()` in proportion to `tree[i]`, and a leaf of zero never.
    ///
    /// :param value: a mass, or an array of them of any shape; at least 0 and below ``tree.reduce()``.
    /// :return: an int for a number, an int64 array of the same shape for an array.
    /// :raises OutOfRange: if a mass lies outside the sum; it names the place of the first. It is an AssertionError too, as
    ///     in Tianshou. So it does if every leaf is zero.
    fn get_prefix_sum_idx<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let single = scalar::<f64>(value);
        let (masses, shape) = match single {
            Some(mass) => (vec![mass], Vec::new()),
            None => doubles(value)?,
        };
        let tree = self.lock(py);
        check_masses(py, &masses, &tree, single.is_some())?;
        let mut leaves = vec![0; masses.len()];
        enter(py, masses.len() * 16, || tree.find_many(&masses, &mut leaves));
        drop(tree);
        if single.is_some() {
            return Ok(leaves[0].into_pyobject(py)?.into_any());
        }
        let leaves = leaves.into_iter().map(|leaf| leaf as i64);
        shaped(PyArray1::from_iter(py, leaves), &shape)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (usize,), Bound<'py, PyArray1<f64>>) {
        let py = slf.py();
        let tree = slf.get().lock(py);
        let leaves = PyArray1::from_iter(py, tree.leaves());
        (slf.get_type(), (tree.len(),), leaves)
    }

    fn __setstate__(&self, py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<()> {
        let (values, _) = doubles(leaves)?;
        SumTree::check(&values).map_err(refuse)?;
        let mut tree = self.lock(py);
        if values.len() != tree.len() {
            return Err(PyValueError::new_err(format!("got {} leaves for a tree of {}", values.len(), tree.len())));
        }
        tree.set_range(0, &values);
        Ok(())
    }
}

/// What a number that is no array holds.
fn scalar<'py, T: FromPyObject<'py, 'py>>(object: &'py Bound<'py, PyAny>) -> Option<T> {
    if object.cast::<PyUntypedArray>().is_ok() {
        return None;
    }
    object.extract().ok()
}

/// The numbers of an array or of anything that NumPy makes one of, and its shape.
fn doubles(value: &Bound<'_, PyAny>) -> PyResult<(Vec<f64>, Vec<npy_intp>)> {
    let array = match value.cast::<PyArrayDyn<f64>>() {
        Ok(array) if array.is_c_contiguous() => array.clone(),
        _ => {
            let numpy = value.py().import("numpy")?;
            let array = numpy.call_method1("asarray", (value, "float64"))?;
            let options = PyDict::new(value.py());
            options.set_item("order", "C")?;
            array.call_method("copy", (), Some(&options))?.cast_into()?
        }
    };
    let shape = array.shape().iter().map(|&length| length as npy_intp).collect();
    let values = array.readonly().as_slice()?.to_vec();
    Ok((values, shape))
}

/// One value for each index.
fn broadcast(value: &Bound<'_, PyAny>, shape: &[npy_intp]) -> PyResult<Vec<f64>> {
    let (values, own_shape) = doubles(value)?;
    if own_shape == shape {
        return Ok(values);
    }
    let numpy = value.py().import("numpy")?;
    let spread = numpy.call_method1("broadcast_to", (value, shape.to_vec()))?;
    Ok(doubles(&spread)?.0)
}

fn shaped<'py, T: numpy::Element>(flat: Bound<'py, PyArray1<T>>, shape: &[npy_intp]) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        [_] => Ok(flat.into_any()),
        _ => flat.call_method1("reshape", (shape.to_vec(),)),
    }
}

fn leaves_at(index: &[i64], len: usize) -> PyResult<Vec<usize>> {
    // A negative index is a huge unsigned one.
    if index.iter().fold(true, |all, &index| all & ((index as u64) < len as u64)) {
        return Ok(index.iter().map(|&index| index as usize).collect());
    }
    let position = index.iter().position(|&index| index as u64 >= len as u64);
    let position = position.expect("invariant: some index is outside");
    Python::attach(|py| {
        Err(out_of_range(py, format!("leaf {} at position {position} is outside a tree of {len}", index[position])))
    })
}

fn check_masses(py: Python<'_>, masses: &[f64], tree: &SumTree, single: bool) -> PyResult<()> {
    let total = tree.total();
    let inside = |mass: f64| (0.0..total).contains(&mass);
    if masses.iter().fold(true, |all, &mass| all & inside(mass)) {
        return Ok(());
    }
    if total == 0.0 {
        return Err(out_of_range(py, "every leaf is zero: there is no mass to find".to_owned()));
    }
    let position = masses.iter().position(|&mass| !inside(mass));
    let position = position.expect("invariant: some mass is outside");
    let place = if single { String::new() } else { format!(" at position {position}") };
    Err(out_of_range(py, format!("mass {}{place} is outside [0, {total}), the sum of the leaves", masses[position])))
}

fn refuse(error: BadValue) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn out_of_range(py: Python<'_>, text: String) -> PyErr {
    match out_of_range_type(py) {
        Ok(class) => PyErr::from_type(class.clone(), text),
        Err(error) => error,
    }
}

/// `OutOfRange`: `create_exception!` knows one base only.
pub fn out_of_range_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let bases = (py.get_type::<PyIndexError>(), py.get_type::<PyValueError>(), py.get_type::<PyAssertionError>());
        let members = PyDict::new(py);
        members.set_item("__module__", "rlfast._core")?;
        members.set_item(
            "__doc__",
            "A leaf or a mass outside a segment tree. An AssertionError as well, since that is what Tianshou raises.",
        )?;
        let class = py.get_type::<PyType>().call1(("OutOfRange", bases, members))?;
        PyResult::Ok(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}
