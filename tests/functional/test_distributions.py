import math

import numpy as np
import pytest
import torch
from torch import distributions as reference

from rlfast.functional import Categorical, DiagonalNormal, MultiCategorical, SquashedNormal, tanh_log_det

LOC = torch.tensor([[0.5, -1.0], [2.0, 0.0], [0.0, 0.0]])
SCALE = torch.tensor([[0.1, 2.0], [1.0, 1.0], [3.0, 0.5]])
VALUE = torch.tensor([[0.4, 1.0], [-1.0, 0.0], [5.0, -0.5]])


def twin():
    return reference.Independent(reference.Normal(LOC, SCALE), 1)


class TestDiagonalNormal:
    def test_it_agrees_with_torch(self):
        dist = DiagonalNormal(LOC, SCALE)
        assert torch.allclose(dist.log_prob(VALUE), twin().log_prob(VALUE))
        assert torch.allclose(dist.entropy(), twin().entropy())
        for name in ("mean", "mode", "stddev", "variance"):
            assert torch.equal(getattr(dist, name), getattr(twin(), name))
        assert (dist.batch_shape, dist.event_shape) == (twin().batch_shape, twin().event_shape)
        torch.manual_seed(3)
        mine = dist.sample((4,))
        torch.manual_seed(3)
        assert torch.allclose(mine, twin().sample((4,)))

    def test_samples_carry_gradients_only_when_asked(self):
        loc = LOC.clone().requires_grad_()
        assert DiagonalNormal(loc, SCALE).rsample().requires_grad
        assert not DiagonalNormal(loc, SCALE).sample().requires_grad


class TestSquashedNormal:
    def test_by_hand(self):
        dist = SquashedNormal(torch.zeros(1, 1), torch.ones(1, 1))
        act, log_prob = dist.with_log_prob(torch.tensor([[0.5]]))
        assert act.tolist() == [[pytest.approx(math.tanh(0.5))]]
        density = math.exp(-0.125) / math.sqrt(2 * math.pi) / (1 - math.tanh(0.5) ** 2)
        assert log_prob.tolist() == pytest.approx([math.log(density)])
        assert dist.log_prob(act).tolist() == pytest.approx(log_prob.tolist(), rel=1e-5)
        assert SquashedNormal(LOC, SCALE).mode.tolist() == LOC.tanh().tolist()

    def test_its_density_sums_to_one(self):
        act = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[1:-1, None]
        dist = SquashedNormal(torch.full_like(act, 0.3), torch.full_like(act, 0.6))
        assert dist.log_prob(act).exp().sum().item() * 1e-5 == pytest.approx(1.0, abs=1e-6)

    @pytest.mark.pitfall("F4")
    @pytest.mark.parametrize("act", [1 - 2.0**-24, -(1 - 2.0**-24), 1.0, -1.0])
    def test_the_log_probability_is_finite_at_the_bounds(self, act):
        loc = torch.zeros(1, 1, requires_grad=True)
        log_prob = SquashedNormal(loc, torch.ones(1, 1)).log_prob(torch.tensor([[act]]))
        log_prob.sum().backward()
        assert torch.isfinite(log_prob).all()
        assert torch.isfinite(loc.grad).all()

    @pytest.mark.pitfall("F4")
    @pytest.mark.parametrize("pre", [0.0, 1.0, 8.7, 20.0, 1e4, -1e4])
    def test_the_correction_is_finite_and_exact_far_out(self, pre):
        u = torch.tensor([pre], requires_grad=True)
        log_det = tanh_log_det(u)
        log_det.sum().backward()
        exact = 2 * (math.log(2) - abs(pre) - math.log1p(math.exp(-2 * abs(pre))))
        assert log_det.item() == pytest.approx(exact, rel=1e-5, abs=1e-6)
        assert u.grad.item() == pytest.approx(-2 * math.tanh(pre), abs=1e-5)


