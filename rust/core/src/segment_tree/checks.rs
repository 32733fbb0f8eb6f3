//! Functions of the tree with checks of leaves, ranges and masses.

use std::ops::Range;

use super::{BadValue, SumTree};
use crate::error::{Error, Result, value_error};
use crate::vectors::{collected, filled, with_room};

impl From<BadValue> for Error {
    fn from(error: BadValue) -> Self {
        Self::Value(error.to_string())
    }
}

/// Checks that the leaves at `index` are in a tree of `leaves` leaves.
///
/// # Errors
/// `Outside`, which names the first leaf that does not exist.
fn check_leaves(index: &[i64], leaves: usize) -> Result<()> {
    // A negative index is a huge unsigned one.
    if index.iter().fold(true, |all, &index| all & ((index as u64) < leaves as u64)) {
        return Ok(());
    }
    let position = index.iter().position(|&index| index as u64 >= leaves as u64);
    let position = position.expect("invariant: some index is outside");
    let leaf = index[position];
    Err(Error::Outside(format!("leaf {leaf} at position {position} is outside a tree of {leaves}")))
}

/// Returns the range from `start` up to `end` of a tree of `leaves` leaves. Without `end` it reaches to the end of the
/// tree; a negative `end` counts from there.
///
/// # Errors
/// `Outside` for a range that reaches outside the tree.
fn range_of(start: i64, end: Option<i64>, leaves: usize) -> Result<Range<usize>> {
    let len = leaves as i64;
    let stop = end.map_or(len, |end| if end < 0 { end + len } else { end });
    if (0..=len).contains(&start) && (0..=len).contains(&stop) {
        return Ok(start as usize..stop as usize);
    }
    let end = end.map_or("None".to_owned(), |end| end.to_string());
    Err(Error::Outside(format!("leaves {start} to {end} reach outside a tree of {len}")))
}

impl SumTree {
    /// Returns the leaves at `index`.
    ///
    /// # Errors
    /// `Outside`, which names the first leaf that does not exist; `Room` without memory for the result.
    pub fn get(&self, index: &[i64]) -> Result<Vec<f64>> {
        check_leaves(index, self.len())?;
        collected(index.iter().map(|&leaf| self.leaf(leaf as usize)))
    }

