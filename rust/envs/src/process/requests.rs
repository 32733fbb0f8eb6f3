//! What other languages ask of a [`Slab`], with numbers that come from outside checked.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rlfast_core::error::{Error, Result};
use rlfast_core::vectors::{collected, with_room};

use super::bell::{Doorbell, Futex, Pipe};
use super::slab::{Ask, Slab, Task};

/// The longest wait between two looks of a host at its signals and at the other side.
const PATIENCE: Duration = Duration::from_millis(50);

/// The answers of some environments, one entry for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// Their rewards.
    pub rewards: Vec<f64>,
    /// Which of them terminated.
    pub terminated: Vec<bool>,
    /// Which of them were truncated.
    pub truncated: Vec<bool>,
    /// The bits of all notes together.
    pub notes: u8,
}

impl Task {
    /// The environment, or -1 for a message and -2 for the end; the kind of the request; the bank.
    #[must_use]
    pub fn words(self) -> (i64, u8, u8) {
        match self {
            Self::Env(env, ask) => (env as i64, ask.kind, ask.bank),
            Self::Message => (-1, 0, 0),
            Self::Stop => (-2, 0, 0),
        }
    }
}

impl Slab {
    /// Attaches as `attach` does, to the `files` that [`Self::files`] of another process gave.
    ///
    /// # Errors
    /// As `attach`; also `Value` where the first file is missing.
    pub fn attach_files(files: Vec<OwnedFd>, starts: Vec<usize>, data: usize, worker: usize) -> Result<Self> {
        let mut files = files.into_iter();
        let memory = files.next().ok_or_else(|| Error::Value("the memory's file is missing".to_owned()))?;
        let (answers, ask) = match (files.next(), files.next()) {
            (Some(write), Some(read)) => (Doorbell::Pipe(Pipe::writer(write)), Doorbell::Pipe(Pipe::reader(read))),
            _ => (Doorbell::Futex(Futex), Doorbell::Futex(Futex)),
        };
        Self::attach(memory, starts, data, answers, ask, worker)
    }

