//! Luminance of coloured frames, and the brighter of two frames.

#[cfg(target_arch = "x86_64")]
mod shuffles;

use rlfast_core::simd::{self, Kernel};

/// The weights of red, green and blue in ITU-R BT.601's luminance (0.299, 0.587, 0.114) in units of 2^-15.
const WEIGHTS: [u32; 3] = [9798, 19235, 3735];
const SHIFT: u32 = 15;

/// Writes the luminance of each pixel of `rgb`, which has three bytes a pixel, to `out`.
///
/// # Panics
/// If `rgb` is not three times as long as `out`.
pub fn grey(rgb: &[u8], out: &mut [u8]) {
    assert_eq!(rgb.len(), 3 * out.len(), "three bytes for each pixel");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { shuffles::grey(rgb, out) };
    }
    simd::run(Grey { rgb, out });
}

struct Grey<'a> {
    rgb: &'a [u8],
    out: &'a mut [u8],
}

impl Kernel for Grey<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (&pixel, out) in self.rgb.as_chunks::<3>().0.iter().zip(self.out) {
            *out = luminance(pixel);
        }
    }
}

#[inline(always)]
fn luminance(pixel: [u8; 3]) -> u8 {
    let [red, green, blue] = [u32::from(pixel[0]), u32::from(pixel[1]), u32::from(pixel[2])];
    let sum = red * WEIGHTS[0] + green * WEIGHTS[1] + blue * WEIGHTS[2];
    ((sum + (1 << (SHIFT - 1))) >> SHIFT) as u8
}

/// Replaces each byte of `frame` by that of `other` where it is greater.
///
/// # Panics
/// If the lengths differ.
pub fn keep_greater(frame: &mut [u8], other: &[u8]) {
    assert_eq!(frame.len(), other.len(), "frames of one size");
    simd::run(Greater { frame, other });
}

struct Greater<'a> {
    frame: &'a mut [u8],
    other: &'a [u8],
}

impl Kernel for Greater<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, &other) in self.frame.iter_mut().zip(self.other) {
            *value = (*value).max(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one() {
        assert_eq!(WEIGHTS.iter().sum::<u32>(), 1 << SHIFT);
        for value in 0..=255 {
            let mut out = [0];
            grey(&[value; 3], &mut out);
            assert_eq!(out, [value]);
        }
    }

    #[test]
    fn luminance_is_the_nearest_integer() {
        let colours: Vec<u8> = (0..3 * 4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut out = vec![0; 4096];
        grey(&colours, &mut out);
        for (pixel, &got) in colours.chunks_exact(3).zip(&out) {
            let exact = 0.299 * f64::from(pixel[0]) + 0.587 * f64::from(pixel[1]) + 0.114 * f64::from(pixel[2]);
            assert!((f64::from(got) - exact).abs() <= 0.51, "{pixel:?}: {got}, not {exact}");
        }
    }

    #[test]
    fn every_length_has_the_same_luminance() {
        let colours: Vec<u8> = (0..3 * 200_u32).map(|i| (i.wrapping_mul(2_246_822_519) >> 24) as u8).collect();
        let wanted: Vec<u8> = colours.as_chunks::<3>().0.iter().map(|&pixel| luminance(pixel)).collect();
        for pixels in 0..=200 {
            let mut out = vec![0; pixels];
            grey(&colours[..3 * pixels], &mut out);
            assert_eq!(out, wanted[..pixels], "{pixels} pixels");
        }
    }

    #[test]
    fn the_greater_bytes_stay() {
        let mut frame = [1, 200, 7];
        keep_greater(&mut frame, &[2, 100, 7]);
        assert_eq!(frame, [2, 200, 7]);
    }
}
