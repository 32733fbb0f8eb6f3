//! Errors of vectors of environments.

use crate::{LoadError, OptionsError, StepError};

/// Why a call failed. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VectorError {
    /// There is no environment with this number.
    #[error("there is no environment {id}, the last is {last}")]
    Unknown {
        /// The number that was given.
        id: usize,
        /// The largest number of an environment.
        last: usize,
    },
    /// The number of an environment was given twice.
    #[error("environment {id} was named twice")]
    Twice {
        /// The number.
        id: usize,
    },
    /// The length of a slice does not fit the number of environments.
    #[error("seeds, actions and outputs must have {rows} rows, one for each environment asked")]
    Lengths {
        /// The number of environments in the call.
        rows: usize,
    },
    /// The type of the values is not that of the environments.
    #[error("values are not of the environments' type")]
    Type,
    /// The number of values is not the number of options of a reset.
    #[error("a reset takes {wanted} options, got {got}")]
    OptionCount {
        /// What was given.
        got: usize,
        /// How many there are.
        wanted: usize,
    },
    /// The options of a reset are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// An environment cannot be stepped.
    #[error("environment {id}: {error}")]
    Step {
        /// Its number.
        id: usize,
        /// Its reason.
        error: StepError,
    },
    /// An environment cannot restore a saved state.
    #[error("environment {id}: {error}")]
    Load {
        /// Its number.
        id: usize,
        /// Its reason.
        error: LoadError,
    },
}
