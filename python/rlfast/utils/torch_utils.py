"""Context managers for the modes of modules, and the distribution of random actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.torch_utils"):
    import torch
    from gymnasium import spaces
    from torch import nn
    from torch.distributions import Categorical, Distribution, Uniform


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
    module.train(enabled)
    try:
        yield
    finally:
        module.train(before)


@contextmanager
def policy_within_training_step(policy: Any, enabled: bool = True) -> Iterator[None]:
    """Sets ``policy.is_within_training_step``, and restores it at the end of the context.

    :param policy: the policy, which may for example act deterministically outside training steps.
    :param enabled: the value.
    :return: the context.
    """
    before = getattr(policy, "is_within_training_step", False)
    policy.is_within_training_step = enabled
    try:
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
