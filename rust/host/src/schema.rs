//! The schema of rows: the columns by the keys of nested rows.
//!
//! `D` is additional information of the host about a column, such as its object for the dtype.

use std::collections::HashMap;

use rlfast_core::convert::NumberType;
use rlfast_core::error::{Result, value_error};
use rlfast_core::replay::layout::{Leaf, MAX_DEPTH};

/// Keys of a transition, in the order of its fields. A transition always has all of them, possibly empty.
pub const TRANSITION_KEYS: [&str; 9] =
    ["obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy"];

/// A key of nested rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of the key in [`Schema::keys`].
    pub key: usize,
    /// The value at the key.
    pub kind: Kind,
}

/// The value at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The column with this number.
    Leaf(usize),
    /// An object leaf, which the caller stores.
    Foreign,
    /// More keys.
    Group(Vec<Node>),
}

impl Kind {
    /// Returns whether it has no column.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Leaf(_) => false,
            Self::Foreign => true,
            Self::Group(nodes) => nodes.iter().all(|node| node.kind.is_foreign()),
        }
    }
}

/// How the values of a column are converted when rows are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// They are copied.
    Plain,
    /// They are converted to doubles.
    Reward,
    /// As flags.
    Terminated,
    /// As flags.
    Truncated,
    /// They are ignored, as `done` is computed from the other flags.
    Ignored,
}

impl Role {
    fn of(path: &[String]) -> Self {
        match path {
            [only] => match only.as_str() {
                "rew" => Self::Reward,
                "terminated" => Self::Terminated,
                "truncated" => Self::Truncated,
                "done" => Self::Ignored,
                _ => Self::Plain,
            },
            _ => Self::Plain,
        }
    }
}

/// One column.
#[derive(Clone, Debug)]
pub struct Column<D> {
    /// Its path, dtype and shape, as the engine knows them.
    pub leaf: Leaf,
    /// The type of its numbers; None if they are not plain numbers in this machine's byte order.
    pub number: Option<NumberType>,
    /// The host's information about its dtype.
    pub dtype: D,
    role: Role,
}

impl<D> Column<D> {
    /// Returns the column of `leaf`.
    pub fn new(leaf: Leaf, number: Option<NumberType>, dtype: D) -> Self {
        Self { role: Role::of(&leaf.path), leaf, number, dtype }
    }

    /// Returns how its values are converted.
    #[must_use]
    #[inline]
    pub fn role(&self) -> Role {
        self.role
    }
}

/// All columns and their keys.
#[derive(Clone, Debug)]
pub struct Schema<D> {
    keys: Vec<String>,
    columns: Vec<Column<D>>,
    root: Vec<Node>,
    finals: Vec<Node>,
    save_obs_next: bool,
    /// Where each key of a transition is among the outermost nodes.
    places: [Option<usize>; TRANSITION_KEYS.len()],
    /// The key of a column that no step by keywords has.
    beside: Option<usize>,
    /// Whether a row is linked to the next one's `obs`.
    linked: bool,
}

impl<D: Clone> Schema<D> {
    /// Returns a schema without columns. Without `save_obs_next`, `obs_next` is the next row's `obs`, and only rows
    /// that end an episode have their own.
    #[must_use]
    pub fn new(save_obs_next: bool) -> Self {
        let keys = TRANSITION_KEYS.map(str::to_owned).to_vec();
        let (root, finals) = (Vec::new(), Vec::new());
        Self {
            keys,
            columns: Vec::new(),
            root,
            finals,
            save_obs_next,
            places: Default::default(),
            beside: None,
            linked: false,
        }
    }

    /// Returns this schema with more columns, and with the keys at `foreign`, whose values the caller stores. `flag` is
    /// the column `done`, which exists if `terminated` does.
    ///
    /// # Errors
    /// `Value` for a path that is too deep.
    pub fn with(&self, columns: Vec<Column<D>>, foreign: Vec<Vec<String>>, flag: Column<D>) -> Result<Self> {
        let mut all = self.columns.clone();
        all.extend(columns.into_iter().filter(|column| self.save_obs_next || column.leaf.root() != "obs_next"));
        let has = |name: &str| all.iter().any(|column| column.leaf.path == [name]);
        if has("terminated") && !has("done") {
            all.push(flag);
        }
        if self.columns.is_empty() && !self.save_obs_next {
            let observed = all.iter().filter(|column| column.leaf.root() == "obs");
            let finals: Vec<_> = observed.cloned().map(into_next).collect();
            all.extend(finals);
        }
        self.arranged(all, [self.foreign(), foreign].concat())
    }

