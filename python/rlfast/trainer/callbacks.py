"""What is called in the course of training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rlfast.data.stats import CollectStats
    from rlfast.policy import BasePolicy, TrainingStats


class Training(Protocol):
    """What callbacks use of a trainer; they get the :class:`~rlfast.trainer.BaseTrainer` itself."""

    policy: BasePolicy
    epoch: int
    env_step: int
    gradient_step: int

    def stop(self) -> None:
        """Ends training before the next collect."""


class Callback:
    """The base class of what a trainer calls: override what you need, and pass it as ``callbacks=[...]``.

    ``trainer.env_step``, ``gradient_step``, ``epoch`` and ``policy`` say where training is. ``trainer.stop()`` ends it;
    an exception does, too. Checkpoints do not have the state of callbacks.

    >>> class Best(Callback):
    ...     def on_test(self, trainer, stats):
    ...         print(trainer.env_step, stats.returns_stat.mean)
    """

    def on_step(self, trainer: Training, stats: CollectStats) -> None:
        """Is called after each collect.

        :param trainer: the trainer.
        :param stats: the statistics of the collect.
        """

    def on_update(self, trainer: Training, stats: TrainingStats) -> None:
        """Is called after the updates that follow a collect; without a ``train_collector``, after each gradient step.

        :param trainer: the trainer.
        :param stats: their averaged statistics.
        """

    def on_test(self, trainer: Training, stats: CollectStats) -> None:
        """Is called after each test, the first of which is before training.

        :param trainer: the trainer.
        :param stats: the statistics of the test.
        """

    def on_checkpoint(self, trainer: Training, path: str) -> None:
        """Is called after each call of ``save_checkpoint_fn``.

        :param trainer: the trainer.
        :param path: what that returned, the path of the checkpoint.
        """


def check_callbacks(callbacks: object) -> tuple[Callback, ...]:
    """Returns callbacks as a tuple.

    :param callbacks: the argument of a trainer.
    :raises TypeError: if it is no sequence of callbacks.
    """
    if isinstance(callbacks, Callback):
        raise TypeError(f"callbacks is a sequence: pass [{type(callbacks).__name__}(...)]")
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a sequence of Callback, got {type(callbacks).__name__}")
    given = tuple(callbacks)
    for one in given:
        if not isinstance(one, Callback):
            kind = one.__name__ + ", a class: pass an object of it" if isinstance(one, type) else type(one).__name__
            raise TypeError(f"callbacks must be objects of classes derived from Callback, got {kind}")
    return given
