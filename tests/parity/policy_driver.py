"""What Tianshou 1.0 makes of given transitions; run by its own interpreter: ``python policy_driver.py IN.npz
OUT.npz``.

IN has the rows of several rings, the rows each update draws, a network's parameters, and options as JSON.
"""

import json
import sys

import numpy as np
import torch
from gymnasium.spaces import Discrete
from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.policy import BasePolicy, DQNPolicy
from tianshou.utils.net.common import Net

KEYS = ("obs", "act", "rew", "terminated", "truncated", "obs_next")


def fill(given, options):
    rings = given["rew"].shape[1]
    if options["prioritized"]:
        buffer = PrioritizedVectorReplayBuffer(options["size"], rings, alpha=0.6, beta=0.4)
    else:
        buffer = VectorReplayBuffer(options["size"], rings)
    for t in range(len(given["rew"])):
        buffer.add(Batch({key: given[key][t] for key in KEYS}, info=[{}] * rings))
    return buffer


def episodic(given, buffer, options):
    indices = buffer.sample_indices(0)
    batch = buffer[indices]
    v_s, v_s_ = given["v_s"][indices], given["v_s_"][indices]
    full = BasePolicy.compute_episodic_return(
        batch, buffer, indices, v_s_, v_s, options["gamma"], options["gae_lambda"]
    )
    bare = BasePolicy.compute_episodic_return(
        batch, buffer, indices, v_s_, None, options["gamma"], options["gae_lambda"]
    )
    plain = BasePolicy.compute_episodic_return(batch, buffer, indices, gamma=options["gamma"], gae_lambda=1.0)
    return {"indices": indices, "returns": full[0], "advantage": full[1], "bare": bare[0], "plain": plain[0]}


def dqn(given, buffer, options):
    model = Net((4,), 3, hidden_sizes=[16, 16])
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.as_tensor(given[f"parameter_{i}"]))
    policy = DQNPolicy(
        model=model,
        optim=torch.optim.SGD(model.parameters(), lr=0.05),
        action_space=Discrete(3),
        discount_factor=options["gamma"],
        estimation_step=options["n_step"],
        target_update_freq=options["freq"],
        is_double=options["is_double"],
        clip_loss_grad=options["clip"],
    )
    trace = {"target": [], "loss": [], "error": [], "weight": []}
    for indices in given["draws"]:
        batch = buffer[indices]
        if options["prioritized"]:
            trace["weight"].append(np.asarray(batch.weight))
        batch = policy.process_fn(batch, buffer, indices)
        trace["target"].append(batch.returns.numpy())
        trace["loss"].append(policy.learn(batch).loss)
        trace["error"].append(batch.weight.detach().numpy())
        policy.post_process_fn(batch, buffer, indices)
    state = {f"parameter_{i}": parameter.detach().numpy() for i, parameter in enumerate(model.parameters())}
    return {**{key: np.array(value) for key, value in trace.items()}, **state}


if __name__ == "__main__":
    given = dict(np.load(sys.argv[1]))
    options = json.loads(str(given["options"]))
    work = {"episodic": episodic, "dqn": dqn}[options["work"]]
    np.savez(sys.argv[2], **work(given, fill(given, options), options))
