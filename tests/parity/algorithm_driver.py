"""One program for two libraries: it makes a policy, learns from given transitions, and notes all that comes of it.

Run by Tianshou's interpreter, ``python algorithm_driver.py FOLDER JOBS``; a test calls :func:`run` for rlfast. The
files ``0.npz``, ``1.npz``, ... of FOLDER have the rows of several rings, the rows that each update draws, and options.
"""

import json
import sys
from importlib import import_module

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Independent, Normal

KEYS = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
CONTINUOUS = Box(-1, 1, (2,))
DISCRETE = Discrete(3)


class Library:
    """The names of a library, and networks whose first weights are the same in each."""

    def __init__(self, name):
        self.name = name
        self.rng = np.random.default_rng(5)
        self.data, self.policy = (import_module(f"{name}.{part}") for part in ("data", "policy"))
        nets = (import_module(f"{name}.utils.net.{part}") for part in ("common", "continuous", "discrete"))
        self.common, self.continuous, self.discrete = nets

    def fixed(self, module):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.as_tensor(self.rng.normal(scale=0.3, size=parameter.shape)))
        return module

    def actor(self):
        return self.fixed(self.continuous.Actor(self.common.Net((4,), hidden_sizes=[16]), 2))

    def critic(self):
        return self.fixed(self.continuous.Critic(self.common.Net((4,), 2, hidden_sizes=[16], concat=True)))

    def normal_actor(self):
        net = self.common.Net((4,), hidden_sizes=[16])
        actor = self.fixed(self.continuous.ActorProb(net, 2, unbounded=True, conditioned_sigma=True))
        with torch.no_grad():  # Tianshou rounds the log-probabilities of actions near 1
            actor.mu.model[0].weight.mul_(0.2)
            actor.sigma.model[0].weight.mul_(0.2)
            actor.sigma.model[0].bias.fill_(-1.0)
        return actor

    def critics(self, size):
        def linear(inputs, outputs):
            return self.common.EnsembleLinear(size, inputs, outputs)

        net = self.common.Net((4,), 2, hidden_sizes=[16], concat=True, linear_layer=linear)
        return self.fixed(self.continuous.Critic(net, linear_layer=linear, flatten_input=False))


def sgd(module, lr=0.05):
    return torch.optim.SGD(module.parameters(), lr=lr)


def dqn(library, options):
    model = library.fixed(library.common.Net((4,), 3, hidden_sizes=[16, 16]))
    return library.policy.DQNPolicy(model=model, optim=sgd(model), action_space=DISCRETE, **options), ("loss",)


def ddpg(library, options):
    networks = {"actor": library.actor(), "critic": library.critic()}
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    policy = library.policy.DDPGPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    return policy, ("actor_loss", "critic_loss")


def sac(library, options):
    networks = {"actor": library.normal_actor(), "critic": library.critic(), "critic2": library.critic()}
    optimizers = {f"{name}_optim": sgd(net, 0.001 if name == "actor" else 0.05) for name, net in networks.items()}
    if options.pop("auto"):
        log_alpha = torch.zeros(1, requires_grad=True)
        options["alpha"] = (-2.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.05))
    policy = library.policy.SACPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    if library.name == "tianshou":
        del policy.actor_old  # a copy that nobody uses
    return policy, ("actor_loss", "critic1_loss", "critic2_loss", "alpha", "alpha_loss")


def td3(library, options):
    actor, critic, critic2 = library.actor(), library.critic(), library.critic()
    networks = {"actor": actor, "critic": critic, "critic2": critic2}
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    policy = library.policy.TD3Policy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    return policy, ("actor_loss", "critic1_loss", "critic2_loss")


def c51(library, options):
    model = library.fixed(library.common.Net((4,), 3, hidden_sizes=[16], softmax=True, num_atoms=11))
    policy = library.policy.C51Policy(
        model=model, optim=sgd(model), action_space=DISCRETE, num_atoms=11, v_min=-3.0, v_max=4.0, **options
    )
    return policy, ("loss",)


def qrdqn(library, options):
    model = library.fixed(library.common.Net((4,), 3, hidden_sizes=[16], num_atoms=7))
    policy = library.policy.QRDQNPolicy(
        model=model, optim=sgd(model), action_space=DISCRETE, num_quantiles=7, **options
    )
    return policy, ("loss",)


