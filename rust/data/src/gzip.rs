//! Files that may be compressed by gzip.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const BUFFER: usize = 256 << 10;
/// The greatest ratio of the bytes that come out of a compressed file to those that went in. Deflate reaches 1032; a shard whose
/// images are all different reaches about 2, as each image occurs several times.
const MOST_EXPANSION: u64 = 200;
/// The bytes that may come out whatever went in.
const FREE: u64 = 64 << 20;

/// A reader that counts the bytes it returns.
struct Counted<R> {
    from: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The bytes of a file, decompressed if it is compressed.
pub struct Input {
    from: Box<dyn Read + Send + Sync>,
    read: Arc<AtomicU64>,
    written: u64,
    size: u64,
}

impl Input {
    /// Opens a file.
    ///
    /// # Errors
    /// `System` if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let context = || format!("cannot read {}", path.display());
        let file = File::open(path).map_err(Error::io(context()))?;
        let size = file.metadata().map_err(Error::io(context()))?.len();
        Self::new(file, size).map_err(Error::io(context()))
    }

    /// Returns the bytes of a stream of `size` bytes.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub fn new(from: impl Read + Send + Sync + 'static, size: u64) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let mut raw = BufReader::with_capacity(BUFFER, Counted { from, count: read.clone() });
        let from: Box<dyn Read + Send + Sync> = if raw.fill_buf()?.starts_with(&MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Self { from, read, written: 0, size })
    }

    /// Returns how many bytes of the file were read, and how many it has.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.size)
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.written += n as u64;
        let read = self.read.load(Ordering::Relaxed);
        let most = read.saturating_mul(MOST_EXPANSION).saturating_add(FREE);
        if self.written > most {
            let text =
                format!("more than {most} bytes came out of {read} compressed ones, which no dataset of images does");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::default());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let size = bytes.len() as u64;
        let mut all = Vec::new();
        Input::new(io::Cursor::new(bytes), size)?.read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn plain_and_compressed_bytes_are_read() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|k| (k.wrapping_mul(k) >> 5) as u8).collect();
        assert_eq!(read(bytes.clone()).unwrap(), bytes);
        assert_eq!(read(compressed(&bytes)).unwrap(), bytes);
        assert_eq!(read([compressed(&bytes), compressed(&bytes)].concat()).unwrap(), [&bytes[..], &bytes].concat());
        assert_eq!(read(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn damage_is_an_error() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|k| (k.wrapping_mul(k) >> 5) as u8).collect();
        let whole = compressed(&bytes);
        for cut in [3, 17, whole.len() / 2, whole.len() - 1] {
            assert!(read(whole[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        let mut wrong = whole.clone();
        let middle = wrong.len() / 2;
        wrong[middle] ^= 8;
        assert!(read(wrong).is_err());
        assert!(read([whole, b"more".to_vec()].concat()).is_err());
    }

    #[test]
    fn a_bomb_is_refused_before_it_has_gone_off() {
        let bomb = compressed(&vec![0; 300 << 20]);
        let mut input = Input::new(io::Cursor::new(bomb.clone()), bomb.len() as u64).unwrap();
        let (mut part, mut came) = (vec![0; 1 << 20], 0);
        let error = loop {
            match input.read(&mut part) {
                Ok(n) => came += n as u64,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("which no dataset of images does"), "{error}");
        assert!(came <= FREE + MOST_EXPANSION * bomb.len() as u64);
    }
}