    /// Returns this schema without the columns and the foreign keys at `paths` and below them. The columns are retired.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub fn without(&self, paths: &[Vec<String>]) -> Result<Self> {
        let is_gone = |path: &[String]| paths.iter().any(|gone| path.starts_with(gone));
        let mut columns = self.columns.clone();
        for (number, column) in columns.iter_mut().enumerate() {
            if is_gone(&column.leaf.path) {
                column.leaf.retire(number);
            }
        }
        let foreign = self.foreign().into_iter().filter(|path| !is_gone(path)).collect();
        self.arranged(columns, foreign)
    }

    /// Returns a schema of exactly these columns, which a restored engine has, and of the present foreign keys.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub fn restored(&self, columns: Vec<Column<D>>, save_obs_next: bool) -> Result<Self> {
        Self { save_obs_next, columns: Vec::new(), ..self.clone() }.arranged(columns, self.foreign())
    }

    /// Returns a schema of columns, in the order of the engine's leaves, and of foreign keys.
    fn arranged(&self, columns: Vec<Column<D>>, foreign: Vec<Vec<String>>) -> Result<Self> {
        let mut arranged = Self::new(self.save_obs_next);
        let mut numbers = arranged.keys.iter().cloned().enumerate().map(|(at, key)| (key, at)).collect();
        for (at, column) in columns.iter().enumerate().filter(|(_, column)| !column.leaf.is_retired()) {
            arranged.insert(&mut numbers, &column.leaf.path, Kind::Leaf(at), arranged.is_final(column))?;
        }
        for path in &foreign {
            arranged.insert(&mut numbers, path, Kind::Foreign, false)?;
        }
        arranged.columns = columns;
        arranged.places = std::array::from_fn(|key| arranged.root.iter().position(|node| node.key == key));
        let last = TRANSITION_KEYS.iter().position(|&key| key == "obs_next");
        arranged.beside = arranged.root.iter().map(|node| node.key).find(|&key| Some(key) > last);
        Ok(arranged)
    }

    /// Inserts a path. `numbers` are those of the keys.
    fn insert(
        &mut self,
        numbers: &mut HashMap<String, usize>,
        path: &[String],
        kind: Kind,
        is_final: bool,
    ) -> Result<()> {
        if path.len() > MAX_DEPTH {
            return value_error!("a column is nested at most {MAX_DEPTH} deep, got one at depth {}", path.len());
        }
        let Some((last, groups)) = path.split_last() else { return Ok(()) };
        let keys: Vec<usize> = groups.iter().map(|name| self.key_of(numbers, name)).collect();
        let last = self.key_of(numbers, last);
        let mut nodes = if is_final { &mut self.finals } else { &mut self.root };
        for key in keys {
            let at = nodes.iter().position(|node| node.key == key && matches!(node.kind, Kind::Group(_)));
            let at = at.unwrap_or_else(|| {
                nodes.push(Node { key, kind: Kind::Group(Vec::new()) });
                nodes.len() - 1
            });
            let Kind::Group(inner) = &mut nodes[at].kind else { unreachable!("found or made as a group") };
            nodes = inner;
        }
        nodes.push(Node { key: last, kind });
        Ok(())
    }

    /// Returns the number of a key, which is added if it is new.
    fn key_of(&mut self, numbers: &mut HashMap<String, usize>, name: &str) -> usize {
        if let Some(&number) = numbers.get(name) {
            return number;
        }
        self.keys.push(name.to_owned());
        numbers.insert(name.to_owned(), self.keys.len() - 1);
        self.keys.len() - 1
    }

    /// Returns the paths of the foreign keys.
    fn foreign(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        self.collect_foreign(&self.root, &mut Vec::new(), &mut found);
        found
    }

    fn collect_foreign(&self, nodes: &[Node], path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        for node in nodes {
            path.push(self.keys[node.key].clone());
            match &node.kind {
                Kind::Foreign => found.push(path.clone()),
                Kind::Group(nodes) => self.collect_foreign(nodes, path, found),
                Kind::Leaf(_) => {}
            }
            path.pop();
        }
    }
}

