//! A contiguous share of a step: what one thread does at a time.

use super::{Autoreset, Events, Output};
use crate::{Env, Outcome};

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
        let rows = self.rows();
        let Output { obs, rew, terminated, truncated } = self.output;
        let observations = obs.chunks_exact_mut(obs.len() / rows);
        let actions = self.actions.chunks_exact(self.actions.len() / rows);
        let results = rew.iter_mut().zip(terminated).zip(truncated);
        for (row, ((obs, action), ((rew, terminated), truncated))) in observations.zip(actions).zip(results).enumerate()
        {
            let lane = self.ids.map_or(row, |ids| ids[row] - self.first_env);
            let (env, over) = (&mut self.envs[lane], &mut self.over[lane]);
            let outcome = if *over {
                env.reset(None, obs);
                *over = false;
                events.resets.push(self.first_row + row);
                Outcome { reward: 0.0, terminated: false, truncated: false }
            } else {
                env.step(action, obs)
            };
            (*rew, *terminated, *truncated) = (outcome.reward, outcome.terminated.into(), outcome.truncated.into());
            if !(outcome.terminated || outcome.truncated) {
                continue;
            }
            match autoreset {
                Autoreset::Disabled => {}
                Autoreset::NextStep => *over = true,
                Autoreset::SameStep => {
                    events.end(self.first_row + row, obs, env, self.info_elements);
                    env.reset(None, obs);
                }
            }
        }
    }
}
