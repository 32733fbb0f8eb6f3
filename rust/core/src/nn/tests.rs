use proptest::prelude::*;

use super::linear::{Matrix, product};
use super::{Choice, Filters, Function, Network, Node, Operation, Part, Reduction, Weights, Window};
use crate::error::Error;
use crate::pool;
use crate::rng::Stream;
use crate::simd::{MulAdd, ProductKernel, Separate, run_products};

/// Networks, and the weights that they refer to.
struct Made {
    kept: Vec<Vec<f32>>,
    nodes: Vec<Node>,
    stream: Stream,
}

impl Made {
    fn new(seed: u64) -> Self {
        Self { kept: Vec::new(), nodes: Vec::new(), stream: Stream::new(seed) }
    }

    fn numbers(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| (self.stream.uniform() as f32 * 2.0 - 1.0) * scale).collect()
    }

    fn weights(&mut self, len: usize, scale: f32) -> Weights {
        let numbers = self.numbers(len, scale);
        self.kept.push(numbers);
        let kept = self.kept.last().unwrap();
        // SAFETY: the vector is kept, and its memory does not move with it.
        unsafe { Weights::new(kept.as_ptr(), len) }.unwrap()
    }

    /// Adds a node, and returns its slot.
    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len()
    }

    fn linear(&mut self, input: usize, inputs: usize, outputs: usize, relu: bool) -> usize {
        let scale = 1.0 / (inputs as f32).sqrt();
        let weight = self.weights(inputs * outputs, scale);
        let bias = self.stream.below(4).checked_sub(1).map(|_| self.weights(outputs, scale));
        let turned = self.stream.below(3) == 0;
        self.add(Node::Linear { input, weight, bias, outputs, turned, relu })
    }

    fn network(&self, inputs: usize) -> Network {
        Network::new(inputs, self.nodes.clone()).unwrap()
    }
}

fn read(weights: Weights, at: usize) -> f64 {
    // SAFETY: the tests keep the weights, and ask for numbers that are there.
    f64::from(unsafe { *weights.data().add(at) })
}

/// All slots of one row, by plain loops in double precision.
fn plainly(network: &Network, row: &[f32]) -> Vec<Vec<f64>> {
    let mut slots = vec![row.iter().map(|&x| f64::from(x)).collect::<Vec<_>>()];
    for node in network.nodes() {
        let found = match *node {
            Node::Linear { input, weight, bias, outputs, turned, relu } => (0..outputs)
                .map(|o| {
                    let x = &slots[input];
                    let sum: f64 = (0..x.len())
                        .map(|i| x[i] * read(weight, if turned { i * outputs + o } else { o * x.len() + i }))
                        .sum();
                    let sum = sum + bias.map_or(0.0, |bias| read(bias, o));
                    if relu { sum.max(0.0) } else { sum }
                })
                .collect(),
            Node::Convolution { input, ref filters } => convolved(filters, &slots[input]),
            Node::Pool { input, ref window, greatest } => pooled(window, &slots[input], greatest),
            Node::Map { input, function } => {
                let mut values: Vec<f32> = slots[input].iter().map(|&x| x as f32).collect();
                function.apply(&mut values);
                values.iter().map(|&x| f64::from(x)).collect()
            }
            Node::Pair { inputs: [one, other], operation } => {
                let apply = |(&x, &y): (&f64, &f64)| match operation {
                    Operation::Add => x + y,
                    Operation::Subtract => x - y,
                    Operation::Multiply => x * y,
                    Operation::Divide => x / y,
                    Operation::Maximum => x.max(y),
                    Operation::Minimum => x.min(y),
                };
                slots[one].iter().zip(&slots[other]).map(apply).collect()
            }
            Node::Reduce { input, size, reduction } => {
                let reduce = |x: &[f64]| match reduction {
                    Reduction::Sum => x.iter().sum::<f64>(),
                    Reduction::Mean => x.iter().sum::<f64>() / size as f64,
                    Reduction::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    Reduction::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
                };
                slots[input].chunks(size).map(reduce).collect()
            }
            Node::Softmax { input, size } => {
                let group = |x: &[f64]| {
                    let sum: f64 = x.iter().map(|x| x.exp()).sum();
                    x.iter().map(|x| x.exp() / sum).collect::<Vec<_>>()
                };
                slots[input].chunks(size).flat_map(group).collect()
            }
            Node::Expectation { input, values } => {
                let expected = |p: &[f64]| p.iter().enumerate().map(|(i, p)| p * read(values, i)).sum();
                slots[input].chunks(values.len()).map(expected).collect()
            }
            Node::Normalize { input, size, epsilon, centered, weight, bias } => {
                let affine = |(i, x): (usize, f64)| {
                    x * weight.map_or(1.0, |weight| read(weight, i)) + bias.map_or(0.0, |bias| read(bias, i))
                };
                let group = |x: &[f64]| {
                    let mean = if centered { x.iter().sum::<f64>() / size as f64 } else { 0.0 };
                    let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / size as f64;
                    let normal = x.iter().map(|x| (x - mean) / (square + f64::from(epsilon)).sqrt());
                    normal.enumerate().map(affine).collect::<Vec<_>>()
                };
                slots[input].chunks(size).flat_map(group).collect()
            }
            Node::OneHot { input, size } => {
                let hot = |&x: &f64| (0..size).map(move |k| if x == k as f64 { 1.0 } else { 0.0 });
                slots[input].iter().flat_map(hot).collect()
            }
            Node::Pick { input, ref places } => places.iter().map(|&place| slots[input][place]).collect(),
            Node::Join { ref inputs } => inputs.iter().flat_map(|&input| slots[input].clone()).collect(),
            Node::Constant { values } => (0..network.width(slots.len()).unwrap()).map(|i| read(values, i)).collect(),
        };
        slots.push(found);
    }
    slots
}

