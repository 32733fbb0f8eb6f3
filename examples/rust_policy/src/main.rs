//! Balances the pole of CartPole by a policy from `rlfast export`, and prints how long a decision takes.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use rlfast_core::error::Result;
use rlfast_core::nn::{Observations, Policy};
use rlfast_envs::Env as _;
use rlfast_envs::classic::CartPole;
use rlfast_envs::wrapper::TimeLimit;

/// Decisions that are timed.
const DECISIONS: u32 = 1_000_000;

fn main() -> Result<()> {
    let given = std::env::args_os().nth(1);
    let path = given.map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/cartpole.rlfast").into(), PathBuf::from);
    let policy = Policy::open(&path)?;
    let (mut env, mut obs, mut action, mut steps) = (TimeLimit::new(CartPole::default(), 500), [0.0; 4], [0], 0);
    env.reset(Some(0), &mut obs);
    loop {
        policy.choose(Observations::Singles(&obs), &mut [], None, &mut action)?;
        let outcome = env.step(&action, &mut obs);
        steps += 1;
        if outcome.terminated || outcome.truncated {
            break;
        }
    }
    println!("the pole stood for {steps} steps");
    let start = Instant::now();
    for _ in 0..DECISIONS {
        policy.choose(Observations::Singles(black_box(&obs)), &mut [], None, &mut action)?;
    }
    println!("a decision takes {:.0} ns", start.elapsed().as_nanos() as f64 / f64::from(DECISIONS));
    Ok(())
}
