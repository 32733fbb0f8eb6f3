//! Finds the values of the columns in rows that a host gives, whatever its nested values are.

use std::fmt::Arguments;

use crate::schema::{Kind, Node, Role, Schema, TRANSITION_KEYS};

/// What a transition is given by, in the order in which it is listed; all but the last must be there.
pub const KEYWORDS: [&str; 6] = ["obs", "act", "rew", "terminated", "truncated", "obs_next"];
/// How many of [`KEYWORDS`] must be given: all but the last.
pub const REQUIRED: usize = KEYWORDS.len() - 1;
/// The places of [`KEYWORDS`] in [`TRANSITION_KEYS`].
const LISTED: [usize; KEYWORDS.len()] = [0, 1, 2, 3, 4, OBS_NEXT];
/// The columns of a step as hosts have it, in their order.
pub const STEP: [&str; 6] = ["obs", "actions", "obs_next", "rewards", "dones", "timeouts"];

const DONE: usize = 5;
const OBS_NEXT: usize = 6;
const INFO: usize = 7;
const POLICY: usize = 8;

/// A host that gives rows, and takes what is found in them.
pub trait Host {
    /// Values by key.
    type Fields;
    /// A value at a key.
    type Value;
    /// The host's errors.
    type Error;

    /// Returns the value at the key with a number in [`Schema::keys`].
    ///
    /// # Errors
    /// The host's.
    fn get(&self, fields: &Self::Fields, key: usize) -> Result<Option<Self::Value>, Self::Error>;

    /// Returns how many fields there are.
    fn count(&self, fields: &Self::Fields) -> usize;

