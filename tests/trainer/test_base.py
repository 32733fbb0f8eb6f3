import math
import time
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import TrainingStats
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
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


def test_what_is_not_given_has_the_default_that_is_documented(arguments):
    parts, _ = arguments()
    trainer = OffpolicyTrainer(parts.policy, 1, 4, parts.train_collector, step_per_epoch=8, step_per_collect=4)
    assert (trainer.update_per_step, trainer.start_timesteps, trainer.start_random) == (1.0, 0, True)
    assert (trainer.verbose, trainer.show_progress, trainer.test_in_train) == (True, True, True)
    assert (trainer.resume_from_log, trainer.prefetch) == (False, False)
    assert not {"self", "save_fn"} & vars(trainer).keys()


def test_two_trainers_side_by_side(arguments):
    _, first = arguments()
    _, second = arguments(max_epoch=2)
    pairs = list(zip(OffpolicyTrainer(**second), OffpolicyTrainer(**first), strict=False))
    assert [(a.epoch, b.epoch) for a, b in pairs] == [(1, 1), (2, 2)]


def test_a_loop_that_was_left_starts_anew_or_goes_on_as_asked(arguments):
    parts, given = arguments()
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
    made = len(parts.policy.updates)
    assert trainer.run(reset_prior_to_run=False).train_step == 60
    assert trainer.iter_num == 3
    assert len(parts.policy.updates) - made == 20  # of two epochs
    assert trainer.run(reset_prior_to_run=False).train_step == 60  # nothing is left to do
    assert len(parts.policy.updates) - made == 20
    for _ in trainer:
        break
    made = len(parts.policy.updates)
    assert trainer.run().train_step == 60
    assert len(parts.policy.updates) - made == 30  # of all three
    assert next(OffpolicyTrainer(**given)).epoch == 1


@pytest.mark.parametrize(("hook", "at"), [("train_fn", (2, 28)), ("test_fn", (1, 20))])
def test_a_loop_that_was_stopped_goes_on(arguments, hook, at):
    _, given = arguments(**{hook: lambda *where: where == at and trainer.stop()})
    trainer = OffpolicyTrainer(**given)
    assert [epoch.epoch for epoch in trainer] == [1]
    assert trainer.env_step == {28: 32, 20: 20}[at[1]]  # the collect before which it was asked is made, and no more
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
    parts, given = arguments(max_epoch=4)
    given["save_best_fn"] = lambda policy: best.append((policy is parts.policy, parts.test.reward))
    trainer, results = OffpolicyTrainer(**given), [3.0, 8.0, 5.0, 9.0]
    parts.test.reward = 1.0

    def change(epoch, step):
        parts.test.reward = [1.0, *results][epoch]

    trainer.test_fn = change
    info = trainer.run()
    assert best == [(True, 1.0), (True, 3.0), (True, 8.0), (True, 9.0)]
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
    (epoch,) = trainer
    assert (epoch.info_stat.train_step, trainer.test_in_train) == (20, False)
    assert (epoch.test_collect_stat is None) is (why == "no tests")


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
    assert (trainer.start_epoch, trainer.best_epoch) == (3, 3)


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


@pytest.mark.parametrize(("step_per_collect", "max_step"), [(3, 11), (5, 12), (5, 11), (1, 1)])
def test_steps_are_counted_exactly_where_collects_are_rounded_up_to_all_environments(
    arguments, step_per_collect, max_step
):
    _, given = arguments(step_per_collect=step_per_collect, max_step=max_step, max_epoch=100)
    trainer = OffpolicyTrainer(**given)
    with pytest.warns(UserWarning, match="is not a multiple") if max_step > 1 else nullcontext():
        trainer.run()
    assert trainer.env_step == max_step


def test_a_collector_that_does_not_tell_its_environments_is_asked_for_the_steps_that_are_left(arguments):
    parts, given = arguments(max_step=7, step_per_collect=4, max_epoch=100, test_collector=None, episode_per_test=None)
    real, asked = parts.train_collector, []

    def collect(n_step, n_episode=None):
        asked.append(n_step)
        return real.collect(n_step=n_step, exact=True)

    counts = {"collect_step": 0, "collect_episode": 0, "collect_time": 0.0}
    given["train_collector"] = SimpleNamespace(collect=collect, reset_stat=list, buffer=real.buffer, **counts)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    assert (trainer.env_step, asked) == (7, [4, 3])


