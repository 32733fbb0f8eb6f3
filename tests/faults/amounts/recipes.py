"""Valid calls of the functions that take amounts."""

import functools
import tempfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from faults.amounts import later_recipes
from faults.engines import add, engine
from rlfast import _core, data, env, exploration, policy, trainer
from rlfast.data import Batch
from rlfast.interop import cleanrl
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.common import BranchingNet, EnsembleLinear, Net

ENGINE = add(engine(), 9).dump()
OBS = np.zeros((2, 6), np.float32)
ROLL = [np.zeros(5), np.zeros(5), np.zeros(5), np.zeros(5, bool), np.zeros(5, bool)]


def index() -> Any:
    """Two rows."""
    return np.array([0, 1])


def native() -> Any:
    """An engine with rows."""
    replay = engine()
    replay.restore(ENGINE)
    return replay


def network() -> Any:
    """A network for CartPole."""
    return _core.Network(4, [("linear", 0, np.eye(2, 4, dtype=np.float32), None, False)])


def _ring_parts() -> dict[str, Any]:
    return {"num_envs": 2, "stack": 4, "shape": [5], "dtype": np.dtype(np.uint8)}


def _collecting() -> dict[str, Any]:
    """Two environments with their network and columns."""
    envs = env.NativeVectorEnv("CartPole-v1", 2, autoreset_mode=None)
    kept = data.VectorReplayBuffer(20, 2)
    data.Collector(dqn(), envs, kept).collect(n_step=2)
    fixed = {"envs": envs._backend.envs, "replay": kept._core, "network": network()}
    return {**fixed, "obs": np.ones((2, 4), np.float32), "ready": np.arange(2), "limit": ("steps", 3)}


def row(**changes: Any) -> Batch:
    """A transition."""
    fields = {"obs": np.zeros(6, np.float32), "act": 0, "rew": 1.0, "terminated": False, "truncated": False}
    return Batch(**fields | {"obs_next": np.ones(6, np.float32), "info": {}} | changes)


def rows(count: int = 2) -> Batch:
    """Transitions of several environments."""
    return Batch.stack([row() for _ in range(count)])


def filled(buffer: Any) -> Any:
    """A buffer with rows."""
    for step in range(7):
        if hasattr(buffer, "buffer_num"):
            buffer.add(Batch.stack([row(terminated=step == 4)] * buffer.buffer_num))
        else:
            buffer.add(row(terminated=step == 4))
    return buffer


def prepare(folder: str) -> None:
    """Imports what the first optimizer imports, which takes seconds, and has temporary files made in a folder.

    Children that are forked later have both.
    """
    tempfile.tempdir = folder
    dqn()


def goal(achieved: Any, desired: Any) -> Any:
    """A reward by goals."""
    return -np.abs(achieved - desired).sum(-1)


def vector(count: int = 2) -> Any:
    """Environments in this process."""
    envs = env.DummyVectorEnv([lambda: gym.make("CartPole-v1")] * count)
    envs.reset()
    return envs


def dqn(**options: Any) -> policy.DQNPolicy:
    """A policy that is ready to act."""
    net = Net(4, 2, hidden_sizes=[8])
    return policy.DQNPolicy(model=net, optim=torch.optim.Adam(net.parameters()), action_space=Discrete(2), **options)


def _ppo_parts() -> dict[str, Any]:
    actor = discrete.Actor(Net(4, hidden_sizes=[8]), 2)
    critic = discrete.Critic(Net(4, hidden_sizes=[8]))
    optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
    return {
        "actor": actor,
        "critic": critic,
        "optim": optim,
        "dist_fn": torch.distributions.Categorical,
        "action_space": Discrete(2),
        "action_scaling": False,
    }


def _pg_parts() -> dict[str, Any]:
    parts = _ppo_parts()
    del parts["critic"]
    return parts | {"optim": torch.optim.Adam(parts["actor"].parameters())}


def _sac_parts() -> dict[str, Any]:
    actor = continuous.ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True, conditioned_sigma=True)
    critic = continuous.Critic(Net(4, 2, hidden_sizes=[8], concat=True))
    return {
        "actor": actor,
        "actor_optim": torch.optim.Adam(actor.parameters()),
        "critic": critic,
        "critic_optim": torch.optim.Adam(critic.parameters()),
        "action_space": Box(-1, 1, (2,)),
    }


@functools.cache
def cart_pole() -> Any:
    """A buffer of what a policy did."""
    buffer = data.VectorReplayBuffer(60, 2)
    data.Collector(dqn(), vector(), buffer).collect(n_step=20, reset_before_collect=True)
    return buffer


def collector(kind: type = data.Collector) -> Any:
    """A collector that has begun."""
    envs = vector() if kind is data.Collector else env.DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2, wait_num=1)
    made = kind(dqn(), envs, data.VectorReplayBuffer(60, 2))
    made.reset()
    return made


