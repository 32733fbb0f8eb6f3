//! Functions of single numbers, and softmax.
//!
//! Functions that bound the numbers of a network are computed in single precision, with an error of at most 4e-7 of their
//! value, as twice as many fit into a register; that of the GELU of a negative number, which may be small, is at most 1e-7.
//! Exponentials, of which others are made, are computed in double precision, from a polynomial whose error is below 1e-13,
//! and then rounded once.

use crate::error::{Result, value_error};
use crate::simd::{MulAdd, ProductKernel, run_products};

/// A function of each number of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// max(x, 0).
    Relu,
    /// x, and for a negative x its product with the number.
    LeakyRelu(f32),
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// x / (1 + exp(-x)).
    Silu,
    /// x, and for a negative x the product of the number and exp(x) - 1.
    Elu(f32),
    /// exp(x).
    Exp,
    /// x, moved into an interval.
    Clamp(f32, f32),
    /// The product with a number.
    Scale(f32),
    /// The sum with a number.
    Shift(f32),
    /// x times the probability that a normal number is less (arXiv:1606.08415).
    Gelu,
    /// The same by a hyperbolic tangent that is nearly that probability.
    GeluTanh,
    /// ln(1 + exp(beta x)) / beta, and x where beta x is above a threshold.
    Softplus(f32, f32),
    /// The magnitude.
    Abs,
    /// The square.
    Square,
    /// The square root.
    Sqrt,
    /// The natural logarithm.
    Log,
    /// 1 / x.
    Reciprocal,
}

/// Numbers that are replaced together.
const PART: usize = 64;

impl Function {
    /// Returns the function with this name and these numbers.
    ///
    /// # Errors
    /// `Value` for another name, or another count of numbers.
    pub fn named(name: &str, numbers: &[f32]) -> Result<Self> {
        Ok(match (name, numbers) {
            ("relu", []) => Self::Relu,
            ("leaky_relu", &[slope]) => Self::LeakyRelu(slope),
            ("tanh", []) => Self::Tanh,
            ("sigmoid", []) => Self::Sigmoid,
            ("silu", []) => Self::Silu,
            ("elu", &[alpha]) => Self::Elu(alpha),
            ("exp", []) => Self::Exp,
            ("clamp", &[least, most]) => Self::Clamp(least, most),
            ("scale", &[factor]) => Self::Scale(factor),
            ("shift", &[term]) => Self::Shift(term),
            ("gelu", []) => Self::Gelu,
            ("gelu_tanh", []) => Self::GeluTanh,
            ("softplus", &[beta, threshold]) => Self::Softplus(beta, threshold),
            ("abs", []) => Self::Abs,
            ("square", []) => Self::Square,
            ("sqrt", []) => Self::Sqrt,
            ("log", []) => Self::Log,
            ("reciprocal", []) => Self::Reciprocal,
            _ => return value_error!("there is no node {name} of {} numbers", numbers.len()),
        })
    }

    /// A bound of the magnitude of the derivative, which is what rounding errors of arguments are multiplied by.
    pub(super) fn steepness(self) -> f32 {
        match self {
            Self::Sigmoid => 0.25,
            Self::Relu | Self::Tanh | Self::Clamp(..) | Self::Shift(_) | Self::Softplus(..) | Self::Abs => 1.0,
            Self::Silu => 1.1,
            Self::Gelu | Self::GeluTanh => 1.13,
            Self::LeakyRelu(slope) | Self::Elu(slope) => slope.abs().max(1.0),
            Self::Scale(factor) => factor.abs(),
            Self::Exp | Self::Square | Self::Sqrt | Self::Log | Self::Reciprocal => f32::INFINITY,
        }
    }

    /// Returns the value for a number.
    pub(super) fn of(self, number: f32) -> f32 {
        let mut numbers = [number];
        self.apply(&mut numbers);
        numbers[0]
    }

