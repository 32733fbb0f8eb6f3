//! Assertions for the tests of all environments.

use crate::vector::{Autoreset, Output, Vector};
use crate::{Element, Env, Generator, LANES, StepError};

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

/// The results of a step: observations, rewards, `terminated`, `truncated`, and the rows that were reset or ended.
type Stepped<O> = (Vec<O>, Vec<f64>, Vec<u8>, Vec<u8>, [Vec<usize>; 2]);

fn stepped<E: Env>(vector: &mut Vector<E>, elements: usize, actions: &[E::Action]) -> Stepped<E::Observation> {
    let rows = actions.len();
    let (mut rew, mut ends, mut cuts) = (vec![0.0; rows], vec![0; rows], vec![0; rows]);
    let mut obs = vec![E::Observation::default(); elements * rows];
    let output = Output { obs: &mut obs[..], rew: &mut rew, terminated: &mut ends, truncated: &mut cuts };
    vector.step(None, actions, output).expect("all may step");
    let events = vector.events();
    (obs, rew, ends, cuts, [events.resets.clone(), events.ended.clone()])
}

/// Asserts that [`Env::step_lanes`] gives the same bits as [`Env::step`], for five hundred steps and over resets.
pub fn assert_lanes<E: Env + Clone>(make: impl Fn() -> E, action: impl Fn(&mut Generator) -> E::Action) {
    let (mut generator, elements) = (Generator::new(3), make().observation_space().len());
    assert!(E::has_lanes(), "the environments have lanes");
    // Numbers of environments that are no multiple of LANES, so that some lanes are left over.
    for (autoreset, envs) in [(Autoreset::NextStep, LANES + 21), (Autoreset::SameStep, LANES + 3)] {
        let vector = |count| Vector::new(vec![make(); count], autoreset);
        let (mut together, mut alone) = (vector(envs), (0..envs).map(|_| vector(1)).collect::<Vec<_>>());
        let seeds: Vec<_> = (0..envs as u64).map(Some).collect();
        let mut first = vec![E::Observation::default(); elements * envs];
        together.reset(None, &seeds, None, &mut first).expect("there are so many");
        for (one, &seed) in alone.iter_mut().zip(&seeds) {
            one.reset(None, &[seed], None, &mut first[..elements]).expect("there is one");
        }
        for _ in 0..500 {
            let actions: Vec<_> = (0..envs).map(|_| action(&mut generator)).collect();
            let (obs, rew, ends, cuts, events) = stepped(&mut together, elements, &actions);
            for (k, one) in alone.iter_mut().enumerate() {
                let (own_obs, own_rew, own_ends, own_cuts, own) = stepped(one, elements, &actions[k..=k]);
                assert_eq!(obs[elements * k..][..elements], own_obs);
                assert_eq!((rew[k], ends[k], cuts[k]), (own_rew[0], own_ends[0], own_cuts[0]));
                assert_eq!([0, 1].map(|kind| events[kind].contains(&k)), own.map(|rows| rows == [0]));
                assert_eq!(together.save(k), one.save(0));
            }
            assert!(events.iter().all(|rows| rows.is_sorted()), "rows rise: {events:?}");
        }
    }
}
