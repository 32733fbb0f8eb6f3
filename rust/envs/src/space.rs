//! Sets of observations and actions.

use std::fmt;

/// A set of values, as in `gymnasium.spaces`.
#[derive(Clone, Debug, PartialEq)]
pub enum Space {
    /// The integers from 0 to `n`, `n` excluded.
    Discrete {
        /// How many there are.
        n: i64,
    },
    /// Arrays bounded element by element; bounds may be infinite.
    Box {
        /// Least values, in C order.
        low: Vec<f64>,
        /// Greatest values, in C order.
        high: Vec<f64>,
        /// The arrays' shape.
        shape: Vec<usize>,
    },
}

impl Space {
    /// Vectors that are bounded by `-high` and `high`.
    pub fn symmetric(high: &[f64]) -> Self {
        Self::Box { low: high.iter().map(|bound| -bound).collect(), high: high.to_vec(), shape: vec![high.len()] }
    }

    /// Elements of one value.
    pub fn len(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::Box { shape, .. } => shape.iter().product(),
        }
    }

    /// Whether a value has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `value`, in C order, belongs to the space.
    pub fn contains(&self, value: &[f64]) -> bool {
        match self {
            Self::Discrete { n } => matches!(value, [one] if one.fract() == 0.0 && (0.0..*n as f64).contains(one)),
            Self::Box { low, high, .. } => {
                value.len() == low.len()
                    && value.iter().zip(low.iter().zip(high)).all(|(value, (low, high))| (low..=high).contains(&value))
            }
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete { n } => write!(f, "integers from 0 to {}", n - 1),
            Self::Box { shape, .. } => write!(f, "arrays of shape {shape:?} within their bounds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discrete_values_are_whole_and_in_range() {
        let space = Space::Discrete { n: 2 };
        for (value, inside) in [(0.0, true), (1.0, true), (2.0, false), (-1.0, false), (0.5, false), (f64::NAN, false)]
        {
            assert_eq!(space.contains(&[value]), inside, "{value}");
        }
        assert!(!space.contains(&[]) && !space.contains(&[0.0, 0.0]));
        assert_eq!((space.len(), space.to_string().as_str()), (1, "integers from 0 to 1"));
    }

    #[test]
    fn boxes_include_their_bounds() {
        let space = Space::symmetric(&[1.0, f64::INFINITY]);
        assert!(space.contains(&[-1.0, 1e300]) && space.contains(&[1.0, f64::NEG_INFINITY]));
        assert!(!space.contains(&[1.1, 0.0]) && !space.contains(&[f64::NAN, 0.0]) && !space.contains(&[0.0]));
        assert!(space.len() == 2 && !space.is_empty());
    }
}
