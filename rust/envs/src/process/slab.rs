//! The shared memory, which the parent uses through [`Slab`] and a worker through its [`WorkerEndpoint`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rlfast_core::error::{Error, Result};
use rlfast_core::memory::{Storage, unnamed};

use super::bell::{Doorbell, Futex, Pipe};
use super::handshake::Post;

/// The distance in bytes between words of different writers: two cache lines, as processors prefetch lines in pairs.
const LINE: usize = 128;

const CONTEXT: &str = "cannot share memory with environments";

const IDLE: u32 = 0;
const ANSWERED: u32 = 1;
const PENDING: u32 = 2;

/// A request to an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of the request, a number that both sides define.
    pub kind: u8,
    /// The number of the bank of observations that the answer is written to.
    pub bank: u8,
}

impl Ask {
    fn word(self) -> u32 {
        PENDING | u32::from(self.kind) << 8 | u32::from(self.bank) << 16
    }

    fn of(word: u32) -> Option<Self> {
        (word & 0xFF == PENDING).then_some(Self { kind: (word >> 8) as u8, bank: (word >> 16) as u8 })
    }
}

/// Bits of an answer beside its numbers, which both sides define.
pub type Note = u8;

/// The next task of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A request to the environment with this number.
    Env(usize, Ask),
    /// A message in the worker's channel.
    Message,
    /// Closing the environments.
    Stop,
}

/// The present activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The number of the environment that it runs (or ran when it died), if any.
    pub env: Option<usize>,
    /// The kind of the request, or the phase that [`WorkerEndpoint::enter`] set since.
    pub phase: u8,
    /// The time since the activity began.
    pub since: Duration,
}

/// The error that environments cannot take a request, as they have not answered the last one or their answer was not
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environments {0:?} are stepping: take their answers first")]
pub struct Busy(pub Vec<usize>);

/// Offsets of the control words. The rest of the shared memory is rows, whose layout both sides define.
#[derive(Clone, Copy, Debug)]
struct Places {
    states: usize,
    rewards: usize,
    flags: usize,
    data: usize,
    end: usize,
}

impl Places {
    fn new(workers: usize, envs: usize, data: usize) -> Result<Self> {
        let needed = (LINE + 64) as u128 * (1 + workers as u128) + 16 * envs as u128 + 8192 + data as u128;
        Storage::Ram.check("the memory shared with environments", needed)?;
        if needed > isize::MAX as u128 {
            return Err(Error::Room { needed });
        }
        let states = LINE * (1 + workers);
        let rewards = (states + 4 * envs).next_multiple_of(LINE);
        let flags = (rewards + 8 * envs).next_multiple_of(LINE);
        let start = (flags + 3 * envs).next_multiple_of(4096);
        Ok(Self { states, rewards, flags, data: start, end: start + data })
    }
}

/// Offsets of the words in a worker's line, after the three words of its [`Post`].
const MESSAGES: usize = 12;
const STOP: usize = 16;
const CURRENT: usize = 20;
const PHASE: usize = 24;
const STARTED: usize = 32;

/// Shared memory for `starts.last()` environments, of which worker `w` owns `starts[w]..starts[w + 1]`.
///
/// It has no name in the file system, so the system frees it when the last process that maps it ends, however that
/// ends.
#[derive(Debug)]
pub struct Slab {
    map: MmapRaw,
    file: File,
    starts: Vec<usize>,
    places: Places,
    /// Wakes the parent when answers are ready; one for all workers.
    answers: Doorbell,
    /// Wakes the workers when there are requests; one for each worker.
    asks: Vec<Doorbell>,
    /// Iterations for which the parent spins before it sleeps.
    spins: u32,
    /// Bit `b` is set while bank `b` is lent. It is not shared with other processes.
    lent: AtomicU64,
    banks: u32,
}

impl Slab {
    /// Returns new, zeroed shared memory.
    ///
    /// # Errors
    /// `Value` if there are more than 64 banks, or `starts` does not ascend from 0; also if there is not enough memory, or
    /// the process has too many open files.
    pub fn create(starts: Vec<usize>, data: usize, banks: u32, pipes: bool, spins: u32) -> Result<Self> {
        let places = Self::check(&starts, data, banks)?;
        let file = unnamed("rlfast-envs", places.end).map_err(Error::io(CONTEXT))?;
        let bell = || if pipes { Pipe::new().map(Doorbell::Pipe) } else { Ok(Doorbell::Futex(Futex)) };
        let mut bells = starts.iter().map(|_| bell()).collect::<io::Result<Vec<_>>>().map_err(Error::io(CONTEXT))?;
        let answers = bells.pop().expect("invariant: starts has one entry more than there are workers");
        Self::map(file, starts, places, answers, bells, spins, banks)
    }