def test_a_buffer_is_prepared_once(arguments):
    parts, given = arguments(buffer=VectorReplayBuffer(10, 1, seed=0))
    prepared = object()
    parts.policy.process_buffer = lambda _: prepared
    assert OffpolicyTrainer(**given).buffer is prepared


# -- what is told ------------------------------------------------------------------------------------------------------
def test_the_result_of_a_test_is_logged_and_printed_at_once(arguments, monkeypatch, caplog):
    printed = []
    monkeypatch.setattr("builtins.print", lambda *text, **how: printed.append((text, how)))
    _, given = arguments(verbose=True, max_epoch=1)
    with caplog.at_level("INFO", "rlfast.trainer.base"):
        OffpolicyTrainer(**given).run()
    text = "Epoch #1: test_reward: 1.000000 ± 0.000000, best_reward: 1.000000 ± 0.000000 in #0"
    assert [record.getMessage() for record in caplog.records] == [text]
    assert printed == [((text,), {"flush": True})]
    printed.clear()
    OffpolicyTrainer(**given | {"verbose": False}).run()
    assert printed == []


def test_a_return_as_good_as_the_best_is_not_a_new_best(arguments):
    best = []
    _, given = arguments(save_best_fn=best.append)
    trainer = OffpolicyTrainer(**given)
    info = trainer.run()
    assert (len(best), trainer.best_epoch, info.best_reward, info.best_reward_std) == (1, 0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("results", "saved", "best", "at"),
    [
        ([np.nan, np.nan, 3.0, 2.0], [np.nan, 3.0], 3.0, 2),  # the first is saved at the start, whatever it is
        ([np.nan, -5.0, np.nan, -4.0], [np.nan, -5.0, -4.0], -4.0, 3),
        ([1.0, np.nan, 2.0, np.nan], [1.0, 2.0], 2.0, 2),
    ],
)
def test_any_number_is_better_than_nan(arguments, results, saved, best, at):
    tests = []
    parts, given = arguments(max_epoch=3)
    given["save_best_fn"] = lambda policy: tests.append(parts.test.reward)
    given["test_fn"] = lambda epoch, step: setattr(parts.test, "reward", results[epoch])
    trainer = OffpolicyTrainer(**given)
    info = trainer.run()
    np.testing.assert_equal(tests, saved)
    assert (info.best_reward, trainer.best_epoch) == (best, at)


def test_whether_to_stop_is_decided_by_the_best_test(arguments):
    asked = []
    parts, given = arguments(max_epoch=3, test_in_train=False, stop_fn=lambda mean: asked.append(mean))
    given["test_fn"] = lambda epoch, step: setattr(parts.test, "reward", [1.0, 6.0, 2.0, 4.0][epoch])
    OffpolicyTrainer(**given).run()
    assert asked == [6.0, 6.0, 6.0]


def test_the_spread_of_the_best_test_is_kept(arguments):
    parts, given = arguments(max_epoch=2, stop_fn=lambda mean: mean >= 30, test_in_train=False)
    rewards = iter([1.0, 3.0, 4.0, 8.0, 20.0, 50.0])
    reset = parts.test_collector.env.workers[0].env.reset

    def another(**options):
        parts.test.reward = next(rewards)
        return reset(**options)

    parts.test_collector.env.workers[0].env.reset = another
    trainer = OffpolicyTrainer(**given)
    told = [(epoch.info_stat.best_reward, epoch.info_stat.best_reward_std, trainer.best_epoch) for epoch in trainer]
    assert told == [(6.0, 2.0, 1), (35.0, 15.0, 2)]
    assert trainer.stop_fn_flag


