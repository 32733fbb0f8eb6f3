//! `Network`: the forward passes of small networks whose weights are in arrays, such as views of tensors.

use std::ops::Deref;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArray};
use rlfast_core::convert::as_singles;
use rlfast_core::error::Result;
use rlfast_core::nn::{Choice, Network as Engine, Node, Part, Scratch, Weights};
use rlfast_core::source::Source;

use crate::prelude::*;

/// The numbers of observations.
enum Numbers<'a> {
    /// Those of an array of floats.
    Borrowed(&'a [f32]),
    /// Converted ones.
    Own(Scratch),
    /// Likewise, of other types.
    Converted(Vec<f32>),
}

impl Deref for Numbers<'_> {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        match self {
            Self::Borrowed(numbers) => numbers,
            Self::Own(numbers) => numbers,
            Self::Converted(numbers) => numbers,
        }
    }
}

type Floats<'py> = PyReadonlyArrayDyn<'py, f32>;

/// A network whose weights are read from arrays at every pass.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Network {
    engine: Engine,
    /// The arrays that the weights are read from.
    _kept: Vec<Py<PyAny>>,
}

/// Actions, and the numbers of another slot if they were wanted.
type Chosen<'py> = (Object<'py>, Option<Object<'py>>);

/// Passes of more products than this release the interpreter.
const LONG: usize = 4_000_000;

#[pymethods]
impl Network {
    #[new]
    fn new(inputs: usize, nodes: Items<Bound<'_, PyTuple>>) -> PyResult<Self> {
        let mut kept = Vec::new();
        let nodes = nodes.iter().map(|node| read_node(node, &mut kept)).collect::<PyResult<_>>()?;
        Ok(Self { engine: Engine::new(inputs, nodes).python()?, _kept: kept })
    }

    fn forward<'py>(&self, obs: &Object<'py>, slots: Items<usize>) -> PyResult<Vec<Object<'py>>> {
        let py = obs.py();
        let (numbers, rows) = self.read(obs)?;
        let widths = self.engine.widths(&slots).python()?;
        let outputs = widths.into_iter().map(|width| NewArray::new(py, &[rows, width]));
        let mut outputs: Vec<NewArray<'_, f32>> = outputs.collect::<PyResult<_>>()?;
        let mut rooms: Vec<_> = outputs.iter_mut().map(NewArray::items).collect();
        self.run(py, numbers, rows, |numbers| self.engine.forward(numbers, &slots, &mut rooms)).python()?;
        Ok(outputs.into_iter().map(|output| output.array).collect())
    }

    #[pyo3(signature = (obs, clocks = None))]
    fn choose<'py>(&self, obs: &Object<'py>, clocks: Option<Floats<'_>>) -> PyResult<Option<Object<'py>>> {
        Ok(self.chosen(obs, None, clocks)?.map(|(actions, _)| actions))
    }

    #[pyo3(signature = (obs, slot, clocks = None))]
    fn step<'py>(&self, obs: &Object<'py>, slot: usize, clocks: Option<Floats<'_>>) -> PyResult<Option<Chosen<'py>>> {
        self.chosen(obs, Some(slot), clocks)
    }

    #[getter]
    fn outputs(&self) -> usize {
        self.engine.outputs()
    }

    #[getter]
    fn widths(&self) -> PyResult<Vec<usize>> {
        self.engine.widths(&(0..self.engine.slots()).collect::<Vec<_>>()).python()
    }

    fn choose_one(&self, obs: &Object<'_>) -> PyResult<Option<i64>> {
        self.engine.choose_one(&numbers(obs)?.0).python()
    }
}

