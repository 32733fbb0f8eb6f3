"""Policies of all kinds that act, with random weights: what is exported."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector.utils import concatenate, create_empty_array
from torch import nn

from rlfast.data import Batch
from rlfast.experiment.networks.encoder import Encoder
from rlfast.functional import DiagonalNormal
from rlfast.functional.distributions import Categorical, MultiCategorical
from rlfast.policy import (
    BasePolicy,
    BranchingDQNPolicy,
    C51Policy,
    DDPGPolicy,
    DiscreteSACPolicy,
    DQNPolicy,
    ImitationPolicy,
    IQLPolicy,
    PPOPolicy,
    QRDQNPolicy,
    SACPolicy,
)
from rlfast.utils.net import discrete
from rlfast.utils.net.common import BranchingNet, Net, Recurrent, SimbaNet
from rlfast.utils.net.continuous import Actor, ActorProb, Critic, RecurrentActorProb, StateDependentNoise
from rlfast.utils.optim import adam

SHAPE = (5,)
STEP = adam(1e-3)
DRAWN = 1e-6 if "AVX" in torch.backends.cpu.get_cpu_capability() else 1e-5
"""How far drawn actions are from torch's: without AVX2, torch computes other normal numbers, which are 3e-6 away."""
BOX = Box(np.array([-2.0, 0.0, -1.0], np.float32), np.array([2.0, 3.0, -0.5], np.float32))
WIDE = Box(-2.0, 2.0, (3,), np.float64)


def features(**more: Any) -> Net:
    return Net(5, hidden_sizes=[16, 16], **more)


def value() -> Critic:
    return Critic(Net(5, 3, hidden_sizes=[8], concat=True))


def dqn(space: Any = None, model: Any = None) -> BasePolicy:
    return DQNPolicy(model=model or features(action_shape=4), optim=STEP, action_space=space or Discrete(4))


def distributional(kind: Any, **more: Any) -> BasePolicy:
    atoms = next(value for name, value in more.items() if name.startswith("num_"))
    model = features(action_shape=4, num_atoms=atoms, softmax=kind is C51Policy)
    return kind(model=model, optim=STEP, action_space=Discrete(4), **more)


def ppo(**more: Any) -> BasePolicy:
    actor = ActorProb(features(activation=nn.Tanh), 3, max_action=1.5)
    nn.init.normal_(actor.sigma_param)
    given = {"action_space": BOX, "dist_fn": DiagonalNormal, **more}
    return PPOPolicy(actor=actor, critic=Critic(features()), optim=STEP, **given)


def choosing(space: Any, **more: Any) -> BasePolicy:
    sizes = [int(space.n)] if isinstance(space, Discrete) else [int(n) for n in space.nvec]
    dist_fn = Categorical if isinstance(space, Discrete) else partial(MultiCategorical, nvec=sizes)
    actor = discrete.Actor(features(), sum(sizes), softmax_output=False)
    critic = discrete.Critic(features())
    return PPOPolicy(actor=actor, critic=critic, optim=STEP, action_space=space, dist_fn=dist_fn, **more)


def sac(space: Any = BOX, **more: Any) -> BasePolicy:
    actor = ActorProb(features(), 3, conditioned_sigma=True, unbounded=True)
    given = {"actor_optim": STEP, "critic_optim": STEP, "action_space": space, **more}
    return SACPolicy(actor=actor, critic=value(), **given)


def discrete_sac(**more: Any) -> BasePolicy:
    actor = discrete.Actor(features(), 4, softmax_output=False)
    critic = discrete.Critic(features(), last_size=4)
    given = {"actor_optim": STEP, "critic_optim": STEP, "action_space": Discrete(4), **more}
    return DiscreteSACPolicy(actor=actor, critic=critic, **given)


def ddpg(space: Any = BOX, **more: Any) -> BasePolicy:
    actor = Actor(SimbaNet(5, hidden_sizes=[16]), 3)
    return DDPGPolicy(
        actor=actor,
        critic=value(),
        actor_optim=STEP,
        critic_optim=STEP,
        action_space=space,
        action_scaling=True,
        **more,
    )


def iql() -> BasePolicy:
    actor = ActorProb(features(), 3, max_action=1.0)
    optims = dict.fromkeys(("actor_optim", "critic_optim", "value_optim"), STEP)
    critics = {"critic": value(), "value": Critic(features())}
    return IQLPolicy(actor=actor, **critics, **optims, action_space=BOX, action_scaling=True)


def branching(space: Any, choices: int) -> BasePolicy:
    branches = int(np.prod(space.shape or (1,)))
    model = BranchingNet(5, branches, choices, [16])
    return BranchingDQNPolicy(model=model, optim=STEP, action_space=space)


def imitation() -> BasePolicy:
    return ImitationPolicy(actor=features(action_shape=4), optim=STEP, action_space=Discrete(4))


