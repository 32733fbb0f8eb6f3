use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::error::{Error, Result};
use crate::replay::Added;
use crate::replay::layout::Leaf;
use crate::source::Source;

/// Columns whose values all tell the number of the row.
fn leaves(width: usize) -> Vec<Leaf> {
    let leaf = |name: &str, dtype: &str, itemsize: usize, shape: &[usize]| Leaf {
        path: vec![name.to_owned()],
        dtype: dtype.to_owned(),
        itemsize,
        shape: shape.to_vec(),
    };
    vec![
        leaf("obs", "<i4", 4, &[width]),
        leaf("act", "|u1", 1, &[3]),
        leaf("rew", "<f8", 8, &[]),
        leaf("terminated", "|b1", 1, &[]),
        leaf("truncated", "|b1", 1, &[]),
        leaf("done", "|b1", 1, &[]),
        leaf("obs_next", "<i4", 4, &[width]),
    ]
}

fn memory(rings: usize, capacity: usize, width: usize) -> (Arc<Memory>, RowLayout) {
    let layout = RowLayout::new(&leaves(width)).unwrap();
    (Arc::new(Memory::create(rings, capacity, layout.stride(), b"columns").unwrap()), layout)
}

fn uniform() -> Options {
    Options { stack: 1, nstep: None, alpha: None, beta: 1.0, weight_norm: true, seed: 3 }
}

/// Adds row `number` to a ring; returns its index.
fn add(writer: &mut Writer, ring: usize, number: i32, width: usize, ends: (bool, bool)) -> Result<i64> {
    let (obs, next, act) = (vec![number; width], vec![number + 1; width], [number as u8; 3]);
    let (rew, flag) = ([f64::from(number)], [false]);
    let source = |data: *const u8| Source::rows(data, 0);
    let flag = source(flag.as_ptr().cast());
    let sources = [
        source(obs.as_ptr().cast()),
        source(act.as_ptr()),
        source(rew.as_ptr().cast()),
        flag,
        flag,
        flag,
        source(next.as_ptr().cast()),
    ];
    let (mut index, mut total, mut length, mut start) = ([0], [0.0], [0], [0]);
    let mut added =
        Added { index: &mut index, episode_return: &mut total, episode_length: &mut length, episode_start: &mut start };
    // SAFETY: one row of each column.
    unsafe { writer.add(&[ring], &sources, &[ends.0], &[ends.1], &mut added) }.map(|()| index[0])
}

/// The columns of rows: obs, rew, the flags terminated, truncated and done, obs_next.
struct Rows {
    obs: Vec<i32>,
    rew: Vec<f64>,
    flags: [Vec<u8>; 3],
    next: Vec<i32>,
    discounts: Vec<f64>,
    last: Vec<i64>,
    act: Vec<u8>,
}

impl Rows {
    fn new(rows: usize, frame: usize) -> Self {
        let flags = [(); 3].map(|()| vec![9; rows]);
        let (obs, next) = (vec![-1; rows * frame], vec![-1; rows * frame]);
        Self {
            obs,
            rew: vec![-1.0; rows],
            flags,
            next,
            discounts: vec![-1.0; rows],
            last: vec![-1; rows],
            act: vec![0; 3 * rows],
        }
    }

    fn filled<R>(&mut self, fill: impl FnOnce(&mut Outputs<'_>) -> R) -> R {
        let [terminated, truncated, done] = &mut self.flags;
        let columns = [
            self.obs.as_mut_ptr().cast(),
            self.act.as_mut_ptr(),
            self.rew.as_mut_ptr().cast(),
            terminated.as_mut_ptr(),
            truncated.as_mut_ptr(),
            done.as_mut_ptr(),
            self.next.as_mut_ptr().cast(),
        ];
        fill(&mut Outputs { columns: &columns, discounts: &mut self.discounts, last: &mut self.last })
    }
}

fn taken(reader: &mut Reader, index: &[i64], width: usize) -> Result<Rows> {
    let mut rows = Rows::new(index.len(), width * reader.options().stack);
    // SAFETY: there is room for as many rows, of as many frames.
    rows.filled(|outputs| unsafe { reader.take(index, None, outputs) }).map(|_| rows)
}

#[test]
fn rows_that_were_added_are_read_by_others() {
    let (memory, layout) = memory(2, 3, 5);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[0, 1]).unwrap();
    let mut reader = Reader::new(memory, layout, uniform()).unwrap();
    for number in 0..5 {
        assert_eq!(add(&mut writer, 1, number, 5, (number == 1, number == 3)).unwrap(), 3 + i64::from(number % 3));
    }
    assert_eq!(reader.sizes(), [0, 3]);
    let rows = taken(&mut reader, &[3, 4, 5], 5).unwrap();
    assert_eq!(rows.rew, [3.0, 4.0, 2.0]);
    assert_eq!(rows.obs, [[3; 5], [4; 5], [2; 5]].concat());
    assert_eq!(rows.next, [[4; 5], [5; 5], [3; 5]].concat());
    assert_eq!(rows.act, [[3; 3], [4; 3], [2; 3]].concat());
    assert_eq!(rows.flags, [vec![0, 0, 0], vec![1, 0, 0], vec![1, 0, 0]]);
    for missing in [0, -1, 6] {
        assert!(matches!(taken(&mut reader, &[missing], 5), Err(Error::Index(_))), "{missing}");
    }
}

