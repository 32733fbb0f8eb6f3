//! A buffer that is kept in a folder: a snapshot, and a journal of what was added since.
//!
//! ```text
//! lock             held by the process that uses the folder
//! base-N           a snapshot
//! journal-N        "RLFASTJ\x01" | addition ...
//! heads            for each ring the number of rows ever added (u64), written at each add
//! addition: "ADDN" | length u64 | crc32c of both, u32 | CONF | RING | (SPAN ROWS COLU... SIDE FRAM...) of each ring | PRIO | END
//! ```
//! An addition is written with length 0 and synced; then its length is written and synced. So whatever interrupts the process or the
//! machine, a journal has whole additions and nothing after them that counts. Once the journal is as long as its snapshot, or when
//! stored rows were changed, the next flush writes a new snapshot and begins a new journal.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, fcntl_lock};

use super::codec::{Fields, Reader, Writer, put};
use super::reading::{State, check_rows, read_priorities, read_rings, read_rows};
use super::{END, sync_folder};
use crate::error::{Error, Result, value_error};
use crate::regular;
use crate::replay::Replay;

const MAGIC: [u8; 8] = *b"RLFASTJ\x01";
const ADDITION: [u8; 4] = *b"ADDN";
/// Bytes of the beginning of an addition.
const BEGINNING: u64 = 16;
/// A journal is at least this long before a new snapshot takes its place.
const LEAST: u64 = 1 << 20;
const HEADS: &str = "heads";
/// More rows than these are not added between two flushes: it would take years.
const MOST_LOST: u64 = 1 << 50;

/// The priorities in an addition; their exponent, the largest one and the stale updates.
type SavedPriorities = (Fields, (f64, f64, u64));

/// The journal of a buffer.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    number: u64,
    file: File,
    /// Where the next addition begins.
    end: u64,
    /// Bytes of the snapshot.
    base: u64,
    /// For each ring the sequence number of the first row, and for each store the number of the first frame, that are not in the folder.
    marks: Vec<(u64, Vec<u32>)>,
    heads: MmapRaw,
    lost: u64,
    /// Whether stored rows were changed since the last flush.
    pub(in crate::replay) rewritten: bool,
    _hold: Hold,
}

impl Journal {
    /// Notes how many rows were ever added to a ring.
    #[inline]
    pub(in crate::replay) fn count(&self, r: usize, head: u64) {
        assert!(8 * r < self.heads.len(), "invariant: one number for each ring");
        // SAFETY: a number of the mapped file, just checked; nothing else in this process reads it.
        unsafe { self.heads.as_mut_ptr().cast::<u64>().add(r).write_volatile(head) }
    }

    fn counted(&self, r: usize) -> u64 {
        // SAFETY: as in `count`, which was called for all rings or follows.
        unsafe { self.heads.as_mut_ptr().cast::<u64>().add(r).read_volatile() }
    }
}

/// The folders that this process uses, as the system's locks are between processes.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The use of a folder.
#[derive(Debug)]
struct Hold {
    folder: PathBuf,
    /// A lock of the process, which a forked child does not inherit.
    _lock: File,
}

impl Hold {
    fn new(folder: &Path) -> Result<Self> {
        let context = || format!("cannot use the buffer in {}", folder.display());
        let busy = || {
            let context =
                format!("the buffer in {} is in use: close it, or end the process that has it", folder.display());
            Error::io(context)(io::Error::from_raw_os_error(rustix::io::Errno::AGAIN.raw_os_error()))
        };
        let folder = fs::canonicalize(folder).map_err(Error::io(context()))?;
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&folder) {
            return Err(busy()); // opening the lock's file and closing it would free the lock
        }
        let lock = regular::open_in_folder(&folder.join("lock"), true)?;
        fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| busy())?;
        held.insert(folder.clone());
        Ok(Self { folder, _lock: lock })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.folder);
    }
}

