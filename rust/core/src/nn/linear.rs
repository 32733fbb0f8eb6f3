//! The product of a tile and a matrix of weights.

use super::functions::relu;
use crate::error::Result;
use crate::simd::MulAdd;
use crate::vectors::filled;

/// Outputs that are computed together, so that each input is loaded once for all of them.
const BLOCK: usize = 4;
/// Inputs whose products are summed before the sum is added to the result: sums of fewer numbers round less.
const CHUNK: usize = 128;

/// A matrix of somebody else: `strides` are the steps to the weights of the next output, and of the next input. Those of
/// the next input are next to each other unless it is `STRIDED`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<const STRIDED: bool> {
    pub data: *const f32,
    pub strides: [usize; 2],
}

impl<const STRIDED: bool> Matrix<STRIDED> {
    /// # Safety
    /// There is such a weight.
    #[inline(always)]
    unsafe fn at(self, output: usize, input: usize) -> f32 {
        let step = if STRIDED { self.strides[1] } else { 1 };
        // SAFETY: as the caller promises.
        unsafe { *self.data.add(output * self.strides[0] + input * step) }
    }
}

/// Writes `weight x + bias` for each lane, and replaces negative numbers by 0 if `RELU` is true.
///
/// # Safety
/// `weight` has `out.len()` outputs of `x.len()` numbers, and `bias` as many as rows, or it is null.
#[inline(always)]
pub(super) unsafe fn product<M: MulAdd, const STRIDED: bool, const L: usize, const RELU: bool>(
    x: &[[f32; L]],
    weight: Matrix<STRIDED>,
    bias: *const f32,
    out: &mut [[f32; L]],
) {
    let mut first = 0;
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    for block in blocks {
        // SAFETY: the rows of the block are among those that the caller promises.
        unsafe { rows::<M, STRIDED, L, BLOCK, RELU>(x, weight, first, bias_of(bias, first), block) };
        first += BLOCK;
    }
    for row in rest {
        // SAFETY: as above.
        unsafe {
            rows::<M, STRIDED, L, 1, RELU>(x, weight, first, bias_of(bias, first), std::array::from_mut(row));
        }
        first += 1;
    }
}

/// # Safety
/// `bias` is null, or has more than `first` numbers.
#[inline(always)]
unsafe fn bias_of(bias: *const f32, first: usize) -> *const f32 {
    // SAFETY: as the caller promises.
    if bias.is_null() { bias } else { unsafe { bias.add(first) } }
}

/// # Safety
/// As [`product`], for `N` outputs from `first` on.
#[inline(always)]
unsafe fn rows<M: MulAdd, const STRIDED: bool, const L: usize, const N: usize, const RELU: bool>(
    x: &[[f32; L]],
    weight: Matrix<STRIDED>,
    first: usize,
    bias: *const f32,
    out: &mut [[f32; L]; N],
) {
    let mut totals = [[0.0; L]; N];
    if !bias.is_null() {
        for (row, total) in totals.iter_mut().enumerate() {
            // SAFETY: one for each row.
            *total = [unsafe { *bias.add(row) }; L];
        }
    }
    let mut done = 0;
    for chunk in x.chunks(CHUNK) {
        let mut sums = [[0.0; L]; N];
        for (i, values) in chunk.iter().enumerate() {
            for (row, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a number for each input and row.
                let factor = unsafe { weight.at(first + row, done + i) };
                for lane in 0..L {
                    sum[lane] = M::mul_add(values[lane], factor, sum[lane]);
                }
            }
        }
        for row in 0..N {
            for lane in 0..L {
                totals[row][lane] += sums[row][lane];
            }
        }
        done += chunk.len();
    }
    for row in 0..N {
        for lane in 0..L {
            out[row][lane] = if RELU { relu(totals[row][lane]) } else { totals[row][lane] };
        }
    }
}

