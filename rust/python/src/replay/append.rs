//! `append`: one row by keywords.
//!
//! It is called once for each step of an environment, in a quarter of a microsecond, of which pyo3 needs a fifth to compare the
//! names of six keywords as text. So it is a method of the C interface, which compares their addresses.

use std::slice;

use pyo3::{Borrowed, ffi, get_trampoline_function};

use rlfast_host::matching::{KEYWORDS, REQUIRED};

use super::Replay;
use crate::columns::Columns;
use crate::once::Once;
use crate::prelude::*;
use crate::rows::{Listed, RowSources};

impl Replay {
    fn append<'py>(&self, py: Python<'py>, values: &Listed<'_, 'py>) -> PyResult<i64> {
        let find = |columns: &Columns, rows: &mut RowSources| columns.find_listed(py, values, rows);
        let given = || {
            let row = PyDict::new(py);
            for (name, value) in KEYWORDS.iter().zip(values) {
                if let Some(value) = value {
                    row.set_item(name, value)?;
                }
            }
            Ok(row.into_any())
        };
        self.put(py, None, find, given, |columns, rows, objects| {
            if objects.is_empty() {
                // SAFETY: the row was found for these columns, and lives as long as the values.
                return self.write(py, 0, |state| unsafe { state.append(columns, &rows.found) })?.python();
            }
            let added = self.write_rows(py, (columns, rows), objects, &[0], None)?;
            added.map(|(index, ..)| index.get_item(0)?.extract()).transpose()
        })
    }
}

static KEYS: Once<[Py<PyString>; KEYWORDS.len()]> = Once::new();

/// Gives the class `Replay` its method `append`.
pub fn load(py: Python<'_>) -> PyResult<()> {
    KEYS.fill(py, || Ok(KEYWORDS.map(|name| PyString::intern(py, name).unbind())))?;
    let class = py.get_type::<Replay>();
    let method = ffi::PyMethodDef {
        ml_name: c"append".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: get_trampoline_function!(fastcall_cfunction_with_keywords, call),
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: c"append($self, /, *, obs, act, rew, terminated, truncated, obs_next=None)\n--\n\n".as_ptr(),
    };
    // The interpreter reads it for as long as the class lives, which is as long as the process.
    let method = Box::leak(Box::new(method));
    // SAFETY: a class, and a definition that stays and whose flags are those of its function.
    let method = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), method))? };
    class.setattr("append", method)
}

/// `Replay.append(self, *, obs, act, rew, terminated, truncated, obs_next=None)`.
///
/// # Safety
/// `this` is a live object of the class, and `args` has the positional values and after them those of the names, if there are any.
unsafe fn call(
    py: Python<'_>,
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    given: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    if given > 0 {
        let names = KEYWORDS.join(", ");
        return Err(raised!(
            PyTypeError,
            "append() takes no positional arguments, but {given} were given: name them {names}"
        ));
    }
    // SAFETY: as the caller promises.
    unsafe {
        let names = Borrowed::from_ptr_or_opt(py, names).map(|names| names.cast_unchecked::<PyTuple>());
        let values = match &names {
            Some(names) => slice::from_raw_parts(args, names.len()),
            None => &[],
        };
        let values = by_keyword(py, values, names.as_deref())?;
        let index = Borrowed::from_ptr(py, this).cast::<Replay>()?.get().append(py, &values)?;
        Ok(index.into_pyobject(py)?.into_any().into_ptr())
    }
}

/// Puts values in the order of [`KEYWORDS`].
///
/// # Safety
/// Each value is a live object.
#[inline]
unsafe fn by_keyword<'a, 'py>(
    py: Python<'py>,
    values: &'a [*mut ffi::PyObject],
    names: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Listed<'a, 'py>> {
    let keys = KEYS.get(py);
    let mut found = [None; KEYWORDS.len()];
    for (place, value) in values.iter().enumerate() {
        let name = names.expect("invariant: each value has a name").get_borrowed_item(place)?;
        let at = match keys.get(place) {
            Some(key) if key.is(&*name) => place,
            _ => place_of(py, keys, &name)?,
        };
        // SAFETY: a live object, as the caller promises.
        if found[at].replace(unsafe { Bound::ref_from_ptr(py, value) }).is_some() {
            return Err(raised!(PyTypeError, "append() got multiple values for argument '{}'", KEYWORDS[at]));
        }
    }
    found[REQUIRED] = found[REQUIRED].filter(|obs_next| !obs_next.is_none());
    if found[..REQUIRED].iter().any(Option::is_none) {
        return Err(lacking(&found));
    }
    Ok(found)
}

/// The error for values that are missing.
#[cold]
fn lacking(given: &Listed<'_, '_>) -> PyErr {
    let missing = KEYWORDS[..REQUIRED].iter().zip(given).filter(|(_, value)| value.is_none());
    let names: Vec<_> = missing.map(|(name, _)| format!("'{name}'")).collect();
    let arguments = if names.len() == 1 { "argument" } else { "arguments" };
    let (count, names) = (names.len(), names.join(", "));
    raised!(PyTypeError, "append() missing {count} required keyword-only {arguments}: {names}")
}

/// The place of a keyword that is not where it stands in the signature, or is no interned string.
#[cold]
fn place_of(py: Python<'_>, keys: &[Py<PyString>], name: &Object<'_>) -> PyResult<usize> {
    let place = keys.iter().position(|key| key.is(name) || key.bind(py).as_any().eq(name).unwrap_or(false));
    place.ok_or_else(|| {
        let names = KEYWORDS.join(", ");
        raised!(PyTypeError, "append() got an unexpected keyword argument '{name}': it takes {names}")
    })
}
