//! One pass through a network: tiles of rows, on one thread or several.

use std::ops::Range;

use super::functions::softmax;
use super::linear::{Columns, Matrix, magnitude, product};
use super::network::{Network, Node, Operation, Place, Reduction};
use super::scratch::Scratch;
use super::weights::Weights;
use crate::error::Result;
use crate::simd::{MulAdd, ProductKernel, Separate, run_products};

/// Rows of a full tile.
const WIDE: usize = 16;
/// Rows of a tile for the last few rows.
const NARROW: usize = 8;

/// The slots of a tile after the pass, for rows `rows` of the batch.
pub(super) struct Done<'a> {
    /// The rows of the batch.
    pub rows: Range<usize>,
    lanes: usize,
    /// The observations of these rows.
    obs: &'a [f32],
    numbers: &'a [f32],
    network: &'a Network,
}

/// The rows of a slot: `steps` lead to the next row, and to the next number of a row.
pub(super) struct Rows<'a> {
    numbers: &'a [f32],
    width: usize,
    steps: [usize; 2],
}

impl Rows<'_> {
    /// The numbers of the row `k` of the tile.
    #[inline]
    pub fn row(&self, k: usize) -> impl Iterator<Item = f32> {
        let [row, number] = self.steps;
        (0..self.width).map(move |i| self.numbers[k * row + i * number])
    }
}

