//! Sums over columns by shuffles of bytes, on processors with AVX2. They need no transposed picture.

use std::arch::x86_64::{__m128i, _mm_add_epi32, _mm_loadu_si128, _mm_madd_epi16, _mm_shuffle_epi8, _mm_storeu_si128};

use super::{Axis, Mean};

/// Columns of the result that are computed together: the 32-bit numbers in a register.
const GROUP: usize = 4;
/// The most pixels that a column of the result covers: two pairs.
const SPAN: usize = 4;
/// Sums behind the last one of a line that are read and have no weight.
const SLACK: usize = 10;

/// The columns of the result, in groups.
#[derive(Clone, Debug)]
pub(super) struct Shuffles {
    groups: Vec<Group>,
    /// The weighted sums of the rows that one row of the result covers.
    sums: Vec<u16>,
    /// Their weighted sums over columns.
    totals: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Group {
    /// The first column of the frame.
    first: usize,
    /// Where the first pair of pixels of each column of the result is, in bytes from `first`.
    places: [i8; 16],
    /// The weights of the first pair of each, and of the second.
    weights: [[i16; 8]; 2],
}

impl Shuffles {
    /// Prepares them; None if the processor has no AVX2, or the columns of a group cover too many pixels.
    pub(super) fn new(rows: &Axis, columns: &Axis) -> Option<Self> {
        let fits = columns.span <= SPAN && 255 * rows.total <= i16::MAX as u32;
        if !(fits && is_x86_feature_detected!("avx2")) {
            return None;
        }
        let width = columns.first.len();
        let groups = (0..width).step_by(GROUP).map(|start| Group::new(columns, start..width.min(start + GROUP)));
        let groups = groups.collect::<Option<Vec<_>>>()?;
        let totals = vec![0; groups.len() * GROUP];
        Some(Self { groups, sums: vec![0; columns.source + SLACK], totals })
    }

    /// Resizes `frame` into `out`, both of the sizes of the axes.
    pub(super) fn resize(&mut self, rows: &Axis, columns: &Axis, mean: Mean, frame: &[u8], out: &mut [u8]) {
        // SAFETY: the processor has AVX2, as `new` found.
        unsafe { self.resize_all(rows, columns, mean, frame, out) }
    }

    #[target_feature(enable = "avx2")]
    fn resize_all(&mut self, rows: &Axis, columns: &Axis, mean: Mean, frame: &[u8], out: &mut [u8]) {
        let (width, height) = (columns.source, columns.first.len());
        for (row, out) in out.chunks_exact_mut(height).enumerate() {
            let lines = &frame[rows.first[row] * width..][..rows.span * width];
            match *rows.weights(row) {
                [one, two, three] => self.add_three(lines, width, [one, two, three]),
                ref weights => self.add(lines, width, weights),
            }
            self.add_columns();
            for (value, &total) in out.iter_mut().zip(&self.totals) {
                *value = mean.rounded(total);
            }
        }
    }

    /// Adds up three rows, as many as those of the screens of Atari games, in one pass.
    #[target_feature(enable = "avx2")]
    fn add_three(&mut self, lines: &[u8], width: usize, weights: [u16; 3]) {
        let (one, rest) = lines.split_at(width);
        let (two, three) = rest.split_at(width);
        let rows = one.iter().zip(two).zip(three);
        for (sum, ((&one, &two), &three)) in self.sums[..width].iter_mut().zip(rows) {
            *sum = weights[0] * u16::from(one) + weights[1] * u16::from(two) + weights[2] * u16::from(three);
        }
    }

    #[target_feature(enable = "avx2")]
    fn add(&mut self, lines: &[u8], width: usize, weights: &[u16]) {
        let sums = &mut self.sums[..width];
        sums.fill(0);
        for (line, &weight) in lines.chunks_exact(width).zip(weights) {
            for (sum, &value) in sums.iter_mut().zip(line) {
                *sum += weight * u16::from(value);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn add_columns(&mut self) {
        // Plain indices: the functions of iterators are not compiled for AVX2, and are not always inlined.
        for k in 0..self.groups.len() {
            let group = &self.groups[k];
            let sums = &self.sums[group.first..group.first + SLACK];
            let totals = &mut self.totals[GROUP * k..GROUP * (k + 1)];
            // SAFETY: `sums` has two loads of eight numbers, of which the second begins at the third number. The other arrays are as
            // long as a register.
            unsafe {
                let places = _mm_loadu_si128(group.places.as_ptr().cast());
                let [one, other] = [&group.weights[0], &group.weights[1]];
                let first = weighted(sums.as_ptr(), places, one);
                let second = weighted(sums.as_ptr().add(2), places, other);
                _mm_storeu_si128(totals.as_mut_ptr().cast(), _mm_add_epi32(first, second));
            }
        }
    }
}

/// The sum of a pair of numbers with their weights, for each column of a group.
///
/// # Safety
/// There must be eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn weighted(numbers: *const u16, places: __m128i, weights: &[i16; 8]) -> __m128i {
    // SAFETY: eight 16-bit numbers each.
    let (numbers, weights) = unsafe { (_mm_loadu_si128(numbers.cast()), _mm_loadu_si128(weights.as_ptr().cast())) };
    _mm_madd_epi16(_mm_shuffle_epi8(numbers, places), weights)
}

impl Group {
    /// Prepares the columns `own` of the result; None if their pairs are further apart than a register is long.
    fn new(columns: &Axis, own: std::ops::Range<usize>) -> Option<Self> {
        let first = columns.first[own.start];
        let (mut places, mut weights) = ([-1; 16], [[0; 8]; 2]); // -1 puts zeros where there is no column
        for (k, column) in own.enumerate() {
            let from = columns.first[column] - first;
            if from + 1 >= 8 {
                return None;
            }
            for byte in 0..4 {
                places[4 * k + byte] = (2 * from + byte) as i8;
            }
            for (pixel, &weight) in columns.weights(column).iter().enumerate() {
                weights[pixel / 2][2 * k + pixel % 2] = weight as i16;
            }
        }
        Some(Self { first, places, weights })
    }
}
