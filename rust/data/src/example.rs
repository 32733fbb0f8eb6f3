//! `tf.train.Example` messages in the wire format of protocol buffers, read without copies.
//!
//! ```text
//! Example  { features: 1 }           Features { feature: map 1 { key: 1, value: 2 } }
//! Feature  { bytes_list: 1 | float_list: 2 | int64_list: 3 }, each with repeated values: 1
//! ```

use crate::error::{Result, broken};

/// The values of a feature, still in wire format.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// Strings of bytes.
    Bytes(&'a [u8]),
    /// Numbers of single precision, packed or not.
    Floats(&'a [u8]),
    /// Integers, packed or not.
    Ints(&'a [u8]),
}

/// One field of a message: its number and its value.
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
    Fixed64,
}

/// Fields of a message.
struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.left)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.left)?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let length = varint(&mut self.left)?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(self.take(4)?.try_into().expect("invariant: four bytes were taken")),
            kind => return broken!("a field of wire type {kind}, which does not exist"),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let Some((taken, left)) = usize::try_from(length).ok().and_then(|length| self.left.split_at_checked(length))
        else {
            return broken!("a field claims {length} bytes where {} are left", self.left.len());
        };
        self.left = left;
        Ok(taken)
    }
}

fn varint(from: &mut &[u8]) -> Result<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, left)) = from.split_first() else { return broken!("a number ends early") };
        *from = left;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    broken!("a number has more than 64 bits")
}

/// Calls `found` with the name and the values of each feature of an `Example`. A name that occurs twice has the later values.
///
/// # Errors
/// `Record` if the bytes are no such message, and what `found` returns.
pub fn features<'a>(message: &'a [u8], mut found: impl FnMut(&'a [u8], List<'a>) -> Result<()>) -> Result<()> {
    let mut example = Fields { left: message };
    while let Some((number, value)) = example.next()? {
        let (1, Value::Bytes(inner)) = (number, value) else { continue };
        let mut entries = Fields { left: inner };
        while let Some((number, value)) = entries.next()? {
            let (1, Value::Bytes(entry)) = (number, value) else { continue };
            if let (name, Some(list)) = named(entry)? {
                found(name, list)?;
            }
        }
    }
    Ok(())
}

/// Reads an entry of the map of features.
fn named(entry: &[u8]) -> Result<(&[u8], Option<List<'_>>)> {
    let (mut name, mut list) = (&[][..], None);
    let mut fields = Fields { left: entry };
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => list = feature(bytes)?,
            _ => {}
        }
    }
    Ok((name, list))
}

fn feature(message: &[u8]) -> Result<Option<List<'_>>> {
    let (mut list, mut fields) = (None, Fields { left: message });
    while let Some((number, value)) = fields.next()? {
        let Value::Bytes(bytes) = value else { continue };
        list = match number {
            1 => Some(List::Bytes(bytes)),
            2 => Some(List::Floats(bytes)),
            3 => Some(List::Ints(bytes)),
            _ => list,
        };
    }
    Ok(list)
}

