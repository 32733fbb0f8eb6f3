//! Named arguments whose types are known at run time only.

use std::collections::BTreeMap;
use std::fmt;

use super::RegistryError;

/// A value, as a caller gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A string.
    Text(String),
    /// Several, in order.
    List(Vec<Self>),
    /// None: as if it were not given.
    Missing,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => write!(f, "[{}]", values.iter().map(Self::to_string).collect::<Vec<_>>().join(", ")),
            Self::Missing => write!(f, "nothing"),
        }
    }
}

macro_rules! arguments_from {
    ($($type:ty => $variant:ident),+) => {$(
        impl From<$type> for Argument {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )+};
}

arguments_from!(bool => Bool, i64 => Int, f64 => Float, String => Text, Vec<Argument> => List);

/// A type that an environment asks for.
pub(super) trait FromArgument: Sized {
    /// In words.
    const WANTED: &'static str;

    /// The value, if it is of this type.
    fn from_argument(argument: &Argument) -> Option<Self>;
}

impl FromArgument for bool {
    const WANTED: &'static str = "a bool";

    fn from_argument(argument: &Argument) -> Option<Self> {
        if let Argument::Bool(value) = argument { Some(*value) } else { None }
    }
}

/// The arguments of one environment; those that were asked for are remembered.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    given: BTreeMap<String, Argument>,
    known: Vec<&'static str>,
}

impl FromIterator<(String, Argument)> for Arguments {
    fn from_iter<I: IntoIterator<Item = (String, Argument)>>(given: I) -> Self {
        Self { given: given.into_iter().collect(), known: Vec::new() }
    }
}

impl Arguments {
    /// The argument `name`, or `default` where it was not given.
    pub(super) fn take<T: FromArgument>(&mut self, name: &'static str, default: T) -> Result<T, RegistryError> {
        self.known.push(name);
        match self.given.remove(name) {
            None | Some(Argument::Missing) => Ok(default),
            Some(argument) => T::from_argument(&argument).ok_or_else(|| RegistryError::Argument {
                name: name.to_owned(),
                got: argument.to_string(),
                wanted: T::WANTED.to_owned(),
            }),
        }
    }

    /// Complains about arguments that nobody asked for.
    pub(super) fn finish(self, id: &str) -> Result<(), RegistryError> {
        let Some(name) = self.given.into_keys().next() else { return Ok(()) };
        let known = if self.known.is_empty() { "none at all".to_owned() } else { self.known.join(", ") };
        Err(RegistryError::Name { id: id.to_owned(), name, known })
    }
}
