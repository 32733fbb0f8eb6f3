"""TorchRL."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import (
    HERReplayBuffer,
    LazyTensorStorage,
    SliceSampler,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.envs import (
    Compose,
    GymWrapper,
    MultiStepTransform,
    ParallelEnv,
    PettingZooWrapper,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.modules import AdditiveGaussianModule, IndependentNormal, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from bench.museum.adapters import DoesNotApply, Slots
from bench.museum.operations.agents import as_aec
from bench.museum.operations.rows import Row, episodes
from bench.museum.operations.scripted import Counter, Starts

TENSOR_INDICES = True
warnings.simplefilter("ignore")


def versions() -> dict[str, str]:
    return {
        "torchrl": version("torchrl"),
        "tensordict": version("tensordict"),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "gymnasium": gym.__version__,
    }


def as_td(row: Row) -> TensorDict:
    def tensors(obs: Any) -> Any:
        if isinstance(obs, dict):
            return {key: torch.tensor(np.asarray(value)) for key, value in obs.items()}
        return torch.tensor(np.asarray(obs))

    flags = {"done": row.terminated or row.truncated, "terminated": row.terminated, "truncated": row.truncated}
    return TensorDict(
        {
            "observation": tensors(row.obs),
            "action": torch.tensor(np.atleast_1d(np.asarray(row.act))),
            "next": {
                "observation": tensors(row.obs_next),
                "reward": torch.tensor([row.rew], dtype=torch.float64),
                **{key: torch.tensor([flag]) for key, flag in flags.items()},
            },
        },
        batch_size=[],
    )


def arrays(value: Any) -> Any:
    return {key: arrays(inner) for key, inner in value.items()} if hasattr(value, "keys") else value.numpy()


class Buffer(Slots):
    def __init__(self, make: Any) -> None:
        self.make, self.buffer = make, make()

    def add(self, row: Row) -> None:
        self.buffer.add(as_td(row))

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count)
        found = {
            "obs": arrays(batch["observation"]),
            "act": batch["action"].numpy(),
            "rew": batch["next", "reward"].numpy().ravel(),
            "terminal": batch["next", "terminated"].numpy().ravel(),
            "obs_next": arrays(batch["next", "observation"]),
            "index": batch["index"],
        }
        weight = batch.get("priority_weight", None)
        return found if weight is None else {**found, "weight": weight.numpy()}

    def update(self, index: Any, priorities: Any) -> None:
        self.buffer.update_priority(torch.as_tensor(index), torch.as_tensor(priorities, dtype=torch.float32))

    def size(self) -> int:
        return len(self.buffer)

    def save(self, path: Path) -> None:
        self.buffer.dumps(path)

    def load(self, path: Path) -> Buffer:
        other = Buffer(self.make)
        other.buffer.loads(path)
        return other


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    if compact or stack > 1:
        raise DoesNotApply("observations are shared and stacked in samples of slices only")
    return Buffer(lambda: TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=1))


def prioritized(capacity: int, alpha: float, beta: float) -> Buffer:
    return Buffer(
        lambda: TensorDictPrioritizedReplayBuffer(
            alpha=alpha, beta=beta, storage=LazyTensorStorage(capacity), batch_size=1, priority_key="td_error"
        )
    )


def nstep(capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
    if np.isnan(value(np.array([row.obs_next[0] for row in rows]))).any():
        raise DoesNotApply("loss modules compute the target")
    # The transform keeps the last rows until others follow, so an episode of other numbers goes after them.
    others = episodes("." * (n_step + 1), first=5000)
    options = {
        "storage": LazyTensorStorage(capacity + n_step + 1),
        "transform": MultiStepTransform(n_step, gamma),
        "batch_size": 1,
    }
    if prioritized:
        buffer: Any = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, priority_key="td_error", **options)
    else:
        buffer = TensorDictReplayBuffer(**options)
    if not (rows[-1].terminated or rows[-1].truncated):
        others = []  # the episode still runs: its last rows have to wait
    buffer.extend(torch.stack([as_td(row) for row in [*rows, *others]]))
    batch = buffer.sample(64 * (capacity + n_step))
    batch = batch[batch["observation"].ravel() < 5000]
    terminal = batch["next", "terminated"].numpy().ravel()
    discount = batch["gamma"].numpy().ravel() * (1 - terminal)
    target = batch["next", "reward"].numpy().ravel() + discount * value(batch["next", "observation"].numpy().ravel())
    return zip(batch["observation"].numpy().ravel(), target, strict=True)


class Goals(Buffer):
    """Goals stand beside the observation, as the documentation has them."""

    def add(self, row: Row) -> None:
        td = as_td(row)
        for part in (td, td["next"]):
            for key, value in part.pop("observation").items():
                part[key] = value
        self.buffer.add(td)

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count)
        goals = ("achieved_goal", "desired_goal")
        return {
            "obs": {key: batch[key].numpy() for key in goals},
            "obs_next": {key: batch["next", key].numpy() for key in goals},
            "rew": batch["next", "reward"].numpy().ravel(),
        }


def her(capacity: int, example: Row, reward: Any, episode_length: int) -> Buffer:
    def reward_fn(td: Any) -> torch.Tensor:
        return torch.tensor(
            reward(td["next", "achieved_goal"].numpy(), td["desired_goal"].numpy()), dtype=torch.float64
        )[:, None]

    return Goals(lambda: HERReplayBuffer(reward_fn, storage=LazyTensorStorage(capacity), batch_size=1))


class Windows(Buffer):
    def __init__(self, capacity: int, length: int) -> None:
        self.length = length
        sampler = SliceSampler(slice_len=length, end_key=("next", "done"), strict_length=False)
        super().__init__(
            lambda: TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler, batch_size=length)
        )

    def sample(self, count: int) -> Any:
        batch = self.buffer.sample(count * self.length)
        ends = np.flatnonzero(batch["next", "done"].numpy().ravel()) + 1  # the sampler marks the end of each slice
        return [part for part in np.split(batch["observation"].numpy(), ends) if len(part)]


def sequences(capacity: int, length: int) -> Windows:
    return Windows(capacity, length)


def gae(rew: Any, value: Any, value_next: Any, terminated: Any, truncated: Any, gamma: float, gae_lambda: float) -> Any:
    def column(array: Any) -> torch.Tensor:
        return torch.tensor(array.T[..., None])

    td = TensorDict(
        {
            "observation": column(value),
            "next": {
                "observation": column(value_next),
                "reward": column(rew),
                "done": column(terminated | truncated),
                "terminated": column(terminated),
            },
        },
        batch_size=rew.T.shape,
    )
    critic = TensorDictModule(torch.nn.Identity(), in_keys=["observation"], out_keys=["state_value"])
    return GAE(gamma=gamma, lmbda=gae_lambda, value_network=critic)(td)["advantage"][..., 0].numpy().T


def ppo_stays_finite(steps: int, batch_size: int) -> bool:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), _Normal())
    module = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(
        module, in_keys=["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True
    )
    critic = ValueOperator(torch.nn.Linear(1, 1), in_keys=["observation"])
    loss = ClipPPOLoss(actor, critic, normalize_advantage=True)
    optim = torch.optim.Adam(loss.parameters(), lr=1e-3)
    rows = TensorDict({"observation": torch.randn(steps, 1)}, [steps])
    with torch.no_grad():
        rows = actor(rows)
    rows["advantage"] = rows["value_target"] = torch.randn(steps, 1)
    for _ in range(2):
        for batch in rows.split(batch_size):
            optim.zero_grad()
            sum(part for key, part in loss(batch).items() if key.startswith("loss_")).backward()
            optim.step()
    return all(bool(torch.isfinite(weight).all()) for weight in loss.parameters())


class _Normal(torch.nn.Module):
    def forward(self, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return out[..., :1], out[..., 1:].exp()


# -- environments


def wrapped(make: Any) -> Any:
    return lambda: GymWrapper(make(), categorical_action_encoding=True)


def vectors(makers: list[Any], workers: bool) -> Any:
    wrappers = [wrapped(make) for make in makers]
    return ParallelEnv(len(makers), wrappers, mp_start_method="fork") if workers else SerialEnv(len(makers), wrappers)


def still(td: Any) -> Any:
    return td.set("action", torch.zeros(td.batch_size, dtype=torch.int64))


def own_way(mode: str) -> None:
    if mode:
        raise DoesNotApply("no autoreset modes: “step_and_maybe_reset” resets")


def play(makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
    own_way(mode)
    td = vectors(makers, workers).rollout(steps, policy=still, break_when_any_done=False)
    columns = [
        td[key].numpy()
        for key in (
            "observation",
            ("next", "observation"),
            ("next", "reward"),
            ("next", "terminated"),
            ("next", "truncated"),
        )
    ]
    return [[tuple(column[env, step] for column in columns) for step in range(steps)] for env in range(len(makers))]


def statistics(makers: list[Any], steps: int, mode: str) -> Any:
    own_way(mode)
    envs = TransformedEnv(vectors(makers, False), Compose(RewardSum(), StepCounter()))
    td = envs.rollout(steps, policy=still, break_when_any_done=False)
    done = td["next", "done"]
    return zip(td["next", "episode_reward"][done].tolist(), td["next", "step_count"][done].tolist(), strict=True)


class Vector:
    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def reset(self, seed: int) -> Any:
        self.envs.set_seed(seed)
        self.td = self.envs.reset()

    def step(self, actions: np.ndarray) -> Any:
        td, self.td = self.envs.step_and_maybe_reset(self.td.set("action", torch.tensor(actions)))
        return td["next", "observation"]

    def infos(self, key: str) -> list[Any]:
        raise DoesNotApply("infos are read by declared keys")


def vector(makers: list[Any], workers: bool) -> Vector:
    return Vector(vectors(makers, workers))


def step_without_reset() -> Any:
    envs = SerialEnv(2, wrapped(lambda: gym.make("CartPole-v1")))
    return envs.step(TensorDict({"action": torch.zeros(2, dtype=torch.int64)}, [2]))["next", "reward"].numpy()


def first_observations(seed: int, envs: int) -> Any:
    vector = vectors([Starts] * envs, False)
    vector.set_seed(seed)
    return [vector.reset()["observation"].numpy().copy(), vector.reset()["observation"].numpy().copy()]


def wide_step(envs: int) -> Any:
    vector = Vector(vectors([Counter] * envs, False))
    vector.reset(0)
    return vector.step(np.zeros(envs, int))


def random_actions(environment: Any, steps: int) -> None:
    GymWrapper(environment, categorical_action_encoding=True).rollout(steps, break_when_any_done=False)


def collected(makers: list[Any], counts: list[int]) -> Any:
    envs = wrapped(makers[0])()
    collector = Collector(envs, still, frames_per_batch=counts[0], total_frames=sum(counts))
    rows = []
    for td in collector:
        rows += list(zip(td["observation"].numpy().copy(), td["next", "observation"].numpy().copy(), strict=True))
    return rows


def agents_turns(lives: list[int]) -> list[int]:
    game, _ = as_aec(lives)
    envs = PettingZooWrapper(game(), use_mask=True, done_on_any=False)
    game.turns.update(dict.fromkeys(game.turns, 0))
    envs.rollout(3 * sum(lives))
    return list(game.turns.values())


# -- learning


def squashed_log_prob(mean: float, log_std: float, action: float) -> float:
    distribution = TanhNormal(torch.tensor([[mean]]), torch.tensor([[float(np.exp(log_std))]]))
    return distribution.log_prob(torch.tensor([[action]])).item()


def gaussian_log_prob(mean: float, std: float, action: float) -> float:
    return IndependentNormal(torch.tensor([[mean]]), torch.tensor([[std]])).log_prob(torch.tensor([[action]])).item()


def gaussian_noise(std: float, count: int) -> Any:
    from torchrl.data import Bounded

    spec = Bounded(-100.0, 100.0, (count,))
    module = AdditiveGaussianModule(spec, sigma_init=std, sigma_end=std)
    return module(TensorDict({"action": torch.zeros(count)}, []))["action"].numpy()
