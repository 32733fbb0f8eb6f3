"""Valid calls of policies that learn from fixed data, from sequences, or for several agents, and of readers of data."""

import functools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from rlfast import _core, data, policy
from rlfast.data.forms import Form
from rlfast.export import Program, load_policy, save
from rlfast.export.program import Choices
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.common import MLP, Net, Recurrent
from rlfast.utils.optim import adam

_BOX = Box(-1, 1, (2,))


def _parts(networks: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Networks, an optimizer for each, and other arguments."""
    return networks | {f"{name}_optim": adam() for name in networks} | options


def _with_critic(actor: Any) -> dict[str, Any]:
    return {"actor": actor, "critic": continuous.Critic(Net(4, 2, hidden_sizes=[8], concat=True))}


def deterministic() -> dict[str, Any]:
    """Arguments of TD3+BC and ReBRAC."""
    return _parts(_with_critic(continuous.Actor(Net(4, hidden_sizes=[8]), 2)), action_space=_BOX)


def _normal(**options: Any) -> Any:
    return continuous.ActorProb(Net(4, hidden_sizes=[8]), 2, **options)


def cql() -> dict[str, Any]:
    """Arguments of CQL."""
    return _parts(_with_critic(_normal(unbounded=True, conditioned_sigma=True)), action_space=_BOX)


def iql() -> dict[str, Any]:
    """Arguments of IQL."""
    value = discrete.Critic(Net(4, hidden_sizes=[8]))
    return _parts(_with_critic(_normal()) | {"value": value}, action_space=_BOX)


def bcq() -> dict[str, Any]:
    """Arguments of BCQ."""
    vae = continuous.VAE(MLP(6, hidden_sizes=[8]), MLP(4 + 3, 2, [8]), hidden_dim=8, latent_dim=3, max_action=1.0)
    perturbation = continuous.Perturbation(Net(6, 2, hidden_sizes=[8]), 1.0)
    critic = _with_critic(None)["critic"]
    return _parts({"actor_perturbation": perturbation, "critic": critic, "vae": vae}, action_space=_BOX)


def discrete_bcq() -> dict[str, Any]:
    """Arguments of discrete BCQ."""
    networks = {name: Net(4, 2, hidden_sizes=[8]) for name in ("model", "imitator")}
    return networks | {"optim": adam(), "action_space": Discrete(2)}


def discrete_cql() -> dict[str, Any]:
    """Arguments of discrete CQL."""
    return {"model": Net(4, 2, hidden_sizes=[8], num_atoms=200), "optim": adam(), "action_space": Discrete(2)}


def discrete_crr() -> dict[str, Any]:
    """Arguments of discrete CRR."""
    actor = discrete.Actor(Net(4, hidden_sizes=[8]), 2, softmax_output=False)
    critic = discrete.Critic(Net(4, hidden_sizes=[8]), last_size=2)
    return {"actor": actor, "critic": critic, "optim": adam(), "action_space": Discrete(2)}


def gail() -> dict[str, Any]:
    """Arguments of GAIL."""
    expert = data.ReplayBuffer(6)
    for _ in range(6):
        seen = np.zeros(4, np.float32)
        expert.append(obs=seen, act=0, rew=0.0, terminated=False, truncated=False, obs_next=seen)
    networks = {
        "actor": discrete.Actor(Net(4, hidden_sizes=[8]), 2),
        "critic": discrete.Critic(Net(4, hidden_sizes=[8])),
    }
    learning = {"disc_net": MLP(6, 1, [8]), "disc_optim": adam(), "optim": adam(), "expert_buffer": expert}
    kind = {"dist_fn": torch.distributions.Categorical, "action_space": Discrete(2), "action_scaling": False}
    return networks | learning | kind


def r2d2() -> dict[str, Any]:
    """Arguments of R2D2."""
    return {"model": Recurrent(1, 4, 2), "optim": adam(), "action_space": Discrete(2)}


def _agents() -> policy.MultiAgentPolicyManager:
    game = SimpleNamespace(
        agents=["a", "b"], agent_idx={"a": 0, "b": 1}, action_space=Discrete(2), observation_space=_BOX
    )
    players = [policy.RandomPolicy(action_space=Discrete(2)) for _ in range(2)]
    return policy.MultiAgentPolicyManager(policies=players, env=game)


def opened() -> _core.UnpluggedShards:
    """A reader of a shard with 48 records, none of which was read."""
    shards = _core.UnpluggedShards(gettempdir(), skip_broken=False)
    shards.open(Path(__file__).parents[2] / "data" / "datasets" / "shards" / "run_1-00000-of-00100")
    return shards


def _read() -> _core.UnpluggedShards:
    shards = opened()
    while shards.read(100)[1]:
        pass
    return shards


_ROW = {"obs": np.zeros(2), "act": 0, "rew": 0.0, "terminated": False, "truncated": False, "obs_next": np.zeros(2)}


def shared() -> data.SharedReplayBuffer:
    """A buffer in shared memory with rows."""
    buffer = data.SharedReplayBuffer(20, 2, _ROW, sampler=data.Prioritized(0.5, 0.5), seed=0)
    with buffer.writer() as writer:
        for _ in range(5):
            writer.add(_rows())
    return buffer


def _rows() -> data.Batch:
    return data.Batch.stack([data.Batch(_ROW)] * 2)


def _written() -> dict[str, Any]:
    buffer = shared()
    return {"memory": buffer._memory, "columns": buffer._description.columns}


def _in_rings() -> dict[str, Any]:
    return _written() | {"rings": [0, 1], "batch": data.Batch}


@functools.cache
def _kept() -> data.SharedReplayBuffer:
    return shared()


def _drawn() -> dict[str, Any]:
    buffer = shared()
    return {"indices": buffer.sample(2)[1], "n_step": 1, "gamma": 0.5}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "BCQPolicy": bcq,
    "CQLPolicy": cql,
    "DiscreteBCQPolicy": discrete_bcq,
    "DiscreteCQLPolicy": discrete_cql,
    "DiscreteCRRPolicy": discrete_crr,
    "GAILPolicy": gail,
    "IQLPolicy": iql,
    "R2D2Policy": r2d2,
    "ReBRACPolicy": deterministic,
    "TD3BCPolicy": deterministic,
}
"""The arguments of constructors, by the names of classes."""


def _exported() -> _core.ExportedPolicy:
    """An exported policy with a network that computes nothing."""
    node = ("linear", 0, np.eye(2, dtype=np.float32), None, False)
    action = Choices(slot=1, sizes=[2], starts=[0], logits=True, shape=())
    program = Program(form=Form.given((2,)), places=None, scales=(), nodes=[node], action=action, random=True)
    with TemporaryDirectory() as folder:
        return load_policy(save(program, Path(folder, "policy")))


@functools.cache
def _trained() -> Path:
    """The folder of a run that has hardly learned."""
    from rlfast.experiment import ALGORITHMS, train

    folder = Path(mkdtemp(), "run")
    small = {
        "max_steps": 40,
        "num_envs": 2,
        "eval_episodes": 1,
        "eval_envs": 1,
        "hidden_sizes": (4,),
        "buffer_size": 99,
    }
    train(ALGORITHMS["dqn"].config(env="CartPole-v1", run_dir=folder, progress=False, **small))
    return folder


def _maker(name: str) -> Callable[[], Any]:
    return lambda: getattr(policy, name)(**PARTS[name]())


INSTANCES: dict[str, Callable[[], Any]] = {name: _maker(name) for name in PARTS} | {
    "ExportedPolicy": _exported,
    "MultiAgentPolicyManager": _agents,
    "RingMemory": lambda: shared()._memory,
    "RingReader": lambda: shared()._core,
    "RingWriter": lambda: _core.RingWriter(**_in_rings()),
    "SharedReplayBuffer": shared,
    "SharedWriter": lambda: shared().writer(),
    "RandomPolicy": lambda: policy.RandomPolicy(action_space=Discrete(2)),
    "UnpluggedShards": _read,
}
CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    f"rlfast.policy.{name}.__init__": parts for name, parts in PARTS.items()
} | {
    "rlfast._core.RingMemory.create": lambda: {
        "columns": shared()._description.columns,
        "rings": 2,
        "capacity": 3,
        "text": b"",
        "batch": data.Batch,
    },
    "rlfast._core.RingReader.__init__": lambda: _written() | {"batch": data.Batch, "alpha": 0.5},
    "rlfast._core.RingReader.take": lambda: {"index": np.array([0, 1])},
    "rlfast._core.RingReader.update_priority": lambda: {"index": np.array([0, 1]), "priority": np.ones(2)},
    "rlfast._core.RingWriter.__init__": _in_rings,
    "rlfast._core.RingWriter.add": lambda: {"fields": _rows().__dict__, "places": np.array([0, 1])},
    "rlfast._core.UnpluggedShards.observations": lambda: {"start": 3, "stop": 5},
    "rlfast._core.UnpluggedShards.read": lambda: {"count": 5},
    "rlfast._core.UnpluggedShards.values": lambda: {"start": 3, "stop": 5},
    "rlfast.experiment.evaluate": lambda: {"run_dir": _trained(), "episodes": 1},
    "rlfast.data.SharedReplayBuffer.__getitem__": lambda: {"index": np.array([0, 1])},
    "rlfast.data.SharedReplayBuffer.__init__": lambda: {"total_size": 6, "buffer_num": 2, "example": _ROW},
    "rlfast.data.SharedReplayBuffer.from_file": lambda: {"file": _kept().fileno()},
    "rlfast.data.SharedReplayBuffer.nstep": _drawn,
    "rlfast.data.SharedWriter.__init__": lambda: _written() | {"rings": [0, 1]},
    "rlfast.data.SharedWriter.add": lambda: {"batch": _rows(), "buffer_ids": [0, 1]},
    "rlfast.experiment.RunConfig.scheduled": lambda: {"schedule": "linear", "start": 1.0},
    "rlfast.functional.nstep_sums_within": lambda: {
        "rew_BT": np.zeros((2, 3)),
        "terminated_BT": np.zeros((2, 3), bool),
        "mask_BT": np.ones((2, 3), bool),
    },
    "rlfast.policy.TwinDelayedLearner.set_delay": lambda: {
        "policy_noise": 0.1,
        "noise_clip": 0.2,
        "update_actor_freq": 2,
    },
}
