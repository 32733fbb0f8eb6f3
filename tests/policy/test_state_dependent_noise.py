"""Acting by state-dependent noise: policies draw matrices, collectors carry them from step to step."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from algorithms import CONTINUOUS, make_policy, sde_actor
from rlfast.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import SquashedNormal
from rlfast.policy import A2CPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Critic
from rlfast.utils.optim import adam
from rollouts import HEADS

ROLLOUTS = {"ppo": PPOPolicy, "a2c": A2CPolicy, "pg": PGPolicy, "npg": NPGPolicy, "trpo": TRPOPolicy}
SOFT = [name for name in CONTINUOUS if name in ("sac", "redq", "tqc", "droq", "crossq", "xqc")]


class Still(gym.Env):
    """Shows the same observation in all steps of its episodes, which all have the same length."""

    observation_space, action_space = Box(-9, 9, (4,)), Box(-2, 2, (2,))

    def __init__(self, length):
        self._length = length

    def reset(self, *, seed=None, options=None):
        self._left = self._length
        return np.arange(1, 5, dtype=np.float32), {}

    def step(self, action):
        self._left -= 1
        return np.arange(1, 5, dtype=np.float32), 0.0, self._left == 0, False, {}


def make(name, freq=-1, **options):
    """Make a policy of 4 numbers and 2 actions that explores by state-dependent noise."""
    if name in SOFT:
        policy = make_policy(name, actor=sde_actor(), **options)
    else:
        torch.manual_seed(0)
        space, dist_fn, actor = HEADS["sde"]
        kind, given = ROLLOUTS[name], {"dist_fn": dist_fn, "action_space": space, "optim": adam(1e-3)}
        given |= {"critic": Critic(Net(4, hidden_sizes=[8]))} if kind.has_critic else {}
        policy = kind(actor=actor(), **given, **options)
        policy.seed(0)
    policy.actor.sigma.sample_freq = freq
    return policy


def collector_of(policy, *lengths, kind=Collector, **options):
    envs = DummyVectorEnv([lambda length=length: Still(length) for length in lengths], **options)
    return kind(policy, envs, VectorReplayBuffer(100, len(lengths)))


def numbers_of(collector):
    """For each environment, the number of each of its actions, counted from 0 in the order in which they first came."""
    found = []
    for ring in collector.buffer.buffers:
        acts = [tuple(act) for act in ring.sample(0)[0].act.round(4).tolist()]  # one row is rounded unlike two
        found.append([[*dict.fromkeys(acts)].index(act) for act in acts])
    return found


class TestActing:
    @pytest.mark.parametrize("name", [*ROLLOUTS, *SOFT])
    def test_equal_observations_have_equal_actions_within_an_episode(self, name):
        collector = collector_of(make(name), 4, 3)
        for _ in range(8):
            collector.collect(n_step=2)
        assert numbers_of(collector) == [[0] * 4 + [1] * 4, [0] * 3 + [1] * 3 + [2] * 2]
        first, second = collector.buffer.sample(0)[0].act[[0, 8]]
        assert (first != second).all()  # each environment has its own

    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_other_actions_after_some_steps(self, name):
        collector = collector_of(make(name, freq=2), 5)
        collector.collect(n_step=10)
        assert numbers_of(collector) == [[0, 0, 1, 1, 2, 3, 3, 4, 4, 5]]

    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_environments_that_go_on_alone_keep_their_noise(self, name):
        collector = collector_of(make(name), 6, 2)
        collector.evaluate(2)
        assert numbers_of(collector) == [[0] * 6, [0] * 2]

    def test_asynchronous_environments_keep_their_noise(self):
        with pytest.warns(UserWarning, match="asynchronous"):
            collector = collector_of(make("sac"), 5, 3, kind=AsyncCollector, wait_num=1)
        collector.collect(n_step=16)
        first, second = numbers_of(collector)
        assert (first, second) == ([k // 5 for k in range(len(first))], [k // 3 for k in range(len(second))])

    def test_random_actions_end_what_the_noise_remembers(self):
        collector = collector_of(make("sac"), 9)
        for random in (False, True, False):
            collector.collect(n_step=2, random=random)
        assert numbers_of(collector) == [[0, 0, 1, 2, 3, 3]]

    def test_a_roll_out_begins_with_new_noise(self):
        policy = make("ppo")
        collector, matrices = collector_of(policy, 20), []
        for learns in (False, False, True):
            if learns:
                policy.update(0, collector.buffer, batch_size=3, repeat=1)
            collector.collect(n_step=3)
            matrices.append(collector._episodes.hidden["exploration"]["matrix"])
        assert torch.equal(matrices[1], matrices[0])
        assert not torch.equal(matrices[2], matrices[1])

    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_actions_are_means_plus_the_linear_noise(self, name):
        policy, obs = make(name), np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
        result = policy(Batch(obs=obs, info={}))
        (mean, std), _ = policy.actor(obs)
        z, matrix = policy.actor.preprocess(obs)[0], result.state["exploration"]["matrix"]
        pre = mean + torch.einsum("bf,bfa->ba", z, policy.actor.sigma.sigma() * matrix)
        assert torch.allclose(result.act, pre.tanh() if name == "sac" else pre, atol=1e-6)
        if name == "sac":
            log_prob = SquashedNormal(mean, std).log_prob(pre.tanh())
            assert torch.allclose(result.log_prob[:, 0], log_prob, atol=1e-4)

    @pytest.mark.parametrize("name", [*ROLLOUTS, *SOFT])
    def test_deterministic_evaluation_has_no_noise(self, name):
        policy = make(name, deterministic_eval=True)
        before = policy._torch_rng.get_state()
        batch = Batch(obs=np.ones((3, 4), np.float32), info={})
        result = policy.eval()(batch)
        assert torch.equal(result.act, result.dist.mode)
        assert name not in ROLLOUTS or torch.equal(policy._torch_rng.get_state(), before)
        assert result.state is None

    def test_training_noise_outlasts_a_test_by_the_same_policy(self):
        policy = make("sac", deterministic_eval=False)
        train, test = collector_of(policy, 9), collector_of(policy, 2, 2)
        train.collect(n_step=3)
        policy.eval()
        test.evaluate(2)
        policy.train()
        train.collect(n_step=3)
        assert numbers_of(train) == [[0] * 6]
        assert numbers_of(test) == [[0] * 2] * 2

    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_why_it_does_not_act_in_rust(self, name):
        collector = collector_of(make(name), 3)
        for _ in range(2):
            assert "acting by torch: state-dependent noise (sde) is drawn in Python" in repr(collector)
            collector.collect(n_step=1)


class TestState:
    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_matrices_are_not_stored_with_rows(self, name):
        collector = collector_of(make(name), 3, 3)
        collector.collect(n_step=4)
        assert collector.buffer.sample(0)[0].policy.is_empty()

    @pytest.mark.parametrize("name", ["ppo", "sac"])
    def test_a_restored_collector_goes_on_with_its_noise(self, name):
        old, new = (collector_of(make(name, freq=3), 9, 5) for _ in range(2))
        old.collect(n_step=8)
        new.policy.load_state_dict(old.policy.state_dict())
        new._episodes.hidden = old.state_dict()["hidden"]
        batch = Batch(obs=np.ones((2, 4), np.float32), info={})
        for _ in range(4):
            (ours, theirs) = (one.policy(batch, one._episodes.hidden) for one in (new, old))
            assert torch.equal(ours.act, theirs.act)
            new._episodes.hidden, old._episodes.hidden = ours.state, theirs.state
