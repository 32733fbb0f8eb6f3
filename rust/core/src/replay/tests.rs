//! What no public path reaches: parts that do not belong together, and rows outside the table.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::gather::Gatherer;
use super::layout::Leaf;
use super::rings::Rings;
use super::units::Units;
use super::{Config, Replay};
use crate::memory::Storage;

fn leaf(path: &str, dtype: &str, itemsize: usize, shape: &[usize]) -> Leaf {
    Leaf { path: vec![path.to_owned()], dtype: dtype.to_owned(), itemsize, shape: shape.to_vec() }
}

fn replay() -> Replay {
    let config = Config {
        capacities: vec![3, 2],
        save_obs_next: true,
        stack_num: 1,
        sample_avail: false,
        alpha: None,
        beta: 0.4,
        weight_norm: true,
        seed: 0,
        storage: Storage::Ram,
    };
    let mut replay = Replay::new(config).unwrap();
    let leaves = vec![
        leaf("obs", "|u1", 1, &[4, 200]),
        leaf("rew", "<f8", 8, &[]),
        leaf("terminated", "|b1", 1, &[]),
        leaf("truncated", "|b1", 1, &[]),
        leaf("obs_next", "|u1", 1, &[4, 200]),
    ];
    replay.define(leaves).unwrap();
    replay
}

fn panics<R>(work: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn a_table_is_read_by_its_own_rings_alone() {
    let replay = replay();
    let table = replay.table().unwrap();
    for capacities in [&[3, 2][..], &[3, 3], &[5], &[2, 2, 1], &[3, 1]] {
        let rings = Rings::new(capacities).unwrap();
        let others = capacities != [3, 2];
        assert_eq!(panics(|| Gatherer::new(&rings, table)), others, "{capacities:?}");
        assert_eq!(panics(|| Units::new(&rings, table)), others, "{capacities:?}");
    }
}

#[test]
fn rows_outside_the_table_are_never_read() {
    let replay = replay();
    let table = replay.table().unwrap();
    assert!(!panics(|| (table.record(4), replay.has_obs_next(4), table.episode(4))));
    for index in [5, 6, usize::MAX / 2, usize::MAX] {
        assert!(panics(|| table.record(index)), "{index}");
        assert!(panics(|| table.episode(index)), "{index}");
        assert!(panics(|| table.byte(index, 0)), "{index}");
        assert!(panics(|| replay.has_obs_next(index)), "{index}");
        assert!(panics(|| replay.gatherer().unwrap().shifts(&[index as i64], 0, 4)), "{index}");
    }
    assert!(panics(|| table.byte(0, 1 << 20)));
}
