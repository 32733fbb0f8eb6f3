import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlfast.data import Batch, Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy, ICMPolicy, PPOPolicy
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils.net.common import ActorCritic, Net
from rlfast.utils.net.discrete import Actor, Critic, IntrinsicCuriosityModule


def ppo(space):
    backbone = Net(4, hidden_sizes=[16])
    actor, critic = Actor(backbone, 2, softmax_output=False), Critic(backbone)
    return PPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=1e-3),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=space,
        action_scaling=False,
    )


def dqn(space, n_step=1):
    net = Net(4, 2, hidden_sizes=[16])
    optim = torch.optim.Adam(net.parameters())
    return DQNPolicy(model=net, optim=optim, action_space=space, target_update_freq=10, estimation_step=n_step)


def curious(kind, reward_scale=0.1, lr_scale=1.0, share=0.2, start=0, rate=1e-2):
    torch.manual_seed(0)
    space = gym.spaces.Discrete(2, start=start)
    model = IntrinsicCuriosityModule(nn.Linear(4, 8), 8, 2, hidden_sizes=[16])
    return ICMPolicy(
        policy=kind(space),
        model=model,
        optim=torch.optim.Adam(model.parameters(), lr=rate),
        lr_scale=lr_scale,
        reward_scale=reward_scale,
        forward_loss_weight=share,
        action_space=space,
    )


def filled(policy, kind=VectorReplayBuffer, **options):
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=20)] * 2)
    envs.seed(1)
    collector = Collector(policy, envs, kind(200, 2, **options), exploration_noise=True)
    collector.reset()
    collector.collect(n_step=64)
    return collector


def test_the_module_predicts_features_and_actions():
    torch.manual_seed(0)
    module = IntrinsicCuriosityModule(nn.Linear(3, 5), np.int64(5), np.int64(4), hidden_sizes=[7])
    s1, s2 = np.random.default_rng(0).normal(size=(2, 6, 3))
    act = np.array([0, 1, 2, 3, 0, 1])
    error, logits = module(s1, act, s2)
    before, after = (module.feature_net(torch.as_tensor(s, dtype=torch.float32)) for s in (s1, s2))
    predicted = module.forward_model(torch.cat([before, torch.eye(4)[act]], 1))
    torch.testing.assert_close(error, (predicted - after).pow(2).sum(1) / 2)
    torch.testing.assert_close(logits, module.inverse_model(torch.cat([before, after], 1)))
    assert [len(list(part.children())) for part in (module.forward_model, module.inverse_model)] == [1, 1]
    torch.testing.assert_close(module(s1, act.astype(float).reshape(6, 1), s2)[0], error)


def test_errors_are_added_to_rewards_while_learning_alone():
    policy = curious(ppo, reward_scale=3.0)
    buffer = filled(policy).buffer
    batch, indices = buffer.sample(0)
    rewards = batch.rew.copy()
    prepared = policy.process_fn(batch, buffer, indices)
    error = policy.model(batch.obs, batch.act, batch.obs_next)[0]
    np.testing.assert_allclose(prepared.rew, rewards + 3 * error.detach().numpy(), rtol=1e-5)
    assert prepared.rew.max() > 1
    plain = policy.policy.process_fn(buffer[indices], buffer, indices)
    assert (prepared.returns > plain.returns).all()
    policy.learn(prepared, 16, 1)
    policy.post_process_fn(prepared, buffer, indices)
    np.testing.assert_array_equal(prepared.rew, rewards)
    np.testing.assert_array_equal(buffer[indices].rew, rewards)


@pytest.mark.pitfall("tianshou-icm-nstep")
@pytest.mark.parametrize("n_step", [1, 3])
def test_errors_are_added_to_sums_of_rewards(n_step):
    policy = curious(lambda space: dqn(space, n_step), reward_scale=3.0)
    buffer = filled(policy).buffer
    batch, indices = buffer.sample(0)
    expected = []
    for row in indices:
        total, factor, now, after = 0.0, 1.0, None, row
        while now != after and factor > 0.99**n_step:
            now = after
            step = buffer[np.array([now])]
            total += factor * (step.rew[0] + 3 * policy.model(step.obs, step.act, step.obs_next)[0].item())
            factor, after = factor * 0.99, int(buffer.next(now))
        expected.append(total + factor * (not buffer.terminated[now]) * value_after(policy.policy, buffer, now))
    processed = policy.process_fn(batch, buffer, indices)
    np.testing.assert_allclose(processed.returns.flatten(), expected, rtol=1e-4)
    assert set(buffer[indices].rew) == {1.0}


