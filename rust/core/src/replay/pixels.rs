//! Stacks of frames along the last axis, in which the pixels of the frames are interleaved.
//!
//! Frames are stored one by one, so a stack is split into frames when it is written, and joined when it is read.

use crate::memory;
use crate::replay::layout::Layout;
use crate::source::Source;

/// Returns sources whose row 0 is row `k` of `sources`. Stacks of the leaves that `wanted` selects are split into `bytes`.
///
/// # Safety
/// Each source, one for each leaf, is readable for row `k`.
pub(super) unsafe fn split_row(
    layout: &Layout,
    sources: &[Source],
    k: usize,
    wanted: impl Fn(usize) -> bool,
    bytes: &mut Vec<u8>,
) -> Vec<Source> {
    let stacks = |leaf: &usize| layout.pixels(*leaf).is_some() && wanted(*leaf) && !sources[*leaf].ptr.is_null();
    let leaves = || (0..sources.len()).filter(stacks);
    bytes.resize(leaves().map(|leaf| layout.nbytes[leaf]).sum(), 0);
    let mut row: Vec<_> = sources.iter().map(|source| Source::rows(source.row(k), 0)).collect();
    let mut free = bytes.as_mut_ptr();
    for leaf in leaves() {
        let (stack, pixel) = layout.pixels(leaf).expect("invariant: just filtered");
        let whole = layout.nbytes[leaf];
        // SAFETY: the caller guarantees row `k`; `bytes` has room for one row of each of these leaves.
        unsafe { split(row[leaf].ptr, stack, pixel, whole / stack, free) };
        row[leaf].ptr = free;
        free = free.wrapping_add(whole);
    }
    row
}

/// Writes the `stack` frames that are interleaved at `src` to `dst`, one after the other.
///
/// # Safety
/// `src` is readable and `dst` writable for `stack` frames of `frame` bytes, whole pixels of `pixel` bytes; they do not overlap.
unsafe fn split(src: *const u8, stack: usize, pixel: usize, frame: usize, dst: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (pixel, stack) {
            (1, 2) => split_bytes::<2>(src, frame, dst),
            (1, 4) => split_bytes::<4>(src, frame, dst),
            (1, 8) => split_bytes::<8>(src, frame, dst),
            (1, 16) => split_bytes::<16>(src, frame, dst),
            (3, _) => split_threes(src, stack, frame, dst),
            (4, 2) => split_fixed::<4, 2>(src, frame, 0, dst),
            (4, 4) => split_words(src, frame, dst),
            _ => {
                for at in 0..frame / pixel * stack {
                    let (place, j) = (at / stack, at % stack);
                    memory::copy(src.add(at * pixel), dst.add(j * frame + place * pixel), pixel);
                }
            }
        }
    }
}

/// [`split`] for pixels of `P` bytes and stacks of `S` frames, from pixel `start` on.
unsafe fn split_fixed<const P: usize, const S: usize>(src: *const u8, frame: usize, start: usize, dst: *mut u8) {
    for place in start..frame / P {
        for j in 0..S {
            // SAFETY: as `split`.
            unsafe {
                let piece = src.add((place * S + j) * P).cast::<[u8; P]>().read();
                dst.add(j * frame + place * P).cast::<[u8; P]>().write(piece);
            }
        }
    }
}

/// [`split`] for pixels of three bytes. It copies four bytes at once; the next pixel of the frame overwrites the last one.
unsafe fn split_threes(src: *const u8, stack: usize, frame: usize, dst: *mut u8) {
    let whole = (frame / 3).saturating_sub(1);
    // SAFETY: as `split`.
    let start = if stack == 4 { unsafe { colours::split(src, frame, dst) } } else { 0 };
    for place in start..whole {
        let from = src.wrapping_add(place * 3 * stack);
        for j in 0..stack {
            // SAFETY: as `split`: each of these pixels is followed by another one of its frame, in `src` and in `dst`.
            unsafe {
                let four = from.add(3 * j).cast::<[u8; 4]>().read();
                dst.add(j * frame + 3 * place).cast::<[u8; 4]>().write(four);
            }
        }
    }
    for j in 0..stack {
        // SAFETY: as `split`.
        unsafe { memory::copy(src.add((whole * stack + j) * 3), dst.add(j * frame + 3 * whole), frame - 3 * whole) };
    }
}

