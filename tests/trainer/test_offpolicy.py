import numpy as np
import pytest

from rlfast.trainer import OffpolicyTrainer


def test_every_update_of_a_collect_counts(arguments):
    parts, given = arguments(max_epoch=1, step_per_epoch=8)
    (epoch,) = OffpolicyTrainer(**given)
    # losses 1, 2 after the first collect and 3, 4 after the second
    assert epoch.training_stat.loss == 3.5
    assert epoch.training_stat.alpha is None
    assert epoch.training_stat.train_time == pytest.approx(0.002)
    assert epoch.training_stat.smoothed_loss == {"loss": 2.5}
    logged = parts.logger.of("log_update_data")
    assert [(step, data["loss"]) for step, data in logged] == [(2, 1.5), (4, 3.5)]


def test_random_steps_come_before_the_first_update(arguments):
    parts, given = arguments(start_timesteps=10, test_collector=None, max_epoch=1)
    OffpolicyTrainer(**given).run()
    assert len(parts.policy.seen) == 10  # 20 steps of two environments by the policy, after the random ones
    assert len(parts.train_collector.buffer) == 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_collector": None}, "needs a train_collector"),
        ({"step_per_collect": None}, "one of step_per_collect and episode_per_collect"),
        ({"episode_per_collect": 2}, "got 4 and 2"),
        ({"update_per_step": 0}, "update_per_step must be positive, or nothing is learned, got 0"),
        ({"update_per_step": -1}, "update_per_step must be positive"),
        ({"update_per_step": float("nan")}, "update_per_step must be a finite number, got nan"),
        ({"step_per_epoch": None}, "step_per_epoch is needed"),
        ({"step_per_epoch": 0}, "step_per_epoch must be at least 1, got 0"),
        ({"max_epoch": -1}, "max_epoch must not be negative, got -1"),
        ({"step_per_collect": 0.0}, "step_per_collect must be at least 1, got 0"),
        ({"episode_per_test": None}, "needs episode_per_test"),
        ({"max_step": 0}, "max_step must be at least 1"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_starts(arguments, changes, message):
    parts, given = arguments(**changes)
    with pytest.raises(ValueError, match=message):
        OffpolicyTrainer(**given)
    assert not parts.policy.seen


COUNTS = ["max_epoch", "batch_size", "step_per_epoch", "step_per_collect", "episode_per_test", "max_step"]
HOOKS = ["train_fn", "test_fn", "stop_fn", "save_best_fn", "save_checkpoint_fn", "reward_metric"]
PARTS = ["policy", "train_collector", "test_collector", "buffer", "logger"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in [*COUNTS, "start_timesteps"] for value in (float("nan"), "3", [])],
        *[(name, 2.5) for name in ("batch_size", "episode_per_test", "start_timesteps")],
        ("max_step", float("inf")),
        *[("update_per_step", value) for value in (None, True, "3", [])],
        *[(name, value) for name in HOOKS for value in (5, "x")],
        *[(name, value) for name in PARTS for value in (5, "x", [1], OffpolicyTrainer)],
        ("max_epoch", None),
        ("start_timesteps", None),
        ("policy", None),
    ],
)
def test_arguments_of_another_kind_are_refused_as_well(arguments, name, value):
    parts, given = arguments()
    with pytest.raises(TypeError, match=rf"{name} must be an? .*got"):
        OffpolicyTrainer(**given | {name: value})
    assert not parts.policy.seen


def test_counts_may_be_whole_floats(arguments):
    _, given = arguments(max_epoch=1.0, step_per_epoch=2e1, step_per_collect=4.0, batch_size=4.0, start_timesteps=1e1)
    trainer = OffpolicyTrainer(**given | {"episode_per_test": 2.0})
    info = trainer.run()
    assert (info.train_step, info.gradient_step, info.test_episode) == (10 + 20, 10, 4)
    assert type(trainer.step_per_epoch) is type(trainer.batch_size) is int


def test_collectors_must_be_open_and_have_buffers_of_their_own(arguments):
    parts, given = arguments()
    with pytest.raises(ValueError, match="have the same buffer, which every test would empty"):
        OffpolicyTrainer(**given | {"test_collector": parts.train_collector})
    parts.train_collector.close()
    with pytest.raises(ValueError, match="train_collector is closed: make a new one"):
        OffpolicyTrainer(**given)


