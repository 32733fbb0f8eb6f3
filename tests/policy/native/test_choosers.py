"""Policies that act in Rust against the same policies that act by torch."""

import copy
import gc
import pickle
import weakref
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from export.trained import Encoded, made
from policy.given import overriding
from policy.native.networks import Fields, Impala, pixels
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.data.forms import Form, Part
from rlfast.env import DummyVectorEnv
from rlfast.functional.distributions import Categorical
from rlfast.policy import A2CPolicy, C51Policy, DQNPolicy, PGPolicy, QRDQNPolicy, RainbowPolicy
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import Actor, Critic, NoisyLinear
from rlfast.utils.runtime.native import NotNativeError

SPACE = gym.spaces.Discrete(3)


def dqn(kind=DQNPolicy, **options) -> DQNPolicy:
    torch.manual_seed(0)
    return kind(model=Net(4, 3, [16]), optim=None, action_space=SPACE, **options)


def pg(dist_fn=torch.distributions.Categorical, softmax=True, **options) -> PGPolicy:
    torch.manual_seed(0)
    actor = Actor(Net(4, hidden_sizes=[16]), 3, softmax_output=softmax)
    return PGPolicy(actor=actor, optim=None, dist_fn=dist_fn, action_space=SPACE, action_scaling=False, **options)


def observations(rows: int = 200) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)


def test_greedy_actions_are_those_of_the_policy():
    policy, obs = dqn(), observations()
    wanted = policy(Batch(obs=obs, info={})).act
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), wanted)
    assert [policy.compute_action(row) for row in obs] == wanted.tolist()


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("dist_fn", [torch.distributions.Categorical, Categorical])
def test_drawn_actions_and_the_stream_are_those_of_the_policy(dist_fn, seeded):
    if seeded and dist_fn is torch.distributions.Categorical:
        pytest.skip("refused, see below")
    policy = pg(dist_fn, softmax=dist_fn is not Categorical)
    taken = []
    for act in (
        lambda obs: policy(Batch(obs=obs, info={})).act.numpy(),
        lambda obs: policy.native_chooser((4,)).choose(obs),
    ):
        torch.manual_seed(5)
        if seeded:
            policy.seed(7)
        taken.append([*(act(observations(rows)) for rows in (1, 16, 300)), torch.rand(1).numpy()])
    assert all(np.array_equal(one, other) for one, other in zip(*taken, strict=True))
    assert {0, 1, 2} == set(taken[0][2].tolist())


@pytest.mark.parametrize("dist_fn", [torch.distributions.Categorical, Categorical])
def test_choices_that_are_too_near_are_made_by_torch_from_the_same_numbers(dist_fn):
    policy = pg(dist_fn, softmax=dist_fn is not Categorical)
    nn.init.constant_(policy.actor.last.model[-1].weight, torch.nan if dist_fn is Categorical else 1e30)
    if dist_fn is Categorical:
        nn.init.zeros_(policy.actor.last.model[-1].weight)
        nn.init.constant_(policy.actor.last.model[-1].bias, 1e30)
    obs = observations(50)
    torch.manual_seed(5)
    wanted = policy(Batch(obs=obs, info={})).act.numpy()
    torch.manual_seed(5)
    assert policy.native_chooser((4,)).network.choose(obs, np.ones((50, 3), np.float32)) is None
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), wanted)


def test_numbers_that_were_drawn_ahead_are_used_first():
    policy, obs = pg(), observations(4)
    torch.manual_seed(5)
    wanted = [policy(Batch(obs=obs, info={})).act.tolist() for _ in range(3)]
    torch.manual_seed(5)
    chooser = policy.native_chooser((4,))
    ahead = chooser.draw_ahead(2, 4)
    assert chooser.network.choose(obs, ahead[0]).tolist() == wanted[0]
    chooser.used(1)
    assert [chooser.choose(obs).tolist() for _ in range(2)] == wanted[1:]


