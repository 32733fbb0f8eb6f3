//! Slices of numbers whose type is known only at run time.

use crate::{DType, Element};

/// An element whose slices can be converted into [`Values`] and back.
pub trait Erase: Element {
    /// Wraps a slice in the variant of its type.
    fn hide(values: &[Self]) -> Values<'_>;
    /// The same for a mutable slice.
    fn hide_mut(values: &mut [Self]) -> ValuesMut<'_>;
    /// Returns the slice inside; None if it has another type.
    fn show(values: Values<'_>) -> Option<&[Self]>;
    /// The same for a mutable slice.
    fn show_mut(values: ValuesMut<'_>) -> Option<&mut [Self]>;
}

macro_rules! erase {
    ($($type:ty => $dtype:ident),+) => {
        /// A slice of numbers of one of the [`DType`](crate::DType)s.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum Values<'a> { $($dtype(&'a [$type])),+ }

        /// A mutable slice of numbers of one of the [`DType`](crate::DType)s.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum ValuesMut<'a> { $($dtype(&'a mut [$type])),+ }

        /// A vector of numbers of one of the [`DType`](crate::DType)s.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum OwnedValues { $($dtype(Vec<$type>)),+ }

        impl Values<'_> {
            /// The `elements` numbers of type `dtype` at `data`.
            ///
            /// # Safety
            /// As `std::slice::from_raw_parts`.
            pub unsafe fn from_raw(dtype: DType, data: *const u8, elements: usize) -> Self {
                // SAFETY: as the caller promises.
                match dtype { $(DType::$dtype => Self::$dtype(unsafe { std::slice::from_raw_parts(data.cast(), elements) })),+ }
            }

            /// Returns a copy.
            pub fn to_owned(self) -> OwnedValues {
                match self { $(Self::$dtype(values) => OwnedValues::$dtype(values.to_vec())),+ }
            }
        }

        impl ValuesMut<'_> {
            /// The `elements` numbers of type `dtype` at `data`.
            ///
            /// # Safety
            /// As `std::slice::from_raw_parts_mut`.
            pub unsafe fn from_raw(dtype: DType, data: *mut u8, elements: usize) -> Self {
                // SAFETY: as the caller promises.
                match dtype { $(DType::$dtype => Self::$dtype(unsafe { std::slice::from_raw_parts_mut(data.cast(), elements) })),+ }
            }

            /// Copies the rows of `from`, except for the rows `at`, which are copied from successive rows of `others`.
            ///
            /// # Panics
            /// If the types or the lengths differ, or `at` names a row that does not exist.
            pub fn copy_rows(self, from: Values<'_>, at: &[i64], others: Values<'_>) {
                match (self, from, others) {
                    $((Self::$dtype(to), Values::$dtype(from), Values::$dtype(others)) => {
                        to.copy_from_slice(from);
                        let length = others.len() / at.len().max(1);
                        for (&row, other) in at.iter().zip(others.chunks_exact(length.max(1))) {
                            to[row as usize * length..][..length].copy_from_slice(other);
                        }
                    },)+
                    (to, from, others) => panic!("{from:?} and {others:?} cannot be copied to {to:?}"),
                }
            }
        }

        impl OwnedValues {
            /// Returns all numbers.
            pub fn as_values(&self) -> Values<'_> {
                match self { $(Self::$dtype(values) => Values::$dtype(values)),+ }
            }
        }

        $(impl Erase for $type {
            fn hide(values: &[Self]) -> Values<'_> {
                Values::$dtype(values)
            }

            fn hide_mut(values: &mut [Self]) -> ValuesMut<'_> {
                ValuesMut::$dtype(values)
            }

            fn show(values: Values<'_>) -> Option<&[Self]> {
                if let Values::$dtype(values) = values { Some(values) } else { None }
            }

            fn show_mut(values: ValuesMut<'_>) -> Option<&mut [Self]> {
                if let ValuesMut::$dtype(values) = values { Some(values) } else { None }
            }
        })+
    };
}

erase!(f32 => Float32, f64 => Float64, i8 => Int8, i32 => Int32, i64 => Int64, u8 => UInt8);
