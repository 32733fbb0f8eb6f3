//! Waking another process: by a futex where the system has shared ones, by a byte in a pipe elsewhere.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::sync::AtomicU32;

/// Waits and wakes on a word of shared memory.
pub trait Bell {
    /// Sleeps while `word` equals `seen`, for `timeout` at most. It may return early.
    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Duration);
    /// Wakes one thread that sleeps on `word`.
    fn ring(&self, word: &AtomicU32);
}

/// A futex of the system that works between processes.
#[derive(Clone, Copy, Debug)]
pub struct Futex;

#[cfg(all(target_os = "linux", not(loom)))]
impl Bell for Futex {
    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Duration) {
        // The result (woken, changed, interrupted or timed out) is ignored, as callers check the word again in any
        // case.
        let _ = rustix::thread::futex::wait(word, rustix::thread::futex::Flags::empty(), seen, Some(&time(timeout)));
    }

    fn ring(&self, word: &AtomicU32) {
        // A wake on a mapped word cannot fail.
        let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), 1);
    }
}

/// A pipe that holds a byte while its reader is to be woken. Each side keeps the end that it uses.
#[derive(Debug)]
pub struct Pipe {
    read: Option<OwnedFd>,
    write: Option<OwnedFd>,
}

impl Pipe {
    /// Returns a new pipe with both ends.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::ioctl_fionbio(end, true)?;
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(Self { read: Some(read), write: Some(write) })
    }

    /// Returns the end that waits.
    pub fn reader(end: OwnedFd) -> Self {
        Self { read: Some(end), write: None }
    }

    /// Returns the end that wakes.
    pub fn writer(end: OwnedFd) -> Self {
        Self { read: None, write: Some(end) }
    }

    /// Returns the reading and the writing end, each None if this side does not keep it.
    pub fn ends(&self) -> (Option<BorrowedFd<'_>>, Option<BorrowedFd<'_>>) {
        (self.read.as_ref().map(OwnedFd::as_fd), self.write.as_ref().map(OwnedFd::as_fd))
    }
}

impl Bell for Pipe {
    fn wait(&self, _word: &AtomicU32, _seen: u32, timeout: Duration) {
        let Some(read) = &self.read else { return };
        let mut ends = [PollFd::new(read, PollFlags::IN)];
        // As with a futex, callers check the word again in any case.
        if poll(&mut ends, Some(&time(timeout))).is_ok_and(|ready| ready > 0) {
            let _ = rustix::io::read(read, &mut [0_u8; 64][..]);
        }
    }

    fn ring(&self, _word: &AtomicU32) {
        if let Some(write) = &self.write {
            // Errors are ignored: a full pipe wakes its reader already, and a closed one has no reader.
            let _ = rustix::io::write(write, &[1]);
        }
    }
}

/// A futex or a pipe.
#[cfg(not(loom))]
#[derive(Debug)]
pub enum Doorbell {
    /// Wakes by a futex.
    Futex(Futex),
    /// Wakes by a pipe.
    Pipe(Pipe),
}

#[cfg(not(loom))]
impl Bell for Doorbell {
    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Duration) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Futex(futex) => futex.wait(word, seen, timeout),
            #[cfg(not(target_os = "linux"))]
            Self::Futex(_) => std::thread::sleep(timeout.min(Duration::from_millis(1))),
            Self::Pipe(pipe) => pipe.wait(word, seen, timeout),
        }
    }

    fn ring(&self, word: &AtomicU32) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Futex(futex) => futex.ring(word),
            #[cfg(not(target_os = "linux"))]
            Self::Futex(_) => {}
            Self::Pipe(pipe) => pipe.ring(word),
        }
    }
}

fn time(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos() as _ }
}
