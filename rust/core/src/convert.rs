//! Conversion of numbers between NumPy's types, with a check for loss.
//!
//! Integers and flags must keep their value exactly. A float may be rounded to a narrower float, but a finite one stays finite.

use std::borrow::Cow;

use crate::error::Result;
use crate::source::Source;
use crate::vectors::collected;

/// Numbers that one call of [`convert`] converts.
const BLOCK: usize = 64;

/// The types of numbers that can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// A byte that is 0 or 1.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// An unsigned integer of 8 bits.
    U8,
    /// A signed integer of 16 bits.
    I16,
    /// An unsigned integer of 16 bits.
    U16,
    /// A signed integer of 32 bits.
    I32,
    /// An unsigned integer of 32 bits.
    U32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 64 bits.
    U64,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
}

impl NumberType {
    /// Returns the type of NumPy's numbers of a kind (`b`, `i`, `u` or `f`) and a size in bytes; None if there is none.
    #[must_use]
    pub fn of_kind(kind: u8, bytes: usize) -> Option<Self> {
        Some(match (kind, bytes) {
            (b'b', 1) => Self::Bool,
            (b'i', 1) => Self::I8,
            (b'i', 2) => Self::I16,
            (b'i', 4) => Self::I32,
            (b'i', 8) => Self::I64,
            (b'u', 1) => Self::U8,
            (b'u', 2) => Self::U16,
            (b'u', 4) => Self::U32,
            (b'u', 8) => Self::U64,
            (b'f', 4) => Self::F32,
            (b'f', 8) => Self::F64,
            _ => return None,
        })
    }
}

/// An intermediate value between two types. Every number of the types above has one, except `u64` above `i64::MAX`.
#[derive(Clone, Copy)]
enum Wide {
    Float(f64),
    Integer(i64),
}

/// Evaluates an expression with the Rust type of a [`NumberType`].
macro_rules! with_type {
    ($number:expr, $type:ident => $body:expr) => {
        match $number {
            NumberType::Bool => with_type!(@ bool, $type, $body),
            NumberType::I8 => with_type!(@ i8, $type, $body),
            NumberType::U8 => with_type!(@ u8, $type, $body),
            NumberType::I16 => with_type!(@ i16, $type, $body),
            NumberType::U16 => with_type!(@ u16, $type, $body),
            NumberType::I32 => with_type!(@ i32, $type, $body),
            NumberType::U32 => with_type!(@ u32, $type, $body),
            NumberType::I64 => with_type!(@ i64, $type, $body),
            NumberType::U64 => with_type!(@ u64, $type, $body),
            NumberType::F32 => with_type!(@ f32, $type, $body),
            NumberType::F64 => with_type!(@ f64, $type, $body),
        }
    };
    (@ $actual:ty, $type:ident, $body:expr) => {{
        type $type = $actual;
        $body
    }};
}

/// A Rust type of a [`NumberType`].
trait Number: Copy {
    /// The type that is read from memory. For `bool` it is `u8`, as other bytes than 0 and 1 may be there.
    type Stored: Copy;
    /// Widens a number, and returns whether its value is kept. It has no branches, so that loops over it become vector
    /// instructions.
    fn wide(stored: Self::Stored) -> (Wide, bool);
    /// Narrows a number, and returns whether its value is kept. It has no branches either.
    fn narrow(wide: Wide) -> (Self::Stored, bool);
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Stored = Self;
            #[inline(always)]
            fn wide(stored: Self) -> (Wide, bool) {
                (Wide::Integer(stored as i64), i64::try_from(stored).is_ok())
            }
            #[inline(always)]
            fn narrow(wide: Wide) -> (Self, bool) {
                match wide {
                    Wide::Integer(x) => (x as Self, Self::try_from(x).is_ok()),
                    // Casts saturate, so a float out of range does not survive the way back. The second test is for MAX
                    // + 1, which does.
                    Wide::Float(x) => (x as Self, (x as Self) as f64 == x && x < Self::MAX as f64 + 1.0),
                }
            }
        }
    )*};
}
integer!(i8, u8, i16, u16, i32, u32, i64, u64);

