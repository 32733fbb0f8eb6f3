//! Stacks of frames: arrays whose frames a replay buffer recognises without reading them.

use numpy::PyReadonlyArray1;
use rlfast_core::source::{Source, is_packed};
use rlfast_envs::frames::{StackRing, Stacks};

use crate::prelude::*;

/// The owner of the memory of an array of stacks, by which the array is recognised.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameStacks(Stacks);

/// The stacks that an array shows, if it is one of those that `FrameRing` made. They are read-only, so their frames are still those
/// that were numbered. Views of such arrays, and arrays of another shape, are not recognised.
#[inline]
pub fn shown_by<'a>(array: &'a Array<'_>) -> Option<&'a Stacks> {
    if array::base(array).is_null() {
        return None;
    }
    // SAFETY: an array keeps its base alive.
    let owner = unsafe { Borrowed::from_ptr(array.py(), array::base(array)) };
    let shown: *const FrameStacks = owner.cast_exact::<FrameStacks>().ok()?.get();
    // SAFETY: as above.
    let shown = unsafe { &(*shown).0 };
    shown.are_shown(array::data(array), array.shape(), array.strides()).then_some(shown)
}

/// Returns an array over stacks of frames of a shape.
fn into_array<'py>(stacks: Stacks, descr: &Bound<'py, PyArrayDescr>, shape: &[usize]) -> PyResult<Object<'py>> {
    let dims = [&[stacks.rows, stacks.stack], shape].concat();
    let (stride, data) = (Some(stacks.stride), stacks.data());
    array::over(descr, &dims, stride, data, false, Bound::new(descr.py(), FrameStacks(stacks))?.into_any())
}

/// The newest frames of some environments.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameRing {
    ring: Shared<StackRing>,
    descr: Py<PyArrayDescr>,
    shape: Vec<usize>,
    envs: usize,
    stack: usize,
}

impl FrameRing {
    /// Reads an array with a row of the shape `inner` for each of the environments `ids` (None for all).
    fn given(&self, py: Python<'_>, value: &Object<'_>, ids: Option<&[i64]>, inner: &[usize]) -> PyResult<Source> {
        let (dims, wanted) = ([&[ids.map_or(self.envs, <[_]>::len)], inner].concat(), self.descr.bind(py));
        let Some(array) = array::of(value) else {
            let kind = value.get_type();
            return Err(raised!(PyTypeError, "an array of shape {dims:?} is wanted here, got {kind}"));
        };
        let (shape, descr) = (array.shape(), array.dtype());
        if shape != dims || !descr.is_equiv_to(wanted) {
            let wanted = format!("shape {dims:?} and dtype {wanted}");
            return Err(raised!(PyValueError, "an array of {wanted} is wanted here, got {shape:?} and {descr}"));
        }
        if !is_packed(inner, &array.strides()[1..], descr.itemsize()) {
            return Err(raised!(PyValueError, "frames must be contiguous: use np.ascontiguousarray"));
        }
        Ok(Source::rows(array::data(array), array.strides()[0]))
    }
}

#[pymethods]
impl FrameRing {
    #[new]
    fn new(num_envs: usize, stack: usize, shape: Items<usize>, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        if dtype.has_object() {
            return Err(raised!(PyTypeError, "{dtype} holds Python objects, which are no frames"));
        }
        let ring = StackRing::of_shape(num_envs, stack, &shape.0, dtype.itemsize()).python()?;
        let (ring, descr) = (Shared::new(ring), dtype.clone().unbind());
        Ok(Self { ring, descr, shape: shape.0, envs: num_envs, stack })
    }

    #[pyo3(signature = (frames, ids=None, fresh=None))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        frames: &Object<'py>,
        ids: Option<Index>,
        fresh: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Object<'py>> {
        let (ids, fresh) = (ids.as_deref(), fresh.as_ref().map(|fresh| fresh.as_slice()).transpose()?);
        let given = self.given(py, frames, ids, &self.shape)?;
        // SAFETY: `given` is an array of a frame for each environment, which the caller keeps.
        let stacks = self.ring.with(py, |ring| unsafe { ring.push_at(ids, given, fresh) }).python()?;
        into_array(stacks, self.descr.bind(py), &self.shape)
    }

    #[pyo3(signature = (ids=None))]
    fn stacks<'py>(&self, py: Python<'py>, ids: Option<Index>) -> PyResult<Object<'py>> {
        let stacks = self.ring.with(py, |ring| ring.stacks_at(ids.as_deref())).python()?;
        into_array(stacks, self.descr.bind(py), &self.shape)
    }

    #[pyo3(signature = (stacks, ids=None))]
    fn restore(&self, py: Python<'_>, stacks: &Object<'_>, ids: Option<Index>) -> PyResult<()> {
        let given = self.given(py, stacks, ids.as_deref(), &[&[self.stack], &self.shape[..]].concat())?;
        // SAFETY: `given` is an array of a stack for each environment, which the caller keeps.
        self.ring.with(py, |ring| unsafe { ring.set_at(ids.as_deref(), given) }).python()
    }
}

/// Replaces some of the stacks of an array; None unless both arrays are recognised.
#[pyfunction]
pub fn with_stacks<'py>(whole: &Object<'py>, ids: Index, part: &Object<'py>) -> PyResult<Option<Object<'py>>> {
    let (Some(one), Some(other)) = (array::of(whole), array::of(part)) else { return Ok(None) };
    let (Some(old), Some(new)) = (shown_by(one), shown_by(other)) else { return Ok(None) };
    let shape = &one.shape()[2..];
    if shape != &other.shape()[2..] {
        return Ok(None);
    }
    let stacks = old.with(&ids, new).python()?;
    stacks.map(|stacks| into_array(stacks, &one.dtype(), shape)).transpose()
}

/// The numbers of the frames of an array of stacks; None unless it is recognised.
#[pyfunction]
pub fn frame_numbers(stacks: &Object<'_>) -> Option<Shaped<u64>> {
    let shown = shown_by(array::of(stacks)?)?;
    Some(Shaped::matrix(shown.numbers.to_vec(), shown.rows, shown.stack))
}
