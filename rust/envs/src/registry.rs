//! Makes environments by Gymnasium's ids and with Gymnasium's arguments.
//!
//! ```
//! use rlfast_envs::registry::{self, Arguments, Limit};
//! use rlfast_envs::vector::Autoreset;
//! let arguments = Arguments::from_iter([("sutton_barto_reward".to_owned(), true.into())]);
//! let vector = registry::find("CartPole-v1")?.make(8, Autoreset::NextStep, Limit::Registered, arguments)?;
//! assert_eq!(vector.num_envs(), 8);
//! # Ok::<(), registry::RegistryError>(())
//! ```

mod arguments;
mod table;

pub use arguments::{Argument, Arguments};

use rlfast_core::vectors::filled;

use crate::Env;
use crate::vector::{AnyVector, Autoreset, Erase, Vector};
use crate::wrapper::TimeLimit;

/// Why an environment cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegistryError {
    /// No environment has this id.
    #[error("there is no native environment {id}, only {known}")]
    Id {
        /// What was given.
        id: String,
        /// All ids.
        known: String,
    },
    /// The environment does not accept this argument.
    #[error("{id} takes no argument {name}, only {known}")]
    Name {
        /// The environment.
        id: String,
        /// What was given.
        name: String,
        /// The arguments it takes.
        known: String,
    },
    /// An argument has an invalid value.
    #[error("{name} must be {wanted}, got {got}")]
    Argument {
        /// The argument.
        name: String,
        /// Its value.
        got: String,
        /// What it may be.
        wanted: String,
    },
    /// There is not enough memory for this number of environments.
    #[error("{0} environments do not fit into memory: {1}")]
    Memory(usize, String),
    /// The environment cannot be made with these arguments.
    #[error("{0}")]
    Refused(String),
}

/// A vector, or the reason why its environments cannot be made.
pub type Made = Result<Box<dyn AnyVector>, RegistryError>;

/// The number of steps after which episodes are truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The limit in Gymnasium's registration of the environment.
    Registered,
    /// Episodes are never truncated.
    None,
    /// This number of steps, at least 1.
    Steps(u64),
}

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The id, as in Gymnasium's registry.
    pub id: &'static str,
    /// The default number of steps after which episodes are truncated.
    pub max_episode_steps: Option<u64>,
    make: fn(&mut Arguments, &Build) -> Made,
}

/// Finds the environment with Gymnasium's id `id`.
///
/// # Errors
/// If no environment has this id.
pub fn find(id: &str) -> Result<&'static Entry, RegistryError> {
    table::ENTRIES.iter().find(|entry| entry.id == id).ok_or_else(|| {
        let known = entries().map(|entry| entry.id).collect::<Vec<_>>().join(", ");
        RegistryError::Id { id: id.to_owned(), known }
    })
}

/// Returns all entries of the registry.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    table::ENTRIES.iter()
}

impl Entry {
    /// Makes `num_envs` of these environments; they must be reset first.
    ///
    /// # Errors
    /// If an argument is unknown or has an invalid value, or there is not enough memory.
    ///
    /// # Panics
    /// If `num_envs` or the limit is 0.
    pub fn make(&self, num_envs: usize, autoreset: Autoreset, limit: Limit, mut arguments: Arguments) -> Made {
        let limit = match limit {
            Limit::Registered => self.max_episode_steps,
            Limit::None => None,
            Limit::Steps(steps) => Some(steps),
        };
        let made = (self.make)(&mut arguments, &Build { num_envs, autoreset, limit })?;
        arguments.finish(self.id)?;
        Ok(made)
    }
}

/// The parameters with which all environments are made.
#[derive(Debug)]
struct Build {
    num_envs: usize,
    autoreset: Autoreset,
    limit: Option<u64>,
}

impl Build {
    /// Makes copies of `env`, each with the time limit.
    fn vector<E>(&self, env: E) -> Made
    where
        E: Env<Observation: Erase, Action: Erase> + Clone + 'static,
    {
        let env = TimeLimit::new(env, self.limit.unwrap_or(u64::MAX));
        let envs = filled(env, self.num_envs);
        let envs = envs.map_err(|error| RegistryError::Memory(self.num_envs, error.to_string()))?;
        Ok(Box::new(Vector::new(envs, self.autoreset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_resets_with_its_defaults() {
        for entry in entries() {
            let vector = entry.make(2, Autoreset::SameStep, Limit::Registered, Arguments::default());
            let vector = vector.expect("defaults are allowed");
            assert_eq!((vector.num_envs(), vector.autoreset()), (2, Autoreset::SameStep), "{}", entry.id);
        }
    }

    #[test]
    fn unknown_ids_are_told_with_the_known() {
        let error = find("CartPole").expect_err("versions belong to ids").to_string();
        assert!(
            error.starts_with("there is no native environment CartPole, only CartPole-v0, CartPole-v1, "),
            "{error}"
        );
    }
}
