"""Steps along the natural gradient of a distribution over actions."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.functional.natural_gradient"):
    import torch
    from torch.distributions import Distribution, kl_divergence

TDistribution: TypeAlias = Callable[[], Distribution]


class NaturalStep:
    r"""The direction of a natural gradient, and steps along it.

    .. math::
        s = -F^{-1} \nabla_\theta L, \qquad
        F = \nabla^2_\theta \frac1B \sum D_{\mathrm{KL}}\bigl(\pi_{\theta_0} \,\|\, \pi_\theta\bigr)

    (Kakade 2001, *A natural policy gradient*, section 2; Schulman et al., arXiv:1502.05477, appendix C.)

    :param distribution: a function that returns the distribution over actions by the current parameters.
    :param loss: a function of a distribution that returns a scalar.
    :param parameters: the parameters that the step changes.
    :param damping: added to the diagonal of F.
    """

    def __init__(
        self,
        distribution: TDistribution,
        loss: Callable[[Distribution], torch.Tensor],
        parameters: Sequence[torch.Tensor],
        damping: float,
    ) -> None:
        self._distribution, self._loss, self._parameters, self._damping = distribution, loss, parameters, damping
        with torch.no_grad():
            self._old = distribution()
            self._start = torch.cat([parameter.flatten() for parameter in parameters])
        dist = distribution()
        loss_now = loss(dist)
        gradient = _flat_gradient(loss_now, parameters, retain_graph=True)
        self._kl_gradient = _flat_gradient(kl_divergence(self._old, dist).mean(), parameters, create_graph=True)
        self.loss = loss_now.detach()
        self.direction = -conjugate_gradients(self.fisher_product, gradient)

    def fisher_product(self, vector: torch.Tensor) -> torch.Tensor:
        """Compute the product of the damped F and a vector.

        :param vector: one number for each parameter of the actor.
        :return: the product, of the same shape.
        """
        product = _flat_gradient(self._kl_gradient.dot(vector), self._parameters, retain_graph=True)
        return product + self._damping * vector

    @torch.no_grad()
    def take(self, size: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
        """Set the parameters to their initial values plus ``size`` times the direction.

        :param size: the size of the step.
        :return: the mean KL divergence from the old distribution, and the loss, both after the step.
        """
        place = self._start + size * self.direction if size != 0 else self._start  # also where it is NaN
        parts = place.split_with_sizes([parameter.numel() for parameter in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))
        dist = self._distribution()
        return kl_divergence(self._old, dist).mean(), self._loss(dist)


def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor], b: torch.Tensor, steps: int = 10, tolerance: float = 1e-10
) -> torch.Tensor:
    r"""Solve :math:`A x = b` for a positive definite matrix A, of which only products with vectors are needed.

    (Hestenes and Stiefel 1952, doi:10.6028/jres.049.044, section 3.)

    :param product: a function that computes A v of v.
    :param b: the right-hand side, ``[N]``.
    :param steps: the largest number of iterations. Default: 10.
    :param tolerance: the squared norm of A x - b below which iterations end. Default: 1e-10.
    :return: x, ``[N]``.

    >>> matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    >>> [round(value, 4) for value in conjugate_gradients(matrix.mv, torch.tensor([1.0, 2.0])).tolist()]
    [0.0909, 0.6364]
    """
    x, residual, conjugate = torch.zeros_like(b), b.clone(), b.clone()
    squared = residual.dot(residual)
    for _ in range(steps):
        if squared == 0:
            break
        along = product(conjugate)
        length = squared / conjugate.dot(along)
        x += length * conjugate
        residual -= length * along
        before, squared = squared, residual.dot(residual)
        if squared < tolerance:
            break
        conjugate = residual + squared / before * conjugate
    return x


def _flat_gradient(value: torch.Tensor, parameters: Sequence[torch.Tensor], **options: Any) -> torch.Tensor:
    gradients = torch.autograd.grad(value, parameters, materialize_grads=True, **options)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])