def redq(library, options):
    networks = {"actor": library.normal_actor(), "critic": library.critics(options["ensemble_size"])}
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    policy = library.policy.REDQPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    if library.name == "rlfast":  # the same critics as Tianshou
        size = policy.ensemble_size, policy.subset_size
        policy.draw_next = lambda rows: (
            policy.draw_noise(rows),
            torch.as_tensor(np.random.choice(*size, replace=False)),
        )
    return policy, ("actor_loss", "critic_loss", "alpha")


def chooser(library, continuous):
    """Give an actor of discrete or continuous actions, and what else a policy is told of them."""
    net = library.common.Net((4,), hidden_sizes=[16], activation=torch.nn.Tanh)
    if continuous:
        actor = library.fixed(library.continuous.ActorProb(net, 2, unbounded=True))
        return actor, {"action_space": CONTINUOUS, "dist_fn": lambda *args: Independent(Normal(*args), 1)}
    actor = library.fixed(library.discrete.Actor(net, 3))
    return actor, {"action_space": DISCRETE, "dist_fn": Categorical, "action_scaling": False}


def state_value(library):
    return library.fixed(library.discrete.Critic(library.common.Net((4,), hidden_sizes=[16])))


def a2c(library, options):
    actor, given = chooser(library, options.pop("continuous"))
    critic = state_value(library)
    optim = sgd(torch.nn.ModuleList([actor, critic]), lr=0.005)
    policy = library.policy.A2CPolicy(actor=actor, critic=critic, optim=optim, **given, **options)
    return policy, ("loss", "actor_loss", "vf_loss", "ent_loss")


def ppo(library, options):
    actor, given = chooser(library, options.pop("continuous"))
    critic = state_value(library)
    optim = sgd(torch.nn.ModuleList([actor, critic]))
    policy = library.policy.PPOPolicy(actor=actor, critic=critic, optim=optim, **given, **options)
    return policy, ("loss", "clip_loss", "vf_loss", "ent_loss")


def natural(name, *losses):
    def make(library, options):
        actor, given = chooser(library, options.pop("continuous"))
        critic = state_value(library)
        policy = getattr(library.policy, name)(actor=actor, critic=critic, optim=sgd(critic), **given, **options)
        return policy, ("actor_loss", "vf_loss", "kl", *losses)

    return make


def pg(library, options):
    actor, given = chooser(library, options.pop("continuous"))
    return library.policy.PGPolicy(actor=actor, optim=sgd(actor, lr=0.005), **given, **options), ("loss",)


def rainbow(library, options):
    streams = {"hidden_sizes": [16], "linear_layer": library.discrete.NoisyLinear}
    net = library.common.Net((4,), 3, hidden_sizes=[16], softmax=True, num_atoms=11, dueling_param=(streams, streams))
    model = library.fixed(net)
    policy = library.policy.RainbowPolicy(
        model=model, optim=sgd(model), action_space=DISCRETE, num_atoms=11, v_min=-3.0, v_max=4.0, **options
    )
    if library.name == "tianshou" and hasattr(policy, "model_old"):  # there, a copy of weights takes the noise along
        policy.sync_weight = lambda: [
            old.data.copy_(new) for old, new in zip(policy.model_old.parameters(), model.parameters(), strict=True)
        ]
    return policy, ("loss",)


def iqn(library, options):
    net = library.common.Net((4,), hidden_sizes=[16])
    model = library.fixed(library.discrete.ImplicitQuantileNetwork(net, 3, hidden_sizes=[16], num_cosines=8))
    policy = library.policy.IQNPolicy(model=model, optim=sgd(model), action_space=DISCRETE, **options)
    policy.register_parameter("tau_hat", None)  # of Tianshou's QRDQN, from which this one has it, and without use
    return policy, ("loss",)


def fqf(library, options):
    net = library.common.Net((4,), hidden_sizes=[16])
    model = library.fixed(library.discrete.FullQuantileFunction(net, 3, hidden_sizes=[16], num_cosines=8))
    proposals = library.fixed(library.discrete.FractionProposalNetwork(8, 16))
    policy = library.policy.FQFPolicy(
        model=model,
        optim=sgd(model),
        fraction_model=proposals,
        fraction_optim=sgd(proposals),
        action_space=DISCRETE,
        num_fractions=8,
        **options,
    )
    policy.register_parameter("tau_hat", None)  # of Tianshou's QRDQN, from which this one has it, and without use
    return policy, ("loss", "quantile_loss", "fraction_loss", "entropy_loss")


