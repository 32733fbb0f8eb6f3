//! The kernels for screens of games.

use numpy::{PyReadonlyArray2, PyReadonlyArray3, PyReadwriteArray2};
use rlfast_envs::frames;

use crate::prelude::*;

/// Writes the luminance of each pixel of a coloured frame.
#[pyfunction]
pub fn grey(rgb: PyReadonlyArray3<'_, u8>, mut out: PyReadwriteArray2<'_, u8>) -> PyResult<()> {
    let shape = out.shape().to_vec();
    frames::grey_image((rgb.as_slice()?, rgb.shape()), (out.as_slice_mut()?, &shape)).python()
}

/// Resizes grey frames to a smaller size.
#[pyclass(frozen, module = "rlfast._core")]
pub struct AreaResize(Shared<frames::AreaResize>);

#[pymethods]
impl AreaResize {
    #[new]
    fn new(source: [usize; 2], target: [usize; 2]) -> PyResult<Self> {
        Ok(Self(Shared::new(frames::AreaResize::new(source, target).python()?)))
    }

    #[pyo3(signature = (frame, out, other=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        frame: PyReadonlyArray2<'_, u8>,
        mut out: PyReadwriteArray2<'_, u8>,
        other: Option<PyReadonlyArray2<'_, u8>>,
    ) -> PyResult<()> {
        let shape = out.shape().to_vec();
        let (frame, out) = ((frame.as_slice()?, frame.shape()), (out.as_slice_mut()?, &shape[..]));
        let other = match &other {
            Some(other) => Some((other.as_slice()?, other.shape())),
            None => None,
        };
        self.0.with(py, |resize| resize.resize_image(frame, other, out)).python()
    }
}
