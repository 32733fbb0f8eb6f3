//! `rlfast.data.SegmentTree` over the core's sum tree.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyMemoryError;
use rlfast_core::error::Result;
use rlfast_core::segment_tree::SumTree;
use rlfast_core::segment_tree::checks::{leaves_at, range_of};
use rlfast_core::vectors::{collected, filled, with_room};

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
        if let Some(index) = scalar::<i64>(index) {
            let leaf = leaves_at(&[index], self.leaves).python()?[0];
            return Ok(self.over(py, 1, |tree| tree.leaf(leaf)).into_pyobject(py)?.into_any());
        }
        let Index { values: rows, shape } = index.extract()?;
        let leaves = leaves_at(&rows, self.leaves).python()?;
        let values = self.over(py, leaves.len(), |tree| collected(leaves.into_iter().map(|leaf| tree.leaf(leaf))));
        Shaped::new(values.python()?, shape).into_pyobject(py)
    }

    /// Sets the leaves at an integer or an integer array to a value or to an array of values that broadcasts to it. Where
    /// an index occurs twice, the last value wins. Nothing changes if an index or a value is invalid.
    fn __setitem__(&self, py: Python<'_>, index: &Object<'_>, value: &Object<'_>) -> PyResult<()> {
        let index = match scalar::<i64>(index) {
            Some(index) => Index::new(vec![index], Vec::new()),
            None => index.extract()?,
        };
        let values = match scalar::<f64>(value) {
            Some(value) => filled(value, index.values.len()).python()?,
            None => broadcast(value, &index.shape)?,
        };
        check(&values)?;
        let leaves = leaves_at(&index.values, self.leaves).python()?;
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
        let range = range_of(start, end, self.leaves).python()?;
        Ok(self.over(py, 0, |tree| tree.sum(range)))
    }

    /// The leaf that owns each mass: the first positive one whose cumulative sum, itself included, is at least the mass. So leaf
    /// `i` is found for `value = random * tree.reduce()` in proportion to `tree[i]`, and a leaf of zero never.
    ///
    /// :param value: a mass, or an array of them of any shape; from 0 to ``tree.reduce()``.
    /// :return: an int for a number, an int64 array of the same shape for an array.
    /// :raises OutOfRange: if a mass lies outside the sum; it names the place of the first. It is an AssertionError too, as
    ///     in Tianshou. So it does if every leaf is zero.
    fn get_prefix_sum_idx<'py>(&self, py: Python<'py>, value: &Object<'py>) -> PyResult<Object<'py>> {
        let single = scalar::<f64>(value);
        let (masses, shape) = match single {
            Some(mass) => (vec![mass], Vec::new()),
            None => {
                let masses: Shaped<f64> = value.extract()?;
                (masses.values, masses.shape)
            }
        };
        let leaves = self.over(py, masses.len(), |tree| tree.find_checked(&masses)).python()?;
        if single.is_some() {
            return Ok(leaves[0].into_pyobject(py)?.into_any());
        }
        let leaves = collected(leaves.into_iter().map(|leaf| leaf as i64)).python()?;
        Shaped::new(leaves, shape).into_pyobject(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let leaves = this.over(py, this.leaves, |tree| {
            let mut leaves = with_room(tree.len())?;
            leaves.extend(tree.leaves());
            Result::Ok(leaves)
        });
        Ok((slf.get_type(), (this.leaves,), leaves.python()?.into()))
    }

    fn __setstate__(&self, py: Python<'_>, leaves: Shaped<f64>) -> PyResult<()> {
        let Shaped { values, .. } = leaves;
        check(&values)?;
        if values.len() != self.leaves {
            return Err(raised!(PyValueError, "got {} leaves for a tree of {}", values.len(), self.leaves));
        }
        self.over(py, self.leaves, |tree| tree.set_range(0, &values));
        Ok(())
    }
}

/// The value of a number that is not an array.
fn scalar<'py, T: FromPyObject<'py, 'py>>(object: &'py Object<'py>) -> Option<T> {
    if object.cast::<PyUntypedArray>().is_ok() {
        return None;
    }
    object.extract().ok()
}

/// One value for each index.
fn broadcast(value: &Object<'_>, shape: &[npy_intp]) -> PyResult<Vec<f64>> {
    let given: Shaped<f64> = value.extract()?;
    if given.shape == shape {
        return Ok(given.values);
    }
    let numpy = value.py().import("numpy")?;
    let spread = numpy.call_method1("broadcast_to", (value, shape.to_vec()))?;
    Ok(spread.extract::<Shaped<f64>>()?.values)
}

/// Checks that values are valid leaves.
fn check(values: &[f64]) -> PyResult<()> {
    SumTree::check(values).python()
}
