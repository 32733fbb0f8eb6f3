//! Restoring a buffer from a snapshot, with checks of everything that is read.

use std::collections::VecDeque;
use std::io::Read;

use super::codec::{Fields, Reader};
use super::rewriting::rewritten;
use super::{END, Header, SINGLE_FRAMES};
use crate::error::{Error, Result, value_error};
use crate::memory::{self, Codec, Storage};
use crate::replay::frames::FrameStore;
use crate::replay::layout::{DONE, LINK, Layout, Leaf, Place, TERMINATED, TRUNCATED, link};
use crate::replay::priorities::Priorities;
use crate::replay::ring::{Episode, Ring, RunningEpisode, Saved};
use crate::replay::rings::Rings;
use crate::replay::table::Table;
use crate::replay::{Config, Replay, check_stack};
use crate::rng::Stream;
use crate::segment_tree::SumTree;
use crate::vectors::{self, product};

impl Replay {
    pub(super) fn read(&mut self, reader: &mut Reader<impl Read>) -> Result<Vec<u8>> {
        let header = read_header(reader)?;
        if header.capacities != self.config.capacities {
            return value_error!(
                "the snapshot is of rings with {:?} slots, this buffer has {:?}",
                header.capacities,
                self.config.capacities
            );
        }
        let State { mut config, has_table, streams, scalars } = self.read_state(reader)?;
        let rings = read_rings(&mut reader.section(*b"RING")?, &config.capacities)?;
        let mut table = None;
        if has_table {
            let (first, late) = read_leaves(&mut reader.section(*b"LEAF")?)?;
            let layout = |single| Layout::new(first.clone(), config.save_obs_next, single);
            let (saved, mine) = (layout(header.single_frames)?, layout(config.storage.codec().is_some())?);
            let made = |layout: Layout, storage: Storage| -> Result<Table> {
                let mut table = Table::new(layout, &config.capacities, storage, 0)?;
                table.extend(late.clone(), &[], &[])?;
                Ok(table)
            };
            let converts = saved.single != mine.single;
            let storage = match converts {
                false => config.storage.clone(),
                true if saved.single => Storage::Packed(Codec::Lz4),
                true => Storage::Ram,
            };
            let mut fresh = made(saved, storage)?;
            for r in 0..rings.len() {
                read_rows(reader, &mut fresh, &rings[r], r, rings[r].oldest())?;
            }
            check_rows(&fresh, &rings)?;
            table =
                Some(if converts { rewritten(&fresh, &rings, made(mine, config.storage.clone())?)? } else { fresh });
        } else if rings.live() > 0 {
            return value_error!("the snapshot is damaged: rows without columns");
        }
        let priorities = match scalars {
            Some(scalars) => Some(read_priorities(&mut reader.section(*b"PRIO")?, &rings, scalars)?),
            None => None,
        };
        reader.section(END)?.end()?;
        if reader.left > 0 {
            return value_error!("the snapshot is damaged: {} bytes follow its end", reader.left);
        }
        let [sampler, hindsight] = streams;
        config.alpha = priorities.as_ref().map(|p| p.alpha);
        self.priorities = priorities;
        (self.config, self.rings, self.table) = (config, rings, table);
        (self.sampler, self.hindsight) = (sampler, hindsight);
        Ok(header.extra)
    }

    /// Reads the options and the random streams.
    pub(super) fn read_state(&self, reader: &mut Reader<impl Read>) -> Result<State> {
        let mut config = self.config.clone();
        let mut options = reader.section(*b"CONF")?;
        let has_table = read_options(&mut options, &mut config)?;
        let streams = [read_stream(&mut options)?, read_stream(&mut options)?];
        let prioritized = options.u64()? == 1;
        if prioritized != self.priorities.is_some() {
            return value_error!(
                "the snapshot and this buffer do not draw rows in the same way (uniformly, by priority)"
            );
        }
        let scalars = if prioritized { Some((options.f64()?, options.f64()?, options.u64()?)) } else { None };
        options.end()?;
        Ok(State { config, has_table, streams, scalars })
    }
}

/// The options of a buffer in a snapshot.
pub(super) struct State {
    pub config: Config,
    pub has_table: bool,
    /// Those of the sampler and of relabelling.
    pub streams: [Stream; 2],
    /// The exponent, the largest priority and the stale updates; None if rows are drawn uniformly.
    pub scalars: Option<(f64, f64, u64)>,
}