/// Interleaves the pixels of `frames` (null for zeros) in `dst`.
///
/// # Safety
/// Each frame is null or readable for `frame` bytes, whole pixels of `pixel` bytes; `dst` is writable for all of them.
pub(super) unsafe fn join(frames: &[*const u8], pixel: usize, frame: usize, dst: *mut u8) {
    let zeros;
    let mut given;
    let mut frames = frames;
    if frames.iter().any(|frame| frame.is_null()) {
        zeros = vec![0_u8; frame];
        given = frames.to_vec();
        given.iter_mut().filter(|frame| frame.is_null()).for_each(|frame| *frame = zeros.as_ptr());
        frames = &given;
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (pixel, frames.len()) {
            (1, 2) => join_bytes::<2>(frames, frame, dst),
            (1, 4) => join_bytes::<4>(frames, frame, dst),
            (1, 8) => join_bytes::<8>(frames, frame, dst),
            (1, 16) => join_bytes::<16>(frames, frame, dst),
            (3, _) => join_threes(frames, frame, dst),
            (4, 2) => join_fixed::<4, 2>(frames, frame, 0, dst),
            (4, 4) => join_words(frames, frame, dst),
            (_, stack) => {
                for at in 0..frame / pixel * stack {
                    let (place, from) = (at / stack, frames[at % stack]);
                    memory::copy(from.add(place * pixel), dst.add(at * pixel), pixel);
                }
            }
        }
    }
}

/// [`join`] for pixels of `P` bytes and stacks of `S` frames, from pixel `start` on.
unsafe fn join_fixed<const P: usize, const S: usize>(frames: &[*const u8], frame: usize, start: usize, dst: *mut u8) {
    for place in start..frame / P {
        for (j, from) in frames[..S].iter().enumerate() {
            // SAFETY: as `join`.
            unsafe {
                let piece = from.add(place * P).cast::<[u8; P]>().read();
                dst.add((place * S + j) * P).cast::<[u8; P]>().write(piece);
            }
        }
    }
}

/// [`join`] for pixels of three bytes. It copies four bytes at once; the next frame's pixel overwrites the last one.
unsafe fn join_threes(frames: &[*const u8], frame: usize, dst: *mut u8) {
    let (stack, whole) = (frames.len(), (frame / 3).saturating_sub(1));
    // SAFETY: as `join`.
    let start = frames.try_into().map_or(0, |frames| unsafe { colours::join(frames, frame, dst) });
    for place in start..whole {
        let to = dst.wrapping_add(place * 3 * stack);
        for (j, from) in frames.iter().enumerate() {
            // SAFETY: as `join`: each of these pixels is followed by another one, in its frame and in `dst`.
            unsafe {
                let four = from.add(3 * place).cast::<[u8; 4]>().read();
                to.add(3 * j).cast::<[u8; 4]>().write(four);
            }
        }
    }
    for (j, from) in frames.iter().enumerate() {
        // SAFETY: as `join`.
        unsafe { memory::copy(from.add(3 * whole), dst.add((whole * stack + j) * 3), frame - 3 * whole) };
    }
}

/// [`split`] for pixels of one byte.
unsafe fn split_bytes<const S: usize>(src: *const u8, frame: usize, dst: *mut u8) {
    let whole = frame / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        // SAFETY: as `split`: `src` has `LANES` more pixels of all frames, and each frame has room for them.
        unsafe {
            let from = src.add(start * S).cast::<Lanes>();
            let mut parts: [Lanes; S] = std::array::from_fn(|k| from.add(k).read_unaligned());
            for _ in 0..S.trailing_zeros() {
                parts = std::array::from_fn(|k| match k < S / 2 {
                    true => lanes::even(parts[2 * k], parts[2 * k + 1]),
                    false => lanes::odd(parts[2 * k - S], parts[2 * k - S + 1]),
                });
            }
            for (j, part) in parts.into_iter().enumerate() {
                dst.add(j * frame + start).cast::<Lanes>().write_unaligned(part);
            }
        }
    }
    for place in whole..frame {
        for j in 0..S {
            // SAFETY: as `split`.
            unsafe { dst.add(j * frame + place).write(src.add(place * S + j).read()) };
        }
    }
}

