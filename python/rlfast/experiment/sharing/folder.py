"""Folders that others can use: the policy of a run, without pickle, with its results and a model card."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast import __version__
from rlfast.experiment import evaluate
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.checkpoint import copy_policy, read_counters
from rlfast.experiment.config.outside import IN_MEMORY
from rlfast.experiment.run_dir import BEST, CHECKPOINT, read_beyond, read_config
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from rlfast.data.stats import CollectStats
    from rlfast.experiment.config import RunConfig

RESULTS = "results.json"
"""Name of the file with the returns of the evaluation."""
CARD = "README.md"
"""Name of the model card."""
FILM = "replay.mp4"
"""Name of the film, which the hub shows beside the card."""
_COPIED = ("metrics.csv", "learning_curve.png")


def share(
    run_dir: Path, folder: Path, *, best: bool = False, episodes: int = 100, video: bool = True, name: str | None = None
) -> tuple[CollectStats, str | None]:
    """Makes a folder with the policy of a run that :func:`rlfast.load` and ``rlfast eval`` open, and strangers without
    risk: it has no pickle, and no path of this machine.

    :param run_dir: folder of the run.
    :param folder: the new folder.
    :param best: whether the policy is the one with the best test, and not that of the end of training. Default: False.
    :param episodes: number of episodes that are played for ``results.json``. Default: 100.
    :param video: whether one more is filmed, if the libraries for that are there. Default: True.
    :param name: the name on the hub, which the card shows. Default: the folder's.
    :return: the statistics of the episodes, and why there is no film; None if there is one, or none was wanted.
    :raises FileExistsError: if the folder exists and is not empty.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run cannot be used, or was made by Python objects, which settings do not describe.
    """
    config = read_config(run_dir)
    if beyond := read_beyond(run_dir):
        raise ValueError(f"{run_dir} was declared by Python objects ({'; '.join(beyond)}), which cannot be shared")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: choose another folder")
    stats = evaluate(run_dir, episodes, best=best)
    with TemporaryDirectory() as films:
        why = _film(run_dir, Path(films, "film"), best=best) if video else None
        folder.mkdir(parents=True, exist_ok=True)
        copy_policy(run_dir / (BEST if best else CHECKPOINT), folder / CHECKPOINT)
        for file in _COPIED:
            if (run_dir / file).exists():
                shutil.copyfile(run_dir / file, folder / file)
        for film in Path(films).glob("film/*.mp4"):
            shutil.copyfile(film, folder / FILM)
    content = json.loads((run_dir / "config.json").read_text())
    shared = _without_paths(config)
    replace_file(folder / "config.json", _json(content | {"config": json.loads(shared.to_json())}))
    replace_file(folder / RESULTS, _json(results(stats, config, best=best)))
    origin = _origin(read_counters(folder / CHECKPOINT), config)
    shown = card(shared, stats, name or folder.name, origin, film=(folder / FILM).exists())
    replace_file(folder / CARD, shown.encode())
    return stats, why


def _film(run_dir: Path, folder: Path, *, best: bool) -> str | None:
    """Films an episode, and returns why that is not possible; None if it is."""
    try:
        evaluate(run_dir, 1, best=best, video=folder)
    except (ImportError, ValueError, gym.error.Error) as error:
        return str(error)
    return None


def _without_paths(config: Any) -> RunConfig:
    """Returns settings without what is found on this machine only."""
    nowhere: dict[str, Any] = {"run_dir": None, "ray": None, "collectors": 1, "shards": 1, "learners": 1}
    if getattr(config, "storage", "ram") not in IN_MEMORY:
        nowhere["storage"] = "ram"
    if getattr(config, "data", None) is not None and Path(config.data).exists():
        nowhere["data"] = Path(config.data).name
    shared: RunConfig = replace(config, **nowhere)
    return shared


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _origin(counters: dict[str, int], config: RunConfig) -> str:
    """Returns how the policy came about, for the card."""
    env_step, gradient_step = counters["env_step"], counters["gradient_step"]
    if not env_step and not gradient_step:
        return "a policy that was trained elsewhere, and imported by rlfast"
    steps = f"{env_step:,} environment steps" if env_step else f"{gradient_step:,} gradient steps on data"
    return f"a policy that rlfast trained for {steps}, with seed {config.seed}"


def results(stats: CollectStats, config: RunConfig, *, best: bool) -> dict[str, Any]:
    """Returns what ``results.json`` says of an evaluation.

    :param stats: the statistics of its episodes.
    :param config: the settings of the run.
    :param best: whether the policy was the one with the best test.
    """
    returns, lengths = stats.returns, stats.lens
    return {
        "env": config.env,
        "algorithm": algorithm_of(config).name,
        "policy": BEST if best else CHECKPOINT,
        "episodes": len(returns),
        "mean": float(returns.mean()),
        "std": float(returns.std()),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "mean_length": float(lengths.mean()),
        "returns": [float(one) for one in returns],
        "rlfast": __version__,
    }


def card(config: RunConfig, stats: CollectStats, name: str, origin: str, *, film: bool) -> str:
    """Returns a model card in the hub's format.

    :param config: the settings of the run.
    :param stats: the statistics of its evaluation.
    :param name: the name of the model.
    :param origin: what it is, such as "a policy that ...".
    :param film: whether there is a film.
    """
    algorithm = algorithm_of(config)
    value = f"{stats.returns.mean():.2f} +/- {stats.returns.std():.2f}"
    tags = "\n".join(f"- {json.dumps(one)}" for one in (config.env, "reinforcement-learning", algorithm.name, "rlfast"))
    env = json.dumps(config.env)
    preset = algorithm.preset(config.env)
    own = [one.name for one in fields(config) if getattr(config, one.name) != getattr(preset, one.name)]
    settings = "\n".join(
        f"| `{one}` | `{getattr(config, one)}` |" for one in own if one not in ("run_dir", "progress", "seed")
    )
    table = f"\nSettings other than the preset's:\n\n| setting | value |\n|---|---|\n{settings}\n" if settings else ""
    address = f"hf://{name}" if "/" in name else name
    return f"""---
library_name: rlfast
pipeline_tag: reinforcement-learning
tags:
{tags}
model-index:
- name: {json.dumps(algorithm.title)}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {env}
      type: {env}
    metrics:
    - type: mean_reward
      value: {json.dumps(value)}
      name: mean_reward
      verified: false
---

# {algorithm.title} on {config.env}

This is {origin} (rlfast {__version__}).
{len(stats.returns)} episodes without exploration returned {value}; `{RESULTS}` lists them.
{f"`{FILM}` shows one more." if film else ""}

```sh
rlfast eval {shlex.quote(address)} --episodes 100
```

```python
import rlfast

policy = rlfast.load("{address}")
action = policy.compute_action(obs)
```

`rlfast train {algorithm.name} --config config.json` trains it again; that file also names the versions of libraries.
{table}"""
