//! The plan of a gather: which arrays it fills, and which of them share memory.

use crate::schema::{Column, Kind, Schema, TRANSITION_KEYS};
use rlfast_core::error::{Error, Result};
use rlfast_core::replay::gather::{Content, Gatherer};
use rlfast_core::replay::layout::{Layout, Place};

/// Keys whose rows are stacked.
const STACKED_KEYS: [&str; 4] = ["obs", "obs_next", "info", "policy"];
/// Frames of at least this many bytes may be shared between the arrays of obs and obs_next.
const SHARED_FRAME: usize = 1024;

/// One array that a gather fills.
#[derive(Clone, Debug)]
pub struct PlannedArray {
    /// Its content.
    pub content: Content,
    /// Rows that are stacked into one (1: no stacking).
    pub stack: usize,
    /// The leaf that gives its dtype and shape.
    pub leaf: usize,
    /// Shape of one row, stack included.
    pub shape: Vec<usize>,
    /// Bytes of one row.
    pub bytes: usize,
    /// For arrays of obs and obs_next that may share a block: the number of the twin, and whether this array is
    /// obs_next.
    twin: Option<(usize, bool)>,
}

/// A key of the nested rows that a gather makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The number of the key in [`Schema::keys`].
    pub key: usize,
    /// The value at the key.
    pub value: Value,
}

/// The value at a key of the rows that a gather makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The array with this number.
    Array(usize),
    /// More keys, or none.
    Batch(Vec<Field>),
}

/// The arrays that a gather fills.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    arrays: Vec<PlannedArray>,
    fields: Vec<Field>,
}

/// An obs array and an obs_next array that are two views of one block.
#[derive(Clone, Copy, Debug)]
pub struct SharedPair {
    /// The number of the obs array in the plan.
    pub obs: usize,
    /// The number of the obs_next array in the plan.
    pub next: usize,
    /// The content of the block.
    pub block: Content,
    /// Bytes of one row of the block.
    pub bytes: usize,
    /// Bytes of one frame. The row of obs_next begins so many after that of obs.
    pub frame: usize,
}

/// Returns the number of rows that are stacked for a leaf under the top-level key `key`: `stack` for the keys that are
/// stacked, else 1.
#[must_use]
pub fn stack_of(key: &str, stack: usize) -> usize {
    if STACKED_KEYS.contains(&key) { stack } else { 1 }
}

/// Returns the number of the twin of an array of `content`, and whether the array is obs_next. None if its rows are
/// not frames, or are frames too small to be shared.
fn shared_twin(layout: &Layout, content: Content, stack: usize) -> Option<(usize, bool)> {
    let Content::Leaf(leaf) = content else { return None };
    let (twin, is_next) = match layout.place(leaf) {
        Place::Next { twin } => (twin, true),
        _ => (layout.twin(leaf).filter(|_| layout.linked())?, false),
    };
    let obs = layout.obs(twin);
    let bytes = layout.leaves()[obs].nbytes();
    // Stacks along the last axis are not contiguous in a block.
    if layout.pixels(obs).is_some() {
        return None;
    }
    let (framed, frame) = layout.stacked(obs).map_or((false, bytes), |stack| (true, bytes / stack));
    (frame >= SHARED_FRAME && framed == (stack == 1)).then_some((twin, is_next))
}

