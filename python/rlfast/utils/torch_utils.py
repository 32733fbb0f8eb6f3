"""Context managers for the modes of modules, and the distribution of random actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.torch_utils"):
    import torch
    from gymnasium import spaces
    from torch import nn
    from torch.distributions import Categorical, Distribution, Uniform

    from rlfast.utils.torch_private.changes import registrations


@contextmanager
def torch_train_mode(module: nn.Module, enabled: bool = True) -> Iterator[None]:
    """Sets the training mode of a module, and restores it at the end of the context.

    :param module: the module.
    :param enabled: True for training mode, False for evaluation mode.
    :return: the context.

    >>> net = nn.Dropout()
    >>> with torch_train_mode(net, False):
    ...     net.training
    False
    >>> net.training
    True
    """
    before = module.training
    try:
        module.train(enabled)
        yield
    finally:
        module.train(before)


_NORMS: WeakKeyDictionary[nn.Module, tuple[int, tuple[nn.Module, ...]]] = WeakKeyDictionary()
"""The modules with running statistics within the modules that :class:`Acting` was made for, and the count of
registrations then.
"""


class Acting:
    """A context in which a policy acts: gradients are not recorded, and layers such as BatchNorm normalize by their
    running statistics and do not update them, as a batch of observations, perhaps of one environment, is no sample to
    normalize by.

    All other layers, such as Dropout, keep their mode. The layers are looked for once in each module, and again after
    one of its submodules was replaced or added. The context can be entered again after its end.

    :param module: the policy; for any other object than a module, there are no layers.
    :param no_grad: whether gradients are not recorded. Default: True.

    >>> layer = nn.BatchNorm1d(2)
    >>> with Acting(layer):
    ...     layer(torch.ones(1, 2)).tolist()
    [[0.9..., 0.9...]]
    >>> layer.training, layer.num_batches_tracked.item()
    (True, 0)
    """

    __slots__ = ("_modes", "_module", "_no_grad", "_norms", "_recorded", "_registrations")

    def __init__(self, module: object, *, no_grad: bool = True) -> None:
        self._module, self._no_grad = module, no_grad
        self._registrations = -1
        self._norms: tuple[nn.Module, ...] = ()

    def __enter__(self) -> None:
        if self._registrations != registrations():
            self._registrations, self._norms = _norms_of(self._module)
        self._recorded = torch.is_grad_enabled()
        if self._recorded and self._no_grad:
            torch.set_grad_enabled(False)
        if self._norms:
            self._modes = [norm.training for norm in self._norms]
            for norm in self._norms:
                norm.training = False

    def __exit__(self, *_: object) -> None:
        if torch.is_grad_enabled() is not self._recorded:
            torch.set_grad_enabled(self._recorded)
        if self._norms:
            for norm, mode in zip(self._norms, self._modes, strict=True):
                norm.training = mode


def _norms_of(module: object) -> tuple[int, tuple[nn.Module, ...]]:
    """Returns the count of registrations, and the layers with running statistics."""
    if not isinstance(module, nn.Module):
        return registrations(), ()
    known = _NORMS.get(module)
    if known is None or known[0] != registrations():
        found = tuple(one for one in module.modules() if getattr(one, "running_mean", None) is not None)
        known = _NORMS[module] = registrations(), found
    return known


@contextmanager
def policy_within_training_step(policy: Any, enabled: bool = True) -> Iterator[None]:
    """Sets ``policy.is_within_training_step``, and restores it at the end of the context.

    :param policy: the policy, which may for example act deterministically outside training steps.
    :param enabled: the value.
    :return: the context.
    """
    before = getattr(policy, "is_within_training_step", False)
    try:
        policy.is_within_training_step = enabled
        yield
    finally:
        policy.is_within_training_step = before


def create_uniform_action_dist(action_space: spaces.Box | spaces.Discrete, batch_size: int = 1) -> Distribution:
    """Makes the uniform distribution over a batch of actions.

    :param action_space: the action space. Samples for a ``Discrete`` space begin at 0, whatever its ``start``.
    :param batch_size: the number of actions in one sample.
    :return: the distribution.
    :raises ValueError: ``action_space`` is neither a ``Box`` nor ``Discrete``.

    >>> create_uniform_action_dist(spaces.Discrete(3), 2).probs.shape
    torch.Size([2, 3])
    """
    if isinstance(action_space, spaces.Box):
        shape = (batch_size, *action_space.shape)
        low, high = (torch.as_tensor(bound, dtype=torch.float32) for bound in (action_space.low, action_space.high))
        return Uniform(low.expand(shape).clone(), high.expand(shape).clone())
    if isinstance(action_space, spaces.Discrete):
        return Categorical(torch.ones(batch_size, int(action_space.n)))
    raise ValueError(f"the space must be a Box or Discrete, got {action_space}")
