//! Ends a worker process when its parent process ends.

use std::io;

/// Starts a thread that kills this process when process `pid` has ended.
///
/// A thread is needed, as an environment may step for ever. Linux's parent-death signal does not serve, as it is sent
/// when the *thread* that made the child ends, and environments may be made in a thread.
///
/// # Errors
/// If the thread cannot be started, or the system cannot watch `pid` although it exists.
pub fn die_with(pid: u32) -> io::Result<()> {
    std::thread::Builder::new().name("rlfast-watch".to_owned()).spawn(move || {
        until_gone(pid);
        end();
    })?;
    Ok(())
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
