//! Dispatch of loops to wider vector registers where the processor has them.

/// A computation that is compiled twice, without and with AVX2.
///
/// `run`, and every function that its loops call, must be `#[inline(always)]`: a function that is not inlined is
/// compiled for the oldest processor only. Closures cannot have that attribute, so kernels use plain loops. Both
/// versions give the same bits, as the compiler neither reorders nor fuses floating-point operations.
pub trait Kernel {
    /// The type of the result.
    type Output;
    /// Computes the result.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with AVX2 and `popcnt` if the processor has both.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has AVX2 and `popcnt`.
        return unsafe { run_avx2(kernel) };
    }
    kernel.run()
}

/// # Safety
/// The processor must have AVX2 and `popcnt`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
