//! Memory whose address never changes.
//!
//! A [`Region`] is mapped once, zeroed, and never moved or grown, so pointers into it (NumPy views among them) stay valid
//! while any clone of its `Arc` lives. A page takes no memory until it is written. Python may read and write the same bytes, so
//! no Rust reference to them is ever formed: rows are copied by the functions on raw pointers at the end of this file.

use std::ffi::{c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::error::{Error, Result};
use crate::shared::fork_count;

const HUGE_PAGE: usize = 2 << 20;
const PAGE: u64 = 4096;

/// A format of packed frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Blocks of LZ4.
    Lz4,
    /// Frames of Zstandard.
    Zstd,
}

/// Where columns are stored.
#[derive(Clone, Debug, Default)]
pub enum Storage {
    /// Anonymous memory.
    #[default]
    Ram,
    /// Anonymous memory, in which frames are packed once they are behind the newest.
    Packed(Codec),
    /// A scratch file. It is unlinked as soon as it is open, so that the system removes it however the process ends.
    File(Arc<Scratch>),
}

/// The scratch file of columns on disk. Space is reserved before it is mapped, so that a full disk is an error here, and never
/// a fault when a row is written.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    folder: PathBuf,
    end: AtomicU64,
    /// [`fork_count`] of the process that made the file: see [`Storage::check_process`].
    fork_count: usize,
}

impl Storage {
    /// Returns the storage of a name: `"ram"`, `"lz4"` or `"zstd"`, or else a folder.
    ///
    /// # Errors
    /// As [`Storage::file`].
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "ram" => Ok(Self::Ram),
            "lz4" => Ok(Self::Packed(Codec::Lz4)),
            "zstd" => Ok(Self::Packed(Codec::Zstd)),
            folder => Self::file(Path::new(folder)),
        }
    }

    /// Returns storage in a new scratch file inside `folder`, which is created when missing.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder or the file cannot be created.
    pub fn file(folder: &Path) -> Result<Self> {
        let context = || format!("cannot make a column file in {}", folder.display());
        std::fs::create_dir_all(folder).map_err(Error::io(context()))?;
        let name = folder.join(format!("columns-{}-{:x}.tmp", std::process::id(), unique()));
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&name).map_err(Error::io(context()))?;
        std::fs::remove_file(&name).map_err(Error::io(context()))?;
        Ok(Self::File(Arc::new(Scratch {
            file,
            folder: folder.to_path_buf(),
            end: AtomicU64::new(0),
            fork_count: fork_count(),
        })))
    }

    /// Returns how frames are packed; None if they are stored as they are.
    #[must_use]
    pub fn codec(&self) -> Option<Codec> {
        if let Self::Packed(codec) = self { Some(*codec) } else { None }
    }

    /// Returns the folder of rows on disk; None for rows in memory.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        if let Self::File(scratch) = self { Some(&scratch.folder) } else { None }
    }

    /// Returns whether rows are on disk.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Checks that no other process writes to the columns. A forked child shares the file of its parent, and each would see the
    /// other's writes.
    ///
    /// # Errors
    /// [`Error::Process`] in a forked child, for columns on disk.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        match self {
            Self::File(scratch) if scratch.fork_count != fork_count() => Err(Error::Process(
                "this buffer keeps its rows in a file that belongs to the parent of this process: make the buffer after the \
                 fork, or send it here pickled"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that `needed` bytes fit into memory or onto the disk, before any of them is allocated. `what` names them
    /// in the error.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::Io`] with the bytes that are needed and the bytes that are available.
    pub fn check(&self, what: &str, needed: u128) -> Result<()> {
        match self {
            Self::Ram | Self::Packed(_) => {
                let limit = memory_limit();
                if needed > u128::from(limit) {
                    return Err(Error::Memory { what: what.to_owned(), needed, limit });
                }
            }
            Self::File(scratch) => {
                let free = scratch.free();
                if needed > u128::from(free) {
                    let folder = scratch.folder.display();
                    let context =
                        format!("{what} would take {needed} bytes, but only {free} bytes are free in {folder}");
                    return Err(Error::io(context)(io::ErrorKind::StorageFull.into()));
                }
            }
        }
        Ok(())
    }
}

fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    (u64::from(nanos) << 32) | NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Scratch {
    fn free(&self) -> u64 {
        #[cfg(unix)]
        if let Ok(stat) = rustix::fs::statvfs(&self.folder) {
            return stat.f_bavail.saturating_mul(stat.f_frsize);
        }
        u64::MAX
    }

    fn reserve(&self, bytes: u64) -> Result<u64> {
        let bytes = bytes.next_multiple_of(PAGE);
        let start = self.end.fetch_add(bytes, Ordering::Relaxed);
        let context = format!("cannot reserve {bytes} bytes in {}", self.folder.display());
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), start, bytes)
            .map_err(|e| Error::io(context)(e.into()))?;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        self.file.set_len(start + bytes).map_err(Error::io(context))?;
        Ok(start)
    }
}

