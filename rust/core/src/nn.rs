//! Forward passes of small networks: fully connected layers and the functions between them.
//!
//! A [`Network`] is a list of [`Node`]s. Each computes one *slot*, a vector for each row, from earlier slots; slot 0 is
//! the input. Weights are read where their owner keeps them, at every pass, so a change of them is seen at once.
//!
//! Rows are processed in tiles of 8 or 16, stored with the rows of a tile next to each other. So a weight is loaded
//! once for all rows of a tile, no sum crosses a vector register, and every row goes through the same operations in the
//! same order: its result depends neither on the other rows, nor on the number of threads. Images are processed row by
//! row, with filters next to each other, by the same rules.

mod choice;
mod functions;
mod image;
mod linear;
mod network;
mod policy;
mod policy_file;
mod scratch;
mod tile;
mod weights;

pub use choice::{Choice, Drawing};
pub use functions::Function;
pub use image::{Filters, Window};
pub use network::{Network, Node, Operation, Part, Reduction};
pub use policy::{Observations, ObservedArray, Policy};
pub use scratch::Scratch;
pub use weights::Weights;

#[cfg(test)]
mod tests;