/// [`join`] for pixels of one byte.
unsafe fn join_bytes<const S: usize>(frames: &[*const u8], frame: usize, dst: *mut u8) {
    let frames: [*const u8; S] = std::array::from_fn(|j| frames[j]);
    let whole = frame / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        // SAFETY: as `join`: each frame has `LANES` more pixels, and `dst` has room for all of them.
        unsafe {
            let mut parts: [Lanes; S] = frames.map(|from| from.add(start).cast::<Lanes>().read_unaligned());
            for _ in 0..S.trailing_zeros() {
                parts = std::array::from_fn(|k| match k % 2 {
                    0 => lanes::low(parts[k / 2], parts[k / 2 + S / 2]),
                    _ => lanes::high(parts[k / 2], parts[k / 2 + S / 2]),
                });
            }
            let to = dst.add(start * S).cast::<Lanes>();
            parts.into_iter().enumerate().for_each(|(k, part)| to.add(k).write_unaligned(part));
        }
    }
    for place in whole..frame {
        for (j, from) in frames.into_iter().enumerate() {
            // SAFETY: as `join`.
            unsafe { dst.add(place * S + j).write(from.add(place).read()) };
        }
    }
}

/// [`split`] for four frames of pixels of four bytes.
unsafe fn split_words(src: *const u8, frame: usize, dst: *mut u8) {
    let whole = frame / LANES;
    for block in 0..whole {
        // SAFETY: as `split`: `src` has four more pixels of all frames, and each frame has room for them.
        unsafe {
            let from = src.cast::<Lanes>().add(4 * block);
            let parts = lanes::transposed(std::array::from_fn(|k| from.add(k).read_unaligned()));
            for (j, part) in parts.into_iter().enumerate() {
                dst.add(j * frame).cast::<Lanes>().add(block).write_unaligned(part);
            }
        }
    }
    // SAFETY: as `split`.
    unsafe { split_fixed::<4, 4>(src, frame, 4 * whole, dst) };
}

/// [`join`] for four frames of pixels of four bytes.
unsafe fn join_words(frames: &[*const u8], frame: usize, dst: *mut u8) {
    let whole = frame / LANES;
    for block in 0..whole {
        // SAFETY: as `join`: each frame has four more pixels, and `dst` has room for all of them.
        unsafe {
            let from = |j: usize| frames[j].cast::<Lanes>().add(block).read_unaligned();
            let parts = lanes::transposed(std::array::from_fn(from));
            let to = dst.cast::<Lanes>().add(4 * block);
            parts.into_iter().enumerate().for_each(|(k, part)| to.add(k).write_unaligned(part));
        }
    }
    // SAFETY: as `join`.
    unsafe { join_fixed::<4, 4>(frames, frame, 4 * whole, dst) };
}

