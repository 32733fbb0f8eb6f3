"""A training script for Tianshou 1.0 and rlfast, which have the same names; an iteration is a collect with updates.

The hyper-parameters are those of Tianshou's own tests (``test_dqn.py``, ``test_ppo.py``); C51, QRDQN and Rainbow have
those of DQN, and the networks of ``test_c51.py``, ``test_qrdqn.py`` and ``test_rainbow.py``; SAC and TD3 do one update
of batch 256 after each step, with two hidden layers of 256, and REDQ 20 of them with ten critics. PPO on HalfCheetah
has the defaults of Stable-Baselines3. TD3+BC and CQL have two hidden layers of 256, and learn from random rows in the
shape of HalfCheetah; an iteration is an update of batch 256. DQN on Pong has the settings of the DQN of 2015 that all
libraries know: one target network, Huber's loss, and two updates of batch 32 after 8 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch

from bench.peers import tasks

VALUES, ACTORS, ROLLOUTS = ("dqn", "c51", "qrdqn", "rainbow"), ("sac", "td3", "redq"), ("ppo", "ppo_cheetah")
ENVS = {**dict.fromkeys(VALUES, 10), "dqn_pong": 8, "ppo": 20, "ppo_cheetah": 8, **dict.fromkeys(ACTORS, 1)}
TASKS = {**dict.fromkeys((*VALUES, "ppo"), "CartPole-v1"), **dict.fromkeys(ACTORS, "Pendulum-v1")}
TASKS |= {"pqn": "CartPole-v1", "ppo_cheetah": "HalfCheetah-v5", "dqn_pong": "Pong"}
STEPS = {**ENVS, "ppo": 2000, "ppo_cheetah": 2048}  # in an iteration
WARM_UP = {**dict.fromkeys((*VALUES, *ACTORS, "dqn_pong"), 1000), **dict.fromkeys(ROLLOUTS, 0)}
UPDATES = {"redq": 20, "dqn_pong": 2}  # in an iteration; 1 for the others
BATCH = {**dict.fromkeys(ACTORS, 256), "dqn_pong": 32}  # 64 for the others
FRAMES = {"stack_num": 4, "ignore_obs_next": True, "save_only_last_obs": True}  # as in Tianshou's Atari scripts
OBS, ACT, ROWS, EPISODE = 17, 6, 20_000, 1000  # of fixed data
Adam = Callable[[float], Callable[[Any], torch.optim.Optimizer]]


def plain_adam(lr: float) -> Callable[[Any], torch.optim.Optimizer]:
    return partial(torch.optim.Adam, lr=lr)


def environments(library: str, algorithm: str) -> Any:
    """Returns environments in this process: those of Gymnasium, and of Atari those that the library's script has."""
    task = TASKS[algorithm]
    if algorithm == "dqn_pong":
        return pong(library)
    vector = import_module(f"{library}.env").DummyVectorEnv
    return vector([lambda: gymnasium.make(task)] * ENVS[algorithm])


def pong(library: str) -> Any:
    """Returns DeepMind's Pong: rlfast's, or EnvPool's, which Tianshou's Atari scripts take where it is installed."""
    if library == "rlfast":
        return import_module("rlfast.env.atari").make_atari_vec(TASKS["dqn_pong"], ENVS["dqn_pong"], seed=0)
    options = {"num_envs": ENVS["dqn_pong"], "seed": 0, "episodic_life": True, "reward_clip": True, "stack_num": 4}
    return import_module("envpool").make_gymnasium("Pong-v5", **options)


def dqn_pong(library: str, adam: Adam, **options: Any) -> Any:
    """Returns DQN with rlfast's own network, or the one that Tianshou has outside of its package, in a script."""
    if library == "rlfast":
        model = import_module("rlfast.utils.net.atari").NatureCNN(4, 84, 84, 6, scale=1 / 255)
    else:
        model = tasks.TianshouNet("image")
    policy = import_module(f"{library}.policy").DQNPolicy(
        model=model,
        optim=adam(1e-4)(model.parameters()),
        action_space=gymnasium.spaces.Discrete(6),
        target_update_freq=500,
        is_double=False,
        clip_loss_grad=True,
        **options,
    )
    policy.set_eps(0.1)
    return policy


def dqn(library: str, adam: Adam, kind: str = "DQNPolicy", *, net: Any = None, **options: Any) -> Any:
    model = import_module(f"{library}.utils.net.common").Net(4, 2, hidden_sizes=[128] * 4, **net or {})
    policy = getattr(import_module(f"{library}.policy"), kind)(
        model=model,
        optim=adam(1e-3)(model.parameters()),
        action_space=gymnasium.spaces.Discrete(2),
        discount_factor=0.9,
        estimation_step=3,
        target_update_freq=320,
        **options,
    )
    policy.set_eps(0.1)
    return policy


