from abc import abstractmethod

import torch
from torch import nn

from rlfast.functional.losses import temperature_loss
from rlfast.utils.checks import check_number
from rlfast.utils.optim import OptimizerFactory, make_optimizer, optim_step


class Alpha(nn.Module):
    """The temperature of soft actor-critic: how much entropy is worth, in rewards."""

    @property
    @abstractmethod
    def value(self) -> torch.Tensor:
        """The temperature, one number without gradient."""

    @abstractmethod
    def learn(self, log_prob: torch.Tensor) -> torch.Tensor | None:
        """Adapt to the policy.

        :param log_prob: of the actions that the policy chose, ``[B]``.
        :return: the loss before the step; None if the temperature is fixed.
        """


class FixedAlpha(Alpha):
    """A temperature that stays.

    :param alpha: 0 or more.
    :raises ValueError: if it is negative or NaN.

    >>> FixedAlpha(0.5).value.item()
    0.5
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        check_number("alpha", alpha)
        if not alpha >= 0:
            raise ValueError(f"alpha must be 0 or more, got {alpha}")
        self.register_buffer("alpha", torch.tensor(float(alpha)), persistent=False)

    @property
    def value(self) -> torch.Tensor:
        return self.get_buffer("alpha")

    def learn(self, log_prob: torch.Tensor) -> None:
        """Do nothing."""


class AutoAlpha(Alpha):
    r"""A temperature that holds the policy's entropy at a target (Haarnoja et al., arXiv:1812.05905, section 5).

    :param target_entropy: :math:`\bar{\mathcal H}`, usually minus the number of action dimensions.
    :param log_alpha: the logarithm to start from: a number, or a tensor of one element that requires a gradient.
    :param optim: an optimizer that holds ``log_alpha``, or a factory of one, such as ``adam(3e-4)``.
    :raises ValueError: if ``log_alpha`` is a tensor that is not one number with a gradient, or the optimizer holds it
        not.

    >>> from rlfast.utils.optim import adam
    >>> alpha = AutoAlpha(target_entropy=-1.0, log_alpha=0.0, optim=adam(0.1))
    >>> loss = alpha.learn(torch.tensor([3.0]))  # the entropy, -3, is too small: it shall be worth more
    >>> alpha.value.item()
    1.10...
    """

    def __init__(
        self,
        target_entropy: float,
        log_alpha: torch.Tensor | float,
        optim: torch.optim.Optimizer | OptimizerFactory,
    ) -> None:
        super().__init__()
        if not isinstance(log_alpha, torch.Tensor):
            log_alpha = nn.Parameter(torch.tensor(float(log_alpha)))
        if log_alpha.numel() != 1 or not log_alpha.requires_grad:
            raise ValueError(
                f"log_alpha must be one number that requires a gradient, got {log_alpha}: "
                "torch.zeros(1, requires_grad=True)"
            )
        self.target_entropy = float(target_entropy)
        self.log_alpha: torch.Tensor
        if isinstance(log_alpha, nn.Parameter):
            self.log_alpha = log_alpha
        else:  # the tensor that the optimizer holds: it is saved as well, and stays on its device
            self.register_buffer("log_alpha", log_alpha)
        self.optim = make_optimizer(optim, [log_alpha])  # type: ignore[list-item]
        if not any(p is log_alpha for group in self.optim.param_groups for p in group["params"]):
            raise ValueError("the optimizer of alpha does not hold log_alpha: make it with [log_alpha]")

    @property
    def value(self) -> torch.Tensor:
        return self.log_alpha.detach().exp()

    def learn(self, log_prob: torch.Tensor) -> torch.Tensor:
        """Do one gradient step."""
        loss = temperature_loss(self.log_alpha, log_prob, self.target_entropy)
        optim_step(loss, self.optim)
        return loss.detach()


def make_alpha(alpha: "float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha") -> Alpha:
    """Give the temperature that a policy's argument means.

    :param alpha: a number for a fixed one; ``(target_entropy, log_alpha, optim)`` for a learned one; or either, made.
    """
    if isinstance(alpha, Alpha):
        return alpha
    return AutoAlpha(*alpha) if isinstance(alpha, tuple) else FixedAlpha(alpha)