    /// Maps the memory that another process created.
    ///
    /// # Errors
    /// `Value` as `create`, and if the memory is too small; `Index` if there is no such worker; also if the memory cannot
    /// be mapped.
    pub fn attach(
        file: OwnedFd,
        starts: Vec<usize>,
        data: usize,
        answers: Doorbell,
        ask: Doorbell,
        worker: usize,
    ) -> Result<Self> {
        let places = Self::check(&starts, data, 0)?;
        let workers = starts.len() - 1;
        if worker >= workers {
            return Err(Error::Index(format!("worker {worker} of {workers}")));
        }
        let file = File::from(file);
        let there = file.metadata().map_err(Error::io(CONTEXT))?.len();
        if there < places.end as u64 {
            let text = format!("the memory shared with environments has {there} bytes, {} belong there", places.end);
            return Err(Error::Value(text));
        }
        let mut asks: Vec<_> = (1..starts.len()).map(|_| Doorbell::Futex(Futex)).collect();
        asks[worker] = ask;
        Self::map(file, starts, places, answers, asks, 0, 0)
    }

    fn check(starts: &[usize], data: usize, banks: u32) -> Result<Places> {
        if banks > 64 {
            return Err(Error::Value(format!("there can be 64 banks at most, got {banks}")));
        }
        if starts.first() != Some(&0) || !starts.is_sorted() {
            let shown = &starts[..starts.len().min(8)];
            let wanted = "starts ascend from 0 and end with the number of environments";
            return Err(Error::Value(format!("{wanted}, got {shown:?}")));
        }
        Places::new(starts.len() - 1, starts[starts.len() - 1], data)
    }

    fn map(
        file: File,
        starts: Vec<usize>,
        places: Places,
        answers: Doorbell,
        asks: Vec<Doorbell>,
        spins: u32,
        banks: u32,
    ) -> Result<Self> {
        let map = MmapOptions::new().len(places.end).map_raw(&file).map_err(Error::io(CONTEXT))?;
        Ok(Self { map, file, starts, places, answers, asks, spins, lent: AtomicU64::new(0), banks })
    }

    /// Returns the number of environments.
    pub fn envs(&self) -> usize {
        self.starts[self.workers()]
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the environments of a worker.
    pub fn of(&self, worker: usize) -> Range<usize> {
        self.starts[worker]..self.starts[worker + 1]
    }

    /// Returns the file of the memory, for [`Slab::attach`] in a worker.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the ends of pipes that worker `worker` needs: the writing end of answers and the reading end of
    /// requests. None if bells are futexes.
    pub fn pipes(&self, worker: usize) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        match (&self.answers, &self.asks[worker]) {
            (Doorbell::Pipe(answers), Doorbell::Pipe(asks)) => Some((answers.ends().1?, asks.ends().0?)),
            _ => None,
        }
    }

    /// Returns the address of `bytes` bytes of rows from `offset` on; None if they reach outside the memory.
    pub fn rows(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = self.places.data.checked_add(offset)?.checked_add(bytes)?;
        (end <= self.places.end).then(|| self.at(self.places.data + offset))
    }

    /// Returns the address of the rewards, `envs()` doubles.
    pub fn rewards(&self) -> *mut f64 {
        self.at(self.places.rewards).cast()
    }

    /// Returns the address of `envs()` bytes: `terminated`, `truncated` or notes, if `which` is 0, 1 or 2.
    ///
    /// # Panics
    /// If `which` is greater than 2.
    pub fn flags(&self, which: usize) -> *mut u8 {
        assert!(which < 3, "there are three columns of flags");
        self.at(self.places.flags + which * self.envs())
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(offset)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.places.rewards, "a control word");
        // SAFETY: aligned and inside the mapping, which lives as long as `self`; every process touches it by atomics only.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }

