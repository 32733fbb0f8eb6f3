"""Exceptions whose own code fails, or whose parts are not what Python makes of them, raised in a worker."""

import os

import numpy as np
import pytest

from rlfast.env import EnvFailure, SubprocVectorEnv
from rlfast.env.process.serialization import RemoteError
from scripted import Scripted


def local(base: type[BaseException] = RuntimeError, **attributes):
    return lambda: type("Local", (base,), attributes)("the cause")


def raising(error: type[BaseException]):
    """A method that raises."""

    def method(*_, **__):
        raise error("in an exception's own code")

    return method


def noted():
    error = ValueError("the cause")
    error.__notes__ = 3
    return error


def chained():
    error = ValueError("the cause")
    error.__cause__ = local(__module__=None)()
    return error


def circular():
    error, other = ValueError("the cause"), KeyError("other")
    error.__cause__, other.__cause__ = other, error
    return error


def nested(depth=2000):
    error = ExceptionGroup("the cause", [ValueError("inner")])
    for _ in range(depth):
        error = ExceptionGroup("the cause", [error])
    return error


class Meta(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__", "__name__"):
            raise SystemExit(1)
        return super().__getattribute__(name)


ODD = {
    "local": local(),
    "a module that is a number": local(__module__=3),
    "no module": local(__module__=None),
    "a name with dots": local(__qualname__="a.b"),
    "a class that hides its name": lambda: Meta("Local", (RuntimeError,), {})("the cause"),
    "notes that are a number": noted,
    "an odd cause": chained,
    "a circle of causes": circular,
    "a deep group": nested,
    "an abstract base": local(BaseException),
    "huge arguments": lambda: ValueError("the cause", "x" * 30_000_000),
    "a huge array": lambda: ValueError("the cause", np.zeros(5_000_000)),
    "no attributes": local(__getattribute__=raising(SystemExit)),
    "no new attributes": local(__setattr__=raising(TypeError)),
    "slots": local(__slots__=("env_id", "lost")),
    "attributes of failures": local(env_id="mine", lost=True, traceback=7, phase=None),
    "a surrogate": lambda: ValueError("the cause \ud800"),
}
for own in (SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError, BaseException):
    for method in ("__reduce__", "__reduce_ex__", "__str__", "__repr__", "__getstate__", "__setstate__"):
        ODD[f"{own.__name__} in {method}"] = local(**{method: raising(own)})
for what, value in {
    "None": None,
    "an unknown name": "unknown",
    "a failing function": (raising(SystemExit), ()),
    "no exception": (list, ()),
    "a class of another kind": (type, ("A", (), {})),
    "too few": (ValueError,),
}.items():
    ODD[f"__reduce__ that gives {what}"] = local(__reduce__=lambda _, value=value: value)


def fail(name: str) -> None:
    error = ODD[name]()
    raise error


class Raises(Scripted):
    """Raises the exception that its action names, in ``reset`` if an option names it."""

    def step(self, action):
        if action:
            fail(list(ODD)[action - 1])
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if options:
            fail(options["odd"])
        return super().reset(seed=seed)

    def number(self, odd=None):
        if odd:
            fail(odd)
        return os.getpid()


def test_any_exception_is_a_failure():
    envs = SubprocVectorEnv([Raises] * 2, num_workers=1)
    envs.reset()
    worker = envs.call("number")
    for number, name in enumerate(ODD):
        for call in (
            lambda number=number: envs.step([0, number + 1]),
            lambda name=name: envs.reset([1], options={"odd": name}),
            lambda name=name: envs._backend.call("number", (name,), {}, np.array([1])),
        ):
            with pytest.raises(EnvFailure, match="environment 1 failed in") as caught:
                call()
            failure = caught.value
            assert (failure.env_id, failure.lost) == (1, (1,)), name
            assert "test_odd_errors.py" in failure.traceback, name
            assert "Traceback" in failure.traceback, name
            assert len(str(failure)) < 3000, name
            assert len(failure.traceback) < 200_000, name
            envs.reset()
            assert envs.step([0, 0])[0].tolist() == [[envs.call("episode")[k], 1] for k in range(2)], name
    assert envs.call("number") == worker  # none had to be replaced
    envs.close()


@pytest.mark.parametrize("odd", ["no module", "SystemExit in __reduce__", "notes that are a number", "huge arguments"])
def test_constructors_may_raise_anything(odd):
    def make():
        fail(odd)

    with pytest.raises(EnvFailure, match="environment 1 failed in its constructor") as caught:
        SubprocVectorEnv([Scripted, make])
    assert "in make" in caught.value.traceback


def test_the_cause_is_kept_where_it_can_be():
    remote = RemoteError.of(ValueError("the cause"))
    assert isinstance(remote.exception(), ValueError)
    assert remote.exception().__notes__ == [f"in the worker:\n{remote.text}"]
    assert remote.summary == "ValueError: the cause"
    assert RemoteError.of(ODD["huge arguments"]()).exception() is None
