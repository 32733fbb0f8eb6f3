//! What other languages ask of vectors of environments, with arguments that come from outside checked.

use rlfast_core::error::{Error, Result};
use rlfast_core::vectors::{collected, with_room};

use crate::registry::{self, Arguments, Limit, RegistryError};
use crate::vector::{AnyVector, Autoreset, Output, OwnedValues, Values, ValuesMut, VectorError};
use crate::{InfoField, ResetOption, Space, StepError};

/// The resets of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Resets {
    /// Rows whose environments were only reset.
    Only(Vec<i64>),
    /// Rows whose environments were reset after the step, with their final observations and infos.
    Ended(Vec<i64>, OwnedValues, Vec<f64>),
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

/// The description of a space in JSON: a list of its kind, and the arguments that make it. Bounds may be infinite.
fn described(space: &Space) -> String {
    let bound = |bound: &f64| format!("{bound:?}").replace("inf", "Infinity");
    let bounds = |bounds: &[f64]| bounds.iter().map(bound).collect::<Vec<_>>().join(", ");
    match space {
        Space::Discrete { n, start } => format!(r#"["discrete", {n}, {start}]"#),
        Space::MultiDiscrete { counts } => format!(r#"["multi_discrete", {counts:?}]"#),
        Space::Box { low, high, shape, dtype } => {
            format!(r#"["box", [{}], [{}], {shape:?}, "{}"]"#, bounds(low), bounds(high), dtype.name())
        }
        Space::Tuple(spaces) => {
            let spaces: Vec<_> = spaces.iter().map(described).collect();
            format!(r#"["tuple", [{}]]"#, spaces.join(", "))
        }
    }
}

impl dyn AnyVector {
    /// Describes one environment in JSON: the spaces of its observations and actions, the name, dtype and shape of each entry of its
    /// infos, and the name and default of each option of a reset.
    #[must_use]
    pub fn description(&self) -> String {
        let (observation, action) = (described(&self.observation_space()), described(&self.action_space()));
        let info = |field: InfoField| format!(r#"["{}", "{}", {:?}]"#, field.name, field.dtype.name(), field.shape);
        let infos: Vec<_> = self.info_fields().into_iter().map(info).collect();
        let option = |option: &ResetOption| format!(r#"["{}", {:?}]"#, option.name, option.default);
        let options: Vec<_> = self.reset_options().iter().map(option).collect();
        format!(
            r#"{{"observation": {observation}, "action": {action}, "infos": [{}], "options": [{}]}}"#,
            infos.join(", "),
            options.join(", ")
        )
    }

    /// Begins episodes as `reset` does, and writes `infos` if there are any.
    ///
    /// # Errors
    /// As `reset` and [`ids`].
    pub fn reset_with_infos(
        &mut self,
        numbers: Option<&[i64]>,
        seeds: &[Option<u64>],
        options: Option<&[f64]>,
        obs: ValuesMut<'_>,
        infos: Option<&mut [f64]>,
    ) -> Result<()> {
        let known = numbers.map(ids).transpose()?;
        self.reset(known.as_deref(), seeds, options, obs)?;
        Ok(infos.map_or(Ok(()), |infos| self.info(known.as_deref(), infos))?)
    }

    /// Steps as `step` does, writes `infos` if there are any, and returns the resets, if there were any.
    ///
    /// # Errors
    /// As `step` and [`ids`].
    pub fn step_with_infos(
        &mut self,
        numbers: Option<&[i64]>,
        actions: Values<'_>,
        output: Output<'_, ValuesMut<'_>>,
        infos: Option<&mut [f64]>,
    ) -> Result<Option<Resets>> {
        let known = numbers.map(ids).transpose()?;
        self.step(known.as_deref(), actions, output)?;
        infos.map_or(Ok(()), |infos| self.info(known.as_deref(), infos))?;
        let rows = |rows: &[usize]| collected(rows.iter().map(|&row| row as i64));
        if !self.resets().is_empty() {
            return Ok(Some(Resets::Only(rows(self.resets())?)));
        }
        if self.ended().is_empty() {
            return Ok(None);
        }
        let (final_obs, final_info) = (self.final_obs().to_owned(), self.final_info().to_vec());
        Ok(Some(Resets::Ended(rows(self.ended())?, final_obs, final_info)))
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
    fn an_environment_is_described_in_json() {
        let text = |id| made(id, 1, "NextStep", None).unwrap().description();
        let wanted = r#"{"observation": ["tuple", [["discrete", 32, 0], ["discrete", 11, 0], ["discrete", 2, 0]]], "#;
        assert!(text("Blackjack-v1").starts_with(wanted), "{}", text("Blackjack-v1"));
        let wanted = r#""action": ["discrete", 2, 0], "infos": [], "options": [["low", -0.05], ["high", 0.05]]}"#;
        assert!(text("CartPole-v1").ends_with(wanted), "{}", text("CartPole-v1"));
        let counts = Space::MultiDiscrete { counts: vec![2, 3] };
        assert_eq!(described(&counts), r#"["multi_discrete", [2, 3]]"#);
        let unbounded = Space::vector::<f32>(&[f64::NEG_INFINITY, 0.5], &[f64::INFINITY, 1e300]);
        let wanted = r#"["box", [-Infinity, 0.5], [Infinity, 1e300], [2], "float32"]"#;
        assert_eq!(described(&unbounded), wanted);
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