/// The numbers of a window of one channel at one place of the result; None for padding.
fn windowed(window: &Window, image: &[f64], channel: usize, place: [usize; 2]) -> Vec<Option<f64>> {
    let mut found = Vec::new();
    for ky in 0..window.kernel[0] {
        for kx in 0..window.kernel[1] {
            let at = |k: usize, step: usize| {
                (place[k] * window.stride[k] + step * window.dilation[k]).checked_sub(window.padding[k])
            };
            let inside = |k: usize, step: usize| at(k, step).filter(|&at| at < window.size[k]);
            let place = inside(0, ky).zip(inside(1, kx));
            found.push(place.map(|(y, x)| image[(channel * window.size[0] + y) * window.size[1] + x]));
        }
    }
    found
}

fn places(window: &Window) -> impl Iterator<Item = [usize; 2]> + use<> {
    let [tall, wide] = window.output;
    (0..tall).flat_map(move |y| (0..wide).map(move |x| [y, x]))
}

fn convolved(filters: &Filters, image: &[f64]) -> Vec<f64> {
    let window = &filters.window;
    let (channels, size) = (window.channels / filters.groups, window.kernel[0] * window.kernel[1]);
    let mut out = Vec::new();
    for filter in 0..filters.filters {
        let first = filter / (filters.filters / filters.groups) * channels;
        for place in places(window) {
            let mut sum = filters.bias.map_or(0.0, |bias| read(bias, filter));
            for channel in 0..channels {
                for (k, x) in windowed(window, image, first + channel, place).into_iter().enumerate() {
                    sum += x.unwrap_or(0.0) * read(filters.weight, (filter * channels + channel) * size + k);
                }
            }
            out.push(if filters.relu { sum.max(0.0) } else { sum });
        }
    }
    out
}

fn pooled(window: &Window, image: &[f64], greatest: bool) -> Vec<f64> {
    let mut out = Vec::new();
    for channel in 0..window.channels {
        for place in places(window) {
            let numbers = windowed(window, image, channel, place);
            out.push(if greatest {
                numbers.into_iter().flatten().fold(f64::NEG_INFINITY, f64::max)
            } else {
                numbers.iter().map(|x| x.unwrap_or(0.0)).sum::<f64>() / numbers.len() as f64
            });
        }
    }
    out
}

/// Adds a convolution of images `[channels, height, width]`, with random filters.
fn convolution(
    made: &mut Made,
    input: usize,
    window: &[usize; 11],
    filters: usize,
    groups: usize,
    relu: bool,
) -> usize {
    let window = Window::new(window).unwrap();
    let size = window.channels / groups * window.kernel[0] * window.kernel[1];
    let weight = made.weights(filters * size, 1.0 / (size as f32).sqrt());
    let bias = made.stream.below(4).checked_sub(1).map(|_| made.weights(filters, 1.0));
    let filters = Filters::new(window, weight, bias, groups, relu).unwrap();
    made.add(Node::Convolution { input, filters: filters.into() })
}

/// Two convolutions of which one is pooled, a part that is moved and added, and a layer of all of them.
fn of_images(
    made: &mut Made,
    size: [usize; 2],
    stride: usize,
    padding: usize,
    filters: usize,
    groups: usize,
) -> Network {
    let channels = 6;
    let [tall, wide] = size;
    let window = [channels, tall, wide, 3, 2, stride, 1, padding, padding, 1, 2];
    let first = convolution(made, 0, &window, filters * groups, groups, true);
    let [tall, wide] = Window::new(&window).unwrap().output;
    let all = filters * groups * tall * wide;
    let again = [filters * groups, tall, wide, 3, 3, 1, 1, 1, 1, 1, 1];
    let second = convolution(made, first, &again, filters * groups, 1, false);
    let sum = made.add(Node::Pair { inputs: [first, second], operation: Operation::Add });
    let turned = made.add(Node::Pick { input: sum, places: (0..all).rev().collect() });
    let normal =
        made.add(Node::Normalize { input: turned, size: all, epsilon: 0.01, centered: true, weight: None, bias: None });
    let together = made.add(Node::Pair { inputs: [normal, sum], operation: Operation::Maximum });
    let window = Window::new(&[filters * groups, tall, wide, 2, 1, 2, 1, 1, 0, 1, 1]).unwrap();
    let pooled = window.channels * window.output[0] * window.output[1];
    let greatest = made.add(Node::Pool { input: together, window: window.clone().into(), greatest: true });
    let mean = made.add(Node::Pool { input: together, window: window.into(), greatest: false });
    let joined = made.add(Node::Join { inputs: [greatest, mean, normal].into() });
    made.linear(joined, 2 * pooled + all, 3, false);
    made.network(channels * size[0] * size[1])
}

fn forward(network: &Network, obs: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; obs.len() / network.inputs() * network.outputs()];
    network.forward(obs, &[network.slots() - 1], &mut [&mut out]).unwrap();
    out
}

/// Adds the sum of a value and an advantage for each action less their mean, of `size` numbers each (arXiv:1511.06581).
fn add_dueling(made: &mut Made, advantage: usize, value: usize, actions: usize, size: usize) -> usize {
    let every = |of: &dyn Fn(usize, usize) -> usize| (0..actions * size).map(|i| of(i / size, i % size)).collect();
    // the numbers of one kind next to each other, and their mean in the place of each
    let turned = (0..actions * size).map(|i| i % actions * size + i / actions).collect();
    let turned = made.add(Node::Pick { input: advantage, places: turned });
    let mean = made.add(Node::Reduce { input: turned, size: actions, reduction: Reduction::Mean });
    let mean = made.add(Node::Pick { input: mean, places: every(&|_, k| k) });
    let value = made.add(Node::Pick { input: value, places: every(&|_, k| k) });
    let sum = made.add(Node::Pair { inputs: [value, advantage], operation: Operation::Add });
    made.add(Node::Pair { inputs: [sum, mean], operation: Operation::Subtract })
}

