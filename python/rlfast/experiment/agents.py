"""Loading and evaluation of a trained policy, and videos of it."""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import Batch
from rlfast.data.collect.checks import form_of
from rlfast.data.collect.collector import Collector
from rlfast.data.plain_data import summary
from rlfast.env import VectorEnvNormObs
from rlfast.experiment.build import build, explore_in_tests, on_this_machine
from rlfast.experiment.checkpoint import load_normalization, load_policy, load_wrappers
from rlfast.experiment.config import stream_seed
from rlfast.experiment.config.outside import check_outside
from rlfast.experiment.declaration import read_declaration
from rlfast.experiment.run_dir import BEST, CHECKPOINT, read_beyond, read_config
from rlfast.experiment.sharing.hub import local_folder
from rlfast.policy import ActingPolicy
from rlfast.utils.runtime.extras import how_to_install
from rlfast.utils.runtime.seeding import global_random_state, set_global_random_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from rlfast.data.stats import CollectStats
    from rlfast.data.types import ObsBatchProtocol, arr_type
    from rlfast.env import BaseVectorEnv
    from rlfast.experiment.config import RunConfig
    from rlfast.experiment.declaration import Declaration
    from rlfast.policy import BasePolicy


class _AgentPolicy(ActingPolicy):
    """The policy of a run, which takes observations as its environment returns them."""

    def __init__(self, policy: BasePolicy, prepare: Callable[[Any], Any]) -> None:
        names = ("action_space", "action_scaling", "action_bound_method")
        super().__init__(**{name: getattr(policy, name) for name in names})
        self.policy = policy
        self._prepare = prepare

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> Any:
        return self.policy(Batch(obs=self._prepare(batch.obs), info=batch.get("info", {})), state, **kwargs)

    def map_action(self, act: arr_type) -> Any:
        return self.policy.map_action(act)

    def map_action_inverse(self, act: arr_type) -> Any:
        return self.policy.map_action_inverse(act)

    def exploration_noise(self, act: NDArray[Any], batch: ObsBatchProtocol) -> Any:
        return self.policy.exploration_noise(act, Batch(obs=self._prepare(batch.obs), info=batch.get("info", {})))

    def seed(self, seed: int) -> None:
        super().seed(seed)
        self.policy.seed(seed)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """The policy of a run's checkpoint, with what is needed to let it act in environments."""

    policy: BasePolicy
    """The policy, in evaluation mode."""
    config: RunConfig
    """The settings of the run, for one environment."""
    declaration: Declaration
    """Makes what the settings do not say."""
    statistics: Sequence[dict[str, Any]] | None
    """The states of wrappers of test environments; None without such wrappers."""

    @property
    def places(self) -> Sequence[int]:
        """The numbers of an environment's observation that the policy sees; empty for all."""
        places: Sequence[int] = () if self.config.wrappers else getattr(self.config, "observe", ())
        return places


def load(
    run_dir: str | os.PathLike[str], *, best: bool = False, device: str | None = None, allow_import: bool = False
) -> BasePolicy:
    """Returns the policy of a run, ready to act.

    ``policy.compute_action(obs)`` chooses the action for one observation, as the environment returns it: of
    ``gymnasium.make(ENV)``, for Atari games of :class:`rlfast.env.AtariEnv`. Normalization of observations and
    ``--observe`` are applied as in the run; ``--wrappers`` are not: put them around your environment (and see there to
    ``--observe``). For several observations, and for the hidden state of a recurrent policy,
    call ``policy(Batch(obs=obs, info={}), state)`` and ``policy.map_action``; a :class:`~rlfast.data.Collector` does
    both. To continue training, use :func:`resume`.

    One environment of the run is made and closed, to find out its spaces. Random streams of the process do not move.

    :param run_dir: folder of the run, or ``hf://OWNER/NAME`` for one on the Hugging Face hub, which is downloaded.
    :param best: whether the policy is the one with the best test, and not that of the end of training. Default: False.
    :param device: device of the policy. Default: that of the run, or the CPU, with a warning, if this machine does not
        have it.
    :param allow_import: whether modules that the folder names may be imported, such as that of an environment
        ``"module:Env-v0"``. Default: False, which allows those that a run of yours has named on this machine.
    :return: the policy, in evaluation mode: without exploration noise, and with its own random streams.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run or its checkpoint cannot be used, or a module would have to be imported.
    :raises gymnasium.error.Error: if the environment does not exist.
    """
    streams, threads = global_random_state(), torch.get_num_threads()
    try:
        agent = read_agent(local_folder(run_dir), best=best, device=device, allow_import=allow_import)
        agent.policy.seed(stream_seed(agent.config.seed, "policy/eval"))
        return taking_raw_observations(agent, agent.places)
    finally:
        set_global_random_state(streams)
        torch.set_num_threads(threads)


