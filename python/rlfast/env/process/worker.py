"""The main loop of a worker: it makes its environments, and then serves requests of the parent."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast import _core
from rlfast.env.process.channel import Channel, Closed
from rlfast.env.process.layout import WHOLE, MisfitError
from rlfast.env.process.protocol import (
    AGAIN,
    EXTRA,
    FAILED,
    MESSAGE,
    METHOD,
    ONLY_RESET,
    REPLACE,
    RESET,
    STEP,
    STOP,
    Places,
    Plan,
    Records,
)
from rlfast.env.process.serialization import RemoteError, dumps, loaded_functions, register
from rlfast.env.spaces.batching import declared
from rlfast.env.state import capture, restore
from rlfast.env.worker import attribute, reset_result, seed_env, seed_space, set_attribute, step_result
from rlfast.utils.tree import copied

EnvFn = Callable[[], gym.Env[Any, Any]]


class Worker:
    """A worker with its environments, which serves requests of the parent.

    :param channel: the channel to the parent.
    :param endpoint: this worker's endpoint of the shared memory.
    :param plan: the layout of the shared memory.
    :param records: the descriptor of the file for large records.
    :param first: the number of the first environment.
    :param envs: the environments.
    :param env_fns: the functions that make them, used to rebuild an environment.
    :param over: whether the next step of each environment only resets it (NEXT_STEP).
    """

    def __init__(
        self,
        channel: Channel,
        endpoint: Any,
        plan: Plan,
        records: int,
        first: int,
        envs: list[gym.Env[Any, Any]],
        env_fns: Sequence[EnvFn],
        over: Sequence[bool],
    ) -> None:
        self.channel, self.endpoint, self.first, self.envs, self.env_fns = channel, endpoint, first, envs, env_fns
        self.mode, self.strict, self.over = plan.mode, plan.strict, list(over)
        places = Places(plan)
        self.obs, self.action = places.obs, places.action
        self.views = places.views(endpoint.slab)
        self.records = Records(self.views, lambda _env: (first, records))
        self.requests: dict[int, dict[str, Any]] = {}  # arguments of pending resets
        self.spilled: dict[int, dict[int, Any]] = {}  # parts of actions that the parent has sent pickled

    def run(self) -> None:
        """Serves requests until the parent stops the worker."""
        next_task = self.endpoint.next
        while True:
            task = next_task()
            if task is None:
                continue
            env, kind, _ = task
            if env >= 0:
                try:
                    if kind == STEP:
                        self.step(env)
                    else:
                        self.reset(env)
                        self.over[env - self.first] = kind == REPLACE and self.mode is AutoresetMode.NEXT_STEP
                except BaseException as error:  # an environment may raise anything, sys.exit() included
                    self.fail(env, error)
            elif env == MESSAGE:
                self.handle_message()
            elif env == STOP:
                return

    def step(self, env: int) -> None:
        """Steps an environment and writes the result."""
        local = env - self.first
        if self.over[local]:
            self.over[local] = False
            obs, info = self.begin(env)
            return self.answer(env, obs, info, note=ONLY_RESET)
        spilled = self.spilled.pop(env, {}) if self.spilled else {}
        action = spilled[WHOLE] if WHOLE in spilled else self.action.get(self.views.actions, env, spilled)
        obs, reward, terminated, truncated, info = step_result(self.envs[local].step(action))
        if terminated or truncated:
            if self.mode is AutoresetMode.SAME_STEP:
                extra: dict[str, Any] = {}
                spill: dict[int, Any] = {}
                self.obs.put(self.views.finals, env, obs, spill)
                if spill:
                    extra["final"] = spill
                if info:
                    extra["final_info"] = info
                # The reset may overwrite the arrays and containers that the step returned.
                reward, terminated, truncated, extra = copied((reward, terminated, truncated, extra))
                self.endpoint.enter(env, RESET)
                obs, info = self.begin(env)
                return self.answer(env, obs, info, reward, terminated, truncated, AGAIN, extra)
            self.over[local] = self.mode is AutoresetMode.NEXT_STEP
        return self.answer(env, obs, info, reward, terminated, truncated)

    def reset(self, env: int) -> None:
        """Resets an environment and writes the result."""
        request = self.requests.pop(env, {})
        self.over[env - self.first] = False
        if request.get("seed") is not None:
            seed_space(declared(partial(attribute, self.envs[env - self.first]), "action_space"), request["seed"])
        obs, info = self.begin(env, **request)
        self.answer(env, obs, info)

    def begin(self, env: int, **request: Any) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode; returns its first observation and info."""
        return reset_result(self.envs[env - self.first].reset(**request))

    def answer(
        self,
        env: int,
        obs: object,
        info: dict[str, Any],
        reward: Any = 0.0,
        terminated: Any = False,
        truncated: Any = False,
        note: int = 0,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Writes a result to the shared memory and notifies the parent."""
        spill: dict[int, Any] = {}
        try:
            self.obs.put(self.views.obs, env, obs, spill)
        except MisfitError as error:
            if self.strict:
                raise
            spill, extra = {WHOLE: obs}, {**(extra or {}), "misfit": str(error)}
        has_axes = type(reward) is not float and np.ndim(reward) > 0
        if info or spill or extra or has_axes:
            extra = extra or {}
            if info:
                extra["info"] = info
            if spill:
                extra["obs"] = spill
            if has_axes:
                extra["reward"], reward = np.asarray(reward, dtype=np.float64), 0.0
            if extra:
                self.records.write(env, dumps(extra))
                note |= EXTRA
        self.endpoint.answer(env, float(reward), bool(terminated), bool(truncated), note)

    def fail(self, env: int, error: BaseException) -> None:
        """Writes an exception as the result."""
        self.over[env - self.first] = False
        self.records.write(env, pickle.dumps(RemoteError.of(error)))
        self.endpoint.answer(env, 0.0, False, False, EXTRA | FAILED)

    # -- messages of the channel -------------------------------------------------------------------------------------

    def handle_message(self) -> None:
        """Reads and handles all messages that have come.

        There may be none, because the parent announces a message twice and may be interrupted before it sends it, and
        several, because it may be interrupted before it announces one.
        """
        while self.channel.waiting():
            message, _ = self.channel.receive()
            self.handle(message)

    def handle(self, message: bytes) -> None:
        """Handles a message."""
        kind, content = pickle.loads(message)  # noqa: S301
        if kind == "reset":
            self.requests.update(content)
        elif kind == "actions":
            self.spilled.update(content)
        else:
            number, method, env, arguments = content
            self.endpoint.enter(env, METHOD)
            try:
                reply = dumps((number, True, getattr(self, f"do_{method}")(env - self.first, *arguments)))
            except BaseException as error:
                reply = pickle.dumps((number, False, RemoteError.of(error)))
            self.endpoint.enter(-1, 0)
            self.channel.send(reply)

    def do_get_attr(self, local: int, name: str) -> Any:
        """Returns the environment's attribute, looked up through its wrappers."""
        return attribute(self.envs[local], name)

    def do_call(self, local: int, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls the method and returns its result; returns the attribute if it is not callable."""
        found = self.do_get_attr(local, name)
        return found(*args, **kwargs) if callable(found) else found

    def do_set_attr(self, local: int, name: str, value: object) -> None:
        """Sets an attribute of the innermost environment."""
        set_attribute(self.envs[local], name, value, innermost=True)

    def do_set_wrapper_attr(self, local: int, name: str, value: object) -> None:
        """Sets an attribute of the outermost wrapper that has it."""
        set_attribute(self.envs[local], name, value, innermost=False)

    def do_seed(self, local: int, seed: int | None) -> None:
        """Seeds the environment by its own method ``seed``, or by a reset if it has none."""
        self.over[local] = False
        seed_env(self.envs[local], seed)

    def do_render(self, local: int, kwargs: dict[str, Any]) -> Any:
        """Returns what the environment's ``render`` returns."""
        return self.envs[local].render(**kwargs)

    def do_get_state(self, local: int) -> dict[str, Any]:
        """Returns the complete state of the environment."""
        return {"env": capture(self.envs[local]), "ended": bool(self.over[local])}

    def do_set_state(self, local: int, state: dict[str, Any]) -> None:
        """Restores a state that :meth:`do_get_state` returned."""
        restore(self.envs[local], state["env"])
        self.over[local] = state["ended"]

    def do_rebuild(self, local: int) -> None:
        """Replaces an environment that failed by a new one."""
        with suppress(BaseException):  # the environment has failed before, so close() may fail as well
            self.envs[local].close()
        self.envs[local] = self.env_fns[local]()

    def close(self) -> None:
        """Closes all environments, even if closing one of them fails."""
        for env in self.envs:
            with suppress(BaseException):
                env.close()


def work(channel: Channel, env_fns: Sequence[EnvFn] | None) -> None:
    """Runs a worker until it ends.

    :param channel: the channel to the parent.
    :param env_fns: the functions that make the environments; None if the parent sends them through the channel.
    """
    envs: list[gym.Env[Any, Any]] = []
    try:
        message, _ = channel.receive()
        first, functions, registered = pickle.loads(message)  # noqa: S301
        register(registered)
        fns: Sequence[EnvFn] = loaded_functions(functions) if env_fns is None else env_fns
        for k, fn in enumerate(fns):
            channel.send(pickle.dumps(("making", first + k)))
            envs.append(fn())
        channel.send(dumps(("made", _described(envs))))
        message, files = channel.receive()
        plan, number, over, spins = pickle.loads(message)  # noqa: S301
        records = files.pop()
        place = _core.WorkerEndpoint.attach(files, plan.starts, Places(plan).size, number, spins=spins)
        for file in files:
            os.close(file)
        worker = Worker(channel, place, plan, records, first, envs, fns, over)
    except BaseException as error:
        with suppress(Closed):
            channel.send(pickle.dumps(("failed", RemoteError.of(error))))
        channel.close()
        return
    try:
        worker.run()
    except Closed:
        pass
    finally:
        worker.close()
        os.close(records)
        channel.close()


def _described(envs: Sequence[gym.Env[Any, Any]]) -> dict[str, Any]:
    """Describes the environments for the parent: spaces, metadata, spec and render mode."""
    first = envs[0]
    return {
        "observation_spaces": _declared(envs, "observation_space"),
        "action_spaces": _declared(envs, "action_space"),
        "shows_its_space": all(getattr(getattr(env, "unwrapped", env), "shows_its_space", True) for env in envs),
        "metadata": _picklable(dict(getattr(first, "metadata", None) or {})) or {},
        "spec": _picklable(getattr(first, "spec", None)),
        "render_mode": getattr(first, "render_mode", None),
    }


def _declared(envs: Sequence[gym.Env[Any, Any]], name: str) -> list[Any]:
    """Returns the spaces of environments; equal spaces are represented by one object, which is pickled only once."""
    spaces: list[Any] = []
    for env in envs:
        space = _picklable(declared(partial(attribute, env), name))
        spaces.append(spaces[0] if spaces and _are_equal(space, spaces[0]) else space)
    return spaces


def _are_equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a user-defined comparison may raise anything
        return False


def _picklable(value: object) -> Any:
    with suppress(Exception):
        dumps(value)
        return value
    return None


def main(descriptor: int, parent: int) -> None:
    """The entry point of a worker process.

    :param descriptor: the open socket to the parent.
    :param parent: the parent's process id; this process ends when the parent ends.
    """
    with exiting():
        prepare(parent)
        work(Channel(socket.socket(fileno=descriptor)), None)


def prepare(parent: int) -> None:
    """Makes this process end when process ``parent`` ends, and ignore Ctrl-C, which the parent handles."""
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, everything
    )  # the thread inherits the mask: only the main one gets signals
    _core.end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def exiting() -> Iterator[None]:
    """Ends the process after the ``with`` block, without running exit handlers that it inherited from its parent."""
    status = 1
    try:
        yield
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)
