//! The descent of four draws at once, in vector registers of AVX2.

use std::arch::x86_64::{
    __m256d, _mm256_add_pd, _mm256_blendv_pd, _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_cmpgt_epi64,
    _mm256_load_pd, _mm256_loadu_pd, _mm256_movemask_pd, _mm256_permute2f128_pd, _mm256_set1_epi64x, _mm256_setzero_pd,
    _mm256_setzero_si256, _mm256_storeu_pd, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_sub_pd, _mm256_unpackhi_pd,
    _mm256_unpacklo_pd,
};

use super::{Node, WIDTH, descend_each};
use crate::prefetch::prefetch;

/// Draws in the lanes of a register.
const LANES: usize = 4;

/// Moves draws down one level, as [`super::descend_each`] does and to the same bits.
#[target_feature(enable = "avx2")]
pub(super) fn descend(nodes: &[Node], masses: &mut [f64], found: &mut [usize], below: &[Node]) {
    let (mass_lanes, mass_rest) = masses.as_chunks_mut::<LANES>();
    let (found_lanes, found_rest) = found.as_chunks_mut::<LANES>();
    for (masses, at) in mass_lanes.iter_mut().zip(found_lanes) {
        descend_four(nodes, masses, at);
        if !below.is_empty() {
            at.iter().for_each(|&node| prefetch(below, node));
        }
    }
    descend_each(nodes, mass_rest, found_rest, below);
}

/// Does for each lane what [`Node::descend`] does, with the same additions in the same order.
///
/// Four nodes are transposed, so that a register has the child `i` of each, and the sums of the four grow together.
///
/// # Panics
/// If one of `at` is not a node.
#[inline]
#[target_feature(enable = "avx2")]
fn descend_four(nodes: &[Node], masses: &mut [f64; LANES], at: &mut [usize; LANES]) {
    let of = [&nodes[at[0]], &nodes[at[1]], &nodes[at[2]], &nodes[at[3]]];
    // SAFETY: the array has four numbers.
    let mass = unsafe { _mm256_loadu_pd(masses.as_ptr()) };
    let zero = _mm256_setzero_si256();
    // The least positive number takes the place of mass zero.
    let bits = _mm256_castpd_si256(mass);
    let wanted = _mm256_sub_epi64(bits, _mm256_cmpgt_epi64(_mm256_set1_epi64x(1), bits));
    let (mut sum, mut before, mut child) = (_mm256_setzero_pd(), _mm256_setzero_pd(), zero);
    for half in 0..2 {
        for column in transposed(of, half) {
            sum = _mm256_add_pd(sum, column);
            let passed = _mm256_cmpgt_epi64(wanted, _mm256_castpd_si256(sum));
            child = _mm256_sub_epi64(child, passed);
            before = _mm256_blendv_pd(before, sum, _mm256_castsi256_pd(passed));
        }
    }
    let beyond = _mm256_cmpgt_epi64(child, _mm256_set1_epi64x(WIDTH as i64 - 1));
    let (mut children, mut rest) = ([0_u64; LANES], [0.0; LANES]);
    // SAFETY: the arrays have four numbers each.
    unsafe {
        _mm256_storeu_si256(children.as_mut_ptr().cast(), child);
        _mm256_storeu_pd(rest.as_mut_ptr(), _mm256_sub_pd(mass, before));
    }
    if _mm256_movemask_pd(_mm256_castsi256_pd(beyond)) != 0 {
        for lane in 0..LANES {
            rest[lane] = masses[lane];
            children[lane] = of[lane].descend(&mut rest[lane]) as u64;
        }
    }
    for lane in 0..LANES {
        at[lane] = at[lane] * WIDTH + children[lane] as usize;
    }
    *masses = rest;
}

/// Returns the children `4 * half` to `4 * half + 3` of four nodes: register `i` has the child `i` of each.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(nodes: [&Node; LANES], half: usize) -> [__m256d; LANES] {
    // SAFETY: a node is aligned to 64 bytes and has two halves of four numbers.
    let row = |lane: usize| unsafe { _mm256_load_pd(nodes[lane].0.as_ptr().add(half * LANES)) };
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd::<0x20>(ab_even, cd_even),
        _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
        _mm256_permute2f128_pd::<0x31>(ab_even, cd_even),
        _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: usize = 5;

    proptest! {
        /// Masses of zero, on the edges between children, and above the sum are drawn often.
        #[test]
        fn lanes_descend_as_single_draws_do(
            children in prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 1e-9..1e9_f64], NODES * WIDTH),
            draws in prop::collection::vec((0..NODES, 0..=WIDTH, prop_oneof![Just(0.0), Just(1e12), 0.0..1.0_f64]), 0..40),
        ) {
            prop_assume!(is_x86_feature_detected!("avx2"));
            let nodes: Vec<Node> = children.as_chunks().0.iter().map(|&values| Node(values)).collect();
            let positive = |&node: &usize| nodes[node].0.iter().any(|&value| value > 0.0);
            let draws: Vec<_> = draws.into_iter().filter(|(node, ..)| positive(node)).collect();
            let mut found: Vec<usize> = draws.iter().map(|&(node, ..)| node).collect();
            let mass = |&(node, before, more): &(usize, usize, f64)| {
                nodes[node].0[..before].iter().sum::<f64>() + more * nodes[node].0.get(before).unwrap_or(&1.0)
            };
            let mut masses: Vec<f64> = draws.iter().map(mass).collect();
            let (mut found_each, mut masses_each) = (found.clone(), masses.clone());
            // SAFETY: the processor has AVX2.
            unsafe { descend(&nodes, &mut masses, &mut found, &[]) };
            descend_each(&nodes, &mut masses_each, &mut found_each, &[]);
            prop_assert_eq!(found, found_each);
            let bits = |masses: &[f64]| masses.iter().map(|mass| mass.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&masses), bits(&masses_each));
        }
    }
}
