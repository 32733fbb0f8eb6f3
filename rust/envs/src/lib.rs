//! Reinforcement-learning environments in Rust, which behave like Gymnasium's environments of the same names.
//!
//! An [`Env`] writes its observation into memory of the caller, so that many environments fill one batch without a copy.
//!
//! ```
//! use rlfast_envs::{Env as _, classic::CartPole, wrapper::TimeLimit};
//! let mut env = TimeLimit::new(CartPole::default(), 500);
//! let mut observation = [0.0_f32; 4];
//! env.reset(Some(42), &mut observation);
//! env.check(&[1])?;
//! let outcome = env.step(&[1], &mut observation);
//! assert_eq!((outcome.reward, outcome.terminated, outcome.truncated), (1.0, false, false));
//! # Ok::<(), rlfast_envs::StepError>(())
//! ```

pub mod arcade;
pub mod classic;
pub mod collect;
mod element;
mod env;
mod episode;
pub mod frames;
mod lanes;
mod math;
mod options;
#[cfg(unix)]
pub mod process;
pub mod registry;
pub mod requests;
mod space;
mod state;
#[cfg(test)]
mod testing;
pub mod toy_text;
pub mod vector;
pub mod wrapper;

pub use element::{DType, Element};
pub use env::{Env, InfoField, LANES, Outcome, StepError};
pub use episode::Episode;
pub use options::{OptionsError, ResetOption};
pub use rlfast_core::rng::numpy::Generator;
pub use space::Space;
pub use state::{LoadError, State};
