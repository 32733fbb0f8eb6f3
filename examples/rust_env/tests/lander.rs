//! What a user would test of an environment.

use rlfast_envs::vector::{Autoreset, Output, Vector};
use rlfast_envs::wrapper::TimeLimit;
use rlfast_envs::{Env as _, LoadError, Outcome, StepError};
use rust_env::Lander;

/// Lands gently: brakes as soon as the speed is more than the height allows.
fn pilot(observation: [f32; 2]) -> i64 {
    let [altitude, velocity] = observation;
    i64::from(velocity * velocity > 3.0 * altitude && velocity < -0.5)
}

#[test]
fn a_craft_that_only_falls_crashes() {
    let (mut env, mut observation) = (Lander::new(), [0.0; 2]);
    env.reset(Some(1), &mut observation);
    assert!((20.0..30.0).contains(&observation[0]) && observation[1] == 0.0);
    let first = env.step(&[0], &mut observation);
    assert_eq!(first, Outcome { reward: 0.0, terminated: false, truncated: false });
    assert!((observation[1] + 0.16).abs() < 1e-6);
    let last = loop {
        let outcome = env.step(&[0], &mut observation);
        if outcome.terminated {
            break outcome;
        }
    };
    assert_eq!((last.reward, observation[0]), (-1.0, 0.0));
    assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
}

#[test]
fn a_craft_that_brakes_lands_from_every_height() {
    let (mut env, mut observation, mut fuel) = (Lander::new(), [0.0; 2], [0.0]);
    for seed in 0..100 {
        env.reset(Some(seed), &mut observation);
        let mut earned = 0.0;
        while env.check(&[0]).is_ok() {
            earned += env.step(&[pilot(observation)], &mut observation).reward;
        }
        env.info(&mut fuel);
        let burns = 60.0 - fuel[0];
        assert!((earned - (1.0 - 0.01 * burns)).abs() < 1e-9 && burns > 0.0, "seed {seed}: earned {earned}");
    }
}

#[test]
fn an_empty_tank_does_not_burn() {
    let (mut env, mut observation, mut fuel) = (Lander::new(), [0.0; 2], [0.0]);
    env.reset(Some(1), &mut observation);
    let earned: f64 = (0..61).map(|_| env.step(&[1], &mut observation).reward).sum();
    env.info(&mut fuel);
    assert_eq!(fuel, [0.0]);
    assert!((earned + 0.6).abs() < 1e-9);
}

#[test]
fn wrappers_work_on_it() {
    let (mut env, mut observation) = (TimeLimit::new(Lander::new(), 3), [0.0; 2]);
    env.reset(Some(1), &mut observation);
    let truncated = [1, 0, 1].map(|action| env.step(&[action], &mut observation).truncated);
    assert_eq!(truncated, [false, false, true]);
}

#[test]
fn many_fly_at_once_as_each_would_alone() {
    let (mut env, mut alone) = (Lander::new(), [0.0; 2]);
    let mut vector = Vector::new(vec![Lander::new(); 3], Autoreset::Disabled);
    let (mut obs, mut rew, mut terminated, mut truncated) = ([0.0; 6], [0.0; 3], [0; 3], [0; 3]);
    vector.reset(None, &[Some(1), Some(2), Some(3)], None, &mut obs).expect("there are three");
    env.reset(Some(3), &mut alone);
    for t in 0..20 {
        let action = i64::from(t % 3 == 0);
        let output =
            Output { obs: &mut obs[..], rew: &mut rew, terminated: &mut terminated, truncated: &mut truncated };
        vector.step(None, &[1, 0, action], output).expect("all are flying");
        let outcome = env.step(&[action], &mut alone);
        assert_eq!((&obs[4..], rew[2], terminated[2]), (&alone[..], outcome.reward, 0));
    }
}

#[test]
fn a_saved_flight_goes_on() {
    let (mut env, mut observation) = (Lander::new(), [0.0; 2]);
    env.reset(Some(1), &mut observation);
    env.step(&[1], &mut observation);
    let mut bytes = Vec::new();
    env.save(&mut bytes);
    let (mut other, mut same) = (Lander::new(), [0.0; 2]);
    assert_eq!(other.load(&mut &bytes[..7]), Err(LoadError::Short));
    assert_eq!(other.load(&mut bytes.as_slice()), Ok(()));
    assert_eq!(other.step(&[0], &mut same), env.step(&[0], &mut observation));
    assert_eq!(same, observation);
}

#[test]
fn bad_actions_are_refused() {
    let (mut env, mut observation) = (Lander::new(), [0.0; 2]);
    env.reset(None, &mut observation);
    let error = env.check(&[2]).expect_err("2 is no action");
    assert_eq!(error.to_string(), "action [2] is not among the integers from 0 to 1");
}