/// A dueling network with all kinds of nodes on the way.
fn dueling(made: &mut Made, inputs: usize, hidden: usize, actions: usize, function: Function) -> Network {
    let first = made.linear(0, inputs, hidden, true);
    let second = made.linear(first, hidden, hidden, false);
    let (centered, weight, bias) =
        (hidden.is_multiple_of(2), Some(made.weights(hidden, 2.0)), Some(made.weights(hidden, 1.0)));
    // 1e-5 would magnify the rounding of a single number near zero, which `hidden` of 1 has, by up to 316
    let normal = made.add(Node::Normalize { input: second, size: hidden, epsilon: 0.01, centered, weight, bias });
    let features = made.add(Node::Map { input: normal, function });
    let joined = made.add(Node::Join { inputs: [features, first].into() });
    let gates = made.linear(joined, 2 * hidden, hidden, false);
    let gated = made.add(Node::Pair { inputs: [features, gates], operation: Operation::Multiply });
    let advantage = made.linear(gated, hidden, actions, false);
    let value = made.linear(features, hidden, 1, false);
    add_dueling(made, advantage, value, actions, 1);
    made.network(inputs)
}

/// A dueling network of several numbers for each action, and the expected values of their softmax or their means.
fn distributional(made: &mut Made, inputs: usize, actions: usize, size: usize, has_values: bool) -> Network {
    let features = made.linear(0, inputs, 32, true);
    let advantage = made.linear(features, 32, actions * size, false);
    let value = made.linear(features, 32, size, false);
    let all = add_dueling(made, advantage, value, actions, size);
    if has_values {
        let input = made.add(Node::Softmax { input: all, size });
        let values = made.weights(size, 10.0);
        made.add(Node::Expectation { input, values });
    } else {
        made.add(Node::Reduce { input: all, size, reduction: Reduction::Mean });
    }
    made.network(inputs)
}

proptest! {
    #[test]
    fn expected_values_agree_with_plain_loops(
        seed: u64, rows in 0_usize..40, actions in 1_usize..6, size in 1_usize..60, has_values: bool,
    ) {
        let mut made = Made::new(seed);
        let network = distributional(&mut made, 4, actions, size, has_values);
        prop_assert_eq!(network.outputs(), actions);
        let obs = made.numbers(rows * 4, 2.0);
        let out = forward(&network, &obs);
        let mut chosen = vec![-1; rows];
        let decided = network.choose(&obs, Choice::Greatest, &mut chosen).unwrap();
        for ((row, out), action) in obs.chunks_exact(4).zip(out.chunks_exact(actions)).zip(chosen) {
            let wanted = plainly(&network, row).pop().unwrap();
            let scale = if has_values { 10.0 } else { wanted.iter().fold(0.5_f64, |scale, x| scale.max(x.abs())) };
            for (one, wanted) in out.iter().zip(&wanted) {
                prop_assert!((f64::from(*one) - wanted).abs() < 2e-6 * scale, "{one}, not {wanted}");
            }
            prop_assert!(!decided || wanted.iter().all(|&value| value <= wanted[action as usize]));
        }
    }

    #[test]
    fn passes_agree_with_plain_loops(
        seed: u64, rows in 0_usize..40, inputs in 1_usize..200, hidden in 1_usize..300, actions in 1_usize..10, kind in 0_usize..5,
    ) {
        let function = [Function::Relu, Function::Tanh, Function::Silu, Function::Elu(1.0), Function::LeakyRelu(0.01)][kind];
        let mut made = Made::new(seed);
        let network = dueling(&mut made, inputs, hidden, actions, function);
        let obs = made.numbers(rows * inputs, 2.0);
        let out = forward(&network, &obs);
        for (row, out) in obs.chunks_exact(inputs).zip(out.chunks_exact(actions)) {
            let wanted = plainly(&network, row).pop().unwrap();
            let scale = wanted.iter().fold(0.5_f64, |scale, x| scale.max(x.abs()));
            for (one, wanted) in out.iter().zip(&wanted) {
                prop_assert!((f64::from(*one) - wanted).abs() < 3e-6 * scale, "{one}, not {wanted}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_every_batch(seed: u64, rows in 1_usize..50, at in 0_usize..50) {
        let mut made = Made::new(seed);
        let network = dueling(&mut made, 7, 33, 3, Function::Tanh);
        let obs = made.numbers(rows * 7, 2.0);
        let (all, at) = (forward(&network, &obs), at % rows);
        prop_assert_eq!(forward(&network, &obs[at * 7..][..7]), &all[at * 3..][..3]);
    }

    #[test]
    fn frozen_networks_have_the_same_bits(
        seed: u64, rows in 1_usize..20, inputs in 1_usize..300, hidden in 1_usize..150,
    ) {
        let mut made = Made::new(seed);
        let network = dueling(&mut made, inputs, hidden, 3, Function::Tanh);
        let (obs, frozen) = (made.numbers(rows * inputs, 2.0), network.clone().frozen().unwrap());
        let all = forward(&network, &obs);
        prop_assert_eq!(&forward(&frozen, &obs), &all);
        for (row, wanted) in obs.chunks_exact(inputs).zip(all.chunks_exact(3)) {
            prop_assert_eq!(forward(&frozen, row), wanted);
        }
    }

    #[test]
    fn greatest_numbers_are_chosen(seed: u64, rows in 0_usize..40) {
        let mut made = Made::new(seed);
        let network = dueling(&mut made, 4, 32, 5, Function::Relu);
        let obs = made.numbers(rows * 4, 2.0);
        let mut actions = vec![-1; rows];
        let decided = network.choose(&obs, Choice::Greatest, &mut actions).unwrap();
        prop_assume!(decided);
        for (row, &action) in obs.chunks_exact(4).zip(&actions) {
            let values = plainly(&network, row).pop().unwrap();
            prop_assert!(values.iter().all(|&value| value <= values[action as usize]));
        }
    }
}

/// A convolution by the lanes of `M`.
struct Convolved<'a>(&'a Filters, &'a [f32], &'a mut [f32]);

impl Convolved<'_> {
    #[inline(always)]
    fn by<M: MulAdd>(self) {
        let Self(filters, image, out) = self;
        let (mut packed, mut padded) = (vec![0.0; filters.packed()], vec![0.0; filters.padded()]);
        filters.pack(&mut packed);
        filters.apply::<M>(image, &packed, &mut padded, out);
    }
}

impl ProductKernel for Convolved<'_> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        self.by::<M>();
    }
}

