//! Compares Pendulum with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("Pendulum-v1")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_lanes, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

const START_42: [f32; 3] = [-0.14995256, 0.9886932, -0.12224312];

const EPISODE: [Step<f32, f32, 3>; 6] = [
    (1.5, [-0.19154312, 0.9814842, 0.8442768], -2.9666752413760165, false),
    (-2.5, [-0.25394195, 0.9672195, 1.2803899], -3.1853200028725417, false),
    (2.0, [-0.3635202, 0.9315863, 2.3058045], -3.5078786703815314, false),
    (0.1, [-0.49949744, 0.86631536, 3.0194943], -4.3063114147526615, false),
    (-0.7, [-0.64515805, 0.7640492, 3.5642307], -5.296285361085659, false),
    (0.0, [-0.78833216, 0.6152498, 4.1372676], -6.432478214009863, false),
];

const WEAKER_GRAVITY: [Step<f32, f32, 3>; 2] = [
    (1.5, [-0.19085166, 0.9816189, 0.8301879], -2.9666752413760165, false),
    (-2.5, [-0.25190708, 0.96775144, 1.252414], -3.1804767497237547, false),
];

/// Returns an environment in this state.
fn turning(angle: f64, velocity: f64) -> Pendulum {
    let mut env = Pendulum::default();
    env.reset(Some(0), &mut [0.0; 3]);
    Pendulum { angle, velocity, sine: angle.sin(), ..env }
}

#[test]
fn episodes_are_gymnasiums() {
    assert_episode(&mut Pendulum::default(), 42, START_42, &EPISODE);
    assert_episode(&mut Pendulum::new(9.81), 42, START_42, &WEAKER_GRAVITY);
}

#[test]
fn angles_are_normalized() {
    for (angle, want) in
        [(0.0, 0.0), (3.0, 3.0), (PI, -PI), (-PI, -PI), (-3.5, 2.0 * PI - 3.5), (20.0, 20.0 - 6.0 * PI)]
    {
        assert!((normalized(angle) - want).abs() < 1e-14, "{angle}: got {}", normalized(angle));
    }
}

#[test]
fn the_cost_is_that_of_the_state_before_the_step() {
    let reward = turning(PI / 2.0, 2.0).step(&[-9.0], &mut [0.0; 3]).reward;
    // The torque is clipped to -2.
    assert!((reward + (PI * PI / 4.0 + 0.4 + 0.004)).abs() < 1e-9, "{reward}");
}

#[test]
fn velocities_have_limits_and_episodes_no_end() {
    let (mut env, mut observation) = (turning(PI / 2.0, 7.9), [0.0; 3]);
    assert!(!env.step(&[2.0], &mut observation).terminated);
    assert_eq!((env.velocity, observation[2]), (8.0, 8.0));
    assert_eq!(env.angle, PI / 2.0 + 8.0 * 0.05);
    let (mut env, mut observation) = (turning(-PI / 2.0, -7.9), [0.0; 3]);
    env.step(&[-2.0], &mut observation);
    assert_eq!(observation[2], -8.0);
}

#[test]
fn steps_need_an_episode_and_a_finite_torque() {
    let illegal: [&[f32]; 4] = [&[f32::NAN], &[f32::NEG_INFINITY], &[], &[0.0, 0.0]];
    assert_refuses(Pendulum::default(), 1e30, &illegal, "float32 arrays of shape [1] within their bounds");
}

#[test]
fn a_loaded_episode_goes_on() {
    let env = || TimeLimit::new(Pendulum::default(), 77);
    assert_resumes(env(), env(), |t| (t % 9) as f32 / 2.0 - 2.0);
}

#[test]
fn side_by_side_they_move_as_alone() {
    assert_lanes(|| TimeLimit::new(Pendulum::default(), 90), |generator| generator.uniform(-2.5, 2.5) as f32);
    // Angles of many turns.
    assert_lanes(|| Pendulum::new(0.5), |_| 2.0);
}