@functools.cache
def prepared() -> Any:
    """A batch, its buffer and its indices, as a policy gets them."""
    buffer = cart_pole()
    return buffer.sample(4)


def _train(**more: Any) -> dict[str, Any]:
    buffer = data.VectorReplayBuffer(60, 2)
    agent = INSTANCES["PPOPolicy"]()
    parts = {
        "train_collector": data.Collector(agent, vector(), buffer),
        "test_collector": data.Collector(agent, vector()),
    }
    amounts = {
        "max_epoch": 1,
        "step_per_epoch": 4,
        "step_per_collect": 2,
        "episode_per_test": 1,
        "batch_size": 2,
        "repeat_per_collect": 1,
    }
    return {"policy": agent, **parts, **amounts, "verbose": False, "show_progress": False} | more


def slab() -> Any:
    """Memory that two workers share."""
    return _core.Slab([0, 1, 2], 64)


def bits() -> Any:
    """NumPy's random bits."""
    return np.random.PCG64(0)


INSTANCES: dict[str, Callable[[], Any]] = {
    "ActingPolicy": dqn,
    "ActionSpaceInfo": lambda: None,
    "BasePolicy": dqn,
    "Batch": lambda: rows(4),
    "CachedReplayBuffer": lambda: data.CachedReplayBuffer(data.ReplayBuffer(10), 2, 5),
    "Categorical": lambda: __import__("rlfast.functional.distributions", fromlist=["x"]).Categorical(torch.zeros(2, 3)),
    "Collector": collector,
    "AsyncCollector": lambda: collector(data.AsyncCollector),
    "DQNPolicy": dqn,
    "WorkerEndpoint": lambda: slab().endpoint(0),
    "Network": network,
    "FrameRing": lambda: _core.FrameRing(**_ring_parts()),
    "NativeEnvs": lambda: _reset(_core.NativeEnvs("CartPole-v1", 2, "NextStep")),
    "Replay": native,
    "SegmentTree": lambda: _tree(),
    "StateDependentNoise": lambda: continuous.StateDependentNoise(3, 2),
    "Slab": slab,
}


def _reset(envs: Any) -> Any:
    envs.reset(None, [0, 1])
    return envs


def _tree() -> Any:
    tree = data.SegmentTree(10)
    tree[np.arange(10)] = 1.0
    return tree


_VALUES: list[tuple[Any, str]] = [
    (2, "action_shape batch_size buffer_num cached_buffer_num count n_step num_envs rows sample_size"),
    (0.5, "alpha beta eps value"),
    (1, ("banks before by env_step epoch gradient_step kind layer_num n n_episode number phase repeat seed step")),
    (0, "bank env env_id id needed note offset ring start worker"),
    (5, "bound horizon last max_episode_length size"),
    (4, "c input_dim input_size state_shape"),
    (0.9, "gae_lambda gamma"),
    (84, "h w"),
    (10, "total total_size"),
]

ARGUMENTS: dict[str, Callable[[], Any]] = {
    **{name: lambda value=value: value for value, names in _VALUES for name in names.split()},
    "act": lambda: np.zeros(2, int),
    "action": lambda: np.zeros(2, int),
    "action_space": lambda: Discrete(3),
    "actions": lambda: np.zeros(2, np.int64),
    "batch": rows,
    "batches": lambda: [rows(), rows()],
    "bit_generator": bits,
    "bit_generators": lambda: [bits(), bits()],
    "buffer": lambda: filled(data.ReplayBuffer(10)),
    "buffer_list": lambda: [data.ReplayBuffer(5), data.ReplayBuffer(5)],
    "capacity": lambda: 7,
    "compute_reward_fn": lambda: goal,
    "cursors": lambda: [2, 1],
    "data": lambda: 64,
    "discounts": lambda: np.ones(3, np.float32),
    "dtype": lambda: np.dtype(np.uint8),
    "ends": lambda: [("end",)],
    "env_fns": lambda: [lambda: gym.make("CartPole-v1")] * 2,
    "fields": dict,
    "future_k": lambda: 4.0,
    "goals": lambda: np.array([1, 2]),
    "greedy": lambda: np.zeros(3, np.int64),
    "ids": lambda: None,
    "index": index,
    "indices": index,
    "key": lambda: "obs",
    "keys": lambda: ["a"],
    "length": lambda: 3,
    "lens": lambda: np.array([3, 4]),
    "log_data": lambda: {"loss": 1.0},
    "name": lambda: "gravity",
    "next_values": lambda: np.zeros(5),
    "obs": lambda: np.zeros((2, 4), np.float32),
    "path": lambda: ("obs",),
    "places": lambda: np.arange(5),
    "policy": dqn,
    "powers": lambda: np.ones(3, np.float32),
    "preprocess_net": lambda: Net(4, hidden_sizes=[8]),
    "priority": lambda: np.ones(2),
    "returns": lambda: np.array([3.0, 4.0]),
    "rew": lambda: np.zeros(2),
    "rewards": lambda: np.zeros(5),
    "rings": lambda: np.array([0, 1]),
    "s": lambda: "a(b=1)",
    "seconds": lambda: 0.0,
    "seeds": lambda: [1, 2],
    "sequence": lambda: [1.0, 2.0],
    "shape": lambda: (2,),
    "sizes": lambda: [2, 2],
    "starts": lambda: [0, 1, 2],
    "states": lambda: [None, None],
    "step_type": lambda: "train/env_step",
    "steps": lambda: np.array([0, 1]),
    "terminated": lambda: np.zeros(5, bool),
    "truncated": lambda: np.zeros(5, bool),
    "unfinished": lambda: np.array([4]),
    "values": lambda: np.zeros(5),
}
"""What arguments are given, by their names."""


