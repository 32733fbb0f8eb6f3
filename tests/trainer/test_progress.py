"""The state of a run: what is in it, what of it is refused, and what a trainer makes of it."""

import sys
import time

import numpy as np
import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.trainer import OffpolicyTrainer
from scripted import Scripted

UNTESTED = {"test_collector": None, "episode_per_test": None}


@pytest.fixture
def stopped(arguments):
    """A trainer that was stopped within its first epoch, and ran no test."""
    _, given = arguments(train_fn=lambda _, step: step == 8 and trainer.stop(), **UNTESTED)
    trainer = OffpolicyTrainer(**given)
    trainer.run()
    return trainer


@pytest.fixture
def fresh(arguments):
    """A trainer like that which was stopped."""
    return OffpolicyTrainer(**arguments(**UNTESTED)[1])


def test_before_training_nothing_has_been_reached(fresh):
    assert (fresh.best_reward, fresh.best_reward_std, fresh.last_rew, fresh.last_len) == (0.0, 0.0, 0.0, 0.0)
    assert fresh.last_test is None


def test_an_epoch_without_another_step_has_empty_statistics(stopped, arguments):
    trainer = OffpolicyTrainer(**arguments(max_step=12, **UNTESTED)[1])
    trainer.load_state_dict(stopped.state_dict())
    (epoch,) = trainer
    assert epoch.train_collect_stat.n_collected_steps == 0
    assert (epoch.training_stat, epoch.test_collect_stat) == (None, None)
    assert trainer.env_step == 12


def test_the_seconds_of_a_run_go_on(stopped, fresh, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: stopped.start_time + 100.0)
    state = stopped.state_dict()
    assert state["seconds"] == pytest.approx(100.0)
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    fresh.load_state_dict(state)
    assert fresh.start_time == pytest.approx(4900.0)


def test_the_newest_test_is_kept(stopped, arguments):
    assert stopped.state_dict()["test"] is None
    tested, other = (OffpolicyTrainer(**arguments(max_epoch=1)[1]) for _ in range(2))
    tested.run()
    other.load_state_dict(tested.state_dict())
    assert other.last_test.returns.tolist() == tested.last_test.returns.tolist() == [1.0, 1.0]


def test_the_state_of_the_logger_is_kept(arguments):
    parts, given = arguments(**UNTESTED)
    kind, loaded = type(parts.logger), []
    given["logger"] = type(
        "Kept", (kind,), {"state_dict": lambda _: {"rows": 3}, "load_state_dict": lambda _, state: loaded.append(state)}
    )()
    trainer = OffpolicyTrainer(**given)
    state = trainer.state_dict()
    assert state["logger"] == {"rows": 3}
    trainer.load_state_dict(state)
    assert loaded == [{"rows": 3}]


def test_states_of_older_versions_have_fewer_counters(stopped, fresh):
    state = stopped.state_dict()
    del state["counters"]["_update_debt"]
    fresh.load_state_dict(state)
    assert (fresh.env_step, fresh._update_debt) == (12, 0.0)


WRONG = {
    "epoch": [1.5, True, "3", None, sys.maxsize + 1, -sys.maxsize - 1],
    "stop_fn_flag": [1],
    "best_reward": ["x", True, 10**400, None],
    "_epoch_step": [1.5, False],
}
RIGHT = {
    "epoch": [np.int64(3), sys.maxsize, -sys.maxsize],
    "best_reward": [3, np.float32(2), float("inf"), -1e30],
    "_epoch_step": [None, 3],
    "stop_fn_flag": [np.True_],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_counters_of_another_kind_are_refused_before_anything_changes(stopped, fresh, name, value):
    state = stopped.state_dict()
    state["counters"][name] = value
    with pytest.raises(ValueError, match=f"^{name} cannot be "):
        fresh.load_state_dict(state)
    assert fresh.env_step == 0


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in RIGHT for value in RIGHT[name]])
def test_counters_of_the_same_kind_are_taken(stopped, fresh, name, value):
    state = stopped.state_dict()
    state["counters"][name] = value
    fresh.load_state_dict(state)
    assert getattr(fresh, name) == value