class TestCategorical:
    LOGITS = torch.tensor([[0.0, 1.0, 2.0], [-1.0, -1.0, -1.0]])

    def test_it_agrees_with_torch(self):
        mine, theirs = Categorical(self.LOGITS), reference.Categorical(logits=self.LOGITS)
        act = torch.tensor([2, 0])
        assert torch.allclose(mine.log_prob(act), theirs.log_prob(act))
        assert torch.allclose(mine.entropy(), theirs.entropy())
        assert torch.allclose(mine.probs, theirs.probs)
        assert mine.mode.tolist() == [2, 0]
        assert (mine.batch_shape, mine.event_shape) == (theirs.batch_shape, theirs.event_shape)

    def test_draws_never_illegal(self):
        dist = Categorical(torch.log(torch.tensor([0.1, 0.0, 0.6, 0.3])))
        drawn = torch.bincount(dist.sample((100_000,)), minlength=4) / 100_000
        assert drawn.tolist() == pytest.approx([0.1, 0.0, 0.6, 0.3], abs=0.006)
        assert drawn[1] == 0

    def test_illegal_actions_without_entropy_or_gradient(self):
        logits = torch.tensor([[0.0, -torch.inf, 0.0]], requires_grad=True)
        entropy = Categorical(logits).entropy()
        entropy.sum().backward()
        assert entropy.tolist() == pytest.approx([math.log(2)])
        assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]

    def test_several_draws_are_rated_at_once(self):
        logits = torch.tensor([[0.1, 2.0, -1.0], [0.0, 0.5, 1.0]])
        act = torch.tensor([[0, 2], [1, 1], [2, 0], [1, 2]])
        expected = reference.Categorical(logits=logits).log_prob(act)
        assert torch.allclose(Categorical(logits).log_prob(act), expected)
        several = MultiCategorical(torch.cat([logits, logits], -1), [3, 3])
        assert torch.allclose(several.log_prob(torch.stack([act, act], -1)), 2 * expected)

    def test_actions_may_be_of_any_integer_dtype(self):
        assert Categorical(self.LOGITS).log_prob(torch.tensor([2.0, 0.0])).tolist() == pytest.approx(
            Categorical(self.LOGITS).log_prob(torch.tensor([2, 0], dtype=torch.int32)).tolist()
        )


class TestMultiCategorical:
    def test_it_is_the_product_of_its_choices(self):
        logits = torch.randn(4, 5)
        dist = MultiCategorical(logits, np.array([2, 3]))
        first, second = reference.Categorical(logits=logits[:, :2]), reference.Categorical(logits=logits[:, 2:])
        act = torch.tensor([[0, 2], [1, 1], [1, 0], [0, 0]])
        assert torch.allclose(dist.log_prob(act), first.log_prob(act[:, 0]) + second.log_prob(act[:, 1]))
        assert torch.allclose(dist.entropy(), first.entropy() + second.entropy())
        assert dist.mode.tolist() == torch.stack([logits[:, :2].argmax(1), logits[:, 2:].argmax(1)], 1).tolist()

    def test_samples(self):
        dist = MultiCategorical(torch.log(torch.tensor([[0.25, 0.75, 0.5, 0.5, 0.0]])), [2, 3])
        drawn = dist.sample((20_000,))
        assert drawn.shape == (20_000, 1, 2)
        assert drawn[:, 0, 0].float().mean().item() == pytest.approx(0.75, abs=0.01)
        assert drawn[:, 0, 1].float().mean().item() == pytest.approx(0.5, abs=0.01)


# -- every axis, every index, every stream -----------------------------------------------------------------------------
DEEP = torch.linspace(-2, 2, 2 * 3 * 5).reshape(2, 3, 5)  # two leading axes, so that the last one is not the second
MAKE = {
    "normal": lambda: DiagonalNormal(DEEP, DEEP.exp()),
    "squashed": lambda: SquashedNormal(DEEP, DEEP.exp()),
    "categorical": lambda: Categorical(DEEP),
    "choices": lambda: MultiCategorical(DEEP, [2, 3]),
}


