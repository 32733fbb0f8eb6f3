"""The template of algorithms that learn quantiles of returns at levels that are drawn or proposed."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import torch

from rlfast.data import Batch
from rlfast.data.batch.batch import parse, wrap
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.discrete.q_learner import QLearner, output_of_actions
from rlfast.utils.net.discrete import Fractions


@replaceable("__call__", "forward")
class QuantileLearner(QLearner):
    """A learner of quantiles of the return of each action, which chooses the action with the greatest mean.

    An algorithm defines :meth:`quantiles_at`, :meth:`action_values` and :meth:`target_levels`.

    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself.
    :param clip_loss_grad: has no effect: Huber's function clips.
    :param options: of :class:`QLearner`.
    """

    parts: ClassVar[tuple[str, ...]]
    """The names in the result of :meth:`forward` of what :meth:`quantiles_at` returns; ``logits`` first."""

    def __init__(self, *, is_double: bool, clip_loss_grad: bool, **options: Any) -> None:
        super().__init__(**options)
        self.is_double, self.clip_loss_grad = is_double, clip_loss_grad

    @abstractmethod
    def quantiles_at(self, model: Literal["model", "model_old"], obs: Any, state: Any, info: Any, levels: Any) -> Any:
        """Return quantiles by a network.

        :param levels: the levels of the quantiles; None for those that :meth:`forward` uses.
        :param model: the name of the network.
        :param obs: observations.
        :param state: hidden state before them.
        :param info: infos of the observations.
        :return: a tuple of :attr:`parts`, of which the first are the quantiles ``[B, actions, N]``, and the next hidden
            state.
        """

    @abstractmethod
    def action_values(self, outputs: tuple[Any, ...], obs: Any) -> torch.Tensor:
        """Return action values, ``[B, actions]``, from what :meth:`quantiles_at` returned; illegal ones have -inf.

        :param outputs: the parts that :meth:`quantiles_at` returned.
        :param obs: the observations, with the mask of legal actions if they have one.
        """

    @abstractmethod
    def target_levels(self, outputs: tuple[Any, ...], *draws: torch.Tensor) -> Any:
        """Return the levels at which the target network computes quantiles.

        :param outputs: what :meth:`quantiles_at` returned for the trained network.
        :param draws: what :meth:`draw_next` returned.
        """

    def forward(
        self,
        batch: Any,
        state: Any = None,
        model: Literal["model", "model_old"] = "model",
        fractions: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> Any:
        """Choose the actions of the greatest mean quantile; see :meth:`QLearner.forward`.

        :param fractions: levels of the quantiles, if the algorithm proposes them.
        :return: also has the levels of the quantiles.
        """
        outputs, hidden = self.quantiles_at(model, batch.obs, state, batch.info, fractions)
        named = dict(zip(self.parts, outputs, strict=True))
        fields = {name: Batch(part._asdict()) if isinstance(part, Fractions) else part for name, part in named.items()}
        fields["act"] = self.action_values(outputs, batch.obs).argmax(dim=1).cpu().numpy()
        return wrap({**fields, "state": parse(hidden)})

    def quantile_outputs(
        self,
        obs: Any,
        state: Any = None,
        batch: Any = None,
        levels: Any = None,
        model: Literal["model", "model_old"] = "model",
    ) -> tuple[Any, ...]:
        """Return :attr:`parts`, through :meth:`forward` if that is replaced.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that the observations belong to, if any.
        :param levels: the levels of the quantiles; None for those that :meth:`forward` uses.
        :param model: the name of the network.
        """
        if self.must_call_forward():
            result = self.call_forward(obs, state, batch, model=model, fractions=levels)
            return tuple(result[name] for name in self.parts)
        parts: tuple[Any, ...] = self.quantiles_at(model, obs, state, {}, levels)[0]
        return parts

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return quantiles of the return after the last reward, ``[B, N]``."""
        online = target = self.quantile_outputs(obs_next, state, None, draws[0] if draws else None)
        if self.model_old is not None:
            levels = self.target_levels(online, *draws)
            target = self.quantile_outputs(obs_next, state, None, levels, "model_old")
        chooser = online if self.is_double else target
        return output_of_actions(target[0], self.action_values(chooser, obs_next).argmax(dim=1))

    def state_after(self, obs: Any, state: Any) -> Any:
        """Return the hidden state after an observation, from the state before it."""
        return self.quantiles_at("model", obs, state, {}, None)[1]
