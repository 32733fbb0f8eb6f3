"""Curiosity: a policy is rewarded for what it could not predict."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from rlfast.data import Batch, to_numpy, to_torch
from rlfast.policy._returns import Index
from rlfast.policy.base import BasePolicy, TLearningRateScheduler, TrainingStats, TrainingStatsWrapper
from rlfast.utils.net.discrete import IntrinsicCuriosityModule

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol, arr_type


class ICMTrainingStats(TrainingStatsWrapper):
    """The losses of the policy inside, and those of its model.

    :param wrapped_stats: of the policy inside.
    :param icm_loss: what the optimizer of the model has minimized.
    :param icm_forward_loss: of the prediction of features.
    :param icm_inverse_loss: of the prediction of actions.
    """

    def __init__(
        self, wrapped_stats: TrainingStats, *, icm_loss: float, icm_forward_loss: float, icm_inverse_loss: float
    ) -> None:
        self.icm_loss = icm_loss
        self.icm_forward_loss = icm_forward_loss
        self.icm_inverse_loss = icm_inverse_loss
        super().__init__(wrapped_stats)


class ICMPolicy(BasePolicy):
    """A policy with an intrinsic curiosity module (arXiv:1705.05363): errors of its predictions are added to rewards.

    The sum reaches algorithms that learn from the rewards of the sample, such as :class:`PPOPolicy`; n-step returns,
    such as those of :class:`DQNPolicy`, are made of the rewards in the buffer, which stay as they are.

    :param policy: acts, and learns from the sums. It has discrete actions.
    :param model: predicts.
    :param optim: of the model.
    :param lr_scale: what the model's loss is multiplied by.
    :param reward_scale: what the errors are multiplied by.
    :param forward_loss_weight: share of the prediction of features in the model's loss, between 0 and 1; the rest is
        that of the prediction of actions.
    :param action_space: see :class:`BasePolicy`, as are the others.
    """

    def __init__(
        self,
        *,
        policy: BasePolicy,
        model: IntrinsicCuriosityModule,
        optim: torch.optim.Optimizer,
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
        self.optim = optim
        self.lr_scale = lr_scale
        self.reward_scale = reward_scale
        self.forward_loss_weight = forward_loss_weight

    def forward(self, batch: "ObsBatchProtocol", state: Any = None, **kwargs: Any) -> "ActBatchProtocol":
        """Act as the policy inside."""
        result: ActBatchProtocol = self.policy(batch, state, **kwargs)
        return result

    def exploration_noise(self, act: Any, batch: "ObsBatchProtocol") -> Any:
        """Add the noise of the policy inside."""
        return self.policy.exploration_noise(act, batch)

    def map_action(self, act: "arr_type") -> NDArray[Any]:
        """Map actions as the policy inside."""
        return self.policy.map_action(act)

    def map_action_inverse(self, act: "arr_type") -> NDArray[Any]:
        """Map actions back as the policy inside."""
        return self.policy.map_action_inverse(act)

    def set_eps(self, eps: float) -> None:
        """Set the probability of random actions.

        :raises NotImplementedError: the policy inside has none.
        """
        set_eps: Callable[[float], None] | None = getattr(self.policy, "set_eps", None)
        if set_eps is None:
            raise NotImplementedError(f"{type(self.policy).__name__} has no set_eps")
        set_eps(eps)

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "RolloutBatchProtocol":
        """Add the model's errors to the rewards, and have the policy inside prepare the sample."""
        error, act_hat = self.model(batch.obs, batch.act, batch.obs_next)
        batch.policy = Batch(batch.get("policy", Batch()), orig_rew=batch.rew, act_hat=act_hat, mse_loss=error)
        surprise = to_numpy(error.detach() * self.reward_scale)
        batch.rew = batch.rew + surprise.reshape(-1, *(1,) * (np.ndim(batch.rew) - 1))
        return self.policy.process_fn(batch, buffer, indices)

    def post_process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> None:
        """Have the policy inside set priorities, and give the sample its own rewards back."""
        self.policy.post_process_fn(batch, buffer, indices)
        batch.rew = batch.policy.orig_rew

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> ICMTrainingStats:
        """Improve the policy inside, then the model."""
        stats = self.policy.learn(batch, *args, **kwargs)
        act_hat = batch.policy.act_hat
        inverse_loss = functional.cross_entropy(act_hat, to_torch(batch.act, torch.long, act_hat.device).flatten())
        forward_loss = batch.policy.mse_loss.mean()
        share = self.forward_loss_weight
        loss = ((1 - share) * inverse_loss + share * forward_loss) * self.lr_scale
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        losses = torch.stack([loss, forward_loss, inverse_loss]).tolist()
        return ICMTrainingStats(stats, icm_loss=losses[0], icm_forward_loss=losses[1], icm_inverse_loss=losses[2])
