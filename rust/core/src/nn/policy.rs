//! Whole policies: from the observation of an environment to its action.

use std::borrow::Cow;

use super::functions::{Function, exp};
use super::network::Network;
use crate::convert::as_single;
use crate::error::{Result, value_error};
use crate::rng::torch::Generator;
use crate::vectors::{self, filled, with_room};

/// Observations, row by row.
#[derive(Clone, Copy, Debug)]
pub enum Observations<'a> {
    /// In single precision.
    Singles(&'a [f32]),
    /// In double precision.
    Doubles(&'a [f64]),
}

/// An array of an observation.
#[derive(Debug)]
pub struct ObservedArray {
    /// Its keys in nested dictionaries; none for the only array.
    pub keys: Vec<String>,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// What is done to an observation before the network sees it, in double precision.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    /// The numbers that are seen; None for all.
    pub places: Option<Vec<usize>>,
    /// Normalizations, one after the other.
    pub scales: Vec<Normalization>,
}

/// Numbers scaled to mean 0 and variance 1, and bounded.
#[derive(Debug)]
pub(super) struct Normalization {
    pub mean: Vec<f64>,
    pub deviation: Vec<f64>,
    pub limit: f64,
}

/// How actions come from the outputs of the network.
#[derive(Debug)]
pub(super) enum Decision {
    /// For each group of numbers, the action with the greatest, or a sample of the distribution whose logits they are.
    Discrete {
        slot: usize,
        /// The number of actions of each group.
        sizes: Vec<usize>,
        /// The first action of each group.
        starts: Vec<i64>,
        /// Whether the numbers are logits, from which actions may be drawn.
        logits: bool,
    },
    /// Means, from which normal actions may be drawn.
    Continuous {
        mean: usize,
        deviation: Option<usize>,
        /// Whether the policy's actions are the hyperbolic tangents.
        squashed: bool,
        bound: Bound,
    },
}

/// How a policy's real actions become those of the environment.
#[derive(Debug)]
pub(super) struct Bound {
    pub by: BoundedBy,
    /// Whether actions in [-1, 1] are stretched to the range.
    pub stretched: bool,
    /// The least and the greatest actions, if they are bounded.
    pub range: Option<(Vec<f64>, Vec<f64>)>,
    /// Whether the environment's actions are in double precision.
    pub double: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundedBy {
    Nothing,
    Clip,
    Tanh,
}

/// A trained policy from a file of `rlfast export`. It keeps its weights, never changes, and any number of threads may
/// use it.
///
/// ```no_run
/// use rlfast_core::nn::{Observations, Policy};
/// let policy = Policy::open("hopper.rlfast".as_ref())?;
/// let (obs, mut action) = ([0.0; 11], [0.0; 3]);
/// policy.control(Observations::Doubles(&obs), &mut [], None, &mut action)?;
/// # Ok::<(), rlfast_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Policy {
    pub(super) network: Network,
    pub(super) preparation: Preparation,
    pub(super) decision: Decision,
    pub(super) arrays: Vec<ObservedArray>,
    pub(super) action_shape: Vec<usize>,
    /// The slot of the next hidden state, whose numbers follow those of the observation in slot 0, and their number.
    pub(super) state: Option<(usize, usize)>,
    pub(super) random: bool,
    pub(super) description: String,
    /// What the network's weights are read from.
    pub(super) _kept: Vec<Vec<f32>>,
}

impl Policy {
    /// Returns the arrays of one observation, whose numbers follow each other: a single one without keys, or those of a
    /// dictionary.
    #[must_use]
    pub fn observation(&self) -> &[ObservedArray] {
        &self.arrays
    }

    /// Returns how many numbers an observation has.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.arrays.iter().map(|array| array.shape.iter().product::<usize>()).sum()
    }

    /// Returns the shape of one action, `[]` for one of a discrete space.
    #[must_use]
    pub fn action_shape(&self) -> &[usize] {
        &self.action_shape
    }

    /// Returns how many numbers the hidden state of one row has; 0 for a policy without one. They are the caller's, who
    /// gives zeros where an episode begins, and they are replaced at each step.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.state.map_or(0, |(_, size)| size)
    }

    /// Returns whether actions are whole numbers, by [`Self::choose`]; the others are made by [`Self::control`].
    #[must_use]
    pub fn is_discrete(&self) -> bool {
        matches!(self.decision, Decision::Discrete { .. })
    }

    /// Returns whether continuous actions are of an environment that takes them in double precision.
    #[must_use]
    pub fn is_double(&self) -> bool {
        matches!(&self.decision, Decision::Continuous { bound, .. } if bound.double)
    }

    /// Returns whether the trained policy draws its actions also when it is evaluated.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.random
    }

    /// Returns the description of the policy in its file, a JSON object.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the random numbers for the actions of so many rows: those that the trained policy would draw from
    /// `generator`. They are exponential for discrete actions, and normal for continuous ones.
    ///
    /// # Errors
    /// `Value` for a policy whose actions are not drawn, `Room` without memory.
    pub fn draws(&self, rows: usize, generator: &mut Generator) -> Result<Vec<f32>> {
        let mut draws = filled(0.0, rows.saturating_mul(self.draws_per_row()?))?;
        if self.is_discrete() {
            generator.exponentials(&mut draws);
        } else {
            generator.normals(&mut draws);
        }
        Ok(draws)
    }

    fn draws_per_row(&self) -> Result<usize> {
        match self.decision {
            Decision::Discrete { slot, logits: true, .. } => Ok(self.width(slot)),
            Decision::Continuous { mean, deviation: Some(_), .. } => Ok(self.width(mean)),
            _ => value_error!("this policy has one action for each observation, and draws none"),
        }
    }

    fn width(&self, slot: usize) -> usize {
        self.network.width(slot).expect("invariant: the file's slots were checked")
    }

    /// Writes the discrete actions for each row of `obs`: the best ones, or samples by the random numbers `draws`, of
    /// [`Self::draws`]. `hidden` has the hidden states, [`Self::hidden`] numbers for each row; after an error it is as
    /// before.
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, actions are continuous, or a number is NaN, as for an observation that is not in
    /// a discrete space; `Room` without memory.
    pub fn choose(
        &self,
        obs: Observations<'_>,
        hidden: &mut [f32],
        draws: Option<&[f32]>,
        actions: &mut [i64],
    ) -> Result<()> {
        let Decision::Discrete { slot, ref sizes, ref starts, .. } = self.decision else {
            return value_error!("this policy has continuous actions: call `control`");
        };
        let (obs, rows) = self.prepared(obs, hidden)?;
        self.check(rows, draws, actions.len())?;
        let width = self.width(slot);
        let mut numbers = filled(0.0, rows * width)?;
        let mut after = vectors::copied(hidden)?;
        self.forward(&obs, &[slot], &mut [&mut numbers], &mut after)?;
        let (mut before, groups) = (0, sizes.len());
        for (group, (&size, &start)) in sizes.iter().zip(starts).enumerate() {
            for row in 0..rows {
                let numbers = &numbers[row * width + before..][..size];
                let best = match draws {
                    None => greatest(numbers.iter().map(|&number| f64::from(number))),
                    Some(draws) => sampled(numbers, &draws[rows * before + row * size..][..size]),
                };
                let Some(best) = best else {
                    return value_error!("no action is the best: the observation is not finite or not in its space");
                };
                actions[row * groups + group] = start.wrapping_add(best as i64);
            }
            before += size;
        }
        hidden.copy_from_slice(&after);
        Ok(())
    }

    /// Writes the continuous actions for each row of `obs`: the means, or samples by the random numbers `draws`, of
    /// [`Self::draws`]. `hidden` is as for [`Self::choose`].
    ///
    /// # Errors
    /// `Value` if the lengths do not fit, actions are discrete, or an action is not finite; `Room` without memory.
    pub fn control(
        &self,
        obs: Observations<'_>,
        hidden: &mut [f32],
        draws: Option<&[f32]>,
        actions: &mut [f64],
    ) -> Result<()> {
        let Decision::Continuous { mean, deviation, squashed, ref bound } = self.decision else {
            return value_error!("this policy has discrete actions: call `choose`");
        };
        let (obs, rows) = self.prepared(obs, hidden)?;
        self.check(rows, draws, actions.len())?;
        let mut numbers = filled(0.0, actions.len())?;
        let mut after = vectors::copied(hidden)?;
        if let (Some(draws), Some(deviation)) = (draws, deviation) {
            let mut deviations = filled(0.0, actions.len())?;
            self.forward(&obs, &[mean, deviation], &mut [&mut numbers, &mut deviations], &mut after)?;
            for ((number, deviation), draw) in numbers.iter_mut().zip(deviations).zip(draws) {
                *number += deviation * draw;
            }
        } else {
            self.forward(&obs, &[mean], &mut [&mut numbers], &mut after)?;
        }
        if squashed {
            Function::Tanh.apply(&mut numbers);
        }
        let width = self.width(mean);
        for (row, actions) in numbers.chunks_exact(width).zip(actions.chunks_exact_mut(width)) {
            bound.apply(row, actions)?;
        }
        hidden.copy_from_slice(&after);
        Ok(())
    }

    /// Computes some slots for each row, and the hidden states after the step.
    fn forward(&self, seen: &[f32], slots: &[usize], out: &mut [&mut [f32]], hidden: &mut [f32]) -> Result<()> {
        let Some((state, _)) = self.state else { return self.network.forward(seen, slots, out) };
        let mut out: Vec<&mut [f32]> = out.iter_mut().map(|out| &mut **out).collect();
        out.push(hidden);
        self.network.forward(seen, &[slots, &[state]].concat(), &mut out)
    }

    fn check(&self, rows: usize, draws: Option<&[f32]>, actions: usize) -> Result<()> {
        let size = match self.decision {
            Decision::Discrete { ref sizes, .. } => sizes.len(),
            Decision::Continuous { mean, .. } => self.width(mean),
        };
        if actions != rows * size {
            return value_error!("{rows} observations need {} numbers for actions, got {actions}", rows * size);
        }
        if let Some(draws) = draws
            && draws.len() != rows * self.draws_per_row()?
        {
            return value_error!(
                "{rows} observations need {} draws, got {}",
                rows * self.draws_per_row()?,
                draws.len()
            );
        }
        Ok(())
    }

    /// What the network sees, and the number of rows.
    fn prepared<'a>(&self, obs: Observations<'a>, hidden: &[f32]) -> Result<(Cow<'a, [f32]>, usize)> {
        let (raw, of_state) = (self.numbers(), self.hidden());
        let inputs = self.network.inputs() - of_state;
        let count = match obs {
            Observations::Singles(obs) => obs.len(),
            Observations::Doubles(obs) => obs.len(),
        };
        let Some(rows) = count.checked_div(raw).filter(|rows| rows * raw == count) else {
            return value_error!("an observation has {raw} numbers, got {count} in all");
        };
        if hidden.len() != rows * of_state {
            return value_error!(
                "{rows} observations need {} numbers of hidden states, got {}",
                rows * of_state,
                hidden.len()
            );
        }
        if self.preparation.is_none()
            && of_state == 0
            && let Observations::Singles(obs) = obs
        {
            return Ok((Cow::Borrowed(obs), rows));
        }
        let mut seen = with_room(rows * self.network.inputs())?;
        for row in 0..rows {
            for k in 0..inputs {
                let place = row * raw + self.preparation.places.as_ref().map_or(k, |places| places[k]);
                let number = match obs {
                    Observations::Singles(obs) => f64::from(obs[place]),
                    Observations::Doubles(obs) => obs[place],
                };
                let number = self.preparation.scales.iter().fold(number, |number, scale| scale.of(number, k));
                let Some(single) = as_single(number) else {
                    return value_error!("an observation is {number}, which is too large for a float32");
                };
                seen.push(single);
            }
            seen.extend_from_slice(&hidden[row * of_state..][..of_state]);
        }
        Ok((Cow::Owned(seen), rows))
    }
}

