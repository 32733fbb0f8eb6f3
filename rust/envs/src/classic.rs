//! Classic control problems.

mod cart_pole;

pub use cart_pole::CartPole;
