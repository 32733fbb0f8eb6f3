use proptest::prelude::*;

use super::*;
use crate::rng::Stream;

fn tree_of(values: &[f64]) -> SumTree {
    let mut tree = SumTree::new(values.len());
    tree.set_range(0, values);
    tree
}

/// Returns the leaf of a mass by its definition: the first positive leaf with a cumulative sum of at least the mass,
/// else the last positive one.
fn naive_find(values: &[f64], mass: f64) -> usize {
    let mut upto = 0.0;
    for (index, &value) in values.iter().enumerate() {
        upto += value;
        if value > 0.0 && mass <= upto {
            return index;
        }
    }
    values.iter().rposition(|&value| value > 0.0).expect("some leaf is positive")
}

fn up(value: f64) -> f64 {
    f64::from_bits(value.to_bits() + 1)
}

fn down(value: f64) -> f64 {
    f64::from_bits(value.to_bits().saturating_sub(1))
}

/// Asserts that every inner value is the fold of its children, to the bit.
fn assert_consistent(tree: &SumTree) {
    let mut below = &tree.leaves;
    for level in &tree.sums.levels {
        for (node, child) in below.iter().enumerate() {
            assert_eq!(level[node / WIDTH].0[node % WIDTH], Sum::fold(child));
        }
        below = level;
    }
}

#[test]
fn c1_every_capacity_from_1_to_1025() {
    for capacity in 1..=1025 {
        let tree = tree_of(&vec![1.0; capacity]);
        let masses: Vec<f64> = (0..capacity).map(|i| i as f64 + 0.5).collect();
        let mut found = vec![0; capacity];
        tree.find_many(&masses, &mut found);
        assert!(found.iter().copied().eq(0..capacity), "capacity {capacity}");
        assert_eq!(tree.total(), capacity as f64);
    }
}

#[test]
fn c2_boundary_masses() {
    let tree = tree_of(&[0.0, 1.0, 0.0, 1.0]);
    for (mass, leaf) in [(0.0, 1), (down(1.0), 1), (1.0, 1), (up(1.0), 3), (2.0, 3), (up(2.0), 3)] {
        assert_eq!(tree.find(mass), leaf, "mass {mass}");
    }
}

#[test]
fn c2_the_mass_zero_belongs_to_the_first_positive_leaf() {
    for size in [3, 9, 70, 600] {
        for first in [0, 1, size / 2, size - 1] {
            for value in [1.0, f64::from_bits(1)] {
                let mut tree = SumTree::new(size);
                tree.set_range(first, &vec![value; size - first]);
                assert_eq!((tree.find(0.0), tree.find(tree.total())), (first, size - 1), "{first} of {size}");
            }
        }
    }
}

#[test]
fn c2_rounding_never_leaves_the_positive_leaves() {
    // Sums of 0.1 are rounded, so masses near a partial sum fall on either side of it.
    let mut values = vec![0.0; 700];
    for index in (3..600).step_by(3) {
        values[index] = 0.1;
    }
    let tree = tree_of(&values);
    let mut edge = 0.0;
    for value in &values {
        edge += value;
        for mass in [down(edge), edge, up(edge), tree.total()] {
            assert!(values[tree.find(mass)] > 0.0, "mass {mass}");
        }
    }
}

#[test]
fn c3_only_live_leaves_are_drawn() {
    let mut stream = Stream::new(3);
    let mut tree = SumTree::new(500);
    let mut found = [0; 1000];
    for _ in 0..1000 {
        let index = stream.below(100) as usize;
        tree.set(index, 1e-3 + stream.uniform());
        let masses: Vec<f64> = found.iter().map(|_| stream.uniform() * tree.total()).collect();
        tree.find_many(&masses, &mut found);
        assert!(found.iter().all(|&leaf| leaf < 100));
    }
}

