//! Compares Acrobot with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("Acrobot-v1")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

const START_42: [f32; 6] = [0.99849933, 0.054763798, 0.99992526, -0.012224007, 0.07171959, 0.039473604];

const EPISODE: [Step<i64, f32, 6>; 6] = [
    (0, [0.9971902, 0.07491124, 0.99948347, -0.032137487, 0.12536131, -0.23186578], -1.0, false),
    (2, [0.99713016, 0.07570599, 0.9994999, -0.03162219, -0.11719835, 0.23643948], -1.0, false),
    (1, [0.9990394, 0.043820456, 0.9997244, 0.023475667, -0.1939834, 0.30007595], -1.0, false),
    (0, [0.99988145, 0.0153966425, 0.99887294, 0.047464207, -0.08408137, -0.06812772], -1.0, false),
    (2, [0.99988663, -0.01505866, 0.997915, 0.0645414, -0.21357666, 0.23111893], -1.0, false),
    (2, [0.99782735, -0.06588311, 0.99103665, 0.13359027, -0.28250143, 0.44273213], -1.0, false),
];

/// Returns an environment in the state `motion`.
fn swinging(motion: Motion) -> Acrobot {
    let mut env = Acrobot::new();
    env.reset(Some(0), &mut [0.0; 6]);
    Acrobot { motion, ..env }
}

#[test]
fn episodes_are_gymnasiums() {
    assert_episode(&mut Acrobot::new(), 42, START_42, &EPISODE);
}

#[test]
fn hanging_still_it_hangs_on() {
    let (mut env, mut observation) = (swinging([0.0; 4]), [0.0; 6]);
    env.step(&[1], &mut observation);
    for (got, want) in observation.into_iter().zip([1.0, 0.0, 1.0, 0.0, 0.0, 0.0]) {
        assert!((got - want).abs() < 1e-12, "{observation:?}");
    }
}

#[test]
fn the_end_above_the_line_ends_the_episode() {
    let mut env = swinging([PI, 0.0, 0.0, 0.0]);
    assert!(env.is_terminal());
    assert_eq!(env.step(&[1], &mut [0.0; 6]), Outcome { reward: 0.0, terminated: true, truncated: false });
    assert_eq!(env.check(&[1]), Err(StepError::NeedsReset));
    assert!(!swinging([PI / 2.0, 0.0, 0.0, 0.0]).is_terminal());
}

#[test]
fn angles_wrap_and_velocities_have_limits() {
    assert_eq!([wrapped(PI), wrapped(-PI), wrapped(7.0), wrapped(-4.0)], [PI, -PI, 7.0 - 2.0 * PI, 2.0 * PI - 4.0]);
    let mut env = swinging([3.0, 3.0, SPEED_LIMITS[0], SPEED_LIMITS[1]]);
    let space = env.observation_space();
    for t in 0..200 {
        let mut observation = [0.0; 6];
        env.step(&[t % 3], &mut observation);
        assert!(env.motion[..2].iter().all(|angle| angle.abs() <= PI));
        assert!(space.contains(&env.write_doubles()), "{:?}", env.motion);
    }
}

impl Acrobot {
    /// Returns an observation before it is rounded to single precision.
    fn write_doubles(&self) -> [f64; 6] {
        let [first, second, spin_first, spin_second] = self.motion;
        [first.cos(), first.sin(), second.cos(), second.sin(), spin_first, spin_second]
    }
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(Acrobot::default(), 2, &[&[3], &[-1], &[], &[0, 1]], "integers from 0 to 2");
}

#[test]
fn a_loaded_episode_goes_on() {
    let env = || TimeLimit::new(Acrobot::new(), 60);
    assert_resumes(env(), env(), |t| (t / 5 % 2 * 2) as i64);
}

#[test]
fn angles_that_no_step_leads_to_are_not_loaded() {
    for value in [f64::NAN, f64::INFINITY, 1e300] {
        let mut bytes = Vec::new();
        swinging([value, 0.0, 0.0, 0.0]).save(&mut bytes);
        assert!(matches!(Acrobot::new().load(&mut bytes.as_slice()), Err(LoadError::Invalid(_))), "{value}");
    }
}
