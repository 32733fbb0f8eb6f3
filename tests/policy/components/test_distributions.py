"""Functions that make a distribution are called by their signature: with the tuple of an actor, or its elements."""

import typing
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import distributions as td
from torch import nn

from rlfast.data import Batch
from rlfast.functional import Categorical, DiagonalNormal
from rlfast.policy import A2CPolicy, PPOPolicy
from rlfast.policy.components.distributions import draw, log_prob_of, takes_a_tuple
from rlfast.policy.rollout import Minibatch
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam


def named(loc_scale: tuple[torch.Tensor, torch.Tensor], validate: bool = False) -> td.Distribution:
    return td.Independent(td.Normal(*loc_scale, validate_args=validate), 1)


def in_words(loc_scale: "tuple[torch.Tensor, ...]", other: int = 0) -> td.Distribution:
    return td.Independent(td.Normal(*loc_scale), 1)


def older(loc_scale: typing.Tuple[torch.Tensor, torch.Tensor], other: int = 0) -> td.Distribution:  # noqa: UP006
    return in_words(loc_scale)


def bare(loc_scale: tuple, other: int = 0) -> td.Distribution:
    return in_words(loc_scale)


def alone(loc_scale: tuple[torch.Tensor, torch.Tensor]) -> td.Distribution:
    return in_words(loc_scale)


def apart(loc, scale, *, validate=False):
    return td.Independent(td.Normal(loc, scale, validate_args=validate), 1)


def starred(*loc_scale: tuple[torch.Tensor, torch.Tensor]) -> td.Distribution:
    return td.Independent(td.Normal(*loc_scale), 1)


def in_a_tuple(loc_scale):
    loc, scale = loc_scale
    return td.Independent(td.Normal(loc, scale), 1)


class Maker:
    def __call__(self, loc_scale):
        return in_a_tuple(loc_scale)

    def method(self, loc_scale, /):
        return in_a_tuple(loc_scale)


class Module(nn.Module):
    def forward(self, loc_scale):
        return in_a_tuple(loc_scale)


class Own(td.Independent):
    def __init__(self, loc_scale):
        super().__init__(td.Normal(*loc_scale), 1)


TUPLE = {
    "named": named,
    "annotated in words": in_words,
    "annotated as of old": older,
    "annotated as any tuple": bare,
    "annotated alone": alone,
    "lambda": lambda logits: in_a_tuple(logits),
    "function": in_a_tuple,
    "callable": Maker(),
    "method": Maker().method,
    "module": Module(),
    "class": Own,
    "partial": partial(lambda flag, logits: in_a_tuple(logits), True),
}
APART = {
    "star": lambda *logits: td.Independent(td.Normal(*logits), 1),
    "annotated star": starred,
    "function": apart,
    "lambda": lambda loc, scale: apart(loc, scale),
    "default": lambda loc, scale=None: apart(loc, scale),
    "class": td.Normal,
    "partial": partial(td.Normal, validate_args=False),
    "ours": DiagonalNormal,
}


@pytest.mark.parametrize(
    ("dist_fn", "expected"),
    [pytest.param(fn, True, id=f"tuple {name}") for name, fn in TUPLE.items()]
    + [pytest.param(fn, False, id=f"apart {name}") for name, fn in APART.items()]
    + [pytest.param(max, False, id="no signature"), pytest.param(lambda: None, False, id="no parameter")],
)
def test_the_signature_says_how_it_is_called(dist_fn, expected):
    assert takes_a_tuple(dist_fn) is expected


def gaussian(dist_fn, **options):
    torch.manual_seed(0)
    net = Net(4, hidden_sizes=[8])
    return PPOPolicy(
        actor=ActorProb(net, 2, unbounded=True),
        critic=Critic(net),
        optim=adam(0.01),
        dist_fn=dist_fn,
        action_space=Box(-1, 1, (2,)),
        **options,
    )


def observations(number=6):
    return Batch(obs=np.linspace(-1, 1, number * 4, dtype=np.float32).reshape(number, 4), info={})


@pytest.mark.parametrize("dist_fn", [*TUPLE.values(), *APART.values()], ids=[*TUPLE, *APART])
def test_a_gaussian_policy_acts_with_it(dist_fn):
    result = gaussian(dist_fn)(observations())
    assert result.dist.mean.shape == result.act.shape == (6, 2)
    assert result.logits.shape == (2, 6, 2)  # means and deviations, as Tianshou stacks them
    mean, std = result.logits
    assert torch.equal(mean, result.dist.mean)
    assert torch.equal(std, result.dist.stddev)


def test_one_that_is_assigned_later_is_looked_at_anew():
    policy = gaussian(apart)
    assert policy(observations()).dist.event_shape == (2,)
    policy.dist_fn = in_a_tuple
    assert policy(observations()).dist.event_shape == (2,)
    policy.dist_fn = td.Normal
    assert policy(observations()).dist.event_shape == ()


@pytest.mark.parametrize(
    ("dist_fn", "softmax"),
    [
        (td.Categorical, True),
        (lambda probs: td.Categorical(probs), True),
        (lambda *logits: td.Categorical(*logits), True),
        (lambda logits: td.Categorical(logits=logits), False),
        (partial(td.Categorical, validate_args=False), True),
        (Categorical, False),
    ],
)
def test_one_tensor_is_given_as_it_is(dist_fn, softmax):
    net = Net(4, hidden_sizes=[8])
    actor = Actor(net, 3, softmax_output=softmax)
    policy = PPOPolicy(
        actor=actor, critic=Critic(net), optim=adam(), dist_fn=dist_fn, action_space=Discrete(3), action_scaling=False
    )
    result = policy(observations())
    assert torch.allclose(result.dist.probs, actor(observations().obs)[0].softmax(-1) if not softmax else result.logits)