#[test]
fn convolutions_agree_on_all_processors() {
    let mut made = Made::new(5);
    for filters in [1, 16, 17, 40] {
        convolution(&mut made, 0, &[3, 9, 8, 3, 3, 1, 2, 1, 0, 1, 1], filters, 1, filters == 16);
        let Some(Node::Convolution { filters, .. }) = made.nodes.last() else { unreachable!() };
        let (filters, image) = (filters.clone(), made.numbers(3 * 9 * 8, 2.0));
        let (mut plain, mut quick) = (vec![0.0; filters.outputs()], vec![0.0; filters.outputs()]);
        Convolved(&filters, &image, &mut plain).by::<Separate>();
        run_products(Convolved(&filters, &image, &mut quick));
        let wanted = convolved(&filters, &image.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        for ((plain, quick), wanted) in plain.iter().zip(&quick).zip(wanted) {
            assert!((f64::from(*plain) - wanted).abs() < 3e-6 && (plain - quick).abs() < 3e-6, "{plain}, {quick}");
        }
    }
}

/// The product of lanes and weights, a row of these for each output.
struct Product<'a, const L: usize>(&'a [[f32; L]], &'a [f32], &'a mut [[f32; L]]);

impl<const L: usize> ProductKernel for Product<'_, L> {
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(x, weight, out) = self;
        let matrix = Matrix::<false> { data: weight.as_ptr(), strides: [x.len(), 1] };
        // SAFETY: the tests give so many weights.
        unsafe { product::<M, false, L>(x, matrix, std::ptr::null(), true, out) };
    }
}

#[test]
fn products_agree_on_all_processors() {
    let mut made = Made::new(6);
    for (inputs, outputs) in [(3, 1), (130, 15), (64, 17)] {
        let (weight, numbers) = (made.numbers(inputs * outputs, 0.1), made.numbers(inputs * 16, 2.0));
        let (wide, _) = numbers.as_chunks::<16>();
        let narrow: Vec<[f32; 8]> = wide.iter().map(|lanes| *lanes.first_chunk().unwrap()).collect();
        let (mut quick, mut plain) = (vec![[f32::NAN; 16]; outputs], vec![[f32::NAN; 16]; outputs]);
        let mut half = vec![[f32::NAN; 8]; outputs];
        run_products(Product(wide, &weight, &mut quick));
        Product(wide, &weight, &mut plain).run::<Separate>();
        run_products(Product(&narrow, &weight, &mut half));
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut fused = vec![[f32::NAN; 16]; outputs];
            Product(wide, &weight, &mut fused).run::<crate::simd::Fused>();
            assert_eq!(fused, quick);
        }
        for (k, (quick, plain)) in quick.iter().zip(&plain).enumerate() {
            assert_eq!(quick[..8], half[k]);
            for lane in 0..16 {
                let sum: f64 = (0..inputs).map(|i| f64::from(wide[i][lane]) * f64::from(weight[k * inputs + i])).sum();
                let close = |found: f32| (f64::from(found) - sum.max(0.0)).abs() < 1e-5;
                assert!(close(quick[lane]) && close(plain[lane]), "{} and {}, not {sum}", quick[lane], plain[lane]);
            }
        }
    }
}

#[test]
fn several_threads_give_the_same_images() {
    let mut made = Made::new(4);
    let network = of_images(&mut made, [12, 12], 1, 1, 16, 1);
    let obs = made.numbers(13 * network.inputs(), 1.0);
    pool::set_threads(1);
    let alone = forward(&network, &obs);
    pool::set_threads(4);
    assert_eq!(forward(&network, &obs), alone);
}

#[test]
fn choices_of_images_mind_the_errors_of_sums() {
    let mut made = Made::new(6);
    let conv = convolution(&mut made, 0, &[1, 4, 4, 4, 4, 1, 1, 0, 0, 1, 1], 2, 1, false);
    let network = made.network(16);
    let (mut obs, mut action) = (made.numbers(16, 1.0), [-1]);
    let values = plainly(&network, &obs).pop().unwrap();
    assert!(network.choose(&obs, Choice::Greatest, &mut action).unwrap());
    assert_eq!(action, [i64::from(values[1] > values[0])]);
    let window = Window::new(&[2, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1]).unwrap();
    made.add(Node::Pool { input: conv, window: window.into(), greatest: true });
    let network = made.network(16);
    assert!(network.choose(&obs, Choice::Greatest, &mut action).unwrap(), "pools choose likewise");
    // The difference of the filters goes into one pixel, so that both results are equal but for rounding.
    let Node::Convolution { filters, .. } = &made.nodes[0] else { unreachable!() };
    let change = (values[0] - values[1]) / (read(filters.weight, 16) - read(filters.weight, 0));
    obs[0] += change as f32;
    assert!(!network.choose(&obs, Choice::Greatest, &mut action).unwrap());
}

