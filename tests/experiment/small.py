"""Settings of runs that take a second or two, for tests that do not need them to learn."""

SMALL = {"num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "hidden_sizes": (8,), "batch_size": 8, "progress": False}
ROLLOUTS = SMALL | {"max_steps": 128, "eval_interval": 64, "collect_steps": 32, "repeat": 2}
REPLAY = SMALL | {
    "max_steps": 200,
    "eval_interval": 80,
    "collect_steps": 8,
    "start_steps": 20,
    "updates_per_step": 0.25,
}