/// Returns the newest snapshot of a buffer's folder and its number; None if there is none.
///
/// # Errors
/// `Io` when the folder cannot be read, `Value` if the snapshot is a link, or something else than a file.
pub fn newest_base(folder: &Path) -> Result<Option<(u64, PathBuf)>> {
    let context = || format!("cannot read {}", folder.display());
    let mut newest = None;
    for entry in fs::read_dir(folder).map_err(Error::io(context()))? {
        let entry = entry.map_err(Error::io(context()))?;
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("base-")?.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, entry.path())));
    }
    newest.iter().try_for_each(|(_, path)| regular::check_own(path))?;
    Ok(newest)
}

impl Replay {
    /// Keeps all rows in the folder of the storage, where [`Replay::reopen`] finds them, whatever happens to the process and the machine
    /// afterwards. The first call takes the folder for this buffer alone.
    ///
    /// # Errors
    /// `Value` for rows in memory, and where the folder holds another buffer; `Io` when a call of the system fails. What an earlier call
    /// kept is still there then.
    pub fn flush(&mut self, extra: &[u8]) -> Result<()> {
        self.config.storage.check_process()?;
        let Some(folder) = self.config.storage.folder().map(Path::to_owned) else {
            return value_error!("flush needs rows in a folder (storage=FOLDER); save writes rows in memory to a file");
        };
        let Some(mut journal) = self.journal.take() else {
            let hold = Hold::new(&folder)?;
            if newest_base(&folder)?.is_some() {
                return value_error!(
                    "{} holds another buffer: open that one, or choose another folder",
                    folder.display()
                );
            }
            self.journal = Some(self.begin(&folder, 0, hold, extra)?);
            return Ok(());
        };
        let result = if journal.rewritten || journal.end > journal.base.max(LEAST) {
            self.rebase(&mut journal, extra)
        } else {
            self.append(&mut journal).map_err(Error::io(format!("cannot flush to {}", folder.display())))
        };
        self.journal = Some(journal);
        result
    }

