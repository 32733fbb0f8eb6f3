"""Actors and critics with memories, which learn from samples of sequences."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, Sequence
from rlfast.policy import DDPGPolicy, REDQPolicy, SACPolicy
from rlfast.utils.net.common import EnsembleLinear, Net, Recurrent
from rlfast.utils.net.continuous import Actor, ActorProb, Critic, RecurrentActorProb, RecurrentCritic
from rlfast.utils.optim import adam

BOX: gym.spaces.Box = Box(-1.0, 1.0, (2,), np.float32)
EPISODES = ((6, "terminated"), (2, "truncated"), (4, None))
GAMMA, ALPHA = 0.9, 0.25


def fill(buffer, actor):
    rng = np.random.default_rng(0)
    for steps, end in EPISODES:
        frames, state = rng.normal(size=(steps + 1, 3)).astype(np.float32), None
        for t in range(steps):
            with torch.no_grad():
                _, after = actor(frames[t][None], state)
            before = {name: torch.zeros_like(value) for name, value in after.items()} if state is None else state
            flags = {name: t == steps - 1 and name == end for name in ("terminated", "truncated")}
            row = Batch(obs=frames[t], obs_next=frames[t + 1], act=rng.uniform(-1, 1, 2), rew=rng.normal(), info={})
            buffer.add(Batch(row, policy={"hidden_state": {n: v[0].numpy() for n, v in before.items()}}, **flags))
            state = after
    return buffer


def make_sac(**options):
    torch.manual_seed(0)
    actor = RecurrentActorProb(1, (3,), (2,), hidden_layer_size=5, unbounded=True, conditioned_sigma=True)
    critics = {name: RecurrentCritic(1, (3,), (2,), hidden_layer_size=4) for name in ("critic", "critic2")}
    given = {"actor_optim": adam(0.01), "critic_optim": adam(0.01), "critic2_optim": adam(0.01), "action_space": BOX}
    return SACPolicy(actor=actor, **critics, **given, gamma=GAMMA, alpha=ALPHA, **options)


def steps_of(buffer, indices, burn_in, length):
    """The rows of each step that is learned from: those of its sequence until it, and those from it on."""
    rows, mask = buffer.window(indices, burn_in, length)
    for row, exists in zip(rows, mask, strict=True):
        own = [int(i) for i in row[exists]]
        first = int(exists[:burn_in].sum())
        for place in range(first, len(own)):
            yield own[: place + 1], own[place:], first


def walked(net, buffer, rows, burn_in):
    """The output of an actor and its state after rows one by one, from the stored state."""
    state = buffer[np.array(rows[:1])].policy.hidden_state
    for row in rows:
        output, state = net(buffer[row].obs[None], state)
    return output, state


@pytest.mark.parametrize(("length", "burn_in", "n_step"), [(1, 0, 1), (3, 2, 2), (4, 7, 3)])
def test_the_losses_of_sac_by_hand(monkeypatch, length, burn_in, n_step):
    policy = make_sac(estimation_step=n_step)
    monkeypatch.setattr(policy, "draw_normal", lambda shape, dtype, device: torch.zeros(shape, dtype=dtype))
    buffer = fill(ReplayBuffer(20, unit=Sequence(length, burn_in), seed=3), policy.actor)
    with torch.no_grad():
        for parameter in policy.parameters():  # target networks differ from trained ones
            parameter.add_(0.2 * torch.randn_like(parameter))
    drawn = buffer.sample(15)
    first, second, soft = [], [], []
    for until, ahead, skipped in steps_of(buffer, drawn[1], burn_in, length):
        last = ahead[min(n_step, len(ahead)) - 1]
        summed = sum(GAMMA**i * buffer[row].rew for i, row in enumerate(ahead[:n_step]))
        with torch.no_grad():
            _, state = walked(policy.actor, buffer, [*until, *ahead[1:n_step]], skipped)
            logits, _ = policy.actor(buffer[last].obs_next[None], state)
            frames = torch.as_tensor(np.stack([buffer[r].obs for r in [*until, *ahead[1:n_step]]]))
            seen = [frames[None], torch.as_tensor(buffer[last].obs_next)[None, None]]
            act, log_prob = squashed(*logits)
            # the next observations of a sequence begin after the first step of the loss
            value = torch.minimum(*(c(torch.cat(seen, 1), act) for c in (policy.critic_old, policy.critic2_old)))
            goal = summed + (0 if buffer[last].terminated else GAMMA ** len(ahead[:n_step])) * (
                value - ALPHA * log_prob
            )
            now, stored = frames[None, : len(until)], torch.as_tensor(buffer[until[-1]].act[None], dtype=torch.float32)
            first.append((goal - policy.critic(now, stored)).square().item())
            second.append((goal - policy.critic2(now, stored)).square().item())
            logits, _ = walked(policy.actor, buffer, until, skipped)
            soft.append((now, *squashed(*logits)))
    monkeypatch.setattr(buffer, "sample", lambda _: drawn)
    stats = policy.update(15, buffer)
    assert stats.critic1_loss == pytest.approx(np.mean(first), rel=1e-4)
    assert stats.critic2_loss == pytest.approx(np.mean(second), rel=1e-4)
    assert np.isfinite(stats.actor_loss)


def squashed(mean, std):
    """The action of no noise, and its log-probability."""
    act = torch.tanh(mean)
    normal = torch.distributions.Normal(mean, std).log_prob(mean)
    return act, (normal - torch.log(1 - act**2)).sum(dim=1, keepdim=True)


def test_deterministic_actors_with_a_memory():
    torch.manual_seed(0)
    policy = DDPGPolicy(
        actor=Actor(Recurrent(1, 3, 4, hidden_layer_size=4), (2,)),
        actor_optim=adam(0.01),
        critic=Critic(Net(3, 2, hidden_sizes=[4], concat=True)),
        critic_optim=adam(0.01),
        action_space=BOX,
        exploration_noise=None,
    )
    buffer = fill(PrioritizedReplayBuffer(20, 1.0, 0.5, unit=Sequence(3, 2), seed=3), policy.actor)
    drawn = buffer.sample(10)
    batch = policy.process_fn(*drawn[:1], buffer, drawn[1])
    sample = policy._as_sample(batch)
    found = policy.act(sample.obs, sample.state)
    with torch.no_grad():
        steps = [*steps_of(buffer, drawn[1], 2, 3)]
        expected = torch.cat([walked(policy.actor, buffer, until, skipped)[0] for until, _, skipped in steps])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    stats = policy.learn(batch)
    assert np.isfinite([stats.actor_loss, stats.critic_loss]).all()
    assert batch.td_error.shape == (10,)


def test_ensembles_learn_from_transitions():
    torch.manual_seed(0)
    five = {"linear_layer": lambda inputs, outputs: EnsembleLinear(5, inputs, outputs)}
    net = Net(3, 2, hidden_sizes=[4], concat=True, **five)
    policy = REDQPolicy(
        actor=ActorProb(Recurrent(1, 3, 4, hidden_layer_size=4), (2,), unbounded=True, conditioned_sigma=True),
        actor_optim=adam(),
        critic=Critic(net, **five, flatten_input=False),
        critic_optim=adam(),
        action_space=BOX,
        ensemble_size=5,
    )
    buffer = fill(ReplayBuffer(20, unit=Sequence(3, 2), seed=3), policy.actor)
    with pytest.raises(ValueError, match="REDQPolicy learns from transitions"):
        policy.update(4, buffer)
