//! One pass through a network: tiles of rows, on one thread or several.

use std::ops::Range;

use super::functions::softmax;
use super::linear::{magnitude, product};
use super::network::{Network, Node, Weights};
use crate::error::Result;
use crate::simd::{MulAdd, ProductKernel, run_products};
use crate::vectors::filled;

/// Rows of a full tile.
const WIDE: usize = 16;
/// Rows of a tile for the last few rows.
const NARROW: usize = 8;

/// The slots of a tile after the pass, for rows `rows` of the batch.
pub(super) struct Done<'a> {
    /// The rows of the batch.
    pub rows: Range<usize>,
    lanes: usize,
    numbers: &'a [f32],
    network: &'a Network,
}

impl Done<'_> {
    /// The numbers of a slot for the row `k` of the tile.
    #[inline]
    pub fn row(&self, slot: usize, k: usize) -> impl Iterator<Item = f32> {
        let start = self.network.start(slot) * self.lanes + k;
        let width = self.network.width(slot).expect("invariant: the slot is there");
        self.numbers[start..].iter().step_by(self.lanes).take(width).copied()
    }

    /// The scale of the rounding errors of a slot: see [`magnitude`].
    pub fn scale(&self, slot: usize) -> [f32; WIDE] {
        let mut scale = [0.0; WIDE];
        if self.lanes == WIDE {
            scale = self.scale_of::<WIDE>(slot);
        } else {
            scale[..NARROW].copy_from_slice(&self.scale_of::<NARROW>(slot));
        }
        scale
    }

    fn scale_of<const L: usize>(&self, slot: usize) -> [f32; L] {
        let (lanes, _) = self.numbers.as_chunks::<L>();
        match slot.checked_sub(1).map(|k| self.network.nodes()[k]) {
            Some(Node::Linear { input, weight, bias, outputs, .. }) => {
                let x = &lanes[self.network.start(input)..][..self.network.width(input).unwrap_or(0)];
                let bias = bias.map_or(std::ptr::null(), |bias| bias.data());
                // SAFETY: `Network::new` compared the number of weights with the widths of the slots.
                unsafe { magnitude(x, weight.data(), bias, outputs) }
            }
            Some(Node::Dueling { advantage, value }) => {
                let (advantage, value) = (self.scale_of::<L>(advantage), self.scale_of::<L>(value));
                std::array::from_fn(|lane| 2.0 * advantage[lane] + value[lane])
            }
            // Each probability has a relative error of twice the error of an exponent.
            Some(Node::Softmax { input, .. }) => {
                let (exponent, largest) = (self.scale_of::<L>(input), self.largest::<L>(slot));
                std::array::from_fn(|lane| (2.0 * exponent[lane] + 1.0) * largest[lane])
            }
            Some(Node::Expectation { input, values }) => self.scale_of_expectation(input, slot, values),
            Some(Node::Mean { input, .. }) => self.scale_of(input),
            Some(Node::Product { input, values }) => {
                let scale = self.scale_of::<L>(input);
                let largest = each(values).fold(0.0_f32, |largest, value| largest.max(value.abs()));
                scale.map(|scale| scale * largest)
            }
            Some(Node::Sum { inputs: [one, other] }) => {
                let (one, other) = (self.scale_of::<L>(one), self.scale_of::<L>(other));
                std::array::from_fn(|lane| one[lane] + other[lane])
            }
            Some(Node::Map { input, function }) => {
                let (below, largest) = (self.scale_of::<L>(input), self.largest::<L>(slot));
                std::array::from_fn(|lane| function.steepness() * below[lane] + largest[lane])
            }
            Some(Node::Constant { .. }) | None => self.largest(slot),
        }
    }

    /// The largest magnitude in a slot, in each lane.
    fn largest<const L: usize>(&self, slot: usize) -> [f32; L] {
        let (lanes, _) = self.numbers.as_chunks::<L>();
        let slots = &lanes[self.network.start(slot)..][..self.network.width(slot).unwrap_or(0)];
        slots.iter().fold([0.0; L], |scale, row| std::array::from_fn(|lane| scale[lane].max(row[lane].abs())))
    }

    /// The scale of expected values: relative errors of probabilities shift them by the distances of the values, and
    /// sums of products are rounded.
    fn scale_of_expectation<const L: usize>(&self, input: usize, slot: usize, values: Weights) -> [f32; L] {
        let Some(Node::Softmax { input: exponents, .. }) = input.checked_sub(1).map(|k| self.network.nodes()[k]) else {
            return [f32::INFINITY; L];
        };
        let (exponent, (lanes, _)) = (self.scale_of::<L>(exponents), self.numbers.as_chunks::<L>());
        let width = |slot: usize| self.network.width(slot).unwrap_or(0);
        let (probabilities, means) =
            (&lanes[self.network.start(input)..][..width(input)], &lanes[self.network.start(slot)..][..width(slot)]);
        let mut scale = [0.0_f32; L];
        for (group, mean) in probabilities.chunks_exact(values.len()).zip(means) {
            let (mut distance, mut size) = ([0.0_f32; L], [0.0_f32; L]);
            for (probability, value) in group.iter().zip(each(values)) {
                for lane in 0..L {
                    distance[lane] += probability[lane] * (value - mean[lane]).abs();
                    size[lane] += probability[lane] * value.abs();
                }
            }
            scale =
                std::array::from_fn(|lane| scale[lane].max((2.0 * exponent[lane] + 1.0) * distance[lane] + size[lane]));
        }
        scale
    }
}

