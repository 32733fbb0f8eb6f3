import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from continuous import OBS, Given, Line, transitions, weights
from policy.given import calls_of
from rlfast.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.exploration import GaussianNoise, OUNoise
from rlfast.policy import DDPGPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.modelfree.ddpg import DDPGTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam


def make_ddpg(seed=0, lr=1e-2, **options):
    torch.manual_seed(seed)
    defaults = {
        "actor": Actor(Net(4, hidden_sizes=[8]), 2),
        "actor_optim": adam(lr),
        "critic": Critic(Net(4, 2, hidden_sizes=[8], concat=True)),
        "critic_optim": adam(lr),
        "action_space": Box(-2.0, 2.0, (2,)),
    }
    policy = DDPGPolicy(**defaults | options)
    policy.seed(seed)
    return policy


class TestConstruction:
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"action_space": Discrete(3)}, "DDPG needs a Box action space, got Discrete"),
            ({"action_bound_method": "tanh"}, 'action_bound_method must be "clip" or None'),
            ({"action_space": Box(-np.inf, np.inf, (2,))}, "finite bounds"),
            ({"tau": 1.1}, "tau must be within 0 and 1"),
            ({"gamma": float("nan")}, "gamma must be a finite number"),
            ({"estimation_step": 0}, "estimation_step must be at least 1"),
        ],
    )
    def test_bad_options(self, options, match):
        with pytest.raises(ValueError, match=match):
            make_ddpg(**options)

    @pytest.mark.parametrize("name", ["actor", "critic"])
    def test_what_is_no_network(self, name):
        with pytest.raises(TypeError, match=f"{name} must be a Module"):
            make_ddpg(**{name: lambda obs: obs})

    def test_an_actor_that_stretches_actions_itself(self):
        actor = Actor(Net(4, hidden_sizes=[8]), 2, max_action=2.0)
        with pytest.warns(UserWarning, match="stretched twice: by the actor, to max_action=2"):
            make_ddpg(actor=actor)
        policy = make_ddpg(actor=actor, action_scaling=False, action_bound_method=None)
        assert np.array_equal(policy.map_action(np.full((1, 2), 1.5)), [[1.5, 1.5]])

    def test_what_is_saved(self):
        parts = {name.split(".")[0] for name in make_ddpg().state_dict()}
        assert parts == {"actor", "actor_old", "critic", "critic_old", "_extra_state"}
        assert {*make_ddpg().get_extra_state()["optimizers"]} == {"actor_optim", "critic_optim"}

    def test_without_optimizers_it_acts(self):
        policy = make_ddpg(actor_optim=None, critic_optim=None)
        assert policy(OBS).act.shape == (100, 2)
        with pytest.raises(ValueError, match="can act, but not learn"):
            policy.update(8, transitions())


class TestForward:
    def test_the_actors_actions(self):
        policy = make_ddpg()
        result = policy(OBS, state="carried")
        assert torch.equal(result.act, policy.actor(OBS.obs)[0])
        assert result.state == "carried"
        with torch.no_grad():
            policy.actor.last.model[0].bias.add_(1.0)
        assert torch.equal(policy(OBS, model="actor_old").act, policy.actor_old(OBS.obs)[0])
        assert not torch.equal(policy(OBS).act, policy(OBS, model="actor_old").act)

    def test_actions_of_several_axes(self):
        policy = make_ddpg(action_space=Box(-2, 2, (1, 2)))
        assert policy(OBS).act.shape == (100, 1, 2)
        assert policy.compute_action(OBS.obs[0]).shape == (1, 2)
        assert np.isfinite(policy.update(16, transitions()).actor_loss)

    def test_exploration_noise(self):
        act = np.zeros((1000, 2), np.float32)
        noisy = make_ddpg().exploration_noise(act, OBS)
        assert noisy.std() == pytest.approx(0.1, rel=0.1)
        assert noisy.dtype == np.float32
        assert make_ddpg(exploration_noise=None).exploration_noise(act, OBS) is act
        policy = make_ddpg(exploration_noise=GaussianNoise(mu=3.0, sigma=0.0))
        assert policy.exploration_noise(act, OBS).tolist() == [[3.0, 3.0]] * 1000


