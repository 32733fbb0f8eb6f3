"""What Tianshou 1.0 makes of given transitions; run by its own interpreter: ``python policy_driver.py IN.npz
OUT.npz``.

IN has the rows of several rings, the rows each update draws, a network's parameters, and options as JSON.
"""

import json
import sys

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.policy import BasePolicy, DDPGPolicy, DQNPolicy, PPOPolicy, SACPolicy
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.continuous import Actor as DeterministicActor
from tianshou.utils.net.continuous import ActorProb, Critic
from tianshou.utils.net.discrete import Actor
from tianshou.utils.net.discrete import Critic as StateCritic
from torch.distributions import Categorical, Independent, Normal

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


def set_parameters(module, given, prefix):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.as_tensor(given[f"{prefix}_{i}"]))
    return module


def parameters(prefix, module):
    return {f"{prefix}_{i}": parameter.detach().numpy() for i, parameter in enumerate(module.parameters())}


def ppo(given, buffer, options):
    critic = set_parameters(StateCritic(Net((4,), hidden_sizes=[16])), given, "critic")
    if options["continuous"]:
        actor = ActorProb(Net((4,), hidden_sizes=[16]), 2, unbounded=True)
        dist_fn, space = (lambda loc, scale: Independent(Normal(loc, scale), 1)), Box(-1, 1, (2,))
    else:
        actor, dist_fn, space = Actor(Net((4,), hidden_sizes=[16]), 3), Categorical, Discrete(3)
    set_parameters(actor, given, "actor")
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.SGD(ActorCritic(actor, critic).parameters(), lr=0.05),
        dist_fn=dist_fn,
        action_space=space,
        action_scaling=options["continuous"],
        **options["policy"],
    )
    trace = {"adv": [], "returns": [], "logp_old": [], "losses": []}
    for _ in range(3):
        batch, indices = buffer.sample(0)
        batch = policy.process_fn(batch, buffer, indices)
        for name in ("adv", "returns", "logp_old"):
            trace[name].append(batch[name].numpy())
        stats = policy.learn(batch, batch_size=None, repeat=3)
        trace["losses"].append([stats.loss.mean, stats.clip_loss.mean, stats.vf_loss.mean, stats.ent_loss.mean])
    networks = {**parameters("actor", actor), **parameters("critic", critic)}
    return {**{key: np.array(value) for key, value in trace.items()}, **networks}


def sac(given, buffer, options):
    actor = ActorProb(Net((4,), hidden_sizes=[16]), 2, unbounded=True, conditioned_sigma=True)
    set_parameters(actor, given, "actor")
    critics = [Critic(Net((4,), 2, hidden_sizes=[16], concat=True)) for _ in range(2)]
    for number, critic in enumerate(critics):
        set_parameters(critic, given, f"critic{number}")
    log_alpha = torch.zeros(1, requires_grad=True)
    policy = SACPolicy(
        actor=actor,
        actor_optim=torch.optim.SGD(actor.parameters(), lr=0.001),
        critic=critics[0],
        critic_optim=torch.optim.SGD(critics[0].parameters(), lr=0.05),
        critic2=critics[1],
        critic2_optim=torch.optim.SGD(critics[1].parameters(), lr=0.05),
        action_space=Box(-1, 1, (2,)),
        alpha=(-2.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.05)) if options["auto"] else 0.3,
        tau=0.1,
        gamma=options["gamma"],
        estimation_step=options["n_step"],
    )
    policy.train()
    trace = {"target": [], "losses": [], "error": [], "alpha": [], "weight": []}
    for step, indices in enumerate(given["draws"]):
        torch.manual_seed(step)
        batch = buffer[indices]
        if options["prioritized"]:
            trace["weight"].append(np.asarray(batch.weight))
        batch = policy.process_fn(batch, buffer, indices)
        trace["target"].append(batch.returns.numpy())
        stats = policy.learn(batch)
        trace["losses"].append([stats.actor_loss, stats.critic1_loss, stats.critic2_loss, stats.alpha_loss or 0.0])
        trace["alpha"].append(stats.alpha)
        trace["error"].append(batch.weight.detach().numpy())
        policy.post_process_fn(batch, buffer, indices)
    networks = {
        **parameters("actor", actor),
        **parameters("critic0", critics[0]),
        **parameters("old", policy.critic_old),
    }
    return {**{key: np.array(value) for key, value in trace.items()}, **networks}


def ddpg(given, buffer, options):
    actor = set_parameters(DeterministicActor(Net((4,), hidden_sizes=[16]), 2), given, "actor")
    critic = set_parameters(Critic(Net((4,), 2, hidden_sizes=[16], concat=True)), given, "critic")
    policy = DDPGPolicy(
        actor=actor,
        actor_optim=torch.optim.SGD(actor.parameters(), lr=0.05),
        critic=critic,
        critic_optim=torch.optim.SGD(critic.parameters(), lr=0.05),
        action_space=Box(-1, 1, (2,)),
        tau=0.1,
        gamma=options["gamma"],
        estimation_step=options["n_step"],
    )
    policy.train()
    trace = {"target": [], "losses": [], "error": [], "weight": []}
    for indices in given["draws"]:
        batch = buffer[indices]
        if options["prioritized"]:
            trace["weight"].append(np.asarray(batch.weight))
        batch = policy.process_fn(batch, buffer, indices)
        trace["target"].append(batch.returns.numpy())
        stats = policy.learn(batch)
        trace["losses"].append([stats.actor_loss, stats.critic_loss])
        trace["error"].append(batch.weight.detach().numpy())
        policy.post_process_fn(batch, buffer, indices)
    networks = {"actor": actor, "critic": critic, "actor_old": policy.actor_old, "critic_old": policy.critic_old}
    state = [parameters(prefix, module) for prefix, module in networks.items()]
    return {key: np.array(value) for part in (trace, *state) for key, value in part.items()}


if __name__ == "__main__":
    given = dict(np.load(sys.argv[1]))
    options = json.loads(str(given["options"]))
    work = {"episodic": episodic, "dqn": dqn, "ppo": ppo, "sac": sac, "ddpg": ddpg}[options["work"]]
    np.savez(sys.argv[2], **work(given, fill(given, options), options))