impl Done<'_> {
    /// The rows of a slot.
    #[inline]
    pub fn slot(&self, slot: usize) -> Rows<'_> {
        let width = self.network.width(slot).expect("invariant: the slot is there");
        let Place { start, by_rows, .. } = self.network.place(slot);
        let numbers = if by_rows && slot == 0 { self.obs } else { &self.numbers[start * self.lanes..] };
        Rows { numbers, width, steps: if by_rows { [width, 1] } else { [1, self.lanes] } }
    }

    /// Writes the numbers of a slot for the row `k` of the tile.
    pub fn copy(&self, slot: usize, k: usize, to: &mut [f32]) {
        to.iter_mut().zip(self.slot(slot).row(k)).for_each(|(to, number)| *to = number);
    }

    /// The scale of the rounding errors of a slot: see [`magnitude`].
    pub fn scale(&self, slot: usize) -> [f32; WIDE] {
        let mut scale = [0.0; WIDE];
        match self.lanes {
            WIDE => scale = self.scale_of::<WIDE>(slot),
            NARROW => scale[..NARROW].copy_from_slice(&self.scale_of::<NARROW>(slot)),
            _ => scale[..1].copy_from_slice(&self.scale_of::<1>(slot)),
        }
        scale
    }

    fn scale_of<const L: usize>(&self, slot: usize) -> [f32; L] {
        let (lanes, _) = self.numbers.as_chunks::<L>();
        let read = |slot: usize| {
            let Place { start, by_rows, copy } = self.network.place(slot);
            let start = if by_rows { copy.expect("invariant: nodes of lanes have copies") } else { start };
            &lanes[start..][..self.network.width(slot).unwrap_or(0)]
        };
        let both = |one: [f32; L], other: [f32; L]| -> [f32; L] { std::array::from_fn(|lane| one[lane] + other[lane]) };
        match slot.checked_sub(1).map(|k| &self.network.nodes()[k]) {
            Some(&Node::Linear { input, weight, bias, outputs, turned, .. }) => {
                let (x, bias) = (read(input), bias.map_or(std::ptr::null(), |bias| bias.data()));
                let strides = if turned { [1, outputs] } else { [x.len(), 1] };
                // SAFETY: `Network::new` compared the number of weights with the widths of the slots.
                unsafe { magnitude(x, Matrix::<true> { data: weight.data(), strides }, bias, outputs) }
            }
            Some(Node::Convolution { input, filters }) => {
                let (weights, bias) = filters.magnitudes();
                self.largest::<L>(*input).map(|largest| weights * largest + bias)
            }
            Some(&Node::Map { input, function }) => {
                let (below, largest) = (self.scale_of::<L>(input), self.largest::<L>(slot));
                std::array::from_fn(|lane| function.steepness() * below[lane] + largest[lane])
            }
            Some(&Node::Pair { inputs: [one, other], operation }) => {
                let scales = (self.scale_of::<L>(one), self.scale_of::<L>(other));
                match operation {
                    Operation::Multiply => {
                        let (first, second) = (self.largest::<L>(one), self.largest::<L>(other));
                        std::array::from_fn(|lane| scales.0[lane] * second[lane] + scales.1[lane] * first[lane])
                    }
                    Operation::Divide => [f32::INFINITY; L], // a divisor may be near 0
                    _ => both(scales.0, scales.1),
                }
            }
            Some(&Node::Reduce { input, size, reduction }) => {
                let terms = if reduction == Reduction::Sum { size as f32 } else { 1.0 };
                self.scale_of::<L>(input).map(|scale| terms * scale)
            }
            // Each probability has a relative error of twice the error of an exponent.
            Some(&Node::Softmax { input, .. }) => {
                let (exponent, largest) = (self.scale_of::<L>(input), self.largest::<L>(slot));
                std::array::from_fn(|lane| (2.0 * exponent[lane] + 1.0) * largest[lane])
            }
            Some(&Node::Expectation { input, values }) => self.scale_of_expectation(input, slot, values),
            // The derivative is at most two divisors of the group's, by which numbers were divided.
            Some(&Node::Normalize { input, size, epsilon, centered, weight, .. }) => {
                let (below, largest) = (self.scale_of::<L>(input), self.largest::<L>(slot));
                let mut steepest = [0.0_f32; L];
                for group in read(input).chunks_exact(size) {
                    let (_, factor) = moments::<Separate, L>(group, epsilon, centered);
                    steepest = std::array::from_fn(|lane| steepest[lane].max(factor[lane]));
                }
                let most = weight.map_or(1.0, |weight| each(weight).fold(0.0_f32, |most, x| most.max(x.abs())));
                std::array::from_fn(|lane| 2.0 * most * steepest[lane] * below[lane] + largest[lane])
            }
            Some(&Node::Pick { input, .. } | &Node::Pool { input, .. }) => self.scale_of(input),
            Some(Node::Join { inputs }) => inputs.iter().fold([0.0; L], |scale, &input| {
                let other = self.scale_of::<L>(input);
                std::array::from_fn(|lane| scale[lane].max(other[lane]))
            }),
            Some(Node::Constant { .. } | Node::OneHot { .. }) | None => self.largest(slot),
        }
    }

    /// The largest magnitude in a slot, in each lane.
    fn largest<const L: usize>(&self, slot: usize) -> [f32; L] {
        let mut largest = [0.0_f32; L];
        if self.network.place(slot).by_rows {
            let rows = self.slot(slot);
            for (k, largest) in largest.iter_mut().enumerate().take(self.rows.len()) {
                *largest = rows.row(k).fold(0.0, |largest, x| largest.max(x.abs()));
            }
            return largest;
        }
        let (lanes, _) = self.numbers.as_chunks::<L>();
        for row in &lanes[self.network.place(slot).start..][..self.network.width(slot).unwrap_or(0)] {
            largest = std::array::from_fn(|lane| largest[lane].max(row[lane].abs()));
        }
        largest
    }

    /// The scale of expected values: relative errors of probabilities shift them by the distances of the values, and
    /// sums of products are rounded.
    fn scale_of_expectation<const L: usize>(&self, input: usize, slot: usize, values: Weights) -> [f32; L] {
        let Some(&Node::Softmax { input: exponents, .. }) = input.checked_sub(1).map(|k| &self.network.nodes()[k])
        else {
            return [f32::INFINITY; L];
        };
        let (exponent, (lanes, _)) = (self.scale_of::<L>(exponents), self.numbers.as_chunks::<L>());
        let width = |slot: usize| self.network.width(slot).unwrap_or(0);
        let (probabilities, means) = (
            &lanes[self.network.place(input).start..][..width(input)],
            &lanes[self.network.place(slot).start..][..width(slot)],
        );
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
    /// The numbers that a pass of `rows` rows needs as scratch memory.
    pub(super) fn scratch(&self, rows: usize) -> Result<Scratch> {
        let (packed, padded) = self.packed();
        Scratch::of(packed + padded + self.row() * self.lanes(rows))
    }

    /// The rows of the tile for the first of so many.
    fn lanes(&self, rows: usize) -> usize {
        match rows {
            1 if self.is_frozen() => 1,
            0..=NARROW => NARROW,
            _ => WIDE,
        }
    }

    /// Computes all slots of the rows `rows` of a batch `obs`, tile by tile, and shows each tile to `look`.
    pub(super) fn pass(
        &self,
        obs: &[f32],
        rows: Range<usize>,
        scratch: &mut [f32],
        mut look: impl FnMut(Done<'_>) -> bool,
    ) -> bool {
        let (packed, padded) = self.packed();
        let (packed, scratch) = scratch.split_at_mut(packed);
        let (padded, scratch) = scratch.split_at_mut(padded);
        let mut rest = &mut *packed;
        for node in self.nodes() {
            if let Node::Convolution { filters, .. } = node {
                let (own, others) = rest.split_at_mut(filters.packed());
                filters.pack(own);
                rest = others;
            }
        }
        let mut row = rows.start;
        while row < rows.end {
            let left = rows.end - row;
            let lanes = self.lanes(left);
            let tile = row..row + left.min(lanes);
            let obs = &obs[tile.start * self.inputs()..tile.end * self.inputs()];
            let numbers = &mut scratch[..self.row() * lanes];
            let slots = &mut *numbers;
            match lanes {
                WIDE => {
                    run_products(Tile::<WIDE> { network: self, obs, packed, padded, slots: slots.as_chunks_mut().0 })
                }
                NARROW => {
                    run_products(Tile::<NARROW> { network: self, obs, packed, padded, slots: slots.as_chunks_mut().0 });
                }
                _ => run_products(Tile::<1> { network: self, obs, packed, padded, slots: slots.as_chunks_mut().0 }),
            }
            row = tile.end;
            if !look(Done { rows: tile, lanes, obs, numbers, network: self }) {
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
    /// The packed weights of all filters.
    packed: &'a [f32],
    /// Room for a padded image, or for lines of one.
    padded: &'a mut [f32],
    slots: &'a mut [[f32; L]],
}

/// The slots before a node, as it reads them.
struct Before<'a, const L: usize> {
    network: &'a Network,
    obs: &'a [f32],
    rows: usize,
    slots: &'a [[f32; L]],
}

impl<'a, const L: usize> Before<'a, L> {
    /// A slot with the rows next to each other.
    #[inline(always)]
    fn lanes(&self, slot: usize) -> &'a [[f32; L]] {
        let (place, width) = (self.network.place(slot), self.network.width(slot).unwrap_or(0));
        let start = if place.by_rows { place.copy.expect("invariant: it was copied") } else { place.start };
        &self.slots[start..start + width]
    }

    /// A slot row after row.
    #[inline(always)]
    fn rows(&self, slot: usize) -> &'a [f32] {
        let (place, width) = (self.network.place(slot), self.network.width(slot).unwrap_or(0));
        if slot == 0 {
            return self.obs;
        }
        let start = if place.by_rows { place.start } else { place.copy.expect("invariant: it was copied") };
        &self.slots[start..start + width].as_flattened()[..self.rows * width]
    }
}

/// Writes rows next to each other, and 0 into lanes without a row.
#[inline(always)]
fn to_lanes<const L: usize>(rows: &[f32], lanes: &mut [[f32; L]]) {
    if rows.len() < lanes.len() * L {
        lanes.fill([0.0; L]);
    }
    for (lane, row) in rows.chunks_exact(lanes.len()).enumerate() {
        for (to, &number) in lanes.iter_mut().zip(row) {
            to[lane] = number;
        }
    }
}

/// Writes row after row.
#[inline(always)]
fn to_rows<const L: usize>(lanes: &[[f32; L]], rows: &mut [f32]) {
    for (lane, row) in rows.chunks_exact_mut(lanes.len()).enumerate() {
        for (to, numbers) in row.iter_mut().zip(lanes) {
            *to = numbers[lane];
        }
    }
}

impl<const L: usize> ProductKernel for Tile<'_, L> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { network, obs, packed, padded, slots } = self;
        let inputs = network.inputs();
        let rows = obs.len() / inputs;
        let first = network.place(0);
        if let Some(start) = if first.by_rows { first.copy } else { Some(first.start) } {
            to_lanes(obs, &mut slots[start..start + inputs]);
        }
        let mut packed = packed;
        for (k, node) in network.nodes().iter().enumerate() {
            let place = network.place(k + 1);
            let width = network.width(k + 1).expect("invariant: a slot for each node");
            let (before, after) = slots.split_at_mut(place.start);
            let (out, after) = after.split_at_mut(width);
            let before = Before { network, obs, rows, slots: before };
            match node {
                Node::Convolution { input, filters } => {
                    let (own, others) = packed.split_at(filters.packed());
                    let images = before.rows(*input).chunks_exact(filters.window.inputs());
                    for (image, out) in images.zip(out.as_flattened_mut().chunks_exact_mut(width)) {
                        filters.apply::<M>(image, own, &mut padded[..filters.padded()], out);
                    }
                    packed = others;
                }
                Node::Pool { input, window, greatest } => {
                    let images = before.rows(*input).chunks_exact(window.inputs());
                    for (image, out) in images.zip(out.as_flattened_mut().chunks_exact_mut(width)) {
                        window.pool(image, &mut padded[..window.lines()], out, *greatest);
                    }
                }
                _ if place.by_rows => by_rows::<M, L>(node, &before, out.as_flattened_mut(), width),
                _ => in_lanes::<M, L>(node, network.columns(k), &before, out),
            }
            if place.copy.is_some() {
                let copy = &mut after[..width];
                if place.by_rows {
                    to_lanes(&out.as_flattened()[..rows * width], copy);
                } else {
                    to_rows(out, &mut copy.as_flattened_mut()[..rows * width]);
                }
            }
        }
    }
}