/// Returns a file of `bytes` zero bytes without a name in the file system, for memory that processes share. Its pages take no memory until
/// they are written. `label` shows where it comes from. Where the system can fix the size of files, this one's can be fixed.
///
/// # Errors
/// Those of the system.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn unnamed(label: &str, bytes: usize) -> io::Result<File> {
    use rustix::fs::MemfdFlags;
    let file = rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    Ok(file.into())
}

/// Returns a file of `bytes` zero bytes without a name in the file system, for memory that processes share.
///
/// # Errors
/// Those of the system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn unnamed(label: &str, bytes: usize) -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("{label}-{}-{:x}", std::process::id(), unique()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(bytes as u64)?;
    Ok(file)
}

/// Returns the bytes of memory that this process may use: the physical memory, or the limit of its control group.
fn memory_limit() -> u64 {
    let mut limit = physical_memory();
    for file in ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"] {
        if let Some(max) = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()) {
            limit = limit.min(max);
        }
    }
    limit
}

#[cfg(all(target_os = "linux", not(miri)))]
fn physical_memory() -> u64 {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the field's type differs between targets")]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
}

#[cfg(any(not(target_os = "linux"), miri))]
fn physical_memory() -> u64 {
    if cfg!(miri) { 1 << 36 } else { u64::MAX } // miri allocates what other systems only reserve
}

/// A mapped, zeroed range of bytes with a fixed address.
#[derive(Debug)]
pub struct Region {
    map: MmapRaw,
    start: usize,
    len: usize,
}

impl Region {
    /// Returns a region of `len` zero bytes, on huge pages if it is large.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::Io`] when the system refuses.
    pub fn zeroed(len: usize, storage: &Storage) -> Result<Arc<Self>> {
        storage.check("this column", len as u128)?;
        match storage {
            Storage::Ram | Storage::Packed(_) => Self::anonymous(len, len >= HUGE_PAGE),
            Storage::File(scratch) => Self::scratch(len, scratch),
        }
    }

    /// Returns a region of `len` zero bytes of which few will ever be written. Its pages are small, so that a write
    /// takes little memory.
    ///
    /// # Errors
    /// As `zeroed`.
    pub fn sparse(len: usize, storage: &Storage) -> Result<Arc<Self>> {
        match storage {
            Storage::Ram | Storage::Packed(_) => Self::anonymous(len, false),
            Storage::File(_) => Self::zeroed(len, storage),
        }
    }

    fn anonymous(len: usize, huge: bool) -> Result<Arc<Self>> {
        let slack = if huge { HUGE_PAGE } else { 0 };
        let mut options = MmapOptions::new();
        options.len((len + slack).max(1));
        if !cfg!(miri) {
            options.no_reserve_swap(); // a flag that miri does not know
        }
        let map = options.map_anon().map_err(Error::io(format!("cannot map {len} bytes of memory")))?;
        let start = if huge { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        if huge {
            advise(&map, start, len / HUGE_PAGE * HUGE_PAGE);
        }
        Ok(Arc::new(Self { map: map.into(), start, len }))
    }

    fn scratch(len: usize, scratch: &Scratch) -> Result<Arc<Self>> {
        let offset = scratch.reserve(len.max(1) as u64)?;
        let map = MmapOptions::new()
            .offset(offset)
            .len(len.max(1))
            .map_raw(&scratch.file)
            .map_err(Error::io(format!("cannot map {len} bytes of {}", scratch.folder.display())))?;
        Ok(Arc::new(Self { map, start: 0, len }))
    }

    /// Returns the number of bytes in the region.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the region has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of byte `offset`, which is inside the region or one past its end.
    ///
    /// # Panics
    /// If `offset` is greater than the length.
    #[must_use]
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "invariant: offset {offset} inside a region of {} bytes", self.len);
        self.map.as_mut_ptr().wrapping_add(self.start + offset)
    }

    /// Returns the address of the first byte.
    #[must_use]
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(self.start)
    }
}

/// Asks the system for huge pages, which make random reads miss the page table less often. The last bytes, which would
/// fill only a part of a huge page, stay on small ones.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise(map: &MmapMut, start: usize, len: usize) {
    // A kernel without huge pages refuses; the region works all the same.
    let _ = map.advise_range(memmap2::Advice::HugePage, start, len);
}

#[cfg(any(not(target_os = "linux"), miri))]
fn advise(_map: &MmapMut, _start: usize, _len: usize) {}

/// Asks the system to read bytes of a file into memory that are wanted soon, without waiting for them.
///
/// # Safety
/// The bytes are mapped.
pub unsafe fn announce(at: *const u8, len: usize) {
    #[cfg(unix)]
    {
        let before = at.addr() % PAGE as usize;
        // SAFETY: the caller's promise, and a mapping has whole pages. A refusal costs time alone.
        let _ = unsafe {
            rustix::mm::madvise(at.wrapping_sub(before).cast_mut().cast(), len + before, rustix::mm::Advice::WillNeed)
        };
    }
    #[cfg(not(unix))]
    let _ = (at, len);
}

