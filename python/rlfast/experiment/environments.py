"""Making the environments of a run."""

from __future__ import annotations

import ast
import math
import pkgutil
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np

from rlfast.env import VectorEnvNormObs, VectorEnvNormReward
from rlfast.env.atari import AtariEnv, make_atari_vec
from rlfast.env.errors import EnvFailure
from rlfast.env.registry import can_be_native, make_vec
from rlfast.env.specs import find_spec, is_atari, is_native_only, make_registered
from rlfast.experiment.config import RunWarning, stream_seed
from rlfast.experiment.networks.encoder import is_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Sequence as Places

    from numpy.typing import NDArray

    from rlfast.env import BaseVectorEnv
    from rlfast.experiment.config import RunConfig


class PartialObservation(gym.ObservationWrapper[Any, Any, Any]):
    """An environment that shows some numbers of its observations.

    :param env: an environment with observations along one axis.
    :param places: of the numbers that are seen, from 0.
    :raises ValueError: observations are of another kind, or have no such place.
    """

    def __init__(self, env: gym.Env[Any, Any], places: Places[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or max(places) >= space.shape[0]:
            raise ValueError(f"--observe {[*places]} names places of a vector, and observations are {space}")
        self._places = [*places]
        low, high = space.low[self._places], space.high[self._places]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: NDArray[Any]) -> Any:
        """Give the numbers that are seen."""
        return observation[self._places]


def wrappers_of(config: RunConfig) -> list[Callable[[Any], gym.Env[Any, Any]]]:
    """Returns the wrappers around each environment, the first one innermost.

    :param config: the settings of the run.
    """
    places = getattr(config, "observe", ())
    own = [partial(PartialObservation, places=places)] if places else []
    return [*own, *map(_wrapper, config.wrappers)]


def _wrapper(text: str) -> Callable[[Any], gym.Env[Any, Any]]:
    """Returns the wrapper that a setting names.

    :param text: ``module:NAME`` or ``module:NAME(argument=value, ...)``, where values are literals.
    :raises ValueError: if there is no such module, or it has no such name, or the arguments are no such list.
    """
    name, opened, rest = text.partition("(")
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"--wrappers takes MODULE:NAME, such as gymnasium.wrappers:FlattenObservation, got {text!r}")
    try:
        wrapper: Any = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--wrappers {name} cannot be found: {error}") from error
    if not callable(wrapper):
        raise ValueError(f"--wrappers {name} must be a class or a function of an environment, got {wrapper!r:.100}")
    return partial(_wrapped, text=text, wrapper=wrapper, arguments=_arguments(text, rest) if opened else {})