def test_numbers_that_were_drawn_ahead_for_other_rows_are_dropped():
    policy, obs = pg(), observations(4)
    torch.manual_seed(5)
    chooser = policy.native_chooser((4,))
    chooser.draw_ahead(2, 4)  # by a collect that raised
    stream = torch.get_rng_state()
    chosen = chooser.choose(obs[:1])
    torch.set_rng_state(stream)
    assert np.array_equal(chosen, policy(Batch(obs=obs[:1], info={})).act)
    assert chooser.draw_ahead(1, 2).shape == (1, 2, 3)


def test_the_mode_is_taken_in_evaluation_mode():
    policy, obs = pg(deterministic_eval=True), observations()
    assert policy.native_chooser((4,)).is_random
    policy.eval()
    before = torch.get_rng_state()
    chosen = policy.native_chooser((4,)).choose(obs)
    assert np.array_equal(chosen, policy(Batch(obs=obs, info={})).act)
    assert torch.equal(before, torch.get_rng_state())


def test_critics_do_not_matter():
    net = Net(4, hidden_sizes=[16])
    policy = A2CPolicy(
        actor=Actor(net, 3),
        critic=Critic(net),
        optim=None,
        dist_fn=torch.distributions.Categorical,
        action_space=SPACE,
        action_scaling=False,
    )
    assert policy.native_chooser((4,)).is_random


def hook(*_):
    return None


class Louder(DQNPolicy):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)


class Valued(DQNPolicy):
    def compute_q_value(self, logits, mask):
        return -logits


CHANGES = {
    "hook": lambda policy: policy.model.register_forward_hook(hook),
    "inner hook": lambda policy: policy.model.model.model[0].register_forward_pre_hook(hook),
    "hook of the policy": lambda policy: policy.register_forward_hook(hook),
    "double": lambda policy: policy.double(),
    "layer": lambda policy: policy.model.model.model.append(nn.Dropout()),
    "norm": lambda policy: nn.utils.parametrizations.weight_norm(policy.model.model.model[0]),
    "actions": lambda policy: setattr(policy, "max_action_num", 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_policy_acts_by_torch(change):
    policy = dqn()
    policy.native_chooser((4,))
    change(policy)
    with pytest.raises(NotNativeError):
        policy.native_chooser((4,))


@pytest.mark.parametrize("name", ["forward", "compute_q_value", "network", "__call__"])
def test_a_subclass_that_overrides_a_method_acts_by_torch(name):
    policy = dqn()
    with pytest.raises(NotNativeError, match=r"^Own does not act in Rust: it chooses actions by a method of its own$"):
        overriding(policy, **{name: getattr(type(policy), name)}).native_chooser((4,))


def test_a_global_hook_and_autocast_are_noticed():
    policy = dqn()
    assert policy.native_chooser((4,)) is policy.native_chooser((4,))
    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        with pytest.raises(NotNativeError):
            policy.native_chooser((4,))
    finally:
        handle.remove()
    with torch.autocast("cpu"), pytest.raises(NotNativeError):
        policy.native_chooser((4,))
    assert policy.native_chooser((4,))


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: setattr(policy.model.model.model[0], "weight", nn.Parameter(torch.randn(16, 4))),
        lambda policy: setattr(policy.model.model.model[0].weight, "data", torch.randn(16, 4)),
        lambda policy: setattr(policy, "model", Net(4, 3, [16])),
        lambda policy: policy.model.model.model.__setitem__(1, nn.Tanh()),
        lambda policy: policy.load_state_dict(dqn_of(3).state_dict(), assign=True),
    ],
    ids=["parameter", "data", "model", "activation", "assigned"],
)
def test_other_parts_are_used_from_then_on(change):
    policy, obs = dqn(), observations()
    before = policy.native_chooser((4,)).choose(obs)
    change(policy)
    wanted = policy(Batch(obs=obs, info={})).act
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), wanted)
    assert not np.array_equal(before, wanted)