/// Splits and joins of four frames with pixels of three bytes, for processors with SSSE3, which shuffles the bytes of a vector.
/// They process as many pixels as whole vectors cover.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod colours {
    use super::{LANES, Lanes};
    use std::arch::x86_64::{_mm_or_si128, _mm_shuffle_epi8};

    /// The number of bytes of four pixels of one frame, and of all frames.
    const FOUR: usize = 12;
    /// The number of vectors with four pixels of all frames.
    const VECTORS: usize = 4 * FOUR / LANES;
    /// The shuffle index that writes a zero.
    const NONE: u8 = 128;

    /// Shuffles for each vector of joined pixels and each frame: the index of the frame's byte for each byte of the vector.
    const JOIN: [[[u8; LANES]; 4]; VECTORS] = {
        let mut all = [[[NONE; LANES]; 4]; VECTORS];
        let mut at = 0;
        while at < 4 * FOUR {
            let (pixel, frame, byte) = (at / FOUR, at % FOUR / 3, at % 3);
            all[at / LANES][frame][at % LANES] = (3 * pixel + byte) as u8;
            at += 1;
        }
        all
    };

    /// Shuffles for each frame and each vector of joined pixels: the index of the vector's byte for each byte of the frame.
    const SPLIT: [[[u8; LANES]; VECTORS]; 4] = {
        let mut all = [[[NONE; LANES]; VECTORS]; 4];
        let mut at = 0;
        while at < 4 * FOUR {
            let (pixel, frame, byte) = (at / FOUR, at % FOUR / 3, at % 3);
            all[frame][at / LANES][3 * pixel + byte] = (at % LANES) as u8;
            at += 1;
        }
        all
    };

    /// Returns the number of pixels that can be copied in groups of four, as each vector extends beyond its group.
    fn movable(frame: usize) -> usize {
        (frame / 3).saturating_sub(2) / 4 * 4
    }

    /// Splits pixels from the first on, and returns their number.
    ///
    /// # Safety
    /// As [`super::split`].
    pub unsafe fn split(src: *const u8, frame: usize, dst: *mut u8) -> usize {
        if !is_x86_feature_detected!("ssse3") {
            return 0;
        }
        // SAFETY: the processor has SSSE3; the rest is guaranteed by the caller.
        unsafe { split_fours(src, frame, dst) };
        movable(frame)
    }

    /// Joins pixels from the first on, and returns their number.
    ///
    /// # Safety
    /// As [`super::join`].
    pub unsafe fn join(frames: &[*const u8; 4], frame: usize, dst: *mut u8) -> usize {
        if !is_x86_feature_detected!("ssse3") {
            return 0;
        }
        // SAFETY: the processor has SSSE3; the rest is guaranteed by the caller.
        unsafe { join_fours(frames, frame, dst) };
        movable(frame)
    }

    #[target_feature(enable = "ssse3")]
    unsafe fn split_fours(src: *const u8, frame: usize, dst: *mut u8) {
        // SAFETY: arrays of integers of the size of a vector are valid vectors.
        let orders: [[Lanes; VECTORS]; 4] = unsafe { std::mem::transmute(SPLIT) };
        for place in (0..movable(frame)).step_by(4) {
            // SAFETY: as `super::split`: two pixels at least follow these four, so whole vectors are inside each frame.
            unsafe {
                let from = src.add(place * FOUR).cast::<Lanes>();
                let parts: [Lanes; VECTORS] =
                    [from.read_unaligned(), from.add(1).read_unaligned(), from.add(2).read_unaligned()];
                for (j, order) in orders.iter().enumerate() {
                    let some = _mm_or_si128(_mm_shuffle_epi8(parts[0], order[0]), _mm_shuffle_epi8(parts[1], order[1]));
                    let all = _mm_or_si128(some, _mm_shuffle_epi8(parts[2], order[2]));
                    dst.add(j * frame + 3 * place).cast::<Lanes>().write_unaligned(all);
                }
            }
        }
    }

    #[target_feature(enable = "ssse3")]
    unsafe fn join_fours(frames: &[*const u8; 4], frame: usize, dst: *mut u8) {
        // SAFETY: arrays of integers of the size of a vector are valid vectors.
        let orders: [[Lanes; 4]; VECTORS] = unsafe { std::mem::transmute(JOIN) };
        for place in (0..movable(frame)).step_by(4) {
            // SAFETY: as `super::join`: two pixels at least follow these four, so whole vectors are inside each frame.
            unsafe {
                let from = |j: usize| frames[j].add(3 * place).cast::<Lanes>().read_unaligned();
                let (a, b, c, d) = (from(0), from(1), from(2), from(3));
                let to = dst.add(place * FOUR).cast::<Lanes>();
                for (k, order) in orders.iter().enumerate() {
                    let first = _mm_or_si128(_mm_shuffle_epi8(a, order[0]), _mm_shuffle_epi8(b, order[1]));
                    let last = _mm_or_si128(_mm_shuffle_epi8(c, order[2]), _mm_shuffle_epi8(d, order[3]));
                    to.add(k).write_unaligned(_mm_or_si128(first, last));
                }
            }
        }
    }
}

/// Processes no pixels, on architectures other than x86-64.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod colours {
    pub unsafe fn split(_src: *const u8, _frame: usize, _dst: *mut u8) -> usize {
        0
    }

    pub unsafe fn join(_frames: &[*const u8; 4], _frame: usize, _dst: *mut u8) -> usize {
        0
    }
}

/// The number of bytes of a vector.
const LANES: usize = 16;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::arch::x86_64::__m128i as Lanes;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
type Lanes = [u8; LANES];