unsafe extern "C" {
    fn memcmp(a: *const c_void, b: *const c_void, len: usize) -> c_int;
}

/// The bytes that one instruction moves. The last block of a range may overlap the block before it.
type Block = [u64; 2];
const BLOCK: usize = size_of::<Block>();
/// Ranges of at most this many bytes are copied without a function call. Most leaves of a step are that short.
const SHORT: usize = 8 * BLOCK;

/// Copies `len` bytes.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise is exactly what copy_nonoverlapping asks, and every word and block lies inside the ranges.
    unsafe {
        match len {
            4 => dst.cast::<u32>().write_unaligned(src.cast::<u32>().read_unaligned()),
            8 => dst.cast::<u64>().write_unaligned(src.cast::<u64>().read_unaligned()),
            BLOCK..=SHORT => {
                let block = |at: usize| {
                    dst.add(at).cast::<Block>().write_unaligned(src.add(at).cast::<Block>().read_unaligned())
                };
                (0..len - BLOCK).step_by(BLOCK).for_each(block);
                block(len - BLOCK);
            }
            _ => std::ptr::copy_nonoverlapping(src, dst, len),
        }
    }
}

/// Returns whether two ranges of `len` bytes are the same, bit for bit (so a NaN equals itself).
///
/// # Safety
/// Both are readable for `len` bytes.
#[inline]
pub unsafe fn equal(a: *const u8, b: *const u8, len: usize) -> bool {
    // SAFETY: the caller promises both ranges; memcmp only reads them, and every block lies inside them.
    unsafe {
        if !(BLOCK..=SHORT).contains(&len) {
            return memcmp(a.cast(), b.cast(), len) == 0;
        }
        let differing = |at: usize| {
            let (a, b) = (a.add(at).cast::<Block>().read_unaligned(), b.add(at).cast::<Block>().read_unaligned());
            (a[0] ^ b[0]) | (a[1] ^ b[1])
        };
        let all = (0..len - BLOCK).step_by(BLOCK).fold(differing(len - BLOCK), |all, at| all | differing(at));
        all == 0
    }
}

/// Writes `len` zero bytes.
///
/// # Safety
/// `dst` is writable for `len` bytes.
#[inline]
pub unsafe fn zero(dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise is exactly what write_bytes asks.
    unsafe { std::ptr::write_bytes(dst, 0, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(region: &Region) -> u64 {
        // SAFETY: all bytes of the region.
        (0..region.len()).map(|k| u64::from(unsafe { region.at(k).read() })).sum()
    }

    #[test]
    fn regions_are_zero_and_hold_what_is_written() {
        let large = if cfg!(miri) { 5 << 12 } else { (2 << 20) + 5 }; // each byte is looked at
        for bytes in [1, 4096, large] {
            let region = Region::zeroed(bytes, &Storage::Ram).unwrap();
            assert_eq!((region.len(), sum(&region)), (bytes, 0));
            // SAFETY: the last byte of the region.
            unsafe { region.at(bytes - 1).write(7) };
            assert_eq!(sum(&region), 7);
        }
    }

    #[test]
    fn ranges_of_every_length_are_copied_and_compared_whole() {
        let source: Vec<u8> = (0..=255).collect();
        for len in 0..=source.len() {
            let mut copied = vec![7; len + 1];
            // SAFETY: both have `len` bytes.
            unsafe { copy(source.as_ptr(), copied.as_mut_ptr(), len) };
            assert_eq!((&copied[..len], copied[len]), (&source[..len], 7));
            for at in 0..len {
                copied[at] ^= 64;
                // SAFETY: as above.
                assert!(!unsafe { equal(source.as_ptr(), copied.as_ptr(), len) }, "byte {at} of {len}");
                copied[at] ^= 64;
            }
            // SAFETY: as above.
            assert!(unsafe { equal(source.as_ptr(), copied.as_ptr(), len) });
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_with_its_size() {
        let error = Storage::Ram.check("everything", 1 << 80).unwrap_err().to_string();
        assert!(error.contains("1208925819614629174706176 bytes"), "{error}");
        assert!(Region::zeroed(1 << 50, &Storage::Ram).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files to map")]
    fn columns_on_disk_leave_no_file_behind() {
        let folder = std::env::temp_dir().join(format!("rlfast-memory-{}", std::process::id()));
        let storage = Storage::file(&folder).unwrap();
        let (first, second) = (Region::zeroed(5000, &storage).unwrap(), Region::zeroed(5000, &storage).unwrap());
        // SAFETY: a byte inside the region.
        unsafe { first.at(4999).write(9) };
        assert_eq!((sum(&first), sum(&second)), (9, 0));
        assert!(storage.check("everything", 1 << 80).is_err());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }
}
