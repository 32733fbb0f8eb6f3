"""Writes the shard of this folder, and what TensorFlow reads from it: Pong, played by a script, in ale-py.

TensorFlow is no dependency of rlfast, so this runs in an environment of its own:

    python -m venv apart && apart/bin/pip install tensorflow-cpu==2.21.0 ale-py opencv-python-headless
    apart/bin/python tests/data/datasets/shards/write.py pong 48 3 20 tests/data/datasets/shards

The arguments are the game, the number of rows, the seed, the longest episode and the folder. A shard of full size, of
whose records TensorFlow reads 4,000, is made likewise, in ten minutes:

    apart/bin/python tests/data/datasets/shards/write.py pong 500000 1 27000 shards --read 4000
    python tests/data/datasets/shards/compare.py shards
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import tensorflow as tf
from ale_py import ALEInterface, roms

STRINGS = {"o_t", "o_tp1"}
INTEGERS = {"a_t", "a_tp1", "episode_id"}
NAMES = ("o_t", "o_tp1", "a_t", "a_tp1", "r_t", "d_t", "episode_id", "episode_return")


def steps(game, rows, seed, longest):
    """The rows of whole episodes: four frames a step, of which the last two are merged; an action lasts some steps.

    Images are PNG files, each made once.
    """
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.25)
    ale.loadROM(roms.get_rom_path(game))
    actions, rng, done = ale.getMinimalActionSet(), np.random.default_rng(seed), 0
    for episode in range(1000 * seed, 1000 * seed + rows):
        ale.reset_game()
        first, empty = png(ale.getScreenGrayscale()), png(np.zeros((84, 84), np.uint8))
        stack, played, act = [empty] * 3 + [first], [], int(rng.integers(len(actions)))
        while len(played) < longest and not ale.game_over():
            reward, last = 0.0, None
            for _ in range(4):
                last = ale.getScreenGrayscale()
                reward += ale.act(actions[act])
            after = [*stack[1:], png(np.maximum(last, ale.getScreenGrayscale()))]
            then = act if rng.random() < 0.7 else int(rng.integers(len(actions)))
            discount = 0.0 if ale.game_over() else 1.0
            played.append([stack, after, act, then, float(np.clip(reward, -1, 1)), discount, episode])
            stack, act = after, then
        total = sum(row[4] for row in played)
        for row in played[: rows - done]:
            yield dict(zip(NAMES, [*row, total], strict=True))
        done += len(played)
        if done >= rows:
            return


def png(screen):
    image = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
    return tf.io.encode_png(image[..., None]).numpy()


def feature(name, value):
    if name in STRINGS:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if name in INTEGERS:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def write(path, game, rows, seed, longest):
    played = list(steps(game, rows, seed, longest))
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for k in np.random.default_rng(seed).permutation(len(played)):
            features = {name: feature(name, value) for name, value in played[k].items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def read(path, records):
    kinds = {name: tf.io.FixedLenFeature([4], tf.string) for name in STRINGS}
    kinds |= {name: tf.io.FixedLenFeature([], tf.int64 if name in INTEGERS else tf.float32) for name in NAMES[2:]}
    columns = {name: [] for name in NAMES}
    for record in tf.data.TFRecordDataset(str(path), compression_type="GZIP").take(records):
        for name, value in tf.io.parse_single_example(record, kinds).items():
            images = name in STRINGS and [tf.io.decode_png(image, 1)[..., 0] for image in value]
            columns[name].append(np.stack(images) if name in STRINGS else value.numpy())
    return {name: np.stack(column) for name, column in columns.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes a shard, and what TensorFlow reads from it.")
    parser.add_argument("game")
    for name in ("rows", "seed", "longest"):
        parser.add_argument(name, type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--read", type=int, default=-1, help="number of records that TensorFlow reads [all]")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    shard = given.folder / "run_1-00000-of-00100"
    write(shard, given.game, given.rows, given.seed, given.longest)
    np.savez_compressed(given.folder / "by_tensorflow.npz", **read(shard, given.read))
