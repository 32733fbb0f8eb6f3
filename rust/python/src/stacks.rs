//! Stacks of frames: arrays whose frames a replay buffer recognises without reading them.

use numpy::{PyReadonlyArray1, PyUntypedArrayMethods as _};
use rlfast_core::source::Source;
use rlfast_envs::frames::{StackRing, Stacks};

use crate::array::{over, packed_strides};
use crate::prelude::*;

/// The most axes of a frame.
const MAX_AXES: usize = 8;

/// The owner of the memory of an array of stacks, by which the array is recognised.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameStacks(Stacks);

/// The stacks that an array shows, if it is one of those that `FrameRing` made. They are read-only, so their frames are still those
/// that were numbered. Views of such arrays, and arrays of another shape, are not recognised.
#[inline]
pub fn shown_by<'a>(py: Python<'_>, array: ArrayRef<'a>) -> Option<&'a Stacks> {
    if array.base().is_null() {
        return None;
    }
    // SAFETY: an array keeps its base alive.
    let owner = unsafe { Borrowed::from_ptr(py, array.base()) };
    let shown: *const FrameStacks = owner.cast_exact::<FrameStacks>().ok()?.get();
    // SAFETY: as above.
    let shown = unsafe { &(*shown).0 };
    shown.are_shown(array.data(), array.dims(), array.strides()).then_some(shown)
}

/// Returns an array over stacks of frames of a shape.
fn into_array<'py>(stacks: Stacks, descr: &Bound<'py, PyArrayDescr>, shape: &[npy_intp]) -> PyResult<Object<'py>> {
    let mut dims = [&[stacks.rows as npy_intp, stacks.stack as npy_intp], shape].concat();
    let mut strides = packed_strides(&dims, descr.itemsize());
    strides[0] = stacks.stride as npy_intp;
    let data = stacks.data();
    over(descr, &mut dims, Some(&mut strides), data, false, Bound::new(descr.py(), FrameStacks(stacks))?.into_any())
}

/// The newest frames of some environments.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameRing {
    ring: Shared<StackRing>,
    descr: Py<PyArrayDescr>,
    shape: Vec<npy_intp>,
    envs: usize,
    stack: usize,
}

impl FrameRing {
    /// Reads an array of `count` rows of the shape `inner`.
    fn given(&self, py: Python<'_>, value: &Object<'_>, count: usize, inner: &[npy_intp]) -> PyResult<Source> {
        let wanted = || -> Vec<npy_intp> { [&[count as npy_intp], inner].concat() };
        let Some(array) = ArrayRef::of(value) else {
            let (shape, kind) = (wanted(), value.get_type());
            return Err(raised!(PyTypeError, "an array of shape {shape:?} is wanted here, got {kind}"));
        };
        let (dims, strides, descr) = (array.dims(), array.strides(), array.dtype(py));
        if dims != wanted() || !descr.is_equiv_to(self.descr.bind(py)) {
            let wanted = format!("shape {:?} and dtype {}", wanted(), self.descr.bind(py));
            return Err(raised!(PyValueError, "an array of {wanted} is wanted here, got {dims:?} and {descr}"));
        }
        if strides[1..] != packed_strides(inner, descr.itemsize()) && !array.is_contiguous() {
            return Err(raised!(PyValueError, "frames must be contiguous: use np.ascontiguousarray"));
        }
        Ok(Source::rows(array.data(), strides[0]))
    }

    /// The environments with these numbers, and how many are meant.
    fn environments(&self, py: Python<'_>, ids: Option<Index>) -> PyResult<(Option<Vec<usize>>, usize)> {
        let places = |ids: Index| self.ring.with(py, |ring| ring.places(&ids.values)).python();
        let envs = ids.map(places).transpose()?;
        let count = envs.as_ref().map_or(self.envs, Vec::len);
        Ok((envs, count))
    }

