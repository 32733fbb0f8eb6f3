//! A pile of images in a scratch file, each of them once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};

const BUFFER: usize = 1 << 20;

/// Images by number. Two images are the same if their bytes have the same 128-bit hash.
pub struct Pile {
    file: File,
    /// Bytes that are not yet in the file.
    pending: Vec<u8>,
    /// Where each image starts; one more is where the last one ends.
    starts: Vec<u64>,
    numbers: HashMap<u128, u32>,
}

impl Pile {
    /// Returns an empty pile with a scratch file in `folder`, which is unlinked at once.
    ///
    /// # Errors
    /// `System` if the file cannot be made.
    pub fn new(folder: &Path) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = folder.join(format!(".images-{}-{number}.tmp", std::process::id()));
        let context = || format!("cannot make a scratch file in {}", folder.display());
        let open = || OpenOptions::new().read(true).write(true).create_new(true).open(&name);
        let file = open().map_err(Error::io(context()))?;
        std::fs::remove_file(&name).map_err(Error::io(context()))?;
        Ok(Self { file, pending: Vec::new(), starts: vec![0], numbers: HashMap::new() })
    }

    /// Returns the number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of an image, and whether it is new.
    ///
    /// # Errors
    /// `System` if the disk is full; `File` for more images than numbers.
    pub fn put(&mut self, image: &[u8]) -> Result<(u32, bool)> {
        let Ok(next) = u32::try_from(self.len()) else {
            return Err(Error::File("there are more than 4,294,967,295 different images".to_owned()));
        };
        match self.numbers.entry(xxh3_128(image)) {
            Entry::Occupied(known) => return Ok((*known.get(), false)),
            Entry::Vacant(free) => free.insert(next),
        };
        self.pending.extend_from_slice(image);
        self.starts.push(self.starts[next as usize] + image.len() as u64);
        if self.pending.len() >= BUFFER {
            self.flush()?;
        }
        Ok((next, true))
    }

    /// Writes all images to the file, and forgets which images are there: a later image is new.
    ///
    /// # Errors
    /// `System` if the disk is full.
    pub fn close_shard(&mut self) -> Result<()> {
        self.numbers = HashMap::new();
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.pending).map_err(Error::io("cannot write to the scratch file of images"))?;
        self.pending.clear();
        Ok(())
    }

    /// Reads an image into `to`. It must have been written by [`Pile::close_shard`].
    ///
    /// # Errors
    /// `System` if it cannot be read.
    pub fn read(&self, number: u32, to: &mut Vec<u8>) -> Result<()> {
        let (start, end) = (self.starts[number as usize], self.starts[number as usize + 1]);
        to.resize((end - start) as usize, 0);
        read_at(&self.file, to, start).map_err(Error::io("cannot read the scratch file of images"))
    }
}

#[cfg(unix)]
fn read_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut to: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !to.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, to, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (to, offset) = (&mut to[n..], offset + n as u64),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_images_have_one_number() {
        let folder = std::env::temp_dir();
        let mut pile = Pile::new(&folder).unwrap();
        let images: Vec<Vec<u8>> = (0..300_u32).map(|k| vec![k as u8; (k % 7 * 2000) as usize + 1]).collect();
        let numbers: Vec<_> = images.iter().chain(&images).map(|image| pile.put(image).unwrap()).collect();
        let different = 256 + images[256..].iter().filter(|image| !images[..256].contains(image)).count();
        assert_eq!(pile.len(), different);
        assert_eq!(numbers.iter().filter(|(_, is_new)| *is_new).count(), different);
        pile.close_shard().unwrap();
        let mut read = Vec::new();
        for (image, (number, _)) in images.iter().chain(&images).zip(numbers) {
            pile.read(number, &mut read).unwrap();
            assert_eq!(&read, image);
        }
        assert_eq!(pile.put(&images[0]).unwrap(), (different as u32, true), "another shard");
    }
}
