//! Stacks of frames along the last axis: each pixel holds a piece of every frame.
//!
//! Frames are kept whole, so a stack is taken apart when it is written, and put together when it is read.

use crate::memory;
use crate::replay::layout::Layout;
use crate::replay::table::Source;

/// Sources whose row 0 is row `k` of those given, with such stacks taken apart into `bytes`; `wanted` says of which leaves it is
/// needed.
///
/// # Safety
/// Each source, one for each leaf, is readable for row `k`.
pub(super) unsafe fn row_apart(
    layout: &Layout,
    sources: &[Source],
    k: usize,
    wanted: impl Fn(usize) -> bool,
    bytes: &mut Vec<u8>,
) -> Vec<Source> {
    let stacks = |leaf: &usize| layout.pixels(*leaf).is_some() && wanted(*leaf) && !sources[*leaf].ptr.is_null();
    let leaves = || (0..sources.len()).filter(stacks);
    bytes.resize(leaves().map(|leaf| layout.nbytes[leaf]).sum(), 0);
    let mut row: Vec<_> = sources.iter().map(|source| Source { ptr: source.row(k), stride: 0 }).collect();
    let mut free = bytes.as_mut_ptr();
    for leaf in leaves() {
        let (stack, pixel) = layout.pixels(leaf).expect("invariant: just filtered");
        let whole = layout.nbytes[leaf];
        // SAFETY: the caller promises the row; `bytes` has room for one of each of these leaves.
        unsafe { split(row[leaf].ptr, stack, pixel, whole / stack, free) };
        row[leaf].ptr = free;
        free = free.wrapping_add(whole);
    }
    row
}

/// Writes the `stack` frames at `src` one after the other to `dst`.
///
/// # Safety
/// `src` is readable and `dst` writable for `stack` frames of `frame` bytes, whole pixels of `pixel` bytes; they do not overlap.
unsafe fn split(src: *const u8, stack: usize, pixel: usize, frame: usize, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match (pixel, stack) {
            (1, 2) => split_bytes::<2>(src, frame, dst),
            (1, 4) => split_bytes::<4>(src, frame, dst),
            (1, 8) => split_bytes::<8>(src, frame, dst),
            (1, 16) => split_bytes::<16>(src, frame, dst),
            (3, _) => split_threes(src, stack, frame, dst),
            (4, 2) => split_fixed::<4, 2>(src, frame, dst),
            (4, 4) => split_fixed::<4, 4>(src, frame, dst),
            _ => {
                for at in 0..frame / pixel * stack {
                    let (place, j) = (at / stack, at % stack);
                    memory::copy(src.add(at * pixel), dst.add(j * frame + place * pixel), pixel);
                }
            }
        }
    }
}

/// The same for pixels of `P` bytes and stacks of `S` frames.
unsafe fn split_fixed<const P: usize, const S: usize>(src: *const u8, frame: usize, dst: *mut u8) {
    for place in 0..frame / P {
        for j in 0..S {
            // SAFETY: as `split`.
            unsafe {
                let piece = src.add((place * S + j) * P).cast::<[u8; P]>().read();
                dst.add(j * frame + place * P).cast::<[u8; P]>().write(piece);
            }
        }
    }
}

/// The same for pixels of three bytes: four are moved, the last of which the next pixel of the frame overwrites.
unsafe fn split_threes(src: *const u8, stack: usize, frame: usize, dst: *mut u8) {
    let whole = (frame / 3).saturating_sub(1);
    for place in 0..whole {
        let from = src.wrapping_add(place * 3 * stack);
        for j in 0..stack {
            // SAFETY: as `split`: a pixel of the same frame stands after each of these, and so does its place.
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

/// Writes the frames at `frames` (null: zeros) pixel by pixel to `dst`.
///
/// # Safety
/// Each is null or readable for `frame` bytes, whole pixels of `pixel` bytes; `dst` is writable for all of them.
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
    // SAFETY: the caller's promise.
    unsafe {
        match (pixel, frames.len()) {
            (1, 2) => join_bytes::<2>(frames, frame, dst),
            (1, 4) => join_bytes::<4>(frames, frame, dst),
            (1, 8) => join_bytes::<8>(frames, frame, dst),
            (1, 16) => join_bytes::<16>(frames, frame, dst),
            (3, _) => join_threes(frames, frame, dst),
            (4, 2) => join_fixed::<4, 2>(frames, frame, dst),
            (4, 4) => join_fixed::<4, 4>(frames, frame, dst),
            (_, stack) => {
                for at in 0..frame / pixel * stack {
                    let (place, from) = (at / stack, frames[at % stack]);
                    memory::copy(from.add(place * pixel), dst.add(at * pixel), pixel);
                }
            }
        }
    }
}

/// The same for pixels of `P` bytes and stacks of `S` frames.
unsafe fn join_fixed<const P: usize, const S: usize>(frames: &[*const u8], frame: usize, dst: *mut u8) {
    for place in 0..frame / P {
        for (j, from) in frames[..S].iter().enumerate() {
            // SAFETY: as `join`.
            unsafe {
                let piece = from.add(place * P).cast::<[u8; P]>().read();
                dst.add((place * S + j) * P).cast::<[u8; P]>().write(piece);
            }
        }
    }
}

/// The same for pixels of three bytes: four are moved, the last of which the next frame's pixel overwrites.
unsafe fn join_threes(frames: &[*const u8], frame: usize, dst: *mut u8) {
    let (stack, whole) = (frames.len(), (frame / 3).saturating_sub(1));
    for place in 0..whole {
        let to = dst.wrapping_add(place * 3 * stack);
        for (j, from) in frames.iter().enumerate() {
            // SAFETY: as `join`: another pixel stands after each of these, and another place after its own.
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
        // SAFETY: as `split`: `LANES` pixels of all frames stand here, and there is a place for them in each frame.
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
        // SAFETY: as `join`: `LANES` pixels of each frame stand here, and there is a place for all of them.
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

/// Bytes that a processor moves together.
const LANES: usize = 16;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::arch::x86_64::__m128i as Lanes;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
type Lanes = [u8; LANES];

/// Shuffles of the bytes of two vectors, on processors all of which have vector instructions for them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lanes {
    use super::Lanes;
    use std::arch::x86_64::{
        _mm_and_si128, _mm_packus_epi16, _mm_set1_epi16, _mm_srli_epi16, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };

    /// The bytes with even numbers, those of `a` first.
    #[inline]
    pub fn even(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: each processor of this architecture has SSE2.
        unsafe { _mm_packus_epi16(_mm_and_si128(a, _mm_set1_epi16(255)), _mm_and_si128(b, _mm_set1_epi16(255))) }
    }

    /// The bytes with odd numbers, those of `a` first.
    #[inline]
    pub fn odd(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_packus_epi16(_mm_srli_epi16::<8>(a), _mm_srli_epi16::<8>(b)) }
    }

    /// The first halves of both, byte by byte in turn.
    #[inline]
    pub fn low(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_unpacklo_epi8(a, b) }
    }

    /// The second halves of both, byte by byte in turn.
    #[inline]
    pub fn high(a: Lanes, b: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { _mm_unpackhi_epi8(a, b) }
    }
}

/// The same without vector instructions.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lanes {
    use super::{LANES, Lanes};

    const HALF: usize = LANES / 2;

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
            for pixels in [1, 2, 255, 256, 257, 600, 1030] {
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
