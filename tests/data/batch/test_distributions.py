import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.distributions import Bernoulli, Categorical, Dirichlet, Independent, Normal, Uniform  # noqa: E402

from rlfast.data import Batch  # noqa: E402
from rlfast.data.batch import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist  # noqa: E402
from rlfast.functional.distributions import Categorical as LeanCategorical  # noqa: E402
from rlfast.functional.distributions import DiagonalNormal, MultiCategorical, SquashedNormal  # noqa: E402

LOC, SCALE = torch.randn(5, 2), torch.rand(5, 2) + 0.5
DISTRIBUTIONS = {
    "probs": Categorical(probs=SCALE),
    "logits": Categorical(logits=LOC),
    "bernoulli": Bernoulli(logits=LOC),
    "normal": Normal(LOC, SCALE),
    "one scale": Normal(LOC, 1.0),
    "uniform": Uniform(LOC, LOC + SCALE),
    "independent": Independent(Normal(LOC, SCALE), 1),
    "twice": Independent(Independent(Normal(LOC[:, :, None], SCALE[:, :, None]), 1), 1),
    "lean normal": DiagonalNormal(LOC, SCALE),
    "squashed": SquashedNormal(LOC, SCALE),
    "lean categorical": LeanCategorical(LOC),
    "multi": MultiCategorical(torch.cat([LOC, SCALE], 1), [2, 2]),
}


@pytest.mark.parametrize("index", [1, slice(1, 4), [0, 3], np.array([4, 4]), np.arange(5) > 2, ..., -1], ids=str)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_rows_of_a_distribution(name, index):
    dist = DISTRIBUTIONS[name]
    value = dist.sample()
    part = Batch(dist=dist, act=value)[index]
    assert type(part.dist) is type(dist)
    assert torch.allclose(part.dist.log_prob(part.act), dist.log_prob(value)[index])


def test_batches_have_the_length_of_their_distributions():
    assert len(Batch(dist=DISTRIBUTIONS["normal"])) == 5
    assert len(Batch(dist=DISTRIBUTIONS["normal"], act=np.zeros(3))) == 3
    assert [row.dist.loc.tolist() for row in Batch(dist=DISTRIBUTIONS["normal"])] == LOC.tolist()
    with pytest.raises(TypeError, match="without rows"):
        len(Batch(dist=Normal(0.0, 1.0)))
    with pytest.raises(TypeError, match="without rows"):
        get_len_of_dist(Normal(0.0, 1.0))


def test_what_is_known_twice_is_given_once():
    dist = Categorical(logits=LOC)
    _ = dist.probs  # remembered from now on
    assert "probs" not in vars(get_sliced_dist(dist, 0))
    assert "logits" not in vars(get_sliced_dist(Categorical(probs=SCALE), 0))


def test_distributions_whose_rows_are_not_known():
    with pytest.raises(NotImplementedError, match="rows of a Dirichlet"):
        Batch(dist=Dirichlet(SCALE))[0]


def test_other_values_that_have_no_rows_are_as_wrong_as_before():
    with pytest.raises(TypeError):
        Batch(dist=DISTRIBUTIONS["normal"], a=None)[0]


def test_distributions_of_one_row():
    dist = dist_to_atleast_2d(Independent(Normal(LOC[0], SCALE[0]), 1))
    assert dist.batch_shape == (1,)
    assert dist_to_atleast_2d(dist) is dist
    assert Batch(dist=Categorical(logits=LOC[0])).to_at_least_2d().dist.batch_shape == (1,)


def test_distributions_are_compared():
    a = Batch(dist=Categorical(logits=LOC))
    _ = a.dist.probs
    assert a == Batch(dist=Categorical(logits=LOC.clone()))
    assert a != Batch(dist=Categorical(logits=LOC + torch.tensor([1.0, 0.0])))
    assert a != Batch(dist=Bernoulli(logits=LOC))
    assert a != Batch(dist=LOC)
    for name in ("normal", "uniform", "twice", "lean normal", "squashed"):  # the others normalize, and so round, again
        dist = DISTRIBUTIONS[name]
        assert Batch(dist=dist) == Batch(dist=get_sliced_dist(dist, slice(None)))
        assert Batch(dist=dist) != Batch(dist=get_sliced_dist(dist, [0, 1, 2, 3, 3]))
