"""What holds for each algorithm that learns from transitions; what each computes is in a file of its own."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from algorithms import ALL, CONTINUOUS, DISCRETE, IMITATING, kind_of, learned_temperature, make_policy, rows
from continuous import OBS, ensemble, weights
from policy.given import forwarding
from rlfast.data import Batch, PrioritizedVectorReplayBuffer
from rlfast.exploration import OUNoise
from rlfast.policy.compile.compiled_update import CompiledUpdate

every = pytest.mark.parametrize("name", ALL)
CHANGING = pytest.param("cql", {"imitation_steps": 3}, id="cql that imitates at first")
"""A policy whose loss changes during the tests."""
with_options = pytest.mark.parametrize(("name", "options"), [*(pytest.param(n, {}, id=n) for n in ALL), CHANGING])
ACTOR, CRITICS = {"actor_loss", "critic_loss"}, {"actor_loss", "critic1_loss", "critic2_loss"}
LOSSES = {
    "ddpg": ACTOR,
    "td3": CRITICS,
    "sac": CRITICS | {"alpha", "alpha_loss"},
    **dict.fromkeys(("redq", "tqc", "droq", "crossq"), ACTOR | {"alpha", "alpha_loss"}),
    "xqc": ACTOR | {"alpha", "alpha_loss", "reward_divisor"},
    "dqn": {"loss"},
    "bdq": {"loss"},
    "fqf": {"loss", "quantile_loss", "fraction_loss", "entropy_loss"},
}


OFFLINE = (*IMITATING, "td3-bc", "rebrac", "cql", "iql", "bcq", "discrete-bcq", "discrete-cql", "discrete-crr")


def learned(policy, buffer, start=0, stop=4):
    """Learn from drawn rows; return the weights, the statistics of the last step, and noise after it."""
    for step in range(start, stop):
        indices = np.random.default_rng(step).integers(100, size=16)
        stats = policy.learn(policy.process_fn(buffer[indices], buffer, indices))
    noise = policy.exploration_noise(np.zeros((3, 2), np.float32), Batch(obs=OBS.obs[:3], info={}))
    return weights(policy), stats, noise


UNIT, POSITIVE = "must be within 0 and 1", "must be at least 1"


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        *((name, {"action_space": THREE}, "needs a Box action space, got Discrete") for THREE in (Discrete(3),)
          for name in CONTINUOUS if name != "imitation"),
        ("discrete-sac", {"action_space": Box(-1, 1, (2,))}, "DiscreteSAC needs a Discrete action space, got Box"),
        ("discrete-crr", {"action_space": Box(-1, 1, (2,))}, "DiscreteCRR needs a Discrete action space, got Box"),
        ("discrete-sac", {"gamma": 1.5}, f"gamma {UNIT}"),
        ("ddpg", {"action_bound_method": "tanh"}, 'action_bound_method must be "clip" or None'),
        ("ddpg", {"action_space": Box(-np.inf, np.inf, (2,))}, "finite bounds"),
        ("ddpg", {"tau": 1.1}, f"tau {UNIT}"),
        ("ddpg", {"gamma": float("nan")}, "gamma must be a finite number"),
        ("ddpg", {"estimation_step": 0}, f"estimation_step {POSITIVE}"),
        ("td3", {"update_actor_freq": 0}, f"update_actor_freq {POSITIVE}"),
        ("td3", {"noise_clip": -0.1}, "noise_clip must not be negative"),
        ("td3", {"policy_noise": -0.1}, "policy_noise must not be negative"),
        ("td3", {"tau": 1.1}, f"tau {UNIT}"),
        ("sac", {"action_bound_method": "tanh"}, "SAC squashes actions itself"),
        ("sac", {"action_bound_method": ""}, "action_bound_method must be"),
        ("sac", {"gamma": -0.1}, f"gamma {UNIT}"),
        ("sac", {"estimation_step": 0}, f"estimation_step {POSITIVE}, got 0"),
        ("sac", {"alpha": -1.0}, r"alpha must be 0 or more, got -1\.0"),
        ("redq", {"subset_size": 6}, "subset_size must be at most ensemble_size 5, got 6"),
        ("redq", {"subset_size": 0}, f"subset_size {POSITIVE}"),
        ("redq", {"ensemble_size": 0, "critic": ensemble(1)}, f"ensemble_size {POSITIVE}"),
        ("redq", {"critic": ensemble(3)}, "ensemble_size is 5, but critic is an ensemble of 3"),
        ("redq", {"target_mode": "max"}, 'target_mode must be "min" or "mean", got \'max\''),
        ("redq", {"actor_delay": 0}, f"actor_delay {POSITIVE}"),
        ("tqc", {"top_quantiles_to_drop_per_net": -1}, "top_quantiles_to_drop_per_net must not be negative"),
        ("tqc", {"top_quantiles_to_drop_per_net": 5}, "top_quantiles_to_drop_per_net is 5, and critic has 5"),
        ("tqc", {"tau": 2.0}, f"tau {UNIT}"),
        ("droq", {"actor_delay": 0}, f"actor_delay {POSITIVE}"),
        ("crossq", {"policy_delay": 0}, f"policy_delay {POSITIVE}"),
        ("xqc", {"policy_delay": 0}, f"policy_delay {POSITIVE}"),
        ("xqc", {"num_atoms": 1}, "num_atoms must be at least 2"),
        ("xqc", {"num_atoms": 6}, "num_atoms is 6, but critic gives 5 numbers"),
        ("xqc", {"v_max": 0.0}, "v_max must be above 0"),
        ("crossq", {"gamma": 2.0}, f"gamma {UNIT}"),
        *((name, {"discount_factor": 1.1}, f"discount_factor {UNIT}, got 1.1")
          for name in ("dqn", "c51", "qrdqn", "rainbow", "iqn", "fqf", "bdq")),
        *((name, {"reward_normalization": True}, "reward_normalization must be False")
          for name in ("dqn", "c51", "qrdqn", "rainbow", "iqn", "fqf", "bdq")),
        ("dqn", {"discount_factor": float("nan")}, "discount_factor must be a finite number, got nan"),
        ("dqn", {"estimation_step": 0}, f"estimation_step {POSITIVE}, got 0"),
        ("dqn", {"target_update_freq": -1}, "target_update_freq must not be negative, got -1"),
        ("bdq", {"action_space": Box(-np.inf, np.inf, (2,))}, "needs bounds and one axis"),
        ("bdq", {"action_space": Box(-1, 1, (2, 2))}, "needs bounds and one axis"),
        ("fqf", {"num_fractions": 1}, "num_fractions must be at least 2, got 1"),
    ],
)  # fmt: skip
def test_bad_options(name, options, match):
    with pytest.raises(ValueError, match=match):
        make_policy(name, **options)


@pytest.mark.parametrize(
    ("name", "networks", "optimizers"),
    [
        ("ddpg", "actor actor_old critic critic_old", "actor critic"),
        ("td3", "actor actor_old critic critic_old critic2 critic2_old", "actor critic critic2"),
        ("sac", "actor critic critic_old critic2 critic2_old temperature", "actor critic critic2 alpha"),
        ("redq", "actor critic critic_old temperature", "actor critic alpha"),
        ("tqc", "actor critic critic_old temperature", "actor critic alpha"),
        ("droq", "actor critic critic_old temperature", "actor critic alpha"),
        ("crossq", "actor critic temperature", "actor critic alpha"),
        ("xqc", "actor critic critic_old support temperature", "actor critic alpha"),
    ],
)
def test_what_is_saved(name, networks, optimizers):
    policy = make_policy(name, **learned_temperature(name))
    assert {key.split(".")[0] for key in policy.state_dict()} == {*networks.split(), "_extra_state"}
    saved = {one for one in policy.get_extra_state()["optimizers"] if not one.startswith("temperature")}
    assert saved == {f"{one}_optim" for one in optimizers.split()}


@pytest.mark.pitfall("redq-learned-alpha")  # Tianshou's asks for attributes that are not there
@pytest.mark.parametrize("n_step", [1, 3])
@every
def test_a_whole_update_moves_every_network(name, n_step):
    steps = {} if name in IMITATING or not hasattr(make_policy(name), "n_step") else {"estimation_step": n_step}
    if name in ("bcq", "discrete-crr"):
        steps = {}
    policy = make_policy(name, **steps, **learned_temperature(name))
    policy.train()
    buffer = policy.process_buffer(rows(name))
    before = {one: weights(network) for one, network in policy.named_children()}
    stats = [policy.update(16, buffer) for _ in range(4)][-1]
    assert isinstance(stats, policy.stats_class)
    losses = stats.get_loss_stats_dict()
    assert all(np.isfinite(value) for value in losses.values())
    assert {*losses} == LOSSES.get(name, {*losses})
    for one, network in policy.named_children():
        assert not torch.equal(weights(network), before[one]), one
        if name not in ("droq", "crossq", "xqc"):  # which have modes of their own
            assert network.training is not one.endswith(("_old", "_target")), one
    assert len(policy(OBS).act) == 100


@pytest.mark.parametrize("name", ["c51", "qrdqn", "rainbow", "iqn", "fqf", "bdq"])
def test_the_target_network_waits(name):
    policy, buffer = make_policy(name), rows(name)
    before = weights(policy.model)
    for _ in range(2):
        policy.update(16, buffer)
        assert torch.equal(weights(policy.model_old), before)  # until the third
    alone = make_policy(name, target_update_freq=0)
    assert np.isfinite(alone.update(16, buffer).loss)


@pytest.mark.parametrize("name", [name for name in ALL if name not in IMITATING])
def test_priorities(name):
    policy = make_policy(name)
    buffer = policy.process_buffer(rows(name, PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4))
    before = buffer.get_weight(range(100)).copy()
    policy.update(16, buffer)
    assert (buffer.get_weight(range(100)) != before).any()


@pytest.mark.parametrize(("name", "options"), [*((n, {}) for n in ALL if n != "bcq"), ("cql", {"imitation_steps": 3})])
def test_learning_goes_through_a_forward_of_a_subclass(name, options):
    plain, own = (make_policy(name, **options) for _ in range(2))
    calls = forwarding(own)
    for policy in (plain, own):  # forward draws by itself
        policy.draw_normal = lambda shape, dtype, device: torch.full(shape, 0.5, dtype=dtype)
        for _ in range(2):
            policy.update(16, policy.process_buffer(rows(name)))
    assert calls
    if name not in ("iqn", "sde"):  # whose forward draws other levels, or matrices
        torch.testing.assert_close(weights(own), weights(plain))


@with_options
def test_as_one_graph(name, options, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    found = []
    for compile in (False, True):
        policy = make_policy(name, compile=compile, **options, **learned_temperature(name))
        found.append(learned(policy, policy.process_buffer(rows(name)), 0, 6))
    (eager, stats, _), (graph, same, _) = found
    assert graph.numpy() == pytest.approx(eager.numpy(), abs=1e-5)
    assert same.get_loss_stats_dict() == pytest.approx(stats.get_loss_stats_dict(), abs=1e-4)


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
@with_options
def test_resume_is_exact(name, options, carry):
    def fresh(seed=0):
        noise = {"exploration_noise": OUNoise(seed=seed)} if name in ("ddpg", "td3", "td3-bc", "rebrac") else {}
        return make_policy(name, seed, **options, **noise, **learned_temperature(name))

    half, straight = fresh(), fresh()
    buffer = half.process_buffer(rows(name))
    learned(half, buffer, 0, 3)
    if carry == "state":
        resumed = fresh(5)
        resumed.load_state_dict(half.state_dict())
    else:
        resumed = copy.deepcopy(half) if carry == "copy" else pickle.loads(pickle.dumps(half))
    learned(straight, buffer, 0, 3)
    (weights_, stats, noise), (theirs, their_stats, their_noise) = (
        learned(p, buffer, 3, 6) for p in (resumed, straight)
    )
    assert torch.equal(weights_, theirs)
    assert stats == their_stats
    assert np.array_equal(noise, their_noise)


@every
def test_without_optimizers_it_acts_and_does_not_learn(name):
    none = dict.fromkeys(inspect_optimizers(name))
    policy = make_policy(name, **none)
    assert len(policy(OBS).act) == 100
    with pytest.raises(ValueError, match="can act, but not learn"):
        policy.update(8, policy.process_buffer(rows(name)))


def inspect_optimizers(name):
    return [one for one in kind_of(name).__signature__.parameters if one.endswith("optim") and one != "critic2_optim"]


@pytest.mark.parametrize(
    "name", [name for name in ALL if name in IMITATING or "-" in name or name in ("cql", "iql", "bcq")]
)
def test_the_value_of_a_truncated_end_counts_and_that_of_a_terminal_one_does_not(name):
    def told(shift, flag):
        policy, buffer = make_policy(name), rows(name)
        obs_next = np.array(buffer.obs_next)
        obs_next[getattr(buffer, flag)] += shift
        buffer._meta.obs_next = obs_next
        policy.process_buffer(buffer)
        indices = np.flatnonzero(buffer.terminated if flag == "terminated" else ~buffer.terminated & buffer.truncated)
        if name == "cql":
            policy.cql_weight = 0.0  # which asks for actions at the next observation
        return policy.learn(policy.process_fn(buffer[indices], buffer, indices)).get_loss_stats_dict()

    assert told(0.0, "terminated") == pytest.approx(told(3.0, "terminated"))
    assert (told(0.0, "truncated") == pytest.approx(told(3.0, "truncated"))) is (name in IMITATING)


@pytest.mark.parametrize("name", [name for name in DISCRETE if name != "bdq"])
def test_illegal_actions_are_never_chosen(name):
    policy = make_policy(name)
    mask = np.arange(100)[:, None] % 3 != np.arange(3)
    act = np.asarray(policy(Batch(obs=Batch(obs=OBS.obs, mask=mask), info={})).act)
    assert mask[np.arange(100), act].all()
    assert len({*act}) > 1
