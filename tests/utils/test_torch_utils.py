import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.spaces import Box, Dict, Discrete  # noqa: E402

from rlfast.utils.torch_utils import Acting, create_uniform_action_dist, policy_within_training_step, torch_train_mode  # noqa: E402


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


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("no_grad", [True, False])
def test_acting_restores_modes_after_errors(before, no_grad):
    module, seen = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(), torch.nn.BatchNorm1d(2).eval()), []
    acting = Acting(module, no_grad=no_grad)
    with torch.set_grad_enabled(before):
        for _ in range(2):
            with pytest.raises(KeyError), acting:
                seen.append((torch.is_grad_enabled(), [one.training for one in module]))
                torch.set_grad_enabled(not before)  # by the policy
                raise KeyError
            assert torch.is_grad_enabled() is before
            assert [one.training for one in module] == [True, True, False]
    assert seen == [(before and not no_grad, [False, True, False])] * 2


def test_acting_finds_layers_that_were_replaced():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    acting = Acting(module)
    with acting:
        pass
    module[0] = torch.nn.BatchNorm1d(2)
    with acting:
        assert not module[0].training
    with Acting(object()):  # a policy of any class
        assert not torch.is_grad_enabled()
