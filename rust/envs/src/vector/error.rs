//! Why a vector of environments cannot do what it was asked.

use crate::{LoadError, OptionsError, StepError};

/// Raised before anything has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VectorError {
    /// A number that no environment has.
    #[error("there is no environment {id}, the last is {last}")]
    Unknown {
        /// What was given.
        id: usize,
        /// The greatest number.
        last: usize,
    },
    /// A number that was given twice.
    #[error("environment {id} was named twice")]
    Twice {
        /// That number.
        id: usize,
    },
    /// Slices that are not as long as the environments asked want them.
    #[error("seeds, actions and outputs must have {rows} rows, one for each environment asked")]
    Lengths {
        /// Environments asked.
        rows: usize,
    },
    /// Values of a type that is not the environments'.
    #[error("values are not of the environments' type")]
    Type,
    /// Fewer or more values than a reset has options.
    #[error("a reset takes {wanted} options, got {got}")]
    OptionCount {
        /// What was given.
        got: usize,
        /// How many there are.
        wanted: usize,
    },
    /// Environments cannot start like that.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// An environment cannot step.
    #[error("environment {id}: {error}")]
    Step {
        /// Its number.
        id: usize,
        /// Its reason.
        error: StepError,
    },
    /// An environment cannot continue from a saved state.
    #[error("environment {id}: {error}")]
    Load {
        /// Its number.
        id: usize,
        /// Its reason.
        error: LoadError,
    },
}