    /// Replaces each number by its value, as a network does.
    pub(super) fn apply(self, numbers: &mut [f32]) {
        run_products(Applied { function: self, numbers });
    }

    /// Replaces each number by its value, within a kernel.
    #[inline(always)]
    fn replace_with<M: MulAdd>(self, numbers: &mut [f32]) {
        let mut copied = [0.0; PART];
        for part in numbers.chunks_mut(PART) {
            let from = &mut copied[..part.len()];
            from.copy_from_slice(part);
            self.apply_with::<M>(from, part);
        }
    }

    /// Writes the value of each number, within a kernel.
    #[inline(always)]
    pub(super) fn apply_with<M: MulAdd>(self, numbers: &[f32], out: &mut [f32]) {
        // A loop for each function, so that each is compiled to vector instructions.
        macro_rules! each {
            ($x:ident => $value:expr) => {
                for (out, &$x) in out.iter_mut().zip(numbers) {
                    *out = $value;
                }
            };
        }
        match self {
            Self::Relu => each!(x => relu(x)),
            Self::LeakyRelu(slope) => each!(x => if x < 0.0 { x * slope } else { x }),
            Self::Tanh => each!(x => tanh::<M>(x)),
            Self::Sigmoid => each!(x => sigmoid::<M>(x)),
            Self::Silu => each!(x => x * sigmoid::<M>(x)),
            Self::Elu(alpha) => each!(x => elu::<M>(x, alpha)),
            Self::Exp => each!(x => exp(f64::from(x)) as f32),
            Self::Clamp(low, high) => each!(x => if x < low { low } else if x > high { high } else { x }),
            Self::Scale(factor) => each!(x => x * factor),
            Self::Shift(term) => each!(x => x + term),
            Self::Gelu => each!(x => gelu::<M>(x)),
            Self::GeluTanh => each!(x => gelu_tanh::<M>(x)),
            Self::Softplus(beta, threshold) => each!(x => softplus(x, beta, threshold)),
            Self::Abs => each!(x => x.abs()),
            Self::Square => each!(x => x * x),
            Self::Sqrt => each!(x => x.sqrt()),
            Self::Log => each!(x => x.ln()),
            Self::Reciprocal => each!(x => 1.0 / x),
        }
    }
}

/// A function of numbers outside a network.
struct Applied<'a> {
    function: Function,
    numbers: &'a mut [f32],
}

impl ProductKernel for Applied<'_> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        self.function.replace_with::<M>(self.numbers);
    }
}

/// max(x, 0); a NaN stays one.
#[inline(always)]
pub(super) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The value of a polynomial at `x`, whose first coefficient is that of the highest power.
#[inline(always)]
fn polynomial<M: MulAdd, const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = M::mul_add(sum, x, *coefficient);
    }
    sum
}

/// The quotient of two polynomials that was fitted for numbers below 7.9, where the tangent is nearly 1 (as in Eigen).
#[inline(always)]
fn tanh<M: MulAdd>(x: f32) -> f32 {
    const MOST: f32 = 7.905_311;
    const ABOVE: [f32; 7] = [
        -2.760_768_4e-16,
        2.000_188e-13,
        -8.604_671e-11,
        5.122_297_1e-8,
        1.485_722_3e-5,
        6.372_619_3e-4,
        4.893_524_6e-3,
    ];
    const BELOW: [f32; 4] = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let x = if x < -MOST { -MOST } else { x };
    let x = if x > MOST { MOST } else { x };
    let square = x * x;
    x * polynomial::<M, 7>(ABOVE, square) / polynomial::<M, 4>(BELOW, square)
}

#[inline(always)]
fn sigmoid<M: MulAdd>(x: f32) -> f32 {
    let decay = decay::<M>(x.abs());
    let (one, sum) = (if x < 0.0 { decay } else { 1.0 }, 1.0 + decay);
    one / sum
}

