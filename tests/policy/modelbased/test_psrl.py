import copy

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlfast.data import Batch, ReplayBuffer
from rlfast.policy import PSRLPolicy
from rlfast.policy.modelbased.psrl import PSRLModel

S, A = 3, 2


def policy_of(mean=0.0, std=1.0, **options):
    return PSRLPolicy(
        trans_count_prior=np.ones((S, A, S)),
        rew_mean_prior=np.full((S, A), mean),
        rew_std_prior=np.full((S, A), std),
        action_space=Discrete(A),
        **options,
    )


def rows(*transitions):
    """Give a batch of rows (state, action, next state, reward, terminated, truncated)."""
    obs, act, obs_next, rew, terminated, truncated = map(np.array, zip(*transitions, strict=True))
    flags = {"terminated": terminated.astype(bool), "truncated": truncated.astype(bool)}
    return Batch(obs=obs, act=act, obs_next=obs_next, rew=rew.astype(float), **flags, info={})


def test_transitions_are_counted():
    policy = policy_of()
    policy.learn(rows((0, 1, 2, 1.0, 0, 0), (0, 1, 2, 3.0, 0, 0), (2, 0, 1, 5.0, 0, 0)))
    policy.learn(rows((0, 1, 0, 2.0, 0, 0)))
    expected = np.ones((S, A, S))
    expected[0, 1] += [1, 0, 2]
    expected[2, 0, 1] += 1
    np.testing.assert_array_equal(policy.model.trans_count, expected)


def test_expected_rewards_by_hand():
    policy = policy_of(mean=1.0, std=2.0, epsilon=0.5)  # as if half a reward of 1 had been seen
    stats = policy.learn(rows((0, 1, 2, 1.0, 0, 0), (0, 1, 2, 4.0, 0, 0)))
    mean, square = (0.5 + 1 + 4) / 2.5, (0.5 + 1 + 16) / 2.5
    deviation = (2.5 / (square - mean**2) + 1 / 4) ** -0.5
    assert policy.model.rew_mean[0, 1] == pytest.approx(mean)
    assert policy.model.rew_std[0, 1] == pytest.approx(deviation, rel=1e-6)
    assert stats.psrl_rew_mean == pytest.approx((mean + 5) / 6)
    assert stats.psrl_rew_std == pytest.approx((deviation + 10) / 6)
    assert set(stats.get_loss_stats_dict()) == {"psrl_rew_mean", "psrl_rew_std"}


@pytest.mark.pitfall("tianshou-psrl-prior-deviation")
def test_what_was_not_tried_keeps_its_prior():
    policy = policy_of(mean=0.0, std=7.0)
    policy.learn(rows((0, 1, 2, 1.0, 0, 0)))
    untried = np.ones((S, A), bool)
    untried[0, 1] = False
    assert set(policy.model.rew_std[untried]) == {7.0}
    assert policy.model.rew_std[0, 1] < 0.1


@pytest.mark.pitfall("tianshou-psrl-nan-deviation")
@pytest.mark.parametrize("reward", [1.0, 1e6, -3e7])
def test_deviations_are_numbers_with_a_prior_mean(reward):
    policy = policy_of(mean=reward)
    for _ in range(5):
        policy.learn(rows((0, 1, 2, reward, 0, 0)))
    assert np.isfinite(policy.model.rew_std).all()
    assert policy(Batch(obs=np.arange(S), info={})).act.shape == (S,)


@pytest.mark.pitfall("tianshou-psrl-prior-overwritten")
def test_priors_of_the_caller_stay():
    priors = [np.ones((S, A, S)), np.zeros((S, A)), np.ones((S, A))]
    before = copy.deepcopy(priors)
    names = ("trans_count_prior", "rew_mean_prior", "rew_std_prior")
    policy = PSRLPolicy(**dict(zip(names, priors, strict=True)), action_space=Discrete(A))
    policy.learn(rows((0, 1, 2, 1.0, 0, 0)))
    for prior, old in zip(priors, before, strict=True):
        np.testing.assert_array_equal(prior, old)