impl Network {
    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Chooses actions, and computes the numbers of another slot in the same pass.
    fn chosen<'py>(
        &self,
        obs: &Object<'py>,
        slot: Option<usize>,
        clocks: Option<Floats<'_>>,
    ) -> PyResult<Option<Chosen<'py>>> {
        let py = obs.py();
        let (numbers, rows) = self.read(obs)?;
        let clocks = clocks.map(|clocks| vectors::copied(clocks.as_slice()?).python()).transpose()?;
        let mut output = NewArray::new(py, &[rows])?;
        let width = slot.map(|slot| self.engine.widths(&[slot])).transpose().python()?;
        let mut also = width.map(|width| NewArray::<f32>::new(py, &[rows, width[0]])).transpose()?;
        let actions = output.items();
        let room = slot.zip(also.as_mut().map(NewArray::items));
        let choice = clocks.as_deref().map_or(Choice::Greatest, Choice::Clocks);
        let decided =
            self.run(py, numbers, rows, |numbers| self.engine.step(numbers, choice, actions, room)).python()?;
        Ok(decided.then_some((output.array, also.map(|also| also.array))))
    }

    /// Runs a pass, detached from the interpreter if it is long.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        numbers: Numbers<'_>,
        rows: usize,
        pass: impl FnOnce(&[f32]) -> Result<R> + Send,
    ) -> Result<R> {
        if rows.saturating_mul(self.engine.products()) < LONG {
            return pass(&numbers);
        }
        let own; // detached, others may write to the array
        let numbers: &[f32] = if let Numbers::Borrowed(numbers) = numbers {
            own = Scratch::converted(numbers)?;
            &own
        } else {
            &numbers
        };
        py.detach(|| pass(numbers))
    }

    /// The numbers of a batch of observations, and its rows.
    fn read<'a>(&self, obs: &'a Object<'_>) -> PyResult<(Numbers<'a>, usize)> {
        let (numbers, rows) = numbers(obs)?;
        let rows = self.engine.rows_of(numbers.len(), rows).python()?;
        Ok((numbers, rows))
    }
}

/// The numbers of an array, and the length of its first axis.
fn numbers<'a>(obs: &'a Object<'_>) -> PyResult<(Numbers<'a>, Option<usize>)> {
    let Some(array) = array::of(obs) else { return mismatch!("observations are no array") };
    let rows = array.shape().first().copied();
    // SAFETY: callers read them while attached, without running anything of Python's.
    if let Some(floats) = unsafe { array::elements(array) } {
        return Ok((Numbers::Borrowed(floats), rows));
    }
    // SAFETY: as above.
    if let Some(bytes) = unsafe { array::elements::<u8>(array) } {
        return Ok((Numbers::Own(Scratch::converted(bytes).python()?), rows));
    }
    let descr = array.dtype();
    let source = Source::rows(array::data(array), descr.itemsize() as isize);
    let number = array::number_type(&descr).filter(|_| array.is_c_contiguous());
    // SAFETY: so many contiguous numbers of this type.
    match number.and_then(|number| unsafe { as_singles(number, source, array.len()) }) {
        Some(singles) => Ok((Numbers::Converted(singles), rows)),
        None => mismatch!("observations are of a dtype that is not read directly, or not contiguous"),
    }
}

/// Reads a node, and adds the arrays of its weights to `kept`.
fn read_node(node: &Bound<'_, PyTuple>, kept: &mut Vec<Py<PyAny>>) -> PyResult<Node> {
    let part = |part: Object<'_>| match part.cast::<PyUntypedArray>() {
        _ if part.is_none() => Ok(Part::Missing),
        Ok(array) => {
            if let Ok(places) = array.cast::<PyArray1<i64>>() {
                let places = vectors::copied(places.readonly().as_slice()?).python()?;
                let place = |place| usize::try_from(place).map_err(|_| raised!(PyValueError, "places count from 0"));
                return Ok(Part::Places(places.into_iter().map(place).collect::<PyResult<_>>()?));
            }
            let rows = if let &[rows, _] = array.shape() { Some(rows) } else { None };
            Ok(Part::Weights(weights(&part, kept)?, rows))
        }
        Err(_) => part.extract().map(Part::Number),
    };
    let parts = node.iter().skip(1).map(part).collect::<PyResult<Vec<_>>>()?;
    Node::described(node.get_item(0)?.extract()?, &parts).python()
}

/// The floats of an array, which is kept.
fn weights(array: &Object<'_>, kept: &mut Vec<Py<PyAny>>) -> PyResult<Weights> {
    let floats = array.cast::<PyArrayDyn<f32>>()?;
    // SAFETY: so many floats, as they are contiguous; NumPy refuses to resize an array that others refer to, and `kept` does.
    let found = unsafe { Weights::new(floats.data(), floats.len()) }.filter(|_| floats.is_c_contiguous());
    kept.push(array.clone().unbind());
    found.ok_or_else(|| raised!(PyValueError, "weights are contiguous and aligned"))
}
