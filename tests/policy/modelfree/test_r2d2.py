"""R2D2: one update by hand, its settings, and the priorities that it leaves."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from policy.given import calls_of
from rlfast.data import Batch, PrioritizedReplayBuffer, Sequence
from rlfast.policy import R2D2Policy
from rlfast.policy.modelfree.r2d2 import R2D2TrainingStats
from rlfast.utils.net.common import Recurrent
from rlfast.utils.optim import adam

EPISODES = ((6, "terminated"), (3, "truncated"), (4, None))


def make_policy(**options):
    torch.manual_seed(1)
    net = Recurrent(1, 2, 3, hidden_layer_size=4)
    given = {"optim": torch.optim.SGD(net.parameters(), lr=0.5), "action_space": Discrete(3), "target_update_freq": 2}
    return R2D2Policy(model=net, **{**given, **options})


def make_buffer(policy, length=3, burn_in=2):
    """Episodes with the hidden states of the policy, whose networks then become others."""
    rng = np.random.default_rng(0)
    buffer = PrioritizedReplayBuffer(20, 1.0, 0.5, unit=Sequence(length, burn_in), seed=0)
    for steps, end in EPISODES:
        state, frames = None, rng.normal(size=(steps + 1, 2)).astype(np.float32)
        for t in range(steps):
            before = {name: np.zeros((1, 4), np.float32) for name in ("hidden", "cell")}
            before = before if state is None else {name: value[0].numpy() for name, value in state.items()}
            flags = {name: t == steps - 1 and name == end for name in ("terminated", "truncated")}
            row = Batch(obs=frames[t], obs_next=frames[t + 1], act=int(rng.integers(3)), rew=float(rng.normal()) * 9)
            buffer.add(Batch(row, info={}, policy={"hidden_state": before}, **flags))
            with torch.no_grad():
                _, state = policy.model(frames[t][None], state)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return buffer


def h(x, eps):
    return torch.sign(x) * (torch.sqrt(x.abs() + 1) - 1) + eps * x


def inverse(x, eps):
    """Of h, by bisection."""
    low, high = torch.full_like(x, -1e4, dtype=torch.double), torch.full_like(x, 1e4, dtype=torch.double)
    for _ in range(100):
        middle = (low + high) / 2
        above = h(middle, eps) > x
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return low.to(x.dtype)


def outputs(net, buffer, rows, state, burn_in):
    """Action values at rows one by one; gradients flow from the end of the burn-in on."""
    values = []
    hidden = tuple(state[name].transpose(0, 1).contiguous() for name in ("hidden", "cell"))
    for place, obs in enumerate(rows):
        if place == burn_in:
            hidden = tuple(part.detach() for part in hidden)
        out, hidden = net.nn(net.fc1(torch.as_tensor(obs)[None, None]), hidden)
        values.append(net.fc2(out[0, 0]))
    return values


def by_hand(policy, buffer, batch, indices, burn_in, n_step, gamma, eta, eps):
    """The loss, its gradients, and the priorities, sequence by sequence."""
    squares, priorities = [], []
    everything, mask = buffer.window(indices, burn_in, batch.mask.shape[1] - burn_in)
    for line, row in enumerate(everything):
        rows = [int(i) for i in row[mask[line]]]
        skipped = int(mask[line, :burn_in].sum())
        data = buffer[np.array(rows)]
        state = {name: torch.as_tensor(data.policy.hidden_state[name][:1]) for name in ("hidden", "cell")}
        frames = [*data.obs, data.obs_next[-1]]
        online = outputs(policy.model, buffer, frames, state, skipped)
        with torch.no_grad():
            target = outputs(policy.model_old, buffer, frames, state, skipped)
        errors = []
        for t in range(skipped, len(rows)):
            end = min(t + n_step, len(rows))
            value = sum(gamma ** (i - t) * data.rew[i] for i in range(t, end))
            if not data.terminated[end - 1]:
                best = online[end].argmax()
                value = value + gamma ** (end - t) * inverse(target[end][best], eps)
            goal = h(torch.as_tensor(value, dtype=torch.float32), eps).detach()
            errors.append(goal - online[t][int(data.act[t])])
        squares += [float(batch.weight[line]) * error.square() for error in errors]
        sizes = torch.stack(errors).detach().abs()
        priorities.append((eta * sizes.max() + (1 - eta) * sizes.mean()).item())
    loss = torch.stack(squares).mean()
    return loss.item(), torch.autograd.grad(loss, [*policy.model.parameters()]), priorities


@pytest.mark.parametrize(("burn_in", "n_step", "eta", "eps"), [(2, 2, 0.9, 1e-3), (0, 1, 0.5, 0.1), (4, 5, 1.0, 0.01)])
def test_one_update_by_hand(monkeypatch, burn_in, n_step, eta, eps):
    policy = make_policy(estimation_step=n_step, eta=eta, rescaling=eps, discount_factor=0.9)
    buffer = make_buffer(policy, 3, burn_in)
    policy._iter = 1  # the target network is not due
    policy.model_old.load_state_dict({k: v + 0.3 * torch.randn_like(v) for k, v in policy.model.state_dict().items()})
    drawn = buffer.sample(12)
    drawn[0].weight = np.linspace(0.25, 1.0, 12)
    batch, indices = copy.deepcopy(drawn[0]), drawn[1]
    loss, gradients, priorities = by_hand(policy, buffer, batch, indices, burn_in, n_step, 0.9, eta, eps)
    expected = [p.detach() - 0.5 * g for p, g in zip(policy.model.parameters(), gradients, strict=True)]
    monkeypatch.setattr(buffer, "sample", lambda _: drawn)
    found = []
    monkeypatch.setattr(buffer, "update_weight", lambda index, weight: found.append((index, weight)))
    stats = policy.update(12, buffer)
    assert isinstance(stats, R2D2TrainingStats)
    assert stats.loss == pytest.approx(loss, rel=1e-4)
    for parameter, wanted in zip(policy.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), wanted, rtol=1e-4, atol=1e-5)
    assert np.array_equal(found[0][0], indices)
    np.testing.assert_allclose(found[0][1].numpy(), priorities, rtol=1e-4, atol=1e-5)


def test_without_rescaling_and_without_the_double_form():
    policy = make_policy(estimation_step=1, rescaling=None, is_double=False, discount_factor=0.9)
    buffer = make_buffer(policy, length=1, burn_in=0)
    policy.model_old.load_state_dict({k: v + 0.5 * torch.randn_like(v) for k, v in policy.model.state_dict().items()})
    policy._iter = 1
    batch, indices = buffer.sample(20)
    batch = policy.process_fn(batch, buffer, indices)
    rows = buffer[indices]
    with torch.no_grad():
        state = policy.model_old(rows.obs, rows.policy.hidden_state)[1]
        value = policy.model_old(rows.obs_next, state)[0].amax(dim=1)
    expected = torch.as_tensor(rows.rew) + 0.9 * value * ~torch.as_tensor(rows.terminated)
    torch.testing.assert_close(batch.returns.double(), expected.double(), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        value = policy.model(rows.obs, rows.policy.hidden_state)[0][torch.arange(20), torch.as_tensor(rows.act)]
    assert policy.learn(batch).loss == pytest.approx((expected - value).square().mean().item(), rel=1e-4)


def test_the_network_is_given_the_infos_of_transitions():
    policy = make_policy(rescaling=None)
    calls = calls_of(policy.model)
    batch = Batch(obs=np.zeros((1, 2), np.float32), act=np.array([0]), info=Batch(lives=np.array([3])))
    policy.learn(Batch(batch, returns=torch.zeros(1, 1)))
    assert [call["info"].lives.tolist() for call in calls] == [[3]]


def test_the_target_network_is_copied_at_its_period():
    policy = make_policy(target_update_freq=3)
    buffer = make_buffer(policy)
    copied = []
    for _ in range(7):
        before = copy.deepcopy(policy.model.state_dict())
        policy.update(8, buffer)
        copied.append(all(torch.equal(value, before[name]) for name, value in policy.model_old.state_dict().items()))
    assert copied == [True, False, False, True, False, False, True]


def test_gradients_are_limited():
    policy = make_policy(max_grad_norm=1e-3)
    buffer = make_buffer(policy)
    before = torch.cat([p.detach().flatten().clone() for p in policy.model.parameters()])
    policy.update(8, buffer)
    after = torch.cat([p.detach().flatten() for p in policy.model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.5e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"eta": 1.5}, "eta must be within 0 and 1, got 1.5"),
        ({"rescaling": -0.1}, "rescaling must not be negative, or None, got -0.1"),
        ({"estimation_step": 0}, "estimation_step must be at least 1, got 0"),
        ({"target_update_freq": 0}, "target_update_freq must be at least 1, got 0"),
    ],
)
def test_values_out_of_range(options, match):
    with pytest.raises(ValueError, match=match):
        make_policy(**options)


def test_defaults_are_those_of_the_paper():
    policy = R2D2Policy(model=Recurrent(1, 2, 3), optim=adam(1e-4), action_space=Discrete(3))
    assert (policy.gamma, policy.n_step, policy.freq, policy.eta, policy.rescaling) == (0.997, 5, 2500, 0.9, 1e-3)
    assert policy.is_double
