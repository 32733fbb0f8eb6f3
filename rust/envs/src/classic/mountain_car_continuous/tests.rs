//! Compares MountainCarContinuous with episodes recorded from Gymnasium 1.4.0's
//! `gymnasium.make("MountainCarContinuous-v0")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

const EPISODE: [Step<f32, f32, 2>; 6] = [
    (1.0, [-0.44429132, 0.00091747934], -0.1, false),
    (1.0, [-0.44246304, 0.0018282692], -0.1, false),
    (1.5, [-0.4397373, 0.0027257423], -0.225, false),
    (-1.0, [-0.43913388, 0.00060339505], -0.1, false),
    (-2.0, [-0.44065723, -0.0015233341], -0.4, false),
    (0.3, [-0.44234622, -0.0016889966], -0.009000000715255752, false),
];

/// Returns an environment in a running episode, after its first step.
fn driving(goal_velocity: f64, position: f32, velocity: f32) -> MountainCarContinuous {
    let mut env = MountainCarContinuous::new(goal_velocity);
    env.reset(Some(0), &mut [0.0; 2]);
    MountainCarContinuous { position: position.into(), velocity: velocity.into(), single: true, ..env }
}

#[test]
fn episodes_are_gymnasiums() {
    assert_episode(&mut MountainCarContinuous::default(), 42, [-0.4452088, 0.0], &EPISODE);
}

#[test]
fn the_state_has_single_precision_after_the_first_step() {
    let (mut env, mut observation) = (MountainCarContinuous::default(), [0.0; 2]);
    env.reset(Some(42), &mut observation);
    assert_ne!(env.position, f64::from(observation[0]));
    env.step(&[0.5], &mut observation);
    assert_eq!([env.position, env.velocity], observation.map(f64::from));
}

#[test]
fn the_left_wall_stops_the_car() {
    let mut observation = [0.0; 2];
    driving(0.0, -1.19, -0.05).step(&[-1.0], &mut observation);
    assert_eq!(observation, [-1.2, 0.0]);
}

#[test]
fn speed_and_position_have_limits() {
    let (mut env, mut observation) = (driving(1.0, 0.36, 0.07), [0.0; 2]);
    for position in [0.43, 0.5, 0.57, 0.6, 0.6] {
        env.step(&[1.0], &mut observation);
        assert!((observation[0] - position).abs() < 1e-6 && observation[1] == 0.07, "{observation:?}");
    }
}

#[test]
fn the_goal_pays_once_it_is_reached_fast_enough() {
    for (goal_velocity, action, reward) in [(0.0, 2.0, 99.6), (0.04, -1.0, 99.9), (0.06, 2.0, -0.4)] {
        let mut env = driving(goal_velocity, 0.44, 0.05);
        let outcome = env.step(&[action], &mut [0.0; 2]);
        assert_eq!(outcome, Outcome { reward, terminated: reward > 0.0, truncated: false });
        assert_eq!(env.check(&[0.0]).is_err(), outcome.terminated);
    }
}

#[test]
fn a_limited_velocity_meets_the_goal_in_double_precision() {
    let just_above = 0.07 + 1e-12;
    assert_eq!(just_above as f32, 0.07);
    assert!(!driving(just_above, 0.4, 0.07).step(&[1.0], &mut [0.0; 2]).terminated);
    assert!(driving(0.07, 0.4, 0.07).step(&[1.0], &mut [0.0; 2]).terminated);
}

#[test]
fn steps_need_an_episode_and_a_finite_force() {
    let illegal: [&[f32]; 4] = [&[f32::NAN], &[f32::INFINITY], &[], &[0.0, 0.0]];
    assert_refuses(MountainCarContinuous::default(), -7.0, &illegal, "float32 arrays of shape [1] within their bounds");
}

#[test]
fn a_loaded_episode_goes_on() {
    let env = || TimeLimit::new(MountainCarContinuous::default(), 99);
    assert_resumes(env(), env(), |t| (t % 7) as f32 / 2.0 - 1.5);
}
