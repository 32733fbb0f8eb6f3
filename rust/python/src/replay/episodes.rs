//! The positions of rows in their episodes, and the rows that they are expanded to.

use rlfast_core::replay::Replay as Engine;
use rlfast_core::replay::expand::NStepReturns;

use super::Replay;
use crate::columns::{KeyPath, State};
use crate::index::Remembering;
use crate::prelude::*;

impl Replay {
    fn map(
        &self,
        py: Python<'_>,
        index: Index,
        step: impl Fn(&Engine, usize) -> usize + Send,
    ) -> PyResult<Shaped<i64>> {
        let rows = self.state.with(py, |state| state.engine().map(index.values, step)).python()?;
        Ok(Shaped::new(rows, index.shape))
    }
}

#[pymethods]
impl Replay {
    fn prev(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<i64>> {
        self.map(py, index, Engine::prev)
    }

    fn next(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<i64>> {
        self.map(py, index, Engine::next)
    }

    fn episode_start(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<i64>> {
        self.map(py, index, |engine, row| engine.bounds(row).0)
    }

    fn episode_end(&self, py: Python<'_>, index: Index) -> PyResult<Shaped<i64>> {
        self.map(py, index, |engine, row| engine.bounds(row).1)
    }

    fn unfinished(&self, py: Python<'_>) -> Shaped<i64> {
        self.state.with(py, |state| state.engine().unfinished()).into()
    }

    #[pyo3(signature = (ring = None, all = false))]
    fn chronological(&self, py: Python<'_>, ring: Option<usize>, all: bool) -> PyResult<Remembering> {
        let rows = |state: &mut State| state.engine().provenance(state.engine().chronological(ring, all)?);
        Ok(self.state.with(py, rows).python()?.into())
    }

    fn goals(&self, py: Python<'_>, index: Remembering) -> PyResult<Option<Shaped<i64>>> {
        let Remembering { rows, shape } = index;
        let goals = self.state.with(py, |state| state.engine().present_goals(rows)).python()?;
        Ok(goals.map(|goals| Shaped::new(goals, shape)))
    }

    fn unroll(&self, py: Python<'_>, index: Index, length: usize) -> PyResult<(Shaped<i64>, Shaped<i64>)> {
        let bytes = index.len().saturating_mul(length).saturating_mul(8);
        let (rows, counts) = self.state.over(py, bytes, |state| state.engine().unroll(&index, length)).python()?;
        Ok((Shaped::matrix(rows, index.len(), length), counts.into()))
    }

    fn window(
        &self,
        py: Python<'_>,
        index: Index,
        before: usize,
        length: usize,
    ) -> PyResult<(Shaped<i64>, Shaped<bool>)> {
        let width = before.saturating_add(length);
        let bytes = index.len().saturating_mul(width).saturating_mul(9);
        let look = |state: &mut State| state.engine().window(&index, before, length);
        let (rows, mask) = self.state.over(py, bytes, look).python()?;
        Ok((Shaped::matrix(rows, index.len(), width), Shaped::matrix(mask, index.len(), width)))
    }

    fn nstep(
        &self,
        py: Python<'_>,
        index: Remembering,
        n_step: usize,
        gamma: f64,
    ) -> PyResult<(Shaped<f64>, Shaped<f64>, Remembering)> {
        let rows = index.rows.index.len();
        let add_up = |state: &mut State| state.engine().nstep(index.rows, n_step, gamma);
        let NStepReturns { sums, agents, discounts, last } = self.state.over(py, rows * 32, add_up).python()?;
        let sums = match agents {
            None => sums.into(),
            Some(agents) => Shaped::matrix(sums, rows, agents),
        };
        Ok((sums, discounts.into(), last.into()))
    }

    fn follow(
        &self,
        py: Python<'_>,
        index: Index,
        length: usize,
        value: KeyPath,
        ends: Items<KeyPath>,
    ) -> PyResult<(Shaped<f32>, Shaped<i64>, Shaped<i64>)> {
        let bytes = index.len().saturating_mul(length).saturating_mul(4);
        let ends: Vec<_> = ends.0.into_iter().map(|path| path.0).collect();
        let follow = |state: &mut State| state.engine().follow(&index, length, &value.0, &ends);
        let found = self.state.over(py, bytes, follow).python()?;
        Ok((Shaped::matrix(found.values, index.len(), length), found.last.into(), found.before.into()))
    }

    fn hindsight(
        &self,
        py: Python<'_>,
        index: Index,
        future_k: f64,
        horizon: usize,
    ) -> PyResult<(Shaped<bool>, Shaped<i64>)> {
        let draw = |state: &mut State| state.options_mut().hindsight(&index, future_k, horizon);
        let (relabel, goals) = self.state.over(py, index.len() * 32, draw).python()?;
        Ok((relabel.into(), goals.into()))
    }
}
