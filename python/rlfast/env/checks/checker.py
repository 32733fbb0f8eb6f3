"""``check_env``: finds what would go wrong in training with an environment, by playing it with random actions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import env_checker

from rlfast.env.spaces.random_actions import RandomActions, sizes_of
from rlfast.env.subproc import SubprocVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv

_COMPARED = 100
"""Steps that are played again, to see whether they repeat, also in a worker process."""
_LARGE = 100.0
"""Networks learn slowly from observations larger than this, unless they are normalized."""
_NOT_OURS = (
    "different from the unwrapped version",  # how the checker was called
    "recommend using a symmetric and normalized space",  # policies scale actions themselves
    "infinity. This is probably too",  # CartPole's are, too
)
"""Parts of Gymnasium's warnings that do not matter here."""
_COLOUR = re.compile(r"\x1b\[\d*m(WARN: )?")


@dataclass
class EnvReport:
    """What :func:`check_env` found. ``str(report)`` is one line for each finding.

    :param errors: what breaks training, or makes it learn from wrong data.
    :param warnings: what often makes training slow, or runs hard to repeat.
    :param facts: what the environment is like.
    """

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        groups = (("ok", self.facts), ("warning", self.warnings), ("error", self.errors))
        return "\n".join(f"{name:<9}{text}" for name, texts in groups for text in texts)


def check_env(
    env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]], *, steps: int = 1000, seed: int = 0
) -> EnvReport:
    """Check that an environment can be trained on.

    Runs :func:`gymnasium.utils.env_checker.check_env`, then plays random actions, legal ones where observations have a
    ``mask``, and checks that each observation is in the observation space, that rewards are finite numbers, and that
    episodes end. A function that makes the environment is also run in a worker process, and must give the same rows
    there.

    :param env: the environment, or a function without arguments that makes it. An environment is left open.
    :param steps: how many steps to play.
    :param seed: the seed of the environment and of its actions.
    :return: warnings, and facts about the environment.
    :raises ValueError: the environment has errors; the text lists all that were found.
    :raises TypeError: ``env`` is neither an environment nor a function that makes one.

    >>> print(check_env(lambda: gym.make("CartPole-v1"), steps=200).facts[0])
    observations Box([-4.8 -inf -0.41887903 -inf], [4.8 inf 0.41887903 inf], (4,), float32), actions Discrete(2)
    """
    report = examine_env(env, steps=steps, seed=seed)
    if report.errors:
        raise ValueError("the environment cannot be trained on:\n" + "\n".join(f"- {text}" for text in report.errors))
    return report


def examine_env(
    env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]], *, steps: int = 1000, seed: int = 0
) -> EnvReport:
    """Check an environment as :func:`check_env` does, and report errors instead of raising them.

    :param env: see :func:`check_env`.
    :param steps: see :func:`check_env`.
    :param seed: see :func:`check_env`.
    :return: what was found.
    :raises TypeError: see :func:`check_env`.
    :raises ValueError: ``steps`` is not positive.
    """
    if steps < 1:
        raise ValueError(f"steps must be positive, got {steps}")
    report = EnvReport()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _examine_any(env, report, steps, seed)
    for warning in caught:
        text = _one_line(warning.message)
        if not any(part in text for part in _NOT_OURS) and text not in report.warnings:
            report.warnings.append(text)
    return report


def _examine_any(
    env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]], report: EnvReport, steps: int, seed: int
) -> None:
    if isinstance(env, gym.Env):
        _examine(env, report, steps, seed)
        return
    if not callable(env):
        raise TypeError(f"expected a gymnasium.Env or a function that makes one, got {type(env).__name__}")
    try:
        made = env()
    except gym.error.Error:  # such as for a name that is not registered
        raise
    except Exception as error:
        report.errors.append(f"making the environment raised {type(error).__name__}: {_one_line(error)}")
        return
    if not isinstance(made, gym.Env):
        raise TypeError(f"expected a function that makes a gymnasium.Env, but it made a {type(made).__name__}")
    try:
        rows = _examine(made, report, steps, seed)
    finally:
        made.close()
    if rows and not report.errors:
        _compare_with_workers(env, rows, report, seed)