def value_after(learner, buffer, row):
    obs_next = buffer.get(np.array([row]), "obs_next")
    best = learner.model(obs_next)[0].argmax(1)
    return learner.model_old(obs_next)[0][0, best].item()


def test_what_the_buffer_has_for_the_policy_stays():
    policy = curious(dqn)
    buffer = filled(policy).buffer
    batch, indices = buffer.sample(8)
    batch.policy = Batch(mark=np.arange(8))
    np.testing.assert_array_equal(policy.process_fn(batch, buffer, indices).policy.mark, np.arange(8))


def test_the_losses_are_those_of_the_paper():
    policy = curious(dqn, lr_scale=5.0, share=0.2)
    buffer = filled(policy).buffer
    batch, indices = buffer.sample(0)
    error, logits = policy.model(batch.obs, batch.act, batch.obs_next)
    inverse = nn.functional.cross_entropy(logits, torch.as_tensor(batch.act)).item()
    stats = policy.learn(policy.process_fn(batch, buffer, indices))
    assert stats.icm_forward_loss == pytest.approx(error.mean().item())
    assert stats.icm_inverse_loss == pytest.approx(inverse)
    assert stats.icm_loss == pytest.approx(5 * (0.2 * stats.icm_forward_loss + 0.8 * inverse))
    assert [*stats.get_loss_stats_dict()] == ["loss", "icm_loss", "icm_forward_loss", "icm_inverse_loss"]


