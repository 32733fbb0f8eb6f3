//! `rlfast.data.SegmentTree` over the core's sum tree.

use numpy::npyffi::types::npy_intp;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::exceptions::{PyAssertionError, PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rlfast_core::segment_tree::{BadValue, SumTree};
use rlfast_core::vectors::{collected, filled, with_room};

use crate::array::{doubles, integers, shaped};
use crate::error::IntoPython as _;
use crate::replay::State;
use crate::shared::Shared;

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
    tree: Tree,
    leaves: usize,
}

/// What pickle calls, with what, and what it hands to `__setstate__`.
type Reduced<'py> = (Bound<'py, PyType>, (usize,), Bound<'py, PyArray1<f64>>);

/// Whose a tree is.
enum Tree {
    Own(Shared<SumTree>),
    /// That of a replay engine, under the engine's lock: a lock of its own could be waited for under that.
    Of(Shared<State>),
}

impl SegmentTree {
    /// The Python side of an engine's tree.
    pub(crate) fn of(engine: Shared<State>, leaves: usize) -> Self {
        Self { tree: Tree::Of(engine), leaves }
    }

    /// Does work on so many `leaves`.
    fn over<R: Send>(&self, py: Python<'_>, leaves: usize, work: impl FnOnce(&mut SumTree) -> R + Send) -> R {
        let bytes = leaves.saturating_mul(16);
        match &self.tree {
            Tree::Own(tree) => tree.over(py, bytes, work),
            Tree::Of(engine) => engine.over(py, bytes, |state| work(state.tree_mut())),
        }
    }
}

#[pymethods]
impl SegmentTree {
    #[new]
    fn new(size: isize) -> PyResult<Self> {
        let leaves = usize::try_from(size).ok().filter(|&leaves| leaves > 0);
        let leaves = leaves.ok_or_else(|| PyValueError::new_err(format!("size must be at least 1, got {size}")))?;
        let tree = SumTree::try_new(leaves).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        Ok(Self { tree: Tree::Own(Shared::new(tree)), leaves })
    }

    fn __len__(&self) -> usize {
        self.leaves
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("SegmentTree({}, total={})", self.leaves, self.over(py, 0, |tree| tree.total()))
    }

