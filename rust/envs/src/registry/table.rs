//! The table of environments: one entry for each id, with Gymnasium's time limit and default arguments.

use super::{Arguments, Build, Entry, Made, RegistryError};
use crate::arcade::Catch;
use crate::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use crate::toy_text::{Blackjack, FrozenLake, Grid, LAKE_4X4, LAKE_8X8, Rules, Taxi};

pub(super) const ENTRIES: &[Entry] = &[
    entry("CartPole-v0", Some(200), cart_pole),
    entry("CartPole-v1", Some(500), cart_pole),
    entry("MountainCar-v0", Some(200), |arguments, build| {
        build.vector(MountainCar::new(arguments.take("goal_velocity", 0.0)?))
    }),
    entry("MountainCarContinuous-v0", Some(999), |arguments, build| {
        build.vector(MountainCarContinuous::new(arguments.take("goal_velocity", 0.0)?))
    }),
    entry("Pendulum-v1", Some(200), |arguments, build| build.vector(Pendulum::new(arguments.take("g", 10.0)?))),
    entry("Acrobot-v1", Some(500), |_, build| build.vector(Acrobot::new())),
    entry("Blackjack-v1", None, blackjack),
    entry("FrozenLake-v1", Some(100), |arguments, build| frozen_lake(arguments, build, "4x4")),
    entry("FrozenLake8x8-v1", Some(200), |arguments, build| frozen_lake(arguments, build, "8x8")),
    // The id before Gymnasium 1.2, which has no slippery ground.
    entry("CliffWalking-v0", None, |_, build| build.vector(Grid::cliff_walking(false))),
    entry("CliffWalking-v1", None, |arguments, build| cliff_walking(arguments, build, false)),
    entry("CliffWalkingSlippery-v1", None, |arguments, build| cliff_walking(arguments, build, true)),
    // The id before Gymnasium 1.3. Rain and fickle passengers are not supported, as Gymnasium's implementation of them
    // had faults.
    entry("Taxi-v3", Some(200), |_, build| refusing(Taxi::new(None, None)).and_then(|env| build.vector(env))),
    entry("Taxi-v4", Some(200), taxi),
    entry("Catch-v0", None, |_, build| build.vector(Catch::new())),
];

const fn entry(id: &'static str, max_episode_steps: Option<u64>, make: fn(&mut Arguments, &Build) -> Made) -> Entry {
    Entry { id, max_episode_steps, make }
}

fn refusing<T>(built: Result<T, String>) -> Result<T, RegistryError> {
    built.map_err(RegistryError::Refused)
}

fn cart_pole(arguments: &mut Arguments, build: &Build) -> Made {
    build.vector(CartPole::new(arguments.take("sutton_barto_reward", false)?))
}

fn blackjack(arguments: &mut Arguments, build: &Build) -> Made {
    let rules = match (arguments.take("sab", true)?, arguments.take("natural", false)?) {
        (true, _) => Rules::SuttonBarto,
        (false, true) => Rules::Natural,
        (false, false) => Rules::Plain,
    };
    build.vector(Blackjack::new(rules))
}

/// The error for a random map, which would be different in every environment, whatever the seed.
const RANDOM_MAP: &str = "map_name=None asks for a random map, which no seed decides: give one as \
    desc=gymnasium.envs.toy_text.frozen_lake.generate_random_map(size, seed=...)";

fn frozen_lake(arguments: &mut Arguments, build: &Build, map_name: &str) -> Made {
    let map_name = arguments.take("map_name", Some(map_name.to_owned()))?;
    let map = match (arguments.take("desc", None::<Vec<String>>)?, map_name.as_deref()) {
        (Some(map), _) => map,
        (None, Some("4x4")) => LAKE_4X4.map(String::from).into(),
        (None, Some("8x8")) => LAKE_8X8.map(String::from).into(),
        (None, Some(name)) => return refusing(Err(format!("map_name must be 4x4 or 8x8, got {name}"))),
        (None, None) => return refusing(Err(RANDOM_MAP.to_owned())),
    };
    let success_rate = arguments.take("success_rate", 1.0 / 3.0)?;
    let success_rate = arguments.take("is_slippery", true)?.then_some(success_rate);
    let rewards = arguments.take("reward_schedule", [1.0, 0.0, 0.0])?;
    build.vector(refusing(FrozenLake { map, success_rate, rewards }.build())?)
}

fn cliff_walking(arguments: &mut Arguments, build: &Build, slippery: bool) -> Made {
    build.vector(Grid::cliff_walking(arguments.take("is_slippery", slippery)?))
}

fn taxi(arguments: &mut Arguments, build: &Build) -> Made {
    let rain = arguments.take("rainy_probability", 0.8)?;
    let rain = arguments.take("is_rainy", false)?.then_some(rain);
    let fickle = arguments.take("fickle_probability", 0.3)?;
    let fickle = arguments.take("fickle_passenger", false)?.then_some(fickle);
    build.vector(refusing(Taxi::new(rain, fickle))?)
}
