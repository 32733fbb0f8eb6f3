//! Draws from NumPy's own generators, through the interface that NumPy has for C (`numpy/random/bitgen.h`).
//!
//! A host that draws its rows with `np.random` keeps its random numbers this way, at a fraction of what the call costs.

use std::ffi::c_void;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rlfast_core::vectors;

use crate::error::IntoPython as _;
use crate::items::Items;

/// The head of NumPy's `bitgen_t`.
#[repr(C)]
struct Bits {
    state: *mut c_void,
    next_uint64: unsafe extern "C" fn(*mut c_void) -> u64,
    next_uint32: unsafe extern "C" fn(*mut c_void) -> u32,
    next_double: unsafe extern "C" fn(*mut c_void) -> f64,
}

/// A generator that is ours alone.
struct Stream<'a>(&'a Bits);

impl Stream<'_> {
    fn word(&self) -> u32 {
        // SAFETY: the generator's own function and state, which `with_stream` keeps alive and locked.
        unsafe { (self.0.next_uint32)(self.0.state) }
    }

    /// From 0 to 1, without it.
    fn fraction(&self) -> f64 {
        // SAFETY: as above.
        unsafe { (self.0.next_double)(self.0.state) }
    }
}

/// Draws while nobody else does. `draw` must not call Python.
fn with_stream<T>(bit_generator: &Bound<'_, PyAny>, draw: impl FnOnce(&Stream<'_>) -> T) -> PyResult<T> {
    let py = bit_generator.py();
    let capsule = bit_generator.getattr(pyo3::intern!(py, "capsule"))?.cast_into::<PyCapsule>()?;
    let bits = capsule.pointer_checked(Some(c"BitGenerator"))?.cast::<Bits>();
    let lock = bit_generator.getattr(pyo3::intern!(py, "lock"))?;
    lock.call_method0(pyo3::intern!(py, "acquire"))?;
    // SAFETY: NumPy's generators keep a `bitgen_t` under this name, alive through `bit_generator`; whoever holds the lock is
    // alone with its state.
    let drawn = draw(&Stream(unsafe { bits.as_ref() }));
    lock.call_method0(pyo3::intern!(py, "release"))?;
    Ok(drawn)
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
    let mut drawn = vectors::filled(0_i64, count).python()?;
    if largest > 0 {
        let mask = u32::MAX >> largest.leading_zeros();
        with_stream(bit_generator, |stream| {
            for value in &mut drawn {
                *value = loop {
                    let word = stream.word() & mask;
                    if word <= largest {
                        break i64::from(word);
                    }
                };
            }
        })?;
    }
    Ok(PyArray1::from_vec(py, drawn))
}

/// What `generator.integers(bound)` would draw from each of the bit generators, one after the other, whose streams move as far.
///
/// NumPy draws them by multiplying (Lemire, 2019, "Fast random integer generation in an interval", algorithm 5).
#[pyfunction]
pub fn integers_of_each<'py>(
    py: Python<'py>,
    bit_generators: Items<Bound<'py, PyAny>>,
    bound: u32,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    if bound == 0 {
        return Err(PyValueError::new_err("bound must be at least 1, got 0"));
    }
    let bit_generators = bit_generators.0;
    let mut drawn = vectors::filled(0_i64, bit_generators.len()).python()?;
    if bound > 1 {
        let rejected = bound.wrapping_neg() % bound;
        for (value, bit_generator) in drawn.iter_mut().zip(&bit_generators) {
            *value = with_stream(bit_generator, |stream| {
                loop {
                    let wide = u64::from(stream.word()) * u64::from(bound);
                    if wide as u32 >= rejected {
                        break (wide >> 32) as i64;
                    }
                }
            })?;
        }
    }
    Ok(PyArray1::from_vec(py, drawn))
}

/// What `(generator.random(len(sizes)) * sizes).astype(int)` would draw, whose stream moves as far.
#[pyfunction]
pub fn uniform_below<'py>(
    bit_generator: &Bound<'py, PyAny>,
    sizes: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let mut drawn = vectors::collected(sizes.as_array().iter().copied()).python()?;
    with_stream(bit_generator, |stream| {
        for value in &mut drawn {
            *value = (stream.fraction() * *value as f64) as i64;
        }
    })?;
    Ok(PyArray1::from_vec(bit_generator.py(), drawn))
}

/// Each of the `greedy` actions, or with probability `eps` one of `0 .. actions` instead, all alike: a fresh array.
///
/// The stream moves by two numbers an action: first whether to explore, for all of them, then where to, for all of them.
#[pyfunction]
pub fn explore<'py>(
    bit_generator: &Bound<'py, PyAny>,
    eps: f64,
    actions: u32,
    greedy: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let mut chosen = vectors::collected(greedy.as_array().iter().copied()).python()?;
    let mut explores = vectors::filled(false, chosen.len()).python()?;
    with_stream(bit_generator, |stream| {
        explores.fill_with(|| stream.fraction() < eps);
        for (action, explores) in chosen.iter_mut().zip(&explores) {
            let drawn = stream.fraction() * f64::from(actions);
            if *explores {
                *action = drawn as i64;
            }
        }
    })?;
    Ok(PyArray1::from_vec(bit_generator.py(), chosen))
}
