//! Convolutions and pooling of images, one row of a batch at a time.
//!
//! Weights are packed once for each pass, with sixteen filters next to each other. So the numbers of an image are read
//! where they are, each once for sixteen or 32 filters, and nothing is copied but the borders of padded images.

use crate::error::{Result, value_error};
use crate::simd::{Lanes, MulAdd, turned};

use super::weights::Weights;

/// Filters that are computed together.
const BLOCK: usize = 16;
/// Products that are summed before the sum is added to the result: sums of fewer numbers round less.
const CHUNK: usize = 128;
/// The most numbers of a padded image.
const MOST: usize = 1 << 22;

/// The places of an image `[channels, height, width]` that are read for each place of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub(super) channels: usize,
    pub(super) size: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    /// The height and width of the result.
    pub(super) output: [usize; 2],
}

impl Window {
    /// Returns the window of these numbers: channels, then the height and width of the image, of the kernel, of strides,
    /// of the padding on each side, and of dilations.
    ///
    /// # Errors
    /// `Value` for another count of numbers, and for a window that is larger than the padded image.
    pub fn new(numbers: &[usize]) -> Result<Self> {
        let &[channels, height, width, kh, kw, sh, sw, ph, pw, dh, dw] = numbers else {
            return value_error!("a window has 11 numbers, got {}", numbers.len());
        };
        let [size, kernel, stride, padding, dilation] = [[height, width], [kh, kw], [sh, sw], [ph, pw], [dh, dw]];
        let mut output = [0; 2];
        for k in 0..2 {
            let padded = size[k].saturating_add(padding[k].saturating_mul(2));
            let reach = kernel[k].saturating_sub(1).saturating_mul(dilation[k]).saturating_add(1);
            if kernel[k] == 0 || stride[k] == 0 || dilation[k] == 0 || reach > padded {
                return value_error!("a window of {reach} does not fit into {padded} numbers of an image");
            }
            output[k] = (padded - reach) / stride[k] + 1;
        }
        let window = Self { channels, size, kernel, stride, padding, dilation, output };
        let [tall, wide] = window.padded();
        if channels == 0 || channels.saturating_mul(tall).saturating_mul(wide) > MOST {
            return value_error!("an image has 1 to {MOST} numbers with its padding");
        }
        Ok(window)
    }

