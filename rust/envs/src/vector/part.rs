//! A contiguous part of a step, which one thread runs.

use rlfast_core::simd::{self, Kernel};

use super::{Autoreset, Events, Output};
use crate::lanes::{flagged, padded};
use crate::{Env, LANES, Outcome};

/// The smallest number of environments for which [`Env::step_lanes`] is used; fewer are faster one after the other.
const WORTH_LANES: usize = 8;

/// A part of a step: environments, and the rows of output that they write.
pub(super) struct Part<'a, E: Env> {
    pub envs: &'a mut [E],
    /// Whether the next step of each environment resets it, because its episode has ended.
    pub over: &'a mut [bool],
    /// The number of the first of these environments.
    pub first_env: usize,
    /// The environment of each row; None if the rows are the environments in order.
    pub ids: Option<&'a [usize]>,
    /// The number of the first row.
    pub first_row: usize,
    pub actions: &'a [E::Action],
    pub output: Output<'a, &'a mut [E::Observation]>,
    /// The number of numbers in one environment's info.
    pub info_elements: usize,
}

impl<E: Env> Part<'_, E> {
    pub fn rows(&self) -> usize {
        self.output.rew.len()
    }

    /// Splits the part into the first `rows` rows with their environments, and the rest. `ids` must be in ascending order.
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

    /// Steps every row once. The actions have been checked.
    pub fn run(self, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let mut rest = self;
        while E::has_lanes() && rest.ids.is_none() && rest.rows() >= WORTH_LANES {
            let rows = rest.rows().min(LANES);
            let (lanes, later) = rest.split(rows);
            lanes.run_lanes(autoreset, events);
            rest = later;
        }
        if rest.rows() > 0 {
            rest.run_rows(autoreset, events);
        }
    }

    /// Steps at most [`LANES`] rows with [`Env::step_lanes`].
    fn run_lanes(self, autoreset: Autoreset, events: &mut Events<E::Observation>) {
        let Self { envs, over, first_row, actions, mut output, info_elements, .. } = self;
        simd::run(Lanes { envs: &mut *envs, actions, output: output.again() });
        let Output { obs, rew, terminated, truncated } = output;
        let elements = obs.len() / rew.len();
        let mut results = Results { rew, terminated, truncated };
        for row in flagged(padded(over.iter().map(|&over| over.into()))) {
            envs[row].reset(None, &mut obs[row * elements..][..elements]);
            over[row] = false;
            events.resets.push(first_row + row);
            results.put(row, ONLY_RESET);
        }
        for row in flagged(padded(results.terminated.iter().zip(&*results.truncated).map(|(end, cut)| end | cut))) {
            let obs = &mut obs[row * elements..][..elements];
            over[row] = end(autoreset, events, first_row + row, &mut envs[row], obs, info_elements);
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
}

/// The environments of at most [`LANES`] consecutive rows.
struct Lanes<'a, E: Env> {
    envs: &'a mut [E],
    actions: &'a [E::Action],
    output: Output<'a, &'a mut [E::Observation]>,
}

impl<E: Env> Kernel for Lanes<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        E::step_lanes(self.envs, |env| env, self.actions, self.output);
    }
}

const ONLY_RESET: Outcome = Outcome { reward: 0.0, terminated: false, truncated: false };

/// The columns of an output without the observations.
struct Results<'a> {
    rew: &'a mut [f64],
    terminated: &'a mut [u8],
    truncated: &'a mut [u8],
}

impl Results<'_> {
    /// Writes the result of a step; returns whether it ended the episode.
    #[inline]
    fn put(&mut self, row: usize, outcome: Outcome) -> bool {
        self.rew[row] = outcome.reward;
        self.terminated[row] = outcome.terminated.into();
        self.truncated[row] = outcome.truncated.into();
        outcome.terminated || outcome.truncated
    }
}

/// Handles the end of an episode, whose final observation is `obs`; returns whether the next step must reset `env`.
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
