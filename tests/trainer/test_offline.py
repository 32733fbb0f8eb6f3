import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer
from rlfast.trainer import OfflineTrainer


@pytest.fixture
def given(shared_arguments):
    """The arguments of an offline trainer with a buffer of 12 rows, with some of them replaced."""

    def make(**changes):
        buffer = ReplayBuffer(100, seed=0)
        for i in range(changes.pop("rows", 12)):
            row = Batch(obs=np.zeros(2), act=0, rew=1.0, terminated=i % 4 == 3, truncated=False, obs_next=np.ones(2))
            buffer.add(row)
        online = {"train_collector": None, "step_per_collect": None, "buffer": buffer, "step_per_epoch": 5}
        return shared_arguments(**online | changes)

    return make


def test_an_epoch_is_so_many_gradient_steps_and_its_statistics_are_of_all(given):
    parts, arguments = given(max_epoch=2)
    trainer = OfflineTrainer(**arguments)
    epochs = list(trainer)
    assert parts.policy.updates == [(4, 4, True)] * 10
    assert [epoch.info_stat.gradient_step for epoch in epochs] == [5, 10]
    assert [epoch.training_stat.loss for epoch in epochs] == [3.0, 8.0]  # of updates 1 to 5, and 6 to 10
    summary = epochs[1].training_stat.loss_summary["loss"]
    assert (summary.min, summary.max, summary.mean) == (6.0, 10.0, 8.0)
    assert epochs[0].train_collect_stat.n_collected_steps == 0
    # the axis of tests: rows that were sampled
    assert [step for step, _ in parts.logger.of("log_test_data")] == [0, 20, 40]
    assert [step for step, _ in parts.logger.of("log_update_data")] == list(range(1, 11))


def test_the_whole_buffer_counts_where_there_is_no_batch_size(given):
    _, arguments = given(batch_size=None, max_epoch=1)
    trainer = OfflineTrainer(**arguments)
    trainer.run()
    assert trainer.env_step == 5 * 12


def test_a_loop_can_be_left_within_an_epoch(given):
    parts, arguments = given(max_epoch=1)
    trainer = OfflineTrainer(**arguments)
    update = parts.policy.update

    def stop_after_two(*args, **kwargs):
        if len(parts.policy.updates) == 1:
            trainer.stop()
        return update(*args, **kwargs)

    parts.policy.update = stop_after_two
    assert list(trainer) == []
    assert trainer.gradient_step == 2
    (epoch,) = trainer
    assert (epoch.epoch, epoch.training_stat.loss) == (1, 3.0)


def test_it_may_collect_as_well(given, setting):
    parts, arguments = given(max_epoch=1, step_per_collect=4, step_per_epoch=8)
    arguments["train_collector"] = setting().train_collector
    arguments["train_collector"].policy = parts.policy
    trainer = OfflineTrainer(**arguments)
    trainer.run()
    assert (trainer.env_step, trainer.gradient_step) == (8, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer": None}, "needs a buffer"),
        ({"rows": 0}, "the buffer is empty"),
        ({"step_per_epoch": None}, "step_per_epoch is needed"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_starts(given, changes, message):
    parts, arguments = given(**changes)
    with pytest.raises(ValueError, match=message):
        OfflineTrainer(**arguments)
    assert not parts.policy.seen
