//! An engine together with the columns as a host names them.
//!
//! A host looks at rows, or makes arrays for them, while it does not hold the lock of the engine. So the columns and the rows may
//! have changed when it comes back: the functions here compare, and return None if they have.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use crate::hosted::record;
use crate::incoming::Incoming;
use crate::plan::{Plan, SharedPair};
use crate::schema::Schema;
use rlfast_core::error::Result;
use rlfast_core::replay::gather::Output;
use rlfast_core::replay::{Added, Replay, check_stack};
use rlfast_core::segment_tree::SumTree;
use rlfast_core::shared::fork_count;

/// Plans that are kept; those that ask for few keys always ask for the same.
const PLANS: usize = 8;

/// The columns of an engine as its host names them.
pub trait HostColumns {
    /// What the host keeps beside each column.
    type Dtype;

    /// Returns the columns and their paths.
    fn schema(&self) -> &Schema<Self::Dtype>;

    /// Returns the columns, to record how the engine stores them.
    fn schema_mut(&mut self) -> &mut Schema<Self::Dtype>;
}

/// A plan, with the keys (None: all) and the stack that it is for.
type KeptPlan = (Option<Vec<String>>, usize, Arc<Plan>);

/// An engine, and the columns as its host names them.
pub struct Session<C> {
    engine: Replay,
    columns: Arc<C>,
    plans: Vec<KeptPlan>,
    /// How often rows were changed.
    writes: u64,
    /// The thread that reads rows in several calls.
    held: Option<Hold>,
    /// The number of threads that wait to change rows.
    waiting: usize,
    /// The forks before `held` and `waiting` were set: after another one, the threads that they are about are gone.
    forks: usize,
}

/// A thread that reads rows in several calls, which see the same rows.
struct Hold {
    thread: ThreadId,
    /// How many of its holds are nested.
    depth: usize,
}

/// The rows that are gathered.
#[derive(Debug)]
pub enum Selection<'a> {
    /// These.
    Given(&'a [i64]),
    /// As many drawn rows as there is room for.
    Drawn(&'a mut Vec<i64>),
}

impl Selection<'_> {
    /// Returns the rows: drawn ones only after a session has drawn them.
    #[must_use]
    pub fn rows(&self) -> &[i64] {
        match self {
            Self::Given(rows) => rows,
            Self::Drawn(rows) => rows,
        }
    }

    /// Draws the rows, or checks those that were given.
    fn resolve(&mut self, engine: &mut Replay) -> Result<()> {
        match self {
            Self::Given(rows) => engine.rings().check(rows),
            Self::Drawn(rows) => engine.draw(rows, None),
        }
    }
}

/// What a host makes arrays by.
pub struct Prepared<C> {
    /// The columns.
    pub columns: Arc<C>,
    /// The arrays.
    pub plan: Arc<Plan>,
    /// The arrays that share blocks.
    pub pairs: Vec<SharedPair>,
    /// The count of writes at which the rows were drawn and the pairs found; None without them.
    at: Option<u64>,
}

impl<C: HostColumns> Prepared<C> {
    /// Returns what arrays to make for whole rows of these columns, stacked from `stack` of them.
    #[must_use]
    pub fn whole(columns: C, stack: usize) -> Self {
        let plan = Arc::new(Plan::whole(columns.schema(), stack));
        Self { columns: Arc::new(columns), plan, pairs: Vec::new(), at: None }
    }
}

impl<C: HostColumns> Session<C> {
    /// Returns a session of an engine with these columns.
    pub fn new(engine: Replay, columns: C) -> Self {
        Self {
            engine,
            columns: Arc::new(columns),
            plans: Vec::new(),
            writes: 0,
            held: None,
            waiting: 0,
            forks: fork_count(),
        }
    }

    /// Keeps other threads from changing rows until [`Self::release`]; holds of one thread may nest. Returns false if
    /// another thread holds the rows, or waits to change them: then the caller waits and tries again.
    pub fn hold(&mut self) -> bool {
        self.forget_lost_threads();
        let thread = thread::current().id();
        match &mut self.held {
            Some(held) if held.thread == thread => held.depth += 1,
            Some(_) => return false,
            None if self.waiting > 0 => return false,
            None => self.held = Some(Hold { thread, depth: 1 }),
        }
        true
    }

