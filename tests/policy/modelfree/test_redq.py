import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from continuous import (
    LOG_PROB,
    GivenNormal,
    Lines,
    assert_resumes_exactly,
    ensemble,
    normal_actor,
    transitions,
    weights,
)
from rlfast.data import Batch, PrioritizedVectorReplayBuffer
from rlfast.policy import AutoAlpha, REDQPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.modelfree.redq import REDQTrainingStats
from rlfast.utils.optim import adam


def make_redq(seed=0, lr=1e-2, **options):
    torch.manual_seed(seed)
    defaults = {
        "actor": normal_actor(),
        "actor_optim": adam(lr),
        "critic": ensemble(options.get("ensemble_size", 5)),
        "critic_optim": adam(lr),
        "action_space": Box(-2.0, 2.0, (2,)),
        "ensemble_size": 5,
        "actor_delay": 2,
    }
    policy = REDQPolicy(**defaults | options)
    policy.seed(seed)
    return policy


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"action_space": Discrete(3)}, "REDQ needs a Box action space, got Discrete"),
        ({"subset_size": 6}, "subset_size must be at most ensemble_size 5, got 6"),
        ({"subset_size": 0}, "subset_size must be at least 1"),
        ({"ensemble_size": 0, "critic": ensemble(1)}, "ensemble_size must be at least 1"),
        ({"critic": ensemble(3)}, "ensemble_size is 5, but critic is an ensemble of 3"),
        ({"target_mode": "max"}, 'target_mode must be "min" or "mean", got \'max\''),
        ({"actor_delay": 0}, "actor_delay must be at least 1"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        make_redq(**options)


def test_what_is_saved():
    policy = make_redq(alpha=AutoAlpha(-2.0, 0.0, adam()))
    assert {name.split(".")[0] for name in policy.state_dict()} >= {"actor", "critic", "critic_old", "_extra_state"}
    assert {*policy.get_extra_state()["optimizers"]} == {"actor_optim", "critic_optim", "alpha_optim"}


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and critics ``2 a + 1``, ``-a + 2`` and ``-9``."""

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Lines([2.0, -1.0, 0.0], [1.0, 2.0, -9.0])}
    defaults = {"ensemble_size": 3, "actor_delay": 1, "alpha": 0.5, "tau": 0.25, "action_space": Box(-1, 1, (1,))}
    return make_redq(**nets, actor_optim=sgd, critic_optim=sgd, **defaults | options)


ACT = math.tanh(0.5)
VALUES = [2 * ACT + 1, 2 - ACT, -9.0]


def test_critics_are_drawn_for_the_device_of_the_actor():
    policy = make_redq(actor=normal_actor().to("meta"))
    assert [draws.device.type for draws in policy.draw_next(2)] == ["meta"] * 2


class TestNextValue:
    @pytest.mark.pitfall("F5")
    @pytest.mark.parametrize("members", [[0, 1], [1, 0], [1, 2]])
    @pytest.mark.parametrize(("mode", "of"), [("min", min), ("mean", lambda values: sum(values) / len(values))])
    def test_of_the_chosen_critics_of_the_target_network(self, members, mode, of):
        policy = by_hand(target_mode=mode)
        with torch.no_grad():
            policy.critic.slope.fill_(-100.0)
        value = policy.next_value(torch.zeros(2, 1), None, torch.full((2, 1), 0.5), torch.tensor(members))
        wanted = of([VALUES[i] for i in members]) - 0.5 * LOG_PROB
        assert value.tolist() == pytest.approx([wanted, wanted], abs=1e-5)

    def test_critics_are_drawn_without_replacement_from_the_policys_seed(self):
        policy, same, other = make_redq(ensemble_size=10), make_redq(ensemble_size=10), make_redq(1, ensemble_size=10)
        drawn = [policy.draw_next(4)[1].tolist() for _ in range(2000)]
        assert {len({*members}) for members in drawn} == {2}
        counts = np.bincount(np.ravel(drawn), minlength=10)
        assert (abs(counts - 400) < 100).all()  # five deviations
        assert [same.draw_next(4)[1].tolist() for _ in range(9)] == drawn[:9]
        assert [other.draw_next(4)[1].tolist() for _ in range(9)] != drawn[:9]


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = np.array(weight)
        policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
        return policy.learn(batch), batch

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2, 1 - 0; 3 - 1.5, 1 - 2.5; 3 + 9, 1 + 9
        assert isinstance(stats, REDQTrainingStats)
        assert stats.critic_loss == pytest.approx((1.0 + 2.25 + (144 + 100) / 2) / 3)
        assert batch.td_error.tolist() == pytest.approx([(1 + 1.5 + 12) / 3, (1 - 1.5 + 10) / 3])
        offsets = [1 + 2 / 3, 2.0, -9 + 22 / 3]
        slopes = [2.0, -1 + 1.5 / 3, (12 - 10) * 0.5 / 3]
        assert policy.critic.offset.flatten().tolist() == pytest.approx(offsets)
        assert policy.critic.slope.flatten().tolist() == pytest.approx(slopes)
        mean = sum(slope * ACT + offset for slope, offset in zip(slopes, offsets, strict=True)) / 3
        assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - mean)
        assert policy.actor.mean.item() == pytest.approx(sum(slopes) / 3 * (1 - ACT**2) - 0.5 * 2 * ACT, abs=1e-6)
        assert policy.critic_old.offset.flatten().tolist() == pytest.approx(
            [before + 0.25 * (after - before) for before, after in zip([1.0, 2.0, -9.0], offsets, strict=True)]
        )

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert stats.critic_loss == pytest.approx(0.5 * (1.0 + 2.25 + 144.0) / 2 / 3)

    def test_the_actor_moves_at_the_last_step_of_its_delay(self):
        log_alpha = torch.zeros(1, requires_grad=True)
        policy = by_hand(actor_delay=3, alpha=(-1.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.1)))
        moved, told = [], []
        for _ in range(7):
            before = [weights(policy.actor), log_alpha.item(), weights(policy.critic_old)]
            stats = self.step(policy)[0]
            told.append((stats.actor_loss, stats.alpha_loss))
            moved.append([not torch.equal(weights(policy.actor), before[0]), log_alpha.item() != before[1]])
            assert not torch.equal(weights(policy.critic_old), before[2])
            assert stats.alpha == pytest.approx(math.exp(log_alpha.item()))
        assert moved == [[number % 3 == 2] * 2 for number in range(7)]
        assert told[0] == told[1] == (0.0, None)
        assert told[2] == told[3] == told[4] != told[5]
        assert policy.critic_gradient_step == 7

    def test_by_default_at_the_twentieth(self):
        policy = make_redq(actor_delay=20)
        buffer = transitions()
        told = [policy.update(4, buffer).actor_loss for _ in range(20)]
        assert told[:19] == [0.0] * 19
        assert told[19] != 0.0


@pytest.mark.pitfall("redq-learned-alpha")  # Tianshou's asks for attributes that are not there
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_whole_update_moves_every_network(n_step):
    policy = make_redq(estimation_step=n_step, actor_delay=1, alpha=AutoAlpha(-2.0, 0.0, adam()))
    nets = [getattr(policy, name) for name in ("actor", "critic", "critic_old")]
    before = [weights(net) for net in nets]
    policy.train()
    stats = policy.update(16, transitions())
    assert {*stats.get_loss_stats_dict()} == {"actor_loss", "critic_loss", "alpha", "alpha_loss"}
    assert not any(torch.equal(weights(net), old) for net, old in zip(nets, before, strict=True))
    assert [net.training for net in nets] == [True, True, False]


def test_priorities():
    buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    before = buffer.get_weight(range(100)).copy()
    make_redq().update(16, buffer)
    assert (buffer.get_weight(range(100)) != before).any()


def test_learning_goes_through_what_a_subclass_overrides():
    asked = []

    class Own(REDQPolicy):
        def forward(self, batch, state=None, **kwargs):
            asked.append("forward")
            return super().forward(batch, state, **kwargs)

    def learned(kind):
        torch.manual_seed(0)
        nets = {"actor": normal_actor(), "critic": ensemble(5)}
        options = {"action_space": Box(-1, 1, (2,)), "ensemble_size": 5, "actor_delay": 1, "subset_size": 5}
        policy = kind(**nets, actor_optim=adam(), critic_optim=adam(), **options)
        policy.draw_normal = lambda shape, dtype, device: torch.full(shape, 0.5, dtype=dtype)  # forward draws by itself
        policy.seed(0)
        policy.update(16, transitions())
        return weights(policy)

    torch.testing.assert_close(learned(Own), learned(REDQPolicy))
    assert asked == ["forward", "forward"]


def test_as_one_graph(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    eager, graph = (make_redq(lr=1e-3, actor_delay=3, estimation_step=2, compile=compile) for compile in (False, True))
    for policy in (eager, graph):
        buffer = transitions()
        told = [policy.update(16, buffer).actor_loss for _ in range(10)]
        assert told[0] == told[1] == 0.0 != told[2] == told[3]
    assert weights(graph).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_resume_is_exact(carry):
    assert_resumes_exactly(lambda seed=0: make_redq(seed, alpha=AutoAlpha(-2.0, 0.0, adam(0.1))), carry)
