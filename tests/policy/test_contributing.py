"""An algorithm as CONTRIBUTING.md describes it: TD3, written by that page on the base class that its table names."""

from dataclasses import dataclass

import pytest
import torch
from gymnasium.spaces import Box

from continuous import assert_resumes_exactly, transitions, weights
from rlfast.functional.losses import smoothed_action
from rlfast.policy import TD3Policy, TrainingStats
from rlfast.policy.actor_critic import ActorCriticLearner
from rlfast.policy.critics import q_values, twin_critics
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, validate_arguments
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam, descend


@dataclass(kw_only=True)
class TwinStats(TrainingStats):
    actor_loss: float
    critic1_loss: float
    critic2_loss: float


class Twin(ActorCriticLearner):
    """TD3 (Fujimoto et al., arXiv:1802.09477, algorithm 1)."""

    stats_class = TwinStats

    @validate_arguments
    def __init__(
        self,
        *,
        critic,
        critic_optim,
        policy_noise: NonNegativeFloat = 0.2,
        update_actor_freq: PositiveInt = 2,
        noise_clip: NonNegativeFloat = 0.5,
        **options,
    ):
        super().__init__(exploration_noise="default", **options)
        self.actor_old = self.lagged_copy(self.actor)
        twins = twin_critics(critic, critic_optim, None, None)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.critic_old, self.critic2_old = self.lagged_copy(self.critic), self.lagged_copy(self.critic2)
        self.policy_noise, self.noise_clip, self.update_actor_freq = policy_noise, noise_clip, update_actor_freq

    def is_due(self):
        return self._iter % self.update_actor_freq == 0

    def draw_next(self, rows):
        return (self.draw_normal((rows, 2), torch.float32, "cpu"),)

    def next_value(self, obs_next, state=None, *draws):
        act = smoothed_action(self.act(obs_next, state, model="actor_old"), *draws, self.policy_noise, self.noise_clip)
        return torch.minimum(q_values(self.critic_old, obs_next, act), q_values(self.critic2_old, obs_next, act))

    def gradient_step(self, sample):
        losses, errors = {}, []
        for name in ("critic", "critic2"):
            error = q_values(getattr(self, name), sample.obs, sample.act) - sample.returns
            loss = (sample.weight * error.square()).mean()
            descend(loss, getattr(self, f"{name}_optim"))
            losses["critic1_loss" if name == "critic" else "critic2_loss"] = loss.detach()
            errors.append(error.detach())
        if sample.is_due:
            act = self.act(sample.obs, sample.state, sample.batch)
            actor_loss = -q_values(self.critic, sample.obs, act).mean()
            descend(actor_loss, self.actor_optim)
            losses["actor_loss"] = actor_loss.detach()
            for name in ("actor", "critic", "critic2"):
                self.soft_update(getattr(self, f"{name}_old"), getattr(self, name), self.tau)
        return losses, -(errors[0] + errors[1]) / 2


def make(kind, seed=3):
    torch.manual_seed(seed)
    policy = kind(
        actor=Actor(Net(4, hidden_sizes=[8]), 2),
        actor_optim=adam(1e-2),
        critic=Critic(Net(4, 2, hidden_sizes=[8], concat=True)),
        critic_optim=adam(1e-2),
        action_space=Box(-2.0, 2.0, (2,)),
    )
    policy.seed(seed)
    return policy


def test_it_learns_what_the_algorithm_of_the_library_learns():
    ours, theirs = make(Twin), make(TD3Policy)
    first = weights(ours)
    for policy in (ours, theirs):
        buffer = transitions()
        losses = [policy.update(16, buffer) for _ in range(7)]
    assert not torch.equal(weights(ours), first)
    named = dict(theirs.named_parameters())
    assert all(torch.equal(value, named.pop(name)) for name, value in ours.named_parameters())
    assert not named
    assert losses[-1].get_loss_stats_dict().keys() == {"actor_loss", "critic1_loss", "critic2_loss"}


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_its_training_state_is_found(carry):
    assert_resumes_exactly(lambda seed=3: make(Twin, seed), carry)