/// The numbers of somebody else, one after the other.
fn each(weights: Weights) -> impl Iterator<Item = f32> {
    // SAFETY: so many numbers are there.
    (0..weights.len()).map(move |i| unsafe { *weights.data().add(i) })
}

impl Network {
    /// The numbers that a pass needs as scratch memory.
    pub(super) fn scratch(&self) -> Result<Vec<f32>> {
        filled(0.0, self.row() * WIDE)
    }

    /// Computes all slots of the rows `rows` of a batch `obs`, tile by tile, and shows each tile to `look`.
    pub(super) fn pass(
        &self,
        obs: &[f32],
        rows: Range<usize>,
        scratch: &mut [f32],
        mut look: impl FnMut(Done<'_>) -> bool,
    ) -> bool {
        let mut row = rows.start;
        while row < rows.end {
            let left = rows.end - row;
            let lanes = if left > NARROW { WIDE } else { NARROW };
            let tile = row..row + left.min(lanes);
            let given = &obs[tile.start * self.inputs()..tile.end * self.inputs()];
            let numbers = &mut scratch[..self.row() * lanes];
            if lanes == WIDE {
                run_products(Tile::<WIDE> { network: self, obs: given, slots: numbers.as_chunks_mut().0 });
            } else {
                run_products(Tile::<NARROW> { network: self, obs: given, slots: numbers.as_chunks_mut().0 });
            }
            row = tile.end;
            if !look(Done { rows: tile, lanes, numbers, network: self }) {
                return false;
            }
        }
        true
    }
}

/// At most `L` rows that go through a network together.
struct Tile<'a, const L: usize> {
    network: &'a Network,
    obs: &'a [f32],
    slots: &'a mut [[f32; L]],
}

impl<const L: usize> ProductKernel for Tile<'_, L> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { network, obs, slots } = self;
        let inputs = network.inputs();
        for (lane, row) in obs.chunks_exact(inputs).enumerate() {
            for (slot, &number) in slots.iter_mut().zip(row) {
                slot[lane] = number;
            }
        }
        let nodes = network.nodes();
        for (k, node) in nodes.iter().enumerate() {
            let (before, after) = slots.split_at_mut(network.start(k + 1));
            let width = network.width(k + 1).expect("invariant: a slot for each node");
            let out = &mut after[..width];
            let read = |slot: usize| &before[network.start(slot)..network.start(slot + 1)];
            match *node {
                Node::Linear { input, weight, bias, relu, .. } => {
                    let (weight, bias) = (weight.data(), bias.map_or(std::ptr::null(), |bias| bias.data()));
                    if relu {
                        // SAFETY: `Network::new` compared the number of weights with the widths of the slots.
                        unsafe { product::<M, L, true>(read(input), weight, bias, out) };
                    } else {
                        // SAFETY: as above.
                        unsafe { product::<M, L, false>(read(input), weight, bias, out) };
                    }
                }
                Node::Map { input, function } => {
                    out.copy_from_slice(read(input));
                    function.apply(out.as_flattened_mut());
                }
                Node::Softmax { input, size } => {
                    out.copy_from_slice(read(input));
                    for group in out.chunks_exact_mut(size.unwrap_or(width)) {
                        softmax(group);
                    }
                }
                Node::Dueling { advantage, value } => dueling(read(advantage), read(value), out),
                Node::Expectation { input, values } => {
                    for (out, group) in out.iter_mut().zip(read(input).chunks_exact(values.len())) {
                        *out = sum_of(group.iter().zip(each(values)));
                    }
                }
                Node::Mean { input, size } => {
                    for (out, group) in out.iter_mut().zip(read(input).chunks_exact(size)) {
                        *out = sum_of(group.iter().map(|lanes| (lanes, 1.0))).map(|sum| sum / size as f32);
                    }
                }
                Node::Product { input, values } => {
                    for ((out, lanes), value) in out.iter_mut().zip(read(input)).zip(each(values)) {
                        *out = lanes.map(|number| number * value);
                    }
                }
                Node::Sum { inputs: [one, other] } => {
                    for ((out, one), other) in out.iter_mut().zip(read(one)).zip(read(other)) {
                        *out = std::array::from_fn(|lane| one[lane] + other[lane]);
                    }
                }
                Node::Constant { values } => {
                    for (i, lanes) in out.iter_mut().enumerate() {
                        // SAFETY: as many numbers as the slot is wide.
                        *lanes = [unsafe { *values.data().add(i) }; L];
                    }
                }
            }
        }
    }
}

/// The sum of the products of lanes and numbers.
#[inline(always)]
fn sum_of<'a, const L: usize>(terms: impl Iterator<Item = (&'a [f32; L], f32)>) -> [f32; L] {
    let mut sum = [0.0_f64; L];
    for (lanes, factor) in terms {
        for lane in 0..L {
            sum[lane] += f64::from(lanes[lane]) * f64::from(factor);
        }
    }
    sum.map(|sum| sum as f32)
}

/// Writes action values, of one number for each action or several.
#[inline(always)]
fn dueling<const L: usize>(advantage: &[[f32; L]], value: &[[f32; L]], out: &mut [[f32; L]]) {
    let (size, actions) = (value.len(), (advantage.len() / value.len()) as f32);
    for (k, value) in value.iter().enumerate() {
        let mut sum = [0.0_f32; L];
        for lanes in advantage[k..].iter().step_by(size) {
            for lane in 0..L {
                sum[lane] += lanes[lane];
            }
        }
        for (out, lanes) in out[k..].iter_mut().step_by(size).zip(advantage[k..].iter().step_by(size)) {
            for lane in 0..L {
                out[lane] = value[lane] + lanes[lane] - sum[lane] / actions;
            }
        }
    }
}
