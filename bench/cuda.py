"""Updates and steps a second on one device: ``python -m bench.cuda [sac td3 dqn ppo] [--device cuda] [--loops]``.

Each algorithm is measured in four ways, in turn: rlfast without and with ``compile=True``, and loops written by hand on
the same networks: as CleanRL's scripts, with arrays on the host and without a graph; and as LeanRL's, with all data on
the device, ``torch.compile`` and a CUDA graph. The data are random, in the shapes of HalfCheetah and of Atari games.
With ``--loops`` rlfast's whole loop is measured, on HalfCheetah and Breakout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

import rlfast
from bench.peers import by_hand
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env.atari import make_atari_vec
from rlfast.functional import Categorical
from rlfast.policy import AutoAlpha, DQNPolicy, PPOPolicy, SACPolicy, TD3Policy
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer
from rlfast.trainer._prefetch import PrefetchedBuffer
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, ActorProb, Critic
from rlfast.utils.net.discrete import Actor as DiscreteActor
from rlfast.utils.net.discrete import Critic as ValueCritic
from rlfast.utils.optim import adam

Step = Callable[[], None]
OBS, ACT, FRAMES, CHOICES = 17, 6, (4, 84, 84), 4
ROWS = {"sac": 20_000, "td3": 20_000, "dqn": 2_000, "ppo": 1_024}
BATCH = {"sac": 256, "td3": 256, "dqn": 32, "ppo": 256}
ENVS, PASSES = 8, 4  # of PPO: 128 steps of 8 environments
IN_ONE_CALL = {"ppo": PASSES * ROWS["ppo"] // BATCH["ppo"]}
"""Gradient steps in one call, 1 for the others."""


def policy_of(algorithm: str, device: torch.device, *, compile: bool) -> Any:
    torch.manual_seed(0)
    options = {"compile": compile, "action_space": Box(-1.0, 1.0, (ACT,))}
    if algorithm in ("sac", "td3"):
        features = Net(OBS, hidden_sizes=[256, 256])
        actor = (
            Actor(features, ACT)
            if algorithm == "td3"
            else ActorProb(features, ACT, unbounded=True, conditioned_sigma=True)
        )
        nets = {name: Critic(Net(OBS, ACT, [256, 256], concat=True)).to(device) for name in ("critic", "critic2")}
        nets["actor"] = actor.to(device)
        options |= {f"{name}_optim": adam(3e-4) for name in nets}
        if algorithm == "td3":
            return TD3Policy(**nets, **options)
        alpha = AutoAlpha(-ACT, torch.zeros(1, device=device, requires_grad=True), adam(3e-4))
        return SACPolicy(**nets, alpha=alpha, **options)
    options["action_space"] = Discrete(CHOICES)
    if algorithm == "dqn":
        model = NatureCNN(*FRAMES, CHOICES, scale=1 / 255).to(device)
        return DQNPolicy(model=model, optim=adam(1e-4), target_update_freq=1000, is_double=False, **options)
    features = NatureCNN(*FRAMES, features_only=True, output_dim=512, scale=1 / 255)
    nets = {"actor": DiscreteActor(features, CHOICES, softmax_output=False), "critic": ValueCritic(features)}
    options |= {"dist_fn": Categorical, "action_scaling": False, "max_grad_norm": 0.5}
    return PPOPolicy(**{name: net.to(device) for name, net in nets.items()}, optim=adam(2.5e-4), **options)


def filled_buffer(algorithm: str) -> VectorReplayBuffer:
    """Returns a buffer with random rows; episodes end after 100 steps."""
    rng, envs = np.random.default_rng(0), ENVS if algorithm == "ppo" else 1
    rows = ROWS[algorithm] // envs
    buffer = VectorReplayBuffer(ROWS[algorithm], envs, seed=0)
    for step in range(rows):
        if algorithm in ("sac", "td3"):
            obs, obs_next = rng.standard_normal((2, envs, OBS), np.float32)
            act = rng.uniform(-1, 1, (envs, ACT)).astype(np.float32)
        else:
            obs, obs_next = rng.integers(256, size=(2, envs, *FRAMES), dtype=np.uint8)
            act = rng.integers(CHOICES, size=envs)
        flags = {"terminated": np.full(envs, step % 100 == 99), "truncated": np.zeros(envs, bool)}
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=envs), obs_next=obs_next, info={}, **flags))
    return buffer


def update_of(algorithm: str, device: torch.device, *, compile: bool) -> Step:
    """Returns rlfast's update: one after a collect, as trainers do it."""
    policy = policy_of(algorithm, device, compile=compile)
    buffer: Any = filled_buffer(algorithm)
    policy.seed(0)
    if algorithm == "ppo":
        return lambda: policy.update(0, buffer, batch_size=BATCH["ppo"], repeat=PASSES)
    source: Any = PrefetchedBuffer(buffer, device)
    return lambda: policy.update(BATCH[algorithm], source.series(1))


