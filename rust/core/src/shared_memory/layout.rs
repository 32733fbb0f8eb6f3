//! Where the columns of a row are.

use crate::error::{Result, value_error};
use crate::replay::layout::Leaf;

use super::ring::COLUMNS;

/// How a column is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// From the row that was drawn.
    Plain,
    /// As the reward, which n-step returns sum.
    Reward,
    /// From the rows of a frame stack.
    Stacked,
    /// From the rows of a frame stack of next observations. Before the episode's oldest row, the column of `obs` that begins at this
    /// word repeats, if there is one like it.
    Next(Option<usize>),
    /// From the row's flags: the bits that count.
    Flags(u64),
}

/// One column of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Its first word.
    pub at: usize,
    /// Its bytes.
    pub bytes: usize,
    pub role: Role,
}

/// The columns of a row, each from a word of its own on.
#[derive(Clone, Debug)]
pub struct RowLayout {
    pub(super) fields: Vec<Field>,
    /// Words of a row.
    pub(super) stride: usize,
    /// The reward.
    pub(super) reward: Field,
    /// Number of values of a reward.
    pub(super) agents: usize,
}

/// The most bytes of a row.
const LARGEST: usize = 1 << 40;

impl RowLayout {
    /// Returns the layout of rows with these columns.
    ///
    /// # Errors
    /// `Value` without one of the columns that every row has, or if a row is too large.
    pub fn new(leaves: &[Leaf]) -> Result<Self> {
        for name in ["obs", "act", "rew", "terminated", "truncated", "obs_next"] {
            if !leaves.iter().any(|leaf| leaf.root() == name) {
                return value_error!("a row in shared memory needs {name}, the example has none");
            }
        }
        let (mut fields, mut at) = (Vec::with_capacity(leaves.len()), COLUMNS);
        let mut reward = None;
        for leaf in leaves {
            let Some(bytes) = bytes_of(leaf) else {
                return value_error!("{} of shape {:?} is too large for a row", leaf.path.join("."), leaf.shape);
            };
            let role = role_of(leaf);
            let field = Field { at, bytes, role };
            if role == Role::Reward {
                reward = Some((field, bytes / leaf.itemsize));
            }
            if !matches!(role, Role::Flags(_)) {
                at += bytes.div_ceil(8);
            }
            fields.push(field);
        }
        for (number, leaf) in leaves.iter().enumerate().filter(|(_, leaf)| leaf.root() == "obs_next") {
            let like = |other: &&Leaf| {
                other.root() == "obs"
                    && other.path[1..] == leaf.path[1..]
                    && (&other.dtype, &other.shape) == (&leaf.dtype, &leaf.shape)
            };
            let twin = leaves.iter().zip(&fields).find(|(other, _)| like(other)).map(|(_, twin)| twin.at);
            fields[number].role = Role::Next(twin);
        }
        let Some((reward, agents)) = reward.filter(|(reward, agents)| reward.bytes == 8 * agents) else {
            return value_error!("rew of a row in shared memory is a number, or an array of numbers");
        };
        Ok(Self { fields, stride: at, reward, agents })
    }

    /// Returns the words of a row.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of values of a reward: 1, or the number of agents.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.agents
    }
}

fn bytes_of(leaf: &Leaf) -> Option<usize> {
    let bytes = leaf.shape.iter().try_fold(leaf.itemsize, |bytes, &length| bytes.checked_mul(length));
    bytes.filter(|&bytes| bytes <= LARGEST)
}

fn role_of(leaf: &Leaf) -> Role {
    use super::ring::{TERMINATED, TRUNCATED};
    match (leaf.root(), leaf.path.len()) {
        ("rew", 1) => Role::Reward,
        ("terminated", 1) => Role::Flags(TERMINATED),
        ("truncated", 1) => Role::Flags(TRUNCATED),
        ("done", 1) => Role::Flags(TERMINATED | TRUNCATED),
        ("obs" | "info" | "policy", _) => Role::Stacked,
        ("obs_next", _) => Role::Next(None),
        _ => Role::Plain,
    }
}
