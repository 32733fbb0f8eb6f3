//! `rlfast.env.NativeVectorEnv` over the vectors of native environments.

use numpy::npyffi::flags::NPY_ARRAY_CARRAY_RO;
use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use rlfast_core::vectors::{collected, product, with_room};
use rlfast_envs::registry::{self, Argument, Arguments, Limit, RegistryError};
use rlfast_envs::vector::{AnyVector, Autoreset, Erase, Output, OwnedValues, Values, ValuesMut, VectorError};
use rlfast_envs::{DType, InfoField, Space, StepError};

use crate::array;
use crate::error::{IntoPython as _, mismatch};
use crate::items::Items;
use crate::shared::Shared;

type Object<'py> = Bound<'py, PyAny>;

/// A slice of `elements` numbers of a dtype, with its type hidden. The caller answers for the dtype and the lifetime.
macro_rules! erased {
    ($dtype:expr, $slice:ident($data:expr, $elements:expr), $hide:ident) => {
        match $dtype {
            DType::Float32 => f32::$hide(std::slice::$slice($data.cast(), $elements)),
            DType::Float64 => f64::$hide(std::slice::$slice($data.cast(), $elements)),
            DType::Int8 => i8::$hide(std::slice::$slice($data.cast(), $elements)),
            DType::Int32 => i32::$hide(std::slice::$slice($data.cast(), $elements)),
            DType::Int64 => i64::$hide(std::slice::$slice($data.cast(), $elements)),
            DType::UInt8 => u8::$hide(std::slice::$slice($data.cast(), $elements)),
        }
    };
}

/// Ids of the native environments, and the steps after which each truncates its episodes.
#[pyfunction]
pub fn native_envs() -> Vec<(&'static str, Option<u64>)> {
    registry::entries().map(|entry| (entry.id, entry.max_episode_steps)).collect()
}

/// Environments in Rust that step together.
#[pyclass(frozen, module = "rlfast._core")]
pub struct NativeEnvs {
    vector: Shared<Box<dyn AnyVector>>,
    num_envs: usize,
    observation: Row,
    action: Row,
    info: Vec<InfoField>,
}

/// What one environment's row of an array looks like.
struct Row {
    space: Space,
    dtype: DType,
    descr: Py<PyArrayDescr>,
    /// Its axes: none where a row is a number.
    dims: Vec<npy_intp>,
}

