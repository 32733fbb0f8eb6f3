//! Compares the engine with a slow model that keeps every row ever written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rlfast_core::memory::{Codec, Storage};
use rlfast_core::replay::gather::{Content, Output};
use rlfast_core::replay::layout::Leaf;
use rlfast_core::replay::provenance::Provenance;
use rlfast_core::replay::{Added, Config, Replay};
use rlfast_core::source::Source;

const FRAME: usize = 256;
const STACK: usize = 3;
const PICTURE: [usize; 2] = [32, 33];

/// One row as the user gave it.
#[derive(Clone, Debug)]
struct Row {
    vector: [f32; 3],
    next_vector: [f32; 3],
    frames: Vec<u8>,
    next_frames: Vec<u8>,
    picture: Vec<u8>,
    next_picture: Vec<u8>,
    reward: f64,
    terminated: bool,
    truncated: bool,
    episode: u32,
}

/// One operation on the buffer.
#[derive(Clone, Debug)]
enum Step {
    Add { ring: usize, odd: bool, ending: u8 },
    Reset { ring: usize },
    Snapshot { into: Storage },
}

/// All rows of one ring since its last reset, the newest `capacity` of which are live.
#[derive(Clone, Debug, Default)]
struct Model {
    rows: Vec<Row>,
    /// Slot of row 0.
    shift: usize,
    episode: u32,
}

fn leaf(path: &[&str], dtype: &str, itemsize: usize, shape: &[usize]) -> Leaf {
    let path = path.iter().map(|&p| p.to_owned()).collect();
    Leaf { path, dtype: dtype.to_owned(), itemsize, shape: shape.to_vec() }
}

fn leaves() -> Vec<Leaf> {
    vec![
        leaf(&["obs", "vector"], "<f4", 4, &[3]),
        leaf(&["obs", "image"], "|u1", 1, &[STACK, FRAME]),
        leaf(&["rew"], "<f8", 8, &[]),
        leaf(&["terminated"], "|b1", 1, &[]),
        leaf(&["truncated"], "|b1", 1, &[]),
        leaf(&["obs_next", "image"], "|u1", 1, &[STACK, FRAME]),
        leaf(&["obs_next", "vector"], "<f4", 4, &[3]),
        leaf(&["obs", "picture"], "|u1", 1, &PICTURE),
        leaf(&["obs_next", "picture"], "|u1", 1, &PICTURE),
    ]
}

fn config(capacities: &[usize], storage: Storage) -> Config {
    Config {
        capacities: capacities.to_vec(),
        save_obs_next: true,
        stack_num: 1,
        sample_avail: false,
        alpha: Some(0.6),
        beta: 0.4,
        weight_norm: true,
        seed: 7,
        storage,
    }
}

fn source<T>(values: &[T]) -> Source {
    Source::rows(values.as_ptr().cast(), 0)
}

fn add(replay: &mut Replay, ring: usize, row: &Row) -> usize {
    let (mut index, mut returns, mut length, mut start) = ([0], [0.0], [0], [0]);
    let mut added = Added {
        index: &mut index,
        episode_return: &mut returns,
        episode_length: &mut length,
        episode_start: &mut start,
    };
    let reward = [row.reward];
    let sources = [
        source(&row.vector),
        source(&row.frames),
        source(&reward),
        Source::ZEROS,
        Source::ZEROS,
        source(&row.next_frames),
        source(&row.next_vector),
        source(&row.picture),
        source(&row.next_picture),
    ];
    // SAFETY: each source is a whole row of its leaf and lives through the call.
    unsafe { replay.add(&[ring], &sources, &[row.terminated], &[row.truncated], &mut added) }.unwrap();
    index[0] as usize
}

fn read(replay: &Replay, index: usize, leaf: usize) -> Vec<u8> {
    let reader = replay.gatherer().unwrap();
    let mut bytes = vec![0; reader.layout().output_bytes(Content::Leaf(leaf), 1)];
    let output = Output { content: Content::Leaf(leaf), stack: 1, dst: bytes.as_mut_ptr() };
    // SAFETY: room for one row, and the index names a slot.
    unsafe { reader.gather(&[index as i64], &[output]) };
    bytes
}

