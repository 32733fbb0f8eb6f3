//! What rows become: the functions of [`Units`] and others, with their arguments checked and their results in new vectors.

use crate::error::{Result, value_error};
use crate::replay::Replay;
use crate::replay::provenance::Provenance;
use crate::replay::units::Units;
use crate::vectors::{collected, copied, filled, product, sum};

/// N-step returns of some rows.
#[derive(Debug)]
pub struct NStepReturns {
    /// The discounted sum of rewards of each row, `[rows, agents]`.
    pub sums: Vec<f64>,
    /// The factor of the value that follows, for each row.
    pub discounts: Vec<f64>,
    /// The last row that each sum contains; it inherits the goal of the row that the sum begins with.
    pub last: Provenance,
}

/// What [`Replay::follow`] found.
#[derive(Debug)]
pub struct Followed {
    /// The values of each row and of the rows after it, `[rows, length]`.
    pub values: Vec<f32>,
    /// The last row of each.
    pub last: Vec<i64>,
    /// How many rows lie before the last one.
    pub before: Vec<i64>,
}

impl Replay {
    fn units_of(&self, index: &[i64]) -> Result<Units<'_>> {
        self.rings().check(index)?;
        self.units()
    }

    /// Replaces each row by what `step` makes of it.
    ///
    /// # Errors
    /// `Index` for a row that is not there.
    pub fn map(&self, mut index: Vec<i64>, step: impl Fn(&Self, usize) -> usize) -> Result<Vec<i64>> {
        self.rings().check(&index)?;
        index.iter_mut().for_each(|row| *row = step(self, *row as usize) as i64);
        Ok(index)
    }

    /// The rows of [`Units::unroll`], `[index, length]`, and how many of them differ.
    ///
    /// # Errors
    /// `Index` for a row that is not there, `Value` before any row was laid out, `Room`.
    pub fn unroll(&self, index: &[i64], length: usize) -> Result<(Vec<i64>, Vec<i64>)> {
        let units = self.units_of(index)?;
        let (mut rows, mut counts) = (filled(0, product(&[index.len(), length])?)?, filled(0, index.len())?);
        units.unroll(index, length, &mut rows, &mut counts);
        Ok((rows, counts))
    }

    /// The rows of [`Units::window`], `[index, before + length]`, and which of them are inside their episode.
    ///
    /// # Errors
    /// As [`Self::unroll`].
    pub fn window(&self, index: &[i64], before: usize, length: usize) -> Result<(Vec<i64>, Vec<bool>)> {
        let units = self.units_of(index)?;
        let places = product(&[index.len(), sum(before, length)?])?;
        let (mut rows, mut mask) = (filled(0, places)?, filled(false, places)?);
        units.window(index, before, length, &mut rows, &mut mask);
        Ok((rows, mask))
    }

    /// N-step returns: see [`Units::nstep`].
    ///
    /// # Errors
    /// As [`Self::unroll`], and `Value` for no step.
    pub fn nstep(&self, start: Provenance, n_step: usize, gamma: f64) -> Result<NStepReturns> {
        if n_step == 0 {
            return value_error!("n_step must be at least 1, got 0");
        }
        let index = &start.index;
        let units = self.units_of(index)?;
        let mut sums = filled(0.0, product(&[index.len(), self.agents()])?)?;
        let (mut discounts, mut last) = (filled(0.0, index.len())?, filled(0, index.len())?);
        units.nstep(index, n_step, gamma, &mut sums, &mut discounts, &mut last);
        let last = Provenance { goals: start.goals, ..self.provenance(last)? };
        Ok(NStepReturns { sums, discounts, last })
    }

    /// The values of the leaf at the path `value` along rows that say by the leaves at `ends` where an episode ends: see
    /// [`Units::follow`].
    ///
    /// # Errors
    /// As [`Self::unroll`], `Key` for a path without a leaf, and `Value` for no step or for a leaf that is not one float32.
    pub fn follow(&self, index: &[i64], length: usize, value: &[String], ends: &[Vec<String>]) -> Result<Followed> {
        if length == 0 {
            return value_error!("length must be at least 1, got 0");
        }
        let units = self.units_of(index)?;
        let value = self.leaf(value)?;
        let ends = ends.iter().map(|path| self.leaf(path)).collect::<Result<Vec<_>>>()?;
        let mut values = filled(0.0, product(&[index.len(), length])?)?;
        let (mut last, mut before) = (copied(index)?, filled(0, index.len())?);
        units.follow(index, value, &ends, &mut values, &mut last, &mut before)?;
        Ok(Followed { values, last, before })
    }

    /// Draws goals in hindsight: whether each row takes one, and of which row. See [`Units::hindsight`].
    ///
    /// # Errors
    /// As [`Self::unroll`], and `Value` for a `future_k` below 1.
    pub fn hindsight(&mut self, index: &[i64], future_k: f64, horizon: usize) -> Result<(Vec<bool>, Vec<i64>)> {
        if future_k.is_nan() || future_k < 1.0 {
            return value_error!("future_k must be at least 1, got {future_k}");
        }
        let (mut relabel, mut goals) = (filled(false, index.len())?, filled(0, index.len())?);
        let mut random = self.hindsight.clone();
        self.units_of(index)?.hindsight(index, future_k, horizon, &mut random, &mut relabel, &mut goals);
        self.hindsight = random;
        Ok((relabel, goals))
    }

    /// The newest row of each ring whose episode is running.
    #[must_use]
    pub fn unfinished(&self) -> Vec<i64> {
        let running = self.rings().iter().filter(|ring| ring.is_running());
        running.map(|ring| ring.newest_slot() as i64).collect()
    }

    /// See [`Self::keeps_next`], for each row.
    ///
    /// # Errors
    /// `Index` for a row that is not there, `Room`.
    pub fn keep_next(&self, index: &[i64]) -> Result<Vec<bool>> {
        self.rings().check(index)?;
        collected(index.iter().map(|&row| self.keeps_next(row as usize)))
    }

    /// Importance weights of rows, divided by the largest among them if `normalize` (None: as configured); None where rows are
    /// not drawn by priority.
    ///
    /// # Errors
    /// `Index` for a row that is not there, `Room`.
    pub fn weights(&mut self, index: &[i64], normalize: Option<bool>) -> Result<Option<Vec<f64>>> {
        let (beta, normalize) = (self.config.beta, normalize.unwrap_or(self.config.weight_norm));
        self.rings.check(index)?;
        let Some(priorities) = self.priorities_mut() else { return Ok(None) };
        let mut weights = filled(0.0, index.len())?;
        priorities.weights(index, beta, normalize, &mut weights);
        Ok(Some(weights))
    }
}
