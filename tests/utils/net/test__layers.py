import torch

from rlfast.utils.net._layers import dueling_streams, dueling_values
from rlfast.utils.net.common import Recurrent


def test_values_by_hand():
    advantage, value = torch.tensor([[1.0, 3.0, 5.0]]), torch.tensor([[10.0]])
    assert dueling_values(advantage, value).tolist() == [[8.0, 10.0, 12.0]]


def test_streams_take_their_own_arguments():
    first, second = dueling_streams(({"hidden_sizes": [3]}, {"hidden_sizes": [4, 5]}), 6, 2, 1)
    assert [layer.out_features for layer in first.model if hasattr(layer, "out_features")] == [3, 2]
    assert [layer.out_features for layer in second.model if hasattr(layer, "out_features")] == [4, 5, 1]
    assert dueling_streams(None, 6, 2, 1) == (None, None)


def test_a_recurrent_network_with_streams():
    torch.manual_seed(0)
    net = Recurrent(1, 2, 3, hidden_layer_size=4, dueling_param=({"hidden_sizes": [5]}, {"hidden_sizes": [5]}))
    assert not hasattr(net, "fc2")
    obs = torch.randn(6, 2)
    out, _ = net(obs)
    features = net.nn(net.fc1(obs)[:, None])[0][:, -1]
    torch.testing.assert_close(out.mean(dim=1, keepdim=True), net.V(features))
    advantage = net.Q(features)
    torch.testing.assert_close(out - net.V(features), advantage - advantage.mean(dim=1, keepdim=True))
