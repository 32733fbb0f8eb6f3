//! Area resampling of grey frames.

#[cfg(target_arch = "x86_64")]
mod shuffles;

use rlfast_core::simd::{self, Kernel};

/// Why frames of a size cannot be resized to another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// Area resampling makes frames smaller.
    #[error(
        "a frame of {source_size:?} rows and columns cannot be resized to {target:?}: each number must be from 1 to the frame's"
    )]
    Size {
        /// Rows and columns of the frame.
        source_size: [usize; 2],
        /// Rows and columns that were asked for.
        target: [usize; 2],
    },
    /// The weights of the rows do not fit into the numbers that are used here.
    #[error(
        "a frame of {0} rows cannot be resized to {1}: of their ratio in lowest terms, the first number must be at most 257"
    )]
    Rows(usize, usize),
    /// The frame is larger than screens are.
    #[error("a frame of {0:?} rows and columns is too large: at most 4096 of each")]
    Large([usize; 2]),
}

/// The largest total weight of rows: times 255 it fits into 16 bits.
const LARGEST_TOTAL: u32 = 257;
/// The largest number of rows or columns: with rows of the largest total weight, sums over columns fit into 32 bits.
const LARGEST: usize = 4096;
/// Lines of the transposed picture are padded to a multiple of this, the 16-bit numbers in a vector register.
const LANES: usize = 16;

/// Resizes grey frames of one size to another, each pixel to the mean of the area that it covers.
///
/// The mean is computed exactly, in integers, and rounded to the nearest integer, halves to the even one.
#[derive(Clone, Debug)]
pub struct AreaResize {
    rows: Axis,
    columns: Axis,
    mean: Mean,
    /// The weighted sums of rows: as many lines as the result has rows, as wide as the frame.
    sums: Vec<u16>,
    /// The same with rows and columns exchanged, so that one instruction computes a pixel of many rows; padded.
    transposed: Vec<u16>,
    /// The weighted sums of one column of the result; padded.
    totals: Vec<u32>,
    /// The result with rows and columns exchanged; padded.
    result: Vec<u8>,
    /// The greater of two frames, for `images`.
    pub(super) greater: Vec<u8>,
    /// A quicker way to the same numbers, where the processor and the sizes allow it.
    #[cfg(target_arch = "x86_64")]
    shuffles: Option<shuffles::Shuffles>,
}

impl AreaResize {
    /// Prepares the weights for frames of `source` rows and columns, which become `target`.
    ///
    /// # Errors
    /// If a number is 0, `target` is larger than `source`, `source` has more than 4096 rows or columns, or its rows would have
    /// weights of a sum above 257, the first number of `source[0] / target[0]` in lowest terms.
    pub fn new(source: [usize; 2], target: [usize; 2]) -> Result<Self, ResizeError> {
        if (0..2).any(|axis| target[axis] == 0 || target[axis] > source[axis]) {
            return Err(ResizeError::Size { source_size: source, target });
        }
        if source.iter().any(|&length| length > LARGEST) {
            return Err(ResizeError::Large(source));
        }
        if source[0] / greatest_common_divisor(source[0], target[0]) > LARGEST_TOTAL as usize {
            return Err(ResizeError::Rows(source[0], target[0]));
        }
        let [rows, columns] = [0, 1].map(|axis| Axis::new(source[axis], target[axis]));
        let mean = Mean::of(rows.total * columns.total);
        let lanes = target[0].next_multiple_of(LANES);
        Ok(Self {
            #[cfg(target_arch = "x86_64")]
            shuffles: shuffles::Shuffles::new(&rows, &columns),
            rows,
            columns,
            mean,
            sums: vec![0; target[0] * source[1]],
            transposed: vec![0; source[1] * lanes],
            totals: vec![0; lanes],
            result: vec![0; target[1] * lanes],
            greater: Vec::new(),
        })
    }

    /// Rows and columns of the frames that are resized.
    pub fn source(&self) -> [usize; 2] {
        [self.rows.source, self.columns.source]
    }

    /// Rows and columns of the results.
    pub fn target(&self) -> [usize; 2] {
        [self.rows.first.len(), self.columns.first.len()]
    }

    /// Resizes `frame` into `out`.
    ///
    /// # Panics
    /// If `frame` or `out` has another length than its rows times its columns.
    pub fn resize(&mut self, frame: &[u8], out: &mut [u8]) {
        assert_eq!(frame.len(), self.source().iter().product::<usize>(), "a frame of the promised size");
        assert_eq!(out.len(), self.target().iter().product::<usize>(), "a result of the promised size");
        #[cfg(target_arch = "x86_64")]
        if let Some(shuffles) = &mut self.shuffles {
            return shuffles.resize(&self.rows, &self.columns, self.mean, frame, out);
        }
        simd::run(Resize { by: self, frame, out });
    }

    #[inline(always)]
    fn resize_of(&mut self, sizes: Sizes, frame: &[u8], out: &mut [u8]) {
        self.add_rows(sizes.source_width, frame);
        transpose(&self.sums, sizes.source_width, sizes.source_width, &mut self.transposed, sizes.lanes);
        self.add_columns(sizes.lanes);
        transpose(&self.result, sizes.lanes, sizes.height, out, sizes.width);
    }

    /// Adds up the rows of the frame that each row of the result covers.
    #[inline(always)]
    fn add_rows(&mut self, width: usize, frame: &[u8]) {
        for (row, sums) in self.sums.chunks_exact_mut(width).enumerate() {
            sums.fill(0);
            for (k, &weight) in self.rows.weights(row).iter().enumerate() {
                let line = &frame[(self.rows.first[row] + k) * width..][..width];
                for (sum, &value) in sums.iter_mut().zip(line) {
                    *sum += weight * u16::from(value);
                }
            }
        }
    }