def test_what_a_progress_bar_is_told(arguments, monkeypatch):
    bars = []

    class Bar:
        def __init__(self, *place, **options):
            bars.append((place, options, told := []))
            self.told = told

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, steps, figures):
            self.told.append((steps, figures))

    monkeypatch.setattr("rlfast.trainer.base.ProgressBar", Bar)
    _, given = arguments(max_epoch=2, train_fn=lambda _, step: step == 28 and trainer.stop(), show_progress=True)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    assert [place for place, _, _ in bars] == [(40,), (40,)]
    trainer.train_fn = None
    trainer.run()
    same = {"since": (trainer.start_time, 0), "leave": False, "shown": True}
    assert [(place, options) for place, options, _ in bars] == [
        ((40,), {"initial": 0} | same),
        ((40,), {"initial": 20} | same),
        ((40,), {"initial": 32} | same),
    ]
    steps, figures = bars[1][2][-1]
    assert steps == 4
    assert [*figures] == ["return", "test", "len", "loss", "updates/s", "collect", "sample", "learn"]
    assert (figures["return"], figures["len"], figures["test"]) == (5.0, 5.0, 1.0)
    first = bars[0][2][0][1]
    assert "return" not in first  # no episode has ended
    monkeypatch.setattr(type(trainer), "_figures", lambda *_: 1 / 0)
    quiet = OffpolicyTrainer(**given | {"show_progress": False, "train_fn": None})
    quiet.run()
    assert bars[-1][1]["shown"] is False
    assert bars[-1][2] == [(4, {})] * 5


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"max_epoch": 3}, 60),
        ({"max_epoch": 3, "max_step": 50}, 50),
        ({"max_epoch": 2, "max_step": 50}, 40),
        ({"max_epoch": math.inf, "max_step": 50}, 50),
        ({"max_epoch": math.inf}, None),
        ({"max_epoch": 3, "start_timesteps": 8}, 68),
    ],
)
def test_the_length_of_a_run(arguments, options, length):
    _, given = arguments(**options)
    assert OffpolicyTrainer(**given)._length == length


@pytest.mark.parametrize(
    ("options", "length"),
    [({}, 40), ({"max_step": 64}, 16), ({"max_step": 65}, 17), ({"batch_size": None, "max_step": 64}, 2)],
)
def test_the_length_of_an_offline_run_is_in_gradient_steps(shared_arguments, options, length):
    parts, given = shared_arguments(max_epoch=2, **{"batch_size": 4} | options)
    given |= {"train_collector": None, "buffer": parts.train_collector.buffer}
    parts.train_collector.collect(n_step=32)
    trainer = OfflineTrainer(**given)
    assert (len(trainer.buffer), trainer._length) == (32, length)
    trainer.gradient_step, trainer.env_step = 3, 12
    assert trainer._position == 3


def test_in_a_pipe_there_is_one_line_for_each_test(arguments, capsys):
    _, given = arguments(verbose=False, show_progress=True, max_epoch=2)
    OffpolicyTrainer(**given).run()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("step 20 of 40 (50%), ")
    assert lines[0].endswith(" left, return 5, test 1 ± 0, best 1")
    assert lines[1:] == ["step 40 of 40 (100%), return 5, test 1 ± 0, best 1"]
    OffpolicyTrainer(**given | {"verbose": True}).run()  # which prints the same
    assert capsys.readouterr().err == ""
    OffpolicyTrainer(**given | {"verbose": True, "test_collector": None, "max_epoch": math.inf, "max_step": 40}).run()
    assert len(capsys.readouterr().err.splitlines()) == 2
    OffpolicyTrainer(**given | {"show_progress": False}).run()
    assert capsys.readouterr().err == ""


def test_the_time_left_of_a_run_that_goes_on_from_a_log(arguments, monkeypatch):
    parts, given = arguments(resume_from_log=True, max_epoch=5)
    parts.logger.restore_data = lambda: (3, 60, 30)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    trainer.start_time -= 1000  # twenty of forty steps since then
    trainer.env_step = 80
    assert ", 16 min 40 s left" in trainer._epoch_line()


def test_the_clock_tells_collecting_sampling_and_learning_apart(arguments):
    _, given = arguments()
    trainer = OffpolicyTrainer(**given)
    trainer.train_collector.collect_time = 3.0
    trainer.policy_update_time, trainer.sample_time, trainer.gradient_step = 2.0, 0.5, 40
    clock = trainer._clock()
    assert (clock.collecting, clock.sampling, clock.learning, clock.updates) == (3.0, 0.5, 1.5, 40)
    assert clock.seconds == pytest.approx(time.time(), abs=60)
    info = trainer.info()
    assert (info.timing.train_time_update, info.timing.train_time_sample) == (2.0, 0.5)
    trainer.train_collector = None
    assert trainer._clock().collecting == 0.0