impl Preparation {
    fn is_none(&self) -> bool {
        self.places.is_none() && self.scales.is_empty()
    }
}

impl Normalization {
    /// The number `k` of an observation, scaled.
    fn of(&self, number: f64, k: usize) -> f64 {
        let scaled = (number - self.mean[k]) / self.deviation[k];
        if scaled > self.limit {
            self.limit
        } else if scaled < -self.limit {
            -self.limit
        } else {
            scaled
        }
    }
}

impl Bound {
    /// Writes the environment's action for a policy's, as the map of actions of the policy does.
    fn apply(&self, row: &[f32], actions: &mut [f64]) -> Result<()> {
        for (k, (&number, action)) in row.iter().zip(actions).enumerate() {
            let bounded = match self.by {
                BoundedBy::Nothing => number,
                BoundedBy::Clip => number.clamp(-1.0, 1.0),
                BoundedBy::Tanh => Function::Tanh.of(number),
            };
            *action = f64::from(bounded);
            if let Some((low, high)) = &self.range {
                if self.stretched {
                    if bounded.is_nan() || bounded.abs() > 1.0 {
                        return value_error!(
                            "can only stretch actions in [-1, 1] to the range of the environment's, got {bounded}: the \
                             observation is not finite, or the policy has no bound"
                        );
                    }
                    *action = if self.double {
                        low[k] + (high[k] - low[k]) * ((f64::from(bounded) + 1.0) * 0.5)
                    } else {
                        let (low, high) = (low[k] as f32, high[k] as f32);
                        f64::from(low + (high - low) * ((bounded + 1.0) * 0.5))
                    };
                }
                *action = action.max(low[k]).min(high[k]);
            }
            if action.is_nan() {
                return value_error!("the policy chose NaN: the observation or the weights are not finite");
            }
        }
        Ok(())
    }
}

/// The place of the first greatest number; None if one is NaN.
fn greatest(numbers: impl Iterator<Item = f64>) -> Option<usize> {
    let (mut best, mut at) = (f64::NEG_INFINITY, 0);
    for (k, number) in numbers.enumerate() {
        if number.is_nan() {
            return None;
        }
        if number > best {
            (best, at) = (number, k);
        }
    }
    Some(at)
}

/// See [`super::Choice::Clocks`].
fn sampled(logits: &[f32], clocks: &[f32]) -> Option<usize> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let score = |(&logit, &clock): (&f32, &f32)| exp(f64::from(logit) - f64::from(largest)) / f64::from(clock);
    greatest(logits.iter().zip(clocks).map(score))
}
