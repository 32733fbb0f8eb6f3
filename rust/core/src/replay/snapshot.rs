//! Snapshots: everything a buffer is, in one checksummed stream.
//!
//! ```text
//! "RLFASTB\x01" | section ... | end section
//! section: tag [u8; 4] | length u64 | bytes | crc32c of tag, length and bytes, u32
//! ```
//! All numbers are little-endian. Nothing read is trusted: lengths are checked against what is there before anything is
//! allocated, checksums before anything is used, and rows are checked against the episode table before they are let in. A
//! snapshot is restored into parts of its own, which replace the old ones only when all is well.

mod codec;
mod reading;
mod writing;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::replay::Replay;
use codec::Reader;
use reading::read_header;

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

/// Bytes that are written; that there is no memory for more is an error.
struct Growing(Vec<u8>);

impl io::Write for Growing {
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
    /// The snapshot, with `extra` for the caller's own use.
    ///
    /// # Errors
    /// `Io` when there is no memory for it.
    pub fn dump(&self, extra: &[u8]) -> Result<Vec<u8>> {
        self.config.storage.check_process()?;
        let mut bytes = Growing(Vec::new());
        self.write(&mut bytes, extra).map_err(Error::io("cannot hold the snapshot in memory"))?;
        Ok(bytes.0)
    }

    /// Writes the snapshot to a temporary file beside `path`, syncs it, and renames it over `path`: whenever the process
    /// or the machine dies, `path` holds the old snapshot or the new one.
    ///
    /// # Errors
    /// `Io`; the temporary file is removed and `path` is what it was.
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

    fn write_file(&self, temporary: &PathBuf, extra: &[u8]) -> io::Result<()> {
        let mut to = BufWriter::with_capacity(1 << 20, File::create(temporary)?);
        self.write(&mut to, extra)?;
        to.flush()?;
        to.get_ref().sync_all()
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
}

/// What a saved snapshot says about itself.
///
/// # Errors
/// `Value` when it is none, or damaged so far; `Io`.
pub fn header(path: &Path) -> Result<Header> {
    read_header(&mut file_reader(path)?)
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
