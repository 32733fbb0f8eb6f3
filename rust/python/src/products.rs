//! `multiply`: products of matrices in tensors of PyTorch's.

use rlfast_core::products::{Matrix, multiply as product};

use crate::once::{Once, names};
use crate::prelude::*;

/// Products with more multiplications than this release the interpreter.
const LONG: usize = 4_000_000;

/// What PyTorch's objects are compared with.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    float32: Py<PyAny>,
    strided: Py<PyAny>,
}

static TORCH: Once<Torch> = Once::new();

impl Torch {
    fn new(py: Python<'_>) -> PyResult<Self> {
        let torch = py.import("torch")?;
        Ok(Self {
            tensor: torch.getattr("Tensor")?.cast_into()?.unbind(),
            parameter: torch.getattr("nn")?.getattr("Parameter")?.cast_into()?.unbind(),
            float32: torch.getattr("float32")?.unbind(),
            strided: torch.getattr("strided")?.unbind(),
        })
    }
}

/// Matrices of a tensor: the first one, their number, and the elements from one to the next.
struct Matrices {
    first: Matrix,
    count: usize,
    step: isize,
}

// SAFETY: it is moved to the pool's side of a detached call alone, while the caller keeps the tensors.
unsafe impl Send for Matrices {}

impl Matrices {
    /// The matrices of a tensor of one to three axes: m along the first of three, one of two axes, or a row. None unless its elements are
    /// float32 in memory, and are what the tensor shows: so of no subclass, with a negative bit, sparse, or freed.
    fn of(tensor: &Object<'_>) -> PyResult<Option<Self>> {
        let py = tensor.py();
        let (torch, names) = (TORCH.fill(py, || Torch::new(py))?, names(py));
        let is_known = tensor.get_type().is(&torch.tensor) || tensor.get_type().is(&torch.parameter);
        if !is_known
            || !tensor.getattr(&names.is_cpu)?.is_truthy()?
            || !tensor.getattr(&names.dtype)?.is(&torch.float32)
            || !tensor.getattr(&names.layout)?.is(&torch.strided)
            || tensor.call_method0(&names.is_neg)?.is_truthy()?
        {
            return Ok(None);
        }
        let shape: Vec<usize> = tensor.getattr(&names.shape)?.extract()?;
        let steps: Vec<isize> = tensor.call_method0(&names.stride)?.extract()?;
        let offset: usize = tensor.call_method0(&names.storage_offset)?.extract()?;
        let held = tensor.call_method0(&names.untyped_storage)?.call_method0(&names.nbytes)?.extract::<usize>()?;
        if !fits(&shape, &steps, offset, held / size_of::<f32>()) {
            return Ok(None);
        }
        let data = tensor.call_method0(&names.data_ptr)?.extract::<usize>()? as *mut f32;
        let one = |shape, steps| Matrix { data, shape, steps };
        let (first, count, step) = match (&shape[..], &steps[..]) {
            (&[columns], &[step]) => (one([1, columns], [0, step]), 1, 0),
            (&[rows, columns], &[down, right]) => (one([rows, columns], [down, right]), 1, 0),
            (&[count, rows, columns], &[step, down, right]) => (one([rows, columns], [down, right]), count, step),
            _ => return Ok(None),
        };
        Ok(Some(Self { first, count, step }))
    }

    fn at(&self, place: usize) -> Matrix {
        // SAFETY: it is one of the matrices.
        Matrix { data: unsafe { self.first.data.offset(place as isize * self.step) }, ..self.first }
    }
}

/// Whether a tensor has elements, and all of them lie within `held` elements of memory.
fn fits(shape: &[usize], steps: &[isize], offset: usize, held: usize) -> bool {
    let last = shape.iter().zip(steps).try_fold(offset, |last, (&length, &step)| {
        last.checked_add(length.checked_sub(1)?.checked_mul(usize::try_from(step).ok()?)?)
    });
    last.is_some_and(|last| last < held)
}

/// Whether `multiply` takes this tensor.
#[pyfunction]
pub fn multiplies(tensor: &Object<'_>) -> PyResult<bool> {
    Ok(Matrices::of(tensor)?.is_some())
}

/// Writes `a @ b`, or `a @ b + bias`, into `out`, on one thread: of two matrices, or of m pairs of them. Returns False, and does
/// nothing, if `multiplies` is false for a factor or the bias.
#[pyfunction]
#[pyo3(signature = (out, a, b, bias = None))]
pub fn multiply(out: &Object<'_>, a: &Object<'_>, b: &Object<'_>, bias: Option<&Object<'_>>) -> PyResult<bool> {
    let py = out.py();
    let (Some(a), Some(b)) = (Matrices::of(a)?, Matrices::of(b)?) else { return Ok(false) };
    let bias = match bias.map(Matrices::of).transpose()? {
        Some(None) => return Ok(false),
        bias => bias.flatten(),
    };
    let Some(out) = Matrices::of(out)? else {
        return mismatch!("the result of a product is a float32 tensor on the CPU");
    };
    let ([rows, columns], inner) = (out.first.shape, a.first.shape[1]);
    let is_bias = bias.as_ref().is_none_or(|bias| bias.first.shape == [1, columns] && bias.count == 1);
    let is_product = a.first.shape[0] == rows && b.first.shape == [inner, columns];
    if !(is_bias && is_product && out.count == a.count && out.count == b.count) {
        return mismatch!("these shapes are not those of a product");
    }
    let work = move || {
        let (out, a, b, bias) = (&out, &a, &b, bias.as_ref());
        for place in 0..out.count {
            // SAFETY: the elements lie in memory that the tensors hold, and the caller has made `out` for this call.
            unsafe { product(out.at(place), a.at(place), b.at(place), bias.map(|bias| bias.at(0))) };
        }
    };
    if rows.saturating_mul(columns).saturating_mul(inner) < LONG {
        work()
    } else {
        py.detach(work)
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn only_elements_in_memory_fit() {
        assert!(fits(&[2, 3], &[3, 1], 0, 6));
        assert!(!fits(&[2, 3], &[3, 1], 0, 5));
        assert!(!fits(&[2, 3], &[3, 1], 1, 6));
        assert!(fits(&[9, 3], &[0, 1], 0, 3)); // expanded
        assert!(fits(&[2, 3], &[1, 2], 0, 6)); // transposed
        assert!(!fits(&[2, 3], &[3, 1], 0, 0)); // freed
        assert!(!fits(&[0, 3], &[3, 1], 0, 6));
        assert!(!fits(&[2, usize::MAX], &[3, 3], 0, 6));
        assert!(!fits(&[2], &[-1], 4, 6));
    }
}
