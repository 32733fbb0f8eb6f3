"""Learning from samples of sequences: the outputs of networks at each step, and what is refused."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, Sequence
from rlfast.data.batch.batch import wrap
from rlfast.policy import C51Policy, DQNPolicy, IQNPolicy, QRDQNPolicy, RainbowPolicy
from rlfast.policy.components.memory.sequences import add_sums, flattened
from rlfast.policy.q_learner import network_output
from rlfast.policy.random import action_mask
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import ImplicitQuantileNetwork
from rlfast.utils.optim import adam

CPU = torch.device("cpu")
LENGTHS = (7, 2, 5, 3)  # of episodes: terminated, truncated, terminated, running


def fill(buffer, net=None, mask=False):
    """Add episodes, with the hidden states of a network before each step."""
    rng = np.random.default_rng(0)
    for number, length in enumerate(LENGTHS):
        frames = rng.normal(size=(length + 1, 3)).astype(np.float32)
        state = None
        for t in range(length):
            obs, obs_next = frames[t], frames[t + 1]
            row = Batch(act=int(rng.integers(2)), rew=float(rng.normal()), info={})
            row.terminated = t == length - 1 and number in (0, 2)
            row.truncated = t == length - 1 and number == 1
            if net is not None:
                with torch.no_grad():
                    _, after = net(obs[None], state)
                before = {name: torch.zeros_like(value) for name, value in after.items()} if state is None else state
                row.policy = {"hidden_state": {name: value[0].numpy() for name, value in before.items()}}
                state = after
            if mask:
                legal = np.array([[True, t % 3 > 0], [True, (t + 1) % 3 > 0]])
                obs, obs_next = {"obs": obs, "mask": legal[0]}, {"obs": obs_next, "mask": legal[1]}
            row.obs, row.obs_next = obs, obs_next
            buffer.add(row)
    return buffer


def recurrent(**options):
    torch.manual_seed(0)
    return Recurrent(2, 3, 2, hidden_layer_size=5, **options)


def output_by_step(net, buffer, rows, state):
    """Run a network over rows one by one, from a state; return its last output and the state after it."""
    for row in rows:
        output, state = net(buffer[int(row)].obs[None], state)
    return output, state


@pytest.mark.parametrize(("length", "burn_in"), [(1, 0), (4, 0), (3, 2), (4, 9)])
@pytest.mark.parametrize("dueling", [None, ({"hidden_sizes": [4]}, {"hidden_sizes": [4]})])
def test_each_step_starts_from_the_stored_state_and_the_burn_in(length, burn_in, dueling):
    net = recurrent(dueling_param=dueling)
    buffer = fill(ReplayBuffer(30, unit=Sequence(length, burn_in), seed=0), net)
    with torch.no_grad():  # the states are those of older weights
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batch, indices = buffer.sample(40)
    add_sums(batch, 1, 0.9)
    flat = flattened(batch, CPU)
    output, _ = network_output(net, flat.obs, {}, flat.state)
    output_next, _ = network_output(net, flat.obs_next, {}, flat.state_next)
    rows, mask = buffer.window(indices, burn_in, length)
    place = 0
    for line, row in enumerate(rows):
        exist = row[mask[line]]
        first = buffer[exist[:1]].policy.hidden_state
        for column in range(burn_in, burn_in + length):
            if not mask[line, column]:
                continue
            until = row[: column + 1][mask[line, : column + 1]]
            with torch.no_grad():
                expected, after = output_by_step(net, buffer, until, first)
                expected_next, _ = net(buffer[int(row[column])].obs_next[None], after)
            torch.testing.assert_close(output[place], expected[0], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(output_next[place], expected_next[0], atol=1e-5, rtol=1e-4)
            assert flat.act[place] == buffer[int(row[column])].act
            assert flat.reward_sum[place].item() == pytest.approx(buffer[int(row[column])].rew)
            place += 1
    assert place == len(output) == len(output_next) == len(flat.act)


def test_no_gradient_flows_through_the_burn_in():
    net = recurrent()
    buffer = fill(ReplayBuffer(30, unit=Sequence(2, 3)), net)
    rows, mask = buffer.window(np.array([4]), 3, 2)  # row 4 of the first episode
    batch = buffer[rows]
    batch.mask, batch.loss_mask = mask, mask & (np.arange(5) >= 3)
    flat = flattened(batch, CPU)
    found = torch.autograd.grad(network_output(net, flat.obs, {}, flat.state)[0].sum(), [*net.parameters()])
    with torch.no_grad():
        _, state = output_by_step(net, buffer, [1, 2, 3], buffer[np.array([1])].policy.hidden_state)
    hidden = [state[name].transpose(0, 1).contiguous() for name in ("hidden", "cell")]
    out, _ = net.nn(net.fc1(torch.as_tensor(buffer[np.array([4, 5])].obs)[None]), tuple(hidden))
    expected = torch.autograd.grad(net.fc2(out).sum(), [*net.parameters()])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_legal_actions_of_each_step():
    net = recurrent()
    buffer = fill(ReplayBuffer(30, unit=Sequence(3, 1), seed=1), net, mask=True)
    batch, indices = buffer.sample(30)
    add_sums(batch, 2, 0.9)
    flat = flattened(batch, CPU)
    rows, exists = buffer.window(indices, 1, 3)
    steps = rows[:, 1:][exists[:, 1:]]
    assert np.array_equal(action_mask(flat.obs).numpy(), buffer[steps].obs.mask)
    assert network_output(net, flat.obs, {}, flat.state)[0].shape == (len(steps), 2)
    last = np.array([int(buffer.next(int(row))) for row in steps])  # n is 2; where there is no later row, the same
    within = np.array([np.isin(later, rows[line]) for line, later in zip(flat.obs.rows, last, strict=True)])
    expected = np.where(within[:, None], buffer[last].obs_next.mask, buffer[steps].obs_next.mask)
    assert np.array_equal(action_mask(flat.obs_next).numpy(), expected)
    policy = DQNPolicy(model=net, optim=adam(), action_space=Discrete(2), target_update_freq=3, estimation_step=2)
    assert np.isfinite(policy.update(8, buffer).loss)


def test_a_network_without_memory_gets_the_observations_of_the_steps():
    net = Net(3, 2, hidden_sizes=[4])
    buffer = fill(ReplayBuffer(30, unit=Sequence(3, 1), seed=1))
    batch, indices = buffer.sample(10)
    rows, exists = buffer.window(indices, 1, 3)
    expected = net(buffer[rows[:, 1:][exists[:, 1:]]].obs)[0]
    assert torch.equal(network_output(net, flattened(batch, CPU).obs, {}, None)[0], expected)


class Own(nn.Module):
    """A network of the user's with a memory, which gives the output of the last step."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 2)

    def forward(self, obs, state=None, info=None):
        obs = torch.as_tensor(obs)
        for step in range(1 if obs.dim() == 2 else obs.shape[1]):
            state = self.cell(obs if obs.dim() == 2 else obs[:, step], state)
        return state, state


