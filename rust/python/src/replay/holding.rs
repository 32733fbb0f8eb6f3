//! Threads that take turns: those that change rows wait for one that reads them in several calls.

use std::thread::sleep;
use std::time::Duration;

use rlfast_core::error::Result;
use rlfast_core::replay::Added;

use super::Replay;
use crate::columns::{Columns, State};
use crate::objects::IncomingObjects;
use crate::prelude::*;
use crate::rows::AddedArrays;

/// How long a thread sleeps before it looks again whether its turn has come.
const PAUSE: Duration = Duration::from_micros(20);

/// Sleeps for a moment without the interpreter, and raises what a signal raises.
fn pause(py: Python<'_>) -> PyResult<()> {
    py.detach(|| sleep(PAUSE));
    py.check_signals()
}

impl Replay {
    /// Runs work that changes rows, over `bytes` of data, once no other thread holds them.
    #[inline]
    pub(super) fn write<R: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        work: impl FnOnce(&mut State) -> R + Send,
    ) -> PyResult<R> {
        let (mut work, mut waits) = (Some(work), false);
        loop {
            let turn = |state: &mut State| state.may_write(&mut waits).then(|| work.take().map(|work| work(state)));
            if let Some(done) = self.state.over(py, bytes, turn) {
                return Ok(done.expect("invariant: the work is done once"));
            }
            self.wait(py, &mut waits)?;
        }
    }

    /// As [`Self::write`], with another value, and detached from the interpreter.
    pub(crate) fn write_with<U: Send, R: Send>(
        &self,
        py: Python<'_>,
        other: &Shared<U>,
        work: impl FnOnce(&mut U, &mut State) -> R + Send,
    ) -> PyResult<R> {
        let (mut work, mut waits) = (Some(work), false);
        loop {
            let turn = |other: &mut U, state: &mut State| {
                state.may_write(&mut waits).then(|| work.take().map(|work| work(other, state)))
            };
            if let Some(done) = other.detached_with(py, &self.state, turn) {
                return Ok(done.expect("invariant: the work is done once"));
            }
            self.wait(py, &mut waits)?;
        }
    }

    /// As [`Self::write`], with columns of objects: the thread stays attached, so that others see the numbers and the
    /// objects of a row, or neither.
    pub(super) fn write_attached<R: Send>(
        &self,
        py: Python<'_>,
        objects: &mut IncomingObjects,
        mut work: impl FnMut(&mut State, &mut IncomingObjects) -> R + Send,
    ) -> PyResult<R> {
        let mut waits = false;
        loop {
            let turn = |state: &mut State, objects| state.may_write(&mut waits).then(|| work(state, objects));
            match self.state.try_with(py, &mut *objects, turn) {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => self.wait(py, &mut waits)?,
                Err(_) => self.state.detached(py, |_| ()), // until the thread that is at work is done
            }
        }
    }

    #[cold]
    fn wait(&self, py: Python<'_>, waits: &mut bool) -> PyResult<()> {
        pause(py).inspect_err(|_| self.state.with(py, |state| state.stop_waiting(waits)))
    }

    /// Adds rows with objects, and returns what is told of them; None if the columns have changed.
    pub(super) fn add_with_objects<'py>(
        &self,
        py: Python<'py>,
        columns: &Columns,
        rings: &[usize],
        objects: &mut IncomingObjects,
        mut add: impl FnMut(&mut State, &mut Added<'_>) -> Result<Option<()>> + Send,
    ) -> PyResult<(Option<()>, AddedArrays<'py>)> {
        let mut raised = None;
        let added = columns.added(py, rings.len(), |added| {
            let done = self.write_attached(py, objects, |state, objects| {
                let done = add(state, added);
                if matches!(done, Ok(Some(()))) {
                    // SAFETY: attached since the objects were found.
                    unsafe { objects.write(added.index.iter().map(|&row| row as usize)) };
                }
                done
            });
            done.unwrap_or_else(|error| {
                raised = Some(error);
                Ok(None)
            })
        });
        raised.map_or(added, Err)
    }
}

/// Ends a hold, whatever happened during it.
struct Held<'a, 'py>(&'a Replay, Python<'py>);

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        self.0.state.with(self.1, State::release);
    }
}

#[pymethods]
impl Replay {
    fn hold<'py>(&self, py: Python<'py>, call: &Object<'py>) -> PyResult<Object<'py>> {
        while !self.state.with(py, State::hold) {
            pause(py)?;
        }
        let held = Held(self, py);
        let done = call.call0();
        drop(held);
        done
    }
}
