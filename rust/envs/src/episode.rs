//! The state that all environments have in common.

use rlfast_core::rng::numpy::Generator;

use crate::{Element, LoadError, Space, State, StepError};

/// The random stream of an environment, and whether an episode is running.
#[derive(Clone, Debug)]
pub struct Episode {
    /// The random stream; in a box, because most steps do not use it and the rest of an environment is small.
    pub generator: Box<Generator>,
    /// Whether an episode is running: the environment was reset, and the episode has not ended.
    pub running: bool,
}

impl Episode {
    /// Makes a state without a running episode, with the random stream of seed 0.
    pub fn new() -> Self {
        Self { generator: Box::new(Generator::new(0)), running: false }
    }

    /// Starts an episode. A seed restarts the random stream.
    ///
    /// Returns the stream, from which the first state is drawn.
    pub fn begin(&mut self, seed: Option<u64>) -> &mut Generator {
        if let Some(seed) = seed {
            *self.generator = Generator::new(seed.into());
        }
        self.running = true;
        &mut self.generator
    }

    /// Implements [`Env::check`](crate::Env::check) for an `action`, which is `legal` or not.
    ///
    /// # Errors
    /// If no episode is running, or the action is not legal; the error names `space`.
    #[inline]
    pub fn check<A: Element>(&self, action: &[A], legal: bool, space: impl FnOnce() -> Space) -> Result<(), StepError> {
        match (self.running, legal) {
            (true, true) => Ok(()),
            (false, _) => Err(StepError::NeedsReset),
            (true, false) => Err(StepError::action(action, &space())),
        }
    }
}

impl Default for Episode {
    fn default() -> Self {
        Self::new()
    }
}

impl State for Episode {
    fn save(&self, to: &mut Vec<u8>) {
        self.generator.save(to);
        self.running.save(to);
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        Ok(Self { generator: Box::new(State::load(from)?), running: State::load(from)? })
    }
}