def test_what_cannot_learn_from_sequences():
    buffer = fill(ReplayBuffer(30, unit=Sequence(3, 1), seed=1))
    policy = DQNPolicy(model=Own(), optim=adam(), action_space=Discrete(2), target_update_freq=3)
    with pytest.raises(TypeError, match="Own has a memory and gives the output of the last step only"):
        policy.update(8, buffer)

    class Heard(DQNPolicy):
        def forward(self, batch, state=None, model="model", **kwargs):
            return super().forward(batch, state, model, **kwargs)

    options = {"optim": adam(), "action_space": Discrete(2)}
    for policy in (Heard(model=recurrent(), **options), DQNPolicy(model=Net(3, 2), compile=True, **options)):
        with pytest.raises(ValueError, match="learns from sequences by its own methods, without a graph"):
            policy.update(8, buffer)


def test_each_step_of_a_sequence_weighs_as_much_as_a_transition():
    """Without a memory, one-step sequences of all rows are the transitions."""
    losses = []
    for unit in ({}, {"unit": Sequence(1)}):
        torch.manual_seed(0)
        buffer = fill(ReplayBuffer(30, seed=1, **unit))
        net = Net(3, 2, hidden_sizes=[4])
        policy = DQNPolicy(model=net, optim=adam(0.1), action_space=Discrete(2), target_update_freq=2)
        losses.append([policy.update(16, buffer).loss for _ in range(5)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def distributional():
    options = {"optim": adam(), "action_space": Discrete(2), "estimation_step": 2, "target_update_freq": 3}
    yield C51Policy(model=Net(3, 2, [8], num_atoms=51, softmax=True), **options)
    yield RainbowPolicy(model=Net(3, 2, [8], num_atoms=51, softmax=True), **options)
    yield QRDQNPolicy(model=Net(3, 2, [8], num_atoms=5), num_quantiles=5, **options)


@pytest.mark.parametrize("policy", [*distributional()], ids=lambda policy: type(policy).__name__)
def test_distributions_of_returns_learn_from_sequences(policy):
    buffer = fill(PrioritizedReplayBuffer(30, 1.0, 0.5, unit=Sequence(3, 2), seed=1))
    assert np.isfinite(policy.update(8, buffer).loss)


def test_algorithms_that_learn_from_transitions_say_so():
    model = ImplicitQuantileNetwork(Net(3, hidden_sizes=[4]), 2)
    policy = IQNPolicy(model=model, optim=adam(), action_space=Discrete(2), target_update_freq=3)
    with pytest.raises(ValueError, match="IQNPolicy learns from transitions: give the buffer another unit"):
        policy.update(8, fill(ReplayBuffer(30, unit=Sequence(3, 1), seed=1)))


def test_priorities_of_sequences_belong_to_the_drawn_rows(monkeypatch):
    buffer = fill(PrioritizedReplayBuffer(30, 1.0, 0.5, unit=Sequence(3, 2), seed=1), recurrent())
    policy = DQNPolicy(model=recurrent(), optim=adam(), action_space=Discrete(2), target_update_freq=3)
    errors = []
    step = policy.gradient_step

    def seen(sample):
        losses, error = step(sample)
        errors.append((sample, error))
        return losses, error

    monkeypatch.setattr(policy, "gradient_step", seen)
    monkeypatch.setattr(buffer, "update_weight", lambda index, weight: errors.append((index, weight)))
    policy.eta = 0.75
    policy.update(6, buffer)
    (sample, error), (index, priority) = errors
    assert len(index) == len(priority) == 6
    for row in range(6):
        own = error[sample.obs.rows == row].abs()
        assert priority[row].item() == pytest.approx(0.75 * own.max().item() + 0.25 * own.mean().item(), rel=1e-5)
    weights = torch.as_tensor(buffer[np.asarray(index)].weight)
    assert sample.weight.shape == error.shape
    ratio = sample.weight / weights[sample.obs.rows]
    torch.testing.assert_close(ratio, torch.full_like(ratio, ratio[0].item()), rtol=1e-4, atol=0)


def test_observations_that_are_encoded_first():
    from rlfast.experiment.networks import Encoded, Encoder

    space = gym.spaces.Dict(place=Discrete(3), speed=gym.spaces.Box(-1, 1, (2,)))
    torch.manual_seed(0)
    encoder = Encoder(space)
    net = Encoded(encoder, Recurrent(1, encoder.output_dim, 2, hidden_layer_size=5))
    obs = Batch(place=torch.arange(12).reshape(2, 6) % 3, speed=torch.randn(2, 6, 2))
    batch = wrap({"obs": obs, "obs_next": obs, "act": np.zeros((2, 6), int)})
    batch.mask = batch.loss_mask = np.ones((2, 6), bool)
    found, _ = network_output(net, flattened(batch, CPU).obs, {}, None)
    state = None
    for step in range(6):
        expected, state = net(obs[:, step], state)
        torch.testing.assert_close(found.view(2, 6, 2)[:, step], expected, atol=1e-6, rtol=1e-5)