def _defined() -> dict[str, Any]:
    """Fields of two rows of the engine."""
    flags = {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    return {"obs": OBS, "obs_next": OBS, "act": np.zeros(2, np.int64), "rew": np.zeros(2), **flags}


def _whole() -> dict[str, Any]:
    return {key: np.repeat(value, 6, axis=0)[:11] for key, value in _defined().items()}


def _ends() -> Any:
    """An engine whose rows say themselves where episodes end."""
    replay = engine()
    names = {"obs": "f4", "value": "f4", "end": "f4", "rew": "f8", "terminated": "?", "truncated": "?"}
    replay.define([((name,), np.dtype(kind), ()) for name, kind in names.items()])
    replay.add({name: np.zeros(2, kind) for name, kind in names.items()}, np.array([0, 1]))
    return replay


def _hosted(*, rows_too: bool = True) -> Any:
    """An engine with the columns of a host."""
    replay = engine(alpha=None)
    kinds = {"obs": "f4", "actions": "i8", "obs_next": "f4", "rewards": "f4", "dones": "f4", "timeouts": "f4"}
    replay.define([((name,), np.dtype(kind), ()) for name, kind in kinds.items()])
    replay.record(*[np.zeros(2, kind) for kind in kinds.values()])
    return replay


def _step() -> dict[str, Any]:
    kinds = {"obs": "f4", "actions": "i8", "obs_next": "f4", "rewards": "f4", "dones": "f4", "timeouts": "f4"}
    return {name: np.zeros(2, kind) for name, kind in kinds.items()}


def _state() -> bytes:
    return INSTANCES["NativeEnvs"]().get_state(0)


def _attached() -> dict[str, Any]:
    memory = slab()
    KEPT.append(memory)
    return {"files": memory.files(0), "starts": [0, 1, 2], "data": 64}


KEPT: list[Any] = []


def _prepared() -> dict[str, Any]:
    batch, indices = prepared()
    return {"batch": batch, "buffer": cart_pole(), "indices": indices}


def _learning(agent: Any) -> dict[str, Any]:
    batch, indices = prepared()
    return {"batch": agent.process_fn(batch, cart_pole(), indices), "batch_size": 2, "repeat": 1}


def networks(name: str) -> Any:
    """A class of networks' module."""
    return __import__(f"rlfast.utils.net.{name}", fromlist=["x"])


def environment() -> Any:
    """Environments that step in Rust."""
    envs = env.NativeVectorEnv("CartPole-v1", 2)
    envs.reset()
    return envs


def asked() -> Any:
    """Environments that owe answers."""
    envs = vector()
    envs.send(np.zeros(2, int))
    return envs


def folder() -> str:
    """A folder for what is written."""
    return tempfile.mkdtemp(prefix="amounts-")


def distribution(name: str) -> Any:
    """A distribution of actions of two environments."""
    from rlfast.functional import distributions

    made = {
        "Categorical": lambda: distributions.Categorical(torch.zeros(2, 3)),
        "DiagonalNormal": lambda: distributions.DiagonalNormal(torch.zeros(2, 3), torch.ones(2, 3)),
        "MultiCategorical": lambda: distributions.MultiCategorical(torch.zeros(2, 5), [2, 3]),
        "SquashedNormal": lambda: distributions.SquashedNormal(torch.zeros(2, 3), torch.ones(2, 3)),
    }
    return made[name]()


def logger(name: str = "CSVLogger") -> Any:
    """A logger."""
    from rlfast.utils import logger as loggers

    return getattr(loggers, name)(folder() + "/log.csv")


INSTANCES |= {
    "Filled": dict,
    "BaseLogger": logger,
    "BaseNoise": lambda: exploration.GaussianNoise(0.0, 1.0),
    "BaseVectorEnv": vector,
    "BatchProtocol": lambda: rows(4),
    "CachedReplayBuffer": lambda: _cached(),
    "MixedReplayBuffer": lambda: data.MixedReplayBuffer(*(filled(data.ReplayBuffer(10)) for _ in range(2))),
    "DiagonalNormal": lambda: distribution("DiagonalNormal"),
    "DummyTqdm": lambda: __import__("rlfast.utils.progress_bar", fromlist=["x"]).DummyTqdm(5),
    "ICMPolicy": lambda: _curious(),
    **dict.fromkeys(("FullQuantileFunction", "ImplicitQuantileNetwork"), lambda: _implicit_parts()["model"]),
    "LoggerGroup": lambda: __import__("rlfast.utils.logger.base", fromlist=["x"]).LoggerGroup([logger()]),
    "MultiCategorical": lambda: distribution("MultiCategorical"),
    "NStep": lambda: data.NStep(2, 0.9),
    "NativeVectorEnv": environment,
    "ProgressBar": lambda: __import__("rlfast.utils.progress_bar", fromlist=["x"]).ProgressBar(5, "steps"),
    "Sequence": lambda: data.Sequence(3),
    "SquashedNormal": lambda: distribution("SquashedNormal"),
    "VectorEnvNormObs": lambda: _normalized(),
    "VectorEnvNormReward": lambda: env.VectorEnvNormReward(_normalized()),
    "_RowLogger": logger,
}


INSTANCES |= later_recipes.INSTANCES


def _cached() -> Any:
    buffer = data.CachedReplayBuffer(data.ReplayBuffer(10), 2, 5)
    for _ in range(3):
        buffer.add(rows(2), [0, 1])
    return buffer


def _gymnasium() -> Any:
    """Environments by Gymnasium's protocol."""
    return env.DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode="NextStep")