    /// Returns the rows that were added after the last flush before this buffer was reopened, and are gone.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.lost)
    }

    fn marks(&self) -> Vec<(u64, Vec<u32>)> {
        let frames =
            |r: usize| self.table.iter().flat_map(move |table| table.frames[r].iter().map(|store| store.next()));
        self.rings.iter().enumerate().map(|(r, ring)| (ring.head, frames(r).collect())).collect()
    }

    /// Writes a snapshot and begins its journal.
    fn begin(&self, folder: &Path, number: u64, hold: Hold, extra: &[u8]) -> Result<Journal> {
        let heads = map_heads(folder, self.rings.len())?;
        let (file, base) = self.write_base(folder, number, extra)?;
        let marks = self.marks();
        let journal = Journal {
            folder: folder.to_owned(),
            number,
            file,
            end: MAGIC.len() as u64,
            base,
            marks,
            heads,
            lost: 0,
            rewritten: false,
            _hold: hold,
        };
        self.rings.iter().enumerate().for_each(|(r, ring)| journal.count(r, ring.head));
        Ok(journal)
    }

    fn write_base(&self, folder: &Path, number: u64, extra: &[u8]) -> Result<(File, u64)> {
        let context = || format!("cannot flush to {}", folder.display());
        // The journal comes first: a snapshot without its journal would be one whose journal is lost.
        let file = new_journal(&folder.join(format!("journal-{number}"))).map_err(Error::io(context()))?;
        let base = folder.join(format!("base-{number}"));
        self.save(&base, extra)?;
        Ok((file, fs::metadata(&base).map_err(Error::io(context()))?.len()))
    }

    fn rebase(&self, journal: &mut Journal, extra: &[u8]) -> Result<()> {
        let (file, base) = self.write_base(&journal.folder, journal.number + 1, extra)?;
        let old = journal.number;
        journal.number += 1;
        (journal.file, journal.base, journal.end) = (file, base, MAGIC.len() as u64);
        (journal.marks, journal.rewritten) = (self.marks(), false);
        for name in ["base", "journal"] {
            // The new ones count whether or not the old ones are still there.
            let _ = fs::remove_file(journal.folder.join(format!("{name}-{old}")));
        }
        Ok(())
    }

    /// Writes what is new to the journal.
    fn append(&self, journal: &mut Journal) -> io::Result<()> {
        let Some(table) = &self.table else { return Ok(()) };
        let mut file = &journal.file;
        file.set_len(journal.end)?; // without what an interrupted flush left
        file.seek(SeekFrom::Start(journal.end))?;
        let mut to = BufWriter::with_capacity(1 << 20, file);
        to.write_all(&[0; BEGINNING as usize])?;
        let mut writer = Writer { to: &mut to, crc: 0 };
        writer.section(*b"CONF", &self.options())?;
        writer.section(*b"RING", &self.ring_states())?;
        for (r, (ring, (head, frames))) in self.rings.iter().zip(&journal.marks).enumerate() {
            // The newest row of the last flush comes again: its `obs_next` and its end may have changed.
            let from = head.saturating_sub(1).clamp(ring.oldest(), ring.head);
            let stores = table.frames[r].iter().zip(frames);
            let frames: Vec<_> = stores
                .map(|(store, &mark)| {
                    let behind = mark.wrapping_sub(store.tail());
                    if behind <= store.count() { mark } else { store.tail() }
                })
                .collect();
            let mut span = Vec::new();
            put(&mut span, from);
            writer.section(*b"SPAN", &span)?;
            self.write_rows(&mut writer, table, r, from, &frames)?;
        }
        self.write_priorities(&mut writer)?;
        writer.section(END, &[])?;
        to.flush()?;
        drop(to);
        file.sync_data()?;
        let end = file.stream_position()?;
        file.write_all_at(&beginning(end - journal.end - BEGINNING), journal.end)?;
        file.sync_data()?;
        journal.end = end;
        journal.marks = self.marks();
        Ok(())
    }

    /// Reads a buffer that was kept in a folder by [`Replay::flush`], and goes on with it. Its rows are those of the last flush.
    ///
    /// # Errors
    /// `Value` when the folder holds no buffer with these rings, or a damaged one; `Io` when it is in use or cannot be read. This buffer must
    /// not be used then.
    pub fn reopen(&mut self, folder: &Path) -> Result<()> {
        if self.config.storage.folder().is_none() {
            return value_error!("a buffer that is kept in {} needs rows in a folder", folder.display());
        }
        let hold = Hold::new(folder)?;
        let Some((number, base)) = newest_base(folder)? else {
            return value_error!("{} holds no buffer: nothing was flushed to it", folder.display());
        };
        let context = || format!("cannot open the buffer in {}", folder.display());
        self.open(&base)?;
        let path = folder.join(format!("journal-{number}"));
        let file = regular::open_in_folder(&path, false)?;
        let end = self.replay(&file).map_err(|error| match error {
            Error::Value(text) => Error::Value(format!("{}: {text}", path.display())),
            error => error,
        })?;
        let heads = map_heads(folder, self.rings.len())?;
        let base = fs::metadata(&base).map_err(Error::io(context()))?.len();
        let marks = self.marks();
        let folder = folder.to_owned();
        let mut journal =
            Journal { folder, number, file, end, base, marks, heads, lost: 0, rewritten: false, _hold: hold };
        for (r, ring) in self.rings.iter().enumerate() {
            let gone = journal.counted(r).saturating_sub(ring.head);
            if gone > MOST_LOST {
                return value_error!(
                    "{}: it counts {} rows of ring {r}, of which {} were kept, which cannot be: delete this file to open the buffer \
                     without a count of the rows that are gone",
                    journal.folder.join(HEADS).display(),
                    journal.counted(r),
                    ring.head
                );
            }
            journal.lost += gone;
        }
        self.rings.iter().enumerate().for_each(|(r, ring)| journal.count(r, ring.head));
        self.journal = Some(journal);
        Ok(())
    }

    /// Applies the additions of a journal, and returns where they end.
    fn replay(&mut self, file: &File) -> Result<u64> {
        let context = || "cannot read the journal";
        let left = file.metadata().map_err(Error::io(context()))?.len();
        let mut reader = Reader { from: BufReader::with_capacity(1 << 20, file), left };
        if reader.take(8, "its mark")? != MAGIC {
            return value_error!("this is no journal, or one of a version that this rlfast does not know");
        }
        let mut end = MAGIC.len() as u64;
        let mut last = None;
        while reader.left >= BEGINNING {
            let found = reader.take(BEGINNING, "an addition")?;
            let length = u64::from_le_bytes(found[4..12].try_into().expect("invariant: 8 bytes"));
            if found[..] == [0; BEGINNING as usize] {
                break; // of a flush that was interrupted
            }
            if found[..] != beginning(length) || length > reader.left {
                return value_error!("the journal is damaged");
            }
            let after = reader.left - length;
            last = self.read_addition(&mut reader)?.or(last);
            if reader.left != after {
                return value_error!("the journal is damaged: an addition has another length");
            }
            end += BEGINNING + length;
        }
        if let Some((mut values, scalars)) = last {
            self.priorities = Some(read_priorities(&mut values, &self.rings, scalars)?);
        }
        if let Some(table) = &self.table {
            check_rows(table, &self.rings)?;
        }
        Ok(end)
    }

    /// Reads an addition, and returns its priorities, which only the last one needs.
    fn read_addition(&mut self, reader: &mut Reader<impl Read>) -> Result<Option<SavedPriorities>> {
        let State { config, streams: [sampler, hindsight], scalars, .. } = self.read_state(reader)?;
        let rings = read_rings(&mut reader.section(*b"RING")?, &config.capacities)?;
        let Some(table) = &mut self.table else {
            return value_error!("the journal is damaged: rows without columns");
        };
        for (r, ring) in rings.iter().enumerate() {
            let mut span = reader.section(*b"SPAN")?;
            let from = span.u64()?;
            span.end()?;
            if from < ring.oldest() || from > ring.head {
                return value_error!("the journal is damaged: its rows are not those of ring {r}");
            }
            read_rows(reader, table, ring, r, from)?;
            table.release(ring, r);
        }
        let priorities = match scalars {
            Some(scalars) => Some((reader.section(*b"PRIO")?, scalars)),
            None => None,
        };
        reader.section(END)?.end()?;
        (self.config, self.rings, self.sampler, self.hindsight) = (config, rings, sampler, hindsight);
        Ok(priorities)
    }
}

/// Returns the beginning of an addition of `length` bytes.
fn beginning(length: u64) -> [u8; BEGINNING as usize] {
    let mut bytes = [0; BEGINNING as usize];
    bytes[..4].copy_from_slice(&ADDITION);
    bytes[4..12].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn new_journal(path: &Path) -> io::Result<File> {
    let file = regular::create(path)?;
    (&file).write_all(&MAGIC)?;
    file.sync_all()?;
    sync_folder(path);
    Ok(file)
}

fn map_heads(folder: &Path, rings: usize) -> Result<MmapRaw> {
    let path = folder.join(HEADS);
    let context = || format!("cannot use {}", path.display());
    let file = regular::open_in_folder(&path, true)?;
    let (bytes, found) = (8 * rings as u64, file.metadata().map_err(Error::io(context()))?.len());
    if found != 0 && found != bytes {
        return value_error!(
            "{} has {found} bytes, the counts of {rings} rings have {bytes}: it is damaged",
            path.display()
        );
    }
    let reserve = || {
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?; // a full disk is an error here
        MmapOptions::new().len(bytes as usize).map_raw(&file)
    };
    reserve().map_err(Error::io(context()))
}
