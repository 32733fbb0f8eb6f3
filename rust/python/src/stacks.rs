//! Stacks of frames: arrays whose frames a replay buffer recognises without reading them.

use numpy::npyffi::objects::PyArrayObject;
use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyReadonlyArray1, PyUntypedArrayMethods as _};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rlfast_envs::frames::{StackRing, Stacks};

use crate::array::{self, Index, Shaped, over, packed_strides};
use crate::error::IntoPython as _;
use crate::items::Items;
use crate::shared::Shared;

/// The most frames of a stack.
const MAX_STACK: usize = 16;

/// The owner of the memory of an array of stacks, by which the array is recognised.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameStacks {
    stacks: Stacks,
    stack: usize,
    frame: usize,
}

/// The stacks that an array shows, if it is one of those that `FrameRing` made. They are read-only, so their frames are still those
/// that were numbered. Views of such arrays, and arrays of another shape, are not recognised.
///
/// # Safety
/// `array` is an `ndarray` that outlives the reference.
#[inline]
pub unsafe fn shown_by<'a>(py: Python<'_>, array: &'a PyArrayObject) -> Option<&'a FrameStacks> {
    if array.base.is_null() {
        return None;
    }
    // SAFETY: an array keeps its base alive, and so does the caller the array.
    let owner = unsafe { Borrowed::from_ptr(py, array.base) };
    let shown: *const FrameStacks = owner.cast_exact::<FrameStacks>().ok()?.get();
    // SAFETY: as above.
    let (shown, (dims, strides)) = unsafe { (&*shown, array::axes(array)) };
    let same = array.data.cast() == shown.stacks.data()
        && dims.len() >= 2
        && dims[..2] == [shown.stacks.rows as npy_intp, shown.stack as npy_intp]
        && strides[..2] == [shown.stacks.stride as npy_intp, shown.frame as npy_intp];
    same.then_some(shown)
}

impl FrameStacks {
    /// The numbers of the frames of all stacks, in order, if each stack has `nbytes` bytes and there are `rows` of them.
    #[inline]
    pub fn numbers(&self, rows: usize, nbytes: usize) -> Option<&[u64]> {
        (rows == self.stacks.rows && nbytes == self.stack * self.frame).then_some(&self.stacks.numbers)
    }

    fn into_array<'py>(self, descr: &Bound<'py, PyArrayDescr>, shape: &[npy_intp]) -> PyResult<Bound<'py, PyAny>> {
        let mut dims = vec![self.stacks.rows as npy_intp, self.stack as npy_intp];
        dims.extend(shape);
        let mut strides = packed_strides(&dims, descr.itemsize());
        strides[0] = self.stacks.stride as npy_intp;
        let data = self.stacks.data();
        over(descr, &mut dims, Some(&mut strides), data, false, Bound::new(descr.py(), self)?.into_any())
    }
}

/// Frames, or stacks, that a caller gives.
struct Given {
    data: *const u8,
    stride: isize,
}

// SAFETY: the address is followed only while the caller, who is attached, keeps the array.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

impl Given {
    fn parts(&self) -> (*const u8, isize) {
        (self.data, self.stride)
    }
}

/// The newest frames of some environments.
#[pyclass(frozen, module = "rlfast._core")]
pub struct FrameRing {
    ring: Shared<StackRing>,
    descr: Py<PyArrayDescr>,
    shape: Vec<npy_intp>,
    envs: usize,
    stack: usize,
    frame: usize,
}

impl FrameRing {
    /// Reads an array of `count` rows of the shape `inner`.
    fn given(&self, py: Python<'_>, value: &Bound<'_, PyAny>, count: usize, inner: &[npy_intp]) -> PyResult<Given> {
        let wanted = || -> Vec<npy_intp> { [&[count as npy_intp], inner].concat() };
        if !array::is_array(py, value.as_ptr()) {
            let text = format!("an array of shape {:?} is wanted here, got {}", wanted(), value.get_type());
            return Err(PyTypeError::new_err(text));
        }
        // SAFETY: an array, alive through `value`.
        let fields = unsafe { array::fields(value.as_ptr()) };
        // SAFETY: as above.
        let (dims, strides) = unsafe { array::axes(fields) };
        let descr: Bound<'_, PyArrayDescr> = value.getattr("dtype")?.cast_into()?;
        if dims != wanted() || !descr.is_equiv_to(self.descr.bind(py)) {
            let (shape, own) = (wanted(), self.descr.bind(py));
            let text = format!("an array of shape {shape:?} and dtype {own} is wanted here, got {dims:?} and {descr}");
            return Err(PyValueError::new_err(text));
        }
        if strides[1..] != packed_strides(inner, descr.itemsize()) && !array::is_contiguous(fields) {
            return Err(PyValueError::new_err("frames must be contiguous: use np.ascontiguousarray"));
        }
        Ok(Given { data: fields.data.cast(), stride: strides[0] })
    }

    fn environments(&self, ids: Option<Index>) -> PyResult<Option<Vec<usize>>> {
        let Some(ids) = ids else { return Ok(None) };
        if let Some(bad) = ids.rows.iter().find(|&&id| id < 0 || id as usize >= self.envs) {
            return Err(PyIndexError::new_err(format!("there are environments 0 to {}, got {bad}", self.envs - 1)));
        }
        Ok(Some(ids.rows.into_iter().map(|id| id as usize).collect()))
    }