def by_hand_of(algorithm: str, device: torch.device, *, graph: bool) -> Step:
    """Returns an update by hand, on the networks of rlfast's policy."""
    policy = policy_of(algorithm, device, compile=False)
    made: Step = by_hand.update_of(algorithm, policy, filled_buffer(algorithm), BATCH[algorithm], device, graph=graph)
    return made


def environments(algorithm: str) -> Any:
    """Returns one HalfCheetah, or eight games of Breakout, with the frames that all libraries know."""
    if algorithm in ("sac", "td3"):
        return rlfast.make_vec("HalfCheetah-v5", 1)
    return make_atari_vec("Breakout", ENVS, seed=0)


def loop_of(algorithm: str, device: torch.device, *, compile: bool) -> Step:
    """Returns rlfast's whole loop: one step and one update, or the steps and updates of a roll-out of PPO."""
    env, policy = environments(algorithm), policy_of(algorithm, device, compile=compile)
    policy.seed(0)
    steps = ROWS["ppo"] if algorithm == "ppo" else 1
    collector = Collector(policy, env, VectorReplayBuffer(ROWS[algorithm], len(env)), exploration_noise=True)
    collector.reset()
    kind, options = OnpolicyTrainer, {"repeat_per_collect": PASSES}
    if algorithm != "ppo":
        collector.collect(n_step=1000, random=True)
        kind, options = OffpolicyTrainer, {"update_per_step": 1.0, "prefetch": True}
    sizes = {"step_per_epoch": steps, "step_per_collect": steps, "batch_size": BATCH[algorithm]}
    quiet = {"show_progress": False, "verbose": False, "episode_per_test": 1, "max_epoch": 10**9}
    trainer = kind(policy=policy, train_collector=collector, test_collector=None, **sizes, **options, **quiet)
    iter(trainer)
    trainer.step_per_epoch = 20 * steps if algorithm != "ppo" else steps
    return lambda: next(trainer)


def rates(ways: dict[str, Step], device: torch.device, seconds: float, rounds: int) -> dict[str, float]:
    """Returns how often a second each way can be called, measured in turn; the median of the rounds."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    found: dict[str, list[float]] = {name: [] for name in ways}
    for step in ways.values():
        for _ in range(6):
            step()
    for _ in range(rounds):
        for name, step in ways.items():
            wait()
            start, calls = time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                step()
                calls += 1
            wait()
            found[name].append(calls / (time.perf_counter() - start))
    return {name: statistics.median(many) for name, many in found.items() if many}


def measure(algorithm: str, device: torch.device, seconds: float, rounds: int) -> dict[str, float]:
    """Returns gradient steps a second."""
    ways = {
        "rlfast": update_of(algorithm, device, compile=False),
        "rlfast, compile": update_of(algorithm, device, compile=True),
        "like CleanRL": by_hand_of(algorithm, device, graph=False),
        "like LeanRL": by_hand_of(algorithm, device, graph=True),
    }
    many = IN_ONE_CALL.get(algorithm, 1)
    return {name: many * rate for name, rate in rates(ways, device, seconds, rounds).items()}


def measure_loop(algorithm: str, device: torch.device, seconds: float, rounds: int) -> dict[str, float]:
    """Returns environment steps a second of whole loops."""
    ways = {f"rlfast{', compile' * compile}": loop_of(algorithm, device, compile=compile) for compile in (False, True)}
    for name, graph in (("like CleanRL", False), ("like LeanRL", True)):
        policy = policy_of(algorithm, device, compile=False)
        ways[name] = by_hand.loop_of(algorithm, policy, environments(algorithm), BATCH[algorithm], device, graph=graph)
    many = ROWS["ppo"] if algorithm == "ppo" else 20
    return {name: many * rate for name, rate in rates(ways, device, seconds, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("algorithms", nargs="*", default=[*ROWS])
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--seconds", default=1.0, type=float, help="of one measurement")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--loops", action="store_true", help="whole loops, with environments")
    parser.add_argument("--record", type=Path, help="a JSON file for the numbers")
    given = parser.parse_args()
    found = {}
    for algorithm in given.algorithms:
        start = time.perf_counter()
        found[algorithm] = (measure_loop if given.loops else measure)(
            algorithm, given.device, given.seconds, given.rounds
        )
        columns = "  ".join(f"{name} {rate:,.0f}/s" for name, rate in found[algorithm].items())
        print(f"{algorithm:5} {columns}  ({time.perf_counter() - start:.0f} s)", flush=True)
    if given.record is not None:
        device = torch.cuda.get_device_name() if given.device.type == "cuda" else "cpu"
        given.record.write_text(json.dumps({"device": device, "torch": torch.__version__, "rates": found}, indent=1))


if __name__ == "__main__":
    main()
