"""Curiosity: rewards for transitions that a model predicts badly."""

from collections.abc import Callable
from typing import Any, Literal, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from rlfast.data import Batch, ReplayBuffer, to_numpy, to_torch
from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol, arr_type
from rlfast.policy.base import BasePolicy, LearnsFrom, TLearningRateScheduler, TrainingStats, TrainingStatsWrapper
from rlfast.policy.components.returns import Index
from rlfast.utils.net.discrete import IntrinsicCuriosityModule
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


class ICMTrainingStats(TrainingStatsWrapper):
    """The losses of the wrapped policy and of the curiosity model.

    :param wrapped_stats: the statistics of the wrapped policy.
    :param icm_loss: the loss that the optimizer of the model minimizes.
    :param icm_forward_loss: the loss of the prediction of features.
    :param icm_inverse_loss: the loss of the prediction of actions.
    """

    def __init__(
        self, wrapped_stats: TrainingStats, *, icm_loss: float, icm_forward_loss: float, icm_inverse_loss: float
    ) -> None:
        self.icm_loss, self.icm_forward_loss, self.icm_inverse_loss = icm_loss, icm_forward_loss, icm_inverse_loss
        super().__init__(wrapped_stats)


class CuriousRows:
    """A buffer whose sums of rewards contain curiosity. All other attributes are the buffer's.

    :param buffer: the buffer.
    :param surprise: returns the curiosity of a batch of rows, ``[B]``.
    """

    def __init__(self, buffer: ReplayBuffer, surprise: Callable[[Any], NDArray[np.floating]]) -> None:
        self._buffer = buffer
        self._surprise = surprise

    def __getattr__(self, name: str) -> Any:
        if name == "_buffer":  # while a copy is made
            raise AttributeError(name)
        return getattr(self._buffer, name)

    def __getitem__(self, index: NDArray[Any]) -> Any:
        return self._buffer[index]

    def __len__(self) -> int:
        return len(self._buffer)

    def nstep(self, indices: Index, n_step: int, gamma: float) -> tuple[NDArray[Any], NDArray[np.float64], Index]:
        """Return sums of rewards and curiosity; see :meth:`rlfast.data.ReplayBuffer.nstep`."""
        reward_sum, discount, last = self._buffer.nstep(indices, n_step, gamma)
        rows, is_there = self._buffer.window(indices, 0, n_step)
        distinct, place = np.unique(rows, return_inverse=True)
        surprise = self._surprise(self._buffer[distinct])[place.reshape(rows.shape)]
        bonus = (surprise * is_there) @ gamma ** np.arange(n_step)
        return reward_sum + bonus.reshape(-1, *(1,) * (np.ndim(reward_sum) - 1)), discount, last