impl Number for bool {
    type Stored = u8;
    #[inline(always)]
    fn wide(stored: u8) -> (Wide, bool) {
        (Wide::Integer(i64::from(stored != 0)), true)
    }
    #[inline(always)]
    fn narrow(wide: Wide) -> (u8, bool) {
        let (flag, whole) = <u8 as Number>::narrow(wide);
        (flag, whole && flag <= 1)
    }
}

impl Number for f32 {
    type Stored = Self;
    #[inline(always)]
    fn wide(stored: Self) -> (Wide, bool) {
        (Wide::Float(f64::from(stored)), true)
    }
    #[inline(always)]
    fn narrow(wide: Wide) -> (Self, bool) {
        match wide {
            Wide::Float(x) => (x as Self, (x as Self).is_finite() | !x.is_finite()),
            Wide::Integer(x) => (x as Self, i128::from(x) == (x as Self) as i128),
        }
    }
}

impl Number for f64 {
    type Stored = Self;
    #[inline(always)]
    fn wide(stored: Self) -> (Wide, bool) {
        (Wide::Float(stored), true)
    }
    #[inline(always)]
    fn narrow(wide: Wide) -> (Self, bool) {
        match wide {
            Wide::Float(x) => (x, true),
            Wide::Integer(x) => (x as Self, i128::from(x) == (x as Self) as i128),
        }
    }
}

/// Returns the bytes of `rows` rows of `width` numbers, converted from type `from` to type `to` and stored without
/// gaps; None if a number would lose its value.
///
/// # Safety
/// The source is readable for `rows` rows of `width` numbers.
pub unsafe fn cast(from: NumberType, source: Source, rows: usize, width: usize, to: NumberType) -> Option<Vec<u8>> {
    let start = |k: usize| source.ptr.wrapping_offset(source.stride * k as isize);
    with_type!(from, From => with_type!(to, To => {
        let size = size_of::<<To as Number>::Stored>();
        let mut out = vec![0_u8; rows * width * size];
        for (k, row) in out.chunks_exact_mut((width * size).max(1)).enumerate() {
            let items = start(k).cast::<<From as Number>::Stored>();
            for (b, block) in row.chunks_mut(BLOCK * size).enumerate() {
                // SAFETY: the caller promises the row, and the block is part of it.
                unsafe { convert::<From, To>(items.wrapping_add(b * BLOCK), block) }?;
            }
        }
        Some(out)
    }))
}

/// Converts as many numbers as `to` has room for; returns None if one of them would lose its value.
///
/// # Safety
/// `from` is readable for as many numbers as `to` has room for.
#[inline(always)]
unsafe fn convert<From: Number, To: Number>(from: *const From::Stored, to: &mut [u8]) -> Option<()> {
    let count = to.len() / size_of::<To::Stored>();
    let target = to.as_mut_ptr().cast::<To::Stored>();
    let mut whole = true;
    for i in 0..count {
        // SAFETY: the caller's promise; neither side need be aligned.
        let (wide, fits) = From::wide(unsafe { from.add(i).read_unaligned() });
        let (number, kept) = To::narrow(wide);
        whole &= fits & kept;
        // SAFETY: as above.
        unsafe { target.add(i).write_unaligned(number) };
    }
    whole.then_some(())
}

/// Writes a float into `cell` as a number of type `to`; returns false, and writes nothing, if it would lose its value.
#[inline]
pub fn put_float(x: f64, to: NumberType, cell: &mut [u8; 8]) -> bool {
    put(Wide::Float(x), to, cell)
}

/// Writes an integer or a flag into `cell` as a number of type `to`; returns false, and writes nothing, if it would
/// lose its value.
#[inline]
pub fn put_integer(x: i64, to: NumberType, cell: &mut [u8; 8]) -> bool {
    put(Wide::Integer(x), to, cell)
}

#[inline]
fn put(wide: Wide, to: NumberType, cell: &mut [u8; 8]) -> bool {
    with_type!(to, To => {
        let (number, whole) = <To as Number>::narrow(wide);
        if whole {
            // SAFETY: no number here has more than the eight bytes of the cell.
            unsafe { cell.as_mut_ptr().cast::<<To as Number>::Stored>().write_unaligned(number) };
        }
        whole
    })
}

