"""Making the settings of a run from the constructor of its policy."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform, get_type_hints

from rlfast.utils.arguments.settings import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
def hints_of(kind: Any) -> dict[str, Any]:
    """Returns the annotations of all fields by name, which are texts that take longer to read than to check values by.

    :param kind: a class of settings.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def renamed(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings by the names that they have now. A value by an old name replaces that by the new one.

    :param kind: a class of settings.
    :param given: the settings, by old or new names.
    """
    known = kind.__dataclass_fields__
    old = {name for name in given if name not in known and OLD_NAMES.get(name) in known}
    return {name: given[name] for name in given if name not in old} | {OLD_NAMES[name]: given[name] for name in old}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings(policy: str | None = None, *, without: Sequence[str] = ()) -> Callable[[type[C]], type[C]]:
    """Makes a class one of settings: a frozen dataclass with the settings of a policy beside its own.

    A class attribute without an annotation is the default of the setting of its name, be it the policy's or inherited.

    :param policy: the name of the policy in :mod:`rlfast.policy`. Default: none.
    :param without: settings of the policy that runs do not have.
    :raises TypeError: if the class declares a setting of the policy again.
    """

    def declare(kind: type[C]) -> type[C]:
        own = vars(kind).get("__annotations__", {})
        inherited: dict[str, Any] = {}
        for base in kind.__bases__:
            inherited |= hints_of(base) if is_dataclass(base) else {}
        added = {name: hint for name, hint in inherited.items() if name in vars(kind) and name not in own}
        if policy is not None:
            found = [one for one in settings_of(f"rlfast.policy.{policy}") if one.has_effect]
            left_out = {*without, *DECIDED}
            for one in found:
                if one.name in own or one.name in inherited:
                    raise TypeError(f"{kind.__module__} declares {one.name} again, which {policy} declares")
                if one.name not in left_out:
                    added[one.name] = one.hint
                    setattr(kind, one.name, getattr(kind, one.name, one.default))
            vars_of: Any = kind
            vars_of.policy = policy
            vars_of.policy_settings = tuple(one for one in found if one.name not in left_out)
        kind.__annotations__ = added | own
        made: Any = dataclass(frozen=True, kw_only=True)(kind)
        init = made.__init__

        @wraps(init)
        def by_any_name(self: Any, **given: Any) -> None:
            init(self, **renamed(type(self), given))

        made.__init__ = by_any_name
        return kind

    return declare
