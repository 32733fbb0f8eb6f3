//! The product of a tile and a matrix of weights.

use super::functions::relu;
use crate::error::Result;
use crate::simd::{Array, Lanes, MulAdd, ProductKernel, run_products};
use crate::vectors::filled;

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

/// Writes `weight x + bias` for each lane, and replaces negative numbers by 0 if `relus` is true.
///
/// # Safety
/// `weight` has `out.len()` outputs of `x.len()` numbers, and `bias` as many as rows, or it is null.
#[inline(always)]
pub(super) unsafe fn product<M: MulAdd, const STRIDED: bool, const L: usize>(
    x: &[[f32; L]],
    weight: Matrix<STRIDED>,
    bias: *const f32,
    relus: bool,
    out: &mut [[f32; L]],
) {
    let (x, out) = (x.as_flattened(), out.as_flattened_mut());
    // SAFETY: as the caller promises.
    unsafe {
        match L {
            16 => outputs::<M, M::Lanes, STRIDED>(x, weight, bias, relus, out),
            8 => outputs::<M, M::Narrow, STRIDED>(x, weight, bias, relus, out),
            1 => outputs::<M, Array<M, 1>, STRIDED>(x, weight, bias, relus, out),
            _ => unreachable!("invariant: tiles have so many rows"),
        }
    }
}

/// Computes outputs in blocks, so that each input is loaded once for several, whose sums fill half of the registers: fewer
/// would wait for each other.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn outputs<M: MulAdd, V: Lanes, const STRIDED: bool>(
    x: &[f32],
    weight: Matrix<STRIDED>,
    bias: *const f32,
    relus: bool,
    out: &mut [f32],
) {
    let mut first = 0;
    macro_rules! blocks {
        ($size:literal) => {
            while out.len() >= (first + $size) * V::COUNT {
                let block = &mut out[first * V::COUNT..][..$size * V::COUNT];
                // SAFETY: the outputs of the block are among those that the caller promises.
                unsafe { rows::<V, STRIDED, $size>(x, weight, first, bias_of(bias, first), relus, block) };
                first += $size;
            }
        };
    }
    if M::SUMS >= 8 * V::COUNT {
        blocks!(8);
    }
    if M::SUMS >= 4 * V::COUNT {
        blocks!(4);
    }
    blocks!(2);
    blocks!(1);
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
unsafe fn rows<V: Lanes, const STRIDED: bool, const N: usize>(
    x: &[f32],
    weight: Matrix<STRIDED>,
    first: usize,
    bias: *const f32,
    relus: bool,
    out: &mut [f32],
) {
    let mut totals = [V::splat(0.0); N];
    if !bias.is_null() {
        for (row, total) in totals.iter_mut().enumerate() {
            // SAFETY: one for each row.
            *total = V::splat(unsafe { *bias.add(row) });
        }
    }
    let mut done = 0;
    for chunk in x.chunks(CHUNK * V::COUNT) {
        let mut sums = [V::splat(0.0); N];
        for values in chunk.chunks_exact(V::COUNT) {
            // SAFETY: so many numbers are there.
            let values = unsafe { V::load(values.as_ptr()) };
            for (row, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a number for each input and row.
                let factor = V::splat(unsafe { weight.at(first + row, done) });
                *sum = values.mul_add(factor, *sum);
            }
            done += 1;
        }
        for row in 0..N {
            totals[row] = totals[row].add(sums[row]);
        }
    }
    for (total, out) in totals.iter().zip(out.chunks_exact_mut(V::COUNT)) {
        let total = if relus { total.relu() } else { *total };
        // SAFETY: there is room for so many numbers.
        unsafe { total.store(out.as_mut_ptr()) };
    }
}

/// The largest sum of the magnitudes of the terms of one output, in each lane: the scale of the rounding errors.
///
/// # Safety
/// As [`product`], for `outputs` rows.
pub(super) unsafe fn magnitude<const L: usize>(
    x: &[[f32; L]],
    weight: Matrix<true>,
    bias: *const f32,
    outputs: usize,
) -> [f32; L] {
    let mut largest = [0.0; L];
    run_products(Magnitude { x, weight, bias, outputs, largest: &mut largest });
    largest
}

/// What [`magnitude`] computes. Whoever makes one promises what its callers do.
struct Magnitude<'a, const L: usize> {
    x: &'a [[f32; L]],
    weight: Matrix<true>,
    bias: *const f32,
    outputs: usize,
    largest: &'a mut [f32; L],
}

impl<const L: usize> ProductKernel for Magnitude<'_, L> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        match L {
            16 => self.run_in::<M::Lanes>(),
            8 => self.run_in::<M::Narrow>(),
            _ => self.run_in::<Array<M, 1>>(),
        }
    }
}

/// Sums of magnitudes that are computed together.
const TOGETHER: usize = 4;

impl<const L: usize> Magnitude<'_, L> {
    #[inline(always)]
    fn run_in<V: Lanes>(self) {
        assert_eq!(V::COUNT, L, "invariant: tiles have so many rows");
        for first in (0..self.outputs).step_by(TOGETHER) {
            // The last output fills up the last block, which does not change the largest sum.
            let rows: [usize; TOGETHER] = std::array::from_fn(|k| (first + k).min(self.outputs - 1));
            let mut sums = [V::splat(0.0); TOGETHER];
            if !self.bias.is_null() {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    // SAFETY: one for each output.
                    *sum = V::splat(unsafe { *self.bias.add(row) }.abs());
                }
            }
            for (i, values) in self.x.iter().enumerate() {
                // SAFETY: there are as many lanes.
                let values = unsafe { V::load(values.as_ptr()) }.abs();
                for (sum, row) in sums.iter_mut().zip(rows) {
                    // SAFETY: a number for each input and output.
                    let factor = unsafe { self.weight.at(row, i) }.abs();
                    *sum = values.mul_add(V::splat(factor), *sum);
                }
            }
            for sum in sums {
                let mut found = [0.0; L];
                // SAFETY: there is room for as many lanes.
                unsafe { sum.store(found.as_mut_ptr()) };
                for (largest, found) in self.largest.iter_mut().zip(found) {
                    *largest = if found <= *largest { *largest } else { found };
                }
            }
        }
    }
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
