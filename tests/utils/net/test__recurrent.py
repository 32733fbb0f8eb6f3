import numpy as np
import pytest
import torch

from rlfast.data import Batch
from rlfast.utils.net.common import ActorCritic, DataParallelNet, Net, Recurrent, get_output_dim
from rlfast.utils.net.continuous import RecurrentActorProb, RecurrentCritic
from rlfast.utils.net.discrete import Actor, Critic


class TestRecurrent:
    def test_single_steps_equal_one_call(self):
        net = Recurrent(2, 4, 3, hidden_layer_size=5)
        steps, state = torch.randn(6, 7, 4), None
        for t in range(7):
            logits, state = net(steps[:, t], state)
        at_once, last = net(steps)
        assert logits.shape == (6, 3)
        assert torch.allclose(logits, at_once, atol=1e-6)
        assert torch.allclose(state["cell"], last["cell"], atol=1e-6)
        assert state["hidden"].shape == (6, 2, 5)
        assert not state["hidden"].requires_grad

    @pytest.mark.parametrize("kind", [dict, Batch])
    def test_a_stored_state_is_a_batch_of_arrays(self, kind):
        net = Recurrent(1, (4,), 3, hidden_layer_size=5)
        _, state = net(torch.randn(6, 4))
        stored = kind({name: value.numpy() for name, value in state.items()})
        obs = np.random.rand(6, 4)
        assert torch.equal(net(obs, stored)[0], net(obs, state)[0])

    def test_a_state_of_another_network(self):
        with pytest.raises(ValueError, match=r"needs hidden and cell, got \['h'\]"):
            Recurrent(1, 4, 3)(torch.zeros(1, 4), {"h": torch.zeros(1)})

    @pytest.mark.parametrize("layers", [10_001, 10**13, 10**30])
    def test_more_layers_than_torch_makes_in_a_minute(self, layers):
        makers = [
            lambda: Recurrent(layers, 4, 3),
            lambda: RecurrentActorProb(layers, (4,), (3,)),
            lambda: RecurrentCritic(layers, (4,)),
        ]
        for make in makers:
            with pytest.raises(ValueError, match="layer_num must be at most 10,000"):
                make()

    @pytest.mark.parametrize("shape", [range(10**13), [1] * 65])
    def test_shapes_of_more_axes_than_arrays_have(self, shape):
        for make in (lambda: Recurrent(1, shape, 3), lambda: Recurrent(1, 4, shape), lambda: Net(4, shape)):
            with pytest.raises(ValueError, match="at most 64 axes"):
                make()
        assert Net([1] * 64, 3)(np.zeros((2, 1)))[0].shape == (2, 3)

    def test_it_moves(self):
        net = Recurrent(1, 4, 3).to("meta")
        assert net(np.zeros((2, 4)))[0].device.type == "meta"

    def test_parameter_names_match_tianshou(self):
        names = {name.split(".")[0] for name in Recurrent(1, 4, 3).state_dict()}
        assert names == {"nn", "fc1", "fc2"}


def test_actor_critic_counts_shared_parameters_once():
    backbone = Net(4, hidden_sizes=[8])
    both = ActorCritic(Actor(backbone, 2), Critic(backbone))
    assert len([*both.parameters()]) == 6


def test_data_parallel_on_what_there_is():
    net = Net(4, 2, hidden_sizes=[8])
    logits, state = DataParallelNet(net)(np.ones((3, 4)), state="carried")
    assert torch.allclose(logits.cpu(), net.cpu()(np.ones((3, 4)))[0], atol=1e-6)
    assert state == "carried"


def test_get_output_dim():
    assert get_output_dim(Net(4, hidden_sizes=[8]), None) == get_output_dim(Net(4, hidden_sizes=[8]), 8) == 8
