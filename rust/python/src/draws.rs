//! Draws from NumPy's own generators, through the interface that NumPy has for C (`numpy/random/bitgen.h`).
//!
//! A host that draws its rows with `np.random` keeps its random numbers this way, at a fraction of what the call costs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;

use pyo3::types::PyCapsule;
use rlfast_core::rng::draws::{self, BitSource};

use crate::once::names;
use crate::prelude::*;

/// The head of NumPy's `bitgen_t`.
#[repr(C)]
struct BitGenerator {
    state: *mut c_void,
    next_uint64: unsafe extern "C" fn(*mut c_void) -> u64,
    next_uint32: unsafe extern "C" fn(*mut c_void) -> u32,
    next_double: unsafe extern "C" fn(*mut c_void) -> f64,
}

/// A generator whose lock this thread holds while it draws.
pub struct Locked<'a>(&'a BitGenerator);

// SAFETY: whoever has it is alone with the generator, on whatever thread.
unsafe impl Send for Locked<'_> {}

impl BitSource for Locked<'_> {
    fn next_u32(&mut self) -> u32 {
        // SAFETY: the generator's own function and state, which `locked` keeps alive and locked.
        unsafe { (self.0.next_uint32)(self.0.state) }
    }

    fn next_double(&mut self) -> f64 {
        // SAFETY: as above.
        unsafe { (self.0.next_double)(self.0.state) }
    }
}

/// Draws while no other thread does. `draw` must not call Python; it may release the interpreter.
pub fn locked<T>(bit_generator: &Object<'_>, draw: impl FnOnce(&mut Locked<'_>) -> T) -> PyResult<T> {
    let (mut source, lock) = parts(bit_generator)?;
    let _held = Held::of(lock)?;
    Ok(draw(&mut source))
}

/// Draws from several generators, some of which may be the same, while no other thread does; see [`locked`].
pub fn locked_all<T>(bit_generators: &[Object<'_>], draw: impl FnOnce(&mut [Locked<'_>]) -> T) -> PyResult<T> {
    let mut sources = vectors::with_room(bit_generators.len()).python()?;
    let mut held = HashMap::new();
    for bit_generator in bit_generators {
        let (source, lock) = parts(bit_generator)?;
        sources.push(source);
        if let Entry::Vacant(entry) = held.entry(lock.as_ptr()) {
            entry.insert(Held::of(lock)?);
        }
    }
    Ok(draw(&mut sources))
}

/// The lock of a generator, held by this thread.
struct Held<'py>(Object<'py>);

impl<'py> Held<'py> {
    fn of(lock: Object<'py>) -> PyResult<Self> {
        lock.call_method0(&names(lock.py()).acquire)?;
        Ok(Self(lock))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Whoever holds a lock can release it.
        drop(self.0.call_method0(&names(self.0.py()).release));
    }
}

/// Returns a generator, to be used while its lock is held, and this lock.
fn parts<'a, 'py>(bit_generator: &'a Object<'py>) -> PyResult<(Locked<'a>, Object<'py>)> {
    let py = bit_generator.py();
    let capsule = bit_generator.getattr(&names(py).capsule)?.cast_into::<PyCapsule>()?;
    let bits = capsule.pointer_checked(Some(c"BitGenerator"))?.cast::<BitGenerator>();
    // SAFETY: NumPy's generators keep a `bitgen_t` under this name, alive through `bit_generator`.
    Ok((Locked(unsafe { bits.as_ref() }), bit_generator.getattr(&names(py).lock)?))
}

/// What `np.random.randint(0, bound, count)` would draw from its bit generator, whose stream moves as far.
#[pyfunction]
pub fn randint(bit_generator: &Object<'_>, bound: u32, count: usize) -> PyResult<Shaped<i64>> {
    Ok(locked(bit_generator, |source| draws::randint(source, bound, count))?.python()?.into())
}

/// What `generator.integers(bound)` would draw from each of the bit generators, one after the other, whose streams move as far.
#[pyfunction]
pub fn integers_of_each(bit_generators: Items<Object<'_>>, bound: u32) -> PyResult<Shaped<i64>> {
    draws::check_bound(bound).python()?;
    let draw = |generator| locked(generator, |source| draws::bounded(source, bound));
    Ok(bit_generators.0.iter().map(draw).collect::<PyResult<Vec<_>>>()?.into())
}

/// What `(generator.random(len(sizes)) * sizes).astype(int)` would draw, whose stream moves as far.
#[pyfunction]
pub fn uniform_below(bit_generator: &Object<'_>, mut sizes: Index) -> PyResult<Index> {
    locked(bit_generator, |source| draws::scaled(source, &mut sizes.values))?;
    Ok(sizes)
}

/// Returns a new array of the `greedy` actions, each replaced with probability `eps` by one drawn uniformly from `0 .. actions`,
/// or from those of its row of `legal` that are not 0.
#[pyfunction]
#[pyo3(signature = (bit_generator, eps, actions, greedy, legal=None))]
pub fn explore(
    bit_generator: &Object<'_>,
    eps: f64,
    actions: u32,
    mut greedy: Index,
    legal: Option<&Object<'_>>,
) -> PyResult<Index> {
    let legal = legal.map(Shaped::<u8>::converted).transpose()?;
    locked(bit_generator, |source| match &legal {
        None => draws::explore(source, eps, actions, &mut greedy.values),
        Some(legal) => draws::explore_legal(source, eps, legal, actions as usize, &mut greedy.values),
    })?
    .python()?;
    Ok(greedy)
}
