"""What actor-critic algorithms with ensembles of critics share; REDQ's own tests have its part of this."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from continuous import OBS, assert_resumes_exactly, ensemble, normal_actor, transitions, weights
from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer
from rlfast.policy import AutoAlpha, CrossQPolicy, DroQPolicy, REDQPolicy, TQCPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.utils.net.common import EnsembleLinear, Net
from rlfast.utils.net.continuous import ActorProb, RecurrentActorProb
from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLayerNorm
from rlfast.utils.optim import adam


def dropout_layer(size, inputs, outputs):
    return nn.Sequential(EnsembleLinear(size, inputs, outputs), nn.Dropout(0.25), EnsembleLayerNorm(size, outputs))


def normalized_layer(size, inputs, outputs):
    return nn.Sequential(BatchRenorm(inputs, size, warmup_steps=3), EnsembleLinear(size, inputs, outputs))


def normalized_actor():
    net = Net(4, hidden_sizes=[8], linear_layer=lambda i, o: nn.Sequential(BatchRenorm(i), nn.Linear(i, o)))
    return ActorProb(net, 2, unbounded=True, conditioned_sigma=True)


KINDS = {
    "tqc": (TQCPolicy, lambda: ensemble(3, output_dim=5), normal_actor),
    "droq": (DroQPolicy, lambda: ensemble(2, dropout_layer), normal_actor),
    "crossq": (CrossQPolicy, lambda: ensemble(2, normalized_layer), normalized_actor),
}
OWN = {"tqc": {}, "droq": {"actor_delay": 2}, "crossq": {"policy_delay": 2}}
every = pytest.mark.parametrize("name", KINDS)


def make(name, seed=0, lr=1e-2, **options):
    torch.manual_seed(seed)
    kind, critic, actor = KINDS[name]
    parts = {"actor": actor(), "critic": critic(), "actor_optim": adam(lr), "critic_optim": adam(lr)}
    policy = kind(**parts | {"action_space": Box(-2.0, 2.0, (2,))} | OWN[name] | options)
    policy.seed(seed)
    return policy


def trained(policy):
    return [policy.actor, policy.critic, *([policy.critic_old] if hasattr(policy, "critic_old") else [])]


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("tqc", {"action_space": Discrete(3)}, "TQC needs a Box action space, got Discrete"),
        ("droq", {"action_space": Discrete(3)}, "DroQ needs a Box action space, got Discrete"),
        ("crossq", {"action_space": Discrete(3)}, "CrossQ needs a Box action space, got Discrete"),
        ("tqc", {"top_quantiles_to_drop_per_net": -1}, "top_quantiles_to_drop_per_net must not be negative"),
        ("tqc", {"top_quantiles_to_drop_per_net": 5}, "top_quantiles_to_drop_per_net is 5, and critic has 5"),
        ("droq", {"actor_delay": 0}, "actor_delay must be at least 1"),
        ("crossq", {"policy_delay": 0}, "policy_delay must be at least 1"),
        ("tqc", {"tau": 2.0}, "tau must be within 0 and 1"),
        ("crossq", {"gamma": 2.0}, "gamma must be within 0 and 1"),
    ],
)
def test_bad_options(name, options, match):
    with pytest.raises(ValueError, match=match):
        make(name, **options)


@every
def test_what_is_saved(name):
    policy = make(name, alpha=AutoAlpha(-2.0, 0.0, adam()))
    parts = {key.split(".")[0] for key in policy.state_dict()} - {"temperature"}
    assert parts == {"actor", "critic", "_extra_state"} | (set() if name == "crossq" else {"critic_old"})
    assert {*policy.get_extra_state()["optimizers"]} == {"actor_optim", "critic_optim", "alpha_optim"}


@every
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_whole_update_moves_every_network(name, n_step):
    delay = {"droq": {"actor_delay": 1}, "crossq": {"policy_delay": 1}}.get(name, {})
    policy = make(name, estimation_step=n_step, alpha=AutoAlpha(-2.0, 0.0, adam()), **delay)
    before = [weights(net) for net in trained(policy)]
    policy.train()
    stats = policy.update(16, transitions())
    assert {*stats.get_loss_stats_dict()} == {"actor_loss", "critic_loss", "alpha", "alpha_loss"}
    assert not any(torch.equal(weights(net), old) for net, old in zip(trained(policy), before, strict=True))


@every
def test_learning_goes_through_a_forward_of_a_subclass(name):
    asked = []

    class Own(KINDS[name][0]):
        def forward(self, batch, state=None, **kwargs):
            asked.append(len(batch.obs))
            return super().forward(batch, state, **kwargs)

    def learned(kind):
        torch.manual_seed(0)
        nets = {"actor": KINDS[name][2](), "critic": KINDS[name][1]()}
        policy = kind(**nets, actor_optim=adam(), critic_optim=adam(), action_space=Box(-1, 1, (2,)), **OWN[name])
        policy.draw_normal = lambda shape, dtype, device: torch.full(shape, 0.5, dtype=dtype)  # forward draws by itself
        policy.seed(0)
        policy.update(16, transitions())
        return weights(policy)

    torch.testing.assert_close(learned(Own), learned(KINDS[name][0]))
    assert asked == [16] * (2 if name == "tqc" else 1)


@every
def test_priorities(name):
    buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    before = buffer.get_weight(range(100)).copy()
    make(name).update(16, buffer)
    assert (buffer.get_weight(range(100)) != before).any()


@every
def test_actions(name):
    policy = make(name)
    result = policy(OBS)
    assert (result.act.shape, result.log_prob.shape) == ((100, 2), (100, 1))
    assert result.act.abs().max() < 1
    assert torch.equal(policy.eval()(OBS).act, policy.actor(OBS.obs)[0][0].tanh())
    assert policy.compute_action(np.zeros(4, np.float32)).shape == (2,)


@every
def test_as_one_graph(name, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    graphs = {}
    for compile in (False, True):
        torch.manual_seed(0)
        own = {"critic": ensemble(2, dropout_free)} if name == "droq" else {}
        policy = make(name, lr=1e-3, estimation_step=2, compile=compile, **own)
        buffer = transitions()
        for _ in range(8):
            policy.update(16, buffer)
        graphs[compile] = weights(policy).numpy()
    assert graphs[True] == pytest.approx(graphs[False], abs=1e-5)


def dropout_free(size, inputs, outputs):
    """A graph draws other masks of dropout."""
    return nn.Sequential(EnsembleLinear(size, inputs, outputs), EnsembleLayerNorm(size, outputs))


@every
@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
def test_resume_is_exact(name, carry):
    def made(seed=0):
        torch.manual_seed(seed)
        own = {"critic": ensemble(2, dropout_free)} if name == "droq" else {}
        return make(name, seed, alpha=AutoAlpha(-2.0, 0.0, adam(0.1)), **own)

    assert_resumes_exactly(made, carry)


@pytest.mark.parametrize("name", ["redq", *KINDS])
def test_recurrent_actors_start_from_stored_states(name):
    seen = []

    class Actor(RecurrentActorProb):
        def forward(self, obs, state=None, info=None):
            seen.append((np.asarray(obs)[:, 0].tolist(), state["hidden"][:, 0, 0].tolist()))
            return super().forward(obs, state, info)

    buffer = ReplayBuffer(20, seed=0)
    for t in range(12):
        state = {part: np.full((1, 5), float(t % 6), np.float32) for part in ("hidden", "cell")}
        obs = np.full((2, 4), [[t], [t + 1]], np.float32)
        row = Batch(obs=obs[0], obs_next=obs[1], act=np.zeros(2, np.float32), rew=1.0, policy={"hidden_state": state})
        buffer.add(Batch(row, terminated=t == 5, truncated=False, info={}))
    actor = Actor(1, (4,), (2,), hidden_layer_size=5, unbounded=True, conditioned_sigma=True)
    parts = {"actor": actor, "actor_optim": adam(), "critic_optim": adam(), "action_space": Box(-1, 1, (2,))}
    if name == "redq":
        policy = REDQPolicy(**parts, critic=ensemble(5), ensemble_size=5, actor_delay=1)
    else:
        own = dict.fromkeys(OWN[name], 1)
        policy = KINDS[name][0](**parts, critic=KINDS[name][1](), **own)
    batch, indices = buffer[[0, 3, 7]], np.array([0, 3, 7])
    policy.learn(policy.process_fn(batch, buffer, indices))
    assert ([1.0, 4.0, 8.0], [1.0, 4.0, 2.0]) in seen  # the states before the next observations
    assert ([0.0, 3.0, 7.0], [0.0, 3.0, 1.0]) in seen  # and before these
