import inspect
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from rlfast.data import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.trainer import BaseTrainer, OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer


@pytest.fixture
def given(shared_arguments):
    """The arguments of an on-policy trainer, with some of them replaced."""

    def make(**changes):
        return shared_arguments(**{"repeat_per_collect": 3, "step_per_collect": 10, "batch_size": 4} | changes)

    return make


def test_all_that_was_collected_is_learned_from_once_and_forgotten(given):
    parts, arguments = given(max_epoch=1)
    sizes = []
    trainer = OnpolicyTrainer(**arguments, train_fn=lambda *_: sizes.append(len(parts.train_collector.buffer)))
    (epoch,) = trainer
    assert parts.policy.updates == [(0, 10, True), (0, 10, True)]
    assert parts.policy.update_kwargs == [{"batch_size": 4, "repeat": 3}] * 2
    assert sizes == [0, 0]
    assert len(parts.train_collector.buffer) == 0
    assert trainer.gradient_step == 12  # 10 rows in mini-batches of 4 and 6, three times, twice
    assert epoch.info_stat.gradient_step == 12
    assert [step for step, _ in parts.logger.of("log_update_data")] == [6, 12]


def test_steps_of_passes_that_end_early_are_counted(given, monkeypatch):
    parts, arguments = given(max_epoch=1)
    update = parts.policy.update

    def shortened(**how):
        stats = update(**how)
        stats.gradient_steps = 2.0
        return stats

    monkeypatch.setattr(parts.policy, "update", shortened)
    trainer = OnpolicyTrainer(**arguments)
    trainer.run()
    assert trainer.gradient_step == 4


@pytest.mark.parametrize(
    ("batch_size", "steps"), [(None, 3), (0, 3), (1, 30), (5, 6), (9, 3), (10, 3), (11, 3), (1000, 3)]
)
def test_gradient_steps_are_whole_mini_batches(given, batch_size, steps):
    parts, arguments = given(batch_size=batch_size, max_epoch=1, step_per_epoch=10)
    trainer = OnpolicyTrainer(**arguments)
    trainer.run()
    assert trainer.gradient_step == steps
    assert parts.policy.update_kwargs == [{"batch_size": batch_size, "repeat": 3}]


def test_running_episodes_keep_their_return_and_length(given):
    _, arguments = given(length=7, step_per_epoch=40, max_epoch=1)
    trainer = OnpolicyTrainer(**arguments)
    trainer.run()
    # two environments, five steps each at a time: no episode of seven steps fits between two updates
    assert (trainer.last_rew, trainer.last_len) == (7.0, 7.0)