class Gated(nn.Module):
    """A recurrent network of a user: its state is two tensors, which are computed after the output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head, self.cell = nn.Linear(5, 8), nn.Linear(14, 4), nn.GRUCell(8, 6)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        x = torch.tanh(self.layer(torch.as_tensor(obs, dtype=torch.float32)))
        before = {"count": torch.zeros(len(x), 1), "hidden": torch.zeros(len(x), 6)} if state is None else state
        q = self.head(torch.cat([x, before["hidden"]], 1)) + before["count"] * 0.1
        return q, {"count": before["count"] + 1.0, "hidden": self.cell(x, before["hidden"])}


class Encoded(nn.Module):
    """A network of observations of a space, as those of the command line are."""

    def __init__(self, space: Any, actions: int = 4) -> None:
        super().__init__()
        self.encoder = Encoder(space)
        self.layers = nn.Sequential(nn.Linear(self.encoder.output_dim, 16), nn.Tanh(), nn.Linear(16, actions))

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        return self.layers(self.encoder(obs)), state


class Embedded(nn.Module):
    """A network of a user that looks up vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.Embedding(5, 6), nn.Linear(12, 4)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        return self.head(torch.tanh(self.rows(torch.as_tensor(obs))).flatten(1)), state


def gsde(**more: Any) -> BasePolicy:
    actor = ActorProb(features(), 3, max_action=1.0, sde=StateDependentNoise)
    given = {"action_space": BOX, "dist_fn": DiagonalNormal, **more}
    return PPOPolicy(actor=actor, critic=Critic(features()), optim=STEP, **given)


def gsde_sac() -> BasePolicy:
    actor = ActorProb(features(), 3, unbounded=True, sde=StateDependentNoise, clip_mean=2.0)
    return SACPolicy(actor=actor, critic=value(), actor_optim=STEP, critic_optim=STEP, action_space=BOX)


def recurrent_sac() -> BasePolicy:
    actor = RecurrentActorProb(1, (5,), (3,), 6, conditioned_sigma=True, unbounded=True)
    return SACPolicy(actor=actor, critic=value(), actor_optim=STEP, critic_optim=STEP, action_space=BOX)


def recurrent_ppo(space: Any, **more: Any) -> BasePolicy:
    sizes = [int(space.n)] if isinstance(space, Discrete) else [int(n) for n in space.nvec]
    dist_fn = Categorical if isinstance(space, Discrete) else partial(MultiCategorical, nvec=sizes)
    actor, critic = Recurrent(1, 5, sum(sizes), hidden_layer_size=6), discrete.Critic(features())
    return PPOPolicy(actor=actor, critic=critic, optim=STEP, action_space=space, dist_fn=dist_fn, **more)


def odd() -> nn.Module:
    """A network with nodes of every kind but those of distributions."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 12), nn.Linear(40, 4)
            self.layer, self.scale = nn.LayerNorm(12), nn.Parameter(torch.rand(6) + 0.5)

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
            x = self.layer(self.first(torch.as_tensor(obs, dtype=self.scale.dtype)))
            y, z = x.chunk(2, 1)
            parts = [
                torch.maximum(y, z), torch.minimum(y, z) * self.scale, y.abs() / (z.square() + 1.0), y.exp() - z,
                nn.functional.gelu(y), nn.functional.gelu(z, approximate="tanh"),
            ]  # fmt: skip
            groups = y.view(-1, 2, 3)
            few = [
                groups.sum(2), groups.mean(2), groups.amax(2)
            ]  # fmt: skip
            x = torch.cat([*parts[:5], *few], 1)[:, :36]
            x = torch.cat([x, nn.functional.softplus(z[:, :2]), torch.sigmoid(parts[5][:, :2])], 1)
            x = nn.functional.elu(x, 0.7) + nn.functional.silu(x) + nn.functional.leaky_relu(x).clamp(min=-0.5)
            return self.last(x + (x.abs() + 1.0).log() + (x.square() + 0.1).sqrt().reciprocal()), state

    return Odd()


class Images(nn.Module):
    """A network with convolutions, pools and a matrix stored the other way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.matrix = nn.Linear(5, 2 * 6 * 7), nn.Parameter(torch.randn(6, 4))
        self.layers = nn.Sequential(
            nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=(1, 2), groups=2),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=1, padding=1),
            nn.Conv2d(4, 3, 2, dilation=(2, 1), bias=False),
            nn.AvgPool2d((2, 3)),
        )

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        x = self.first(torch.as_tensor(obs, dtype=self.matrix.dtype)).view(-1, 2, 6, 7)
        return self.layers(x).flatten(1)[:, :6] @ self.matrix, state