@pytest.mark.pitfall("tianshou-psrl-truncated-loop")
def test_loops_of_terminal_states_and_of_no_others():
    policy = policy_of(add_done_loop=True)
    policy.learn(rows((0, 1, 2, 1.0, 1, 0), (0, 0, 1, 1.0, 0, 1), (1, 1, 2, 1.0, 1, 0)))
    assert policy.model.trans_count[2].tolist() == [[1, 1, 3]] * A
    assert policy.model.trans_count[1].tolist() == [[1, 1, 1], [1, 1, 2]]
    np.testing.assert_allclose(policy.model.rew_mean[2], 0)
    np.testing.assert_allclose(policy.model.rew_count[2], 2.01)
    assert policy_of().learn(rows((0, 1, 2, 1.0, 1, 0))) is not None
    plain = policy_of()
    plain.learn(rows((0, 1, 2, 1.0, 1, 0)))
    assert (plain.model.trans_count[2] == 1).all()


def test_draws_have_the_moments_of_the_posterior():
    count = np.random.default_rng(0).uniform(0.2, 9, (S, A, S))
    count[0, 0] = [1e-4, 1e-4, 1e-4]  # whose gamma variates are too small for floats
    model = PSRLModel(count, np.full((S, A), 3.0), np.full((S, A), 2.0), 0.9, 0.01)
    rng = np.random.default_rng(1)
    draws = np.array([model.sample_trans_prob(rng) for _ in range(4000)])
    np.testing.assert_allclose(draws.sum(-1), 1)
    share = count / count.sum(-1, keepdims=True)
    np.testing.assert_allclose(draws.mean(0), share, atol=0.03)
    variance = share * (1 - share) / (count.sum(-1, keepdims=True) + 1)
    np.testing.assert_allclose(draws.var(0), variance, atol=0.01)
    rewards = np.array([model.sample_reward(rng) for _ in range(4000)])
    np.testing.assert_allclose(rewards.mean(0), 3, atol=0.15)
    np.testing.assert_allclose(rewards.std(0), 2, atol=0.1)


def test_value_iteration_finds_the_best_policy():
    rng = np.random.default_rng(2)
    trans_prob, rew = rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A))
    policy, value = PSRLModel.value_iteration(trans_prob, rew, 0.9, 1e-12, np.zeros(S))
    of_policy = trans_prob[np.arange(S), policy], rew[np.arange(S), policy]
    np.testing.assert_allclose(value, np.linalg.solve(np.eye(S) - 0.9 * of_policy[0], of_policy[1]), rtol=1e-6)
    np.testing.assert_array_equal(policy, (rew + 0.9 * trans_prob @ value).argmax(1))


@pytest.mark.pitfall("tianshou-psrl-noise-of-epsilon")
def test_equal_actions_are_drawn_and_others_are_not():
    trans_prob = np.full((1000, 2, 1000), 1 / 1000)
    rew = np.zeros((1000, 2))
    rew[500:, 1] = 1e-4  # less than epsilon
    policy, _ = PSRLModel.value_iteration(trans_prob, rew, 0.0, 0.01, np.zeros(1000), np.random.default_rng(0))
    assert 0.4 < policy[:500].mean() < 0.6
    assert (policy[500:] == 1).all()


def test_values_that_never_settle():
    there_and_back = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    with pytest.warns(UserWarning, match="values have not settled after 100000 sweeps"):
        PSRLModel.value_iteration(there_and_back, np.array([[1.0], [-1.0]]), 1.0, 0.01, np.zeros(2))


def test_one_model_is_drawn_between_two_updates():
    policy = policy_of(std=100.0)
    policy.seed(0)
    batch = Batch(obs=np.arange(S), info={})
    seen = set()
    for _ in range(20):
        act = policy(batch).act
        assert all((policy(batch).act == act).all() for _ in range(5))
        seen.add(tuple(act))
        policy.learn(rows((0, 1, 2, 0.0, 0, 0)))
    assert len(seen) > 2
    other = policy_of(std=100.0)
    other.seed(0)
    assert (other(batch).act == other.model(np.arange(S))).all()