def test_updates_that_tell_nothing_of_sampling_took_no_time_to_sample(arguments):
    parts, given = arguments(max_epoch=1)
    trainer = OffpolicyTrainer(**given)
    parts.policy.update = lambda **_: SimpleNamespace(train_time=0.5, get_loss_stats_dict=lambda: {"loss": 1.0})
    trainer.run()
    assert (trainer.policy_update_time, trainer.sample_time) == (5 * 2 * 0.5, 0.0)


def test_times_of_updates_are_summed_up(arguments):
    parts, given = arguments(max_epoch=1)
    parts.policy.update = lambda **_: TrainingStats(train_time=0.5, sample_time=0.25)
    timing = OffpolicyTrainer(**given).run().timing
    assert (timing.train_time_update, timing.train_time_sample) == (10 * 0.5, 10 * 0.25)


def test_random_steps_are_at_most_all_steps(arguments):
    parts, given = arguments(max_step=30, start_timesteps=10, max_epoch=0)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    assert trainer.env_step == 10
    assert all(len(seen.obs) == 1 for seen in parts.policy.seen)  # the test alone asked the policy
    _, given = arguments(start_timesteps=10, max_epoch=0)
    assert OffpolicyTrainer(**given).run().train_step == 10


def test_the_names_of_trainers_are_found_in_the_module_of_their_base():
    from rlfast.trainer import base

    assert base.OffpolicyTrainer is OffpolicyTrainer
    assert base.OnpolicyTrainer.__name__ == "OnpolicyTrainer"
    assert base.OfflineTrainer.__name__ == "OfflineTrainer"
    with pytest.raises(AttributeError, match=r"^module 'rlfast\.trainer\.base' has no attribute 'Trainer'$"):
        base.__getattr__("Trainer")


def test_a_hook_that_is_empty_and_can_be_called_is_called(arguments):
    class Calls(list):
        def __call__(self, *where):
            self.append(where)

    hook = Calls()
    _, given = arguments(max_epoch=1, train_fn=hook)
    OffpolicyTrainer(**given).run()
    assert len(hook) == 5


def test_an_old_name_warns_where_it_is_used(arguments):
    parts, given = arguments(max_epoch=1)
    text = "save_fn is deprecated: its name is save_best_fn now"
    with pytest.warns(DeprecationWarning, match=f"^{text}$") as warned:
        trainer = OffpolicyTrainer(**given, save_fn=(best := []).append)
    assert [warning.filename for warning in warned] == [__file__]
    trainer.run()
    assert best == [parts.policy]
    with pytest.raises(ValueError, match=r"^give save_best_fn alone: save_fn is its old name$"):
        OffpolicyTrainer(**given, save_fn=lambda _: None, save_best_fn=lambda _: None)


@pytest.mark.parametrize(
    ("kind", "given", "ignored"),
    [
        (OnpolicyTrainer, {"repeat_per_collect": 1, "update_per_step": 0.5}, ["update_per_step=0.5"]),
        (OnpolicyTrainer, {"repeat_per_collect": 1, "prefetch": True}, ["prefetch=True"]),
        (OffpolicyTrainer, {"repeat_per_collect": 2, "update_per_step": 0.5}, ["repeat_per_collect=2"]),
        (
            OfflineTrainer,
            {"repeat_per_collect": 2, "update_per_step": 2},
            ["repeat_per_collect=2", "update_per_step=2"],
        ),
        (OffpolicyTrainer, {"repeat_per_collect": None, "prefetch": True}, []),
    ],
)
def test_trainer_warns_of_options_it_ignores(kind, given, ignored, shared_arguments):
    parts, others = shared_arguments()
    parts.train_collector.collect(n_step=4)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        kind(**others, **given, buffer=parts.train_collector.buffer)
    assert [str(one.message) for one in shown] == [f"{kind.__name__} ignores {one}: remove it" for one in ignored]
    assert {one.filename for one in shown} <= {__file__}
