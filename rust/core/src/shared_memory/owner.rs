//! Which process writes to a ring.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Names a running process: its number and the time at which it started, as numbers are used again. 0 names none.
///
/// Both sides must see the same process numbers, as processes of one container do.
pub fn identity(pid: u32) -> u64 {
    match started(pid) {
        Some(time) => u64::from(pid) << 32 | u64::from(time),
        None => 0,
    }
}

/// Returns the low bits of the start time of a running process; None if there is none, or it is a zombie.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn started(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace(); // the name before may have any characters
    let state = fields.next()?;
    let time: u64 = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(time as u32)
}

/// Elsewhere start times are not known.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn started(pid: u32) -> Option<u32> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::test_kill_process(pid).is_ok().then_some(0)
}

/// Makes this process the owner that the word names, and returns its name.
///
/// # Errors
/// `Value` if a running process is the owner, `Process` if the system does not say which processes run.
pub fn claim(word: &AtomicU64, ring: usize) -> Result<u64> {
    let own = identity(std::process::id());
    if own == 0 {
        return Err(Error::Process("the system does not say which processes run: is /proc mounted?".to_owned()));
    }
    loop {
        let owner = word.load(Ordering::Acquire);
        let pid = (owner >> 32) as u32;
        if owner != 0 && identity(pid) == owner {
            let text = format!("ring {ring} has a writer already, in process {pid}: a ring has one writer at a time");
            return Err(Error::Value(text));
        }
        if word.compare_exchange(owner, own, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Ok(own);
        }
    }
}

/// Makes nobody the owner, if it is still `own`.
pub fn release(word: &AtomicU64, own: u64) {
    let _ = word.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Acquire); // else there is another owner already
}
