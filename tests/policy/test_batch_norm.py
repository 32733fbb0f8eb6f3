"""Policies act by the running statistics of batch normalization, in training mode too."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DDPGPolicy, DQNPolicy, ICMPolicy, PPOPolicy
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import Actor as RealActor
from rlfast.utils.net.continuous import Critic as RealCritic
from rlfast.utils.net.discrete import Actor, Critic, IntrinsicCuriosityModule
from rlfast.utils.net.ensemble import BatchRenorm
from rlfast.utils.optim import adam

DISCRETE, BOX = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (1,), np.float32)


class Counting(gym.Env):
    observation_space = gym.spaces.Box(0, 9, (2,), np.float32)

    def __init__(self, actions):
        self.action_space = actions

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, self.steps, np.float32), 1.0, False, self.steps == 9, {}


class Normed(nn.Module):
    """A network of a user, with a layer that normalizes what ``inner`` gives."""

    def __init__(self, inner, norm, outputs=2):
        super().__init__()
        self.inner, self.norm, self.last = inner, norm, nn.Linear(8, outputs)

    def forward(self, obs, state=None, info=None):
        hidden = self.inner(torch.as_tensor(obs, dtype=torch.float32))
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.last(self.norm(hidden)), state


def dqn(model=None):
    model = Net(2, 2, [8], norm_layer=nn.BatchNorm1d) if model is None else model
    return DQNPolicy(model=model, optim=adam(1e-3), action_space=DISCRETE, target_update_freq=10)


def ddpg():
    actor = RealActor(Net(2, hidden_sizes=[8], norm_layer=nn.BatchNorm1d), (1,))
    critic = RealCritic(Net(2, (1,), [8], concat=True, norm_layer=nn.BatchNorm1d))
    return DDPGPolicy(actor=actor, actor_optim=adam(1e-3), critic=critic, critic_optim=adam(1e-3), action_space=BOX)


def ppo():
    return PPOPolicy(
        actor=Actor(Net(2, hidden_sizes=[8], norm_layer=nn.BatchNorm1d), 2, softmax_output=False),
        critic=Critic(Net(2, hidden_sizes=[8])),
        optim=adam(1e-3),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=DISCRETE,
        action_scaling=False,
    )


def curious():
    model = IntrinsicCuriosityModule(nn.Linear(2, 4), 4, 2)
    scales = {"lr_scale": 1.0, "reward_scale": 0.1, "forward_loss_weight": 0.2}
    optim = torch.optim.Adam(model.parameters())
    return ICMPolicy(policy=dqn(), model=model, optim=optim, action_space=DISCRETE, **scales)


POLICIES = {
    "DQN": dqn,
    "DDPG": ddpg,
    "PPO": ppo,
    "ICM": curious,
    "a user's network": lambda: dqn(Normed(nn.Linear(2, 8), nn.BatchNorm1d(8))),
    "renormalization": lambda: dqn(Normed(nn.Linear(2, 8), BatchRenorm(8))),
    "recurrent": lambda: dqn(Normed(Recurrent(1, 2, 8, hidden_layer_size=8), nn.BatchNorm1d(8))),
}


def statistics(policy):
    return {name: buffer.clone() for name, buffer in policy.named_buffers() if "running" in name or "num_b" in name}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", POLICIES)
def test_acting_neither_uses_nor_changes_statistics_of_the_batch(name, count):
    torch.manual_seed(0)
    policy = POLICIES[name]().train()
    policy.seed(0)
    actions = BOX if name == "DDPG" else DISCRETE
    envs = DummyVectorEnv([lambda: Counting(actions)] * count)
    collector = Collector(policy, envs, VectorReplayBuffer(99, count))
    before = statistics(policy)
    collector.collect(n_step=8 * count)
    policy.compute_action(np.zeros(2, np.float32))
    assert before
    assert same(before, statistics(policy))
    if name not in ("PPO", "recurrent"):  # an action depends on its own observation alone
        obs, act = collector.buffer[:].obs, collector.buffer[:].act
        policy.eval()
        alone = [policy(Batch(obs=obs[k : k + 1], info={})).act[0] for k in range(len(obs))]
        np.testing.assert_allclose(
            np.array([np.asarray(torch.as_tensor(one).detach()) for one in alone]), act, atol=1e-6
        )


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "recurrent"])
def test_learning_uses_and_changes_statistics_of_the_batch(name):
    policy = POLICIES[name]().train()
    actions = BOX if name == "DDPG" else DISCRETE
    collector = Collector(policy, DummyVectorEnv([lambda: Counting(actions)]), VectorReplayBuffer(99, 1))
    collector.collect(n_step=20)
    before = statistics(policy)
    on_policy = policy.learns_from == "rollouts"
    policy.update(0 if on_policy else 16, collector.buffer, **({"batch_size": 8, "repeat": 1} if on_policy else {}))
    assert not same(before, statistics(policy))


def test_dropout_stays_in_training_mode_while_acting():
    model = Normed(nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5)), nn.BatchNorm1d(8))
    policy = dqn(model).train()
    modes = []
    model.inner[1].register_forward_hook(lambda module, *_: modes.append(module.training))
    model.norm.register_forward_hook(lambda module, *_: modes.append(module.training))
    policy.compute_action(np.zeros(2, np.float32))
    Collector(policy, DummyVectorEnv([lambda: Counting(DISCRETE)]), VectorReplayBuffer(9, 1)).collect(n_step=1)
    assert modes == [True, False, True, False]
    assert model.norm.training


def test_an_error_while_acting_restores_the_mode():
    policy = dqn(Normed(nn.Linear(3, 8), nn.BatchNorm1d(8))).train()
    with pytest.raises(RuntimeError):
        policy.compute_action(np.zeros(2, np.float32))
    assert policy.model.norm.training


def new_actor(policy):
    policy.actor = ddpg().actor


def new_layer(policy):
    policy.actor.preprocess.model.model[1] = nn.BatchNorm1d(8)


def inserted_layer(policy):
    policy.actor.preprocess.model.model.insert(1, nn.BatchNorm1d(8))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("change", [new_actor, new_layer, inserted_layer])
def test_layers_replaced_after_acting_act_by_running_statistics(change, count):
    policy = ddpg().train()
    collector = Collector(policy, DummyVectorEnv([lambda: Counting(BOX)] * count), VectorReplayBuffer(99, count))
    collector.collect(n_step=2 * count)
    change(policy)
    before = statistics(policy)
    collector.collect(n_step=2 * count)
    assert same(before, statistics(policy))
    assert all(module.training for module in policy.actor.modules())


def test_a_layer_without_running_statistics_is_named():
    policy = dqn(Normed(nn.Linear(2, 8), nn.BatchNorm1d(8, track_running_stats=False))).train()
    with pytest.raises(ValueError, match=r"the layer model\.norm, BatchNorm1d.*track_running_stats=True"):
        policy.compute_action(np.zeros(2, np.float32))
    collector = Collector(policy, DummyVectorEnv([lambda: Counting(DISCRETE)]), VectorReplayBuffer(99, 1))
    with pytest.raises(ValueError, match=r"the layer model\.norm"):
        collector.collect(n_step=2)
