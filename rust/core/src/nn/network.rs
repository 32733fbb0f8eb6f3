//! Networks as lists of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use super::functions::Function;
use super::image::{Filters, Window};
use super::linear::Columns;
use super::weights::Weights;
use crate::error::{Error, Result, value_error};

/// What one slot is computed from. Slots are numbered from 0, the input.
#[derive(Clone, Debug)]
pub enum Node {
    /// The product with a matrix, row by row, plus a vector if there is one.
    Linear {
        /// The slot of the factors.
        input: usize,
        /// A row of weights for each output, or for each input.
        weight: Weights,
        /// A number for each output.
        bias: Option<Weights>,
        /// The number of outputs.
        outputs: usize,
        /// Whether the matrix has a row for each input instead.
        turned: bool,
        /// Whether negative outputs become 0.
        relu: bool,
    },
    /// A convolution of images.
    Convolution {
        /// The slot of the images, `[channels, height, width]`.
        input: usize,
        /// What is moved over them.
        filters: Arc<Filters>,
    },
    /// A number for each window of each channel of images.
    Pool {
        /// The slot of the images, `[channels, height, width]`.
        input: usize,
        /// The window.
        window: Arc<Window>,
        /// Whether it is the greatest number, not the mean.
        greatest: bool,
    },
    /// A function of each number.
    Map {
        /// The slot of the arguments.
        input: usize,
        /// The function.
        function: Function,
    },
    /// An operation on each pair of numbers.
    Pair {
        /// The slots, which are as wide.
        inputs: [usize; 2],
        /// The operation.
        operation: Operation,
    },
    /// A number for each group.
    Reduce {
        /// The slot of the groups.
        input: usize,
        /// The numbers of a group.
        size: usize,
        /// What is computed of them.
        reduction: Reduction,
    },
    /// Powers of e, divided by the sum of their group.
    Softmax {
        /// The slot of the exponents.
        input: usize,
        /// The numbers of a group.
        size: usize,
    },
    /// The expected value for each group of probabilities.
    Expectation {
        /// The slot of the probabilities, a softmax in groups.
        input: usize,
        /// The values of a group.
        values: Weights,
    },
    /// The numbers of each group, divided by their root mean square, or by their standard deviation after the mean was
    /// subtracted (arXiv:1607.06450, arXiv:1910.07467).
    Normalize {
        /// The slot of the groups.
        input: usize,
        /// The numbers of a group.
        size: usize,
        /// What is added to the mean square or the variance.
        epsilon: f32,
        /// Whether the mean is subtracted.
        centered: bool,
        /// A factor for each number of a group.
        weight: Option<Weights>,
        /// A term for each number of a group.
        bias: Option<Weights>,
    },
    /// For each number, which is one from 0 to `size - 1`, as many numbers: 1 at its place, and else 0. They are NaN for
    /// any other number.
    OneHot {
        /// The slot of the numbers.
        input: usize,
        /// How many numbers there are.
        size: usize,
    },
    /// Some of the numbers of a slot, in any order.
    Pick {
        /// The slot.
        input: usize,
        /// Their places.
        places: Arc<[usize]>,
    },
    /// The numbers of several slots, one after the other.
    Join {
        /// The slots.
        inputs: Arc<[usize]>,
    },
    /// The same numbers for all rows.
    Constant {
        /// The numbers.
        values: Weights,
    },
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The product.
    Multiply,
    /// The quotient.
    Divide,
    /// The greater number.
    Maximum,
    /// The smaller number.
    Minimum,
}

/// What is computed of a group of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The greatest number.
    Max,
    /// The smallest number.
    Min,
}

/// A part of the description of a node.
#[derive(Clone, Debug)]
pub enum Part {
    /// None.
    Missing,
    /// A number: of a slot, a size, a flag, or the argument of a function.
    Number(f64),
    /// Weights, and the number of rows of a matrix.
    Weights(Weights, Option<usize>),
    /// Places in a slot, or slots.
    Places(Vec<usize>),
}

impl Part {
    fn size(&self) -> Result<usize> {
        match *self {
            Self::Number(size) if size >= 0.0 && size.fract() == 0.0 => Ok(size as usize),
            ref other => value_error!("a slot or a size is a whole number, got {other:?}"),
        }
    }

    fn number(&self) -> Result<f32> {
        if let Self::Number(number) = *self {
            Ok(number as f32)
        } else {
            value_error!("a function takes numbers, got {self:?}")
        }
    }

    fn weights(&self) -> Result<Weights> {
        if let Self::Weights(weights, _) = *self {
            Ok(weights)
        } else {
            value_error!("weights are an array of floats, got {self:?}")
        }
    }

    fn weights_if_any(&self) -> Result<Option<Weights>> {
        if let Self::Missing = self { Ok(None) } else { self.weights().map(Some) }
    }

