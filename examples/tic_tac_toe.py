"""Two DQN agents learn tic-tac-toe by playing each other, and then play a random player. It takes a minute or two.

pip install pettingzoo pygame
python examples/tic_tac_toe.py
"""

import numpy as np
import torch
from pettingzoo.classic import tictactoe_v3

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, PettingZooEnv
from rlfast.policy import DQNPolicy, MultiAgentPolicyManager, RandomPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


def make_game() -> PettingZooEnv:
    return PettingZooEnv(tictactoe_v3.env())


def make_player() -> DQNPolicy:
    return DQNPolicy(
        model=Net(state_shape=(3, 3, 2), action_shape=9, hidden_sizes=[128, 128]),
        optim=adam(1e-3),
        action_space=make_game().action_space,
        discount_factor=0.9,
        estimation_step=2,  # of the player's own turns
        target_update_freq=320,
        clip_loss_grad=True,
    )


def share_won(player: DQNPolicy, seed: int) -> float:
    """Return the share of 200 games that a player wins against a random one, half of them as the second player."""
    player.set_eps(0.0)
    opponent = RandomPolicy(action_space=player.action_space)
    won = 0
    for place, policies in enumerate([[player, opponent], [opponent, player]]):
        games = DummyVectorEnv([make_game] * 10)
        manager = MultiAgentPolicyManager(policies=policies, env=make_game())
        manager.seed(seed)
        returns = Collector(manager, games).collect(n_episode=100).returns
        won += int(np.sum(returns[:, place] == 1))
    return won / 200


def train(steps: int = 20_000, seed: int = 0) -> float:
    """Return the smaller of the two players' shares of games won."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    games = DummyVectorEnv([make_game] * 10)
    games.seed(seed)
    players = [make_player(), make_player()]
    manager = MultiAgentPolicyManager(policies=players, env=make_game())
    manager.seed(seed)

    def explore_less(_epoch: int, env_step: int) -> None:
        for player in players:
            player.set_eps(max(0.2, 1.0 - 2 * env_step / steps))

    OffpolicyTrainer(
        policy=manager,
        train_collector=Collector(manager, games, VectorReplayBuffer(20_000, 10, seed=seed), exploration_noise=True),
        test_collector=None,
        max_epoch=1,
        step_per_epoch=steps,
        step_per_collect=10,
        update_per_step=0.1,
        batch_size=64,
        train_fn=explore_less,
    ).run()
    return min(share_won(player, seed) for player in players)


if __name__ == "__main__":
    print(f"games won: {train():.0%}")
