//! Index arrays that record the generations and goals of their rows.

use crate::error::Result;
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
    pub fn part(&self, places: &[isize], shown: impl Fn(usize) -> i64) -> Result<Option<Self>> {
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

    /// Returns rows and goals plus `by`; None on overflow.
    #[must_use]
    pub fn shifted(mut self, by: i64) -> Option<Self> {
        let goals = self.goals.iter_mut().flatten().filter(|goal| **goal >= 0);
        for row in self.index.iter_mut().chain(goals) {
            *row = row.checked_add(by)?;
        }
        Some(self)
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
pub fn strided(first: isize, axes: impl Iterator<Item = (usize, isize)> + Clone) -> Result<Vec<isize>> {
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
    fn a_shift_moves_rows_and_goals_but_not_the_mark_of_no_goal() {
        let moved = known().shifted(10).unwrap();
        assert_eq!((moved.index, moved.goals), (vec![15, 16, 17], Some(vec![18, -1, 19])));
        assert_eq!(known().shifted(i64::MAX), None);
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