    fn places(&self) -> Result<Arc<[usize]>> {
        if let Self::Places(places) = self {
            Ok(places.as_slice().into())
        } else {
            value_error!("places are an array of integers, got {self:?}")
        }
    }

    fn window(&self) -> Result<Window> {
        Window::new(&self.places()?)
    }
}

impl Node {
    /// Returns the node of a description: its name, such as "linear" or that of a function, its first slot, and what else it has.
    ///
    /// # Errors
    /// `Value` for an unknown name, or for other parts than the node has.
    pub fn described(name: &str, parts: &[Part]) -> Result<Self> {
        let pair =
            |one: &Part, other: &Part, operation| Ok(Self::Pair { inputs: [one.size()?, other.size()?], operation });
        let reduce = |input: &Part, size: &Part, reduction| {
            Ok(Self::Reduce { input: input.size()?, size: size.size()?, reduction })
        };
        let pool = |input: &Part, window: &Part, greatest| {
            Ok(Self::Pool { input: input.size()?, window: window.window()?.into(), greatest })
        };
        Ok(match (name, parts) {
            ("constant", [values]) => Self::Constant { values: values.weights()? },
            ("linear" | "linear_turned", [input, Part::Weights(weight, rows), bias, Part::Number(relu)]) => {
                let Some(rows) = *rows else { return value_error!("the weights of a layer have two axes") };
                let (bias, turned) = (bias.weights_if_any()?, name == "linear_turned");
                let outputs = if turned { weight.len().checked_div(rows).unwrap_or(0) } else { rows };
                Self::Linear { input: input.size()?, weight: *weight, bias, outputs, turned, relu: *relu != 0.0 }
            }
            ("conv", [input, weight, bias, window, groups, Part::Number(relu)]) => {
                let (weight, bias) = (weight.weights()?, bias.weights_if_any()?);
                let filters = Filters::new(window.window()?, weight, bias, groups.size()?, *relu != 0.0)?;
                Self::Convolution { input: input.size()?, filters: filters.into() }
            }
            ("max_pool", [input, window]) => return pool(input, window, true),
            ("mean_pool", [input, window]) => return pool(input, window, false),
            ("add", [one, other]) => return pair(one, other, Operation::Add),
            ("subtract", [one, other]) => return pair(one, other, Operation::Subtract),
            ("multiply", [one, other]) => return pair(one, other, Operation::Multiply),
            ("divide", [one, other]) => return pair(one, other, Operation::Divide),
            ("maximum", [one, other]) => return pair(one, other, Operation::Maximum),
            ("minimum", [one, other]) => return pair(one, other, Operation::Minimum),
            ("sum", [input, size]) => return reduce(input, size, Reduction::Sum),
            ("mean", [input, size]) => return reduce(input, size, Reduction::Mean),
            ("max", [input, size]) => return reduce(input, size, Reduction::Max),
            ("min", [input, size]) => return reduce(input, size, Reduction::Min),
            ("softmax", [input, size]) => Self::Softmax { input: input.size()?, size: size.size()? },
            ("expectation", [input, values]) => Self::Expectation { input: input.size()?, values: values.weights()? },
            ("normalize", [input, size, epsilon, Part::Number(centered), weight, bias]) => Self::Normalize {
                input: input.size()?,
                size: size.size()?,
                epsilon: epsilon.number()?,
                centered: *centered != 0.0,
                weight: weight.weights_if_any()?,
                bias: bias.weights_if_any()?,
            },
            ("one_hot", [input, size]) => Self::OneHot { input: input.size()?, size: size.size()? },
            ("pick", [input, places]) => Self::Pick { input: input.size()?, places: places.places()? },
            ("join", [slots]) => Self::Join { inputs: slots.places()? },
            (_, [input, numbers @ ..]) => {
                let numbers = numbers.iter().map(Part::number).collect::<Result<Vec<_>>>()?;
                Self::Map { input: input.size()?, function: Function::named(name, &numbers)? }
            }
            (_, []) => return value_error!("{name} needs its parts"),
        })
    }
}

impl Node {
    /// The slots that it reads.
    fn inputs(&self) -> &[usize] {
        match self {
            Self::Pair { inputs, .. } => inputs,
            Self::Join { inputs } => inputs,
            Self::Constant { .. } => &[],
            Self::Linear { input, .. }
            | Self::Convolution { input, .. }
            | Self::Pool { input, .. }
            | Self::Map { input, .. }
            | Self::Reduce { input, .. }
            | Self::Softmax { input, .. }
            | Self::Expectation { input, .. }
            | Self::Normalize { input, .. }
            | Self::OneHot { input, .. }
            | Self::Pick { input, .. } => std::slice::from_ref(input),
        }
    }
}

