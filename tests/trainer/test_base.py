import warnings

import numpy as np
import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.trainer import OffpolicyTrainer
from scripted import Scripted


def test_a_run_counts_what_it_did(arguments):
    parts, given = arguments()
    info = OffpolicyTrainer(**given).run()
    assert (info.train_step, info.gradient_step, info.train_episode) == (60, 30, 12)
    assert (info.test_episode, info.test_step) == (8, 16)  # once before training, once after each epoch
    assert parts.policy.updates == [(4, 4, True)] * 30  # in training mode, whatever the tests left
    timing = info.timing
    assert timing.total_time > timing.test_time > 0
    assert timing.train_time_update == pytest.approx(0.03)
    assert timing.train_time_collect > 0
    assert timing.update_speed == pytest.approx(60 / timing.train_time)


def test_each_epoch_is_yielded(arguments):
    _, given = arguments()
    epochs = list(OffpolicyTrainer(**given))
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3]
    for number, stats, info in epochs:
        assert stats.train_collect_stat.n_collected_steps == 4
        assert stats.test_collect_stat.n_collected_episodes == 2
        assert info.train_step == 20 * number
        assert info.gradient_step == 10 * number


def test_two_trainers_side_by_side(arguments):
    _, first = arguments()
    _, second = arguments(max_epoch=2)
    pairs = list(zip(OffpolicyTrainer(**second), OffpolicyTrainer(**first), strict=False))
    assert [(a.epoch, b.epoch) for a, b in pairs] == [(1, 1), (2, 2)]


def test_a_loop_that_was_left_starts_anew_or_goes_on_as_asked(arguments):
    _, given = arguments()
    trainer = OffpolicyTrainer(**given)
    for epoch in trainer:
        if epoch.epoch == 2:
            break
    assert next(trainer).epoch == 3
    with pytest.raises(StopIteration):
        next(trainer)
    assert [epoch.epoch for epoch in trainer] == [1, 2, 3]
    for _ in trainer:
        break
    assert [epoch.epoch for epoch in trainer] == [1, 2, 3]
    for _ in trainer:
        break
    assert trainer.run(reset_prior_to_run=False).train_step == 60
    assert trainer.iter_num == 3
    assert trainer.run().train_step == 60
    assert next(OffpolicyTrainer(**given)).epoch == 1


def test_a_loop_that_was_stopped_goes_on(arguments):
    _, given = arguments(train_fn=lambda epoch, step: step == 28 and trainer.stop())
    trainer = OffpolicyTrainer(**given)
    assert [epoch.epoch for epoch in trainer] == [1]
    assert trainer.env_step == 32  # the collect before which it was asked is made, and no more
    given["train_fn"] = trainer.train_fn = None
    assert [epoch.epoch for epoch in trainer] == [2, 3]
    assert (trainer.env_step, trainer.train_collector.collect_step) == (60, 60)


def test_whether_it_runs_can_be_asked(arguments):
    seen = []
    _, given = arguments(train_fn=lambda *_: seen.append(trainer.is_run), max_epoch=1)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    list(trainer)
    assert seen == [True] * 5 + [False] * 5
    assert not trainer.is_run


def test_a_stop_asked_for_at_the_very_end_does_not_stop_the_next_run(arguments):
    _, given = arguments(stop_fn=lambda mean_return: trainer.epoch == 3 and trainer.stop(), test_in_train=False)
    trainer = OffpolicyTrainer(**given)
    assert [epoch.epoch for epoch in trainer] == [1, 2, 3]
    assert [epoch.epoch for epoch in trainer] == [1, 2, 3]


