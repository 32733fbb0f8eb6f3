//! Where rows stand in their episodes, and what they expand into.

use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rlfast_core::replay::Replay as Engine;
use rlfast_core::vectors::{copied, filled, product, sum};

use super::{Replay, State, find};
use crate::array::{integers, shaped, vector};
use crate::error::IntoPython as _;
use crate::index::{Provenance, recall, remembering};
use crate::items::Items;

type Returns<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>, Bound<'py, PyAny>);
type Followed<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);
type Goals<'py> = (Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<i64>>);

impl Replay {
    fn map<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        step: impl Fn(&Engine, usize) -> usize + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (mut index, shape) = integers(index)?;
        let walk = |state: &mut State| {
            state.engine().rings().check(&index)?;
            index.iter_mut().for_each(|i| *i = step(state.engine(), *i as usize) as i64);
            Ok(index)
        };
        let index = self.state.with(py, walk).python()?;
        shaped(PyArray1::from_vec(py, index), &shape)
    }
}

#[pymethods]
impl Replay {
    fn prev<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |engine, i| engine.prev(i))
    }

    fn next<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |engine, i| engine.next(i))
    }

    fn episode_start<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |engine, i| engine.bounds(i).0)
    }

    fn episode_end<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, index, |engine, i| engine.bounds(i).1)
    }

    fn unfinished<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = |state: &mut State| {
            let running = state.engine().rings().iter().filter(|ring| ring.is_running());
            running.map(|ring| ring.newest_slot() as i64).collect::<Vec<_>>()
        };
        vector(py, &self.state.with(py, rows))
    }

    #[pyo3(signature = (ring = None))]
    fn chronological<'py>(&self, py: Python<'py>, ring: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let rows = |state: &mut State| state.provenance(state.engine().chronological(state.ring(ring)?)?);
        remembering(py, self.state.with(py, rows).python()?, None)
    }

    fn unroll<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
        let (index, _) = integers(index)?;
        let places = product(&[index.len(), length]).python()?;
        let (mut rows, mut counts) = (filled(0, places).python()?, filled(0, index.len()).python()?);
        let unroll = |state: &mut State| {
            state.engine().rings().check(&index)?;
            state.engine().units()?.unroll(&index, length, &mut rows, &mut counts);
            Ok(())
        };
        self.state.over(py, places.saturating_mul(8), unroll).python()?;
        let rows = vector(py, &rows)?.reshape([index.len(), length])?.into_any();
        Ok((rows, vector(py, &counts)?))
    }

    fn window<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        before: usize,
        length: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (index, _) = integers(index)?;
        let width = sum(before, length).python()?;
        let places = product(&[index.len(), width]).python()?;
        let (mut rows, mut mask) = (filled(0, places).python()?, filled(false, places).python()?);
        let look = |state: &mut State| {
            state.engine().rings().check(&index)?;
            state.engine().units()?.window(&index, before, length, &mut rows, &mut mask);
            Ok(())
        };
        self.state.over(py, places.saturating_mul(9), look).python()?;
        let shape = [index.len(), width];
        Ok((vector(py, &rows)?.reshape(shape)?.into_any(), vector(py, &mask)?.reshape(shape)?.into_any()))
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
        let goals = recall(index)?.and_then(|found| found.goals);
        let (index, _) = integers(index)?;
        let add_up = |state: &mut State| {
            let engine = state.engine();
            engine.rings().check(&index)?;
            let agents = engine.agents();
            let mut sums = filled(0.0, product(&[index.len(), agents])?)?;
            let (mut discounts, mut last) = (filled(0.0, index.len())?, filled(0, index.len())?);
            engine.units()?.nstep(&index, n_step, gamma, &mut sums, &mut discounts, &mut last);
            let provenance = Provenance { goals, ..state.provenance(last)? };
            Ok((sums, discounts, provenance, agents, engine.scalar_reward()))
        };
        let (sums, discounts, provenance, agents, scalar) = self.state.over(py, index.len() * 32, add_up).python()?;
        let sums = vector(py, &sums)?;
        let sums = if scalar { sums.into_any() } else { sums.reshape([index.len(), agents])?.into_any() };
        Ok((sums, vector(py, &discounts)?, remembering(py, provenance, None)?))
    }

    fn follow<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        length: usize,
        value: &Bound<'py, PyTuple>,
        ends: Items<Bound<'py, PyTuple>>,
    ) -> PyResult<Followed<'py>> {
        if length == 0 {
            return Err(PyValueError::new_err("length must be at least 1, got 0"));
        }
        let (index, _) = integers(index)?;
        let places = product(&[index.len(), length]).python()?;
        let mut values = filled(0.0, places).python()?;
        let (mut last, mut before) = (copied(&index).python()?, filled(0, index.len()).python()?);
        loop {
            let columns = self.columns_now(py);
            let value = find(&columns, value)?;
            let ends = ends.0.iter().map(|path| find(&columns, path)).collect::<PyResult<Vec<_>>>()?;
            let follow = |state: &mut State| {
                if !state.has(&columns) {
                    return Ok(false);
                }
                state.engine().rings().check(&index)?;
                let units = state.engine().units()?;
                units.follow(&index, value, &ends, &mut values, &mut last, &mut before).map(|()| true)
            };
            if self.state.over(py, places.saturating_mul(4), follow).python()? {
                break;
            }
        }
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
        let (mut relabel, mut goals) = (filled(false, index.len()).python()?, filled(0, index.len()).python()?);
        let draw = |state: &mut State| {
            state.engine().rings().check(&index)?;
            state.options_mut().hindsight(&index, future_k, horizon, &mut relabel, &mut goals)
        };
        self.state.over(py, index.len() * 32, draw).python()?;
        Ok((vector(py, &relabel)?, vector(py, &goals)?))
    }

    fn stamp<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let goals = recall(index)?.and_then(|found| found.goals);
        let (index, shape) = integers(index)?;
        let stamp = |state: &mut State| {
            state.engine().rings().check(&index)?;
            Ok(Provenance { goals, ..state.provenance(index)? })
        };
        let provenance = self.state.with(py, stamp).python()?;
        remembering(py, provenance, Some(shape))
    }
}