def test_episodes_may_be_collected_instead(arguments):
    parts, given = arguments(step_per_collect=None, episode_per_collect=2, max_epoch=1)
    OffpolicyTrainer(**given).run()
    assert parts.train_collector.collect_episode == 4
    assert len(parts.policy.updates) == 10


def test_counts_that_are_computed_are_rounded_as_tianshou_does(arguments):
    _, given = arguments(max_epoch=2.5, step_per_epoch=50 / 3, step_per_collect=3.5)
    with pytest.warns(UserWarning, match="is not whole") as warned:
        trainer = OffpolicyTrainer(**given)
    assert [str(warning.message) for warning in warned] == [
        "max_epoch=2.5 is not whole: 2 is taken",
        "step_per_epoch=16.666666666666668 is not whole: 17 is taken",
        "step_per_collect=3.5 is not whole: 4 is taken",
    ]
    assert trainer.run().train_step == 40


def test_a_run_may_have_no_end_of_its_own(arguments):
    _, given = arguments(max_epoch=float("inf"), step_per_epoch=4, stop_fn=lambda _: trainer.env_step >= 40)
    trainer = OffpolicyTrainer(**given)
    assert trainer.run().train_step == 40


def test_no_epoch_at_all_only_tests(arguments):
    parts, given = arguments(max_epoch=0)
    info = OffpolicyTrainer(**given).run()
    assert (info.train_step, info.test_episode, parts.policy.updates) == (0, 2, [])


# -- the ratio of gradient steps to environment steps ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "collect", "first"),
    [
        (0.25, 10, [2, 3, 2, 3]),
        (0.15, 10, [1, 2, 1, 2]),
        (0.1, 10, [1, 1, 1, 1]),
        (0.29, 100, [29, 29, 29, 29]),
        (1 / 3, 2, [0, 1, 1, 0]),
        (0.01, 10, [0, 0, 0, 0]),
        (1.0, 10, [10, 10, 10, 10]),
        (2.25, 2, [4, 5, 4, 5]),
    ],
)
def test_the_ratio_of_updates_to_steps_is_kept(arguments, ratio, collect, first):
    counts, steps = [], 100 * collect
    parts, given = arguments(update_per_step=ratio, step_per_collect=collect, step_per_epoch=steps, max_epoch=1)
    given["train_fn"] = lambda *_: counts.append(len(parts.policy.updates))
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    assert trainer.gradient_step == len(parts.policy.updates) == int(ratio * steps + 1e-6)
    assert np.diff(counts)[:4].tolist() == first


def test_short_episodes_earn_parts_of_updates(arguments):
    changes = {"step_per_collect": None, "episode_per_collect": 1, "update_per_step": 0.05, "max_epoch": 5}
    parts, given = arguments(**changes)
    trainer = OffpolicyTrainer(**given)
    assert [epoch.training_stat is None for epoch in trainer] == [False] * 5
    assert trainer.env_step == 100
    assert len(parts.policy.updates) == 5
    parts, given = arguments(**changes | {"update_per_step": 0.04, "max_epoch": 1})
    (epoch,) = OffpolicyTrainer(**given)
    assert epoch.training_stat is None
    assert parts.policy.updates == []


def test_parts_of_updates_are_saved_and_resumed(arguments):
    states = []
    parts, given = arguments(
        update_per_step=0.17, max_epoch=3, save_checkpoint_fn=lambda *_: states.append(trainer.state_dict()) or ""
    )
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    assert len(parts.policy.updates) == 10  # 10.2
    for state, made in zip(states, (3, 6, 10), strict=True):  # 3.4, 6.8, 10.2
        parts, given = arguments(update_per_step=0.17, max_epoch=4)
        parts.train_collector.collect(n_step=2)  # a buffer with rows
        resumed = OffpolicyTrainer(**given)
        resumed.load_state_dict(state)
        assert resumed.gradient_step == made
        resumed.run()
        assert resumed.gradient_step == 13  # 13.6
        assert len(parts.policy.updates) == 13 - made