fn bytes_of(vector: &[f32; 3]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

impl Model {
    fn slot(&self, row: usize, capacity: usize) -> usize {
        (self.shift + row) % capacity
    }

    fn oldest(&self, capacity: usize) -> usize {
        self.rows.len().saturating_sub(capacity)
    }

    /// Returns the next row: its `obs` is the `obs_next` of the row before it, unless `odd`.
    fn next_row(&mut self, odd: bool, ending: u8, salt: u32) -> Row {
        let value = salt as f32 + self.rows.len() as f32;
        let fresh = |k: u32| vec![(salt + k) as u8; FRAME];
        let picture = |k: u32| {
            (0..PICTURE.iter().product::<usize>())
                .map(|at| if at == k as usize { 1 } else { (salt + k) as u8 })
                .collect()
        };
        let (vector, frames, shown) = match self.rows.last() {
            Some(last) if !(odd || last.terminated || last.truncated) => {
                (last.next_vector, last.next_frames.clone(), last.next_picture.clone())
            }
            _ => {
                self.episode += u32::from(self.rows.last().is_none_or(|last| last.terminated || last.truncated));
                ([value, f32::NAN, -value], fresh(0).repeat(STACK), picture(0))
            }
        };
        let next_frames = if odd { fresh(9).repeat(STACK) } else { [&frames[FRAME..], &fresh(3)].concat() };
        Row {
            vector,
            frames,
            next_vector: [value + 1.0, f32::NAN, value],
            next_frames,
            picture: shown,
            next_picture: picture(5),
            reward: f64::from(value),
            terminated: ending == 1,
            truncated: ending == 2,
            episode: self.episode,
        }
    }
}

fn check(replay: &Replay, models: &[Model], capacities: &[usize]) {
    let mut offset = 0;
    for (model, &capacity) in models.iter().zip(capacities) {
        let oldest = model.oldest(capacity);
        for row in oldest..model.rows.len() {
            let index = offset + model.slot(row, capacity);
            let wanted = &model.rows[row];
            assert_eq!(read(replay, index, 0), bytes_of(&wanted.vector), "obs of row {row}");
            assert_eq!(read(replay, index, 1), wanted.frames, "frames of row {row}");
            assert_eq!(read(replay, index, 5), wanted.next_frames, "next frames of row {row}");
            assert_eq!(read(replay, index, 6), bytes_of(&wanted.next_vector), "obs_next of row {row}");
            assert_eq!(read(replay, index, 7), wanted.picture, "picture of row {row}");
            assert_eq!(read(replay, index, 8), wanted.next_picture, "next picture of row {row}");
            let together = |a: usize, b: usize| model.rows[a].episode == model.rows[b].episode;
            let before = if row > oldest && together(row - 1, row) { row - 1 } else { row };
            let after = if row + 1 < model.rows.len() && together(row, row + 1) { row + 1 } else { row };
            assert_eq!(replay.prev(index), offset + model.slot(before, capacity));
            assert_eq!(replay.next(index), offset + model.slot(after, capacity));
            for n in 1..4 {
                let steps: Vec<usize> =
                    (row..(row + n).min(model.rows.len())).filter(|&other| together(row, other)).collect();
                let last = steps[steps.len() - 1];
                let sum: f64 =
                    steps.iter().enumerate().map(|(k, &s)| 0.5_f64.powi(k as i32) * model.rows[s].reward).sum();
                let discount = if model.rows[last].terminated { 0.0 } else { 0.5_f64.powi(steps.len() as i32) };
                let start = Provenance { index: vec![index as i64], ..Provenance::default() };
                let found = replay.nstep(start, n, 0.5).unwrap();
                assert_eq!(found.last.generations, Some(replay.generations(&found.last.index).unwrap()));
                assert!((found.sums[0] - sum).abs() < 1e-9);
                let wanted = (discount, offset + model.slot(last, capacity));
                assert_eq!((found.discounts[0], found.last.index[0] as usize), wanted);
            }
        }
        offset += capacity;
    }
    assert_eq!(replay.rings().live(), models.iter().zip(capacities).map(|(m, &c)| m.rows.len().min(c)).sum::<usize>());
}

fn storage() -> impl Strategy<Value = Storage> {
    let zstd = if cfg!(miri) { Codec::Lz4 } else { Codec::Zstd }; // miri cannot call C
    prop_oneof![Just(Storage::Ram), Just(Storage::Packed(Codec::Lz4)), Just(Storage::Packed(zstd))]
}

fn steps(rings: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..rings, prop::bool::weighted(0.1), 0_u8..8).prop_map(|(ring, odd, ending)| Step::Add { ring, odd, ending }),
        1 => (0..rings).prop_map(|ring| Step::Reset { ring }),
        1 => storage().prop_map(|into| Step::Snapshot { into }),
    ];
    prop::collection::vec(step, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_says_what_the_model_says(
        first in storage(), (capacities, steps) in prop::collection::vec(prop_oneof![4 => 1_usize..9, 1 => 9_usize..60], 1..4).prop_flat_map(|c| { let n = c.len(); (Just(c), steps(n)) })
    ) {
        let mut replay = Replay::new(config(&capacities, first)).unwrap();
        replay.define(leaves()).unwrap();
        let mut models = vec![Model::default(); capacities.len()];
        for (salt, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add { ring, odd, ending } => {
                    let row = models[ring].next_row(odd, ending, 16 * salt as u32);
                    let index = add(&mut replay, ring, &row);
                    models[ring].rows.push(row);
                    let offset: usize = capacities[..ring].iter().sum();
                    let model = &models[ring];
                    prop_assert_eq!(index, offset + model.slot(model.rows.len() - 1, capacities[ring]));
                }
                Step::Reset { ring } => {
                    replay.reset(Some(ring), false).unwrap();
                    models[ring] = Model::default();
                }
                Step::Snapshot { into } => {
                    let mut again = Replay::new(config(&capacities, into)).unwrap();
                    prop_assert_eq!(again.restore(&replay.dump(b"extra").unwrap()).unwrap(), b"extra");
                    let (mut a, mut b) = ([0; 16], [0; 16]);
                    prop_assert_eq!(replay.draw(&mut a, None).is_ok(), again.draw(&mut b, None).is_ok());
                    prop_assert_eq!(a, b);
                    replay = again;
                }
            }
            check(&replay, &models, &capacities);
        }
    }

    #[test]
    fn d7_a_damaged_snapshot_is_refused_and_changes_nothing(from in storage(), into in storage(), place in 0.0_f64..1.0, bit in 0_u8..8, cut in any::<bool>()) {
        let mut replay = Replay::new(config(&[5, 3], from)).unwrap();
        replay.define(leaves()).unwrap();
        let mut model = Model::default();
        for salt in 0..9 {
            let row = model.next_row(false, u8::from(salt % 4 == 3), salt * 16);
            add(&mut replay, (salt % 2) as usize, &row);
            model.rows.push(row);
        }
        let good = replay.dump(&[]).unwrap();
        let mut replay = Replay::new(config(&[5, 3], into)).unwrap();
        replay.restore(&good).unwrap();
        let kept = replay.dump(&[]).unwrap();
        let mut bad = good.clone();
        let at = (place * bad.len() as f64) as usize;
        if cut { bad.truncate(at) } else { bad[at] ^= 1 << bit }
        prop_assert!(replay.restore(&bad).is_err());
        prop_assert_eq!(replay.dump(&[]).unwrap(), kept);
    }
}

#[test]
fn d2_c11_all_live_rows_are_drawn_and_no_other() {
    let mut replay = Replay::new(Config { alpha: None, ..config(&[4, 7, 2], Storage::Ram) }).unwrap();
    replay.define(leaves()).unwrap();
    let mut model = Model::default();
    for salt in 0..3 {
        let row = model.next_row(true, 0, salt * 16);
        add(&mut replay, 1, &row);
        add(&mut replay, 2, &row);
    }
    let mut counts = BTreeMap::new();
    let mut out = vec![0; 10_000];
    replay.draw(&mut out, None).unwrap();
    out.iter().for_each(|&i| *counts.entry(i).or_insert(0) += 1);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [4, 5, 6, 11, 12]);
    assert!(counts.values().all(|&n| (1850..2150).contains(&n)), "{counts:?}");
}