    /// What a worker's process needs: the file of the memory and, where bells are pipes, two ends of them.
    ///
    /// # Errors
    /// `Index` for a worker that is not there.
    pub fn files(&self, worker: usize) -> Result<Vec<BorrowedFd<'_>>> {
        let pipes = self.pipes(self.worker(worker)?);
        let ends = [Some(self.file()), pipes.map(|ends| ends.0), pipes.map(|ends| ends.1)];
        Ok(ends.into_iter().flatten().collect())
    }

    /// `worker`, if it is there.
    ///
    /// # Errors
    /// `Index` if it is not.
    pub fn worker(&self, worker: usize) -> Result<usize> {
        let workers = self.workers();
        if worker < workers { Ok(worker) } else { Err(Error::Index(format!("worker {worker} of {workers}"))) }
    }

    /// The environment with a number.
    ///
    /// # Errors
    /// `Index` where there is none.
    pub fn env(&self, env: i64) -> Result<usize> {
        let found = usize::try_from(env).ok().filter(|&env| env < self.envs());
        found.ok_or_else(|| Error::Index(format!("environment {env} of {}", self.envs())))
    }

    /// The environments with these numbers (None: all).
    ///
    /// # Errors
    /// `Index` where there is none, `Room`.
    pub fn envs_at(&self, ids: Option<&[i64]>) -> Result<Vec<usize>> {
        let Some(ids) = ids else { return collected(0..self.envs()) };
        let mut envs = with_room(ids.len())?;
        for &env in ids {
            envs.push(self.env(env)?);
        }
        Ok(envs)
    }

    /// The address of rows of this `shape`, whose items have these bytes and this alignment, `offset` bytes from the first row on.
    ///
    /// # Errors
    /// `Index` when they reach outside, `Value` when they are not aligned.
    pub fn rows_of(&self, offset: usize, itemsize: usize, alignment: usize, shape: &[usize]) -> Result<*mut u8> {
        let bytes = shape.iter().try_fold(itemsize, |bytes, &length| bytes.checked_mul(length));
        let rows = bytes.and_then(|bytes| self.rows(offset, bytes));
        let rows = rows.ok_or_else(|| Error::Index(format!("rows {shape:?} at {offset} are outside")))?;
        if (rows as usize).is_multiple_of(alignment.max(1)) {
            return Ok(rows);
        }
        Err(Error::Value(format!("rows at {offset} are not aligned to {alignment} bytes")))
    }

    /// The answers of environments (None: all), which must have answered.
    ///
    /// # Errors
    /// As [`Self::envs_at`].
    pub fn answers(&self, ids: Option<&[i64]>) -> Result<Answers> {
        let envs = self.envs_at(ids)?;
        // SAFETY: places of existing environments in columns that live as long as the memory; the caller's, once answered.
        let (reward, flag) = unsafe {
            let reward = |&env: &usize| self.rewards().add(env).read();
            (reward, |which: usize, env: usize| self.flags(which).add(env).read())
        };
        let flags = |which| collected(envs.iter().map(|&env| flag(which, env) != 0));
        Ok(Answers {
            rewards: collected(envs.iter().map(reward))?,
            terminated: flags(0)?,
            truncated: flags(1)?,
            notes: envs.iter().fold(0, |all, &env| all | flag(2, env)),
        })
    }

    /// Asks environments (None: all) as `ask` does.
    ///
    /// # Errors
    /// As [`Self::envs_at`], and `Process` when one of them still owes an answer.
    pub fn request(&self, ids: Option<&[i64]>, ask: Ask) -> Result<()> {
        let asked = match ids {
            None => self.ask(0..self.envs(), ask),
            Some(_) => self.ask(self.envs_at(ids)?.into_iter(), ask),
        };
        asked.map_err(|busy| Error::Process(busy.to_string()))
    }

    /// Waits until there are `needed` answers, at most so many seconds and a twentieth of one; returns the number of answers.
    #[must_use]
    pub fn wait_briefly(&self, needed: usize, seconds: f64) -> usize {
        let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(PATIENCE);
        self.wait(needed, timeout.min(PATIENCE))
    }

    /// Answers of environments (None: all) have been taken.
    ///
    /// # Errors
    /// As [`Self::envs_at`].
    pub fn taken(&self, ids: Option<&[i64]>) -> Result<()> {
        match ids {
            None => self.take(0..self.envs()),
            Some(_) => self.take(self.envs_at(ids)?.into_iter()),
        }
        Ok(())
    }

    /// The environments whose answers wait to be taken, in ascending order.
    #[must_use]
    pub fn all_answered(&self) -> Vec<i64> {
        (0..self.envs()).filter(|&env| self.answered(env)).map(|env| env as i64).collect()
    }

    /// The environments that owe an answer, in ascending order.
    #[must_use]
    pub fn all_pending(&self) -> Vec<i64> {
        (0..self.envs()).filter(|&env| self.pending(env).is_some()).map(|env| env as i64).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::process::WorkerEndpoint;

    fn slab() -> Arc<Slab> {
        Arc::new(Slab::create(vec![0, 2, 3], 4096, 1, false, 0).unwrap())
    }

    #[test]
    fn numbers_from_outside_are_checked() {
        let slab = slab();
        assert_eq!((slab.worker(1).unwrap(), slab.env(2).unwrap()), (1, 2));
        assert_eq!(slab.worker(2).unwrap_err().to_string(), "worker 2 of 2");
        for env in [-1, 3] {
            assert_eq!(slab.env(env).unwrap_err().to_string(), format!("environment {env} of 3"));
            assert!(slab.request(Some(&[0, env]), Ask { kind: 1, bank: 0 }).is_err());
        }
        assert_eq!(slab.all_pending(), [0; 0]);
        assert!(slab.rows_of(0, 8, 8, &[512]).is_ok());
        assert!(matches!(slab.rows_of(0, 8, 8, &[513]), Err(Error::Index(_))));
        assert!(matches!(slab.rows_of(0, 8, 8, &[usize::MAX, 2]), Err(Error::Index(_))));
        assert!(matches!(slab.rows_of(4, 8, 8, &[1]), Err(Error::Value(_))));
    }

    #[test]
    fn a_host_never_waits_for_long() {
        let slab = slab();
        for seconds in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(slab.wait_briefly(1, seconds), 0);
        }
    }

    #[test]
    fn answers_are_those_of_the_environments_asked() {
        let slab = slab();
        slab.request(Some(&[2, 0]), Ask { kind: 1, bank: 0 }).unwrap();
        assert_eq!(slab.all_pending(), [0, 2]);
        assert!(matches!(slab.request(None, Ask { kind: 1, bank: 0 }), Err(Error::Process(_))));
        for (worker, env, reward) in [(0, 0, 1.5), (1, 2, 2.5)] {
            let mut endpoint = WorkerEndpoint::new(slab.clone(), worker, 0);
            assert_eq!(endpoint.look().unwrap().words(), (env as i64, 1, 0));
            endpoint.answer(env, reward, env == 2, env == 0, 1 << worker);
        }
        assert_eq!(slab.all_answered(), [0, 2]);
        let wanted =
            Answers { rewards: vec![2.5, 1.5], terminated: vec![true, false], truncated: vec![false, true], notes: 3 };
        assert_eq!(slab.answers(Some(&[2, 0])).unwrap(), wanted);
        slab.taken(Some(&[2, 0])).unwrap();
        assert_eq!(slab.all_answered(), [0; 0]);
        assert_eq!((Task::Message.words(), Task::Stop.words()), ((-1, 0, 0), (-2, 0, 0)));
    }
}
