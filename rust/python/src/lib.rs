//! The Python module `rlfast._core`: the only crate that uses pyo3. It contains no algorithm.

mod answers;
mod array;
mod batch;
mod changes;
mod collect;
mod columns;
mod draws;
mod error;
mod frames;
mod gather;
mod index;
mod items;
mod network;
mod objects;
mod once;
mod policy;
mod prelude;
#[cfg(unix)]
mod process;
mod products;
mod replay;
mod returns;
mod rows;
mod segment_tree;
mod shards;
mod shared;
#[cfg(unix)]
mod shared_memory;
mod stacks;
mod threads;
mod vector_env;

use pyo3::prelude::*;

/// The native half of rlfast.
// It needs the global interpreter lock: arrays of NumPy's are read as slices while attached, which rests on nobody else writing
// to them meanwhile (`returns.rs`, `vector_env.rs`, `index.rs`), and forks rest on attached work being alone (`shared.rs`).
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::{
        answers::{answer_columns, own_answer, plain_copy, plain_rows},
        batch::nested_batch,
        changes::Unchanged,
        collect::collect,
        draws::{explore, integers_of_each, randint, uniform_below},
        error::SchemaMismatch,
        frames::{AreaResize, grey},
        index::{IndexOwner, carried, carry, shift},
        network::Network,
        policy::ExportedPolicy,
        products::{multiplies, multiply},
        replay::Replay,
        replay::hosted::{discounted, step_rows},
        returns::{bootstrapped, episodic_returns, estimate},
        segment_tree::SegmentTree,
        shards::UnpluggedShards,
        stacks::{FrameRing, FrameStacks, frame_numbers, with_stacks},
        threads::{get_num_threads, set_num_threads},
        vector_env::{NativeEnvs, native_envs},
    };
    #[cfg(unix)]
    #[pymodule_export]
    use super::{
        process::{Lease, Slab, WorkerEndpoint, end_with},
        shared_memory::{RingMemory, RingReader, RingWriter},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::once::load(module.py())?;
        super::threads::from_environment(module.py())?;
        super::replay::append::load(module.py())?;
        module.add("OutOfRange", super::error::load(module.py())?)?;
        module.add("BatchBase", super::batch::load(module.py())?)
    }
}
