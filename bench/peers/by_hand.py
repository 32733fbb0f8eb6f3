"""Updates written by hand on the networks of rlfast's policies: as CleanRL's scripts do them, and as LeanRL's do.

Like CleanRL: a sample of arrays is moved to the device, and the update is PyTorch's, call by call. Like LeanRL: all
rows are on the device, the update is compiled by ``torch.compile`` and recorded as a CUDA graph; without CUDA, it is
compiled alone. Losses are not read, as these scripts read them once in a hundred updates.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch.nn import functional

Rows = dict[str, torch.Tensor]
Step = Callable[[], None]
GAMMA, TAU, CLIP, GAE = 0.99, 0.005, 0.1, 0.95
COLUMNS = ("obs", "act", "rew", "obs_next", "terminated")


def adam_of(*networks: Any, lr: float = 3e-4) -> torch.optim.Adam:
    parameters = [p for network in networks for p in network.parameters()]
    return torch.optim.Adam(parameters, lr=lr, capturable=parameters[0].is_cuda)


def descend(loss: torch.Tensor, optim: torch.optim.Optimizer) -> None:
    optim.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optim.step()


def drawn(actor: Any, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return squashed normal actions and their log-probabilities, by the formulas of CleanRL."""
    (mean, deviation), _ = actor(obs)
    normal = torch.distributions.Normal(mean, deviation, validate_args=False)
    raw = normal.rsample()
    act = torch.tanh(raw)
    return act, (normal.log_prob(raw) - torch.log(1 - act.square() + 1e-6)).sum(1)


@torch.no_grad()
def move_targets(pairs: list[tuple[Any, Any]]) -> None:
    for target, source in pairs:
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.lerp_(new, TAU)


def sac(policy: Any) -> Callable[[Rows], None]:
    actor, critics = policy.actor, [policy.critic, policy.critic2]
    targets = [deepcopy(critic) for critic in critics]
    log_alpha = torch.nn.Parameter(torch.zeros(1, device=next(actor.parameters()).device))
    actor_optim, critic_optim = adam_of(actor), adam_of(*critics)
    alpha_optim = torch.optim.Adam([log_alpha], lr=3e-4, capturable=log_alpha.is_cuda)

    def update(rows: Rows) -> None:
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            act, log_prob = drawn(actor, rows["obs_next"])
            least = torch.minimum(*(target(rows["obs_next"], act).flatten() for target in targets))
            goal = rows["rew"] + (1 - rows["terminated"]) * GAMMA * (least - alpha * log_prob)
        losses = [functional.mse_loss(critic(rows["obs"], rows["act"]).flatten(), goal) for critic in critics]
        descend(losses[0] + losses[1], critic_optim)
        act, log_prob = drawn(actor, rows["obs"])
        least = torch.minimum(*(critic(rows["obs"], act).flatten() for critic in critics))
        descend((alpha * log_prob - least).mean(), actor_optim)
        descend((-log_alpha.exp() * (log_prob.detach() - act.shape[1])).mean(), alpha_optim)
        move_targets([*zip(targets, critics, strict=True)])

    return update


def td3(policy: Any) -> Callable[[Rows], None]:
    actor, critics = policy.actor, [policy.critic, policy.critic2]
    actor_old, targets = deepcopy(actor), [deepcopy(critic) for critic in critics]
    actor_optim, critic_optim = adam_of(actor), adam_of(*critics)

    def update_critics(rows: Rows) -> None:
        with torch.no_grad():
            noise = (torch.randn_like(rows["act"]) * 0.2).clamp(-0.5, 0.5)
            act = (actor_old(rows["obs_next"])[0] + noise).clamp(-1, 1)
            least = torch.minimum(*(target(rows["obs_next"], act).flatten() for target in targets))
            goal = rows["rew"] + (1 - rows["terminated"]) * GAMMA * least
        losses = [functional.mse_loss(critic(rows["obs"], rows["act"]).flatten(), goal) for critic in critics]
        descend(losses[0] + losses[1], critic_optim)

    def update_all(rows: Rows) -> None:
        update_critics(rows)
        descend(-critics[0](rows["obs"], actor(rows["obs"])[0]).mean(), actor_optim)
        move_targets([(actor_old, actor), *zip(targets, critics, strict=True)])

    return update_critics, update_all  # type: ignore[return-value]


def dqn(policy: Any) -> Callable[[Rows], None]:
    model = policy.model
    target, optim = deepcopy(model), adam_of(model, lr=1e-4)

    def update(rows: Rows) -> None:
        with torch.no_grad():
            goal = rows["rew"] + (1 - rows["terminated"]) * GAMMA * target(rows["obs_next"])[0].amax(dim=1)
        chosen = model(rows["obs"])[0].gather(1, rows["act"][:, None]).flatten()
        descend(functional.mse_loss(goal, chosen), optim)

    return update


