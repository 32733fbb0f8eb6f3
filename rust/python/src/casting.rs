//! Numbers of one dtype as those of another, where nothing is lost: integers and flags must come through exactly, a float may be
//! rounded to a narrower one but stays finite. So a row of another dtype than its column's is taken at the first look.

use std::ffi::{c_int, c_long, c_longlong, c_short, c_uint, c_ulong, c_ulonglong, c_ushort};

use numpy::npyffi::types::NPY_TYPES;
use rlfast_core::replay::table::Source;

/// Numbers that are converted together.
const BLOCK: usize = 64;

/// A number on its way: every one of the dtypes here is one of these without loss.
#[derive(Clone, Copy)]
enum Wide {
    Float(f64),
    Integer(i64),
}

/// Does something with the C type of NumPy's number for a dtype; gives None for those that are no plain numbers.
macro_rules! with_type {
    ($number:expr, $type:ident => $body:expr) => {
        match $number {
            n if n == NPY_TYPES::NPY_BOOL as i32 => with_type!(@ bool, $type, $body),
            n if n == NPY_TYPES::NPY_BYTE as i32 => with_type!(@ i8, $type, $body),
            n if n == NPY_TYPES::NPY_UBYTE as i32 => with_type!(@ u8, $type, $body),
            n if n == NPY_TYPES::NPY_SHORT as i32 => with_type!(@ c_short, $type, $body),
            n if n == NPY_TYPES::NPY_USHORT as i32 => with_type!(@ c_ushort, $type, $body),
            n if n == NPY_TYPES::NPY_INT as i32 => with_type!(@ c_int, $type, $body),
            n if n == NPY_TYPES::NPY_UINT as i32 => with_type!(@ c_uint, $type, $body),
            n if n == NPY_TYPES::NPY_LONG as i32 => with_type!(@ c_long, $type, $body),
            n if n == NPY_TYPES::NPY_ULONG as i32 => with_type!(@ c_ulong, $type, $body),
            n if n == NPY_TYPES::NPY_LONGLONG as i32 => with_type!(@ c_longlong, $type, $body),
            n if n == NPY_TYPES::NPY_ULONGLONG as i32 => with_type!(@ c_ulonglong, $type, $body),
            n if n == NPY_TYPES::NPY_FLOAT as i32 => with_type!(@ f32, $type, $body),
            n if n == NPY_TYPES::NPY_DOUBLE as i32 => with_type!(@ f64, $type, $body),
            _ => None,
        }
    };
    (@ $actual:ty, $type:ident, $body:expr) => {{
        type $type = $actual;
        $body
    }};
}

/// A plain number of NumPy's.
trait Number: Copy {
    /// Its bytes in memory.
    type Stored: Copy;
    /// From memory, which may hold anything, and whether nothing is lost; without branches, so that it can be done many at a time.
    fn wide(stored: Self::Stored) -> (Wide, bool);
    /// To memory, likewise.
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
                    // Casts saturate, so what is out of range does not come back the same, but for the bound itself.
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

/// Rows of `width` numbers of NumPy's dtype `from`, as those of dtype `to`, without gaps; None where something would be lost, or
/// for other dtypes.
///
/// # Safety
/// The source is readable for `rows` rows of `width` numbers.
pub unsafe fn cast(from: i32, source: Source, rows: usize, width: usize, to: i32) -> Option<Vec<u8>> {
    let start = |k: usize| source.ptr.wrapping_offset(source.stride * k as isize);
    with_type!(from, From => with_type!(to, To => {
        let size = size_of::<<To as Number>::Stored>();
        let mut out = vec![0_u8; rows * width * size];
        for (k, row) in out.chunks_exact_mut((width * size).max(1)).enumerate() {
            let items = start(k).cast::<<From as Number>::Stored>();
            for (b, block) in row.chunks_mut(BLOCK * size).enumerate() {
                // SAFETY: the caller promises the row; the block has as many numbers of it as there is room for.
                unsafe { convert::<From, To>(items.wrapping_add(b * BLOCK), block) }?;
            }
        }
        Some(out)
    }))
}

/// # Safety
/// As many numbers as `to` has room for can be read from `from`.
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

/// Writes a float of Python's as dtype `to`; false where something would be lost.
#[inline]
pub fn put_float(x: f64, to: i32, cell: &mut [u8; 8]) -> bool {
    put(Wide::Float(x), to, cell)
}

/// Writes an integer or a flag of Python's as dtype `to`; false where something would be lost.
#[inline]
pub fn put_integer(x: i64, to: i32, cell: &mut [u8; 8]) -> bool {
    put(Wide::Integer(x), to, cell)
}

#[inline]
fn put(wide: Wide, to: i32, cell: &mut [u8; 8]) -> bool {
    let written: Option<()> = with_type!(to, To => {
        let (number, whole) = <To as Number>::narrow(wide);
        // SAFETY: no number here has more than the eight bytes of the cell.
        whole.then(|| unsafe { cell.as_mut_ptr().cast::<<To as Number>::Stored>().write_unaligned(number) })
    });
    written.is_some()
}
