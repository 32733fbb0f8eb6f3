//! Small games with pictures as observations, for tests and first steps with convolutions.

mod catch;

pub use catch::Catch;
