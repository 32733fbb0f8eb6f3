//! The estimators by name, with checks of their parameters.

use super::{Ends, Real, VTrace, discounted, gae, nstep, vtrace};
use crate::error::{Error, Result, value_error};

/// An estimator of returns or advantages with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Estimator(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Gae { gamma: f64, gae_lambda: f64 },
    Discounted { gamma: f64 },
    NStep { n_step: usize, gamma: f64 },
    VTrace(VTrace),
}

/// The largest numbers of arrays that an estimator reads and writes.
pub const MOST: (usize, usize) = (4, 2);

impl Estimator {
    /// Returns the estimator `name` with its parameters `numbers`, in the order of its function's arguments.
    ///
    /// # Errors
    /// `Value` for an unknown name or an invalid parameter.
    pub fn new(name: &str, numbers: &[f64]) -> Result<Self> {
        Ok(Self(match (name, numbers) {
            ("gae", &[gamma, gae_lambda]) => {
                Kind::Gae { gamma: fraction("gamma", gamma)?, gae_lambda: fraction("gae_lambda", gae_lambda)? }
            }
            ("discounted_returns", &[gamma]) => Kind::Discounted { gamma: fraction("gamma", gamma)? },
            ("nstep_returns", &[n_step, gamma]) => {
                let gamma = fraction("gamma", gamma)?;
                if n_step < 1.0 || n_step.fract() != 0.0 {
                    return value_error!("n_step: got {n_step}, wanted at least 1");
                }
                Kind::NStep { n_step: n_step as usize, gamma }
            }
            ("vtrace", &[gamma, trace_lambda, rho_bar, c_bar]) => Kind::VTrace(VTrace {
                gamma: fraction("gamma", gamma)?,
                trace_lambda: fraction("trace_lambda", trace_lambda)?,
                rho_bar: positive("rho_bar", rho_bar)?,
                c_bar: positive("c_bar", c_bar)?,
            }),
            _ => return value_error!("there is no estimator {name} of {} numbers", numbers.len()),
        }))
    }

    /// Returns the names of the arrays that it reads.
    #[must_use]
    pub fn inputs(&self) -> &'static [&'static str] {
        match self.0 {
            Kind::Discounted { .. } | Kind::NStep { .. } => &["rewards", "next_values"],
            Kind::Gae { .. } => &["rewards", "values", "next_values"],
            Kind::VTrace(_) => &["rewards", "values", "next_values", "log_ratios"],
        }
    }

    /// Returns the number of inputs that are required.
    #[must_use]
    pub fn needed(&self) -> usize {
        if let Kind::Discounted { .. } = self.0 { 1 } else { self.inputs().len() }
    }

    /// Returns the number of arrays that it writes.
    #[must_use]
    pub fn outputs(&self) -> usize {
        if let Kind::VTrace(_) = self.0 { 2 } else { 1 }
    }

    /// Computes `outputs` from `inputs`, of which those beyond [`Self::needed`] may be empty.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn run<T: Real>(&self, inputs: [&[T]; MOST.0], ends: Ends<'_>, outputs: [&mut [T]; MOST.1]) {
        let ([rewards, one, two, three], [out, beside]) = (inputs, outputs);
        match self.0 {
            Kind::Gae { gamma, gae_lambda } => gae(rewards, one, two, ends, gamma, gae_lambda, out),
            Kind::Discounted { gamma } => {
                discounted(rewards, (!one.is_empty()).then_some(one), ends, gamma, out);
            }
            Kind::NStep { n_step, gamma } => nstep(rewards, one, ends, n_step, gamma, out),
            Kind::VTrace(options) => vtrace(rewards, one, two, three, ends, options, out, beside),
        }
    }
}

/// What an array beside the rewards must be like.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Of this shape, which is that of the rewards.
    Shape(&'a [usize]),
    /// Of any shape with one element for each of so many rewards.
    Rows(usize),
    /// Of any shape.
    Any,
}

impl Wanted<'_> {
    /// Checks the shape of the array `name`.
    ///
    /// # Errors
    /// `Value` if it is not as wanted.
    pub fn check(self, name: &str, shape: &[usize]) -> Result<()> {
        let wanted = match self {
            Self::Shape(wanted) if wanted != shape => format!("that of rewards, {wanted:?}"),
            Self::Rows(rows) if shape.iter().product::<usize>() != rows => format!("one for each of {rows} rewards"),
            _ => return Ok(()),
        };
        value_error!("{name}: got shape {shape:?}, wanted {wanted}")
    }
}