/// Returns |root - sum| after `updates` random updates in batches of 250, where the sum is Neumaier's compensated one.
fn drift(leaves: usize, updates: usize) -> f64 {
    let mut stream = Stream::new(4);
    let mut tree = SumTree::new(leaves);
    let (mut indices, mut values) = ([0; 250], [0.0; 250]);
    for _ in 0..updates / 250 {
        stream.fill_below(leaves, &mut indices);
        // Values over fourteen decades: a tree that adds differences would lose the small ones.
        values.fill_with(|| 10_f64.powf(14.0 * stream.uniform() - 7.0));
        tree.set_many(&indices, &values);
    }
    assert_consistent(&tree);
    let (mut exact, mut lost) = (0.0, 0.0);
    for leaf in tree.leaves() {
        // Neumaier's sum keeps the rounding errors in a second number.
        let sum: f64 = exact + leaf;
        lost += if exact >= leaf { (exact - sum) + leaf } else { (leaf - sum) + exact };
        exact = sum;
    }
    (tree.total() - (exact + lost)).abs() / exact
}

#[test]
fn c4_no_drift() {
    let updates = if cfg!(debug_assertions) { 200_000 } else { 10_000_000 };
    assert!(drift(1_000_000, updates) <= 1e-12);
}

#[test]
#[ignore = "takes minutes"]
fn c4_no_drift_long() {
    assert!(drift(1_000_000, 200_000_000) <= 1e-12);
}

/// Returns how many of `draws` random draws find a leaf of value zero, in a tree where every second leaf is zero.
fn zero_leaves_drawn(draws: usize) -> usize {
    let mut stream = Stream::new(8);
    let values: Vec<f64> = (0..10_007).map(|i| if i % 2 == 0 { 0.0 } else { stream.uniform() }).collect();
    let tree = tree_of(&values);
    let mut found = vec![0; 1000];
    let mut zeros = 0;
    for _ in 0..draws / 1000 {
        let masses: Vec<f64> = found.iter().map(|_| stream.uniform() * tree.total()).collect();
        tree.find_many(&masses, &mut found);
        zeros += found.iter().filter(|&&leaf| values[leaf] == 0.0).count();
    }
    zeros
}

#[test]
fn c4_zero_leaves_are_never_drawn() {
    assert_eq!(zero_leaves_drawn(1_000_000), 0);
}

#[test]
#[ignore = "takes minutes"]
fn c4_zero_leaves_are_never_drawn_long() {
    assert_eq!(zero_leaves_drawn(100_000_000), 0);
}

#[test]
fn c5_illegal_values_are_named() {
    assert_eq!(SumTree::check(&[0.0, 1.0, LARGEST]), Ok(()));
    for bad in [f64::NAN, f64::INFINITY, f64::MAX, f64::NEG_INFINITY, -1.0, -f64::MIN_POSITIVE] {
        let error = SumTree::check(&[1.0, bad, f64::NAN]).expect_err("an illegal value");
        assert_eq!(error.position, 1);
    }
    let text = SumTree::check(&[-2.0]).expect_err("negative").to_string();
    assert!(text.ends_with("got -2 at position 0"), "{text}");
}

#[test]
fn c7_the_last_of_duplicates_wins() {
    for size in [6, 10_000] {
        let mut tree = SumTree::new(size);
        tree.set_many(&[5, 5], &[1.0, 9.0]);
        assert_eq!((tree.leaf(5), tree.total()), (9.0, 9.0));
    }
}

#[test]
#[should_panic(expected = "no leaf is positive")]
fn an_empty_tree_has_nothing_to_find() {
    SumTree::new(9).find(0.0);
}

#[test]
#[should_panic(expected = "leaf 3 of a tree of 3")]
fn padding_is_not_a_leaf() {
    SumTree::new(3).set(3, 1.0);
}

#[derive(Clone, Debug)]
enum Change {
    SetMany(Vec<(usize, f64)>),
    Fill(usize, usize, f64),
    SetRange(usize, Vec<f64>),
    Clear,
    AskExtremes,
}

