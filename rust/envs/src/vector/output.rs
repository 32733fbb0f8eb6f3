//! The results of a step: the memory that it fills, and the resets that it made.

use crate::Env;

/// The memory that a step fills, with one row for each of the `K` environments that are stepped. `V` is `&mut [Observation]`, or
/// [`ValuesMut`](super::ValuesMut) if the type is hidden.
#[derive(Debug)]
pub struct Output<'a, V> {
    /// Observations: `K` rows with the elements of one observation.
    pub obs: V,
    /// `K` rewards.
    pub rew: &'a mut [f64],
    /// `K` flags: 1 where the episode terminated, otherwise 0.
    pub terminated: &'a mut [u8],
    /// `K` flags: 1 where the episode was truncated, otherwise 0.
    pub truncated: &'a mut [u8],
}

impl<O> Output<'_, &mut [O]> {
    /// Returns whether all slices have exactly `rows` rows, with observations of `elements` elements.
    pub(super) fn holds(&self, rows: usize, elements: usize) -> bool {
        let columns = [self.rew.len(), self.terminated.len(), self.truncated.len()];
        self.obs.len() == rows * elements && columns == [rows; 3]
    }

    /// Borrows the same memory for a shorter time.
    pub fn again(&mut self) -> Output<'_, &mut [O]> {
        Output { obs: self.obs, rew: self.rew, terminated: self.terminated, truncated: self.truncated }
    }

    /// Splits the memory into the first `rows` rows and the rest.
    pub(super) fn split(self, rows: usize) -> (Self, Self) {
        let elements = self.obs.len() / self.rew.len();
        let (obs, later_obs) = self.obs.split_at_mut(rows * elements);
        let (rew, later_rew) = self.rew.split_at_mut(rows);
        let (terminated, later_terminated) = self.terminated.split_at_mut(rows);
        let (truncated, later_truncated) = self.truncated.split_at_mut(rows);
        let later = Self { obs: later_obs, rew: later_rew, terminated: later_terminated, truncated: later_truncated };
        (Self { obs, rew, terminated, truncated }, later)
    }
}

/// The resets that a step made; most steps make none. Row numbers are in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Events<O> {
    /// Rows in which an environment was only reset ([`NextStep`](super::Autoreset::NextStep)), so that they are not transitions.
    pub resets: Vec<usize>,
    /// Rows whose episode ended and whose observation is the first of the next ([`SameStep`](super::Autoreset::SameStep)).
    pub ended: Vec<usize>,
    /// The final observations of `ended`, one after the other.
    pub final_obs: Vec<O>,
    /// The final infos of `ended`, one after the other.
    pub final_info: Vec<f64>,
}

impl<O> Default for Events<O> {
    fn default() -> Self {
        Self { resets: Vec::new(), ended: Vec::new(), final_obs: Vec::new(), final_info: Vec::new() }
    }
}

impl<O> Events<O> {
    pub(super) fn clear(&mut self) {
        self.resets.clear();
        self.ended.clear();
        self.final_obs.clear();
        self.final_info.clear();
    }

    /// Stores that the episode of `row` ended with the observation `obs` and the info of `env`.
    pub(super) fn end(&mut self, row: usize, obs: &[O], env: &impl Env, info_elements: usize)
    where
        O: Copy,
    {
        self.ended.push(row);
        self.final_obs.extend_from_slice(obs);
        let told = self.final_info.len();
        self.final_info.resize(told + info_elements, 0.0);
        env.info(&mut self.final_info[told..]);
    }

    pub(super) fn append(&mut self, mut later: Self) {
        self.resets.append(&mut later.resets);
        self.ended.append(&mut later.ended);
        self.final_obs.append(&mut later.final_obs);
        self.final_info.append(&mut later.final_info);
    }
}
