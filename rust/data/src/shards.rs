//! The rows of shards, in an order in which equal images stand side by side.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rlfast_core::error::Error as CoreError;
use rlfast_core::pool;

use crate::error::{Error, Result, broken};
use crate::gzip::Input;
use crate::image::{self, Size};
use crate::links::{self, Link};
use crate::pile::Pile;
use crate::tfrecord::Records;
use crate::transition::{self, STACK, Transition, Values};

/// Images that one thread decodes before it looks for more.
const GRAIN: usize = 16;

/// A row whose images are in the pile.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Numbers of the images of `o_t`, oldest first.
    pub obs: [u32; STACK],
    /// Numbers of the images of `o_tp1`.
    pub next: [u32; STACK],
    /// The other values.
    pub values: Values,
    /// The number of its record in its shard.
    pub record: u64,
    /// The number of its shard.
    pub shard: usize,
    /// Whether the row after it surely followed it in the episode.
    pub continues: bool,
}

/// All rows of some shards.
pub struct Shards {
    pile: Pile,
    size: Option<Size>,
    paths: Vec<PathBuf>,
    reading: Option<(Records<Input>, usize)>,
    rows: Vec<Row>,
    record: Vec<u8>,
    skips: bool,
    skipped: Vec<String>,
}

impl Shards {
    /// Returns no rows. Images are kept in a scratch file in `folder`. With `skips`, broken records are left out, and are errors
    /// otherwise.
    ///
    /// # Errors
    /// `System` if the scratch file cannot be made.
    pub fn new(folder: &Path, skips: bool) -> Result<Self> {
        let pile = Pile::new(folder)?;
        let (paths, rows, record, skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { pile, size: None, paths, reading: None, rows, record, skips, skipped })
    }