pub(super) fn read_header(reader: &mut Reader<impl Read>) -> Result<Header> {
    reader.magic()?;
    let mut head = reader.section(*b"HEAD")?;
    let capacities = head.words()?;
    let single_frames = head.text()? == SINGLE_FRAMES;
    head.end()?;
    let extra = reader.section(*b"EXTR")?.bytes;
    Ok(Header { capacities, extra, single_frames })
}

fn read_options(fields: &mut Fields, config: &mut Config) -> Result<bool> {
    config.save_obs_next = fields.u64()? == 1;
    config.sample_avail = fields.u64()? == 1;
    config.weight_norm = fields.u64()? == 1;
    let has_table = fields.u64()? == 1;
    config.stack_num = fields.u64()? as usize;
    config.beta = fields.f64()?;
    config.seed = fields.u64()?;
    check_stack(config.stack_num).map_err(|error| Error::Value(format!("the snapshot is damaged: {error}")))?;
    Ok(has_table)
}

fn read_stream(fields: &mut Fields) -> Result<Stream> {
    let state = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
    Stream::from_state(state)
        .ok_or_else(|| Error::Value("the snapshot is damaged: a random stream is empty".to_owned()))
}

pub(super) fn read_rings(fields: &mut Fields, capacities: &[usize]) -> Result<Rings> {
    let mut rings = Rings::new(capacities)?;
    for r in 0..capacities.len() {
        let (head, cursor, len, first_episode) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()? as u32);
        let count = fields.count(24)?;
        let mut episodes: VecDeque<_> = vectors::with_room(count)?.into();
        for _ in 0..count {
            let (start, last, done) = (fields.u64()?, fields.u64()?, fields.u64()? == 1);
            episodes.push_back(Episode { start, last, done });
        }
        let agents = fields.count(8)?;
        let episode_return = fields.doubles(agents)?;
        let running = RunningEpisode { episode_return, length: fields.u64()?, start: fields.u64()? as usize };
        let saved = Saved { head, cursor, len, first_episode, episodes, running };
        match rings[r].restored(saved) {
            Ok(ring) => *rings.ring_mut(r) = ring,
            Err(what) => return value_error!("the snapshot is damaged: ring {r}: {what}"),
        }
    }
    fields.end()?;
    Ok(rings)
}

/// Reads the leaves, and returns those of the first row and those that were added later.
fn read_leaves(fields: &mut Fields) -> Result<(Vec<Leaf>, Vec<Leaf>)> {
    let count = fields.count(32)?;
    let first = fields.u64()? as usize;
    let mut all = vectors::with_room(count)?;
    for _ in 0..count {
        let keys = fields.count(8)?;
        let path = (0..keys).map(|_| fields.text()).collect::<Result<_>>()?;
        let dtype = fields.text()?;
        let itemsize = fields.u64()? as usize;
        let shape = fields.words()?;
        let bytes = shape.iter().try_fold(itemsize, |product, &n| product.checked_mul(n));
        if bytes.is_none_or(|n| n > 1 << 40) {
            return value_error!("the snapshot is damaged: rows of shape {shape:?} cannot be");
        }
        all.push(Leaf { path, dtype, itemsize, shape });
    }
    fields.end()?;
    if first > all.len() {
        return value_error!("the snapshot is damaged: its columns contradict themselves");
    }
    let late = all.split_off(first);
    Ok((all, late))
}

/// Reads the rows of ring `r` from the sequence number `from` on. They take the place of those in their slots.
pub(super) fn read_rows(
    reader: &mut Reader<impl Read>,
    table: &mut Table,
    ring: &Ring,
    r: usize,
    from: u64,
) -> Result<()> {
    let mut rows = vectors::with_room((ring.head - from) as usize)?;
    rows.extend((from..ring.head).map(|seq| ring.index(seq)));
    let stride = table.layout.stride;
    rows.iter().for_each(|&index| table.forget(index));
    reader.items(*b"ROWS", rows.len(), stride, |k, bytes| {
        // SAFETY: `bytes` is a whole record, and so is the one of the row.
        unsafe { memory::copy(bytes.as_ptr(), table.record(rows[k]), stride) }
    })?;
    for column in 0..table.layout.columns.len() {
        let length = table.layout.columns[column];
        reader.items(*b"COLU", rows.len(), length, |k, bytes| {
            // SAFETY: `bytes` is a whole cell, and so is the one of the row.
            unsafe { memory::copy(bytes.as_ptr(), table.cell(column, rows[k]), length) }
        })?;
    }
    let sides: Vec<usize> = rows.iter().copied().filter(|&index| table.byte(index, LINK) == link::SIDE).collect();
    if !sides.is_empty() && !table.layout.linked() {
        return value_error!("the snapshot is damaged: links without obs_next");
    }
    let stride = table.layout.side_stride;
    let bytes = exactly(reader.section(*b"SIDE")?, product(&[sides.len(), stride])?)?;
    for (k, &index) in sides.iter().enumerate() {
        let target = table.new_side(index)?;
        // SAFETY: `bytes` holds a whole side row for each, and so does the pool.
        unsafe { memory::copy(bytes[k * stride..].as_ptr(), target, stride) }
    }
    for store in &mut table.frames[r] {
        read_frames(reader, store)?;
    }
    Ok(())
}