impl<D> Schema<D> {
    /// Returns all keys: those of a transition, in their order, and others. Nodes refer to keys by their position.
    #[must_use]
    #[inline]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns the number of a key; None for an unknown key.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|key| key == name)
    }

    /// Returns the columns, by number.
    #[must_use]
    #[inline]
    pub fn columns(&self) -> &[Column<D>] {
        &self.columns
    }

    /// Returns the top-level nodes.
    #[must_use]
    #[inline]
    pub fn root(&self) -> &[Node] {
        &self.root
    }

    /// Returns the top-level node with a name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.root.iter().find(|node| self.keys[node.key] == name)
    }

    /// Returns, without `save_obs_next`, the keys of columns with the `obs_next` of rows that end an episode.
    #[must_use]
    #[inline]
    pub fn finals(&self) -> &[Node] {
        &self.finals
    }

    /// Returns whether all rows have their own `obs_next`.
    #[must_use]
    #[inline]
    pub fn saves_obs_next(&self) -> bool {
        self.save_obs_next
    }

    /// Records whether the engine links a row to the next one's `obs`.
    pub fn set_linked(&mut self, linked: bool) {
        self.linked = linked;
    }

    /// Returns whether a row may come without `obs_next`, as the engine then takes the next row's `obs`.
    #[must_use]
    #[inline]
    pub fn may_lack_next(&self) -> bool {
        self.save_obs_next && self.linked
    }

    /// Returns a top-level key of none of the keys of a transition up to `obs_next`.
    #[must_use]
    #[inline]
    pub fn beside(&self) -> Option<&str> {
        self.beside.map(|key| self.keys[key].as_str())
    }

    /// Returns where a key of [`TRANSITION_KEYS`] is among the top-level nodes.
    #[must_use]
    #[inline]
    pub fn place(&self, key: usize) -> Option<usize> {
        self.places[key]
    }

    /// Returns whether a column has only the `obs_next` of rows that end an episode.
    #[must_use]
    #[inline]
    pub fn is_final(&self, column: &Column<D>) -> bool {
        !self.save_obs_next && column.leaf.root() == "obs_next"
    }

    /// Returns the columns that the caller sees: neither `done`, which is computed, nor retired ones, nor those of
    /// [`Self::finals`].
    pub fn shown(&self) -> impl Iterator<Item = &Column<D>> {
        let is_hidden = |column: &Column<D>| column.role == Role::Ignored || column.leaf.is_retired();
        self.columns.iter().filter(move |column| !is_hidden(column) && !self.is_final(column))
    }

    /// Returns the number of values of one reward, and whether it is a scalar.
    #[must_use]
    #[inline]
    pub fn agents(&self) -> (usize, bool) {
        let reward = self.columns.iter().find(|column| column.role == Role::Reward);
        reward.map_or((1, true), |reward| (reward.leaf.nbytes() / 8, reward.leaf.shape.is_empty()))
    }

    /// Returns the bytes of a row in all columns.
    #[must_use]
    #[inline]
    pub fn row_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.leaf.nbytes()).sum()
    }
}

