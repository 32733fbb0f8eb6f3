"""The temperature of soft actor-critic, fixed or learned."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import nn

from rlfast.functional.losses import temperature_loss
from rlfast.utils.arguments.checks import check_number
from rlfast.utils.optim import OptimizerFactory, descend, holds_any, make_optimizer


class Alpha(nn.Module):
    """The temperature of soft actor-critic: the coefficient of the entropy in the objective."""

    is_learned: ClassVar[bool] = True

    @property
    @abstractmethod
    def value(self) -> torch.Tensor:
        """The temperature, a tensor of one number without gradient."""

    @abstractmethod
    def assign(self, value: torch.Tensor | float) -> None:
        """Set the temperature.

        :param value: at least 0; greater than 0 for a learned temperature.
        :raises ValueError: for another value.
        """

    @property
    def number(self) -> float | torch.Tensor:
        """The temperature for people: a float if it is fixed, a tensor like ``log_alpha`` if it is learned."""
        return self.value

    @number.setter
    def number(self, value: torch.Tensor | float) -> None:
        self.assign(value)

    def descend(self, log_prob: torch.Tensor) -> dict[str, torch.Tensor]:
        """Do one gradient step on a learned temperature (arXiv:1812.05905, equation 18).

        :param log_prob: log-probabilities of actions of the policy, ``[B]``.
        :return: ``alpha_loss`` before the step; nothing for a fixed temperature.
        """
        loss = self.learn(log_prob)
        return {} if loss is None else {"alpha_loss": loss}

    @abstractmethod
    def learn(self, log_prob: torch.Tensor) -> torch.Tensor | None:
        """Do one gradient step on the temperature.

        :param log_prob: log-probabilities of actions of the policy, ``[B]``.
        :return: the loss before the step; None if the temperature is fixed.
        """


class FixedAlpha(Alpha):
    """A fixed temperature.

    :param alpha: the temperature, at least 0.
    :raises ValueError: if it is negative or NaN.

    >>> FixedAlpha(0.5).value.item()
    0.5
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        check_number("alpha", alpha)
        if not alpha >= 0:
            raise ValueError(f"alpha must be 0 or more, got {alpha}")
        # not a buffer, as loading a checkpoint keeps the arguments of the constructor
        self._alpha = torch.tensor(float(alpha))

    is_learned = False

    @property
    def value(self) -> torch.Tensor:
        return self._alpha

    @property
    def number(self) -> float:
        return self._alpha.item()

    @number.setter
    def number(self, value: torch.Tensor | float) -> None:
        self.assign(value)

    def assign(self, value: torch.Tensor | float) -> None:
        number = float(value)
        if not 0 <= number < math.inf:
            raise ValueError(f"alpha must be 0 or more, got {value}")
        self._alpha.fill_(number)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self._alpha = fn(self._alpha)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def learn(self, log_prob: torch.Tensor) -> None:
        """Return None, as the temperature is fixed."""


class AutoAlpha(Alpha):
    r"""A learned temperature, which keeps the policy's entropy near a target (arXiv:1812.05905, section 5).

    :param target_entropy: :math:`\bar{\mathcal H}`, usually minus the number of action dimensions.
    :param log_alpha: the first logarithm of the temperature: a number, or a tensor of one element that requires a
        gradient.
    :param optim: an optimizer that holds ``log_alpha``, or a factory of one, such as ``adam(3e-4)``.
    :raises ValueError: if ``log_alpha`` is a tensor that has several elements or requires no gradient, or is not a
        parameter of the optimizer.

    >>> from rlfast.utils.optim import adam
    >>> alpha = AutoAlpha(target_entropy=-1.0, log_alpha=0.0, optim=adam(0.1))
    >>> loss = alpha.learn(torch.tensor([3.0]))  # the entropy, -3, is below the target, so the temperature rises
    >>> alpha.value.item()
    1.10...
    """

    def __init__(
        self, target_entropy: float, log_alpha: torch.Tensor | float, optim: torch.optim.Optimizer | OptimizerFactory
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
        else:  # a buffer is saved and moved with the module, and stays the tensor of the optimizer
            self.register_buffer("log_alpha", log_alpha)
        if isinstance(optim, torch.optim.Optimizer) and not holds_any(optim, [log_alpha]):
            raise ValueError("the optimizer of alpha does not hold log_alpha: make it with [log_alpha]")
        self.optim: Any = make_optimizer(optim, [log_alpha])  # type: ignore[list-item]

    @property
    def value(self) -> torch.Tensor:
        return self.log_alpha.detach().exp()

    @torch.no_grad()
    def assign(self, value: torch.Tensor | float) -> None:
        number = torch.as_tensor(value, dtype=self.log_alpha.dtype, device=self.log_alpha.device).detach()
        if not bool(((number > 0) & number.isfinite()).all()):
            raise ValueError(f"a learned alpha must be above 0, got {value}")
        if bool((number != self.value).any()):  # an equal value is not assigned, as its logarithm would be rounded
            self.log_alpha.copy_(number.log())

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move ``log_alpha`` in place, so that it stays the tensor that the optimizer and the script hold."""
        given = self._buffers.pop("log_alpha", None)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if given is not None:
            with torch.no_grad():
                given.data = fn(given.data)
            given.grad = None
            self._buffers["log_alpha"] = given
        return self

    def learn(self, log_prob: torch.Tensor) -> torch.Tensor:
        """Do one gradient step on ``log_alpha``; see :meth:`Alpha.learn`."""
        loss = temperature_loss(self.log_alpha, log_prob, self.target_entropy)
        descend(loss, self.optim)
        return loss.detach()


def make_alpha(alpha: "float | Sequence[Any] | Alpha") -> Alpha:
    """Return the temperature for the argument ``alpha`` of a policy.

    :param alpha: a number for a fixed temperature, ``(target_entropy, log_alpha, optim)`` for a learned one, or an
        :class:`Alpha`.
    :return: the temperature.
    """
    if isinstance(alpha, Alpha):
        return alpha
    return AutoAlpha(*alpha) if isinstance(alpha, tuple | list) and len(alpha) == 3 else FixedAlpha(alpha)  # type: ignore[arg-type]


class OfTemperature:
    """An attribute of a policy that is one of its temperature.

    :param name: the name of the attribute of the :class:`Alpha`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, policy: Any, kind: type) -> Any:
        return self if policy is None else getattr(policy.temperature, self._name)

    def __set__(self, policy: Any, value: Any) -> None:
        setattr(policy.temperature, self._name, value)
