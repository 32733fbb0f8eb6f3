//! `rlfast.env.NativeVectorEnv` over the vectors of native environments.

use numpy::npyffi::flags::NPY_ARRAY_CARRAY_RO;
use pyo3::exceptions::PyOverflowError;
use pyo3::types::PyBytes;
use rlfast_core::error::Result;
use rlfast_core::source::is_shape;
use rlfast_core::vectors::product;
use rlfast_envs::registry::{self, Argument, Arguments};
use rlfast_envs::requests::{self, Resets};
use rlfast_envs::vector::{AnyVector, Output, Values, ValuesMut};
use rlfast_envs::{DType, InfoField};

use crate::prelude::*;

/// Ids of the native environments, and the steps after which each truncates its episodes.
#[pyfunction]
pub fn native_envs() -> Vec<(&'static str, Option<u64>)> {
    registry::entries().map(|entry| (entry.id, entry.max_episode_steps)).collect()
}

/// Environments in Rust that step together.
#[pyclass(frozen, module = "rlfast._core")]
pub struct NativeEnvs {
    #[pyo3(get)]
    description: String,
    vector: Shared<Box<dyn AnyVector>>,
    num_envs: usize,
    observation: Row,
    action: Row,
    /// The numbers of an info.
    info_len: usize,
}

/// The dtype and shape of one environment's row of an array.
struct Row {
    dtype: DType,
    descr: Py<PyArrayDescr>,
    /// Its axes: none where a row is a number.
    dims: Vec<usize>,
}

// What each method takes and gives is said in `_core.pyi`.
#[pymethods]
impl NativeEnvs {
    #[new]
    #[pyo3(signature = (id, num_envs, autoreset, max_episode_steps=None, arguments=None))]
    fn new(
        py: Python<'_>,
        id: &str,
        num_envs: i64,
        autoreset: &str,
        max_episode_steps: Option<i64>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let arguments = arguments.map_or_else(|| Ok(Arguments::default()), |given| read_arguments(given))?;
        let vector = requests::make(id, num_envs, autoreset, max_episode_steps, arguments).python()?;
        let observation = Row::new(py, vector.observation_space().shape(), vector.observation_dtype())?;
        let action = Row::new(py, vector.action_space().shape(), vector.action_dtype())?;
        let info_len = vector.info_fields().iter().map(InfoField::len).sum();
        let (description, num_envs) = (vector.description(), vector.num_envs());
        Ok(Self { description, vector: Shared::new(vector), num_envs, observation, action, info_len })
    }

    #[pyo3(signature = (ids, seeds, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        ids: Option<Index>,
        seeds: &Bound<'py, PyList>,
        options: Option<Items<f64>>,
    ) -> PyResult<(Object<'py>, Option<Object<'py>>)> {
        let (ids, options) = (ids.as_deref(), options.as_deref());
        let seeds: Vec<_> = seeds.iter().map(|seed| read_seed(&seed)).collect::<PyResult<_>>()?;
        let rows = ids.map_or(self.num_envs, <[_]>::len);
        let (obs, values) = self.observation.fresh(py, rows)?;
        let mut infos = self.fresh_infos(py, rows)?;
        let told = infos.as_mut().map(NewArray::items);
        self.vector.with(py, |vector| vector.reset_with_infos(ids, &seeds, options, values, told)).python()?;
        Ok((obs, infos.map(|infos| infos.array)))
    }

    #[pyo3(signature = (actions, ids=None))]
    fn step<'py>(&self, py: Python<'py>, actions: &Object<'py>, ids: Option<Index>) -> PyResult<Bound<'py, PyTuple>> {
        let ids = ids.as_deref();
        let rows = ids.map_or(self.num_envs, <[_]>::len);
        let actions = self.action.read(actions, rows)?;
        let (obs, obs_values) = self.observation.fresh(py, rows)?;
        let (mut rew, mut infos) = (NewArray::<f64>::new(py, &[rows])?, self.fresh_infos(py, rows)?);
        let (mut terminated, mut truncated) = (NewArray::new(py, &[rows])?, NewArray::new(py, &[rows])?);
        let (terminal, cut) = (terminated.bytes(), truncated.bytes());
        let output = Output { obs: obs_values, rew: rew.items(), terminated: terminal, truncated: cut };
        let resets = self.stepped(py, ids, rows, actions, (output, infos.as_mut().map(NewArray::items))).python()?;
        let resets = resets.map(|resets| self.reset_arrays(py, resets, &obs, rows)).transpose()?;
        (obs, rew.array, terminated.array, truncated.array, infos.map(|infos| infos.array), resets).into_pyobject(py)
    }

    fn get_state<'py>(&self, py: Python<'py>, id: usize) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.vector.with(py, |vector| vector.save(id)).python()?;
        Ok(PyBytes::new(py, &state))
    }

    fn set_state(&self, py: Python<'_>, id: usize, state: &[u8]) -> PyResult<()> {
        self.vector.with(py, |vector| vector.load(id, state)).python()
    }
}

/// Rows in which an environment was reset; the final observations and infos if that was in the step that ended its episode.
type ResetArrays<'py> = (Shaped<i64>, Option<Object<'py>>, Option<Shaped<f64>>);

type StepOutput<'a> = (Output<'a, ValuesMut<'a>>, Option<&'a mut [f64]>);

impl NativeEnvs {
    /// The environments, behind their lock.
    pub(crate) fn vector(&self) -> &Shared<Box<dyn AnyVector>> {
        &self.vector
    }

