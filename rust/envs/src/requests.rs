//! What other languages ask of vectors of environments, with arguments that come from outside checked.

use rlfast_core::error::{Error, Result};
use rlfast_core::vectors::with_room;

use crate::StepError;
use crate::registry::{self, Arguments, Limit, RegistryError};
use crate::vector::{AnyVector, Autoreset, Output, OwnedValues, Values, ValuesMut, VectorError};

/// The resets of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Resets {
    /// Rows whose environments were only reset.
    Only(Vec<usize>),
    /// Rows whose environments were reset after the step, with their final observations and infos.
    Ended(Vec<usize>, OwnedValues, Vec<f64>),
}

/// Makes `num_envs` environments with Gymnasium's id `id`.
///
/// `autoreset` is the name of a mode; `max_episode_steps` is None for the registered limit and -1 for no limit.
///
/// # Errors
/// `Value` or `Type` for arguments that the environments do not take, and an error of memory where there is not enough.
pub fn make(
    id: &str,
    num_envs: i64,
    autoreset: &str,
    max_episode_steps: Option<i64>,
    arguments: Arguments,
) -> Result<Box<dyn AnyVector>> {
    let positive = |number: i64| u64::try_from(number).ok().filter(|&number| number > 0);
    let Some(count) = positive(num_envs) else {
        return Err(Error::Value(format!("a vector environment needs at least one environment, got {num_envs}")));
    };
    let autoreset = match autoreset {
        "Disabled" => Autoreset::Disabled,
        "NextStep" => Autoreset::NextStep,
        "SameStep" => Autoreset::SameStep,
        name => return Err(Error::Value(format!("autoreset must be Disabled, NextStep or SameStep, got {name}"))),
    };
    let limit = match max_episode_steps {
        None => Limit::Registered,
        Some(-1) => Limit::None,
        Some(steps) => Limit::Steps(positive(steps).ok_or_else(|| {
            Error::Value(format!("max_episode_steps must be positive, or -1 for no limit, got {steps}"))
        })?),
    };
    Ok(registry::find(id)?.make(count as usize, autoreset, limit, arguments)?)
}

/// The environments with these numbers.
///
/// # Errors
/// `Index` for a negative number, `Room`.
pub fn ids(numbers: &[i64]) -> Result<Vec<usize>> {
    let mut ids = with_room(numbers.len())?;
    for &id in numbers {
        ids.push(usize::try_from(id).map_err(|_| Error::Index(format!("there is no environment {id}")))?);
    }
    Ok(ids)
}

impl dyn AnyVector {
    /// Begins episodes as `reset` does, and writes `infos` if there are any.
    ///
    /// # Errors
    /// As `reset`.
    pub fn reset_with_infos(
        &mut self,
        ids: Option<&[usize]>,
        seeds: &[Option<u64>],
        options: Option<&[f64]>,
        obs: ValuesMut<'_>,
        infos: Option<&mut [f64]>,
    ) -> Result<()> {
        self.reset(ids, seeds, options, obs)?;
        Ok(infos.map_or(Ok(()), |infos| self.info(ids, infos))?)
    }

    /// Steps as `step` does, writes `infos` if there are any, and returns the resets, if there were any.
    ///
    /// # Errors
    /// As `step`.
    pub fn step_with_infos(
        &mut self,
        ids: Option<&[usize]>,
        actions: Values<'_>,
        output: Output<'_, ValuesMut<'_>>,
        infos: Option<&mut [f64]>,
    ) -> Result<Option<Resets>> {
        self.step(ids, actions, output)?;
        infos.map_or(Ok(()), |infos| self.info(ids, infos))?;
        if !self.resets().is_empty() {
            return Ok(Some(Resets::Only(self.resets().to_vec())));
        }
        let ended = self.ended();
        let resets = || Resets::Ended(ended.to_vec(), self.final_obs().to_owned(), self.final_info().to_vec());
        Ok((!ended.is_empty()).then(resets))
    }
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Self {
        let text = error.to_string();
        match error {
            RegistryError::Memory(..) => {
                let source = std::io::ErrorKind::OutOfMemory.into();
                Self::Io { context: text, source }
            }
            RegistryError::Name { .. } => Self::Type(text),
            RegistryError::Id { .. } | RegistryError::Argument { .. } | RegistryError::Refused(_) => Self::Value(text),
        }
    }
}

impl From<VectorError> for Error {
    fn from(error: VectorError) -> Self {
        let text = error.to_string();
        match error {
            VectorError::Unknown { .. } | VectorError::Twice { .. } => Self::Index(text),
            VectorError::Step { error: StepError::NeedsReset, .. } => Self::Process(text),
            VectorError::Type => Self::Type(text),
            VectorError::Lengths { .. }
            | VectorError::OptionCount { .. }
            | VectorError::Options(_)
            | VectorError::Step { .. }
            | VectorError::Load { .. } => Self::Value(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(id: &str, num_envs: i64, autoreset: &str, steps: Option<i64>) -> Result<Box<dyn AnyVector>> {
        make(id, num_envs, autoreset, steps, Arguments::default())
    }

    #[test]
    fn arguments_from_outside_are_checked() {
        assert_eq!(made("CartPole-v1", 3, "NextStep", None).unwrap().num_envs(), 3);
        for (id, num_envs, autoreset, steps, wanted) in [
            ("CartPole", 1, "NextStep", None, "there is no native environment CartPole"),
            ("CartPole-v1", 0, "NextStep", None, "at least one environment, got 0"),
            ("CartPole-v1", -1, "NextStep", None, "at least one environment, got -1"),
            ("CartPole-v1", 1, "Never", None, "autoreset must be Disabled, NextStep or SameStep, got Never"),
            ("CartPole-v1", 1, "NextStep", Some(0), "max_episode_steps must be positive, or -1 for no limit, got 0"),
        ] {
            let error = made(id, num_envs, autoreset, steps).map(drop).unwrap_err();
            assert!(matches!(error, Error::Value(_)) && error.to_string().contains(wanted), "{error}");
        }
        assert_eq!(ids(&[2, 0]).unwrap(), [2, 0]);
        assert_eq!(ids(&[0, -1]).unwrap_err().to_string(), "there is no environment -1");
    }

    #[test]
    fn a_step_tells_of_the_resets_that_it_made() {
        for (mode, steps) in [("SameStep", 1), ("NextStep", 2)] {
            let mut vector = made("CartPole-v1", 2, mode, Some(1)).unwrap();
            let mut obs = [0.0_f32; 8];
            vector.reset_with_infos(None, &[Some(0), Some(1)], None, ValuesMut::Float32(&mut obs), None).unwrap();
            let mut found = None;
            for _ in 0..steps {
                let (mut rew, mut ends, mut cuts) = ([0.0; 2], [0; 2], [0; 2]);
                let obs = ValuesMut::Float32(&mut obs);
                let output = Output { obs, rew: &mut rew, terminated: &mut ends, truncated: &mut cuts };
                found = vector.step_with_infos(None, Values::Int64(&[0, 1]), output, None).unwrap();
            }
            match found.unwrap() {
                Resets::Only(rows) => assert_eq!((mode, rows), ("NextStep", vec![0, 1])),
                Resets::Ended(rows, OwnedValues::Float32(last), infos) => {
                    assert_eq!((mode, rows, last.len(), infos.len()), ("SameStep", vec![0, 1], 8, 0));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
