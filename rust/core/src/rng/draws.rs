//! Draws from a bit generator that equal NumPy's: they consume the same words in the same order and give the same
//! numbers.

use crate::error::{Result, value_error};
use crate::vectors::filled;

/// A source of random bits, such as one of NumPy's bit generators.
pub trait BitSource {
    /// Returns the next 32 random bits.
    fn next_u32(&mut self) -> u32;
    /// Returns a double in [0, 1).
    fn next_double(&mut self) -> f64;
}

impl<T: BitSource + ?Sized> BitSource for &mut T {
    fn next_u32(&mut self) -> u32 {
        (**self).next_u32()
    }
    fn next_double(&mut self) -> f64 {
        (**self).next_double()
    }
}

/// Fills `out` with integers from 0 to `largest`, as `np.random.randint(0, largest + 1, out.len())` draws them.
///
/// NumPy never changes these draws (NEP 19): it masks 32 bits to the width of `largest`, and draws again while the
/// result is larger. Nothing is drawn if `largest` is 0.
pub fn masked(source: &mut impl BitSource, largest: u32, out: &mut [i64]) {
    if largest == 0 {
        return out.fill(0);
    }
    let mask = u32::MAX >> largest.leading_zeros();
    for value in out {
        *value = loop {
            let word = source.next_u32() & mask;
            if word <= largest {
                break i64::from(word);
            }
        };
    }
}

/// Checks the number of integers that are drawn from.
///
/// # Errors
/// `Value` if it is 0.
pub fn check_bound(bound: u32) -> Result<()> {
    if bound == 0 { value_error!("bound must be at least 1, got 0") } else { Ok(()) }
}

/// Returns `count` integers below `bound`, as [`masked`] draws them.
///
/// # Errors
/// As [`check_bound`]; `Room` without memory for them.
pub fn randint(source: &mut impl BitSource, bound: u32, count: usize) -> Result<Vec<i64>> {
    check_bound(bound)?;
    let mut drawn = filled(0, count)?;
    masked(source, bound - 1, &mut drawn);
    Ok(drawn)
}

/// Returns an integer from `0..bound`, as `generator.integers(bound)` draws it (Lemire, arXiv:1805.10941, algorithm 5).
///
/// Nothing is drawn if `bound` is 1.
///
/// # Panics
/// If `bound` is 0.
pub fn bounded(source: &mut impl BitSource, bound: u32) -> i64 {
    if bound == 1 {
        return 0;
    }
    let rejected = bound.wrapping_neg() % bound;
    loop {
        let wide = u64::from(source.next_u32()) * u64::from(bound);
        if wide as u32 >= rejected {
            break (wide >> 32) as i64;
        }
    }
}

/// Replaces each size by an integer below it, drawn as `(generator.random(len(sizes)) * sizes).astype(int)`.
pub fn scaled(source: &mut impl BitSource, sizes: &mut [i64]) {
    for size in sizes {
        *size = (source.next_double() * *size as f64) as i64;
    }
}

/// Replaces each action, with probability `epsilon`, by a uniform one from `0..count` (epsilon-greedy exploration).
///
/// Two numbers are drawn for each action: first, for all actions, whether to explore; then, for all actions, the action
/// to explore.
///
/// # Panics
/// If `explores`, which receives the first decisions, has another length than `actions`.
pub fn epsilon_greedy(
    source: &mut impl BitSource,
    epsilon: f64,
    count: u32,
    actions: &mut [i64],
    explores: &mut [bool],
) {
    assert_eq!(actions.len(), explores.len(), "one flag for each action");
    explores.fill_with(|| source.next_double() < epsilon);
    for (action, &mut explores) in actions.iter_mut().zip(explores) {
        let drawn = source.next_double() * f64::from(count);
        if explores {
            *action = drawn as i64;
        }
    }
}

/// Replaces some actions as [`epsilon_greedy`] does.
///
/// # Errors
/// `Room` without memory for the decisions.
pub fn explore(source: &mut impl BitSource, epsilon: f64, count: u32, actions: &mut [i64]) -> Result<()> {
    let mut explores = filled(false, actions.len())?;
    epsilon_greedy(source, epsilon, count, actions, &mut explores);
    Ok(())
}

