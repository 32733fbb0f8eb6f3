//! The engine under `rlfast`: replay storage, sampling and returns, with no Python in it.

pub mod convert;
pub mod error;
pub mod memory;
pub mod nn;
pub mod pack;
pub mod pool;
pub mod power;
pub mod prefetch;
pub mod products;
pub mod recycle;
pub mod regular;
pub mod replay;
pub mod returns;
pub mod rng;
pub mod segment_tree;
pub mod shared;
#[cfg(any(unix, loom))]
pub mod shared_memory;
pub mod simd;
pub mod source;
pub mod sums;
pub mod vectors;