#[pymethods]
impl NativeEnvs {
    /// :param autoreset: a value of Gymnasium's ``AutoresetMode``. :param max_episode_steps: None for that of the
    /// registry, -1 for no limit.
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
        let num_envs = usize::try_from(num_envs).ok().filter(|&count| count > 0).ok_or_else(|| {
            PyValueError::new_err(format!("a vector environment needs at least one environment, got {num_envs}"))
        })?;
        let autoreset = autoreset_mode(autoreset)?;
        let limit = match max_episode_steps {
            None => Limit::Registered,
            Some(-1) => Limit::None,
            Some(steps) => Limit::Steps(u64::try_from(steps).ok().filter(|&steps| steps > 0).ok_or_else(|| {
                PyValueError::new_err(format!("max_episode_steps must be positive, or -1 for no limit, got {steps}"))
            })?),
        };
        let arguments = arguments.map_or_else(|| Ok(Arguments::default()), |given| read_arguments(given))?;
        let vector = registry::find(id).and_then(|entry| entry.make(num_envs, autoreset, limit, arguments));
        let vector = vector.map_err(registry_error)?;
        let observation = Row::new(py, vector.observation_space(), vector.observation_dtype());
        let action = Row::new(py, vector.action_space(), vector.action_dtype());
        let info = vector.info_fields();
        Ok(Self { vector: Shared::new(vector), num_envs, observation, action, info })
    }

    /// One environment's observations, in words that `rlfast.env.native` turns into a space.
    #[getter]
    fn observation_space<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        describe(py, &self.observation.space)
    }

    /// One environment's actions, likewise.
    #[getter]
    fn action_space<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        describe(py, &self.action.space)
    }

    /// Name, dtype and shape of each entry of one environment's info.
    #[getter]
    fn info_fields(&self) -> Vec<(&'static str, &'static str, Vec<usize>)> {
        self.info.iter().map(|field| (field.name, field.dtype.name(), field.shape.clone())).collect()
    }

    /// Names and defaults of the numbers that a reset takes as options.
    #[getter]
    fn reset_options(&self, py: Python<'_>) -> Vec<(&'static str, f64)> {
        let options = self.vector.with(py, |vector| vector.reset_options());
        options.iter().map(|option| (option.name, option.default)).collect()
    }

    /// Begins an episode in the environments `ids` (None: all): first observations, and infos if they have any. `options` are
    /// values for all of `reset_options`.
    #[pyo3(signature = (ids, seeds, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        ids: Option<&Object<'py>>,
        seeds: &Bound<'py, PyList>,
        options: Option<Items<f64>>,
    ) -> PyResult<(Object<'py>, Option<Object<'py>>)> {
        let ids = ids.map(read_ids).transpose()?;
        let seeds: Vec<_> = seeds.iter().map(|seed| read_seed(&seed)).collect::<PyResult<_>>()?;
        let rows = ids.as_ref().map_or(self.num_envs, Vec::len);
        let (obs, values) = self.observation.fresh(py, rows)?;
        let (info, infos) = self.fresh_info(py, rows)?;
        let reset = |vector: &mut Box<dyn AnyVector>| {
            vector.reset(ids.as_deref(), &seeds, options.as_ref().map(|options| &options.0[..]), values)?;
            write_infos(&**vector, ids.as_deref(), infos)
        };
        self.vector.with(py, reset).map_err(vector_error)?;
        Ok((obs, info))
    }

    /// Steps the environments `ids` (None: all): ``(obs, rew, terminated, truncated, info, events)``. `info` is None where
    /// there is never any. `events` is None, or the rows in which an environment was reset, with, if that was in the step
    /// that ended its episode, all observations with the final ones in these rows, and the final infos, one row each.
    /// SchemaMismatch for actions that are not exactly such an array as the environments take.
    #[pyo3(signature = (actions, ids=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Object<'py>,
        ids: Option<&Object<'py>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let ids = ids.map(read_ids).transpose()?;
        let rows = ids.as_ref().map_or(self.num_envs, Vec::len);
        let actions = self.action.read(actions, rows)?;
        let (obs, obs_values) = self.observation.fresh(py, rows)?;
        let (rew, rewards) = fresh(&numpy::dtype::<f64>(py), vec![rows as npy_intp])?;
        let (terminated, ends) = fresh(&numpy::dtype::<bool>(py), vec![rows as npy_intp])?;
        let (truncated, cuts) = fresh(&numpy::dtype::<bool>(py), vec![rows as npy_intp])?;
        let (info, infos) = self.fresh_info(py, rows)?;
        let output = Output { obs: obs_values, rew: rewards, terminated: ends, truncated: cuts };
        let events = self.stepped(py, ids.as_deref(), rows, actions, (output, infos)).map_err(vector_error)?;
        let events = events.map(|events| self.event_arrays(py, events, &obs, rows)).transpose()?;
        (obs, rew, terminated, truncated, info, events).into_pyobject(py)
    }

    /// All that decides what environment `id` will do.
    fn get_state<'py>(&self, py: Python<'py>, id: usize) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.vector.with(py, |vector| vector.save(id)).map_err(vector_error)?;
        Ok(PyBytes::new(py, &state))
    }

    /// Puts back what `get_state` gave.
    fn set_state(&self, py: Python<'_>, id: usize, state: &[u8]) -> PyResult<()> {
        self.vector.with(py, |vector| vector.load(id, state)).map_err(vector_error)
    }
}

type StepOutput<'a> = (Output<'a, ValuesMut<'a>>, Option<&'a mut [f64]>);

