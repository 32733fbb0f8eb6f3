import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from env.odd import Showing
from rlfast.env import DummyVectorEnv, VectorEnvNormObs
from rlfast.utils import RunningMeanStd
from scripted import Scripted


class Remembering(Scripted):
    """An environment that records its observations; their second dimension is constant."""

    def __init__(self, length, scale):
        super().__init__(length)
        self.scale, self.shown = scale, []

    def _obs(self):
        obs = np.array([self.scale * (10 * self.episode + self.step_count), 5.0], np.float32)
        self.shown.append(obs)
        return obs


def make(mode=None, **kwargs):
    return VectorEnvNormObs(
        DummyVectorEnv([lambda: Remembering(3, 1.0), lambda: Remembering(4, -2.0)], autoreset_mode=mode), **kwargs
    )


def scaled(raw, seen):
    return np.clip((raw - np.mean(seen, 0)) / np.sqrt(np.var(seen, 0) + np.finfo(np.float32).eps), -10, 10)


def shown(envs):
    return np.concatenate([env.shown for env in envs.get_attr("unwrapped")]).astype(np.float64)


@pytest.mark.pitfall("F1")
def test_each_observation_counts_once_in_statistics():
    envs = make()
    obs, _ = envs.reset()
    seen = [[0, 5.0], [0, 5.0]]
    np.testing.assert_allclose(obs, scaled(seen, seen), rtol=1e-6)
    for step in (1, 2, 3):  # the third is the final one of environment 0
        obs, *_, infos = envs.step([0, 0])
        seen += [[step, 5.0], [-2 * step, 5.0]]
        np.testing.assert_allclose(obs, scaled(seen[-2:], seen), rtol=1e-6)
        assert [info["env_id"] for info in infos] == [0, 1]
    obs, _ = envs.reset([0])
    seen += [[10, 5.0]]
    np.testing.assert_allclose(obs, scaled(seen[-1:], seen), rtol=1e-6)
    assert envs.get_obs_rms().count == len(seen)
    assert obs.dtype == np.float32
    assert np.isfinite(obs).all()  # a constant dimension


@pytest.mark.pitfall("F1")
@pytest.mark.parametrize("mode", AutoresetMode)
def test_statistics_equal_one_pass(mode):
    envs = make(mode)
    envs.reset()
    for _ in range(50):
        *_, terminated, truncated, _ = envs.step(np.zeros(2, int))
        if mode is AutoresetMode.DISABLED and terminated.any():
            envs.reset(options={"reset_mask": terminated | truncated})
    seen, rms = shown(envs), envs.obs_rms
    assert rms.count == len(seen) > 100
    np.testing.assert_allclose(rms.mean, seen.mean(0), rtol=1e-12)
    np.testing.assert_allclose(rms.var, seen.var(0), rtol=1e-12)


@pytest.mark.pitfall("F1")
def test_final_observations_are_scaled_as_well():
    envs = make("same-step")
    envs.reset()
    for _ in range(2):
        envs.step(np.zeros(2, int))
    obs, *_, info = envs.step(np.zeros(2, int))
    seen = shown(envs)
    np.testing.assert_allclose(info["final_obs"][0], scaled([3, 5.0], seen), rtol=1e-6)
    np.testing.assert_allclose(obs, scaled([[10, 5.0], [-6, 5.0]], seen), rtol=1e-6)
    assert obs in envs.observation_space
    assert info["final_obs"][0] in envs.single_observation_space


@pytest.mark.pitfall("F1")
def test_normalization_through_train_save_eval():
    train = make("same-step")
    train.reset()
    for _ in range(30):
        train.step(np.zeros(2, int))
    saved = train.state_dict()
    assert saved["mean"].tolist() == train.obs_rms.mean.tolist()
    assert saved["var"].tolist() == train.obs_rms.var.tolist()
    test = make(update_obs_rms=False)
    test.load_state_dict(saved)
    first, _ = test.reset()
    np.testing.assert_allclose(first, scaled([[0, 5.0]] * 2, shown(train)), rtol=1e-6)
    for _ in range(3):
        test.step([0, 0])
    assert test.state_dict()["count"] == saved["count"]  # evaluation never updates
    assert test.obs_rms.mean.tolist() == saved["mean"].tolist()
    saved["mean"][:] = 0
    assert train.obs_rms.mean.tolist() != [0, 0]  # a copy