/// Returns an iterator over `rows` rows of `width` numbers of type `T`.
///
/// # Safety
/// The source is readable for `rows` rows of `width` numbers of type `T`, which need not be aligned.
unsafe fn read<T: Copy>(source: Source, rows: usize, width: usize) -> impl Iterator<Item = T> {
    (0..rows).flat_map(move |k| {
        let row = source.ptr.wrapping_offset(source.stride * k as isize).cast::<T>();
        // SAFETY: as promised by the caller.
        (0..width).map(move |j| unsafe { row.add(j).read_unaligned() })
    })
}

/// Returns numbers of a usual type of rewards (`f32`, `i64` or `i32`) as `f64`, rounded where necessary; None for other types.
///
/// # Safety
/// As [`cast`].
#[must_use]
pub unsafe fn as_doubles(from: NumberType, source: Source, rows: usize, width: usize) -> Option<Vec<f64>> {
    // SAFETY: as promised by the caller, each for its type.
    unsafe {
        match from {
            NumberType::F32 => Some(read::<f32>(source, rows, width).map(f64::from).collect()),
            NumberType::I64 => Some(read::<i64>(source, rows, width).map(|number| number as f64).collect()),
            NumberType::I32 => Some(read::<i32>(source, rows, width).map(f64::from).collect()),
            _ => None,
        }
    }
}

/// Returns one number of a usual type (`f32`, `f64`, `bool` or `i64`) for each row as `f32`; None for other types, and where a
/// finite number is too large.
///
/// # Safety
/// As [`cast`], for one number a row.
#[must_use]
pub unsafe fn as_singles(from: NumberType, source: Source, rows: usize) -> Option<Vec<f32>> {
    // SAFETY: as promised by the caller, each for its type.
    unsafe {
        match from {
            NumberType::F32 => Some(read::<f32>(source, rows, 1).collect()),
            NumberType::F64 => read::<f64>(source, rows, 1).map(as_single).collect(),
            NumberType::Bool => Some(read::<u8>(source, rows, 1).map(|flag| f32::from(flag != 0)).collect()),
            NumberType::I64 => Some(read::<i64>(source, rows, 1).map(|number| number as f32).collect()),
            _ => None,
        }
    }
}

/// Returns an `f64` as `f32`; None where a finite number is too large.
#[must_use]
pub fn as_single(number: f64) -> Option<f32> {
    let single = number as f32;
    (single.is_finite() || !number.is_finite()).then_some(single)
}

/// Reads one flag for each element of `out`; every byte but 0 is true.
///
/// # Safety
/// The source is readable for one byte for each element of `out`.
pub unsafe fn read_flags(source: Source, out: &mut [bool]) {
    for (k, flag) in out.iter_mut().enumerate() {
        // SAFETY: as promised by the caller.
        *flag = unsafe { source.ptr.offset(source.stride * k as isize).read() } != 0;
    }
}

