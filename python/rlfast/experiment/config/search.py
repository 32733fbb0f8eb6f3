"""The ranges that ``rlfast tune`` searches: what they are, and what those of several algorithms have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rlfast.experiment.config import RunConfig, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Between:
    """The numbers from ``low`` to ``high``, whole ones if both are whole."""

    low: float
    high: float
    log: bool = False
    """Whether each order of magnitude is as likely as another one."""


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    values: tuple[Any, ...]


Range: TypeAlias = Between | OneOf
Search: TypeAlias = dict[str, Range]
"""The range of each setting, by its name."""


def ranges(kind: type, family: Search, own: Search | None = None) -> Search:
    """Returns the ranges of an algorithm.

    :param kind: the class of its settings.
    :param family: the ranges of its family, from which those are taken that it has as settings.
    :param own: its other ranges, and those that replace the family's.
    :raises TypeError: if it has no setting with the name of one of its own ranges.

    >>> from rlfast.experiment.algorithms import ALGORITHMS
    >>> ALGORITHMS["c51"].search["discount_factor"]
    OneOf(values=(0.9, 0.95, 0.98, 0.99, 0.995, 0.999))
    """
    names = {one.name for one in fields(kind)}
    own = renamed(kind, own or {})
    if unknown := own.keys() - names:
        raise TypeError(f"{kind.__module__} has ranges of what is no setting: {sorted(unknown)}")
    return {name: one for name, one in renamed(kind, family).items() if name in names} | own


def range_of(values: Mapping[str, Any]) -> Range:
    """Returns a range from its fields, as JSON has them: lists for tuples.

    :param values: the fields.
    :raises TypeError: if they are those of no range.
    """
    if "values" in values:
        return OneOf(tuple(tuple(one) if isinstance(one, list) else one for one in values["values"]))
    return Between(**values)


def possible(search: Search, config: RunConfig) -> Search:
    """Returns ranges without values that the other settings exclude, and without more steps than half of a run's.

    :param search: the ranges.
    :param config: the settings.

    >>> possible({"collect_steps": OneOf((60, 64, 2_048))}, RunConfig(num_envs=4, max_steps=500))
    {'collect_steps': OneOf(values=(60, 64))}
    """
    found: Search = {}
    for name, one in search.items():
        if isinstance(one, Between):
            found[name] = one
        elif values := tuple(value for value in one.values if _is_possible(name, value, config)):
            found[name] = OneOf(values)
    return found


def _is_possible(name: str, value: Any, config: RunConfig) -> bool:
    try:
        replace(config, **{name: value})
    except ValueError:
        return False
    return not (name.endswith("_steps") and value > config.steps // 2)


_SIZES: Final = ((64, 64), (128, 128), (256, 256), (400, 300))

NETWORKS: Final[Search] = {
    "learning_rate": Between(1e-5, 1e-2, log=True),
    "hidden_sizes": OneOf(_SIZES),
    "activation": OneOf(("tanh", "relu", "silu")),
    "gamma": OneOf((0.9, 0.95, 0.98, 0.99, 0.995, 0.999)),
}
"""What all algorithms search that learn from rewards."""
ROLL_OUTS: Final[Search] = {
    **NETWORKS,
    "collect_steps": OneOf((256, 512, 1_024, 2_048, 4_096)),
    "gae_lambda": OneOf((0.8, 0.9, 0.92, 0.95, 0.98, 1.0)),
    "ent_coef": Between(1e-5, 0.1, log=True),
    "vf_coef": Between(0.2, 1.0),
    "max_grad_norm": Between(0.3, 5.0, log=True),
    "log_std": Between(-2.0, 0.5),
}
"""What algorithms search that learn from what their present policy has collected."""
CLIPPED: Final[Search] = {
    **ROLL_OUTS,
    "batch_size": OneOf((32, 64, 128, 256, 512)),
    "repeat": OneOf((3, 5, 10, 20)),
    "eps_clip": OneOf((0.1, 0.2, 0.3)),
    "lr_schedule": OneOf(("constant", "linear")),
}
"""The same for PPO's loss."""
NATURAL: Final[Search] = {**ROLL_OUTS, "optim_critic_iters": OneOf((5, 10, 20)), "batch_size": OneOf((128, 256, 1_024))}
"""The same for natural gradients."""
REPLAY: Final[Search] = {
    **NETWORKS,
    "batch_size": OneOf((32, 64, 128, 256, 512)),
    "start_steps": OneOf((100, 1_000, 5_000, 10_000)),
    "estimation_step": OneOf((1, 3, 5)),
}
"""What algorithms with a replay buffer search."""
VALUES: Final[Search] = {
    **REPLAY,
    "updates_per_step": OneOf((0.1, 0.25, 0.5, 1.0)),
    "target_update_freq": OneOf((100, 200, 500, 1_000, 2_000)),
    "eps_steps": OneOf((1_000, 5_000, 10_000, 50_000)),
    "eps_end": Between(0.01, 0.1),
}
"""The same for values of discrete actions."""
CONTINUOUS: Final[Search] = {
    **REPLAY,
    "tau": OneOf((0.001, 0.005, 0.01, 0.02)),
    "updates_per_step": OneOf((0.25, 0.5, 1.0)),
    "noise": Between(0.05, 0.5),
    "actor_learning_rate": Between(1e-5, 1e-2, log=True),
    "alpha_learning_rate": Between(1e-5, 1e-2, log=True),
}
"""The same for continuous actions."""
OFFLINE: Final[Search] = {
    **NETWORKS,
    "batch_size": OneOf((64, 256, 1_024)),
    "tau": OneOf((0.001, 0.005, 0.02)),
    "actor_learning_rate": Between(1e-5, 1e-3, log=True),
    "reward_scale": OneOf((0.1, 1.0, 10.0)),
}
"""What algorithms search that learn from data."""
