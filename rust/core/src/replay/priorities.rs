//! Prioritized sampling (Schaul et al., 2016, arXiv:1511.05952).
//!
//! Leaf `i` of the sum tree is `p_i^alpha`. Row `i` is drawn with probability `p_i^alpha / sum` (eq. 1), and its
//! importance
//! weight is `(N P(i))^-beta`, divided by the largest weight (section 3.4). A new row gets the largest priority ever
//! given,
//! so that it is drawn soon; that maximum does not fall when its row is overwritten.

use crate::error::{Error, Result, value_error};
use crate::power::power;
use crate::segment_tree::{LARGEST, SumTree};
use crate::vectors::collected;

/// Added to every priority, so that every row can be drawn.
pub const EPSILON: f64 = f32::EPSILON as f64;

/// The priorities of all slots.
pub struct Priorities {
    /// The leaves `p^alpha`.
    pub(super) tree: SumTree,
    /// The exponent of priorities.
    pub(super) alpha: f64,
    /// The largest priority ever given, before the exponent.
    pub(super) max: f64,
    /// Number of updates that were ignored because their row had been overwritten.
    pub(super) stale: u64,
}

impl Priorities {
    /// Returns priorities of 0 for `total` slots.
    ///
    /// # Errors
    /// `Value` when `alpha` is negative or not finite; `Room` when the tree does not fit into memory.
    pub fn new(total: usize, alpha: f64) -> Result<Self> {
        if !(alpha >= 0.0 && alpha.is_finite()) {
            return value_error!("alpha must be a finite number >= 0, got {alpha}");
        }
        let tree = SumTree::try_new(total).map_err(|error| Error::Room { needed: error.bytes })?;
        Ok(Self { tree, alpha, max: 1.0, stale: 0 })
    }

    /// Returns the leaves `p^alpha`.
    #[must_use]
    pub fn tree(&self) -> &SumTree {
        &self.tree
    }

    /// Returns the leaves, mutably.
    pub fn tree_mut(&mut self) -> &mut SumTree {
        &mut self.tree
    }

    /// Returns the largest priority ever given, before the exponent.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Sets the largest priority.
    ///
    /// # Errors
    /// `Value` when it is not positive or not finite.
    pub fn set_max(&mut self, max: f64) -> Result<()> {
        if !(max > 0.0 && max.is_finite()) {
            return value_error!("the largest priority must be finite and > 0, got {max}");
        }
        self.max = max;
        Ok(())
    }

    /// Raises the largest priority to these, which were given to rows.
    pub fn raise_max(&mut self, priorities: impl Iterator<Item = f64>) {
        self.max = priorities.map(|priority| priority + EPSILON).fold(self.max, f64::max);
    }

    /// Returns the number of updates that were ignored because their row had been overwritten.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Returns the leaf `priority^alpha`.
    #[must_use]
    pub fn leaf(&self, priority: f64) -> f64 {
        let mut leaf = [priority];
        power(&mut leaf, self.alpha);
        leaf[0]
    }

    /// Gives the new rows at `slots` the largest priority.
    pub fn admit(&mut self, slots: &[usize]) {
        let leaf = self.leaf(self.max);
        match slots {
            [slot] => self.tree.set(*slot, leaf),
            _ => self.tree.set_many(slots, &vec![leaf; slots.len()]),
        }
    }

    /// Returns the leaves `(priority + EPSILON)^alpha`.
    ///
    /// # Errors
    /// `Value` naming the first priority that is NaN, infinite or negative, or whose leaf is too large to be summed.
    pub fn leaves(&self, priorities: &[f64]) -> Result<Vec<f64>> {
        let mut leaves = collected(priorities.iter().map(|&priority| priority + EPSILON))?;
        power(&mut leaves, self.alpha);
        let bad = |(&priority, &leaf): (&f64, &f64)| !(priority >= 0.0 && leaf <= LARGEST);
        match priorities.iter().zip(&leaves).position(bad) {
            None => Ok(leaves),
            Some(at) if priorities[at] >= 0.0 && priorities[at].is_finite() => value_error!(
                "a priority must be small enough for its power of {} to be summed, got {} at position {at}; no priority was \
                 changed",
                self.alpha,
                priorities[at]
            ),
            Some(at) => value_error!(
                "a priority must be a finite number >= 0, got {} at position {at}; no priority was changed",
                priorities[at]
            ),
        }
    }

    /// Writes the importance weights of the rows at `slots`: `(p^alpha / least)^-beta`, where `least` is the least
    /// positive leaf of the batch (with `normalize`, so that the largest weight is 1) or of the whole tree.
    pub fn weights(&mut self, slots: &[i64], beta: f64, normalize: bool, out: &mut [f64]) {
        for (w, &slot) in out.iter_mut().zip(slots) {
            *w = self.tree.leaf(slot as usize);
        }
        let positive = |least: f64, &leaf: &f64| if leaf > 0.0 { least.min(leaf) } else { least };
        let least =
            if normalize { out.iter().fold(f64::INFINITY, positive) } else { self.tree.min_positive().unwrap_or(1.0) };
        for w in out.iter_mut() {
            // A row without a priority gets the largest weight.
            *w = if *w > 0.0 { *w / least } else { 1.0 };
        }
        power(out, -beta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c9_alpha_is_applied_once() {
        let priorities = Priorities::new(4, 0.5).unwrap();
        assert!((priorities.leaf(4.0) - 2.0).abs() < 1e-15);
    }

    #[test]
    fn c10_weights_are_those_of_the_paper() {
        let mut priorities = Priorities::new(4, 1.0).unwrap();
        priorities.tree.set_many(&[0, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0]);
        let mut out = [0.0; 4];
        priorities.weights(&[0, 1, 2, 3], 1.0, false, &mut out);
        assert_eq!(out, [1.0, 0.5, 1.0 / 3.0, 0.25]);
        priorities.weights(&[1, 2], 1.0, true, &mut out[..2]);
        assert_eq!(out[..2], [1.0, 1.0 / 1.5]);
    }

    #[test]
    fn c5_bad_priorities_are_named() {
        let priorities = Priorities::new(4, 2.0).unwrap();
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e200] {
            let error = priorities.leaves(&[1.0, bad]).unwrap_err().to_string();
            assert!(error.contains("position 1"), "{error}");
        }
    }
}
