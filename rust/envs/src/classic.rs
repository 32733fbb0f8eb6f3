//! Classic control problems.
//!
//! Sines and cosines are those of the C library, which NumPy uses, too, unless it has vector code for doubles. With
//! that library, trajectories equal Gymnasium's to the bit; on processors with AVX-512, NumPy may round a sine
//! differently.

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