def test_hooks_are_called_where_they_should(arguments):
    calls = []
    parts, given = arguments(max_epoch=2)
    given |= {
        "train_fn": lambda epoch, step: calls.append(("train", epoch, step)),
        "test_fn": lambda epoch, step: calls.append(("test", epoch, step, parts.policy.training)),
        "save_best_fn": lambda policy: calls.append(("best", policy is parts.policy)),
        "save_checkpoint_fn": lambda *where: calls.append(("save", *where)) or "path",
    }
    OffpolicyTrainer(**given).run()
    assert calls[:3] == [("test", 0, 0, False), ("best", True), ("train", 1, 0)]
    assert [call for call in calls if call[0] == "train"] == [("train", 1 + s // 20, s) for s in range(0, 40, 4)]
    assert [call for call in calls if call[0] == "save"] == [("save", 1, 20, 10), ("save", 2, 40, 20)]
    assert [call for call in calls if call[0] == "test"] == [("test", e, 20 * e, False) for e in range(3)]
    assert calls[-2:] == [("save", 2, 40, 20), ("test", 2, 40, False)]


def test_the_best_test_is_kept(arguments):
    best = []
    parts, given = arguments(max_epoch=4, save_best_fn=lambda _: best.append(parts.test.reward))
    trainer, results = OffpolicyTrainer(**given), [3.0, 8.0, 5.0, 9.0]
    parts.test.reward = 1.0

    def change(epoch, step):
        parts.test.reward = [1.0, *results][epoch]

    trainer.test_fn = change
    info = trainer.run()
    assert best == [1.0, 3.0, 8.0, 9.0]
    assert (info.best_reward, trainer.best_epoch) == (9.0, 4)


def test_training_stops_when_a_test_is_good_enough(arguments):
    parts, given = arguments(max_epoch=9, stop_fn=lambda mean: mean >= 7)
    given["test_fn"] = lambda epoch, step: setattr(parts.test, "reward", 4.0 * epoch)
    epochs = list(OffpolicyTrainer(**given))
    assert [epoch.epoch for epoch in epochs] == [1, 2]
    assert epochs[-1].test_collect_stat.returns_stat.mean == 8.0


def test_good_training_returns_lead_to_a_test_at_once(arguments):
    parts, given = arguments(test_in_train=True, stop_fn=lambda mean: mean >= 5, test_reward=5.0)
    (epoch,) = OffpolicyTrainer(**given)
    assert epoch.info_stat.train_step == 12  # the collect in which the first episodes ended, at step 10
    assert epoch.test_collect_stat.returns_stat.mean == 5.0
    assert epoch.info_stat.best_reward == 5.0
    parts, given = arguments(test_in_train=True, stop_fn=lambda mean: mean >= 5, test_reward=1.0)
    assert OffpolicyTrainer(**given).run().train_step == 60  # the tests disagreed
    assert all(training for _, _, training in parts.policy.updates)
    _, given = arguments(stop_fn=lambda mean: mean >= 5, test_reward=5.0)
    assert OffpolicyTrainer(**given).run().train_step == 12  # it is the default
    _, given = arguments(stop_fn=lambda mean: mean >= 5, test_reward=5.0, test_in_train=False)
    assert OffpolicyTrainer(**given).run().train_step == 20


@pytest.mark.parametrize("why", ["no tests", "another policy"])
def test_where_nothing_can_be_tested_in_training_it_is_off(arguments, why):
    parts, given = arguments(stop_fn=lambda mean: mean >= 5, test_reward=5.0, max_epoch=1)
    if why == "no tests":
        given |= {"test_collector": None, "episode_per_test": None}
    else:
        parts.train_collector.policy = type(parts.policy)()
    trainer = OffpolicyTrainer(**given)
    assert trainer.run().train_step == 20
    assert trainer.test_in_train is False


def test_no_tests_without_a_test_collector(arguments):
    _, given = arguments(test_collector=None, episode_per_test=None)
    epochs = list(OffpolicyTrainer(**given))
    assert all(epoch.test_collect_stat is None for epoch in epochs)
    assert epochs[-1].info_stat.test_step == 0


@pytest.mark.pitfall("F9")
def test_returns_are_logged_on_the_axis_of_environment_steps_when_episodes_end(arguments):
    parts, given = arguments(max_epoch=1)
    OffpolicyTrainer(**given).run()
    logged = parts.logger.of("log_train_data")
    # episodes end after steps 10 and 20, in the collects that end at 12 and 20
    assert [(step, data["n_collected_episodes"]) for step, data in logged] == [(12, 2), (20, 2)]
    assert [step for step, _ in parts.logger.of("log_test_data")] == [0, 20]
    assert [step for step, _ in parts.logger.of("log_info_data")] == [1]


def test_counters_go_on_where_the_log_ends(arguments):
    parts, given = arguments(resume_from_log=True, max_epoch=5)
    parts.logger.restore_data = lambda: (3, 60, 30)
    trainer = OffpolicyTrainer(**given)
    epochs = list(trainer)
    assert [epoch.epoch for epoch in epochs] == [4, 5]
    assert (trainer.env_step, trainer.gradient_step) == (100, 50)
    assert [step for step, _ in parts.logger.of("log_test_data")] == [60, 80, 100]


def test_agents_are_weighed_by_the_reward_metric(arguments):
    def collector(policy):
        envs = DummyVectorEnv([lambda: Scripted(2, reward=np.array([1.0, 3.0]))])
        return Collector(policy, envs, VectorReplayBuffer(100, 1, seed=0))

    parts, given = arguments(reward_metric=lambda returns: returns[:, 1], max_epoch=1, stop_fn=lambda mean: mean >= 6)
    given |= {key: collector(parts.policy) for key in ("train_collector", "test_collector")}
    given["test_in_train"] = True
    trainer = OffpolicyTrainer(**given)
    (epoch,) = trainer
    assert trainer.last_rew == 6.0
    assert epoch.train_collect_stat.returns.tolist() == [6.0, 6.0]
    assert epoch.test_collect_stat.returns.tolist() == [6.0, 6.0]
    assert epoch.info_stat.train_step == 4  # stopped by the test within training: weighed there as well


@pytest.mark.parametrize(("max_step", "start"), [(30, 0), (30, 7), (3, 7), (61, 10), (1, 0)])
def test_steps_are_counted_exactly(arguments, max_step, start):
    parts, given = arguments(max_step=max_step, start_timesteps=start, max_epoch=100)
    trainer = OffpolicyTrainer(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.run()
    assert trainer.env_step == max_step
    assert parts.train_collector.collect_step == max_step
    assert len(parts.train_collector.buffer) == max_step
    assert parts.policy.seen[0].obs.shape == (1, 2)  # tested first


def test_results_are_printed_and_shown_when_asked_for(arguments, capsys):
    _, given = arguments(verbose=True, show_progress=True, max_epoch=1)
    OffpolicyTrainer(**given).run()
    shown = capsys.readouterr()
    assert shown.out == "Epoch #1: test_reward: 1.000000 ± 0.000000, best_reward: 1.000000 ± 0.000000 in #0\n"
    for figure in (
        "env_step=20",
        "return=5",
        "len=5",
        "test=1",
        "loss=",
        "updates/s=",
        "step/s",
        "collect=",
        "sample=",
        "learn=",
    ):
        assert figure in shown.err


def test_a_buffer_is_prepared_once(arguments):
    parts, given = arguments(buffer=VectorReplayBuffer(10, 1, seed=0))
    prepared = object()
    parts.policy.process_buffer = lambda _: prepared
    assert OffpolicyTrainer(**given).buffer is prepared