def ppo(policy: Any) -> Callable[[Rows], None]:
    actor, critic = policy.actor, policy.critic
    parameters = list(dict.fromkeys([*actor.parameters(), *critic.parameters()]))
    optim = torch.optim.Adam(parameters, lr=2.5e-4, capturable=parameters[0].is_cuda)
    network, actor_head, critic_head = actor.preprocess, actor.last, critic.last

    def update(rows: Rows) -> None:
        features = network(rows["obs"])[0]
        log_probs = actor_head(features).log_softmax(1)
        ratio = (log_probs.gather(1, rows["act"][:, None]).flatten() - rows["logp"]).exp()
        adv = (rows["adv"] - rows["adv"].mean()) / (rows["adv"].std() + 1e-8)
        clip_loss = torch.maximum(-adv * ratio, -adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        value_loss = 0.5 * (critic_head(features).flatten() - rows["returns"]).square().mean()
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        optim.zero_grad()
        (clip_loss + 0.5 * value_loss - 0.01 * entropy).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optim.step()

    return update


def graph_of(update: Callable[[Rows], None], rows: Rows) -> Step:
    """Return an update of these tensors, compiled and, on CUDA, recorded."""
    compiled = torch.compile(update)
    if not next(iter(rows.values())).is_cuda:
        return lambda: compiled(rows)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # gradients are added up in the stream of their first use
        for _ in range(3):
            compiled(rows)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        compiled(rows)
    return replay_of(graph, update, rows)


def replay_of(graph: torch.cuda.CUDAGraph, *used: object) -> Step:
    """Return what replays a graph, and keeps what it reads and writes: a graph holds addresses alone, and would write
    to memory that others have been given by then."""

    def replay(_: object = used) -> None:
        graph.replay()

    return replay


def update_of(algorithm: str, policy: Any, buffer: Any, batch_size: int, device: torch.device, *, graph: bool) -> Step:
    """Return one update, or that of a roll-out for PPO."""
    made = {"sac": sac, "td3": td3, "dqn": dqn, "ppo": ppo}[algorithm](policy)
    updates = made if isinstance(made, tuple) else (made,)
    everything = buffer[np.arange(len(buffer))]
    arrays = {name: np.asarray(everything[name]) for name in COLUMNS}
    arrays |= {name: arrays[name].astype(np.float32) for name in ("rew", "terminated")}
    if algorithm == "ppo":
        return roll_out(policy, updates[0], arrays, batch_size, device, graph=graph)
    if not graph:
        return on_host(updates, arrays, batch_size, device)
    columns = {name: torch.as_tensor(array, device=device) for name, array in arrays.items()}
    static = {name: column[:batch_size].clone() for name, column in columns.items()}
    steps, count = [graph_of(update, static) for update in updates], [0]

    def step() -> None:
        rows = torch.randint(len(columns["rew"]), (batch_size,), device=device)
        for name, column in columns.items():
            torch.index_select(column, 0, rows, out=static[name])
        steps[count[0] % len(steps)]()
        count[0] += 1

    return step


def loop_of(algorithm: str, policy: Any, env: Any, batch_size: int, device: torch.device, *, graph: bool) -> Step:
    """Return 20 steps and updates of an environment, or a roll-out of PPO and its updates."""
    if algorithm == "ppo":
        return rolling(policy, env, batch_size, device, graph=graph)
    obs, (act_size,), size = env.reset()[0], policy.action_space.shape, 20_000
    shapes = {"obs": obs.shape[1:], "act": (act_size,), "rew": (), "obs_next": obs.shape[1:], "terminated": ()}
    host = {name: np.zeros((size, *shape), np.float32) for name, shape in shapes.items()}
    storage: Any = {name: torch.as_tensor(array, device=device) for name, array in host.items()} if graph else host
    rng, made, count, now = np.random.default_rng(0), {"sac": sac, "td3": td3}[algorithm](policy), [0], [obs]
    updates = made if isinstance(made, tuple) else (made,)
    static = {name: torch.zeros(batch_size, *shape, device=device) for name, shape in shapes.items()}
    replays = [graph_of(update, static) for update in updates] if graph else updates

    @torch.no_grad()
    def act(obs: Any) -> Any:
        given = torch.as_tensor(obs, dtype=torch.float32, device=device)
        chosen = drawn(policy.actor, given)[0] if algorithm == "sac" else policy.actor(given)[0]
        return chosen.cpu().numpy()

    def one() -> None:
        chosen = act(now[0])
        obs_next, rew, terminated, _, _ = env.step(chosen)
        place = count[0] % size
        for name, value in zip(host, (now[0], chosen, rew, obs_next, terminated), strict=True):
            storage[name][place] = torch.as_tensor(value[0], device=device) if graph else value[0]
        now[0] = obs_next
        filled, turn = min(count[0] + 1, size), count[0] % len(updates)
        count[0] += 1
        if graph:
            rows = torch.randint(filled, (batch_size,), device=device)
            for name, column in storage.items():
                torch.index_select(column, 0, rows, out=static[name])
            replays[turn]()
        else:
            picked = rng.integers(filled, size=batch_size)
            sample = {name: torch.as_tensor(column[picked], device=device) for name, column in storage.items()}
            replays[turn](sample)

    return lambda: [one() for _ in range(20)] and None


def on_host(updates: Any, arrays: dict[str, Any], batch_size: int, device: torch.device) -> Step:
    rng, count = np.random.default_rng(0), [0]

    def step() -> None:
        rows = rng.integers(len(arrays["rew"]), size=batch_size)
        updates[count[0] % len(updates)](
            {n: torch.as_tensor(array[rows], device=device) for n, array in arrays.items()}
        )
        count[0] += 1

    return step


def roll_out(
    policy: Any, update: Callable[[Rows], None], arrays: dict[str, Any], size: int, device: torch.device, *, graph: bool
) -> Step:
    """Return the update of PPO on a roll-out, whose observations and values are on the device from acting."""
    envs = 8
    steps = len(arrays["rew"]) // envs
    rows = {name: torch.as_tensor(array, device=device) for name, array in arrays.items()}
    by_time = {name: column.view(envs, steps, *column.shape[1:]).transpose(0, 1) for name, column in rows.items()}
    kept = {name: column.contiguous() for name, column in by_time.items()}
    with torch.no_grad():
        found = [valued(policy, obs, act) for obs, act in zip(kept["obs"], kept["act"], strict=True)]
    value, logp = [one[1] for one in found], [one[2] for one in found]
    kept |= {"value": torch.stack([*value, value[-1]]), "logp": torch.stack(logp)}
    return passes(update, kept, size, device, graph=graph)


def valued(policy: Any, obs: torch.Tensor, act: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Return actions, values and log-probabilities; actions are drawn if there are none."""
    features = policy.actor.preprocess(obs)[0]
    log_probs = policy.actor.last(features).log_softmax(1)
    act = torch.multinomial(log_probs.exp(), 1).flatten() if act is None else act
    return act, policy.critic.last(features).flatten(), log_probs.gather(1, act[:, None]).flatten()


def passes(update: Callable[[Rows], None], kept: Rows, size: int, device: torch.device, *, graph: bool) -> Step:
    """Return advantages and four passes over a roll-out ``[steps, envs, ...]``, which has one value more."""
    rew, ends, values = kept["rew"], kept["terminated"], kept["value"]
    kept["adv"], kept["returns"] = torch.zeros_like(rew), torch.zeros_like(rew)

    def advantages() -> None:
        last: Any = 0.0
        for t in range(len(rew) - 1, -1, -1):
            delta = rew[t] + GAMMA * values[t + 1] * (1 - ends[t]) - values[t]
            last = delta + GAMMA * GAE * (1 - ends[t]) * last
            kept["adv"][t] = last
        torch.add(kept["adv"], values[:-1], out=kept["returns"])

    columns = {name: kept[name].flatten(0, 1) for name in ("obs", "act", "logp", "adv", "returns")}
    static = {name: column[:size].clone() for name, column in columns.items()}
    replay = graph_of(update, static) if graph else None
    compute: Step = advantages
    if graph and device.type == "cuda":
        advantages()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            advantages()
        compute = replay_of(recorded, kept)

    def step() -> None:
        compute()
        for _ in range(4):
            for part in torch.randperm(rew.numel(), device=device).split(size):
                if replay is None:
                    update({name: column[part] for name, column in columns.items()})
                else:
                    for name, column in columns.items():
                        torch.index_select(column, 0, part, out=static[name])
                    replay()

    return step


def rolling(policy: Any, env: Any, size: int, device: torch.device, *, graph: bool) -> Step:
    """Return a roll-out of 128 steps of the environments and its update."""
    steps, now = 128, [env.reset()[0]]
    shapes = {"obs": now[0].shape[1:], "act": (), "rew": (), "terminated": (), "logp": ()}
    dtypes = {"obs": torch.uint8, "act": torch.int64}
    kept = {
        name: torch.zeros(steps, len(env), *shape, dtype=dtypes.get(name, torch.float32), device=device)
        for name, shape in shapes.items()
    }
    kept["value"] = torch.zeros(steps + 1, len(env), device=device)
    learn = passes(ppo(policy), kept, size, device, graph=graph)

    def step() -> None:
        with torch.no_grad():
            for t in range(steps + 1):
                obs = torch.as_tensor(np.asarray(now[0]), device=device)
                act, value, logp = valued(policy, obs, None)
                kept["value"][t] = value
                if t == steps:
                    break
                kept["obs"][t], kept["act"][t], kept["logp"][t] = obs, act, logp
                now[0], rew, terminated, _, _ = env.step(act.cpu().numpy())
                kept["rew"][t] = torch.as_tensor(rew, dtype=torch.float32, device=device)
                kept["terminated"][t] = torch.as_tensor(terminated, dtype=torch.float32, device=device)
        learn()

    return step
