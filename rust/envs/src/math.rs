//! Functions that NumPy's scalars go through, to the bit.

use std::hint::black_box;

/// `x ** 2` of a `numpy.float64`: the C library's `pow`, which in one case of a thousand rounds another way than `x * x`.
pub fn squared(x: f64) -> f64 {
    // A visible exponent would turn the call into a product.
    x.powf(black_box(2.0))
}

/// `x ** 2` of a `numpy.float32`: the C library's `powf`.
pub fn squared_single(x: f32) -> f32 {
    x.powf(black_box(2.0))
}

/// `numpy.sin(x)` and `numpy.cos(x)` of a `numpy.float32` within a quarter of pi, as NumPy computes them on processors that
/// fuse products and sums: minimax polynomials by Horner's rule, not the C library's `sinf` and `cosf`.
pub fn sin_cos_single(x: f32) -> (f32, f32) {
    debug_assert!(x.abs() <= std::f32::consts::FRAC_PI_4, "{x} needs its range reduced");
    let square = x * x;
    let horner = |coefficients: [f32; 5]| {
        coefficients.into_iter().reduce(|sum, coefficient| sum.mul_add(square, coefficient)).unwrap_or_default()
    };
    (horner(SINE).mul_add(x, x), horner(COSINE))
}

/// Of `sin(x) / x - 1`, by powers of the square of `x`, highest first.
const SINE: [f32; 5] = [2.8404097e-6, -1.9856491e-4, 8.333397e-3, -0.16666667, 0.0];

/// Of `cos(x)`, likewise.
const COSINE: [f32; 5] = [2.4372266e-5, -1.388652e-3, 4.166662e-2, -0.5, 1.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_those_of_the_library() {
        assert_eq!((squared(-3.0), squared(0.0), squared(f64::INFINITY)), (9.0, 0.0, f64::INFINITY));
        assert_eq!((squared_single(-1.5), squared_single(0.25)), (2.25, 0.0625));
        let mut x = 1.0_f64;
        for _ in 0..1000 {
            x *= 1.013;
            assert!((squared(x) - x * x).abs() <= f64::EPSILON * x * x);
        }
    }

    /// Of NumPy 2.4.6, where `sinf` or `cosf` rounds the other way.
    const ANGLES: [(f32, f32, f32); 6] = [
        (-0.09232814, -0.092197016, 0.9957408),
        (0.042649645, 0.042636715, 0.9990907),
        (-0.063882016, -0.06383857, 0.9979602),
        (-0.08321652, -0.0831205, 0.99653953),
        (0.051303525, 0.05128102, 0.9986843),
        (0.09612394, 0.09597598, 0.9953836),
    ];

    #[test]
    fn single_sines_are_numpys() {
        for (x, sin, cos) in ANGLES {
            assert_eq!(sin_cos_single(x), (sin, cos), "{x}");
        }
        for i in -785..=785 {
            let x = i as f32 / 1000.0;
            let (sin, cos) = sin_cos_single(x);
            assert!((sin - x.sin()).abs() <= 1.2e-7 * x.sin().abs() && (cos - x.cos()).abs() <= 1.2e-7, "{x}");
        }
    }
}
