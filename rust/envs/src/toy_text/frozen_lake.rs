//! FrozenLake: crossing a lake without falling into its holes.

use super::Grid;
use super::grid::neighbour;
use super::table::{Branch, Table};

/// Gymnasium's map of 4 by 4 fields.
pub const LAKE_4X4: [&str; 4] = ["SFFF", "FHFH", "FFFH", "HFFG"];

/// Gymnasium's map of 8 by 8 fields.
pub const LAKE_8X8: [&str; 8] =
    ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"];

/// The directions of the actions: left, down, right, up.
const DIRECTIONS: [[isize; 2]; 4] = [[0, -1], [1, 0], [0, 1], [-1, 0]];

/// The options of a frozen lake. The defaults with a [`TimeLimit`](crate::wrapper::TimeLimit) of 100 are Gymnasium's
/// `FrozenLake-v1`; [`LAKE_8X8`] with one of 200 is `FrozenLake8x8-v1`. Random maps must be given as `map`.
///
/// ```
/// use rlfast_envs::toy_text::FrozenLake;
/// let dry = FrozenLake { success_rate: None, ..FrozenLake::default() }.build()?;
/// assert!(FrozenLake { map: vec!["SF".into(), "G".into()], ..FrozenLake::default() }.build().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenLake {
    /// Rows of fields: `S` is a start, `G` a goal, `H` a hole, and any other letter ice.
    pub map: Vec<String>,
    /// The probability of moving in the direction of the action; otherwise the move goes to either side of it. None on
    /// ice that is not slippery. 1/3 in Gymnasium.
    pub success_rate: Option<f64>,
    /// The rewards of a step onto a goal, into a hole, and onto ice. 1, 0, 0 in Gymnasium.
    pub rewards: [f64; 3],
}

impl Default for FrozenLake {
    fn default() -> Self {
        Self { map: LAKE_4X4.map(String::from).into(), success_rate: Some(1.0 / 3.0), rewards: [1.0, 0.0, 0.0] }
    }
}

impl FrozenLake {
    /// Returns the environment. Actions 0 to 3 go to the left, down, to the right, and up. An episode terminates in a
    /// hole or at a goal.
    ///
    /// # Errors
    /// If the map or the success rate is invalid, with a description.
    pub fn build(&self) -> Result<Grid, String> {
        let columns = self.map.first().map_or(0, String::len);
        if columns == 0 || self.map.iter().any(|row| row.len() != columns || !row.is_ascii()) {
            return Err(format!("a map needs rows of letters, all equally long; got {:?}", self.map));
        }
        if let Some(rate) = self.success_rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            return Err(format!("success_rate is a probability, from 0 to 1; got {rate}"));
        }
        let fields = self.map.concat().into_bytes();
        let starts = fields.iter().filter(|&&field| field == b'S').count();
        if starts == 0 {
            return Err(format!("a map needs an S to start from; got {:?}", self.map));
        }
        let start = fields.iter().map(|&field| if field == b'S' { 1.0 / starts as f64 } else { 0.0 }).collect();
        let shape = [self.map.len(), columns];
        Ok(Grid::new(Table::new(start, DIRECTIONS.len(), |field, action| match fields[field] {
            b'G' | b'H' => vec![Branch { probability: 1.0, state: field, reward: 0.0, terminated: true }],
            _ => self.branches(&fields, shape, field, action),
        })))
    }

    fn branches(&self, fields: &[u8], shape: [usize; 2], field: usize, action: usize) -> Vec<Branch> {
        let walked = |probability, turn| {
            let direction = DIRECTIONS[(action + turn) % 4];
            let [row, column] = neighbour([field / shape[1], field % shape[1]], direction, shape);
            let state = row * shape[1] + column;
            let [goal, hole, ice] = self.rewards;
            let (reward, terminated) = match fields[state] {
                b'G' => (goal, true),
                b'H' => (hole, true),
                _ => (ice, false),
            };
            Branch { probability, state, reward, terminated }
        };
        match self.success_rate {
            None => vec![walked(1.0, 0)],
            Some(rate) => {
                let fail = (1.0 - rate) / 2.0;
                vec![walked(fail, 3), walked(rate, 0), walked(fail, 1)]
            }
        }
    }
}

#[cfg(test)]
mod tests;