def _normalized() -> Any:
    envs = env.VectorEnvNormObs(vector())
    envs.reset()
    return envs


def _rainbow_parts() -> dict[str, Any]:
    return {"capacity": 10, "obs_shape": (2,), "device": "cpu", "n_step": 1, "gamma": 0.9}


def _rainbow() -> Any:
    buffer = cleanrl.PrioritizedReplayBuffer(**_rainbow_parts())
    for _ in range(5):
        buffer.add(np.zeros((1, 2), np.uint8), np.zeros(1, int), np.zeros(1), np.zeros((1, 2), np.uint8), np.zeros(1))
    return buffer


def _cleanrl_parts() -> dict[str, Any]:
    return {"buffer_size": 10, "observation_space": Box(-1, 1, (2,)), "action_space": Discrete(2)}


def _cleanrl() -> Any:
    buffer = cleanrl.ReplayBuffer(**_cleanrl_parts())
    for _ in range(5):
        buffer.add(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros(1, int), np.zeros(1), np.zeros(1), [{}])
    return buffer


OF_MODULE = {
    "rlfast.interop.cleanrl.PrioritizedReplayBuffer": _rainbow,
    "rlfast.interop.cleanrl.ReplayBuffer": _cleanrl,
}
"""Instances of classes whose names others have, too, by the beginnings of their functions' names."""
_PROCESSES = (
    "BasePolicy.post_process_fn BasePolicy.process_fn NPGPolicy.process_fn PQNPolicy.process_fn "
    "RolloutLearner.process_fn ICMPolicy.process_fn GAILPolicy.process_fn RandomPolicy.post_process_fn "
    "ReplayLearner.process_fn "
)
"""Methods of policies that get a batch, its buffer and its indices."""
CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "rlfast._core.WorkerEndpoint.answer": lambda: {"reward": 0.0, "terminated": False, "truncated": False},
    "rlfast._core.WorkerEndpoint.attach": _attached,
    "rlfast._core.NativeEnvs.__init__": lambda: {"id": "CartPole-v1", "autoreset": "NextStep"},
    "rlfast._core.NativeEnvs.set_state": lambda: {"state": _state()},
    "rlfast._core.Replay.__init__": lambda: {"capacities": [4, 4], "batch": SimpleNamespace},
    "rlfast._core.Replay.add": lambda: {"batch": _defined(), "rings": np.array([0, 1])},
    "rlfast._core.Replay.define": lambda: {"columns": [(("a",), np.dtype("f4"), (2,))]},
    "rlfast._core.Replay.follow": lambda: {"value": ("value",)},
    "rlfast._core.Replay.load": lambda: {"fields": _whole()},
    "rlfast._core.Replay.record": _step,
    "rlfast._core.Replay.set_running": lambda: {"episode_return": 0.5},
    "rlfast._core.FrameRing.__init__": lambda: _ring_parts(),
    "rlfast._core.FrameRing.push": lambda: {"frames": np.zeros((2, 5), np.uint8)},
    "rlfast._core.FrameRing.restore": lambda: {"stacks": np.zeros((2, 4, 5), np.uint8)},
    "rlfast._core.FrameRing.stacks": dict,
    "rlfast._core.nested_batch": lambda: {"value": {"a": {"b": 1}}, "batch": data.Batch},
    "rlfast._core.with_stacks": lambda: {
        "whole": _core.FrameRing(**_ring_parts()).stacks(),
        "ids": [0],
        "part": _core.FrameRing(**_ring_parts()).stacks([1]),
    },
    "rlfast._core.Network.__init__": lambda: {"inputs": 4, "nodes": [("relu", 0)]},
    "rlfast._core.Network.forward": lambda: {"obs": np.ones((2, 4), np.float32), "slots": [1]},
    "rlfast._core.collect": _collecting,
    "rlfast._core.discounted": lambda: {"rewards": np.zeros((2, 3), np.float32), "before": np.array([0, 2])},
    "rlfast._core.end_with": lambda: {"pid": 1},
    "rlfast._core.explore": lambda: {"actions": 3},
    "rlfast._core.uniform_below": lambda: {"sizes": np.array([3, 4])},
    "rlfast.data.Batch.set_array_at_key": lambda: {"arr": np.zeros(4), "key": "rew"},
    "rlfast.data.EpisodeMethods.get_buffer_indices": lambda: {"start": 0, "stop": 4},
    "rlfast.data.TianshouView.set_array_at_key": lambda: {"seq": np.zeros(2), "key": "rew", "index": index()},
    "rlfast.env.EnvAttributes.get_env_attr": lambda: {"key": "spec"},
    "rlfast.env.EnvAttributes.set_env_attr": lambda: {"key": "spec", "value": None},
    "rlfast.env.VectorEnvWrapper.get_env_attr": lambda: {"key": "spec"},
    "rlfast.env.VectorEnvWrapper.set_env_attr": lambda: {"key": "spec", "value": None},
    "rlfast.env.BaseVectorEnv.set_state": lambda: {"states": vector().get_state(None)},
    "rlfast.env.VectorEnvWrapper.set_state": lambda: {"states": _normalized().get_state(None)},
    "rlfast.utils.BaseLogger.write": lambda: {"data": {"loss": 1.0}},
    "rlfast.utils.LoggerGroup.write": lambda: {"data": {"loss": 1.0}},
    "rlfast.utils.net.common.get_dict_state_decorator": lambda: {"state_shape": {"a": 4}},
    "rlfast.data.Collector.collect": lambda: {"n_step": 2},
    "rlfast.data.CachedReplayBuffer.__init__": lambda: {"main_buffer": data.ReplayBuffer(10)},
    "rlfast.data.FrameStack.__init__": lambda: {"stack_num": 2},
    "rlfast.env.EnvFailure.__init__": lambda: {"text": "it failed", "phase": "step"},
    "rlfast.env.WorkerDied.__init__": lambda: {"text": "it died", "exitcode": 1, "signal": None, "where": "step"},
    "rlfast.env.NativeVectorEnv.__init__": lambda: {"id": "CartPole-v1"},
    "rlfast.interop.cleanrl.PrioritizedReplayBuffer.__init__": _rainbow_parts,
    "rlfast.interop.cleanrl.PrioritizedReplayBuffer.update_priorities": lambda: {"priorities": np.ones(2)},
    "rlfast.interop.cleanrl.ReplayBuffer.__init__": _cleanrl_parts,
    "rlfast.make_vec": lambda: {"id": "CartPole-v1"},
    "rlfast.env.BaseVectorEnv.__init__": lambda: {"worker_fn": env.worker.DummyEnvWorker},
    "rlfast.env.ContinuousToDiscrete.__init__": lambda: {"env": gym.make("Pendulum-v1"), "action_per_dim": 3},
    "rlfast.policy.BasePolicy.compute_episodic_return": lambda: _prepared() | {"gae_lambda": 1.0},
    "rlfast.policy.BasePolicy.compute_nstep_return": lambda: (
        _prepared() | {"target_q_fn": lambda buffer, indices: torch.zeros(len(indices), 1)}
    ),
    "rlfast.policy.BasePolicy.draw_normal": lambda: {"dtype": torch.float32, "device": "cpu"},
    "rlfast.policy.BasePolicy.native_chooser": lambda: {"shape": (4,)},
    **dict.fromkeys(
        (f"rlfast.policy.{name}.described" for name in ("BasePolicy", "RolloutLearner", "BranchingDQNPolicy")),
        lambda: {"shape": (4,)},
    ),
    "rlfast.policy.BasePolicy.set_agent_id": lambda: {"agent_id": 1},
    "rlfast.policy.BasePolicy.update": lambda: {"buffer": cart_pole()},
    "rlfast.policy.DQNPolicy.__init__": lambda: _dqn_parts(),
    "rlfast.policy.PQNPolicy.learn": lambda: _learning(INSTANCES["PQNPolicy"]()),
    "rlfast.policy.RolloutLearner.learn": lambda: _learning(INSTANCES["PPOPolicy"]()),
    "rlfast.policy.RolloutLearner.update": lambda: {"buffer": cart_pole(), "batch_size": 2, "repeat": 1},
    "rlfast.utils.net.common.SimbaNet.__init__": lambda: {"state_shape": 4, "hidden_sizes": [8, 8]},
    "rlfast.utils.net.common.EnsembleLinear.__init__": lambda: {"ensemble_size": 2, "in_feature": 3, "out_feature": 2},
    "rlfast.policy.CQLPolicy.process_fn": lambda: _continuous(),
    "rlfast.policy.CQLPolicy.actor_pred": lambda: {"obs": torch.zeros(2, 4), "noise": torch.zeros(2, 2)},
    "rlfast.policy.GAILPolicy.learn": lambda: _learning(INSTANCES["GAILPolicy"]()),
    "rlfast.policy.RolloutLearner.summaries_of_passes": lambda: _learning(INSTANCES["PPOPolicy"]()),
    "rlfast.policy.RolloutLearner.losses_of_passes": lambda: _learning(INSTANCES["PPOPolicy"]()),
    "rlfast.policy.PPOPolicy.summaries_of_passes": lambda: _learning(INSTANCES["PPOPolicy"]()),
    "rlfast.env.check_env": lambda: {"env": lambda: gym.make("CartPole-v1"), "steps": 20, "seed": 0},
    "rlfast.policy.ICMPolicy.post_process_fn": lambda: _prepared_by("ICMPolicy"),
    "rlfast.trainer.BaseTrainer.__init__": _train,
    "rlfast.trainer.test_episode": lambda: {"collector": collector(), "test_fn": None, "epoch": 1, "n_episode": 1},
    "rlfast.utils.net.discrete.CosineEmbeddingNetwork.__init__": lambda: {"num_cosines": 4, "embedding_dim": 8},
    "rlfast.utils.net.discrete.FractionProposalNetwork.__init__": lambda: {"num_fractions": 4, "embedding_dim": 8},
    "rlfast.utils.net.discrete.ImplicitQuantileNetwork.forward": lambda: {
        "obs": np.zeros((2, 4), np.float32),
        "sample_size": 3,
    },
    "rlfast.utils.net.discrete.NoisyLinear.__init__": lambda: {"in_features": 3, "out_features": 2},
    "rlfast.utils.net.atari.PixelConv2d.__init__": lambda: {
        "in_channels": 1,
        "out_channels": 2,
        "kernel_size": 4,
        "stride": 2,
    },
    "rlfast.utils.net.atari.pixel_blocks": lambda: {"images": torch.zeros(2, 1, 4, 4), "size": 2},
    "rlfast.utils.net.continuous.StateDependentNoise.__init__": lambda: {"features": 3, "actions": 2},
    "rlfast.utils.net.continuous.StateDependentNoise.next_state": lambda: {"state": None, "rows": 2, "stream": None},
    "rlfast.utils.net.discrete.IntrinsicCuriosityModule.__init__": lambda: {
        "feature_net": torch.nn.Linear(4, 8),
        "feature_dim": 8,
        "action_dim": 2,
    },
    "rlfast.utils.net.common.get_output_dim": lambda: {"module": Net(4, 2), "alt_value": 2},
}
"""What functions are given in the place of that."""
CALLS |= later_recipes.CALLS
CALLS |= {f"rlfast.policy.{name}": _prepared for name in _PROCESSES.split()}
CALLS["rlfast._core.Replay.restore"] = lambda: {"snapshot": ENGINE}