    fn array<'py>(&self, py: Python<'py>, stacks: Stacks) -> PyResult<Bound<'py, PyAny>> {
        FrameStacks { stacks, stack: self.stack, frame: self.frame }.into_array(self.descr.bind(py), &self.shape)
    }
}

#[pymethods]
impl FrameRing {
    #[new]
    fn new(num_envs: usize, stack: usize, shape: Items<usize>, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        if dtype.has_object() {
            return Err(PyTypeError::new_err(format!("{dtype} holds Python objects, which are no frames")));
        }
        let frame = rlfast_core::vectors::product(&[&shape.0[..], &[dtype.itemsize()]].concat()).python()?;
        if num_envs == 0 || !(1..=MAX_STACK).contains(&stack) || frame == 0 || shape.0.len() > 8 {
            let text = format!(
                "frames need an environment, stacks of 1 to {MAX_STACK} frames, and a shape of 1 to 8 axes without zeros; \
                 got {num_envs}, {stack} and {:?}",
                shape.0
            );
            return Err(PyValueError::new_err(text));
        }
        let ring = Shared::new(StackRing::new(num_envs, stack, frame).python()?);
        let shape = shape.0.iter().map(|&length| length as npy_intp).collect();
        Ok(Self { ring, descr: dtype.clone().unbind(), shape, envs: num_envs, stack, frame })
    }

    #[pyo3(signature = (frames, ids=None, fresh=None))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        frames: &Bound<'py, PyAny>,
        ids: Option<Index>,
        fresh: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let envs = self.environments(ids)?;
        let count = envs.as_ref().map_or(self.envs, Vec::len);
        let given = self.given(py, frames, count, &self.shape)?;
        let fresh = match &fresh {
            Some(fresh) if fresh.len() != count => {
                return Err(PyValueError::new_err(format!("{count} frames need as many flags, got {}", fresh.len())));
            }
            Some(fresh) => Some(fresh.as_slice()?),
            None => None,
        };
        let push = |ring: &mut StackRing| {
            let (data, stride) = given.parts();
            // SAFETY: `given` is an array of a frame for each environment, which the caller keeps.
            unsafe { ring.push(envs.as_deref(), data, stride, fresh) }
        };
        let stacks = self.ring.with(py, push).python()?;
        self.array(py, stacks)
    }

    #[pyo3(signature = (ids=None))]
    fn stacks<'py>(&self, py: Python<'py>, ids: Option<Index>) -> PyResult<Bound<'py, PyAny>> {
        let envs = self.environments(ids)?;
        let stacks = self.ring.with(py, |ring| ring.stacks(envs.as_deref())).python()?;
        self.array(py, stacks)
    }

    #[pyo3(signature = (stacks, ids=None))]
    fn restore(&self, py: Python<'_>, stacks: &Bound<'_, PyAny>, ids: Option<Index>) -> PyResult<()> {
        let envs = self.environments(ids)?;
        let inner = [&[self.stack as npy_intp], &self.shape[..]].concat();
        let given = self.given(py, stacks, envs.as_ref().map_or(self.envs, Vec::len), &inner)?;
        let set = |ring: &mut StackRing| {
            let (data, stride) = given.parts();
            // SAFETY: `given` is an array of a stack for each environment, which the caller keeps.
            unsafe { ring.set(envs.as_deref(), data, stride) }
        };
        self.ring.with(py, set).python()
    }
}

/// Replaces some of the stacks of an array; None unless both arrays are recognised.
#[pyfunction]
pub fn with_stacks<'py>(
    py: Python<'py>,
    whole: &Bound<'py, PyAny>,
    ids: Index,
    part: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !array::is_array(py, whole.as_ptr()) || !array::is_array(py, part.as_ptr()) {
        return Ok(None);
    }
    // SAFETY: arrays, alive through the arguments.
    let (one, other) = unsafe { (array::fields(whole.as_ptr()), array::fields(part.as_ptr())) };
    // SAFETY: as above.
    let (Some(old), Some(new)) = (unsafe { shown_by(py, one) }, unsafe { shown_by(py, other) }) else {
        return Ok(None);
    };
    // SAFETY: as above.
    let (dims, others) = unsafe { (array::axes(one).0, array::axes(other).0) };
    if dims[1..] != others[1..] || old.frame != new.frame || new.stacks.rows != ids.rows.len() {
        return Ok(None);
    }
    if ids.rows.iter().any(|&id| id < 0) {
        return Ok(None);
    }
    let places: Vec<usize> = ids.rows.iter().map(|&id| id as usize).collect();
    let Some(stacks) = old.stacks.with(&places, &new.stacks, old.stack, old.frame).python()? else { return Ok(None) };
    let descr: Bound<'_, PyArrayDescr> = whole.getattr("dtype")?.cast_into()?;
    FrameStacks { stacks, stack: old.stack, frame: old.frame }.into_array(&descr, &dims[2..]).map(Some)
}

/// The numbers of the frames of an array of stacks; None unless it is recognised.
#[pyfunction]
pub fn frame_numbers(py: Python<'_>, stacks: &Bound<'_, PyAny>) -> Option<Shaped<u64>> {
    if !array::is_array(py, stacks.as_ptr()) {
        return None;
    }
    // SAFETY: an array, alive through the argument.
    let shown = unsafe { shown_by(py, array::fields(stacks.as_ptr())) }?;
    Some(Shaped::matrix(shown.stacks.numbers.to_vec(), shown.stacks.rows, shown.stack))
}
