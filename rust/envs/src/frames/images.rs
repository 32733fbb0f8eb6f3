//! The kernels for images of a host, whose shapes are checked.

use rlfast_core::error::{Error, Result};

use super::{AreaResize, ResizeError, grey, keep_greater};

/// The bytes of an image and its shape.
pub type Image<'a> = (&'a [u8], &'a [usize]);
/// The same of one that is written.
pub type ImageMut<'a> = (&'a mut [u8], &'a [usize]);

/// Writes the luminance of each pixel of `rgb`.
///
/// # Errors
/// `Value` unless `rgb` has the shape of `out`, with three bytes for each pixel.
pub fn grey_image((rgb, shape): Image<'_>, (out, size): ImageMut<'_>) -> Result<()> {
    let wanted = [size, &[3]].concat();
    if shape != wanted {
        return Err(Error::Value(format!("rgb must have shape {wanted:?}, as out, got {shape:?}")));
    }
    grey(rgb, out);
    Ok(())
}

impl AreaResize {
    /// Resizes `frame`, or the greater of `frame` and `other` at each pixel, into `out`.
    ///
    /// # Errors
    /// `Value` for an image of another shape.
    pub fn resize_image(&mut self, frame: Image<'_>, other: Option<Image<'_>>, out: ImageMut<'_>) -> Result<()> {
        let (source, target) = (self.source(), self.target());
        let shapes = [("frame", frame.1, source), ("other", other.map_or(&source, |other| other.1), source)];
        for (name, shape, wanted) in shapes.into_iter().chain([("out", out.1, target)]) {
            if shape != wanted {
                return Err(Error::Value(format!("{name} must have shape {wanted:?}, got {shape:?}")));
            }
        }
        let Some((other, _)) = other else {
            self.resize(frame.0, out.0);
            return Ok(());
        };
        let mut greater = std::mem::take(&mut self.greater);
        greater.clear();
        greater.extend_from_slice(frame.0);
        keep_greater(&mut greater, other);
        self.resize(&greater, out.0);
        self.greater = greater;
        Ok(())
    }
}

impl From<ResizeError> for Error {
    fn from(error: ResizeError) -> Self {
        Self::Value(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<()>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn images_have_the_promised_shapes() {
        let mut resize = AreaResize::new([2, 4], [1, 2]).unwrap();
        let (frame, mut out) = ([1, 3, 5, 7, 1, 3, 5, 7], [0; 2]);
        resize.resize_image((&frame, &[2, 4]), None, (&mut out, &[1, 2])).unwrap();
        assert_eq!(out, [2, 6]);
        for _ in 0..2 {
            resize.resize_image((&frame, &[2, 4]), Some((&[5; 8], &[2, 4])), (&mut out, &[1, 2])).unwrap();
            assert_eq!(out, [5, 6]);
        }
        let found = text(resize.resize_image((&frame, &[4, 2]), None, (&mut out, &[1, 2])));
        assert_eq!(found, "frame must have shape [2, 4], got [4, 2]");
        let found = text(resize.resize_image((&frame, &[2, 4]), Some((&frame, &[8])), (&mut out, &[1, 2])));
        assert_eq!(found, "other must have shape [2, 4], got [8]");
        let found = text(resize.resize_image((&frame, &[2, 4]), None, (&mut out, &[2])));
        assert_eq!(found, "out must have shape [1, 2], got [2]");
    }

    #[test]
    fn colours_have_three_bytes_for_each_pixel_of_the_result() {
        let mut out = [0; 2];
        grey_image((&[255; 6], &[1, 2, 3]), (&mut out, &[1, 2])).unwrap();
        assert_eq!(out, [255; 2]);
        let found = text(grey_image((&[255; 6], &[2, 1, 3]), (&mut out, &[1, 2])));
        assert_eq!(found, "rgb must have shape [1, 2, 3], as out, got [2, 1, 3]");
    }
}