#[test]
fn n_steps_end_with_the_episode_and_the_rows_that_are_there() {
    let (memory, layout) = memory(1, 6, 1);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[0]).unwrap();
    let options = Options { nstep: Some(NStep { steps: 3, gamma: 0.5 }), ..uniform() };
    let mut reader = Reader::new(memory, layout, options).unwrap();
    for (k, number) in [1, 2, 4, 8, 16, 32].into_iter().enumerate() {
        add(&mut writer, 0, number, 1, (k == 2, k == 4)).unwrap();
    }
    let rows = taken(&mut reader, &[0, 1, 2, 3, 4, 5], 1).unwrap();
    assert_eq!(rows.rew, [3.0, 4.0, 4.0, 16.0, 16.0, 32.0]);
    assert_eq!(rows.discounts, [0.0, 0.0, 0.0, 0.25, 0.5, 0.5]);
    assert_eq!(rows.last, [2, 2, 2, 4, 4, 5]);
    assert_eq!(rows.next, [5, 5, 5, 17, 17, 33]);
    assert_eq!(rows.flags[0], [1, 1, 1, 0, 0, 0]);
    add(&mut writer, 0, 64, 1, (false, false)).unwrap(); // over the oldest row, in slot 0
    let rows = taken(&mut reader, &[5, 0, 1], 1).unwrap();
    assert_eq!((rows.rew, rows.discounts), (vec![64.0, 64.0, 4.0], vec![0.25, 0.5, 0.0]));
    assert_eq!(rows.last, [0, 0, 2]);
}

#[test]
fn stacks_stay_in_the_episode_and_among_the_rows_that_are_there() {
    let (memory, layout) = memory(1, 5, 1);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[0]).unwrap();
    let mut reader = Reader::new(memory, layout, Options { stack: 3, ..uniform() }).unwrap();
    for number in 0..7 {
        add(&mut writer, 0, number, 1, (number == 4, false)).unwrap();
    }
    // There are the rows 2, 3, 4 (the last of an episode), 5, 6.
    let rows = taken(&mut reader, &[2, 3, 4, 0, 1], 1).unwrap();
    assert_eq!(rows.obs, [[2, 2, 2], [2, 2, 3], [2, 3, 4], [5, 5, 5], [5, 5, 6]].concat());
    assert_eq!(rows.next, [[2, 2, 3], [2, 3, 4], [3, 4, 5], [5, 5, 6], [5, 6, 7]].concat());
}

#[test]
fn priorities_belong_to_the_rows_that_were_drawn() {
    let (memory, layout) = memory(2, 2, 1);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[0, 1]).unwrap();
    let options = Options { alpha: Some(1.0), ..uniform() };
    let mut reader = Reader::new(memory, layout, options).unwrap();
    for number in 0..2 {
        add(&mut writer, 0, number, 1, (false, false)).unwrap();
    }
    let mut rows = Rows::new(64, 1);
    // SAFETY: there is room for 64 rows.
    let mut sample = |reader: &mut Reader| rows.filled(|outputs| unsafe { reader.sample(64, outputs) }).unwrap();
    assert_eq!(reader.update_priorities(&[0, 1], Some(&[0, 1]), &[0.0, 3.0]).unwrap(), 0);
    assert!(sample(&mut reader).index.iter().all(|&row| row == 1));
    add(&mut writer, 0, 2, 1, (false, false)).unwrap(); // over row 0, with the largest priority
    assert_eq!(reader.update_priorities(&[0, 1, 2], Some(&[0, 1, 0]), &[9.0, 0.0, 9.0]).unwrap(), 2);
    assert!(sample(&mut reader).index.iter().all(|&row| row == 0));
    assert_eq!((reader.stale(), sample(&mut reader).positions), (2, vec![2; 64]));
    writer.reset(false).unwrap();
    assert_eq!(reader.sizes(), [0, 0]);
    // SAFETY: there is room for one row.
    let empty = Rows::new(1, 1).filled(|outputs| unsafe { reader.sample(1, outputs) });
    assert!(matches!(empty, Err(Error::Value(_))));
    add(&mut writer, 1, 7, 1, (false, false)).unwrap();
    assert!(sample(&mut reader).index.iter().all(|&row| row == 2));
}

/// The writer stops in the middle of a row, as one that is killed does. All rows but that one are there, and another writer goes on.
#[test]
fn a_dead_writer_loses_the_row_that_it_was_writing_and_its_episode_is_cut() {
    let (memory, layout) = memory(1, 2, 1);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[0]).unwrap();
    let mut reader = Reader::new(memory.clone(), layout.clone(), uniform()).unwrap();
    for number in 0..3 {
        add(&mut writer, 0, number, 1, (false, false)).unwrap();
    }
    memory.ring(0).begin(&[77; 4]);
    let rows = taken(&mut reader, &[0, 1], 1).unwrap();
    assert_eq!((rows.rew, rows.flags[1].clone()), (vec![2.0, 1.0], vec![0, 0]));
    writer.release();
    let mut next = Writer::new(memory, layout, &[0]).unwrap();
    assert_eq!(taken(&mut reader, &[0], 1).unwrap().flags[1], [1]);
    add(&mut next, 0, 3, 1, (false, false)).unwrap();
    assert_eq!(taken(&mut reader, &[0, 1], 1).unwrap().rew, [2.0, 3.0]);
}

