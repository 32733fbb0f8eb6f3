//! Compares FrozenLake with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("FrozenLake-v1")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;
use crate::{Env as _, LoadError};

const SLIPPERY_EPISODE: [Step<i64, i64, 1>; 9] = [
    (2, [1], 0.0, false),
    (2, [1], 0.0, false),
    (1, [2], 0.0, false),
    (1, [1], 0.0, false),
    (1, [2], 0.0, false),
    (2, [2], 0.0, false),
    (2, [2], 0.0, false),
    (1, [1], 0.0, false),
    (1, [5], 0.0, true),
];

/// An episode on the larger map with `success_rate=0.7, reward_schedule=(3, -3, 0.125)`, and each step's `prob`.
const LARGE_EPISODE: [(i64, i64, f64, f64); 8] = [
    (2, 0, 0.125, 0.15000000000000002),
    (2, 1, 0.125, 0.7),
    (1, 9, 0.125, 0.7),
    (1, 17, 0.125, 0.7),
    (1, 18, 0.125, 0.15000000000000002),
    (2, 26, 0.125, 0.15000000000000002),
    (2, 27, 0.125, 0.7),
    (1, 35, -3.0, 0.7),
];

fn lake(success_rate: Option<f64>) -> Grid {
    FrozenLake { success_rate, ..FrozenLake::default() }.build().expect("the map is Gymnasium's")
}

fn rows(rows: &[&str]) -> Vec<String> {
    rows.iter().copied().map(String::from).collect()
}

#[test]
fn slips_are_gymnasiums() {
    assert_episode(&mut lake(Some(1.0 / 3.0)), 42, [0], &SLIPPERY_EPISODE);
}

#[test]
fn rates_rewards_and_probabilities_are_gymnasiums() {
    let large = FrozenLake { map: rows(&LAKE_8X8), success_rate: Some(0.7), rewards: [3.0, -3.0, 0.125] };
    let mut env = large.build().expect("the map is Gymnasium's");
    let (mut observation, mut prob) = ([9], [9.0]);
    env.reset(Some(7), &mut observation);
    env.info(&mut prob);
    assert_eq!((observation, prob), ([0], [1.0]));
    for (action, field, reward, probability) in LARGE_EPISODE {
        let outcome = env.step(&[action], &mut observation);
        env.info(&mut prob);
        assert_eq!((observation, outcome.reward, prob), ([field], reward, [probability]));
        assert_eq!(outcome.terminated, field == 35);
    }
}

#[test]
fn firm_ice_leads_to_the_goal_and_holes() {
    let way = [(2, 1), (2, 2), (1, 6), (1, 10), (1, 14)].map(|(action, field)| (action, [field], 0.0, false));
    let mut steps = way.to_vec();
    steps.push((2, [15], 1.0, true));
    assert_episode(&mut lake(None), 0, [0], &steps);
    let edges = [(0, [0], 0.0, false), (3, [0], 0.0, false), (1, [4], 0.0, false), (2, [5], 0.0, true)];
    assert_episode(&mut lake(None), 0, [0], &edges);
}

#[test]
fn a_map_may_have_several_starts_and_any_shape() {
    let map = FrozenLake { map: rows(&["SSG"]), success_rate: None, ..FrozenLake::default() };
    let mut env = map.build().expect("the map is sound");
    let mut counts = [0; 3];
    for _ in 0..1000 {
        let mut observation = [0];
        env.reset(None, &mut observation);
        counts[observation[0] as usize] += 1;
    }
    assert!(counts[2] == 0 && counts[0] > 400 && counts[1] > 400, "{counts:?}");
}

#[test]
fn bad_lakes_are_refused() {
    for (map, rate, message) in [
        (&[][..], None, "a map needs rows of letters, all equally long; got []"),
        (&["SF", "G"], None, "a map needs rows of letters, all equally long; got [\"SF\", \"G\"]"),
        (&["FG"], None, "a map needs an S to start from; got [\"FG\"]"),
        (&["SG"], Some(1.5), "success_rate is a probability, from 0 to 1; got 1.5"),
    ] {
        let lake = FrozenLake { map: rows(map), success_rate: rate, ..FrozenLake::default() };
        assert_eq!(lake.build().expect_err("a bad lake"), message);
    }
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(lake(None), 3, &[&[4], &[-1], &[], &[0, 1]], "integers from 0 to 3");
}

#[test]
fn a_loaded_walk_goes_on_and_stays_on_the_lake() {
    let env = || TimeLimit::new(lake(Some(0.5)), 100);
    assert_resumes(env(), env(), |t| (t % 3) as i64);
    let mut bytes = Vec::new();
    let mut large =
        FrozenLake { map: rows(&["FFFFFFFFFFFFFFFFS"]), ..FrozenLake::default() }.build().expect("it is sound");
    large.reset(None, &mut [0]);
    large.save(&mut bytes);
    assert!(matches!(lake(None).load(&mut bytes.as_slice()), Err(LoadError::Invalid(_))));
}