@pytest.mark.parametrize("name", MAKE)
def test_any_number_of_leading_axes_is_a_batch(name):
    dist = MAKE[name]()
    events = {"normal": (5,), "squashed": (5,), "categorical": (), "choices": (2,)}
    assert (dist.batch_shape, dist.event_shape) == ((2, 3), events[name])
    act = dist.sample((4,))
    assert act.shape == (4, 2, 3, *events[name])
    one_by_one = [[dist[i, j].log_prob(act[0, i, j]) for j in range(3)] for i in range(2)]
    assert torch.allclose(dist.log_prob(act[0]), torch.stack([torch.stack(row) for row in one_by_one]))
    assert dist.log_prob(act[0]).shape == (2, 3)
    if name != "squashed":
        entropy = [[dist[i, j].entropy() for j in range(3)] for i in range(2)]
        assert torch.allclose(dist.entropy(), torch.stack([torch.stack(row) for row in entropy]))


@pytest.mark.parametrize("name", MAKE)
def test_an_index_picks_rows(name):
    dist = MAKE[name]()
    part = dist[1:]
    assert (type(part), part.batch_shape) == (type(dist), (1, 3))
    assert torch.equal(part.mode, dist.mode[1:])
    act = dist.sample()
    assert torch.allclose(part.log_prob(act[1:]), dist.log_prob(act)[1:])


@pytest.mark.parametrize("name", MAKE)
def test_range_index_of_rows(name):
    dist = MAKE[name]()
    assert torch.equal(dist[range(1, -3, -2)].mode, dist.mode[[1, -1]])
    assert torch.equal(dist[range(-2, 0)].mode, dist.mode)
    for beyond in (range(10**13), range(1, 10**13), range(3), range(-3, 0), range(0, -(10**13), -1)):
        with pytest.raises(IndexError, match="there are 2 rows"):
            dist[beyond]


def nested(depth):
    entry = 0
    for _ in range(depth):
        entry = [entry]
    return entry


@pytest.mark.parametrize("name", MAKE)
def test_lists_of_an_index_are_not_too_deep(name):
    dist = MAKE[name]()
    for index in (([[1, 0], [0, 0]], slice(None)), ([1], [[0], [2]]), [1, 0, 0], (nested(50),)):
        assert torch.equal(dist[index].mode, dist.mode[index])
    endless = []
    endless += [endless, endless]
    for beyond in (nested(65), nested(100_000), (0, nested(100_000)), (0, [0, nested(100_000)]), endless):
        with pytest.raises(IndexError, match="an index of lists may be at most 64 levels deep"):
            dist[beyond]


@pytest.mark.parametrize("name", MAKE)
def test_samples_have_64_axes_at_most(name):
    dist = MAKE[name]()
    assert dist.sample((1,) * 61).shape[:61] == (1,) * 61
    for axes in (62, 100_001):
        with pytest.raises(ValueError, match=f"at most 64 axes, got {axes} before the 3"):
            dist.sample((1,) * axes)


def test_noise_counts_along_the_last_axis():
    dist, noise = MAKE["squashed"](), torch.linspace(1, -1, 30).reshape(2, 3, 5)
    act, log_prob = dist.with_log_prob(noise)
    assert torch.allclose(act, (DEEP + DEEP.exp() * noise).tanh())
    density = twin_of(DEEP, DEEP.exp()).log_prob(DEEP + DEEP.exp() * noise)
    assert torch.allclose(log_prob, density - tanh_log_det(DEEP + DEEP.exp() * noise).sum(-1), atol=1e-4)


def twin_of(loc, scale):
    return reference.Independent(reference.Normal(loc, scale), 1)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_come_from_the_generator_that_is_given(name, dtype, monkeypatch):
    monkeypatch.setitem(globals(), "DEEP", DEEP.to(dtype))
    dist, draws = MAKE[name](), []
    for seed in (1, 1, 2):
        state = torch.random.get_rng_state()
        draws.append(dist.sample((50,), generator=torch.Generator().manual_seed(seed)))
        assert torch.equal(torch.random.get_rng_state(), state), "the global stream has moved"
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert draws[0].shape[:3] == (50, 2, 3)
    state = torch.random.get_rng_state()
    dist.sample((2,))
    assert not torch.equal(torch.random.get_rng_state(), state), "without one, the global stream is used"