def test_statistics_may_be_shared():
    train, test = make(), make(update_obs_rms=False)
    test.set_obs_rms(train.get_obs_rms())
    train.reset()
    assert test.get_obs_rms().count == 2
    test.reset()
    assert train.get_obs_rms().count == 2
    test.set_obs_rms(RunningMeanStd(clip_max=2.0))
    assert (test.single_observation_space.high == 2).all()


def test_through_send_and_recv_and_over_a_wrapper():
    envs = VectorEnvNormObs(make("same-step"))  # scaled twice
    envs.reset()
    for _ in range(3):
        envs.send(np.zeros(2, int))
        rows = envs.recv()
    assert rows.obs is not rows.obs_next
    assert envs.obs_rms.count == envs.venv.obs_rms.count == 9
    np.testing.assert_array_equal(rows.obs[1], rows.obs_next[1])
    assert rows.obs[0, 0] != rows.obs_next[0, 0]
    envs.send([0], [0])
    rows = envs.recv()
    assert rows.obs is rows.obs_next
    assert rows.env_id.tolist() == [0]
    assert envs.obs_rms.count == 10


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64, np.float32])
def test_floats_keep_dtype_ints_become_float32(dtype):
    class Typed(Scripted):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 9, (2,), dtype)

        def _obs(self):
            return np.array([1, 2], dtype)

    envs = VectorEnvNormObs(DummyVectorEnv([Typed] * 2, autoreset_mode="same-step"))
    want = dtype if np.issubdtype(dtype, np.floating) else np.float32
    assert envs.reset()[0].dtype == envs.single_observation_space.dtype == envs.observation_space.dtype == want


def test_only_arrays_are_scaled():
    with pytest.raises(TypeError, match="FlattenObservation"):
        VectorEnvNormObs(DummyVectorEnv([lambda: Scripted(dict_obs=True)]))
    envs = make()
    with pytest.raises(ValueError, match=r"shape \(3,\) and \(3,\) for observations of shape \(2,\)"):
        envs.load_state_dict({"mean": np.zeros(3), "var": np.ones(3), "count": 1})


@pytest.mark.parametrize(
    ("space", "values", "dtype"),
    [
        ("none", np.array([[1.0, 5.0], [2.0, 9.0]]), np.float64),
        ("none", np.array([[1, 5], [2, 9]], np.float32), np.float32),
        (gym.spaces.Discrete(9), np.array([3, 4]), np.float32),
    ],
)
def test_numbers_without_a_box_are_scaled(space, values, dtype):
    envs = VectorEnvNormObs(DummyVectorEnv([lambda k=k: Showing(space, values[k], space) for k in range(2)]))
    obs, _ = envs.reset()
    np.testing.assert_allclose(
        obs, np.full(values.shape, 1.0) * np.array([-1.0, 1.0]).reshape(2, *[1] * (values.ndim - 1)), rtol=1e-4
    )
    assert obs.dtype == dtype
    envs.load_state_dict(envs.state_dict())
    assert envs.step([0, 0])[0].shape == obs.shape


def test_no_statistics_no_scaling():
    envs, plain = make(), make().venv
    envs.set_obs_rms(None)
    assert envs.get_obs_rms() is None
    assert envs.single_observation_space == plain.single_observation_space
    np.testing.assert_array_equal(envs.reset()[0], plain.reset()[0])
    np.testing.assert_array_equal(envs.step([0, 0])[0], plain.step([0, 0])[0])
    assert envs.state_dict() == {}
    other = make()
    other.load_state_dict(envs.state_dict())
    assert other.obs_rms is None
    other.load_state_dict({"mean": np.array([1.0, 5.0]), "var": np.array([4.0, 1.0]), "count": 3})
    other.update_obs_rms = False
    np.testing.assert_allclose(other.reset()[0], [[-0.5, 0], [-0.5, 0]], atol=1e-6)