    fn array<'py>(&self, py: Python<'py>, stacks: Stacks) -> PyResult<Object<'py>> {
        into_array(stacks, self.descr.bind(py), &self.shape)
    }
}

#[pymethods]
impl FrameRing {
    #[new]
    fn new(num_envs: usize, stack: usize, shape: Items<usize>, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        if dtype.has_object() {
            return Err(raised!(PyTypeError, "{dtype} holds Python objects, which are no frames"));
        }
        let frame = vectors::product(&[&shape.0[..], &[dtype.itemsize()]].concat()).python()?;
        if shape.0.len() > MAX_AXES {
            return Err(raised!(PyValueError, "frames need a shape of at most {MAX_AXES} axes, got {:?}", shape.0));
        }
        let ring = Shared::new(StackRing::new(num_envs, stack, frame).python()?);
        let shape = shape.0.iter().map(|&length| length as npy_intp).collect();
        Ok(Self { ring, descr: dtype.clone().unbind(), shape, envs: num_envs, stack })
    }

    #[pyo3(signature = (frames, ids=None, fresh=None))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        frames: &Object<'py>,
        ids: Option<Index>,
        fresh: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Object<'py>> {
        let (envs, count) = self.environments(py, ids)?;
        let given = self.given(py, frames, count, &self.shape)?;
        let fresh = match &fresh {
            Some(fresh) if fresh.len() != count => {
                return Err(raised!(PyValueError, "{count} frames need as many flags, got {}", fresh.len()));
            }
            Some(fresh) => Some(fresh.as_slice()?),
            None => None,
        };
        // SAFETY: `given` is an array of a frame for each environment, which the caller keeps.
        let push = |ring: &mut StackRing| unsafe { ring.push(envs.as_deref(), given, fresh) };
        let stacks = self.ring.with(py, push).python()?;
        self.array(py, stacks)
    }

    #[pyo3(signature = (ids=None))]
    fn stacks<'py>(&self, py: Python<'py>, ids: Option<Index>) -> PyResult<Object<'py>> {
        let (envs, _) = self.environments(py, ids)?;
        let stacks = self.ring.with(py, |ring| ring.stacks(envs.as_deref())).python()?;
        self.array(py, stacks)
    }

    #[pyo3(signature = (stacks, ids=None))]
    fn restore(&self, py: Python<'_>, stacks: &Object<'_>, ids: Option<Index>) -> PyResult<()> {
        let (envs, count) = self.environments(py, ids)?;
        let inner = [&[self.stack as npy_intp], &self.shape[..]].concat();
        let given = self.given(py, stacks, count, &inner)?;
        // SAFETY: `given` is an array of a stack for each environment, which the caller keeps.
        self.ring.with(py, |ring| unsafe { ring.set(envs.as_deref(), given) }).python()
    }
}

/// Replaces some of the stacks of an array; None unless both arrays are recognised.
#[pyfunction]
pub fn with_stacks<'py>(
    py: Python<'py>,
    whole: &Object<'py>,
    ids: Index,
    part: &Object<'py>,
) -> PyResult<Option<Object<'py>>> {
    let (Some(one), Some(other)) = (ArrayRef::of(whole), ArrayRef::of(part)) else { return Ok(None) };
    let (Some(old), Some(new)) = (shown_by(py, one), shown_by(py, other)) else { return Ok(None) };
    let shape = &one.dims()[2..];
    if shape != &other.dims()[2..] {
        return Ok(None);
    }
    let stacks = old.with(&ids.values, new).python()?;
    stacks.map(|stacks| into_array(stacks, &one.dtype(py), shape)).transpose()
}

/// The numbers of the frames of an array of stacks; None unless it is recognised.
#[pyfunction]
pub fn frame_numbers(py: Python<'_>, stacks: &Object<'_>) -> Option<Shaped<u64>> {
    let shown = shown_by(py, ArrayRef::of(stacks)?)?;
    Some(Shaped::matrix(shown.numbers.to_vec(), shown.rows, shown.stack))
}