impl Plan {
    /// Returns the plan of the arrays for some top-level keys (None: those of a transition, and all others). obs,
    /// obs_next, info and policy are stacks of `stack` rows. A key of a transition without a column is empty.
    ///
    /// # Errors
    /// `Key` for a key that is neither that of a column nor of a transition.
    pub fn new<D>(schema: &Schema<D>, layout: &Layout, keys: Option<&[String]>, stack: usize) -> Result<Self> {
        let mut plan = Self::default();
        for key in keys.map_or_else(|| all_keys(schema), |keys| keys.iter().map(String::as_str).collect()) {
            let value = match (schema.node(key), key) {
                (Some(node), _) => plan.add(&node.kind, stack_of(key, stack), &Content::Leaf, layout),
                (None, "obs_next") if !schema.saves_obs_next() => match schema.node("obs") {
                    Some(obs) => plan.add(&obs.kind, stack, &|leaf| layout.next_content(leaf), layout),
                    None => Value::Batch(Vec::new()),
                },
                (None, standard) if TRANSITION_KEYS.contains(&standard) => Value::Batch(Vec::new()),
                (None, unknown) => return Err(Error::Key(unknown.to_owned())),
            };
            let key = schema.key(key).expect("invariant: a schema has its nodes' keys and a transition's");
            plan.fields.push(Field { key, value });
        }
        Ok(plan)
    }

    /// Returns the plan of whole rows, in which the array of each column has the number of the column. obs, obs_next, info and
    /// policy are stacks of `stack` rows. A key of a transition without a column is empty.
    #[must_use]
    pub fn whole<D>(schema: &Schema<D>, stack: usize) -> Self {
        fn value(kind: &Kind) -> Value {
            match kind {
                Kind::Leaf(column) => Value::Array(*column),
                Kind::Foreign => Value::Batch(Vec::new()),
                Kind::Group(nodes) => {
                    Value::Batch(nodes.iter().map(|node| Field { key: node.key, value: value(&node.kind) }).collect())
                }
            }
        }
        let field = |key: &str| Field {
            key: schema.key(key).expect("invariant: a schema has its nodes' keys and a transition's"),
            value: schema.node(key).map_or(Value::Batch(Vec::new()), |node| value(&node.kind)),
        };
        let array = |(leaf, column): (usize, &Column<D>)| {
            let stack = stack_of(column.leaf.root(), stack);
            let shape = (stack > 1).then_some(stack).into_iter().chain(column.leaf.shape.iter().copied()).collect();
            let bytes = column.leaf.nbytes() * stack;
            PlannedArray { content: Content::Leaf(leaf), stack, leaf, shape, bytes, twin: None }
        };
        let arrays = schema.columns().iter().enumerate().map(array).collect();
        Self { arrays, fields: all_keys(schema).into_iter().map(field).collect() }
    }

    /// Adds the arrays at a key; `content` returns the content of a leaf's array.
    fn add(&mut self, kind: &Kind, stack: usize, content: &dyn Fn(usize) -> Content, layout: &Layout) -> Value {
        match kind {
            Kind::Leaf(leaf) => Value::Array(self.push(layout, content(*leaf), *leaf, stack)),
            Kind::Foreign => Value::Batch(Vec::new()),
            Kind::Group(nodes) => {
                let kept = nodes.iter().filter(|node| node.kind != Kind::Foreign);
                let field = |(key, kind): (usize, &Kind)| Field { key, value: self.add(kind, stack, content, layout) };
                Value::Batch(kept.map(|node| (node.key, &node.kind)).map(field).collect())
            }
        }
    }

    /// Returns the top-level keys and their values.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the top-level key of an array; None for a nested array.
    #[must_use]
    pub fn key_of(&self, array: usize) -> Option<usize> {
        self.fields.iter().find(|field| field.value == Value::Array(array)).map(|field| field.key)
    }

    /// Adds an array of `content` with the dtype and shape of `leaf`, and returns its number.
    fn push(&mut self, layout: &Layout, content: Content, leaf: usize, stack: usize) -> usize {
        let stacked = (stack > 1).then_some(stack);
        self.arrays.push(PlannedArray {
            content,
            stack,
            leaf,
            shape: stacked.into_iter().chain(layout.leaves()[leaf].shape.iter().copied()).collect(),
            bytes: layout.output_bytes(content, stack),
            twin: shared_twin(layout, content, stack),
        });
        self.arrays.len() - 1
    }

    /// Returns the arrays, in the order of their numbers.
    #[must_use]
    pub fn arrays(&self) -> &[PlannedArray] {
        &self.arrays
    }

