//! Transition tables of finite Markov decision processes.

use rlfast_core::rng::numpy::Generator;

/// One possible transition of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Branch {
    /// Its probability.
    pub probability: f64,
    /// The next state.
    pub state: usize,
    /// The reward.
    pub reward: f64,
    /// Whether it terminates the episode.
    pub terminated: bool,
}

/// Returns the index of the first cumulative probability above a uniform `draw`, or 0 if rounding has left the last sum
/// below it. `numpy.cumsum` adds in the same order.
fn pick(probabilities: impl Iterator<Item = f64>, draw: f64) -> usize {
    let mut sum = 0.0;
    let mut sums = probabilities.map(|probability| {
        sum += probability;
        sum
    });
    sums.position(|sum| sum > draw).unwrap_or(0)
}

/// The distribution of first states, and the transitions of every state and action.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    actions: usize,
    start: Vec<f64>,
    branches: Vec<Branch>,
    /// The branches of action `a` in state `s` begin at `offsets[s * actions + a]` and end where the next ones begin.
    offsets: Vec<u32>,
}

impl Table {
    /// Returns the table in which episodes start in state `s` with probability `start[s]`, and action `a` in state `s`
    /// has the transitions `branches(s, a)`.
    pub fn new(start: Vec<f64>, actions: usize, branches: impl Fn(usize, usize) -> Vec<Branch>) -> Self {
        let mut table = Self { actions, start, branches: Vec::new(), offsets: vec![0] };
        for state in 0..table.start.len() {
            for action in 0..actions {
                table.branches.extend(branches(state, action));
                table.offsets.push(table.branches.len() as u32);
            }
        }
        table
    }

    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.start.len()
    }

    /// Returns the number of actions.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// Draws a first state.
    pub fn start(&self, generator: &mut Generator) -> usize {
        pick(self.start.iter().copied(), generator.random())
    }

    /// Draws a transition for `action` in `state`. It draws one number also if there is only one transition.
    pub fn step(&self, state: usize, action: usize, generator: &mut Generator) -> Branch {
        let at = state * self.actions + action;
        let branches = &self.branches[self.offsets[at] as usize..self.offsets[at + 1] as usize];
        branches[pick(branches.iter().map(|branch| branch.probability), generator.random())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sum_above_the_draw_is_picked() {
        let probabilities = [0.25, 0.0, 0.5, 0.125];
        for (draw, want) in [(0.0, 0), (0.2, 0), (0.25, 2), (0.74, 2), (0.75, 3), (0.875, 0), (0.99, 0)] {
            assert_eq!(pick(probabilities.into_iter(), draw), want, "{draw}");
        }
    }

    #[test]
    fn each_state_and_action_has_its_own_branches() {
        let branch = |state, action, k| Branch {
            probability: 1.0 / (action + 1) as f64,
            state,
            reward: k as f64,
            terminated: action == 1,
        };
        let table = Table::new(vec![0.0, 1.0], 2, |s, a| (0..=a).map(|k| branch(s, a, k)).collect());
        let mut generator = Generator::new(0);
        assert_eq!((table.states(), table.actions(), table.start(&mut generator)), (2, 2, 1));
        let rewards: Vec<f64> = (0..20).map(|_| table.step(1, 1, &mut generator).reward).collect();
        assert!(rewards.contains(&0.0) && rewards.contains(&1.0));
        assert_eq!(table.step(0, 0, &mut generator), branch(0, 0, 0));
        assert_eq!(table.step(1, 1, &mut generator).state, 1);
    }
}
