//! `Unchanged`: notices that Python objects are not what they were.

use crate::prelude::*;

/// A dict, a key, and its value; None if the key is not there.
type Fact = (Py<PyDict>, Py<PyAny>, Option<Py<PyAny>>);

/// What some objects were like. Modules of PyTorch keep their parts and hooks in dicts.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Unchanged {
    /// The classes of objects.
    classes: Vec<(Py<PyType>, Py<PyAny>)>,
    /// The values of dicts.
    same: Vec<(Vec<Py<PyAny>>, Py<PyDict>)>,
    facts: Vec<Fact>,
}

#[pymethods]
impl Unchanged {
    #[new]
    fn new(
        objects: Items<Object<'_>>,
        same: Items<Bound<'_, PyDict>>,
        facts: Items<(Bound<'_, PyDict>, Object<'_>)>,
    ) -> PyResult<Self> {
        let class = |object: Object<'_>| (object.get_type().unbind(), object.unbind());
        let values = |dict: Bound<'_, PyDict>| (dict.iter().map(|(_, value)| value.unbind()).collect(), dict.unbind());
        let fact = |(dict, key): (Bound<'_, PyDict>, Object<'_>)| {
            let value = dict.get_item(&key)?.map(Bound::unbind);
            Ok((dict.unbind(), key.unbind(), value))
        };
        Ok(Self {
            classes: objects.0.into_iter().map(class).collect(),
            same: same.0.into_iter().map(values).collect(),
            facts: facts.0.into_iter().map(fact).collect::<PyResult<_>>()?,
        })
    }

    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        let are_of_classes = self.classes.iter().all(|(class, object)| object.bind(py).get_type().is(class.bind(py)));
        let are_same = self.same.iter().all(|(values, dict)| {
            let now = dict.bind(py);
            now.len() == values.len() && now.iter().zip(values).all(|((_, value), old)| value.is(old))
        });
        if !(are_of_classes && are_same) {
            return Ok(false);
        }
        for (dict, key, value) in &self.facts {
            let holds = match (dict.bind(py).get_item(key)?, value) {
                (Some(now), Some(old)) => now.is(old) || now.eq(old)?,
                (now, old) => now.is_none() && old.is_none(),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
