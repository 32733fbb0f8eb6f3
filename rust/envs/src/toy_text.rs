//! Small problems with countable states.

mod blackjack;
mod cliff_walking;
mod frozen_lake;
mod grid;
mod table;
mod taxi;

pub use blackjack::{Blackjack, Rules};
pub use frozen_lake::{FrozenLake, LAKE_4X4, LAKE_8X8};
pub use grid::Grid;
pub use taxi::Taxi;