/// Computes a node whose slot has row after row.
#[inline(always)]
fn by_rows<M: MulAdd, const L: usize>(node: &Node, before: &Before<'_, L>, out: &mut [f32], width: usize) {
    let out = &mut out[..before.rows * width];
    match node {
        Node::Map { input, function } => {
            function.apply_with::<M>(before.rows(*input), out);
        }
        Node::Pair { inputs: [one, other], operation } => {
            operation.apply(before.rows(*one), before.rows(*other), out);
        }
        Node::Pick { input, places } => {
            let from = before.rows(*input).chunks_exact(before.network.width(*input).unwrap_or(1));
            for (out, from) in out.chunks_exact_mut(width).zip(from) {
                for (out, &place) in out.iter_mut().zip(&**places) {
                    *out = from[place];
                }
            }
        }
        Node::Join { inputs } => {
            let mut start = 0;
            for &input in &**inputs {
                let size = before.network.width(input).unwrap_or(1);
                for (out, from) in out.chunks_exact_mut(width).zip(before.rows(input).chunks_exact(size)) {
                    out[start..start + size].copy_from_slice(from);
                }
                start += size;
            }
        }
        _ => unreachable!("invariant: other nodes have the rows next to each other"),
    }
}

/// Computes a node whose slot has the rows next to each other.
#[inline(always)]
fn in_lanes<M: MulAdd, const L: usize>(
    node: &Node,
    columns: Option<&Columns>,
    before: &Before<'_, L>,
    out: &mut [[f32; L]],
) {
    let read = |slot: usize| before.lanes(slot);
    match *node {
        Node::Linear { input, weight, bias, relu, turned, .. } => {
            let (x, bias) = (read(input), bias.map_or(std::ptr::null(), |bias| bias.data()));
            if let (1, Some(columns)) = (L, columns) {
                // SAFETY: `Network::new` compared the number of biases with that of the outputs.
                unsafe { columns.product::<M>(x.as_flattened(), bias, relu, out.as_flattened_mut()) };
                return;
            }
            let strides = if turned { [1, out.len()] } else { [x.len(), 1] };
            let (plain, other) =
                (Matrix::<false> { data: weight.data(), strides }, Matrix { data: weight.data(), strides });
            // SAFETY: `Network::new` compared the number of weights with the widths of the slots.
            unsafe {
                if turned {
                    product::<M, true, L>(x, other, bias, relu, out);
                } else {
                    product::<M, false, L>(x, plain, bias, relu, out);
                }
            }
        }
        Node::Map { input, function } => {
            function.apply_with::<M>(read(input).as_flattened(), out.as_flattened_mut());
        }
        Node::Pair { inputs: [one, other], operation } => {
            operation.apply(read(one).as_flattened(), read(other).as_flattened(), out.as_flattened_mut());
        }
        Node::Reduce { input, size, reduction } => {
            for (out, group) in out.iter_mut().zip(read(input).chunks_exact(size)) {
                *out = reduction.of(group);
            }
        }
        Node::Softmax { input, size } => {
            out.copy_from_slice(read(input));
            for group in out.chunks_exact_mut(size) {
                softmax::<M, L>(group);
            }
        }
        Node::Expectation { input, values } => {
            for (out, group) in out.iter_mut().zip(read(input).chunks_exact(values.len())) {
                *out = sum_of(group.iter().zip(each(values))).map(|sum| sum as f32);
            }
        }
        Node::Normalize { input, size, epsilon, centered, weight, bias } => {
            let data = |weights: Option<Weights>| weights.map_or(std::ptr::null(), |weights| weights.data());
            let (weight, bias) = (data(weight), data(bias));
            for (out, group) in out.chunks_exact_mut(size).zip(read(input).chunks_exact(size)) {
                let (mean, factor) = moments::<M, L>(group, epsilon, centered);
                for (i, (out, lanes)) in out.iter_mut().zip(group).enumerate() {
                    // SAFETY: `Network::new` compared the numbers of weights with the size of groups.
                    let scale = if weight.is_null() { 1.0 } else { unsafe { *weight.add(i) } };
                    // SAFETY: as above.
                    let shift = if bias.is_null() { 0.0 } else { unsafe { *bias.add(i) } };
                    let mut made = *lanes; // read before anything is written, for vector instructions
                    for lane in 0..L {
                        made[lane] = M::mul_add((made[lane] - mean[lane]) * factor[lane], scale, shift);
                    }
                    *out = made;
                }
            }
        }
        Node::OneHot { input, size } => {
            for (out, numbers) in out.chunks_exact_mut(size).zip(read(input)) {
                let known = numbers.map(|x| x >= 0.0 && x < size as f32 && x.fract() == 0.0);
                for (k, out) in out.iter_mut().enumerate() {
                    for lane in 0..L {
                        let number = if numbers[lane] == k as f32 { 1.0 } else { 0.0 };
                        out[lane] = if known[lane] { number } else { f32::NAN };
                    }
                }
            }
        }
        Node::Pick { input, ref places } => {
            let from = read(input);
            for (out, &place) in out.iter_mut().zip(&**places) {
                *out = from[place];
            }
        }
        Node::Join { ref inputs } => {
            let mut rest = out;
            for &input in &**inputs {
                let (part, others) = rest.split_at_mut(read(input).len());
                part.copy_from_slice(read(input));
                rest = others;
            }
        }
        Node::Constant { values } => {
            for (out, value) in out.iter_mut().zip(each(values)) {
                *out = [value; L];
            }
        }
        Node::Convolution { .. } | Node::Pool { .. } => unreachable!("invariant: images have row after row"),
    }
}