def taking_raw_observations(agent: Agent, places: Sequence[int] = ()) -> BasePolicy:
    """Returns the policy of an agent, in evaluation mode, for environments that do not normalize observations.

    :param agent: the agent.
    :param places: the numbers of an observation that the policy sees, where environments do not choose them; empty for
        all.
    """
    norms = [envs.normalized for envs in normalizations(agent)]
    if not norms and not places:
        return agent.policy

    def prepare(obs: object) -> Any:
        obs = np.asarray(obs)[..., [*places]] if places else np.asarray(obs)
        for normalize in norms:
            obs = normalize(obs)
        return obs

    return _AgentPolicy(agent.policy, prepare).eval()


def read_agent(run_dir: Path, *, best: bool, device: str | None, allow_import: bool) -> Agent:
    """Returns the policy of a run; see :func:`load` for the parameters and errors. It seeds the process's streams."""
    config = replace(on_this_machine(read_config(run_dir), device), num_envs=1, progress=False)
    check_outside(run_dir, minimal_config(config), allow=allow_import)
    declaration = read_declaration(run_dir, read_beyond(run_dir), allow_import=allow_import)
    folder = run_dir / (BEST if best else CHECKPOINT)
    if best and not folder.is_dir():
        raise FileNotFoundError(
            f"{run_dir} has no best policy: it was not tested, or began with an older rlfast; its newest policy is in "
            f"{run_dir / CHECKPOINT}"
        )
    parts = build(minimal_config(replace(config, eval_envs=1)), declaration)
    parts.close()
    load_policy(folder, parts.policy)
    parts.policy.eval()
    statistics = None
    if config.normalize_obs:
        statistics = [load_normalization(folder)]
    if declaration.beyond:
        statistics = load_wrappers(folder)
    return Agent(policy=parts.policy, config=config, declaration=declaration, statistics=statistics)


def normalizations(agent: Agent) -> list[VectorEnvNormObs]:
    """Returns the wrappers that normalize observations in the run, in the order of their application.

    :param agent: the policy of the run. The environments under the wrappers are closed.
    """
    if not agent.statistics:
        return []
    found: list[VectorEnvNormObs] = []
    with closing(agent.declaration.evaluation(agent.config, 1, agent.statistics)) as envs:
        layer: Any = envs
        while layer is not None:
            if isinstance(layer, VectorEnvNormObs):
                found.insert(0, layer)
            layer = vars(layer).get("venv")
    return found


