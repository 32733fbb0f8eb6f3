//! Index arrays that record the generations and goals of their rows.

use std::cell::UnsafeCell;

use crate::error::{Error, Result, value_error};
use crate::memory;
use crate::replay::{Replay, generation};
use crate::vectors::{collected, copied, product, with_room};

/// Rows with their generations and goals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The rows.
    pub index: Vec<i64>,
    /// The generation of each row.
    pub generations: Option<Vec<u64>>,
    /// The row whose achieved goal replaces the goal of each row, or -1 if the row keeps its own.
    pub goals: Option<Vec<i64>>,
}

impl Provenance {
    /// Returns the records of rows with these generations.
    #[must_use]
    pub fn of(index: Vec<i64>, generations: Vec<u64>) -> Self {
        Self { index, generations: Some(generations), goals: None }
    }

    /// Returns a copy.
    ///
    /// # Errors
    /// `Room` without memory for it; likewise in the other functions.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self {
            index: copied(&self.index)?,
            generations: self.generations.as_deref().map(copied).transpose()?,
            goals: self.goals.as_deref().map(copied).transpose()?,
        })
    }

    /// Returns the elements at some places. `shown` returns the present rows of the index; the result is None if one of
    /// them differs from the recorded row, or a place is outside.
    fn part(&self, places: &[isize], shown: impl Fn(usize) -> i64) -> Result<Option<Self>> {
        let mut kept = with_room::<usize>(places.len())?;
        for &place in places {
            match usize::try_from(place) {
                Ok(place) if self.index.get(place).is_some_and(|&row| row == shown(place)) => kept.push(place),
                _ => return Ok(None),
            }
        }
        Ok(Some(Self {
            index: picked(&self.index, &kept)?,
            generations: self.generations.as_deref().map(|all| picked(all, &kept)).transpose()?,
            goals: self.goals.as_deref().map(|all| picked(all, &kept)).transpose()?,
        }))
    }

    /// Returns the rows with these goals.
    ///
    /// # Errors
    /// `Value` unless there is one for each row.
    pub fn with_goals(self, goals: Vec<i64>) -> Result<Self> {
        let rows = self.index.len();
        if rows != goals.len() {
            return value_error!("one goal for each row: got {rows} rows and {} goals", goals.len());
        }
        Ok(Self { goals: Some(goals), ..self })
    }

    /// Returns rows and goals plus `by`.
    ///
    /// # Errors
    /// `Index` on overflow.
    pub fn shifted(mut self, by: i64) -> Result<Self> {
        let goals = self.goals.iter_mut().flatten().filter(|goal| **goal >= 0);
        for row in self.index.iter_mut().chain(goals) {
            let moved = row.checked_add(by);
            *row = moved.ok_or_else(|| Error::Index(format!("there are no rows {by} after these")))?;
        }
        Ok(self)
    }
}

fn picked<T: Copy>(all: &[T], places: &[usize]) -> Result<Vec<T>> {
    collected(places.iter().map(|&place| all[place]))
}

/// Returns the places of a strided array's elements in C order. The first element is at `first`, and strides count
/// elements.
///
/// # Errors
/// `Room` without memory for them.
fn strided(first: isize, axes: impl Iterator<Item = (usize, isize)> + Clone) -> Result<Vec<isize>> {
    if axes.clone().any(|(length, _)| length == 0) {
        return Ok(Vec::new());
    }
    let mut places = vec![first];
    for (length, stride) in axes {
        let mut finer = with_room(product(&[places.len(), length])?)?;
        finer.extend(places.iter().flat_map(|&place| (0..length as isize).map(move |k| place + k * stride)));
        places = finer;
    }
    Ok(places)
}

/// The memory of an index array that a host shows, and the records of its rows.
pub struct IndexOwner {
    /// What the host shows. Users may write to it, so there is no reference to it.
    shown: Box<[UnsafeCell<i64>]>,
    provenance: Provenance,
}

// SAFETY: `shown` is only ever reached through the host's array over it, under the host's own rules; the rest never changes.
unsafe impl Sync for IndexOwner {}

impl IndexOwner {
    /// Returns the owner of an index array over these rows.
    ///
    /// # Errors
    /// `Room` without memory for it; likewise in the other functions.
    pub fn new(provenance: Provenance) -> Result<Self> {
        let shown = collected(provenance.index.iter().map(|&row| UnsafeCell::new(row)))?.into_boxed_slice();
        Ok(Self { shown, provenance })
    }

    /// Returns the address of the rows.
    #[must_use]
    pub fn data(&self) -> *mut u8 {
        self.shown.as_ptr().cast::<u8>().cast_mut()
    }

    /// Returns the records of the elements of an array of this shape over this memory; None if an element was changed. Strides count
    /// bytes.
    ///
    /// # Safety
    /// Nobody writes to the array meanwhile.
    pub unsafe fn recall(&self, data: *const u8, dims: &[usize], strides: &[isize]) -> Result<Option<Provenance>> {
        let n = self.shown.len();
        if data == self.data().cast_const() && dims == [n] && strides == [8] {
            // SAFETY: `n` i64 of this memory each, which nobody writes at this moment, as the caller promises.
            let same = unsafe { memory::equal(data, self.provenance.index.as_ptr().cast(), 8 * n) };
            return if same { self.provenance.copied().map(Some) } else { Ok(None) };
        }
        let first = (data as isize - self.data() as isize) / 8;
        let places = strided(first, dims.iter().zip(strides).map(|(&length, &stride)| (length, stride / 8)))?;
        // SAFETY: an i64 of this memory, likewise.
        self.provenance.part(&places, |place| unsafe { self.shown[place].get().read() })
    }
}

