//! `Network`: the forward passes of small networks whose weights are in arrays, such as views of tensors.

use std::borrow::Cow;

use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rlfast_core::convert::as_singles;
use rlfast_core::nn::{Choice, Function, Network as Engine, Node, Weights};
use rlfast_core::replay::table::Source;
use rlfast_core::vectors::{self, product};

use crate::array::{self, fresh};
use crate::error::{IntoPython as _, mismatch};
use crate::items::Items;

type Object<'py> = Bound<'py, PyAny>;
type Floats<'py> = PyReadonlyArrayDyn<'py, f32>;

/// A network whose weights are read from arrays at every pass.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Network {
    engine: Engine,
    /// The arrays that the weights are read from.
    _kept: Vec<Py<PyAny>>,
}

/// Passes of more products than this release the interpreter.
const LONG: usize = 4_000_000;

#[pymethods]
impl Network {
    #[new]
    fn new(inputs: usize, nodes: Items<Bound<'_, PyTuple>>) -> PyResult<Self> {
        let mut kept = Vec::new();
        let nodes = nodes.0.iter().map(|node| read_node(node, &mut kept)).collect::<PyResult<_>>()?;
        Ok(Self { engine: Engine::new(inputs, nodes).python()?, _kept: kept })
    }

    fn forward<'py>(&self, obs: &Object<'py>, slots: Items<usize>) -> PyResult<Vec<Object<'py>>> {
        let py = obs.py();
        let (numbers, rows) = self.read(obs)?;
        let (mut arrays, mut rooms) = (Vec::new(), Vec::new());
        for &slot in &slots.0 {
            let Some(width) = self.engine.width(slot) else {
                return Err(PyValueError::new_err(format!("there is no slot {slot} of {}", self.engine.slots())));
            };
            let elements = product(&[rows, width]).python()?;
            let (array, room) = fresh::<f32>(py, &[rows, width])?;
            arrays.push(array);
            // SAFETY: a fresh array of so many floats, which nobody else knows before this method returns.
            rooms.push(unsafe { std::slice::from_raw_parts_mut(room, elements) });
        }
        self.run(py, numbers, rows, |numbers| self.engine.forward(numbers, &slots.0, &mut rooms)).python()?;
        Ok(arrays)
    }

    #[pyo3(signature = (obs, clocks = None))]
    fn choose<'py>(&self, obs: &Object<'py>, clocks: Option<Floats<'_>>) -> PyResult<Option<Object<'py>>> {
        let py = obs.py();
        let (numbers, rows) = self.read(obs)?;
        let clocks = clocks.map(|clocks| vectors::copied(clocks.as_slice()?).python()).transpose()?;
        let (array, room) = fresh::<i64>(py, &[rows])?;
        // SAFETY: as in `forward`.
        let actions = unsafe { std::slice::from_raw_parts_mut(room, rows) };
        let choice = clocks.as_deref().map_or(Choice::Greatest, Choice::Clocks);
        let decided = self.run(py, numbers, rows, |numbers| self.engine.choose(numbers, choice, actions)).python()?;
        Ok(decided.then_some(array))
    }

    #[getter]
    fn outputs(&self) -> usize {
        self.engine.outputs()
    }

    fn choose_one(&self, obs: &Object<'_>) -> PyResult<Option<i64>> {
        let (numbers, _) = self.numbers(obs)?;
        if numbers.len() != self.engine.inputs() {
            return mismatch!("an observation has {} numbers, got {}", self.engine.inputs(), numbers.len());
        }
        let mut action = [0];
        Ok(self.engine.choose(&numbers, Choice::Greatest, &mut action).python()?.then_some(action[0]))
    }
}

