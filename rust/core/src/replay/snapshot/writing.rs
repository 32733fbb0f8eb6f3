//! Writing a buffer to a snapshot.

use std::io::{self, Write};

use super::codec::{Writer, append_bytes, put, put_text, put_words};
use super::{END, MAGIC, SINGLE_FRAMES};
use crate::replay::Replay;
use crate::replay::frames::{Frame, FrameStore};
use crate::replay::layout::{LINK, Layout, link};
use crate::replay::table::Table;

impl Replay {
    pub(super) fn write(&self, to: &mut impl Write, extra: &[u8]) -> io::Result<()> {
        to.write_all(&MAGIC)?;
        let mut writer = Writer { to, crc: 0 };
        let mut head = Vec::new();
        put_words(&mut head, &self.config.capacities);
        put_text(
            &mut head,
            if self.table.as_ref().is_some_and(|table| table.layout.single) { SINGLE_FRAMES } else { "" },
        );
        writer.section(*b"HEAD", &head)?;
        writer.section(*b"EXTR", extra)?;
        writer.section(*b"CONF", &self.options())?;
        writer.section(*b"RING", &self.ring_states())?;
        if let Some(table) = &self.table {
            writer.section(*b"LEAF", &leaves(&table.layout))?;
            for r in 0..self.rings.len() {
                let tails: Vec<_> = table.frames[r].iter().map(FrameStore::tail).collect();
                self.write_rows(&mut writer, table, r, self.rings[r].oldest(), &tails)?;
            }
        }
        self.write_priorities(&mut writer)?;
        writer.section(END, &[])
    }

    pub(super) fn write_priorities(&self, writer: &mut Writer<impl Write>) -> io::Result<()> {
        if let Some(priorities) = &self.priorities {
            let mut values = Vec::new();
            for index in self.rings.chronological() {
                values.extend(priorities.tree.leaf(index).to_le_bytes());
            }
            writer.section(*b"PRIO", &values)?;
        }
        Ok(())
    }

    pub(super) fn options(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let flags =
            [self.config.save_obs_next, self.config.sample_avail, self.config.weight_norm, self.table.is_some()];
        flags.iter().for_each(|&flag| put(&mut out, u64::from(flag)));
        put(&mut out, self.config.stack_num as u64);
        put(&mut out, self.config.beta.to_bits());
        put(&mut out, self.config.seed);
        for stream in [&self.sampler, &self.hindsight] {
            stream.state().iter().for_each(|&word| put(&mut out, word));
        }
        put(&mut out, u64::from(self.priorities.is_some()));
        if let Some(priorities) = &self.priorities {
            put(&mut out, priorities.alpha.to_bits());
            put(&mut out, priorities.max.to_bits());
            put(&mut out, priorities.stale);
        }
        out
    }

    pub(super) fn ring_states(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for ring in self.rings.iter() {
            put(&mut out, ring.head);
            put(&mut out, ring.cursor as u64);
            put(&mut out, ring.len as u64);
            put(&mut out, u64::from(ring.first_episode));
            put(&mut out, ring.episodes.len() as u64);
            for episode in &ring.episodes {
                put(&mut out, episode.start);
                put(&mut out, episode.last);
                put(&mut out, u64::from(episode.done));
            }
            put(&mut out, ring.running.episode_return.len() as u64);
            ring.running.episode_return.iter().for_each(|value| put(&mut out, value.to_bits()));
            put(&mut out, ring.running.length);
            put(&mut out, ring.running.start as u64);
        }
        out
    }

    /// Writes the rows of a ring from the sequence number `from` on, and the frames of each store from the numbers `frames` on.
    pub(super) fn write_rows(
        &self,
        writer: &mut Writer<impl Write>,
        table: &Table,
        r: usize,
        from: u64,
        frames: &[u32],
    ) -> io::Result<()> {
        let ring = &self.rings[r];
        let rows = || (from..ring.head).map(|seq| ring.index(seq));
        let count = (ring.head - from) as usize;
        let mut buffer = Vec::new();
        let mut stream =
            |writer: &mut Writer<_>, tag: [u8; 4], length: usize, at: &dyn Fn(usize) -> *const u8| -> io::Result<()> {
                writer.begin(tag, (length * count) as u64)?;
                for index in rows() {
                    buffer.clear();
                    append_bytes(at(index), length, &mut buffer);
                    writer.bytes(&buffer)?;
                }
                writer.finish()
            };
        stream(writer, *b"ROWS", table.layout.stride, &|index| table.record(index).cast_const())?;
        for (column, &length) in table.layout.columns.iter().enumerate() {
            stream(writer, *b"COLU", length, &|index| table.cell(column, index).cast_const())?;
        }
        let mut side = Vec::new();
        for index in rows().filter(|&index| table.byte(index, LINK) == link::SIDE) {
            append_bytes(table.side_at(index), table.layout.side_stride, &mut side);
        }
        writer.section(*b"SIDE", &side)?;
        for (store, &first) in table.frames[r].iter().zip(frames) {
            let count = store.count() - first.wrapping_sub(store.tail());
            writer.begin(*b"FRAM", 16 + u64::from(count) * store.frame() as u64)?;
            writer.bytes(&u64::from(first).to_le_bytes())?;
            writer.bytes(&u64::from(count).to_le_bytes())?;
            let (mut bytes, mut unpacker) = (Vec::new(), store.unpacker());
            for k in 0..count {
                bytes.clear();
                match (store.find(first.wrapping_add(k)), &mut unpacker) {
                    (Frame::At(at), _) => append_bytes(at, store.frame(), &mut bytes),
                    (Frame::Packed(chunk, place), Some(unpacker)) => {
                        bytes.extend_from_slice(unpacker.read(chunk, place, store.frame()));
                    }
                    (Frame::Packed(..), None) => unreachable!("invariant: packed frames have a reader"),
                }
                writer.bytes(&bytes)?;
            }
            writer.finish()?;
        }
        Ok(())
    }
}

fn leaves(layout: &Layout) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, layout.leaves.len() as u64);
    put(&mut out, layout.first as u64);
    for leaf in &layout.leaves {
        put(&mut out, leaf.path.len() as u64);
        leaf.path.iter().for_each(|key| put_text(&mut out, key));
        put_text(&mut out, &leaf.dtype);
        put(&mut out, leaf.itemsize as u64);
        put_words(&mut out, &leaf.shape);
    }
    out
}