def test_a_run_whose_losses_diverged_goes_on(stopped, fresh):
    fresh.load_state_dict(stopped.state_dict() | {"losses": {"loss": [1.0, 1e30]}})
    assert fresh.stat["loss"].get() == pytest.approx(5e29)


def test_other_numbers_are_refused_by_their_names(stopped, fresh):
    for changes, message in (
        ({"seconds": "x"}, "^seconds cannot be 'x'$"),
        ({"losses": {"alpha": ["x"]}}, "^alpha cannot be 'x'$"),
    ):
        with pytest.raises(ValueError, match=message):
            fresh.load_state_dict(stopped.state_dict() | changes)


@pytest.mark.parametrize("kind", ["i4", "u1", "f8"])
@pytest.mark.parametrize("name", ["returns", "lens"])
def test_columns_of_a_test_are_numbers_in_one_row(arguments, name, kind):
    tested, other = (OffpolicyTrainer(**arguments(max_epoch=1)[1]) for _ in range(2))
    tested.run()
    state = tested.state_dict()
    other.check_state(state | {"test": state["test"] | {name: np.array([1, 2], kind)}})
    for wrong in ([1, 2], np.ones((1, 2), kind), np.array(["1", "2"])):
        with pytest.raises(ValueError, match=f"^{name} of the last test must be a one-dimensional array of numbers$"):
            other.check_state(state | {"test": state["test"] | {name: wrong}})
    (steps, *_) = state["test"].keys() - {"returns", "lens"}
    with pytest.raises(ValueError, match=f"^{steps} cannot be 'x'$"):
        other.check_state(state | {"test": state["test"] | {steps: "x"}})


def test_collectors_must_be_where_they_were(stopped, arguments):
    tested = OffpolicyTrainer(**arguments()[1])
    message = "^either this trainer or the one that was saved has a collector where the other has none$"
    for ours, theirs in ((tested, stopped), (stopped, tested)):
        with pytest.raises(ValueError, match=message):
            ours.load_state_dict(theirs.state_dict())


def test_there_is_a_state_for_each_collector(stopped, fresh):
    state = stopped.state_dict()
    for collectors in ([*state["collectors"], None], state["collectors"][:1]):
        with pytest.raises(ValueError, match="argument"):
            fresh.load_state_dict(state | {"collectors": collectors})
    assert fresh.env_step == 0


def test_collectors_of_other_environments_are_refused_before_anything_changes(stopped, arguments):
    parts, given = arguments(**UNTESTED)
    three = Collector(parts.policy, DummyVectorEnv([Scripted] * 3), VectorReplayBuffer(30, 3))
    other = OffpolicyTrainer(**given | {"train_collector": three})
    with pytest.raises(ValueError, match="environments"):
        other.load_state_dict(stopped.state_dict())
    assert other.env_step == 0


def test_collectors_with_a_state_of_their_own_check_it_themselves_and_tell_what_is_lost(arguments):
    class Own(Collector):
        def state_dict(self):
            return {"own": 1}

        def load_state_dict(self, state):
            assert state == {"own": 1}
            return self.lost

    parts, given = arguments()
    train, test = parts.train_collector, parts.test_collector
    train.__class__ = test.__class__ = Own
    trainer = OffpolicyTrainer(**given)
    train.lost, test.lost = {}, {}
    assert trainer.load_state_dict(trainer.state_dict()) == []
    train.lost, test.lost = {0: "it is gone", 2: "so is it"}, {1: "it never was"}
    assert trainer.load_state_dict(trainer.state_dict()) == [
        "training environments 0, 2 begin new episodes: it is gone",
        "test environments 1 begin new episodes: it never was",
    ]