def dqn_of(seed: int) -> DQNPolicy:
    torch.manual_seed(seed)
    return DQNPolicy(model=Net(4, 3, [16]), optim=None, action_space=SPACE)


CALLS = []


class Sines(nn.Module):
    """A network with an operation that the engine does not have, unless ``plain`` is set."""

    def __init__(self):
        super().__init__()
        self.layer, self.plain = nn.Linear(4, 3), False

    def forward(self, obs, state=None, info=None):
        CALLS.append(self)
        return self.layer(torch.as_tensor(obs) if self.plain else torch.as_tensor(obs).sin()), state


def refused(make=lambda: DQNPolicy(model=Sines(), optim=None, action_space=SPACE)):
    """Return a policy that torch must compute, after the first refusal."""
    policy = make()
    with pytest.raises(NotNativeError):
        policy.native_chooser((4,))
    return policy


class By(nn.Module):
    """A network that computes what a function says."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function, self.temperature, self.shift = nn.Linear(4, 3), function, 1.0, torch.zeros(3)
        self.seen, self.count = [], 0
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, obs, state=None, info=None):
        return self.function(self, obs, info), state


def policy_by(function):
    return DQNPolicy(model=By(function), optim=None, action_space=SPACE)


WAYS = {
    "buffers": lambda own, obs: setattr(own, "mean", own.mean + obs.mean(dim=0)),
    "count": lambda own, _: setattr(own, "count", own.count + 1),
    "seen": lambda own, obs: own.seen.append(obs),
    "last": lambda own, obs: setattr(own, "last", obs),
}


@pytest.mark.parametrize("name", WAYS)
def test_looking_at_a_network_that_changes_itself_leaves_no_trace_and_is_done_once(name):
    def compute(own, obs, _):
        CALLS.append(own)
        WAYS[name](own, torch.as_tensor(obs))
        return own.layer(torch.as_tensor(obs))

    policy, calls = policy_by(compute), len(CALLS)
    for k in range(3):
        with pytest.raises(NotNativeError, match=f"the network changes its {name}, which acting in Rust would not"):
            policy.native_chooser((4,))
        own = policy.model
        if not k:
            assert (own.mean.tolist(), own.seen, own.count, hasattr(own, "last")) == ([0.0] * 4, [], 0, False)
        assert len(CALLS) == calls + 1 + k
        policy(Batch(obs=observations(2), info={}))


def test_statistics_of_a_functional_batch_norm_stay():
    norm = torch.nn.functional.batch_norm
    policy = policy_by(
        lambda own, obs, _: own.layer(norm(torch.as_tensor(obs), own.mean, torch.ones(4), training=True))
    )
    with pytest.raises(NotNativeError, match="a BatchNorm is in training mode"):
        policy.native_chooser((4,))
    assert policy.model.mean.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda network: setattr(network, "temperature", -1.0),
        lambda network: setattr(network, "shift", torch.tensor([0.0, 0.0, 9.0])),
        lambda network: setattr(network.layer, "forward", lambda x: -nn.Linear.forward(network.layer, x)),
    ],
    ids=["number", "tensor", "method"],
)
def test_changed_attributes_are_noticed(change):
    policy = policy_by(lambda own, obs, _: own.layer(torch.as_tensor(obs)) * own.temperature + own.shift)
    obs = observations(50)
    first = policy.native_chooser((4,))
    assert policy.native_chooser((4,)) is first
    change(policy.model)
    act = policy(Batch(obs=obs, info={})).act
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), act)
    assert not np.array_equal(first.choose(obs), act)


@pytest.mark.parametrize(
    "is_array", [lambda obs: isinstance(obs, np.ndarray), lambda obs: not isinstance(obs, torch.Tensor)]
)
def test_networks_that_treat_arrays_in_another_way_act_by_torch(is_array):
    policy = policy_by(lambda own, obs, _: own.layer(torch.as_tensor(obs) / (255 if is_array(obs) else 1)))
    with pytest.raises(NotNativeError, match="or on whether it gets arrays"):
        policy.native_chooser((4,))


def test_networks_that_take_tensors_alone_act_in_rust():
    assert policy_by(lambda own, obs, _: own.layer(obs.float())).native_chooser((4,))


@pytest.mark.parametrize("read", [lambda info: info["x"], bool, len, list, lambda info: info.get("x"), lambda i: i.x])
def test_networks_that_read_infos_act_by_torch(read):
    policy = policy_by(lambda own, obs, info: (read(info), own.layer(torch.as_tensor(obs)))[1])
    with pytest.raises(NotNativeError, match=r"^the network reads info$"):
        policy.native_chooser((4,))


def test_a_refusal_is_kept():
    policy = refused()
    calls = len(CALLS)
    policy(Batch(obs=observations(2), info={}))
    for _ in range(3):
        with pytest.raises(NotNativeError, match="sin"):
            policy.native_chooser((4,))
    assert len(CALLS) == calls + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: setattr(policy.model, "layer", nn.Linear(4, 3)),
        lambda policy: setattr(policy.model.layer.weight, "data", torch.zeros(3, 4)),
        lambda policy: setattr(policy, "model", Sines()),
        lambda policy: policy.eval(),
    ],
    ids=["layer", "data", "model", "mode"],
)
def test_a_refusal_ends_where_a_chooser_would(change):
    policy = refused()
    change(policy)
    policy.model.plain = True  # which alone is not noticed
    assert policy.native_chooser((4,))


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (lambda policy: policy.double(), lambda policy, _: policy.float()),
        (lambda policy: policy.model.register_forward_hook(hook), lambda _, handle: handle.remove()),
        (lambda policy: policy.register_forward_pre_hook(hook), lambda _, handle: handle.remove()),
        (lambda policy: setattr(policy, "max_action_num", 2), lambda policy, _: setattr(policy, "max_action_num", 3)),
    ],
    ids=["double", "hook", "hook of the policy", "actions"],
)
def test_a_policy_acts_in_rust_when_the_cause_of_a_refusal_is_gone(change, undo):
    policy = dqn()
    made = change(policy)
    refused(lambda: policy)
    undo(policy, made)
    assert policy.native_chooser((4,))


def test_a_policy_acts_in_rust_after_autocast():
    policy = dqn()
    with torch.autocast("cpu"):
        refused(lambda: policy)
    assert policy.native_chooser((4,))


def test_a_seed_and_a_distribution_end_a_refusal():
    policy = pg()
    policy.seed(1)
    refused(lambda: policy)
    policy._torch_rng = None
    assert policy.native_chooser((4,))
    policy.dist_fn = torch.distributions.Bernoulli
    refused(lambda: policy)
    policy.dist_fn = torch.distributions.Categorical
    assert policy.native_chooser((4,))


def test_a_refusal_is_kept_beside_tensors_without_memory():
    policy = dqn()
    policy.model.table = nn.Parameter(torch.zeros(3, 3).to_sparse())
    handle = policy.register_forward_hook(hook)
    for _ in range(2):
        refused(lambda: policy)
    handle.remove()
    assert policy.native_chooser((4,))


def test_a_policy_that_acts_in_rust_is_saved_and_copied_as_before():
    policy = dqn()
    before = [*vars(policy)], [*policy.state_dict()["_extra_state"]["values"]]
    policy.native_chooser((4,))
    assert ([*vars(policy)], [*policy.state_dict()["_extra_state"]["values"]]) == before
    obs = observations()
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        nn.init.normal_(other.model.model.model[-1].weight)
        assert np.array_equal(other.native_chooser((4,)).choose(obs), other(Batch(obs=obs, info={})).act)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(dqn, Louder), "Louder does not act in Rust: it chooses actions by a method of its own"),
        (partial(dqn, Valued), "Valued does not act in Rust: it chooses actions by a method of its own"),
        (partial(pg, lambda probs: torch.distributions.Categorical(probs)), "dist_fn is not one of"),
        (partial(pg, softmax=False), "takes probabilities, and the actor has no softmax"),
    ],
)
def test_other_policies_are_refused_with_a_reason(make, why):
    with pytest.raises(NotNativeError, match=why):
        make().native_chooser((4,))


def test_a_seeded_stream_of_torchs_categorical_is_refused():
    policy = pg()
    policy.seed(1)
    with pytest.raises(NotNativeError, match="seeded for each choice"):
        policy.native_chooser((4,))


def c51(*, softmax: bool = True) -> C51Policy:
    torch.manual_seed(0)
    return C51Policy(model=Net(4, 3, [16], softmax=softmax, num_atoms=51), optim=None, action_space=SPACE)


def qrdqn() -> QRDQNPolicy:
    torch.manual_seed(0)
    return QRDQNPolicy(
        model=Net(4, 3, [16], num_atoms=20), optim=None, action_space=SPACE, num_quantiles=20, estimation_step=3
    )


def rainbow() -> RainbowPolicy:
    torch.manual_seed(0)
    streams = {"hidden_sizes": [16], "linear_layer": NoisyLinear}
    model = Net(4, 3, [16], softmax=True, num_atoms=51, dueling_param=(streams, streams))
    return RainbowPolicy(model=model, optim=None, action_space=SPACE)


@pytest.mark.parametrize("make", [c51, qrdqn, rainbow])
@pytest.mark.parametrize("training", [True, False])
def test_actions_of_distributions_of_returns_are_those_of_the_policy(make, training):
    policy, obs = make().train(training), 20 * observations(40)
    wanted = policy(Batch(obs=obs, info={})).act
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), wanted)
    assert [policy.compute_action(row) for row in obs[:9]] == wanted[:9].tolist()
    assert len(set(wanted.tolist())) > 1


def test_new_returns_and_new_noise_are_noticed():
    policy, obs = rainbow().train(), 20 * observations(40)
    before = policy.native_chooser((4,)).choose(obs)
    for layer in policy.model.modules():
        if isinstance(layer, NoisyLinear):
            layer.eps_p = torch.randn(layer.in_features)  # another tensor in its place
    policy.support = nn.Parameter(-policy.support.detach(), False)
    after = policy.native_chooser((4,)).choose(obs)
    assert np.array_equal(after, policy(Batch(obs=obs, info={})).act)
    assert not np.array_equal(before, after)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (c51, lambda policy: overriding(policy, compute_q_value=lambda _, logits, mask: logits.sum(2))),
        (partial(c51, softmax=False), lambda _: None),
        (qrdqn, lambda policy: setattr(policy, "num_quantiles", 10)),
    ],
)
def test_other_distributions_of_returns_act_by_torch(make, change):
    policy, obs = make(), observations(20)
    change(policy)
    with pytest.raises(NotNativeError):
        policy.native_chooser((4,))
    assert policy.compute_action(obs[0]) == policy(Batch(obs=obs[:1], info={})).act[0]


def test_a_policy_of_distributions_is_freed():
    policy = c51()
    policy.native_chooser((4,))
    gone = weakref.ref(policy)
    del policy
    gc.collect()
    assert gone() is None


def test_one_action_of_other_inputs():
    policy = dqn()
    row = observations(1)[0]
    wanted = policy.compute_action(row)
    assert policy.compute_action(row.tolist()) == wanted
    assert policy.compute_action(row.astype(float)) == wanted
    with pytest.raises(RuntimeError, match="takes 4 numbers, got"):
        policy.compute_action(np.zeros(3, np.float32))


def test_shifted_actions_are_mapped():
    torch.manual_seed(0)
    policy = DQNPolicy(model=Net(4, 3, [16]), optim=None, action_space=gym.spaces.Discrete(3, start=5))
    assert not policy.maps_no_action
    obs = observations(20)
    assert [policy.compute_action(row) for row in obs] == (5 + policy(Batch(obs=obs, info={})).act).tolist()


# -- observations of other forms ---------------------------------------------------------------------------------------


class Scripted(gym.Env):
    """An environment of random observations."""

    action_space = SPACE

    def __init__(self, space: gym.Space, seed: int) -> None:
        self.observation_space = space
        self._step = 0
        space.seed(seed)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        self._step += 1
        return self.observation_space.sample(), float(action), self._step % 7 == 0, False, {}


def box(*shape: int, dtype: type = np.float32) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)


FORMS = {
    "image": (lambda: Impala((3, 16, 16), 3, depths=(4,)), box(16, 16, 3, dtype=np.uint8)),
    "dict": (
        lambda: Fields(nn.Conv2d(1, 2, 3), 2 * 4 * 4),
        gym.spaces.Dict({"position": box(2), "image": box(1, 6, 6, dtype=np.uint8)}),
    ),
    "number": (lambda: Encoded(gym.spaces.Discrete(5), 3), gym.spaces.Discrete(5)),
    "dict of a number": (
        lambda: Encoded(gym.spaces.Dict(place=gym.spaces.Discrete(4), speed=box(2)), 3),
        gym.spaces.Dict(place=gym.spaces.Discrete(4), speed=box(2)),
    ),
    "dict of float64": (
        lambda: Fields(nn.Flatten(), 4),
        gym.spaces.Dict({"position": box(2, dtype=np.float64), "image": box(4)}),
    ),
}


def policy_of(make, kind=DQNPolicy):
    torch.manual_seed(0)
    if kind is DQNPolicy:
        return DQNPolicy(model=make(), optim=None, action_space=SPACE)
    return PGPolicy(actor=make(), optim=None, dist_fn=Categorical, action_space=SPACE, action_scaling=False)


@pytest.mark.parametrize("kind", [DQNPolicy, PGPolicy])
@pytest.mark.parametrize(("make", "space"), FORMS.values(), ids=FORMS)
def test_collects_of_images_and_dicts_are_those_of_the_policy(make, space, kind):
    taken = []
    for native in (True, False):
        envs = DummyVectorEnv([partial(Scripted, copy.deepcopy(space), seed) for seed in range(3)])
        collector = Collector(policy_of(make, kind), envs, VectorReplayBuffer(90, 3), native_acting=native)
        assert ("acting in Rust, one vector step at a time" in repr(collector)) == native
        torch.manual_seed(1)
        collector.collect(n_step=60)
        taken.append(collector.buffer[:].act)
    assert np.array_equal(*taken)
    assert kind is DQNPolicy or len(set(taken[0].tolist())) == 3


@pytest.mark.parametrize("kind", [DQNPolicy, PGPolicy])
def test_hidden_states_are_kept_as_the_policy_keeps_them(kind):
    taken = []
    for native in (True, False):
        envs = DummyVectorEnv([partial(Scripted, box(4), seed) for seed in range(3)])
        policy = policy_of(lambda: Recurrent(2, 4, 3, hidden_layer_size=8), kind)
        collector = Collector(policy, envs, VectorReplayBuffer(90, 3), native_acting=native)
        torch.manual_seed(1)
        collector.collect(n_step=30)
        assert ("acting in Rust, one vector step at a time: hidden states" in repr(collector)) == native
        collector.collect(n_step=30)  # across the ends of episodes, after 7 steps
        taken.append(collector.buffer[:])
    assert np.array_equal(taken[0].act, taken[1].act)
    for name in ("hidden", "cell"):
        one, other = (rows.policy.hidden_state[name] for rows in taken)
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=1e-6)
        assert (one[::20] == 0).all()  # each environment's first row
        assert one[1:7].any()
        assert (one[7] == 0).all()  # the next episode


def test_a_state_may_be_computed_after_the_outputs():
    policy, state, expected = made("DQN, own GRU"), None, None
    for obs in np.random.default_rng(0).normal(size=(4, 30, 5)).astype(np.float32):
        act, state = policy.native_chooser((5,)).step(obs, state)
        result = policy(Batch(obs=obs, info={}), expected)
        expected = result.state
        assert np.array_equal(act, result.act)
        for name in ("count", "hidden"):
            assert torch.allclose(state[name], expected[name], atol=1e-6)


def test_single_actions_of_a_recurrent_policy_begin_without_a_state():
    policy, obs = policy_of(lambda: Recurrent(1, 4, 3, hidden_layer_size=8)), observations(10)
    wanted = [int(policy(Batch(obs=row[None], info={})).act[0]) for row in obs]
    assert [policy.native_chooser((4,)).choose_one(row) for row in obs] == wanted


@pytest.mark.parametrize(("make", "space"), FORMS.values(), ids=FORMS)
def test_single_actions_for_images_and_dicts_are_those_of_the_policy(make, space):
    policy = policy_of(make)
    space.seed(0)
    seen = [space.sample() for _ in range(20)]
    wanted = [int(policy(Batch(obs=[obs], info=[{}])).act[0]) for obs in seen]
    assert [policy.native_chooser(Form.of(obs)).choose_one(obs) for obs in seen] == wanted
    assert [policy.compute_action(obs) for obs in seen] == wanted


def test_other_filters_are_seen_at_once():
    policy, form = policy_of(FORMS["image"][0], PGPolicy), pixels(16, 16, 3)
    policy.deterministic_eval = True
    policy.eval()
    obs = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    conv = policy.actor.network[0]

    def assert_same() -> None:
        wanted = policy(Batch(obs=obs, info={})).act.numpy()
        assert np.array_equal(policy.native_chooser(form).choose(obs), wanted)

    assert_same()
    first = policy.native_chooser(form)
    with torch.no_grad():
        conv.weight.mul_(-3)
    assert policy.native_chooser(form) is first
    assert_same()
    conv.weight = nn.Parameter(-conv.weight.detach())
    assert policy.native_chooser(form) is not first
    assert_same()
    policy.actor.load_state_dict({name: value * 1.5 for name, value in policy.actor.state_dict().items()})
    assert_same()
    policy.to(memory_format=torch.channels_last)
    with pytest.raises(NotNativeError, match="weights are not contiguous"):
        policy.native_chooser(form)


def test_bytes_and_floats_are_different_observations():
    policy, image = policy_of(FORMS["image"][0]), np.zeros((1, 16, 16, 3), np.uint8)
    chooser = policy.native_chooser(pixels(16, 16, 3))
    assert chooser.choose(image.astype(np.float32)) is None
    assert policy.native_chooser((16, 16, 3)).choose(image) is None
    assert not chooser.basis.is_current(policy, Form.given((16, 16, 3)))


def test_a_dict_of_another_form_is_left_to_the_policy():
    policy = policy_of(FORMS["dict of float64"][0])
    obs = {"position": np.zeros((2, 2)), "image": np.zeros((2, 4), np.float32)}
    form = Form.of(obs, batched=True)
    assert form.parts == (Part(("position",), (2,), is_double=True), Part(("image",), (4,)))
    chooser = policy.native_chooser(form)
    assert chooser.choose(obs) is not None
    for other in (
        {"position": obs["position"]},
        {**obs, "image": np.zeros((2, 5), np.float32)},
        {**obs, "image": np.zeros((2, 4), np.uint8)},
        {**obs, "image": np.zeros((3, 4), np.float32)},
        {**obs, "image": None},
        np.zeros((2, 6), np.float32),
        None,
    ):
        assert chooser.choose(other) is None


@pytest.mark.parametrize(
    "obs",
    [{"obs": np.zeros(2), "mask": np.ones(3)}, {}, {"a": "text"}, {"a": (np.zeros(2), np.zeros(2))}, {1: np.zeros(2)},
     "text", [[1.0], [1.0, 2.0]], np.array(["a"]), np.array([None])],
    ids=str,
)  # fmt: skip
def test_other_observations_have_no_form(obs):
    with pytest.raises(NotNativeError):
        Form.of(obs)