/// Returns bytes as flags, the same memory where all of them are 0 or 1; every byte but 0 is true.
///
/// # Errors
/// `Room` if there is no memory for a copy.
pub fn as_flags(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [bool]>> {
    match bytes {
        Cow::Borrowed(bytes) if bytes.iter().fold(0, |all, byte| all | byte) <= 1 => {
            // SAFETY: as many bytes of 0 and 1, which are the values of flags.
            Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }))
        }
        bytes => collected(bytes.iter().map(|&byte| byte != 0)).map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<T>(numbers: &[T], width: usize) -> Source {
        Source::rows(numbers.as_ptr().cast(), (size_of::<T>() * width) as isize)
    }

    fn bytes<T: Copy, const N: usize>(numbers: &[T], to_bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        numbers.iter().flat_map(|&number| to_bytes(number)).collect()
    }

    #[test]
    fn kinds_and_sizes_name_types() {
        let named = [(b'b', 1), (b'i', 8), (b'u', 2), (b'f', 4)].map(|(kind, bytes)| NumberType::of_kind(kind, bytes));
        assert_eq!(named, [NumberType::Bool, NumberType::I64, NumberType::U16, NumberType::F32].map(Some));
        for (kind, bytes) in [(b'f', 2), (b'f', 16), (b'm', 8), (b'V', 1), (b'O', 8)] {
            assert_eq!(NumberType::of_kind(kind, bytes), None);
        }
    }

    #[test]
    fn integers_come_through_exactly_or_not_at_all() {
        let wide = [-128_i64, 0, 127];
        // SAFETY: as many numbers as are read.
        unsafe {
            let narrow = cast(NumberType::I64, source(&wide, 3), 1, 3, NumberType::I8);
            assert_eq!(narrow, Some(bytes(&[-128_i8, 0, 127], i8::to_ne_bytes)));
            assert_eq!(cast(NumberType::I64, source(&[128_i64], 1), 1, 1, NumberType::I8), None);
            assert_eq!(cast(NumberType::I64, source(&wide, 3), 1, 3, NumberType::U8), None);
            assert_eq!(cast(NumberType::F64, source(&[1.5], 1), 1, 1, NumberType::I32), None);
            assert_eq!(cast(NumberType::I64, source(&[(1_i64 << 53) + 1], 1), 1, 1, NumberType::F64), None);
            assert_eq!(cast(NumberType::F64, source(&[2_f64.powi(63)], 1), 1, 1, NumberType::I64), None);
        }
    }

    #[test]
    fn floats_are_rounded_but_stay_finite() {
        let numbers = [0.1, f64::INFINITY];
        // SAFETY: as many numbers as are read.
        unsafe {
            let narrow = cast(NumberType::F64, source(&numbers, 2), 1, 2, NumberType::F32);
            assert_eq!(narrow, Some(bytes(&[0.1_f32, f32::INFINITY], f32::to_ne_bytes)));
            assert_eq!(cast(NumberType::F64, source(&[1e39], 1), 1, 1, NumberType::F32), None);
            assert_eq!(as_singles(NumberType::F64, source(&[1.5, 1e39], 1), 2), None);
        }
        assert_eq!((as_single(1e39), as_single(f64::INFINITY)), (None, Some(f32::INFINITY)));
    }

    #[test]
    fn flags_are_zero_or_one() {
        let mut cell = [0; 8];
        assert!(put_integer(1, NumberType::Bool, &mut cell) && cell[0] == 1);
        assert!(!put_integer(2, NumberType::Bool, &mut cell) && !put_float(0.5, NumberType::Bool, &mut cell));
        assert!(put_float(3.0, NumberType::U16, &mut cell) && cell[..2] == 3_u16.to_ne_bytes());
    }

    #[test]
    fn rows_may_stand_apart() {
        let numbers = [1_f32, 2.0, -1.0, 3.0, 4.0, -1.0];
        let rows = Source::rows(numbers.as_ptr().cast(), 12);
        let mut flags = [false; 2];
        // SAFETY: two rows of two numbers, twelve bytes apart; a byte of each.
        unsafe {
            assert_eq!(as_doubles(NumberType::F32, rows, 2, 2), Some(vec![1.0, 2.0, 3.0, 4.0]));
            assert_eq!(as_singles(NumberType::F32, rows, 2), Some(vec![1.0, 3.0]));
            assert_eq!(as_doubles(NumberType::U8, rows, 2, 2), None);
            read_flags(Source::rows([0_u8, 9, 2].as_ptr(), 2), &mut flags);
        }
        assert_eq!(flags, [false, true]);
    }

    #[test]
    fn bytes_are_flags_where_they_are_or_in_a_copy() {
        let flags = |bytes: &'static [u8]| as_flags(Cow::Borrowed(bytes)).unwrap();
        assert!(matches!(flags(&[0, 1, 1]), Cow::Borrowed([false, true, true])));
        assert!(matches!(flags(&[2, 0]), Cow::Owned(found) if found == [true, false]));
        assert_eq!(as_flags(Cow::Owned(vec![1, 0])).unwrap()[..], [true, false]);
    }
}