/// Where the numbers of a slot are in a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where it begins, in elements of all rows.
    pub start: usize,
    /// Whether it has row after row, which images need; otherwise the rows stand next to each other.
    pub by_rows: bool,
    /// Where a copy in the other order begins, if a node needs it.
    pub copy: Option<usize>,
}

/// A network whose weights somebody else keeps.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// The number of elements of each slot.
    widths: Vec<usize>,
    places: Vec<Place>,
    /// The elements of one row of a tile.
    row: usize,
    /// Products of one row.
    cost: usize,
    /// The weights of linear nodes by columns, for one row at a time; empty unless [`Self::frozen`].
    columns: Vec<Option<Arc<Columns>>>,
}

/// Returns the places of slots, and the elements of a row.
fn arranged(nodes: &[Node], widths: &[usize]) -> (Vec<Place>, usize) {
    let is_image = |node: &Node| matches!(node, Node::Convolution { .. } | Node::Pool { .. });
    let mut places = vec![Place { start: 0, by_rows: nodes.iter().any(is_image), copy: None }];
    for node in nodes {
        let any = |places: &[Place]| node.inputs().iter().any(|&slot| places[slot].by_rows);
        let moves = matches!(node, Node::Map { .. } | Node::Pair { .. } | Node::Pick { .. } | Node::Join { .. });
        let by_rows = is_image(node) || (moves && any(&places));
        for &slot in node.inputs() {
            if places[slot].by_rows != by_rows {
                places[slot].copy = Some(0);
            }
        }
        places.push(Place { start: 0, by_rows, copy: None });
    }
    let mut end = 0;
    for (k, (place, width)) in places.iter_mut().zip(widths).enumerate() {
        place.start = end;
        if k > 0 || !place.by_rows {
            end += width; // otherwise observations are read where they are
        }
        if let Some(copy) = &mut place.copy {
            *copy = end;
            end += width;
        }
    }
    (places, end)
}

/// The number of groups of `size` that `width` numbers make.
fn groups(node: usize, width: usize, size: usize) -> Result<usize> {
    match width.checked_div(size) {
        Some(groups) if groups * size == width => Ok(groups),
        _ => value_error!("node {node} needs groups of {size} numbers, got {width} in all"),
    }
}

/// Compares the numbers of a slot with those of the images that a node reads.
fn image(node: usize, width: usize, window: &Window) -> Result<()> {
    if width != window.inputs() {
        return value_error!("node {node} reads images of {} numbers, got {width}", window.inputs());
    }
    Ok(())
}

/// The most elements of all slots of one row: a tile of 16 rows then takes 256 MiB.
pub(super) const MOST: usize = 1 << 22;

impl Network {
    /// Returns a network of `inputs` numbers for each row.
    ///
    /// # Errors
    /// `Value` for a node that refers to itself or a later one, or has weights of another number than it needs, and for
    /// networks that are too large for this module.
    pub fn new(inputs: usize, nodes: Vec<Node>) -> Result<Self> {
        let (mut widths, mut cost) = (vec![inputs], 0_usize);
        for (k, node) in nodes.iter().enumerate() {
            let width = |slot: usize| match widths.get(slot) {
                Some(&width) => Ok(width),
                None => value_error!("node {k} needs slot {slot}, and there are {} before it", widths.len()),
            };
            let found = match *node {
                Node::Linear { input, weight, bias, outputs, .. } => {
                    let products = width(input)?.saturating_mul(outputs);
                    if weight.len() != products || bias.is_some_and(|bias| bias.len() != outputs) {
                        return value_error!("node {k} needs {products} weights, got {}", weight.len());
                    }
                    cost = cost.saturating_add(products);
                    outputs
                }
                Node::Convolution { input, ref filters } => {
                    image(k, width(input)?, &filters.window)?;
                    cost = cost.saturating_add(filters.products());
                    filters.outputs()
                }
                Node::Pool { input, ref window, .. } => {
                    image(k, width(input)?, window)?;
                    window.channels.saturating_mul(window.places())
                }
                Node::Map { input, .. } => width(input)?,
                Node::OneHot { input, size } => width(input)?.saturating_mul(size),
                Node::Pair { inputs: [one, other], .. } => {
                    if width(one)? != width(other)? {
                        return value_error!("node {k} takes pairs of {} and {} numbers", width(one)?, width(other)?);
                    }
                    width(one)?
                }
                Node::Reduce { input, size, .. } => groups(k, width(input)?, size)?,
                Node::Softmax { input, size } => {
                    groups(k, width(input)?, size)?;
                    width(input)?
                }
                Node::Normalize { input, size, weight, bias, .. } => {
                    groups(k, width(input)?, size)?;
                    if [weight, bias].iter().flatten().any(|weights| weights.len() != size) {
                        return value_error!("node {k} needs {size} weights, one for each number of a group");
                    }
                    width(input)?
                }
                Node::Expectation { input, values } => {
                    let below = input.checked_sub(1).and_then(|k| nodes.get(k));
                    match below {
                        Some(Node::Softmax { size, .. }) if *size == values.len() => {}
                        _ => return value_error!("node {k} needs a softmax in groups of {}", values.len()),
                    }
                    groups(k, width(input)?, values.len())?
                }
                Node::Pick { input, ref places } => {
                    let width = width(input)?;
                    if let Some(place) = places.iter().find(|&&place| place >= width) {
                        return value_error!("node {k} picks the number {place} of {width}");
                    }
                    places.len()
                }
                Node::Join { ref inputs } => {
                    let mut all = 0_usize;
                    for &slot in &**inputs {
                        all = all.saturating_add(width(slot)?);
                    }
                    all
                }
                Node::Constant { values } => values.len(),
            };
            widths.push(found);
        }
        let all = widths.iter().fold(0_usize, |sum, &width| sum.saturating_add(width));
        if widths.contains(&0) || all > MOST {
            return value_error!(
                "a network has 1 to {MOST} numbers for a row, and at least one in each slot, got {all}"
            );
        }
        let (places, row) = arranged(&nodes, &widths);
        Ok(Self { nodes, widths, places, row, cost, columns: Vec::new() })
    }

