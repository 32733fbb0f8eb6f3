//! Environments made of environments.

mod time_limit;

pub use time_limit::TimeLimit;
