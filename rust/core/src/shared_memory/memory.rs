//! The mapping: a header, the control words of each ring, a description for the host, and the rows.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::ring::{COLUMNS, CONTROL_WORDS, Ring};
use crate::error::{Error, Result, value_error};
use crate::memory::{Storage, unnamed};

const MAGIC: u64 = u64::from_le_bytes(*b"rlfastSR");
const VERSION: u64 = 1;
/// Words of the header, and of each ring's control words: two cache lines, as processors prefetch lines in pairs.
const LINE: usize = 16;
const PAGE_WORDS: u128 = 512;
/// Number of the control word that names the process that writes to a ring.
const OWNER: usize = CONTROL_WORDS;
const CONTEXT: &str = "cannot share memory with other processes";
/// The most bytes of the host's description.
const LONGEST: usize = 1 << 24;

/// The numbers that fix where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Number of rings.
    pub rings: usize,
    /// Rows of a ring.
    pub capacity: usize,
    /// Words of a row.
    pub stride: usize,
    /// Bytes of the host's description.
    pub text: usize,
}

impl Dimensions {
    fn text_at(&self) -> u128 {
        LINE as u128 * (1 + self.rings as u128)
    }

    fn rows_at(&self) -> u128 {
        (self.text_at() + (self.text as u128).div_ceil(8)).next_multiple_of(PAGE_WORDS)
    }

    fn ring_words(&self) -> u128 {
        (self.capacity as u128 + 1) * self.stride as u128
    }

    /// Returns all words.
    fn words(&self) -> Result<u128> {
        if self.rings == 0 || self.capacity == 0 || self.stride < COLUMNS || self.text > LONGEST {
            return value_error!(
                "shared memory needs a ring, a row in each and words in each row, got {} rings of {} rows of {} words",
                self.rings,
                self.capacity,
                self.stride
            );
        }
        (self.rings as u128)
            .checked_mul(self.ring_words())
            .and_then(|rows| rows.checked_add(self.rows_at()))
            .filter(|words| words * 8 <= isize::MAX as u128)
            .ok_or(Error::Room { needed: u128::MAX })
    }
}

/// Memory without a name in the file system, so the system frees it when the last process that maps it ends, however it ends.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    file: File,
    dimensions: Dimensions,
    /// The first word of the rows.
    rows_at: usize,
    /// Words of the rows of a ring.
    ring_words: usize,
}

impl Memory {
    /// Returns new memory with empty rings. `text` describes the columns to other processes of the host.
    ///
    /// # Errors
    /// `Value` for rings without rows, `Memory` without room for them, `Io` if the system refuses.
    pub fn create(rings: usize, capacity: usize, stride: usize, text: &[u8]) -> Result<Self> {
        let dimensions = Dimensions { rings, capacity, stride, text: text.len() };
        let words = dimensions.words()?;
        Storage::Ram.check("a replay buffer in shared memory", words * 8)?;
        let file = unnamed("rlfast-replay", words as usize * 8).map_err(Error::io(CONTEXT))?;
        seal(&file)?;
        let memory = Self::map(file, dimensions)?;
        let header = memory.words();
        for (word, value) in header[1..].iter().zip([VERSION, rings as u64, capacity as u64, stride as u64]) {
            word.store(value, Ordering::Relaxed);
        }
        header[5].store(text.len() as u64, Ordering::Relaxed);
        for (word, bytes) in header[dimensions.text_at() as usize..].iter().zip(text.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        header[0].store(MAGIC, Ordering::Release);
        Ok(memory)
    }

    /// Maps the memory that another process created.
    ///
    /// # Errors
    /// `Value` if the file is none of [`Self::create`], or one of another version; `Io` if it cannot be mapped.
    pub fn attach(file: OwnedFd) -> Result<Self> {
        let file = File::from(file);
        let bytes = file.metadata().map_err(Error::io(CONTEXT))?.len();
        check_sealed(&file)?;
        if bytes < 8 * LINE as u64 {
            return value_error!("this file of {bytes} bytes is no replay buffer in shared memory");
        }
        let header = Self::map(file, Dimensions { rings: 0, capacity: 0, stride: 0, text: 0 })?;
        let [magic, version, rings, capacity, stride, text] =
            [0, 1, 2, 3, 4, 5].map(|at| header.words()[at].load(Ordering::Acquire));
        if magic != MAGIC {
            return value_error!("this file is no replay buffer in shared memory");
        }
        if version != VERSION {
            return value_error!("the shared replay buffer has version {version}, this rlfast reads version {VERSION}");
        }
        let [rings, capacity, stride, text] = [rings, capacity, stride, text].map(|n| n as usize);
        let dimensions = Dimensions { rings, capacity, stride, text };
        if dimensions.words()? * 8 > u128::from(bytes) {
            return value_error!("the shared replay buffer is damaged: {dimensions:?} do not fit into {bytes} bytes");
        }
        Self::map(header.file, dimensions)
    }

    fn map(file: File, dimensions: Dimensions) -> Result<Self> {
        let words = if dimensions.rings == 0 { LINE } else { dimensions.words()? as usize };
        let map = MmapOptions::new().len(words * 8).map_raw(&file).map_err(Error::io(CONTEXT))?;
        let (rows_at, ring_words) = (dimensions.rows_at() as usize, dimensions.ring_words() as usize);
        Ok(Self { map, file, dimensions, rows_at, ring_words })
    }

    /// Returns the numbers that fix where everything is.
    #[must_use]
    pub fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    /// Returns the bytes of the memory.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.map.len()
    }

    /// Returns the file of the memory, for [`Self::attach`] in another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page, lives as long as `self`, and cannot shrink, as its file is sealed. All processes
        // touch it by these atomics only; any bytes are an integer.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast(), self.map.len() / 8) }
    }

    /// Returns the host's description.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let words = &self.words()[self.dimensions.text_at() as usize..];
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        bytes.take(self.dimensions.text).collect()
    }

    fn control(&self, ring: usize) -> &[AtomicU64] {
        &self.words()[LINE * (1 + ring)..LINE * (2 + ring)]
    }

    /// Returns a ring.
    ///
    /// # Panics
    /// If there is no such ring.
    #[inline]
    pub fn ring(&self, ring: usize) -> Ring<'_> {
        assert!(ring < self.dimensions.rings, "invariant: ring {ring} of {}", self.dimensions.rings);
        let start = self.rows_at + ring * self.ring_words;
        let rows = &self.words()[start..start + self.ring_words];
        Ring::new(self.control(ring), rows, self.dimensions.stride, self.dimensions.capacity as u64 + 1)
    }

    /// Returns the word that names the process that writes to a ring.
    pub(super) fn owner(&self, ring: usize) -> &AtomicU64 {
        &self.control(ring)[OWNER]
    }
}

/// Fixes the size of a file, so that no process can take away memory that another one has mapped.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn seal(file: &File) -> Result<()> {
    rustix::fs::fcntl_add_seals(file, seals()).map_err(|error| Error::io(CONTEXT)(error.into()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn seals() -> rustix::fs::SealFlags {
    rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::SEAL
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn check_sealed(file: &File) -> Result<()> {
    match rustix::fs::fcntl_get_seals(file) {
        Ok(found) if found.contains(seals()) => Ok(()),
        _ => value_error!("this file is no replay buffer in shared memory: its size is not fixed"),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn seal(_file: &File) -> Result<()> {
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn check_sealed(_file: &File) -> Result<()> {
    Ok(())
}
