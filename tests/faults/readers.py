"""Every reader of files that strangers may have made, with changed contents: each gives data, or a documented error.

A reader is a function of a folder, which returns a function that reads one changed file. :func:`attack` calls it, and
is run in a process of its own by ``test_readers.py``, so that a crash or a hang is seen.
"""

import faulthandler
import json
import pickle
import random
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import torch

from data.buffer import test_strange_folders
from data.buffer.shared import test_description
from faults import test_hostile, test_hostile_files
from faults.json_tree import JUNK, changed, places, without
from rlfast.data import Batch, ReplayBuffer
from rlfast.data.datasets.opening import open_source
from rlfast.data.formats.d4rl import D4rlSource
from rlfast.data.formats.hdf5 import from_hdf5, to_hdf5
from rlfast.data.formats.safe_pickle import dumps, loads
from rlfast.data.plain_data import pack, unpack
from rlfast.experiment import RunConfig
from rlfast.experiment.algorithms import find
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.run_dir import read_config, write_config
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactoryRegistered, VectorEnvType
from rlfast.highlevel.experiment import ExperimentConfig, SACExperimentBuilder
from rlfast.highlevel.experiment.description import describe, restore
from rlfast.highlevel.persistence import _read, _written
from rlfast.utils.logger import CSVLogger, JSONLLogger

DOCUMENTED = (ValueError, OSError, MemoryError, pickle.UnpicklingError)
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = [b"NaN", b"null", b"1e999", b"[", b"{", b'"', b"\\ud800", b"-0", b"\0", b"\n", b",", b"~", b"../", b"9" * 400]


def mutated(data, chance):
    """Cuts, repeats, inserts and flips."""
    data = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(8):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = chance.choice(WORDS)
            case 2:
                data[at : at + 8] = chance.choice(NUMBERS).to_bytes(8, "little")
            case 3:
                data += data[at:]
            case 4:
                del data[at : at + chance.randrange(1, 30)]
            case 5:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case _ if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def altered(tree, chance):
    """The text of a tree of JSON with one value changed or left out, or with changed bytes."""
    if chance.random() < 0.2:
        return mutated(json.dumps(tree).encode(), chance).decode(errors="replace")
    path = chance.choice([*places(tree)])
    if path and chance.random() < 0.2:
        return json.dumps(without(tree, path))
    return json.dumps(changed(tree, path, chance.choice(JUNK)))


def bytes_of(whole, read):
    """Changes the bytes of a file, and reads it."""

    def of(folder):
        path = folder / "file"
        content = whole(path)

        def case(chance):
            path.write_bytes(mutated(content, chance))
            read(path)

        return case

    return of


def json_of(tree, read):
    """Changes a value of JSON, and reads it."""

    def of(folder):
        content = tree()
        return lambda chance: read(altered(content, chance))

    return of


def saved(path):
    test_hostile_files.prioritized().save(path)
    return path.read_bytes()


def rows_of_snapshot(folder):
    """Sections with right checksums."""
    originals = [test_hostile.add(test_hostile.engine(), 23).dump(), test_hostile.stacked(25).dump()]
    parts = [(whole[:8], test_hostile.sections(whole)) for whole in originals]

    def case(chance):
        mark, whole = chance.choice(parts)
        victim = chance.choice([test_hostile.engine, lambda: test_hostile.stacked(1)])()
        victim.restore(test_hostile.joined(mark, test_hostile.broken(chance, whole)))
        test_hostile.use(victim)

    return case


def folder_of_rows(folder):
    kept = ReplayBuffer(25, storage=str(folder / "rows"), seed=3)
    for _ in range(5):
        kept.add(Batch(test_strange_folders.ROW))
    kept.flush()
    kept.add(Batch(test_strange_folders.ROW))
    kept.flush()
    del kept
    return lambda chance: refused(test_strange_folders.attack(folder / "rows", 1, chance.randrange(2**60)))


def shared_memory(folder):
    return lambda chance: refused(test_description.attack(1, chance.randrange(2**60)))


def refused(number):
    if number:
        raise ValueError("refused")


def values():
    return {"a": np.arange(3.0), "b": [1, "x", None, b"y"], 3: (np.float32(2), {"c": {1, 2}}), "d": np.array([None, 1])}


def hdf5_values(folder):
    path = folder / "x.h5"
    with h5py.File(path, "w") as file:
        to_hdf5({"a": np.arange(4), "b": {"c": 1.5, "d": torch.ones(2)}, "e": Batch(f=np.ones(3)), "g": [1, "x"]}, file)

    def read(path):
        with h5py.File(path) as file:
            from_hdf5(file)

    return structure(path, read)


def hdf5_buffer(folder):
    path = folder / "x.h5"
    test_hostile_files.prioritized().save_hdf5(path)

    def read(path):
        with open_source(str(path), "hdf5") as source:
            for _ in source.parts():
                pass

    return structure(path, read)


def d4rl(folder):
    path = folder / "x.h5"
    with h5py.File(path, "w") as file:
        for name in ("observations", "next_observations", "actions"):
            file[name] = np.zeros((6, 2))
        for name in ("rewards", "terminals", "timeouts"):
            file[name] = np.zeros(6)

    def read(path):
        with D4rlSource(path) as source:
            for _ in source.parts():
                pass

    return structure(path, read)


def structure(path, read):
    """Changes what an HDF5 file holds, and not its bytes: these are parsed by the library HDF5."""
    whole = path.read_bytes()

    def case(chance):
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            for _ in range(chance.randrange(1, 3)):
                harm(file, chance)
        read(path)

    return case


