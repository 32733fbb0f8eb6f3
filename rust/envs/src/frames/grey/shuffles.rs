//! Luminance by shuffles of bytes, on processors with AVX2: the same bits as the plain loop.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_madd_epi16, _mm256_packus_epi16, _mm256_packus_epi32,
    _mm256_permutevar8x32_epi32, _mm256_set_m128i, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_setr_epi32,
    _mm256_shuffle_epi8, _mm256_srli_epi32, _mm256_storeu_si256,
};

use super::{SHIFT, WEIGHTS, luminance};

/// Pixels of a block: the bytes in a register.
const BLOCK: usize = 32;
/// Bytes behind the pixels of a register's half that are read and not used.
const SLACK: usize = 4;

/// Writes the luminance of each pixel of `rgb` to `out`.
#[target_feature(enable = "avx2")]
pub(super) fn grey(rgb: &[u8], out: &mut [u8]) {
    // The last block is left to the plain loop where the bytes behind it would be read.
    let blocks = rgb.len().saturating_sub(SLACK) / (3 * BLOCK);
    let (whole, rest) = out.split_at_mut(blocks * BLOCK);
    for (block, out) in whole.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let rgb = &rgb[3 * BLOCK * block..][..3 * BLOCK + SLACK];
        // No closures: one that is called by a function without AVX2 is not inlined.
        let sums = [eight(&rgb[..28]), eight(&rgb[24..52]), eight(&rgb[48..76]), eight(&rgb[72..100])];
        // Packing works on the halves of registers, and the permutation restores the order.
        let low = _mm256_packus_epi32(sums[0], sums[1]);
        let high = _mm256_packus_epi32(sums[2], sums[3]);
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), bytes) };
    }
    for (&pixel, out) in rgb[3 * BLOCK * blocks..].as_chunks::<3>().0.iter().zip(rest) {
        *out = luminance(pixel);
    }
}

/// The luminance of eight pixels, which are the first of 28 bytes.
#[target_feature(enable = "avx2")]
fn eight(rgb: &[u8]) -> __m256i {
    const RED_GREEN: i32 = (WEIGHTS[0] | WEIGHTS[1] << 16) as i32;
    const HALF: i32 = 1 << (SHIFT - 1);
    assert!(rgb.len() == 28);
    // SAFETY: each load reads 16 of the 28 bytes, of which 12 are pixels.
    let pixels = unsafe {
        let (low, high) = (rgb.as_ptr(), rgb.as_ptr().add(12));
        _mm256_set_m128i(_mm_loadu_si128(high.cast()), _mm_loadu_si128(low.cast()))
    };
    let red_green = _mm256_shuffle_epi8(pixels, twice([0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1]));
    let blue = _mm256_shuffle_epi8(pixels, twice([2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1]));
    let sum = _mm256_add_epi32(
        _mm256_madd_epi16(red_green, _mm256_set1_epi32(RED_GREEN)),
        _mm256_madd_epi16(blue, _mm256_set1_epi32(WEIGHTS[2] as i32)),
    );
    _mm256_srli_epi32::<{ SHIFT as i32 }>(_mm256_add_epi32(sum, _mm256_set1_epi32(HALF)))
}

/// The same sixteen bytes in both halves of a register.
#[target_feature(enable = "avx2")]
fn twice(b: [i8; 16]) -> __m256i {
    _mm256_setr_epi8(
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15], //
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15],
    )
}