/// The binary logarithm of the probability that a normal number is above |x| is nearly a polynomial, which was fitted for
/// |x| below 6 so that the result is within 1e-8. From 13 on it is below -127, where its power is 0.
#[inline(always)]
fn gelu<M: MulAdd>(x: f32) -> f32 {
    const LOGARITHM: [f32; 9] = [
        -2.045_905e-6,
        2.999_363_3e-5,
        -1.419_595_6e-4,
        -2.427_202_9e-4,
        7.200_044e-3,
        -0.052_589_517,
        -0.459_177_73,
        -1.151_108_9,
        -0.999_999_94,
    ];
    let exponent = polynomial::<M, 9>(LOGARITHM, x.abs());
    let exponent = if exponent < -127.0 { -127.0 } else { exponent };
    let shifted = exponent + ROUND;
    let whole = shifted - ROUND;
    let above = power::<M>(shifted, exponent - whole);
    x * if x < 0.0 { above } else { 1.0 - above }
}

/// 1 + tanh(y) is twice the sigmoid of 2 y, which keeps its digits where the tangent is nearly -1.
#[inline(always)]
fn gelu_tanh<M: MulAdd>(x: f32) -> f32 {
    // twice the square root of 2 / pi
    const RATE: f32 = 1.595_769;
    x * sigmoid::<M>(RATE * x * M::mul_add(0.044_715 * x, x, 1.0))
}

/// Adding it rounds to a whole number, which then stands in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// 2 to the power `whole + rest` with a relative error of 1e-7, for `whole + ROUND` from -127 on and a rest of at most a
/// half. The polynomial was fitted.
#[inline(always)]
fn power<M: MulAdd>(shifted: f32, rest: f32) -> f32 {
    const POWER: [f32; 6] = [1.327_647_1e-3, 9.675_542e-3, 0.055_507_135, 0.240_221_2, 0.693_146_94, 1.000_000_1];
    polynomial::<M, 6>(POWER, rest) * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

/// exp(-x) of a number that is not negative, with a relative error below 3e-7; 0 above 87, where it has no digits.
#[inline(always)]
fn decay<M: MulAdd>(x: f32) -> f32 {
    // The binary logarithm of e, of which the first part is rounded.
    const RATE: f32 = std::f32::consts::LOG2_E;
    const LOW: f32 = (std::f64::consts::LOG2_E - RATE as f64) as f32;
    let shifted = M::mul_add(-x, RATE, ROUND);
    let whole = shifted - ROUND;
    let value = power::<M>(shifted, M::mul_add(-x, LOW, M::mul_add(-x, RATE, -whole)));
    if x > 87.0 { 0.0 } else { value }
}

/// The logarithm is a series, of at most a third: ln(1 + y) = 2 artanh(y / (2 + y)).
#[inline(always)]
fn softplus(x: f32, beta: f32, threshold: f32) -> f32 {
    let scaled = f64::from(x) * f64::from(beta);
    let decay = exp(-scaled.abs());
    let s = decay / (2.0 + decay);
    let square = s * s;
    let mut sum = 1.0 / 21.0;
    for divisor in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / divisor;
    }
    let above = if scaled > 0.0 { scaled } else { 0.0 };
    let value = ((above + 2.0 * s * sum) / f64::from(beta)) as f32;
    if scaled > f64::from(threshold) { x } else { value }
}

/// A series is used where the difference of an exponential and 1 would lose digits.
#[inline(always)]
fn elu<M: MulAdd>(x: f32, alpha: f32) -> f32 {
    const SERIES: [f32; 8] =
        [1.0 / 40_320.0, 1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0, 1.0];
    let series = x * polynomial::<M, 8>(SERIES, x);
    let below = if x > -0.5 { series } else { decay::<M>(-x) - 1.0 };
    if x < 0.0 { alpha * below } else { x }
}