def _dqn_parts() -> dict[str, Any]:
    net = Net(4, 2, hidden_sizes=[8])
    return {"model": net, "optim": torch.optim.Adam(net.parameters()), "action_space": Discrete(2)}


def _branching_parts() -> dict[str, Any]:
    model = BranchingNet(4, 2, 3, [8])
    return {"model": model, "optim": torch.optim.Adam(model.parameters()), "action_space": MultiDiscrete([3, 3])}


def _discrete_sac_parts() -> dict[str, Any]:
    actor = discrete.Actor(Net(4, hidden_sizes=[8]), 2, softmax_output=False)
    critic = discrete.Critic(Net(4, hidden_sizes=[8]), last_size=2)
    optims = {
        "actor_optim": torch.optim.Adam(actor.parameters()),
        "critic_optim": torch.optim.Adam(critic.parameters()),
    }
    return {"actor": actor, "critic": critic, **optims, "action_space": Discrete(2)}


def _implicit_parts() -> dict[str, Any]:
    model = discrete.ImplicitQuantileNetwork(Net(4, hidden_sizes=[8]), 2)
    return {"model": model, "optim": torch.optim.Adam(model.parameters()), "action_space": Discrete(2)}


def _proposed_parts() -> dict[str, Any]:
    model, proposals = (
        discrete.FullQuantileFunction(Net(4, hidden_sizes=[8]), 2),
        discrete.FractionProposalNetwork(4, 8),
    )
    optims = {"optim": torch.optim.Adam(model.parameters()), "fraction_optim": torch.optim.Adam(proposals.parameters())}
    return {"model": model, "fraction_model": proposals, **optims, "num_fractions": 4, "action_space": Discrete(2)}