def discrete_sac(library, options):
    nets = {"actor": library.discrete.Actor(library.common.Net((4,), hidden_sizes=[16]), 3, softmax_output=False)}
    for name in ("critic", "critic2"):
        nets[name] = library.discrete.Critic(library.common.Net((4,), hidden_sizes=[16]), last_size=3)
    optims = {f"{name}_optim": sgd(library.fixed(net)) for name, net in nets.items()}
    policy = library.policy.DiscreteSACPolicy(**nets, **optims, action_space=DISCRETE, tau=0.1, **options)
    if library.name == "tianshou":
        del policy.actor_old  # a copy that nobody uses
    return policy, ("actor_loss", "critic1_loss", "critic2_loss", "alpha")


def bdq(library, options):
    model = library.fixed(library.common.BranchingNet((4,), 1, 3, [16], [16], [16]))
    policy = library.policy.BranchingDQNPolicy(model=model, optim=sgd(model), action_space=DISCRETE, **options)
    return policy, ("loss",)


def imitation(library, options):
    if options.pop("continuous"):
        actor, space = library.actor(), CONTINUOUS
    else:
        actor, space = library.fixed(library.common.Net((4,), 3, hidden_sizes=[16])), DISCRETE
    return library.policy.ImitationPolicy(actor=actor, optim=sgd(actor), action_space=space, **options), ("loss",)


def td3_bc(library, options):
    actor, critic, critic2 = library.actor(), library.critic(), library.critic()
    networks = {"actor": actor, "critic": critic, "critic2": critic2}
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    policy = library.policy.TD3BCPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    return policy, ("actor_loss", "critic1_loss", "critic2_loss")


class Unmoved(torch.nn.Module):
    """A perturbation network that returns the actions unchanged."""

    def forward(self, obs, act):
        return act


def bcq(library, options):
    latent, sizes = 3, [16]
    encoder, decoder = library.common.MLP(6, 0, sizes), library.common.MLP(4 + latent, 2, sizes)
    networks = {
        "actor_perturbation": library.continuous.Perturbation(library.common.Net(6, 2, hidden_sizes=sizes), 1.0),
        "critic": library.critic(),
        "critic2": library.critic(),
        "vae": library.continuous.VAE(encoder, decoder, 16, latent, 1.0),
    }
    for name in ("actor_perturbation", "vae"):
        library.fixed(networks[name])
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    policy = library.policy.BCQPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    policy.actor_perturbation_target = Unmoved()  # Tianshou does not move the actions of targets
    policy.sync_weight = lambda: [
        policy.soft_update(getattr(policy, f"{name}_target"), getattr(policy, name), 0.1)
        for name in ("critic", "critic2")
    ]
    return policy, ("actor_loss", "critic1_loss", "critic2_loss", "vae_loss")


def cql(library, options):
    networks = {"actor": library.normal_actor(), "critic": library.critic(), "critic2": library.critic()}
    optimizers = {f"{name}_optim": sgd(network) for name, network in networks.items()}
    # Tianshou adds the three kinds of one action, and draws from -min_action on
    options |= {"num_repeat_actions": 1, "min_action": 1.0 if library.name == "tianshou" else -1.0, "calibrated": False}
    policy = library.policy.CQLPolicy(**networks, **optimizers, action_space=CONTINUOUS, tau=0.1, **options)
    if library.name == "tianshou":
        policy.register_parameter("cql_log_alpha_", torch.nn.Parameter(policy.cql_log_alpha))
        del policy.actor_old  # a copy that nobody uses
    return policy, ("actor_loss", "critic1_loss", "critic2_loss", "alpha", "cql_alpha", "cql_alpha_loss")


def discrete_bcq(library, options):
    networks = {name: library.fixed(library.common.Net((4,), 3, hidden_sizes=[16])) for name in ("model", "imitator")}
    optim = sgd(torch.nn.ModuleList(networks.values()))
    policy = library.policy.DiscreteBCQPolicy(**networks, optim=optim, action_space=DISCRETE, **options)
    return policy, ("loss", "q_loss", "i_loss", "reg_loss")