/// The largest sum of the magnitudes of the terms of one output, in each lane: the scale of the rounding errors.
///
/// # Safety
/// As [`product`], for `outputs` rows.
#[inline(always)]
pub(super) unsafe fn magnitude<const L: usize>(
    x: &[[f32; L]],
    weight: Matrix<true>,
    bias: *const f32,
    outputs: usize,
) -> [f32; L] {
    let mut largest = [0.0; L];
    for row in 0..outputs {
        // SAFETY: one for each row.
        let mut sums = [if bias.is_null() { 0.0 } else { unsafe { *bias.add(row) }.abs() }; L];
        for (i, values) in x.iter().enumerate() {
            // SAFETY: a number for each input and row.
            let factor = unsafe { weight.at(row, i) }.abs();
            for lane in 0..L {
                sums[lane] += values[lane].abs() * factor;
            }
        }
        for lane in 0..L {
            largest[lane] = if sums[lane] <= largest[lane] { largest[lane] } else { sums[lane] };
        }
    }
    largest
}

/// Numbers of a vector register.
const LANES: usize = 8;
/// Vector registers of outputs that are computed together: enough sums for the processor to have always one to add to.
const REGISTERS: usize = 8;

/// The weights of a layer by columns: a weight of each output, for each input.
#[derive(Debug)]
pub(super) struct Columns {
    weights: Vec<f32>,
    /// The numbers of a column: the outputs, and zeros up to whole vector registers.
    stride: usize,
}

impl Columns {
    /// # Safety
    /// `weight` has `outputs` rows of `inputs` numbers.
    pub unsafe fn of(weight: *const f32, inputs: usize, outputs: usize) -> Result<Self> {
        let stride = outputs.next_multiple_of(LANES);
        let mut weights = filled(0.0, inputs * stride)?;
        for (input, column) in weights.chunks_exact_mut(stride).enumerate() {
            for (output, number) in column[..outputs].iter_mut().enumerate() {
                // SAFETY: as the caller promises.
                *number = unsafe { *weight.add(output * inputs + input) };
            }
        }
        Ok(Self { weights, stride })
    }

    /// Writes what [`product`] does for one row: the same sums in the same order.
    ///
    /// # Safety
    /// `bias` is null, or has `out.len()` numbers.
    #[inline(always)]
    pub unsafe fn product<M: MulAdd>(&self, x: &[f32], bias: *const f32, relus: bool, out: &mut [f32]) {
        let mut first = 0;
        while first < out.len() {
            let width = out.len() - first;
            let out = &mut out[first..];
            // SAFETY: as the caller promises.
            let bias = unsafe { bias_of(bias, first) };
            // SAFETY: as above, for the outputs from `first` on.
            unsafe {
                if width >= LANES * REGISTERS {
                    self.block::<M, REGISTERS>(x, first, bias, relus, &mut out[..LANES * REGISTERS]);
                    first += LANES * REGISTERS;
                } else {
                    self.block::<M, 1>(x, first, bias, relus, &mut out[..width.min(LANES)]);
                    first += LANES;
                }
            }
        }
    }

    /// # Safety
    /// `bias` is null, or has `out.len()` numbers.
    #[inline(always)]
    unsafe fn block<M: MulAdd, const R: usize>(
        &self,
        x: &[f32],
        first: usize,
        bias: *const f32,
        relus: bool,
        out: &mut [f32],
    ) {
        let mut totals = [[0.0; LANES]; R];
        if !bias.is_null() {
            for (k, total) in totals.as_flattened_mut().iter_mut().take(out.len()).enumerate() {
                // SAFETY: one for each output.
                *total = unsafe { *bias.add(k) };
            }
        }
        let mut columns = self.weights.chunks_exact(self.stride);
        for chunk in x.chunks(CHUNK) {
            let mut sums = [[0.0; LANES]; R];
            for (&value, column) in chunk.iter().zip(&mut columns) {
                let (lanes, _) = column[first..].as_chunks::<LANES>();
                let lanes: &[[f32; LANES]; R] = lanes.first_chunk().expect("invariant: columns have whole registers");
                for (sum, weights) in sums.iter_mut().zip(lanes) {
                    for lane in 0..LANES {
                        sum[lane] = M::mul_add(value, weights[lane], sum[lane]);
                    }
                }
            }
            for (total, sum) in totals.iter_mut().zip(&sums) {
                for lane in 0..LANES {
                    total[lane] += sum[lane];
                }
            }
        }
        for (out, &total) in out.iter_mut().zip(totals.as_flattened()) {
            *out = if relus { relu(total) } else { total };
        }
    }
}
