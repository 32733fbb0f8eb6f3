import numpy as np
import pytest

from rlfast.distributed import TopTree, importance_weights


def tree(*masses, rows=1, seed=0):
    made = TopTree(len(masses), seed)
    for shard, mass in enumerate(masses):
        made.set(shard, mass=mass, rows=rows)
    return made


def test_shards_are_drawn_by_mass():
    drawn = sum(tree(1.0, 0.0, 5.0, 2.0, seed=seed).draw(7) for seed in range(400))
    assert drawn.sum() == 2800
    np.testing.assert_allclose(drawn / 2800, [0.125, 0, 0.625, 0.25], atol=0.01)


def test_draws_are_stratified():
    for seed in range(20):
        assert tree(1.0, 1.0, 2.0, seed=seed).draw(8).tolist() == [2, 2, 4]


def test_the_same_seed_draws_the_same_shards():
    one, two = tree(0.3, 0.3, 0.4, seed=7), tree(0.3, 0.3, 0.4, seed=7)
    assert [one.draw(5).tolist() for _ in range(10)] == [two.draw(5).tolist() for _ in range(10)]


def test_what_a_shard_reports_replaces_what_it_reported():
    made = tree(1.0, 3.0, rows=10)
    assert (made.probability(1), made.rows, made.mass, len(made)) == (0.75, 20, 4.0, 2)
    made.set(1, mass=0.0, rows=0)
    assert (made.probability(1), made.rows, made.rows_of(0), made.rows_of(1)) == (0.0, 10, 10, 0)
    assert made.draw(6).tolist() == [6, 0]


def test_no_rows_are_drawn_where_none_are_asked_for():
    assert tree(1.0, 2.0).draw(0).tolist() == [0, 0]


def test_empty_shards_have_no_row():
    made = tree(0.0, 0.0)
    for ask in (lambda: made.draw(1), lambda: made.probability(0)):
        with pytest.raises(ValueError, match="all shards are empty"):
            ask()


@pytest.mark.parametrize("mass", [-1.0, float("nan"), float("inf")])
def test_a_mass_is_a_sum_of_priorities(mass):
    made = tree(1.0, 1.0)
    with pytest.raises(ValueError, match="mass of shard 1"):
        made.set(1, mass=mass, rows=2)
    assert made.mass == 2.0


def test_weights_by_hand():
    weights = importance_weights(np.array([0.1, 0.4]), rows=5, beta=1.0)
    np.testing.assert_allclose(weights, [1.0, 0.25])
    np.testing.assert_allclose(
        importance_weights(np.array([0.1, 0.4]), rows=5, beta=0.5, largest=1.0), [2**0.5, 0.5**0.5]
    )


def test_rows_drawn_equally_often_have_weight_one():
    assert importance_weights(np.full(3, 0.01), rows=100, beta=0.7).tolist() == [1.0, 1.0, 1.0]
