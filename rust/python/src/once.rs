//! What is made once, while the module is loaded.
//!
//! Loading can fail, and is tried again by the next import. Later nothing is initialized: such code would run Python (imports, finalizers of
//! the garbage collector) under a lock, where it could come back and wait for itself, or end the process where it cannot fail.

use std::thread;

use numpy::{PyArray1, PyArrayMethods as _, PyUntypedArrayMethods as _, npyffi};
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// A value that is made while the module is loaded. No Python code runs while it is stored.
pub struct Once<T>(PyOnceLock<T>);

impl<T> Once<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self(PyOnceLock::new())
    }

    /// The value; None if it was not made.
    #[inline]
    pub fn try_get<'a>(&'a self, py: Python<'_>) -> Option<&'a T> {
        self.0.get(py)
    }

    /// The value.
    #[inline]
    pub fn get<'a>(&'a self, py: Python<'_>) -> &'a T {
        self.try_get(py).expect("invariant: made while the module is loaded")
    }

    /// Makes the value, unless it is there.
    pub fn fill<'a>(&'a self, py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&'a T> {
        if self.try_get(py).is_none() {
            let value = make()?;
            drop(self.0.set(py, value)); // another one may have been made meanwhile
        }
        Ok(self.get(py))
    }
}

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// Strings that Python is asked for often.
        pub struct Names {
            $(#[allow(missing_docs, reason = "its own text")] pub $name: Py<PyString>,)*
        }

        impl Names {
            fn new(py: Python<'_>) -> Self {
                Self { $($name: PyString::intern(py, stringify!($name)).unbind(),)* }
            }
        }
    };
}

names!(
    __dict__,
    _init,
    acquire,
    batch_dict,
    capsule,
    copy,
    data_ptr,
    discount,
    dones,
    dtype,
    is_cpu,
    is_neg,
    last_index,
    layout,
    lock,
    nbytes,
    release,
    rewards,
    shape,
    storage_offset,
    stride,
    timeouts,
    training,
    untyped_storage,
    weight
);

static NAMES: Once<Names> = Once::new();

/// The strings.
#[inline]
pub fn names(py: Python<'_>) -> &Names {
    NAMES.get(py)
}

/// Makes the strings, and connects to NumPy.
pub fn load(py: Python<'_>) -> PyResult<()> {
    let numpy = py.import("numpy")?;
    // What the `numpy` crate looks up is imported here, where an error is one of Python's.
    let version: String = numpy.getattr("__version__")?.extract()?;
    py.import("numpy.lib")?.getattr("NumpyVersion")?;
    let core = if version.starts_with("1.") { "numpy.core.multiarray" } else { "numpy._core.multiarray" };
    py.import(core)?.getattr("_ARRAY_API")?;
    py.get_type::<PanicException>();
    NAMES.fill(py, || Ok(Names::new(py)))?;
    connect(py);
    Ok(())
}

/// Lets the `numpy` crate find NumPy's C interface, which it does with a few lines of Python, and panics if they fail. In a thread of
/// their own there is neither a signal's handler nor a recursion limit that is near; nor is there a finalizer, as the collector rests.
fn connect(py: Python<'_>) {
    // SAFETY: attached.
    let collects = unsafe { ffi::PyGC_Disable() } == 1;
    let started = thread::Builder::new().spawn(|| Python::attach(touch));
    match started {
        Ok(thread) => drop(py.detach(|| thread.join())), // a panic there is one here at the first array
        Err(_) => touch(py),                             // the system has no thread left
    }
    if collects {
        // SAFETY: attached.
        unsafe { ffi::PyGC_Enable() };
    }
}

/// Makes everything that the `numpy` crate makes once: its pointers to NumPy's functions, and the record of borrowed arrays.
fn touch(py: Python<'_>) {
    npyffi::is_numpy_2(py);
    let array = PyArray1::<u8>::zeros(py, [0], false);
    drop(array.try_readonly());
    debug_assert!(array.is_empty());
}
