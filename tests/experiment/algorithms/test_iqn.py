import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build


def parts_of(**changes):
    return build(ALGORITHMS["iqn"].config(buffer_size=100, progress=False, **{"hidden_sizes": (8,), **changes}))


def test_settings_reach_their_parts():
    parts = parts_of(
        learning_rate=0.25,
        gamma=0.5,
        n_step=2,
        target_update_freq=7,
        double=False,
        samples=3,
        online_samples=4,
        target_samples=5,
        cosines=6,
        hidden_sizes=(9, 8),
    )
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert (policy.sample_size, policy.online_sample_size, policy.target_sample_size) == (3, 4, 5)
    assert policy.model.embed_model.num_cosines == 6
    assert [p.shape[0] for p in policy.model.last.parameters()] == [8, 8, 2, 2]
    parts.close()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"env": "Pendulum-v1"}, "IQN needs discrete actions, and those of Pendulum-v1 are Box"),
        ({"dueling": True}, "--dueling cannot be had with IQN"),
        ({"hidden_sizes": ()}, "IQN needs a hidden layer: give --hidden-sizes"),
    ],
)
def test_what_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        parts_of(**changes)