def test_what_a_generator_gives_is_scaled_noise():
    noise = torch.randn(50, 3, 2, generator=torch.Generator().manual_seed(7))
    drawn = DiagonalNormal(LOC, SCALE).rsample((50,), generator=torch.Generator().manual_seed(7))
    assert torch.equal(drawn, LOC + SCALE * noise)
    squashed = SquashedNormal(LOC, SCALE).sample((50,), generator=torch.Generator().manual_seed(7))
    assert torch.equal(squashed, drawn.tanh())
    double = DiagonalNormal(LOC.double(), SCALE.double()).sample(generator=torch.Generator().manual_seed(7))
    exact = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    assert torch.equal(double, LOC + SCALE * exact)


def test_choices_need_their_logits_and_an_action_each():
    with pytest.raises(ValueError, match=r"the choices \[2, 2\] need 4 logits, got 5"):
        MultiCategorical(DEEP, [2, 2])
    with pytest.raises(ValueError, match="zip"):
        MultiCategorical(DEEP, [2, 3]).log_prob(torch.zeros(2, 3, 3))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_generator_equals_global_stream(name, dtype, monkeypatch):
    monkeypatch.setitem(globals(), "DEEP", DEEP.to(dtype))
    dist = MAKE[name]()
    torch.manual_seed(11)
    drawn = dist.sample((5000,))
    assert torch.equal(drawn, dist.sample((5000,), generator=torch.Generator().manual_seed(11)))
    assert drawn.dtype == (dtype if name in ("normal", "squashed") else torch.int64)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_samples_are_where_the_parameters_are(name, generator, monkeypatch):
    """The device that only computes shapes stands for an accelerator: it does not mix with the CPU either."""
    monkeypatch.setitem(globals(), "DEEP", DEEP.to("meta"))
    assert MAKE[name]().sample((4,), generator=generator).device.type == "meta"


def test_divergences_agree_with_torch():
    other_loc, other_scale = LOC.flip(0), SCALE.flip(0)
    mine = reference.kl_divergence(DiagonalNormal(LOC, SCALE), DiagonalNormal(other_loc, other_scale))
    assert torch.allclose(mine, reference.kl_divergence(twin(), twin_of(other_loc, other_scale)))
    squashed = reference.kl_divergence(SquashedNormal(LOC, SCALE), SquashedNormal(other_loc, other_scale))
    assert torch.allclose(squashed, mine)
    logits, others = torch.randn(4, 5), torch.randn(4, 5)
    theirs = reference.kl_divergence(reference.Categorical(logits=logits), reference.Categorical(logits=others))
    assert torch.allclose(reference.kl_divergence(Categorical(logits), Categorical(others)), theirs, atol=1e-6)


def test_zero_probability_adds_no_divergence():
    first = Categorical(torch.tensor([[0.0, -torch.inf, 1.0]]))
    second = Categorical(torch.tensor([[0.5, -torch.inf, 0.0]]))
    legal = [Categorical(torch.tensor([[a, b]])) for a, b in ((0.0, 1.0), (0.5, 0.0))]
    assert torch.allclose(reference.kl_divergence(first, second), reference.kl_divergence(*legal))


def test_divergences_of_several_choices_add_up():
    logits, others = torch.randn(4, 5), torch.randn(4, 5)
    whole = reference.kl_divergence(MultiCategorical(logits, [2, 3]), MultiCategorical(others, [2, 3]))
    parts = [
        reference.kl_divergence(
            reference.Categorical(logits=logits[:, part]), reference.Categorical(logits=others[:, part])
        )
        for part in (slice(2), slice(2, 5))
    ]
    assert torch.allclose(whole, parts[0] + parts[1], atol=1e-6)
    with pytest.raises(ValueError, match="zip"):
        reference.kl_divergence(MultiCategorical(logits, [2, 3]), MultiCategorical(others, [1, 1, 3]))


def test_divergences_count_along_the_last_axis():
    for make in MAKE.values():
        divergence = reference.kl_divergence(make(), make())
        assert divergence.shape == (2, 3)
        assert divergence.abs().max() < 1e-5