impl Replay {
    /// Returns the generation of each row.
    ///
    /// # Errors
    /// `Room` without memory for them.
    pub fn generations(&self, index: &[i64]) -> Result<Vec<u64>> {
        if let [ring] = &**self.rings() {
            return collected(index.iter().map(|&row| generation(ring, row as usize)));
        }
        collected(index.iter().map(|&row| generation(self.rings().ring_of(row as usize), row as usize)))
    }

    /// Returns rows with their generations.
    ///
    /// # Errors
    /// `Room` without memory for them.
    pub fn provenance(&self, index: Vec<i64>) -> Result<Provenance> {
        Ok(Provenance { generations: Some(self.generations(&index)?), index, goals: None })
    }

    /// Returns the goals of rows, -1 for rows that were overwritten after they were drawn; None without goals. A goal is
    /// no older than its row, so it is there as long as the row is.
    ///
    /// # Errors
    /// `Index` for a row that does not exist, `Room` without memory.
    pub fn present_goals(&self, rows: Provenance) -> Result<Option<Vec<i64>>> {
        let Some(mut goals) = rows.goals else { return Ok(None) };
        self.rings().check(&rows.index)?;
        if let Some(drawn) = rows.generations {
            let now = self.generations(&rows.index)?;
            for (goal, (drawn, now)) in goals.iter_mut().zip(drawn.iter().zip(now)) {
                *goal = if *drawn == now { *goal } else { -1 };
            }
        }
        Ok(Some(goals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Provenance {
        Provenance { index: vec![5, 6, 7], generations: Some(vec![50, 60, 70]), goals: Some(vec![8, -1, 9]) }
    }

    #[test]
    fn a_part_knows_what_the_whole_knows_of_its_rows() {
        let part = known().part(&[2, 0], |place| [5, 6, 7][place]).unwrap().unwrap();
        let wanted = Provenance { index: vec![7, 5], generations: Some(vec![70, 50]), goals: Some(vec![9, 8]) };
        assert_eq!(part, wanted);
    }

    #[test]
    fn nothing_is_known_of_a_changed_row_or_of_a_place_outside() {
        assert_eq!(known().part(&[0, 1], |place| [5, 0, 7][place]).unwrap(), None);
        assert!(known().part(&[0], |place| [5, 0, 7][place]).unwrap().is_some());
        for outside in [-1, 3] {
            assert_eq!(known().part(&[outside], |_| 5).unwrap(), None);
        }
    }

    #[test]
    fn each_row_has_one_goal() {
        let rows = || Provenance { goals: None, ..known() };
        assert_eq!(rows().with_goals(vec![8, -1, 9]).unwrap(), known());
        let error = rows().with_goals(vec![8]).unwrap_err();
        assert_eq!(error.to_string(), "one goal for each row: got 3 rows and 1 goals");
    }

    #[test]
    fn a_shift_moves_rows_and_goals_but_not_the_mark_of_no_goal() {
        let moved = known().shifted(10).unwrap();
        assert_eq!((moved.index, moved.goals), (vec![15, 16, 17], Some(vec![18, -1, 19])));
        assert_eq!(
            known().shifted(i64::MAX).unwrap_err().to_string(),
            format!("there are no rows {} after these", i64::MAX)
        );
    }

    #[test]
    fn an_array_over_an_index_is_recalled_until_it_is_changed() {
        let owner = IndexOwner::new(known()).unwrap();
        let data = owner.data().cast::<i64>();
        let recall = |first: usize, dims: &[usize], strides: &[isize]| {
            // SAFETY: only this thread knows the memory.
            unsafe { owner.recall(data.wrapping_add(first).cast(), dims, strides) }.unwrap()
        };
        assert_eq!(recall(0, &[3], &[8]), Some(known()));
        assert_eq!(recall(2, &[2], &[-8]).map(|part| part.index), Some(vec![7, 6]));
        assert_eq!(recall(1, &[3], &[8]), None, "it reaches outside");
        // SAFETY: the second of three rows.
        unsafe { data.add(1).write(9) };
        assert_eq!(recall(0, &[3], &[8]), None);
        assert!(recall(0, &[2], &[16]).is_some());
    }

    #[test]
    fn places_are_in_c_order() {
        let places = |first, axes: &[(usize, isize)]| strided(first, axes.iter().copied()).unwrap();
        assert_eq!(places(1, &[(2, 6), (3, 2)]), [1, 3, 5, 7, 9, 11]);
        assert_eq!(places(4, &[(3, -2)]), [4, 2, 0]);
        assert_eq!(places(4, &[]), [4]);
        assert_eq!(places(0, &[(usize::MAX, 1), (0, 1)]), [0; 0]);
    }
}
