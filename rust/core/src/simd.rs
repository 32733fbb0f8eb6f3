//! Dispatch of loops to wider vector registers where the processor has them.

use std::marker::PhantomData;

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
    /// Sixteen numbers, in the registers of the processors that the kernel is compiled for.
    type Lanes: Lanes;
    /// Eight of them.
    type Narrow: Lanes;
    /// Whether there are 32 registers of 16 numbers.
    const WIDE: bool = false;
    /// How many numbers fit into half of the registers.
    const SUMS: usize;
    /// Returns `a * b + c`.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// Several numbers. Kernels whose sums must stay in registers use them in place of arrays.
pub trait Lanes: Copy {
    /// How many numbers there are.
    const COUNT: usize;
    /// Returns a number so many times.
    fn splat(number: f32) -> Self;
    /// Returns the numbers at `from`.
    ///
    /// # Safety
    /// There are so many.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes the numbers to `to`.
    ///
    /// # Safety
    /// There is room for so many.
    unsafe fn store(self, to: *mut f32);
    /// Returns `self * factor + term`, as [`MulAdd::mul_add`].
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// Returns the sums.
    fn add(self, other: Self) -> Self;
    /// Returns 0 in place of negative numbers; a NaN stays one.
    fn relu(self) -> Self;
    /// Returns the magnitudes.
    fn abs(self) -> Self;
}

/// Lanes as an array, whose products are added as `M` does.
#[derive(Debug)]
pub struct Array<M, const N: usize>([f32; N], PhantomData<M>);

impl<M, const N: usize> Clone for Array<M, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, const N: usize> Copy for Array<M, N> {}

impl<M: MulAdd, const N: usize> Lanes for Array<M, N> {
    const COUNT: usize = N;

    #[inline(always)]
    fn splat(number: f32) -> Self {
        Self([number; N], PhantomData)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { from.cast::<[f32; N]>().read_unaligned() }, PhantomData)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { to.cast::<[f32; N]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        let mut sums = term;
        for k in 0..N {
            sums.0[k] = M::mul_add(self.0[k], factor.0[k], term.0[k]);
        }
        sums
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let mut sums = self;
        for k in 0..N {
            sums.0[k] += other.0[k];
        }
        sums
    }

    #[inline(always)]
    fn relu(self) -> Self {
        let mut found = self;
        for k in 0..N {
            found.0[k] = if self.0[k] < 0.0 { 0.0 } else { self.0[k] };
        }
        found
    }

    #[inline(always)]
    fn abs(self) -> Self {
        let mut found = self;
        for k in 0..N {
            found.0[k] = found.0[k].abs();
        }
        found
    }
}

/// Lanes in the registers of x86.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// A register of AVX2.
    #[derive(Clone, Copy, Debug)]
    pub struct Half(__m256);

    /// Two of them.
    #[derive(Clone, Copy, Debug)]
    pub struct Two(Half, Half);

    /// A register of AVX-512.
    #[derive(Clone, Copy, Debug)]
    pub struct One(__m512);

    // SAFETY of the blocks below: `run_products` runs kernels of these lanes where the processor has the instructions,
    // and callers promise what they point to.

    impl Lanes for Half {
        const COUNT: usize = 8;

        #[inline(always)]
        fn splat(number: f32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_set1_ps(number)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_loadu_ps(from)) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_ps(to, self.0) };
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, term: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_fmadd_ps(self.0, factor.0, term.0)) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_add_ps(self.0, other.0)) }
        }

        #[inline(always)]
        fn relu(self) -> Self {
            // SAFETY: see above. The second operand is the result if one is NaN.
            unsafe { Self(_mm256_max_ps(_mm256_setzero_ps(), self.0)) }
        }

        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
        }
    }

    impl Lanes for Two {
        const COUNT: usize = 16;

        #[inline(always)]
        fn splat(number: f32) -> Self {
            Self(Half::splat(number), Half::splat(number))
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the caller promises.
            unsafe { Self(Half::load(from), Half::load(from.add(8))) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the caller promises.
            unsafe {
                self.0.store(to);
                self.1.store(to.add(8));
            }
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, term: Self) -> Self {
            Self(self.0.mul_add(factor.0, term.0), self.1.mul_add(factor.1, term.1))
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self(self.0.add(other.0), self.1.add(other.1))
        }

        #[inline(always)]
        fn relu(self) -> Self {
            Self(self.0.relu(), self.1.relu())
        }

        #[inline(always)]
        fn abs(self) -> Self {
            Self(self.0.abs(), self.1.abs())
        }
    }

    impl Lanes for One {
        const COUNT: usize = 16;

        #[inline(always)]
        fn splat(number: f32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm512_set1_ps(number)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm512_loadu_ps(from)) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(to, self.0) };
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, term: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, term.0)) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }

        #[inline(always)]
        fn relu(self) -> Self {
            // SAFETY: see above. The second operand is the result if one is NaN.
            unsafe { Self(_mm512_max_ps(_mm512_setzero_ps(), self.0)) }
        }

        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm512_abs_ps(self.0)) }
        }
    }
}

/// Returns a square of numbers whose rows are the columns of another one.
#[inline(always)]
pub fn turned(square: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
        let (mut square, [one, two, three, four]) = (square, square);
        // SAFETY: every processor of this architecture has SSE, and rows have four numbers.
        unsafe {
            let (mut one, mut two) = (_mm_loadu_ps(one.as_ptr()), _mm_loadu_ps(two.as_ptr()));
            let (mut three, mut four) = (_mm_loadu_ps(three.as_ptr()), _mm_loadu_ps(four.as_ptr()));
            _MM_TRANSPOSE4_PS(&mut one, &mut two, &mut three, &mut four);
            for (to, row) in square.iter_mut().zip([one, two, three, four]) {
                _mm_storeu_ps(to.as_mut_ptr(), row);
            }
        }
        square
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|i| square.map(|row| row[i]))
}

/// The product is not rounded before it is added: one instruction where the processor has it, and slow elsewhere.
#[derive(Debug)]
pub struct Fused;

/// As [`Fused`], with registers of 16 numbers.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub struct FusedWide;

/// The product is rounded, and then the sum.
#[derive(Debug)]
pub struct Separate;

impl MulAdd for Fused {
    #[cfg(target_arch = "x86_64")]
    type Lanes = x86::Two;
    #[cfg(target_arch = "x86_64")]
    type Narrow = x86::Half;
    #[cfg(not(target_arch = "x86_64"))]
    type Lanes = Array<Self, 16>;
    #[cfg(not(target_arch = "x86_64"))]
    type Narrow = Array<Self, 8>;
    const SUMS: usize = 64;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

#[cfg(target_arch = "x86_64")]
impl MulAdd for FusedWide {
    type Lanes = x86::One;
    type Narrow = x86::Half;
    const WIDE: bool = true;
    const SUMS: usize = 256;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl MulAdd for Separate {
    type Lanes = Array<Self, 16>;
    type Narrow = Array<Self, 8>;
    const SUMS: usize = 32;

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

/// Runs `kernel` with AVX-512, or with AVX2 and fused multiplication and addition, if the processor has them.
#[inline]
pub fn run_products<K: ProductKernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has AVX-512.
            return unsafe { run_products_wide(kernel) };
        }
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

/// # Safety
/// The processor must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
unsafe fn run_products_wide<K: ProductKernel>(kernel: K) {
    kernel.run::<FusedWide>();
}
