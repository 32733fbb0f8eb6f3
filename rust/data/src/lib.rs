//! Readers of datasets for offline reinforcement learning: the Atari shards of RL Unplugged (Gulcehre et al.,
//! arXiv:2006.13888), which are TFRecord files in gzip, of `tf.train.Example` messages with PNG images.
//!
//! Files come from strangers. Every length is compared with a bound before memory is reserved, every checksum is verified before
//! bytes are used, and an error names the record that is broken. The crate contains no `unsafe` code.
//!
//! ```text
//! file ── gzip ──> bytes ── tfrecord ──> records ── example ──> features ── transition ──> one row
//!                                                                                           │ its eight images
//!                                    links: the order of rows  <── numbers of images ── pile: each image once
//! ```
//!
//! The rows of a shard are shuffled. [`links`] puts them into an order in which most rows follow the row that led to them, so that
//! a replay buffer, which stores an image once if two rows in a row share it, stores about one image for each row.

#![forbid(unsafe_code)]

pub mod error;
pub mod example;
pub mod gzip;
pub mod image;
pub mod links;
pub mod pile;
pub mod shards;
pub mod tfrecord;
pub mod transition;