    /// Sets the leaves at `index`. If an index occurs twice, its last value counts.
    ///
    /// # Errors
    /// `Value` for an illegal value and as [`Self::get`], before anything is changed.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn put(&mut self, index: &[i64], values: &[f64]) -> Result<()> {
        Self::check(values)?;
        check_leaves(index, self.len())?;
        self.set_many(&collected(index.iter().map(|&leaf| leaf as usize))?, values);
        Ok(())
    }

    /// Returns all leaves.
    ///
    /// # Errors
    /// `Room` without memory for them.
    pub fn get_all(&self) -> Result<Vec<f64>> {
        let mut leaves = with_room(self.len())?;
        leaves.extend(self.leaves());
        Ok(leaves)
    }

    /// Sets all leaves.
    ///
    /// # Errors
    /// `Value` for an illegal value or another number of leaves, before anything is changed.
    pub fn put_all(&mut self, values: &[f64]) -> Result<()> {
        Self::check(values)?;
        if values.len() != self.len() {
            return value_error!("got {} leaves for a tree of {}", values.len(), self.len());
        }
        self.set_range(0, values);
        Ok(())
    }

    /// Returns the sum of the leaves from `start` up to `end`: see [`range_of`].
    ///
    /// # Errors
    /// `Outside` for a range that reaches outside the tree.
    pub fn reduce(&self, start: i64, end: Option<i64>) -> Result<f64> {
        Ok(self.sum(range_of(start, end, self.len())?))
    }

    /// Returns the leaf that owns each mass: see [`SumTree::find_many`].
    ///
    /// # Errors
    /// `Outside`, which names the first mass that is not within the sum; `Room` without memory for the result.
    pub fn find_checked(&self, masses: &[f64]) -> Result<Vec<i64>> {
        self.check_masses(masses)?;
        let mut leaves = filled(0, masses.len())?;
        self.find_many(masses, &mut leaves);
        collected(leaves.into_iter().map(|leaf| leaf as i64))
    }

    fn check_masses(&self, masses: &[f64]) -> Result<()> {
        let total = self.total();
        if total == 0.0 && !masses.is_empty() {
            return Err(Error::Outside("every leaf is zero: there is no mass to find".to_owned()));
        }
        let inside = |mass: f64| (0.0..=total).contains(&mass);
        if masses.iter().fold(true, |all, &mass| all & inside(mass)) {
            return Ok(());
        }
        let position = masses.iter().position(|&mass| !inside(mass));
        let position = position.expect("invariant: some mass is outside");
        let place = if masses.len() == 1 { String::new() } else { format!(" at position {position}") };
        let mass = masses[position];
        Err(Error::Outside(format!("mass {mass}{place} is outside [0, {total}], the sum of the leaves")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Outside(_)), "{error}");
        error.to_string()
    }

    #[test]
    fn the_first_leaf_outside_is_named() {
        assert!(check_leaves(&[3, 0], 4).is_ok());
        assert_eq!(text(check_leaves(&[3, 4, -1], 4)), "leaf 4 at position 1 is outside a tree of 4");
        assert_eq!(text(check_leaves(&[-1], 4)), "leaf -1 at position 0 is outside a tree of 4");
    }

    #[test]
    fn ranges_end_at_the_end_of_the_tree_or_count_from_it() {
        let range = |start, end| range_of(start, end, 4).unwrap();
        assert_eq!((range(1, None), range(0, Some(-1)), range(0, Some(4))), (1..4, 0..3, 0..4));
        for (start, end) in [(-1, None), (5, None), (0, Some(5)), (0, Some(-5))] {
            assert!(text(range_of(start, end, 4)).contains("reach outside a tree of 4"));
        }
    }

    #[test]
    fn masses_lie_within_the_sum() {
        let mut tree = SumTree::new(4);
        assert_eq!(text(tree.find_checked(&[0.0])), "every leaf is zero: there is no mass to find");
        assert_eq!(tree.find_checked(&[]).unwrap(), [0; 0]);
        tree.set_many(&[1, 3], &[1.0, 2.0]);
        assert_eq!(tree.find_checked(&[0.5, 3.0]).unwrap(), [1, 3]);
        assert_eq!(text(tree.find_checked(&[4.0])), "mass 4 is outside [0, 3], the sum of the leaves");
        assert!(text(tree.find_checked(&[1.0, f64::NAN])).starts_with("mass NaN at position 1 is outside"));
    }

    #[test]
    fn nothing_is_set_where_something_is_wrong() {
        let mut tree = SumTree::new(4);
        tree.put(&[1, 3, 3], &[1.0, 9.0, 2.0]).unwrap();
        assert_eq!((tree.get(&[3, 1]).unwrap(), tree.get_all().unwrap()), (vec![2.0, 1.0], vec![0.0, 1.0, 0.0, 2.0]));
        assert!(matches!(tree.put(&[0], &[f64::NAN]), Err(Error::Value(_))));
        assert!(matches!(tree.put(&[0, 4], &[5.0, 5.0]), Err(Error::Outside(_))));
        assert_eq!(tree.put_all(&[5.0]).unwrap_err().to_string(), "got 1 leaves for a tree of 4");
        assert!(tree.put_all(&[-1.0; 4]).is_err());
        assert_eq!((tree.reduce(0, None).unwrap(), tree.reduce(0, Some(-2)).unwrap()), (3.0, 1.0));
        tree.put_all(&[1.0; 4]).unwrap();
        assert_eq!(tree.total(), 4.0);
    }
}