    /// Steps the environments, attached if the step is short and no other thread steps them.
    fn stepped<'a>(
        &self,
        py: Python<'_>,
        ids: Option<&[i64]>,
        rows: usize,
        actions: Values<'_>,
        output: StepOutput<'a>,
    ) -> Result<Option<Resets>> {
        let quick = |vector: &mut Box<dyn AnyVector>, output: StepOutput<'a>| {
            if vector.is_long(rows) {
                Err(output)
            } else {
                Ok(vector.step_with_infos(ids, actions, output.0, output.1))
            }
        };
        match self.vector.try_with(py, output, quick) {
            Ok(Ok(resets)) => resets,
            Ok(Err((output, infos))) | Err((output, infos)) => {
                // Detached, others may write to the array: only a copy stays what was checked.
                let own = actions.to_owned();
                self.vector.detached(py, |vector| vector.step_with_infos(ids, own.as_values(), output, infos))
            }
        }
    }

    /// An array for the infos of `rows` environments; None if they have none.
    fn fresh_infos<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<NewArray<'py, f64>>> {
        (self.info_len > 0).then(|| NewArray::new(py, &[rows, self.info_len])).transpose()
    }

    /// The resets of the last step, of `rows` environments that now show `obs`, in arrays.
    fn reset_arrays<'py>(
        &self,
        py: Python<'py>,
        resets: Resets,
        obs: &Object<'py>,
        rows: usize,
    ) -> PyResult<ResetArrays<'py>> {
        let (ended, final_obs, infos) = match resets {
            Resets::Only(rows) => return Ok((rows.into(), None, None)),
            Resets::Ended(rows, final_obs, infos) => (rows, final_obs, infos),
        };
        let (obs_next, values) = self.observation.fresh(py, rows)?;
        values.copy_rows(self.observation.read(obs, rows)?, &ended, final_obs.as_values());
        let infos = (!infos.is_empty()).then(|| Shaped::matrix(infos, ended.len(), self.info_len));
        Ok((ended.into(), Some(obs_next), infos))
    }
}

// -- arrays ----------------------------------------------------------------------------------------------------------

impl Row {
    fn new(py: Python<'_>, dims: Vec<usize>, dtype: DType) -> PyResult<Self> {
        let descr = PyArrayDescr::new(py, dtype.name())?.unbind();
        Ok(Self { dtype, descr, dims })
    }

    /// Returns a new array of `rows` rows, and its elements, to which there is no other reference.
    fn fresh<'py, 'a>(&self, py: Python<'py>, rows: usize) -> PyResult<(Object<'py>, ValuesMut<'a>)> {
        let (descr, dims) = (self.descr.bind(py), [&[rows], &self.dims[..]].concat());
        let elements = product(&dims).python()?;
        let (array, data) = array::empty(descr, &dims, product(&[elements, descr.itemsize()]).python()?)?;
        // SAFETY: `elements` of this dtype; callers keep the array until they are done with the values, and show it to nobody
        // before; every bit pattern is a number.
        Ok((array, unsafe { ValuesMut::from_raw(self.dtype, data, elements) }))
    }

    /// The elements of an array of `rows` rows that is exactly as the environments take it.
    fn read<'a>(&self, object: &'a Object<'_>, rows: usize) -> PyResult<Values<'a>> {
        let Some(array) = array::of(object) else { return mismatch!("actions are no array") };
        let as_is = array::has(array, NPY_ARRAY_CARRAY_RO) && array::has_dtype(array, self.descr.bind(object.py()));
        if !as_is || array.shape().first() != Some(&rows) || !is_shape(&array.shape()[1..], &self.dims) {
            return mismatch!("actions are not an array of {:?} with {rows} rows of {:?}", self.dtype, self.dims);
        }
        // SAFETY: so many elements of this dtype in C order; callers stay attached while they use them, so nobody writes.
        Ok(unsafe { Values::from_raw(self.dtype, array::data(array), array.len()) })
    }
}

// -- arguments -------------------------------------------------------------------------------------------------------

fn read_seed(seed: &Object<'_>) -> PyResult<Option<u64>> {
    seed.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(seed.py()) {
        true => raised!(PyValueError, "a seed must be within 0 and 2**64 - 1, got {seed}"),
        false => raised!(PyTypeError, "a seed must be an integer or None, got {seed}"),
    })
}

/// How deep lists in arguments may be nested.
const MAX_DEPTH: usize = 16;

fn read_arguments(given: &Bound<'_, PyDict>) -> PyResult<Arguments> {
    given.iter().map(|(name, value)| Ok((name.extract()?, read_argument(&name, &value, 0)?))).collect()
}

fn read_argument(name: &Object<'_>, value: &Object<'_>, depth: usize) -> PyResult<Argument> {
    let plain = value.extract::<bool>().map(Argument::from);
    let plain = plain.or_else(|_| value.extract::<i64>().map(Argument::from));
    let plain = plain.or_else(|_| value.extract::<f64>().map(Argument::from));
    let plain = plain.or_else(|_| value.extract::<String>().map(Argument::from));
    if let Ok(plain) = plain {
        Ok(plain)
    } else if value.is_none() {
        Ok(Argument::Missing)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if depth == MAX_DEPTH {
            return Err(raised!(PyValueError, "{name} must be nested at most {MAX_DEPTH} deep"));
        }
        let items = value.try_iter()?.map(|item| read_argument(name, &item?, depth + 1));
        items.collect::<PyResult<Vec<_>>>().map(Argument::List)
    } else {
        let kind = value.get_type();
        Err(raised!(PyTypeError, "{name} must be a number, a string, a bool, or a list of such, got {kind}"))
    }
}