def c51(library: str, adam: Adam, **options: Any) -> Any:
    return dqn(library, adam, "C51Policy", net={"softmax": True, "num_atoms": 51}, **options)


def qrdqn(library: str, adam: Adam, **options: Any) -> Any:
    return dqn(library, adam, "QRDQNPolicy", net={"num_atoms": 200}, **options)


def rainbow(library: str, adam: Adam, **options: Any) -> Any:
    noisy = partial(import_module(f"{library}.utils.net.discrete").NoisyLinear, noisy_std=0.1)
    streams = ({"linear_layer": noisy}, {"linear_layer": noisy})
    net = {"softmax": True, "num_atoms": 51, "dueling_param": streams}
    return dqn(library, adam, "RainbowPolicy", net=net, **options)


def ppo(library: str, adam: Adam, *, probabilities: bool = True, dist_fn: Any = None, **options: Any) -> Any:
    common, discrete = (import_module(f"{library}.utils.net.{name}") for name in ("common", "discrete"))
    net = common.Net(4, hidden_sizes=[64, 64])  # shared by both heads
    actor, critic = discrete.Actor(net, 2, softmax_output=probabilities), discrete.Critic(net)
    return import_module(f"{library}.policy").PPOPolicy(
        actor=actor,
        critic=critic,
        optim=adam(3e-4)(common.ActorCritic(actor, critic).parameters()),
        dist_fn=dist_fn or torch.distributions.Categorical,
        action_space=gymnasium.spaces.Discrete(2),
        action_scaling=False,
        max_grad_norm=0.5,
        ent_coef=0.0,
        advantage_normalization=False,
        deterministic_eval=True,
        **options,
    )


def ppo_cheetah(library: str, adam: Adam, *, dist_fn: Any, **options: Any) -> Any:
    """Returns PPO with the networks and the optimizer's settings that are Stable-Baselines3's defaults."""
    common, continuous = (import_module(f"{library}.utils.net.{name}") for name in ("common", "continuous"))
    sizes = {"hidden_sizes": [64, 64], "activation": torch.nn.Tanh}
    actor = continuous.ActorProb(common.Net(17, **sizes), 6, unbounded=True)
    critic = continuous.Critic(common.Net(17, **sizes))
    return import_module(f"{library}.policy").PPOPolicy(
        actor=actor,
        critic=critic,
        optim=adam(3e-4)(common.ActorCritic(actor, critic).parameters()),
        dist_fn=dist_fn,
        action_space=gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32),
        max_grad_norm=0.5,
        ent_coef=0.0,
        advantage_normalization=True,
        **options,
    )


def sac(library: str, adam: Adam, *, hidden: int = 256, lr: float = 3e-4, **options: Any) -> Any:
    common, continuous = (import_module(f"{library}.utils.net.{name}") for name in ("common", "continuous"))
    sizes = [hidden, hidden]
    actor = continuous.ActorProb(common.Net(3, hidden_sizes=sizes), 1, unbounded=True, conditioned_sigma=True)
    critics = [continuous.Critic(common.Net(3, 1, concat=True, hidden_sizes=sizes)) for _ in range(2)]
    log_alpha = torch.zeros(1, requires_grad=True)
    return import_module(f"{library}.policy").SACPolicy(
        actor=actor,
        actor_optim=adam(lr)(actor.parameters()),
        critic=critics[0],
        critic_optim=adam(lr)(critics[0].parameters()),
        critic2=critics[1],
        critic2_optim=adam(lr)(critics[1].parameters()),
        action_space=gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32),
        alpha=(-1.0, log_alpha, adam(3e-4)([log_alpha])),
        **options,
    )


def td3(
    library: str,
    adam: Adam,
    kind: str = "TD3Policy",
    *,
    hidden: int = 256,
    lr: float = 1e-3,
    obs: int = 3,
    act: int = 1,
    bound: float = 2.0,
    **options: Any,
) -> Any:
    common, continuous = (import_module(f"{library}.utils.net.{name}") for name in ("common", "continuous"))
    sizes = [hidden, hidden]
    actor = continuous.Actor(common.Net(obs, hidden_sizes=sizes), act)
    critics = [continuous.Critic(common.Net(obs, act, concat=True, hidden_sizes=sizes)) for _ in range(2)]
    return getattr(import_module(f"{library}.policy"), kind)(
        actor=actor,
        actor_optim=adam(lr)(actor.parameters()),
        critic=critics[0],
        critic_optim=adam(lr)(critics[0].parameters()),
        critic2=critics[1],
        critic2_optim=adam(lr)(critics[1].parameters()),
        action_space=gymnasium.spaces.Box(-bound, bound, (act,), np.float32),
        **options,
    )


