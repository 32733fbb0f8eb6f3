//! The policy does in Rust what it learned in Python.

use rlfast_core::nn::{Observations, Policy};
use rlfast_envs::Env as _;
use rlfast_envs::classic::CartPole;
use rlfast_envs::wrapper::TimeLimit;

#[test]
fn the_pole_stands_for_whole_episodes() {
    let policy = Policy::open(concat!(env!("CARGO_MANIFEST_DIR"), "/cartpole.rlfast").as_ref()).unwrap();
    let (mut env, mut obs, mut action) = (TimeLimit::new(CartPole::default(), 500), [0.0; 4], [0]);
    let mut lengths = Vec::new();
    for seed in 0..20 {
        env.reset(Some(seed), &mut obs);
        for step in 1.. {
            policy.choose(Observations::Singles(&obs), &mut [], None, &mut action).unwrap();
            let outcome = env.step(&action, &mut obs);
            if outcome.terminated || outcome.truncated {
                lengths.push(step);
                break;
            }
        }
    }
    assert!(lengths.iter().sum::<i32>() > 20 * 450, "{lengths:?}");
}
