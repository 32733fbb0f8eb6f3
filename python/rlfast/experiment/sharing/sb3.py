"""Agents of Stable-Baselines3 as runs of rlfast, without unpickling.

Its ZIP files have JSON with pickled objects as texts, which are not read, and tensors, which torch reads without
running code.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import warnings
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from gymnasium import spaces

from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.experiment.agents import minimal_config
from rlfast.experiment.algorithms import find
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import save_alone
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run_dir import CHECKPOINT, make_run_dir, write_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy

_ACTIVATIONS: Final = {"ReLU": "relu", "Tanh": "tanh", "ELU": "elu", "GELU": "gelu", "SiLU": "silu"}
_LARGEST: Final = 1 << 30
"""The largest file within a ZIP file that is read, in bytes."""
_TWO_CRITICS: Final[dict[str, tuple[str, ...]]] = {
    "critic": ("critic.qf0",),
    "critic2": ("critic.qf1",),
    "critic_old": ("critic_target.qf0",),
    "critic2_old": ("critic_target.qf1",),
}
_SEPARATE: Final[dict[str, tuple[str, ...]]] = {
    "actor": ("pi_features_extractor", "mlp_extractor.policy_net", "action_net"),
    "critic": ("vf_features_extractor", "mlp_extractor.value_net", "value_net"),
}
_LAYERS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "ppo": _SEPARATE,
    "a2c": _SEPARATE,
    "dqn": {"model": ("q_net",), "model_old": ("q_net_target",)},
    "sac": {"actor": ("actor.latent_pi", "actor.mu", "actor.log_std"), **_TWO_CRITICS},
    "td3": {"actor": ("actor.mu",), "actor_old": ("actor_target.mu",), **_TWO_CRITICS},
}
"""For each algorithm and each of our networks, the layers of theirs, in order. The extractor of vectors has none."""
_UNUSED: Final = ("log_std", "features_extractor.")
"""What actors and critics of PPO and A2C have beside their layers: the deviations, and an extractor again."""


class _Unfit(Exception):
    """A file is an agent of Stable-Baselines3, which cannot be built here."""


@dataclass(frozen=True)
class _Agent:
    """What is read of a file."""

    algorithm: str
    activation: str
    gamma: float
    weights: dict[str, Tensor]

    @property
    def networks(self) -> dict[str, tuple[str, ...]]:
        """The layers of each of our networks, the one that acts first."""
        return _LAYERS[self.algorithm]

    def layers(self, network: str, *, ndim: int | None = None) -> list[Tensor]:
        """Returns weights and biases of a network of ours, in order.

        :param network: its name.
        :param ndim: 2 for the weights of linear layers, 4 for those of convolutions. Default: all.
        """
        names = [name for prefix in self.networks[network] for name in self.weights if name.startswith(prefix + ".")]
        return [one for one in map(self.weights.__getitem__, names) if ndim in (None, one.ndim)]

    def sizes(self, network: str) -> tuple[int, ...]:
        """Returns the sizes of the hidden layers of one of our networks."""
        outputs = [len(one) for one in self.layers(network, ndim=2)]
        heads = 2 if (self.algorithm, network) == ("sac", "actor") else 1
        return tuple(outputs[: len(outputs) - heads])

    def settings(self) -> dict[str, Any]:
        """Returns the settings of our networks.

        :raises ValueError: if we have no such networks.
        """
        acting, *others = self.networks
        settings: dict[str, Any] = {"hidden_sizes": self.sizes(acting), "activation": self.activation}
        convolutions = self.layers(acting, ndim=4)
        if self.algorithm in ("sac", "td3") and self.sizes("critic") != settings["hidden_sizes"]:
            settings["critic_hidden_sizes"] = self.sizes("critic")
        if not convolutions:
            return settings
        if len(settings["hidden_sizes"]) > 1 and self.activation != "relu":  # the extractor's own is ReLU
            raise ValueError(f"its extractor of pictures has ReLU and its layers {self.activation}, and ours have one")
        settings |= {"channels": tuple(map(len, convolutions)), "activation": "relu"}
        if "critic" in others:
            both = zip(convolutions, self.layers("critic", ndim=4), strict=True)
            settings["shared_features"] = all(torch.equal(one, other) for one, other in both)
        return settings


def import_agent(path: Path, env: str, run_dir: Path | None = None) -> Path:
    """Makes a run of an agent that ``model.save(path)`` of Stable-Baselines3 has written: of PPO, A2C, DQN, SAC or TD3
    with ``MlpPolicy``, or of PPO, A2C or DQN with ``CnnPolicy``. :func:`rlfast.load` and ``rlfast eval`` open it; it
    has no training to resume.

    Actions equal those of ``model.predict``. Its statistics of ``VecNormalize`` are in another file, which is a pickle
    and not read.

    :param path: the ZIP file.
    :param env: id of the environment, which the file does not have.
    :param run_dir: the new folder. Default: ``runs/ALGORITHM-ENV-seed0``, with a number if it exists.
    :return: the folder.
    :raises OSError: if the file cannot be read, or the folder cannot be made.
    :raises ValueError: if it is no such file, or the agent does not fit the environment, or cannot be built here.
    """
    agent = _read(path)
    algorithm = find(agent.algorithm)
    settings: dict[str, Any] = {"env": env, "gamma": agent.gamma, "run_dir": run_dir, **agent.settings()}
    config = algorithm.config(**settings)
    parts = build(minimal_config(replace(config, num_envs=1, eval_envs=1)))
    parts.close()
    _fill(parts.policy, agent, config)
    folder = make_run_dir(config, algorithm.name)
    save_alone(folder / CHECKPOINT, parts.policy)
    write_config(folder, config, algorithm.name)
    return folder


def _read(path: Path) -> _Agent:
    """Reads a file.

    :raises ValueError: if it is none of Stable-Baselines3, or has what cannot be built here.
    """
    try:
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of damaged files
            content = json.loads(_member(archive, "data"))
            weights = torch.load(io.BytesIO(_member(archive, "policy.pth")), map_location="cpu", weights_only=True)
        _check_tensors(weights)
        algorithm, gamma = _algorithm(content), float(content["gamma"])
        activation = _activation(content["policy_kwargs"].get("activation_fn"), algorithm)
    except _Unfit as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except (*WRONG_DATA, zipfile.BadZipFile, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is no agent that Stable-Baselines3 has saved: {summary(error)}") from error
    return _Agent(algorithm, activation, gamma, weights)


def _check_tensors(weights: Any) -> None:
    if not (isinstance(weights, dict) and all(isinstance(one, torch.Tensor) for one in weights.values())):
        raise TypeError("policy.pth has other things than tensors")


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    size = archive.getinfo(name).file_size
    if size > _LARGEST:
        raise _Unfit(f"{name} has {size:,} bytes, and at most {_LARGEST:,} are read")
    return archive.read(name)


def _algorithm(content: Mapping[str, Any]) -> str:
    """Returns the name of the algorithm, by the module of its policy's class and by its settings."""
    module = str(content["policy_class"]["__module__"])
    if content.get("use_sde"):
        raise _Unfit("its exploration depends on the state (use_sde=True), whose layers are not read")
    if module == "stable_baselines3.common.policies":
        return "ppo" if "clip_range" in content else "a2c"
    found = re.fullmatch(r"stable_baselines3\.(dqn|sac|td3)\.policies", module)
    if found is None:
        raise _Unfit(f"its policy is of {module}: agents of PPO, A2C, DQN, SAC and TD3 are read")
    if content["policy_kwargs"].get("n_critics") == 1:
        raise _Unfit("it has one critic, as DDPG's agents: agents of PPO, A2C, DQN, SAC and TD3 are read")
    return found[1]


