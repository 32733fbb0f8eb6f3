"""Options of Net: atoms, softmax, dueling streams, layers of one's own."""

import json

import numpy as np
import torch
from tianshou.utils.net.common import MLP, Net, miniblock
from torch import nn


def fixed(net):
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) + i).reshape(p.shape) / 5)
    return net


obs = np.arange(6.0).reshape(2, 3)
atoms = fixed(Net(3, 2, [4], num_atoms=5, softmax=True))
dueling = fixed(Net(3, 2, [4], dueling_param=({"hidden_sizes": [3]}, {"hidden_sizes": [3]})))
both = fixed(Net(3, 2, [4], num_atoms=3, dueling_param=({}, {})))
lists = MLP(3, 1, [4, 5], norm_layer=[nn.LayerNorm, nn.Identity], activation=[nn.Tanh, nn.ReLU])
concat = Net(3, 2, [4], concat=True)
image = fixed(Net((2, 2), 2))(np.arange(8.0).reshape(2, 2, 2))[0]
print(
    json.dumps(
        {
            "atoms": [list(atoms(obs)[0].shape), atoms(obs)[0].sum(-1).tolist(), atoms(obs)[0][0, 0].tolist()],
            "dueling": dueling(obs)[0].tolist(),
            "both": both(obs)[0].tolist(),
            "state": Net(3, 2)(obs, state="kept", info={})[1],
            "lists": [type(layer).__name__ for layer in lists.model],
            "concat": [concat.output_dim, list(concat(np.zeros((1, 5)))[0].shape)],
            "image": image.tolist(),
            "block": [type(layer).__name__ for layer in miniblock(2, 3, nn.LayerNorm, None, nn.ELU, (0.5,))],
        }
    )
)
