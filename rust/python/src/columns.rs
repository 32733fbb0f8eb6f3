//! The columns as Python names them.

use numpy::npyffi::types::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use rlfast_core::convert::NumberType;
use rlfast_core::replay::layout::{Leaf, MAX_DEPTH};

use crate::array::number_type;
use crate::items::Items;

/// What `append` takes, in its order.
pub const KEYWORDS: [&str; 6] = ["obs", "act", "rew", "terminated", "truncated", "obs_next"];

/// A key of the nested rows.
#[derive(Debug)]
pub struct Node {
    /// The key.
    pub name: Py<PyString>,
    /// What stands there.
    pub kind: Kind,
}

/// What stands at a key.
#[derive(Debug)]
pub enum Kind {
    /// The column with this number.
    Leaf(usize),
    /// Something that the caller keeps.
    Foreign,
    /// More keys.
    Group(Vec<Node>),
}

impl Kind {
    /// Whether nothing here is a column.
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Leaf(_) => false,
            Self::Foreign => true,
            Self::Group(nodes) => nodes.iter().all(|node| node.kind.is_foreign()),
        }
    }
}

/// How a leaf is read from what is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As it is.
    Plain,
    /// As doubles.
    Reward,
    /// As flags.
    Terminated,
    /// As flags.
    Truncated,
    /// `done` is worked out, never read.
    Ignored,
}

/// One column.
#[derive(Debug)]
pub struct Column {
    /// Its path, dtype and shape, as the engine knows them.
    pub leaf: Leaf,
    /// Its dtype.
    pub descr: Py<PyArrayDescr>,
    /// The type of its numbers; None if it does not hold plain numbers in this machine's order of bytes.
    pub(crate) number: Option<NumberType>,
    /// The type of its scalars, if those hold the very bytes of the column in eight at most.
    pub(crate) scalar: Option<Py<PyType>>,
    pub(crate) dims: Vec<npy_intp>,
    pub(crate) role: Role,
}

/// All columns.
#[derive(Debug)]
pub struct Columns {
    /// The keys.
    pub root: Vec<Node>,
    /// The columns, by number.
    pub columns: Vec<Column>,
    pub(crate) batch: Py<PyType>,
    pub(crate) save_obs_next: bool,
    /// Whether a row may come without `obs_next`, as the engine then takes the next row's `obs`.
    pub(crate) may_lack_next: bool,
    /// Without `save_obs_next`: the keys of the columns that hold the `obs_next` of rows which end an episode.
    pub(crate) finals: Vec<Node>,
    /// Whether `info` has no columns.
    pub(crate) lacks_info: bool,
    /// Whether `policy` has no columns.
    pub(crate) lacks_policy: bool,
    /// Which of `root` each of [`KEYWORDS`] names.
    pub(crate) by_keyword: [Option<usize>; KEYWORDS.len()],
    /// A column that none of them names.
    pub(crate) beside_keywords: Option<String>,
}

impl Column {
    fn new(py: Python<'_>, path: &Bound<'_, PyTuple>, dtype: &Bound<'_, PyAny>, shape: Vec<usize>) -> PyResult<Self> {
        let path = keys(path)?;
        let descr = PyArrayDescr::new(py, dtype)?;
        // A structured dtype needs more than its size to be made again.
        let name: String = match descr.getattr("names")?.is_none() {
            true => descr.getattr("str")?.extract()?,
            false => descr.getattr("descr")?.repr()?.extract()?,
        };
        let role = match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["rew"] => Role::Reward,
            ["terminated"] => Role::Terminated,
            ["truncated"] => Role::Truncated,
            ["done"] => Role::Ignored,
            _ => Role::Plain,
        };
        let number = number_type(descr.num()).filter(|_| descr.is_native_byteorder() != Some(false));
        let scalar = number.map(|_| descr.typeobj().unbind());
        Ok(Self {
            dims: shape.iter().map(|&n| n as npy_intp).collect(),
            leaf: Leaf { path, dtype: name, itemsize: descr.itemsize(), shape },
            descr: descr.unbind(),
            number,
            scalar,
            role,
        })
    }
}

impl Column {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            leaf: self.leaf.clone(),
            descr: self.descr.clone_ref(py),
            scalar: self.scalar.as_ref().map(|scalar| scalar.clone_ref(py)),
            dims: self.dims.clone(),
            ..*self
        }
    }

    /// The column of an `obs` leaf's `obs_next`.
    fn as_next(&self, py: Python<'_>) -> Self {
        let mut next = self.clone_ref(py);
        "obs_next".clone_into(&mut next.leaf.path[0]);
        next
    }
}