class Pair(nn.Module):
    """Gives tensors of different shapes."""

    def __init__(self, *tails):
        super().__init__()
        self.tails = tails
        self.layer = nn.Linear(4, 1)

    def forward(self, obs, state=None, info=None):
        x = self.layer(torch.as_tensor(obs))
        return tuple(x.expand(len(x), *tail) for tail in self.tails), state


def test_what_does_not_stack_stays_a_tuple_and_a_tuple_of_one_is_taken_out():
    given = {"critic": Critic(Net(4)), "optim": adam(), "action_space": Box(-1, 1, (2,))}
    policy = PPOPolicy(actor=Pair((3,), (1,)), dist_fn=lambda a, b: td.Normal(a[:, :2], b.exp()), **given)
    logits = policy(observations()).logits
    assert [part.shape for part in logits] == [(6, 3), (6, 1)]
    policy = PPOPolicy(actor=Pair((2,)), dist_fn=lambda loc: td.Independent(td.Normal(loc, 1.0), 1), **given)
    assert policy(observations()).act.shape == (6, 2)


@pytest.mark.parametrize("dist_fn", [in_a_tuple, DiagonalNormal], ids=["torch's", "ours"])
def test_seeds_repeat_actions_and_leave_torchs_generator_alone(dist_fn):
    policy = gaussian(dist_fn)

    def acts(seed):
        policy.seed(seed)
        return [policy(observations()).act for _ in range(3)]

    before = torch.get_rng_state()
    first, again, other = acts(0), acts(0), acts(1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_torchs_generator_decides():
    policy = gaussian(in_a_tuple)
    torch.manual_seed(3)
    first = policy(observations()).act
    torch.manual_seed(3)
    assert torch.equal(policy(observations()).act, first)


def test_ours_draw_from_the_stream_itself():
    dist = Categorical(torch.zeros(20, 5))
    drawn, stream = (torch.Generator().manual_seed(1) for _ in range(2))
    assert torch.equal(draw(dist, drawn), dist.sample(generator=stream))
    assert torch.equal(drawn.get_state(), stream.get_state())


def test_others_never_repeat_themselves():
    stream = torch.Generator().manual_seed(0)
    assert len({draw(td.Normal(0.0, 1.0), stream).item() for _ in range(200)}) == 200


@pytest.mark.parametrize(("is_initialized", "kept"), [(True, [0, 1]), (False, [])])
def test_generators_of_gpus_are_kept_where_gpus_are_in_use(is_initialized, kept, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_initialized)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: asked.append([*devices]) or nullcontext())
    state = torch.get_rng_state()
    draw(td.Normal(0.0, 1.0), torch.Generator().manual_seed(0))
    torch.set_rng_state(state)
    assert asked == [kept]


LOGITS = torch.tensor([[-1.0], [0.5], [2.0]])


@pytest.mark.parametrize("act", [torch.tensor([0, 1, 1]), torch.tensor([[0], [1], [1]]), torch.tensor([0.0, 1.0, 1.0])])
@pytest.mark.parametrize(
    "dist",
    [
        td.Bernoulli(logits=LOGITS),
        td.Bernoulli(logits=LOGITS[:, 0]),
        td.Independent(td.Bernoulli(logits=LOGITS), 1),
        td.Independent(td.Independent(td.Bernoulli(logits=LOGITS[:, 0]), 0), 0),
    ],
    ids=["a column", "rows", "independent", "twice independent"],
)
def test_log_probabilities_of_integers_and_of_other_axes_of_length_1(dist, act):
    expected = dist.log_prob(act.reshape(dist.batch_shape + dist.event_shape).float())
    assert torch.equal(log_prob_of(dist, act), expected)


def test_actions_of_other_sizes_are_left_to_the_distribution():
    dist = td.Normal(torch.zeros(3, 1), 1.0)
    assert log_prob_of(dist, torch.zeros(3, 2)).shape == (3, 2)  # one deviation for two dimensions
    assert log_prob_of(td.Normal(0.0, 1.0), torch.zeros(1)).shape == (1,)


def test_distributions_of_a_class_of_ones_own_get_actions_as_they_are():
    class Own:
        def log_prob(self, act: torch.Tensor) -> torch.Tensor:
            return -act

    assert log_prob_of(Own(), torch.ones(3, 1, dtype=torch.int64)).tolist() == [[-1], [-1], [-1]]


class Squashed(td.TransformedDistribution):
    def __init__(self, loc_scale: tuple[torch.Tensor, torch.Tensor]) -> None:
        super().__init__(td.Independent(td.Normal(*loc_scale), 1), [td.TanhTransform(cache_size=1)])


class Estimated(Squashed):
    def entropy(self):
        return -self.log_prob(self.rsample())


@pytest.mark.parametrize("kind", [A2CPolicy, PPOPolicy])
def test_one_without_an_entropy_is_named(kind):
    torch.manual_seed(0)
    nets = {"actor": ActorProb(Net(3, hidden_sizes=[8]), 1), "critic": Critic(Net(3, hidden_sizes=[8]))}
    zeros = torch.zeros(4)
    batch = Minibatch(torch.zeros(4, 3), torch.full((4, 1), 0.5), torch.ones(4), zeros, zeros, logp_old=zeros)
    for dist_fn, expected in (
        (Squashed, pytest.raises(NotImplementedError, match="Squashed, which has no entropy")),
        (Estimated, nullcontext()),
    ):
        policy = kind(**nets, optim=adam(1e-3), dist_fn=dist_fn, action_space=Box(-1, 1, (1,)))
        with expected:
            assert policy.gradient_step(batch)["loss"].isfinite()