def by_hand(**options):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": Given(0.5), "critic": Line(2.0, 1.0), "actor_optim": sgd, "critic_optim": sgd}
    return make_ddpg(**nets, action_space=Box(-1, 1, (1,)), **{"tau": 0.25} | options)


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = np.array(weight)
        return policy.learn(batch), batch

    @pytest.mark.pitfall("F5")
    def test_targets_come_from_both_target_networks(self):
        policy = by_hand(gamma=0.5, estimation_step=2)
        with torch.no_grad():
            policy.actor.act.fill_(-100.0)
            policy.critic.slope.fill_(-100.0)
            policy.actor_old.act.fill_(0.25)
        buffer = VectorReplayBuffer(3, 1)
        for t in range(3):
            flags = {"terminated": np.array([t == 2]), "truncated": np.array([False])}
            obs = np.zeros((1, 1), np.float32)
            buffer.add(Batch(obs=obs, act=obs, rew=np.ones(1), obs_next=obs, info={}, **flags))
        batch, indices = buffer.sample(0)
        returns = policy.process_fn(batch, buffer, indices).returns
        assert returns.flatten().tolist() == [1.5 + 0.25 * (2 * 0.25 + 1), 1.5, 1.0]

    def test_the_target_actor_is_given_the_hidden_state(self):
        policy = by_hand()
        calls = calls_of(policy.actor_old)
        policy.next_value(np.zeros((1, 1)), "before")
        assert [call["state"] for call in calls] == ["before"]

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2 and 1 - 0; then the critic is 2 a + 3
        assert isinstance(stats, DDPGTrainingStats)
        assert stats.critic_loss == pytest.approx(1.0)
        assert batch.td_error.tolist() == pytest.approx([1.0, 1.0])
        assert batch.weight.tolist() == pytest.approx([-1.0, -1.0])  # under the name, and with the sign, of Tianshou
        assert policy.critic.slope.item() == pytest.approx(2.0)
        assert policy.critic.offset.item() == pytest.approx(3.0)
        assert stats.actor_loss == pytest.approx(-(2.0 * 0.5 + 3.0))
        assert policy.actor.act.item() == pytest.approx(0.5 + 2.0)
        assert policy.critic_old.offset.item() == pytest.approx(1.0 + 0.25 * 2.0)
        assert policy.actor_old.act.item() == pytest.approx(0.5 + 0.25 * 2.0)

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert stats.critic_loss == pytest.approx(0.25)

    @pytest.mark.parametrize("n_step", [1, 3])
    def test_a_whole_update_moves_every_network(self, n_step):
        policy = make_ddpg(estimation_step=n_step)
        nets = (policy.actor, policy.critic, policy.actor_old, policy.critic_old)
        before = [weights(net) for net in nets]
        policy.train()
        stats = policy.update(16, transitions())
        assert [*stats.get_loss_stats_dict()] == ["actor_loss", "critic_loss"]
        assert not any(torch.equal(weights(net), old) for net, old in zip(nets, before, strict=True))
        assert policy.actor.training
        assert not policy.actor_old.training
        assert not policy.critic_old.training

    def test_priorities(self):
        buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
        before = buffer.get_weight(np.arange(100)).copy()
        make_ddpg().update(16, buffer)
        assert (buffer.get_weight(np.arange(100)) != before).any()

    def test_learning_goes_through_a_forward_of_a_subclass(self):
        calls = []

        class Own(DDPGPolicy):
            def forward(self, batch, state=None, model="actor", **kwargs):
                calls.append((batch, model))
                return super().forward(batch, state, model, **kwargs)

        def learned(kind):
            torch.manual_seed(0)
            nets = {
                "actor": Actor(Net(4, hidden_sizes=[8]), 2),
                "critic": Critic(Net(4, 2, hidden_sizes=[8], concat=True)),
            }
            policy = kind(**nets, actor_optim=adam(), critic_optim=adam(), action_space=Box(-1, 1, (2,)))
            policy.update(16, transitions())
            return weights(policy)

        assert torch.equal(learned(Own), learned(DDPGPolicy))
        assert [model for _, model in calls] == ["actor_old", "actor"]
        assert all(isinstance(batch.obs, np.ndarray) for batch, _ in calls)

    def test_as_one_graph(self, monkeypatch):
        monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
        torch._dynamo.reset()
        eager, graph = (make_ddpg(lr=1e-3, estimation_step=2, compile=compile) for compile in (False, True))
        for policy in (eager, graph):
            buffer = transitions()
            for _ in range(10):
                policy.update(16, buffer)
        assert weights(graph).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_resume_is_exact(carry):
    def make(seed=0):
        return make_ddpg(seed, exploration_noise=OUNoise(seed=seed))

    def run(policy, start, stop):
        for step in range(start, stop):
            buffer, indices = transitions(), np.random.default_rng(step).integers(100, size=16)
            policy.learn(policy.process_fn(buffer[indices], buffer, indices))
            noise = policy.exploration_noise(np.zeros((3, 2), np.float32), None)
        return weights(policy), torch.as_tensor(noise)

    half = make()
    run(half, 0, 3)
    if carry == "state":
        resumed = make(5)
        resumed.load_state_dict(half.state_dict())
    else:
        resumed = copy.deepcopy(half) if carry == "copy" else pickle.loads(pickle.dumps(half))
    for ours, theirs in zip(run(resumed, 3, 6), run(make(), 0, 6), strict=True):
        assert torch.equal(ours, theirs)
