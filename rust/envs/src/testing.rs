//! Assertions for the tests of all environments.

use crate::{Element, Env, StepError};

/// Numbers that are compared with Gymnasium's, from which they may differ in the last bit of a sine.
pub trait Close: Element {
    /// Returns whether `self` and `other` differ by no more than that.
    fn close(self, other: Self) -> bool;
}

impl Close for f32 {
    fn close(self, other: Self) -> bool {
        (self - other).abs() <= 1e-6 * (1.0 + other.abs())
    }
}

impl Close for i64 {
    fn close(self, other: Self) -> bool {
        self == other
    }
}

/// An action; observation, reward and `terminated` after it.
pub type Step<A, O, const N: usize> = (A, [O; N], f64, bool);

/// Asserts that an episode with `seed` equals Gymnasium's: its first observation to the bit, and every step.
pub fn assert_episode<E, O: Close, const N: usize>(
    env: &mut E,
    seed: u64,
    start: [O; N],
    steps: &[Step<E::Action, O, N>],
) where
    E: Env<Observation = O>,
{
    let mut observation = [O::default(); N];
    env.reset(Some(seed), &mut observation);
    assert_eq!(observation, start, "seed {seed}");
    for (t, &(action, want, reward, terminated)) in steps.iter().enumerate() {
        assert_eq!(env.check(&[action]), Ok(()), "step {t}");
        let outcome = env.step(&[action], &mut observation);
        let close = observation.iter().zip(want).all(|(got, want)| got.close(want));
        assert!(close, "step {t}: got {observation:?}, want {want:?}");
        assert!((outcome.reward - reward).abs() <= 1e-12 * (1.0 + reward.abs()), "step {t}: got {outcome:?}");
        assert_eq!((outcome.terminated, outcome.truncated), (terminated, false), "step {t}");
        assert_eq!(env.check(&[action]).is_err(), terminated, "step {t}");
    }
}

/// Asserts that an environment that loads the state of `env` continues as `env` does, for a thousand steps and over
/// resets.
pub fn assert_resumes<E: Env>(mut env: E, mut other: E, action: impl Fn(usize) -> E::Action) {
    let infos = env.info_fields().iter().map(|field| field.len()).sum();
    let mut ours = (vec![E::Observation::default(); env.observation_space().len()], vec![0.0; infos]);
    let mut theirs = ours.clone();
    let step = |env: &mut E, t: usize, row: &mut (Vec<E::Observation>, Vec<f64>)| {
        let action = [action(t)];
        let outcome = match env.check(&action) {
            Ok(()) => Some(env.step(&action, &mut row.0)),
            Err(error) => {
                assert_eq!(error, StepError::NeedsReset);
                env.reset(None, &mut row.0);
                None
            }
        };
        env.info(&mut row.1);
        outcome
    };

    env.reset(Some(3), &mut ours.0);
    other.reset(Some(4), &mut theirs.0);
    for t in 0..100 {
        step(&mut env, t, &mut ours);
    }
    let mut bytes = Vec::new();
    env.save(&mut bytes);
    for length in 0..bytes.len() {
        assert!(other.load(&mut &bytes[..length]).is_err(), "{length} bytes");
    }
    let mut from = bytes.as_slice();
    other.load(&mut from).expect("these bytes were saved");
    assert!(from.is_empty());
    for t in 100..1100 {
        assert_eq!(step(&mut env, t, &mut ours), step(&mut other, t, &mut theirs), "step {t}");
        assert_eq!(ours, theirs, "step {t}");
    }
}

/// Asserts that an environment refuses any action before a reset, and each of `illegal` after it, with `wanted` as the
/// name of the space in the error.
pub fn assert_refuses<E: Env>(mut env: E, legal: E::Action, illegal: &[&[E::Action]], wanted: &str) {
    let mut observation = vec![E::Observation::default(); env.observation_space().len()];
    assert_eq!(env.check(&[legal]), Err(StepError::NeedsReset));
    env.reset(Some(0), &mut observation);
    assert_eq!(env.check(&[legal]), Ok(()));
    for action in illegal {
        let error = env.check(action).expect_err("an illegal action");
        assert_eq!(error.to_string(), format!("action {action:?} is not among the {wanted}"));
    }
}
