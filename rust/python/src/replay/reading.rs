//! Rows out, drawn or named.

use std::sync::Arc;

use numpy::npyffi::types::npy_intp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rlfast_core::error::Result;
use rlfast_core::memory::{Region, Storage};
use rlfast_core::replay::check_stack;
use rlfast_core::replay::gather::{Output, What};
use rlfast_core::replay::layout::Layout;
use rlfast_core::vectors;

use super::{Replay, State, find};
use crate::array::{self, RegionKeeper, integers, vector};
use crate::columns::Columns;
use crate::error::IntoPython as _;
use crate::index::{Memory, remembering};
use crate::items::Items;
use crate::taking::{Filled, Pair, Plan, around};

/// What is asked for of rows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a, 'py> {
    /// The top-level keys; None is all.
    pub keys: Option<&'a [String]>,
    /// How many rows are stacked into one; None is as the buffer has it.
    pub stack: Option<usize>,
    /// Arrays to be filled.
    pub out: Option<&'a Bound<'py, PyAny>>,
}

/// Which rows.
enum Which<'a> {
    Given(&'a [i64]),
    /// So many as there is room for.
    Drawn(&'a mut Vec<i64>),
}

impl Which<'_> {
    fn rows(&self) -> &[i64] {
        match self {
            Self::Given(rows) => rows,
            Self::Drawn(rows) => rows,
        }
    }

    /// Draws the rows, or checks those that were given.
    fn settle(&mut self, state: &mut State) -> Result<()> {
        match self {
            Self::Given(rows) => state.engine().rings().check(rows),
            Self::Drawn(rows) => state.options_mut().draw(rows, None),
        }
    }
}

/// What is known before there are arrays.
struct Ready {
    columns: Arc<Columns>,
    plan: Arc<Plan>,
    pairs: Vec<Pair>,
    /// The count of writes at which rows were drawn, or the pairs found.
    at: Option<u64>,
}

enum Looked {
    Ready(Ready),
    /// There is no plan for these columns yet.
    Unplanned(Arc<Columns>, usize, Box<Layout>),
}

impl Replay {
    /// The rows at `index`, whose shape is `shape`.
    pub(crate) fn taken<'py>(
        &self,
        py: Python<'py>,
        index: &[i64],
        shape: &[npy_intp],
        asked: Asked<'_, 'py>,
    ) -> PyResult<Filled<'py>> {
        let (filled, ()) = self.filled(py, Which::Given(index), shape, asked, |_, _| Ok(()))?;
        Ok(filled)
    }

    /// The rows in fresh arrays, and what else is to be known of them at the time at which they are copied.
    fn filled<'py, T: Send>(
        &self,
        py: Python<'py>,
        mut which: Which<'_>,
        shape: &[npy_intp],
        asked: Asked<'_, 'py>,
        beside: impl Fn(&mut State, &[i64]) -> Result<T> + Sync,
    ) -> PyResult<(Filled<'py>, T)> {
        let mut share = asked.out.is_none() && shape.len() == 1;
        loop {
            let ready = self.ready(py, &mut which, asked, share)?;
            let count = which.rows().len();
            let room = ready.plan.room(py, &ready.columns, count, shape, &ready.pairs, asked.out)?;
            let gather = |state: &mut State| {
                let same = state.has(&ready.columns) && ready.at.is_none_or(|at| at == state.writes());
                if !same {
                    return Ok(None);
                }
                if ready.at.is_none() {
                    which.settle(state)?;
                }
                // SAFETY: the index was checked or drawn, and each output was made with room for its rows.
                unsafe { state.engine().reader()?.gather(which.rows(), &room.outputs) };
                beside(state, which.rows()).map(Some)
            };
            if let Some(beside) = self.state.over(py, room.bytes, gather).python()? {
                return Ok((room.filled(ready.plan), beside));
            }
            // Another thread wrote in between. Without shared blocks, nothing depends on what the rows are before they are copied.
            share = false;
        }
    }

    /// The plan for what is asked; with `share`, and where it matters, also which rows there are and what can share blocks.
    fn ready(&self, py: Python<'_>, which: &mut Which<'_>, asked: Asked<'_, '_>, share: bool) -> PyResult<Ready> {
        loop {
            match self.state.with(py, |state| look(state, which, asked.keys, asked.stack, share)).python()? {
                Looked::Ready(ready) => return Ok(ready),
                Looked::Unplanned(columns, stack, layout) => {
                    let plan = Arc::new(Plan::new(py, &columns, &layout, asked.keys, stack)?);
                    let kept = (asked.keys.map(<[String]>::to_vec), stack, plan);
                    drop(self.state.with(py, |state| state.keep(&columns, kept)));
                }
            }
        }
    }
}

fn look(
    state: &mut State,
    which: &mut Which<'_>,
    keys: Option<&[String]>,
    stack: Option<usize>,
    share: bool,
) -> Result<Looked> {
    if state.engine().table().is_none() {
        which.settle(state)?; // a draw says best that there is nothing
    }
    let stack = stack.unwrap_or(state.engine().config.stack_num);
    check_stack(stack)?;
    let columns = state.columns().clone();
    let Some(plan) = state.plan(keys, stack).cloned() else {
        return Ok(Looked::Unplanned(columns, stack, Box::new(state.layout()?.clone())));
    };
    if !share || !plan.may_share() {
        return Ok(Looked::Ready(Ready { columns, plan, pairs: Vec::new(), at: None }));
    }
    which.settle(state)?;
    let pairs = plan.pairs(state.engine().reader()?, which.rows());
    Ok(Looked::Ready(Ready { columns, plan, pairs, at: Some(state.writes()) }))
}