impl Network {
    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a pass, detached from the interpreter if it is long.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        numbers: Cow<'_, [f32]>,
        rows: usize,
        pass: impl FnOnce(&[f32]) -> R + Send,
    ) -> R {
        if rows.saturating_mul(self.engine.products()) < LONG {
            return pass(&numbers);
        }
        let own = numbers.into_owned(); // detached, others may write to the array
        py.detach(|| pass(&own))
    }

    /// The numbers of a batch of observations, and its rows.
    fn read<'a>(&self, obs: &'a Object<'_>) -> PyResult<(Cow<'a, [f32]>, usize)> {
        let (numbers, rows) = self.numbers(obs)?;
        match rows {
            Some(rows) if rows.checked_mul(self.engine.inputs()) == Some(numbers.len()) => Ok((numbers, rows)),
            _ => mismatch!("rows have {} numbers, got {} in all", self.engine.inputs(), numbers.len()),
        }
    }

    /// The numbers of an array, and the length of its first axis.
    fn numbers<'a>(&self, obs: &'a Object<'_>) -> PyResult<(Cow<'a, [f32]>, Option<usize>)> {
        if !array::is_array(obs.py(), obs.as_ptr()) {
            return mismatch!("observations are no array");
        }
        if let Ok(floats) = obs.cast::<numpy::PyArrayDyn<f32>>()
            && floats.is_c_contiguous()
        {
            let rows = floats.shape().first().copied();
            let numbers = match floats.len() {
                0 => &[][..],
                // SAFETY: so many contiguous floats, alive through `obs`; while attached, nobody else writes to them.
                length => unsafe { std::slice::from_raw_parts(numpy::PyArrayMethods::data(floats), length) },
            };
            return Ok((Cow::Borrowed(numbers), rows));
        }
        // SAFETY: an array, which lives as long as `obs`.
        let given = unsafe { array::fields(obs.as_ptr()) };
        // SAFETY: as above.
        let (dims, _) = unsafe { array::axes(given) };
        let descr = numpy::PyUntypedArrayMethods::dtype(obs.cast::<numpy::PyUntypedArray>()?);
        let length = dims.iter().product::<isize>() as usize;
        let stride = numpy::PyArrayDescrMethods::itemsize(&descr) as isize;
        let source = Source::rows(given.data.cast(), stride);
        let number = array::number_type(&descr).filter(|_| array::is_contiguous(given));
        // SAFETY: so many contiguous numbers of this type.
        match number.and_then(|number| unsafe { as_singles(number, source, length) }) {
            Some(singles) => Ok((Cow::Owned(singles), dims.first().map(|&rows| rows as usize))),
            None => mismatch!("observations are of a dtype that is not read directly, or not contiguous"),
        }
    }
}

/// Reads a node, and adds the arrays of its weights to `kept`.
fn read_node(node: &Bound<'_, PyTuple>, kept: &mut Vec<Py<PyAny>>) -> PyResult<Node> {
    let item = |at: usize| node.get_item(at);
    let slot = |at: usize| item(at)?.extract::<usize>();
    let number = |at: usize| item(at)?.extract::<f32>();
    let kind: String = item(0)?.extract()?;
    let map = |function| Ok(Node::Map { input: slot(1)?, function });
    match kind.as_str() {
        "linear" => {
            let (weight, bias) = (item(2)?, item(3)?);
            let outputs = match weight.cast::<numpy::PyArrayDyn<f32>>()?.shape() {
                &[outputs, _] => outputs,
                other => return Err(PyValueError::new_err(format!("weights have two axes, got shape {other:?}"))),
            };
            let bias = if bias.is_none() { None } else { Some(weights(&bias, kept)?) };
            let weight = weights(&weight, kept)?;
            Ok(Node::Linear { input: slot(1)?, weight, bias, outputs, relu: item(4)?.extract()? })
        }
        "softmax" => Ok(Node::Softmax { input: slot(1)? }),
        "dueling" => Ok(Node::Dueling { advantage: slot(1)?, value: slot(2)? }),
        "constant" => Ok(Node::Constant { values: weights(&item(1)?, kept)? }),
        "relu" => map(Function::Relu),
        "leaky_relu" => map(Function::LeakyRelu(number(2)?)),
        "tanh" => map(Function::Tanh),
        "sigmoid" => map(Function::Sigmoid),
        "silu" => map(Function::Silu),
        "elu" => map(Function::Elu(number(2)?)),
        "exp" => map(Function::Exp),
        "clamp" => map(Function::Clamp(number(2)?, number(3)?)),
        "scale" => map(Function::Scale(number(2)?)),
        other => Err(PyValueError::new_err(format!("there is no node {other}"))),
    }
}

/// The floats of an array, which is kept.
fn weights(array: &Object<'_>, kept: &mut Vec<Py<PyAny>>) -> PyResult<Weights> {
    let floats = array.cast::<numpy::PyArrayDyn<f32>>()?;
    let data = numpy::PyArrayMethods::data(floats);
    // SAFETY: so many floats, as they are contiguous; NumPy refuses to resize an array that others refer to, and `kept` does.
    let found = unsafe { Weights::new(data, floats.len()) };
    match found.filter(|_| floats.is_c_contiguous()) {
        Some(found) => {
            kept.push(array.clone().unbind());
            Ok(found)
        }
        None => Err(PyValueError::new_err("weights are contiguous and aligned")),
    }
}