    /// Calls `visit` with the name and the value of each field.
    ///
    /// # Errors
    /// Those of `visit`, and the host's for a name that is no text.
    fn visit(
        &self,
        fields: &Self::Fields,
        visit: impl FnMut(&str, &Self::Value) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error>;

    /// Returns the fields of a nested value; None for another value.
    ///
    /// # Errors
    /// The host's.
    fn nested(&self, value: &Self::Value) -> Result<Option<Self::Fields>, Self::Error>;

    /// Returns whether a value stands for none.
    fn is_none(&self, value: &Self::Value) -> bool;

    /// Takes the rows of the column `at`.
    ///
    /// # Errors
    /// [`Host::refusal`] for what is not exactly as the column is.
    fn take(&mut self, at: usize, value: &Self::Value) -> Result<(), Self::Error>;

    /// Takes as many elements as the rows of the column `at` have, in any shape.
    ///
    /// # Errors
    /// As [`Host::take`].
    fn take_flat(&mut self, at: usize, value: &Self::Value) -> Result<(), Self::Error>;

    /// Takes numbers of any type for the column `at`, one for each row or one for all.
    ///
    /// # Errors
    /// As [`Host::take`].
    fn take_numbers(&mut self, at: usize, value: &Self::Value) -> Result<(), Self::Error>;

    /// Keeps a value that was taken alive, until the rows are read.
    fn keep(&mut self, value: Self::Value);

    /// Returns whether any of the rows that were taken ends its episode.
    fn any_done(&self) -> bool;

    /// Returns the error that says that rows do not have exactly the columns.
    fn refusal(text: Arguments<'_>) -> Self::Error;
}

/// `Err(H::refusal(..))` with a formatted message.
macro_rules! refuse {
    ($($arg:tt)*) => { Err(H::refusal(format_args!($($arg)*))) };
}

impl<D> Schema<D> {
    /// Finds the rows of each column in `fields`, without changing anything.
    ///
    /// # Errors
    /// [`Host::refusal`] for what is not exactly as the columns are, and the host's.
    pub fn find<H: Host>(&self, host: &mut H, fields: &H::Fields) -> Result<(), H::Error> {
        self.find_in(host, self.root(), fields, true)?;
        if self.finals().is_empty() || !host.any_done() {
            return Ok(());
        }
        match host.get(fields, OBS_NEXT)? {
            Some(value) => self.find_finals(host, &value),
            None => Ok(()),
        }
    }

    /// Finds one row whose values are given in the order of [`KEYWORDS`]; a missing value is None. The host keeps the values alive.
    ///
    /// # Errors
    /// As [`Self::find`].
    #[inline]
    pub fn find_listed<H: Host>(
        &self,
        host: &mut H,
        values: &[Option<&H::Value>; KEYWORDS.len()],
    ) -> Result<(), H::Error> {
        if let Some(other) = self.beside() {
            return refuse!("{other} is missing");
        }
        for k in 0..KEYWORDS.len() {
            let name = KEYWORDS[k];
            match (self.place(LISTED[k]), values[k]) {
                (Some(at), Some(value)) => match &self.root()[at].kind {
                    Kind::Leaf(at) => host.take(*at, value)?,
                    Kind::Foreign => return refuse!("{name} is kept outside the columns"),
                    Kind::Group(_) => self.find_at(host, &self.root()[at], value)?,
                },
                (Some(_), None) => return refuse!("{name} is missing"),
                (None, Some(_)) if LISTED[k] != OBS_NEXT || self.saves_obs_next() => {
                    return refuse!("{name} is not a column");
                }
                (None, _) => {}
            }
        }
        match values[KEYWORDS.len() - 1] {
            Some(obs_next) if !self.finals().is_empty() && host.any_done() => self.find_finals(host, obs_next),
            _ => Ok(()),
        }
    }

    /// Finds a step in the order of [`STEP`]: actions may come in any shape of as many elements, and the last three as any
    /// numbers, one for all or one for each row. The host keeps the values alive.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_step<H: Host>(&self, host: &mut H, values: [&H::Value; STEP.len()]) -> Result<(), H::Error> {
        if self.root().len() != STEP.len() {
            return refuse!("a step has the columns {STEP:?}");
        }
        for ((name, node), value) in STEP.iter().zip(self.root()).zip(values) {
            match (&node.kind, *name) {
                (&Kind::Leaf(at), "rewards" | "dones" | "timeouts") => host.take_numbers(at, value)?,
                (&Kind::Leaf(at), "actions") => host.take_flat(at, value)?,
                (Kind::Foreign, _) => return refuse!("{name} is kept outside the columns"),
                _ => self.find_at(host, node, value)?,
            }
        }
        Ok(())
    }

    /// Finds the next observations of rows that end an episode.
    fn find_finals<H: Host>(&self, host: &mut H, value: &H::Value) -> Result<(), H::Error> {
        let node = &self.finals()[0];
        let is_group = matches!(node.kind, Kind::Group(_));
        if host.is_none(value) || (is_group && is_empty(host, value)?) {
            return Ok(());
        }
        self.find_at(host, node, value)
    }

    /// Finds the value of a key.
    fn find_at<H: Host>(&self, host: &mut H, node: &Node, value: &H::Value) -> Result<(), H::Error> {
        match &node.kind {
            Kind::Leaf(at) => host.take(*at, value),
            Kind::Foreign => Ok(()),
            Kind::Group(nodes) => match host.nested(value)? {
                Some(inner) => self.find_in(host, nodes, &inner, false),
                None => refuse!("{} is not nested", self.keys()[node.key]),
            },
        }
    }

    fn find_in<H: Host>(
        &self,
        host: &mut H,
        nodes: &[Node],
        fields: &H::Fields,
        outermost: bool,
    ) -> Result<(), H::Error> {
        let mut found = 0;
        for node in nodes {
            let leaf = match node.kind {
                Kind::Leaf(at) if self.columns()[at].role() == Role::Ignored => continue,
                Kind::Leaf(at) => Some(at),
                _ => None,
            };
            let Some(value) = host.get(fields, node.key)? else {
                if node.kind.is_foreign() {
                    continue;
                }
                return refuse!("{} is missing", self.keys()[node.key]);
            };
            found += 1;
            if outermost && node.key == OBS_NEXT && self.may_lack_next() && host.is_none(&value) {
                continue;
            }
            let Some(at) = leaf else {
                self.find_at(host, node, &value)?;
                continue;
            };
            host.take(at, &value)?;
            host.keep(value); // others may take it out of the fields before it is copied
        }
        let count = host.count(fields);
        if found == count || (outermost && self.all_unstored(host, fields, count - found)?) {
            return Ok(());
        }
        self.check_unknown(host, nodes, fields, outermost)
    }

    /// Returns whether `others` of the usual keys are there without being read, because they hold nothing or are not stored: the
    /// quick way to what `check_unknown` finds.
    fn all_unstored<H: Host>(&self, host: &H, fields: &H::Fields, others: usize) -> Result<bool, H::Error> {
        let mut count = 0;
        for key in [INFO, POLICY] {
            if count < others
                && self.place(key).is_none()
                && let Some(value) = host.get(fields, key)?
            {
                count += usize::from(is_empty(host, &value)?);
            }
        }
        for (key, unread) in [(DONE, true), (OBS_NEXT, !self.saves_obs_next())] {
            count += usize::from(count < others && unread && host.get(fields, key)?.is_some());
        }
        Ok(count == others)
    }

    /// Lets keys pass that hold nothing (an empty `info`), or are not stored (`done`, an ignored `obs_next`).
    fn check_unknown<H: Host>(
        &self,
        host: &H,
        nodes: &[Node],
        fields: &H::Fields,
        outermost: bool,
    ) -> Result<(), H::Error> {
        host.visit(fields, |name, value| {
            let is_known = nodes.iter().any(|node| self.keys()[node.key] == name);
            let is_unstored = outermost
                && (name == TRANSITION_KEYS[DONE] || (name == TRANSITION_KEYS[OBS_NEXT] && !self.saves_obs_next()));
            if is_known || is_unstored || is_empty(host, value)? {
                return Ok(());
            }
            refuse!("{name} is not a column")
        })
    }
}

/// Whether a value has fields, but none.
fn is_empty<H: Host>(host: &H, value: &H::Value) -> Result<bool, H::Error> {
    Ok(host.nested(value)?.is_some_and(|inner| host.count(&inner) == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;
    use rlfast_core::replay::layout::Leaf;

    #[derive(Clone, Debug)]
    enum Given {
        Nothing,
        Number(i32),
        Fields(Vec<(&'static str, Given)>),
    }

    /// Records the columns that are found, and the numbers in them.
    #[derive(Default)]
    struct Recorder {
        keys: Vec<String>,
        found: Vec<(usize, i32)>,
        is_done: bool,
    }

    impl Host for Recorder {
        type Fields = Vec<(&'static str, Given)>;
        type Value = Given;
        type Error = String;

        fn get(&self, fields: &Self::Fields, key: usize) -> Result<Option<Given>, String> {
            Ok(fields.iter().find(|(name, _)| *name == self.keys[key]).map(|(_, value)| value.clone()))
        }

        fn count(&self, fields: &Self::Fields) -> usize {
            fields.len()
        }

        fn visit(
            &self,
            fields: &Self::Fields,
            mut visit: impl FnMut(&str, &Given) -> Result<(), String>,
        ) -> Result<(), String> {
            fields.iter().try_for_each(|(name, value)| visit(name, value))
        }

        fn nested(&self, value: &Given) -> Result<Option<Self::Fields>, String> {
            Ok(if let Given::Fields(fields) = value { Some(fields.clone()) } else { None })
        }

        fn is_none(&self, value: &Given) -> bool {
            matches!(value, Given::Nothing)
        }

        fn take(&mut self, at: usize, value: &Given) -> Result<(), String> {
            let Given::Number(number) = *value else { return Err("no number".to_owned()) };
            self.found.push((at, number));
            Ok(())
        }

        fn take_flat(&mut self, at: usize, value: &Given) -> Result<(), String> {
            self.take(at + 100, value)
        }

        fn take_numbers(&mut self, at: usize, value: &Given) -> Result<(), String> {
            self.take(at + 200, value)
        }

        fn keep(&mut self, _: Given) {}

        fn any_done(&self) -> bool {
            self.is_done
        }

        fn refusal(text: Arguments<'_>) -> String {
            text.to_string()
        }
    }

    fn schema(save_obs_next: bool, paths: &[&[&str]], foreign: &[&[&str]]) -> Schema<()> {
        let owned = |path: &&[&str]| path.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        let column =
            |path| Column::new(Leaf { path, dtype: "<f8".to_owned(), itemsize: 8, shape: Vec::new() }, None, ());
        let columns = paths.iter().map(|path| column(owned(path))).collect();
        let flag = column(vec!["done".to_owned()]);
        Schema::new(save_obs_next).with(columns, foreign.iter().map(owned).collect(), flag).unwrap()
    }

    fn host(schema: &Schema<()>) -> Recorder {
        Recorder { keys: schema.keys().to_vec(), ..Recorder::default() }
    }

    fn found(schema: &Schema<()>, fields: &[(&'static str, Given)]) -> Result<Vec<(usize, i32)>, String> {
        let mut host = host(schema);
        schema.find(&mut host, &fields.to_vec())?;
        Ok(host.found)
    }

    const ONE: Given = Given::Number(1);
    const TWO: Given = Given::Number(2);
    const EMPTY: Given = Given::Fields(Vec::new());

    #[test]
    fn values_are_found_by_their_names_whatever_the_order() {
        let schema = schema(true, &[&["obs", "a"], &["act"]], &[&["info"]]);
        let nested = Given::Fields(vec![("a", TWO)]);
        let both = Ok(vec![(0, 2), (1, 1)]);
        assert_eq!(found(&schema, &[("act", ONE), ("obs", nested.clone())]), both);
        let beside = [("obs", nested.clone()), ("act", ONE), ("done", ONE), ("policy", EMPTY), ("info", ONE)];
        assert_eq!(found(&schema, &beside), both);
        for (fields, error) in [
            (vec![("obs", nested.clone())], "act is missing"),
            (vec![("obs", ONE), ("act", ONE)], "obs is not nested"),
            (vec![("obs", nested.clone()), ("act", ONE), ("extra", ONE)], "extra is not a column"),
            (vec![("obs", nested.clone()), ("act", ONE), ("obs_next", ONE)], "obs_next is not a column"),
            (vec![("obs", nested.clone()), ("act", ONE), ("policy", ONE)], "policy is not a column"),
        ] {
            assert_eq!(found(&schema, &fields).unwrap_err(), error);
        }
    }

    #[test]
    fn the_next_observation_is_read_where_it_is_stored() {
        let ends = schema(false, &[&["obs"], &["act"]], &[]);
        let fields = vec![("obs", ONE), ("act", ONE), ("obs_next", TWO)];
        assert_eq!(found(&ends, &fields), Ok(vec![(0, 1), (1, 1)]));
        let mut done = Recorder { is_done: true, ..host(&ends) };
        ends.find(&mut done, &fields).unwrap();
        assert_eq!(done.found, [(0, 1), (1, 1), (2, 2)]);
        let mut all = schema(true, &[&["obs"], &["obs_next"]], &[]);
        let lacking = [("obs", ONE), ("obs_next", Given::Nothing)];
        assert!(found(&all, &lacking).is_err());
        all.set_linked(true);
        assert_eq!(found(&all, &lacking), Ok(vec![(0, 1)]));
    }

    #[test]
    fn listed_values_are_found_by_their_places() {
        let names: [&[&str]; 5] = [&["rew"], &["obs"], &["act"], &["terminated"], &["truncated"]];
        let ends = schema(false, &names, &[]);
        let given = [ONE, TWO, Given::Number(3), Given::Number(4), Given::Number(5), Given::Number(6)];
        let mut values = given.each_ref().map(Some);
        let mut listed = host(&ends);
        ends.find_listed(&mut listed, &values).unwrap();
        assert_eq!(listed.found, [(1, 1), (2, 2), (0, 3), (3, 4), (4, 5)]);
        values[1] = None;
        assert_eq!(ends.find_listed(&mut host(&ends), &values).unwrap_err(), "act is missing");
        let more = schema(true, &[&["obs"], &["extra"]], &[]);
        assert_eq!(more.find_listed(&mut host(&more), &values).unwrap_err(), "extra is missing");
    }

    #[test]
    fn a_step_has_its_columns_in_their_order() {
        let names: Vec<[&str; 1]> = STEP.iter().map(|&name| [name]).collect();
        let paths: Vec<&[&str]> = names.iter().map(|name| &name[..]).collect();
        let steps = schema(true, &paths, &[]);
        let mut host = host(&steps);
        steps.find_step(&mut host, [&ONE; 6]).unwrap();
        assert_eq!(host.found.iter().map(|&(at, _)| at).collect::<Vec<_>>(), [0, 101, 2, 203, 204, 205]);
        let fewer = schema(true, &paths[..5], &[]);
        assert!(fewer.find_step(&mut host, [&ONE; 6]).is_err());
    }
}
