//! What every environment keeps beside its task.

use rlfast_core::rng::numpy::Generator;

use crate::{Element, LoadError, Space, State, StepError};

/// The random stream of an environment, and whether an episode is running.
#[derive(Clone, Debug)]
pub struct Episode {
    /// Where everything random comes from: apart, as most steps draw nothing and the rest of an environment is short.
    pub generator: Box<Generator>,
    /// Whether there was a reset, and no end since.
    pub running: bool,
}

impl Episode {
    /// No episode yet; the stream of seed 0.
    pub fn new() -> Self {
        Self { generator: Box::new(Generator::new(0)), running: false }
    }

    /// Begins an episode, with a seed on a fresh stream, and hands out the stream to draw the first state from.
    pub fn begin(&mut self, seed: Option<u64>) -> &mut Generator {
        if let Some(seed) = seed {
            *self.generator = Generator::new(seed.into());
        }
        self.running = true;
        &mut self.generator
    }

    /// The answer of [`Env::check`](crate::Env::check) to an `action` that is `legal` or not.
    ///
    /// # Errors
    /// If no episode is running, or the action is illegal in `space`.
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
