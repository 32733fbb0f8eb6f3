"""Measures the parts of a training loop: ``python -m bench.breakdown dqn|ppo|sac [--envs python]``.

It runs the loop of ``bench.peers.training`` and measures the processor time of its parts. Each line is the time of one
part in one iteration, without nested parts that have lines of their own; the median over repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Container
from typing import Any

import torch
from torch import nn

import rlfast
from bench.peers import training
from bench.report import quantity
from rlfast.data.collect import native_steps
from rlfast.data.collect.python_steps import PythonSteps
from rlfast.functional import Categorical
from rlfast.utils.optim import adam
from rlfast.utils.torch_private import fast_step

REPEATS = {"dqn": 40, "ppo": 3, "sac": 40}
NETWORKS = "model", "model_old", "actor", "critic", "critic2", "critic_old", "critic2_old"
AT_ONCE = {"dqn": 20, "ppo": 1, "sac": 5}  # iterations in a repetition, whose end takes time as well


class Stopwatch:
    """Attributes processor time to the innermost of the measured calls that are running."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running = ["the trainer around it"]
        self._mark = time.process_time()

    def watch(self, owner: Any, name: str, label: str, only: Container[Any] | None = None) -> None:
        """Measures a method of an object, or of all objects of a class, or of some of them."""
        inner: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if only is not None and args[0] not in only:
                return inner(*args, **kwargs)
            self._charge()
            outer = self._running[-1].split(":")[0]
            self._running.append(f"{outer}:{label}" if label.startswith(" ") else label)
            try:
                return inner(*args, **kwargs)
            finally:
                self._charge()
                self._running.pop()

        setattr(owner, name, watched)

    def _charge(self) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._mark
        self._mark = now

    def lap(self) -> dict[str, float]:
        """Returns the time of each part since the last lap."""
        self._charge()
        spent = dict(self.seconds)
        self.seconds.clear()
        return spent


def policy_of(algorithm: str) -> Any:
    torch.manual_seed(0)
    logits = {"probabilities": False, "dist_fn": Categorical} if algorithm == "ppo" else {}
    return getattr(training, algorithm)("rlfast", adam, **logits)


def watched_loop(algorithm: str, envs: str) -> tuple[Callable[[int], None], Stopwatch]:
    """Returns the loop, and the stopwatch that measures its parts."""
    policy, watch = policy_of(algorithm), Stopwatch()
    if envs == "native":
        env = rlfast.make_vec(
            training.TASKS[algorithm], training.ENVS[algorithm], backend="native", autoreset_mode="SAME_STEP"
        )
    else:
        env = training.environments("rlfast", algorithm)
    run = training.loop("rlfast", algorithm, policy, env)
    for name in ("send", "recv", "exchange"):
        watch.watch(env, name, "collect: environments")
    watch.watch(rlfast.data.Collector, "collect", "collect")
    watch.watch(rlfast.data.VectorReplayBuffer, "add", "collect: buffer")
    # Attributes of the policy and of its networks would keep it from acting in Rust, and so would another way to add.
    native_steps.__dict__["_ADD"] += (rlfast.data.VectorReplayBuffer.add,)
    watch.watch(native_steps, "collect", "collect: whole steps in Rust")
    watch.watch(PythonSteps, "act", "collect: acting")
    watch.watch(rlfast.data.VectorReplayBuffer, "sample", "sample")
    watch.watch(policy, "process_fn", "targets")
    watch.watch(policy, "learn", "learn")
    networks = {network for name, network in policy.named_children() if name in NETWORKS}
    watch.watch(nn.Module, "_call_impl", " networks", only=networks)
    watch.watch(fast_step, "backward", "learn: backward")
    watch.watch(fast_step, "step", "learn: optimizer")
    return run, watch


def breakdown(algorithm: str, envs: str) -> dict[str, float]:
    """Returns the median seconds of each part in one iteration."""
    run, watch = watched_loop(algorithm, envs)
    many = AT_ONCE[algorithm]
    run(many)
    watch.lap()
    laps = []
    for _ in range(REPEATS[algorithm]):
        run(many)
        laps.append(watch.lap())
    return {part: statistics.median(lap[part] for lap in laps) / many for part in sorted(laps[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("algorithm", choices=[*REPEATS])
    parser.add_argument("--envs", choices=["native", "python"], default="native")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = breakdown(given.algorithm, given.envs)
    total = sum(found.values())
    for part, seconds in found.items():
        print(f"{part:28}{quantity(seconds, 's'):>10}{seconds / total:6.0%}")
    print(f"{'one iteration':28}{quantity(total, 's'):>10}")


if __name__ == "__main__":
    main()
