"""DQN on Pong as DeepMind's agents saw it: a day on a processor, a few hours with a GPU.

python examples/dqn_pong.py
"""

import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env.atari import make_atari_env
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.optim import adam


def train(
    steps: int = 10_000_000, seed: int = 0, device: str = "cuda" if torch.cuda.is_available() else "cpu"
) -> float:
    """Return the best mean return of 10 test games; training stops at 20."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    env, train_envs, test_envs = make_atari_env("PongNoFrameskip-v4", seed, training_num=10, test_num=10)
    policy = DQNPolicy(
        model=NatureCNN(4, 84, 84, env.action_space.n, device, scale=1 / 255),
        optim=adam(1e-4),
        action_space=env.action_space,
        estimation_step=3,
        target_update_freq=500,
    )
    policy.seed(seed)
    options = {"stack_num": 4, "save_only_last_obs": True, "ignore_obs_next": True}  # each frame is kept once
    buffer = VectorReplayBuffer(100_000, buffer_num=10, seed=seed, **options)
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    train_collector.reset()
    train_collector.collect(n_step=min(steps, 1_000), random=True)
    trainer = OffpolicyTrainer(
        policy=policy,
        train_collector=train_collector,
        test_collector=Collector(policy, test_envs, exploration_noise=True),
        max_epoch=-(-steps // 100_000),
        step_per_epoch=min(steps, 100_000),
        step_per_collect=10,
        update_per_step=0.1,
        episode_per_test=10,
        batch_size=32,
        train_fn=lambda _epoch, env_step: policy.set_eps(max(0.05, 1 - 0.95 * env_step / 1_000_000)),
        test_fn=lambda _epoch, _env_step: policy.set_eps(0.005),
        stop_fn=lambda mean_return: mean_return >= 20,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