impl Operation {
    #[inline(always)]
    fn apply(self, one: &[f32], other: &[f32], out: &mut [f32]) {
        // A loop for each operation, so that each is compiled to vector instructions.
        macro_rules! each {
            ($x:ident, $y:ident => $value:expr) => {
                for ((out, &$x), &$y) in out.iter_mut().zip(one).zip(other) {
                    *out = $value;
                }
            };
        }
        match self {
            Self::Add => each!(x, y => x + y),
            Self::Subtract => each!(x, y => x - y),
            Self::Multiply => each!(x, y => x * y),
            Self::Divide => each!(x, y => x / y),
            Self::Maximum => each!(x, y => if x > y || x.is_nan() { x } else { y }),
            Self::Minimum => each!(x, y => if x < y || x.is_nan() { x } else { y }),
        }
    }
}

impl Reduction {
    #[inline(always)]
    fn of<const L: usize>(self, group: &[[f32; L]]) -> [f32; L] {
        let operation = match self {
            Self::Sum => return sum_of(group.iter().map(|lanes| (lanes, 1.0))).map(|sum| sum as f32),
            Self::Mean => {
                let sum = sum_of(group.iter().map(|lanes| (lanes, 1.0)));
                return sum.map(|sum| (sum / group.len() as f64) as f32);
            }
            Self::Max => Operation::Maximum,
            Self::Min => Operation::Minimum,
        };
        let mut best = group[0];
        for lanes in &group[1..] {
            let before = best;
            operation.apply(&before, lanes, &mut best);
        }
        best
    }
}

