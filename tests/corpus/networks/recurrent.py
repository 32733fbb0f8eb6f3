"""Recurrent networks: states passed on, steps at once."""

import json

import numpy as np
import torch
from tianshou.data import Batch
from tianshou.utils.net.common import Recurrent
from tianshou.utils.net.continuous import RecurrentActorProb, RecurrentCritic


def fixed(net):
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) * 0.7 + i).reshape(p.shape) / 3)
    return net


net = fixed(Recurrent(layer_num=2, state_shape=(3,), action_shape=2, hidden_layer_size=4))
obs = np.sin(np.arange(2 * 5 * 3)).reshape(2, 5, 3).astype(np.float32)
whole, state = net(obs)
step_state = None
for t in range(5):
    step, step_state = net(obs[:, t], step_state)
_, from_batch = net(obs[:, 0], Batch(state))
actor = fixed(RecurrentActorProb(1, (3,), (2,), hidden_layer_size=4, max_action=2.0))
(mu, sigma), actor_state = actor(obs)
critic = fixed(RecurrentCritic(1, (3,), (2,), hidden_layer_size=4))
try:
    net(obs, {"hidden": state["hidden"]})
    missing = "none"
except ValueError:
    missing = "ValueError"
print(
    json.dumps(
        {
            "whole": whole.tolist(),
            "steps": step.tolist(),
            "state": [sorted(state), list(state["hidden"].shape), bool(torch.allclose(state["cell"], step_state["cell"], atol=1e-6))],
            "batch": list(from_batch["hidden"].shape),
            "actor": [mu.tolist(), sigma.tolist(), list(actor_state["cell"].shape)],
            "critic": critic(obs, np.ones((2, 2), np.float32)).tolist(),
            "missing": missing,
        }
    )
)
