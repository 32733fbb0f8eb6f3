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

/// How a kernel adds a product.
pub trait MulAdd {
    /// Returns `a * b + c`.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// The product is not rounded before it is added: one instruction where the processor has it, and slow elsewhere.
#[derive(Debug)]
pub struct Fused;

/// The product is rounded, and then the sum.
#[derive(Debug)]
pub struct Separate;

impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl MulAdd for Separate {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// A computation with many sums of products; otherwise as [`Kernel`]. Its bits differ between processors with and
/// without fused multiplication and addition, and are always the same on one processor.
pub trait ProductKernel {
    /// Computes the result.
    fn run<M: MulAdd>(self);
}

/// Runs `kernel` with AVX2 and fused multiplication and addition if the processor has both.
#[inline]
pub fn run_products<K: ProductKernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { run_products_fma(kernel) };
    }
    #[cfg(target_arch = "aarch64")]
    return kernel.run::<Fused>();
    #[cfg(not(target_arch = "aarch64"))]
    kernel.run::<Separate>();
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_products_fma<K: ProductKernel>(kernel: K) {
    kernel.run::<Fused>();
}