    /// Adds up the transposed sums that each column of the result covers, and divides.
    #[inline(always)]
    fn add_columns(&mut self, lanes: usize) {
        for (column, result) in self.result.chunks_exact_mut(lanes).enumerate() {
            let weights = self.columns.weights(column);
            let lines = &self.transposed[self.columns.first[column] * lanes..][..weights.len() * lanes];
            let totals = &mut self.totals[..lanes];
            totals.fill(0);
            for (line, &weight) in lines.chunks_exact(lanes).zip(weights) {
                for (total, &sum) in totals.iter_mut().zip(line) {
                    *total += u32::from(weight) * u32::from(sum);
                }
            }
            for (value, &total) in result.iter_mut().zip(totals.iter()) {
                *value = self.mean.rounded(total);
            }
        }
    }
}

/// The lengths of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    source_width: usize,
    lanes: usize,
    height: usize,
    width: usize,
}

/// Those of the screens of Atari games: the compiler makes a quicker version for known lengths.
const ATARI: Sizes = Sizes { source_width: 160, lanes: 96, height: 84, width: 84 };

struct Resize<'a> {
    by: &'a mut AreaResize,
    frame: &'a [u8],
    out: &'a mut [u8],
}

impl Kernel for Resize<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { by, frame, out } = self;
        let [height, width] = by.target();
        let sizes = Sizes { source_width: by.columns.source, lanes: height.next_multiple_of(LANES), height, width };
        if sizes == ATARI {
            by.resize_of(ATARI, frame, out);
        } else {
            by.resize_of(sizes, frame, out);
        }
    }
}

/// Writes the columns of `from` as lines of `to`. Lines are `width` numbers apart in `from`, of which the first `columns`
/// count, and `lanes` numbers in `to`.
#[inline(always)]
fn transpose<T: Copy>(from: &[T], width: usize, columns: usize, to: &mut [T], lanes: usize) {
    const BLOCK: usize = 8;
    let whole = from.len() / width / BLOCK * BLOCK;
    for block in (0..whole).step_by(BLOCK) {
        let lines = &from[block * width..][..BLOCK * width];
        for column in 0..columns.min(width) {
            let to = &mut to[column * lanes + block..][..BLOCK];
            for k in 0..BLOCK {
                to[k] = lines[k * width + column];
            }
        }
    }
    for (row, line) in from[whole * width..].chunks_exact(width).enumerate() {
        for (&value, to) in line[..columns].iter().zip(to.chunks_exact_mut(lanes)) {
            to[whole + row] = value;
        }
    }
}

/// Along one axis, the pixels that each pixel of the result covers, and how much of them.
#[derive(Clone, Debug)]
struct Axis {
    source: usize,
    /// The first covered pixel of each; `span` pixels follow, some of them with weight 0.
    first: Vec<usize>,
    span: usize,
    weights: Vec<u16>,
    /// The sum of the weights of each.
    total: u32,
}

impl Axis {
    fn new(source: usize, target: usize) -> Self {
        // In units of 1 / (target / divisor), pixels of the source are `unit` wide and those of the result `total`.
        let divisor = greatest_common_divisor(source, target);
        let (unit, total) = (target / divisor, source / divisor);
        let span = (0..target).map(|i| ((i + 1) * total).div_ceil(unit) - i * total / unit).max().unwrap_or(1);
        let first: Vec<usize> = (0..target).map(|i| (i * total / unit).min(source - span)).collect();
        let overlap = |i: usize, pixel: usize| {
            let (start, end) = ((pixel * unit).max(i * total), ((pixel + 1) * unit).min((i + 1) * total));
            end.saturating_sub(start) as u16
        };
        let weights = (0..target).flat_map(|i| (0..span).map(move |k| (i, k)));
        let weights = weights.map(|(i, k)| overlap(i, first[i] + k)).collect();
        Self { source, first, span, weights, total: total as u32 }
    }

    #[inline(always)]
    fn weights(&self, index: usize) -> &[u16] {
        &self.weights[index * self.span..][..self.span]
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Division by a constant, rounded to the nearest integer, in operations that vector registers have.
#[derive(Clone, Copy, Debug)]
struct Mean {
    divisor: i32,
    reciprocal: f32,
    /// 1 if the divisor is even, so that a quotient can be half-way between two integers.
    even: i32,
}

impl Mean {
    fn of(divisor: u32) -> Self {
        Self { divisor: divisor as i32, reciprocal: 1.0 / divisor as f32, even: i32::from(divisor.is_multiple_of(2)) }
    }

    #[inline(always)]
    fn rounded(self, total: u32) -> u8 {
        let sum = total as i32 + self.divisor / 2;
        // Floats from 2^23 to 2^24 are the integers, so this adds the nearest integer to the bits of 2^23. It is the
        // quotient rounded down or up, as roundings of 2^-24 shift a quotient below 256 by less than a half.
        let near = (sum as f32 * self.reciprocal + TWO_23).to_bits() as i32 - TWO_23.to_bits() as i32;
        let rest = sum - near * self.divisor;
        let half = i32::from(rest == 0) & self.even;
        (near - i32::from(rest < 0) - (near & half)) as u8
    }
}

const TWO_23: f32 = 8_388_608.0;

#[cfg(test)]
mod tests;