def _distribution_parts(*, softmax: bool = False) -> dict[str, Any]:
    atoms = 51 if softmax else 200
    net = Net(4, 2, hidden_sizes=[8], num_atoms=atoms, softmax=softmax)
    return {"model": net, "optim": torch.optim.Adam(net.parameters()), "action_space": Discrete(2)}


def _ddpg_parts() -> dict[str, Any]:
    parts = _sac_parts()
    actor = continuous.Actor(Net(4, hidden_sizes=[8]), 2)
    return parts | {"actor": actor, "actor_optim": torch.optim.Adam(actor.parameters())}


def _redq_parts() -> dict[str, Any]:
    return _ensemble_parts() | {"ensemble_size": 3}


def _tqc_parts() -> dict[str, Any]:
    return _ensemble_parts(output_dim=5)


def _ensemble_parts(**options: Any) -> dict[str, Any]:
    def linear(inputs: int, outputs: int) -> torch.nn.Module:
        return EnsembleLinear(3, inputs, outputs)

    net = Net(4, 2, hidden_sizes=[8], concat=True, linear_layer=linear)
    critic = continuous.Critic(net, linear_layer=linear, flatten_input=False, **options)
    return _sac_parts() | {"critic": critic, "critic_optim": torch.optim.Adam(critic.parameters())}


