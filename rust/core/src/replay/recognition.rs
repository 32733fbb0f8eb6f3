//! Frames that are recognised by number, so that their bytes need not be compared.
//!
//! A host that makes frames may number them: a number is never 0, belongs to one frame of the process, and that frame never
//! changes. Two frames with one number are then equal, whoever shows them. Frames without a number, or with different
//! numbers, are compared byte by byte, so numbers save time and never change what is stored.

use crate::replay::layout::MAX_STACK;
use crate::source::Source;

/// The numbers of the frames of one stack; zeros if they are not known.
pub(super) type Numbers = [u64; MAX_STACK];

/// The numbers of the frames of a ring's newest row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Those of its `obs`.
    pub obs: Numbers,
    /// Those of its `obs_next` in a side row.
    pub next: Numbers,
}

impl Seen {
    pub const NOTHING: Self = Self { obs: [0; MAX_STACK], next: [0; MAX_STACK] };
}

/// Returns the numbers of the frames of row `k`.
///
/// # Safety
/// The source has a number for each of the `stack` frames of each row up to `k`, or none at all.
#[inline]
pub(super) unsafe fn numbers(source: Source, k: usize, stack: usize) -> Numbers {
    let mut numbers = [0; MAX_STACK];
    if !source.numbers.is_null() {
        // SAFETY: the caller's promise; a stack has `MAX_STACK` frames at most.
        unsafe { source.numbers.add(k * stack).copy_to_nonoverlapping(numbers.as_mut_ptr(), stack) };
    }
    numbers
}

/// Returns whether the numbers say that frame `j` of one stack is frame `k` of the other.
#[inline]
pub(super) fn is_same(one: &Numbers, j: usize, other: &Numbers, k: usize) -> bool {
    one[j] != 0 && one[j] == other[k]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_numbers_are_never_the_same() {
        let nothing = [0; MAX_STACK];
        let mut one = nothing;
        one[1] = 7;
        assert!(!is_same(&nothing, 0, &nothing, 0) && !is_same(&one, 0, &one, 0));
        assert!(is_same(&one, 1, &one, 1) && !is_same(&one, 1, &nothing, 1));
    }

    #[test]
    fn each_row_has_its_numbers() {
        let given = [1_u64, 2, 3, 4];
        let source = Source { numbers: given.as_ptr(), ..Source::ZEROS };
        // SAFETY: two numbers for each of two rows.
        assert_eq!(unsafe { numbers(source, 1, 2) }[..3], [3, 4, 0]);
        // SAFETY: no numbers.
        assert_eq!(unsafe { numbers(Source::ZEROS, 5, 2) }, [0; MAX_STACK]);
    }
}
