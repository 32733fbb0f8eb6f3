//! Shared memory between a parent process and the worker processes that step environments for it.
//!
//! One [`Slab`] of shared memory holds everything that a step needs: the request to each environment, its action,
//! observation, reward and flags. A worker owns a contiguous range of environments, and reads and answers their
//! requests through its [`WorkerEndpoint`]. In a step, the parent writes actions, makes requests ([`Slab::ask`]) and
//! wakes each worker once; the workers write answers, and the last answer that the parent waits for wakes it
//! ([`Slab::wait`]). Nothing is sent through a pipe.
//!
//! Every environment has one state word, and at any time only one side may write its rows: the parent while the state
//! is idle or answered, the worker while it is asked. So a worker that dies holds no lock, and its unanswered requests
//! are still readable.

mod bell;
mod handshake;
#[cfg(not(loom))]
mod requests;
#[cfg(not(loom))] // loom cannot follow words in mapped memory
mod slab;
mod sync;
mod watch;

#[cfg(not(loom))]
pub use bell::Doorbell;
pub use bell::{Bell, Futex, Pipe};
pub use handshake::Post;
#[cfg(not(loom))]
pub use requests::Answers;
#[cfg(not(loom))]
pub use slab::{Activity, Ask, Busy, Note, Slab, Task, WorkerEndpoint};
pub use watch::die_with;
