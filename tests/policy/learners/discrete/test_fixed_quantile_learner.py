"""The template of quantiles at fixed levels, by QRDQN."""

import numpy as np
import pytest

from distributional import Table, make
from policy.learners.given import calls_of
from rlfast.policy import QRDQNPolicy
from rlfast.utils.runtime.native import NotNativeError

ROWS = [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [0.0, 1.0]]]


def test_the_levels_have_the_shape_of_tianshous_and_are_not_learned():
    policy = make("QRDQN")
    assert policy.tau_hat.tolist() == [[[0.25], [0.75]]]
    assert not policy.tau_hat.requires_grad
    assert make("QRDQN", Table(ROWS).to("meta"), optim=None).tau_hat.device.type == "meta"


def test_networks_are_given_hidden_states():
    policy = make("QRDQN", Table(ROWS))
    calls = calls_of(policy.model)
    assert policy.next_value(np.array([0, 1]), "before").tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert calls == [{"state": "before", "info": {}}]


def test_values_of_ones_own_are_compared_in_python():
    class Own(QRDQNPolicy):
        def compute_q_value(self, logits, mask):
            return logits.amin(dim=2)

    policy = make("QRDQN")
    policy.native_chooser()
    policy.compute_q_value = lambda logits, mask: logits.amin(dim=2)
    with pytest.raises(NotNativeError, match="chooses actions by a method of its own"):
        policy.native_chooser()
    policy = Own(model=make("QRDQN").model, optim=None, action_space=policy.action_space, num_quantiles=2)
    with pytest.raises(NotNativeError, match="chooses actions by a method of its own"):
        policy.native_chooser()
