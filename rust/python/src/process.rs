//! Shared memory of environments in worker processes: `rlfast.env.process` is its user. `_core.pyi` documents the methods.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rlfast_envs::process::{self, Ask, die_with};

use crate::array::over;
use crate::prelude::*;

/// Shared memory in which a parent and its workers exchange requests and answers of environments.
///
/// :param starts: worker ``w`` owns the environments ``starts[w] .. starts[w + 1]``.
/// :param data: bytes of rows, beside rewards and flags.
/// :param banks: how many times observations are there; answers in bank 0 are to be copied, others can be lent.
/// :param pipes: wake by pipes instead of futexes.
/// :param spins: turns of a wait before it sleeps.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Slab {
    memory: Arc<process::Slab>,
}

type Gathered = (Shaped<f64>, Shaped<bool>, Shaped<bool>, u8);

/// A copy of an open file of the caller's.
pub fn own(file: i32) -> PyResult<OwnedFd> {
    if file < 0 {
        return Err(raised!(PyValueError, "a file is a number from 0, got {file}"));
    }
    // SAFETY: the caller's file is only copied here; the system refuses a number that is none.
    Ok(unsafe { BorrowedFd::borrow_raw(file) }.try_clone_to_owned()?)
}

#[pymethods]
impl Slab {
    #[new]
    #[pyo3(signature = (starts, data, *, banks=1, pipes=false, spins=0))]
    fn new(starts: Items<usize>, data: usize, banks: u32, pipes: bool, spins: u32) -> PyResult<Self> {
        Ok(Self { memory: Arc::new(process::Slab::create(starts.0, data, banks, pipes, spins).python()?) })
    }

    fn files(&self, worker: usize) -> PyResult<Vec<i32>> {
        Ok(self.memory.files(worker).python()?.iter().map(|end| end.as_raw_fd()).collect())
    }

    #[pyo3(signature = (offset, dtype, shape, lease=None))]
    fn view<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: Items<usize>,
        lease: Option<Bound<'py, Lease>>,
    ) -> PyResult<Object<'py>> {
        if dtype.has_object() {
            return Err(raised!(PyTypeError, "{dtype} holds Python objects, which cannot be shared"));
        }
        let data = self.memory.rows_of(offset, dtype.itemsize(), dtype.alignment(), &shape.0).python()?;
        let keeper = match lease {
            Some(lease) => lease.into_any(),
            None => array::keeper(py, self.memory.clone())?,
        };
        over(dtype, &shape.0, None, data, true, keeper)
    }

    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let keeper = array::keeper(py, self.memory.clone())?;
        over(&numpy::dtype::<u8>(py), &[self.memory.envs()], None, self.memory.flags(2), true, keeper)
    }

    fn gather(&self, ids: Option<Index>) -> PyResult<Gathered> {
        let answers = self.memory.answers(ids.as_deref()).python()?;
        Ok((answers.rewards.into(), answers.terminated.into(), answers.truncated.into(), answers.notes))
    }

    fn lend(&self) -> Option<Lease> {
        Some(Lease { bank: self.memory.lend()?, memory: self.memory.clone() })
    }

    fn ask(&self, ids: Option<Index>, kind: u8, bank: u8) -> PyResult<()> {
        self.memory.request(ids.as_deref(), Ask { kind, bank }).python()
    }

    fn notify(&self, worker: usize) -> PyResult<()> {
        self.memory.worker(worker).map(|worker| self.memory.notify(worker)).python()
    }

    fn stop(&self, worker: usize) -> PyResult<()> {
        self.memory.worker(worker).map(|worker| self.memory.stop(worker)).python()
    }

    fn wait(&self, py: Python<'_>, needed: usize, seconds: f64) -> usize {
        let ready = self.memory.ready();
        if ready >= needed { ready } else { py.detach(|| self.memory.wait_briefly(needed, seconds)) }
    }

    fn answered(&self) -> Shaped<i64> {
        self.memory.all_answered().into()
    }

    fn pending(&self) -> Shaped<i64> {
        self.memory.all_pending().into()
    }

    fn take(&self, ids: Option<Index>) -> PyResult<()> {
        self.memory.taken(ids.as_deref()).python()
    }

    fn running(&self, worker: usize) -> PyResult<(i64, u8, f64)> {
        let running = self.memory.running(self.memory.worker(worker).python()?);
        Ok((running.env.map_or(-1, |env| env as i64), running.phase, running.since.as_secs_f64()))
    }

    fn abandon(&self, worker: usize) -> PyResult<()> {
        self.memory.worker(worker).map(|worker| self.memory.abandon(worker)).python()
    }

    #[pyo3(signature = (worker, *, spins=0))]
    fn endpoint(&self, worker: usize, spins: u32) -> PyResult<WorkerEndpoint> {
        Ok(WorkerEndpoint::new(self.memory.clone(), self.memory.worker(worker).python()?, spins))
    }
}