    /// Opens a shard, whose rows [`Shards::read`] adds.
    ///
    /// # Errors
    /// `System` if it cannot be opened.
    pub fn open(&mut self, path: &Path) -> Result<()> {
        self.reading = Some((Records::new(Input::open(path)?), self.rows.len()));
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// Reads at most `count` records of the open shard, and returns how many bytes of the file were read so far, and whether there
    /// may be more. At the end of the shard, its rows are put in order.
    ///
    /// # Errors
    /// `Record` for a broken record, unless these are left out; `File` if the rest of the shard cannot be read. The text begins with
    /// the name of the shard.
    pub fn read(&mut self, count: usize) -> Result<(u64, bool)> {
        let Some((mut records, first)) = self.reading.take() else { return Ok((0, false)) };
        for _ in 0..count {
            let next = records.next(&mut self.record);
            let added = match next {
                Ok(None) => {
                    self.close_shard(first)?;
                    return Ok((records.stream().progress().0, false));
                }
                Ok(Some(number)) => self.add(number),
                Err(error) => Err(error),
            };
            match added {
                Err(Error::Record(text)) if self.skips => self.skipped.push(self.in_shard(&text)),
                Err(Error::Record(text)) => return Err(Error::Record(self.in_shard(&text))),
                Err(Error::File(text)) => return Err(Error::File(self.in_shard(&text))),
                other => other?,
            }
        }
        let read = records.stream().progress().0;
        self.reading = Some((records, first));
        Ok((read, true))
    }

    fn in_shard(&self, text: &str) -> String {
        format!("{}: {text}", self.paths.last().expect("invariant: a shard is open").display())
    }

    fn add(&mut self, record: u64) -> Result<()> {
        let bytes = std::mem::take(&mut self.record);
        let added = self.add_parsed(record, &bytes);
        self.record = bytes;
        added.map_err(|error| match error {
            Error::Record(text) => Error::Record(format!("record {record}: {text}")),
            other => other,
        })
    }

    fn add_parsed(&mut self, record: u64, bytes: &[u8]) -> Result<()> {
        let Transition { obs, next, values } = transition::parse(bytes)?;
        for (name, images) in [("o_t", &obs), ("o_tp1", &next)] {
            for (k, file) in images.iter().enumerate() {
                let size =
                    image::size_of(file).map_err(|error| Error::Record(format!("image {k} of {name} {error}")))?;
                let known = *self.size.get_or_insert(size);
                if size != known {
                    return broken!("image {k} of {name} is of {size:?} pixels, the first one of all is of {known:?}");
                }
            }
        }
        let (mut numbers, mut next_numbers) = ([0; STACK], [0; STACK]);
        for (files, numbers) in [(obs, &mut numbers), (next, &mut next_numbers)] {
            for (file, number) in files.iter().zip(numbers) {
                *number = self.pile.put(file)?.0;
            }
        }
        let shard = self.paths.len() - 1;
        self.rows.push(Row { obs: numbers, next: next_numbers, values, record, shard, continues: false });
        Ok(())
    }

    fn close_shard(&mut self, first: usize) -> Result<()> {
        self.pile.close_shard()?;
        if self.skips {
            self.leave_out_broken_images(first)?;
        }
        let link = |row: &Row| {
            let Values { action, next_action, discount, episode, .. } = row.values;
            Link { from: (row.obs, action, episode), to: (discount != 0.0).then_some((row.next, next_action, episode)) }
        };
        let links: Vec<Link> = self.rows[first..].iter().map(link).collect();
        let ordered: Vec<Row> = links::order(&links)
            .into_iter()
            .map(|placed| Row { continues: placed.continues, ..self.rows[first + placed.row] })
            .collect();
        self.rows.truncate(first);
        self.rows.extend(ordered);
        Ok(())
    }

    /// Removes the rows from `first` on with images that cannot be decoded.
    fn leave_out_broken_images(&mut self, first: usize) -> Result<()> {
        let mut numbers: Vec<u32> = self.rows[first..].iter().flat_map(|row| [row.obs, row.next]).flatten().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let broken = Mutex::new(HashMap::new());
        let frame = self.frame_bytes();
        self.each_image(&numbers, |k, file| {
            if let Err(error) = image::decode(file, self.size.unwrap_or_default(), &mut vec![0; frame]) {
                broken.lock().unwrap_or_else(PoisonError::into_inner).insert(numbers[k], error.to_string());
            }
            Ok(())
        })?;
        let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
        if broken.is_empty() {
            return Ok(());
        }
        let tail = self.rows.split_off(first);
        for row in tail {
            match row.obs.iter().chain(&row.next).find_map(|number| broken.get(number)) {
                Some(error) => self.skipped.push(self.in_shard(&format!("record {}: an image {error}", row.record))),
                None => self.rows.push(row),
            }
        }
        Ok(())
    }

    /// Calls `work(k, file)` for the `k`-th of the images, on several threads.
    fn each_image(&self, numbers: &[u32], work: impl Fn(usize, &[u8]) -> Result<()> + Sync) -> Result<()> {
        let failed = Mutex::new(None);
        pool::run(numbers.len().div_ceil(GRAIN), |chunk| {
            let mut file = Vec::new();
            for (k, &number) in numbers.iter().enumerate().skip(chunk * GRAIN).take(GRAIN) {
                if let Err(error) = self.pile.read(number, &mut file).and_then(|()| work(k, &file)) {
                    let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if first.as_ref().is_none_or(|&(place, _)| k < place) {
                        *first = Some((k, error));
                    }
                    return;
                }
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((k, Error::Record(text))) => {
                let named = |row: &&Row| row.obs.contains(&numbers[k]) || row.next.contains(&numbers[k]);
                let row = self.rows.iter().find(named).expect("invariant: images of rows");
                broken!("{}: record {}: an image {text}", self.paths[row.shard].display(), row.record)
            }
            Some((_, error)) => Err(error),
        }
    }

    /// Returns the rows: those of each shard in its order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the rows from `start` up to `stop`.
    ///
    /// # Errors
    /// `Index` where they are not there.
    pub fn rows_at(&self, start: usize, stop: usize) -> Result<&[Row], CoreError> {
        let text = || format!("rows {start} to {stop} are not there: there are {}", self.rows.len());
        self.rows.get(start..stop).ok_or_else(|| CoreError::Index(text()))
    }

    /// Returns why records were left out, in a sentence for each.
    #[must_use]
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Returns the height and width of all images; None before the first record.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        self.size
    }

    fn frame_bytes(&self) -> usize {
        self.size.map_or(0, |[height, width]| height * width)
    }

    /// Writes the images of rows: `[rows, 4, height, width]` each.
    ///
    /// # Errors
    /// `Record` if an image is damaged, `System` if it cannot be read.
    ///
    /// # Panics
    /// If `obs` or `next` have another length.
    pub fn decode(&self, rows: std::ops::Range<usize>, obs: &mut [u8], next: &mut [u8]) -> Result<()> {
        let (rows, frame) = (&self.rows[rows], self.frame_bytes());
        assert!(obs.len() == rows.len() * STACK * frame && next.len() == obs.len(), "room for all images of the rows");
        let mut places = HashMap::new();
        let mut numbers = Vec::new();
        for &number in rows.iter().flat_map(|row| row.obs.iter().chain(&row.next)) {
            places.entry(number).or_insert_with(|| {
                numbers.push(number);
                numbers.len() - 1
            });
        }
        let mut decoded = rlfast_core::vectors::filled(0_u8, numbers.len() * frame)
            .map_err(|error| Error::File(error.to_string()))?;
        let size = self.size.unwrap_or_default();
        let rooms: Vec<_> = decoded.chunks_mut(frame.max(1)).map(Mutex::new).collect();
        self.each_image(&numbers, |k, file| {
            image::decode(file, size, &mut rooms[k].lock().unwrap_or_else(PoisonError::into_inner))
        })?;
        drop(rooms);
        for (row, (obs, next)) in rows.iter().zip(obs.chunks_mut(STACK * frame).zip(next.chunks_mut(STACK * frame))) {
            for (numbers, to) in [(row.obs, obs), (row.next, next)] {
                for (number, to) in numbers.iter().zip(to.chunks_mut(frame)) {
                    to.copy_from_slice(&decoded[places[number] * frame..][..frame]);
                }
            }
        }
        Ok(())
    }
}
