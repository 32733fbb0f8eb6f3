//! Between the engine and the binding of a host language: how nested rows become the engine's columns, and back.
//!
//! * [`schema`]: the columns, by the keys of nested rows;
//! * [`matching`] finds the value of each column in the rows that a host gives, and [`incoming`] the bytes of each value;
//! * [`plan`]: the arrays that a gather fills;
//! * [`session`]: an engine together with its schema, and both while the host lets go of the engine's lock;
//! * [`hosted`]: steps as other libraries number and sum them.
//!
//! The host is a type parameter, so there is no Python here; `rust/python` has the only implementation.

pub mod hosted;
pub mod incoming;
pub mod matching;
pub mod plan;
pub mod schema;
pub mod session;
