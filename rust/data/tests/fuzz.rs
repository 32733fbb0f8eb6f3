//! Hostile bytes: no reader panics, and none reserves much more memory than its input has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Cursor;

use proptest::prelude::*;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rlfast_data::gzip::Input;
use rlfast_data::tfrecord::{self, Records};
use rlfast_data::{example, image, transition};

/// The system's allocator, which notes the largest single request of a thread.
struct Noting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// Buffers of the readers, whatever the input.
const BUFFERS: usize = 4 << 20;

/// Runs all readers on `bytes`, and returns the largest amount of memory that was asked for at once.
fn read_all(bytes: &[u8]) -> usize {
    LARGEST.set(0);
    let mut record = Vec::new();
    if let Ok(input) = Input::new(Cursor::new(bytes.to_vec()), bytes.len() as u64) {
        let mut records = Records::new(input);
        while let Ok(Some(_)) = records.next(&mut record) {
            read_message(&record);
        }
    }
    let mut records = Records::new(bytes);
    while let Ok(Some(_)) = records.next(&mut record) {
        read_message(&record);
    }
    read_message(bytes);
    read_image(bytes);
    LARGEST.get()
}

fn read_message(bytes: &[u8]) {
    let _ = example::features(bytes, |_, list| {
        let _ = (list.int(), list.float());
        if let Ok([file]) = list.strings::<1>() {
            read_image(file);
        }
        Ok(())
    });
    if let Ok(row) = transition::parse(bytes) {
        row.obs.iter().chain(&row.next).for_each(|file| read_image(file));
    }
}

fn read_image(file: &[u8]) {
    match image::size_of(file) {
        Ok(size @ [height, width]) if height * width <= 1 << 16 => {
            let _ = image::decode(file, size, &mut vec![0; height * width]);
        }
        _ => {}
    }
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut out = vec![number << 3 | 2];
    while length > 127 {
        out.push(length as u8 & 127 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

fn feature(name: &str, list: u8, values: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, &field(list, values))].concat())
}

/// A record with a whole row.
fn row() -> Vec<u8> {
    let images: Vec<u8> = (0..4_u8).flat_map(|k| field(1, &image::encode(&[k * 9; 8 * 8], [8, 8]))).collect();
    let ints = |name| feature(name, 3, &field(1, &[5]));
    let floats = |name| feature(name, 2, &field(1, &1.5_f32.to_le_bytes()));
    let features = [feature("o_t", 1, &images), feature("o_tp1", 1, &images), ints("a_t"), ints("a_tp1")];
    let more = [floats("r_t"), floats("d_t"), ints("episode_id"), floats("episode_return")];
    let message = field(1, &[features.concat(), more.concat()].concat());
    let mut out = Vec::new();
    tfrecord::append(&message, &mut out);
    out
}

#[test]
fn the_row_that_is_mutated_is_a_row() {
    let bytes = row();
    let (mut records, mut record) = (Records::new(&bytes[..]), Vec::new());
    assert_eq!(records.next(&mut record).unwrap(), Some(0));
    let row = transition::parse(&record).unwrap();
    assert_eq!((row.values.action, row.values.reward), (5, 1.5));
    let mut pixels = vec![0; 64];
    image::decode(row.next[2], [8, 8], &mut pixels).unwrap();
    assert_eq!(pixels, [18; 64]);
    assert!(read_all(&bytes) <= BUFFERS);
}

/// Starting points of mutations: a record, its message, an image, and the record compressed.
fn seeds() -> Vec<Vec<u8>> {
    use std::io::Write as _;
    let record = row();
    let message = record[12..record.len() - 4].to_vec();
    let image = image::encode(&[7; 30 * 20], [30, 20]);
    let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&record).unwrap();
    vec![record, message, image, compressed.finish().unwrap()]
}

/// Changes some bytes, cuts, repeats or inserts; a record gets right checksums half of the time, so that what it contains is read.
fn mutated(seeds: &[Vec<u8>], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    let mut bytes = seeds[below(seeds.len())].clone();
    for _ in 0..=below(4) {
        let at = below(bytes.len());
        match below(6) {
            0 => bytes.truncate(at),
            1 => bytes.splice(at..at, [255, 255, 255, 255, 127]).for_each(drop),
            2 => bytes.extend_from_within(at..),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 if at < bytes.len() => bytes[at] = [0, 1, 127, 128, 255][below(5)],
            _ if at < bytes.len() => bytes[at] ^= 1 << below(8),
            _ => bytes.push(at as u8),
        }
    }
    if below(2) == 0 {
        let message = bytes.get(12..bytes.len().saturating_sub(4)).unwrap_or_default().to_vec();
        bytes.clear();
        tfrecord::append(&message, &mut bytes);
    }
    bytes
}

fn fuzz(cases: u64) {
    let (seeds, mut rng) = (seeds(), Xoshiro256PlusPlus::seed_from_u64(0));
    for case in 0..cases {
        let bytes = mutated(&seeds, &mut rng);
        let largest = read_all(&bytes);
        assert!(largest <= BUFFERS + 4 * bytes.len(), "case {case}: {largest} bytes for {}: {bytes:?}", bytes.len());
    }
}

#[test]
fn mutated_rows() {
    fuzz(20_000);
}

/// 10,000,000 cases: `cargo test --release -p rlfast-data --test fuzz -- --ignored`, some minutes.
#[test]
#[ignore = "takes minutes"]
fn ten_million_mutated_rows() {
    fuzz(10_000_000);
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_all(&bytes) <= BUFFERS + 4 * bytes.len());
    }
}