def redq(library: str, adam: Adam, *, hidden: int = 256, **options: Any) -> Any:
    common, continuous = (import_module(f"{library}.utils.net.{name}") for name in ("common", "continuous"))
    sizes, critics = [hidden, hidden], {"linear_layer": partial(common.EnsembleLinear, 10)}
    actor = continuous.ActorProb(common.Net(3, hidden_sizes=sizes), 1, unbounded=True, conditioned_sigma=True)
    net = common.Net(3, 1, concat=True, hidden_sizes=sizes, **critics)
    critic = continuous.Critic(net, **critics, flatten_input=False)
    return import_module(f"{library}.policy").REDQPolicy(
        actor=actor,
        actor_optim=adam(3e-4)(actor.parameters()),
        critic=critic,
        critic_optim=adam(3e-4)(critic.parameters()),
        action_space=gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32),
        **options,
    )


def td3_bc(library: str, adam: Adam, **options: Any) -> Any:
    return td3(library, adam, "TD3BCPolicy", lr=3e-4, obs=OBS, act=ACT, bound=1.0, **options)


def cql(library: str, adam: Adam, **options: Any) -> Any:
    common, continuous = (import_module(f"{library}.utils.net.{name}") for name in ("common", "continuous"))
    sizes = [256, 256]
    net = common.Net(OBS, hidden_sizes=sizes)
    actor = continuous.ActorProb(net, ACT, unbounded=True, conditioned_sigma=True)
    critics = [continuous.Critic(common.Net(OBS, ACT, concat=True, hidden_sizes=sizes)) for _ in range(2)]
    log_alpha = torch.zeros(1, requires_grad=True)
    return import_module(f"{library}.policy").CQLPolicy(
        actor=actor,
        actor_optim=adam(1e-4)(actor.parameters()),
        critic=critics[0],
        critic_optim=adam(3e-4)(critics[0].parameters()),
        critic2=critics[1],
        critic2_optim=adam(3e-4)(critics[1].parameters()),
        alpha=(-float(ACT), log_alpha, adam(1e-4)([log_alpha])),
        action_space=gymnasium.spaces.Box(-1.0, 1.0, (ACT,), np.float32),
        calibrated=False,
        **options,
    )


def fixed_data() -> dict[str, Any]:
    """Returns the columns of random rows, in episodes that are cut off after 1000 steps."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(ROWS + 1, OBS)).astype(np.float32)
    truncated = np.arange(1, ROWS + 1) % EPISODE == 0
    return {
        "obs": obs[:-1],
        "act": rng.uniform(-1, 1, (ROWS, ACT)).astype(np.float32),
        "rew": rng.normal(size=ROWS).astype(np.float32),
        "terminated": np.zeros(ROWS, bool),
        "truncated": truncated,
        "done": truncated,
        "obs_next": obs[1:],
    }


def offline_loop(library: str, policy: Any) -> Callable[[int], None]:
    """Returns an operation that continues learning from fixed data by a number of updates, without tests."""
    data, trainers = (import_module(f"{library}.{name}") for name in ("data", "trainer"))
    buffer = data.ReplayBuffer.from_data(**fixed_data())
    trainer = trainers.OfflineTrainer(
        policy=policy,
        buffer=buffer,
        test_collector=None,
        max_epoch=10**9,
        step_per_epoch=1,
        episode_per_test=1,
        batch_size=256,
        show_progress=False,
        verbose=False,
    )
    iter(trainer)

    def run(count: int) -> None:
        trainer.step_per_epoch = count
        next(trainer)

    run(1)
    return run


def loop(library: str, algorithm: str, policy: Any, env: Any) -> Callable[[int], None]:
    """Returns an operation that continues one training run, without tests, by a number of iterations."""
    data, trainers = (import_module(f"{library}.{name}") for name in ("data", "trainer"))
    kind, options = "VectorReplayBuffer", {}
    if algorithm == "rainbow":
        kind, options = "PrioritizedVectorReplayBuffer", {"alpha": 0.6, "beta": 0.4}
    elif algorithm == "dqn_pong" and library == "tianshou":
        options = FRAMES
    buffer = getattr(data, kind)(20_000, len(env), **options)
    collector = data.Collector(policy, env, buffer, exploration_noise=True)
    collector.reset()
    if WARM_UP[algorithm]:
        collector.collect(n_step=WARM_UP[algorithm], random=algorithm in ACTORS)
    on_policy, updates = algorithm in ROLLOUTS, UPDATES.get(algorithm, 1) / STEPS[algorithm]
    trainer = (trainers.OnpolicyTrainer if on_policy else trainers.OffpolicyTrainer)(
        policy=policy,
        train_collector=collector,
        test_collector=None,
        max_epoch=10**9,
        step_per_epoch=STEPS[algorithm],
        step_per_collect=STEPS[algorithm],
        episode_per_test=1,
        batch_size=BATCH.get(algorithm, 64),
        **({"repeat_per_collect": 10} if on_policy else {"update_per_step": updates}),
        show_progress=False,
        verbose=False,
    )
    iter(trainer)

    def run(count: int) -> None:
        trainer.step_per_epoch = count * STEPS[algorithm]
        next(trainer)

    run(1)
    return run
