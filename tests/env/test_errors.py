import pickle
from json import JSONDecodeError

import pytest

from rlfast.env import EnvFailure, SubprocVectorEnv, WorkerDied
from scripted import Scripted


class WithArguments(Exception):
    def __init__(self, first, second) -> None:
        super().__init__(first, second)


class Own(Exception):
    """An exception with a read-only ``env_id``, an attribute of failures."""

    @property
    def env_id(self):
        return "mine"


KIN = [
    ValueError("a"),
    KeyError("a"),
    FileNotFoundError(2, "a"),
    AttributeError("a"),
    UnicodeDecodeError("utf8", b"a", 0, 1, "a"),
    JSONDecodeError("a", "b", 0),
    NotImplementedError("a"),
    WithArguments(1, 2),
]


@pytest.mark.parametrize("cause", KIN, ids=lambda cause: type(cause).__name__)
def test_a_failure_is_of_the_class_of_its_cause(cause):
    failure = EnvFailure.by(cause, "environment 3 failed", env_id=3, phase="step", action=1)
    with pytest.raises(type(cause), match=r"^environment 3 failed$") as caught:
        raise failure
    assert isinstance(caught.value, EnvFailure)
    assert caught.value.__cause__ is cause
    assert (failure.env_id, failure.phase, failure.action, failure.lost) == (3, "step", 1, (3,))
    assert repr(failure) == "EnvFailure('environment 3 failed')"


@pytest.mark.parametrize(
    "cause", [None, Own(), SystemExit(1), KeyboardInterrupt(), StopIteration(), ExceptionGroup("a", [OSError()])]
)
def test_some_causes_have_no_kin(cause):
    failure = EnvFailure.by(cause, "failed", env_id=1, phase="reset")
    assert type(failure) is EnvFailure
    assert failure.__cause__ is cause


def test_failures_can_be_sent():
    failure = EnvFailure.by(KeyError("a"), "failed", env_id=1, phase="reset", lost=(1, 2), traceback="text")
    failure.add_note("a note")
    died = WorkerDied("died", exitcode=-9, signal="SIGKILL", env_id=2, phase="step", action=[1])
    for error in (failure, died):
        again = pickle.loads(pickle.dumps(error))
        assert isinstance(again, KeyError) == (error is failure)
        assert isinstance(again, WorkerDied) == (error is died)
        assert (str(again), again.__dict__) == (str(error), error.__dict__)


def test_original_exception_class_is_caught():
    class Careless(Scripted):
        def reset(self, *, seed=None, options=None):
            if options:
                raise KeyError("no such level")
            return super().reset()

        def step(self, action):
            raise ZeroDivisionError("no such thing")

        def method(self):
            raise AttributeError("no such attribute")

    with SubprocVectorEnv([Careless], num_workers=1) as envs:
        envs.reset()
        with pytest.raises(ZeroDivisionError, match="environment 0 failed in step"):
            envs.step([0])
        with pytest.raises(KeyError, match="no such level"):
            envs.reset(options={"level": 1})
        with pytest.raises(AttributeError, match=r"environment 0 failed in method\(\): AttributeError: no such"):
            envs.call("method")