def _examine(env: gym.Env[Any, Any], report: EnvReport, steps: int, seed: int) -> list[_Row]:
    """Check one environment, and return its first rows; none if it cannot be played."""
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gym.Space):
            report.errors.append(f"{name} is {getattr(env, name, None)!r}; set it to a gymnasium.Space")
    if report.errors:
        return []
    report.facts.append(f"observations {env.observation_space}, actions {env.action_space}")
    _check_spaces(env, report)
    rollout = _play(env, _Findings(report), steps, seed)
    if not report.errors:  # else Gymnasium says less clearly what was just found
        _run_gymnasium(env, report)
    _summarize(rollout, report)
    if rollout.rows and not report.errors:
        again = _play(env, _Findings(EnvReport()), len(rollout.rows), seed)
        if (step := _first_difference(rollout.rows, again.rows)) is not None:
            report.warnings.append(
                f"step {step}: the same seed and actions gave another row when played again, so runs will not repeat; "
                "draw all random numbers from self.np_random, and set all state in reset"
            )
            return []
    return rollout.rows


def _one_line(text: object) -> str:
    return " ".join(_COLOUR.sub("", str(text)).split())


def _check_spaces(env: gym.Env[Any, Any], report: EnvReport) -> None:
    if isinstance(env.observation_space, gym.spaces.Tuple):
        report.errors.append(
            "collectors take arrays and dicts of arrays, and the observation space is a Tuple: return a dict, or wrap "
            "the environment in gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(env.action_space, gym.spaces.Box) and not env.action_space.is_bounded():
        report.warnings.append(
            "actions have no finite bounds: policies cannot scale to them; declare bounds, or use action_scaling=False"
        )


class _Checked(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """What Gymnasium's checker plays. It returns copies, as the checker takes an array that is overwritten for a seed
    that has no effect; and it takes a legal action instead of the checker's where observations have a mask.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._obs: object = None

    def reset(self, **kwargs: Any) -> Any:
        self._obs, info = deepcopy(self.env.reset(**kwargs))
        return self._obs, info

    def step(self, action: object) -> Any:
        if isinstance(self._obs, dict) and "mask" in self._obs:
            space = deepcopy(self.env.action_space)
            space.seed(0)
            action = _random_action(space, self._obs)
        self._obs, *others = deepcopy(self.env.step(action))
        return (self._obs, *others)


def _run_gymnasium(env: gym.Env[Any, Any], report: EnvReport) -> None:
    """Take over the findings of Gymnasium's own checker."""
    try:
        env_checker.check_env(_Checked(env), skip_render_check=True)
    except Exception as error:
        repeats = not (isinstance(error, AssertionError) and "Deterministic step" in str(error))
        found = report.errors if repeats else report.warnings  # a robot never repeats, and can be trained on
        found.append(f"gymnasium's check_env: {type(error).__name__}: {_one_line(error)}")
    else:
        report.facts.append("gymnasium's check_env passes")


@dataclass
class _Row:
    action: Any
    obs: Any
    rew: float
    terminated: bool
    truncated: bool

    @property
    def result(self) -> tuple[Any, ...]:
        return self.obs, self.rew, self.terminated, self.truncated


class _Findings:
    """Errors of a run, each kind once, with the step at which it was met first."""

    def __init__(self, report: EnvReport) -> None:
        self._report = report
        self._kinds: set[str] = set()

    def add(self, kind: str, where: str, text: str) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._report.errors.append(f"{where}: {text}")

    def check_returned(self, env: gym.Env[Any, Any], where: str, obs: object, info: object) -> None:
        """Report an observation outside its space, and an info that is no dict."""
        if text := misfit(env.observation_space, obs):
            self.add(f"observation {text.split()[1]}", where, f"the observation {text}")
        if not isinstance(info, dict):
            self.add("info", where, f"info is a {type(info).__name__}; return a dict")

    @contextmanager
    def of_call(self, kind: str, where: str, call: str) -> Iterator[None]:
        """Report an exception of the environment, and end the run."""
        try:
            yield
        except Exception as error:
            self.add(kind, where, f"{call} raised {type(error).__name__}: {_one_line(error)}")
            raise _StoppedError from error


class _StoppedError(Exception):
    """The environment cannot be played further."""


@dataclass
class _Rollout:
    """Random play of an environment."""

    rows: list[_Row] = field(default_factory=list)
    """The first steps."""
    lengths: list[int] = field(default_factory=lambda: [0])
    """Of the episodes, the running one last."""
    returns: list[float] = field(default_factory=lambda: [0.0])
    largest: float = 0.0
    """The largest absolute value in an observation."""
    overwritten: int = 0
    """The first step that changed the observation returned before it; 0 if none did."""

    def add(self, row: _Row) -> None:
        if len(self.rows) < _COMPARED:
            self.rows.append(deepcopy(row))
        self.lengths[-1] += 1
        self.returns[-1] += row.rew
        if isinstance(row.obs, np.ndarray) and (row.obs.dtype.kind == "f" or row.obs.ndim == 1):  # no picture of bytes
            self.largest = max(self.largest, float(np.abs(row.obs.astype(np.float64)).max(initial=0)))
        if row.terminated or row.truncated:
            self.lengths.append(0)
            self.returns.append(0.0)


def _play(env: gym.Env[Any, Any], findings: _Findings, steps: int, seed: int) -> _Rollout:
    """Play random actions and check each row."""
    rollout = _Rollout()
    try:
        env.action_space.seed(seed)
        before = _reset(env, findings, "reset", seed)
        for step in range(1, steps + 1):
            kept = deepcopy(before)
            row = _step(env, findings, f"step {step}", before)
            if not rollout.overwritten and not _equal(before, kept):
                rollout.overwritten = step
            rollout.add(row)
            before = row.obs
            if row.terminated or row.truncated:
                before = _reset(env, findings, f"reset after step {step}", None)
    except _StoppedError:
        pass
    return rollout


def _reset(env: gym.Env[Any, Any], findings: _Findings, where: str, seed: int | None) -> Any:
    with findings.of_call("reset", where, "reset"):
        obs, info = env.reset(seed=seed)
    findings.check_returned(env, where, obs, info)
    return obs


def _random_action(space: gym.Space[Any], obs: object) -> Any:
    """Draw an action, a legal one where the observation has a mask."""
    if not (isinstance(obs, dict) and "mask" in obs and sizes_of(space)):
        return space.sample()
    return RandomActions([space], 1)(np.zeros(1, np.int64), np.asarray(obs["mask"], np.bool_)[None])[0]


def _step(env: gym.Env[Any, Any], findings: _Findings, where: str, before: object) -> _Row:
    action = _random_action(env.action_space, before)
    with findings.of_call("step", where, f"step({action!r})"):
        obs, rew, terminated, truncated, info = env.step(action)
    findings.check_returned(env, where, obs, info)
    with findings.of_call("reward", where, f"float({rew!r}), of the reward,"):
        number = float(rew)
    if not np.isfinite(number):
        findings.add("finite", where, f"the reward is {number}; rewards must be finite, or training ends in NaN")
    flags: dict[str, Any] = {"terminated": terminated, "truncated": truncated}
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            findings.add(name, where, f"{name} is {flag!r}, a {type(flag).__name__}; return a bool")
    return _Row(action, obs, number, bool(terminated), bool(truncated))


def misfit(space: gym.Space[Any], value: object) -> str:
    """Explain why a value is not in a space.

    :param space: the space.
    :param value: the value.
    :return: a text such as ``"has dtype float64, and the space float32"``; ``""`` if the value is in the space.

    >>> misfit(gym.spaces.Box(0, 1, (2,)), np.zeros(3, np.float32))
    'has shape (3,), and its space (2,)'
    """
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return _nested_misfit(space, value)
    if isinstance(space, gym.spaces.Box | gym.spaces.MultiBinary | gym.spaces.MultiDiscrete):
        if not isinstance(value, np.ndarray | np.generic):
            return f"is a {type(value).__name__}, and its space has arrays of dtype {space.dtype}"
        if value.shape != space.shape:
            return f"has shape {value.shape}, and its space {space.shape}"
        if not np.can_cast(value.dtype, space.dtype):
            return f"has dtype {value.dtype}, and its space {space.dtype}"
        if value.dtype.kind == "f" and np.isnan(value).any():
            return "has NaN"
        if not space.contains(value):
            return f"has values from {value.min()} to {value.max()}, outside of {space}"
        return ""
    return "" if space.contains(value) else f"{value!r} is not in {space}"


def _nested_misfit(space: gym.spaces.Dict | gym.spaces.Tuple[Any], value: object) -> str:
    kind = dict if isinstance(space, gym.spaces.Dict) else tuple
    if not isinstance(value, kind):
        return f"is a {type(value).__name__}, and its space is {space}"
    parts, given = _parts(space.spaces), _parts(value)
    if parts.keys() != given.keys():
        return f"has the parts {[*given]}, and its space {[*parts]}"
    return next((f"at {key!r} {text}" for key, part in parts.items() if (text := misfit(part, given[key]))), "")


def _parts(nested: Mapping[Any, Any] | Sequence[Any]) -> dict[Any, Any]:
    return dict(nested) if isinstance(nested, Mapping) else dict(enumerate(nested))


def _summarize(rollout: _Rollout, report: EnvReport) -> None:
    steps, (*lengths, _), (*returns, _) = sum(rollout.lengths), rollout.lengths, rollout.returns
    if lengths and not report.errors:
        report.facts.append(
            f"{steps:,} random steps, {len(lengths)} episodes of {np.mean(lengths):.1f} steps on average, "
            f"with returns from {min(returns):g} to {max(returns):g}"
        )
    elif not report.errors:
        report.warnings.append(
            f"no episode ended within {steps:,} steps, and only ended episodes are scored; limit them, by "
            "max_episode_steps where the environment is registered, or by gymnasium.wrappers.TimeLimit"
        )
    if rollout.overwritten:
        report.warnings.append(
            f"step {rollout.overwritten} changed the observation that was returned before it: return a copy; rlfast "
            "copies observations, other libraries and your own code may not"
        )
    if rollout.largest > _LARGE:
        report.warnings.append(
            f"observations reach {rollout.largest:g}, which networks learn from slowly: scale them, or normalize them "
            "(VectorEnvNormObs, --normalize-obs)"
        )


def _first_difference(rows: list[_Row], others: list[_Row]) -> int | None:
    """Return the number, from 1, of the first step that differs; None if all are equal."""
    for step, (one, other) in enumerate(zip(rows, others, strict=False), 1):
        if not _equal(one.result, other.result):
            return step
    return None if len(rows) == len(others) else min(len(rows), len(others)) + 1


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(_equal, one, other))
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


def _compare_with_workers(
    env_fn: Callable[[], gym.Env[Any, Any]], rows: list[_Row], report: EnvReport, seed: int
) -> None:
    """Play the same actions in a vector environment in this process and in a worker process."""
    for vector_class in (DummyVectorEnv, SubprocVectorEnv):
        name = vector_class.__name__
        try:
            others = _replay(vector_class([env_fn]), rows, seed)
        except Exception as error:
            report.errors.append(f"{name}: {type(error).__name__}: {_one_line(error)}")
            continue
        if (step := _first_difference(rows, others)) is not None:
            report.errors.append(
                f"{name}: step {step} differs from that of the environment alone, with the same seed and actions"
            )
        else:
            report.facts.append(f"{name} gives the same {len(rows)} steps")


def _replay(envs: DummyVectorEnv | SubprocVectorEnv, rows: list[_Row], seed: int) -> list[_Row]:
    others = []
    try:
        envs.reset(seed=seed)
        for row in rows:
            obs, rew, terminated, truncated, _ = envs.step([row.action])
            others.append(_Row(row.action, deepcopy(obs[0]), float(rew[0]), bool(terminated[0]), bool(truncated[0])))
            if terminated[0] or truncated[0]:
                envs.reset([0])
    finally:
        envs.close()
    return others
