//! The random numbers of PyTorch on the CPU.
//!
//! [`Generator`] repeats `torch.Generator().manual_seed(seed)`: a Mersenne Twister, and how `exponential_` and `randn`
//! make floats of its words. Numbers equal torch's but for the rounding of logarithms and sines. Of 16 normal numbers or more
//! that holds on processors with AVX2, where torch computes angles in single precision: they differ by 5e-7 at most, and
//! elsewhere by 3e-6.

use std::f64::consts::TAU;

use super::numpy::SeedSequence;

/// Words of the state.
const WORDS: usize = 624;
/// How far the words are apart that are mixed.
const APART: usize = 397;
/// Normal numbers that torch computes together.
const BLOCK: usize = 16;

/// `torch.Generator().manual_seed(seed)`.
///
/// ```
/// use rlfast_core::rng::torch::Generator;
/// let mut numbers = [0.0; 2];
/// Generator::new(7).exponentials(&mut numbers); // torch.empty(2).exponential_(generator=...)
/// assert_eq!(numbers, [0.32764393, 0.31978348]);
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    words: [u32; WORDS],
    next: usize,
    /// The second of a pair of normal numbers.
    kept: Option<f64>,
}

impl Generator {
    /// Returns the generator of a seed, of which torch uses the lower half.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut words = [seed as u32; WORDS];
        for k in 1..WORDS {
            let before = words[k - 1];
            words[k] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(k as u32);
        }
        Self { words, next: WORDS, kept: None }
    }

    /// Returns the generator from which a policy draws actions after `policy.seed(seed)`.
    #[must_use]
    pub fn of_policy(seed: u64) -> Self {
        let words = if seed >> 32 == 0 { 1 } else { 2 };
        let [word] = SeedSequence::new(u128::from(seed) | (1 << (32 * words))).generate(); // of [seed, 1]
        Self::new(word >> 1)
    }

    /// Writes `-log(1 - u)` for uniform numbers `u`, as `torch.Tensor.exponential_` writes them.
    pub fn exponentials(&mut self, out: &mut [f32]) {
        for number in out {
            *number = -(-self.double()).ln_1p() as f32;
        }
    }

    /// Writes standard normal numbers as one call of `torch.randn` returns them (Box and Muller, 1958).
    pub fn normals(&mut self, out: &mut [f32]) {
        if out.len() < BLOCK {
            for number in out {
                *number = self.normal() as f32;
            }
            return;
        }
        for number in &mut *out {
            *number = self.single();
        }
        let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
        for block in blocks {
            make_normal(block);
        }
        if !rest.is_empty() {
            let last = out.last_chunk_mut::<BLOCK>().expect("invariant: at least a block");
            for number in &mut *last {
                *number = self.single();
            }
            make_normal(last);
        }
    }

    fn normal(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        let (angle, below) = (TAU * self.double(), self.double());
        let radius = (-2.0 * (-below).ln_1p()).sqrt();
        self.kept = Some(radius * angle.sin());
        radius * angle.cos()
    }

    /// The next 32 bits (Matsumoto and Nishimura, 1998).
    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            for k in 0..WORDS {
                let joined = (self.words[k] & 0x8000_0000) | (self.words[(k + 1) % WORDS] & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.words[k] = self.words[(k + APART) % WORDS] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A double in [0, 1) of 53 bits.
    fn double(&mut self) -> f64 {
        let (high, low) = (u64::from(self.word()), u64::from(self.word()));
        (((high << 32) | low) & ((1 << 53) - 1)) as f64 / (1_u64 << 53) as f64
    }

    /// A float in [0, 1) of 24 bits.
    fn single(&mut self) -> f32 {
        (self.word() & 0x00ff_ffff) as f32 / (1 << 24) as f32
    }
}

/// Replaces uniform numbers by normal ones, in pairs of the two halves.
fn make_normal(block: &mut [f32; BLOCK]) {
    let (one, other) = block.split_at_mut(BLOCK / 2);
    for (one, other) in one.iter_mut().zip(other) {
        let radius = (-2.0 * f64::from(1.0 - *one).ln()).sqrt();
        let (sin, cos) = f64::from(TAU as f32 * *other).sin_cos(); // torch rounds the angle, which matters most
        (*one, *other) = ((radius * cos) as f32, (radius * sin) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::Generator;

    fn close(found: &[f32], wanted: &[f32]) -> bool {
        found.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-6)
    }

    /// Printed by PyTorch 2.15: `torch.randn(n, generator=torch.Generator().manual_seed(12345))`, and the same of 2 ** 40 + 12345.
    #[test]
    fn few_normal_numbers_are_drawn_in_pairs() {
        for seed in [12345, (1 << 40) + 12345] {
            let mut generator = Generator::new(seed);
            let (mut one, mut others) = ([0.0; 1], [0.0; 5]);
            generator.normals(&mut one);
            generator.normals(&mut others);
            assert!(close(&one, &[1.427_130_4]));
            assert!(close(&others, &[-1.870_089_2, -1.196_210_4, -2.043_951_3, -0.455_990_6, -1.429_450_5]));
        }
    }

    #[test]
    fn many_normal_numbers_are_drawn_in_blocks() {
        let mut numbers = [0.0; 20];
        Generator::new(3).normals(&mut numbers);
        let some = [0, 8, 15, 16, 19].map(|k| numbers[k]);
        assert!(close(&some, &[-0.076_644_294, 0.404_607_15, -0.146_808_18, 0.485_114, 1.352_754]));
    }

    /// `torch.randn(16, generator=torch.Generator().manual_seed(seed))` on a processor with AVX2. With exact angles these
    /// numbers are 1.3e-6 away.
    #[test]
    fn angles_of_blocks_are_rounded() {
        for (seed, place, wanted) in [(1444, 12, -2.372_454), (3506, 14, -0.207_890_69)] {
            let mut numbers = [0.0; 16];
            Generator::new(seed).normals(&mut numbers);
            assert!((numbers[place] - wanted).abs() < 3e-7_f32, "{} {wanted}", numbers[place]);
        }
    }

    /// `torch.empty(3).exponential_(generator=policy._torch_rng)` after `policy.seed(2 ** 40 + 3)`.
    #[test]
    fn policies_have_streams_of_their_own() {
        let mut numbers = [0.0; 3];
        Generator::of_policy((1 << 40) + 3).exponentials(&mut numbers);
        assert!(close(&numbers, &[1.632_797_4, 0.684_808_25, 2.166_669]));
    }
}
