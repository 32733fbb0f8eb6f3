//! Snapshots: everything a buffer is, in one checksummed stream.
//!
//! ```text
//! "RLFASTB\x01" | section ... | end section
//! section: tag [u8; 4] | length u64 | bytes | crc32c of tag, length and bytes, u32
//! ```
//! All numbers are little-endian. Nothing read is trusted: lengths are checked against what is there before anything is
//! allocated, checksums before anything is used, and rows are checked against the episode table before they are let in. A
//! snapshot is restored into parts of its own, which replace the old ones only when all is well.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, value_error};
use crate::memory;
use crate::replay::layout::{DONE, EPISODE, LINK, Layout, Leaf, Place, TERMINATED, TRUNCATED, link};
use crate::replay::ring::{Episode, Running};
use crate::replay::rings::Rings;
use crate::replay::table::Table;
use crate::replay::{Config, Replay, priorities::Priorities};
use crate::rng::Stream;
use crate::segment_tree::SumTree;

const MAGIC: [u8; 8] = *b"RLFASTB\x01";
const END: [u8; 4] = *b"END ";

/// What a snapshot says about itself before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Slots of each ring.
    pub capacities: Vec<usize>,
    /// What the caller gave to be kept with it.
    pub extra: Vec<u8>,
}

/// Writes sections.
struct Writer<W: Write> {
    to: W,
    crc: u32,
}

impl<W: Write> Writer<W> {
    fn begin(&mut self, tag: [u8; 4], length: u64) -> io::Result<()> {
        self.crc = 0;
        self.bytes(&tag)?;
        self.bytes(&length.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.to.write_all(bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.write_all(&self.crc.to_le_bytes())
    }

    fn section(&mut self, tag: [u8; 4], bytes: &[u8]) -> io::Result<()> {
        self.begin(tag, bytes.len() as u64)?;
        self.bytes(bytes)?;
        self.finish()
    }
}

/// Reads sections from a stream of `left` more bytes.
struct Reader<R: Read> {
    from: R,
    left: u64,
}

impl<R: Read> Reader<R> {
    fn take(&mut self, length: u64, what: &str) -> Result<Vec<u8>> {
        if length > self.left {
            return value_error!("the snapshot is cut short: {what} needs {length} bytes, but {} are left", self.left);
        }
        let mut bytes = vec![0; length as usize];
        self.from.read_exact(&mut bytes).map_err(Error::io("cannot read the snapshot"))?;
        self.left -= length;
        Ok(bytes)
    }

    fn magic(&mut self) -> Result<()> {
        if self.take(8, "its mark")? == MAGIC {
            return Ok(());
        }
        value_error!("this is no rlfast snapshot, or one of a version that this rlfast does not know")
    }

    fn any_section(&mut self) -> Result<([u8; 4], Vec<u8>)> {
        let head = self.take(12, "a section")?;
        let (tag, length) = head.split_at(4);
        let tag: [u8; 4] = tag.try_into().expect("invariant: split at 4");
        let length = u64::from_le_bytes(length.try_into().expect("invariant: 8 bytes left"));
        let bytes = self.take(length, &format!("section {:?}", String::from_utf8_lossy(&tag)))?;
        let found = u32::from_le_bytes(self.take(4, "a checksum")?.try_into().expect("invariant: 4 bytes"));
        if crc32c::crc32c_append(crc32c::crc32c(&head), &bytes) != found {
            return value_error!(
                "the snapshot is damaged: checksum of section {:?} is wrong",
                String::from_utf8_lossy(&tag)
            );
        }
        Ok((tag, bytes))
    }

    fn section(&mut self, tag: [u8; 4]) -> Result<Fields> {
        let (found, bytes) = self.any_section()?;
        if found != tag {
            return value_error!(
                "the snapshot is damaged: section {:?} where {:?} belongs",
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(&tag)
            );
        }
        Ok(Fields { bytes, at: 0 })
    }
}

/// Reads values from a section.
struct Fields {
    bytes: Vec<u8>,
    at: usize,
}

impl Fields {
    fn raw(&mut self, length: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return value_error!("the snapshot is damaged: a section ends early");
        };
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.raw(8)?.try_into().expect("invariant: 8 bytes")))
    }

    fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// A count of things of at least `least` bytes each, which must still be there.
    fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / least.max(1) as u64 {
            return value_error!("the snapshot is damaged: it announces {count} items in {left} bytes");
        }
        Ok(count as usize)
    }

    fn text(&mut self) -> Result<String> {
        let length = self.count(1)?;
        let bytes = self.raw(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| Error::Value("the snapshot is damaged: a name is not UTF-8".to_owned()))
    }

    fn words(&mut self) -> Result<Vec<usize>> {
        let count = self.count(8)?;
        (0..count).map(|_| Ok(self.u64()? as usize)).collect()
    }

    fn end(&self) -> Result<()> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        value_error!("the snapshot is damaged: a section is too long")
    }
}

