"""The files of weights that Tianshou 1.0 saves load into the same policies here."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical

from rlfast.policy import DQNPolicy, ICMPolicy, IQNPolicy, MultiAgentPolicyManager, PPOPolicy, SACPolicy
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ContinuousCritic
from rlfast.utils.net.discrete import Actor, Critic, ImplicitQuantileNetwork, IntrinsicCuriosityModule

DISCRETE = Discrete(3)


def adam(*modules):
    return torch.optim.Adam([p for module in modules for p in module.parameters()])


def features():
    return Net(4, hidden_sizes=[8])


def dqn():
    network = Net(4, 3, hidden_sizes=[8])
    return DQNPolicy(model=network, optim=adam(network), action_space=DISCRETE, target_update_freq=5)


def ppo():
    actor, critic = Actor(features(), 3), Critic(features())
    return PPOPolicy(
        actor=actor,
        critic=critic,
        optim=adam(actor, critic),
        dist_fn=Categorical,
        action_space=DISCRETE,
        action_scaling=False,
    )


def sac():
    actor = ActorProb(features(), 2, unbounded=True, conditioned_sigma=True)
    critics = [ContinuousCritic(Net(4, 2, hidden_sizes=[8], concat=True)) for _ in range(2)]
    log_alpha = torch.zeros(1, requires_grad=True)
    return SACPolicy(
        actor=actor,
        actor_optim=adam(actor),
        critic=critics[0],
        critic_optim=adam(critics[0]),
        critic2=critics[1],
        critic2_optim=adam(critics[1]),
        alpha=(-2.0, log_alpha, torch.optim.Adam([log_alpha])),
        action_space=Box(-1, 1, (2,)),
    )


def iqn():
    network = ImplicitQuantileNetwork(features(), 3)
    return IQNPolicy(model=network, optim=adam(network), action_space=DISCRETE, target_update_freq=5)


def icm():
    curiosity = IntrinsicCuriosityModule(MLP(4, 8), 8, 3)
    return ICMPolicy(
        policy=dqn(),
        model=curiosity,
        optim=adam(curiosity),
        lr_scale=1.0,
        reward_scale=0.1,
        forward_loss_weight=0.2,
        action_space=DISCRETE,
    )


def copies(weights, *names, under=""):
    return {f"{under}{name}": value for name, value in weights.items() if name.startswith(names)}


ADDED = {  # what their files have beside the weights here
    dqn: lambda _: {},
    ppo: lambda weights: copies(weights, "actor.", "critic.", under="_actor_critic."),
    sac: lambda weights: {name.replace("actor.", "actor_old."): v for name, v in copies(weights, "actor.").items()},
    iqn: lambda _: {"tau_hat": torch.zeros(1, 200, 1)},
    icm: lambda _: {},
}
LEFT_OUT = ("_extra_state", "log_alpha")


def of_tianshou(policy, added):
    weights = {name: value for name, value in policy.state_dict().items() if not name.endswith(LEFT_OUT)}
    return weights | added(weights)


@pytest.mark.parametrize("make", ADDED, ids=lambda make: make.__name__)
def test_its_weights_load(make):
    theirs, ours = make(), make()
    weights = of_tianshou(theirs, ADDED[make])
    with pytest.warns(UserWarning, match="only weights were loaded"):
        ours.load_state_dict(weights)
    state = ours.state_dict()
    assert all(torch.equal(state[name], value) for name, value in weights.items() if name in state)


def test_other_weights_are_still_unexpected():
    weights = of_tianshou(ppo(), ADDED[ppo])
    with pytest.raises(RuntimeError, match=r"Unexpected.*actor_older"), pytest.warns(UserWarning, match="weights"):
        ppo().load_state_dict(weights | {"actor_older.weight": torch.zeros(1)})


def test_copies_beside_a_whole_state_are_unexpected():
    state = sac().state_dict()
    with pytest.raises(RuntimeError, match=r"Unexpected.*actor_old"):
        sac().load_state_dict(state | copies(state, "actor.preprocess", under="actor_old."))


def test_agents_without_weights_are_missed():
    """Tianshou's file has none of them: its manager keeps its policies in a dict."""

    class Game:
        agents, agent_idx, action_space, observation_space = ("a", "b"), {"a": 0, "b": 1}, DISCRETE, None

    with pytest.raises(RuntimeError, match=r"Missing.*policies\.0\.model"), pytest.warns(UserWarning, match="weights"):
        MultiAgentPolicyManager(policies=[dqn(), dqn()], env=Game()).load_state_dict({})