def test_a_model_alone_acts_as_well():
    model = PSRLModel(np.ones((S, A, S)), np.zeros((S, A)), np.ones((S, A)), 0.9, 0.01)
    np.random.seed(0)
    act = model(np.array([0, 2, 2]))
    assert model.updated
    assert act.tolist() == model.policy[[0, 2, 2]].tolist()


def test_state_of_training_is_restored():
    policy, other = policy_of(std=50.0), policy_of(std=50.0)
    policy.seed(3)
    policy.learn(rows((0, 1, 2, 1.0, 0, 0), (2, 0, 1, -1.0, 0, 0)))
    batch = Batch(obs=np.arange(S), info={})
    policy(batch)
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    for name in ("trans_count", "rew_mean", "rew_std", "rew_square_sum", "rew_count", "value", "policy"):
        np.testing.assert_array_equal(getattr(other.model, name), getattr(policy.model, name), err_msg=name)
    assert other.model.updated
    for _ in range(10):
        for one in (policy, other):
            one.learn(rows((1, 1, 2, 0.5, 0, 0)))
        assert policy(batch).act.tolist() == other(batch).act.tolist()
    np.testing.assert_array_equal(policy.model.value, other.model.value)


def test_updates_from_a_buffer():
    policy, buffer = policy_of(), ReplayBuffer(10)
    for i in range(6):
        buffer.add(Batch(obs=i % S, act=i % A, rew=1.0, terminated=i == 5, truncated=False, obs_next=(i + 1) % S))
    policy.update(0, buffer, batch_size=2, repeat=3)  # a second pass would count them twice
    assert policy.model.trans_count.sum() == S * A * S + 6


def test_actions_that_begin_elsewhere():
    policy = PSRLPolicy(
        trans_count_prior=np.ones((S, A, S)),
        rew_mean_prior=np.array([[0.0, 9.0]] * S),
        rew_std_prior=np.zeros((S, A)),
        action_space=Discrete(A, start=5),
    )
    assert policy.compute_action(1) == 6
    policy.learn(rows((0, 1, 2, 1.0, 0, 0)))
    assert policy.model.rew_std[0, 1] == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"rew_mean_prior": np.zeros((S, A + 1))}, r"of shapes \[S, A, S\], .* got \(3, 2, 3\), \(3, 3\) and \(3, 2\)"),
        ({"trans_count_prior": np.zeros((S, A, S))}, "must be above 0 and finite"),
        ({"rew_std_prior": np.full((S, A), -1.0)}, "no deviation negative"),
        ({"rew_mean_prior": np.full((S, A), np.nan)}, "must be finite"),
        ({"action_space": Discrete(4)}, r"have 2 actions, but the action space is Discrete\(4\)"),
        ({"discount_factor": 1.5}, "discount_factor must be within 0 and 1"),
        ({"epsilon": -1.0}, "epsilon must not be negative"),
    ],
)
def test_wrong_arguments(names, message):
    given = {
        "trans_count_prior": np.ones((S, A, S)),
        "rew_mean_prior": np.zeros((S, A)),
        "rew_std_prior": np.ones((S, A)),
        "action_space": Discrete(A),
    }
    with pytest.raises(ValueError, match=message):
        PSRLPolicy(**given | names)


def test_wrong_observations_and_rewards_change_nothing():
    policy = policy_of()
    for obs in (np.array([-1]), np.array([S]), np.array([0.5])):
        with pytest.raises(ValueError, match="a state must be an integer from 0 to 2, got"):
            policy(Batch(obs=obs, info={}))
    for bad in ((0, 1, S, 1.0, 0, 0), (0, A, 1, 1.0, 0, 0), (0, 1, 1, np.nan, 0, 0)):
        with pytest.raises(ValueError, match="must be"):
            policy.learn(rows((0, 0, 0, 1.0, 0, 0), bad))
    assert (policy.model.trans_count == 1).all()
    with pytest.raises(ValueError, match="action space is Box"):
        PSRLPolicy(
            trans_count_prior=np.ones((S, A, S)),
            rew_mean_prior=np.zeros((S, A)),
            rew_std_prior=np.ones((S, A)),
            action_space=Box(0, 1),
        )
