//! The protocol of one ring: one writer, and readers that do not wait for it.
#![cfg_attr(loom, allow(dead_code, reason = "models use a part of it"))]

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The words of a ring that are not rows: see [`Ring`].
pub const CONTROL_WORDS: usize = 3;
const BEGUN: usize = 0;
const HEAD: usize = 1;
const BASE: usize = 2;

/// The word of a row with the position of the first row of its episode.
pub const FIRST: usize = 0;
/// The word of a row with its flags.
pub const FLAGS: usize = 1;
/// The first word of a row's columns.
pub const COLUMNS: usize = 2;

/// The bit of [`FLAGS`] of a row that reached a terminal state.
pub const TERMINATED: u64 = 1;
/// The bit of [`FLAGS`] of a row whose episode was cut after it.
pub const TRUNCATED: u64 = 2;

/// A ring of rows of `stride` words. The row at position `p` is in slot `p % slots`.
///
/// Its control words are `begun`, the number of rows whose writing began, `head`, the number of rows that are complete, and
/// `base`, the number of rows that were removed. They never fall, and `base <= head <= begun <= head + 1`.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    control: &'a [AtomicU64],
    rows: &'a [AtomicU64],
    stride: usize,
    slots: u64,
}

impl<'a> Ring<'a> {
    /// Returns the ring with these control words and slots. It has one slot more than rows that can be read.
    ///
    /// # Panics
    /// Without control words, or two slots of at least [`COLUMNS`] words.
    #[must_use]
    #[inline]
    pub fn new(control: &'a [AtomicU64], rows: &'a [AtomicU64], stride: usize, slots: u64) -> Self {
        assert!(control.len() >= CONTROL_WORDS && stride >= COLUMNS, "control words, and those of each row");
        assert!(slots >= 2, "a slot for a row, and one to write the next");
        debug_assert_eq!(rows.len() as u64, slots * stride as u64, "the words of all slots");
        Self { control, rows, stride, slots }
    }

    /// Returns the largest number of rows.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slots - 1
    }

    /// Returns the position of the next row. All rows before it are complete, and visible to this thread.
    #[inline]
    pub fn head(&self) -> u64 {
        self.control[HEAD].load(Ordering::Acquire)
    }

    /// Returns the position of the oldest row that can be read while the next row has the position `head`.
    #[inline]
    pub fn oldest(&self, head: u64) -> u64 {
        head.saturating_sub(self.capacity()).max(self.base()).min(head)
    }

    /// Returns the number of rows that were removed.
    #[inline]
    pub fn base(&self) -> u64 {
        self.control[BASE].load(Ordering::Relaxed)
    }

    /// Returns the words of a row, which may be those of a later row: see [`Self::is_kept`].
    #[inline]
    pub(super) fn row(&self, position: u64) -> &'a [AtomicU64] {
        let start = (position % self.slots) as usize * self.stride;
        &self.rows[start..start + self.stride]
    }

    // -- the writer's side -----------------------------------------------------------------------------------------------

    /// Appends a row, and returns its position. The words of `row` begin with the position of its episode's first row, and its
    /// flags. Only the ring's writer may call this.
    pub fn push(&self, row: &[u64]) -> u64 {
        let position = self.control[HEAD].load(Ordering::Relaxed);
        self.control[BEGUN].store(position + 1, Ordering::Relaxed);
        // A reader that sees a word of this row sees above that it was begun: see `is_kept`.
        fence(Ordering::Release);
        for (word, &value) in self.row(position).iter().zip(row) {
            word.store(value, Ordering::Relaxed);
        }
        self.control[HEAD].store(position + 1, Ordering::Release);
        position
    }

    /// Begins a row as [`Self::push`] does, and stops with these words of it written, as a writer that is killed.
    #[cfg(test)]
    pub fn begin(&self, words: &[u64]) {
        let position = self.control[HEAD].load(Ordering::Relaxed);
        self.control[BEGUN].store(position + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, &value) in self.row(position).iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Marks the newest row as the last of its episode, if it has not ended. Only the ring's writer may call this.
    ///
    /// Readers see the flag before or after, and either is a state of the row.
    pub fn close_episode(&self) {
        let head = self.control[HEAD].load(Ordering::Relaxed);
        if head > self.oldest(head) {
            let flags = &self.row(head - 1)[FLAGS];
            if flags.load(Ordering::Relaxed) == 0 {
                flags.store(TRUNCATED, Ordering::Relaxed);
            }
        }
    }

    /// Removes all rows. Only the ring's writer may call this.
    pub fn clear(&self) {
        self.control[BASE].store(self.control[HEAD].load(Ordering::Relaxed), Ordering::Relaxed);
    }

    // -- a reader's side -------------------------------------------------------------------------------------------------

    /// Returns a word of a row, which may be one of a later row: see [`Self::is_kept`].
    #[inline]
    pub fn word(&self, position: u64, at: usize) -> u64 {
        self.row(position)[at].load(Ordering::Relaxed)
    }

    /// Returns whether no word that was read so far from the row at `position`, or from the rows from there to the head, belongs
    /// to a later row.
    #[inline]
    pub fn is_kept(&self, position: u64) -> bool {
        // If a word was one of a later row, this load sees that the later row was begun.
        fence(Ordering::Acquire);
        self.control[BEGUN].load(Ordering::Relaxed) <= position.saturating_add(self.slots)
    }

    /// Returns the address of a row, for hints to the cache.
    #[cfg(not(loom))]
    pub fn address(&self, position: u64) -> *const u8 {
        self.row(position).as_ptr().cast()
    }
}