@pytest.mark.parametrize("kind", [ppo, dqn])
def test_the_model_learns_and_the_policy_too(kind):
    policy = curious(kind)
    before = copy.deepcopy([*policy.policy.parameters()])
    collector = filled(policy)
    options = {"batch_size": 16, "repeat": 1} if kind is ppo else {}
    losses = [policy.update(0, collector.buffer, **options).icm_forward_loss for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 2
    assert not all(old.equal(new) for old, new in zip(before, policy.policy.parameters(), strict=True))


@pytest.mark.parametrize("optim", [torch.optim.Adam, None])
def test_the_optimizer_of_the_model_may_be_made_by_a_factory_or_missing(optim):
    space, model = gym.spaces.Discrete(2), IntrinsicCuriosityModule(nn.Linear(4, 8), 8, 2, hidden_sizes=[16])
    given = {"lr_scale": 1.0, "reward_scale": 0.1, "forward_loss_weight": 0.2, "action_space": space}
    policy = ICMPolicy(policy=dqn(space), model=model, optim=optim, **given)
    buffer = filled(policy).buffer
    if optim is None:
        with pytest.raises(ValueError, match="can act, but not learn"):
            policy.update(8, buffer)
    else:
        before = copy.deepcopy(model.state_dict())
        policy.update(8, buffer)
        assert all((before[name] != now).any() for name, now in model.state_dict().items())


def test_several_learners_average_gradients_of_the_model():
    policy, averaged = curious(dqn), []
    policy.optim.reduce_gradients = averaged.append
    policy.update(8, filled(policy).buffer)
    assert len(averaged) == 1


def test_it_trains_as_any_policy():
    trained = []
    for kind in (ppo, dqn):
        policy = curious(kind)
        collector = (
            filled(policy, PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4) if kind is dqn else filled(policy)
        )
        options = {
            "policy": policy,
            "train_collector": collector,
            "test_collector": None,
            "max_epoch": 1,
            "step_per_epoch": 64,
            "step_per_collect": 32,
            "batch_size": 16,
            "verbose": False,
            "show_progress": False,
        }
        if kind is ppo:
            trainer = OnpolicyTrainer(**options, repeat_per_collect=2, episode_per_test=None)
        else:
            trainer = OffpolicyTrainer(**options, update_per_step=0.25, episode_per_test=None)
        trained.append(list(trainer)[-1].training_stat.get_loss_stats_dict())
        if kind is dqn:
            assert len(np.unique(collector.buffer.weight[collector.buffer.sample_indices(0)])) > 2
    assert all("icm_loss" in losses for losses in trained)


def test_exploration_is_that_of_the_policy_inside():
    policy = curious(dqn, start=3)
    policy.set_eps(1.0)
    acts = policy.exploration_noise(np.zeros(200, int), Batch(obs=np.zeros((200, 4)), info={}))
    assert set(acts) == {0, 1}
    assert set(policy.map_action(acts)) == {3, 4}
    np.testing.assert_array_equal(policy.map_action_inverse(policy.map_action(acts)), acts)
    with pytest.raises(NotImplementedError, match="PPOPolicy has no set_eps"):
        curious(ppo).set_eps(0.1)


def test_state_goes_with_the_policy():
    policy, other = curious(dqn), curious(dqn, rate=0.5)
    policy.update(0, filled(policy).buffer)
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    assert other.optim.param_groups[0]["lr"] == 1e-2
    for own, loaded in zip(policy.parameters(), other.parameters(), strict=True):
        assert own.equal(loaded)
    policy.eval()
    assert not policy.policy.training
    assert not policy.model.training


class Rooms(gym.Env):
    """Three actions, the last one illegal where there is a mask."""

    action_space = gym.spaces.Discrete(3)

    def __init__(self, kind):
        self.kind = kind
        box = gym.spaces.Box(-9, 9, (2,), np.float32)
        parts = {"obs": box, "mask": gym.spaces.MultiBinary(3)} if kind == "masked" else {"here": box, "there": box}
        self.observation_space = gym.spaces.Dict(parts)

    def _observe(self):
        obs = np.full(2, self.steps, np.float32)
        return {"obs": obs, "mask": np.int8([1, 1, 0])} if self.kind == "masked" else {"here": obs, "there": -obs}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        assert action < 2 or self.kind != "masked"
        self.steps += 1
        return self._observe(), 1.0, self.steps > 4, False, {}


class Foreign(nn.Module):
    """A network of a user: it gets observations as buffers return them."""

    def __init__(self, outputs, kind, state=False):
        super().__init__()
        self.layer, self.kind, self.state = nn.Linear(4 if kind == "dict" else 2, outputs), kind, state

    def forward(self, obs, state=None, info=None):
        if self.kind == "masked":
            inner = obs.obs if isinstance(obs, Batch) else obs  # DQN gives all networks observations without a mask
            parts = [inner]
        else:
            parts = [obs.here, obs.there]
        out = self.layer(torch.cat([torch.as_tensor(part, dtype=torch.float32) for part in parts], 1))
        return (out, state) if self.state else out


def learner(name, net, critic):
    space, rates = Rooms.action_space, {"lr": 1e-3}
    if name == "PPO":
        optim = torch.optim.Adam([*net.parameters(), *critic.parameters()], **rates)
        return PPOPolicy(
            actor=net,
            critic=critic,
            optim=optim,
            dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
            action_space=space,
            action_scaling=False,
        )
    optim = torch.optim.Adam(net.parameters(), **rates)
    return DQNPolicy(model=net, optim=optim, action_space=space, estimation_step=3 if name == "3 steps" else 1)


@pytest.mark.parametrize(("kind", "own"), [("masked", True), ("masked", False), ("dict", False)])
@pytest.mark.parametrize("name", ["DQN", "3 steps", "PPO"])
def test_masked_and_dict_observations(name, kind, own):
    torch.manual_seed(0)
    if own:
        net, critic, features = Net(2, 3, [8]), Critic(Net(2, hidden_sizes=[8])), nn.Linear(2, 8)
    else:
        net, critic, features = Foreign(3, kind, state=True), Foreign(1, kind), Foreign(8, kind)
    model = IntrinsicCuriosityModule(features, 8, 3)
    policy = ICMPolicy(
        policy=learner(name, net, critic),
        model=model,
        optim=torch.optim.Adam(model.parameters()),
        lr_scale=1.0,
        reward_scale=0.1,
        forward_loss_weight=0.2,
        action_space=Rooms.action_space,
    )
    collector = Collector(policy, DummyVectorEnv([lambda: Rooms(kind)] * 2), VectorReplayBuffer(80, 2))
    policy.train()
    collector.collect(n_step=40)
    options = {"batch_size": 16, "repeat": 2} if name == "PPO" else {}
    before = features.state_dict()["weight" if own else "layer.weight"].clone()
    losses = policy.update(0 if name == "PPO" else 16, collector.buffer, **options).get_loss_stats_dict()
    assert np.isfinite([*losses.values()]).all()
    assert losses["icm_loss"] > 0
    assert not torch.equal(before, features.state_dict()["weight" if own else "layer.weight"])
