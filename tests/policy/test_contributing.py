"""An algorithm as CONTRIBUTING.md describes it: TD3, written by that page on the template that its table names."""

from dataclasses import dataclass

import pytest
import torch
from gymnasium.spaces import Box

from continuous import assert_resumes_exactly, transitions, weights
from rlfast.functional.losses import smoothed_action
from rlfast.policy import TD3Policy, TrainingStats
from rlfast.policy.learners.continuous.deterministic_actor import DeterministicActor
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam


@dataclass(kw_only=True)
class TwinStats(TrainingStats):
    actor_loss: float
    critic1_loss: float
    critic2_loss: float


class Twin(DeterministicActor):
    """TD3 (Fujimoto et al., arXiv:1802.09477, algorithm 1)."""

    stats_class = TwinStats
    critic_names = ("critic", "critic2")
    lagged_names = ("actor", "critic", "critic2")

    @validate_arguments
    def __init__(
        self,
        *,
        actor,
        actor_optim,
        critic,
        critic_optim,
        action_space,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        policy_noise: NonNegativeFloat = 0.2,
        update_actor_freq: PositiveInt = 2,
        noise_clip: NonNegativeFloat = 0.5,
        compile=False,
    ):
        super().__init__(
            actor=actor,
            actor_optim=actor_optim,
            action_space=action_space,
            tau=tau,
            gamma=gamma,
            estimation_step=1,
            exploration_noise="default",
            action_scaling=True,
            action_bound_method="clip",
            observation_space=None,
            lr_scheduler=None,
        )
        self.add_critics(critic, critic_optim, None, None)
        self.policy_noise, self.noise_clip, self.update_actor_freq = policy_noise, noise_clip, update_actor_freq
        self.compile_update(compile, actor, critic, self.critic2)

    @property
    def period(self):
        return self.update_actor_freq

    def draw_next(self, rows):
        return (self.draw_normal((rows, 2), torch.float32, "cpu"),)

    def next_value(self, obs_next, state=None, noise=None):
        act = self.best_actions(obs_next, state, model="actor_old")
        noise = self.draw_next(len(act))[0] if noise is None else noise
        act = smoothed_action(act, noise, self.policy_noise, self.noise_clip)
        return torch.minimum(*self.critic_values(obs_next, act, old=True))


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
    assert torch.equal(weights(ours), weights(theirs))
    assert losses[-1].get_loss_stats_dict().keys() == {"actor_loss", "critic1_loss", "critic2_loss"}


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_its_training_state_is_found(carry):
    assert_resumes_exactly(lambda seed=3: make(Twin, seed), carry)
