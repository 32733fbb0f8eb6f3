//! Random streams whose bits never change between versions of this crate.
//!
//! [`Stream`] (Xoshiro256++) is the engine's own generator: samplers and relabelling draw from it. One root seed gives
//! any number of independent streams by name, so a new consumer never shifts the draws of an old one. [`numpy`] repeats
//! NumPy's default generator bit for bit, for native environments that must reset as Gymnasium's do.

pub mod draws;
pub mod numpy;
pub mod torch;

/// Doubles in [0, 1) are the top 53 bits of a word, times this.
const DOUBLE_UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// Returns a double in [0, 1) from the top 53 bits of `word`.
fn unit_double(word: u64) -> f64 {
    (word >> 11) as f64 * DOUBLE_UNIT
}

/// Advances `state` by one step of SplitMix64 (Steele, Lea and Flood, 2014), and returns its output.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the FNV-1a hash of the bytes of `name`, which is the same on every platform.
fn hash_name(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A Xoshiro256++ generator (Blackman and Vigna, 2021): 256 bits of state, about a nanosecond for 64 bits.
///
/// ```
/// use rlfast_core::rng::Stream;
/// let mut sampler = Stream::named(7, "sampler");
/// let mut again = Stream::named(7, "sampler");
/// assert_eq!(sampler.next_u64(), again.next_u64());
/// assert_ne!(sampler.next_u64(), Stream::named(7, "hindsight").next_u64());
/// assert!(sampler.below(10) < 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// Returns the stream called `name` of a root seed. Different names give independent streams.
    pub fn named(root_seed: u64, name: &str) -> Self {
        let mut mix = root_seed;
        Self::new(split_mix(&mut mix) ^ hash_name(name))
    }

    /// Returns the whole state, for snapshots.
    pub fn state(&self) -> [u64; 4] {
        self.state
    }

    /// Returns the stream that continues from `state`; None if all words are zero, a state that no stream reaches.
    pub fn from_state(state: [u64; 4]) -> Option<Self> {
        (state != [0; 4]).then_some(Self { state })
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let word = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        word
    }

    /// Returns a uniform integer from `0..n`, without bias (Lemire, arXiv:1805.10941).
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw below 0 does not exist");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // Products whose lower half is below 2^64 mod n would be one word too many for their result.
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Fills `out` with independent draws from `0..n`, the same values as that many calls of [`Stream::below`].
    ///
    /// # Panics
    /// If `n` is 0 and `out` is not empty.
    pub fn fill_below(&mut self, n: usize, out: &mut [usize]) {
        // The compiler keeps a local copy in registers, as `out` cannot alias it.
        let mut stream = self.clone();
        for slot in out {
            *slot = stream.below(n as u64) as usize;
        }
        *self = stream;
    }

    /// Returns a uniform double from [0, 1) with 53 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        unit_double(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn words_are_those_of_the_reference_generator() {
        let mut stream = Stream::new(42);
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_exact_mut(8).zip(stream.state()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut reference = rand_xoshiro::Xoshiro256PlusPlus::from_seed(seed);
        for _ in 0..1000 {
            assert_eq!(stream.next_u64(), reference.next_u64());
        }
    }

    #[test]
    fn seeding_is_that_of_the_reference_generator() {
        let mut stream = Stream::new(9);
        let mut reference = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(9);
        assert_eq!(stream.next_u64(), reference.next_u64());
    }

    #[test]
    fn named_streams_are_frozen() {
        // Stored snapshots and published runs depend on these bits.
        assert_eq!(Stream::named(0, "sampler").next_u64(), 9544728759919862901);
        assert_eq!(Stream::named(0, "hindsight").next_u64(), 12777365997450131529);
        assert_ne!(Stream::named(1, "sampler").next_u64(), Stream::named(0, "sampler").next_u64());
    }

    #[test]
    fn state_round_trips() {
        let mut stream = Stream::named(3, "a");
        stream.next_u64();
        let mut copy = Stream::from_state(stream.state()).expect("a running stream is never all zero");
        assert_eq!(stream.next_u64(), copy.next_u64());
        assert_eq!(Stream::from_state([0; 4]), None);
    }

    #[test]
    fn below_is_uniform() {
        let mut stream = Stream::new(1);
        let mut counts = [0_f64; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1.0;
        }
        let chi_square: f64 = counts.iter().map(|n| (n - 1e4).powi(2) / 1e4).sum();
        assert!(chi_square < 22.5, "6 degrees of freedom, p = 0.001: {chi_square}");
    }

    #[test]
    fn below_rejects_the_surplus() {
        // Of the words, 2^64 mod n would make the first values too likely: n = 3 * 2^62 rejects a quarter of them.
        let n = 3 << 62;
        let mut stream = Stream::new(5);
        let low = (0..30_000).filter(|_| stream.below(n) < n / 3).count() as f64;
        assert!((low - 1e4).abs() < 300.0, "{low}");
    }

    proptest! {
        #[test]
        fn draws_stay_in_range(seed: u64, n in 1..=u64::MAX) {
            let mut stream = Stream::new(seed);
            for _ in 0..20 {
                prop_assert!(stream.below(n) < n);
                prop_assert!((0.0..1.0).contains(&stream.uniform()));
            }
        }

        #[test]
        fn fill_below_draws_what_below_draws(seed: u64, n in 1_usize..1_000_000) {
            let (mut one, mut many) = (Stream::new(seed), Stream::new(seed));
            let mut filled = [0; 33];
            many.fill_below(n, &mut filled);
            for value in filled {
                prop_assert_eq!(value as u64, one.below(n as u64));
            }
            prop_assert_eq!(one, many);
        }
    }
}
