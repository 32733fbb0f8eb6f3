//! Ends a worker process when its parent process ends.

use rlfast_core::error::{Error, Result};

/// Starts a thread that kills this process when process `pid` has ended.
///
/// A thread is needed, as an environment may step for ever. Linux's parent-death signal does not serve, as it is sent
/// when the *thread* that made the child ends, and environments may be made in a thread.
///
/// # Errors
/// `Value` for a number that no process can have, `Io` if the thread cannot be started.
pub fn die_with(pid: i64) -> Result<()> {
    let Some(pid) = u32::try_from(pid).ok().filter(|pid| (1..=i32::MAX as u32).contains(pid)) else {
        return Err(Error::Value(format!("a process has a number from 1 to {}, got {pid}", i32::MAX)));
    };
    let thread = std::thread::Builder::new().name("rlfast-watch".to_owned()).spawn(move || {
        until_gone(pid);
        end();
    });
    thread.map(drop).map_err(Error::io("cannot start the thread that watches the parent".to_owned()))
}

fn end() {
    // Nobody is left to read an exit status, and no exit handler of an environment may delay the end.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(target_os = "linux")]
fn until_gone(pid: u32) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    let Some(raw) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return };
    match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(pidfd) => {
            let mut ends = [PollFd::new(&pidfd, PollFlags::IN)];
            while poll(&mut ends, None) == Err(rustix::io::Errno::INTR) {}
        }
        Err(rustix::io::Errno::SRCH) => {}
        Err(_) => poll_until_gone(raw), // an old kernel, or a sandbox
    }
}

#[cfg(not(target_os = "linux"))]
fn until_gone(pid: u32) {
    if let Some(raw) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        poll_until_gone(raw);
    }
}

fn poll_until_gone(pid: rustix::process::Pid) {
    while rustix::process::test_kill_process(pid).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
}