    /// Returns the network for weights that never change: it keeps a copy of them by columns, by which one row alone takes
    /// a fraction of the time, with the same result.
    ///
    /// # Errors
    /// `Room` without memory.
    pub fn frozen(mut self) -> Result<Self> {
        let mut known: HashMap<(*const f32, usize), Arc<Columns>> = HashMap::new();
        let mut columns = Vec::new();
        for node in &self.nodes {
            columns.push(match *node {
                Node::Linear { weight, outputs, turned: false, .. } => {
                    Some(match known.get(&(weight.data(), outputs)) {
                        Some(columns) => Arc::clone(columns),
                        None => {
                            // SAFETY: `new` compared the number of weights with the widths of the slots.
                            let made =
                                Arc::new(unsafe { Columns::of(weight.data(), weight.len() / outputs, outputs) }?);
                            known.insert((weight.data(), outputs), Arc::clone(&made));
                            made
                        }
                    })
                }
                _ => None,
            });
        }
        self.columns = columns;
        Ok(self)
    }

    /// The weights of the node `k` by columns; None for other nodes than linear ones, and unless [`Self::frozen`].
    pub(super) fn columns(&self, k: usize) -> Option<&Columns> {
        self.columns.get(k)?.as_deref()
    }

    pub(super) fn is_frozen(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Returns the number of elements of an input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.widths[0]
    }

    /// Returns the number of elements of each output: of the last slot.
    #[must_use]
    pub fn outputs(&self) -> usize {
        *self.widths.last().expect("invariant: slot 0 is there")
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.widths.len()
    }

    /// Returns the numbers of elements of some slots.
    ///
    /// # Errors
    /// `Value` for a slot that does not exist.
    pub fn widths(&self, slots: &[usize]) -> Result<Vec<usize>> {
        let width = |&slot: &usize| match self.width(slot) {
            Some(width) => Ok(width),
            None => value_error!("there is no slot {slot} of {}", self.slots()),
        };
        slots.iter().map(width).collect()
    }

    /// Returns the number of rows of a host's observations, `numbers` in all; `rows` is the length of their first axis, if any.
    ///
    /// # Errors
    /// `Mismatch` unless each row has as many numbers as are read.
    pub fn rows_of(&self, numbers: usize, rows: Option<usize>) -> Result<usize> {
        let text = || format!("rows have {} numbers, got {numbers} in all", self.inputs());
        let rows = rows.filter(|rows| rows.checked_mul(self.inputs()) == Some(numbers));
        rows.ok_or_else(|| Error::Mismatch(text()))
    }

    /// Returns the number of elements of a slot; None if there is no such slot.
    #[must_use]
    pub fn width(&self, slot: usize) -> Option<usize> {
        self.widths.get(slot).copied()
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn place(&self, slot: usize) -> Place {
        self.places[slot]
    }

    /// Whether observations are read where they are, row by row.
    pub(super) fn has_images(&self) -> bool {
        self.places[0].by_rows
    }

    /// The elements of one row of a tile.
    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// The numbers that the packed weights of all filters need, and the most that a node needs for a padded image or for
    /// lines of one.
    pub(super) fn packed(&self) -> (usize, usize) {
        self.nodes.iter().fold((0, 0), |(all, most), node| match node {
            Node::Convolution { filters, .. } => (all + filters.packed(), most.max(filters.padded())),
            Node::Pool { window, .. } => (all, most.max(window.lines())),
            _ => (all, most),
        })
    }

    /// Returns the number of products for one row.
    #[must_use]
    pub fn products(&self) -> usize {
        self.cost
    }
}
