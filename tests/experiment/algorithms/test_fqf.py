import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build


def parts_of(**changes):
    return build(ALGORITHMS["fqf"].config(buffer_size=100, progress=False, **{"hidden_sizes": (8,), **changes}))


def test_settings_reach_their_parts():
    parts = parts_of(
        learning_rate=0.25,
        gamma=0.5,
        n_step=2,
        target_update_freq=7,
        double=False,
        fractions=5,
        fraction_learning_rate=0.5,
        entropy_coef=0.125,
        cosines=6,
        hidden_sizes=(9, 8),
    )
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert policy.fraction_optim.defaults["lr"] == 0.5
    assert (policy.fraction_model.num_fractions, policy.ent_coef) == (5, 0.125)
    assert policy.model.embed_model.num_cosines == 6
    assert [p.shape[0] for p in policy.model.last.parameters()] == [8, 8, 2, 2]
    parts.close()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"env": "Pendulum-v1"}, "FQF needs discrete actions, and those of Pendulum-v1 are Box"),
        ({"dueling": True}, "--dueling cannot be had with FQF"),
        ({"hidden_sizes": ()}, "FQF needs a hidden layer: give --hidden-sizes"),
    ],
)
def test_what_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        parts_of(**changes)