    /// Ends a hold of this thread.
    pub fn release(&mut self) {
        if let Some(held) = self.held.as_mut().filter(|held| held.thread == thread::current().id()) {
            held.depth -= 1;
            if held.depth == 0 {
                self.held = None;
            }
        }
    }

    /// Returns whether this thread may change rows now, which it may unless another thread holds them. `waits` is
    /// whether the caller was refused before, and is updated: it must try again, or call [`Self::stop_waiting`].
    #[inline]
    pub fn may_write(&mut self, waits: &mut bool) -> bool {
        (self.held.is_none() && !*waits) || self.may_write_after(waits)
    }

    #[cold]
    fn may_write_after(&mut self, waits: &mut bool) -> bool {
        self.forget_lost_threads();
        let thread = thread::current().id();
        if self.held.as_ref().is_some_and(|held| held.thread != thread) {
            self.waiting += usize::from(!*waits);
            *waits = true;
            return false;
        }
        self.stop_waiting(waits);
        true
    }

    /// Ends the wait of a thread that was refused a change.
    pub fn stop_waiting(&mut self, waits: &mut bool) {
        self.waiting = self.waiting.saturating_sub(usize::from(*waits));
        *waits = false;
    }

    /// Ends what threads were at that a forked process does not have.
    fn forget_lost_threads(&mut self) {
        if self.forks != fork_count() {
            (self.held, self.waiting, self.forks) = (None, 0, fork_count());
        }
    }

    /// Returns the engine, for reading.
    #[must_use]
    pub fn engine(&self) -> &Replay {
        &self.engine
    }

    /// Returns the engine, for changes of its rows.
    pub fn rows_mut(&mut self) -> &mut Replay {
        self.writes += 1;
        &mut self.engine
    }

    /// Returns the engine, for changes of anything but its rows.
    pub fn options_mut(&mut self) -> &mut Replay {
        &mut self.engine
    }

    /// Returns the tree of a prioritized buffer.
    ///
    /// # Panics
    /// If the buffer draws uniformly.
    pub fn tree_mut(&mut self) -> &mut SumTree {
        self.engine.priorities_mut().expect("invariant: a prioritized buffer stays one").tree_mut()
    }

    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &Arc<C> {
        &self.columns
    }

    fn has(&self, columns: &Arc<C>) -> bool {
        Arc::ptr_eq(&self.columns, columns)
    }

    /// Lays out the columns that `columns` has beyond `held`, retires those that it has no more, and returns the former
    /// ones, to be dropped when no lock is held. New columns at the paths of `values` begin with those bytes.
    /// None if the columns are not `held` any more.
    ///
    /// # Errors
    /// As [`Replay::redefine`].
    pub fn define(&mut self, held: &Arc<C>, columns: C, values: &[(&[String], &[u8])]) -> Result<Option<Arc<C>>> {
        if !self.has(held) {
            return Ok(None);
        }
        let known = held.schema().columns().len();
        let leaves: Vec<_> = columns.schema().columns()[known..].iter().map(|column| column.leaf.clone()).collect();
        let is_retired =
            |&at: &usize| columns.schema().columns()[at].leaf.path != held.schema().columns()[at].leaf.path;
        let retired: Vec<_> = (0..known).filter(is_retired).collect();
        if !leaves.is_empty() || !retired.is_empty() {
            self.rows_mut().redefine(leaves, &retired, values)?;
        }
        Ok(Some(self.set_columns(columns)))
    }

    /// Puts another engine and its columns in the place of these, and returns the former columns, as [`Self::define`].
    pub fn replace(&mut self, engine: Replay, columns: C) -> Arc<C> {
        *self.rows_mut() = engine;
        self.set_columns(columns)
    }

    fn set_columns(&mut self, mut columns: C) -> Arc<C> {
        self.plans.clear();
        columns.schema_mut().set_linked(self.engine.table().is_some_and(|table| table.layout().linked()));
        std::mem::replace(&mut self.columns, Arc::new(columns))
    }

