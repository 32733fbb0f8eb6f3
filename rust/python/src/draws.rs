//! Draws from NumPy's own generators, through the interface that NumPy has for C (`numpy/random/bitgen.h`).
//!
//! A host that draws its rows with `np.random` keeps its random numbers this way, at a fraction of what the call costs.

use std::ffi::c_void;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The head of NumPy's `bitgen_t`.
#[repr(C)]
struct Bits {
    state: *mut c_void,
    next_uint64: unsafe extern "C" fn(*mut c_void) -> u64,
    next_uint32: unsafe extern "C" fn(*mut c_void) -> u32,
}

/// What `np.random.randint(0, bound, count)` would draw from its bit generator, whose stream moves as far.
///
/// Such draws are frozen (NEP 19): of 32 bits as many as `bound - 1` has are kept, again until they are no larger.
#[pyfunction]
pub fn randint<'py>(
    bit_generator: &Bound<'py, PyAny>,
    bound: u32,
    count: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let py = bit_generator.py();
    let Some(largest) = bound.checked_sub(1) else {
        return Err(PyValueError::new_err("bound must be at least 1, got 0"));
    };
    let mut drawn = vec![0_i64; count];
    if largest > 0 {
        let capsule = bit_generator.getattr(pyo3::intern!(py, "capsule"))?.cast_into::<PyCapsule>()?;
        let bits = capsule.pointer_checked(Some(c"BitGenerator"))?.cast::<Bits>();
        let lock = bit_generator.getattr(pyo3::intern!(py, "lock"))?;
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let mask = u32::MAX >> largest.leading_zeros();
        // SAFETY: NumPy's generators keep a `bitgen_t` under this name, alive through `bit_generator`; its functions take
        // its state, and whoever holds the lock is alone with that.
        let next = || unsafe { (bits.as_ref().next_uint32)(bits.as_ref().state) & mask };
        for value in &mut drawn {
            *value = loop {
                let word = next();
                if word <= largest {
                    break i64::from(word);
                }
            };
        }
        lock.call_method0(pyo3::intern!(py, "release"))?;
    }
    Ok(PyArray1::from_vec(py, drawn))
}
