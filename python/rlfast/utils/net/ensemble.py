"""Layers of m networks that compute as one: each parameter has the ensemble as its first axis."""

import math

import torch
from torch import nn

from rlfast.utils.arguments.validation import NonNegativeInt, PositiveFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.torch_private.products import ensemble_linear


class EnsembleLayer(nn.Module):
    """The base of layers whose parameters have the members of an ensemble along their first axis."""


class EnsembleLinear(EnsembleLayer):
    r"""A linear layer of each member of an ensemble, as one batched product.

    .. math:: y_i = x_i W_i + b_i

    Weights and biases begin uniform in :math:`\pm 1 / \sqrt{\text{in\_feature}}`, as those of ``nn.Linear`` do.

    :param ensemble_size: the number m of members.
    :param in_feature: the size of the input.
    :param out_feature: the size of the output.
    :param bias: whether to add a bias. Default: True.

    >>> EnsembleLinear(10, 4, 2)(torch.zeros(3, 4)).shape
    torch.Size([10, 3, 2])
    """

    @validate_arguments
    def __init__(
        self, ensemble_size: PositiveInt, in_feature: PositiveInt, out_feature: PositiveInt, bias: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(ensemble_size, in_feature, out_feature))
        self.bias_weights: nn.Parameter | None = None
        if bias:
            self.bias_weights = nn.Parameter(torch.empty(ensemble_size, 1, out_feature))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters from torch's generator."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.rand_like(parameter) * 2 * bound - bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the output of every member.

        :param x: ``[batch, in_feature]``, the same for all; or ``[m, batch, in_feature]``.
        :return: ``[m, batch, out_feature]``.
        """
        if x.dim() > 3 or x.dim() < 2:
            y = torch.matmul(x, self.weight)
            return y if self.bias_weights is None else y + self.bias_weights
        rows = x if x.dim() == 3 and len(x) == len(self.weight) else x.expand(len(self.weight), *x.shape[-2:])
        return ensemble_linear(rows, self.weight, self.bias_weights)

    def extra_repr(self) -> str:
        """Return what is shown of the layer."""
        size, inputs, outputs = self.weight.shape
        return f"{size}, {inputs}, {outputs}, bias={self.bias_weights is not None}"


class EnsembleLayerNorm(EnsembleLayer):
    """Layer normalization (Ba, Kiros and Hinton, arXiv:1607.06450), whose members have scales and biases of their own.

    :param ensemble_size: the number m of members.
    :param size: the size of the last axis, which is normalized.
    :param eps: added to the variance. Default: 1e-5.

    >>> EnsembleLayerNorm(2, 2)(torch.tensor([[-3.0, 3.0]])).round().tolist()
    [[[-1.0, 1.0]], [[-1.0, 1.0]]]
    """

    @validate_arguments
    def __init__(self, ensemble_size: PositiveInt, size: PositiveInt, eps: PositiveFloat = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(ensemble_size, 1, size))
        self.bias = nn.Parameter(torch.zeros(ensemble_size, 1, size))

    def reset_parameters(self) -> None:
        """Set scales to 1 and biases to 0."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize.

        :param x: ``[batch, size]`` or ``[m, batch, size]``.
        :return: ``[m, batch, size]``.
        """
        normal = nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps)
        return torch.addcmul(self.bias, normal, self.weight)


class BatchRenorm(EnsembleLayer):
    r"""Batch renormalization (Ioffe, arXiv:1702.03275, algorithm 1), of one network or of an ensemble's members.

    .. math::
        y = \gamma \Bigl(\frac{x - \mu_B}{\sigma_B}\, r + d\Bigr) + \beta, \qquad
        r = \Bigl[\frac{\sigma_B}{\sigma}\Bigr]_{1/r_{\max}}^{r_{\max}}, \qquad
        d = \Bigl[\frac{\mu_B - \mu}{\sigma}\Bigr]_{-d_{\max}}^{d_{\max}}

    with the batch's mean and deviation, and their running averages without index. In the first ``warmup_steps`` batches
    it is batch normalization: r = 1 and d = 0. In evaluation mode, the running averages normalize.

    :param size: the size of the last axis; every element is normalized over the axis before it.
    :param ensemble_size: the number m of members; None for one network. Default: None.
    :param momentum: how far running averages move in each batch, in [0, 1]. Default: 0.01.
    :param eps: added to the deviation. Default: 0.001.
    :param r_max: :math:`r_{\max}`. Default: 3.
    :param d_max: :math:`d_{\max}`. Default: 5.
    :param warmup_steps: batches before r and d have an effect. Default: 100,000.

    >>> layer = BatchRenorm(1)
    >>> layer(torch.tensor([[0.0], [2.0]])).round(decimals=2).tolist()
    [[-1.0], [1.0]]
    >>> layer.eval()(torch.tensor([[0.51], [1.01]])).round(decimals=2).tolist()  # a mean of 0.01, a deviation of 1
    [[0.5], [1.0]]
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    steps: torch.Tensor

    @validate_arguments
    def __init__(
        self,
        size: PositiveInt,
        ensemble_size: PositiveInt | None = None,
        momentum: UnitFloat = 0.01,
        eps: PositiveFloat = 0.001,
        r_max: PositiveFloat = 3.0,
        d_max: PositiveFloat = 5.0,
        warmup_steps: NonNegativeInt = 100_000,
    ) -> None:
        super().__init__()
        shape = (size,) if ensemble_size is None else (ensemble_size, 1, size)
        self.momentum, self.eps, self.r_max, self.d_max = momentum, eps, r_max, d_max
        self.warmup_steps = warmup_steps
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def reset_parameters(self) -> None:
        """Forget all batches."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)
        self.steps.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize.

        :param x: ``[batch, size]`` or ``[m, batch, size]``.
        :return: ``[batch, size]``, or ``[m, batch, size]`` of an ensemble.
        """
        if not self.training:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            return torch.addcmul(self.bias - self.running_mean * scale, x, scale)
        var, mean = torch.var_mean(x, dim=-2, correction=0, keepdim=x.dim() > 2)
        deviation = (var + self.eps).sqrt()
        with torch.no_grad():
            running = (self.running_var + self.eps).sqrt()
            warm = self.steps >= self.warmup_steps
            r = torch.where(warm, (deviation / running).clamp(1 / self.r_max, self.r_max), 1.0)
            d = torch.where(warm, ((mean - self.running_mean) / running).clamp(-self.d_max, self.d_max), 0.0)
            self.running_mean.lerp_(mean.expand_as(self.running_mean), self.momentum)
            self.running_var.lerp_(var.expand_as(self.running_var), self.momentum)
            self.steps.add_(1)
        scale = self.weight * r / deviation
        return torch.addcmul(self.bias + self.weight * d - mean * scale, x, scale)


