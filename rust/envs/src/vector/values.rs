//! Slices of numbers whose type is known only at run time.

use crate::Element;

/// An element whose slices can be converted into [`Values`] and back.
pub trait Erase: Element {
    /// Hides the type.
    fn hide(values: &[Self]) -> Values<'_>;
    /// Likewise, to write to.
    fn hide_mut(values: &mut [Self]) -> ValuesMut<'_>;
    /// Shows it again; None if it is another.
    fn show(values: Values<'_>) -> Option<&[Self]>;
    /// Likewise, to write to.
    fn show_mut(values: ValuesMut<'_>) -> Option<&mut [Self]>;
}

macro_rules! erase {
    ($($type:ty => $dtype:ident),+) => {
        /// Numbers of one of the [`DType`](crate::DType)s.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum Values<'a> { $($dtype(&'a [$type])),+ }

        /// Numbers of one of the [`DType`](crate::DType)s, to write to.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum ValuesMut<'a> { $($dtype(&'a mut [$type])),+ }

        /// Numbers of one of the [`DType`](crate::DType)s, owned.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is named after its type")]
        pub enum OwnedValues { $($dtype(Vec<$type>)),+ }

        impl Values<'_> {
            /// A copy.
            pub fn to_owned(self) -> OwnedValues {
                match self { $(Self::$dtype(values) => OwnedValues::$dtype(values.to_vec())),+ }
            }
        }

        impl ValuesMut<'_> {
            /// Copies the rows of `from`, but for those numbered `at`, which it takes from `others`, one after the other.
            ///
            /// # Panics
            /// If they are of different types, or not as many, or there is no such row.
            pub fn copy_rows(self, from: Values<'_>, at: &[usize], others: Values<'_>) {
                match (self, from, others) {
                    $((Self::$dtype(to), Values::$dtype(from), Values::$dtype(others)) => {
                        to.copy_from_slice(from);
                        let length = others.len() / at.len().max(1);
                        for (row, other) in at.iter().zip(others.chunks_exact(length.max(1))) {
                            to[row * length..][..length].copy_from_slice(other);
                        }
                    },)+
                    (to, from, others) => panic!("{from:?} and {others:?} cannot be copied to {to:?}"),
                }
            }
        }

        impl OwnedValues {
            /// All of them.
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
