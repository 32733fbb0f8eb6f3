//! Kernels for the screens of games: luminance, and area resampling to a smaller frame.
//!
//! Frames are rows of bytes, one after the other. Both kernels agree with OpenCV: [`grey`] with `COLOR_RGB2GRAY` bit for
//! bit, and [`AreaResize`] with `INTER_AREA` but for values half-way between two integers, where OpenCV's answer depends
//! on the rounding errors of its 32-bit floats.
//!
//! ```
//! use rlfast_envs::frames::{AreaResize, grey};
//! let mut screen = [0; 4];
//! grey(&[255, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255], &mut screen);
//! assert_eq!(screen, [255, 76, 150, 29]);
//! let mut small = [0; 1];
//! AreaResize::new([2, 2], [1, 1])?.resize(&screen, &mut small);
//! assert_eq!(small, [128]); // 127.5, rounded to the even one
//! # Ok::<(), rlfast_envs::frames::ResizeError>(())
//! ```

mod grey;
mod images;
mod resize;
mod stacks;

pub use grey::{grey, keep_greater};
pub use images::{Image, ImageMut, grey_image};
pub use resize::{AreaResize, ResizeError};
pub use stacks::{StackRing, Stacks};