impl Columns {
    /// No columns; `batch` is the type of nested values, besides dict.
    pub fn new(batch: Py<PyType>, save_obs_next: bool) -> Self {
        Self {
            root: Vec::new(),
            columns: Vec::new(),
            batch,
            save_obs_next,
            may_lack_next: false,
            finals: Vec::new(),
            lacks_info: true,
            lacks_policy: true,
            by_keyword: [None; KEYWORDS.len()],
            beside_keywords: None,
        }
    }

    /// These columns with others after them.
    pub fn with(
        &self,
        py: Python<'_>,
        columns: &[(Bound<'_, PyTuple>, Bound<'_, PyAny>, Items<usize>)],
        foreign: &[Bound<'_, PyTuple>],
    ) -> PyResult<Self> {
        let mut all: Vec<Column> = self.columns.iter().map(|column| column.clone_ref(py)).collect();
        for (path, dtype, shape) in columns {
            let column = Column::new(py, path, dtype, shape.0.clone())?;
            if self.save_obs_next || column.leaf.root() != "obs_next" {
                all.push(column);
            }
        }
        let has = |name: &str| all.iter().any(|c| c.leaf.path == [name]);
        if has("terminated") && !has("done") {
            let flag = numpy::dtype::<bool>(py).into_any();
            all.push(Column::new(py, &PyTuple::new(py, ["done"])?, &flag, Vec::new())?);
        }
        if self.columns.is_empty() && !self.save_obs_next {
            let observed = all.iter().filter(|column| column.leaf.root() == "obs");
            let finals: Vec<Column> = observed.map(|column| column.as_next(py)).collect();
            all.extend(finals);
        }
        self.arranged(py, all, foreign)
    }

    /// So many columns, in the order of the engine's leaves, and foreign keys beside those known.
    fn arranged(&self, py: Python<'_>, columns: Vec<Column>, foreign: &[Bound<'_, PyTuple>]) -> PyResult<Self> {
        let (mut root, mut finals) = (Tree::default(), Tree::default());
        for (at, column) in columns.iter().enumerate() {
            (if self.is_final(column) { &mut finals } else { &mut root }).insert(&column.leaf.path, Some(at));
        }
        let mut kept = Vec::new();
        collect_foreign(py, &self.root, &mut Vec::new(), &mut kept)?;
        for path in foreign {
            kept.push(keys(path)?);
        }
        for path in &kept {
            root.insert(path, None);
        }
        let mut all = Self::new(self.batch.clone_ref(py), self.save_obs_next);
        (all.columns, all.root, all.finals) = (columns, root.nodes(py), finals.nodes(py));
        all.index_keys(py)?;
        Ok(all)
    }

    /// Notes which keys stand where, for the quick ways in.
    fn index_keys(&mut self, py: Python<'_>) -> PyResult<()> {
        let names = self.root.iter().map(|node| node.name.extract::<String>(py)).collect::<PyResult<Vec<_>>>()?;
        let place = |key: &str| names.iter().position(|name| name == key);
        (self.lacks_info, self.lacks_policy) = (place("info").is_none(), place("policy").is_none());
        self.by_keyword = KEYWORDS.map(place);
        self.beside_keywords = names.into_iter().find(|name| name != "done" && !KEYWORDS.contains(&name.as_str()));
        Ok(())
    }

    /// Values in one reward, and whether it is one number and not one for each agent.
    pub fn agents(&self) -> (usize, bool) {
        let reward = self.columns.iter().find(|column| column.role == Role::Reward);
        reward.map_or((1, true), |reward| (reward.leaf.nbytes() / 8, reward.dims.is_empty()))
    }

