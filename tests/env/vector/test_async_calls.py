import multiprocessing
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

from env.backends import BACKENDS
from env.beside import assert_same
from machine import PATIENCE, wait_until
from rlfast.env import DummyVectorEnv, EnvFailure, NativeVectorEnv, SubprocVectorEnv, VectorEnvNormObs
from scripted import Scripted


class Slow(Scripted):
    """An environment that waits for a file ``gate`` in each step."""

    def __init__(self, what="", gate=None) -> None:
        super().__init__(99)
        self.what, self.gate = what, gate

    def step(self, action):
        if self.what == "step":
            wait_until(self.gate.exists)
        if action == 2:
            raise ValueError("not two")
        return super().step(action)

    def call(self):
        wait_until(self.gate.exists)
        return "slow"


@pytest.fixture
def gymnasiums(face):
    """As ``face``, in Gymnasium's protocol."""
    return partial(face, autoreset_mode="next-step")


def cart_poles(make):
    return make([lambda: gym.make("CartPole-v1", max_episode_steps=5)] * 3)


def test_two_halves_are_the_whole(gymnasiums):
    ours, whole = cart_poles(gymnasiums), cart_poles(gymnasiums)
    ours.reset_async(seed=3, options={"low": -0.1, "high": 0.1})
    assert_same(ours.reset_wait(timeout=PATIENCE), whole.reset(seed=3, options={"low": -0.1, "high": 0.1}))
    for k in range(12):
        actions = np.array([k % 2, 1, 0])
        ours.step_async(actions)
        assert_same(list(ours.step_wait(timeout=PATIENCE)), list(whole.step(actions)))
    mask = np.array([False, True, False])
    ours.reset_async(seed=[1, 2, 3], options={"reset_mask": mask})
    assert_same(ours.reset_wait(), whole.reset(seed=[1, 2, 3], options={"reset_mask": mask}))
    ours.call_async("get_wrapper_attr", "gravity")
    assert ours.call_wait(timeout=PATIENCE) == (9.8,) * 3


def test_native_and_wrapped_send_recv():
    for make in (
        lambda: NativeVectorEnv("CartPole-v1", 2),
        lambda: VectorEnvNormObs(NativeVectorEnv("CartPole-v1", 2)),
    ):
        ours, whole = make(), make()
        ours.reset_async(seed=3)
        with pytest.raises(AlreadyPendingCallError, match="while waiting for a pending call to `reset` to complete"):
            ours.reset()
        assert_same(ours.reset_wait(timeout=PATIENCE), whole.reset(seed=3))
        ours.step_async([0, 1])
        with pytest.raises(AlreadyPendingCallError):
            ours.step([0, 1])
        assert_same(list(ours.step_wait()), list(whole.step([0, 1])))


ASK = {
    "reset": lambda envs: envs.reset_async(seed=1),
    "step": lambda envs: envs.step_async([0, 0]),
    "call": lambda envs: envs.call_async("length"),
}


@pytest.mark.parametrize("first", ASK)
def test_one_thing_at_a_time(gymnasiums, first):
    envs = gymnasiums([lambda: Scripted(9)] * 2)
    envs.reset()
    for what in ASK:
        with pytest.raises(NoAsyncCallError, match=f"Calling `{what}_wait` without any prior call") as caught:
            getattr(envs, f"{what}_wait")()
        assert caught.value.name == what
    ASK[first](envs)
    for what, ask in ASK.items():
        with pytest.raises(
            AlreadyPendingCallError, match=f"`{what}_async` while waiting for a pending .*`{first}`"
        ) as error:
            ask(envs)
        assert error.value.name == first
        if what != first:
            with pytest.raises((NoAsyncCallError, AlreadyPendingCallError)):
                getattr(envs, f"{what}_wait")()
    for other in (envs.reset, envs.render, lambda: envs.set_attr("length", 1), lambda: envs.get_attr("length")):
        with pytest.raises(AlreadyPendingCallError):
            other()
    getattr(envs, f"{first}_wait")()
    assert envs.step([0, 0])[0].shape == (2, 2)
    envs.close()
    for what, ask in ASK.items():
        with pytest.raises(ClosedEnvironmentError):
            ask(envs)
        with pytest.raises(ClosedEnvironmentError):
            getattr(envs, f"{what}_wait")()


@pytest.mark.parametrize("kind", ["workers", "process"])
def test_step_timeout_needs_reset(kind, tmp_path):
    gate = tmp_path / "gate"
    envs = BACKENDS[kind]([lambda: Slow("step", gate)] * 2, autoreset_mode="next-step")
    envs.reset()
    envs.step_async([0, 1])
    with pytest.raises(multiprocessing.TimeoutError, match=r"`step_wait` has timed out after 0.05 second\(s\)"):
        envs.step_wait(timeout=0.05)
    gate.touch()
    with pytest.raises(RuntimeError, match="call reset"):
        envs.step([0, 0])
    assert envs.reset()[0][:, 1].tolist() == [0, 0]
    actions = [list(own) for own in envs.get_attr("actions")]
    envs.step([1, 1])
    assert envs.get_attr("actions") == tuple([*own, 1] for own in actions)
    envs.close()


def test_a_call_that_takes_too_long_is_dropped(tmp_path):
    gate = tmp_path / "gate"
    envs = SubprocVectorEnv([lambda: Slow(gate=gate)] * 2, autoreset_mode="next-step", num_workers=1)
    envs.reset()
    envs.call_async("call")
    with pytest.raises(multiprocessing.TimeoutError):
        envs.call_wait(timeout=0.05)
    gate.touch()
    assert envs.get_attr("length") == (99, 99)  # and not "slow"
    envs.step([0, 0])
    envs.close()


def test_a_step_that_fails_in_its_second_half(gymnasiums):
    envs = gymnasiums([Slow] * 3)
    envs.reset()
    envs.step_async([0, 2, 1])
    with pytest.raises(ValueError, match="not two"):
        envs.step_wait(timeout=PATIENCE)
    with pytest.raises(RuntimeError, match="call reset"):
        envs.step([0, 0, 0])
    envs.reset()
    envs.step([0, 0, 0])


def test_a_worker_that_dies_while_it_is_waited_for():
    class Dying(Scripted):
        def step(self, action):
            import os

            os._exit(3)

    envs = SubprocVectorEnv([Dying] * 2, autoreset_mode="next-step", num_workers=1)
    envs.reset()
    envs.step_async([0, 0])
    with pytest.raises(EnvFailure, match="left with exit status 3"):
        envs.step_wait(timeout=PATIENCE)
    envs.reset()
    envs.close()


def test_they_are_of_gymnasiums_protocol():
    envs = DummyVectorEnv([Scripted])
    for ask in (envs.reset_async, lambda: envs.step_async([0]), lambda: envs.call_async("length")):
        with pytest.raises(TypeError, match="is of Gymnasium's protocol: give an autoreset_mode"):
            ask()