def evaluate(
    run_dir: str | os.PathLike[str],
    episodes: int = 100,
    *,
    best: bool = False,
    seed: int | None = None,
    video: Path | None = None,
    device: str | None = None,
    allow_import: bool = False,
    deterministic: bool | None = None,
    render: bool = False,
    env_kwargs: Mapping[str, Any] | None = None,
) -> CollectStats:
    """Plays new episodes with the policy of a run, without exploration.

    Their seeds differ from those of the run's training and test environments. The same call gives the same returns.

    :param run_dir: as for :func:`load`.
    :param episodes: number of episodes, played in as many environments as the run's tests have.
    :param best: as for :func:`load`.
    :param seed: seed of the environments; None for that of the run.
    :param video: a folder for a video of one more episode; needs the extra ``video`` and the libraries with
        which the environment renders.
    :param device: as for :func:`load`.
    :param allow_import: as for :func:`load`.
    :param deterministic: whether the policy takes its best actions or draws them. Default: None, as in the run's tests.
    :param render: whether the episodes are shown in a window, one after the other. Default: False.
    :param env_kwargs: arguments of the environment that replace those of the run. Default: none.
    :return: the statistics of the episodes.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run or its checkpoint cannot be used, ``episodes`` is not positive, ``seed`` is negative,
        a module would have to be imported, the policy draws no actions, or the environment has other spaces with
        ``env_kwargs`` than in the run.
    :raises gymnasium.error.Error: if the environment does not exist or cannot be rendered.
    :raises ImportError: if a library for videos is missing.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    if seed is not None and seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    agent = read_agent(local_folder(run_dir), best=best, device=device, allow_import=allow_import)
    config, declaration = agent.config, agent.declaration
    if env_kwargs:
        config = replace(config, env_kwargs={**config.env_kwargs, **env_kwargs})
    if deterministic is not None:
        if not (deterministic or hasattr(agent.policy, "deterministic_eval")):
            raise ValueError(f"{type(agent.policy).__name__} draws no actions: it cannot play with deterministic=False")
        agent.policy.deterministic_eval = deterministic
    number, root = 1 if render else min(episodes, config.eval_envs), config.seed if seed is None else seed
    seeds = [stream_seed(root, f"env/eval/{i}") for i in range(number)]
    noise = explore_in_tests(config, agent.policy)
    agent.policy.seed(stream_seed(root, "policy/eval"))
    shown = partial(_in_a_window, declaration, config) if render else None
    envs = declaration.evaluation(config, number, agent.statistics, shown)
    if env_kwargs:
        _check_spaces(agent, envs)
    with Collector(agent.policy, envs, exploration_noise=noise) as collector:
        collector.reset_env({"seed": seeds})
        stats = collector.evaluate(episodes)
    if video is not None:
        film(replace(agent, config=config), stream_seed(root, "env/video"), Path(video))
    return stats


def _check_spaces(agent: Agent, envs: BaseVectorEnv) -> None:
    """Refuses environments whose spaces are not those of the run."""
    with closing(agent.declaration.evaluation_envs(agent.config, 1, None)) as own:
        for name in ("observation_space", "action_space"):
            theirs, ours = (getattr(one, f"single_{name}") for one in (envs, own))
            if form_of(theirs) != form_of(ours):
                envs.close()
                raise ValueError(f"with these env_kwargs, the {name} is {theirs}, and in the run it was {ours}")


def _in_a_window(declaration: Declaration, config: RunConfig) -> gym.Env[Any, Any]:
    env = declaration.environment(config, "human")
    modes = env.metadata.get("render_modes", [])
    if "human" not in modes:
        raise ValueError(f"{config.env} cannot be shown in a window: its render modes are {modes}, without 'human'")
    return env


def minimal_config(config: Any) -> Any:
    """Returns the settings with the smallest buffer, in memory, without data, in one process."""
    config = replace(config, ray=None, collectors=1, shards=1, learners=1)
    if hasattr(config, "data"):
        config = replace(config, data=None)
    least = {"buffer_size": 1, "storage": "ram"}
    return replace(config, **{name: value for name, value in least.items() if hasattr(config, name)})


def film(agent: Agent, seed: int, folder: Path) -> None:
    """Films an episode.

    :param agent: the agent that plays it.
    :param seed: the seed of its environment.
    :param folder: the folder of the film, which is made.
    :raises ImportError: if a library for films is missing.
    :raises ValueError: if the environment cannot be filmed.
    """
    policy, declaration, config = agent.policy, agent.declaration, agent.config

    def filmed() -> gym.Env[Any, Any]:
        env = declaration.environment(config, "rgb_array")
        return gym.wrappers.RecordVideo(env, str(folder), episode_trigger=lambda _: True, disable_logger=True)

    try:
        envs, noise = declaration.evaluation(config, 1, agent.statistics, filmed), explore_in_tests(config, policy)
        with Collector(policy, envs, exploration_noise=noise) as collector:
            collector.evaluate(1, gym_reset_kwargs={"seed": seed})
    except gym.error.DependencyNotInstalled as error:  # its message names an extra of Gymnasium
        with suppress(OSError):  # there may be other films
            folder.rmdir()
        what = f"a film needs libraries that are missing; install them: {how_to_install('video')}"
        raise ImportError(what) from error
    except Exception as error:  # of simulators and of OpenGL: mujoco's is no subclass of any other
        if isinstance(error, gym.error.Error | OSError):
            raise
        with suppress(OSError):
            folder.rmdir()
        headless = "mujoco" in sys.modules and "MUJOCO_GL" not in os.environ
        advice = ": without a display, MuJoCo needs the environment variable MUJOCO_GL=egl" * headless
        raise ValueError(f"{config.env} cannot be filmed{advice} ({summary(error)})") from error
