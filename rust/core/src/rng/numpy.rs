//! NumPy's `default_rng(seed)`: `SeedSequence` and PCG64, bit for bit.
//!
//! Gymnasium environments draw from it, so a native environment with the same seed resets to the same state.

use super::unit_double;

const POOL_WORDS: usize = 4;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;
const PCG_MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The multiply-and-fold hash under `SeedSequence`; its constant moves with every word.
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
    /// The sequence of an integer seed.
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

    /// `generate_state(N, np.uint64)`.
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

/// `np.random.Generator(np.random.PCG64(seed))`, the draws that environments use.
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
}

impl Generator {
    /// `np.random.default_rng(seed)`.
    pub fn new(seed: u128) -> Self {
        let words: [u64; 4] = SeedSequence::new(seed).generate();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let increment = (wide(words[2], words[3]) << 1) | 1;
        let mut generator = Self { state: increment.wrapping_add(wide(words[0], words[1])), increment };
        generator.step();
        generator
    }

    /// State and increment, for snapshots: `bit_generator.state["state"]` in NumPy.
    pub fn state(&self) -> (u128, u128) {
        (self.state, self.increment)
    }

    /// The generator that continues from `state`; None if its increment is even, which PCG64 never has.
    pub fn from_state((state, increment): (u128, u128)) -> Option<Self> {
        (increment & 1 == 1).then_some(Self { state, increment })
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(PCG_MULTIPLIER).wrapping_add(self.increment);
    }

    /// `bit_generator.random_raw()`: PCG XSL-RR 128/64 (O'Neill, 2014).
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// `random()`: a double in [0, 1).
    pub fn random(&mut self) -> f64 {
        unit_double(self.next_u64())
    }

    /// `uniform(low, high)`.
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
        let state = (0x786df8ae32b3fe645bee00f1ac1e7b4d, 0xd4e48fee886333a26dbcfc7823f9c3b);
        let mut generator = Generator::new(123);
        assert_eq!(generator.state(), state);
        let mut copy = Generator::from_state(state).expect("the increment is odd");
        assert_eq!(copy.next_u64(), generator.next_u64());
        assert_eq!(Generator::from_state((1, 2)), None);
    }
}