    /// Runs `write` on the engine; None if the columns are not `columns` any more, for which rows were found.
    fn written<R>(&mut self, columns: &Arc<C>, write: impl FnOnce(&mut Replay) -> Result<R>) -> Result<Option<R>> {
        if self.has(columns) { write(self.rows_mut()).map(Some) } else { Ok(None) }
    }

    /// Adds rows that were found for `columns`; None if those are not the columns any more.
    ///
    /// # Errors
    /// As [`Replay::add`].
    ///
    /// # Safety
    /// `rows` has a source for each of `columns`, good for as many rows as there are `rings`.
    pub unsafe fn add(
        &mut self,
        columns: &Arc<C>,
        rings: &[usize],
        rows: &Incoming,
        added: &mut Added<'_>,
    ) -> Result<Option<()>> {
        // SAFETY: as the caller promises.
        self.written(columns, |engine| unsafe {
            engine.add(rings, rows.sources(), rows.terminated(), rows.truncated(), added)
        })
    }

    /// Adds a row to ring 0 and returns its index; None likewise.
    ///
    /// # Errors
    /// As [`Replay::add`].
    ///
    /// # Safety
    /// As [`Self::add`].
    pub unsafe fn append(&mut self, columns: &Arc<C>, rows: &Incoming) -> Result<Option<i64>> {
        let (mut index, mut length, mut start) = ([0], [0], [0]);
        let mut one = [0.0];
        let mut many = Vec::new();
        let agents = self.engine.agents();
        let episode_return = if agents == 1 {
            &mut one[..]
        } else {
            many.resize(agents, 0.0);
            &mut many[..]
        };
        let mut added =
            Added { index: &mut index, episode_return, episode_length: &mut length, episode_start: &mut start };
        // SAFETY: as the caller promises.
        Ok(unsafe { self.add(columns, &[0], rows, &mut added) }?.map(|()| index[0]))
    }

    /// Adds a row to each ring, as [`Replay::record`]; None likewise.
    ///
    /// # Errors
    /// As [`Replay::add`].
    ///
    /// # Safety
    /// As [`Self::add`], for a row of each ring.
    pub unsafe fn record(&mut self, columns: &Arc<C>, rows: &Incoming) -> Result<Option<bool>> {
        // SAFETY: as the caller promises.
        self.written(columns, |engine| unsafe { record(engine, rows.sources(), rows.terminated(), rows.truncated()) })
    }

    /// Replaces all rows by those of whole columns, as [`Replay::load`]; None likewise. With `keep`, the running episodes
    /// keep their statistics, and rows that stay live their priorities.
    ///
    /// # Errors
    /// As [`Replay::load`].
    ///
    /// # Safety
    /// As [`Self::add`], for all rows.
    pub unsafe fn load(
        &mut self,
        columns: &Arc<C>,
        rows: &Incoming,
        known: Option<&[bool]>,
        (sizes, cursors): (&[usize], &[usize]),
        keep: bool,
    ) -> Result<Option<()>> {
        let flags = (rows.terminated(), rows.truncated());
        self.written(columns, |engine| {
            let kept = if keep { Some(engine.statistics()?) } else { None };
            // SAFETY: as the caller promises.
            unsafe { engine.load(rows.sources(), flags, known, sizes, cursors)? };
            kept.into_iter().for_each(|kept| engine.set_statistics(kept));
            Ok(())
        })
    }

    /// Returns the plan for some keys and a stack.
    fn plan(&mut self, keys: Option<&[String]>, stack: usize) -> Result<Arc<Plan>> {
        if let Some(kept) = self.plans.iter().find(|kept| kept.1 == stack && kept.0.as_deref() == keys) {
            return Ok(kept.2.clone());
        }
        let layout = self.engine.gatherer()?.layout();
        let plan = Arc::new(Plan::new(self.columns.schema(), layout, keys, stack)?);
        if self.plans.len() == PLANS {
            self.plans.remove(0);
        }
        self.plans.push((keys.map(<[String]>::to_vec), stack, plan.clone()));
        Ok(plan)
    }