fn changes(len: usize) -> impl Strategy<Value = Vec<Change>> {
    // Sums of dyadic values are exact in any order, so the naive model must agree to the bit.
    let value = || (0_u32..64).prop_map(|n| f64::from(n / 2) / 8.0);
    let change = prop_oneof![
        4 => prop::collection::vec((0..len, value()), 0..40).prop_map(Change::SetMany),
        1 => (0..len, 0..=len, value()).prop_map(|(a, b, v)| Change::Fill(a.min(b), a.max(b), v)),
        1 => (0..len, prop::collection::vec(value(), 0..40)).prop_map(|(start, v)| Change::SetRange(start, v)),
        1 => Just(Change::Clear),
        1 => Just(Change::AskExtremes),
    ];
    prop::collection::vec(change, 1..12)
}

fn apply(change: Change, tree: &mut SumTree, model: &mut [f64]) {
    match change {
        Change::SetMany(pairs) => {
            let (indices, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            tree.set_many(&indices, &values);
            for (index, value) in indices.into_iter().zip(values) {
                model[index] = value;
            }
        }
        Change::Fill(start, end, value) => {
            tree.fill_range(start..end, value);
            model[start..end].fill(value);
        }
        Change::SetRange(start, mut values) => {
            values.truncate(model.len() - start);
            tree.set_range(start, &values);
            model[start..start + values.len()].copy_from_slice(&values);
        }
        Change::Clear => {
            tree.clear();
            model.fill(0.0);
        }
        Change::AskExtremes => {
            tree.min_positive();
            tree.max();
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_a_plain_array(
        (len, history) in (1_usize..1200).prop_flat_map(|len| (Just(len), changes(len))),
        fractions in prop::collection::vec(0.0..1.0, 20),
        bounds in prop::collection::vec((0_usize..1200, 0_usize..1200), 10),
    ) {
        let (mut tree, mut model) = (SumTree::new(len), vec![0.0; len]);
        for change in history {
            apply(change, &mut tree, &mut model);
        }
        assert_consistent(&tree);
        prop_assert!(tree.leaves().eq(model.iter().copied()));
        prop_assert_eq!(tree.total(), model.iter().sum::<f64>());
        let positive = model.iter().copied().filter(|&value| value > 0.0);
        prop_assert_eq!(tree.min_positive(), positive.min_by(f64::total_cmp));
        prop_assert_eq!(tree.max(), model.iter().copied().fold(0.0, f64::max));
        for (a, b) in bounds {
            let (start, end) = (a.min(b).min(len), a.max(b).min(len));
            prop_assert_eq!(tree.sum(start..end), model[start..end].iter().sum::<f64>());
        }
        if tree.total() > 0.0 {
            let masses: Vec<f64> = fractions.iter().map(|fraction| fraction * tree.total()).collect();
            let mut found = vec![0; masses.len()];
            tree.find_many(&masses, &mut found);
            for (mass, leaf) in masses.into_iter().zip(found) {
                prop_assert_eq!(leaf, naive_find(&model, mass));
            }
            let mut edge = 0.0;
            for value in &model {
                edge += value;
                prop_assert_eq!(tree.find(edge), naive_find(&model, edge));
            }
        }
    }
}

#[test]
fn without_memory_for_a_summary_a_pass_over_the_leaves_finds_the_same() {
    let mut tree = SumTree::new(100);
    assert_eq!(Summary::<MinPositive>::folded(&tree.leaves), f64::INFINITY);
    for leaf in 20..90 {
        tree.set(leaf, (leaf * 37 % 71 + 1) as f64);
    }
    assert_eq!(Summary::<MinPositive>::folded(&tree.leaves), tree.min_positive().unwrap());
    assert_eq!(Summary::<Max>::folded(&tree.leaves), tree.max());
}
