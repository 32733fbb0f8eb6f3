"""Writes the shard of this folder, and what TensorFlow reads from it: Pong, played by a script, in ale-py.

TensorFlow is no dependency of rlfast, so this runs in an environment of its own:

    python -m venv apart && apart/bin/pip install tensorflow-cpu==2.21.0 ale-py opencv-python-headless
    apart/bin/python tests/data/datasets/shards/write.py pong 48 3 20 tests/data/datasets/shards

The arguments are the game, the number of rows, the seed, the longest episode and the folder.
"""

import sys
from pathlib import Path

import cv2
import numpy as np
import tensorflow as tf
from ale_py import ALEInterface, roms

STRINGS = {"o_t", "o_tp1"}
INTEGERS = {"a_t", "a_tp1", "episode_id"}
NAMES = ("o_t", "o_tp1", "a_t", "a_tp1", "r_t", "d_t", "episode_id", "episode_return")


def steps(game, rows, seed, longest):
    """The rows of whole episodes: four frames a step, of which the last two are merged; an action lasts some steps."""
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.25)
    ale.loadROM(roms.get_rom_path(game))
    actions, rng, done = ale.getMinimalActionSet(), np.random.default_rng(seed), 0
    for episode in range(1000 * seed, 1000 * seed + rows):
        ale.reset_game()
        first = cv2.resize(ale.getScreenGrayscale(), (84, 84), interpolation=cv2.INTER_AREA)
        stack, played, act = [np.zeros_like(first)] * 3 + [first], [], int(rng.integers(len(actions)))
        while len(played) < longest and not ale.game_over():
            reward, last = 0.0, None
            for _ in range(4):
                last = ale.getScreenGrayscale()
                reward += ale.act(actions[act])
            screen = np.maximum(last, ale.getScreenGrayscale())
            after = [*stack[1:], cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)]
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


def feature(name, value):
    if name in STRINGS:
        images = [tf.io.encode_png(image[..., None]).numpy() for image in value]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=images))
    if name in INTEGERS:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def write(path, game, rows, seed, longest):
    played = list(steps(game, rows, seed, longest))
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for k in np.random.default_rng(seed).permutation(len(played)):
            features = {name: feature(name, value) for name, value in played[k].items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def read(path):
    kinds = {name: tf.io.FixedLenFeature([4], tf.string) for name in STRINGS}
    kinds |= {name: tf.io.FixedLenFeature([], tf.int64 if name in INTEGERS else tf.float32) for name in NAMES[2:]}
    columns = {name: [] for name in NAMES}
    for record in tf.data.TFRecordDataset(str(path), compression_type="GZIP"):
        for name, value in tf.io.parse_single_example(record, kinds).items():
            images = name in STRINGS and [tf.io.decode_png(image, 1)[..., 0] for image in value]
            columns[name].append(np.stack(images) if name in STRINGS else value.numpy())
    return {name: np.stack(column) for name, column in columns.items()}


if __name__ == "__main__":
    game, *numbers, folder = sys.argv[1:]
    shard = Path(folder) / "run_1-00000-of-00100"
    write(shard, game, *map(int, numbers))
    np.savez_compressed(Path(folder) / "by_tensorflow.npz", **read(shard))
