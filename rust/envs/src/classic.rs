//! Classic control problems.
//!
//! Angles go through the C library's `sin` and `cos`, as NumPy's do wherever it has no vector code of its own for doubles: there,
//! trajectories are Gymnasium's to the bit. On processors with AVX-512 NumPy may round a sine the other way.

mod acrobot;
mod cart_pole;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;

pub use acrobot::Acrobot;
pub use cart_pole::CartPole;
pub use mountain_car::MountainCar;
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::Pendulum;
