//! `collect`: native environments, a network and a replay engine, without the interpreter.

use std::num::NonZeroU32;

use rlfast_core::nn::Drawing;
use rlfast_core::rng::draws::BitSource;
use rlfast_core::vectors::copied;
use rlfast_envs::collect::{Acting, CollectState, Collected, Limit, RealActions, collect as run};
use rlfast_envs::requests::ids;

use crate::array::vector;
use crate::draws::{Locked, locked, locked_all};
use crate::network::Network;
use crate::prelude::*;
use crate::replay::Replay;
use crate::vector_env::NativeEnvs;

/// The probability and the number of random actions, and the bit generator that they are drawn from.
type Exploration<'py> = (f64, u32, Object<'py>);

/// Real actions: the slots of means and deviations, whether they are squashed, clipped and stretched, and the bounds of the
/// environment's.
type Real<'py> = (usize, Option<usize>, bool, bool, bool, Option<(Floats<'py>, Floats<'py>)>);

/// The number of actions, and what they are drawn from.
type Uniform<'py> = (NonZeroU32, Generators<'py>);

/// A bit generator for each environment, or one for all of them.
#[derive(FromPyObject)]
pub enum Generators<'py> {
    Each(Items<Object<'py>>),
    Shared(Object<'py>),
}

type Floats<'py> = numpy::PyReadonlyArray1<'py, f32>;

/// How actions come from a network without a random stream.
type Drawn<'a> = Acting<'a, Locked<'a>>;

/// Lets a network, or a random stream alone, act in environments and adds the transitions to a replay engine, until a limit is reached.
#[pyfunction]
#[pyo3(signature = (envs, replay, network, obs, ready, limit, explore = None, draws = None, real = None, uniform = None))]
#[allow(clippy::too_many_arguments, reason = "the parts of a collection")]
pub fn collect<'py>(
    py: Python<'py>,
    envs: &NativeEnvs,
    replay: &Replay,
    network: Option<&Network>,
    obs: &Object<'py>,
    ready: Index,
    limit: (String, Index),
    explore: Option<Exploration<'py>>,
    draws: Option<numpy::PyReadonlyArrayDyn<'py, f32>>,
    real: Option<Real<'py>>,
    uniform: Option<Uniform<'py>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let Ok(given) = obs.extract::<numpy::PyReadonlyArray2<'py, f32>>() else {
        return mismatch!("observations are no rows of single floats");
    };
    let (rows, width) = given.as_array().dim();
    let mut after = NewArray::new(py, &[rows, width])?;
    let now = after.items();
    now.iter_mut().zip(given.as_array()).for_each(|(to, &number)| *to = number);
    let draws = draws.map(|draws| copied(draws.as_slice()?).python()).transpose()?;
    let limit = Limit::named(&limit.0, limit.1.values).python()?;
    let mut running = CollectState { obs: now, ready: ids(&ready).python()?, limit };
    let done = match (explore, &draws, &real, uniform) {
        (Some((epsilon, count, bit_generator)), None, None, None) => locked(&bit_generator, |source| {
            work(py, envs, replay, network, &mut running, Acting::Epsilon { epsilon, count, source })
        })??,
        (None, None, None, Some((count, Generators::Each(generators)))) => locked_all(&generators, |sources| {
            work(py, envs, replay, network, &mut running, Acting::Uniform { count: count.get(), sources })
        })??,
        (None, None, None, Some((count, Generators::Shared(generator)))) => locked(&generator, |source| {
            work(py, envs, replay, network, &mut running, Acting::Shared { count: count.get(), source })
        })??,
        (None, draws, Some((mean, deviation, squash, clip, stretch, bounds)), None) => {
            let bounds = bounds.as_ref().map(|(low, high)| Ok((low.as_slice()?, high.as_slice()?)));
            let real = RealActions {
                drawing: Drawing { mean: *mean, deviation: *deviation, squash: *squash },
                normals: draws.as_deref().unwrap_or_default(),
                clip: *clip,
                stretch: *stretch,
                bounds: bounds
                    .transpose()
                    .map_err(|_: numpy::AsSliceError| raised!(PyValueError, "bounds lie apart"))?,
            };
            work(py, envs, replay, network, &mut running, Drawn::Real(real))?
        }
        (None, Some(draws), None, None) => work(py, envs, replay, network, &mut running, Drawn::Clocks(draws))?,
        (None, None, None, None) => work(py, envs, replay, network, &mut running, Drawn::Greatest)?,
        _ => {
            let text = "give explore, draws or uniform, and explore and uniform not for real actions";
            return Err(raised!(PyValueError, "{text}"));
        }
    };
    let numbers = |rows: &[usize]| vector(py, &rows.iter().map(|&row| row as i64).collect::<Vec<_>>());
    let left = match &running.limit {
        Limit::Steps(left) | Limit::Episodes(left) => left.into_pyobject(py)?.into_any(),
        Limit::Quotas(left) => vector(py, left)?,
    };
    let ended = (vector(py, &done.returns)?, vector(py, &done.lengths)?, numbers(&done.stale)?);
    let (ready, rows) = (numbers(&running.ready)?, vector(py, &done.rows)?);
    let (undecided, not_finite) = (done.undecided, done.not_finite);
    (after.array, ready, left, done.vector_steps, rows, ended, undecided, not_finite).into_pyobject(py)
}

fn work(
    py: Python<'_>,
    envs: &NativeEnvs,
    replay: &Replay,
    network: Option<&Network>,
    running: &mut CollectState<'_>,
    acting: Acting<'_, impl BitSource + Send>,
) -> PyResult<Collected> {
    let network = network.map(Network::engine);
    replay
        .write_with(py, envs.vector(), |envs, state| run(&mut **envs, state.rows_mut(), network, running, acting))?
        .python()
}
