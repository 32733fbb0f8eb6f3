//! Compares MountainCar with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("MountainCar-v0")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

const EPISODE: [Step<i64, f32, 2>; 6] = [
    (0, [-0.44679132, -0.0015825207], -1.0, false),
    (0, [-0.4499448, -0.0031534927], -1.0, false),
    (1, [-0.4536462, -0.0037014133], -1.0, false),
    (2, [-0.45686844, -0.003222215], -1.0, false),
    (2, [-0.45958778, -0.0027193564], -1.0, false),
    (0, [-0.46378428, -0.0041964934], -1.0, false),
];

/// Returns an environment in a running episode.
fn driving(goal_velocity: f64, position: f64, velocity: f64) -> MountainCar {
    let mut env = MountainCar::new(goal_velocity);
    env.reset(Some(0), &mut [0.0; 2]);
    MountainCar { position, velocity, ..env }
}

#[test]
fn episodes_are_gymnasiums() {
    assert_episode(&mut MountainCar::default(), 42, [-0.4452088, 0.0], &EPISODE);
}

#[test]
fn the_left_wall_stops_the_car() {
    let (mut env, mut observation) = (driving(0.0, -1.19, -0.05), [0.0; 2]);
    env.step(&[0], &mut observation);
    assert_eq!((env.position, env.velocity, observation), (-1.2, 0.0, [-1.2, 0.0]));
}

#[test]
fn speed_and_position_have_limits() {
    let (mut env, mut observation) = (driving(1.0, 0.4, 0.07), [0.0; 2]);
    for position in [0.47000000000000003, 0.54, 0.6, 0.6] {
        env.step(&[2], &mut observation);
        assert_eq!((env.position, env.velocity), (position, 0.07));
    }
    assert!(env.observation_space().contains(&[0.6, 0.07]) && !env.observation_space().contains(&[0.61, 0.0]));
}

#[test]
fn the_goal_must_be_reached_fast_enough() {
    for (goal_velocity, terminated) in [(0.0, true), (0.04, true), (0.06, false)] {
        let mut env = driving(goal_velocity, 0.49, 0.05);
        assert_eq!(env.step(&[2], &mut [0.0; 2]), Outcome { reward: -1.0, terminated, truncated: false });
        assert_eq!(env.check(&[0]).is_err(), terminated);
    }
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(MountainCar::default(), 2, &[&[3], &[-1], &[], &[0, 1]], "integers from 0 to 2");
}

#[test]
fn a_loaded_episode_goes_on() {
    let env = || TimeLimit::new(MountainCar::default(), 200);
    assert_resumes(env(), env(), |t| (t / 20 % 2 * 2) as i64);
}
