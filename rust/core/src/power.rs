//! Powers of many numbers with vector instructions.

use std::f64::consts::LN_2;

use crate::simd::{self, Kernel};

/// Numbers that are raised together.
const LANES: usize = 8;
/// 1.5 times 2^52. Added to a small number, it rounds that to an integer, which then stands in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// The bits of 2^52 as f64: with an integer of 52 bits in the mantissa, they are 2^52 plus that integer.
const INTEGER: u64 = 0x4330_0000_0000_0000;
/// Bound of the binary exponent of a result, away from overflow and from subnormal numbers. Beyond it, the C library
/// computes the power.
const MAX_EXPONENT: f64 = 1000.0;

/// Replaces each of `values` by its power of `exponent`. The error is at most two units in the last place (times the
/// exponent, if that is above 1); 1 stays exactly 1.
///
/// ```
/// let mut values = [1.0, 4.0, 100.0];
/// rlfast_core::power::power(&mut values, 0.25);
/// assert!((values[1] - 2_f64.sqrt()).abs() < 1e-15 && values[0] == 1.0);
/// ```
pub fn power(values: &mut [f64], exponent: f64) {
    let each = |function: fn(f64) -> f64, values: &mut [f64]| values.iter_mut().for_each(|x| *x = function(*x));
    match exponent {
        1.0 => {}
        0.5 => each(f64::sqrt, values),
        -0.5 => each(|x| x.sqrt().recip(), values),
        -1.0 => each(f64::recip, values),
        _ => simd::run(Powers { values, exponent }),
    }
}

/// The loop of [`power`]. It computes `x^y = 2^(y log2 x)` with the integer part of `y log2 x` kept separate, which
/// keeps the rounding error small.
struct Powers<'a> {
    values: &'a mut [f64],
    exponent: f64,
}

impl Kernel for Powers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for chunk in self.values.chunks_mut(LANES) {
            let mut lanes = [1.0; LANES];
            for (lane, x) in lanes.iter_mut().zip(chunk.iter()) {
                *lane = *x;
            }
            if raise_lanes(&mut lanes, self.exponent) {
                for (lane, x) in lanes.iter().zip(chunk.iter_mut()) {
                    *x = *lane;
                }
            } else {
                for x in chunk {
                    *x = x.powf(self.exponent);
                }
            }
        }
    }
}

/// Replaces all lanes by their powers. Returns false if a lane is not a positive normal number, or its power is out of
/// range; the lanes are then meaningless.
#[inline(always)]
fn raise_lanes(lanes: &mut [f64; LANES], exponent: f64) -> bool {
    // Without the last 20 bits of the exponent, its product with a binary exponent is exact.
    let head = f64::from_bits(exponent.to_bits() & !0xF_FFFF);
    let tail = exponent - head;
    let mut ordinary = true;
    for x in lanes {
        let (whole, part) = log2(*x);
        let scaled = exponent * part;
        let power = exponent * whole + scaled;
        let rounded = power + ROUND;
        let rest = (head * whole - (rounded - ROUND)) + (tail * whole + scaled);
        ordinary &= (*x >= f64::MIN_POSITIVE) & (*x <= f64::MAX) & (power.abs() < MAX_EXPONENT);
        *x = exp2(rest) * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    }
    ordinary
}

/// Returns the logarithm to base 2 of a normal positive number as an integer and a remainder from -1/2 to 1/2.
///
/// `x = 2^whole m` with `m` between the roots of 1/2 and 2, and `ln m = 2 artanh(s)` with `s = (m - 1) / (m + 1)`.
#[inline(always)]
fn log2(x: f64) -> (f64, f64) {
    const ROOT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    let biased = x.to_bits().wrapping_sub(ROOT_HALF).wrapping_add(1023 << 52) >> 52;
    let whole = f64::from_bits(INTEGER | biased) - (f64::from_bits(INTEGER) + 1023.0);
    let m = f64::from_bits(x.to_bits().wrapping_sub(biased.wrapping_sub(1023) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for k in (0..11).rev() {
        sum = sum * square + const { artanh_terms() }[k];
    }
    (whole, s * sum)
}

/// Returns 2 to the power of a number from -1/2 to 1/2, by its Taylor series.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let mut sum = 0.0;
    for k in (0..14).rev() {
        sum = sum * x + const { exp2_terms() }[k];
    }
    sum
}

/// The coefficients of `log2`: `2 / (ln 2 (2k + 1))`.
const fn artanh_terms() -> [f64; 11] {
    let mut terms = [0.0; 11];
    let mut k = 0;
    while k < terms.len() {
        terms[k] = 2.0 / ((2 * k + 1) as f64 * LN_2);
        k += 1;
    }
    terms
}

/// The coefficients of `exp2`: `(ln 2)^k / k!`.
const fn exp2_terms() -> [f64; 14] {
    let mut terms = [1.0; 14];
    let mut k = 1;
    while k < terms.len() {
        terms[k] = terms[k - 1] * LN_2 / k as f64;
        k += 1;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn powered(x: f64, y: f64) -> f64 {
        let mut one = [x];
        power(&mut one, y);
        one[0]
    }

    #[test]
    fn powers_are_right_to_the_last_places() {
        let mut stream = Stream::new(0);
        for exponent in [0.6, -0.4, 0.7, -0.9, 0.1, 2.0, 3.5, 0.0, 1.0, 0.5, -0.5, -1.0] {
            let values: Vec<f64> = (0..10_003).map(|_| 10_f64.powf(16.0 * stream.uniform() - 8.0)).collect();
            let mut powers = values.clone();
            power(&mut powers, exponent);
            for (&x, &got) in values.iter().zip(&powers) {
                let wanted = x.powf(exponent);
                assert!(
                    (got - wanted).abs() <= 2.0 * f64::EPSILON * wanted * exponent.abs().max(1.0),
                    "{x}^{exponent}: {got} {wanted}"
                );
            }
        }
    }

    #[test]
    fn a_number_has_one_power_wherever_it_stands() {
        let values: Vec<f64> = (1..100).map(|k| f64::from(k) / 7.0).collect();
        let mut powers = values.clone();
        power(&mut powers, 0.6);
        assert!(values.iter().zip(&powers).all(|(&x, &y)| powered(x, 0.6) == y));
        assert_eq!(powered(1.0, 0.6), 1.0);
    }

    #[test]
    fn odd_numbers_are_left_to_the_library() {
        let odd = [0.0, -2.0, 5e-324, f64::MAX, f64::INFINITY, f64::NAN, 1e-300, 1.3];
        for exponent in [0.6, -0.4, 4.0, 1e6, -1e-9, f64::INFINITY, f64::NAN] {
            for x in odd {
                let (got, wanted) = (powered(x, exponent), x.powf(exponent));
                let near = (got - wanted).abs() <= 2.0 * f64::EPSILON * wanted.abs();
                assert!(got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan() || near, "{x}^{exponent}");
            }
        }
    }
}