#[test]
fn impossible_windows_are_refused() {
    let fitting = [2, 4, 5, 3, 3, 1, 1, 0, 0, 1, 1];
    assert_eq!(Window::new(&fitting).unwrap().output, [2, 3]);
    for (at, number) in
        [(0, 0), (1, 2), (2, 2), (3, 0), (4, 6), (5, 0), (6, 0), (9, 0), (10, 3), (7, usize::MAX), (8, 1 << 22)]
    {
        let mut window = fitting;
        window[at] = number;
        assert!(Window::new(&window).is_err(), "{window:?}");
    }
    assert!(Window::new(&fitting[1..]).is_err());
    let mut made = Made::new(0);
    let (window, four) = (Window::new(&fitting).unwrap(), made.weights(4, 1.0));
    let weights = made.weights(4 * 18, 1.0);
    let filters = |weight, bias, groups| Filters::new(window.clone(), weight, bias, groups, false);
    assert_eq!(filters(weights, Some(four), 1).unwrap().outputs(), 4 * 6);
    assert_eq!(filters(weights, None, 2).unwrap().outputs(), 8 * 6);
    for (weight, bias, groups) in [(weights, None, 0), (weights, None, 3), (four, None, 1), (weights, Some(four), 2)] {
        assert!(filters(weight, bias, groups).is_err(), "{groups}");
    }
    for window in [fitting, [1, 4, 5, 1, 1, 1, 1, 0, 0, 1, 1]] {
        let node = Node::Pool { input: 0, window: Window::new(&window).unwrap().into(), greatest: true };
        assert_eq!(Network::new(40, vec![node]).is_ok(), window == fitting);
    }
}