/// exp(x) with a relative error below 1e-13. Arguments are bounded by numbers at which a single float is 0 or infinite.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    // ln 2 in two parts, of which the first has few digits, so that its multiples are exact.
    const HIGH: f64 = 0.693_147_180_369_123_8;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Adding and subtracting it rounds to a whole number, which then stands in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = if x < -150.0 { -150.0 } else { x };
    let x = if x > 150.0 { 150.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = (x - whole * HIGH) - whole * LOW;
    // The series up to the power 12, of |r| <= ln 2 / 2.
    let mut sum = 1.0 / 479_001_600.0;
    sum = sum * r + 1.0 / 39_916_800.0;
    sum = sum * r + 1.0 / 3_628_800.0;
    sum = sum * r + 1.0 / 362_880.0;
    sum = sum * r + 1.0 / 40_320.0;
    sum = sum * r + 1.0 / 5_040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 1.0 / 2.0;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    sum * power
}

/// Replaces the numbers of each lane by their softmax.
#[inline(always)]
pub(super) fn softmax<M: MulAdd, const L: usize>(slot: &mut [[f32; L]]) {
    let mut largest = [f32::NEG_INFINITY; L];
    for values in slot.iter() {
        for lane in 0..L {
            largest[lane] = if values[lane] < largest[lane] { largest[lane] } else { values[lane] };
        }
    }
    for values in slot.iter_mut() {
        for lane in 0..L {
            values[lane] -= largest[lane];
        }
    }
    Function::Exp.replace_with::<M>(slot.as_flattened_mut()); // one long loop, which becomes vector instructions
    let mut sum = [0.0_f64; L];
    for values in slot.iter() {
        for lane in 0..L {
            sum[lane] += f64::from(values[lane]);
        }
    }
    for values in slot {
        for lane in 0..L {
            values[lane] = (f64::from(values[lane]) / sum[lane]) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Separate;

    #[test]
    fn functions_are_found_by_their_names_and_numbers() {
        for (name, numbers, wanted) in [
            ("relu", &[][..], Function::Relu),
            ("leaky_relu", &[0.5], Function::LeakyRelu(0.5)),
            ("tanh", &[], Function::Tanh),
            ("sigmoid", &[], Function::Sigmoid),
            ("silu", &[], Function::Silu),
            ("elu", &[2.0], Function::Elu(2.0)),
            ("exp", &[], Function::Exp),
            ("clamp", &[-1.0, 2.0], Function::Clamp(-1.0, 2.0)),
            ("scale", &[3.0], Function::Scale(3.0)),
        ] {
            assert_eq!(Function::named(name, numbers).unwrap(), wanted);
            assert!(Function::named(name, &[0.0; 3]).is_err(), "{name}");
        }
        assert_eq!(Function::named("none", &[]).unwrap_err().to_string(), "there is no node none of 0 numbers");
    }

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        for k in -9_000..=9_000_i32 {
            let x = f64::from(k) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "{x}");
        }
        assert_eq!((exp(-1e9) as f32, exp(1e9) as f32, exp(0.0)), (0.0, f32::INFINITY, 1.0));
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn functions_agree_with_their_definitions() {
        let inputs: Vec<f32> = (-4_000..=4_000).map(|k| k as f32 / 100.0).chain([1e-6, -1e-6, 0.02, -0.02]).collect();
        type Definition = fn(f64) -> f64;
        let cases: [(Function, Definition); 9] = [
            (Function::Relu, |x| x.max(0.0)),
            (Function::LeakyRelu(0.25), |x| if x < 0.0 { x * 0.25 } else { x }),
            (Function::Tanh, f64::tanh),
            (Function::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Function::Silu, |x| x / (1.0 + (-x).exp())),
            (Function::Elu(1.5), |x| if x < 0.0 { 1.5 * x.exp_m1() } else { x }),
            (Function::Exp, f64::exp),
            (Function::Clamp(-2.0, 3.0), |x| x.clamp(-2.0, 3.0)),
            (Function::Scale(1.5), |x| 1.5 * x),
        ];
        for (function, definition) in cases {
            let single = [Function::Tanh, Function::Sigmoid, Function::Silu, Function::Elu(1.5)].contains(&function);
            let error = if single { 4e-7 } else { 6.1e-8 };
            let mut values = inputs.clone();
            function.apply(&mut values);
            for (&x, value) in inputs.iter().zip(values) {
                let wanted = definition(f64::from(x));
                let close = (f64::from(value) - wanted).abs() <= error * wanted.abs();
                assert!(close, "{function:?} of {x}: {value}, not {wanted}");
            }
        }
    }

    /// The distribution of normal numbers is 1/2 plus its density times x + x^3 / 3 + x^5 / (3 * 5) and so on.
    #[test]
    fn gelu_is_that_of_the_normal_distribution() {
        for k in -9_000..=9_000_i32 {
            let x = k as f32 / 1_000.0;
            let exact = f64::from(x);
            let (mut sum, mut term, mut divisor) = (0.0, exact, 1.0);
            while sum + term != sum {
                sum += term;
                divisor += 2.0;
                term *= exact * exact / divisor;
            }
            let density = (-0.5 * exact * exact).exp() / std::f64::consts::TAU.sqrt();
            let wanted = exact * (0.5 + density * sum);
            let found = f64::from(Function::Gelu.of(x));
            assert!((found - wanted).abs() <= 1e-7 + 3e-7 * wanted.max(0.0), "of {x}: {found}, not {wanted}");
        }
    }

    #[test]
    fn functions_are_as_steep_as_they_say() {
        for function in [
            Function::Relu,
            Function::Tanh,
            Function::Sigmoid,
            Function::Silu,
            Function::LeakyRelu(0.25),
            Function::LeakyRelu(-3.0),
            Function::Elu(1.5),
            Function::Clamp(-2.0, 3.0),
            Function::Scale(-1.5),
            Function::Shift(2.5),
            Function::Gelu,
            Function::GeluTanh,
            Function::Softplus(2.0, 20.0),
            Function::Abs,
        ] {
            let mut values: Vec<f32> = (-600..=600).map(|k| k as f32 / 100.0).collect();
            function.apply(&mut values);
            let steepest = values.windows(2).map(|two| (two[1] - two[0]).abs() * 100.0).fold(0.0, f32::max);
            let bound = function.steepness() * 1.01;
            assert!(steepest <= bound && 3.0 * steepest > bound, "{function:?}: {steepest}");
        }
        for function in [Function::Exp, Function::Square, Function::Sqrt, Function::Log, Function::Reciprocal] {
            assert_eq!(function.steepness(), f32::INFINITY);
        }
    }

    #[test]
    fn nan_stays_nan() {
        for function in [
            Function::Relu,
            Function::LeakyRelu(0.1),
            Function::Tanh,
            Function::Sigmoid,
            Function::Silu,
            Function::Elu(1.0),
            Function::Exp,
            Function::Clamp(-1.0, 1.0),
            Function::Shift(1.0),
            Function::Gelu,
            Function::GeluTanh,
            Function::Softplus(1.0, 20.0),
            Function::Abs,
            Function::Square,
            Function::Sqrt,
            Function::Log,
            Function::Reciprocal,
        ] {
            let mut values = [f32::NAN];
            function.apply(&mut values);
            assert!(values[0].is_nan(), "{function:?}");
        }
    }

    #[test]
    fn softmax_sums_to_one_in_each_lane() {
        let mut slot = [[1.0, 1e4, f32::NEG_INFINITY], [2.0, 1e4, 0.0]];
        softmax::<Separate, 3>(&mut slot);
        assert_eq!([slot[0][1], slot[1][1], slot[0][2], slot[1][2]], [0.5, 0.5, 0.0, 1.0]);
        assert!((f64::from(slot[1][0]) - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-7);
    }
}
