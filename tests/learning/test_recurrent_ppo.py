"""PPO with an actor and a critic that have memories, on a task that needs them: CartPole with hidden velocities."""

import sys

import gymnasium as gym
import pytest
import torch

from learning.test_recurrent_dqn import cart_poles
from rlfast.data import Collector, VectorReplayBuffer
from rlfast.functional import Categorical
from rlfast.policy import PPOPolicy
from rlfast.trainer import OnpolicyTrainer
from rlfast.utils.net.common import Recurrent
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_it_remembers_what_it_cannot_see(seed):
    torch.manual_seed(seed)
    policy = PPOPolicy(
        actor=Actor(Recurrent(1, 2, 32, hidden_layer_size=32), 2, softmax_output=False),
        critic=Critic(Recurrent(1, 2, 32, hidden_layer_size=32)),
        optim=adam(2e-3),
        dist_fn=Categorical,
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        discount_factor=0.98,
        ent_coef=0.0,
        max_grad_norm=0.5,
        deterministic_eval=True,
    )
    policy.seed(seed)
    buffer = VectorReplayBuffer(
        1024, 8, stack_num=5, seed=seed
    )  # the actor starts from the state before the first frame
    trainer = OnpolicyTrainer(
        policy=policy,
        max_epoch=100,
        batch_size=256,
        train_collector=Collector(policy, cart_poles(8, seed), buffer),
        test_collector=Collector(policy, cart_poles(20, 1000 + seed)),
        step_per_epoch=4_096,
        step_per_collect=1_024,
        repeat_per_collect=6,
        episode_per_test=20,
        stop_fn=lambda mean_return: mean_return >= 400,
        max_step=150_000,
        verbose=False,
        show_progress=False,
    )
    info = trainer.run()
    sys.stdout.write(f"{info}\n")
    assert info.best_reward >= 400
