import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.spaces import Box, Dict, Discrete  # noqa: E402

from rlfast.utils.torch_utils import (  # noqa: E402
    create_uniform_action_dist,
    policy_within_training_step,
    torch_train_mode,
)


def test_the_mode_comes_back_after_an_exception():
    net = torch.nn.Dropout().eval()
    with pytest.raises(ZeroDivisionError), torch_train_mode(net):
        assert net.training
        _ = 1 / 0
    assert not net.training


def test_within_a_training_step():
    class Policy:
        is_within_training_step = False

    policy = Policy()
    with pytest.raises(ZeroDivisionError), policy_within_training_step(policy):
        assert policy.is_within_training_step
        _ = 1 / 0
    assert not policy.is_within_training_step


def test_uniform_actions():
    box = Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32))
    dist = create_uniform_action_dist(box, 3)
    assert dist.sample().shape == (3, 2)
    assert dist.high.tolist() == [[1.0, 4.0]] * 3
    assert create_uniform_action_dist(Discrete(5), 2).probs.tolist() == [[pytest.approx(0.2)] * 5] * 2
    with pytest.raises(ValueError, match="must be a Box or Discrete"):
        create_uniform_action_dist(Dict())
