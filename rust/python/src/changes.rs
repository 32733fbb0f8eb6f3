//! Whether modules of PyTorch are as they were when Python code looked at them.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};

use crate::once::names;
use crate::prelude::*;

/// An entry of a dict.
type Entry = (Py<PyDict>, Py<PyAny>);

/// What a computation from the structure of modules rests on.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Unchanged {
    attributes: Vec<(Py<PyDict>, usize)>,
    values: Vec<(Entry, Py<PyAny>)>,
    tensors: Vec<(Entry, usize)>,
    modules: Vec<(Py<PyAny>, bool)>,
    hooks: Vec<Py<PyAny>>,
    hooked: bool,
}

#[pymethods]
impl Unchanged {
    #[new]
    fn new(
        py: Python<'_>,
        attributes: Items<Bound<'_, PyDict>>,
        values: Items<(Bound<'_, PyDict>, Object<'_>)>,
        tensors: Items<(Bound<'_, PyDict>, Object<'_>)>,
        modules: Items<Object<'_>>,
        hooks: Items<Py<PyAny>>,
    ) -> PyResult<Self> {
        let attributes = attributes.0.into_iter().map(|held| (held.clone().unbind(), held.len())).collect();
        let entry = |(held, name): &(Bound<'_, PyDict>, Object<'_>)| (held.clone().unbind(), name.clone().unbind());
        let values = values.iter().map(|one| Ok((entry(one), one.0.as_any().get_item(&one.1)?.unbind())));
        let tensors = tensors.iter().map(|one| Ok((entry(one), address(&one.0.as_any().get_item(&one.1)?)?)));
        let (values, tensors) = (values.collect::<PyResult<_>>()?, tensors.collect::<PyResult<_>>()?);
        let modules = modules.0.into_iter().map(|one| Ok((one.clone().unbind(), mode(&one)?)));
        let modules = modules.collect::<PyResult<_>>()?;
        let mut made = Self { attributes, values, tensors, modules, hooks: hooks.0, hooked: false };
        made.hooked = made.has_hooks(py)?;
        Ok(made)
    }

    #[getter]
    fn has_hooks(&self, py: Python<'_>) -> PyResult<bool> {
        for hooks in &self.hooks {
            if hooks.bind(py).is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_current(&self, py: Python<'_>) -> PyResult<bool> {
        if self.attributes.iter().any(|(held, count)| held.bind(py).len() != *count) {
            return Ok(false);
        }
        for ((held, name), value) in &self.values {
            if !held.bind(py).get_item(name)?.is_some_and(|now| now.is(value)) {
                return Ok(false);
            }
        }
        for ((held, name), place) in &self.tensors {
            match held.bind(py).get_item(name)? {
                Some(tensor) if !tensor.is_none() && address(&tensor)? == *place => {}
                _ => return Ok(false),
            }
        }
        for (module, training) in &self.modules {
            if mode(module.bind(py))? != *training {
                return Ok(false);
            }
        }
        Ok(self.has_hooks(py)? == self.hooked)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.attributes.iter().try_for_each(|(held, _)| visit.call(held))?;
        self.values.iter().try_for_each(|((held, _), value)| visit.call(held).and_then(|()| visit.call(value)))?;
        self.tensors.iter().try_for_each(|((held, _), _)| visit.call(held))?;
        self.modules.iter().try_for_each(|(module, _)| visit.call(module))?;
        self.hooks.iter().try_for_each(|hooks| visit.call(hooks))
    }
}

/// Whether a module is in training mode.
fn mode(module: &Object<'_>) -> PyResult<bool> {
    module.getattr(&names(module.py()).training)?.is_truthy()
}

/// Where the numbers of a tensor are; of one without memory of its own, which is sparse or of a lazy module, where the object is.
fn address(tensor: &Object<'_>) -> PyResult<usize> {
    let py = tensor.py();
    match tensor.call_method0(&names(py).data_ptr) {
        Ok(place) => place.extract(),
        Err(error) if error.is_instance_of::<PyRuntimeError>(py) || error.is_instance_of::<PyValueError>(py) => {
            Ok(tensor.as_ptr() as usize)
        }
        Err(error) => Err(error),
    }
}
