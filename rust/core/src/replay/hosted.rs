//! Steps as other libraries number and sum them: row numbers from steps and environments, and n-step sums with NumPy's
//! bits.

use crate::error::{Error, Result};
use crate::sums::pairwise;

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

/// Returns the sum of the first `before + 1` rewards, each times its power of gamma, with the bits of `np.sum` over an
/// array in which the other terms are 0. `terms` is working memory, one element for each reward.
pub fn discounted_sum(rewards: impl Iterator<Item = f32>, powers: &[f32], before: usize, terms: &mut [f32]) -> f32 {
    for (step, (term, (reward, power))) in terms.iter_mut().zip(rewards.zip(powers)).enumerate() {
        *term = reward * if step <= before { *power } else { 0.0 };
    }
    pairwise(terms)
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
        let sum = discounted_sum([1.0, 2.0, 4.0].into_iter(), &[1.0, 0.5, 0.25], 1, &mut terms);
        assert_eq!((sum, terms), (2.0, [1.0, 1.0, 0.0]));
    }
}