def _arguments(text: str, rest: str) -> dict[str, Any]:
    """Returns the arguments of a wrapper, without running code.

    :param text: the whole setting, for errors.
    :param rest: what follows the opening parenthesis.
    """
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        call = ast.parse(f"f({rest}", mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
            if str(None) not in given and len(given) == len(call.keywords):  # None is the name of ``**``
                return given
    raise ValueError(
        "--wrappers takes MODULE:NAME(argument=value, ...), with numbers, True, False, None, texts in quotes, lists, "
        f"tuples and dicts of these, got {text!r}"
    )


def _wrapped(
    env: gym.Env[Any, Any], *, text: str, wrapper: Callable[..., gym.Env[Any, Any]], arguments: Mapping[str, Any]
) -> gym.Env[Any, Any]:
    try:
        return wrapper(env, **arguments)
    except TypeError as error:
        raise ValueError(f"--wrappers {text} cannot be put around {env}: {error}") from error


def make_env(config: RunConfig, *, training: bool, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Returns one environment of a run, with its wrappers. Atari games are preprocessed as :class:`AtariEnv` does it.

    :param config: the settings of the run.
    :param training: whether it is for training: in Atari games, lives are episodes then, and rewards are clipped.
    :param render_mode: given to the environment.
    :raises gymnasium.error.Error: if the environment does not exist.
    """
    env: gym.Env[Any, Any]
    if is_atari(config.env):
        _check_atari(config)
        env = AtariEnv(config.env, episodic_life=training, clip_rewards=training, render_mode=cast("Any", render_mode))
    else:
        if render_mode and is_native_only(config.env):
            raise ValueError(f"{config.env} cannot be rendered: it exists in Rust alone, and draws no pictures")
        given: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
        with _naming_arguments(config, given):
            env = make_registered(find_spec(config.env), **config.env_kwargs | given)
    for wrapper in wrappers_of(config):
        env = wrapper(env)
    return env


@contextmanager
def _naming_arguments(config: RunConfig, given: Mapping[str, Any]) -> Iterator[None]:
    """Turns the TypeError of an environment that does not take its arguments into a ValueError that names them.

    :param config: the settings of the run.
    :param given: further arguments.
    """
    try:
        yield
    except (TypeError, EnvFailure) as error:
        cause = error.__cause__ if isinstance(error, EnvFailure) else error
        if not ((config.env_kwargs or given) and isinstance(cause, TypeError)):
            raise
        what = (
            f"--env-kwargs {config.env_kwargs}"
            if config.env_kwargs
            else " ".join(f"{k}={v!r}" for k, v in given.items())
        )
        raise ValueError(f"{config.env} does not take {what}: {cause}") from error


def _check_atari(config: RunConfig) -> None:
    """Refuses arguments and wrappers of Atari games: they have a preprocessing of their own."""
    if config.env_kwargs or config.wrappers:
        raise ValueError(
            f"{config.env} is preprocessed as Atari games are: leave out --env-kwargs and --wrappers, or register an "
            "environment of your own that has them"
        )


def _make_atari_envs(config: RunConfig, number: int, *, training: bool) -> BaseVectorEnv:
    _check_atari(config)
    if config.backend == "native":
        raise ValueError(f"{config.env} cannot be native: there is no {config.env} in Rust; choose another backend")
    placed = config.backend != "auto" and config.env_backend not in ("envpool", "ale-vector")  # these have threads
    return make_atari_vec(
        config.env,
        number,
        backend=config.env_backend,
        seed=stream_seed(config.seed, f"env/{'train' if training else 'test'}"),
        episodic_life=training,
        clip_rewards=training,
        vector_kwargs={"placement": config.backend} if placed else None,
    )


def env_seed(config: RunConfig, name: str) -> int:
    """Returns the seed of the environments of a run.

    :param config: the settings of the run.
    :param name: ``"train"`` or ``"test"``.
    """
    return config.seed if config.env_seeds is None else config.env_seeds[name == "test"]


def seed_envs(envs: BaseVectorEnv, seed: int, name: str, first: int = 0) -> None:
    """Gives each environment, and its action space, a seed of its own.

    :param envs: the environments.
    :param seed: what the seeds are drawn from.
    :param name: what the environments are for, such as ``"train"``; others get other seeds.
    :param first: the number of the first of them, where they are some of more environments.
    """
    envs.seed([stream_seed(seed, f"env/{name}/{i}") for i in range(first, first + len(envs))])
    for i, space in enumerate(envs.action_space, first):
        space.seed(stream_seed(seed, f"actions/{name}/{i}"))


def single_action_space(envs: BaseVectorEnv) -> gym.Space[Any]:
    """Returns the action space of one environment, also of vector environments of other libraries.

    :param envs: the environments.
    """
    spaces: Any = envs.action_space
    space: gym.Space[Any] = spaces[0] if isinstance(spaces, list | tuple) else envs.single_action_space
    return space


def make_envs(config: RunConfig, name: str, first: int = 0) -> BaseVectorEnv:
    """Returns the environments for ``"train"`` or ``"test"``, each with its own seed.

    :param config: the settings of the run.
    :param name: ``"train"`` or ``"test"``.
    :param first: the number of the first of them, where others are in other processes.
    :raises gymnasium.error.Error: if the environment does not exist.
    :raises ValueError: if the backend does not support it.
    """
    number = config.num_envs if name == "train" else config.eval_envs
    envs: BaseVectorEnv
    if is_atari(config.env):
        envs = _make_atari_envs(config, number, training=name == "train")
    else:
        backend, wrappers, given = config.backend, wrappers_of(config), config.env_kwargs
        if backend == "auto":
            backend = "native" if can_be_native(config.env) and not wrappers and not given else "in-process"
        with _naming_arguments(config, {}):
            envs = make_vec(config.env, number, backend=backend, autoreset_mode=None, wrappers=wrappers, **given)
    seed_envs(envs, env_seed(config, name), name, first)
    space = envs.single_observation_space
    shape = space.shape or ()
    if name == "train" and len(shape) > 2 and not is_image(space):
        warnings.warn(
            f"observations of {config.env} are of shape {shape}, too small for convolutions: a fully connected network "
            f"takes them as {math.prod(shape):,} numbers; a script can have another",
            RunWarning,
            stacklevel=2,
        )
    return envs


def normalized(
    config: RunConfig, train_envs: BaseVectorEnv, test_envs: BaseVectorEnv
) -> tuple[BaseVectorEnv, BaseVectorEnv]:
    """Returns the environments of a run with the wrappers that its settings ask for.

    Test environments share the statistics of observations with the training environments and do not change them. Their
    rewards stay as they are.

    :param config: the settings of the run.
    :param train_envs: the training environments.
    :param test_envs: the test environments.
    :raises ValueError: if observations that are no ``Box`` should be normalized.
    """
    if config.normalize_obs:
        train_envs = normalizing_obs(config, train_envs)
        test_envs = VectorEnvNormObs(test_envs, update_obs_rms=False)
        test_envs.set_obs_rms(train_envs.get_obs_rms())
    if config.normalize_reward:
        train_envs = VectorEnvNormReward(train_envs, config.gamma)  # or discount_factor, as the policy calls it
    return train_envs, test_envs


def scaling_rewards(envs: BaseVectorEnv, scale: float) -> BaseVectorEnv:
    """Returns environments whose rewards are multiplied by a number; the returns in statistics stay as they are.

    :param envs: the environments.
    :param scale: the number, above 0; 1 returns the environments themselves.
    """
    if scale == 1:
        return envs
    wrapped = VectorEnvNormReward(envs, update_return_rms=False, clip_max=None, epsilon=0.0)
    wrapped.return_rms.var = np.array(scale**-2.0)
    return wrapped


def normalizing_obs(
    config: RunConfig, envs: BaseVectorEnv, *, statistics: dict[str, Any] | None = None
) -> VectorEnvNormObs:
    """Returns environments with normalized observations.

    :param config: the settings of the run, for the error.
    :param envs: the environments.
    :param statistics: what :meth:`VectorEnvNormObs.state_dict` returned, which stay as they are; None for statistics
        that begin empty and change with each observation.
    :raises ValueError: if observations are no ``Box``.
    """
    space: Any = envs.single_observation_space
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(f"--normalize-obs scales observations of a Box, and those of {config.env} are {space}")
    wrapped = VectorEnvNormObs(envs, update_obs_rms=statistics is None)
    if statistics is not None:
        wrapped.load_state_dict(statistics)
    return wrapped
