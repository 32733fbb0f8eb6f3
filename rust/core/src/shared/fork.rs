//! What is done before and after this process forks.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::GATE;

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        in_parent: Option<unsafe extern "C" fn()>,
        in_child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

unsafe extern "C" fn before() {
    GATE.close();
}

unsafe extern "C" fn in_parent() {
    GATE.open();
}

unsafe extern "C" fn in_child() {
    GATE.reset();
    DESCENT.fetch_add(1, Ordering::Relaxed);
}

static DESCENT: AtomicUsize = AtomicUsize::new(0);

/// See [`super::descent`].
pub fn descent() -> usize {
    watch();
    DESCENT.load(Ordering::Relaxed)
}

/// From now on forks wait for the work on shared values to end.
pub fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: three functions that live as long as the process, and touch nothing but counters. Should there be no memory to
    // note them, forks go on as they would without.
    ONCE.call_once(|| unsafe {
        pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}
