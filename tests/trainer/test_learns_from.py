"""A trainer refuses a policy that learns from something else, and names the trainer that it needs."""

from types import SimpleNamespace

import gymnasium as gym
import pytest

import rlfast.policy
from policies_to_train import SPACE, curious, dqn, ppo
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import BasePolicy, MultiAgentPolicyManager, RandomPolicy
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer

ON_POLICY = {"A2CPolicy", "GAILPolicy", "NPGPolicy", "PGPolicy", "PPOPolicy", "PQNPolicy", "TRPOPolicy"}
EITHER = {
    "ActingPolicy",
    "BasePolicy",
    "ICMPolicy",
    "MARLRandomPolicy",
    "MultiAgentPolicyManager",
    "PSRLPolicy",
    "RandomPolicy",
}
TRAINERS = {"on": OnpolicyTrainer, "off": OffpolicyTrainer, "offline": OfflineTrainer}


def team(*policies):
    names = [f"agent {k}" for k in range(len(policies))]
    spaces = {"action_space": SPACE, "observation_space": gym.spaces.Box(-1, 1, (4,))}
    env = SimpleNamespace(agents=names, agent_idx={name: k for k, name in enumerate(names)}, **spaces)
    return MultiAgentPolicyManager(policies=policies, env=env)


def trainer(kind, policy):
    buffer = VectorReplayBuffer(100, 1)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    collector = Collector(RandomPolicy(action_space=SPACE), envs, buffer)
    collector.collect(n_step=8)
    given = {"policy": policy, "max_epoch": 1, "batch_size": 4, "step_per_epoch": 8, "show_progress": False}
    if kind == "offline":
        return OfflineTrainer(buffer=buffer, **given)
    given |= {"train_collector": Collector(policy, envs, buffer), "step_per_collect": 8}
    return TRAINERS[kind](**given, **({"repeat_per_collect": 1} if kind == "on" else {}))


@pytest.mark.parametrize("make", [ppo, lambda: curious(ppo()), lambda: team(ppo(), RandomPolicy(action_space=SPACE))])
@pytest.mark.parametrize("kind", ["off", "offline"])
def test_roll_outs_need_the_on_policy_trainer(make, kind):
    name = TRAINERS[kind].__name__
    with pytest.raises(ValueError, match=f"learns from whole roll-outs.* {name} cannot train it: use OnpolicyTrainer"):
        trainer(kind, make())
    trainer("on", make())


@pytest.mark.parametrize("make", [dqn, lambda: curious(dqn()), lambda: team(dqn(), dqn())])
def test_sampled_transitions_need_another_trainer(make):
    with pytest.raises(ValueError, match=r"learns from sampled transitions.*use OffpolicyTrainer, or OfflineTrainer"):
        trainer("on", make())
    trainer("off", make())
    trainer("offline", make())


class Own(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=[0] * len(batch.obs))

    def learn(self, batch, *args, **kwargs):
        return {}


@pytest.mark.parametrize("make", [lambda: Own(action_space=SPACE), lambda: team(dqn(), ppo())])
@pytest.mark.parametrize("kind", TRAINERS)
def test_other_policies_are_trained_by_all(make, kind):
    trainer(kind, make())


def test_what_each_algorithm_learns_from():
    found = {}
    for name in rlfast.policy.__all__:
        kind = getattr(rlfast.policy, name)
        if isinstance(kind, type) and issubclass(kind, BasePolicy) and name not in EITHER:
            found[name] = kind.learns_from.fget(None)
    assert {name for name, what in found.items() if what == "rollouts"} == ON_POLICY
    assert {what for name, what in found.items() if name not in ON_POLICY} == {"transitions"}
