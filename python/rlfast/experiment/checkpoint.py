"""Checkpoints of runs: weights as safetensors, the rest as JSON and arrays, so that loading one cannot run code."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors import numpy as arrays_file
from safetensors import torch as tensors_file

from rlfast.data.collect.state import wrapper_states
from rlfast.data.plain_data import WRONG_DATA, pack, summary, unpack
from rlfast.policy.components import training_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlfast.data import ReplayBuffer
    from rlfast.policy import BasePolicy
    from rlfast.trainer import BaseTrainer

VERSION = 4
_WEIGHTS, _STATE, _ARRAYS, _BUFFER, _HEAD = (
    "policy.safetensors",
    "training_state.json",
    "training_state.safetensors",
    "buffer.snapshot",
    "checkpoint.json",
)
_GIVEN_BUFFER = "given_buffer.snapshot"
_COUNTERS = ("epoch", "env_step", "gradient_step")
_HEAD_TYPES = {"policy": str, "trainer": str, **dict.fromkeys(_COUNTERS, int), "buffer": bool, "checksums": dict}
_EXTRA = "_extra_state"


def save_checkpoint(
    folder: Path | str, trainer: BaseTrainer, *, save_buffer: bool = True, allow_pickle: bool = False
) -> None:
    """Writes a checkpoint, from which training can continue. It replaces an old one once it is complete.

    ``policy.safetensors`` has the weights; ``training_state.json`` and ``.safetensors`` the state of optimizers,
    schedules, normalisers, random streams, environments and counters; ``buffer.snapshot`` the replay buffer (and
    ``given_buffer.snapshot`` a second one that is learned from while a collector fills the first); and
    ``checkpoint.json`` versions, counters and checksums. It must be called where the state is consistent: as
    ``save_checkpoint_fn``, or while no training loop is running.

    :param folder: the folder of the checkpoint, which is made or replaced.
    :param trainer: the trainer to save.
    :param save_buffer: whether to save the buffer; without it, a resumed run fills a new one.
    :param allow_pickle: whether columns of Python objects that are not plain data are pickled; see
        :meth:`rlfast.data.ReplayBuffer.save`.
    :raises OSError: if writing fails, such as on a full disk. The old checkpoint is unchanged then, and after the other
        errors.
    :raises TypeError: if a part of the state is not plain data.
    :raises ValueError: if a weight is NaN.
    """
    folder = Path(folder)
    contents = _contents(trainer.policy, trainer.state_dict())
    head = _head(trainer, contents, buffer=save_buffer, over=trainer.is_over)

    def save_buffers(fresh: Path) -> None:
        for name, buffer in _buffers_of(trainer).items() if save_buffer else ():
            buffer.save(fresh / name, allow_pickle=allow_pickle)

    _replace_folder(folder, contents, head, save_buffers)


def save_policy(folder: Path | str, trainer: BaseTrainer) -> None:
    """Writes the policy of a trainer, and what its observations are normalized by. It replaces an old folder once it is
    complete. :func:`load_policy` reads it, and training cannot be resumed from it.

    ``checkpoint.json`` also has the return of the trainer's newest test, for which it is kept.

    :param folder: the folder, which is made or replaced.
    :param trainer: the trainer.
    :raises OSError: if writing fails. The old folder is unchanged then, and after the other errors.
    :raises TypeError: if a part of the state is not plain data.
    :raises ValueError: if a weight is NaN.
    """
    collector = trainer.test_collector
    wrappers = [] if collector is None else wrapper_states(collector.env)
    contents = _contents(trainer.policy, {"collectors": [None, {"wrappers": wrappers}]})
    returns = None if trainer.last_test is None else trainer.last_test.returns_stat
    test = None if returns is None else {"mean": float(returns.mean), "std": float(returns.std), "epoch": trainer.epoch}
    _replace_folder(Path(folder), contents, _head(trainer, contents, buffer=False, policy_only=True, test=test))


def save_alone(folder: Path | str, policy: BasePolicy) -> None:
    """Writes a policy that was not trained here. :func:`load_policy` reads it.

    :param folder: the folder, which is made.
    :param policy: the policy.
    :raises OSError: if writing fails.
    :raises ValueError: if a weight is NaN.
    """
    contents = _contents(policy, {"collectors": [None, {"wrappers": []}]})
    head = {"version": VERSION, "policy": type(policy).__qualname__, "trainer": "policy without a trainer"}
    head |= dict.fromkeys(_COUNTERS, 0) | {"buffer": False, "policy_only": True, "checksums": _checksums(contents)}
    _replace_folder(Path(folder), contents, head)


def _checksums(contents: dict[str, bytes]) -> dict[str, int]:
    return {name: zlib.crc32(content) for name, content in contents.items()}


def _contents(policy: BasePolicy, state: dict[str, Any]) -> dict[str, bytes]:
    """Returns the contents of the files of a policy and of the state of its trainer, by name."""
    own = policy.state_dict()
    _check_weights(own, policy, "the policy")
    extra = {name: value for name, value in own.items() if name.endswith(_EXTRA)}
    weights = {name: _cpu_copy(value) for name, value in own.items() if name not in extra}
    text, arrays = pack({"policy": extra, "trainer": state})
    return {_WEIGHTS: tensors_file.save(weights), _STATE: text.encode(), _ARRAYS: arrays_file.save(arrays)}


def _head(trainer: BaseTrainer, contents: dict[str, bytes], **more: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "policy": type(trainer.policy).__qualname__,
        "trainer": type(trainer).__qualname__,
        **{name: getattr(trainer, name) for name in _COUNTERS},
        **more,
        "checksums": _checksums(contents),
    }


def _replace_folder(
    folder: Path, contents: dict[str, bytes], head: dict[str, Any], write_more: Callable[[Path], None] | None = None
) -> None:
    """Writes a folder beside the old one, which it then replaces.

    :param folder: the folder.
    :param contents: the contents of its files, by name.
    :param head: its header, which is written last.
    :param write_more: writes further files into the folder that it is given.
    """
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        for name, content in contents.items():
            _write(fresh / name, content)
        if write_more is not None:
            write_more(fresh)
        _write(fresh / _HEAD, (json.dumps(head, indent=2) + "\n").encode())
        _sync(fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    fresh.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path | str, trainer: BaseTrainer, *, allow_pickle: bool = False) -> list[str]:
    """Restores the state of a trainer, its policy, buffer and collectors from a checkpoint.

    Types, shapes and checksums are checked before anything is changed. If a part cannot be restored all the same, the
    earlier state is restored. A buffer in memory-mapped files is in RAM afterwards.

    :param folder: the folder of the checkpoint. If writing it was interrupted, the previous checkpoint is used.
    :param trainer: a trainer made with the same arguments as the one that was saved.
    :param allow_pickle: whether columns of Python objects are unpickled, which is safe only for files you trust.
    :return: sentences about parts that could not be restored; see
        :meth:`rlfast.trainer.BaseTrainer.load_state_dict`.
    :raises FileNotFoundError: if there is no checkpoint.
    :raises ValueError: if it is damaged, or of another version, algorithm, network, trainer or buffer.
    """
    folder, head = _open(folder)
    if head.get("policy_only"):
        raise ValueError(
            f"{folder} holds a policy alone, as of a shared or imported run: it acts, and cannot be resumed"
        )
    _check_kind(folder, head, policy=trainer.policy, trainer=trainer)
    weights, state = _weights(folder, head, trainer.policy), _state(folder, head)
    restorations = []
    if head["buffer"]:
        for name, ours in _buffers_of(trainer).items():
            restorations.append(_restoration(folder / name, ours, allow_pickle=allow_pickle))
    with _naming_file(folder, "its training state does not fit"):
        trainer.check_state(state["trainer"])
    with _put_back(trainer), _naming_file(folder, "its training state does not fit"):
        trainer.policy.load_state_dict(weights | state["policy"])
        _check_optimizers(trainer.policy)
        lost = trainer.load_state_dict(state["trainer"])
        pack(trainer.state_dict())  # raises an error if a restored value cannot be saved again
    for restore in restorations:
        restore()
    if not restorations and trainer.train_collector is None:
        lost.append("the data were not saved: its rows are drawn in another order")
    elif not restorations:
        lost.append("the replay buffer was not saved: it fills anew")
    return lost


def load_policy(folder: Path | str, policy: BasePolicy) -> dict[str, Any]:
    """Restores only the policy of a checkpoint, to act or to learn from new data.

    :func:`rlfast.load` makes the policy of a run by itself.

    :param folder: the folder of the checkpoint.
    :param policy: a policy of the same structure. One without optimizers, which only acts, takes the weights that it
        has; the state of optimizers, and networks that only learning needs, are left out.
    :return: the counters of the run: ``epoch``, ``env_step``, ``gradient_step``.
    :raises FileNotFoundError: if there is no checkpoint.
    :raises ValueError: if it is damaged, or of another version, algorithm or network.
    """
    folder, head = _open(folder)
    _check_kind(folder, head, policy=policy)
    acts_only = not training_state.find(policy).optimizers
    new = _weights(folder, head, policy, subset=acts_only) | _state(folder, head)["policy"]
    with _policy_put_back(policy), _naming_file(folder, "the policy's state does not fit"):
        policy.load_state_dict(new)
        _check_optimizers(policy)
    return {name: head[name] for name in _COUNTERS}


def copy_policy(source: Path, target: Path) -> None:
    """Copies a checkpoint without its buffers, from which :func:`load_policy` restores the policy.

    :param source: the folder of the checkpoint.
    :param target: the new folder.
    :raises OSError: if there is no checkpoint, or it cannot be copied.
    """
    folder, head = _open(source)
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.snapshot"))
    head = head | {"buffer": False, "policy_only": True}
    (target / "checkpoint.json").write_text(json.dumps(head, indent=2))


def load_wrappers(folder: Path | str) -> list[dict[str, Any]]:
    """Returns the states of the wrappers of test environments, such as statistics of observations, outermost first.

    :param folder: the folder of the checkpoint.
    :return: the argument of ``load_state_dict`` of each wrapper.
    :raises FileNotFoundError: if there is no checkpoint.
    :raises ValueError: if it is damaged.
    """
    folder, head = _open(folder)
    state = _state(folder, head)
    with _naming_file(folder / _STATE, "it has no state of test environments"):
        states: list[dict[str, Any]] = state["trainer"]["collectors"][1]["wrappers"]
    return states


def read_counters(folder: Path | str) -> dict[str, int]:
    """Returns how long the policy of a checkpoint was trained.

    :param folder: the folder of the checkpoint.
    :return: ``epoch``, ``env_step`` and ``gradient_step``, all 0 for a policy that was not trained here.
    :raises FileNotFoundError: if there is no checkpoint.
    :raises ValueError: if it is damaged.
    """
    _, head = _open(folder)
    return {name: head[name] for name in _COUNTERS}


def read_test(folder: Path | str) -> dict[str, Any] | None:
    """Returns what a folder of :func:`save_policy` says of the test for which the policy was kept.

    :param folder: the folder.
    :return: ``mean`` and ``std`` of the returns, ``epoch``, ``env_step`` and ``gradient_step``; None if there is no
        such folder.
    :raises ValueError: if it is damaged.
    """
    try:
        folder, head = _open(folder)
    except FileNotFoundError:
        return None
    test, kinds = head.get("test"), {"mean": float, "std": float, "epoch": int}
    if not isinstance(test, dict) or any(type(test.get(name)) is not kind for name, kind in kinds.items()):
        raise ValueError(f"{folder / _HEAD} is damaged: it has no test")
    return {**{name: head[name] for name in _COUNTERS}, **test}


def load_normalization(folder: Path | str) -> dict[str, Any]:
    """Returns the statistics with which the observations of tests were normalized.

    :param folder: the folder of the checkpoint of a run with ``normalize_obs``.
    :return: the argument of :meth:`rlfast.env.VectorEnvNormObs.load_state_dict`.
    :raises FileNotFoundError: if there is no checkpoint.
    :raises ValueError: if it is damaged, or observations were not normalized.
    """
    states = load_wrappers(folder)
    if not states:
        raise ValueError(f"{Path(folder) / _STATE} is damaged, or of another run: it has no statistics of observations")
    return states[0]


def _buffers_of(trainer: BaseTrainer) -> dict[str, ReplayBuffer]:
    """Returns the buffers by file name. Offline training may learn from one buffer and collect into another."""
    collected = None if trainer.train_collector is None else trainer.train_collector.buffer
    given = None if trainer.buffer is collected else trainer.buffer
    return dict(zip((_BUFFER, _GIVEN_BUFFER), (one for one in (collected, given) if one is not None), strict=False))


def _cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy on the CPU, as networks may share layers."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Syncs the names of files in a folder to disk, where the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open(given: Path | str) -> tuple[Path, dict[str, Any]]:
    """Returns the folder of the newest complete checkpoint, and its header."""
    folder = Path(given)
    if not (folder / _HEAD).is_file() and (old := folder.with_name(folder.name + ".old")).exists():
        folder = old
    if not (folder / _HEAD).is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"{folder} holds no checkpoint")
    try:
        head: dict[str, Any] = json.loads((folder / _HEAD).read_text())
        version = head["version"]
    except WRONG_DATA as error:
        raise ValueError(f"{folder / _HEAD} is damaged: {error!r}") from error
    if version != VERSION:
        raise ValueError(f"{folder} is a checkpoint of version {version!r}: this rlfast reads version {VERSION}")
    if wrong := [name for name, kind in _HEAD_TYPES.items() if type(head.get(name)) is not kind]:
        raise ValueError(f"{folder / _HEAD} is damaged: it has no {', '.join(wrong)}, or one of another type")
    return folder, head


def _check_kind(folder: Path, head: dict[str, Any], **ours: object) -> None:
    for name, one in ours.items():
        if head[name] != type(one).__qualname__:
            raise ValueError(f"{folder} is of a {head[name]}, not of a {type(one).__qualname__}")


def _read(folder: Path, head: dict[str, Any], name: str) -> bytes:
    _check_present(folder / name)
    content = (folder / name).read_bytes()
    if zlib.crc32(content) != head["checksums"].get(name):
        raise ValueError(f"{folder / name} is damaged: its checksum differs")
    return content


def _check_present(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"{path} is missing: the checkpoint is incomplete; put the file back, or use another copy")


def _weights(
    folder: Path, head: dict[str, Any], policy: BasePolicy, *, subset: bool = False
) -> dict[str, torch.Tensor]:
    """Returns the weights, after checking that they fit the policy.

    :param subset: whether the policy may have fewer than the folder: those are left out.
    """
    content = _read(folder, head, _WEIGHTS)
    with _naming_file(folder / _WEIGHTS):
        weights = tensors_file.load(content)
    ours = {name: value for name, value in policy.state_dict().items() if not name.endswith(_EXTRA)}
    if subset:
        weights = {name: value for name, value in weights.items() if name in ours}
    if weights.keys() != ours.keys():
        names = sorted(weights.keys() ^ ours.keys())
        raise ValueError(f"{folder} is of another network: only one of the two has {', '.join(names[:5])}")
    for name, value in ours.items():
        kinds = [(tuple(one.shape), str(one.dtype).removeprefix("torch.")) for one in (weights[name], value)]
        if kinds[0] != kinds[1]:
            there, here = (shape if kinds[0][1] == kinds[1][1] else f"{dtype} {shape}" for shape, dtype in kinds)
            raise ValueError(f"{folder} is of another network: {name} is {there} there and {here} here")
    _check_weights(weights, policy, str(folder))
    return weights


def _check_weights(weights: dict[str, Any], policy: BasePolicy, whose: str) -> None:
    """Checks that no parameter has NaN. Buffers of modules may have it on purpose."""
    for name, _ in policy.named_parameters():
        if (one := weights.get(name)) is not None and bool(torch.isnan(one).any()):
            raise ValueError(f"{name} of {whose} holds NaN: training has diverged, or something else wrote it")


def _check_optimizers(policy: BasePolicy) -> None:
    """Checks the restored state of optimizers, which they accept unchecked, against their parameters."""
    for optim in policy._all_optimizers():  # noqa: SLF001 (the same design, in another package)
        for group in optim.param_groups:
            for name, usual in optim.defaults.items():
                if name == "differentiable" and name not in group:
                    continue  # which torch adds to the defaults alone, of LBFGS and of optimizers of others
                if isinstance(usual, int | float) and not isinstance(group[name], int | float | torch.Tensor):
                    raise ValueError(f"{name} of an optimizer cannot be {group[name]!r:.50}")
        for parameter, entries in optim.state.items():
            for name, value in entries.items():
                if not isinstance(value, torch.Tensor | int | float | list | NoneType):
                    raise ValueError(f"{name} of an optimizer cannot be {value!r:.50}")
                if isinstance(optim, torch.optim.LBFGS) or not isinstance(value, torch.Tensor) or value.numel() < 2:
                    continue  # that one has tensors of all parameters together; others count steps
                if value.shape != parameter.shape:
                    raise ValueError(f"{name} of an optimizer is {tuple(value.shape)} for {tuple(parameter.shape)}")


def _state(folder: Path, head: dict[str, Any]) -> dict[str, Any]:
    text, arrays = _read(folder, head, _STATE), _read(folder, head, _ARRAYS)
    with _naming_file(folder / _STATE):
        state = unpack(text.decode(), arrays_file.load(arrays))
    if not isinstance(state, dict) or not all(isinstance(state.get(name), dict) for name in ("policy", "trainer")):
        raise ValueError(f"{folder / _STATE} is damaged: it does not hold the state of a policy and of a trainer")
    return state


@contextmanager
def _naming_file(path: Path, what: str = "its contents cannot be read") -> Iterator[None]:
    """Turns errors about the contents of a file into a ValueError that names the file."""
    try:
        yield
    except (*WRONG_DATA, MemoryError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{path} is damaged, or of another run: {what}: {summary(error)}") from error


@contextmanager
def _policy_put_back(policy: BasePolicy) -> Iterator[None]:
    """Restores the policy if an error is raised."""
    before = deepcopy(policy.state_dict())
    try:
        yield
    except BaseException:
        policy.load_state_dict(before)
        raise


@contextmanager
def _put_back(trainer: BaseTrainer) -> Iterator[None]:
    """Restores the trainer and its policy if an error is raised, but not the logs, which are restored last."""
    before = deepcopy(trainer.state_dict())
    del before["logger"]
    try:
        with _policy_put_back(trainer.policy):
            yield
    except BaseException as error:
        try:
            trainer.load_state_dict(before)
        except Exception as second:
            error.add_note(f"(what the trainer was could not be put back: {second!r})")
        raise


def _restoration(path: Path, ours: Any, *, allow_pickle: bool) -> Callable[[], None]:
    """Reads and checks a buffer, and returns a function that restores it."""
    if hasattr(ours, "prepare_restore"):  # a buffer in other processes, which writes a folder
        restore: Callable[[], None] = ours.prepare_restore(path)
        return restore
    _check_present(path)
    loaded = _load_buffer(path, ours, allow_pickle=allow_pickle)
    return lambda: ours.__setstate__(loaded.__getstate__())  # in place, as collectors and trainer share the buffer


def _load_buffer(path: Path, ours: ReplayBuffer, *, allow_pickle: bool) -> ReplayBuffer:
    relabel = ours._config.relabel  # noqa: SLF001
    reward = None if relabel is None else relabel.compute_reward_fn
    loaded = type(ours).load(path, allow_pickle=allow_pickle, compute_reward_fn=reward)
    kinds = [f"{type(one).__name__} of {one._store.capacities} rows" for one in (loaded, ours)]  # noqa: SLF001
    if kinds[0] != kinds[1]:
        raise ValueError(f"{path} holds a {kinds[0]}, this trainer has a {kinds[1]}")
    return loaded