/// Returns the number of independent columns of a roll-out whose rewards have this shape.
///
/// # Errors
/// `Value` without an axis of time.
pub fn columns_of(rewards: &[usize]) -> Result<usize> {
    match rewards {
        [_, columns @ ..] => Ok(columns.iter().product()),
        [] => value_error!("rewards: got a single number, wanted [T] or [T, N]"),
    }
}

/// Checks a discount or a lambda, and returns it.
///
/// # Errors
/// `Value` if it is not from 0 to 1.
pub fn fraction(name: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::Value(format!("{name}: got {value}, wanted a number from 0 to 1")))
}

fn positive(name: &str, value: f64) -> Result<f64> {
    if value > 0.0 {
        return Ok(value);
    }
    Err(Error::Value(format!("{name}: got {value}, wanted a positive number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, numbers: &[f64], inputs: [&[f64]; 4]) -> [[f64; 2]; 2] {
        let estimator = Estimator::new(name, numbers).unwrap();
        let (mut out, mut beside) = ([0.0; 2], [0.0; 2]);
        estimator.run(inputs, Ends::new(&[false; 2], None, 1), [&mut out, &mut beside]);
        [out, beside]
    }

    #[test]
    fn each_name_is_its_function() {
        let (rewards, values, next) = (&[1.0, 2.0][..], &[0.5, 0.25][..], &[0.25, 4.0][..]);
        let ends = Ends::new(&[false; 2], None, 1);
        let (mut wanted, mut beside) = ([0.0; 2], [0.0; 2]);
        gae(rewards, values, next, ends, 0.5, 0.75, &mut wanted);
        assert_eq!(run("gae", &[0.5, 0.75], [rewards, values, next, &[]])[0], wanted);
        for next in [Some(next), None] {
            discounted(rewards, next, ends, 0.5, &mut wanted);
            assert_eq!(run("discounted_returns", &[0.5], [rewards, next.unwrap_or_default(), &[], &[]])[0], wanted);
        }
        nstep(rewards, next, ends, 2, 0.5, &mut wanted);
        assert_eq!(run("nstep_returns", &[2.0, 0.5], [rewards, next, &[], &[]])[0], wanted);
        let options = VTrace { gamma: 0.5, trace_lambda: 0.75, rho_bar: 1.5, c_bar: 1.25 };
        vtrace(rewards, values, next, &[0.1, 2.0], ends, options, &mut wanted, &mut beside);
        let found = run("vtrace", &[0.5, 0.75, 1.5, 1.25], [rewards, values, next, &[0.1, 2.0]]);
        assert_eq!(found, [wanted, beside]);
    }

    #[test]
    fn bad_numbers_are_named() {
        for (name, numbers, wanted) in [
            ("gae", &[1.5, 0.5][..], "gamma: got 1.5"),
            ("gae", &[0.5, f64::NAN], "gae_lambda: got NaN"),
            ("discounted_returns", &[-0.1], "gamma: got -0.1"),
            ("nstep_returns", &[0.0, 0.5], "n_step: got 0, wanted at least 1"),
            ("vtrace", &[0.5, 0.5, 0.0, 1.0], "rho_bar: got 0, wanted a positive number"),
            ("vtrace", &[0.5, 0.5, 1.0, f64::NAN], "c_bar: got NaN"),
            ("gae", &[0.5], "there is no estimator gae of 1 numbers"),
        ] {
            let error = Estimator::new(name, numbers).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn arrays_are_of_the_shape_of_the_rewards() {
        assert_eq!((columns_of(&[5]).unwrap(), columns_of(&[5, 2, 3]).unwrap()), (1, 6));
        assert_eq!(columns_of(&[]).unwrap_err().to_string(), "rewards: got a single number, wanted [T] or [T, N]");
        let text = |wanted: Wanted<'_>, shape| wanted.check("values", shape).unwrap_err().to_string();
        let (shape, rows) = (Wanted::Shape(&[4, 2]), Wanted::Rows(8));
        assert!(shape.check("values", &[4, 2]).is_ok() && rows.check("values", &[4, 2]).is_ok());
        assert!(Wanted::Any.check("values", &[]).is_ok());
        assert_eq!(text(shape, &[8]), "values: got shape [8], wanted that of rewards, [4, 2]");
        assert_eq!(text(rows, &[4]), "values: got shape [4], wanted one for each of 8 rewards");
    }
}
