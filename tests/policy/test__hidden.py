"""Hidden states: stored by the collector, and what recurrent networks start from while they learn."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlfast.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import DQNPolicy, PPOPolicy, SACPolicy
from rlfast.policy._hidden import stored_state
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as QCritic
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

LENGTHS = (3, 4, 2)  # the last episode is running


def episodes(stack_num=1):
    """Give a buffer in which the state after step t of episode e is ``10 e + t + 1``, and its rows as (e, t)."""
    buffer, rows = ReplayBuffer(20, stack_num=stack_num), []
    for episode, length in enumerate(LENGTHS, 1):
        for t in range(length):
            state = {"hidden": np.full((1, 1), 10.0 * episode + t + 1), "cell": np.full(2, -t - 1.0)}
            obs = np.full(1, t, np.float32)
            flags = {"terminated": episode < 3 and t == length - 1, "truncated": False}
            row = Batch(obs=obs, act=0, rew=0.0, obs_next=obs + 1, info={}, policy={"hidden_state": state}, **flags)
            buffer.add(row)
            rows.append((episode, t))
    return buffer, rows


@pytest.mark.parametrize("stack_num", [1, 2, 3])
@pytest.mark.parametrize("of_next", [False, True])
def test_the_state_before_the_first_frame(stack_num, of_next):
    buffer, rows = episodes(stack_num)
    batch, indices = buffer.sample(0)
    state = stored_state(batch, buffer, indices, of_next=of_next)
    for (episode, t), hidden, cell in zip(rows, state.hidden, state.cell, strict=True):
        first = t - stack_num + 1 + of_next  # the frame the stack begins with
        assert hidden.tolist() == [[10.0 * episode + first if first > 0 else 0.0]]
        assert cell.tolist() == ([-float(first)] * 2 if first > 0 else [0.0, 0.0])
    assert isinstance(state.hidden, torch.Tensor)


def test_what_has_no_memory_has_no_state():
    buffer = ReplayBuffer(5)
    buffer.add(Batch(obs=0.0, act=0, rew=0.0, obs_next=1.0, terminated=False, truncated=False, info={}))
    batch, indices = buffer.sample(0)
    assert stored_state(batch, buffer, indices) is None


def collected(policy, n_step=60, stack_num=1):
    policy.seed(0)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    envs.seed(0)
    buffer = VectorReplayBuffer(n_step, 2, stack_num=stack_num, seed=0)
    Collector(policy, envs, buffer, exploration_noise=True).collect(n_step=n_step)
    return buffer


def make_dqn(**options):
    torch.manual_seed(0)
    net = Recurrent(1, 4, 2, hidden_layer_size=8)
    return DQNPolicy(model=net, optim=adam(), action_space=Discrete(2), target_update_freq=5, **options)


@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn_sees_while_learning_what_it_saw_while_acting(n_step):
    policy = make_dqn(estimation_step=n_step)
    policy.set_eps(0.5)
    buffer = collected(policy)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    with torch.no_grad():
        q, after = policy.model(batch.obs, batch.state)
    assert torch.allclose(after["hidden"], torch.as_tensor(batch.policy.hidden_state.hidden), atol=1e-6)
    assert torch.allclose(after["cell"], torch.as_tensor(batch.policy.hidden_state.cell), atol=1e-6)
    assert not torch.allclose(q, policy.model(batch.obs)[0])
    reward_sum, discount, last = buffer.nstep(indices, n_step, 0.99)
    state = buffer[last].policy.hidden_state
    with torch.no_grad():
        value = policy.model(buffer[last].obs_next, state)[0].max(dim=1).values  # both networks are still equal
    expected = torch.as_tensor(reward_sum) + torch.as_tensor(discount) * value
    assert torch.allclose(batch.returns.flatten().double(), expected.double(), atol=1e-5)
    assert np.isfinite(policy.learn(batch).loss)


def test_dqn_over_a_stack_of_frames():
    policy = make_dqn()
    buffer = collected(policy, stack_num=4)
    batch, indices = buffer.sample(32)
    batch = policy.process_fn(batch, buffer, indices)
    assert batch.obs.shape == (32, 4, 4)
    _, after = policy.model(batch.obs, batch.state)
    whole = np.array([len({int(i) for i in _back(buffer, index, 3)}) == 4 for index in indices])
    stored = torch.as_tensor(buffer.get(indices, "policy", stack_num=1).hidden_state.hidden)
    assert whole.any()
    assert torch.allclose(after["hidden"][whole], stored[whole], atol=1e-5)


def _back(buffer, index, steps):
    rows = [index]
    for _ in range(steps):
        rows.append(buffer.prev(rows[-1]))
    return rows


def test_ppo_sees_while_learning_what_it_saw_while_acting():
    torch.manual_seed(0)
    policy = PPOPolicy(
        actor=Actor(Recurrent(1, 4, 8, hidden_layer_size=8), 2, softmax_output=False),
        critic=Critic(Net(4, hidden_sizes=[8])),
        optim=adam(),
        dist_fn=Categorical,
        action_space=Discrete(2),
        action_scaling=False,
    )
    buffer = collected(policy)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    _, after = policy.actor(batch.obs, batch.state)
    assert torch.allclose(after["hidden"], torch.as_tensor(batch.policy.hidden_state.hidden), atol=1e-6)
    stats = policy.learn(batch, batch_size=16, repeat=2)
    assert stats.clip_loss.mean != 0
    # at the first step the ratios are 1: the loss is minus the mean of normalized advantages
    fresh, indices = buffer.sample(0)
    again = policy.process_fn(fresh, buffer, indices)
    first = policy._gradient_step(*next(policy._minibatches(again, None)))
    assert first[1].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("n_step", [1, 2])
def test_sac_sees_while_learning_what_it_saw_while_acting(n_step):
    class Remembering(torch.nn.Module):
        """An actor whose mean is its hidden state, which counts the steps of the episode."""

        def __init__(self):
            super().__init__()
            self.std, self.seen = torch.nn.Parameter(torch.full((1, 1), 0.1)), []

        def forward(self, obs, state=None, info=None):
            count = torch.zeros(len(obs), 1) if state is None else torch.as_tensor(state["count"]).float()
            self.seen.append(count.flatten().tolist())
            return (count, self.std.expand(len(obs), 1)), {"count": count + 1}

    torch.manual_seed(0)
    actor = Remembering()
    policy = SACPolicy(
        actor=actor,
        actor_optim=adam(),
        critic=QCritic(Net(1, 1, hidden_sizes=[8], concat=True)),
        critic_optim=adam(),
        action_space=Box(-1.0, 1.0, (1,)),
        estimation_step=n_step,
    )
    buffer = ReplayBuffer(20)
    for t in range(7):
        state = policy(Batch(obs=np.zeros((1, 1), np.float32), info={}), Batch(count=np.full((1, 1), t % 4))).state
        row = {"obs": np.full(1, t, np.float32), "obs_next": np.full(1, t + 1, np.float32), "act": np.zeros(1)}
        row |= {"rew": 0.0, "terminated": t == 3, "truncated": False, "info": {}}
        buffer.add(Batch(row, policy={"hidden_state": {"count": state["count"][0].numpy()}}))
    batch, indices = buffer.sample(0)
    actor.seen.clear()
    batch = policy.process_fn(batch, buffer, indices)
    policy.learn(batch)
    last = [min(t + n_step - 1, 3 if t < 4 else 6) for t in range(7)]
    assert actor.seen == [[t % 4 + 1.0 for t in last], [t % 4 for t in range(7)]]


def policies():
    def net(inputs, *rest, **options):
        return Net(inputs, *rest, hidden_sizes=[8], **options)

    box = Box(-1.0, 1.0, (2,), np.float32)
    yield "dqn", DQNPolicy(model=net(4, 2), optim=adam(), action_space=Discrete(2), estimation_step=2)
    actor, critic = Actor(net(4), 2), Critic(net(4))
    options = {"dist_fn": torch.distributions.Categorical, "action_space": Discrete(2), "action_scaling": False}
    yield "ppo", PPOPolicy(actor=actor, critic=critic, optim=adam(), **options)
    actor, critic = ActorProb(net(4), (2,), conditioned_sigma=True), QCritic(net(4, 2, concat=True))
    yield "sac", SACPolicy(actor=actor, actor_optim=adam(), critic=critic, critic_optim=adam(), action_space=box)


@pytest.mark.parametrize(("name", "policy"), [*policies()])
def test_what_is_learned_from_has_rows_also_without_memory(name, policy):
    """Subclasses split it, as they do in Tianshou."""
    buffer = ReplayBuffer(20, seed=0)
    for step in range(12):
        act = np.zeros(2, np.float32) if name == "sac" else step % 2
        row = Batch(obs=np.full(4, step, np.float32), act=act, rew=1.0, obs_next=np.full(4, step + 1, np.float32))
        buffer.add(Batch(row, terminated=step == 5, truncated=False, info={}))
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    assert len(batch) == 12
    assert [len(part) for part in batch.split(5, merge_last=True)] == [5, 7]
    assert "state" not in batch
