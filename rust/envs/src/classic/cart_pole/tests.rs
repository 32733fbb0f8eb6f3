//! Compares CartPole with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("CartPole-v1")`.

use super::*;
use crate::testing::{Close as _, assert_lanes, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

type CartPoleV1 = TimeLimit<CartPole>;

fn cart_pole_v1() -> CartPoleV1 {
    TimeLimit::new(CartPole::default(), 500)
}

/// Seed and first observation.
const STARTS: [(u64, [f32; 4]); 4] = [
    (0, [0.013696169, -0.02302133, -0.045902647, -0.048347235]),
    (1, [0.0011821624, 0.04504637, -0.03558404, 0.044864945]),
    (42, [0.027395604, -0.006112156, 0.035859793, 0.019736802]),
    (123456789, [-0.047228727, 0.040670004, 0.038139354, 0.012489728]),
];

/// Every observation after a reset with seed 42 and the actions `t * 7 % 3 % 2`; the episode terminates with the last
/// one.
const EPISODE: [[f32; 4]; 13] = [
    [0.027273363, -0.20172954, 0.03625453, 0.32351476],
    [0.02323877, -0.007142078, 0.04272482, 0.042481862],
    [0.02309593, -0.20284982, 0.04357446, 0.34833285],
    [0.019038932, -0.39856356, 0.050541118, 0.65443164],
    [0.011067661, -0.20418042, 0.063629754, 0.378082],
    [0.006984053, -0.4001456, 0.07119139, 0.69012946],
    [-0.0010188587, -0.5961795, 0.08499398, 1.004348],
    [-0.012942448, -0.4022893, 0.10508094, 0.7395208],
    [-0.020988233, -0.59869313, 0.119871356, 1.0633384],
    [-0.032962095, -0.79518026, 0.14113812, 1.3911121],
    [-0.048865702, -0.6020697, 0.16896036, 1.1456834],
    [-0.060907096, -0.79894626, 0.19187403, 1.4862313],
    [-0.07688602, -0.9958181, 0.22159865, 1.8321853],
];

/// The first observation of the next episode, without a new seed.
const NEXT_START: [f32; 4] = [-0.040582266, 0.047562234, 0.02611397, 0.02860643];

/// The observation after 500 steps from seed 7 under [`balance`].
const BALANCED: [f32; 4] = [0.41288182, 0.03844851, 0.004131067, 0.0006102076];

/// Pushes the cart to the side to which the pole falls.
fn balance(observation: [f32; 4]) -> i64 {
    i64::from(observation[2] + observation[3] > 0.0)
}

#[test]
fn resets_are_gymnasiums() {
    let (mut env, mut observation) = (cart_pole_v1(), [0.0; 4]);
    for (seed, want) in STARTS {
        env.reset(Some(seed), &mut observation);
        assert_eq!(observation, want, "seed {seed}");
    }
}

#[test]
fn episodes_are_gymnasiums() {
    let (mut env, mut observation) = (cart_pole_v1(), [0.0; 4]);
    env.reset(Some(42), &mut observation);
    for (t, want) in EPISODE.into_iter().enumerate() {
        let outcome = env.step(&[t as i64 * 7 % 3 % 2], &mut observation);
        assert!(
            observation.into_iter().zip(want).all(|(got, want)| got.close(want)),
            "got {observation:?}, want {want:?}"
        );
        assert_eq!(outcome, Outcome { reward: 1.0, terminated: t + 1 == EPISODE.len(), truncated: false });
    }
    assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
    env.reset(None, &mut observation);
    assert_eq!(observation, NEXT_START);
}

#[test]
fn a_balanced_pole_is_truncated_after_500_steps() {
    let (mut env, mut observation) = (cart_pole_v1(), [0.0; 4]);
    env.reset(Some(7), &mut observation);
    for t in 1..=500 {
        let outcome = env.step(&[balance(observation)], &mut observation);
        assert_eq!((outcome.terminated, outcome.truncated), (false, t == 500), "step {t}");
    }
    for (got, want) in observation.into_iter().zip(BALANCED) {
        assert!((got - want).abs() < 1e-3, "got {got}, want {want}");
    }
    assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
}

#[test]
fn observations_lie_in_their_space_to_the_last() {
    let (mut env, mut observation) = (cart_pole_v1(), [0.0; 4]);
    let space = env.observation_space();
    for seed in 0..50 {
        env.reset(Some(seed), &mut observation);
        loop {
            let outcome = env.step(&[i64::from(seed % 2 == 0)], &mut observation);
            assert!(space.contains(&observation.map(f64::from)));
            if outcome.terminated {
                break;
            }
        }
    }
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(CartPole::default(), 1, &[&[2], &[-1], &[], &[0, 1]], "integers from 0 to 1");
}

#[test]
fn sutton_and_bartos_reward_is_the_fall() {
    let (mut env, mut observation) = (CartPole::new(true), [0.0; 4]);
    env.reset(Some(42), &mut observation);
    let rewards: Vec<f64> =
        (0..EPISODE.len() as i64).map(|t| env.step(&[t * 7 % 3 % 2], &mut observation).reward).collect();
    assert_eq!(rewards[..12], [0.0; 12]);
    assert_eq!(rewards[12..], [-1.0]);
}

#[test]
fn a_loaded_episode_goes_on() {
    assert_resumes(cart_pole_v1(), cart_pole_v1(), |t| (t * 5 % 7 % 2) as i64);
}

#[test]
fn side_by_side_they_move_as_alone() {
    assert_lanes(|| TimeLimit::new(CartPole::default(), 40), |generator| generator.below(2) as i64);
}
