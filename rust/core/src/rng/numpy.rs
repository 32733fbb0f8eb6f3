//! NumPy's `default_rng(seed)`: `SeedSequence` and PCG64, bit for bit.
//!
//! Gymnasium's environments draw from it, so a native environment with the same seed resets to the same state.

use super::unit_double;

const POOL_WORDS: usize = 4;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;
const PCG_MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The multiply-and-fold hash of `SeedSequence`; its constant changes with every word.
struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn mix_in() -> Self {
        Self { constant: 0x43b0_d7e5, multiplier: 0x931e_8875 }
    }

    fn draw_out() -> Self {
        Self { constant: 0x8b51_f9dd, multiplier: 0x58f3_8ded }
    }

    fn word(&mut self, word: u32) -> u32 {
        let word = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        fold(word.wrapping_mul(self.constant))
    }
}

fn fold(word: u32) -> u32 {
    word ^ (word >> 16)
}

fn mix(left: u32, right: u32) -> u32 {
    fold(MIX_LEFT.wrapping_mul(left).wrapping_sub(MIX_RIGHT.wrapping_mul(right)))
}

/// `np.random.SeedSequence(entropy)` for an entropy below 2^128 (O'Neill's `seed_seq_fe128`).
#[derive(Clone, Debug)]
pub struct SeedSequence {
    pool: [u32; POOL_WORDS],
}

impl SeedSequence {
    /// Returns the sequence of an integer seed.
    pub fn new(entropy: u128) -> Self {
        let mut hash = Hash::mix_in();
        let mut pool: [u32; POOL_WORDS] = std::array::from_fn(|i| hash.word((entropy >> (32 * i)) as u32));
        for source in 0..POOL_WORDS {
            for target in (0..POOL_WORDS).filter(|&target| target != source) {
                pool[target] = mix(pool[target], hash.word(pool[source]));
            }
        }
        Self { pool }
    }

    /// Returns `generate_state(N, np.uint64)`.
    pub fn generate<const N: usize>(&self) -> [u64; N] {
        let mut hash = Hash::draw_out();
        let mut words = self.pool.iter().cycle().map(|&word| u64::from(hash.word(word)));
        std::array::from_fn(|_| {
            let low = words.next().expect("invariant: a cycle does not end");
            let high = words.next().expect("invariant: a cycle does not end");
            low | (high << 32)
        })
    }
}

/// `np.random.Generator(np.random.PCG64(seed))`, with those of its methods that environments use.
///
/// ```
/// use rlfast_core::rng::numpy::Generator;
/// let mut generator = Generator::new(123);
/// assert_eq!(generator.random(), 0.6823518632481435); // np.random.default_rng(123).random()
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    state: u128,
    increment: u128,
    /// The upper half of a word whose lower half was drawn: the next 32 bits.
    half: Option<u32>,
}

/// State, increment, and the undrawn half of a word: `bit_generator.state` in NumPy.
pub type GeneratorState = (u128, u128, Option<u32>);

impl Generator {
    /// Returns `np.random.default_rng(seed)`.
    pub fn new(seed: u128) -> Self {
        let words: [u64; 4] = SeedSequence::new(seed).generate();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let increment = (wide(words[2], words[3]) << 1) | 1;
        let mut generator = Self { state: increment.wrapping_add(wide(words[0], words[1])), increment, half: None };
        generator.step();
        generator
    }

    /// Returns the whole state, for snapshots.
    pub fn state(&self) -> GeneratorState {
        (self.state, self.increment, self.half)
    }

    /// Returns the generator that continues from `state`; None if the increment is even, which PCG64's never is.
    pub fn from_state((state, increment, half): GeneratorState) -> Option<Self> {
        (increment & 1 == 1).then_some(Self { state, increment, half })
    }

    #[inline]
    fn step(&mut self) {
        self.state = self.state.wrapping_mul(PCG_MULTIPLIER).wrapping_add(self.increment);
    }

