//! TFRecord files: records with checksums.
//!
//! ```text
//! record: length u64 | masked crc32c of the length, u32 | bytes | masked crc32c of the bytes, u32
//! ```
//! All numbers are little-endian. A checksum is masked by a rotation and an addition, so that it may stand in checked data.

use std::io::{self, Read};

use crate::error::{Error, Result, broken};

/// The most bytes of a record.
pub const MOST: u64 = 16 << 20;
const MASK: u32 = 0xa282_ead8;

/// Returns the checksum of `bytes` as TFRecord files store it.
#[must_use]
pub fn masked_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// The records of a stream.
pub struct Records<R> {
    from: R,
    number: u64,
}

impl<R: Read> Records<R> {
    /// Returns the records of `from`.
    pub fn new(from: R) -> Self {
        Self { from, number: 0 }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &R {
        &self.from
    }

    /// Reads the next record into `to`, and returns its number, counted from 0; None at the end.
    ///
    /// # Errors
    /// `Record` if the checksum of its bytes is wrong, after which the next record can be read; `File` if the stream ends inside of
    /// it, or its length or the compression is damaged; `System` if the stream cannot be read.
    pub fn next(&mut self, to: &mut Vec<u8>) -> Result<Option<u64>> {
        let number = self.number;
        let mut head = [0; 12];
        let got = self.fill(&mut head)?;
        if got == 0 {
            return Ok(None);
        }
        self.number += 1;
        let (length, checksum) = head.split_at(8);
        if got < head.len() {
            return Err(Error::File(format!("record {number}: the file ends inside of it")));
        }
        if masked_checksum(length) != word(checksum) {
            return Err(Error::File(format!(
                "record {number}: the checksum of its length is wrong: the file is damaged, or no TFRecord file"
            )));
        }
        let length = u64::from_le_bytes(length.try_into().expect("invariant: split at 8"));
        if length > MOST {
            return Err(Error::File(format!(
                "record {number}: it claims {length} bytes, more than the {MOST} allowed"
            )));
        }
        to.clear();
        // This reserves room as bytes arrive, not for the length that is claimed.
        self.from.by_ref().take(length + 4).read_to_end(to).map_err(|error| self.failed(error))?;
        if (to.len() as u64) < length + 4 {
            return Err(Error::File(format!("record {number}: the file ends inside of it")));
        }
        let checksum = word(&to[length as usize..]);
        to.truncate(length as usize);
        if masked_checksum(to) != checksum {
            return broken!("record {number}: the checksum of its bytes is wrong");
        }
        Ok(Some(number))
    }

    /// Reads until `to` is full or the stream ends, and returns the number of bytes.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        while got < to.len() {
            match self.from.read(&mut to[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(got)
    }

    fn failed(&self, source: io::Error) -> Error {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let number = self.number.saturating_sub(1);
        match source.kind() {
            UnexpectedEof => Error::File(format!("after record {number}: the compressed file is cut short")),
            InvalidData | InvalidInput => Error::File(format!("after record {number}: {source}")),
            _ => Error::io(format!("cannot read on after record {number}"))(source),
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("invariant: four bytes"))
}

/// Appends a record to `to`.
pub fn append(record: &[u8], to: &mut Vec<u8>) {
    let length = (record.len() as u64).to_le_bytes();
    to.extend(length);
    to.extend(masked_checksum(&length).to_le_bytes());
    to.extend(record);
    to.extend(masked_checksum(record).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Error>) {
        let (mut records, mut all, mut one) = (Records::new(bytes), Vec::new(), Vec::new());
        loop {
            match records.next(&mut one) {
                Ok(Some(number)) => {
                    assert_eq!(number, all.len() as u64);
                    all.push(one.clone());
                }
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    fn two() -> Vec<u8> {
        let mut bytes = Vec::new();
        append(b"one", &mut bytes);
        append(b"", &mut bytes);
        bytes
    }

    #[test]
    fn the_checksum_is_that_of_tensorflow() {
        // The first record that TensorFlow 2.21 writes for b"rlfast".
        let wanted = [6, 0, 0, 0, 0, 0, 0, 0, 115, 105, 213, 55, b'r', b'l', b'f', b'a', b's', b't', 15, 124, 84, 43];
        let mut bytes = Vec::new();
        append(b"rlfast", &mut bytes);
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn records_are_read() {
        let (all, error) = read(&two());
        assert_eq!((all, error.is_none()), (vec![b"one".to_vec(), Vec::new()], true));
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = two();
        let edges = [0, 19, bytes.len()];
        for cut in 0..=bytes.len() {
            let (all, error) = read(&bytes[..cut]);
            assert_eq!(error.is_none(), edges.contains(&cut), "cut at {cut}");
            assert_eq!(all.len(), edges.iter().filter(|&&edge| edge > 0 && edge <= cut).count());
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = two();
        for bit in 0..8 * bytes.len() {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&wrong).1.is_some(), "bit {bit}");
        }
    }

    #[test]
    fn a_wrong_checksum_of_bytes_leaves_the_next_record_readable() {
        let mut bytes = two();
        bytes[13] ^= 1;
        let (mut records, mut one) = (Records::new(&bytes[..]), Vec::new());
        let error = records.next(&mut one).unwrap_err();
        assert!(matches!(error, Error::Record(_)));
        assert_eq!(error.to_string(), "record 0: the checksum of its bytes is wrong");
        assert_eq!(records.next(&mut one).unwrap(), Some(1));
    }

    #[test]
    fn a_long_claim_is_refused() {
        let length = (MOST + 1).to_le_bytes();
        let bytes = [&length[..], &masked_checksum(&length).to_le_bytes(), &[0; 64]].concat();
        let error = read(&bytes).1.unwrap();
        assert_eq!(error.to_string(), "record 0: it claims 16777217 bytes, more than the 16777216 allowed");
    }
}
