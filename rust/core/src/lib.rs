//! The engine under `rlfast`: replay storage, sampling and returns, with no Python in it.

pub mod rng;
