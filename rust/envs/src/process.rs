//! The meeting place of a parent and the worker processes that step environments for it.
//!
//! One [`Slab`] of shared memory holds everything that a step needs: what is asked of each environment, its action,
//! observation, reward and flags. A worker owns a contiguous run of environments and looks after them through its [`Desk`].
//! A step is: the parent writes actions, asks ([`Slab::post`]) and wakes each worker once; the workers write answers and the
//! last one that the parent waits for wakes it ([`Slab::wait`]). No byte goes through a pipe.
//!
//! Every environment has one state word, and at any time one side alone may write its rows: the parent while the word says
//! idle or answered, the worker while it says asked. So a worker that dies leaves no lock held: what it was asked is still
//! written there.

mod bell;
mod handshake;
#[cfg(not(loom))] // its words are in memory that loom cannot follow
mod slab;
mod sync;
mod watch;

#[cfg(not(loom))]
pub use bell::Doorbell;
pub use bell::{Bell, Futex, Pipe};
pub use handshake::Post;
#[cfg(not(loom))]
pub use slab::{Activity, Ask, Busy, Desk, Note, Slab, Task};
pub use watch::die_with;