#[test]
fn a_ring_has_one_writer() {
    let (memory, layout) = memory(2, 1, 1);
    let made = |rings: &[usize]| Writer::new(memory.clone(), layout.clone(), rings);
    let mut first = made(&[1]).unwrap();
    let error = made(&[0, 1]).unwrap_err().to_string();
    assert!(error.contains("ring 1 has a writer already"), "{error}");
    assert!(matches!(made(&[2]), Err(Error::Index(_))));
    assert!(matches!(add(&mut first, 0, 0, 1, (false, false)), Err(Error::Index(_))));
    drop(made(&[0]).unwrap());
    drop(first);
    made(&[0, 1]).unwrap();
}

#[test]
fn memory_is_mapped_from_its_file_alone() {
    let (memory, layout) = memory(3, 4, 2);
    let mut writer = Writer::new(memory.clone(), layout.clone(), &[2]).unwrap();
    add(&mut writer, 2, 5, 2, (false, false)).unwrap();
    let other = Arc::new(Memory::attach(memory.file().try_clone_to_owned().unwrap()).unwrap());
    assert_eq!((other.dimensions(), other.text()), (memory.dimensions(), b"columns".to_vec()));
    let mut reader = Reader::new(other, layout, uniform()).unwrap();
    assert_eq!(taken(&mut reader, &[8], 2).unwrap().obs, [5, 5]);
}

#[test]
fn other_files_and_impossible_dimensions_are_refused() {
    for (rings, capacity, stride) in [(0, 1, 4), (1, 0, 4), (1, 1, 1)] {
        assert!(matches!(Memory::create(rings, capacity, stride, b""), Err(Error::Value(_))));
    }
    for (rings, capacity) in [(1 << 20, 1 << 40), (usize::MAX, usize::MAX)] {
        let error = Memory::create(rings, capacity, 1 << 20, b"").unwrap_err();
        assert!(matches!(error, Error::Memory { .. } | Error::Room { .. }), "{error}");
    }
    let open = crate::memory::unnamed("rlfast-test", 4096).unwrap();
    assert!(matches!(Memory::attach(open.into()), Err(Error::Value(_))));
    let mut without = leaves(1);
    without.remove(2);
    assert!(RowLayout::new(&without).unwrap_err().to_string().contains("rew"));
}

/// Ends the writers when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rows are larger than what a processor writes at once, and rings so small that nearly every copy meets a write.
#[test]
fn readers_beside_writers_never_see_a_torn_row() {
    const WIDTH: usize = 300;
    let (memory, layout) = memory(2, 2, WIDTH);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for ring in 0..2 {
            let (memory, layout, stop) = (memory.clone(), layout.clone(), &stop);
            scope.spawn(move || {
                let mut writer = Writer::new(memory, layout, &[ring]).unwrap();
                for number in 0.. {
                    add(&mut writer, ring, number, WIDTH, (number % 3 == 0, false)).unwrap();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let _end = Stop(&stop); // also where an assertion fails: the scope waits for the writers
        let mut reader = Reader::new(memory.clone(), layout.clone(), uniform()).unwrap();
        let mut rows = Rows::new(8, WIDTH);
        while reader.sizes().contains(&0) {
            thread::yield_now();
        }
        for _ in 0..if cfg!(debug_assertions) { 2_000 } else { 20_000 } {
            // SAFETY: there is room for 8 rows.
            let drawn = rows.filled(|outputs| unsafe { reader.sample(8, outputs) }).unwrap();
            for (k, &position) in drawn.positions.iter().enumerate() {
                let number = position as i32;
                let row = k * WIDTH..(k + 1) * WIDTH;
                assert!(rows.obs[row.clone()].iter().all(|&value| value == number), "a torn row {number}");
                assert!(rows.next[row].iter().all(|&value| value == number + 1), "a torn row {number}");
                assert_eq!((rows.rew[k], rows.act[3 * k]), (f64::from(number), number as u8));
                assert_eq!(rows.flags[0][k], u8::from(number % 3 == 0));
            }
        }
    });
}

#[test]
fn places_among_rings_count_from_both_ends() {
    let rings = [3, 5, 8];
    assert_eq!(rings_at(&rings, None).unwrap(), rings);
    assert_eq!(rings_at(&rings, Some(&[1, -1, 0])).unwrap(), [5, 8, 3]);
    for place in [3, -4, i64::MIN] {
        let error = rings_at(&rings, Some(&[0, place])).unwrap_err();
        assert!(matches!(&error, Error::Index(_)) && error.to_string().contains("there are 3 rings"), "{error}");
    }
}
