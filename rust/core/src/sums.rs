//! Sums that equal NumPy's to the bit, because they add in the same order.

/// Partial sums that run beside one another.
const LANES: usize = 8;
/// Arrays with more numbers are split into halves.
const HALVED: usize = 128;

/// Returns the sum of float32 numbers as `np.sum` of a contiguous array computes it: by halves down to 128 numbers, which are
/// added in eight partial sums.
#[must_use]
pub fn pairwise(terms: &[f32]) -> f32 {
    if terms.len() < LANES {
        return terms.iter().fold(0.0, |sum, term| sum + term);
    }
    if terms.len() > HALVED {
        let half = terms.len() / 2 / LANES * LANES;
        return pairwise(&terms[..half]) + pairwise(&terms[half..]);
    }
    let whole = terms.len() / LANES * LANES;
    let mut sums = [0.0; LANES];
    sums.copy_from_slice(&terms[..LANES]);
    for eight in terms[LANES..whole].chunks_exact(LANES) {
        sums.iter_mut().zip(eight).for_each(|(sum, term)| *sum += term);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    terms[whole..].iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, term| sum + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_numpy() {
        // np.sum(np.arange(n, dtype=np.float32) * np.float32(0.1) - np.float32(1)).view(np.uint32)
        for (count, bits) in SUMS {
            let terms: Vec<f32> = (0..count).map(|k| k as f32 * 0.1 - 1.0).collect();
            assert_eq!(pairwise(&terms).to_bits(), bits, "{count} terms");
        }
    }

    const SUMS: [(usize, u32); 8] = [
        (3, 0xc02ccccd),
        (7, 0xc09ccccd),
        (8, 0xc0a66666),
        (9, 0xc0accccc),
        (100, 0x43c58000),
        (128, 0x442b3333),
        (129, 0x442e2666),
        (1000, 0x473f3600),
    ];

    #[test]
    fn small_numbers_are_lost_as_they_are_in_numpy() {
        let mut terms = vec![1.0_f32; 16];
        terms[0] = 16_777_216.0; // 2^24, to which 1 adds nothing
        assert_eq!(pairwise(&terms), 16_777_230.0);
        assert_eq!(terms.iter().sum::<f32>(), 16_777_216.0);
    }
}
