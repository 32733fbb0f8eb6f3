//! `rlfast.data.SegmentTree` over the core's sum tree.

use numpy::{Element, PyUntypedArray};
use pyo3::IntoPyObjectExt as _;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyMemoryError;
use rlfast_core::segment_tree::SumTree;

use crate::columns::State;
use crate::prelude::*;

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

/// The function that pickle calls, its arguments, and the state for `__setstate__`.
type Reduced<'py> = (Bound<'py, PyType>, (usize,), Shaped<f64>);

/// The owner of a tree.
enum Tree {
    Own(Shared<SumTree>),
    /// A replay engine, whose lock protects the tree: with a second lock, two threads could wait for each other.
    Of(Shared<State>),
}

impl SegmentTree {
    /// Makes the Python object of an engine's tree.
    pub(crate) fn of(engine: Shared<State>, leaves: usize) -> Self {
        Self { tree: Tree::Of(engine), leaves }
    }

    /// Runs `work` on the tree, without the interpreter if `leaves` is large.
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
        let leaves = leaves.ok_or_else(|| raised!(PyValueError, "size must be at least 1, got {size}"))?;
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
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Object<'py>) -> PyResult<Object<'py>> {
        let (index, shape) = numbers(index)?;
        shown(py, self.over(py, index.len(), |tree| tree.get(&index)).python()?, shape)
    }

    /// Sets the leaves at an integer or an integer array to a value or to an array of values that broadcasts to it. Where
    /// an index occurs twice, the last value wins. Nothing changes if an index or a value is invalid.
    fn __setitem__(&self, py: Python<'_>, index: &Object<'_>, value: &Object<'_>) -> PyResult<()> {
        let (index, shape) = numbers(index)?;
        let values = match numbers(value)? {
            (one, None) => vectors::filled(one[0], index.len()).python()?,
            (values, given) if given == shape => values,
            _ => {
                let shape = shape.unwrap_or_default();
                let spread = py.import("numpy")?.call_method1("broadcast_to", (value, shape))?;
                spread.extract::<Shaped<f64>>()?.values
            }
        };
        self.over(py, index.len(), |tree| tree.put(&index, &values)).python()
    }

    /// The sum of the leaves from `start` up to, not including, `end`.
    ///
    /// :param start: first leaf. Default: 0.
    /// :param end: where to stop; None is the end of the tree, a negative one counts from there.
    /// :raises OutOfRange: if the bounds lie outside the tree.
    #[pyo3(signature = (start=0, end=None))]
    fn reduce(&self, py: Python<'_>, start: i64, end: Option<i64>) -> PyResult<f64> {
        self.over(py, 0, |tree| tree.reduce(start, end)).python()
    }

    /// The leaf that owns each mass: the first positive one whose cumulative sum, itself included, is at least the mass. So leaf
    /// `i` is found for `value = random * tree.reduce()` in proportion to `tree[i]`, and a leaf of zero never.
    ///
    /// :param value: a mass, or an array of them of any shape; from 0 to ``tree.reduce()``.
    /// :return: an int for a number, an int64 array of the same shape for an array.
    /// :raises OutOfRange: if a mass lies outside the sum; it names the place of the first. It is an AssertionError too, as
    ///     in Tianshou. So it does if every leaf is zero.
    fn get_prefix_sum_idx<'py>(&self, py: Python<'py>, value: &Object<'py>) -> PyResult<Object<'py>> {
        let (masses, shape) = numbers(value)?;
        shown(py, self.over(py, masses.len(), |tree| tree.find_checked(&masses)).python()?, shape)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let leaves = this.over(py, this.leaves, |tree| tree.get_all()).python()?;
        Ok((slf.get_type(), (this.leaves,), leaves.into()))
    }

    fn __setstate__(&self, py: Python<'_>, leaves: Shaped<f64>) -> PyResult<()> {
        self.over(py, self.leaves, |tree| tree.put_all(&leaves)).python()
    }
}

/// Numbers, and the shape of the array that has them; None for a number that is in none.
type Numbers<T> = (Vec<T>, Option<Vec<usize>>);

fn numbers<'py, T: FromPyObjectOwned<'py>>(object: &Object<'py>) -> PyResult<Numbers<T>>
where
    Shaped<T>: FromPyObjectOwned<'py, Error = PyErr>,
{
    if object.cast::<PyUntypedArray>().is_err()
        && let Ok(number) = object.extract()
    {
        return Ok((vec![number], None));
    }
    let Shaped { values, shape } = object.extract()?;
    Ok((values, Some(shape)))
}

/// Numbers as an array of a shape, or as what they are.
fn shown<'py, T: Element + Copy + IntoPyObject<'py>>(
    py: Python<'py>,
    values: Vec<T>,
    shape: Option<Vec<usize>>,
) -> PyResult<Object<'py>> {
    match shape {
        Some(shape) => Shaped::new(values, shape).into_pyobject(py),
        None => values[0].into_bound_py_any(py),
    }
}