/// Shuffles of the bytes of two vectors, by SSE2 instructions, which each x86-64 processor has.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lanes {
    use super::Lanes;
    use std::arch::x86_64::{
        _mm_and_si128, _mm_packus_epi16, _mm_set1_epi16, _mm_srli_epi16, _mm_unpackhi_epi8, _mm_unpackhi_epi32,
        _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Returns vectors of which vector `k` has word `k` of each argument.
    #[inline]
    pub fn transposed([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
        // SAFETY: each processor of this architecture has SSE2.
        unsafe {
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(ab_high, cd_high),
                _mm_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    /// Returns the bytes at even indices, those of `a` first.
    #[inline]
    pub fn even(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: each processor of this architecture has SSE2.
        unsafe { _mm_packus_epi16(_mm_and_si128(a, _mm_set1_epi16(255)), _mm_and_si128(b, _mm_set1_epi16(255))) }
    }

    /// Returns the bytes at odd indices, those of `a` first.
    #[inline]
    pub fn odd(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_packus_epi16(_mm_srli_epi16::<8>(a), _mm_srli_epi16::<8>(b)) }
    }

    /// Returns the interleaved bytes of the first halves of both.
    #[inline]
    pub fn low(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_unpacklo_epi8(a, b) }
    }

    /// Returns the interleaved bytes of the second halves of both.
    #[inline]
    pub fn high(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_unpackhi_epi8(a, b) }
    }
}

/// The same shuffles without vector instructions.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lanes {
    use super::{LANES, Lanes};

    const HALF: usize = LANES / 2;

    pub fn transposed(rows: [Lanes; 4]) -> [Lanes; 4] {
        std::array::from_fn(|k| std::array::from_fn(|at| rows[at / 4][4 * k + at % 4]))
    }

    pub fn even(a: Lanes, b: Lanes) -> Lanes {
        std::array::from_fn(|k| if k < HALF { a[2 * k] } else { b[2 * k - LANES] })
    }

    pub fn odd(a: Lanes, b: Lanes) -> Lanes {
        std::array::from_fn(|k| if k < HALF { a[2 * k + 1] } else { b[2 * k + 1 - LANES] })
    }

    pub fn low(a: Lanes, b: Lanes) -> Lanes {
        std::array::from_fn(|k| if k % 2 == 0 { a[k / 2] } else { b[k / 2] })
    }

    pub fn high(a: Lanes, b: Lanes) -> Lanes {
        std::array::from_fn(|k| if k % 2 == 0 { a[HALF + k / 2] } else { b[HALF + k / 2] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_taken_apart_and_put_together() {
        for (pixel, stack) in
            [(1, 2), (1, 4), (1, 5), (1, 8), (1, 16), (3, 2), (3, 3), (3, 4), (3, 16), (4, 2), (4, 4), (8, 3), (2, 16)]
        {
            for pixels in [1, 2, 5, 6, 7, 255, 256, 257, 600, 1030] {
                let frame = pixels * pixel;
                let given: Vec<u8> = (0..frame * stack).map(|k| (k * 7 + k / 251) as u8).collect();
                let (mut apart, mut together) = (vec![0; given.len()], vec![9; given.len()]);
                // SAFETY: all have the bytes of `stack` frames.
                unsafe { split(given.as_ptr(), stack, pixel, frame, apart.as_mut_ptr()) };
                for (at, piece) in given.chunks(pixel).enumerate() {
                    let place = at % stack * frame + at / stack * pixel;
                    assert_eq!(apart[place..place + pixel], *piece, "pixels of {pixel}, stacks of {stack}");
                }
                let mut frames: Vec<_> = apart.chunks(frame).map(<[u8]>::as_ptr).collect();
                // SAFETY: as above.
                unsafe { join(&frames, pixel, frame, together.as_mut_ptr()) };
                assert_eq!(together, given, "pixels of {pixel}, stacks of {stack}");
                frames[1] = std::ptr::null();
                // SAFETY: as above.
                unsafe { join(&frames, pixel, frame, together.as_mut_ptr()) };
                for (at, piece) in together.chunks(pixel).enumerate() {
                    let wanted = if at % stack == 1 { &vec![0; pixel] } else { &given[at * pixel..][..pixel] };
                    assert_eq!(piece, wanted, "pixels of {pixel}, stacks of {stack}");
                }
            }
        }
    }
}