POLICIES: dict[str, Callable[[], BasePolicy]] = {
    "DQN": dqn,
    "DQN from 3": lambda: dqn(Discrete(4, start=3)),
    "DQN, dueling": lambda: dqn(model=features(action_shape=4, dueling_param=({}, {}))),
    "DQN, all nodes": lambda: dqn(model=odd()),
    "DQN, images": lambda: dqn(model=Images()),
    "DQN, wide": lambda: dqn(model=Net(5, 4, hidden_sizes=[32, 160, 16])),
    "C51": lambda: distributional(C51Policy, num_atoms=11),
    "QR-DQN": lambda: distributional(QRDQNPolicy, num_quantiles=7),
    "BDQ": lambda: branching(MultiDiscrete([3, 3]), 3),
    "BDQ, few choices": lambda: branching(MultiDiscrete([2, 3]), 3),
    "PPO": ppo,
    "PPO, tanh": lambda: ppo(action_bound_method="tanh"),
    "PPO, float64": lambda: ppo(action_space=WIDE),
    "PPO, unbounded": lambda: ppo(action_bound_method=None, action_scaling=False),
    "PPO, deterministic": lambda: ppo(deterministic_eval=True),
    "PPO, discrete": lambda: choosing(Discrete(4)),
    "PPO, multi-discrete": lambda: choosing(MultiDiscrete([2, 4, 3])),
    "SAC": sac,
    "SAC, float64": lambda: sac(WIDE),
    "SAC, discrete": discrete_sac,
    "DDPG": ddpg,
    "IQL": iql,
    "gSDE PPO": lambda: gsde(deterministic_eval=True),
    "gSDE SAC": gsde_sac,
    "imitation": imitation,
}  # fmt: skip
RECURRENT: dict[str, Callable[[], BasePolicy]] = {
    "DQN, LSTM": lambda: dqn(model=Recurrent(2, 5, 4, hidden_layer_size=6)),
    "DQN, own GRU": lambda: dqn(model=Gated()),
    "PPO, LSTM": lambda: recurrent_ppo(Discrete(4)),
    "PPO, LSTM, multi-discrete": lambda: recurrent_ppo(MultiDiscrete([2, 3])),
    "SAC, LSTM": recurrent_sac,
}
"""Those with a hidden state."""
SPACES: dict[str, Any] = {
    "discrete": Discrete(5),
    "discrete from 3": Discrete(5, start=3),
    "discrete below 0": Discrete(5, start=-2),
    "multi-discrete": MultiDiscrete([3, 4, 2]),
    "multi-binary": MultiBinary(6),
    "int64": Box(-9, 9, (2, 3), np.int64),
    "int8": Box(-9, 9, (4,), np.int8),
    "uint8": Box(0, 255, (4,), np.uint8),
    "float64": Box(-9, 9, (4,), np.float64),
    "dict": Dict(place=Discrete(3), speed=Box(-1, 1, (2, 2)), flags=MultiBinary(3), level=Box(0, 255, (1,), np.uint8)),
    "nested": Dict(b=Dict(place=Discrete(4, start=1), x=Box(-1, 1, (2,), np.float64)), a=Box(-9, 9, (1,), np.int32)),
}
"""Spaces of observations."""
RANDOM = [name for name in POLICIES if name.startswith(("PPO", "SAC", "IQL"))]
"""Those that draw actions."""


def spaced(name: str) -> BasePolicy:
    """A policy in evaluation mode for observations of a space."""
    torch.manual_seed(0)
    return dqn(model=Encoded(SPACES[name])).eval()


def sampled(space: Any, rows: int) -> Any:
    """Observations of a space: an array ``[rows, ...]``, or a dict of these."""
    space.seed(0)
    return concatenate(space, [space.sample() for _ in range(rows)], create_empty_array(space, rows))


def made(name: str, seed: int = 0) -> BasePolicy:
    """A policy in evaluation mode, with weights of this seed."""
    torch.manual_seed(seed)
    return (POLICIES | RECURRENT)[name]().eval()


def episode(policy: BasePolicy, obs: Any, **more: Any) -> list[Any]:
    """The actions of the policy itself for steps ``[T, B, ...]``, from a state of zeros."""
    actions, state = [], None
    for step in obs:
        actions.append(wanted(policy, step, state=state, **more))
        state = policy(Batch(obs=step, info={}), state).state
    return actions


def wanted(policy: BasePolicy, obs: Any, *, deterministic: bool | None = None, state: Any = None) -> Any:
    """The actions of the policy itself, for the environment."""
    before = getattr(policy, "deterministic_eval", None)
    if deterministic is not None and before is not None:
        policy.deterministic_eval = deterministic
    with torch.no_grad():
        act = policy.map_action(policy(Batch(obs=obs, info={}), state).act)
    if before is not None:
        policy.deterministic_eval = before
    return np.asarray(act)