def harm(file, chance):
    """Puts something else into the place of a group, dataset or attribute."""
    found = []
    file.visititems(lambda name, item: found.append(name))
    name = chance.choice(found)
    kind, attributes = file[name], dict(file[name].attrs)
    shape = getattr(kind, "shape", (2,)) or (1,)
    if attributes and chance.random() < 0.3:
        key, value = chance.choice([*attributes]), chance.choice(test_hostile_files.JUNK)
        if value is None:
            del file[name].attrs[key]
        else:
            file[name].attrs[key] = value
        return
    owner, last = file[name].parent, name.rpartition("/")[2]
    del file[name]
    match chance.randrange(11):
        case 0:
            owner[last] = h5py.SoftLink(chance.choice(["/", f"/{name}", "/a", "nothing"]))
        case 1:
            owner[last] = h5py.ExternalLink("/dev/zero", "/x")
        case 2:
            owner.create_dataset(last, shape, "f8", external=[("/etc/hostname", 0, 800)])
        case 3:
            owner.create_dataset(last, (2**40,), "f8", chunks=(64,))
        case 4:
            owner.create_dataset(last, data=["x"] * shape[0], dtype=h5py.string_dtype())
        case 5:
            owner[last] = np.dtype("f8")
        case 6:
            owner.create_group(last)["up"] = owner
        case 7:
            owner.create_dataset(last, data=np.zeros((shape[0] + 1, *shape[1:])))
        case 8:
            owner.create_dataset(last, shape, chance.choice(["S3", "c16", "u1", "f2", h5py.ref_dtype]))
        case 9:
            owner.create_dataset(last, data=h5py.Empty("f8"))
        case _:
            return
    if not isinstance(owner.get(last, getlink=True), h5py.HardLink):
        return
    for key, value in attributes.items():
        owner[last].attrs[key] = value


def config(folder):
    config = find("dqn").config(env="CartPole-v1")
    write_config(folder, config, "dqn")
    tree = json.loads((folder / "config.json").read_text())

    def case(chance):
        (folder / "config.json").write_text(altered(tree, chance))
        assert isinstance(read_config(folder), RunConfig)

    return case


def log(kind):
    def whole(path):
        logger = kind(path)
        logger.write("test/env_step", 100, {"test/return": 20.5})
        logger.write("update/gradient_step", 50, {"update/loss": 0.25, "update/x": float("nan")})
        return path.read_bytes()

    def read(path):
        logger = kind(path)
        logger.rows()
        logger.restore_data()

    return bytes_of(whole, read)


def policy(path):
    state = {"w": torch.ones(3, 2), "b": torch.zeros(2, dtype=torch.bfloat16), "_extra_state": {"steps": np.arange(4)}}
    path.write_bytes(_written(state))
    return path.read_bytes()


def experiment():
    env = EnvFactoryRegistered(task="Pendulum-v1", venv_type=VectorEnvType.DUMMY)
    return json.loads(describe(SACExperimentBuilder(env, ExperimentConfig(), SamplingConfig()).build()))


def checkpoint(folder):
    """A policy's checkpoint, with right checksums."""
    from experiment.test_hostile_runs import seal
    from rlfast.experiment.build import build
    from rlfast.experiment.training import CheckpointSaver, make_trainer
    from rlfast.utils.logger import LazyLogger

    settings = find("dqn").config(env="CartPole-v1", num_envs=1, eval_envs=1, hidden_sizes=(4,), buffer_size=16)
    parts = build(settings)
    trainer = make_trainer(settings, parts, LazyLogger(), CheckpointSaver(settings, folder))
    CheckpointSaver(settings, folder).save(trainer)
    there = folder / "checkpoint"
    names = [path.name for path in there.iterdir()]
    whole = {name: (there / name).read_bytes() for name in names}
    trees = {name: json.loads(whole[name]) for name in ("checkpoint.json", "training_state.json")}

    def case(chance):
        for name, content in whole.items():
            (there / name).write_bytes(content)
        name = chance.choice([*whole])
        content = altered(trees[name], chance).encode() if name in trees else mutated(whole[name], chance)
        if name == "checkpoint.json":
            (there / name).write_bytes(content)
        else:
            seal(there, name, content)
        load_policy(there, trainer.policy)

    return case


READERS = {
    "snapshot": bytes_of(saved, ReplayBuffer.load),
    "sections of a snapshot": rows_of_snapshot,
    "folder of rows": folder_of_rows,
    "shared memory": shared_memory,
    "HDF5 values": hdf5_values,
    "HDF5 buffer": hdf5_buffer,
    "D4RL": d4rl,
    "pickle": bytes_of(lambda path: dumps(values()), lambda path: loads(path.read_bytes())),
    "plain data": json_of(lambda: json.loads(pack({"a": (1, None), 3: b"x"})[0]), lambda text: unpack(text, {})),
    "config.json": config,
    "metrics.csv": log(CSVLogger),
    "metrics.jsonl": log(JSONLLogger),
    "policy": bytes_of(policy, _read),
    "experiment": json_of(experiment, restore),
    "checkpoint": checkpoint,
}


def attack(name, cases, seed, folder):
    """Reads so many changed files, each within a minute, and returns how many were refused."""
    count = 0
    folder.mkdir()
    case = READERS[name](folder)
    for number in range(cases):
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            case(random.Random(f"{seed} {number}"))
        except DOCUMENTED:
            count += 1
        except BaseException:
            sys.stderr.write(f"{name}: case {number} of seed {seed}\n")
            raise
    faulthandler.cancel_dump_traceback_later()
    return count


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    where, seed, wanted = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    sys.stdout.write(
        json.dumps({name: attack(name, cases, seed, where / str(k)) for k, (name, cases) in enumerate(wanted.items())})
    )