/// Run by `RUSTFLAGS="--cfg loom" cargo test -p rlfast-core --release --lib loom` (or `make loom`).
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const STRIDE: usize = 4;

    struct Words {
        control: [AtomicU64; CONTROL_WORDS],
        rows: [AtomicU64; 2 * STRIDE],
    }

    impl Words {
        fn new() -> Arc<Self> {
            Arc::new(Self { control: Default::default(), rows: Default::default() })
        }

        /// A ring of one row, so that every second row overwrites a row.
        fn ring(&self) -> Ring<'_> {
            Ring::new(&self.control, &self.rows, STRIDE, 2)
        }

        fn push(&self, value: u64) -> u64 {
            self.ring().push(&[value, 0, 100 + value, 100 + value])
        }
    }

    /// Reads the newest row; asserts that it is whole and the row of its position, unless it was overwritten.
    fn read_newest(words: &Words) {
        let ring = words.ring();
        let head = ring.head();
        if head == ring.oldest(head) {
            return;
        }
        let row: Vec<u64> = ring.row(head - 1).iter().map(|word| word.load(Ordering::Relaxed)).collect();
        if ring.is_kept(head - 1) {
            let value = head - 1;
            assert_eq!((row[FIRST], row[2], row[3]), (value, 100 + value, 100 + value), "a torn row");
        }
    }

    /// Loom begins with the orders in which the first thread runs first, and derives others from the last accesses to a word. So the
    /// reader is the second thread in one model, and the first in the other.
    #[test]
    fn loom_a_reader_never_sees_a_torn_row() {
        loom::model(|| {
            let words = Words::new();
            words.push(0);
            let reader = {
                let words = words.clone();
                thread::spawn(move || read_newest(&words))
            };
            (1..3).for_each(|value| assert_eq!(words.push(value), value));
            reader.join().unwrap();
            read_newest(&words);
        });
    }

    #[test]
    fn loom_a_reader_that_is_overtaken_sees_it() {
        loom::model(|| {
            let words = Words::new();
            words.push(0);
            let writer = {
                let words = words.clone();
                thread::spawn(move || (1..4).for_each(|value| assert_eq!(words.push(value), value)))
            };
            read_newest(&words);
            writer.join().unwrap();
            read_newest(&words);
        });
    }

    /// A writer dies with a row half written, and another one takes over.
    #[test]
    fn loom_a_dead_writer_loses_only_the_row_that_it_was_writing() {
        loom::model(|| {
            let words = Words::new();
            words.push(0);
            words.push(1);
            let writers = {
                let words = words.clone();
                thread::spawn(move || {
                    words.ring().begin(&[0, 0, 77]);
                    // Here it dies; whoever follows starts from the control words alone.
                    assert_eq!(words.push(2), 2);
                })
            };
            read_newest(&words);
            writers.join().unwrap();
            read_newest(&words);
        });
    }

    #[test]
    fn loom_an_episode_is_closed_under_a_reader() {
        loom::model(|| {
            let words = Words::new();
            words.push(0);
            let writer = {
                let words = words.clone();
                thread::spawn(move || words.ring().close_episode())
            };
            let flags = words.ring().word(0, FLAGS);
            assert!(flags == 0 || flags == TRUNCATED);
            writer.join().unwrap();
            assert_eq!(words.ring().word(0, FLAGS), TRUNCATED);
        });
    }
}