/// The right to the rows of one bank; it ends with the last array over them.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Lease {
    memory: Arc<process::Slab>,
    /// Its number.
    #[pyo3(get)]
    bank: u8,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.give_back(self.bank);
    }
}

/// The worker's endpoint of a slab.
#[pyclass(frozen, module = "rlfast._core")]
pub struct WorkerEndpoint {
    memory: Arc<process::Slab>,
    worker: usize,
    spins: u32,
    endpoint: Shared<process::WorkerEndpoint>,
}

impl WorkerEndpoint {
    fn new(memory: Arc<process::Slab>, worker: usize, spins: u32) -> Self {
        let endpoint = Shared::new(process::WorkerEndpoint::new(memory.clone(), worker, spins));
        Self { memory, worker, spins, endpoint }
    }
}

#[pymethods]
impl WorkerEndpoint {
    #[staticmethod]
    #[pyo3(signature = (files, starts, data, worker, *, spins=0))]
    fn attach(files: Items<i32>, starts: Items<usize>, data: usize, worker: usize, spins: u32) -> PyResult<Self> {
        let files = files.0.into_iter().map(own).collect::<PyResult<Vec<_>>>()?;
        let memory = process::Slab::attach_files(files, starts.0, data, worker).python()?;
        Ok(Self::new(Arc::new(memory), worker, spins))
    }

    #[getter]
    fn slab(&self) -> Slab {
        Slab { memory: self.memory.clone() }
    }

    fn next(&self, py: Python<'_>) -> Option<(i64, u8, u8)> {
        let found = self.endpoint.with(py, process::WorkerEndpoint::look).or_else(|seen| {
            py.detach(|| self.memory.sleep(self.worker, self.spins, seen, Duration::from_secs(1)));
            self.endpoint.with(py, process::WorkerEndpoint::look)
        });
        found.ok().map(process::Task::words)
    }

    fn enter(&self, py: Python<'_>, env: i64, phase: u8) -> PyResult<()> {
        let env = if env < 0 { None } else { Some(self.memory.env(env).python()?) };
        self.endpoint.with(py, |endpoint| match env {
            Some(env) => endpoint.enter(env, phase),
            None => endpoint.leave(),
        });
        Ok(())
    }

    fn answer(
        &self,
        py: Python<'_>,
        env: i64,
        reward: f64,
        terminated: bool,
        truncated: bool,
        note: u8,
    ) -> PyResult<()> {
        let env = self.memory.env(env).python()?;
        self.endpoint.with(py, |endpoint| endpoint.answer(env, reward, terminated, truncated, note));
        Ok(())
    }
}

/// Ends this process, at once and whatever it is doing, when the process ``pid`` has ended, or if it is gone already.
///
/// :raises ValueError: no process can have this number.
#[pyfunction]
pub fn end_with(pid: i64) -> PyResult<()> {
    die_with(pid).python()
}
