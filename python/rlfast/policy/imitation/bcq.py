from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack, cast

import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.data import to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol
from rlfast.functional.offline import autoencoder_loss, softened_minimum
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.critics import critic_step, q_values, twin_critics
from rlfast.policy.replay import Losses, ReplayLearner, ReplayOptions, Sample
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.common import dtype_of
from rlfast.utils.net.continuous import VAE
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class BCQTrainingStats(TrainingStats):
    """The statistics of one update of BCQ: each loss before its gradient step."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    vae_loss: float


TBCQTrainingStats = TypeVar("TBCQTrainingStats", bound=BCQTrainingStats)


class BCQPolicy(ReplayLearner):
    r"""Batch-constrained Q-learning, from fixed data (Fujimoto, Meger and Precup, arXiv:1812.02900, algorithm 1).

    .. math::
        y &= r + \gamma \max_{i \le n} \Bigl( \lambda \min_j Q^-_j(s', a_i) + (1 - \lambda) \max_j Q^-_j(s', a_i)
            \Bigr), \qquad a_i = \xi^-(s', \hat a_i), \quad \hat a_i \sim G(s') \\
        L(\xi) &= -\frac1B \sum Q_1\bigl(s, \xi(s, a)\bigr), \qquad a \sim G(s)

    The autoencoder G generates actions like those of the data, and the policy takes the best of several that
    :math:`\xi` has moved.

    :param actor_perturbation: :math:`\xi`, called as ``net(obs, act)``; returns moved actions, as
        :class:`rlfast.utils.net.continuous.Perturbation` does.
    :param actor_perturbation_optim: an optimizer of it, a factory such as :func:`rlfast.utils.optim.adam`, or None, as
        for the others, for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``. ``critic_optim`` is its optimizer.
    :param action_space: action space of one environment, a Box.
    :param vae: G, a :class:`rlfast.utils.net.continuous.VAE`. ``vae_optim`` is its optimizer.
    :param critic2: the second critic; None for a copy of the first with new parameters, and likewise ``critic2_optim``.
    :param device: has no effect.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param tau: size of the steps of target networks, in [0, 1]. Default: 0.005.
    :param lmbda: weight of the smaller of the two critics' values, :math:`\lambda`, in [0, 1]. Default: 0.75.
    :param forward_sampled_times: number of actions of which the policy takes the best. Default: 100.
    :param num_sampled_action: number of generated actions in a target, n. Default: 10.
    :param vae_optim: optimizes ``vae``: an optimizer, a factory, or None for a policy that only acts.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param critic2_optim: optimizes ``critic2``, likewise; None for one like ``critic_optim``.
    :param options: of :class:`rlfast.policy.BasePolicy`, and ``compile``; see :class:`DQNPolicy`.
    :raises ValueError: for a value out of range, or another kind of action space.
    """

    stats_class = BCQTrainingStats
    critic_target: nn.Module
    critic2_target: nn.Module
    actor_perturbation_target: nn.Module
    learns_from_returns = False  # targets are made by the autoencoder after its step

    @validate_arguments
    def __init__(
        self,
        *,
        actor_perturbation: nn.Module,
        actor_perturbation_optim: OptionalOptimizer,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        action_space: "Box[Any]",
        vae: VAE,
        vae_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        device: str | torch.device = "cpu",
        gamma: UnitFloat = 0.99,
        tau: UnitFloat = 0.005,
        lmbda: UnitFloat = 0.75,
        forward_sampled_times: PositiveInt = 100,
        num_sampled_action: PositiveInt = 10,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        **options: Unpack[ReplayOptions],
    ) -> None:
        if not isinstance(action_space, Box):
            raise ValueError(f"BCQ needs a Box action space, got {action_space}; DiscreteBCQPolicy takes a Discrete")
        check_networks(actor_perturbation=actor_perturbation, vae=vae)
        super().__init__(
            gamma=gamma,
            n_step=1,
            action_space=action_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            **options,
        )
        self.device, self.tau, self.lmbda = device, tau, lmbda
        self.forward_sampled_times, self.num_sampled_action = forward_sampled_times, num_sampled_action
        self.actor_perturbation, self.vae = actor_perturbation, vae
        self.actor_perturbation_optim = make_optimizer(actor_perturbation_optim, actor_perturbation.parameters())
        self.vae_optim = make_optimizer(vae_optim, vae.parameters())
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("critic", "critic2", "actor_perturbation", suffix="_target")

    @property
    def acting_network(self) -> nn.Module:
        """The network that moves actions."""
        return self.actor_perturbation

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> ActBatchProtocol:
        """Choose the action of the greatest value by the first critic, among ``forward_sampled_times`` for each row.

        :return: ``act``, an array ``[B, ...]``.
        """
        obs = self.inputs(batch.obs)
        many = obs.repeat_interleave(self.forward_sampled_times, dim=0)
        act = self.actor_perturbation(many, self.vae.decode(many, self._draw(len(many)).clamp(-0.5, 0.5)))
        best_B = self.critic(many, act).reshape(len(obs), -1).argmax(dim=1)
        chosen = act.reshape(len(obs), self.forward_sampled_times, -1)[torch.arange(len(obs)), best_B]
        act_BA = chosen.reshape(len(obs), *(self.action_space.shape or ())).detach().cpu().numpy()
        return cast(ActBatchProtocol, wrap({"act": act_BA}))

    def _draw(self, rows: int) -> torch.Tensor:
        return self.draw_normal((rows, self.vae.latent_dim), dtype_of(self.actor_perturbation), self._device)

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of reconstructions, and the latent numbers of next actions and of actions to be moved."""
        many = rows * self.num_sampled_action
        return self._draw(rows), self._draw(many).clamp(-0.5, 0.5), self._draw(rows).clamp(-0.5, 0.5)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the autoencoder, each critic, the moving network and the target networks (algorithm 1)."""
        noise, latent_next, latent = sample.draws
        sample = sample._replace(act=sample.act.flatten(1))
        obs, act = sample.obs, sample.act
        reconstruction, mean, std = self.vae(obs, act, noise)
        vae_loss = autoencoder_loss(reconstruction, act, mean, std)
        descend(vae_loss, self.vae_optim)

        with torch.no_grad():
            many = sample.obs_next.repeat_interleave(self.num_sampled_action, dim=0)
            moved = self.actor_perturbation_target(many, self.vae.decode(many, latent_next))
            q1_N, q2_N = (q_values(critic, many, moved) for critic in (self.critic_target, self.critic2_target))
            value_B = softened_minimum(q1_N, q2_N, self.lmbda).reshape(len(act), -1).amax(dim=1)  # equation 13
            returns_B = sample.bootstrapped(value_B)
            sampled = self.vae.decode(obs, latent)

        error1_B, critic1_loss = critic_step(self.critic, self.critic_optim, sample, returns_B)
        error2_B, critic2_loss = critic_step(self.critic2, self.critic2_optim, sample, returns_B)

        actor_loss = -self.critic(obs, self.actor_perturbation(obs, sampled)).mean()  # equation 14
        descend(actor_loss, self.actor_perturbation_optim)
        self.sync_weight()
        losses = {"actor_loss": actor_loss.detach(), "vae_loss": vae_loss.detach()}
        losses |= {"critic1_loss": critic1_loss, "critic2_loss": critic2_loss}
        return losses, -(error1_B + error2_B) / 2

    def inputs(self, obs: object) -> Any:
        """Return observations as tensors."""
        return to_torch(obs, dtype_of(self.actor_perturbation), self._device)