def discrete_cql(library, options):
    model = library.fixed(library.common.Net((4,), 3, hidden_sizes=[16], num_atoms=7))
    policy = library.policy.DiscreteCQLPolicy(
        model=model, optim=sgd(model), action_space=DISCRETE, num_quantiles=7, **options
    )
    return policy, ("loss", "qr_loss", "cql_loss")


def discrete_crr(library, options):
    actor = library.discrete.Actor(library.common.Net((4,), hidden_sizes=[16]), 3, softmax_output=False)
    critic = library.discrete.Critic(library.common.Net((4,), hidden_sizes=[16]), last_size=3)
    networks = {"actor": library.fixed(actor), "critic": library.fixed(critic)}
    optim = sgd(torch.nn.ModuleList(networks.values()))
    policy = library.policy.DiscreteCRRPolicy(**networks, optim=optim, action_space=DISCRETE, **options)
    return policy, ("loss", "actor_loss", "critic_loss", "cql_loss")


def gail(library, options):
    rng = np.random.default_rng(8)
    actor, given = chooser(library, continuous=True)
    critic = state_value(library)
    disc = library.fixed(library.common.MLP(6, 1, [16], device="cpu"))
    expert = library.data.ReplayBuffer(20)
    for _ in range(20):
        row = {"obs": rng.normal(size=4).astype(np.float32), "act": rng.uniform(-1, 1, 2).astype(np.float32)}
        ends = {"rew": 0.0, "terminated": False, "truncated": False, "obs_next": row["obs"], "info": {}}
        expert.add(library.data.Batch(**row, **ends))
    optims = {"optim": sgd(torch.nn.ModuleList([actor, critic]), lr=0.005), "disc_optim": sgd(disc)}
    policy = library.policy.GAILPolicy(
        actor=actor, critic=critic, disc_net=disc, expert_buffer=expert, **optims, **given, **options
    )
    return policy, ("loss", "clip_loss", "vf_loss", "ent_loss", "disc_loss", "acc_pi", "acc_exp")


ALGORITHMS = {
    "dqn": dqn,
    "ddpg": ddpg,
    "sac": sac,
    "ppo": ppo,
    "imitation": imitation,
    "td3_bc": td3_bc,
    "bcq": bcq,
    "cql": cql,
    "discrete_bcq": discrete_bcq,
    "discrete_cql": discrete_cql,
    "discrete_crr": discrete_crr,
    "gail": gail,
    "td3": td3,
    "c51": c51,
    "qrdqn": qrdqn,
    "a2c": a2c,
    "pg": pg,
    "npg": natural("NPGPolicy"),
    "trpo": natural("TRPOPolicy", "step_size"),
    "rainbow": rainbow,
    "redq": redq,
    "iqn": iqn,
    "fqf": fqf,
    "discrete_sac": discrete_sac,
    "bdq": bdq,
}


WITHOUT_ERRORS = ("imitation", "bcq", "cql", "discrete_bcq", "discrete_crr")
"""Algorithms that give Tianshou's prioritized buffers nothing."""
WITHOUT_RETURNS = ("bdq", "c51", "rainbow", "imitation", "bcq", "cql", "discrete_crr")
"""Algorithms whose samples have no returns in one of the two, or something else under that name."""


def filled(library, given, prioritized):
    size, rings = given["rew"].size // 5 * 3, given["rew"].shape[1]  # each ring wraps
    if prioritized:
        buffer = library.data.PrioritizedVectorReplayBuffer(size, rings, alpha=0.6, beta=0.4)
    else:
        buffer = library.data.VectorReplayBuffer(size, rings)
    for t in range(len(given["rew"])):
        buffer.add(library.data.Batch({key: given[key][t] for key in KEYS}, info=[{}] * rings))
    return buffer