impl NativeEnvs {
    /// Steps: attached where that is short and nobody else steps.
    fn stepped(
        &self,
        py: Python<'_>,
        ids: Option<&[usize]>,
        rows: usize,
        actions: Values<'_>,
        output: StepOutput<'_>,
    ) -> Result<Option<Events>, VectorError> {
        let quick = |vector: &mut Box<dyn AnyVector>, output| {
            if vector.is_long(rows) { Err(output) } else { Ok(step(&mut **vector, ids, actions, output)) }
        };
        match self.vector.try_with(py, output, quick) {
            Ok(Ok(events)) => events,
            Ok(Err(output)) | Err(output) => {
                // Detached, others may write to the array: only a copy stays what was checked.
                let own = actions.to_owned();
                self.vector.detached(py, |vector| step(&mut **vector, ids, own.as_values(), output))
            }
        }
    }

    /// An array for the infos of `rows` environments, and its elements; None if they have none.
    fn fresh_info<'py, 'a>(
        &self,
        py: Python<'py>,
        rows: usize,
    ) -> PyResult<(Option<Object<'py>>, Option<&'a mut [f64]>)> {
        if self.info.is_empty() {
            return Ok((None, None));
        }
        let (array, values) = matrix(py, rows, self.info.iter().map(InfoField::len).sum())?;
        Ok((Some(array), Some(values)))
    }

    /// What happened in the last step, of `rows` environments that now show `obs`, in arrays.
    fn event_arrays<'py>(
        &self,
        py: Python<'py>,
        events: Events,
        obs: &Object<'py>,
        rows: usize,
    ) -> PyResult<(Object<'py>, Option<Object<'py>>, Option<Object<'py>>)> {
        let (ended, final_obs, infos) = match events {
            Events::Resets(rows) => return Ok((numbers(py, &rows)?, None, None)),
            Events::Ended(rows, final_obs, infos) => (rows, final_obs, infos),
        };
        let (obs_next, values) = self.observation.fresh(py, rows)?;
        values.copy_rows(self.observation.read(obs, rows)?, &ended, final_obs.as_values());
        let final_info = match infos.len() / ended.len() {
            0 => None,
            columns => {
                let (array, values) = matrix(py, ended.len(), columns)?;
                values.copy_from_slice(&infos);
                Some(array)
            }
        };
        Ok((numbers(py, &ended)?, Some(obs_next), final_info))
    }
}

/// What happened in a step beside the ordinary.
enum Events {
    /// Rows whose environments were only reset.
    Resets(Vec<usize>),
    /// Rows whose environments were reset after the step, with their final observations and infos.
    Ended(Vec<usize>, OwnedValues, Vec<f64>),
}

fn step(
    vector: &mut dyn AnyVector,
    ids: Option<&[usize]>,
    actions: Values<'_>,
    (output, infos): StepOutput<'_>,
) -> Result<Option<Events>, VectorError> {
    vector.step(ids, actions, output)?;
    write_infos(vector, ids, infos)?;
    if !vector.resets().is_empty() {
        return Ok(Some(Events::Resets(vector.resets().to_vec())));
    }
    let ended = vector.ended();
    let events = || Events::Ended(ended.to_vec(), vector.final_obs().to_owned(), vector.final_info().to_vec());
    Ok((!ended.is_empty()).then(events))
}

/// The environments' infos as they are now, `(rows, numbers)`.
fn write_infos(vector: &dyn AnyVector, ids: Option<&[usize]>, infos: Option<&mut [f64]>) -> Result<(), VectorError> {
    infos.map_or(Ok(()), |values| vector.info(ids, values))
}

// -- arrays ----------------------------------------------------------------------------------------------------------

impl Row {
    fn new(py: Python<'_>, space: Space, dtype: DType) -> Self {
        let dims = match &space {
            Space::Discrete { .. } => Vec::new(),
            Space::Box { shape, .. } => shape.iter().map(|&length| length as npy_intp).collect(),
            Space::MultiDiscrete { .. } | Space::Tuple(_) => vec![space.len() as npy_intp],
        };
        let descr = match dtype {
            DType::Float32 => numpy::dtype::<f32>(py),
            DType::Float64 => numpy::dtype::<f64>(py),
            DType::Int8 => numpy::dtype::<i8>(py),
            DType::Int32 => numpy::dtype::<i32>(py),
            DType::Int64 => numpy::dtype::<i64>(py),
            DType::UInt8 => numpy::dtype::<u8>(py),
        };
        Self { space, dtype, descr: descr.unbind(), dims }
    }