/// Returns the column for the `obs_next` of an `obs` leaf.
fn into_next<D>(mut column: Column<D>) -> Column<D> {
    "obs_next".clone_into(&mut column.leaf.path[0]);
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(path: &[&str]) -> Column<()> {
        let path = path.iter().map(|&key| key.to_owned()).collect();
        Column::new(Leaf { path, dtype: "<f8".to_owned(), itemsize: 8, shape: Vec::new() }, None, ())
    }

    fn schema(save_obs_next: bool, paths: &[&[&str]], foreign: &[&[&str]]) -> Schema<()> {
        let foreign = foreign.iter().map(|path| path.iter().map(|&key| key.to_owned()).collect()).collect();
        let columns = paths.iter().map(|path| column(path)).collect();
        Schema::new(save_obs_next).with(columns, foreign, column(&["done"])).unwrap()
    }

    fn paths(schema: &Schema<()>) -> Vec<String> {
        schema.columns().iter().map(|column| column.leaf.path.join(".")).collect()
    }

    #[test]
    fn keys_that_share_a_group_stand_together() {
        let schema = schema(true, &[&["obs", "a"], &["act"], &["obs", "b", "c"]], &[&["obs", "b", "kept"]]);
        let key = |name| schema.key(name).unwrap();
        let leaf = |name, at| Node { key: key(name), kind: Kind::Leaf(at) };
        let inner = vec![leaf("c", 2), Node { key: key("kept"), kind: Kind::Foreign }];
        let obs = vec![leaf("a", 0), Node { key: key("b"), kind: Kind::Group(inner) }];
        assert_eq!(schema.root(), [Node { key: key("obs"), kind: Kind::Group(obs) }, leaf("act", 1)]);
        assert_eq!((key("obs"), schema.key("nowhere")), (0, None));
    }

    #[test]
    fn done_comes_with_terminated() {
        assert_eq!(paths(&schema(true, &[&["terminated"]], &[])), ["terminated", "done"]);
        assert_eq!(paths(&schema(true, &[&["terminated"], &["done"]], &[])), ["terminated", "done"]);
        assert_eq!(paths(&schema(true, &[&["act"]], &[])), ["act"]);
    }

    #[test]
    fn without_obs_next_the_ends_of_episodes_have_one() {
        let schema = schema(false, &[&["obs", "a"], &["obs_next", "a"], &["act"]], &[]);
        assert_eq!(paths(&schema), ["obs.a", "act", "obs_next.a"]);
        assert!(schema.node("obs_next").is_none() && schema.finals().len() == 1);
        assert_eq!(schema.shown().count(), 2);
        let later =
            schema.with(vec![column(&["obs_next", "b"]), column(&["extra"])], vec![], column(&["done"])).unwrap();
        assert_eq!(paths(&later), ["obs.a", "act", "obs_next.a", "extra"]);
    }

    #[test]
    fn foreign_keys_outlive_the_columns() {
        let schema = schema(true, &[&["act"]], &[&["info", "name"]]);
        for next in [
            schema.with(vec![column(&["rew"])], vec![], column(&["done"])),
            schema.restored(vec![column(&["x"])], true),
        ] {
            assert!(next.unwrap().node("info").is_some_and(|node| node.kind.is_foreign()));
        }
    }

    #[test]
    fn a_path_can_be_given_to_another_column() {
        let schema =
            schema(true, &[&["info", "a"], &["info", "ab"], &["act"]], &[&["info", "kept"], &["info", "d", "x"]]);
        let path = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        let less = schema.without(&[path(&["info", "a"]), path(&["info", "d"])]).unwrap();
        assert_eq!(less.columns().len(), 3);
        assert_eq!(less.shown().map(|column| column.leaf.path.join(".")).collect::<Vec<_>>(), ["info.ab", "act"]);
        assert_eq!(less.foreign(), [path(&["info", "kept"])]);
        let more = less.with(vec![column(&["info", "a"])], vec![path(&["info", "d"])], column(&["done"])).unwrap();
        assert_eq!(more.shown().last().unwrap().leaf.path, ["info", "a"]);
        let Kind::Group(info) = &more.node("info").unwrap().kind else { panic!("a group") };
        let a = more.key("a").unwrap();
        assert_eq!(
            info.iter().filter(|node| node.key == a).map(|node| &node.kind).collect::<Vec<_>>(),
            [&Kind::Leaf(3)]
        );
    }

    #[test]
    fn rewards_tell_how_many_agents_there_are() {
        assert_eq!(schema(true, &[&["rew"]], &[]).agents(), (1, true));
        let mut rewards = column(&["rew"]);
        rewards.leaf.shape = vec![3];
        let schema = Schema::new(true).with(vec![rewards, column(&["act"])], vec![], column(&["done"])).unwrap();
        assert_eq!((schema.agents(), schema.row_bytes()), ((3, false), 32));
        assert_eq!(Schema::<()>::new(true).agents(), (1, true));
    }

    #[test]
    fn paths_are_bounded() {
        let deep = vec!["key"; MAX_DEPTH + 1];
        let made = Schema::new(true).with(vec![column(&deep)], vec![], column(&["done"]));
        assert!(made.unwrap_err().to_string().contains("deep"));
    }
}