    fn post(&self, line: usize) -> Post<'_> {
        let at = LINE * line;
        Post { count: self.word(at), sleeping: self.word(at + 4), wanted: self.word(at + 8) }
    }

    fn worker_word(&self, worker: usize, word: usize) -> &AtomicU32 {
        self.word(LINE * (1 + worker) + word)
    }

    fn started(&self, worker: usize) -> &AtomicU64 {
        // SAFETY: as `word`; lines are aligned to more than eight bytes.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + worker) + STARTED).cast()) }
    }

    fn state(&self, env: usize) -> &AtomicU32 {
        assert!(env < self.envs(), "invariant: environment {env} of {}", self.envs());
        self.word(self.places.states + 4 * env)
    }

    fn wake(&self, worker: usize) {
        self.post(1 + worker).announce(&self.asks[worker]);
    }

    // -- the parent's side -----------------------------------------------------------------------------------------------

    /// Makes a request to each of `envs`, whose actions have been written, and wakes each of their workers once.
    ///
    /// # Errors
    /// [`Busy`] if one of them is not idle; no request is made then.
    ///
    /// # Panics
    /// If one of them does not exist.
    pub fn ask(&self, envs: impl Iterator<Item = usize> + Clone, ask: Ask) -> std::result::Result<(), Busy> {
        if envs.clone().any(|env| self.state(env).load(Ordering::Acquire) != IDLE) {
            return Err(Busy(envs.filter(|&env| self.state(env).load(Ordering::Acquire) != IDLE).collect()));
        }
        let mut touched: Option<usize> = None;
        for env in envs {
            self.state(env).store(ask.word(), Ordering::Release);
            let worker = match touched {
                Some(worker) if self.of(worker).contains(&env) => worker,
                _ => self.starts.partition_point(|&start| start <= env) - 1,
            };
            if let Some(before) = touched.replace(worker).filter(|&before| before != worker) {
                self.wake(before);
            }
        }
        if let Some(worker) = touched {
            self.wake(worker);
        }
        Ok(())
    }

    /// Makes a worker read its channel.
    pub fn notify(&self, worker: usize) {
        self.worker_word(worker, MESSAGES).fetch_add(1, Ordering::Release);
        self.wake(worker);
    }

    /// Makes a worker close its environments after the request that it is serving.
    pub fn stop(&self, worker: usize) {
        self.worker_word(worker, STOP).store(1, Ordering::Release);
        self.wake(worker);
    }

    /// Returns the number of answers that have not been taken.
    pub fn ready(&self) -> usize {
        (0..self.envs()).filter(|&env| self.answered(env)).count()
    }

    /// Returns whether `env` has an answer that has not been taken. Its rows may be read then.
    pub fn answered(&self, env: usize) -> bool {
        self.state(env).load(Ordering::Acquire) == ANSWERED
    }

    /// Returns the request that `env` has not answered, if any.
    pub fn pending(&self, env: usize) -> Option<Ask> {
        Ask::of(self.state(env).load(Ordering::Acquire))
    }

    /// Waits until there are `needed` answers, or for `timeout`; returns the number of answers.
    pub fn wait(&self, needed: usize, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
        for _ in 0..self.spins {
            let ready = self.ready();
            if ready >= needed {
                return ready;
            }
            std::hint::spin_loop();
        }
        loop {
            // The count is read before the states: announcements in between make this wake early, never late.
            let seen = self.post(0).seen();
            let ready = self.ready();
            let left = deadline.saturating_duration_since(Instant::now());
            if ready >= needed || left.is_zero() {
                return ready;
            }
            self.post(0).sleep(&self.answers, seen, (needed - ready) as u32, left);
        }
    }

    /// Marks answers as taken, after their rows have been copied or lent.
    pub fn take(&self, envs: impl Iterator<Item = usize>) {
        envs.for_each(|env| self.state(env).store(IDLE, Ordering::Release));
    }

    /// Returns the present activity of a worker.
    pub fn running(&self, worker: usize) -> Activity {
        let env = self.worker_word(worker, CURRENT).load(Ordering::Acquire).checked_sub(1);
        let phase = self.worker_word(worker, PHASE).load(Ordering::Relaxed) as u8;
        let since = Duration::from_nanos(now().saturating_sub(self.started(worker).load(Ordering::Relaxed)));
        Activity { env: env.map(|env| env as usize), phase, since }
    }

    /// Prepares the endpoint of a worker that has ended for its successor. Unanswered requests are dropped; answers
    /// stay.
    pub fn abandon(&self, worker: usize) {
        for env in self.of(worker) {
            if self.pending(env).is_some() {
                self.state(env).store(IDLE, Ordering::Release);
            }
        }
        for word in [4, MESSAGES, STOP, CURRENT, PHASE] {
            self.worker_word(worker, word).store(0, Ordering::Release);
        }
    }

    /// Does what [`WorkerEndpoint::sleep`] does for `worker`, after `spins` iterations of spinning.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn sleep(&self, worker: usize, spins: u32, seen: u32, timeout: Duration) {
        let post = self.post(1 + worker);
        for _ in 0..spins {
            if post.seen() != seen {
                return;
            }
            std::hint::spin_loop();
        }
        post.sleep(&self.asks[worker], seen, 1, timeout);
    }

    /// Returns a free bank, and marks it as lent; None if there is none. Bank 0 is never lent, as its answers are
    /// copied.
    pub fn lend(&self) -> Option<u8> {
        let mut lent = self.lent.load(Ordering::Relaxed);
        loop {
            let bank = (1..self.banks).find(|bank| lent >> bank & 1 == 0)?;
            match self.lent.compare_exchange_weak(lent, lent | 1 << bank, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(bank as u8),
                Err(now) => lent = now,
            }
        }
    }

    /// Marks `bank` as free again, after the last view of its rows has gone.
    pub fn give_back(&self, bank: u8) {
        self.lent.fetch_and(!(1 << bank), Ordering::Release);
    }
}

