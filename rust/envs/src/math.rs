//! Functions that give the same bits as NumPy's for scalars.

use std::f32::consts::FRAC_2_PI;
use std::hint::black_box;

use crate::LANES;
use crate::lanes::flagged;

// NumPy squares its scalars by the C library's `pow`, which is slow, and which in one case of a thousand rounds
// differently from `x * x`: where the exact square lies near the middle of two numbers. Only there is `pow` called. The
// error of glibc's and musl's `pow` on squares is below 0.52 units in the last place, and that of `powf` below 0.502.

/// Returns `x ** 2` of a `numpy.float64`.
#[inline]
pub fn squared(x: f64) -> f64 {
    match square(x) {
        (square, true) => square,
        // With a constant exponent, the compiler would replace the call by a product.
        _ => x.powf(black_box(2.0)),
    }
}

/// Returns the square of a number, computed without branches so that loops vectorise, and whether it certainly equals
/// [`squared`].
#[inline(always)]
pub fn square(x: f64) -> (f64, bool) {
    let square = x * x;
    // The rounding error of the square (Dekker, 1971), from exact products of the halves.
    let scaled = x * SPLIT;
    let high = scaled - (scaled - x);
    let low = x - high;
    let lost = ((high * high - square) + 2.0 * high * low) + low * low;
    // The unit in the last place of a number between 2^k and 2^(k+1) is 2^(k-52).
    let power = f64::from_bits(square.to_bits() & f64::INFINITY.to_bits());
    (square, (1e-280..1e280).contains(&square) & (lost.abs() < 0.48 * f64::EPSILON * power))
}

/// Splits a double in two halves of 26 bits each.
const SPLIT: f64 = ((1_u64 << 27) + 1) as f64;

/// Returns `x ** 2` of a `numpy.float32`.
#[inline]
pub fn squared_single(x: f32) -> f32 {
    match square_single(x) {
        (square, true) => square,
        _ => x.powf(black_box(2.0)),
    }
}

/// Returns the square of a number, as [`square`] does.
#[inline(always)]
pub fn square_single(x: f32) -> (f32, bool) {
    let exact = f64::from(x) * f64::from(x);
    let square = exact as f32;
    let lost = exact - f64::from(square);
    let power = f32::from_bits(square.to_bits() & f32::INFINITY.to_bits());
    (square, (1e-30..1e30).contains(&square) & (lost.abs() < 0.49 * f64::from(f32::EPSILON * power)))
}

