//! Replay rings in memory that several processes map.
//!
//! Each ring has one writer, and any number of readers, none of which waits for another. A row has a position, which counts up and
//! is never used again. The writer of a ring announces a position before it touches the row's bytes (`begun`), and publishes it
//! after them (`head`). A reader copies rows that are published, and then looks at `begun`: if a row that overwrites
//! one of them was announced meanwhile, the copy is discarded ([`Ring`]). A ring has one slot more than it has rows, so the row that is
//! being written overwrites none of those that can be drawn. A process that dies leaves no lock behind, only a row that was
//! announced and never published.
//!
//! [`Memory`] is the mapping and who may write to a ring, [`Writer`] appends rows, and [`Reader`] draws and copies them. Priorities
//! belong to the reader.

#[cfg(all(unix, not(loom)))]
mod layout;
#[cfg(all(unix, not(loom)))]
mod memory;
#[cfg(all(unix, not(loom)))]
mod owner;
#[cfg(all(unix, not(loom)))]
mod reader;
mod ring;
#[cfg(all(unix, not(loom)))]
mod writer;

#[cfg(all(unix, not(loom)))]
pub use layout::RowLayout;
#[cfg(all(unix, not(loom)))]
pub use memory::{Dimensions, Memory};
#[cfg(all(unix, not(loom)))]
pub use reader::{Drawn, NStep, Options, Outputs, Reader};
pub use ring::Ring;
#[cfg(all(unix, not(loom)))]
pub use writer::{Writer, rings_at};

#[cfg(all(test, unix, not(loom)))]
mod tests;
