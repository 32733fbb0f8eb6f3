"""Updates that are interrupted at any bytecode: the policy acts and learns afterwards, and nothing is left behind."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

from interrupts import Interrupt, check_gradients, interrupt, points, spread
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer
from rlfast.policy import DQNPolicy, PPOPolicy, SACPolicy, TD3Policy
from rlfast.utils.net import _recurrent, _shared
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import Actor as ContinuousActor
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ContinuousCritic
from rlfast.utils.net.discrete import Actor, Critic

BOX = gym.spaces.Box(-1, 1, (2,), np.float32)
DISCRETE = gym.spaces.Discrete(3)


def adam(*networks):
    return torch.optim.Adam(dict.fromkeys(one for network in networks for one in network.parameters()), lr=1e-3)


def dqn(recurrent=False):
    model = Recurrent(1, 4, 3, hidden_layer_size=8) if recurrent else Net(4, 3, hidden_sizes=[8])
    return DQNPolicy(model=model, optim=adam(model), action_space=DISCRETE, target_update_freq=2)


def ppo(recurrent=False):
    body = Net(4, hidden_sizes=[8])
    actor, critic = Actor(body, 3), Critic(body)
    return PPOPolicy(
        actor=actor,
        critic=critic,
        optim=adam(actor, critic),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=DISCRETE,
        action_scaling=False,
    )


def sac():
    actor = ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True)
    critic = ContinuousCritic(Net(4, 2, hidden_sizes=[8], concat=True))
    return SACPolicy(actor=actor, actor_optim=adam(actor), critic=critic, critic_optim=adam(critic), action_space=BOX)


def td3():
    actor = ContinuousActor(Net(4, hidden_sizes=[8]), 2)
    critics = [ContinuousCritic(Net(4, 2, hidden_sizes=[8], concat=True)) for _ in range(2)]
    return TD3Policy(
        actor=actor,
        actor_optim=adam(actor),
        critic=critics[0],
        critic_optim=adam(critics[0]),
        critic2=critics[1],
        critic2_optim=adam(critics[1]),
        action_space=BOX,
    )


def rows_of(space, buffer):
    rng = np.random.default_rng(0)
    for k in range(24):
        act = rng.integers(3) if space is DISCRETE else rng.uniform(-1, 1, 2).astype(np.float32)
        obs, after = rng.normal(size=(2, 4)).astype(np.float32)
        rew = float(rng.normal())
        row = Batch(obs=obs, act=act, rew=rew, terminated=k % 8 == 7, truncated=False, obs_next=after, info={})
        buffer.add(row)
    return buffer


CASES = {
    "dqn": (dqn, lambda: PrioritizedReplayBuffer(30, alpha=0.6, beta=0.4), {}),
    "recurrent": (lambda: dqn(recurrent=True), lambda: ReplayBuffer(30, stack_num=2), {}),
    "ppo": (ppo, lambda: ReplayBuffer(30), {"batch_size": 8, "repeat": 2}),
    "sac": (sac, lambda: ReplayBuffer(30), {}),
    "td3": (td3, lambda: ReplayBuffer(30), {}),
}


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.long)])  # points in each mode
@pytest.mark.parametrize("error", [Interrupt, MemoryError])
@pytest.mark.parametrize("name", CASES)
def test_updates_recover(name, error, count):
    make, make_buffer, options = CASES[name]
    policy = make()
    buffer = rows_of(policy.action_space, make_buffer())
    size = 0 if name == "ppo" else 8
    obs = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)

    def update():
        return policy.update(size, buffer, **options)

    update()
    untouched = copy.deepcopy(policy.state_dict())
    for mode in (True, False):
        policy.train(mode)
        for point in spread(points(update), count, start=int(mode)):
            policy.load_state_dict(untouched)
            place = interrupt(update, point, error)
            if "_shared.py" in place or "_recurrent.py" in place:  # see the test below
                _shared._known.set(None)
                _recurrent._steps.set(None)
            assert policy.training is mode, place
            assert _shared._known.get() is None, place
            assert _recurrent._steps.get() is None, place
            assert torch.is_grad_enabled(), place
            for parameter in policy.parameters():
                assert torch.isfinite(parameter).all(), place
            update()
            assert not policy.updating, place
            assert policy._sampled_weight is None, place
            with torch.no_grad():
                first, second = policy(Batch(obs=obs, info={})), policy(Batch(obs=obs[:1], info={}))
            assert len(first.act) == 2, place
            assert len(second.act) == 1, place
        fresh = [one.requires_grad for one in make().parameters()]
        assert [one.requires_grad for one in policy.parameters()] == fresh
        policy.load_state_dict(policy.state_dict())


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_recorded_again(name):
    make, make_buffer, options = CASES[name]
    policy = make()
    buffer = rows_of(policy.action_space, make_buffer())

    def update():
        policy.update(0 if name == "ppo" else 8, buffer, **options)

    update()
    check_gradients(update, "with torch.no_grad()")


def test_a_context_of_networks_leaves_nothing_behind():
    for context, variable, value in (
        (_shared.shared_features, _shared._known, None),
        (_shared.separate_features, _shared._known, None),
        (lambda: _recurrent.outputs_of(None), _recurrent._steps, None),
    ):

        def use(context=context):
            with context():
                pass

        total = points(use)
        # The last bytecodes put the old value back: Python handles no signal between them, as this test would have it.
        for point in range(total - 10):
            interrupt(use, point)
            assert variable.get() is value
        variable.set(None)
