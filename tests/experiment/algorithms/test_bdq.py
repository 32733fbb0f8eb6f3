import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build


def parts_of(**changes):
    return build(ALGORITHMS["bdq"].config(buffer_size=100, progress=False, **{"hidden_sizes": (8,), **changes}))


def test_settings_reach_their_parts():
    parts = parts_of(
        learning_rate=0.25, gamma=0.5, n_step=2, target_update_freq=7, double=False, huber=False, choices=5
    )
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert (policy.num_branches, policy.choices, policy.clip_loss_grad) == (1, 5, False)
    parts.close()


def test_what_is_done_is_what_is_stored():
    parts = parts_of(choices=3)
    collector = parts.train_collector
    collector.collect(n_step=16, random=True)
    act = collector.buffer.sample(0)[0].act
    assert act.shape[1:] == (1,)
    assert set(act.flatten().tolist()) == {0, 1, 2}
    parts.close()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"env": "CartPole-v1"}, "BDQ needs continuous actions"),
        ({"choices": 1}, "--choices must be at least 2, got 1"),
        ({"recurrent": True}, "--recurrent cannot be had with BDQ"),
        ({"dueling": True}, "--dueling cannot be had with BDQ"),
    ],
)
def test_what_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        parts_of(**changes)
