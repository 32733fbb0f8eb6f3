//! Steps as other libraries (Stable-Baselines3, CleanRL) number and sum them: row numbers from steps and environments, and n-step sums with NumPy's
//! bits.

use rlfast_core::error::{Error, Result};
use rlfast_core::replay::{Added, Replay};
use rlfast_core::source::Source;
use rlfast_core::sums::pairwise;
use rlfast_core::vectors::{collected, filled};

/// Turns steps into row numbers, in rings of `capacity` rows each. `envs` gives the ring of each step (None: the
/// first). A negative step counts from the end of its ring.
///
/// # Errors
/// `Value` for a negative capacity, `Index` for a step or an environment that does not exist.
///
/// # Panics
/// If `envs` and `steps` differ in length.
pub fn step_rows(steps: &mut [i64], capacity: i64, envs: Option<&[i64]>) -> Result<()> {
    if capacity < 0 {
        return Err(Error::Value(format!("a ring has 0 rows or more, got a capacity of {capacity}")));
    }
    for step in &mut *steps {
        if !(-capacity..capacity).contains(step) {
            let last = capacity - 1;
            return Err(Error::Index(format!("a step lies between {} and {last}, got {step}", -capacity)));
        }
        *step += if *step < 0 { capacity } else { 0 };
    }
    let Some(envs) = envs else { return Ok(()) };
    assert_eq!(envs.len(), steps.len(), "one environment for each step");
    for (row, &env) in steps.iter_mut().zip(envs) {
        let moved = env.checked_mul(capacity).and_then(|first| first.checked_add(*row));
        *row = moved.ok_or_else(|| Error::Index(format!("there is no environment {env}")))?;
    }
    Ok(())
}

/// Returns n-step sums of `rewards`, `[rows, powers]`: for each row the sum of the first `before + 1` rewards, each
/// times its power of gamma, with NumPy's bits; and the element of `discounts` at `before`.
///
/// # Errors
/// `Value` for inconsistent lengths, `Room` without memory for the results.
pub fn discounted_sums(
    rewards: &[f32],
    before: &[i64],
    powers: &[f32],
    discounts: &[f32],
) -> Result<(Vec<f32>, Vec<f32>)> {
    let length = powers.len();
    let least = discounts.len().min(length);
    if Some(rewards.len()) != before.len().checked_mul(length) || before.iter().any(|&count| count as usize >= least) {
        let text = "rewards [B, n] need before [B] below n, and n powers and discounts";
        return Err(Error::Value(text.to_owned()));
    }
    let mut terms = filled(0.0, length)?;
    let rows = rewards.chunks_exact(length.max(1)).zip(before);
    let sums = collected(rows.map(|(rewards, &count)| discounted_sum(rewards, powers, count as usize, &mut terms)))?;
    Ok((sums, collected(before.iter().map(|&count| discounts[count as usize]))?))
}

/// Returns the sum of the first `before + 1` rewards, each times its power of gamma, with the bits of `np.sum` over an
/// array in which the other terms are 0. `terms` is working memory, one element for each reward.
fn discounted_sum(rewards: &[f32], powers: &[f32], before: usize, terms: &mut [f32]) -> f32 {
    for (step, (term, (reward, power))) in terms.iter_mut().zip(rewards.iter().zip(powers)).enumerate() {
        *term = reward * if step <= before { *power } else { 0.0 };
    }
    pairwise(terms)
}

/// Returns which steps reached a terminal state: those that are done, but not by a time limit.
///
/// # Errors
/// `Room`.
pub fn terminal(dones: &[f32], timeouts: &[f32]) -> Result<Vec<f32>> {
    collected(dones.iter().zip(timeouts).map(|(done, timeout)| done * (1.0 - timeout)))
}

/// Adds a row to each ring of `engine`, and returns whether in each ring its `obs` is the `obs_next` of the row before it.
///
/// # Errors
/// As [`Replay::add`].
///
/// # Safety
/// As [`Replay::add`].
pub unsafe fn record(engine: &mut Replay, sources: &[Source], terminated: &[bool], truncated: &[bool]) -> Result<bool> {
    let rings: Vec<usize> = (0..engine.rings().len()).collect();
    let n = rings.len();
    let (mut index, mut length, mut start) = (vec![0; n], vec![0; n], vec![0; n]);
    let mut added = Added {
        index: &mut index,
        episode_return: &mut vec![0.0; n * engine.agents()],
        episode_length: &mut length,
        episode_start: &mut start,
    };
    // SAFETY: as the caller promises.
    unsafe { engine.add(&rings, sources, terminated, truncated, &mut added) }?;
    Ok(rings.iter().all(|&r| engine.continues_episode(r)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_either_end_of_their_ring() {
        let mut steps = [0, -1, 3];
        step_rows(&mut steps, 4, Some(&[0, 2, 1])).unwrap();
        assert_eq!(steps, [0, 11, 7]);
        step_rows(&mut steps[..1], 4, None).unwrap();
        assert_eq!(steps[0], 0);
    }

    #[test]
    fn steps_outside_a_ring_are_errors() {
        for (step, capacity, env) in [(4, 4, 0), (-5, 4, 0), (0, 0, 0), (0, -1, 0), (1, i64::MAX, 2)] {
            assert!(step_rows(&mut [step], capacity, Some(&[env])).is_err(), "{step} {capacity} {env}");
        }
    }

    #[test]
    fn rewards_after_the_last_do_not_count() {
        let mut terms = [9.0; 3];
        let sum = discounted_sum(&[1.0, 2.0, 4.0], &[1.0, 0.5, 0.25], 1, &mut terms);
        assert_eq!((sum, terms), (2.0, [1.0, 1.0, 0.0]));
    }

    #[test]
    fn sums_and_discounts_are_those_of_the_last_step() {
        let rewards = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0];
        let found = discounted_sums(&rewards, &[2, 0], &[1.0, 0.5, 0.25], &[0.5, 0.25, 0.125]).unwrap();
        assert_eq!(found, (vec![3.0, 1.0], vec![0.125, 0.5]));
        assert_eq!(discounted_sums(&[], &[], &[], &[]).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn sums_of_other_lengths_are_errors() {
        for (rewards, before) in [(5, [2, 0]), (6, [3, 0]), (6, [-1, 0])] {
            assert!(discounted_sums(&vec![0.0; rewards], &before, &[1.0; 3], &[1.0; 3]).is_err());
        }
        assert!(discounted_sums(&[0.0; 3], &[2], &[1.0; 3], &[1.0; 2]).is_err());
        assert!(discounted_sums(&[], &[0], &[], &[]).is_err());
    }

    #[test]
    fn a_step_that_ran_out_of_time_is_not_terminal() {
        assert_eq!(terminal(&[1.0, 1.0, 0.0], &[0.0, 1.0, 0.0]).unwrap(), [1.0, 0.0, 0.0]);
    }
}
