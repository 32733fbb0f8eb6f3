//! Shared memory of environments in worker processes: `rlfast.env.process` is its user.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use numpy::npyffi::types::npy_intp;
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods as _, PyArrayMethods as _};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rlfast_core::vectors::{collected, with_room};
use rlfast_envs::process::{self, Ask, Doorbell, Futex, Pipe, Task, die_with};

use crate::array::{over, vector};
use crate::error::IntoPython as _;
use crate::items::Items;
use crate::shared::Shared;

/// The longest time without a look at signals and at the other side.
const PATIENCE: Duration = Duration::from_millis(50);

/// Checks that workers own the environments in order.
fn check_starts(starts: &[usize]) -> PyResult<()> {
    if starts.first() == Some(&0) && starts.is_sorted() {
        return Ok(());
    }
    let shown = &starts[..starts.len().min(8)];
    Err(PyValueError::new_err(format!("starts ascend from 0 and end with the number of environments, got {shown:?}")))
}

/// Shared memory in which a parent and its workers exchange what environments are asked and answer.
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

type Gathered<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<bool>>, u8);

impl Slab {
    fn worker(&self, worker: usize) -> PyResult<usize> {
        let workers = self.memory.workers();
        if worker < workers { Ok(worker) } else { Err(PyIndexError::new_err(format!("worker {worker} of {workers}"))) }
    }

    fn env(&self, env: i64) -> PyResult<usize> {
        let envs = self.memory.envs();
        usize::try_from(env)
            .ok()
            .filter(|&env| env < envs)
            .ok_or_else(|| PyIndexError::new_err(format!("environment {env} of {envs}")))
    }

    fn envs(&self, ids: Option<&Bound<'_, PyArray1<i64>>>) -> PyResult<Vec<usize>> {
        match ids {
            None => collected(0..self.memory.envs()).python(),
            Some(ids) => {
                let mut envs = with_room(ids.len()?).python()?;
                for &env in ids.try_readonly()?.as_array() {
                    envs.push(self.env(env)?);
                }
                Ok(envs)
            }
        }
    }
}

#[pymethods]
impl Slab {
    #[new]
    #[pyo3(signature = (starts, data, *, banks=1, pipes=false, spins=0))]
    fn new(starts: Items<usize>, data: usize, banks: u32, pipes: bool, spins: u32) -> PyResult<Self> {
        if banks > 64 {
            return Err(PyValueError::new_err(format!("there can be 64 banks at most, got {banks}")));
        }
        check_starts(&starts.0)?;
        Ok(Self { memory: Arc::new(process::Slab::create(starts.0, data, banks, pipes, spins).python()?) })
    }

    /// What a process needs for ``WorkerEndpoint``: the file of the memory and, where bells are pipes, two ends of them.
    fn files(&self, worker: usize) -> PyResult<Vec<i32>> {
        let pipes = self.memory.pipes(self.worker(worker)?);
        let ends = [Some(self.memory.file()), pipes.map(|ends| ends.0), pipes.map(|ends| ends.1)];
        Ok(ends.into_iter().flatten().map(|end| end.as_raw_fd()).collect())
    }

