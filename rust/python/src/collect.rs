//! `collect`: native environments, a network and a replay engine, without the interpreter.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rlfast_core::rng::draws::BitSource;
use rlfast_core::vectors::copied;
use rlfast_envs::collect::{CollectState, Collected, Limit, Noise, collect as run};
use rlfast_envs::vector::AnyVector;
use rlfast_envs::vector::requests::ids;

use crate::array::{Index, NewArray, vector};
use crate::draws::locked;
use crate::error::{IntoPython as _, mismatch};
use crate::network::Network;
use crate::replay::{Replay, State};
use crate::vector_env::NativeEnvs;

type Object<'py> = Bound<'py, PyAny>;

/// The probability and the number of random actions, and the bit generator that they are drawn from.
type Exploration<'py> = (f64, u32, Object<'py>);

/// How random actions come into the choices, with any stream.
type AnyNoise<'a> = Noise<'a, &'a mut (dyn BitSource + Send)>;

/// Lets a network act in environments and adds the transitions to a replay engine, until a limit is reached.
#[pyfunction]
#[pyo3(signature = (envs, replay, network, obs, ready, limit, explore = None, clocks = None))]
#[allow(clippy::too_many_arguments, reason = "the parts of a collection")]
pub fn collect<'py>(
    py: Python<'py>,
    envs: &NativeEnvs,
    replay: &Replay,
    network: &Network,
    obs: &Object<'py>,
    ready: Index,
    limit: &Bound<'py, PyTuple>,
    explore: Option<Exploration<'py>>,
    clocks: Option<numpy::PyReadonlyArrayDyn<'py, f32>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let Ok(given) = obs.extract::<numpy::PyReadonlyArray2<'py, f32>>() else {
        return mismatch!("observations are no rows of single floats");
    };
    let (rows, width) = given.as_array().dim();
    let mut after = NewArray::new(py, &[rows, width])?;
    let now = after.items();
    now.iter_mut().zip(given.as_array()).for_each(|(to, &number)| *to = number);
    let clocks = clocks.map(|clocks| copied(clocks.as_slice()?).python()).transpose()?;
    let mut running = CollectState { obs: now, ready: ids(&ready.values).python()?, limit: read_limit(limit)? };
    let done = match (explore, &clocks) {
        (Some((epsilon, count, bit_generator)), None) => locked(&bit_generator, |source| {
            work(py, envs, replay, network, &mut running, Noise::Epsilon { epsilon, count, source })
        })??,
        (None, Some(clocks)) => work(py, envs, replay, network, &mut running, Noise::Clocks(clocks))?,
        (None, None) => work(py, envs, replay, network, &mut running, Noise::None)?,
        _ => return Err(PyValueError::new_err("give explore or clocks, not both")),
    };
    let numbers = |rows: &[usize]| vector(py, &rows.iter().map(|&row| row as i64).collect::<Vec<_>>());
    let left = match &running.limit {
        Limit::Steps(left) | Limit::Episodes(left) => left.into_pyobject(py)?.into_any(),
        Limit::Quotas(left) => vector(py, left)?,
    };
    let ended = (vector(py, &done.returns)?, vector(py, &done.lengths)?, numbers(&done.stale)?);
    let (ready, rows) = (numbers(&running.ready)?, vector(py, &done.rows)?);
    (after.array, ready, left, done.vector_steps, rows, ended, done.undecided).into_pyobject(py)
}

fn work(
    py: Python<'_>,
    envs: &NativeEnvs,
    replay: &Replay,
    network: &Network,
    running: &mut CollectState<'_>,
    noise: AnyNoise<'_>,
) -> PyResult<Collected> {
    let network = network.engine();
    let collect =
        |envs: &mut Box<dyn AnyVector>, state: &mut State| run(&mut **envs, state.rows_mut(), network, running, noise);
    envs.vector().detached_with(py, replay.state(), collect).python()
}

fn read_limit(limit: &Bound<'_, PyTuple>) -> PyResult<Limit> {
    let kind: String = limit.get_item(0)?.extract()?;
    let value = limit.get_item(1)?;
    match kind.as_str() {
        "steps" => Ok(Limit::Steps(value.extract()?)),
        "episodes" => Ok(Limit::Episodes(value.extract()?)),
        "quotas" => Ok(Limit::Quotas(value.extract::<Index>()?.values)),
        other => Err(PyValueError::new_err(format!("a limit is of steps, episodes or quotas, got {other}"))),
    }
}
