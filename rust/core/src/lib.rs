//! The engine under `rlfast`: replay storage, sampling and returns, with no Python in it.

pub mod pool;
pub mod prefetch;
pub mod returns;
pub mod rng;
pub mod segment_tree;
pub mod simd;
