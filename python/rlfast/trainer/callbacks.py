"""What is called in the course of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from rlfast.utils.arguments.validation import did_you_mean
from rlfast.utils.warning import warn_user

if TYPE_CHECKING:
    from rlfast.data.stats import CollectStats
    from rlfast.policy import BasePolicy, TrainingStats


class Training(Protocol):
    """What callbacks use of a trainer; they get the :class:`~rlfast.trainer.BaseTrainer` itself."""

    policy: BasePolicy
    epoch: int
    env_step: int
    gradient_step: int
    last_test: CollectStats | None
    train_fn: Callable[[int, int], None] | None
    test_fn: Callable[[int, int | None], None] | None
    save_best_fn: Callable[[BasePolicy], None] | None

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

    def before_step(self, trainer: Training) -> None:
        """Is called before each collect, such as for schedules.

        :param trainer: the trainer.
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

    def before_test(self, trainer: Training) -> None:
        """Is called before each test, when the policy is in evaluation mode.

        :param trainer: the trainer.
        """

    def on_test(self, trainer: Training, stats: CollectStats) -> None:
        """Is called after each test, the first of which is before training.

        :param trainer: the trainer.
        :param stats: the statistics of the test.
        """

    def on_best(self, trainer: Training) -> None:
        """Is called at the start, after the first test, and after every test with a new best mean return.

        :param trainer: the trainer.
        """

    def on_checkpoint(self, trainer: Training, path: str) -> None:
        """Is called after each call of ``save_checkpoint_fn``.

        :param trainer: the trainer.
        :param path: what that returned, the path of the checkpoint.
        """


class Functions(Callback):
    """Calls the functions of a trainer's constructor. It comes after the other callbacks."""

    def before_step(self, trainer: Training) -> None:
        """Calls ``train_fn``."""
        if trainer.train_fn is not None:
            trainer.train_fn(trainer.epoch, trainer.env_step)

    def before_test(self, trainer: Training) -> None:
        """Calls ``test_fn``."""
        if trainer.test_fn is not None:
            trainer.test_fn(trainer.epoch, trainer.env_step)

    def on_best(self, trainer: Training) -> None:
        """Calls ``save_best_fn``."""
        if trainer.save_best_fn is not None:
            trainer.save_best_fn(trainer.policy)


def check_callbacks(callbacks: object) -> tuple[Callback, ...]:
    """Returns callbacks as a tuple, and warns of methods of theirs that are never called.

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
        _warn_of_uncalled(type(one))
    return given


def _warn_of_uncalled(kind: type[Callback]) -> None:
    """Warns of methods that look like those of a callback, and are never called."""
    known = [name for name in vars(Callback) if not name.startswith("__")]
    for name in dir(kind):
        if name.lstrip("_").startswith(("on_", "before_", "after_")) and name not in known:
            called = f"{kind.__name__}.{name} is not a method that a trainer calls; it calls {', '.join(known)}"
            warn_user(called + did_you_mean([name], known))