def _curious() -> Any:
    module = discrete.IntrinsicCuriosityModule(torch.nn.Linear(4, 8), 8, 2)
    return policy.ICMPolicy(
        policy=dqn(),
        model=module,
        optim=torch.optim.Adam(module.parameters()),
        lr_scale=1.0,
        reward_scale=0.01,
        forward_loss_weight=0.2,
        action_space=Discrete(2),
    )


def _prepared_by(kind: str) -> dict[str, Any]:
    parts = _prepared()
    return parts | {"batch": INSTANCES[kind]().process_fn(**parts)}


def _continuous() -> dict[str, Any]:
    """A batch with continuous actions."""
    buffer = data.ReplayBuffer(10)
    for step in range(7):
        seen = np.zeros(4, np.float32)
        buffer.append(
            obs=seen, act=np.zeros(2, np.float32), rew=1.0, terminated=step == 4, truncated=False, obs_next=seen
        )
    INSTANCES["CQLPolicy"]().process_buffer(buffer)
    batch, indices = buffer.sample(4)
    return {"batch": batch, "buffer": buffer, "indices": indices}


OWNERS: dict[str, Callable[[], Any]] = {
    "rlfast._core.UnpluggedShards.read": later_recipes.opened,
    "rlfast.policy.ReplayLearner.process_fn": dqn,
    "rlfast.policy.PPOPolicy.summaries_of_passes": lambda: INSTANCES["PPOPolicy"](),
    "rlfast.policy.BasePolicy.update": dqn,  # others want a batch_size and a repeat as well
    "rlfast._core.Replay.follow": _ends,
    "rlfast._core.Replay.record": _hosted,
    "rlfast._core.Replay.transitions": _hosted,
    "rlfast.env.BaseVectorEnv.recv": asked,
    "rlfast.env.VectorEnvNormObs.recv": lambda: env.VectorEnvNormObs(asked()),
    "rlfast.env.VectorEnvNormReward.recv": lambda: env.VectorEnvNormReward(asked()),
    "rlfast.env.VectorEnvWrapper.recv": lambda: env.VectorEnvNormObs(asked()),
    "rlfast.env.AsyncCalls.reset_async": _gymnasium,
}
"""Whose method is called, where that is not the instance of its class."""
CONCRETE: dict[str, type] = {"rlfast.trainer.BaseTrainer.__init__": trainer.OnpolicyTrainer}
"""Which class is made, where that whose constructor it is cannot be."""
UNENDING: set[tuple[str, str]] = {
    ("rlfast.data.Collector.collect", "n_step"),
    ("rlfast.data.Collector.collect", "n_episode"),
    ("rlfast.data.Collector.evaluate", "n_episode"),
    ("rlfast.experiment.evaluate", "episodes"),
    ("rlfast.trainer.test_episode", "n_episode"),
    ("rlfast.policy.RolloutLearner.learn", "repeat"),
    ("rlfast.policy.RolloutLearner.summaries_of_passes", "repeat"),
    ("rlfast.policy.RolloutLearner.losses_of_passes", "repeat"),
    ("rlfast.policy.PPOPolicy.summaries_of_passes", "repeat"),
    ("rlfast.env.check_env", "steps"),
    ("rlfast.policy.GAILPolicy.learn", "repeat"),
    ("rlfast.policy.PQNPolicy.learn", "repeat"),
}
UNENDING |= {  # a trainer is an iterator, of which the sweep takes the first epochs
    ("rlfast.trainer.BaseTrainer.__init__", name)
    for name in ("step_per_epoch", "episode_per_test", "start_timesteps", "repeat_per_collect")
}
"""Amounts of work: a large one is done, and takes as long as it takes."""
SMALL = frozenset(["0", "-1", "-2**63", "nan", "1.5", "True", "a string", "None"])
"""Values of them that are tried all the same."""
MEANT = frozenset([("rlfast._core.end_with", "pid", "5 * 10**7")])
"""Values that end the process because they shall: there is no process of this number."""
EXCUSED: tuple[str, ...] = (
    # the columns of a host, which tests of hosts have
    "rlfast._core.Replay.record",
    "rlfast._core.Replay.transitions",
    # records that hold what they are given
    "rlfast.data.EpochStats",
    "rlfast.data.InfoStats",
    "rlfast.experiment.RunResult",
    "rlfast.trainer.gather_info",
    # what stands behind vector environments, which check before they ask it
    "rlfast.env.DummyEnvWorker",
    "rlfast.env.EnvWorker",
    "rlfast.env.RayEnvWorker",
    "rlfast.env.SubprocEnvWorker",
    "rlfast.env.WorkerDied",
    "rlfast.env.WorkerView",
    # what needs packages, files or services of others
    "rlfast.data.FileMethods.from_minari",
    "rlfast.data.FileMethods.load_hdf5",
    "rlfast.env.PettingZooEnv",
    "rlfast.env.RayVectorEnv",
    "rlfast.utils.TensorboardLogger",
    "rlfast.utils.WandbLogger",
    # abstract classes, and parts that their owners call
    "rlfast.data.Hindsight.apply",
    "rlfast.data.Hindsight.choose",
    "rlfast.policy.MultiAgentPolicyManager.p",  # process_fn and post_process_fn, which ask the policies of the agents
    "rlfast.policy.ReplayLearner.draw_",
    "rlfast.utils.BaseLogger.__init__",
    "rlfast.utils.CheckpointLogger",
    "rlfast.utils._RowLogger",
)
"""Beginnings of the names of functions that are not called, and why."""


