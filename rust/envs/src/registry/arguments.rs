//! Named arguments whose types are known only at run time.

use std::collections::BTreeMap;
use std::fmt;

use super::RegistryError;

/// The value of an argument, as the caller gave it.
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
    /// A sequence of values.
    List(Vec<Self>),
    /// None.
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
            Self::Missing => write!(f, "None"),
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

/// A type that an argument of an environment can have.
pub(super) trait FromArgument: Sized {
    /// The description of the type in error messages.
    const WANTED: &'static str;

    /// Converts the value, if it is of this type.
    fn from_argument(argument: &Argument) -> Option<Self>;
}

impl FromArgument for bool {
    const WANTED: &'static str = "a bool";

    fn from_argument(argument: &Argument) -> Option<Self> {
        if let Argument::Bool(value) = argument { Some(*value) } else { None }
    }
}

impl FromArgument for f64 {
    const WANTED: &'static str = "a finite number";

    fn from_argument(argument: &Argument) -> Option<Self> {
        match argument {
            Argument::Int(value) => Some(*value as f64),
            Argument::Float(value) if value.is_finite() => Some(*value),
            _ => None,
        }
    }
}

impl FromArgument for [f64; 3] {
    const WANTED: &'static str = "three finite numbers";

    fn from_argument(argument: &Argument) -> Option<Self> {
        let Argument::List(values) = argument else { return None };
        values.iter().map(f64::from_argument).collect::<Option<Vec<_>>>()?.try_into().ok()
    }
}

impl FromArgument for String {
    const WANTED: &'static str = "a string";

    fn from_argument(argument: &Argument) -> Option<Self> {
        if let Argument::Text(value) = argument { Some(value.clone()) } else { None }
    }
}

impl FromArgument for Option<String> {
    const WANTED: &'static str = "a string, or None";

    fn from_argument(argument: &Argument) -> Option<Self> {
        if let Argument::Missing = argument { Some(None) } else { String::from_argument(argument).map(Some) }
    }
}

impl FromArgument for Option<Vec<String>> {
    const WANTED: &'static str = "a list of strings, or None";

    fn from_argument(argument: &Argument) -> Option<Self> {
        match argument {
            Argument::Missing => Some(None),
            Argument::List(values) => values.iter().map(String::from_argument).collect::<Option<_>>().map(Some),
            _ => None,
        }
    }
}

/// The arguments of one environment, which records the names of the arguments that were read.
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
    /// Returns the argument `name`, or `default` if it was not given.
    pub(super) fn take<T: FromArgument>(&mut self, name: &'static str, default: T) -> Result<T, RegistryError> {
        self.known.push(name);
        match self.given.remove(name) {
            None => Ok(default),
            Some(argument) => T::from_argument(&argument).ok_or_else(|| RegistryError::Argument {
                name: name.to_owned(),
                got: argument.to_string(),
                wanted: T::WANTED.to_owned(),
            }),
        }
    }

    /// Returns an error for arguments that were not read. All environments accept the `render_mode` None.
    pub(super) fn finish(mut self, id: &str) -> Result<(), RegistryError> {
        if self.given.get("render_mode") == Some(&Argument::Missing) {
            self.given.remove("render_mode");
        }
        let Some(name) = self.given.into_keys().next() else { return Ok(()) };
        let known = if self.known.is_empty() { "none at all".to_owned() } else { self.known.join(", ") };
        Err(RegistryError::Name { id: id.to_owned(), name, known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: Argument) -> Arguments {
        Arguments::from_iter([(name.to_owned(), value)])
    }

    fn list(values: &[&str]) -> Argument {
        Argument::List(values.iter().map(|&value| Argument::Text(value.to_owned())).collect())
    }

    #[test]
    fn values_are_taken_as_what_is_wanted() {
        assert_eq!(given("a", Argument::Int(3)).take("a", 0.5), Ok(3.0));
        assert_eq!(given("a", Argument::Int(3)).take("b", 0.5), Ok(0.5));
        assert_eq!(given("a", Argument::Bool(true)).take("a", false), Ok(true));
        assert_eq!(given("a", list(&["x", "y"])).take("a", None), Ok(Some(vec!["x".to_owned(), "y".to_owned()])));
        assert_eq!(given("a", Argument::Missing).take("a", Some(Vec::new())), Ok(None));
        let three = vec![Argument::Int(1), Argument::Float(0.5), Argument::Int(-1)];
        assert_eq!(given("a", three.into()).take("a", [0.0; 3]), Ok([1.0, 0.5, -1.0]));
    }

    #[test]
    fn other_values_are_told_with_what_is_wanted() {
        let told = |value, take: fn(&mut Arguments) -> Option<RegistryError>| {
            take(&mut given("a", value)).expect("it is refused").to_string()
        };
        let number = |arguments: &mut Arguments| arguments.take("a", 0.0).err();
        assert_eq!(told(Argument::Float(f64::NAN), number), "a must be a finite number, got NaN");
        assert_eq!(told(Argument::Bool(true), number), "a must be a finite number, got true");
        assert_eq!(told(Argument::Missing, |a| a.take("a", false).err()), "a must be a bool, got None");
        assert_eq!(told(Argument::Int(1), |a| a.take("a", String::new()).err()), "a must be a string, got 1");
        let two = list(&["x", "y"]);
        assert_eq!(told(two, |a| a.take("a", [0.0; 3]).err()), r#"a must be three finite numbers, got ["x", "y"]"#);
        let text = Argument::Text("x".to_owned());
        assert_eq!(
            told(text, |a| a.take("a", None::<Vec<String>>).err()),
            r#"a must be a list of strings, or None, got "x""#
        );
    }

    #[test]
    fn arguments_that_nobody_asked_for_are_told() {
        let mut arguments = given("gravity", Argument::Int(1));
        assert_eq!(arguments.take("g", 9.8), Ok(9.8));
        assert_eq!(
            arguments.finish("X-v0").expect_err("nobody asked").to_string(),
            "X-v0 takes no argument gravity, only g"
        );
        assert_eq!(given("render_mode", Argument::Missing).finish("X-v0"), Ok(()));
        assert!(given("render_mode", Argument::Text("human".to_owned())).finish("X-v0").is_err());
    }
}