    /// The numbers of an image.
    pub(super) fn inputs(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// The places of the result.
    pub(super) fn places(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// The height and width of a padded image.
    fn padded(&self) -> [usize; 2] {
        [0, 1].map(|k| self.size[k].saturating_add(self.padding[k].saturating_mul(2)))
    }

    /// The places of a kernel in a padded image, from its first one, for some channels.
    fn offsets(&self, channels: usize) -> Vec<usize> {
        let [tall, wide] = self.padded();
        let mut offsets = Vec::with_capacity(channels * self.kernel[0] * self.kernel[1]);
        for channel in 0..channels {
            for y in 0..self.kernel[0] {
                let row = (channel * tall + y * self.dilation[0]) * wide;
                offsets.extend((0..self.kernel[1]).map(|x| row + x * self.dilation[1]));
            }
        }
        offsets
    }

    /// The first place of the kernel for each place of the result.
    fn firsts(&self) -> Vec<usize> {
        let wide = self.padded()[1];
        let first = |y: usize, x: usize| y * self.stride[0] * wide + x * self.stride[1];
        (0..self.output[0]).flat_map(|y| (0..self.output[1]).map(move |x| first(y, x))).collect()
    }

    /// Writes a padded image.
    fn pad(&self, image: &[f32], padded: &mut [f32]) {
        let ([tall, wide], [height, width]) = (self.padded(), self.size);
        padded.fill(0.0);
        for (to, from) in padded.chunks_exact_mut(tall * wide).zip(image.chunks_exact(height * width)) {
            let rows = to[self.padding[0] * wide..].chunks_exact_mut(wide);
            for (to, from) in rows.zip(from.chunks_exact(width)) {
                to[self.padding[1]..][..width].copy_from_slice(from);
            }
        }
    }

    /// The numbers that [`Self::pool`] needs as scratch memory: two padded lines.
    pub(super) fn lines(&self) -> usize {
        2 * self.padded()[1]
    }

    /// Writes the greatest number, or the mean, of each window of each channel. Padding counts as minus infinity, or 0.
    ///
    /// The lines of windows are put together first, then their columns, as if the stride were 1: so neighbours go through
    /// vector registers together, which saves more than the windows between strides cost.
    #[inline(always)]
    pub(super) fn pool(&self, image: &[f32], lines: &mut [f32], out: &mut [f32], greatest: bool) {
        let ([height, width], [tall, wide]) = (self.size, self.output);
        let ([above, left], [down, right]) = (self.padding, self.dilation);
        let (line, across) = lines.split_at_mut(self.padded()[1]);
        let across = &mut across[..(wide - 1) * self.stride[1] + 1];
        let (empty, count) = (if greatest { f32::NEG_INFINITY } else { 0.0 }, (self.kernel[0] * self.kernel[1]) as f32);
        line.fill(empty);
        for (out, image) in out.chunks_exact_mut(tall * wide).zip(image.chunks_exact(height * width)) {
            for (y, out) in out.chunks_exact_mut(wide).enumerate() {
                // The lines of the kernel that are inside of the image.
                let top = y * self.stride[0];
                let first = above.saturating_sub(top).div_ceil(down).min(self.kernel[0]);
                let end = (height + above).saturating_sub(top).div_ceil(down).min(self.kernel[0]);
                let inside = &mut line[left..][..width];
                if first < end {
                    put_together(
                        &image[(top + first * down - above) * width..],
                        down * width,
                        end - first,
                        greatest,
                        inside,
                    );
                } else {
                    inside.fill(empty);
                }
                put_together(line, right, self.kernel[1], greatest, across);
                let found = across.iter().step_by(self.stride[1]);
                if greatest {
                    out.iter_mut().zip(found).for_each(|(out, &x)| *out = x);
                } else {
                    out.iter_mut().zip(found).for_each(|(out, &x)| *out = x / count);
                }
            }
        }
    }
}

/// Writes the greatest, which is NaN if one is, or the sum of `count` numbers for each place of `out`: of those at the
/// place, `step` further, and so on.
#[inline(always)]
fn put_together(numbers: &[f32], step: usize, count: usize, greatest: bool, out: &mut [f32]) {
    let (blocks, rest) = out.as_chunks_mut::<8>();
    let done = blocks.len() * 8;
    for (k, block) in blocks.iter_mut().enumerate() {
        put_block_together(&numbers[k * 8..], step, count, greatest, block);
    }
    for (k, number) in rest.iter_mut().enumerate() {
        put_block_together(&numbers[done + k..], step, count, greatest, std::array::from_mut(number));
    }
}

#[inline(always)]
fn put_block_together<const N: usize>(numbers: &[f32], step: usize, count: usize, greatest: bool, out: &mut [f32; N]) {
    let block = |k: usize| *numbers[k * step..].first_chunk::<N>().expect("invariant: windows are inside");
    let mut found = block(0);
    for k in 1..count {
        let others = block(k);
        for i in 0..N {
            let (x, y) = (found[i], others[i]);
            found[i] = if greatest { if x > y || x.is_nan() { x } else { y } } else { x + y };
        }
    }
    *out = found;
}

/// Filters that are moved over images.
#[derive(Clone, Debug)]
pub struct Filters {
    /// The places of the image.
    pub window: Window,
    /// `[filters, channels of a group, height, width]`.
    pub weight: Weights,
    /// A number for each filter.
    pub bias: Option<Weights>,
    /// Groups of filters, each of which reads its own channels.
    pub groups: usize,
    /// Whether negative results become 0.
    pub relu: bool,
    pub(super) filters: usize,
    offsets: Vec<usize>,
    firsts: Vec<usize>,
}

impl Filters {
    /// Returns filters.
    ///
    /// # Errors
    /// `Value` for groups that do not divide channels and filters, and weights of another number than they need.
    pub fn new(window: Window, weight: Weights, bias: Option<Weights>, groups: usize, relu: bool) -> Result<Self> {
        if groups == 0 || !window.channels.is_multiple_of(groups) {
            return value_error!("{groups} groups do not divide {} channels", window.channels);
        }
        let offsets = window.offsets(window.channels / groups);
        let filters = weight.len() / offsets.len();
        if filters == 0 || filters * offsets.len() != weight.len() || !filters.is_multiple_of(groups) {
            return value_error!("filters of {} weights, in {groups} groups, got {}", offsets.len(), weight.len());
        }
        if bias.is_some_and(|bias| bias.len() != filters) {
            return value_error!("{filters} filters have as many biases");
        }
        let firsts = window.firsts();
        Ok(Self { window, weight, bias, groups, relu, filters, offsets, firsts })
    }

    /// The numbers of the result.
    pub(super) fn outputs(&self) -> usize {
        self.filters.saturating_mul(self.window.places())
    }

    /// The number of products.
    pub(super) fn products(&self) -> usize {
        self.outputs().saturating_mul(self.offsets.len())
    }

    /// The filters of a group, and their blocks.
    fn of_group(&self) -> (usize, usize) {
        let filters = self.filters / self.groups;
        (filters, filters.div_ceil(BLOCK))
    }

    /// The numbers of packed weights: for each block the biases, then the weights of each place.
    pub(super) fn packed(&self) -> usize {
        self.groups * self.of_group().1 * (self.offsets.len() + 1) * BLOCK
    }

    /// The numbers of a padded image; 0 if none is needed.
    pub(super) fn padded(&self) -> usize {
        if self.window.padding == [0, 0] {
            0
        } else {
            self.window.channels * self.window.padded().iter().product::<usize>()
        }
    }

    /// Packs the weights, with sixteen filters next to each other.
    pub(super) fn pack(&self, packed: &mut [f32]) {
        let (size, (filters, blocks)) = (self.offsets.len(), self.of_group());
        for (k, panel) in packed.chunks_exact_mut((size + 1) * BLOCK).enumerate() {
            let (group, first) = (k / blocks, k % blocks * BLOCK);
            let count = BLOCK.min(filters - first);
            if count < BLOCK || self.bias.is_none() {
                panel.fill(0.0);
            }
            for lane in 0..count {
                let filter = group * filters + first + lane;
                if let Some(bias) = self.bias {
                    // SAFETY: `new` compared the number of biases.
                    panel[lane] = unsafe { *bias.data().add(filter) };
                }
                for (i, to) in panel[BLOCK + lane..].iter_mut().step_by(BLOCK).enumerate() {
                    // SAFETY: `new` compared the number of weights.
                    *to = unsafe { *self.weight.data().add(filter * size + i) };
                }
            }
        }
    }

    /// The largest sum of the magnitudes of the weights of a filter, and the largest magnitude of a bias.
    pub(super) fn magnitudes(&self) -> (f32, f32) {
        let size = self.offsets.len();
        // SAFETY: `new` compared the number of weights.
        let sum = |filter: usize| (0..size).map(|i| unsafe { *self.weight.data().add(filter * size + i) }.abs()).sum();
        let weights = (0..self.filters).map(sum).fold(0.0, f32::max);
        // SAFETY: as above.
        let bias = |bias: Weights| (0..self.filters).map(move |k| unsafe { *bias.data().add(k) }.abs());
        (weights, self.bias.map_or(0.0, |numbers| bias(numbers).fold(0.0, f32::max)))
    }

    /// Writes the results for an image.
    #[inline(always)]
    pub(super) fn apply<M: MulAdd>(&self, image: &[f32], packed: &[f32], padded: &mut [f32], out: &mut [f32]) {
        let image = if padded.is_empty() {
            image
        } else {
            self.window.pad(image, padded);
            padded
        };
        let (filters, blocks) = self.of_group();
        let panel = (self.offsets.len() + 1) * BLOCK;
        let channels = image.len() / self.groups;
        for group in 0..self.groups {
            let (image, panels) = (&image[group * channels..], &packed[group * blocks * panel..]);
            let out = &mut out[group * filters * self.firsts.len()..][..filters * self.firsts.len()];
            let mut block = 0;
            while block < blocks {
                let (panels, out) = (&panels[block * panel..], &mut out[block * BLOCK * self.firsts.len()..]);
                if M::WIDE && block + 2 <= blocks {
                    self.blocks::<M, 2, 8>(image, panels, out);
                    block += 2;
                } else if M::WIDE {
                    self.blocks::<M, 1, 12>(image, panels, out);
                    block += 1;
                } else {
                    self.blocks::<M, 1, 6>(image, panels, out);
                    block += 1;
                }
            }
        }
    }

    /// Writes the results of `V` blocks of filters, `P` places at a time.
    #[inline(always)]
    fn blocks<M: MulAdd, const V: usize, const P: usize>(&self, image: &[f32], panels: &[f32], out: &mut [f32]) {
        let places = self.firsts.len();
        assert!(panels.len() >= V * (self.offsets.len() + 1) * BLOCK, "invariant: weights are packed");
        if let Some(last) = places.checked_sub(P) {
            for start in (0..places).step_by(P) {
                let start = start.min(last); // the last ones overlap those before
                // SAFETY: offsets from a first place stay in the image, which has as many numbers as its window.
                unsafe { self.block::<M, V, P>(image, panels, start, out) };
            }
        } else {
            for start in 0..places {
                // SAFETY: as above.
                unsafe { self.block::<M, V, 1>(image, panels, start, out) };
            }
        }
    }

    /// # Safety
    /// The image is as large as its window, and the panels have weights for `V` blocks.
    #[inline(always)]
    unsafe fn block<M: MulAdd, const V: usize, const P: usize>(
        &self,
        image: &[f32],
        panels: &[f32],
        start: usize,
        out: &mut [f32],
    ) {
        let (size, places) = (self.offsets.len(), self.firsts.len());
        let panel = (size + 1) * BLOCK;
        let mut results = [[[0.0_f32; BLOCK]; V]; P];
        // SAFETY: as the caller promises; there is a first place for each result.
        unsafe {
            let (mut firsts, mut weights) = ([image.as_ptr(); P], [panels.as_ptr(); V]);
            for (p, first) in firsts.iter_mut().enumerate() {
                *first = first.add(*self.firsts.get_unchecked(start + p));
            }
            let mut totals = [[M::Lanes::splat(0.0); V]; P];
            for v in 0..V {
                weights[v] = weights[v].add(v * panel);
                for total in &mut totals {
                    total[v] = M::Lanes::load(weights[v]);
                }
            }
            let mut k = 0;
            for chunk in self.offsets.chunks(CHUNK) {
                let mut sums = [[M::Lanes::splat(0.0); V]; P];
                for &offset in chunk {
                    k += 1;
                    let mut factors = [M::Lanes::splat(0.0); V];
                    for v in 0..V {
                        factors[v] = M::Lanes::load(weights[v].add(k * BLOCK));
                    }
                    for p in 0..P {
                        let number = M::Lanes::splat(*firsts[p].add(offset));
                        for v in 0..V {
                            sums[p][v] = number.mul_add(factors[v], sums[p][v]);
                        }
                    }
                }
                for p in 0..P {
                    for v in 0..V {
                        totals[p][v] = totals[p][v].add(sums[p][v]);
                    }
                }
            }
            for p in 0..P {
                for v in 0..V {
                    let found = if self.relu { totals[p][v].relu() } else { totals[p][v] };
                    found.store(results[p][v].as_mut_ptr());
                }
            }
        }
        // In squares of four filters and places.
        for (k, out) in out.chunks_mut(4 * places).take(V * BLOCK / 4).enumerate() {
            let (v, first) = (k * 4 / BLOCK, k * 4 % BLOCK);
            let read = |p: usize| *results[p][v][first..].first_chunk().expect("invariant: blocks of 16");
            for p in (0..P).step_by(4) {
                let square = turned(std::array::from_fn(|i| read((p + i).min(P - 1))));
                let count = (P - p).min(4);
                for (to, from) in out.chunks_exact_mut(places).zip(square) {
                    to[start + p..][..count].copy_from_slice(&from[..count]);
                }
            }
        }
    }
}