    /// Returns whether some arrays of obs and obs_next may share a block.
    #[must_use]
    pub fn may_share(&self) -> bool {
        self.arrays.iter().any(|array| array.twin.is_some())
    }

    /// Returns the pairs of arrays that share blocks for the rows at `index`.
    #[must_use]
    pub fn shared_pairs(&self, gatherer: Gatherer<'_>, index: &[i64]) -> Vec<SharedPair> {
        let mut pairs = Vec::new();
        for (obs, array) in self.arrays.iter().enumerate() {
            let Some((twin, false)) = array.twin else { continue };
            let next = self.arrays.iter().position(|other| other.twin == Some((twin, true)));
            if let Some(next) = next.filter(|_| !index.is_empty() && gatherer.shifts(index, twin, array.stack)) {
                let block = Content::Block(twin);
                let bytes = gatherer.layout().output_bytes(block, array.stack);
                let frame = bytes / (array.shape[0] + 1);
                pairs.push(SharedPair { obs, next, block, bytes, frame });
            }
        }
        pairs
    }
}

/// Returns the keys of a transition, and other keys of columns.
fn all_keys<D>(schema: &Schema<D>) -> Vec<&str> {
    let outermost = schema.root().iter().map(|node| schema.keys()[node.key].as_str());
    let beside = outermost.filter(|key| !TRANSITION_KEYS.contains(key));
    TRANSITION_KEYS.iter().copied().chain(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlfast_core::replay::layout::Leaf;

    fn layout(obs: &[usize], save_obs_next: bool) -> Layout {
        let leaf = |name: &str, dtype: &str, itemsize: usize, shape: &[usize]| Leaf {
            path: vec![name.to_owned()],
            dtype: dtype.to_owned(),
            itemsize,
            shape: shape.to_vec(),
        };
        let mut leaves = vec![leaf("obs", "|u1", 1, obs), leaf("rew", "<f8", 8, &[])];
        for flag in ["terminated", "truncated", "done"] {
            leaves.push(leaf(flag, "|b1", 1, &[]));
        }
        leaves.push(leaf("obs_next", "|u1", 1, obs));
        Layout::new(leaves, save_obs_next, false).unwrap()
    }

    fn plan(layout: &Layout, stack: usize) -> Plan {
        let mut plan = Plan::default();
        for (leaf, name) in layout.leaves().iter().enumerate() {
            plan.push(layout, Content::Leaf(leaf), leaf, stack_of(name.root(), stack));
        }
        plan
    }

    #[test]
    fn a_stack_is_the_first_axis_of_obs_alone() {
        let layout = layout(&[40, 40], true);
        let plan = plan(&layout, 4);
        assert_eq!((&plan.arrays()[0].shape[..], plan.arrays()[0].bytes), (&[4, 40, 40][..], 6400));
        assert_eq!((&plan.arrays()[1].shape[..], plan.arrays()[1].bytes), (&[][..], 8));
    }

    #[test]
    fn stacked_frames_of_some_size_may_share_a_block() {
        assert!(plan(&layout(&[32, 32], true), 4).may_share());
        assert!(!plan(&layout(&[32, 31], true), 4).may_share());
        assert!(!plan(&layout(&[32, 32], true), 1).may_share());
    }

    #[test]
    fn numbers_are_those_of_the_arrays_in_their_order() {
        let layout = layout(&[3], true);
        let mut plan = Plan::default();
        assert_eq!(plan.push(&layout, Content::Leaf(1), 1, 1), 0);
        assert_eq!(plan.push(&layout, Content::Leaf(0), 0, 1), 1);
        assert_eq!(plan.arrays()[1].leaf, 0);
    }

    fn nested(save_obs_next: bool) -> (Schema<()>, Layout) {
        let column = |path: &[&str], dtype: &str, itemsize: usize| {
            let path = path.iter().map(|&key| key.to_owned()).collect();
            Column::new(Leaf { path, dtype: dtype.to_owned(), itemsize, shape: Vec::new() }, None, ())
        };
        let flag = || column(&["done"], "|b1", 1);
        let mut columns =
            vec![column(&["obs", "a"], "<f4", 4), column(&["extra"], "<f4", 4), column(&["rew"], "<f8", 8)];
        columns.extend(["terminated", "truncated"].map(|name| column(&[name], "|b1", 1)));
        let foreign = vec![vec!["obs".to_owned(), "kept".to_owned()], vec!["info".to_owned()]];
        let schema = Schema::new(save_obs_next).with(columns, foreign, flag()).unwrap();
        let leaves = schema.columns().iter().map(|column| column.leaf.clone()).collect();
        (schema, Layout::new(leaves, save_obs_next, false).unwrap())
    }

    #[test]
    fn a_plan_has_the_keys_of_a_transition_and_those_of_other_columns() {
        let (schema, layout) = nested(true);
        let plan = Plan::new(&schema, &layout, None, 1).unwrap();
        let keys: Vec<_> = plan.fields().iter().map(|field| schema.keys()[field.key].as_str()).collect();
        assert_eq!(keys, TRANSITION_KEYS.iter().copied().chain(["extra"]).collect::<Vec<_>>());
        let a = Field { key: schema.key("a").unwrap(), value: Value::Array(0) };
        assert_eq!(plan.fields()[0].value, Value::Batch(vec![a]));
        for empty in ["act", "obs_next", "info", "policy"] {
            let at = TRANSITION_KEYS.iter().position(|&key| key == empty).unwrap();
            assert_eq!(plan.fields()[at].value, Value::Batch(vec![]), "{empty}");
        }
        assert_eq!((plan.key_of(0), plan.key_of(1)), (None, schema.key("rew")));
    }

    #[test]
    fn obs_next_is_planned_from_obs_where_it_is_not_kept() {
        let (schema, layout) = nested(false);
        let plan = Plan::new(&schema, &layout, Some(&["obs_next".to_owned()]), 1).unwrap();
        assert_eq!((plan.fields().len(), plan.arrays().len()), (1, 1));
        assert_eq!(plan.arrays()[0].content, layout.next_content(0));
        assert!(matches!(Plan::new(&schema, &layout, Some(&["nowhere".to_owned()]), 1), Err(Error::Key(_))));
    }

    #[test]
    fn whole_rows_have_an_array_for_each_column_and_the_keys_of_a_transition() {
        let column = |path: &[&str]| {
            let path = path.iter().map(|&key| key.to_owned()).collect();
            Column::new(Leaf { path, dtype: "<f4".to_owned(), itemsize: 4, shape: Vec::new() }, None, ())
        };
        let columns = vec![column(&["extra"]), column(&["obs", "a"]), column(&["obs", "b"])];
        let schema = Schema::new(true).with(columns, Vec::new(), column(&["done"])).unwrap();
        let plan = Plan::whole(&schema, 4);
        let shapes: Vec<_> = plan.arrays().iter().map(|array| (array.leaf, &array.shape[..], array.bytes)).collect();
        assert_eq!(shapes, [(0, &[][..], 4), (1, &[4], 16), (2, &[4], 16)]);
        let named: Vec<_> = plan
            .fields()
            .iter()
            .map(|field| {
                let arrays = match &field.value {
                    Value::Array(at) => vec![*at],
                    Value::Batch(inner) => inner
                        .iter()
                        .map(|inner| if let Value::Array(at) = inner.value { at } else { usize::MAX })
                        .collect(),
                };
                (schema.keys()[field.key].as_str(), arrays)
            })
            .filter(|(key, arrays)| !arrays.is_empty() || *key == "info")
            .collect();
        assert_eq!(named, [("obs", vec![1, 2]), ("info", vec![]), ("extra", vec![0])]);
    }
}
