import numpy as np
import pytest

from rlfast.exploration import GaussianNoise, OUNoise


def test_gaussian_noise_has_the_given_moments():
    noise = GaussianNoise(mu=2.0, sigma=0.5, seed=0)((100_000,))
    assert noise.mean() == pytest.approx(2.0, abs=0.01)
    assert noise.std() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("kind", [GaussianNoise, OUNoise])
def test_the_same_seed_gives_the_same_noise(kind):
    first, second, other = (kind(seed=seed)((8, 2)) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", [GaussianNoise, OUNoise])
def test_without_a_seed_numpy_global_generator_decides(kind):
    noise = kind()
    np.random.seed(3)  # also when it is seeded after the noise was made, as scripts do
    first = noise((4,))
    np.random.seed(3)
    assert np.array_equal(first, kind()((4,)))


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("kind", [GaussianNoise, OUNoise])
def test_a_seeded_noise_leaves_the_global_generator_alone(kind):
    before = np.random.get_state()[1].copy()
    kind(seed=0)((16,))
    assert np.array_equal(before, np.random.get_state()[1])


def test_ou_noise_follows_its_equation():
    mu, sigma, theta, dt = 1.0, 0.3, 0.15, 0.1
    noise = OUNoise(mu, sigma, theta, dt, x0=2.0, seed=5)
    normal = np.random.default_rng(5)
    x = np.full(3, 2.0)
    for _ in range(10):
        x = x + theta * dt * (mu - x) + sigma * np.sqrt(dt) * normal.normal(size=3)
        assert noise((3,)) == pytest.approx(x)


def test_ou_noise_returns_to_its_start():
    noise = OUNoise(sigma=0.0, theta=1.0, dt=0.5, x0=np.array([4.0, 8.0]))
    assert noise((2,)).tolist() == [2.0, 4.0]
    assert noise((2,)).tolist() == [1.0, 2.0]
    noise.reset()
    assert noise((2,)).tolist() == [2.0, 4.0]


def test_ou_noise_takes_a_mean_for_one_step():
    noise = OUNoise(sigma=0.0, theta=1.0, dt=0.5)
    assert noise((1,), mu=8.0).item() == 4.0
    assert noise((1,)).item() == 2.0


def test_ou_noise_restarts_when_the_number_of_environments_changes():
    noise = OUNoise(sigma=0.0, theta=1.0, dt=0.5, x0=2.0)
    noise((4, 1))
    assert noise((2, 1)).tolist() == [[1.0], [1.0]]


def test_ou_noise_restarts_in_the_rows_of_new_episodes():
    noise = OUNoise(sigma=0.0, theta=1.0, dt=0.5, x0=np.array([4.0, 8.0]))
    noise.start_episodes(np.array([True]))  # before the first noise there is nothing to restart
    first = noise((3, 2))
    noise.start_episodes(np.array([True, False, True]))
    assert first.tolist() == [[2.0, 4.0]] * 3
    assert noise((3, 2)).tolist() == [[2.0, 4.0], [1.0, 2.0], [2.0, 4.0]]
    noise.start_episodes(np.array([True, True]))  # rows of another call
    assert noise((3, 2)).tolist() == [[1.0, 2.0], [0.5, 1.0], [1.0, 2.0]]


@pytest.mark.pitfall("B6")
def test_what_ou_noise_gave_does_not_change_later():
    noise = OUNoise(seed=0)
    first = noise((2,))
    kept = first.copy()
    noise((2,))
    assert np.array_equal(first, kept)
    first += 100.0  # and a caller's change does not reach the process
    assert np.abs(noise((2,))).max() < 10


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: GaussianNoise(sigma=-0.1), "sigma"),
        (lambda: GaussianNoise(sigma=float("nan")), "sigma"),
        (lambda: OUNoise(sigma=-1.0), "sigma"),
        (lambda: OUNoise(dt=-1.0), "dt"),
    ],
)
def test_a_negative_spread_is_refused(make, name):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more"):
        make()


def test_one_number_is_the_size_of_one_axis():
    noise = OUNoise(sigma=0.0, theta=0.5, dt=1.0, x0=8.0)
    assert noise(2).tolist() == [4.0, 4.0]
    assert [noise(2).tolist(), noise((2,)).tolist()] == [[2.0, 2.0], [1.0, 1.0]]
    assert GaussianNoise(sigma=0.0, mu=3.0)(2).tolist() == [3.0, 3.0]
