//! `Unchanged`: notices that Python objects are not what they were.

use crate::prelude::*;

/// What some objects were like. Modules of PyTorch keep their parts and hooks in dicts.
#[pyclass(frozen, module = "rlfast._core")]
pub struct Unchanged {
    /// Objects and their classes.
    classes: Vec<(Py<PyAny>, Py<PyType>)>,
    /// Dicts without entries.
    empty: Vec<Py<PyDict>>,
    /// Dicts and their values.
    same: Vec<(Py<PyDict>, Vec<Py<PyAny>>)>,
    facts: Vec<Fact>,
}

/// A key of a dict, and its value; None for a key that is not there.
struct Fact {
    dict: Py<PyDict>,
    key: Py<PyAny>,
    value: Option<Py<PyAny>>,
}

impl Fact {
    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(match (self.dict.bind(py).get_item(&self.key)?, &self.value) {
            (Some(now), Some(old)) => now.is(old) || now.eq(old)?,
            (now, old) => now.is_none() && old.is_none(),
        })
    }
}

#[pymethods]
impl Unchanged {
    #[new]
    fn new(
        objects: Items<Object<'_>>,
        empty: Items<Bound<'_, PyDict>>,
        same: Items<Bound<'_, PyDict>>,
        facts: Items<(Bound<'_, PyDict>, Object<'_>)>,
    ) -> PyResult<Self> {
        let classes = objects.0.into_iter().map(|object| (object.get_type().unbind(), object.unbind()));
        let facts = facts.0.into_iter().map(|(dict, key)| {
            let value = dict.get_item(&key)?;
            Ok(Fact { dict: dict.unbind(), key: key.unbind(), value: value.map(Bound::unbind) })
        });
        let values = |dict: &Bound<'_, PyDict>| dict.iter().map(|(_, value)| value.unbind()).collect();
        Ok(Self {
            classes: classes.map(|(class, object)| (object, class)).collect(),
            empty: empty.0.into_iter().map(Bound::unbind).collect(),
            same: same
                .0
                .into_iter()
                .map(|dict| (values(&dict), dict.unbind()))
                .map(|(all, dict)| (dict, all))
                .collect(),
            facts: facts.collect::<PyResult<_>>()?,
        })
    }

    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        let are_empty = self.empty.iter().all(|dict| dict.bind(py).is_empty());
        let are_of_classes = self.classes.iter().all(|(object, class)| object.bind(py).get_type().is(class.bind(py)));
        let are_same = self.same.iter().all(|(dict, values)| {
            let now = dict.bind(py);
            now.len() == values.len() && now.iter().zip(values).all(|((_, value), old)| value.is(old))
        });
        if !(are_empty && are_of_classes && are_same) {
            return Ok(false);
        }
        for fact in &self.facts {
            if !fact.holds(py)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