    /// An array over the rows at ``offset``; with a ``lease``, they stay lent as long as it or a view of it lives.
    #[pyo3(signature = (offset, dtype, shape, lease=None))]
    fn view<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: Items<usize>,
        lease: Option<Bound<'py, Lease>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dtype.has_object() {
            return Err(PyTypeError::new_err(format!("{dtype} holds Python objects, which cannot be shared")));
        }
        let shape = shape.0;
        let bytes = shape.iter().try_fold(dtype.itemsize(), |bytes, &length| bytes.checked_mul(length));
        let data = bytes.and_then(|bytes| self.memory.rows(offset, bytes));
        let data = data.ok_or_else(|| PyIndexError::new_err(format!("rows {shape:?} at {offset} are outside")))?;
        if !(data as usize).is_multiple_of(dtype.alignment().max(1)) {
            return Err(PyValueError::new_err(format!("rows of {dtype} at {offset} are not aligned")));
        }
        let mut dims: Vec<npy_intp> = shape.iter().map(|&length| length as npy_intp).collect();
        let keeper = match lease {
            Some(lease) => lease.into_any(),
            None => Bound::new(py, SlabOwner { _memory: self.memory.clone() })?.into_any(),
        };
        over(dtype, &mut dims, None, data, true, keeper)
    }

    /// The notes of all environments, as an array over them.
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keeper = Bound::new(py, SlabOwner { _memory: self.memory.clone() })?.into_any();
        over(&numpy::dtype::<u8>(py), &mut [self.memory.envs() as npy_intp], None, self.memory.flags(2), true, keeper)
    }

    /// Rewards, ``terminated``, ``truncated`` in the answers of environments (None: all), as fresh arrays, and the bits of their
    /// notes together.
    fn gather<'py>(&self, py: Python<'py>, ids: Option<&Bound<'py, PyArray1<i64>>>) -> PyResult<Gathered<'py>> {
        let envs = self.envs(ids)?;
        // SAFETY: places of existing environments in columns that live as long as the memory; the parent's, once answered.
        let (rewards, flag) = unsafe {
            let rewards = collected(envs.iter().map(|&env| self.memory.rewards().add(env).read())).python()?;
            (rewards, |which: usize, env: usize| self.memory.flags(which).add(env).read())
        };
        let flags = |which| vector(py, &collected(envs.iter().map(|&env| flag(which, env) != 0)).python()?);
        let notes = envs.iter().fold(0, |all, &env| all | flag(2, env));
        Ok((vector(py, &rewards)?, flags(0)?, flags(1)?, notes))
    }

    /// Lends a bank that nobody holds; None when all are held.
    fn lend(&self) -> Option<Lease> {
        Some(Lease { bank: self.memory.lend()?, memory: self.memory.clone() })
    }

    /// Asks environments (None: all), whose actions are written, and wakes each of their workers once. All or none.
    ///
    /// :raises RuntimeError: one of them still owes an answer.
    fn ask(&self, ids: Option<&Bound<'_, PyArray1<i64>>>, kind: u8, bank: u8) -> PyResult<()> {
        let ask = Ask { kind, bank };
        let asked = match ids {
            None => self.memory.ask(0..self.memory.envs(), ask),
            Some(_) => self.memory.ask(self.envs(ids)?.into_iter(), ask),
        };
        asked.map_err(|busy| PyRuntimeError::new_err(busy.to_string()))
    }

    /// Tells a worker that a message for it is in its channel.
    fn mail(&self, worker: usize) -> PyResult<()> {
        self.memory.mail(self.worker(worker)?);
        Ok(())
    }

    /// Tells a worker to close its environments.
    fn stop(&self, worker: usize) -> PyResult<()> {
        self.memory.stop(self.worker(worker)?);
        Ok(())
    }

    /// Waits for ``needed`` answers, but not longer than ``seconds``, and returns how many there are.
    fn wait(&self, py: Python<'_>, needed: usize, seconds: f64) -> usize {
        let ready = self.memory.ready();
        if ready >= needed {
            return ready;
        }
        let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(PATIENCE).min(PATIENCE);
        py.detach(|| self.memory.wait(needed, timeout))
    }

    /// The environments whose answers wait to be taken, ascending.
    fn answered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let envs: Vec<i64> =
            (0..self.memory.envs()).filter(|&env| self.memory.answered(env)).map(|env| env as i64).collect();
        vector(py, &envs)
    }

    /// The environments that owe an answer, ascending.
    fn asked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let envs: Vec<i64> =
            (0..self.memory.envs()).filter(|&env| self.memory.asked(env).is_some()).map(|env| env as i64).collect();
        vector(py, &envs)
    }

    /// Answers (None: all) have been taken: their environments are idle.
    fn take(&self, ids: Option<&Bound<'_, PyArray1<i64>>>) -> PyResult<()> {
        match ids {
            None => self.memory.take(0..self.memory.envs()),
            Some(_) => self.memory.take(self.envs(ids)?.into_iter()),
        }
        Ok(())
    }

    /// ``(environment, phase, seconds)`` that a worker is at, or was when it died; the environment is -1 when none is.
    fn running(&self, worker: usize) -> PyResult<(i64, u8, f64)> {
        let running = self.memory.running(self.worker(worker)?);
        Ok((running.env.map_or(-1, |env| env as i64), running.phase, running.since.as_secs_f64()))
    }

    /// Forgets what a worker that has ended was asked, so that another can take its place. Answers stay.
    fn abandon(&self, worker: usize) -> PyResult<()> {
        self.memory.abandon(self.worker(worker)?);
        Ok(())
    }

    /// A worker's place at this slab, in this process.
    #[pyo3(signature = (worker, *, spins=0))]
    fn endpoint(&self, worker: usize, spins: u32) -> PyResult<WorkerEndpoint> {
        let endpoint = process::WorkerEndpoint::new(self.memory.clone(), self.worker(worker)?, spins);
        Ok(WorkerEndpoint { memory: self.memory.clone(), worker, spins, endpoint: Shared::new(endpoint) })
    }
}

