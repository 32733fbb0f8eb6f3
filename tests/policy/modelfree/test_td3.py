import pytest
import torch
from gymnasium.spaces import Box, Discrete

from continuous import OBS, Given, Line, assert_resumes_exactly, transitions, weights
from rlfast.data import Batch, PrioritizedVectorReplayBuffer
from rlfast.policy import TD3Policy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.modelfree.td3 import TD3TrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam


def make_td3(seed=0, lr=1e-2, **options):
    torch.manual_seed(seed)
    defaults = {
        "actor": Actor(Net(4, hidden_sizes=[8]), 2),
        "actor_optim": adam(lr),
        "critic": Critic(Net(4, 2, hidden_sizes=[8], concat=True)),
        "critic_optim": adam(lr),
        "action_space": Box(-2.0, 2.0, (2,)),
    }
    policy = TD3Policy(**defaults | options)
    policy.seed(seed)
    return policy


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"action_space": Discrete(3)}, "TD3 needs a Box action space, got Discrete"),
        ({"update_actor_freq": 0}, "update_actor_freq must be at least 1"),
        ({"noise_clip": -0.1}, "noise_clip must not be negative"),
        ({"policy_noise": -0.1}, "policy_noise must not be negative"),
        ({"tau": 1.1}, "tau must be within 0 and 1"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        make_td3(**options)


def test_what_is_saved():
    policy = make_td3()
    parts = {name.split(".")[0] for name in policy.state_dict()}
    assert parts == {"actor", "actor_old", "critic", "critic_old", "critic2", "critic2_old", "_extra_state"}
    assert {*policy.get_extra_state()["optimizers"]} == {"actor_optim", "critic_optim", "critic2_optim"}


def test_the_critics_begin_apart():
    policy = make_td3()
    assert not torch.equal(weights(policy.critic), weights(policy.critic2))
    assert torch.equal(weights(policy.critic2), weights(policy.critic2_old))


def by_hand(**options):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": Given(0.5), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    optimizers = {f"{name}_optim": sgd for name in nets}
    return make_td3(**nets, **optimizers, action_space=Box(-1, 1, (1,)), **{"tau": 0.25} | options)


class TestNextValue:
    @pytest.mark.pitfall("F5")
    def test_the_smaller_value_of_a_smoothed_action_by_all_target_networks(self):
        policy = by_hand()
        with torch.no_grad():
            for network in (policy.critic, policy.critic2):
                network.slope.fill_(-100.0)
            policy.actor.act.fill_(-100.0)
        noise = torch.tensor([[0.0], [-1.0], [4.0], [-4.0]])  # of 0.2, and no more than 0.5
        value = policy.next_value(torch.zeros(4, 1), None, noise)
        actions = [0.5, 0.3, 1.0, 0.0]
        assert value.tolist() == pytest.approx([min(2 * a + 1, 2 - a) for a in actions])

    def test_without_a_limit(self):
        value = by_hand(noise_clip=0.0, policy_noise=0.5).next_value(torch.zeros(1, 1), None, torch.tensor([[4.0]]))
        assert value.tolist() == pytest.approx([2 - 2.5])

    def test_the_noise_is_standard_normal_and_of_the_policys_seed(self):
        (one,), (two,), (other,) = (make_td3(seed).draw_next(1000) for seed in (0, 0, 1))
        assert one.shape == (1000, 2)
        assert (one.mean().item(), one.std().item()) == pytest.approx((0.0, 1.0), abs=0.1)
        assert torch.equal(one, two)
        assert not torch.equal(one, other)


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=OBS.obs[:2, :1], act=torch.tensor([[0.5], [-0.5]]).numpy(), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = torch.tensor(weight)
        return policy.learn(batch), batch

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2 and 1 - 0 of the first; 3 - 1.5 and 1 - 2.5 of the second
        assert isinstance(stats, TD3TrainingStats)
        assert (stats.critic1_loss, stats.critic2_loss) == pytest.approx((1.0, 2.25))
        assert batch.td_error.tolist() == pytest.approx([1.25, -0.25])
        assert batch.weight.tolist() == pytest.approx([-1.25, 0.25])  # under the name, and with the sign, of Tianshou
        assert (policy.critic.slope.item(), policy.critic.offset.item()) == pytest.approx((2.0, 3.0))
        assert (policy.critic2.slope.item(), policy.critic2.offset.item()) == pytest.approx((0.5, 2.0))
        assert stats.actor_loss == pytest.approx(-(2.0 * 0.5 + 3.0))
        assert policy.actor.act.item() == pytest.approx(0.5 + 2.0)
        assert policy.actor_old.act.item() == pytest.approx(0.5 + 0.25 * 2.0)
        assert policy.critic_old.offset.item() == pytest.approx(1.0 + 0.25 * 2.0)
        assert policy.critic2_old.slope.item() == pytest.approx(-1.0 + 0.25 * 1.5)

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert (stats.critic1_loss, stats.critic2_loss) == pytest.approx((0.25, 0.5 * 2.25 / 2))

    def test_actor_and_target_networks_wait(self):
        policy = by_hand(update_actor_freq=3)
        waiting = (policy.actor, policy.actor_old, policy.critic_old, policy.critic2_old)
        moved, told = [], []
        for _ in range(7):
            before, first = [weights(network) for network in waiting], weights(policy.critic)
            told.append(self.step(policy)[0].actor_loss)
            moved.append([not torch.equal(weights(n), old) for n, old in zip(waiting, before, strict=True)])
            assert not torch.equal(weights(policy.critic), first)
        assert moved == [[number % 3 == 0] * 4 for number in range(7)]
        assert told[0] == told[1] == told[2] != told[3]
        assert told[3] == told[4] == told[5] != told[6]


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_whole_update_moves_every_network(n_step):
    policy = make_td3(estimation_step=n_step)
    nets = [getattr(policy, name) for name in ("actor", "critic", "critic2", "actor_old", "critic_old", "critic2_old")]
    before = [weights(net) for net in nets]
    policy.train()
    stats = policy.update(16, transitions())
    assert {*stats.get_loss_stats_dict()} == {"actor_loss", "critic1_loss", "critic2_loss"}
    assert not any(torch.equal(weights(net), old) for net, old in zip(nets, before, strict=True))
    assert [net.training for net in nets] == [True] * 3 + [False] * 3


def test_priorities():
    buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    before = buffer.get_weight(range(100)).copy()
    make_td3().update(16, buffer)
    assert (buffer.get_weight(range(100)) != before).any()


def test_learning_goes_through_a_forward_of_a_subclass():
    asked = []

    class Own(TD3Policy):
        def forward(self, batch, state=None, model="actor", **kwargs):
            asked.append(model)
            return super().forward(batch, state, model, **kwargs)

    def learned(kind):
        torch.manual_seed(0)
        nets = {
            "actor": Actor(Net(4, hidden_sizes=[8]), 2),
            "critic": Critic(Net(4, 2, hidden_sizes=[8], concat=True)),
        }
        policy = kind(**nets, actor_optim=adam(), critic_optim=adam(), action_space=Box(-1, 1, (2,)))
        policy.seed(0)
        for _ in range(2):
            policy.update(16, transitions())
        return weights(policy)

    assert torch.equal(learned(Own), learned(TD3Policy))
    assert asked == ["actor_old", "actor", "actor_old"]


def test_as_one_graph(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    eager, graph = (make_td3(lr=1e-3, estimation_step=2, compile=compile) for compile in (False, True))
    for policy in (eager, graph):
        buffer = transitions()
        told = [policy.update(16, buffer).actor_loss for _ in range(10)]
        assert told[0] == told[1] != told[2] == told[3]
    assert weights(graph).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_resume_is_exact(carry):
    assert_resumes_exactly(make_td3, carry)


def test_only_the_first_critic_is_computed_for_the_actor():
    policy, calls = make_td3(update_actor_freq=1), []
    for name in ("critic", "critic2"):
        getattr(policy, name).register_forward_hook(lambda *_, name=name: calls.append(name))
    policy.update(8, transitions())
    assert calls == ["critic", "critic2", "critic"]