/// Numbers that are added before their sum is added to the others: long sums would round more.
const SHORT: usize = 16;

/// The sum of the distances from a number, or of their squares, in each lane.
#[inline(always)]
fn distances<M: MulAdd, const L: usize, const SQUARED: bool>(group: &[[f32; L]], from: &[f32; L]) -> [f32; L] {
    let mut total = [0.0; L];
    for part in group.chunks(SHORT) {
        let mut sum = [0.0; L];
        for lanes in part {
            for lane in 0..L {
                let distance = lanes[lane] - from[lane];
                sum[lane] = if SQUARED { M::mul_add(distance, distance, sum[lane]) } else { sum[lane] + distance };
            }
        }
        for lane in 0..L {
            total[lane] += sum[lane];
        }
    }
    total
}

/// The mean of a group, 0 unless it is `centered`, and the factor that makes its mean square 1.
#[inline(always)]
fn moments<M: MulAdd, const L: usize>(group: &[[f32; L]], epsilon: f32, centered: bool) -> ([f32; L], [f32; L]) {
    let size = group.len() as f32;
    let mut mean = [0.0; L];
    if centered {
        // The mean of the distances from the first number, which may be large beside their differences.
        let sums = distances::<M, L, false>(group, &group[0]);
        for lane in 0..L {
            mean[lane] = group[0][lane] + sums[lane] / size;
        }
    }
    let mut factor = distances::<M, L, true>(group, &mean);
    for factor in &mut factor {
        *factor = 1.0 / (*factor / size + epsilon).sqrt();
    }
    (mean, factor)
}

/// The sum of the products of lanes and numbers.
#[inline(always)]
fn sum_of<'a, const L: usize>(terms: impl Iterator<Item = (&'a [f32; L], f32)>) -> [f64; L] {
    let mut sum = [0.0_f64; L];
    for (lanes, factor) in terms {
        for lane in 0..L {
            sum[lane] += f64::from(lanes[lane]) * f64::from(factor);
        }
    }
    sum
}
