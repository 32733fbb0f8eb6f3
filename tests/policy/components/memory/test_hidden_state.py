"""Hidden states that the collector stores, and from which recurrent networks start while they learn."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlfast.data import Batch, Collector, ReplayBuffer, Sequence, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import DQNPolicy, PPOPolicy, SACPolicy
from rlfast.policy.components.memory.hidden_state import stored_state
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as QCritic
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

LENGTHS = (3, 4, 2)  # the last episode is running


def episodes(stack_num=1):
    """Give a buffer in which the state before step t of episode e is ``10 e + t``, zero before its first step, and its
    rows as (e, t).
    """
    buffer, rows = ReplayBuffer(20, stack_num=stack_num), []
    for episode, length in enumerate(LENGTHS, 1):
        for t in range(length):
            state = {"hidden": np.full((1, 1), (10.0 * episode + t) * (t > 0)), "cell": np.full(2, -float(t))}
            obs = np.full(1, t, np.float32)
            flags = {"terminated": episode < 3 and t == length - 1, "truncated": False}
            row = Batch(obs=obs, act=0, rew=0.0, obs_next=obs + 1, info={}, policy={"hidden_state": state}, **flags)
            buffer.add(row)
            rows.append((episode, t))
    return buffer, rows


@pytest.mark.parametrize("stack_num", [1, 2, 3])
def test_the_state_before_the_first_frame(stack_num):
    buffer, rows = episodes(stack_num)
    batch, indices = buffer.sample(0)
    state = stored_state(batch, buffer, indices)
    for (episode, t), hidden, cell in zip(rows, state.hidden, state.cell, strict=True):
        first = t - stack_num + 1  # the frame the stack begins with
        assert hidden.tolist() == [[10.0 * episode + first if first > 0 else 0.0]]
        assert cell.tolist() == ([-float(first)] * 2 if first > 0 else [0.0, 0.0])
    assert isinstance(state.hidden, torch.Tensor)


@pytest.mark.parametrize("stack_num", [1, 2, 3])
def test_the_state_before_the_first_frame_of_what_comes_next(stack_num):
    buffer, rows = episodes(stack_num)
    batch, indices = buffer.sample(0)
    asked = []

    def after(obs, state):
        asked.append((obs.tolist(), state.hidden.flatten().tolist()))
        return {"hidden": state.hidden + 0.5, "cell": -torch.as_tensor(obs).repeat(1, 2) - 0.5}

    state = stored_state(batch, buffer, indices, after=after)
    for (episode, t), hidden, cell in zip(rows, state.hidden, state.cell, strict=True):
        first = t + 1 - stack_num + 1
        if stack_num == 1 and t == LENGTHS[episode - 1] - 1:  # no later row has it
            assert hidden.tolist() == [[10.0 * episode + t + 0.5]]
            assert cell.tolist() == [-t - 0.5] * 2
        else:
            assert hidden.tolist() == [[10.0 * episode + first if first > 0 else 0.0]]
            assert cell.tolist() == ([-float(first)] * 2 if first > 0 else [0.0, 0.0])
    assert asked == ([([[2.0], [3.0], [1.0]], [12.0, 23.0, 31.0])] if stack_num == 1 else [])


def test_a_ring_that_has_forgotten_the_start_of_an_episode_still_has_the_state():
    buffer = ReplayBuffer(3)
    for t in range(5):
        row = Batch(obs=t, act=0, rew=0.0, obs_next=t + 1, terminated=False, truncated=False, info={})
        buffer.add(Batch(row, policy={"hidden_state": np.full(1, t, np.float32)}))
    batch, indices = buffer.sample(0)
    assert stored_state(batch, buffer, indices).flatten().tolist() == [2, 3, 4]
    assert stored_state(None, buffer, indices).flatten().tolist() == [2, 3, 4]


def test_what_has_no_memory_has_no_state():
    buffer = ReplayBuffer(5)
    buffer.add(Batch(obs=0.0, act=0, rew=0.0, obs_next=1.0, terminated=False, truncated=False, info={}))
    batch, indices = buffer.sample(0)
    assert stored_state(batch, buffer, indices) is None
    assert stored_state(None, buffer, indices) is None


def collected(policy, n_step=60, **options):
    policy.seed(0)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    envs.seed(0)
    buffer = VectorReplayBuffer(n_step, 2, seed=0, **options)
    Collector(policy, envs, buffer, exploration_noise=True).collect(n_step=n_step)
    return buffer


def make_dqn(**options):
    torch.manual_seed(0)
    net = Recurrent(1, 4, 2, hidden_layer_size=8)
    return DQNPolicy(model=net, optim=adam(), action_space=Discrete(2), target_update_freq=5, **options)


def replayed(network, buffer):
    """The state before each row, and after it, by the network from the start of each episode."""
    before, after, state = {}, {}, None
    rows, index = buffer[:], buffer.sample_indices(0)
    for place, i in enumerate(index):
        if buffer.prev(int(i)) == i:
            state = None
        before[int(i)] = state
        with torch.no_grad():
            _, state = network(torch.as_tensor(rows.obs[place][None]), state)
        after[int(i)] = state
    return before, after


def assert_states(state, expected):
    for place, one in enumerate(expected):
        for name in ("hidden", "cell"):
            found = torch.as_tensor(state[name][place])
            wanted = torch.zeros_like(found) if one is None else one[name][0]
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn_sees_while_learning_what_it_saw_while_acting(n_step):
    policy = make_dqn(estimation_step=n_step)
    policy.set_eps(0.5)
    buffer = collected(policy)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    before, after = replayed(policy.model, buffer)
    assert sum(state is None for state in before.values()) > 2
    assert_states(batch.policy.hidden_state, [before[i] for i in indices])  # as it is stored
    assert_states(batch.state, [before[i] for i in indices])
    with torch.no_grad():
        q, _ = policy.model(batch.obs, batch.state)
    assert not torch.allclose(q, policy.model(batch.obs)[0])
    reward_sum, discount, last = buffer.nstep(indices, n_step, 0.99)
    state = {name: torch.cat([after[i][name] for i in last]) for name in ("hidden", "cell")}
    with torch.no_grad():
        value = policy.model(buffer[last].obs_next, state)[0].max(dim=1).values  # both networks are still equal
    expected = torch.as_tensor(reward_sum) + torch.as_tensor(discount) * value
    assert torch.allclose(batch.returns.flatten().double(), expected.double(), atol=1e-5)
    assert np.isfinite(policy.learn(batch).loss)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_a_sequence_begins_with_the_state_before_its_first_row(burn_in):
    policy = make_dqn()
    policy.set_eps(0.5)
    buffer = collected(policy, unit=Sequence(5, burn_in))
    plain = collected(policy)  # the same rows, drawn one by one
    np.testing.assert_array_equal(plain[:].obs, buffer[:].obs)
    before, after = replayed(policy.model, plain)
    batch, indices = buffer.sample(64)
    state = batch.policy.hidden_state[:, 0]
    rows, mask = plain.window(indices, burn_in, 5)
    assert_states(state, [before[i] for i in rows[:, 0]])
    whole = mask.all(axis=1)
    assert whole.sum() > 10
    with torch.no_grad():
        _, end = policy.model(torch.as_tensor(batch.obs[whole]), state[whole])
    assert_states(end, [after[i] for i in rows[whole, -1]])


def test_dqn_over_a_stack_of_frames():
    policy = make_dqn()
    buffer = collected(policy, stack_num=4)
    batch, indices = buffer.sample(32)
    batch = policy.process_fn(batch, buffer, indices)
    assert batch.obs.shape == (32, 4, 4)
    _, after = policy.model(batch.obs, batch.state)
    whole = np.array([len({int(i) for i in _back(buffer, index, 3)}) == 4 for index in indices])
    goes_on = np.array([buffer.next(int(index)) != index for index in indices])
    assert (whole & goes_on).sum() > 5
    stored = torch.as_tensor(buffer.get(buffer.next(indices), "policy", stack_num=1).hidden_state.hidden)
    assert torch.allclose(after["hidden"][whole & goes_on], stored[whole & goes_on], atol=1e-5)


def _back(buffer, index, steps):
    rows = [index]
    for _ in range(steps):
        rows.append(buffer.prev(rows[-1]))
    return rows


def named(pair):
    return {"pair": pair}


class Cell(torch.nn.Module):
    """A network whose hidden state is a pair, a list of two, or a dict with a pair."""

    def __init__(self, kind):
        super().__init__()
        self.cell, self.values, self.kind = torch.nn.LSTMCell(4, 8), torch.nn.Linear(8, 2), kind

    def forward(self, obs, state=None, info=None):
        state = state["pair"] if state is not None and self.kind is named else state
        assert state is None or isinstance(state, tuple | list)
        hidden, cell = self.cell(torch.as_tensor(obs), None if state is None else (state[0], state[1]))
        return self.values(hidden), self.kind((hidden, cell))


@pytest.mark.parametrize("kind", [tuple, list, named])
@pytest.mark.parametrize("n_step", [1, 3])
def test_pairs_are_stored_apart_and_come_back_as_pairs(kind, n_step):
    def pair_of(state):
        return state["pair"] if kind is named else state

    torch.manual_seed(0)
    options = {"action_space": Discrete(2), "target_update_freq": 5, "estimation_step": n_step}
    policy = DQNPolicy(model=Cell(kind), optim=adam(), **options)
    buffer = collected(policy)
    before, after = replayed(policy.model, buffer)
    batch, indices = buffer.sample(0)
    for place, index in enumerate(indices):
        pair = [torch.zeros(1, 8)] * 2 if before[index] is None else pair_of(before[index])
        for name, wanted in zip("01", pair, strict=True):
            torch.testing.assert_close(torch.as_tensor(pair_of(batch.policy.hidden_state)[name][place]), wanted[0])
    batch = policy.process_fn(batch, buffer, indices)
    reward_sum, discount, last = buffer.nstep(indices, n_step, 0.99)
    state = tuple(torch.cat([pair_of(after[i])[part] for i in last]) for part in (0, 1))
    with torch.no_grad():
        value = policy.model(buffer[last].obs_next, kind(state))[0].max(dim=1).values
    expected = torch.as_tensor(reward_sum) + torch.as_tensor(discount) * value
    assert torch.allclose(batch.returns.flatten().double(), expected.double(), atol=1e-5)
    assert np.isfinite(policy.learn(batch).loss)


def test_ppo_learns_from_pairs():
    torch.manual_seed(0)
    nets = {"actor": Cell(tuple), "critic": Critic(Net(4, hidden_sizes=[8])), "optim": adam()}
    policy = PPOPolicy(**nets, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False)
    assert np.isfinite(policy.update(0, collected(policy), batch_size=16, repeat=2).loss.mean)


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
    before, _ = replayed(policy.actor, buffer)
    assert_states(batch.state, [before[i] for i in indices])
    stats = policy.learn(batch, batch_size=16, repeat=2)
    assert stats.clip_loss.mean != 0
    # at the first step the ratios are 1: the loss is minus the mean of normalized advantages
    fresh, indices = buffer.sample(0)
    again = policy.process_fn(fresh, buffer, indices)
    first = policy.gradient_step(next(policy._minibatches(again, None)))
    assert first["clip_loss"].item() == pytest.approx(0.0, abs=1e-6)


def test_sac_sees_while_learning_what_it_saw_while_acting(monkeypatch):
    torch.manual_seed(0)
    box = Box(-1.0, 1.0, (2,), np.float32)
    policy = SACPolicy(
        actor=ActorProb(Recurrent(1, 3, 8, hidden_layer_size=8), (2,), conditioned_sigma=True),
        actor_optim=adam(),
        critic=QCritic(Net(3, 2, hidden_sizes=[8], concat=True)),
        critic_optim=adam(),
        action_space=box,
    )
    buffer = ReplayBuffer(60, seed=0)
    env = gym.wrappers.TimeLimit(Wander(), 7)
    Collector(policy, DummyVectorEnv([lambda: env]), buffer).collect(n_step=40)
    batch, indices = buffer.sample(0)
    before, after = replayed(policy.actor, buffer)
    states = []
    monkeypatch.setattr(policy, "next_value", lambda obs, state, _: states.append(state) or torch.zeros(len(obs)))
    batch = policy.process_fn(batch, buffer, indices)
    assert_states(batch.state, [before[i] for i in indices])
    assert_states(states[0], [after[i] for i in indices])


class Wander(gym.Env):
    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, False, False, {}


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