    /// Returns `bit_generator.random_raw()`: PCG XSL-RR 128/64 (O'Neill, 2014).
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// Returns 32 bits: the lower half of a word, then its upper half.
    fn next_u32(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let word = self.next_u64();
            self.half = Some((word >> 32) as u32);
            word as u32
        })
    }

    /// Returns `integers(0, n)`, which is also the index that `choice` of `n` values draws; unbiased (Lemire,
    /// arXiv:1805.10941).
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw below 0 does not exist");
        match u32::try_from(n) {
            Ok(1) => 0,
            Ok(n) => u64::from(self.below_u32(n)),
            Err(_) if n == 1 << 32 => u64::from(self.next_u32()),
            Err(_) => self.below_u64(n),
        }
    }

    fn below_u32(&mut self, n: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(n);
        if (product as u32) < n {
            let surplus = n.wrapping_neg() % n;
            while (product as u32) < surplus {
                product = u64::from(self.next_u32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    fn below_u64(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Returns `random()`, a double in [0, 1).
    #[inline]
    pub fn random(&mut self) -> f64 {
        unit_double(self.next_u64())
    }

    /// Returns `uniform(low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }
}

#[cfg(test)]
mod tests {
    use rand_core::Rng as _;

    use super::*;

    /// Printed by NumPy 2.4.6: `SeedSequence(seed).generate_state(4, np.uint64)`, then `PCG64(seed).random_raw(3)`.
    const REFERENCE: [(u128, [u64; 4], [u64; 3]); 4] = [
        (
            0x0,
            [0xdb2cd7e7b0f478be, 0xabf4641a2c71ba49, 0x20c6ed6d9d7b8d41, 0x2c4099de223c39d4],
            [0xa30febcfd9c2825f, 0x4510bdf882d9d721, 0xa7d3da94ecde8b8],
        ),
        (
            0x7b,
            [0xb1383ed0295844f6, 0xa250632e171d58af, 0x86a7247f7443199d, 0x136de7e3c11fce1d],
            [0xaeae9c9903f3e9cd, 0xdc736db97cb6d23, 0x3869812ee8b9ea96],
        ),
        (
            0x100000007,
            [0x5c15e68f16073898, 0x473d7918d1803233, 0xf3e9cae3c4907c0f, 0xdd958930099c820f],
            [0xc527f515dec95ccd, 0x1ca7438de0381dec, 0x3068b5844246d312],
        ),
        (
            0x8000000000000000ab54a98ceb1f0ad2,
            [0xdae2fb3fc7a98642, 0xabe56ad3dd41f60, 0x26fb2e8697336178, 0xde7183028db17b95],
            [0x5975e6aa10238186, 0xda608bc281a77dbc, 0x83a24a353e4dd705],
        ),
    ];

    #[test]
    fn seeds_and_words_are_numpys() {
        for (seed, words, raw) in REFERENCE {
            assert_eq!(SeedSequence::new(seed).generate::<4>(), words);
            let mut generator = Generator::new(seed);
            assert_eq!(raw.map(|_| generator.next_u64()), raw);
        }
    }

    #[test]
    fn doubles_are_numpys() {
        let mut generator = Generator::new(123);
        let random = [0.6823518632481435, 0.053821018802222675, 0.22035987277261138];
        assert_eq!(random.map(|_| generator.random()), random);
        let uniform = [-0.03156281893013303, -0.03240940989149697, 0.03120945066557737];
        assert_eq!(uniform.map(|_| generator.uniform(-0.05, 0.05)), uniform);
    }

    /// `n` and NumPy 2.4.6's `default_rng(123).integers(0, n)`, drawn one after the other.
    const INTEGERS: [(u64, u64); 13] = [
        (13, 0),
        (4, 2),
        (3, 1),
        (13, 0),
        (1, 0),
        (4294967296, 3904498326),
        (8589934597, 1583741795),
        (13, 2),
        (3221225472, 1074653344),
        (3221225472, 1120350390),
        (3221225472, 2615939510),
        (4294967295, 1938714511),
        (6917529027641081857, 1913211425063834199),
    ];

    #[test]
    fn integers_are_numpys_and_leave_half_a_word() {
        let mut generator = Generator::new(123);
        for (n, want) in INTEGERS {
            assert_eq!(generator.below(n), want, "below {n}");
        }
        assert_eq!(generator.random(), 0.8197545615930021);
        assert_eq!([generator.below(3), generator.below(13)], [2, 11]);
        assert_eq!(generator.random(), 0.5129704552295319);
        let (state, _, half) = generator.state();
        assert_eq!((state, half), (128173803803609708886339474837364417958, Some(3822060013)));
    }

    #[test]
    fn integers_are_uniform_where_most_words_must_be_rejected() {
        for n in [3 << 30, 3 << 62] {
            let mut generator = Generator::new(5);
            let low = (0..30_000).filter(|_| generator.below(n) < n / 3).count() as f64;
            assert!((low - 1e4).abs() < 300.0, "{low} of those below {n}");
        }
    }

    #[test]
    fn words_are_those_of_the_reference_generator() {
        let words: [u64; 4] = SeedSequence::new(77).generate();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let mut reference = rand_pcg::Pcg64::new(wide(words[0], words[1]), wide(words[2], words[3]));
        let mut generator = Generator::new(77);
        for _ in 0..1000 {
            assert_eq!(generator.next_u64(), reference.next_u64());
        }
    }

    #[test]
    fn state_is_numpys_and_round_trips() {
        let state = (0x786df8ae32b3fe645bee00f1ac1e7b4d, 0xd4e48fee886333a26dbcfc7823f9c3b, None);
        let mut generator = Generator::new(123);
        assert_eq!(generator.state(), state);
        let mut copy = Generator::from_state(state).expect("the increment is odd");
        assert_eq!(copy.next_u64(), generator.next_u64());
        assert_eq!(Generator::from_state((1, 2, None)), None);
    }
}
