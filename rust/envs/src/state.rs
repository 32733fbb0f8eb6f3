//! The encoding of saved states: a sequence of little-endian values.

use rlfast_core::rng::numpy::Generator;

/// Why a saved state cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The state has too few bytes.
    #[error("the saved state ends too early")]
    Short,
    /// The state is impossible for this environment.
    #[error("the saved state is not one of this environment: {0}")]
    Invalid(&'static str),
}

/// A value that can be part of a saved state. Tuples and arrays of such values are also such values, so that
/// [`Env::save`](crate::Env::save) and [`Env::load`](crate::Env::load) can save and load several values at once:
///
/// ```
/// # use rlfast_envs::State;
/// let mut bytes = Vec::new();
/// ([0.5, 1.5], 7_u64, true).save(&mut bytes);
/// let (position, steps, running): ([f64; 2], u64, bool) = State::load(&mut bytes.as_slice())?;
/// assert_eq!((position, steps, running), ([0.5, 1.5], 7, true));
/// # Ok::<(), rlfast_envs::LoadError>(())
/// ```
pub trait State: Sized {
    /// Appends the value to `to`.
    fn save(&self, to: &mut Vec<u8>);

    /// Reads a value and removes it from the front of `from`.
    ///
    /// # Errors
    /// If `from` ends too early, or does not start with a valid value.
    fn load(from: &mut &[u8]) -> Result<Self, LoadError>;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl State for $type {
            fn save(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
                let (bytes, rest) = from.split_first_chunk().ok_or(LoadError::Short)?;
                *from = rest;
                Ok(Self::from_le_bytes(*bytes))
            }
        }
    )+};
}

numbers!(f32, f64, i8, i32, i64, u8, u32, u64, u128);

impl State for bool {
    fn save(&self, to: &mut Vec<u8>) {
        u8::from(*self).save(to);
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        match u8::load(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(LoadError::Invalid("a flag is neither 0 nor 1")),
        }
    }
}

impl<T: State + Copy + Default, const N: usize> State for [T; N] {
    fn save(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|value| value.save(to));
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::load(from)?;
        }
        Ok(values)
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: State),+> State for ($($name,)+) {
            #[expect(non_snake_case, reason = "a type parameter and its value share the name")]
            fn save(&self, to: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.save(to);)+
            }

            fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
                Ok(($($name::load(from)?,)+))
            }
        }
    )+};
}

tuples! { A B; A B C; A B C D; A B C D E; }

impl<T: State + Copy> State for Option<T> {
    fn save(&self, to: &mut Vec<u8>) {
        self.is_some().save(to);
        self.iter().for_each(|value| value.save(to));
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        bool::load(from)?.then(|| T::load(from)).transpose()
    }
}

impl State for Generator {
    fn save(&self, to: &mut Vec<u8>) {
        self.state().save(to);
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        Self::from_state(State::load(from)?).ok_or(LoadError::Invalid("a generator's increment is even"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Everything = ([f64; 2], (i64, u128, f32), Option<bool>, Generator, u8);

    fn everything() -> Everything {
        ([0.5, f64::MIN_POSITIVE], (-3, 1 << 100, -0.0), Some(true), Generator::new(4), 255)
    }

    #[test]
    fn values_round_trip_and_leave_the_rest() {
        let mut bytes = Vec::new();
        everything().save(&mut bytes);
        bytes.push(77);
        let mut from = bytes.as_slice();
        assert_eq!(Everything::load(&mut from), Ok(everything()));
        assert_eq!(from, [77]);
    }

    #[test]
    fn every_cut_is_noticed() {
        let mut bytes = Vec::new();
        everything().save(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Everything::load(&mut &bytes[..length]), Err(LoadError::Short), "{length} bytes");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        assert_eq!(bool::load(&mut &[2][..]).expect_err("2 is no flag").to_string(), INVALID_FLAG);
        assert!(matches!(Generator::load(&mut &[0; 33][..]), Err(LoadError::Invalid(_))));
    }

    const INVALID_FLAG: &str = "the saved state is not one of this environment: a flag is neither 0 nor 1";
}
