//! CliffWalking: a walk along a cliff.

use super::Grid;
use super::grid::neighbour;
use super::table::{Branch, Table};

const SHAPE: [usize; 2] = [4, 12];
const START: usize = 36;
const GOAL: usize = 47;
/// The directions of the actions: up, right, down, left.
const DIRECTIONS: [[isize; 2]; 4] = [[-1, 0], [0, 1], [1, 0], [0, -1]];

impl Grid {
    /// The cliff of example 6.6 in Sutton and Barto's book: Gymnasium's `CliffWalking-v1`, and
    /// `CliffWalkingSlippery-v1` if `slippery`. The grid has 4 by 12 fields; the walk goes from the lower left to the
    /// lower right, and the cliff lies between them.
    ///
    /// Actions 0 to 3 go up, to the right, down, and to the left; on slippery ground, in that direction or to either
    /// side of it, each with probability 1/3. The reward is -1 for a step, and -100 for a step over the cliff, which
    /// leads back to the start. An episode terminates at the goal.
    pub fn cliff_walking(slippery: bool) -> Self {
        let start = (0..SHAPE[0] * SHAPE[1]).map(|field| f64::from(u8::from(field == START))).collect();
        Self::new(Table::new(start, DIRECTIONS.len(), |field, action| {
            let turns: &[usize] = if slippery { &[3, 0, 1] } else { &[0] };
            turns.iter().map(|turn| walked(field, (action + turn) % 4, 1.0 / turns.len() as f64)).collect()
        }))
    }
}

fn walked(field: usize, direction: usize, probability: f64) -> Branch {
    let [row, column] = neighbour([field / SHAPE[1], field % SHAPE[1]], DIRECTIONS[direction], SHAPE);
    let state = row * SHAPE[1] + column;
    if START < state && state < GOAL {
        return Branch { probability, state: START, reward: -100.0, terminated: false };
    }
    Branch { probability, state, reward: -1.0, terminated: state == GOAL }
}

#[cfg(test)]
mod tests;
