//! Expansion of rows: the functions of [`Units`] and others, with checks of their arguments and results in new vectors.

use crate::error::{Result, value_error};
use crate::replay::Replay;
use crate::replay::provenance::Provenance;
use crate::replay::units::{NStepOutput, Units};
use crate::vectors::{collected, copied, filled, product, sum};

/// N-step returns of some rows.
#[derive(Debug)]
pub struct NStepReturns {
    /// The discounted sum of rewards of each row, `[rows, agents]`.
    pub sums: Vec<f64>,
    /// The number of agents; None where rewards are single numbers.
    pub agents: Option<usize>,
    /// The factor of the bootstrap value, for each row.
    pub discounts: Vec<f64>,
    /// The last row of each sum, with the goal of its first row.
    pub last: Provenance,
}

/// The result of [`Replay::follow`].
#[derive(Debug)]
pub struct Followed {
    /// The values of each row and the rows after it, `[rows, length]`.
    pub values: Vec<f32>,
    /// The last row that was read, for each row.
    pub last: Vec<i64>,
    /// The number of rows before the last one, for each row.
    pub before: Vec<i64>,
}

impl Replay {
    fn units_of(&self, index: &[i64]) -> Result<Units<'_>> {
        self.rings().check(index)?;
        self.units()
    }

    /// Replaces each row by the result of `step`.
    ///
    /// # Errors
    /// `Index` for a row that does not exist.
    pub fn map(&self, mut index: Vec<i64>, step: impl Fn(&Self, usize) -> usize) -> Result<Vec<i64>> {
        self.rings().check(&index)?;
        index.iter_mut().for_each(|row| *row = step(self, *row as usize) as i64);
        Ok(index)
    }

    /// Returns the rows of [`Units::unroll`], `[index, length]`, and the number of rows without repetitions.
    ///
    /// # Errors
    /// `Index` for a row that does not exist, `Value` before `define`, `Room` without memory for the results.
    pub fn unroll(&self, index: &[i64], length: usize) -> Result<(Vec<i64>, Vec<i64>)> {
        let units = self.units_of(index)?;
        let (mut rows, mut counts) = (filled(0, product(&[index.len(), length])?)?, filled(0, index.len())?);
        units.unroll(index, length, &mut rows, &mut counts);
        Ok((rows, counts))
    }

    /// Returns the rows of [`Units::window`], `[index, before + length]`, and which of them are in their episode.
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

    /// Returns n-step returns: see [`Units::nstep`].
    ///
    /// # Errors
    /// As [`Self::unroll`], and `Value` for an `n_step` of 0.
    pub fn nstep(&self, start: Provenance, n_step: usize, gamma: f64) -> Result<NStepReturns> {
        if n_step == 0 {
            return value_error!("n_step must be at least 1, got 0");
        }
        let index = &start.index;
        let units = self.units_of(index)?;
        let mut sums = filled(0.0, product(&[index.len(), self.agents()])?)?;
        let (mut discounts, mut last) = (filled(0.0, index.len())?, filled(0, index.len())?);
        let mut generations = filled(0, index.len())?;
        let (sums_of, discounts_of) = (&mut sums, &mut discounts);
        let out =
            NStepOutput { sums: sums_of, discounts: discounts_of, last: &mut last, generations: &mut generations };
        units.nstep(index, n_step, gamma, out);
        let last = Provenance { index: last, generations: Some(generations), goals: start.goals };
        let agents = (!self.scalar_reward()).then(|| self.agents());
        Ok(NStepReturns { sums, agents, discounts, last })
    }

    /// Returns the values of the leaf at the path `value`, where the leaves at `ends` mark the ends of episodes: see
    /// [`Units::follow`].
    ///
    /// # Errors
    /// As [`Self::unroll`], `Key` for a path without a leaf, and `Value` for a `length` of 0 or a leaf that is not one
    /// float32.
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

    /// Draws hindsight goals: whether each row is relabelled, and the row of its goal. See [`Units::hindsight`].
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

    /// Returns the newest row of each ring whose newest episode is running.
    #[must_use]
    pub fn unfinished(&self) -> Vec<i64> {
        let running = self.rings().iter().filter(|ring| ring.is_running());
        running.map(|ring| ring.newest_slot() as i64).collect()
    }

    /// Returns [`Self::has_obs_next`] of each row.
    ///
    /// # Errors
    /// `Index` for a row that does not exist, `Room` without memory for the result.
    pub fn have_obs_next(&self, index: &[i64]) -> Result<Vec<bool>> {
        self.rings().check(index)?;
        collected(index.iter().map(|&row| self.has_obs_next(row as usize)))
    }

    /// Returns the importance weights of rows, divided by the largest among them if `normalize` (None: as configured);
    /// None if rows are drawn uniformly.
    ///
    /// # Errors
    /// If rows have priorities: `Index` for a row that does not exist, `Room` without memory for the result.
    pub fn weights(&mut self, index: &[i64], normalize: Option<bool>) -> Result<Option<Vec<f64>>> {
        let (beta, normalize) = (self.config.beta, normalize.unwrap_or(self.config.weight_norm));
        let Some(priorities) = &mut self.priorities else { return Ok(None) };
        self.rings.check(index)?;
        let mut weights = filled(0.0, index.len())?;
        priorities.weights(index, beta, normalize, &mut weights);
        Ok(Some(weights))
    }
}
