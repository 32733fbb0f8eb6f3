//! The functions that the system calls before and after this process forks.

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
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
}

static FORK_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns [`super::fork_count`].
pub fn fork_count() -> usize {
    watch();
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Makes forks wait for the work on shared values, from the first call on.
pub fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: the three functions live as long as the process and access only atomic counters. If the call fails for
    // lack of memory, forks do not wait.
    ONCE.call_once(|| unsafe {
        pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}
