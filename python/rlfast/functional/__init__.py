"""Returns, losses and action distributions.

The returns are functions of NumPy arrays or torch tensors that need no torch; the others need torch. Each name is
imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.functional.distributions import Categorical as Categorical
    from rlfast.functional.distributions import DiagonalNormal as DiagonalNormal
    from rlfast.functional.distributions import MultiCategorical as MultiCategorical
    from rlfast.functional.distributions import SquashedNormal as SquashedNormal
    from rlfast.functional.distributions import tanh_log_det as tanh_log_det
    from rlfast.functional.losses import bootstrapped_return as bootstrapped_return
    from rlfast.functional.losses import clipped_surrogate_loss as clipped_surrogate_loss
    from rlfast.functional.losses import double_q_value as double_q_value
    from rlfast.functional.losses import huber_loss as huber_loss
    from rlfast.functional.losses import max_value as max_value
    from rlfast.functional.losses import policy_gradient_loss as policy_gradient_loss
    from rlfast.functional.losses import soft_value as soft_value
    from rlfast.functional.losses import squared_loss as squared_loss
    from rlfast.functional.losses import surrogate_loss as surrogate_loss
    from rlfast.functional.losses import td_error as td_error
    from rlfast.functional.losses import temperature_loss as temperature_loss
    from rlfast.functional.losses import value_loss as value_loss
    from rlfast.functional.offline import autoencoder_loss as autoencoder_loss
    from rlfast.functional.offline import conservative_gap as conservative_gap
    from rlfast.functional.offline import discriminator_loss as discriminator_loss
    from rlfast.functional.offline import expectile_loss as expectile_loss
    from rlfast.functional.offline import exponential_weight as exponential_weight
    from rlfast.functional.offline import likely_actions as likely_actions
    from rlfast.functional.offline import regression_weight as regression_weight
    from rlfast.functional.offline import regularized_actor_loss as regularized_actor_loss
    from rlfast.functional.offline import softened_minimum as softened_minimum
    from rlfast.functional.offline import squared_distance as squared_distance
    from rlfast.functional.returns import VTraceReturns as VTraceReturns
    from rlfast.functional.returns import discounted_returns as discounted_returns
    from rlfast.functional.returns import gae as gae
    from rlfast.functional.returns import normalize as normalize
    from rlfast.functional.returns import nstep_returns as nstep_returns
    from rlfast.functional.returns import vtrace as vtrace
    from rlfast.functional.sequences import nstep_sums_within as nstep_sums_within
    from rlfast.functional.sequences import rescaled as rescaled
    from rlfast.functional.sequences import sequence_priority as sequence_priority
    from rlfast.functional.sequences import unrescaled as unrescaled

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "distributions": ("Categorical", "DiagonalNormal", "MultiCategorical", "SquashedNormal", "tanh_log_det"),
        "losses": (
            "bootstrapped_return",
            "clipped_surrogate_loss",
            "double_q_value",
            "huber_loss",
            "max_value",
            "policy_gradient_loss",
            "soft_value",
            "squared_loss",
            "surrogate_loss",
            "td_error",
            "temperature_loss",
            "value_loss",
        ),
        "offline": (
            "autoencoder_loss",
            "conservative_gap",
            "discriminator_loss",
            "expectile_loss",
            "exponential_weight",
            "likely_actions",
            "regression_weight",
            "regularized_actor_loss",
            "softened_minimum",
            "squared_distance",
        ),
        "returns": ("VTraceReturns", "discounted_returns", "gae", "normalize", "nstep_returns", "vtrace"),
        "sequences": ("nstep_sums_within", "rescaled", "sequence_priority", "unrescaled"),
    },
)
