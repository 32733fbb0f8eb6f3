"""The driver of rlfast by its public names; samples are batches of NumPy arrays."""

from __future__ import annotations

import subprocess
import sys
from itertools import cycle, islice
from typing import Any

import numpy as np

import rlfast
from bench.peers import workload
from rlfast._core import FrameRing
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.env.atari import make_atari_vec

VARIANT = ""


def versions() -> dict[str, str]:
    return {"rlfast": rlfast.__version__, "numpy": np.__version__}


def as_batch(step: workload.Transition) -> Batch:
    return Batch(
        obs=step.obs,
        act=step.act,
        rew=step.rew,
        terminated=step.terminated,
        truncated=step.truncated,
        obs_next=step.obs_next,
    )


def adding(
    buffer: ReplayBuffer, steps: list[workload.Transition], envs: int | None, info: workload.Info | None = None
) -> Any:
    """Returns an operation that adds steps to a buffer, which is filled first, so that all its memory is in RAM.

    :param info: makes the ``info`` of each step from the class ``Batch``; None for steps without.
    """
    stream, ids = cycle(steps), None if envs is None else np.arange(envs)

    def run(count: int) -> None:
        for step in islice(stream, count):
            buffer.add(as_batch(step), buffer_ids=ids)

    def run_with_info(count: int) -> None:
        for step in islice(stream, count):
            row = Batch(
                obs=step.obs,
                act=step.act,
                rew=step.rew,
                terminated=step.terminated,
                truncated=step.truncated,
                obs_next=step.obs_next,
                info=info(Batch),
            )
            buffer.add(row, buffer_ids=ids)

    run = run if info is None else run_with_info

    run(buffer.maxsize // (envs or 1))
    return run


def adding_new_frames(buffer: ReplayBuffer, steps: list[workload.Transition], envs: int) -> Any:
    """Returns an operation that stacks one new frame for each environment and adds the step, to a full buffer.

    The first stacks of the steps are built of their frames; so the steps may be repeated.
    """
    ring, everyone = FrameRing(envs, workload.STACK, workload.FRAME, np.dtype(np.uint8)), np.arange(envs)
    ring.restore(steps[0].obs, everyone)
    newest = [step.obs_next[:, -1].copy() for step in steps]
    first = [step.obs[:, -1].copy() for step in (*steps[1:], steps[0])]  # of the next step, after a reset
    over = [np.flatnonzero(step.terminated | step.truncated) for step in steps]
    stream, obs = cycle(zip(steps, newest, first, over, strict=True)), ring.stacks()

    def run(count: int) -> None:
        nonlocal obs
        for step, frames, reset, ended in islice(stream, count):
            obs_next = ring.push(frames)
            buffer.add(as_batch(step._replace(obs=obs, obs_next=obs_next)), buffer_ids=everyone)
            obs = obs_next
            if len(ended):
                ring.push(reset[ended], ended, np.ones(len(ended), np.bool_))
                obs = ring.stacks()

    run(buffer.maxsize // envs)
    return run


def fill(buffer: ReplayBuffer, rows: int, obs_dim: int, act_dim: int) -> None:
    for block in workload.chunks(rows, obs_dim, act_dim):
        for obs, act, rew, terminated, truncated, obs_next in zip(*block, strict=True):
            buffer.append(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next)


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    steps, buffer = workload.single_steps(10_000, obs_dim, 0), ReplayBuffer(rows)
    stream = cycle(steps)

    def keywords(count: int) -> None:
        for obs, act, rew, terminated, truncated, obs_next in islice(stream, count):
            buffer.append(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next)

    keywords(rows)
    infos = {
        f"add {name}": adding(ReplayBuffer(rows), steps, None, info) for name, info in workload.infos(None).items()
    }
    return {"add": adding(ReplayBuffer(rows), steps, None), "keywords": keywords, **infos}


def add_vector(envs: int, obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    steps = workload.vector_steps(1000, envs, obs_dim, act_dim)
    kinds = workload.infos(envs)
    infos = {f"add {name}": adding(VectorReplayBuffer(rows, envs), steps, envs, info) for name, info in kinds.items()}
    return {"add": adding(VectorReplayBuffer(rows, envs), steps, envs), **infos}


def add_atari(envs: int, rows: int) -> dict[str, Any]:
    """Prepares a buffer with default arguments, with single frames as in Tianshou's Atari scripts, and with stacks
    that are made of new frames, as in environments of :mod:`rlfast.env.atari`."""
    steps = workload.atari_steps(envs)
    return {
        "add": adding(VectorReplayBuffer(rows, envs), steps, envs),
        "add frames": adding(frame_buffer(rows, envs), steps, envs),
        "stack and add frames": adding_new_frames(VectorReplayBuffer(rows, envs), steps, envs),
    }


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = ReplayBuffer(rows)
    fill(buffer, rows, obs_dim, act_dim)
    return workload.sampling(buffer.sample, batch_sizes)


def sample_atari(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    """Prepares sampling with default arguments, and into the arrays of an earlier batch."""
    buffer = VectorReplayBuffer(rows, envs)
    adding(buffer, workload.atari_steps(envs), envs)
    given = {size: contiguous(buffer.sample(size)[0]) for size in batch_sizes}
    into_given = workload.sampling(lambda size: buffer.sample(size, out=given[size]), batch_sizes)
    fresh = workload.sampling(buffer.sample, batch_sizes)
    return fresh | {f"{size} given": operation for size, operation in into_given.items()}


def frame_buffer(rows: int, envs: int) -> VectorReplayBuffer:
    return VectorReplayBuffer(rows, envs, stack_num=workload.STACK, ignore_obs_next=True, save_only_last_obs=True)


def contiguous(batch: Batch) -> dict[str, Any]:
    """Returns arrays like those of a batch, in which obs and obs_next share no memory."""
    return {key: np.ascontiguousarray(batch[key]) for key in workload.Transition._fields}


def sample_frames(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = frame_buffer(rows, envs)
    adding(buffer, workload.atari_steps(envs), envs)
    return workload.sampling(buffer.sample, batch_sizes)


def prioritized(rows: int, batch_size: int) -> dict[str, Any]:
    buffer = PrioritizedReplayBuffer(rows, alpha=0.6, beta=0.4)
    fill(buffer, rows, 4, 0)
    buffer.update_weight(np.arange(rows), workload.priorities(1, rows)[0])
    errors = cycle(workload.priorities(64, batch_size))

    def run(count: int) -> None:
        for error in islice(errors, count):
            _, index = buffer.sample(batch_size)
            buffer.update_weight(index, error)

    return {"sample+update": run}


def tree(size: int, batch_size: int) -> dict[str, Any]:
    from rlfast.data import SegmentTree

    segments = SegmentTree(size)
    segments[np.arange(size)] = workload.priorities(1, size)[0]
    values = cycle(workload.priorities(64, batch_size))

    def run(count: int) -> None:
        for value in islice(values, count):
            index = segments.get_prefix_sum_idx(np.random.rand(batch_size) * segments.reduce())
            segments[index] = value

    return {"sample+update": run}


def nstep(rows: int, envs: int, n_step: int, batch_size: int) -> dict[str, Any]:
    """Prepares the target ``reward_sum + discount * q`` of arrays, and Tianshou's static method on tensors."""
    import torch

    from rlfast.policy import BasePolicy

    buffer = VectorReplayBuffer(rows, envs)
    adding(buffer, workload.vector_steps(1000, envs, 4, 0), envs)
    target_q = np.random.rand(batch_size)
    target_q_tensor = torch.from_numpy(target_q.astype(np.float32)).reshape(-1, 1)
    given, given_index = buffer.sample(batch_size)

    def alone(count: int) -> None:
        for _ in range(count):
            reward_sum, discount, _ = buffer.nstep(given_index, n_step, 0.99)
            reward_sum + discount * target_q

    def static(count: int) -> None:
        for _ in range(count):
            BasePolicy.compute_nstep_return(given, buffer, given_index, lambda *_: target_q_tensor, 0.99, n_step)

    def with_sample(count: int) -> None:
        for _ in range(count):
            _, index = buffer.sample(batch_size)
            reward_sum, discount, _ = buffer.nstep(index, n_step, 0.99)
            reward_sum + discount * target_q

    return {"alone": alone, "static": static, "sample+nstep": with_sample}


def gae(steps: int, envs: int) -> dict[str, Any]:
    import torch

    from rlfast.functional import gae as gae_kernel
    from rlfast.policy import BasePolicy

    data = workload.returns_data(steps, envs)
    buffer, ids, obs = VectorReplayBuffer(steps * envs, envs), np.arange(envs), np.zeros((envs, 4), np.float32)
    for t in range(steps):
        row = {name: data[name][t] for name in ("rew", "terminated", "truncated")}
        buffer.add(as_batch(workload.Transition(obs=obs, act=ids, obs_next=obs, **row)), buffer_ids=ids)
    batch, index = buffer.sample(0)
    value, value_next = (
        torch.from_numpy(np.ascontiguousarray(data[name].T).ravel()) for name in ("value", "value_next")
    )
    arrays = [data[name] for name in ("rew", "value", "value_next", "terminated", "truncated")]
    flat = [array.ravel() for array in arrays]
    flat[0] = flat[0].astype(np.float64)  # as rewards of environments are

    def kernel(count: int) -> None:
        for _ in range(count):
            gae_kernel(*arrays, 0.99, 0.95)

    def mixed(count: int) -> None:
        for _ in range(count):
            gae_kernel(*flat, 0.99, 0.95)

    def call(count: int) -> None:
        for _ in range(count):
            BasePolicy.compute_episodic_return(batch, buffer, index, value_next, value, 0.99, 0.95)

    return {"kernel": kernel, "kernel, mixed floats": mixed, "call": call}


def memory_atari(envs: int, rows: int) -> dict[str, Any]:
    steps = workload.atari_steps(envs)

    def fill_new(rows: int = rows) -> VectorReplayBuffer:
        buffer = VectorReplayBuffer(rows, envs)
        adding(buffer, steps, envs)
        return buffer

    fill_new(16 * envs)  # what the first use loads is not the buffer's memory
    return {"fill": fill_new}


def memory_rows(obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    steps = workload.single_steps(10_000, obs_dim, act_dim, dtype="float64", episode=1000)

    def fill_new(rows: int = rows) -> ReplayBuffer:
        buffer = ReplayBuffer(rows)
        adding(buffer, steps, None)
        return buffer

    fill_new(16)
    return {"fill": fill_new}


def pong_steps(envs: int, length: int = 4000) -> list[workload.Transition]:
    """Returns vector steps with 4-stacks of frames of Pong.

    Each environment shows one recording of random play, from a step of its own on.
    """
    recorder = make_atari_vec("Pong", 1, seed=0)
    stacks, rng = [recorder.reset()[0][0]], np.random.default_rng(0)
    for action in rng.integers(6, size=length):
        obs, _, terminated, truncated, _ = recorder.step(np.array([action]))
        stacks.append(recorder.reset([0])[0][0] if terminated[0] or truncated[0] else obs[0])
    recorder.close()
    steps, zeros = [], np.zeros(envs)
    for step in range(length):
        at = (np.arange(envs) * (length // envs) + step) % length
        obs, obs_next = (np.stack([stacks[k + ahead] for k in at]) for ahead in (0, 1))
        steps.append(workload.Transition(obs, zeros.astype(int), zeros, zeros > 0, at == length - 1, obs_next))
    return steps


def storage_pong(envs: int, rows: int, batch_sizes: list[int]) -> dict[str, Any]:
    """Prepares a buffer of frames of Pong, in the storage that the variant names."""
    buffer = VectorReplayBuffer(rows, envs, storage=VARIANT or "ram")
    add = adding(buffer, pong_steps(envs), envs)
    return {"add": add} | workload.sampling(buffer.sample, batch_sizes)


def memory_pong(envs: int, rows: int) -> dict[str, Any]:
    steps = pong_steps(envs)

    def fill_new(rows: int = rows) -> VectorReplayBuffer:
        buffer = VectorReplayBuffer(rows, envs, storage=VARIANT or "ram")
        adding(buffer, steps, envs)
        return buffer

    fill_new(16 * envs)  # what the first use loads is not the buffer's memory
    return {"fill": fill_new}


def importing() -> dict[str, Any]:
    """Prepares imports of rlfast.

    :raises RuntimeError: if ``import rlfast.data`` imports torch.
    """
    program = "import rlfast.data, sys; print('torch' in sys.modules)"
    if subprocess.check_output([sys.executable, "-c", program], text=True).strip() != "False":
        raise RuntimeError("rlfast.data imports torch")
    return {"import": workload.importing("rlfast")}


def dqn(envs: int, hidden: list[int]) -> dict[str, Any]:
    from bench.peers.dqn import training

    return training("rlfast", envs, hidden)


def collect(task: str, envs: int, size: int) -> dict[str, Any]:
    from bench.peers.collecting import USERS, collecting, dummy

    def native() -> Any:
        return rlfast.make_vec("CartPole-v1", envs, backend="native", autoreset_mode="SAME_STEP")

    if VARIANT == "Net":
        return collecting("rlfast", native(), task, size)
    operations = collecting("rlfast", dummy("rlfast", task, envs), task, size)
    if task != "cartpole":
        return operations
    for kind in ("", *USERS):
        for name, operation in collecting("rlfast", native(), task, size, kind).items():
            operations[f"{kind or name}, native" if name == "policy" else f"{name}, native"] = operation
    for kind in ("MLP", "torch"):
        operations[kind] = collecting("rlfast", dummy("rlfast", task, envs), task, size, kind)["policy"]
    return operations


def collect_formed(form: str, envs: int, size: int) -> dict[str, Any]:
    from bench.peers import forms
    from bench.peers.collecting import collector_with, policy_with
    from rlfast.env import DummyVectorEnv

    policy = policy_with("rlfast", forms.Network(form), 2)
    made = collector_with("rlfast", policy, DummyVectorEnv([lambda: forms.make(form)] * envs), size)

    def run(count: int) -> None:
        made.collect(n_step=count * envs)

    return {"policy": run}


def choose() -> dict[str, Any]:
    from bench.peers.collecting import choosing

    return {**choosing("rlfast"), "choose, own MLP": choosing("rlfast", "MLP")["choose"]}


def evaluate(envs: int, episodes: int, limit: int) -> dict[str, Any]:
    from bench.peers.collecting import dummy, evaluating

    native = rlfast.make_vec("CartPole-v1", envs, backend="native", autoreset_mode="SAME_STEP", max_episode_steps=limit)
    (ours,) = evaluating("rlfast", native, episodes).values()
    return {**evaluating("rlfast", dummy("rlfast", "cartpole", envs, limit), episodes), "evaluate, native": ours}


def training(algorithm: str) -> dict[str, Any]:
    """Prepares training, eager and compiled, with environments in Python and native ones."""
    import torch

    from bench.peers import training as script
    from rlfast.env.native import is_native
    from rlfast.functional import Categorical, DiagonalNormal
    from rlfast.utils.optim import adam

    own: dict[str, Any] = {
        "ppo": {"probabilities": False, "dist_fn": Categorical},
        "ppo_cheetah": {"dist_fn": DiagonalNormal},
    }.get(algorithm, {})
    operations: dict[str, Any] = {}
    for name, compiled in (("train", False), ("train, compiled", True)):
        torch.manual_seed(0)
        policy = getattr(script, algorithm)("rlfast", adam, compile=compiled, **own)
        operations[name] = script.loop("rlfast", algorithm, policy, script.environments("rlfast", algorithm))
        if not is_native(script.TASKS[algorithm]):
            continue
        native = rlfast.make_vec(
            script.TASKS[algorithm], script.ENVS[algorithm], backend="native", autoreset_mode="SAME_STEP"
        )
        operations[f"{name}, native"] = script.loop("rlfast", algorithm, policy, native)
    return operations


def script(algorithm: str) -> dict[str, Any]:
    """Prepares training as :mod:`bench.peers.training` does it, with ``torch.optim.Adam``."""
    import torch

    from bench.peers import training as script

    torch.manual_seed(0)
    policy = getattr(script, algorithm)("rlfast", script.plain_adam)
    return {"train": script.loop("rlfast", algorithm, policy, script.environments("rlfast", algorithm))}


def first_steps(algorithm: str) -> dict[str, Any]:
    return workload.first_steps("rlfast", algorithm)


def read_d4rl(rows: int, following: bool, compressed: bool) -> dict[str, Any]:
    file = workload.d4rl_file(rows, following, compressed)

    def run(count: int) -> None:
        for _ in range(count):
            ReplayBuffer.from_d4rl(file.name)

    return {"read": run}


def offline(algorithm: str) -> dict[str, Any]:
    """Prepares learning from fixed data, eager and compiled."""
    import torch

    from bench.peers import training as script
    from rlfast.utils.optim import adam

    operations: dict[str, Any] = {}
    for name, compiled in (("train", False), ("train, compiled", True)):
        torch.manual_seed(0)
        policy = getattr(script, algorithm)("rlfast", adam, compile=compiled)
        operations[name] = script.offline_loop("rlfast", policy)
    return operations


def threshold(algorithm: str) -> dict[str, Any]:
    from bench.peers import thresholds

    return thresholds.rlfast(algorithm)