    /// A fresh array of `rows` rows, and its elements, which nobody else has yet.
    fn fresh<'py, 'a>(&self, py: Python<'py>, rows: usize) -> PyResult<(Object<'py>, ValuesMut<'a>)> {
        let descr = self.descr.bind(py);
        let mut dims: Vec<_> = std::iter::once(rows as npy_intp).chain(self.dims.iter().copied()).collect();
        let elements = elements(&dims)?;
        let bytes = product(&[elements, descr.itemsize()]).python()?;
        let (array, data) = array::empty(descr, &mut dims, bytes)?;
        // SAFETY: `elements` of this dtype; callers keep the array until they are done with the values, and show it to nobody
        // before; every bit pattern is a number.
        let values = unsafe { erased!(self.dtype, from_raw_parts_mut(data, elements), hide_mut) };
        Ok((array, values))
    }

    /// The elements of an array of `rows` rows that is exactly as the environments take it.
    fn read<'a>(&self, object: &'a Object<'_>, rows: usize) -> PyResult<Values<'a>> {
        if !array::is_array(object.py(), object.as_ptr()) {
            return mismatch!("actions are no array");
        }
        // SAFETY: an array, which lives as long as `object`.
        let given = unsafe { array::fields(object.as_ptr()) };
        // SAFETY: as above.
        let (dims, _) = unsafe { array::axes(given) };
        let as_is =
            given.flags & NPY_ARRAY_CARRAY_RO == NPY_ARRAY_CARRAY_RO && given.descr.cast() == self.descr.as_ptr();
        if !as_is || dims.first() != Some(&(rows as npy_intp)) || dims[1..] != self.dims {
            return mismatch!("actions are not an array of {:?} with {rows} rows of {:?}", self.dtype, self.dims);
        }
        let elements = dims.iter().product::<npy_intp>() as usize;
        // SAFETY: so many elements of this dtype in C order; callers stay attached while they use them, so nobody writes.
        Ok(unsafe { erased!(self.dtype, from_raw_parts(given.data, elements), hide) })
    }
}

/// The number of elements of an array.
fn elements(dims: &[npy_intp]) -> PyResult<usize> {
    dims.iter().try_fold(1, |elements, &length| product(&[elements, length as usize])).python()
}

/// A fresh array of numbers or bools, and its elements as bytes hold them, which nobody else has yet.
fn fresh<'py, 'a, T>(
    descr: &Bound<'py, PyArrayDescr>,
    mut dims: Vec<npy_intp>,
) -> PyResult<(Object<'py>, &'a mut [T])> {
    let elements = elements(&dims)?;
    let (array, data) = array::empty(descr, &mut dims, product(&[elements, size_of::<T>()]).python()?)?;
    // SAFETY: so many elements; callers keep the array until they are done with them, and show it to nobody before.
    Ok((array, unsafe { std::slice::from_raw_parts_mut(data.cast(), elements) }))
}

/// A fresh `(rows, columns)` array of doubles.
fn matrix<'py, 'a>(py: Python<'py>, rows: usize, columns: usize) -> PyResult<(Object<'py>, &'a mut [f64])> {
    fresh(&numpy::dtype::<f64>(py), vec![rows as npy_intp, columns as npy_intp])
}

/// `values` as int64.
fn numbers<'py>(py: Python<'py>, values: &[usize]) -> PyResult<Object<'py>> {
    let values = collected(values.iter().map(|&value| value as i64)).python()?;
    Ok(array::vector(py, &values)?.into_any())
}

// -- arguments -------------------------------------------------------------------------------------------------------

fn autoreset_mode(name: &str) -> PyResult<Autoreset> {
    match name {
        "Disabled" => Ok(Autoreset::Disabled),
        "NextStep" => Ok(Autoreset::NextStep),
        "SameStep" => Ok(Autoreset::SameStep),
        _ => Err(PyValueError::new_err(format!("autoreset must be Disabled, NextStep or SameStep, got {name}"))),
    }
}