/// A column: its memory, where it begins there, the bytes from one row to the next, and whether the rows are stored there.
struct Place {
    region: Arc<Region>,
    offset: usize,
    stride: usize,
    stored: bool,
}

#[pymethods]
impl Replay {
    #[pyo3(signature = (index, keys = None, stack_num = None, out = None))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        keys: Option<Items<String>>,
        stack_num: Option<usize>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (index, shape) = integers(index)?;
        let asked = Asked { keys: keys.as_ref().map(|keys| &keys.0[..]), stack: stack_num, out };
        self.taken(py, &index, &shape, asked)?.nest(py, &self.batch)
    }

    #[pyo3(signature = (batch_size, out = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: usize,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let mut index = vectors::filled(0, batch_size).python()?;
        let asked = Asked { out, ..Asked::default() };
        let known = |state: &mut State, index: &[i64]| Ok((state.weights(index, None)?, state.generations(index)?));
        let shape = [batch_size as npy_intp];
        let (filled, (weights, generations)) = self.filled(py, Which::Drawn(&mut index), &shape, asked, known)?;
        let fields = filled.nest(py, &self.batch)?;
        if let Some(weights) = weights {
            fields.set_item(pyo3::intern!(py, "weight"), vector(py, &weights)?)?;
        }
        let memory = Memory { index, generations: Some(generations), goals: None };
        Ok((around(&self.batch, fields)?, remembering(py, memory, None)?))
    }

    #[pyo3(signature = (batch_size, ring = None))]
    fn draw<'py>(&self, py: Python<'py>, batch_size: usize, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let mut index = vectors::filled(0, batch_size).python()?;
        let draw = |state: &mut State| {
            let ring = state.ring(ring)?;
            state.options_mut().draw(&mut index, ring)?;
            state.memory(index)
        };
        let memory = self.state.over(py, batch_size.saturating_mul(32), draw).python()?;
        remembering(py, memory, None)
    }

    fn view<'py>(&self, py: Python<'py>, path: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (columns, at, total, place) = loop {
            let columns = self.columns_now(py);
            let at = find(&columns, path)?;
            let look = |state: &mut State| {
                state.engine().reader()?;
                Ok(if state.has(&columns) { Some((state.engine().rings().total(), place(state, at)?)) } else { None })
            };
            let bytes = columns.columns[at].leaf.nbytes().saturating_mul(self.__len__(py)); // what there is to copy, if it is not stored as such
            if let Some((total, place)) = self.state.over(py, bytes, look).python()? {
                break (columns, at, total, place);
            }
        };
        let column = &columns.columns[at];
        let Place { region, offset, stride, stored } = place;
        let mut dims = vec![total as npy_intp];
        dims.extend(column.leaf.shape.iter().map(|&n| n as npy_intp));
        let mut strides = vec![column.leaf.itemsize as npy_intp; dims.len()];
        for axis in (1..dims.len() - 1).rev() {
            strides[axis] = strides[axis + 1] * dims[axis + 1];
        }
        strides[0] = stride as npy_intp;
        let writable = stored && !matches!(column.leaf.root(), "obs" | "terminated" | "truncated" | "done");
        let data = region.at(offset);
        let keeper = Bound::new(py, RegionKeeper::new(region))?.into_any();
        array::over(column.descr.bind(py), &mut dims, Some(&mut strides), data, writable, keeper)
    }

    fn set_column(&self, py: Python<'_>, path: &Bound<'_, PyTuple>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let column = self.view(py, path)?;
        let root: String = path.get_item(0)?.extract()?;
        if matches!(root.as_str(), "obs" | "obs_next" | "terminated" | "truncated" | "done") {
            return Err(PyValueError::new_err(format!("{root} cannot be overwritten in place; use load")));
        }
        let wanted = column.getattr("shape")?;
        let got = values.getattr("shape")?;
        if !wanted.eq(&got)? {
            return Err(PyValueError::new_err(format!("the column has shape {wanted}, got {got}")));
        }
        py.import("numpy")?.call_method1("copyto", (column, values))?;
        Ok(())
    }
}

/// Where the column with this number is. One that is not stored as such is put together, in memory of its own: what live rows have
/// of it, and zeros in the other rows, which take no memory.
fn place(state: &State, leaf: usize) -> Result<Place> {
    let engine = state.engine();
    let table = engine.table().expect("invariant: columns are laid out");
    if let Some((region, offset, stride)) = table.strided(leaf) {
        return Ok(Place { region: region.clone(), offset, stride, stored: true });
    }
    let (reader, what) = (engine.reader()?, What::Leaf(leaf));
    let stride = table.layout().output_bytes(what, 1);
    let region = Region::sparse(vectors::product(&[stride, engine.rings().total()])?, &Storage::Ram)?;
    for slots in engine.rings().stretches() {
        let index = vectors::collected(slots.clone().map(|slot| slot as i64))?;
        let output = [Output { what, stack: 1, dst: region.at(slots.start * stride) }];
        // SAFETY: the index names slots of live rows, for which the fresh region has room from the first of them on.
        unsafe { reader.gather(&index, &output) };
    }
    Ok(Place { region, offset: 0, stride, stored: false })
}
