//! The `options` of a reset.

/// A number that can be given to a reset by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResetOption {
    /// Key in the `options` dictionary.
    pub name: &'static str,
    /// Its value if it is not given.
    pub default: f64,
}

/// The bounds of the first state's distribution are invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a first state is drawn between a lower and an upper bound, both finite{within}, got {low} and {high}")]
pub struct OptionsError {
    low: f64,
    high: f64,
    within: Within,
}

/// The largest absolute value that a bound may have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Within(f64);

impl std::fmt::Display for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_finite() { write!(f, " and within {:.4} of 0", self.0) } else { Ok(()) }
    }
}

/// Makes the options `low` and `high` with these defaults.
pub const fn low_and_high([low, high]: [f64; 2]) -> [ResetOption; 2] {
    [ResetOption { name: "low", default: low }, ResetOption { name: "high", default: high }]
}

/// Returns `[low, high]` if they are finite, in order, and no further from zero than `most`.
pub fn bounds(low: f64, high: f64, most: f64) -> Result<[f64; 2], OptionsError> {
    if (high - low).is_finite() && low <= high && low.abs().max(high.abs()) <= most {
        Ok([low, high])
    } else {
        Err(OptionsError { low, high, within: Within(most) })
    }
}

/// Returns the given values of `options`, or their defaults if none are given.
///
/// # Panics
/// If the number of given values is neither 0 nor the number of options.
pub fn values<const N: usize>(given: &[f64], options: &[ResetOption; N]) -> [f64; N] {
    if given.is_empty() {
        return options.map(|option| option.default);
    }
    given.try_into().expect("a value for each option, or none")
}

/// Returns the bounds that are given for the options of [`low_and_high`], if they are valid as in [`bounds`].
pub fn bounds_of(given: &[f64], options: &[ResetOption; 2], most: f64) -> Result<[f64; 2], OptionsError> {
    let [low, high] = values(given, options);
    bounds(low, high, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_must_be_finite_and_in_order() {
        let bounds_of = |given: &[f64]| super::bounds_of(given, &low_and_high([-1.0, 2.0]), f64::INFINITY);
        assert_eq!(bounds_of(&[]), Ok([-1.0, 2.0]));
        assert_eq!(bounds_of(&[-0.5, 0.25]), Ok([-0.5, 0.25]));
        assert_eq!(bounds_of(&[0.25, 0.25]), Ok([0.25, 0.25]));
        for [low, high] in [[1.0, -1.0], [f64::NAN, 1.0], [0.0, f64::NAN], [f64::NEG_INFINITY, 1.0], [-1e308, 1e308]] {
            assert!(bounds_of(&[low, high]).is_err(), "{low} {high}");
        }
        assert_eq!(
            bounds_of(&[1.0, -1.0]).expect_err("not in order").to_string(),
            "a first state is drawn between a lower and an upper bound, both finite, got 1 and -1"
        );
    }

    #[test]
    fn bounds_may_have_bounds() {
        assert_eq!(bounds(-2.0, 1.0, 2.0), Ok([-2.0, 1.0]));
        assert_eq!(
            bounds(-2.5, 1.0, 2.0).expect_err("too far").to_string(),
            "a first state is drawn between a lower and an upper bound, both finite and within 2.0000 of 0, got -2.5 and 1"
        );
    }
}
