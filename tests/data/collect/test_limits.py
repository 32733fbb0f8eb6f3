import numpy as np
import pytest

from rlfast.data.collect.limits import EpisodeLimit, EpisodeQuotas, StepLimit


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("n_step", "exact", "steps"),
    [(9, False, 2), (8, False, 1), (5, False, 1), (4, False, None), (9, True, 1), (8, True, 1), (5, True, None)],
)
def test_the_last_step_of_all_environments_is_left_to_python(n_step, exact, steps):
    """Environments that are not in a last step of fewer are reset by the next collect, so maybe with its seed."""
    assert StepLimit(n_step, np.arange(4), exact=exact).whole_steps == (None if steps is None else ("steps", steps))


@pytest.mark.parametrize(("n_episode", "env_num"), [(1, 1), (7, 3), (3, 7), (10, 4), (8, 4)])
def test_counts_are_exact_whatever_ends_when(n_episode, env_num):
    rng = np.random.default_rng(n_episode)
    for kind in (EpisodeLimit, EpisodeQuotas):
        goal, played = kind(n_episode, env_num), np.zeros(env_num, int)
        while not goal.reached:
            ended = goal.ready[rng.random(len(goal.ready)) < 0.3]
            played[ended] += 1
            goal.advance(len(goal.ready), ended)
        assert played.sum() == n_episode
        assert (played[: min(n_episode, env_num)] >= 1).all()
        if kind is EpisodeQuotas:
            assert played.max() - played.min() <= 1


def test_a_limit_goes_on_from_what_a_collect_in_rust_has_left():
    steps = StepLimit(9, np.arange(4))
    steps.resume(np.arange(4), 0, 8)
    assert (steps.reached, steps.whole_steps, steps.ready.tolist()) == (False, None, [0, 1, 2, 3])
    steps.advance(4, ids())
    assert steps.reached
    episodes = EpisodeLimit(7, 3)
    assert episodes.whole_steps == ("episodes", 7)
    episodes.resume(ids(0, 2), 2, 40)
    assert (episodes.ready.tolist(), episodes.whole_steps, episodes.reached) == ([0, 2], ("episodes", 2), False)
    episodes.resume(ids(), 0, 6)
    assert episodes.reached
    quotas = EpisodeQuotas(7, 3)
    assert (quotas.whole_steps[0], quotas.whole_steps[1].tolist()) == ("quotas", [3, 2, 2])
    quotas.resume(ids(1), np.array([0, 2, 0]), 40)
    assert (quotas.ready.tolist(), quotas.whole_steps[1].tolist(), quotas.reached) == ([1], [0, 2, 0], False)
    quotas.advance(1, ids(1))
    quotas.advance(1, ids(1))
    assert quotas.reached