def _activation(given: object, algorithm: str) -> str:
    """Returns the name of an activation, which may be the default of an algorithm."""
    if given is None:
        return "tanh" if algorithm in ("ppo", "a2c") else "relu"
    name = re.sub(r".*\.|\W", "", str(given).removesuffix("'>"))
    if name not in _ACTIVATIONS:
        raise _Unfit(f"its activation is {name}, and those of rlfast are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _fill(policy: BasePolicy, agent: _Agent, config: RunConfig) -> None:
    """Writes the weights of an agent into a policy.

    :raises ValueError: if it has other layers.
    """
    known = tuple(f"{prefix}." for prefixes in agent.networks.values() for prefix in prefixes)
    known += _UNUSED if agent.algorithm in ("ppo", "a2c") else ()
    if unknown := [name for name in agent.weights if not name.startswith(known)]:
        raise ValueError(f"it has {unknown[0]}, which agents with MlpPolicy and vectors as observations have not")
    for name in agent.networks:
        module: nn.Module = getattr(policy, name)
        own = [one for key, one in module.state_dict(keep_vars=True).items() if not key.endswith("sigma_param")]
        theirs = agent.layers(name)
        if [one.shape for one in own] != [one.shape for one in theirs]:
            if name == "critic" and agent.algorithm in ("ppo", "a2c"):
                what = (
                    "its critic has other sizes than its actor, and is not read: the policy acts, and cannot learn on"
                )
                warnings.warn(what, RunWarning, stacklevel=3)
                continue
            shapes = [*map(tuple, (one.shape for one in theirs))], [*map(tuple, (one.shape for one in own))]
            raise ValueError(f"its {name} does not fit {config.env}: its layers are {shapes[0]}, and ours {shapes[1]}")
        with torch.no_grad():
            for one, value in zip(own, theirs, strict=True):
                one.copy_(value)
    if agent.algorithm in ("ppo", "a2c") and isinstance(policy.action_space, spaces.Box):
        _scale(policy, agent.weights["log_std"])


def _scale(policy: Any, log_std: Tensor) -> None:
    """Scales a normal distribution to actions from -1 to 1, which stand for those of the environment. Theirs are the
    environment's.
    """
    low, high = (
        torch.as_tensor(one, dtype=torch.float32).flatten()
        for one in (policy.action_space.low, policy.action_space.high)
    )
    middle, half = (high + low) / 2, (high - low) / 2
    (last,) = (module for module in policy.actor.mu.modules() if isinstance(module, torch.nn.Linear))
    with torch.no_grad():
        last.weight.div_(half[:, None])
        last.bias.sub_(middle).div_(half)
        policy.actor.sigma_param.copy_((log_std - half.log()).view_as(policy.actor.sigma_param))