/// Returns `numpy.sin(x)` and `numpy.cos(x)` of a `numpy.float32` from -100 to 100, as NumPy computes them on
/// processors with fused multiplication and addition: by minimax polynomials and Horner's rule, not by the C library's
/// `sinf` and `cosf`.
pub fn sin_cos_single(x: f32) -> (f32, f32) {
    debug_assert!(x.abs() <= 100.0, "{x} is further from 0 than was compared");
    // Quarter turns are subtracted in three parts, which together are more precise than a single (Cody and Waite,
    // 1980).
    let quarters = (x * FRAC_2_PI).round_ties_even();
    let x = QUARTER_TURN.into_iter().fold(x, |x, piece| quarters.mul_add(-piece, x));
    let square = x * x;
    let horner = |coefficients: [f32; 5]| {
        coefficients.into_iter().reduce(|sum, coefficient| sum.mul_add(square, coefficient)).unwrap_or_default()
    };
    let (sine, cosine) = (horner(SINE).mul_add(x, x), horner(COSINE));
    match (quarters as i32) & 3 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// Half of pi as a sum of three parts; the first is rounded down.
const QUARTER_TURN: [f32; 3] = [f32::from_bits(0x3fc9_0fd8), 3.139_164_7e-7, 5.390_302_5e-15];

/// Coefficients of `sin(x) / x - 1` as a polynomial in the square of `x`, highest power first.
const SINE: [f32; 5] = [2.8404097e-6, -1.9856491e-4, 8.333397e-3, -0.16666667, 0.0];

/// Coefficients of `cos(x)`, likewise.
const COSINE: [f32; 5] = [2.4372266e-5, -1.388652e-3, 4.166662e-2, -0.5, 1.0];

/// Returns the sine and the cosine of an angle, computed without branches so that loops vectorise, and whether they
/// certainly equal the C library's. They do where the exact values are far enough from the middle of two numbers, as
/// both are then rounded to the nearest. The result is never certain beyond 0.25. The error of glibc is below 0.52
/// units in the last place up to there, and below 0.505 up to 0.126.
#[inline(always)]
pub fn small_sin_cos(x: f64) -> (f64, f64, bool) {
    const HALF_ULP: f64 = f64::EPSILON / 2.0;
    let square = x * x;
    let bend = x * (square * small(SMALL_SINE, square));
    let dip = square * small(SMALL_COSINE, square);
    let (sine, cosine) = (x + bend, 1.0 + dip);
    // The rounding errors of these sums (Dekker, 1971), and bounds for those of `bend` and `dip`.
    let sine_lost = ((x - sine) + bend).abs() + 4.0 * HALF_ULP * bend.abs();
    let cosine_lost = ((1.0 - cosine) + dip).abs() + 3.0 * HALF_ULP * dip.abs();
    let power = f64::from_bits(sine.to_bits() & f64::INFINITY.to_bits());
    // The unit in the last place of a cosine is half that of 1.
    let safe = if x.abs() < 0.126 { 0.495 } else { 0.48 };
    let certain = (x.abs() <= 0.25) & (sine_lost < safe * f64::EPSILON * power) & (cosine_lost < safe * HALF_ULP);
    (sine, cosine, certain)
}

/// Returns the sines and cosines of the first `count` of `angles`, which equal the C library's to the bit.
#[inline(always)]
pub fn sin_cos_lanes(count: usize, angles: &[f64; LANES], sines: &mut [f64; LANES], cosines: &mut [f64; LANES]) {
    assert!(count <= LANES, "too many lanes");
    let mut doubts = [0; LANES];
    let mut k = 0;
    while k < count {
        let (sine, cosine, is_certain) = small_sin_cos(angles[k]);
        (sines[k], cosines[k], doubts[k]) = (sine, cosine, !is_certain as u8);
        k += 1;
    }
    for k in flagged(doubts) {
        (sines[k], cosines[k]) = angles[k].sin_cos();
    }
}

#[inline(always)]
fn small<const N: usize>(coefficients: [f64; N], square: f64) -> f64 {
    let mut sum = 0.0;
    let mut k = 0;
    while k < N {
        sum = sum * square + coefficients[k];
        k += 1;
    }
    sum
}

/// Coefficients of the Taylor series of `sin(x) / x - 1` in the square of `x`, highest power first, up to the last one
/// that matters.
const SMALL_SINE: [f64; 6] =
    [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5_040.0, 1.0 / 120.0, -1.0 / 6.0];

/// Coefficients of `cos(x) - 1`, likewise.
const SMALL_COSINE: [f64; 6] =
    [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -1.0 / 2.0];

#[cfg(test)]
mod tests {
    use super::*;

    /// The error in units in the last place that the test allows a C library: 0 for the libraries on Linux, whose
    /// bounds are known.
    const SLACK: f64 = if cfg!(target_os = "linux") { 0.0 } else { 1.0 };

    fn assert_squared(x: f64) {
        let (got, want) = (squared(x), x.powf(black_box(2.0)));
        assert!(got == want || (got - want).abs() <= SLACK * f64::EPSILON * want, "{x}: got {got}, want {want}");
    }

    fn assert_squared_single(x: f32) {
        let (got, want) = (squared_single(x), x.powf(black_box(2.0)));
        assert!(got == want || (got - want).abs() <= SLACK as f32 * f32::EPSILON * want, "{x}: got {got}, want {want}");
    }

    #[test]
    fn squares_are_those_of_the_library() {
        let mut generator = crate::Generator::new(1);
        for _ in 0..200_000 {
            assert_squared(generator.uniform(-30.0, 30.0));
            assert_squared_single(generator.uniform(-2.0, 2.0) as f32);
        }
        for x in [0.0, -0.0, 1.0, -3.0, 1e-170, 5e-324, 1e150, 1e200, f64::MAX, f64::INFINITY] {
            assert_squared(x);
        }
        for x in [0.0, -0.0, 1.0, -1.5, 1e-20, 1e-45, 1e20, f32::MAX, f32::INFINITY] {
            assert_squared_single(x);
        }
        assert!(squared(f64::NAN).is_nan() && squared_single(f32::NAN).is_nan());
    }

    #[test]
    fn small_sines_are_those_of_the_library() {
        let mut generator = crate::Generator::new(2);
        let (mut certain, draws) = (0, 1_000_000);
        for _ in 0..draws {
            let x = generator.uniform(-0.25, 0.25);
            let (sine, cosine, is_certain) = small_sin_cos(x);
            if is_certain {
                certain += 1;
                let off = [(sine - x.sin()) / x, cosine - x.cos()].map(f64::abs);
                assert!(off.iter().all(|&off| off <= SLACK * f64::EPSILON), "{x}");
            }
        }
        assert!(certain > draws * 8 / 10, "only {certain} of {draws} are certain");
        for x in [1e-3, -1e-9, 1e-200] {
            assert!(small_sin_cos(x).2, "{x}");
        }
        for x in [0.26, -1.0, 1e10, f64::NAN, f64::INFINITY] {
            assert!(!small_sin_cos(x).2, "{x}");
        }
    }

    #[test]
    fn sines_of_all_lanes_are_those_of_the_library() {
        let mut generator = crate::Generator::new(3);
        for count in (0..=LANES).cycle().take(5_000) {
            let angles = [(); LANES].map(|()| generator.uniform(-0.3, 0.3));
            let (mut sines, mut cosines) = ([9.0; LANES], [9.0; LANES]);
            sin_cos_lanes(count, &angles, &mut sines, &mut cosines);
            for (k, x) in angles.iter().enumerate() {
                let (sine, cosine) = if k < count { (x.sin(), x.cos()) } else { (9.0, 9.0) };
                let off = [(sines[k] - sine) / x, cosines[k] - cosine].map(f64::abs);
                assert!(off.iter().all(|&off| off <= SLACK * f64::EPSILON), "{x}");
            }
        }
    }

    /// Angles, and their sines and cosines by NumPy 2.4.6; first some that `sinf` or `cosf` rounds differently.
    const ANGLES: [(f32, f32, f32); 13] = [
        (-0.09232814, -0.092197016, 0.9957408),
        (0.042649645, 0.042636715, 0.9990907),
        (-0.063882016, -0.06383857, 0.9979602),
        (-0.08321652, -0.0831205, 0.99653953),
        (0.051303525, 0.05128102, 0.9986843),
        (0.09612394, 0.09597598, 0.9953836),
        (-3.0, -0.14112, -0.9899925),
        (-1.2345678, -0.94400567, 0.3299292),
        (0.8, 0.7173561, 0.6967067),
        (2.0, 0.9092974, -0.4161468),
        (5.5, -0.7055403, 0.7086698),
        (28.2, 0.07426468, -0.9972386),
        (-14.75, -0.8180218, -0.57518727),
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
