//! Where rows stand in their episodes, and what they expand into.

use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Replay, State};
use crate::array::{integers, vector};
use crate::error::IntoPython as _;
use crate::index::{Memory, recall, remembering};

type Returns<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>, Bound<'py, PyAny>);
type Followed<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);
type Goals<'py> = (Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<i64>>);

impl Replay {
    fn map<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        step: impl Fn(&State, usize) -> usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (mut index, shape) = integers(index)?;
        {
            let state = self.lock(py);
            state.engine.rings().check(&index).python()?;
            for i in &mut index {
                *i = step(&state, *i as usize) as i64;
            }
        }
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        Ok(PyArray1::from_vec(py, index).reshape(shape)?.into_any())
    }
}

#[pymethods]
impl Replay {
    fn prev<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.prev(i))
    }

    fn next<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.next(i))
    }

    fn episode_start<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.bounds(i).0)
    }

    fn episode_end<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |state, i| state.engine.bounds(i).1)
    }

    fn unfinished<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rows: Vec<i64> = {
            let state = self.lock(py);
            let running = state.engine.rings().iter().filter(|ring| ring.is_running());
            running.map(|ring| ring.newest_slot() as i64).collect()
        };
        vector(py, &rows)
    }

    #[pyo3(signature = (ring = None))]
    fn chronological<'py>(&self, py: Python<'py>, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.lock(py);
        let ring = Self::ring(&state, ring)?;
        let memory = state.memory(state.engine.chronological(ring));
        drop(state);
        remembering(py, memory, None)
    }

    fn unroll<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
        let (index, _) = integers(index)?;
        let (mut rows, mut counts) = (vec![0; index.len() * length], vec![0; index.len()]);
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.units().python()?.unroll(&index, length, &mut rows, &mut counts);
        drop(state);
        let rows = vector(py, &rows).reshape([index.len(), length])?.into_any();
        Ok((rows, vector(py, &counts)))
    }

    fn window<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        before: usize,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (index, _) = integers(index)?;
        let width = before + length;
        let (mut rows, mut mask) = (vec![0; index.len() * width], vec![false; index.len() * width]);
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.units().python()?.window(&index, before, length, &mut rows, &mut mask);
        drop(state);
        let shape = [index.len(), width];
        Ok((vector(py, &rows).reshape(shape)?.into_any(), vector(py, &mask).reshape(shape)?.into_any()))
    }

    fn nstep<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        n_step: usize,
        gamma: f64,
    ) -> PyResult<Returns<'py>> {
        if n_step == 0 {
            return Err(PyValueError::new_err("n_step must be at least 1, got 0"));
        }
        let goals = recall(index).and_then(|memory| memory.goals);
        let (index, _) = integers(index)?;
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        let agents = state.engine.agents();
        let (mut sums, mut discounts) = (vec![0.0; index.len() * agents], vec![0.0; index.len()]);
        let mut last = vec![0; index.len()];
        state.engine.units().python()?.nstep(&index, n_step, gamma, &mut sums, &mut discounts, &mut last);
        let scalar = state.engine.scalar_reward();
        let memory = Memory { goals, ..state.memory(last) };
        drop(state);
        let sums = vector(py, &sums);
        let sums = if scalar { sums.into_any() } else { sums.reshape([index.len(), agents])?.into_any() };
        Ok((sums, vector(py, &discounts), remembering(py, memory, None)?))
    }

    fn follow<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        length: usize,
        value: &Bound<'py, PyTuple>,
        ends: Vec<Bound<'py, PyTuple>>,
    ) -> PyResult<Followed<'py>> {
        if length == 0 {
            return Err(PyValueError::new_err("length must be at least 1, got 0"));
        }
        let (index, _) = integers(index)?;
        let mut values = vec![0.0; index.len() * length];
        let (mut last, mut before) = (index.clone(), vec![0; index.len()]);
        let state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        let value = state.find(value)?;
        let ends = ends.iter().map(|path| state.find(path)).collect::<PyResult<Vec<_>>>()?;
        let units = state.engine.units().python()?;
        units.follow(&index, value, &ends, &mut values, &mut last, &mut before).python()?;
        drop(state);
        let values = PyArray1::from_vec(py, values).reshape([index.len(), length])?.into_any();
        Ok((values, PyArray1::from_vec(py, last), PyArray1::from_vec(py, before)))
    }

    fn hindsight<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        future_k: f64,
        horizon: usize,
    ) -> PyResult<Goals<'py>> {
        let (index, _) = integers(index)?;
        let (mut relabel, mut goals) = (vec![false; index.len()], vec![0; index.len()]);
        let mut state = self.lock(py);
        state.engine.rings().check(&index).python()?;
        state.engine.hindsight(&index, future_k, horizon, &mut relabel, &mut goals).python()?;
        drop(state);
        Ok((vector(py, &relabel), vector(py, &goals)))
    }

    fn stamp<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let goals = recall(index).and_then(|memory| memory.goals);
        let (index, shape) = integers(index)?;
        let memory = {
            let state = self.lock(py);
            state.engine.rings().check(&index).python()?;
            Memory { goals, ..state.memory(index) }
        };
        remembering(py, memory, Some(shape))
    }
}
