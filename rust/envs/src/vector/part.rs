//! A contiguous share of a step: what one thread does at a time.

use super::{Autoreset, Events, Output};
use crate::{Env, LANES, Lane, Outcome};

/// Environments, and the rows that they write.
pub(super) struct Part<'a, E: Env> {
    pub envs: &'a mut [E],
    /// Whose episode ended, so that the next step resets them.
    pub over: &'a mut [bool],
    /// Number of the first of these environments.
    pub first_env: usize,
    /// The environment of each row; None: one after the other.
    pub ids: Option<&'a [usize]>,
    /// Number of the first row.
    pub first_row: usize,
    pub actions: &'a [E::Action],
    pub output: Output<'a, &'a mut [E::Observation]>,
    /// Numbers in one environment's info.
    pub info_elements: usize,
}

impl<E: Env> Part<'_, E> {
    pub fn rows(&self) -> usize {
        self.output.rew.len()
    }

    /// The first `rows` rows with their environments, and the rest. `ids` must rise.
    pub fn split(self, rows: usize) -> (Self, Self) {
        let lanes = match self.ids {
            None => rows,
            Some(ids) => ids.get(rows).map_or(self.envs.len(), |&id| id - self.first_env),
        };
        let action_elements = self.actions.len() / self.rows();
        let (envs, later_envs) = self.envs.split_at_mut(lanes);
        let (over, later_over) = self.over.split_at_mut(lanes);
        let (actions, later_actions) = self.actions.split_at(rows * action_elements);
        let (output, later_output) = self.output.split(rows);
        let (ids, later_ids) = self.ids.map(|ids| ids.split_at(rows)).unzip();
        let later = Self {
            envs: later_envs,
            over: later_over,
            first_env: self.first_env + lanes,
            ids: later_ids,
            first_row: self.first_row + rows,
            actions: later_actions,
            output: later_output,
            ..self
        };
        (Self { envs, over, ids, actions, output, ..self }, later)
    }

    /// Steps every row once. Its action was checked.
    pub fn run(self, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        if E::has_lanes() && self.ids.is_none() && self.rows() >= LANES {
            self.run_lanes(autoreset, events);
        } else {
            self.run_rows(autoreset, events);
        }
    }

    fn run_rows(self, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let (rows, first) = (self.rows(), self.first_row);
        let Output { obs, rew, terminated, truncated } = self.output;
        let observations = obs.chunks_exact_mut(obs.len() / rows);
        let actions = self.actions.chunks_exact(self.actions.len() / rows);
        let mut results = Results { rew, terminated, truncated };
        for (row, (obs, action)) in observations.zip(actions).enumerate() {
            let lane = self.ids.map_or(row, |ids| ids[row] - self.first_env);
            let (env, over) = (&mut self.envs[lane], &mut self.over[lane]);
            if *over {
                env.reset(None, obs);
                *over = false;
                events.resets.push(first + row);
                results.put(row, ONLY_RESET);
                continue;
            }
            let outcome = env.step(action, obs);
            if results.put(row, outcome) {
                *over = end(autoreset, events, first + row, env, obs, self.info_elements);
            }
        }
    }

    /// Likewise, [`LANES`] environments at a time.
    fn run_lanes(self, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let (rows, first, info_elements) = (self.rows(), self.first_row, self.info_elements);
        let Output { obs, rew, terminated, truncated } = self.output;
        let observations = obs.chunks_exact_mut(obs.len() / rows);
        let actions = self.actions.chunks_exact(self.actions.len() / rows);
        let (mut results, over) = (Results { rew, terminated, truncated }, self.over);
        let (mut lanes, mut numbers) = (Vec::with_capacity(LANES), [0; LANES]);
        for (row, ((env, observation), action)) in self.envs.iter_mut().zip(observations).zip(actions).enumerate() {
            if over[row] {
                env.reset(None, observation);
                over[row] = false;
                events.resets.push(first + row);
                results.put(row, ONLY_RESET);
                continue;
            }
            numbers[lanes.len()] = row;
            lanes.push(Lane { env, action, observation });
            let Ok(full) = <&mut [Lane<'_, E>; LANES]>::try_from(lanes.as_mut_slice()) else { continue };
            let mut outcomes = [ONLY_RESET; LANES];
            E::step_lanes(full, Lane::again, &mut outcomes);
            for ((lane, row), outcome) in full.iter_mut().zip(numbers).zip(outcomes) {
                if results.put(row, outcome) {
                    over[row] = end(autoreset, events, first + row, lane.env, lane.observation, info_elements);
                }
            }
            lanes.clear();
        }
        for (Lane { env, action, observation }, row) in lanes.into_iter().zip(numbers) {
            let outcome = env.step(action, observation);
            if results.put(row, outcome) {
                over[row] = end(autoreset, events, first + row, env, observation, info_elements);
            }
        }
    }
}

const ONLY_RESET: Outcome = Outcome { reward: 0.0, terminated: false, truncated: false };

/// The columns of an output beside the observations.
struct Results<'a> {
    rew: &'a mut [f64],
    terminated: &'a mut [u8],
    truncated: &'a mut [u8],
}

impl Results<'_> {
    /// Writes what came of a step; whether it ended the episode.
    #[inline]
    fn put(&mut self, row: usize, outcome: Outcome) -> bool {
        self.rew[row] = outcome.reward;
        self.terminated[row] = outcome.terminated.into();
        self.truncated[row] = outcome.truncated.into();
        outcome.terminated || outcome.truncated
    }
}

/// What follows an episode that ended with the observation `obs`; whether the next step is to reset `env`.
fn end<E: Env>(
    autoreset: Autoreset,
    events: &mut Events<E::Observation>,
    row: usize,
    env: &mut E,
    obs: &mut [E::Observation],
    info_elements: usize,
) -> bool {
    match autoreset {
        Autoreset::Disabled => false,
        Autoreset::NextStep => true,
        Autoreset::SameStep => {
            events.end(row, obs, env, info_elements);
            env.reset(None, obs);
            false
        }
    }
}