def test_episodes_may_be_collected_instead(given):
    parts, arguments = given(step_per_collect=None, episode_per_collect=4, max_epoch=1)
    OnpolicyTrainer(**arguments).run()
    assert parts.policy.updates == [(0, 20, True)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_collector": None}, "needs a train_collector"),
        ({"repeat_per_collect": None}, "repeat_per_collect is needed"),
        ({"repeat_per_collect": 0}, "repeat_per_collect must be at least 1, got 0"),
        ({"step_per_collect": None}, "one of step_per_collect and episode_per_collect"),
        ({"episode_per_collect": 1}, "got 10 and 1"),
        ({"batch_size": -1}, "batch_size must not be negative, got -1"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_starts(given, changes, message):
    parts, arguments = given(**changes)
    with pytest.raises(ValueError, match=message):
        OnpolicyTrainer(**arguments)
    assert not parts.policy.seen


def test_a_buffer_that_forgets_before_it_is_learned_from_is_refused(given):
    OnpolicyTrainer(**given(step_per_collect=1000)[1])
    _, arguments = given(step_per_collect=1001)
    with pytest.raises(ValueError, match=r"1001 steps in 2 environments do not fit .* 500 of the 501 in each"):
        OnpolicyTrainer(**arguments)


def test_no_row_of_an_episode_is_lost_unseen(given):
    """Steps of two environments with 500 rows each, in episodes of 400 steps."""
    parts, arguments = given(length=400, step_per_collect=None, episode_per_collect=2, max_epoch=1)
    OnpolicyTrainer(**arguments).run()
    assert parts.policy.updates == [(0, 800, True)]
    parts, arguments = given(length=400, step_per_collect=None, episode_per_collect=3, max_epoch=1)
    message = "environment 1 has filled the 500 rows that the buffer has for it, and rows would be lost before they"
    with pytest.raises(ValueError, match=message):
        OnpolicyTrainer(**arguments).run()
    assert parts.policy.updates == []
    assert parts.train_collector.buffer.buffers[1][:].obs.tolist()[0] == [0.0, 0.0]  # the oldest is still there
    assert len(parts.train_collector.buffer.buffers[1]) == 500
    assert parts.train_collector.collect(n_step=2).n_collected_steps == 2  # by itself it may forget
    assert len(parts.train_collector.buffer.buffers[1]) == 500


def test_rows_from_before_training_may_be_forgotten(given):
    parts, arguments = given(length=9, step_per_collect=1000, step_per_epoch=1000, max_epoch=1)
    parts.train_collector.collect(n_step=20, random=True)
    OnpolicyTrainer(**arguments).run()
    assert parts.policy.updates == [(0, 1000, True)]


@pytest.mark.parametrize("buffer", [CachedReplayBuffer(ReplayBuffer(50), 2, 50), MagicMock(maxsize=3)])
def test_rooms_that_are_not_known_are_not_asked_for(given, buffer):
    _, arguments = given(step_per_collect=1000, max_epoch=1)
    arguments["train_collector"].buffer = buffer
    OnpolicyTrainer(**arguments)


def test_each_part_of_a_buffer_is_of_one_environment_where_their_number_is_not_known(given):
    _, arguments = given(max_epoch=1)
    collector = SimpleNamespace(collect=print, reset_stat=print, buffer=VectorReplayBuffer(20, 2))
    OnpolicyTrainer(**arguments | {"train_collector": collector, "step_per_collect": 20})
    with pytest.raises(ValueError, match=r"^21 steps in 2 environments do not fit .* room for 10 of the 11 in each"):
        OnpolicyTrainer(**arguments | {"train_collector": collector, "step_per_collect": 21})


def test_parts_of_a_buffer_without_an_environment_have_no_room_for_it(given):
    _, arguments = given(max_epoch=1)
    arguments["train_collector"].buffer = VectorReplayBuffer(40, 4)  # for two environments
    OnpolicyTrainer(**arguments | {"step_per_collect": 20})
    with pytest.raises(ValueError, match=r"^21 steps in 2 environments do not fit .* room for 10 of the 11 in each"):
        OnpolicyTrainer(**arguments | {"step_per_collect": 21})


def test_a_collector_may_have_no_way_to_keep_rows(given):
    """One of a class of its own, whose buffer is not known before it collects."""
    parts, arguments = given(max_epoch=1, step_per_epoch=10)
    real = parts.train_collector
    names = ("collect", "reset_stat", "reset_buffer", "collect_step", "collect_episode", "collect_time")
    collector = SimpleNamespace(**{name: getattr(real, name) for name in names})
    trainer = OnpolicyTrainer(**arguments | {"train_collector": collector})
    collector.buffer = real.buffer
    trainer.run()
    assert parts.policy.updates == [(0, 10, True)]


@pytest.mark.parametrize("trainer", [OnpolicyTrainer, OffpolicyTrainer, OfflineTrainer])
def test_every_argument_is_shown_with_its_documentation(trainer):
    names = list(inspect.signature(trainer).parameters)
    documentation = inspect.getdoc(trainer.__init__)
    assert len(names) == 30
    assert [name for name in names if f":param {name}: " not in documentation] == []
    assert trainer.__init__ is BaseTrainer.__init__  # written down once
    assert trainer.__doc__ != BaseTrainer.__doc__