fn put(to: &mut Vec<u8>, value: u64) {
    to.extend(value.to_le_bytes());
}

fn put_words(to: &mut Vec<u8>, words: &[usize]) {
    put(to, words.len() as u64);
    words.iter().for_each(|&w| put(to, w as u64));
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend(text.as_bytes());
}

/// Copies bytes of the table out, so that no reference to them is formed.
fn copied(from: *const u8, length: usize, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + length, 0);
    // SAFETY: callers pass whole rows, side rows or frames of the table; `to` was just given the room.
    unsafe { memory::copy(from, to.as_mut_ptr().add(start), length) }
}

impl Replay {
    /// The snapshot, with `extra` for the caller's own use.
    #[must_use]
    pub fn dump(&self, extra: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, extra).expect("invariant: a vector takes all that is written");
        bytes
    }

    /// Writes the snapshot to a temporary file beside `path`, syncs it, and renames it over `path`: whenever the process
    /// or the machine dies, `path` holds the old snapshot or the new one.
    ///
    /// # Errors
    /// `Io`; the temporary file is removed and `path` is what it was.
    pub fn save(&self, path: &Path, extra: &[u8]) -> Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = self.write_file(&temporary, extra).and_then(|()| std::fs::rename(&temporary, path));
        if let Err(source) = written {
            let _ = std::fs::remove_file(&temporary);
            return Err(Error::Io { context: format!("cannot save to {}", path.display()), source });
        }
        sync_folder(path);
        Ok(())
    }

    fn write_file(&self, temporary: &PathBuf, extra: &[u8]) -> io::Result<()> {
        let mut to = BufWriter::with_capacity(1 << 20, File::create(temporary)?);
        self.write(&mut to, extra)?;
        to.flush()?;
        to.get_ref().sync_all()
    }

    fn write(&self, to: &mut impl Write, extra: &[u8]) -> io::Result<()> {
        to.write_all(&MAGIC)?;
        let mut writer = Writer { to, crc: 0 };
        let mut head = Vec::new();
        put_words(&mut head, &self.config.capacities);
        put_text(&mut head, "");
        writer.section(*b"HEAD", &head)?;
        writer.section(*b"EXTR", extra)?;
        writer.section(*b"CONF", &self.options())?;
        writer.section(*b"RING", &self.ring_states())?;
        if let Some(table) = &self.table {
            writer.section(*b"LEAF", &leaves(&table.layout))?;
            for r in 0..self.rings.len() {
                self.write_rows(&mut writer, table, r)?;
            }
        }
        if let Some(priorities) = &self.priorities {
            let tree = priorities.tree.lock();
            let mut values = Vec::new();
            for index in self.rings.chronological() {
                values.extend(tree.leaf(index).to_le_bytes());
            }
            writer.section(*b"PRIO", &values)?;
        }
        writer.section(END, &[])
    }

    fn options(&self) -> Vec<u8> {
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

    fn ring_states(&self) -> Vec<u8> {
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

    fn write_rows(&self, writer: &mut Writer<&mut impl Write>, table: &Table, r: usize) -> io::Result<()> {
        let ring = &self.rings[r];
        let rows = || (ring.oldest()..ring.head).map(|seq| ring.index(seq));
        let mut buffer = Vec::new();
        let mut stream =
            |writer: &mut Writer<_>, tag, length: usize, at: &dyn Fn(usize) -> *const u8| -> io::Result<()> {
                writer.begin(tag, (length * ring.len) as u64)?;
                for index in rows() {
                    buffer.clear();
                    copied(at(index), length, &mut buffer);
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
            copied(table.side_at(index), table.layout.side_stride, &mut side);
        }
        writer.section(*b"SIDE", &side)?;
        for store in &table.frames[r] {
            writer.begin(*b"FRAM", 16 + store.count() as u64 * store.frame() as u64)?;
            writer.bytes(&u64::from(store.tail()).to_le_bytes())?;
            writer.bytes(&u64::from(store.count()).to_le_bytes())?;
            let mut frame = Vec::new();
            for k in 0..store.count() {
                frame.clear();
                copied(store.at(store.tail().wrapping_add(k)), store.frame(), &mut frame);
                writer.bytes(&frame)?;
            }
            writer.finish()?;
        }
        Ok(())
    }

    /// Restores what `dump` gave, `extra` apart.
    ///
    /// # Errors
    /// `Value` for anything that is not a whole snapshot of a buffer with the same rings, `Memory` when it cannot fit;
    /// nothing is changed then.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<u8>> {
        self.read(&mut Reader { from: snapshot, left: snapshot.len() as u64 })
    }

    /// Restores what `save` wrote, and gives back `extra`.
    ///
    /// # Errors
    /// As `restore`, and `Io`.
    pub fn open(&mut self, path: &Path) -> Result<Vec<u8>> {
        self.read(&mut file_reader(path)?)
    }

    fn read(&mut self, reader: &mut Reader<impl Read>) -> Result<Vec<u8>> {
        let header = read_header(reader)?;
        if header.capacities != self.config.capacities {
            return value_error!(
                "the snapshot is of rings with {:?} slots, this buffer has {:?}",
                header.capacities,
                self.config.capacities
            );
        }
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
        let rings = read_rings(&mut reader.section(*b"RING")?, &config.capacities)?;
        let mut table = None;
        if has_table {
            let layout = read_leaves(&mut reader.section(*b"LEAF")?, config.save_obs_next)?;
            let mut fresh = Table::new(layout.0, &config.capacities, config.storage.clone(), 0)?;
            fresh.extend(layout.1)?;
            for r in 0..rings.len() {
                read_rows(reader, &mut fresh, &rings, r)?;
            }
            table = Some(fresh);
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
}

/// What a saved snapshot says about itself.
///
/// # Errors
/// `Value` when it is none, or damaged so far; `Io`.
pub fn header(path: &Path) -> Result<Header> {
    read_header(&mut file_reader(path)?)
}

/// What a snapshot in memory says about itself.
///
/// # Errors
/// `Value` when it is none, or damaged so far.
pub fn header_of(snapshot: &[u8]) -> Result<Header> {
    read_header(&mut Reader { from: snapshot, left: snapshot.len() as u64 })
}

fn file_reader(path: &Path) -> Result<Reader<io::BufReader<File>>> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).map_err(Error::io(context()))?;
    let left = file.metadata().map_err(Error::io(context()))?.len();
    Ok(Reader { from: io::BufReader::with_capacity(1 << 20, file), left })
}

fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The rename is done; a file system that cannot sync a folder has nothing better to offer.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
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

fn read_header(reader: &mut Reader<impl Read>) -> Result<Header> {
    reader.magic()?;
    let mut head = reader.section(*b"HEAD")?;
    let capacities = head.words()?;
    head.text()?;
    head.end()?;
    let extra = reader.section(*b"EXTR")?.bytes;
    Ok(Header { capacities, extra })
}

fn read_options(fields: &mut Fields, config: &mut Config) -> Result<bool> {
    config.save_obs_next = fields.u64()? == 1;
    config.sample_avail = fields.u64()? == 1;
    config.weight_norm = fields.u64()? == 1;
    let has_table = fields.u64()? == 1;
    config.stack_num = fields.u64()? as usize;
    config.beta = fields.f64()?;
    config.seed = fields.u64()?;
    if config.stack_num == 0 {
        return value_error!("the snapshot is damaged: stack_num is 0");
    }
    Ok(has_table)
}

fn read_stream(fields: &mut Fields) -> Result<Stream> {
    let state = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
    Stream::from_state(state)
        .ok_or_else(|| Error::Value("the snapshot is damaged: a random stream is empty".to_owned()))
}

fn read_rings(fields: &mut Fields, capacities: &[usize]) -> Result<Rings> {
    let mut rings = Rings::new(capacities)?;
    for r in 0..capacities.len() {
        let ring = &mut rings[r];
        ring.head = fields.u64()?;
        ring.cursor = fields.u64()? as usize;
        ring.len = fields.u64()? as usize;
        ring.first_episode = fields.u64()? as u32;
        let fits = ring.len <= ring.capacity
            && ring.cursor < ring.capacity.max(1)
            && ring.head >= ring.len as u64
            && (ring.capacity == 0 || ring.head % ring.capacity as u64 == ring.cursor as u64);
        if !fits {
            return value_error!("the snapshot is damaged: ring {r} contradicts itself");
        }
        let count = fields.count(24)?;
        let mut episodes = VecDeque::with_capacity(count);
        for _ in 0..count {
            let (start, last, done) = (fields.u64()?, fields.u64()?, fields.u64()? == 1);
            episodes.push_back(Episode { start, last, done });
        }
        ring.episodes = episodes;
        check_episodes(ring)?;
        let agents = fields.count(8)?;
        let episode_return = (0..agents).map(|_| fields.f64()).collect::<Result<_>>()?;
        ring.running = Running { episode_return, length: fields.u64()?, start: fields.u64()? as usize };
        if ring.running.start >= ring.capacity.max(1) {
            return value_error!("the snapshot is damaged: ring {r} contradicts itself");
        }
    }
    fields.end()?;
    Ok(rings)
}

/// Episodes follow one another without a gap, from the oldest row to the newest.
fn check_episodes(ring: &crate::replay::ring::Ring) -> Result<()> {
    let mut next = None;
    for (k, e) in ring.episodes.iter().enumerate() {
        let whole = e.start <= e.last && next.is_none_or(|n| n == e.start) && (e.done || k + 1 == ring.episodes.len());
        if !whole {
            return value_error!("the snapshot is damaged: its episodes do not follow one another");
        }
        next = Some(e.last + 1);
    }
    let covers = match ring.episodes.front() {
        None => ring.len == 0,
        Some(first) => first.start <= ring.oldest() && first.last >= ring.oldest() && next == Some(ring.head),
    };
    if covers { Ok(()) } else { value_error!("the snapshot is damaged: its episodes do not cover its rows") }
}

/// The columns of the first row, and those that came later.
fn read_leaves(fields: &mut Fields, save_obs_next: bool) -> Result<(Layout, Vec<Leaf>)> {
    let count = fields.count(32)?;
    let first = fields.u64()? as usize;
    let mut all = Vec::with_capacity(count);
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
    Ok((Layout::new(all, save_obs_next)?, late))
}

fn read_rows(reader: &mut Reader<impl Read>, table: &mut Table, rings: &Rings, r: usize) -> Result<()> {
    let ring = &rings[r];
    let rows: Vec<usize> = (ring.oldest()..ring.head).map(|seq| ring.index(seq)).collect();
    let stride = table.layout.stride;
    let records = exactly(reader.section(*b"ROWS")?, rows.len() * stride)?;
    for (k, &index) in rows.iter().enumerate() {
        // SAFETY: `records` holds a whole record for each row, and so does the table.
        unsafe { memory::copy(records[k * stride..].as_ptr(), table.record(index), stride) }
    }
    for column in 0..table.layout.columns.len() {
        let length = table.layout.columns[column];
        let cells = exactly(reader.section(*b"COLU")?, rows.len() * length)?;
        for (k, &index) in rows.iter().enumerate() {
            // SAFETY: `cells` holds a whole cell for each row, and so does the column.
            unsafe { memory::copy(cells.as_ptr().add(k * length), table.cell(column, index), length) }
        }
    }
    let sides: Vec<usize> = rows.iter().copied().filter(|&index| table.byte(index, LINK) == link::SIDE).collect();
    if !sides.is_empty() && !table.layout.linked() {
        return value_error!("the snapshot is damaged: links without obs_next");
    }
    let stride = table.layout.side_stride;
    let bytes = exactly(reader.section(*b"SIDE")?, sides.len() * stride)?;
    for (k, &index) in sides.iter().enumerate() {
        let target = table.new_side(index)?;
        // SAFETY: `bytes` holds a whole side row for each, and so does the pool.
        unsafe { memory::copy(bytes[k * stride..].as_ptr(), target, stride) }
    }
    for store in &mut table.frames[r] {
        let mut fields = reader.section(*b"FRAM")?;
        let (tail, count) = (fields.u64()? as u32, fields.u64()?);
        let frame = store.frame();
        let frames = fields.raw(fields.bytes.len() - 16)?;
        if count > u64::from(u32::MAX) || frames.len() as u64 != count * frame as u64 {
            return value_error!("the snapshot is damaged: {count} frames in {} bytes", frames.len());
        }
        store.restart(tail);
        for k in 0..count as usize {
            store.reserve(1)?;
            // SAFETY: `frames` holds `count` whole frames.
            unsafe { store.push(frames[k * frame..].as_ptr()) };
        }
    }
    rows.iter().try_for_each(|&index| check_row(table, rings, r, index))
}

fn exactly(fields: Fields, length: usize) -> Result<Vec<u8>> {
    if fields.bytes.len() == length {
        return Ok(fields.bytes);
    }
    value_error!("the snapshot is damaged: a section has {} bytes where {length} belong", fields.bytes.len())
}

/// Checks all that other code trusts in a row.
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
        (0..stack).all(|j| Table::id(ids, j).wrapping_sub(store.tail()) < store.count())
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
    debug_assert_eq!(EPISODE, 0);
    value_error!("the snapshot is damaged: row {index} contradicts the rest")
}

fn read_priorities(fields: &mut Fields, rings: &Rings, scalars: (f64, f64, u64)) -> Result<Priorities> {
    let (alpha, max, stale) = scalars;
    let mut priorities = Priorities::new(rings.total(), alpha)?;
    let slots: Vec<usize> = rings.chronological().collect();
    let leaves = slots.iter().map(|_| fields.f64()).collect::<Result<Vec<_>>>()?;
    fields.end()?;
    if let Err(bad) = SumTree::check(&leaves).and_then(|()| SumTree::check(&[max])) {
        return value_error!("the snapshot is damaged: {bad}");
    }
    priorities.tree.lock().set_many(&slots, &leaves);
    (priorities.max, priorities.stale) = (max, stale);
    Ok(priorities)
}