fn read_ids(ids: &Object<'_>) -> PyResult<Vec<usize>> {
    let ids = ids.extract::<array::Index>()?.rows;
    let read =
        |id: i64| usize::try_from(id).map_err(|_| PyIndexError::new_err(format!("there is no environment {id}")));
    let mut read_ids = with_room(ids.len()).python()?;
    for id in ids {
        read_ids.push(read(id)?);
    }
    Ok(read_ids)
}

fn read_seed(seed: &Object<'_>) -> PyResult<Option<u64>> {
    seed.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(seed.py()) {
        true => PyValueError::new_err(format!("a seed must be within 0 and 2**64 - 1, got {seed}")),
        false => PyTypeError::new_err(format!("a seed must be an integer or None, got {seed}")),
    })
}

/// How deep lists in arguments may be nested.
const MAX_DEPTH: usize = 16;

fn read_arguments(given: &Bound<'_, PyDict>) -> PyResult<Arguments> {
    given.iter().map(|(name, value)| Ok((name.extract()?, read_argument(&name, &value, 0)?))).collect()
}

fn read_argument(name: &Object<'_>, value: &Object<'_>, depth: usize) -> PyResult<Argument> {
    if value.is_none() {
        Ok(Argument::Missing)
    } else if let Ok(value) = value.extract::<bool>() {
        Ok(Argument::Bool(value))
    } else if let Ok(value) = value.extract::<i64>() {
        Ok(Argument::Int(value))
    } else if let Ok(value) = value.extract::<f64>() {
        Ok(Argument::Float(value))
    } else if let Ok(value) = value.extract::<String>() {
        Ok(Argument::Text(value))
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if depth == MAX_DEPTH {
            return Err(PyValueError::new_err(format!("{name} must be nested at most {MAX_DEPTH} deep")));
        }
        let items = value.try_iter()?.map(|item| read_argument(name, &item?, depth + 1));
        items.collect::<PyResult<Vec<_>>>().map(Argument::List)
    } else {
        let kind = value.get_type();
        Err(PyTypeError::new_err(format!("{name} must be a number, a string, a bool, or a list of such, got {kind}")))
    }
}

/// A space in words: its kind, and what it takes to make it.
fn describe<'py>(py: Python<'py>, space: &Space) -> PyResult<Object<'py>> {
    let described = match space {
        Space::Discrete { n, start } => ("discrete", *n, *start).into_pyobject(py)?,
        Space::MultiDiscrete { counts } => ("multi_discrete", counts.clone()).into_pyobject(py)?,
        Space::Box { low, high, shape, dtype } => {
            ("box", low.clone(), high.clone(), shape.clone(), dtype.name()).into_pyobject(py)?
        }
        Space::Tuple(spaces) => {
            let spaces = spaces.iter().map(|space| describe(py, space)).collect::<PyResult<Vec<_>>>()?;
            ("tuple", spaces).into_pyobject(py)?
        }
    };
    Ok(described.into_any())
}

// -- errors ----------------------------------------------------------------------------------------------------------

fn registry_error(error: RegistryError) -> PyErr {
    let text = error.to_string();
    match error {
        RegistryError::Memory(..) => PyMemoryError::new_err(text),
        RegistryError::Name { .. } => PyTypeError::new_err(text),
        RegistryError::Id { .. } | RegistryError::Argument { .. } | RegistryError::Refused(_) => {
            PyValueError::new_err(text)
        }
    }
}

fn vector_error(error: VectorError) -> PyErr {
    let text = error.to_string();
    match error {
        VectorError::Unknown { .. } | VectorError::Twice { .. } => PyIndexError::new_err(text),
        VectorError::Step { error: StepError::NeedsReset, .. } => PyRuntimeError::new_err(text),
        VectorError::Type => PyTypeError::new_err(text),
        VectorError::Lengths { .. }
        | VectorError::OptionCount { .. }
        | VectorError::Options(_)
        | VectorError::Step { .. }
        | VectorError::Load { .. } => PyValueError::new_err(text),
    }
}