    /// Bytes of a row, in all columns.
    pub fn row_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.leaf.nbytes()).sum()
    }

    /// Whether `obs_next` is the next row's `obs` by the user's wish.
    pub fn ignores_obs_next(&self) -> bool {
        !self.save_obs_next
    }

    /// The columns of a restored engine. Those known before keep their Python dtypes.
    pub fn restored(&self, py: Python<'_>, engine: &rlfast_core::replay::Replay) -> PyResult<Self> {
        let mut columns = Vec::new();
        for leaf in engine.table().map_or(&[][..], |table| table.layout().leaves()) {
            let path = PyTuple::new(py, &leaf.path)?;
            let dtype = dtype_of(py, &leaf.dtype).map_err(|error| {
                PyValueError::new_err(format!("the snapshot is damaged: dtype {}: {error}", leaf.dtype))
            })?;
            if dtype.itemsize() != leaf.itemsize || dtype.has_object() {
                return Err(PyValueError::new_err(format!(
                    "the snapshot is damaged: dtype {} of {} bytes",
                    leaf.dtype, leaf.itemsize
                )));
            }
            columns.push(Column::new(py, &path, dtype.as_any(), leaf.shape.clone())?);
        }
        let mut known = Self::new(self.batch.clone_ref(py), engine.config().save_obs_next);
        let mut foreign = Vec::new();
        collect_foreign(py, &self.root, &mut Vec::new(), &mut foreign)?;
        let foreign = foreign.iter().map(|path| PyTuple::new(py, path)).collect::<PyResult<Vec<_>>>()?;
        known = known.arranged(py, columns, &foreign)?;
        known.look_at(engine);
        Ok(known)
    }

    /// Notes what the engine makes of the columns.
    pub fn look_at(&mut self, engine: &rlfast_core::replay::Replay) {
        self.may_lack_next = self.save_obs_next && engine.table().is_some_and(|table| table.layout().linked());
    }

    /// The columns that rows are given and told by: neither `done`, which is worked out, nor what only the ends of episodes have.
    pub fn shown(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.leaf.path != ["done"] && !self.is_final(column))
    }

    /// The columns of what only the ends of episodes have.
    pub fn finals(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| self.is_final(column))
    }

    fn is_final(&self, column: &Column) -> bool {
        !self.save_obs_next && column.leaf.root() == "obs_next"
    }
}

/// The keys from the outermost to that of a column.
pub struct Path(pub Vec<String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Path {
    type Error = PyErr;

    fn extract(path: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(keys(&path.to_owned().cast_into::<PyTuple>()?)?))
    }
}

/// The keys of a path. They become trees that are walked by recursion, so they are few.
fn keys(path: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
    match path.len() {
        depth if depth > MAX_DEPTH => {
            Err(PyValueError::new_err(format!("a column is nested at most {MAX_DEPTH} deep, got one at depth {depth}")))
        }
        _ => path.extract(),
    }
}

/// The dtype that a column is named by.
fn dtype_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDescr>> {
    if name.starts_with('[') {
        return PyArrayDescr::new(py, py.import("ast")?.call_method1("literal_eval", (name,))?);
    }
    PyArrayDescr::new(py, name)
}

/// Keys that are being put in order.
#[derive(Default)]
struct Tree {
    children: Vec<(String, Branch)>,
}

enum Branch {
    Leaf(Option<usize>),
    Group(Tree),
}

impl Tree {
    fn insert(&mut self, path: &[String], leaf: Option<usize>) {
        let Some((key, rest)) = path.split_first() else { return };
        if rest.is_empty() {
            self.children.push((key.clone(), Branch::Leaf(leaf)));
            return;
        }
        let at = self.children.iter().position(|(name, branch)| name == key && matches!(branch, Branch::Group(_)));
        let at = at.unwrap_or_else(|| {
            self.children.push((key.clone(), Branch::Group(Self::default())));
            self.children.len() - 1
        });
        if let Branch::Group(group) = &mut self.children[at].1 {
            group.insert(rest, leaf);
        }
    }

    fn nodes(self, py: Python<'_>) -> Vec<Node> {
        let node = |(name, branch): (String, Branch)| Node {
            name: PyString::intern(py, &name).unbind(),
            kind: match branch {
                Branch::Leaf(Some(at)) => Kind::Leaf(at),
                Branch::Leaf(None) => Kind::Foreign,
                Branch::Group(group) => Kind::Group(group.nodes(py)),
            },
        };
        self.children.into_iter().map(node).collect()
    }
}

fn collect_foreign(py: Python<'_>, nodes: &[Node], path: &mut Vec<String>, out: &mut Vec<Vec<String>>) -> PyResult<()> {
    for node in nodes {
        path.push(node.name.bind(py).to_str()?.to_owned());
        match &node.kind {
            Kind::Foreign => out.push(path.clone()),
            Kind::Group(nodes) => collect_foreign(py, nodes, path, out)?,
            Kind::Leaf(_) => {}
        }
        path.pop();
    }
    Ok(())
}
