//! The columns as Python names them.

use rlfast_core::replay::Replay as Engine;
use rlfast_core::replay::layout::Leaf;
use rlfast_host::schema::{self, Schema};
use rlfast_host::session::{HostColumns, Session};

use crate::array::number_type;
use crate::objects::ObjectColumn;
use crate::prelude::*;

/// A column's dtype in NumPy.
#[derive(Debug)]
pub struct Dtype {
    /// The dtype.
    pub descr: Py<PyArrayDescr>,
    /// The type of its scalars, if those hold the very bytes of the column in eight at most.
    pub scalar: Option<Py<PyType>>,
}

/// One column.
pub type Column = schema::Column<Arc<Dtype>>;

/// The keys from the outermost to that of a column.
pub type KeyPath = Items<String>;

/// A column of the caller: its path, dtype and shape.
pub type ColumnSpec<'py> = (KeyPath, Object<'py>, Items<usize>);

/// A column of objects of the caller: its path, and the array for it.
pub type ObjectSpec<'py> = (KeyPath, Object<'py>);

/// The engine, and its columns as Python names them. Nothing of it calls Python.
pub type State = Session<Columns>;

/// All columns.
#[derive(Debug)]
pub struct Columns {
    /// The columns and their paths.
    pub schema: Schema<Arc<Dtype>>,
    /// The keys of the schema.
    pub keys: Vec<Py<PyString>>,
    /// The type of nested values, besides dict.
    pub batch: Py<PyType>,
    /// The columns of objects.
    pub objects: Vec<ObjectColumn>,
    /// How often the columns were changed.
    pub version: u64,
}

impl Columns {
    /// The columns of a schema.
    pub fn new(py: Python<'_>, batch: Py<PyType>, schema: Schema<Arc<Dtype>>) -> Self {
        let keys = schema.keys().iter().map(|key| PyString::intern(py, key).unbind()).collect();
        Self { keys, batch, schema, objects: Vec::new(), version: 0 }
    }

    /// The next version of these columns.
    fn changed(&self, py: Python<'_>, schema: Schema<Arc<Dtype>>) -> Self {
        let objects = self.objects.iter().map(|column| column.clone_ref(py)).collect();
        Self { objects, version: self.version + 1, ..Self::new(py, self.batch.clone_ref(py), schema) }
    }

    /// These columns with others after them, and without those at `retired` and below.
    pub fn with(
        &self,
        py: Python<'_>,
        columns: &[ColumnSpec<'_>],
        objects: &[ObjectSpec<'_>],
        retired: &[Vec<String>],
        total: usize,
    ) -> PyResult<Self> {
        let columns = columns.iter().map(|(path, dtype, shape)| column(py, path.0.clone(), dtype, shape.0.clone()));
        let flag = column(py, vec!["done".to_owned()], numpy::dtype::<bool>(py).as_any(), Vec::new())?;
        let objects = objects.iter().map(|(path, array)| ObjectColumn::new(path.0.clone(), array, total));
        let objects = objects.collect::<PyResult<Vec<_>>>()?;
        let is_final =
            |path: &[String]| !self.schema.saves_obs_next() && path.first().is_some_and(|key| key == "obs_next");
        let foreign = objects.iter().map(|column| column.path.clone()).filter(|path| !is_final(path));
        let kept = self.schema.without(retired).python()?;
        let schema = kept.with(columns.collect::<PyResult<_>>()?, foreign.collect(), flag).python()?;
        let mut columns = self.changed(py, schema);
        columns.objects.retain(|column| !retired.iter().any(|gone| column.path.starts_with(gone)));
        columns.objects.extend(objects);
        Ok(columns)
    }

    /// The columns of a restored engine. Those known before keep their Python dtypes.
    pub fn restored(&self, py: Python<'_>, engine: &Engine) -> PyResult<Self> {
        let mut columns = Vec::new();
        for leaf in engine.leaves() {
            let damaged = |text: String| raised!(PyValueError, "the snapshot is damaged: dtype {}{text}", leaf.dtype);
            let dtype = dtype_of(py, &leaf.dtype).map_err(|error| damaged(format!(": {error}")))?;
            if dtype.itemsize() != leaf.itemsize || dtype.has_object() {
                return Err(damaged(format!(" of {} bytes", leaf.itemsize)));
            }
            columns.push(column(py, leaf.path.clone(), dtype.as_any(), leaf.shape.clone())?);
        }
        let schema = self.schema.restored(columns, engine.config().save_obs_next).python()?;
        Ok(self.changed(py, schema))
    }

    /// Checks that there are no objects, which only `add` and `load` write.
    ///
    /// # Errors
    /// `SchemaMismatch`.
    #[inline]
    pub fn check_plain(&self) -> PyResult<()> {
        match self.objects.first() {
            None => Ok(()),
            Some(column) => mismatch!("{} is a column of objects", column.path.join(".")),
        }
    }

    /// The dtype of a column.
    pub fn descr<'py>(&self, py: Python<'py>, column: usize) -> &Bound<'py, PyArrayDescr> {
        self.schema.columns()[column].dtype.descr.bind(py)
    }
}

impl HostColumns for Columns {
    type Dtype = Arc<Dtype>;

    fn schema(&self) -> &Schema<Arc<Dtype>> {
        &self.schema
    }

    fn schema_mut(&mut self) -> &mut Schema<Arc<Dtype>> {
        &mut self.schema
    }
}

fn column(py: Python<'_>, path: Vec<String>, dtype: &Object<'_>, shape: Vec<usize>) -> PyResult<Column> {
    let descr = PyArrayDescr::new(py, dtype)?;
    if descr.has_object() {
        // The engine copies bytes, and would make objects of those that a file or another process wrote.
        return Err(raised!(
            PyTypeError,
            "{}: columns hold numbers, got {descr}, which has references",
            path.join(".")
        ));
    }
    // A structured dtype needs more than its size to be made again.
    let name: String = match descr.getattr("names")?.is_none() {
        true => descr.getattr("str")?.extract()?,
        false => descr.getattr("descr")?.repr()?.extract()?,
    };
    let number = number_type(&descr);
    let scalar = number.map(|_| descr.typeobj().unbind());
    let leaf = Leaf { path, dtype: name, itemsize: descr.itemsize(), shape };
    Ok(Column::new(leaf, number, Arc::new(Dtype { descr: descr.unbind(), scalar })))
}

/// The dtype that a column is named by.
fn dtype_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDescr>> {
    if name.starts_with('[') {
        return PyArrayDescr::new(py, py.import("ast")?.call_method1("literal_eval", (name,))?);
    }
    PyArrayDescr::new(py, name)
}
