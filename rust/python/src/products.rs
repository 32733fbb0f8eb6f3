//! `multiply`: products of matrices in tensors of PyTorch's.

use pyo3::intern;
use pyo3::sync::PyOnceLock;
use rlfast_core::products::{Matrix, multiply as product};

use crate::prelude::*;

/// Products with more multiplications than this release the interpreter.
const LONG: usize = 4_000_000;

static FLOAT32: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Matrices of a tensor: the first one, their number, and the elements from one to the next.
struct Matrices {
    first: Matrix,
    count: usize,
    step: isize,
}

// SAFETY: it is moved to the pool's side of a detached call alone, while the caller keeps the tensors.
unsafe impl Send for Matrices {}

impl Matrices {
    /// The matrices of a tensor of float32 on the CPU: one of two axes, or a row of one axis, or m along a first axis.
    fn of(tensor: &Object<'_>, float32: &Object<'_>) -> PyResult<Self> {
        let py = tensor.py();
        if !tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? || !tensor.getattr(intern!(py, "dtype"))?.is(float32) {
            return mismatch!("products are of float32 tensors on the CPU");
        }
        let shape: Vec<usize> = tensor.call_method0(intern!(py, "size"))?.extract()?;
        let steps: Vec<isize> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
        let data = tensor.call_method0(intern!(py, "data_ptr"))?.extract::<usize>()? as *mut f32;
        let one = |shape, steps| Matrix { data, shape, steps };
        let (first, count, step) = match (&shape[..], &steps[..]) {
            (&[columns], &[step]) => (one([1, columns], [0, step]), 1, 0),
            (&[rows, columns], &[down, right]) => (one([rows, columns], [down, right]), 1, 0),
            (&[count, rows, columns], &[step, down, right]) => (one([rows, columns], [down, right]), count, step),
            _ => return mismatch!("products are of tensors of one to three axes, got {}", shape.len()),
        };
        Ok(Self { first, count, step })
    }

    fn at(&self, place: usize) -> Matrix {
        // SAFETY: it is one of the matrices.
        Matrix { data: unsafe { self.first.data.offset(place as isize * self.step) }, ..self.first }
    }
}

/// Writes `a @ b`, or `a @ b + bias`, into `out`, on one thread: of two matrices, or of m pairs of them.
#[pyfunction]
#[pyo3(signature = (out, a, b, bias = None))]
pub fn multiply(out: &Object<'_>, a: &Object<'_>, b: &Object<'_>, bias: Option<&Object<'_>>) -> PyResult<()> {
    let py = out.py();
    let float32 = FLOAT32.get_or_try_init(py, || py.import("torch")?.getattr("float32").map(Bound::unbind))?.bind(py);
    let [out, a, b] = [Matrices::of(out, float32)?, Matrices::of(a, float32)?, Matrices::of(b, float32)?];
    let bias = bias.map(|bias| Matrices::of(bias, float32)).transpose()?;
    let ([rows, columns], inner) = (out.first.shape, a.first.shape[1]);
    let is_bias = bias.as_ref().is_none_or(|bias| bias.first.shape == [1, columns] && bias.count == 1);
    let is_product = a.first.shape[0] == rows && b.first.shape == [inner, columns];
    if !(is_bias && is_product && out.count == a.count && out.count == b.count) {
        return mismatch!("these shapes are not those of a product");
    }
    let work = move || {
        let (out, a, b, bias) = (&out, &a, &b, bias.as_ref());
        for place in 0..out.count {
            // SAFETY: tensors are valid for their sizes and strides, and the caller has made `out` for this call.
            unsafe { product(out.at(place), a.at(place), b.at(place), bias.map(|bias| bias.at(0))) };
        }
    };
    if rows.saturating_mul(columns).saturating_mul(inner) < LONG {
        work()
    } else {
        py.detach(work)
    }
    Ok(())
}
