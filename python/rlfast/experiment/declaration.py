"""How the parts of a run are made: from its settings, or from the Python objects of a declaration."""

from __future__ import annotations

import copy
import pickle
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from rlfast.data import Batch, ReplayBuffer, to_numpy
from rlfast.data.plain_data import summary
from rlfast.env import DummyVectorEnv
from rlfast.env.specs import is_native_only
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.environments import make_env, make_envs, normalized, normalizing_obs
from rlfast.experiment.networks import Networks
from rlfast.utils.runtime.seeding import global_random_state, set_global_random_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rlfast.env import BaseVectorEnv
    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy
    from rlfast.trainer import BaseTrainer
    from rlfast.utils.logger import BaseLogger

PICKLE = "experiment.pkl"
"""The file of a declaration, in the run's folder."""


class Declaration:
    """Makes the parts of a run from its settings. :mod:`rlfast.highlevel` overrides methods for other parts."""

    @property
    def beyond(self) -> Sequence[str]:
        """What the settings do not say, in words. A run folder cannot be opened without it."""
        return ()

    def save(self, run_dir: Path) -> None:
        """Writes to the run's folder what :meth:`beyond` names.

        :param run_dir: the folder.
        """

    def environments(self, config: RunConfig) -> tuple[BaseVectorEnv, BaseVectorEnv]:
        """Returns the environments of training and of tests, with the wrappers that the settings ask for.

        :param config: the settings of the run.
        """
        with ExitStack() as made:
            train_envs, test_envs = (made.enter_context(closing(envs)) for envs in self.vector_envs(config))
            wrapped = normalized(config, train_envs, test_envs)
            made.pop_all()
        return wrapped

    def vector_envs(self, config: RunConfig) -> Iterable[BaseVectorEnv]:
        """Returns the environments of training and of tests as they are.

        :param config: the settings of the run.
        """
        return (make_envs(config, name) for name in ("train", "test"))

    def policy(
        self, config: RunConfig, obs_space: gym.Space[Any], act_space: gym.Space[Any], data: ReplayBuffer | None = None
    ) -> BasePolicy:
        """Returns the policy.

        :param config: the settings of the run.
        :param obs_space: observation space of one environment.
        :param act_space: action space of one environment.
        :param data: the transitions of an expert, for an algorithm that imitates it and also acts; None for others.
        :raises ValueError: if the algorithm has no network for the spaces, or actions have no finite bounds.
        """
        algorithm = algorithm_of(config)
        if isinstance(act_space, gym.spaces.Box) and not act_space.is_bounded():
            raise ValueError(
                f"{algorithm.title} needs actions with finite bounds, and those of {config.env} are {act_space}: "
                "register the environment with the bounds that you mean"
            )
        return config.build(Networks(config, algorithm.title, obs_space, act_space, data))

    def buffer_options(self) -> dict[str, Any]:
        """Returns arguments of the replay buffer."""
        return {}

    def trainer_options(self, parts: Any, logger: BaseLogger) -> dict[str, Any]:  # noqa: ARG002
        """Returns arguments of the trainer; see :func:`~rlfast.experiment.training.make_trainer`.

        :param parts: the parts of the run, see :class:`~rlfast.experiment.build.Parts`.
        :param logger: the logger of the run.
        """
        return {}

    def loggers(self, run_dir: Path) -> list[BaseLogger]:  # noqa: ARG002
        """Returns loggers beside those of every run.

        :param run_dir: the folder of the run.
        """
        return []

    def prepare(self, parts: Any) -> None:
        """Is called with the parts of a run that begins, and does not go on, before anything is written.

        :param parts: the parts of the run, see :class:`~rlfast.experiment.build.Parts`.
        :raises ValueError: if the run cannot begin.
        """

    def begin(self, trainer: BaseTrainer) -> None:
        """Is called once, before training begins or goes on.

        :param trainer: the trainer.
        """

    def environment(self, config: RunConfig, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Returns one environment, as those of tests.

        :param config: the settings of the run.
        :param render_mode: given to the environment.
        """
        return make_env(config, training=False, render_mode=render_mode)

    def evaluation(
        self,
        config: RunConfig,
        number: int,
        statistics: Sequence[dict[str, Any]] | None,
        make: Callable[[], gym.Env[Any, Any]] | None = None,
    ) -> BaseVectorEnv:
        """Returns environments that show what those of the run's tests do.

        :param config: the settings of the run.
        :param number: how many.
        :param statistics: the states of wrappers of test environments; None without such wrappers.
        :param make: makes each of them. Default: :meth:`environment`.
        """
        envs = self.evaluation_envs(config, number, make)
        if config.normalize_obs:
            envs = normalizing_obs(config, envs, statistics=statistics[0] if statistics else None)
        wrapper: Any = envs
        for state in statistics or ():
            if hasattr(wrapper, "load_state_dict"):
                wrapper.load_state_dict(state)
                wrapper = getattr(wrapper, "venv", None)
        return envs

    def evaluation_envs(
        self, config: RunConfig, number: int, make: Callable[[], gym.Env[Any, Any]] | None
    ) -> BaseVectorEnv:
        """Returns the environments of an evaluation as they are.

        :param config: the settings of the run.
        :param number: how many.
        :param make: makes each of them; None for :meth:`environment`.
        """
        if make is None and is_native_only(config.env):
            return make_envs(replace(config, eval_envs=number), "test")
        return DummyVectorEnv([make or partial(self.environment, config)] * number)


def check_fit(policy: BasePolicy, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> None:
    """Checks that a policy's networks take observations, and give what actions need.

    :param policy: the policy, which acts once. Random streams stay where they are.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    :raises ValueError: if they do not.
    """
    streams = global_random_state()
    try:
        policy.eval()
        with torch.no_grad():
            result: Any = policy(Batch([Batch(obs=obs_space.sample(), info={})]))
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the networks cannot take an observation: {summary(error)}") from error
    finally:
        policy.train()
        set_global_random_state(streams)
    logits = result.get("logits", None)
    if isinstance(act_space, gym.spaces.Discrete):
        if isinstance(logits, torch.Tensor) and logits.shape[1] != act_space.n:
            raise ValueError(f"a network gives {logits.shape[1]} numbers, and there are {act_space.n} actions")
    elif isinstance(act_space, gym.spaces.Box) and tuple(result.act.shape[1:]) != act_space.shape:
        shape = tuple(result.act.shape[1:])
        raise ValueError(f"a network gives actions of shape {shape}, they are of {act_space.shape}")


def check_stacks(
    policy: BasePolicy, obs_space: gym.Space[Any], options: dict[str, Any], learning: dict[str, Any]
) -> None:
    """Checks that a policy's networks learn from what the replay buffer stacks; acting shows them single observations.

    :param policy: the policy, of which a copy learns. Random streams stay where they are.
    :param obs_space: observation space of one environment.
    :param options: arguments of the replay buffer.
    :param learning: arguments of the policy's ``learn``.
    :raises ValueError: if they do not.
    """
    number = options.get("stack_num", 1)
    if number == 1:
        return
    streams = global_random_state()
    try:
        _learn_from_stacks(copy.deepcopy(policy), obs_space, ReplayBuffer(4, **options), learning)
    except (TypeError, RuntimeError, ValueError, LookupError) as error:
        raise ValueError(
            f"replay_buffer_stack_num={number} has the networks learn from stacks of {number} observations, which they "
            f"cannot take: {summary(error)}. Leave it at 1, give factories of networks that take stacks as well as "
            "single observations, such as recurrent ones, or have the environment stack and "
            "replay_buffer_save_only_last_obs"
        ) from error
    finally:
        set_global_random_state(streams)


def _learn_from_stacks(
    policy: BasePolicy, obs_space: gym.Space[Any], buffer: ReplayBuffer, learning: dict[str, Any]
) -> None:
    for _ in range(buffer.maxsize):
        seen = Batch([Batch(obs=obs_space.sample(), info={})])
        with torch.no_grad():
            act = to_numpy(policy(seen).act)[0]
        after = {"rew": 0.0, "terminated": False, "truncated": False, "obs_next": obs_space.sample(), "info": {}}
        buffer.add(Batch(obs=seen[0].obs, act=act, **after))
    with torch.no_grad():
        rows = len(policy(Batch(obs=buffer.sample(0)[0].obs, info={})).act)
    if rows != len(buffer):  # numbers are encoded one by one, so that nothing else would fail
        raise ValueError(f"they give {rows} actions for {len(buffer)} stacks")
    policy.update(0, buffer, **learning)


def read_declaration(run_dir: Path, beyond: Sequence[str], *, allow_import: bool) -> Declaration:
    """Returns the declaration of a run.

    :param run_dir: the folder of the run.
    :param beyond: what ``config.json`` says that it does not say.
    :param allow_import: whether the declaration may be unpickled, which runs code that the folder names.
    :raises ValueError: if it may not, or cannot.
    """
    if not beyond:
        return Declaration()
    what = "; ".join(beyond)
    path = run_dir / PICKLE
    if not allow_import:
        raise ValueError(
            f"{run_dir} was declared by Python objects that its config.json does not hold ({what}), and to open it "
            f"{path} would be unpickled, which runs code: who trusts the folder says --allow-import, or allow_import="
            "True"
        )
    try:
        with path.open("rb") as file:
            experiment: Any = pickle.load(file)  # noqa: S301 (allowed by the caller)
        made: Declaration = experiment.declaration(run_dir)
    except FileNotFoundError:
        raise ValueError(f"{run_dir} cannot be opened: {what} are in {path}, which is missing") from None
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{run_dir} cannot be opened here: {path} needs what is not importable ({error}); open it in the script "
            f"that defines it, by Experiment.from_directory({str(run_dir)!r})"
        ) from error
    return made