/// Replaces some actions as [`explore`] does, by uniform ones of those that are legal; where none is, by the first one.
///
/// # Errors
/// `Value` unless `legal` has one number for each of `count` actions in each row, 0 for illegal ones; `Room` as [`explore`].
pub fn explore_legal(
    source: &mut impl BitSource,
    epsilon: f64,
    legal: &[u8],
    count: usize,
    actions: &mut [i64],
) -> Result<()> {
    if count == 0 || legal.len() != count * actions.len() {
        return value_error!(
            "a mask of {} numbers is not one of {count} actions for {} rows",
            legal.len(),
            actions.len()
        );
    }
    let mut explores = filled(false, actions.len())?;
    explores.fill_with(|| source.next_double() < epsilon);
    for ((action, explores), legal) in actions.iter_mut().zip(explores).zip(legal.chunks_exact(count)) {
        let drawn = source.next_double();
        if explores {
            let choices = legal.iter().filter(|&&flag| flag != 0).count();
            let place = (drawn * choices as f64) as usize;
            *action = legal.iter().enumerate().filter(|&(_, &flag)| flag != 0).nth(place).map_or(0, |(k, _)| k as i64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::numpy::Generator;

    /// A source of fixed words, given as 32 bits or as a fraction of 2^32.
    struct Words<'a>(std::slice::Iter<'a, u32>);

    impl BitSource for Words<'_> {
        fn next_u32(&mut self) -> u32 {
            *self.0.next().expect("no more words are drawn than these")
        }
        fn next_double(&mut self) -> f64 {
            f64::from(self.next_u32()) / 4_294_967_296.0
        }
    }

    fn words(words: &[u32]) -> Words<'_> {
        Words(words.iter())
    }

    /// NumPy's PCG64.
    struct Pcg(Generator, Option<u32>);

    impl BitSource for Pcg {
        fn next_u32(&mut self) -> u32 {
            self.1.take().unwrap_or_else(|| {
                let word = self.0.next_u64();
                self.1 = Some((word >> 32) as u32);
                word as u32
            })
        }
        fn next_double(&mut self) -> f64 {
            self.0.random()
        }
    }

    #[test]
    fn masked_draws_again_above_the_largest() {
        let mut out = [0; 2];
        let mut source = words(&[0xffff_fff7, 0xffff_fff2, 6, 5]);
        masked(&mut source, 5, &mut out); // 7, then 2; 6, then 5
        assert_eq!((out, source.0.len()), ([2, 5], 0));
    }

    #[test]
    fn masked_draws_nothing_for_one_value() {
        let mut out = [9; 2];
        masked(&mut words(&[]), 0, &mut out);
        assert_eq!(out, [0, 0]);
    }

    #[test]
    fn bounded_draws_again_where_one_value_would_be_too_likely() {
        // 2^32 mod 3 is 1: only the word 0 is rejected.
        assert_eq!(bounded(&mut words(&[0, u32::MAX]), 3), 2);
        assert_eq!(bounded(&mut words(&[1]), 3), 0);
        assert_eq!(bounded(&mut words(&[]), 1), 0);
    }

    #[test]
    fn bounded_draws_are_those_of_numpy() {
        // generator = np.random.default_rng(7); [int(generator.integers(10)) for _ in range(8)]
        let mut source = Pcg(Generator::new(7), None);
        assert_eq!([0; 8].map(|_| bounded(&mut source, 10)), BOUNDED);
    }

    const BOUNDED: [i64; 8] = [9, 6, 6, 8, 5, 7, 8, 2];

    #[test]
    fn scaled_draws_are_those_of_numpy() {
        // (np.random.default_rng(7).random(4) * [10, 1000, 1, 0]).astype(int)
        let mut sizes = [10, 1000, 1, 0];
        scaled(&mut Pcg(Generator::new(7), None), &mut sizes);
        assert_eq!(sizes, SCALED);
    }

    const SCALED: [i64; 4] = [6, 897, 0, 0];

    #[test]
    fn exploring_draws_all_flags_before_all_actions() {
        let (mut actions, mut explores) = ([7, 8, 9], [false; 3]);
        // Explore, greedy, greedy; then 1.5, 2.25 (unused), 0 (unused) of three actions.
        let mut source = words(&[0, 1 << 31, 1 << 30, 1 << 31, 3 << 30, 0]);
        epsilon_greedy(&mut source, 0.25, 3, &mut actions, &mut explores);
        assert_eq!((actions, source.0.len()), ([1, 8, 9], 0));
    }

    #[test]
    fn exploring_draws_of_the_legal_actions() {
        let mut actions = [7, 8, 9, 6];
        // Explore, greedy, explore, explore; then the second of two, unused, the only one, and the first as none is legal.
        let mut source = words(&[0, 1 << 31, 0, 0, 1 << 31, 3 << 30, 3 << 30, 1 << 31]);
        let legal = [1, 0, 255, 1, 1, 1, 0, 1, 0, 0, 0, 0];
        explore_legal(&mut source, 0.25, &legal, 3, &mut actions).unwrap();
        assert_eq!((actions, source.0.len()), ([2, 8, 1, 0], 0));
        assert!(explore_legal(&mut words(&[]), 0.5, &legal[1..], 3, &mut actions).is_err());
        assert!(explore_legal(&mut words(&[]), 0.5, &[], 0, &mut actions).is_err());
    }

    #[test]
    fn there_is_something_to_draw_from() {
        assert_eq!(check_bound(0).unwrap_err().to_string(), "bound must be at least 1, got 0");
        assert!(randint(&mut words(&[]), 0, 2).is_err());
        assert_eq!(randint(&mut words(&[]), 1, 2).unwrap(), [0, 0]);
        assert_eq!(randint(&mut words(&[7, 2, 3]), 4, 3).unwrap(), [3, 2, 3]);
        let mut actions = [5, 5];
        explore(&mut words(&[u32::MAX, 0, 0, 1 << 31]), 0.5, 4, &mut actions).unwrap();
        assert_eq!(actions, [5, 2]);
    }
}
