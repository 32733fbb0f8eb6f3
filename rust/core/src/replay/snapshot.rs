//! Snapshots: the whole state of a buffer in one stream with checksums.
//!
//! ```text
//! "RLFASTB\x01" | section ... | end section
//! section: tag [u8; 4] | length u64 | bytes | crc32c of tag, length and bytes, u32
//! ```
//! All numbers are little-endian. A snapshot may be damaged or hostile, so lengths are compared with the bytes that are
//! left before anything is allocated, checksums are verified at the end of each section, and rows are compared with the
//! table of episodes. Rows and frames are read one at a time. A snapshot is restored into new objects, which replace the buffer's
//! only when everything is valid.

mod codec;
mod journal;
mod reading;
mod rewriting;
mod writing;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::error::{Error, Result};
use crate::regular;
use crate::replay::Replay;
use codec::Reader;
pub use journal::{Journal, newest_base};
use reading::read_header;

const MAGIC: [u8; 8] = *b"RLFASTB\x01";
const END: [u8; 4] = *b"END ";
/// In the header of a snapshot whose rows have single pictures as frames: see [`Layout::new`].
const SINGLE_FRAMES: &str = "single frames";

/// The sections of a snapshot before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of slots of each ring.
    pub capacities: Vec<usize>,
    /// The bytes that the caller stored with the snapshot.
    pub extra: Vec<u8>,
    /// Whether single pictures are frames in its rows.
    single_frames: bool,
}

/// A vector to write to, which returns an error when memory runs out.
struct FallibleVec(Vec<u8>);

impl io::Write for FallibleVec {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_reserve(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Replay {
    /// Returns the snapshot, with `extra` bytes for the caller's own use.
    ///
    /// # Errors
    /// `Io` when the snapshot does not fit into memory.
    pub fn dump(&self, extra: &[u8]) -> Result<Vec<u8>> {
        self.config.storage.check_process()?;
        let mut bytes = FallibleVec(Vec::new());
        self.write(&mut bytes, extra).map_err(Error::io("cannot hold the snapshot in memory"))?;
        Ok(bytes.0)
    }

    /// Writes the snapshot to a temporary file beside `path`, syncs it, and renames it to `path`. If the process or the
    /// machine dies, `path` is the old snapshot or the new one.
    ///
    /// # Errors
    /// `Io` when a call of the system fails; the temporary file is then removed and `path` unchanged.
    pub fn save(&self, path: &Path, extra: &[u8]) -> Result<()> {
        self.config.storage.check_process()?;
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

    fn write_file(&self, temporary: &Path, extra: &[u8]) -> io::Result<()> {
        let mut to = BufWriter::with_capacity(1 << 20, regular::create(temporary)?);
        self.write(&mut to, extra)?;
        to.flush()?;
        to.get_ref().sync_all()
    }

    /// Restores the buffer from a snapshot of [`Replay::dump`], and returns `extra`.
    ///
    /// # Errors
    /// `Value` for anything but a whole snapshot of a buffer with the same rings, `Memory` when it does not fit into
    /// memory. Nothing is changed then.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<u8>> {
        self.read(&mut Reader { from: snapshot, left: snapshot.len() as u64 })
    }

    /// Restores the buffer from a file of [`Replay::save`], and returns `extra`.
    ///
    /// # Errors
    /// As [`Replay::restore`], and `Io` when the file cannot be read.
    pub fn open(&mut self, path: &Path) -> Result<Vec<u8>> {
        self.read(&mut file_reader(path)?)
    }
}

/// Returns the header of a saved snapshot.
///
/// # Errors
/// `Value` when the file is no snapshot, or its header is damaged; `Io` when it cannot be read.
pub fn header(path: &Path) -> Result<Header> {
    read_header(&mut file_reader(path)?)
}

fn file_reader(path: &Path) -> Result<Reader<io::BufReader<File>>> {
    let context = || format!("cannot read {}", path.display());
    let file = regular::open(path)?;
    let left = file.metadata().map_err(Error::io(context()))?.len();
    Ok(Reader { from: io::BufReader::with_capacity(1 << 20, file), left })
}

fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Some file systems cannot sync a folder. The rename has succeeded all the same, so the error is ignored.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}
