"""Making the settings of a run from the constructor of its policy."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform, get_type_hints

from rlfast.utils.arguments.settings import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

C = TypeVar("C")

OLD_NAMES: Final = {
    "atoms": "num_atoms",
    "cosines": "num_cosines",
    "cql_alpha_learning_rate": "cql_alpha_lr",
    "critic_iters": "optim_critic_iters",
    "double": "is_double",
    "entropy_coef": "ent_coef",
    "fractions": "num_fractions",
    "gamma": "discount_factor",
    "huber": "clip_loss_grad",
    "n_step": "estimation_step",
    "normalize_advantage": "advantage_normalization",
    "online_samples": "online_sample_size",
    "quantiles": "num_quantiles",
    "samples": "sample_size",
    "scale_returns": "reward_normalization",
    "target_samples": "target_sample_size",
}
"""Names that settings had in version 0.1, and those of the policies' constructors. Both are understood everywhere: on
the command line, in ``config.json``, and by a class of settings, where it has no setting of the old name."""

DECIDED: Final = frozenset({"action_bound_method", "action_scaling"})
"""Settings of policies that follow from the action space."""


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Returns the annotations of all fields by name, which are texts that take longer to read than to check values by.

    :param kind: a class of settings.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def renamed(kind: type, given: Mapping[str, object]) -> dict[str, Any]:
    """Returns settings by the names that they have now. A value by an old name replaces that by the new one.

    :param kind: a class of settings.
    :param given: the settings, by old or new names.
    """
    known = {one.name for one in fields(kind)}
    old = {name for name in given if name not in known and OLD_NAMES.get(name) in known}
    return {name: given[name] for name in given if name not in old} | {OLD_NAMES[name]: given[name] for name in old}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings(policy: str | None = None, *, without: Sequence[str] = ()) -> Callable[[type[C]], type[C]]:
    """Makes a class one of settings: a frozen dataclass with the settings of a policy beside its own.

    A class attribute without an annotation is the default of the setting of its name, be it the policy's or inherited.

    :param policy: the name of the policy in :mod:`rlfast.policy`. Default: none.
    :param without: settings of the policy that runs do not have.
    :raises TypeError: if the class declares a setting of the policy again, or has a default of none.
    """

    def declare(kind: type[C]) -> type[C]:
        own: dict[str, Any] = vars(kind).get("__annotations__", {})
        inherited = {
            name: hint for base in kind.__bases__ if is_dataclass(base) for name, hint in hints_of(base).items()
        }
        added = {name: hint for name, hint in inherited.items() if name in vars(kind) and name not in own}
        if policy is not None:
            added |= _add_policy(kind, policy, own.keys() | inherited.keys(), without)
            values = {name for name, one in vars(kind).items() if name[0] != "_" and not callable(one)}
            if unknown := values - {"policy", "policy_settings", *own, *added}:
                raise TypeError(f"{kind.__module__} has defaults of what is no setting: {sorted(unknown)}")
        kind.__annotations__ = added | own
        _understand_old_names(dataclass(frozen=True, kw_only=True)(kind))
        return kind

    return declare


def _add_policy(kind: Any, policy: str, declared: AbstractSet[str], without: Sequence[str]) -> dict[str, Any]:
    """Adds what runs have of a policy's settings to a class, with their defaults, and returns annotations."""
    found = [one for one in settings_of(f"rlfast.policy.{policy}") if one.has_effect]
    if again := sorted(declared & {one.name for one in found}):
        raise TypeError(f"{kind.__module__} declares {', '.join(again)} again, which {policy} declares")
    kind.policy = policy
    kind.policy_settings = tuple(one for one in found if one.name not in DECIDED.union(without))
    for one in kind.policy_settings:
        setattr(kind, one.name, getattr(kind, one.name, one.default))
    return {one.name: one.hint for one in kind.policy_settings}


def _understand_old_names(kind: Any) -> None:
    init = kind.__init__

    @wraps(init)
    def by_any_name(self: object, **given: object) -> None:
        init(self, **renamed(type(self), given))

    kind.__init__ = by_any_name
