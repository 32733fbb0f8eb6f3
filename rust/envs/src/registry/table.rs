//! Which environments there are: one entry for each id, with Gymnasium's time limit and default arguments.

use super::Entry;
use crate::classic::CartPole;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "CartPole-v0",
        max_episode_steps: Some(200),
        make: |arguments, build| Ok(build.vector(CartPole::new(arguments.take("sutton_barto_reward", false)?))),
    },
    Entry {
        id: "CartPole-v1",
        max_episode_steps: Some(500),
        make: |arguments, build| Ok(build.vector(CartPole::new(arguments.take("sutton_barto_reward", false)?))),
    },
];
