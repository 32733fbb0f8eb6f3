//! Grey PNG images.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use crate::error::{Result, broken};

/// The most pixels of an image.
pub const MOST: usize = 1 << 20;
/// Bytes before the width in a file: the signature, and the length and name of its first chunk.
const BEFORE: usize = 16;
const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// The height and width of an image.
pub type Size = [usize; 2];

/// Returns the height and width that an image claims.
///
/// # Errors
/// `Record` unless it is a PNG image with one byte for each pixel, of at most [`MOST`] pixels.
pub fn size_of(file: &[u8]) -> Result<Size> {
    let Some(head) = file.get(BEFORE..BEFORE + 10).filter(|_| file.starts_with(&SIGNATURE)) else {
        return broken!("is no PNG image");
    };
    let side = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("invariant: four bytes")) as usize;
    let (width, height) = (side(0), side(4));
    if head[8..] != [8, 0] {
        return broken!("has {} bits and colours of type {}; only 8 bits of grey are read", head[8], head[9]);
    }
    match height.checked_mul(width) {
        Some(1..=MOST) => Ok([height, width]),
        _ => broken!("is of {width} x {height} pixels; at most {MOST} pixels are read"),
    }
}

/// Decodes an image of a known size.
///
/// # Errors
/// `Record` if the image is damaged, or of another size than `to` has room for.
pub fn decode(file: &[u8], size: Size, to: &mut [u8]) -> Result<()> {
    if size_of(file)? != size || to.len() != size[0] * size[1] {
        return broken!("is of another size than the first one");
    }
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes: 4 * MOST });
    decoder.set_transformations(Transformations::IDENTITY);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let failed = |error: png::DecodingError| crate::error::Error::Record(format!("is damaged: {error}"));
    let mut reader = decoder.read_info().map_err(failed)?;
    let info = reader.info();
    let claimed = [info.height as usize, info.width as usize];
    if claimed != size || info.color_type != ColorType::Grayscale || info.bit_depth != BitDepth::Eight {
        return broken!("is damaged: it contradicts itself");
    }
    reader.next_frame(to).map_err(failed)?;
    reader.finish().map_err(failed)
}

/// Encodes a grey image.
///
/// # Panics
/// If `pixels` are not as many as `size` says.
#[must_use]
pub fn encode(pixels: &[u8], size: Size) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[1] as u32, size[0] as u32);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().expect("a vector takes everything");
    writer.write_image_data(pixels).expect("as many pixels as the size says");
    writer.finish().expect("a vector takes everything");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(size: Size) -> Vec<u8> {
        (0..size[0] * size[1]).map(|k| (k * 7 % 251) as u8).collect()
    }

    #[test]
    fn images_are_decoded() {
        for size in [[84, 84], [1, 1], [3, 200]] {
            let (pixels, mut found) = (drawing(size), vec![0; size[0] * size[1]]);
            let file = encode(&pixels, size);
            assert_eq!(size_of(&file).unwrap(), size);
            decode(&file, size, &mut found).unwrap();
            assert_eq!(found, pixels);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let size = [20, 30];
        let file = encode(&drawing(size), size);
        let mut to = vec![0; 600];
        for cut in 0..file.len() - 12 {
            assert!(decode(&file[..cut], size, &mut to).is_err(), "cut at {cut} of {}", file.len());
        }
        for bit in (0..8 * (file.len() - 12)).step_by(3) {
            let mut wrong = file.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&wrong, size, &mut to).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn claims_of_other_sizes_are_refused() {
        let file = encode(&drawing([20, 30]), [20, 30]);
        let error = decode(&file, [30, 20], &mut vec![0; 600]).unwrap_err();
        assert_eq!(error.to_string(), "is of another size than the first one");
        let mut large = file.clone();
        large[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        assert_eq!(
            size_of(&large).unwrap_err().to_string(),
            "is of 65536 x 65536 pixels; at most 1048576 pixels are read"
        );
        let mut coloured = file;
        coloured[25] = 2;
        let wanted = "has 8 bits and colours of type 2; only 8 bits of grey are read";
        assert_eq!(size_of(&coloured).unwrap_err().to_string(), wanted);
        assert_eq!(size_of(b"GIF89a").unwrap_err().to_string(), "is no PNG image");
    }
}