def run(name, given, algorithm, options, prioritized=False):
    """Return the input and output of every update, and the final weights.

    :param given: ``errors`` in it, ``[updates, B]``, become the priorities; without it, those of the policy do.
    """
    library = Library(name)
    buffer = filled(library, given, prioritized)
    policy, losses = ALGORITHMS[algorithm](library, options)
    policy.train()
    trace = {"losses": [], "errors": [], "weight": [], "returns": []}
    for step, indices in enumerate(given["draws"]):
        torch.manual_seed(step)
        np.random.seed(step)
        batch = buffer[indices]
        if prioritized:
            trace["weight"].append(np.asarray(batch.weight))
        batch = policy.process_fn(batch, buffer, indices)
        if algorithm not in WITHOUT_RETURNS:
            trace["returns"].append(batch.returns.numpy())
        stats = policy.learn(batch)
        trace["losses"].append([getattr(stats, loss) or 0.0 for loss in losses])
        if algorithm not in WITHOUT_ERRORS:
            trace["errors"].append(batch.weight.detach().numpy())
        if len(given.get("errors", ())):
            batch.td_error = given["errors"][step]
        policy.post_process_fn(batch, buffer, indices)
    return {key: np.array(value) for key, value in trace.items()} | weights(policy)


def run_on_policy(name, given, algorithm, options):
    """Return the statistics of every update of a policy that learns from roll-outs, and the final weights."""
    library = Library(name)
    buffer = filled(library, given, prioritized=False)
    policy, losses = ALGORITHMS[algorithm](library, dict(options))
    policy.rng = np.random  # what shuffles minibatches in Tianshou
    np.random.integers = np.random.randint  # the name in NumPy's own generators
    trace = []
    for step in range(3):
        np.random.seed(step)
        stats = policy.update(0, buffer, batch_size=32, repeat=2)
        summaries = [getattr(stats, loss) for loss in losses]
        trace.append([getattr(summary, part) for summary in summaries for part in ("mean", "std", "min", "max")])
    return {"losses": np.array(trace)} | weights(policy)


def run_returns(name, given, gamma, gae_lambda):
    """Return the returns and advantages of given state values."""
    library = Library(name)
    buffer = filled(library, given, prioritized=False)
    compute = library.policy.BasePolicy.compute_episodic_return
    indices = buffer.sample_indices(0)
    batch, v_s, v_s_ = buffer[indices], given["v_s"][indices], given["v_s_"][indices]
    returns, advantage = compute(batch, buffer, indices, v_s_, v_s, gamma, gae_lambda)
    bare, _ = compute(batch, buffer, indices, v_s_, None, gamma, gae_lambda)  # pitfall A10 is in the advantages
    plain, _ = compute(batch, buffer, indices, gamma=gamma, gae_lambda=1.0)
    return {"indices": indices, "returns": returns, "advantage": advantage, "bare": bare, "plain": plain}


def run_psrl(name, given, options):
    """Give what a model of the environment knows after each of two updates, and the best policy of a given model."""
    library = Library(name)
    buffer = filled(library, given, prioritized=False)
    states, actions = 6, 3
    policy = library.policy.PSRLPolicy(
        trans_count_prior=np.full((states, actions, states), 0.5),
        rew_mean_prior=np.zeros((states, actions)),
        rew_std_prior=np.full((states, actions), 2.0),
        action_space=DISCRETE,
        **options,
    )
    found = {}
    for step in range(2):
        stats = policy.update(0, buffer)
        model = policy.model
        found |= {f"{part}{step}": getattr(model, part).copy() for part in ("trans_count", "rew_mean", "rew_std")}
        found[f"stats{step}"] = np.array([stats.psrl_rew_mean, stats.psrl_rew_std])
    share = model.trans_count / model.trans_count.sum(axis=2, keepdims=True)
    best = model.value_iteration(share, model.rew_mean, model.discount_factor, 1e-9, model.value)
    return found | {"best": best[0], "value": best[1]}


def weights(policy):
    unused = ("_actor_critic", "actor_old.") if type(policy).__name__ == "REDQPolicy" else ("_actor_critic",)
    named = {name.rstrip("_"): p for name, p in policy.named_parameters() if not name.startswith(unused)}
    return {name: p.detach().numpy() for name, p in named.items()}


if __name__ == "__main__":
    for job in range(int(sys.argv[2])):
        given = dict(np.load(f"{sys.argv[1]}/{job}.npz"))
        case = json.loads(str(given.pop("case")))
        np.savez(f"{sys.argv[1]}/{job}-out.npz", **globals()[case.pop("start")]("tianshou", given, **case))
