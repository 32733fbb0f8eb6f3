//! Writing and reading of sections with checksums, and of the values in them.

use std::io::{self, Read, Write};

use super::MAGIC;
use crate::error::{Error, Result, value_error};
use crate::memory;
use crate::vectors;

/// Writes sections.
pub struct Writer<W: Write> {
    pub to: W,
    pub crc: u32,
}

impl<W: Write> Writer<W> {
    pub fn begin(&mut self, tag: [u8; 4], length: u64) -> io::Result<()> {
        self.crc = 0;
        self.bytes(&tag)?;
        self.bytes(&length.to_le_bytes())
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.to.write_all(bytes)
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.to.write_all(&self.crc.to_le_bytes())
    }

    pub fn section(&mut self, tag: [u8; 4], bytes: &[u8]) -> io::Result<()> {
        self.begin(tag, bytes.len() as u64)?;
        self.bytes(bytes)?;
        self.finish()
    }
}

/// Reads sections from a stream in which `left` bytes are left.
pub struct Reader<R: Read> {
    pub from: R,
    pub left: u64,
}

impl<R: Read> Reader<R> {
    pub fn take(&mut self, length: u64, what: &str) -> Result<Vec<u8>> {
        if length > self.left {
            return value_error!("the snapshot is cut short: {what} needs {length} bytes, but {} are left", self.left);
        }
        let mut bytes = vectors::filled(0, usize::try_from(length).unwrap_or(usize::MAX))?;
        self.from.read_exact(&mut bytes).map_err(Error::io("cannot read the snapshot"))?;
        self.left -= length;
        Ok(bytes)
    }

    pub fn magic(&mut self) -> Result<()> {
        if self.take(8, "its mark")? == MAGIC {
            return Ok(());
        }
        value_error!("this is no rlfast snapshot, or one of a version that this rlfast does not know")
    }

    pub fn any_section(&mut self) -> Result<([u8; 4], Vec<u8>)> {
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

    /// Begins a section that is read in parts.
    pub fn begin(&mut self, tag: [u8; 4]) -> Result<Section> {
        let head = self.take(12, "a section")?;
        let length = u64::from_le_bytes(head[4..].try_into().expect("invariant: 8 bytes"));
        if head[..4] != tag || length > self.left {
            return value_error!(
                "the snapshot is damaged: section {:?} of {length} bytes where {:?} belongs and {} bytes are left",
                String::from_utf8_lossy(&head[..4]),
                String::from_utf8_lossy(&tag),
                self.left
            );
        }
        Ok(Section { left: length, crc: crc32c::crc32c(&head) })
    }

    /// Reads the next bytes of a section.
    pub fn part(&mut self, section: &mut Section, bytes: &mut [u8]) -> Result<()> {
        let length = bytes.len() as u64;
        if length > section.left {
            return value_error!("the snapshot is damaged: a section ends early");
        }
        self.from.read_exact(bytes).map_err(Error::io("cannot read the snapshot"))?;
        section.crc = crc32c::crc32c_append(section.crc, bytes);
        section.left -= length;
        self.left -= length;
        Ok(())
    }

    /// Ends a section that was read in parts.
    pub fn finish(&mut self, section: &Section) -> Result<()> {
        let found = u32::from_le_bytes(self.take(4, "a checksum")?.try_into().expect("invariant: 4 bytes"));
        if section.left > 0 || section.crc != found {
            return value_error!("the snapshot is damaged: a checksum is wrong");
        }
        Ok(())
    }

    /// Reads a section of `count` items of `length` bytes, one at a time.
    pub fn items(
        &mut self,
        tag: [u8; 4],
        count: usize,
        length: usize,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut section = self.begin(tag)?;
        if Some(section.left) != (count as u64).checked_mul(length as u64) {
            return value_error!(
                "the snapshot is damaged: a section has {} bytes where {count} times {length} belong",
                section.left
            );
        }
        let mut bytes = vectors::filled(0, length)?;
        for k in 0..count {
            self.part(&mut section, &mut bytes)?;
            each(k, &bytes);
        }
        self.finish(&section)
    }

    pub fn section(&mut self, tag: [u8; 4]) -> Result<Fields> {
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

/// What is left of a section that is read in parts.
pub struct Section {
    pub left: u64,
    pub crc: u32,
}

/// Reads values from a section.
pub struct Fields {
    pub bytes: Vec<u8>,
    pub at: usize,
}

impl Fields {
    pub fn raw(&mut self, length: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return value_error!("the snapshot is damaged: a section ends early");
        };
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.raw(8)?.try_into().expect("invariant: 8 bytes")))
    }

    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// Reads `count` doubles.
    pub fn doubles(&mut self, count: usize) -> Result<Vec<f64>> {
        let mut numbers = vectors::with_room(count)?;
        for _ in 0..count {
            numbers.push(self.f64()?);
        }
        Ok(numbers)
    }

    /// Reads a count of items of at least `least` bytes each, and checks that so many bytes are left.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / least.max(1) as u64 {
            return value_error!("the snapshot is damaged: it announces {count} items in {left} bytes");
        }
        Ok(count as usize)
    }

    pub fn text(&mut self) -> Result<String> {
        let length = self.count(1)?;
        let bytes = vectors::copied(self.raw(length)?)?;
        String::from_utf8(bytes).map_err(|_| Error::Value("the snapshot is damaged: a name is not UTF-8".to_owned()))
    }

    pub fn words(&mut self) -> Result<Vec<usize>> {
        let count = self.count(8)?;
        let mut words = vectors::with_room(count)?;
        for _ in 0..count {
            words.push(self.u64()? as usize);
        }
        Ok(words)
    }

    pub fn end(&self) -> Result<()> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        value_error!("the snapshot is damaged: a section is too long")
    }
}

pub fn put(to: &mut Vec<u8>, value: u64) {
    to.extend(value.to_le_bytes());
}

pub fn put_words(to: &mut Vec<u8>, words: &[usize]) {
    put(to, words.len() as u64);
    words.iter().for_each(|&w| put(to, w as u64));
}

pub fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend(text.as_bytes());
}

/// Appends `length` bytes of the table to `to`, without forming a reference to them.
pub fn append_bytes(from: *const u8, length: usize, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + length, 0);
    // SAFETY: callers pass whole rows, side rows or frames of the table; `to` was just resized.
    unsafe { memory::copy(from, to.as_mut_ptr().add(start), length) }
}