/// Windows of images that are wider than a vector register, with a NaN in some.
#[test]
fn pools_agree_with_plain_loops() {
    let mut made = Made::new(7);
    for window in [
        [2, 5, 21, 3, 3, 2, 2, 1, 1, 1, 1],
        [1, 9, 40, 2, 5, 1, 3, 0, 2, 3, 2],
        [3, 4, 16, 4, 16, 1, 1, 0, 0, 1, 1],
        [1, 3, 10, 1, 2, 1, 1, 2, 4, 1, 1],
    ] {
        let window = Window::new(&window).unwrap();
        let mut image = made.numbers(window.inputs(), 1.0);
        for nan in [false, true] {
            if nan {
                image[window.size[1] + 9] = f32::NAN;
            }
            for greatest in [true, false] {
                let node = Node::Pool { input: 0, window: window.clone().into(), greatest };
                let found = forward(&Network::new(window.inputs(), vec![node]).unwrap(), &image);
                let exact: Vec<f64> = image.iter().map(|&x| f64::from(x)).collect();
                let places = (0..window.channels).flat_map(|k| places(&window).map(move |place| (k, place)));
                for ((found, wanted), (channel, place)) in
                    found.iter().zip(pooled(&window, &exact, greatest)).zip(places)
                {
                    let has_nan = windowed(&window, &exact, channel, place).iter().flatten().any(|x| x.is_nan());
                    let close = (f64::from(*found) - wanted).abs() < 1e-6 || f64::from(*found) == wanted;
                    assert!(if has_nan { found.is_nan() } else { close }, "{window:?}: {found}, not {wanted}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn passes_of_images_agree_with_plain_loops(
        seed: u64, rows in 0_usize..11, tall in 3_usize..7, wide in 3_usize..7, stride in 1_usize..3,
        padding in 0_usize..3, filters in 1_usize..12, groups in 1_usize..4,
    ) {
        let mut made = Made::new(seed);
        let network = of_images(&mut made, [tall, wide], stride, padding, filters, groups);
        let obs = made.numbers(rows * network.inputs(), 2.0);
        let out = forward(&network, &obs);
        for (row, out) in obs.chunks_exact(network.inputs()).zip(out.chunks_exact(3)) {
            let wanted = plainly(&network, row).pop().unwrap();
            for (one, wanted) in out.iter().zip(&wanted) {
                prop_assert!((f64::from(*one) - wanted).abs() < 1e-5, "{one}, not {wanted}");
            }
            prop_assert_eq!(&forward(&network, row)[..], out);
        }
    }
}

#[test]
fn constants_and_softmax() {
    let mut made = Made::new(1);
    let values = made.weights(3, 1.0);
    let constant = made.add(Node::Constant { values });
    made.add(Node::Softmax { input: constant, size: 3 });
    let network = made.network(2);
    let wanted = plainly(&network, &[0.0, 0.0]).pop().unwrap();
    for row in forward(&network, &[0.0; 20]).chunks_exact(3) {
        assert!(row.iter().zip(&wanted).all(|(&x, wanted)| (f64::from(x) - wanted).abs() < 1e-7));
    }
}

#[test]
fn weights_that_nodes_share_are_kept_by_columns_once() {
    let mut made = Made::new(1);
    let weight = made.weights(16, 1.0);
    for input in 0..3 {
        made.add(Node::Linear { input, weight, bias: None, outputs: 4, turned: false, relu: false });
    }
    let frozen = made.network(4).frozen().unwrap();
    assert!(std::ptr::eq(frozen.columns(0).unwrap(), frozen.columns(2).unwrap()));
}

#[test]
fn changed_weights_are_seen_at_once() {
    let mut numbers = vec![2.0_f32];
    // SAFETY: the vector lives until the end of the test.
    let weight = unsafe { Weights::new(numbers.as_mut_ptr(), 1) }.unwrap();
    let network =
        Network::new(1, vec![Node::Linear { input: 0, weight, bias: None, outputs: 1, turned: false, relu: false }])
            .unwrap();
    assert_eq!(forward(&network, &[3.0]), [6.0]);
    // SAFETY: as above.
    unsafe { weight.data().cast_mut().write(-1.0) };
    assert_eq!(forward(&network, &[3.0]), [-3.0]);
}

#[test]
fn several_threads_give_the_same_bits() {
    let mut made = Made::new(3);
    let network = dueling(&mut made, 8, 256, 4, Function::Tanh);
    let obs = made.numbers(8 * 1000, 1.0);
    pool::set_threads(1);
    let alone = forward(&network, &obs);
    let mut actions = vec![0; 1000];
    let decided = network.choose(&obs, Choice::Greatest, &mut actions).unwrap();
    pool::set_threads(4);
    assert_eq!(forward(&network, &obs), alone);
    let mut again = vec![0; 1000];
    assert_eq!(network.choose(&obs, Choice::Greatest, &mut again).unwrap(), decided);
    assert!(!decided || actions == again);
}

/// A network that only passes its input on.
fn passing(width: usize) -> Network {
    Network::new(width, vec![Node::Map { input: 0, function: Function::Scale(1.0) }]).unwrap()
}

#[test]
fn choices_that_are_near_or_not_finite_are_not_made() {
    let network = passing(3);
    let mut action = [-1];
    let mut choose = |obs: [f32; 3]| {
        let decided = network.choose(&obs, Choice::Greatest, &mut action).unwrap();
        decided.then_some(action[0])
    };
    assert_eq!(choose([1.0, 2.0, 0.0]), Some(1));
    assert_eq!(choose([1.0, 1.0001, 0.0]), Some(1));
    for obs in [
        [1.0, 1.0, 0.0],
        [1.0, 1.000_001, 0.0],
        [f32::NAN, 1.0, 0.0],
        [f32::INFINITY, 1.0, 0.0],
        [1.0, 0.0, f32::NEG_INFINITY],
        [0.0; 3],
    ] {
        assert_eq!(choose(obs), None, "{obs:?}");
    }
    assert!(passing(1).choose(&[5.0], Choice::Greatest, &mut action).unwrap(), "a single action has no rival");
}

#[test]
fn choices_by_probabilities_mind_the_errors_of_exponents() {
    // Exponents of 10,000, of which single floats show the third digit: the probabilities differ by less than that.
    let near = Network::new(2, vec![Node::Softmax { input: 0, size: 2 }]).unwrap();
    let mut action = [-1];
    assert!(!near.choose(&[10_000.0, 10_000.002], Choice::Greatest, &mut action).unwrap());
    assert!(near.choose(&[0.0, 0.002], Choice::Greatest, &mut action).unwrap());
    assert!(near.choose(&[10_000.0, 10_001.0], Choice::Greatest, &mut action).unwrap());

    let mut made = Made::new(0);
    made.kept.push(vec![0.0, 1.0]);
    // SAFETY: the vector is kept.
    let values = unsafe { Weights::new(made.kept[0].as_ptr(), 2) }.unwrap();
    let input = made.add(Node::Softmax { input: 0, size: 2 });
    made.add(Node::Expectation { input, values });
    let expected = made.network(4);
    assert!(!expected.choose(&[1e4, 1e4, 1e4, 10_000.002], Choice::Greatest, &mut action).unwrap());
    assert!(expected.choose(&[0.0, 0.0, 0.0, 0.002], Choice::Greatest, &mut action).unwrap());
    assert_eq!(action, [1]);
    // Nearly all of the probability is at one value, which moves the expectation as little as it is far from there.
    assert!(expected.choose(&[1e4, 1e4 - 30.0, 1e4, 1e4 - 5.0], Choice::Greatest, &mut action).unwrap());
}

#[test]
fn clocks_draw_from_the_softmax() {
    let network = passing(3);
    let (logits, draws) = ([0.5_f32, -1.0, 2.0], 60_000);
    let mut stream = Stream::new(4);
    let clocks: Vec<f32> = (0..3 * draws).map(|_| -(1.0 - stream.uniform()).ln() as f32 + 1e-12).collect();
    let mut actions = vec![-1; draws];
    let mut counts = [0.0; 3];
    for row in 0..draws {
        let (action, clocks) = (&mut actions[row..=row], &clocks[3 * row..][..3]);
        if network.choose(&logits, Choice::Clocks(clocks), action).unwrap() {
            counts[action[0] as usize] += 1.0;
        }
    }
    let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
    for (count, logit) in counts.iter().zip(logits) {
        let wanted = f64::from(logit).exp() / sum;
        let deviation = (wanted * (1.0 - wanted) / draws as f64).sqrt();
        assert!((count / draws as f64 - wanted).abs() < 4.0 * deviation + 1e-4, "{count} of {wanted}");
    }
    let equal = network.choose(&[0.0, 0.0, -1.0], Choice::Clocks(&[1.0, 1.0, 9.0]), &mut actions[..1]).unwrap();
    assert!(!equal, "two clocks that ring together");
}

#[test]
fn networks_that_cannot_be_are_refused() {
    let mut made = Made::new(0);
    let (weight, bias) = (made.weights(6, 1.0), made.weights(2, 1.0));
    let linear = |input, outputs| Node::Linear { input, weight, bias: Some(bias), outputs, turned: false, relu: false };
    let normalize = |size, weight| Node::Normalize { input: 0, size, epsilon: 0.0, centered: true, weight, bias: None };
    assert!(Network::new(3, vec![linear(0, 2)]).is_ok());
    for (inputs, nodes, wanted) in [
        (3, vec![linear(1, 2)], "needs slot 1, and there are 1"),
        (3, vec![linear(0, 3)], "needs 9 weights, got 6"),
        (2, vec![linear(0, 3)], "needs 6 weights, got 6"), // of which the bias has too few
        (0, vec![], "at least one in each slot"),
        (1 << 30, vec![], "a network has 1 to"),
        (3, vec![Node::Softmax { input: 0, size: 2 }], "needs groups of 2 numbers, got 3"),
        (3, vec![normalize(2, None)], "needs groups of 2 numbers, got 3"),
        (3, vec![normalize(3, Some(bias))], "needs 3 weights, one for each number of a group"),
        (3, vec![Node::Reduce { input: 0, size: 0, reduction: Reduction::Max }], "needs groups of 0 numbers, got 3"),
        (3, vec![Node::Pick { input: 0, places: [2, 3].into() }], "picks the number 3 of 3"),
        (3, vec![Node::Pick { input: 0, places: [].into() }], "at least one in each slot"),
        (3, vec![Node::Join { inputs: [0, 1].into() }], "needs slot 1, and there are 1"),
        (2, vec![Node::Expectation { input: 0, values: bias }], "needs a softmax in groups of 2"),
        (2, vec![Node::Softmax { input: 0, size: 1 }, Node::Expectation { input: 1, values: bias }], "needs a softmax"),
        (6, vec![Node::Softmax { input: 0, size: 3 }, Node::Expectation { input: 1, values: bias }], "in groups of 2"),
        (
            3,
            vec![linear(0, 2), Node::Pair { inputs: [0, 1], operation: Operation::Add }],
            "takes pairs of 3 and 2 numbers",
        ),
    ] {
        let error = Network::new(inputs, nodes).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let network = passing(2);
    assert!(network.forward(&[0.0; 3], &[1], &mut [&mut [0.0; 2]]).is_err());
    assert!(network.forward(&[0.0; 2], &[1], &mut [&mut [0.0; 3]]).is_err());
    assert!(network.forward(&[0.0; 2], &[2], &mut [&mut [0.0; 2]]).is_err());
    assert!(network.choose(&[0.0; 2], Choice::Greatest, &mut [0; 2]).is_err());
    assert!(network.choose(&[0.0; 2], Choice::Clocks(&[1.0]), &mut [0]).is_err());
}

#[test]
fn nodes_are_made_of_their_descriptions() {
    let numbers = [0.5_f32; 6];
    // SAFETY: the numbers outlive the nodes.
    let weights = unsafe { Weights::new(numbers.as_ptr(), numbers.len()) }.unwrap();
    let described = |name, parts: &[Part]| Node::described(name, parts);
    let (slot, matrix, vector) = (Part::Number(0.0), Part::Weights(weights, Some(3)), Part::Weights(weights, None));
    let (size, places) = (Part::Number(2.0), Part::Places(vec![1, 0]));
    let linear = described("linear", &[slot.clone(), matrix, Part::Missing, Part::Number(1.0)]).unwrap();
    assert!(matches!(linear, Node::Linear { input: 0, bias: None, outputs: 3, relu: true, .. }));
    assert!(matches!(described("constant", std::slice::from_ref(&vector)), Ok(Node::Constant { .. })));
    assert!(matches!(described("softmax", &[slot.clone(), size.clone()]), Ok(Node::Softmax { size: 2, .. })));
    assert!(matches!(described("join", std::slice::from_ref(&places)), Ok(Node::Join { inputs }) if *inputs == [1, 0]));
    let pick = described("pick", &[slot.clone(), places.clone()]);
    assert!(matches!(pick, Ok(Node::Pick { input: 0, places }) if *places == [1, 0]));
    let (half, yes) = (Part::Number(0.5), Part::Number(1.0));
    let normal =
        described("normalize", &[slot.clone(), size.clone(), half, yes, vector.clone(), Part::Missing]).unwrap();
    assert!(matches!(
        normal,
        Node::Normalize { input: 0, size: 2, epsilon: 0.5, centered: true, weight: Some(_), bias: None }
    ));
    let clamp = described("clamp", &[slot.clone(), Part::Number(-1.0), Part::Number(1.0)]).unwrap();
    assert!(matches!(clamp, Node::Map { function: Function::Clamp(-1.0, 1.0), .. }));
    let operations = [
        ("add", Operation::Add),
        ("subtract", Operation::Subtract),
        ("multiply", Operation::Multiply),
        ("divide", Operation::Divide),
        ("maximum", Operation::Maximum),
        ("minimum", Operation::Minimum),
    ];
    for (name, wanted) in operations {
        let pair = described(name, &[slot.clone(), size.clone()]);
        assert!(matches!(pair, Ok(Node::Pair { inputs: [0, 2], operation }) if operation == wanted), "{name}");
    }
    let reductions =
        [("sum", Reduction::Sum), ("mean", Reduction::Mean), ("max", Reduction::Max), ("min", Reduction::Min)];
    for (name, wanted) in reductions {
        let node = described(name, &[slot.clone(), size.clone()]);
        assert!(matches!(node, Ok(Node::Reduce { input: 0, size: 2, reduction }) if reduction == wanted), "{name}");
    }
    for (name, parts) in [
        ("linear", vec![]),
        ("linear", vec![slot.clone(), vector.clone(), Part::Missing, Part::Number(0.0)]),
        ("mean", vec![slot.clone(), Part::Number(0.5)]),
        ("mean", vec![Part::Missing, Part::Number(2.0)]),
        ("add", vec![slot.clone(), places]),
        ("pick", vec![slot.clone(), slot.clone()]),
        ("tanh", vec![slot.clone(), vector]),
        ("nothing", vec![slot]),
    ] {
        assert!(described(name, &parts).is_err(), "{name} {parts:?}");
    }
}

/// Every operation, reduction and normalization of slots of some widths.
#[test]
fn nodes_agree_with_plain_loops() {
    let mut made = Made::new(11);
    let (numbers, shifted) = (made.linear(0, 5, 12, false), made.linear(0, 5, 12, false));
    let mut slots = vec![numbers, shifted];
    let operations = [
        Operation::Add,
        Operation::Subtract,
        Operation::Multiply,
        Operation::Divide,
        Operation::Maximum,
        Operation::Minimum,
    ];
    slots.extend(operations.map(|operation| made.add(Node::Pair { inputs: [numbers, shifted], operation })));
    for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min] {
        slots.extend([1, 3, 12].map(|size| made.add(Node::Reduce { input: numbers, size, reduction })));
    }
    for centered in [true, false] {
        for size in [3, 12] {
            let (weight, bias) = (Some(made.weights(size, 2.0)), Some(made.weights(size, 2.0)));
            for (weight, bias) in [(weight, bias), (None, bias), (weight, None), (None, None)] {
                slots.push(made.add(Node::Normalize { input: numbers, size, epsilon: 0.5, centered, weight, bias }));
            }
        }
    }
    slots.push(made.add(Node::Pick { input: shifted, places: [11, 0, 0, 3].into() }));
    slots.push(made.add(Node::Join { inputs: slots.clone().into() }));
    let network = made.network(5);
    for rows in [1, 8, 9, 16, 21] {
        let obs = made.numbers(rows * 5, 2.0);
        for &slot in &slots {
            let width = network.width(slot).unwrap();
            let mut found = vec![f32::NAN; rows * width];
            network.forward(&obs, &[slot], &mut [&mut found]).unwrap();
            for (row, found) in obs.chunks_exact(5).zip(found.chunks_exact(width)) {
                for (&found, wanted) in found.iter().zip(&plainly(&network, row)[slot]) {
                    let close = (f64::from(found) - wanted).abs() <= 1e-5 * (1.0 + wanted.abs() * wanted.abs());
                    assert!(close, "slot {slot}: {found}, not {wanted}");
                }
            }
        }
    }
    for (operation, wanted) in [(Operation::Maximum, f32::NAN), (Operation::Minimum, f32::NAN)] {
        let nodes = vec![Node::Pick { input: 0, places: [1, 0].into() }, Node::Pair { inputs: [0, 1], operation }];
        let network = Network::new(2, nodes).unwrap();
        assert!(forward(&network, &[1.0, wanted]).iter().all(|number| number.is_nan()), "{operation:?}");
    }
}

#[test]
fn tails_of_gelu_are_zero() {
    let node = Node::Map { input: 0, function: Function::Gelu };
    let numbers = [-9.0, -30.0, -1e10, f32::MIN, f32::MAX];
    let found = forward(&Network::new(numbers.len(), vec![node]).unwrap(), &numbers);
    assert!(found[..4].iter().all(|number| number.abs() < 1e-17), "{found:?}");
    assert_eq!(found[4], f32::MAX);
}

#[test]
fn numbers_become_places() {
    let mut made = Made::new(5);
    let slot = made.add(Node::OneHot { input: 0, size: 3 });
    made.linear(slot, 6, 4, false);
    let network = made.network(2);
    let obs: Vec<f32> = (0..40).map(|k| (k * 7 % 3) as f32).collect();
    for (row, found) in obs.chunks_exact(2).zip(forward(&network, &obs).chunks_exact(4)) {
        for (found, wanted) in found.iter().zip(&plainly(&network, row)[2]) {
            assert!((f64::from(*found) - wanted).abs() < 1e-6);
        }
    }
    for wrong in [-1.0, 3.0, 0.5, f32::NAN, f32::INFINITY] {
        assert!(!network.choose(&[1.0, wrong], Choice::Greatest, &mut [0]).unwrap(), "{wrong}");
    }
    assert!(Network::new(1, vec![Node::OneHot { input: 0, size: usize::MAX }]).is_err());
    assert!(Network::new(1, vec![Node::OneHot { input: 0, size: 0 }]).is_err());
}

#[test]
fn observations_of_other_lengths_are_mismatches() {
    let mut made = Made::new(3);
    made.linear(0, 4, 2, false);
    let network = made.network(4);
    assert_eq!(network.rows_of(8, Some(2)).unwrap(), 2);
    for (numbers, rows) in [(8, Some(1)), (8, None), (7, Some(2)), (0, Some(usize::MAX))] {
        assert!(matches!(network.rows_of(numbers, rows), Err(Error::Mismatch(_))), "{numbers} {rows:?}");
    }
    assert!(network.choose_one(&[1.0; 4]).unwrap().is_some_and(|action| (0..2).contains(&action)));
    assert!(matches!(network.choose_one(&[1.0; 3]), Err(Error::Mismatch(_))));
    assert_eq!(network.widths(&[1, 0]).unwrap(), [2, 4]);
    assert_eq!(network.widths(&[2]).unwrap_err().to_string(), "there is no slot 2 of 2");
}
