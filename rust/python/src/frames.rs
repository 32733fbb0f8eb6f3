//! The kernels for screens of games.

use numpy::{PyReadonlyArray2, PyReadonlyArray3, PyReadwriteArray2, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyValueError;
use rlfast_envs::frames;

use crate::prelude::*;

/// Writes the luminance of each pixel of a coloured frame.
#[pyfunction]
pub fn grey(rgb: PyReadonlyArray3<'_, u8>, mut out: PyReadwriteArray2<'_, u8>) -> PyResult<()> {
    let shape = out.shape();
    if rgb.shape() != [shape[0], shape[1], 3] {
        return Err(raised!(
            PyValueError,
            "rgb must have shape [{}, {}, 3], as out, got {:?}",
            shape[0],
            shape[1],
            rgb.shape()
        ));
    }
    frames::grey(rgb.as_slice()?, out.as_slice_mut()?);
    Ok(())
}

/// Resizes grey frames to a smaller size.
#[pyclass(frozen, module = "rlfast._core")]
pub struct AreaResize {
    resize: Shared<(frames::AreaResize, Vec<u8>)>,
    source: [usize; 2],
    target: [usize; 2],
}

#[pymethods]
impl AreaResize {
    #[new]
    fn new(source: [usize; 2], target: [usize; 2]) -> PyResult<Self> {
        let resize =
            frames::AreaResize::new(source, target).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let brighter = vectors::filled(0, source.iter().product()).python()?;
        Ok(Self { resize: Shared::new((resize, brighter)), source, target })
    }

    #[pyo3(signature = (frame, out, other=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        frame: PyReadonlyArray2<'_, u8>,
        mut out: PyReadwriteArray2<'_, u8>,
        other: Option<PyReadonlyArray2<'_, u8>>,
    ) -> PyResult<()> {
        let given = [("frame", frame.shape()), ("other", other.as_ref().map_or(&self.source, |other| other.shape()))];
        for (name, shape, wanted) in
            given.map(|(name, shape)| (name, shape, self.source)).into_iter().chain([("out", out.shape(), self.target)])
        {
            if shape != wanted {
                return Err(raised!(PyValueError, "{name} must have shape {wanted:?}, got {shape:?}"));
            }
        }
        let (frame, out) = (frame.as_slice()?, out.as_slice_mut()?);
        let other = other.as_ref().map(|other| other.as_slice()).transpose()?;
        self.resize.with(py, |(resize, brighter)| match other {
            None => resize.resize(frame, out),
            Some(other) => {
                brighter.copy_from_slice(frame);
                frames::keep_greater(brighter, other);
                resize.resize(brighter, out);
            }
        });
        Ok(())
    }
}
