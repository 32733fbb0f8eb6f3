import pickle
import shutil

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.experiment import checkpoint
from rlfast.experiment.checkpoint import load_checkpoint, save_checkpoint
from rlfast.policy import DQNPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


def policy(seed):
    torch.manual_seed(seed)
    made = DQNPolicy(
        model=Net((2,), 3, [8]), optim=adam(1e-2), action_space=gym.spaces.Discrete(3), target_update_freq=3
    )
    made.seed(seed)
    made.set_eps(0.5)
    return made


def buffer():
    rng, made = np.random.default_rng(0), VectorReplayBuffer(50, 1, seed=0)
    for _ in range(50):
        obs = rng.normal(size=(2, 1, 2)).astype(np.float32)
        made.add(Batch(obs=obs[0], act=rng.integers(3, size=1), rew=rng.normal(size=1), terminated=[False],
                       truncated=[False], obs_next=obs[1]))  # fmt: skip
    return made


def train(learner, rows, times):
    for _ in range(times):
        learner.update(16, rows)


def numbers(learner):
    return {name: value.clone() for name, value in learner.state_dict().items() if not name.endswith("_extra_state")}


def test_training_goes_on_as_if_it_had_never_stopped(tmp_path):
    straight, rows = policy(0), buffer()
    train(straight, rows, 4)
    save_checkpoint(tmp_path / "checkpoint", straight, {"env_step": 40})
    state = rows._core.dump()
    restored = policy(1)
    assert load_checkpoint(tmp_path / "checkpoint", restored) == {"env_step": 40}
    train(straight, rows, 4)
    rows._core.restore(state)
    train(restored, rows, 4)
    for name, value in numbers(straight).items():
        assert torch.equal(value, numbers(restored)[name]), name
    batch = Batch(obs=np.zeros((20, 2), np.float32), info={})
    act = np.zeros(20, np.int64)
    np.testing.assert_array_equal(straight.exploration_noise(act, batch), restored.exploration_noise(act, batch))


def test_the_old_checkpoint_is_replaced_as_a_whole(tmp_path, monkeypatch):
    folder, learner = tmp_path / "checkpoint", policy(0)
    save_checkpoint(folder, learner, {"env_step": 1})

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(folder, policy(5), {"env_step": 2})
    assert load_checkpoint(folder, policy(9)) == {"env_step": 1}
    save_checkpoint(folder, learner, {"env_step": 3})
    assert load_checkpoint(folder, policy(9)) == {"env_step": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_between_the_two_renames_the_old_one_is_found(tmp_path):
    folder = tmp_path / "checkpoint"
    save_checkpoint(folder, policy(0), {"env_step": 1})
    folder.rename(tmp_path / "checkpoint.old")  # where a kill may leave it
    assert load_checkpoint(folder, policy(9)) == {"env_step": 1}
    save_checkpoint(folder, policy(0), {"env_step": 2})
    assert load_checkpoint(folder, policy(9)) == {"env_step": 2}


class Malice:
    def __reduce__(self):
        return (pytest.fail, ("a file ran code",))


@pytest.mark.pitfall("D7")
def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    folder = tmp_path / "checkpoint"
    save_checkpoint(folder, policy(0), {})
    torch.save({"x": Malice()}, folder / "training_state.pt")
    with pytest.raises(pickle.UnpicklingError):
        load_checkpoint(folder, policy(1))


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "nothing", policy(0))
    folder = tmp_path / "checkpoint"
    save_checkpoint(folder, policy(0), {})
    (folder / "counters.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="another version: this one reads version 1"):
        load_checkpoint(folder, policy(0))
    shutil.rmtree(folder)
