//! Walks on a grid.

use std::sync::Arc;

use super::table::Table;
use crate::{Env, Episode, InfoField, LoadError, OptionsError, Outcome, Space, State, StepError};

/// A walk over the fields of a grid, in which each action leads to given fields with given probabilities. Clones share
/// one table of them.
///
/// An observation is the number of the field, counted row by row. `info` has `prob`, the probability of the last
/// transition.
#[derive(Clone, Debug)]
pub struct Grid {
    table: Arc<Table>,
    field: usize,
    probability: f64,
    episode: Episode,
}

impl Grid {
    /// Returns an environment that must be reset first.
    pub(super) fn new(table: Table) -> Self {
        Self { table: Arc::new(table), field: 0, probability: 1.0, episode: Episode::new() }
    }
}

/// Returns the neighbour of `[row, column]` in a direction of `[rows, columns]`, or the field itself at the edge of a
/// grid of `shape`.
pub(super) fn neighbour(from: [usize; 2], direction: [isize; 2], shape: [usize; 2]) -> [usize; 2] {
    std::array::from_fn(|i| from[i].saturating_add_signed(direction[i]).min(shape[i] - 1))
}

impl Env for Grid {
    type Observation = i64;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::discrete(self.table.states() as i64)
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.table.actions() as i64)
    }

    fn reset_with(&mut self, seed: Option<u64>, _options: &[f64], observation: &mut [i64]) -> Result<(), OptionsError> {
        self.field = self.table.start(self.episode.begin(seed));
        self.probability = 1.0;
        observation.copy_from_slice(&[self.field as i64]);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        let legal = matches!(action, &[action] if (0..self.table.actions() as i64).contains(&action));
        self.episode.check(action, legal, || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [i64]) -> Outcome {
        let branch = self.table.step(self.field, action[0] as usize, &mut self.episode.generator);
        self.field = branch.state;
        self.probability = branch.probability;
        self.episode.running = !branch.terminated;
        observation.copy_from_slice(&[self.field as i64]);
        Outcome { reward: branch.reward, terminated: branch.terminated, truncated: false }
    }

    fn info_fields(&self) -> Vec<InfoField> {
        vec![InfoField::scalar::<f64>("prob")]
    }

    fn info(&self, info: &mut [f64]) {
        info.copy_from_slice(&[self.probability]);
    }

    fn save(&self, to: &mut Vec<u8>) {
        (self.field as u64, self.probability).save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ((field, probability), episode): ((u64, _), _) = State::load(from)?;
        if field >= self.table.states() as u64 {
            return Err(LoadError::Invalid("it stands beside the grid"));
        }
        *self = Self { table: Arc::clone(&self.table), field: field as usize, probability, episode };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_stop_at_the_edge() {
        let shape = [2, 3];
        assert_eq!(neighbour([0, 1], [1, 0], shape), [1, 1]);
        assert_eq!(neighbour([0, 1], [0, 1], shape), [0, 2]);
        assert_eq!(neighbour([0, 2], [0, 1], shape), [0, 2]);
        assert_eq!(neighbour([1, 2], [1, 0], shape), [1, 2]);
        assert_eq!(neighbour([0, 0], [-1, 0], shape), [0, 0]);
        assert_eq!(neighbour([0, 0], [0, -1], shape), [0, 0]);
    }
}