    /// Returns what arrays to make for the keys (None: all) of the rows, each stacked from `stack` of them (None: the buffer's own
    /// number). With `share`, and where it matters, rows are drawn now to see which arrays can share blocks.
    ///
    /// # Errors
    /// `Value` for an empty buffer or an invalid stack, `Index` for a row that is not there, `Key` for an unknown key.
    pub fn prepare(
        &mut self,
        selection: &mut Selection<'_>,
        keys: Option<&[String]>,
        stack: Option<usize>,
        share: bool,
    ) -> Result<Prepared<C>> {
        if self.engine.table().is_none() {
            selection.resolve(&mut self.engine)?; // a draw says best that there is nothing
        }
        let stack = stack.unwrap_or(self.engine.config().stack_num);
        check_stack(stack)?;
        let (columns, plan) = (self.columns.clone(), self.plan(keys, stack)?);
        if !share || !plan.may_share() {
            return Ok(Prepared { columns, plan, pairs: Vec::new(), at: None });
        }
        selection.resolve(&mut self.engine)?;
        let pairs = plan.shared_pairs(self.engine.gatherer()?, selection.rows());
        Ok(Prepared { columns, plan, pairs, at: Some(self.writes) })
    }

    /// Copies the rows to arrays, and returns what `beside` says about them at this time. None if the columns have changed since
    /// `prepared` was made, or the rows that its pairs were found for may have.
    ///
    /// # Errors
    /// Those of a draw and of `beside`.
    ///
    /// # Safety
    /// Each output was made for `prepared`, with room for all rows.
    pub unsafe fn gather<R>(
        &mut self,
        prepared: &Prepared<C>,
        selection: &mut Selection<'_>,
        outputs: &[Output],
        beside: impl FnOnce(&mut Replay, &[i64]) -> Result<R>,
    ) -> Result<Option<R>> {
        if !self.has(&prepared.columns) || prepared.at.is_some_and(|at| at != self.writes) {
            return Ok(None);
        }
        if prepared.at.is_none() {
            selection.resolve(&mut self.engine)?;
        }
        // SAFETY: the rows were checked or drawn, and the caller promises the room.
        unsafe { self.engine.gatherer()?.gather(selection.rows(), outputs) };
        beside(&mut self.engine, selection.rows()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;
    use rlfast_core::error::Error;
    use rlfast_core::memory::Storage;
    use rlfast_core::replay::Config;
    use rlfast_core::replay::layout::Leaf;

    struct Columns {
        schema: Schema<()>,
    }

    impl HostColumns for Columns {
        type Dtype = ();

        fn schema(&self) -> &Schema<()> {
            &self.schema
        }

        fn schema_mut(&mut self) -> &mut Schema<()> {
            &mut self.schema
        }
    }

    const FRAME: usize = 1024;

    fn column(name: &str, dtype: &str, itemsize: usize, shape: &[usize]) -> Column<()> {
        let (path, dtype) = (vec![name.to_owned()], dtype.to_owned());
        Column::new(Leaf { path, dtype, itemsize, shape: shape.to_vec() }, None, ())
    }

    fn extended(schema: &Schema<()>, columns: Vec<Column<()>>) -> Columns {
        Columns { schema: schema.with(columns, Vec::new(), column("done", "|b1", 1, &[])).unwrap() }
    }

    /// A session of four rows of frames, of which `rows` were added.
    fn session(rows: usize) -> Session<Columns> {
        let config = Config {
            capacities: vec![4],
            save_obs_next: true,
            stack_num: 2,
            sample_avail: false,
            alpha: None,
            beta: 1.0,
            weight_norm: true,
            seed: 0,
            storage: Storage::Ram,
        };
        let none = Columns { schema: Schema::new(true) };
        let frames = ["obs", "obs_next"].map(|name| column(name, "|u1", 1, &[FRAME]));
        let flags =
            [column("rew", "<f8", 8, &[]), column("terminated", "|b1", 1, &[]), column("truncated", "|b1", 1, &[])];
        let columns = extended(&none.schema, frames.into_iter().chain(flags).collect());
        let mut session = Session::new(Replay::new(config).unwrap(), none);
        let held = session.columns().clone();
        session.define(&held, columns, &[]).unwrap().unwrap();
        for _ in 0..rows {
            assert_eq!(append(&mut session), Some(()));
        }
        session
    }

    fn append(session: &mut Session<Columns>) -> Option<()> {
        let columns = session.columns().clone();
        let mut rows = Incoming::default();
        rows.start(columns.schema.columns().len(), 1);
        // SAFETY: zeros are a source for every column.
        unsafe { session.append(&columns, &rows) }.unwrap().map(drop)
    }

    /// Memory for each array of `prepared`, and the addresses.
    fn outputs(prepared: &Prepared<Columns>, rows: usize) -> (Vec<Vec<u8>>, Vec<Output>) {
        let arrays = prepared.plan.arrays();
        let mut rooms: Vec<Vec<u8>> = arrays.iter().map(|array| vec![9; array.bytes * rows]).collect();
        let output = |(room, array): (&mut Vec<u8>, &crate::plan::PlannedArray)| Output {
            content: array.content,
            stack: array.stack,
            dst: room.as_mut_ptr(),
        };
        let outputs = rooms.iter_mut().zip(arrays).map(output).collect();
        (rooms, outputs)
    }

    fn gather(session: &mut Session<Columns>, prepared: &Prepared<Columns>) -> Option<Vec<Vec<u8>>> {
        let (rooms, outputs) = outputs(prepared, 2);
        let mut rows = vec![0; 2];
        // SAFETY: there is room for two rows in each.
        let done = unsafe { session.gather(prepared, &mut Selection::Drawn(&mut rows), &outputs, |_, _| Ok(())) };
        done.unwrap().map(|()| rooms)
    }

    /// Runs work in another thread.
    fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn only_the_thread_that_holds_rows_may_write_them() {
        let (mut session, mut waits) = (session(2), false);
        assert!(session.hold() && session.hold());
        session.release();
        assert!(session.may_write(&mut waits) && !waits);
        assert!(!elsewhere(|| session.hold()));
        elsewhere(|| session.release());
        assert!(!elsewhere(|| session.may_write(&mut waits)) && waits);
        session.release();
        assert!(!session.hold(), "a thread waits to write");
        assert!(elsewhere(|| session.may_write(&mut waits)) && !waits);
        assert!(session.hold());
        session.release();
    }

    #[test]
    fn a_thread_that_stops_waiting_lets_others_hold_rows() {
        let (mut session, mut waits) = (session(2), false);
        assert!(session.hold());
        assert!(!elsewhere(|| session.may_write(&mut waits) || session.may_write(&mut waits)));
        session.stop_waiting(&mut waits);
        session.release();
        assert!(session.hold() && !waits);
    }

    #[test]
    fn a_fork_ends_what_other_threads_were_at() {
        let (mut session, mut waits) = (session(2), false);
        assert!(elsewhere(|| session.hold()) && !session.may_write(&mut waits));
        session.forks += 1; // as after a fork
        assert!(session.hold() && session.waiting == 0);
    }

    #[test]
    fn columns_are_defined_only_beside_those_that_were_seen() {
        let mut session = session(0);
        let held = session.columns().clone();
        assert!(held.schema.may_lack_next());
        let more = || extended(&held.schema, vec![column("extra", "<f4", 4, &[])]);
        assert!(session.define(&held, more(), &[]).unwrap().is_some());
        assert_eq!(session.columns().schema.columns().len(), held.schema.columns().len() + 1);
        assert!(session.define(&held, more(), &[]).unwrap().is_none());
        let mut rows = Incoming::default();
        rows.start(held.schema.columns().len(), 1);
        // SAFETY: nothing is read for columns that are not there any more.
        assert_eq!(unsafe { session.append(&held, &rows) }.unwrap(), None);
    }

    #[test]
    fn a_column_is_replaced_in_one_step() {
        let mut session = session(2);
        let held = session.columns().clone();
        session.define(&held, extended(&held.schema, vec![column("extra", "<i8", 8, &[])]), &[]).unwrap().unwrap();
        append(&mut session).unwrap();
        let held = session.columns().clone();
        let less = held.schema.without(&[vec!["extra".to_owned()]]).unwrap();
        let too_large = extended(&less, vec![column("extra", "<f8", 8, &[1 << 50])]);
        assert!(session.define(&held, too_large, &[]).is_err());
        assert!(session.engine().leaf(&["extra".to_owned()]).is_ok(), "an error leaves the columns as they were");
        let path = ["extra".to_owned()];
        let float = || extended(&less, vec![column("extra", "<f4", 4, &[])]);
        assert!(session.define(&held, float(), &[(&path, &[0; 7])]).is_err(), "of other rows than there are");
        let bytes: Vec<u8> = [1.5_f32, -2.0, 0.5, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        session.define(&held, float(), &[(&path, &bytes)]).unwrap().unwrap();
        let view = session.engine().column(held.schema.columns().len()).unwrap();
        // SAFETY: the column has sixteen bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(view.region.at(view.offset), 16) }, bytes);
        assert_eq!(session.engine().leaf(&["extra".to_owned()]).unwrap(), held.schema.columns().len());
        append(&mut session).unwrap();
        let held = session.columns().clone();
        let less = held.schema.without(&[vec!["rew".to_owned()]]).unwrap();
        assert!(session.define(&held, extended(&less, Vec::new()), &[]).is_err());
    }

    #[test]
    fn rows_are_gathered_unless_columns_changed() {
        let mut session = session(3);
        let mut rows = vec![0; 2];
        let prepared = session.prepare(&mut Selection::Drawn(&mut rows), None, None, false).unwrap();
        append(&mut session);
        let found = gather(&mut session, &prepared).unwrap();
        assert!(found.iter().flatten().all(|&byte| byte == 0));
        let held = session.columns().clone();
        session.define(&held, extended(&held.schema, vec![column("extra", "<f4", 4, &[])]), &[]).unwrap();
        assert!(gather(&mut session, &prepared).is_none());
    }

    #[test]
    fn shared_blocks_are_for_the_rows_that_were_there() {
        let mut session = session(3);
        let mut rows = vec![0; 2];
        let prepared = session.prepare(&mut Selection::Drawn(&mut rows), None, None, true).unwrap();
        assert_eq!(prepared.pairs.len(), 1);
        assert!(gather(&mut session, &prepared).is_some());
        append(&mut session);
        assert!(gather(&mut session, &prepared).is_none());
        let one = session.prepare(&mut Selection::Drawn(&mut rows), None, Some(1), true).unwrap();
        assert!(one.pairs.is_empty());
    }

    #[test]
    fn plans_are_kept_until_columns_change() {
        let mut session = session(1);
        let keys = ["rew".to_owned()];
        let plan = |session: &mut Session<Columns>, stack| session.plan(Some(&keys), stack).unwrap();
        let first = plan(&mut session, 1);
        assert!(Arc::ptr_eq(&first, &plan(&mut session, 1)));
        assert!(!Arc::ptr_eq(&first, &plan(&mut session, 2)));
        for stack in 3..=PLANS + 1 {
            plan(&mut session, stack);
        }
        assert_eq!(session.plans.len(), PLANS);
        assert!(!Arc::ptr_eq(&first, &plan(&mut session, 1)));
        let held = session.columns().clone();
        session.define(&held, extended(&held.schema, Vec::new()), &[]).unwrap();
        assert!(session.plans.is_empty());
    }

    #[test]
    fn rows_that_are_not_there_are_errors() {
        let mut session = session(1);
        let error = session.prepare(&mut Selection::Given(&[7]), None, None, true).err().unwrap();
        assert!(matches!(error, Error::Index(_)), "{error}");
        assert!(session.prepare(&mut Selection::Given(&[0]), None, Some(0), false).is_err());
        assert!(session.prepare(&mut Selection::Given(&[0]), Some(&["none".to_owned()]), None, false).is_err());
    }
}
