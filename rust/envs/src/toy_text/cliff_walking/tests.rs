//! Compares CliffWalking with episodes recorded from Gymnasium 1.4.0's `CliffWalking-v1` and `CliffWalkingSlippery-v1`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::{Env as _, Space};

const SLIPPERY_EPISODE: [Step<i64, i64, 1>; 12] = [
    (0, [36], -100.0, false),
    (0, [36], -1.0, false),
    (1, [36], -1.0, false),
    (1, [24], -1.0, false),
    (2, [36], -1.0, false),
    (0, [36], -100.0, false),
    (1, [36], -100.0, false),
    (1, [36], -100.0, false),
    (1, [24], -1.0, false),
    (2, [24], -1.0, false),
    (1, [25], -1.0, false),
    (1, [13], -1.0, false),
];

#[test]
fn the_edge_leads_back_and_the_way_around_home() {
    let mut steps = vec![(1, [36], -100.0, false), (3, [36], -1.0, false), (0, [24], -1.0, false)];
    steps.extend((25..36).map(|field| (1, [field], -1.0, false)));
    steps.extend([(1, [35], -1.0, false), (2, [47], -1.0, true)]);
    assert_episode(&mut Grid::cliff_walking(false), 1, [36], &steps);
}

#[test]
fn slips_are_gymnasiums() {
    let mut env = Grid::cliff_walking(true);
    assert_episode(&mut env, 1, [36], &SLIPPERY_EPISODE);
    let mut prob = [0.0];
    env.info(&mut prob);
    assert_eq!(prob, [1.0 / 3.0]);
    env.reset(None, &mut [0]);
    env.info(&mut prob);
    assert_eq!(prob, [1.0]);
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    let env = Grid::cliff_walking(false);
    assert_eq!(env.observation_space(), Space::discrete(48));
    assert_refuses(env, 3, &[&[4], &[-1], &[], &[0, 1]], "integers from 0 to 3");
}

#[test]
fn a_loaded_walk_goes_on() {
    assert_resumes(Grid::cliff_walking(true), Grid::cliff_walking(true), |t| (t % 4) as i64);
}