class ICMPolicy(BasePolicy):
    r"""A policy with an intrinsic curiosity module (arXiv:1705.05363): errors of its predictions are added to rewards.

    .. math::
        r^i_t &= \eta\, L_F, \qquad L_F = \frac12 \lVert \hat\phi(s_{t+1}) - \phi(s_{t+1}) \rVert^2 \\
        L &= \lambda \bigl((1 - \beta)\, L_I + \beta L_F\bigr)

    (equations 5 to 7), with :math:`L_I` the cross-entropy of the predicted actions (equation 3). The model,
    :class:`rlfast.utils.net.discrete.IntrinsicCuriosityModule`, computes :math:`L_F` and the predictions. The paper has
    no :math:`\lambda` here: it weights the loss of the policy. Algorithms that learn from the rewards of the sample,
    such as :class:`PPOPolicy`, learn from the sums, and so do those that add n rewards of the buffer, such as
    :class:`DQNPolicy`. The rewards in the buffer stay.

    :param policy: the wrapped policy, which acts and learns from the sums. Its actions are discrete.
    :param model: the model that predicts features and actions.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param lr_scale: factor of the model's loss, :math:`\lambda`.
    :param reward_scale: factor of the errors that are added to rewards, :math:`\eta`.
    :param forward_loss_weight: weight of the prediction of features in the model's loss, :math:`\beta`, between 0
        and 1; the prediction of actions has the rest.
    :param action_space: see :class:`BasePolicy`, also for the other parameters.
    """

    def __init__(
        self,
        *,
        policy: BasePolicy,
        model: IntrinsicCuriosityModule,
        optim: OptionalOptimizer,
        lr_scale: float,
        reward_scale: float,
        forward_loss_weight: float,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.policy = policy
        self.model = model
        self.optim = make_optimizer(optim, model.parameters())
        self.lr_scale, self.reward_scale, self.forward_loss_weight = lr_scale, reward_scale, forward_loss_weight

    @property
    def learns_from(self) -> LearnsFrom | None:
        """What the wrapped policy learns from."""
        return self.policy.learns_from

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> ActBatchProtocol:
        """Choose actions by the wrapped policy."""
        result: ActBatchProtocol = self.policy(batch, state, **kwargs)
        return result

    def exploration_noise(self, act: Any, batch: ObsBatchProtocol) -> Any:
        """Add the noise of the wrapped policy."""
        return self.policy.exploration_noise(act, batch)

    def start_episodes(self, rows: "NDArray[np.bool_]") -> None:
        """Tell the wrapped policy which of its last actions are followed by the first of an episode.

        :param rows: ``[B]``.
        """
        start = getattr(self.policy, "start_episodes", None)
        if start is not None:
            start(rows)

    def map_action(self, act: arr_type) -> NDArray[Any]:
        """Map actions by the wrapped policy."""
        return self.policy.map_action(act)

    def map_action_inverse(self, act: arr_type) -> NDArray[Any]:
        """Map actions back by the wrapped policy."""
        return self.policy.map_action_inverse(act)

    def set_eps(self, eps: float) -> None:
        """Set the probability of random actions.

        :param eps: the probability.
        :raises NotImplementedError: if the wrapped policy has none.
        """
        set_eps: Callable[[float], None] | None = getattr(self.policy, "set_eps", None)
        if set_eps is None:
            raise NotImplementedError(f"{type(self.policy).__name__} has no set_eps")
        set_eps(eps)

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> RolloutBatchProtocol:
        """Add the model's errors to the rewards, and process the sample by the wrapped policy."""
        error, act_hat = self._predict(batch)
        batch.policy = Batch(batch.get("policy", Batch()), orig_rew=batch.rew, act_hat=act_hat, mse_loss=error)
        surprise = to_numpy(error.detach() * self.reward_scale)  # equation 6
        batch.rew = batch.rew + surprise.reshape(-1, *(1,) * (np.ndim(batch.rew) - 1))
        rows = cast(ReplayBuffer, CuriousRows(buffer, self._surprise))
        return self.policy.process_fn(batch, rows, indices)

    def _predict(self, rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the errors and the predicted actions of rows."""
        error, act_hat = self.model(rows.obs, rows.act, rows.obs_next)
        return error, act_hat

    def _surprise(self, rows: object) -> NDArray[np.floating]:
        """Return the scaled errors of rows, ``[B]``."""
        with torch.no_grad():
            error, _ = self._predict(rows)
        return cast("NDArray[np.floating]", to_numpy(error * self.reward_scale))

    def post_process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> None:
        """Update priorities by the wrapped policy, and restore the rewards of the sample."""
        self.policy.post_process_fn(batch, buffer, indices)
        batch.rew = batch.policy.orig_rew

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> ICMTrainingStats:
        """Train the wrapped policy, then the model."""
        stats = self.policy.learn(batch, *args, **kwargs)
        act_hat = batch.policy.act_hat
        act = to_torch(batch.act, torch.long, act_hat.device).flatten()
        inverse_loss = functional.cross_entropy(act_hat, act)  # equation 3
        forward_loss = batch.policy.mse_loss.mean()
        share = self.forward_loss_weight
        loss = ((1 - share) * inverse_loss + share * forward_loss) * self.lr_scale  # equation 7
        descend(loss, self.optim)
        losses = torch.stack([loss, forward_loss, inverse_loss]).tolist()
        return ICMTrainingStats(stats, icm_loss=losses[0], icm_forward_loss=losses[1], icm_inverse_loss=losses[2])
