//! Observation and action spaces.

use std::fmt;

use crate::{DType, Element};

/// A set of values, as in `gymnasium.spaces`. A value is stored as a flat row of elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Space {
    /// The integers from `start` to `start + n - 1`.
    Discrete {
        /// The number of integers.
        n: i64,
        /// The smallest integer.
        start: i64,
    },
    /// Vectors of integers, with element `i` from 0 to `counts[i] - 1`.
    MultiDiscrete {
        /// The number of values of each element: Gymnasium's `nvec`.
        counts: Vec<i64>,
    },
    /// Arrays with bounds for each element, which may be infinite.
    Box {
        /// The lower bounds, in C order.
        low: Vec<f64>,
        /// The upper bounds, in C order.
        high: Vec<f64>,
        /// The shape of the arrays.
        shape: Vec<usize>,
        /// The type of the elements.
        dtype: DType,
    },
    /// Tuples of one value of each space.
    Tuple(Vec<Self>),
}

impl Space {
    /// Makes the space of the integers from 0 to `n - 1`.
    pub fn discrete(n: i64) -> Self {
        Self::Discrete { n, start: 0 }
    }

    /// Makes the space of vectors of `T` between `low` and `high`, both included.
    ///
    /// # Panics
    /// If `low` and `high` have different lengths.
    pub fn vector<T: Element>(low: &[f64], high: &[f64]) -> Self {
        assert_eq!(low.len(), high.len(), "each element has two bounds");
        Self::Box { low: low.to_vec(), high: high.to_vec(), shape: vec![high.len()], dtype: T::DTYPE }
    }

    /// Makes the space of vectors of `T` between `-high` and `high`.
    pub fn symmetric<T: Element>(high: &[f64]) -> Self {
        Self::vector::<T>(&high.iter().map(|bound| -bound).collect::<Vec<_>>(), high)
    }

    /// Returns the shape of a row of elements; it has no axes where a value is one number.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Discrete { .. } => Vec::new(),
            Self::Box { shape, .. } => shape.clone(),
            Self::MultiDiscrete { .. } | Self::Tuple(_) => vec![self.len()],
        }
    }

    /// Returns the number of elements of a value.
    pub fn len(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::MultiDiscrete { counts } => counts.len(),
            Self::Box { shape, .. } => shape.iter().product(),
            Self::Tuple(spaces) => spaces.iter().map(Self::len).sum(),
        }
    }

    /// Returns whether a value has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether `value`, in C order, is an element of the space.
    pub fn contains(&self, value: &[f64]) -> bool {
        let within = |value: f64, n: i64| value.fract() == 0.0 && (0.0..n as f64).contains(&value);
        match self {
            Self::Discrete { n, start } => matches!(value, [one] if within(one - *start as f64, *n)),
            Self::MultiDiscrete { counts } => {
                value.len() == counts.len() && value.iter().zip(counts).all(|(&value, &n)| within(value, n))
            }
            Self::Box { low, high, .. } => {
                value.len() == low.len()
                    && value.iter().zip(low.iter().zip(high)).all(|(value, (low, high))| (low..=high).contains(&value))
            }
            Self::Tuple(spaces) => {
                let mut rest = value;
                spaces.iter().all(|space| {
                    rest.split_at_checked(space.len()).is_some_and(|(value, after)| {
                        rest = after;
                        space.contains(value)
                    })
                }) && rest.is_empty()
            }
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete { n, start } => write!(f, "integers from {start} to {}", start + n - 1),
            Self::MultiDiscrete { counts } => write!(f, "vectors of non-negative integers below {counts:?}"),
            Self::Box { shape, dtype, .. } => {
                write!(f, "{} arrays of shape {shape:?} within their bounds", dtype.name())
            }
            Self::Tuple(spaces) => {
                let spaces = spaces.iter().map(Self::to_string).collect::<Vec<_>>();
                write!(f, "tuples of ({})", spaces.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discrete_values_are_whole_and_in_range() {
        let space = Space::discrete(2);
        for (value, inside) in [(0.0, true), (1.0, true), (2.0, false), (-1.0, false), (0.5, false), (f64::NAN, false)]
        {
            assert_eq!(space.contains(&[value]), inside, "{value}");
        }
        assert!(!space.contains(&[]) && !space.contains(&[0.0, 0.0]));
        assert_eq!((space.len(), space.to_string().as_str()), (1, "integers from 0 to 1"));
    }

    #[test]
    fn discrete_values_may_begin_anywhere() {
        let space = Space::Discrete { n: 3, start: -1 };
        assert!(space.contains(&[-1.0]) && space.contains(&[1.0]));
        assert!(!space.contains(&[-2.0]) && !space.contains(&[2.0]));
        assert_eq!(space.to_string(), "integers from -1 to 1");
    }

    #[test]
    fn boxes_include_their_bounds() {
        let space = Space::symmetric::<f32>(&[1.0, f64::INFINITY]);
        assert!(space.contains(&[-1.0, 1e300]) && space.contains(&[1.0, f64::NEG_INFINITY]));
        assert!(!space.contains(&[1.1, 0.0]) && !space.contains(&[f64::NAN, 0.0]) && !space.contains(&[0.0]));
        assert!(space.len() == 2 && !space.is_empty());
        assert_eq!(space.to_string(), "float32 arrays of shape [2] within their bounds");
    }

    #[test]
    fn tuples_lay_their_values_side_by_side() {
        let space = Space::Tuple(vec![Space::discrete(4), Space::MultiDiscrete { counts: vec![2, 3] }]);
        assert_eq!(space.len(), 3);
        assert!(space.contains(&[3.0, 1.0, 2.0]));
        for outside in [&[4.0, 1.0, 2.0][..], &[3.0, 2.0, 2.0], &[3.0, 1.0, 3.0], &[3.0, 1.0], &[3.0, 1.0, 2.0, 0.0]] {
            assert!(!space.contains(outside), "{outside:?}");
        }
        let words = "tuples of (integers from 0 to 3; vectors of non-negative integers below [2, 3])";
        assert_eq!(space.to_string(), words);
    }
}
