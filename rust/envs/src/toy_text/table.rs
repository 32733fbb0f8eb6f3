//! Tables of what each action leads to in each state.

use rlfast_core::rng::numpy::Generator;

/// One way in which a step can turn out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Branch {
    /// How likely it is.
    pub probability: f64,
    /// The state it leads to.
    pub state: usize,
    /// What it earns.
    pub reward: f64,
    /// Whether the episode is over with it.
    pub terminated: bool,
}

/// Index of the first sum above a uniform `draw`; the first of all, should rounding have left the last sum below it.
/// `numpy.cumsum` adds in this order too.
fn pick(probabilities: impl Iterator<Item = f64>, draw: f64) -> usize {
    let mut sum = 0.0;
    let mut sums = probabilities.map(|probability| {
        sum += probability;
        sum
    });
    sums.position(|sum| sum > draw).unwrap_or(0)
}

/// Where episodes start, and the branches of every state and action.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    actions: usize,
    start: Vec<f64>,
    branches: Vec<Branch>,
    /// Those of action `a` in state `s` begin at `offsets[s * actions + a]` and end where the next begin.
    offsets: Vec<u32>,
}

impl Table {
    /// The table of a problem in which episodes start in state `s` with probability `start[s]`, and `branches(s, a)` follow
    /// on action `a` there.
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

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.start.len()
    }

    /// How many actions there are.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// Draws a first state.
    pub fn start(&self, generator: &mut Generator) -> usize {
        pick(self.start.iter().copied(), generator.random())
    }

    /// Draws what follows on `action` in `state`. A certain step costs a draw too.
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