class UnitLinear(EnsembleLayer):
    r"""A linear layer, the weights of each of whose outputs have the norm 1, of one network or of an ensemble's
    members.

    .. math:: y_j = x \cdot w_j + b_j, \qquad \lVert w_j \rVert = 1

    A step of an optimizer leaves the sphere, and :func:`project_weights` returns to it. Where a normalization removes
    the scale of each output again, that changes no output of the network, and steps turn the weights by angles that do
    not shrink as weights grow (van Laarhoven, arXiv:1706.05350).

    :param in_feature: the size of the input.
    :param out_feature: the size of the output.
    :param ensemble_size: the number m of members; None for one network. Default: None.
    :param bias: whether to add a bias, which begins at 0. A normalization that follows makes it useless. Default:
        False.

    >>> UnitLinear(4, 2, ensemble_size=10)(torch.zeros(3, 4)).shape
    torch.Size([10, 3, 2])
    >>> UnitLinear(4, 2).weight.square().sum(dim=0).allclose(torch.ones(2))
    True
    """

    @validate_arguments
    def __init__(
        self,
        in_feature: PositiveInt,
        out_feature: PositiveInt,
        ensemble_size: PositiveInt | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        shape = (in_feature, out_feature) if ensemble_size is None else (ensemble_size, in_feature, out_feature)
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias_weights = nn.Parameter(torch.empty(*shape[:-2], 1, out_feature)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, in directions that are all equally likely, from torch's generator."""
        nn.init.normal_(self.weight)
        self.project()
        if self.bias_weights is not None:
            nn.init.zeros_(self.bias_weights)

    @torch.no_grad()
    def project(self) -> None:
        """Divide the weights of each output by their norm."""
        self.weight.div_(self.weight.norm(dim=-2, keepdim=True).clamp(min=1e-8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the output.

        :param x: ``[batch, in_feature]``, or ``[m, batch, in_feature]`` of an ensemble.
        :return: ``[batch, out_feature]``, or ``[m, batch, out_feature]`` of an ensemble.
        """
        if self.weight.dim() == 2:
            return x @ self.weight if self.bias_weights is None else x @ self.weight + self.bias_weights
        return ensemble_linear(x.expand(len(self.weight), *x.shape[-2:]), self.weight, self.bias_weights)

    def extra_repr(self) -> str:
        """Return what is shown of the layer."""
        return ", ".join(map(str, self.weight.shape))


def project_weights(network: nn.Module) -> None:
    """Return the weights of all :class:`UnitLinear` of a network to norm 1, after a step of its optimizer.

    :param network: the network.
    """
    for layer in network.modules():
        if isinstance(layer, UnitLinear):
            layer.project()


def members_of(ensemble: nn.Module, members: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the parameters of some members of an ensemble, for ``torch.func.functional_call``.

    :param ensemble: a network; its layers that are no :class:`EnsembleLayer` are shared by all members.
    :param members: numbers of members, ``[k]``.
    :return: the parameters and buffers of ensemble layers, by their names.

    >>> layer = EnsembleLinear(10, 4, 2)
    >>> two = members_of(layer, torch.tensor([3, 7]))
    >>> torch.func.functional_call(layer, two, torch.zeros(5, 4)).shape
    torch.Size([2, 5, 2])
    """
    return {
        f"{prefix}.{name}" if prefix else name: tensor.index_select(0, members)
        for prefix, layer in ensemble.named_modules()
        if isinstance(layer, EnsembleLayer)
        for name, tensor in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False))
        if tensor.dim() == 3
    }


def ensemble_size_of(network: nn.Module) -> int | None:
    """Return the number of members of a network with layers of an ensemble; None if it has none.

    :param network: the network.

    >>> ensemble_size_of(nn.Sequential(EnsembleLinear(10, 4, 2), nn.ReLU())), ensemble_size_of(nn.Linear(4, 2))
    (10, None)
    """
    return next((len(layer.weight) for layer in network.modules() if isinstance(layer, EnsembleLinear)), None)
