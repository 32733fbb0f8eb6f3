//! Memory that a thread uses again, as new memory for images costs as much as a layer of a network.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::error::Result;
use crate::vectors::filled;

/// The most numbers that are kept, and the most vectors.
const MOST: (usize, usize) = (1 << 24, 2);

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Numbers, for a while. Their first values mean nothing.
#[derive(Debug)]
pub struct Scratch {
    numbers: Vec<f32>,
    len: usize,
}

impl Scratch {
    /// Returns so many numbers.
    ///
    /// # Errors
    /// `Room` without memory.
    pub fn of(len: usize) -> Result<Self> {
        let kept = KEPT.with_borrow_mut(|kept| {
            let fitting = kept.iter().position(|numbers| numbers.len() >= len);
            fitting.map(|k| kept.swap_remove(k))
        });
        let numbers = if let Some(numbers) = kept { numbers } else { filled(0.0, len)? };
        Ok(Self { numbers, len })
    }

    /// Returns numbers, each converted.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn converted<T: Copy + Into<f32>>(from: &[T]) -> Result<Self> {
        let mut scratch = Self::of(from.len())?;
        for (to, &number) in scratch.iter_mut().zip(from) {
            *to = number.into();
        }
        Ok(scratch)
    }
}

impl Deref for Scratch {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.numbers[..self.len]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[..self.len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.numbers.len() > MOST.0 {
            return;
        }
        let numbers = std::mem::take(&mut self.numbers);
        // After the end of its thread there is nothing to keep.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            kept.push(numbers);
            if kept.len() > MOST.1 {
                kept.sort_by_key(Vec::len);
                kept.remove(0);
            }
        });
    }
}