impl<'a> List<'a> {
    /// Returns the only value, an integer.
    ///
    /// # Errors
    /// `Record` if there is another number of values, or they are of another kind.
    pub fn int(self) -> Result<i64> {
        let Self::Ints(left) = self else { return broken!("holds {}, not integers", self.kind()) };
        let (mut one, mut count, mut fields) = (0, 0, Fields { left });
        let mut add = |value: u64| (one, count) = (value as i64, count + 1);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Varint(value)) => add(value),
                (1, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        add(varint(&mut packed)?);
                    }
                }
                _ => {}
            }
        }
        if count == 1 { Ok(one) } else { broken!("holds {count} integers, not one") }
    }

    /// Returns the only value, a number.
    ///
    /// # Errors
    /// As [`List::int`].
    pub fn float(self) -> Result<f32> {
        let Self::Floats(left) = self else { return broken!("holds {}, not numbers", self.kind()) };
        let (mut one, mut count, mut fields) = (0.0, 0, Fields { left });
        let mut add = |bytes: &[u8]| {
            (one, count) = (f32::from_le_bytes(bytes.try_into().expect("invariant: four bytes")), count + 1);
        };
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Fixed32(bytes)) => add(&bytes),
                (1, Value::Bytes(packed)) => {
                    if packed.len() % 4 != 0 {
                        return broken!("holds {} bytes of numbers of four bytes", packed.len());
                    }
                    packed.chunks_exact(4).for_each(&mut add);
                }
                _ => {}
            }
        }
        if count == 1 { Ok(one) } else { broken!("holds {count} numbers, not one") }
    }

    /// Returns the values, `N` strings of bytes.
    ///
    /// # Errors
    /// As [`List::int`].
    pub fn strings<const N: usize>(self) -> Result<[&'a [u8]; N]> {
        let Self::Bytes(left) = self else { return broken!("holds {}, not bytes", self.kind()) };
        let (mut found, mut count, mut fields) = ([&[][..]; N], 0, Fields { left });
        while let Some((number, value)) = fields.next()? {
            let (1, Value::Bytes(bytes)) = (number, value) else { continue };
            if let Some(place) = found.get_mut(count) {
                *place = bytes;
            }
            count += 1;
        }
        if count == N { Ok(found) } else { broken!("holds {count} strings of bytes, not {N}") }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            Self::Floats(_) => "numbers",
            Self::Ints(_) => "integers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An `Example` that TensorFlow 2.21 wrote: `a` is bytes `[b"x", b""]`, `b` the float 1.5, `c` the integer -2.
    const WRITTEN: &[u8] = include_bytes!("../tests/example.bin");

    fn lists(bytes: &[u8]) -> Result<Vec<(String, List<'_>)>> {
        let mut all = Vec::new();
        features(bytes, |name, list| {
            all.push((String::from_utf8_lossy(name).into_owned(), list));
            Ok(())
        })?;
        all.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    #[test]
    fn what_tensorflow_writes_is_read() {
        let all = lists(WRITTEN).unwrap();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(all[0].1.strings::<2>().unwrap(), [&b"x"[..], b""]);
        assert_eq!(all[1].1.float().unwrap(), 1.5);
        assert_eq!(all[2].1.int().unwrap(), -2);
    }

    #[test]
    fn other_kinds_and_numbers_of_values_are_named() {
        let all = lists(WRITTEN).unwrap();
        let text = |error: crate::error::Error| error.to_string();
        assert_eq!(text(all[0].1.strings::<4>().unwrap_err()), "holds 2 strings of bytes, not 4");
        assert_eq!(text(all[0].1.int().unwrap_err()), "holds bytes, not integers");
        assert_eq!(text(all[1].1.strings::<1>().unwrap_err()), "holds numbers, not bytes");
        assert_eq!(text(all[2].1.float().unwrap_err()), "holds integers, not numbers");
        assert_eq!(text(List::Ints(&[10, 2, 5, 6]).int().unwrap_err()), "holds 2 integers, not one");
        assert_eq!(text(List::Floats(&[10, 2, 5, 6]).float().unwrap_err()), "holds 2 bytes of numbers of four bytes");
    }

    #[test]
    fn values_that_are_not_packed_are_read_too() {
        assert_eq!(List::Ints(&[8, 7]).int().unwrap(), 7);
        assert_eq!(List::Floats(&[13, 0, 0, 0, 64]).float().unwrap(), 2.0);
    }

    #[test]
    fn numbers_have_at_most_64_bits() {
        let mut most = &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1][..];
        assert_eq!(varint(&mut most).unwrap(), u64::MAX);
        for wrong in [&[255; 9][..], &[255; 11], &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]] {
            assert!(varint(&mut &wrong[..]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_claim_beyond_the_end_is_refused() {
        assert_eq!(
            lists(&[10, 255, 255, 3, 0]).unwrap_err().to_string(),
            "a field claims 65535 bytes where 1 are left"
        );
        assert_eq!(lists(&[11]).unwrap_err().to_string(), "a field of wire type 3, which does not exist");
    }
}