    /// The leaf at an integer, as a float, or those at an integer array of any shape, as an array of that shape.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(index) = scalar::<i64>(index) {
            let leaf = leaves_at(py, &[index], self.leaves)?[0];
            return Ok(self.over(py, 1, |tree| tree.leaf(leaf)).into_pyobject(py)?.into_any());
        }
        let (index, shape) = integers(index)?;
        let leaves = leaves_at(py, &index, self.leaves)?;
        let values = self.over(py, leaves.len(), |tree| collected(leaves.into_iter().map(|leaf| tree.leaf(leaf))));
        let values = values.python()?;
        shaped(PyArray1::from_vec(py, values), &shape)
    }

    /// Sets the leaves at an integer or an integer array to a value or to an array of values that broadcasts to it. Where
    /// an index stands twice, the last value wins. Nothing changes if any index or value is refused.
    fn __setitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let (index, shape) = match scalar::<i64>(index) {
            Some(index) => (vec![index], Vec::new()),
            None => integers(index)?,
        };
        let values = match scalar::<f64>(value) {
            Some(value) => filled(value, index.len()).python()?,
            None => broadcast(value, &shape)?,
        };
        SumTree::check(&values).map_err(refuse)?;
        let leaves = leaves_at(py, &index, self.leaves)?;
        self.over(py, leaves.len(), |tree| tree.set_many(&leaves, &values));
        Ok(())
    }

    /// The sum of the leaves from `start` up to, not including, `end`.
    ///
    /// :param start: first leaf. Default: 0.
    /// :param end: where to stop; None is the end of the tree, a negative one counts from there.
    /// :raises OutOfRange: if the bounds lie outside the tree.
    #[pyo3(signature = (start=0, end=None))]
    fn reduce(&self, py: Python<'_>, start: i64, end: Option<i64>) -> PyResult<f64> {
        let len = self.leaves as i64;
        let stop = end.map_or(len, |end| if end < 0 { end + len } else { end });
        if !(0..=len).contains(&start) || !(0..=len).contains(&stop) {
            let end = end.map_or("None".to_owned(), |end| end.to_string());
            return Err(out_of_range(py, format!("leaves {start} to {end} reach outside a tree of {len}")));
        }
        Ok(self.over(py, 0, |tree| tree.sum(start as usize..stop as usize)))
    }

    /// The leaf that owns each mass: the first positive one whose cumulative sum, itself included, is at least the mass. So leaf
    /// `i` is found for `value = random * tree.reduce()` in proportion to `tree[i]`, and a leaf of zero never.
    ///
    /// :param value: a mass, or an array of them of any shape; from 0 to ``tree.reduce()``.
    /// :return: an int for a number, an int64 array of the same shape for an array.
    /// :raises OutOfRange: if a mass lies outside the sum; it names the place of the first. It is an AssertionError too, as
    ///     in Tianshou. So it does if every leaf is zero.
    fn get_prefix_sum_idx<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let single = scalar::<f64>(value);
        let (masses, shape) = match single {
            Some(mass) => (vec![mass], Vec::new()),
            None => doubles(value)?,
        };
        let mut leaves = filled(0, masses.len()).python()?;
        let found = self.over(py, masses.len(), |tree| {
            check_masses(&masses, tree.total(), single.is_some())?;
            tree.find_many(&masses, &mut leaves);
            Ok(())
        });
        found.map_err(|text| out_of_range(py, text))?;
        if single.is_some() {
            return Ok(leaves[0].into_pyobject(py)?.into_any());
        }
        let leaves = collected(leaves.into_iter().map(|leaf| leaf as i64)).python()?;
        shaped(PyArray1::from_vec(py, leaves), &shape)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let leaves = this.over(py, this.leaves, |tree| {
            let mut leaves = with_room(tree.len())?;
            leaves.extend(tree.leaves());
            Ok(leaves)
        });
        Ok((slf.get_type(), (this.leaves,), PyArray1::from_vec(py, leaves.python()?)))
    }

    fn __setstate__(&self, py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<()> {
        let (values, _) = doubles(leaves)?;
        SumTree::check(&values).map_err(refuse)?;
        if values.len() != self.leaves {
            return Err(PyValueError::new_err(format!("got {} leaves for a tree of {}", values.len(), self.leaves)));
        }
        self.over(py, self.leaves, |tree| tree.set_range(0, &values));
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

fn leaves_at(py: Python<'_>, index: &[i64], len: usize) -> PyResult<Vec<usize>> {
    // A negative index is a huge unsigned one.
    if index.iter().fold(true, |all, &index| all & ((index as u64) < len as u64)) {
        return collected(index.iter().map(|&index| index as usize)).python();
    }
    let position = index.iter().position(|&index| index as u64 >= len as u64);
    let position = position.expect("invariant: some index is outside");
    Err(out_of_range(py, format!("leaf {} at position {position} is outside a tree of {len}", index[position])))
}

/// What is wrong with the first mass that is not inside the sum.
fn check_masses(masses: &[f64], total: f64, single: bool) -> Result<(), String> {
    if total == 0.0 && !masses.is_empty() {
        return Err("every leaf is zero: there is no mass to find".to_owned());
    }
    let inside = |mass: f64| (0.0..=total).contains(&mass);
    if masses.iter().fold(true, |all, &mass| all & inside(mass)) {
        return Ok(());
    }
    let position = masses.iter().position(|&mass| !inside(mass));
    let position = position.expect("invariant: some mass is outside");
    let place = if single { String::new() } else { format!(" at position {position}") };
    Err(format!("mass {}{place} is outside [0, {total}], the sum of the leaves", masses[position]))
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
