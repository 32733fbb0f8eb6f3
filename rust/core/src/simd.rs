//! Running the same code on wider vector registers where the processor has them.

/// Code worth compiling twice. `run`, and all it calls in its loops, must be `#[inline(always)]`: what is not inlined stays
/// compiled for the oldest processor. Closures cannot be marked so, hence plain loops. The results are the same to the bit,
/// as nothing is reordered or fused.
pub trait Kernel {
    /// What it computes.
    type Output;
    /// Computes it.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with AVX2, and the counting of bits that comes with it, if the processor has them.
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