/// A worker's side of the slab.
#[derive(Debug)]
pub struct WorkerEndpoint {
    slab: Arc<Slab>,
    worker: usize,
    /// The environment that is checked first; it moves on, so that each has its turn.
    cursor: usize,
    messages: u32,
    spins: u32,
}

impl WorkerEndpoint {
    /// Returns the endpoint of worker `worker`.
    pub fn new(slab: Arc<Slab>, worker: usize, spins: u32) -> Self {
        let cursor = slab.of(worker).start;
        Self { slab, worker, cursor, messages: 0, spins }
    }

    /// Returns the slab.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Returns the next task.
    ///
    /// # Errors
    /// If there is none, with the count for [`WorkerEndpoint::sleep`].
    pub fn look(&mut self) -> std::result::Result<Task, u32> {
        let own = self.slab.of(self.worker);
        let seen = self.slab.post(1 + self.worker).seen();
        if self.slab.worker_word(self.worker, STOP).load(Ordering::Acquire) != 0 {
            return Ok(Task::Stop);
        }
        let asked =
            (self.cursor..own.end).chain(own.start..self.cursor).find_map(|env| Some((env, self.slab.pending(env)?)));
        // Messages are checked after requests: a message that was sent before a request is then seen before it.
        if self.slab.worker_word(self.worker, MESSAGES).load(Ordering::Acquire) != self.messages {
            self.messages = self.messages.wrapping_add(1);
            return Ok(Task::Message);
        }
        if let Some((env, ask)) = asked {
            self.cursor = if env + 1 == own.end { own.start } else { env + 1 };
            self.enter(env, ask.kind);
            return Ok(Task::Env(env, ask));
        }
        Err(seen)
    }

    /// Sleeps until the parent announces something after `seen`, or for `timeout`.
    pub fn sleep(&self, seen: u32, timeout: Duration) {
        self.slab.sleep(self.worker, self.spins, seen, timeout);
    }

    /// Sets the activity of this worker, which the parent reads if this process dies or hangs.
    pub fn enter(&self, env: usize, phase: u8) {
        self.slab.started(self.worker).store(now(), Ordering::Relaxed);
        self.slab.worker_word(self.worker, PHASE).store(u32::from(phase), Ordering::Relaxed);
        self.slab.worker_word(self.worker, CURRENT).store((env as u32).wrapping_add(1), Ordering::Release);
    }

    /// Answers for `env`, whose observation has been written.
    pub fn answer(&self, env: usize, reward: f64, terminated: bool, truncated: bool, note: Note) {
        self.leave();
        let slab = &self.slab;
        assert!(env < slab.envs(), "invariant: environment {env} of {}", slab.envs());
        // SAFETY: places of `env` in four columns; it is asked, so this side alone writes them.
        unsafe {
            slab.rewards().add(env).write(reward);
            slab.flags(0).add(env).write(u8::from(terminated));
            slab.flags(1).add(env).write(u8::from(truncated));
            slab.flags(2).add(env).write(note);
        }
        slab.state(env).store(ANSWERED, Ordering::Release);
        slab.post(0).announce(&slab.answers);
    }

    /// Clears the activity of this worker.
    pub fn leave(&self) {
        self.slab.worker_word(self.worker, CURRENT).store(0, Ordering::Release);
    }
}

/// Returns nanoseconds of a clock that all processes share.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