/// Reads frames behind those of a store.
fn read_frames(reader: &mut Reader<impl Read>, store: &mut FrameStore) -> Result<()> {
    let frame = store.frame();
    let mut section = reader.begin(*b"FRAM")?;
    let mut bytes = vec![0; 16];
    reader.part(&mut section, &mut bytes)?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("invariant: 8 bytes"));
    let (first, count) = (word(0) as u32, word(8));
    if count > u64::from(u32::MAX) || count.checked_mul(frame as u64) != Some(section.left) {
        return value_error!("the snapshot is damaged: {count} frames in {} bytes", section.left);
    }
    if store.next() != first {
        store.restart(first);
    }
    bytes.resize(frame, 0);
    for _ in 0..count {
        reader.part(&mut section, &mut bytes)?;
        store.reserve(1)?;
        // SAFETY: `bytes` is a whole frame.
        unsafe { store.push(bytes.as_ptr()) };
    }
    reader.finish(&section)
}

/// Checks every live row.
pub(super) fn check_rows(table: &Table, rings: &Rings) -> Result<()> {
    for (r, ring) in rings.iter().enumerate() {
        (ring.oldest()..ring.head).try_for_each(|seq| check_row(table, rings, r, ring.index(seq)))?;
    }
    Ok(())
}

fn exactly(fields: Fields, length: usize) -> Result<Vec<u8>> {
    if fields.bytes.len() == length {
        return Ok(fields.bytes);
    }
    value_error!("the snapshot is damaged: a section has {} bytes where {length} belong", fields.bytes.len())
}

/// Checks everything in a row that other code relies on.
fn check_row(table: &Table, rings: &Rings, r: usize, index: usize) -> Result<()> {
    let ring = &rings[r];
    let seq = ring.seq(index).expect("invariant: a live row");
    let number = table.episode(index).wrapping_sub(ring.first_episode) as usize;
    let in_episode = ring.episodes.get(number).is_some_and(|e| e.start <= seq && seq <= e.last);
    let flags = [TERMINATED, TRUNCATED, DONE].iter().all(|&offset| table.byte(index, offset) <= 1);
    let newest = seq + 1 == ring.head;
    let linked = match table.byte(index, LINK) {
        link::NONE | link::SIDE => true,
        link::NEXT => table.layout.linked() && !newest,
        _ => false,
    };
    let known = |ids: *const u8, store: usize, stack: usize| {
        let store = &table.frames[r][store];
        // SAFETY: the frame numbers of a leaf in the record or the side row of a row of the table.
        (0..stack).all(|j| unsafe { Table::id(ids, j) }.wrapping_sub(store.tail()) < store.count())
    };
    let frames = (0..table.layout.obs.len()).all(|twin| {
        let place = table.layout.places[table.layout.obs[twin]];
        let Place::Frames { store, stack, .. } = place else { return true };
        let side = table.byte(index, LINK) == link::SIDE;
        known(table.own(index, place), store, stack)
            && (!side || table.next_of(ring, index, twin).is_some_and(|ids| known(ids, store, stack)))
    });
    if in_episode && flags && linked && frames {
        return Ok(());
    }
    value_error!("the snapshot is damaged: row {index} contradicts the rest")
}

pub(super) fn read_priorities(fields: &mut Fields, rings: &Rings, scalars: (f64, f64, u64)) -> Result<Priorities> {
    let (alpha, max, stale) = scalars;
    let mut priorities = Priorities::new(rings.total(), alpha)?;
    let mut slots = vectors::with_room(rings.live())?;
    slots.extend(rings.chronological());
    let leaves = fields.doubles(slots.len())?;
    fields.end()?;
    if let Err(bad) = SumTree::check(&leaves).and_then(|()| SumTree::check(&[max])) {
        return value_error!("the snapshot is damaged: {bad}");
    }
    priorities.tree.set_many(&slots, &leaves);
    (priorities.max, priorities.stale) = (max, stale);
    Ok(priorities)
}
