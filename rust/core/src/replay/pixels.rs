//! Stacks of frames along the last axis: each pixel holds a piece of every frame.
//!
//! Frames are kept whole, so a stack is taken apart when it is written, and put together when it is read.

use crate::memory;
use crate::replay::layout::Layout;
use crate::replay::table::Source;

/// Pixels that are moved together.
const BLOCK: usize = 256;

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
            (1, 2) => bytes2::split(src, frame, dst),
            (1, 4) => bytes4::split(src, frame, dst),
            (1, 8) => bytes8::split(src, frame, dst),
            (3, 2) => split_fixed::<3, 2>(src, frame, dst),
            (3, 3) => split_fixed::<3, 3>(src, frame, dst),
            (3, 4) => split_fixed::<3, 4>(src, frame, dst),
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
    let (mut pixels, mut one) = ([[[0_u8; P]; S]; BLOCK], [[0_u8; P]; BLOCK]);
    for start in (0..frame / P).step_by(BLOCK) {
        let count = BLOCK.min(frame / P - start);
        // SAFETY: as `split`; the block has room for `count` pixels of all frames.
        unsafe { memory::copy(src.add(start * P * S), pixels.as_mut_ptr().cast(), count * P * S) };
        for j in 0..S {
            one.iter_mut().zip(&pixels).for_each(|(one, pixel)| *one = pixel[j]);
            // SAFETY: as `split`.
            unsafe { memory::copy(one.as_ptr().cast(), dst.add(j * frame + start * P), count * P) };
        }
    }
}

/// Writes the frames at `frames` (null: zeros) pixel by pixel to `dst`.
///
/// # Safety
/// Each is null or readable for `frame` bytes, whole pixels of `pixel` bytes; `dst` is writable for all of them.
pub(super) unsafe fn join(frames: &[*const u8], pixel: usize, frame: usize, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match (pixel, frames.len()) {
            (1, 2) => bytes2::join(frames, frame, dst),
            (1, 4) => bytes4::join(frames, frame, dst),
            (1, 8) => bytes8::join(frames, frame, dst),
            (3, 2) => join_fixed::<3, 2>(frames, frame, dst),
            (3, 3) => join_fixed::<3, 3>(frames, frame, dst),
            (3, 4) => join_fixed::<3, 4>(frames, frame, dst),
            (4, 2) => join_fixed::<4, 2>(frames, frame, dst),
            (4, 4) => join_fixed::<4, 4>(frames, frame, dst),
            (_, stack) => {
                for at in 0..frame / pixel * stack {
                    let (place, from) = (at / stack, frames[at % stack]);
                    let to = dst.add(at * pixel);
                    if from.is_null() {
                        memory::zero(to, pixel);
                    } else {
                        memory::copy(from.add(place * pixel), to, pixel);
                    }
                }
            }
        }
    }
}

/// The same for pixels of `P` bytes and stacks of `S` frames.
unsafe fn join_fixed<const P: usize, const S: usize>(frames: &[*const u8], frame: usize, dst: *mut u8) {
    let mut all = [[[0_u8; P]; BLOCK]; S];
    let mut pixels = [[[0_u8; P]; S]; BLOCK];
    for start in (0..frame / P).step_by(BLOCK) {
        let count = BLOCK.min(frame / P - start);
        for (one, from) in all.iter_mut().zip(frames).filter(|(_, from)| !from.is_null()) {
            // SAFETY: as `join`; the block has room for `count` pixels of a frame.
            unsafe { memory::copy(from.add(start * P), one.as_mut_ptr().cast(), count * P) };
        }
        for (i, pixel) in pixels.iter_mut().enumerate() {
            for (j, piece) in pixel.iter_mut().enumerate() {
                *piece = all[j][i];
            }
        }
        // SAFETY: as `join`.
        unsafe { memory::copy(pixels.as_ptr().cast(), dst.add(start * P * S), count * P * S) };
    }
}

/// The same for pixels of one byte, of which a stack makes one word: in this shape compilers find vector instructions.
macro_rules! words {
    ($module:ident, $word:ty) => {
        mod $module {
            use super::{BLOCK, memory};

            const STACK: usize = size_of::<$word>();

            /// # Safety
            /// As [`super::split`].
            pub unsafe fn split(src: *const u8, frame: usize, dst: *mut u8) {
                let (mut words, mut one) = ([0 as $word; BLOCK], [0_u8; BLOCK]);
                for start in (0..frame).step_by(BLOCK) {
                    let count = BLOCK.min(frame - start);
                    // SAFETY: as `super::split`; the block has room for `count` pixels of all frames.
                    unsafe { memory::copy(src.add(start * STACK), words.as_mut_ptr().cast(), count * STACK) };
                    for j in 0..STACK {
                        let shift = 8 * j;
                        one.iter_mut().zip(&words).for_each(|(one, word)| *one = (word.to_le() >> shift) as u8);
                        // SAFETY: as `super::split`.
                        unsafe { memory::copy(one.as_ptr(), dst.add(j * frame + start), count) };
                    }
                }
            }

            /// # Safety
            /// As [`super::join`].
            pub unsafe fn join(frames: &[*const u8], frame: usize, dst: *mut u8) {
                let (mut words, mut one) = ([0 as $word; BLOCK], [0_u8; BLOCK]);
                for start in (0..frame).step_by(BLOCK) {
                    let count = BLOCK.min(frame - start);
                    words.fill(0);
                    for (j, from) in frames.iter().enumerate().filter(|(_, from)| !from.is_null()) {
                        // SAFETY: as `super::join`; the block has room for `count` pixels of a frame.
                        unsafe { memory::copy(from.add(start), one.as_mut_ptr(), count) };
                        let shift = 8 * j;
                        words.iter_mut().zip(&one).for_each(|(word, &one)| *word |= <$word>::from(one) << shift);
                    }
                    words.iter_mut().for_each(|word| *word = word.to_le());
                    // SAFETY: as `super::join`.
                    unsafe { memory::copy(words.as_ptr().cast(), dst.add(start * STACK), count * STACK) };
                }
            }
        }
    };
}
words!(bytes2, u16);
words!(bytes4, u32);
words!(bytes8, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_taken_apart_and_put_together() {
        for (pixel, stack) in [(1, 2), (1, 4), (1, 5), (1, 8), (3, 2), (3, 3), (3, 4), (4, 2), (4, 4), (8, 3), (2, 16)]
        {
            for pixels in [1, 255, 256, 257, 600] {
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
