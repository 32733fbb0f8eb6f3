//! The types of the numbers in observations, actions and infos.

use crate::State;

/// A type of numbers, by NumPy's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// `f32`.
    Float32,
    /// `f64`.
    Float64,
    /// `i8`.
    Int8,
    /// `i32`.
    Int32,
    /// `i64`.
    Int64,
    /// `u8`.
    UInt8,
}

impl DType {
    /// Returns NumPy's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that corresponds to a [`DType`].
pub trait Element:
    sealed::Sealed + State + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
    /// The corresponding type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }
    )+};
}

elements!(f32 => Float32, f64 => Float64, i8 => Int8, i32 => Int32, i64 => Int64, u8 => UInt8);