/// The memory behind views that need no more.
#[pyclass(frozen, module = "rlfast._core")]
pub struct SlabOwner {
    _memory: Arc<process::Slab>,
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

/// A worker's place at a slab.
#[pyclass(frozen, module = "rlfast._core")]
pub struct WorkerEndpoint {
    memory: Arc<process::Slab>,
    worker: usize,
    spins: u32,
    endpoint: Shared<process::WorkerEndpoint>,
}

#[pymethods]
impl WorkerEndpoint {
    /// The endpoint of ``worker`` at the slab behind ``files``, which are its own from now on.
    #[staticmethod]
    #[pyo3(signature = (files, starts, data, worker, *, spins=0))]
    fn attach(files: Items<i32>, starts: Items<usize>, data: usize, worker: usize, spins: u32) -> PyResult<Self> {
        let (files, starts) = (files.0, starts.0);
        check_starts(&starts)?;
        let workers = starts.len() - 1;
        if worker >= workers {
            return Err(PyIndexError::new_err(format!("worker {worker} of {workers}")));
        }
        if let Some(fd) = files.iter().find(|fd| **fd < 0) {
            return Err(PyValueError::new_err(format!("a file is a number from 0, got {fd}")));
        }
        let own = |fd: &i32| {
            // SAFETY: the caller gives open files away; they are only copied here, and closed by their Python owner.
            unsafe { BorrowedFd::borrow_raw(*fd) }.try_clone_to_owned().map_err(PyOSError::new_err)
        };
        let mut owned = files.iter().map(own).collect::<PyResult<Vec<OwnedFd>>>()?.into_iter();
        let file = owned.next().ok_or_else(|| PyValueError::new_err("the memory's file is missing"))?;
        let (answers, ask) = match (owned.next(), owned.next()) {
            (Some(write), Some(read)) => (Doorbell::Pipe(Pipe::writer(write)), Doorbell::Pipe(Pipe::reader(read))),
            _ => (Doorbell::Futex(Futex), Doorbell::Futex(Futex)),
        };
        let memory = Arc::new(process::Slab::attach(file, starts, data, answers, ask, worker).python()?);
        let endpoint = Shared::new(process::WorkerEndpoint::new(memory.clone(), worker, spins));
        Ok(Self { memory, worker, spins, endpoint })
    }

    /// The slab of this endpoint.
    #[getter]
    fn slab(&self) -> Slab {
        Slab { memory: self.memory.clone() }
    }

    /// Waits for something to do: ``(environment, kind, bank)``, where the environment is -1 for mail and -2 for the end. None
    /// after a while in which there was nothing.
    fn next(&self, py: Python<'_>) -> Option<(i64, u8, u8)> {
        let found = self.endpoint.with(py, process::WorkerEndpoint::look).or_else(|seen| {
            py.detach(|| self.memory.sleep(self.worker, self.spins, seen, Duration::from_secs(1)));
            self.endpoint.with(py, process::WorkerEndpoint::look)
        });
        found.ok().map(|task| match task {
            Task::Env(env, ask) => (env as i64, ask.kind, ask.bank),
            Task::Mail => (-1, 0, 0),
            Task::Stop => (-2, 0, 0),
        })
    }

    /// Says what is at work from now on, should the process die or hang; -1: none.
    fn enter(&self, py: Python<'_>, env: i64, phase: u8) -> PyResult<()> {
        let env = if env < 0 { None } else { Some(self.slab().env(env)?) };
        self.endpoint.with(py, |endpoint| match env {
            Some(env) => endpoint.enter(env, phase),
            None => endpoint.leave(),
        });
        Ok(())
    }

    /// Answers for an environment whose observation is written.
    ///
    /// :raises IndexError: there is no such environment.
    fn answer(
        &self,
        py: Python<'_>,
        env: i64,
        reward: f64,
        terminated: bool,
        truncated: bool,
        note: u8,
    ) -> PyResult<()> {
        let env = self.slab().env(env)?;
        self.endpoint.with(py, |endpoint| endpoint.answer(env, reward, terminated, truncated, note));
        Ok(())
    }
}

/// Ends this process, at once and whatever it is doing, when the process ``pid`` has ended, or if it is gone already.
///
/// :raises ValueError: no process can have this number.
#[pyfunction]
pub fn end_with(pid: i64) -> PyResult<()> {
    let pid = u32::try_from(pid)
        .ok()
        .filter(|pid| (1..=i32::MAX as u32).contains(pid))
        .ok_or_else(|| PyValueError::new_err(format!("a process has a number from 1 to {}, got {pid}", i32::MAX)))?;
    die_with(pid).map_err(PyOSError::new_err)
}
