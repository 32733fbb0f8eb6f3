//! Helpers for [`Env::step_lanes`](crate::Env::step_lanes).

use crate::LANES;

/// Collects at most [`LANES`] flags in an array; the remaining entries are 0.
#[inline(always)]
pub fn padded(flags: impl Iterator<Item = u8>) -> [u8; LANES] {
    let mut all = [0; LANES];
    all.iter_mut().zip(flags).for_each(|(to, flag)| *to = flag);
    all
}

/// Returns the indices of the `flags` that are 1; the others are 0. Most flags are 0, so eight of them are tested at once.
#[inline(always)]
pub fn flagged(flags: [u8; LANES]) -> impl Iterator<Item = usize> {
    (0..LANES).step_by(8).flat_map(move |first| {
        let mut flags = flags[first..].first_chunk().map_or(0, |&flags| u64::from_le_bytes(flags));
        std::iter::from_fn(move || {
            let next = (flags != 0).then_some(first + flags.trailing_zeros() as usize / 8)?;
            flags &= flags - 1;
            Some(next)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_order() {
        let at = [0, 1, 7, 8, 30, LANES - 1];
        let flags = |count| (0..count).map(move |k| u8::from(at.contains(&k)));
        let found = |count| flagged(padded(flags(count))).collect::<Vec<_>>();
        assert_eq!((found(LANES), found(9), found(0)), (at.to_vec(), at[..4].to_vec(), vec![]));
    }
}