def excused(one: Any) -> bool:
    """Whether there is a reason not to call a function."""
    return one.name.startswith(EXCUSED)


def call_well(one: Any) -> None:
    """Calls a function as it is meant; what it raises ends the process, and so the test."""
    try:
        call(one)
    except Exception as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error  # seen by `sweep.outcome`


def _instance(one: Any) -> Any:
    """What a method is called on."""
    home = one.name.rsplit(".", 1)[0]
    return (OWNERS.get(one.name) or OF_MODULE.get(home) or INSTANCES.get(one.owner.__name__) or one.owner)()


def call(one: Any, **given: Any) -> Any:
    """Calls a function with some arguments, and valid others."""
    import inspect

    makers = CALLS.get(one.name, dict)()
    arguments = {}
    for parameter in inspect.signature(one.function).parameters.values():
        name = parameter.name
        if name in ("self", "cls") or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in given:
            arguments[name] = given[name]
        elif name in makers:
            arguments[name] = makers[name]
        elif parameter.default is parameter.empty:
            arguments[name] = ARGUMENTS[name]()
    arguments |= {name: value for name, value in makers.items() if name not in arguments}
    if one.is_constructor:
        function = CONCRETE.get(one.name, one.owner)
    elif one.owner is not None:
        key = one.name.rsplit(".", 1)[1]
        static = isinstance(inspect.getattr_static(one.owner, key), classmethod | staticmethod)
        function = getattr(one.owner if static else _instance(one), key)
    else:
        function = one.function
    only = [
        parameter.name
        for parameter in inspect.signature(one.function).parameters.values()
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in arguments
    ]
    return function(*[arguments.pop(name) for name in only], **arguments)


_POLICIES: list[tuple[str, Callable[[], dict[str, Any]]]] = [
    ("A2CPolicy NPGPolicy TRPOPolicy PPOPolicy", _ppo_parts),
    ("PQNPolicy", _dqn_parts),
    ("PGPolicy", _pg_parts),
    ("SACPolicy", _sac_parts),
    ("DDPGPolicy TD3Policy", _ddpg_parts),
    ("REDQPolicy", _redq_parts),
    ("TQCPolicy", _tqc_parts),
    ("DroQPolicy CrossQPolicy", _ensemble_parts),
    ("XQCPolicy", lambda: _ensemble_parts(output_dim=101)),
    ("C51Policy RainbowPolicy", lambda: _distribution_parts(softmax=True)),
    ("QRDQNPolicy", _distribution_parts),
    ("IQNPolicy", _implicit_parts),
    ("FQFPolicy", _proposed_parts),
    ("DiscreteSACPolicy", _discrete_sac_parts),
    ("BranchingDQNPolicy", _branching_parts),
]
"""The policies that take the same arguments, by name."""
for _names, _make in _POLICIES:
    for _name in _names.split():
        INSTANCES[_name] = lambda name=_name, make=_make: getattr(policy, name)(**make())
        CALLS[f"rlfast.policy.{_name}.__init__"] = _make
