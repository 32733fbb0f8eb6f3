"""The pictures of ``docs/gallery.md`` and their rows, from run folders: ``python docs/site/gallery.py RUN_DIR ...``.

Rows of other runs stay as they are. MuJoCo without a display needs ``MUJOCO_GL=egl``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
from PIL import Image

import rlfast
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.checkpoint import read_counters
from rlfast.experiment.report.curves import command_of
from rlfast.experiment.run_dir import read_config
from rlfast.policy import BasePolicy

DOCS = Path(__file__).resolve().parents[1]
PAGE = DOCS / "gallery.md"
WIDTH, FRAMES, EVERY = 240, 80, 2  # a picture has so many frames, of every second step
MILLISECONDS = 60  # of a frame
SEED = 7
VIEWS = {"HalfCheetah-v5": {"camera_name": "track"}}  # the usual camera stays where it is


def play(policy: BasePolicy, env: gym.Env) -> tuple[list[np.ndarray], float]:
    """The first frames of an episode, and its return."""
    obs, _ = env.reset(seed=SEED)
    frames, total, steps, over = [], 0.0, 0, False
    while not over:
        if steps % EVERY == 0 and len(frames) < FRAMES:
            frames.append(env.render())
        obs, reward, terminated, truncated, _ = env.step(policy.compute_action(obs))
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    return frames, total


def save(frames: list[np.ndarray], path: Path) -> None:
    """Writes a film that repeats itself."""
    pictures = [Image.fromarray(frame) for frame in frames]
    size = (WIDTH, round(WIDTH * pictures[0].height / pictures[0].width))
    pictures = [one.resize(size, Image.Resampling.LANCZOS) for one in pictures]
    path.parent.mkdir(exist_ok=True)
    options = {"duration": MILLISECONDS, "loop": 0, "quality": 60, "method": 6}
    pictures[0].save(path, save_all=True, append_images=pictures[1:], **options)


def row(run_dir: str) -> str:
    """Plays a run, writes its picture, and returns its row of the table."""
    config = read_config(run_dir)
    policy = rlfast.load(run_dir, best=True)
    with gym.make(config.env, render_mode="rgb_array", **VIEWS.get(config.env, {}), **config.env_kwargs) as env:
        frames, total = play(policy, env)
    picture = f"pictures/gallery/{config.env.replace('/', '-')}.webp"
    save(frames, DOCS / picture)
    steps = read_counters(Path(run_dir, "best"))["env_step"]
    about = f"{algorithm_of(config).title}, {steps:,} steps<br>return {total:,.0f}"
    return f"| ![{config.env}]({picture}) | **{config.env}**<br>{about}<br>`{command_of(config)}` |"


def with_rows(page: str, rows: list[str]) -> str:
    """The page with rows, each in place of the one with the same picture, or at the end."""
    head, rule, old = page.partition("|---|---|\n")
    table = {line.split("]")[0]: line for line in [*old.splitlines(), *rows]}
    return "\n".join([head + rule.rstrip(), *table.values()]) + "\n"


def main() -> None:
    """Writes the pictures, and the page after each."""
    for run_dir in sys.argv[1:]:
        PAGE.write_text(with_rows(PAGE.read_text(), [row(run_dir)]))


if __name__ == "__main__":
    main()
