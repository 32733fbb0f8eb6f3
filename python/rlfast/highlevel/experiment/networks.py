"""What builders with actors and critics have in common."""

from collections.abc import Sequence
from typing import Any, Self

from torch import nn

from rlfast.highlevel.experiment.builder import ExperimentBuilder
from rlfast.highlevel.module import actor, critic
from rlfast.utils.net.common import ModuleType


class WithActor(ExperimentBuilder[Any]):
    """A builder of an experiment with an actor."""

    _actor_type = actor.ContinuousActorType.GAUSSIAN

    def _init(self) -> None:
        self._actor_future = actor.ActorFuture()
        self.with_actor_factory(actor.ActorFactoryDefault(self._actor_type))

    def get_actor_future(self) -> actor.ActorFuture:
        """Returns where the actor will be."""
        return self._actor_future

    def with_actor_factory(self, actor_factory: actor.ActorFactory) -> Self:
        """Returns the builder, with what makes the actor.

        :param actor_factory: makes it.
        """
        self._keep(self._networks, actor.ActorFactory, actor=actor_factory)
        self._networks["actor"] = actor.ActorFactoryTransientStorageDecorator(actor_factory, self._actor_future)
        return self


class WithGaussianActor(WithActor):
    """A builder with an actor of normal distributions, or of the probabilities of discrete actions."""

    def with_actor_factory_default(
        self,
        hidden_sizes: Sequence[int],
        hidden_activation: ModuleType = nn.ReLU,
        continuous_unbounded: bool = False,
        continuous_conditioned_sigma: bool = False,
    ) -> Self:
        """Returns the builder, with these options of the usual actor.

        :param hidden_sizes: see :class:`ActorFactoryDefault`, also for the others.
        :param hidden_activation: likewise.
        :param continuous_unbounded: likewise.
        :param continuous_conditioned_sigma: likewise.
        """
        options = (hidden_sizes, hidden_activation, continuous_unbounded, continuous_conditioned_sigma)
        return self.with_actor_factory(actor.ActorFactoryDefault(self._actor_type, *options))


class WithDeterministicActor(WithActor):
    """A builder with an actor of actions without noise."""

    _actor_type = actor.ContinuousActorType.DETERMINISTIC

    def with_actor_factory_default(self, hidden_sizes: Sequence[int], hidden_activation: ModuleType = nn.ReLU) -> Self:
        """Returns the builder, with these options of the usual actor.

        :param hidden_sizes: see :class:`ActorFactoryDefault`, also for the others.
        :param hidden_activation: likewise.
        """
        return self.with_actor_factory(actor.ActorFactoryDefault(self._actor_type, hidden_sizes, hidden_activation))


CRITIC_SIZES = critic.CriticFactoryDefault.DEFAULT_HIDDEN_SIZES


class WithCritics(WithActor):
    """A builder with an actor and some critics."""

    _critics: tuple[str, ...] = ("critic",)

    def _init(self) -> None:
        super()._init()
        self._with(critic.CriticFactoryDefault(), *self._critics)

    def _with(self, factory: critic.CriticFactory, *critics: str) -> Self:
        return self._keep(self._networks, critic.CriticFactory, **dict.fromkeys(critics, factory))

    def _with_actor(self, *critics: str) -> Self:
        return self._with(critic.CriticFactoryReuseActor(self._actor_future), *critics)


class WithCritic(WithCritics):
    """A builder with an actor and one critic."""

    def with_critic_factory(self, critic_factory: critic.CriticFactory) -> Self:
        """Returns the builder, with what makes the critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, "critic")

    def with_critic_factory_default(
        self, hidden_sizes: Sequence[int] = CRITIC_SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with these options of the usual critic.

        :param hidden_sizes: see :class:`CriticFactoryDefault`, also for the other.
        :param hidden_activation: likewise.
        """
        return self._with(critic.CriticFactoryDefault(hidden_sizes, hidden_activation), "critic")

    def with_critic_factory_use_actor(self) -> Self:
        """Returns the builder, where the critic shares the actor's features."""
        return self._with_actor("critic")


class WithTwoCritics(WithCritics):
    """A builder with an actor and two critics."""

    _critics = ("critic1", "critic2")

    def with_common_critic_factory(self, critic_factory: critic.CriticFactory) -> Self:
        """Returns the builder, with what makes both critics.

        :param critic_factory: makes them.
        """
        return self._with(critic_factory, *self._critics)

    def with_common_critic_factory_default(
        self, hidden_sizes: Sequence[int] = CRITIC_SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with these options of the usual critics.

        :param hidden_sizes: see :class:`CriticFactoryDefault`, also for the other.
        :param hidden_activation: likewise.
        """
        return self._with(critic.CriticFactoryDefault(hidden_sizes, hidden_activation), *self._critics)

    def with_common_critic_factory_use_actor(self) -> Self:
        """Returns the builder, where both critics share the actor's features."""
        return self._with_actor(*self._critics)

    def with_critic1_factory(self, critic_factory: critic.CriticFactory) -> Self:
        """Returns the builder, with what makes the first critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, "critic1")

    def with_critic1_factory_default(
        self, hidden_sizes: Sequence[int] = CRITIC_SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with options of the first critic; see :meth:`with_common_critic_factory_default`."""
        return self._with(critic.CriticFactoryDefault(hidden_sizes, hidden_activation), "critic1")

    def with_critic1_factory_use_actor(self) -> Self:
        """Returns the builder, where the first critic shares the actor's features."""
        return self._with_actor("critic1")

    def with_critic2_factory(self, critic_factory: critic.CriticFactory) -> Self:
        """Returns the builder, with what makes the second critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, "critic2")

    def with_critic2_factory_default(
        self, hidden_sizes: Sequence[int] = CRITIC_SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with options of the second critic; see :meth:`with_common_critic_factory_default`."""
        return self._with(critic.CriticFactoryDefault(hidden_sizes, hidden_activation), "critic2")

    def with_critic2_factory_use_actor(self) -> Self:
        """Returns the builder, where the second critic shares the actor's features."""
        return self._with_actor("critic2")


class WithEnsemble(WithActor):
    """A builder with an actor and an ensemble of critics."""

    def _init(self) -> None:
        super()._init()
        self.with_critic_ensemble_factory_default()

    def with_critic_ensemble_factory(self, factory: critic.CriticEnsembleFactory) -> Self:
        """Returns the builder, with what makes the critics.

        :param factory: makes them.
        """
        return self._keep(self._networks, critic.CriticEnsembleFactory, critics=factory)

    def with_critic_ensemble_factory_default(self, hidden_sizes: Sequence[int] = CRITIC_SIZES) -> Self:
        """Returns the builder, with these options of the usual critics.

        :param hidden_sizes: the sizes of hidden layers.
        """
        return self.with_critic_ensemble_factory(critic.CriticEnsembleFactoryDefault(hidden_sizes))
