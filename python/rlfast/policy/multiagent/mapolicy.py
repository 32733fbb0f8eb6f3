"""A policy for several agents that act in turn, made of one policy for each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlfast.data import Batch, ReplayBuffer, to_numpy
from rlfast.data.types import ObsBatchProtocol, RolloutBatchProtocol
from rlfast.policy.base import BasePolicy, LearnsFrom, TLearningRateScheduler
from rlfast.policy.components.returns import Index
from rlfast.policy.multiagent.agent_rows import AgentRows, is_turn_of, seen
from rlfast.policy.stats import TrainingStats, as_stats
from rlfast.utils import tree
from rlfast.utils.arguments.checks import ArgumentError


class MapTrainingStats(TrainingStats):
    """The statistics of several agents' policies.

    :param agent_id_to_stats: the statistics by agent.
    :param train_time_aggregator: how ``train_time`` is made of theirs. Default: their maximum.
    :raises ValueError: if ``train_time_aggregator`` is another word.
    """

    def __init__(
        self,
        agent_id_to_stats: Mapping[str, TrainingStats],
        train_time_aggregator: Literal["min", "max", "mean"] = "max",
    ) -> None:
        if train_time_aggregator not in _AGGREGATORS:
            raise ValueError(f"train_time_aggregator must be one of {[*_AGGREGATORS]}, got {train_time_aggregator!r}")
        times = [stats.train_time for stats in agent_id_to_stats.values()]
        super().__init__(train_time=float(_AGGREGATORS[train_time_aggregator](times)) if times else 0.0)
        self._agent_id_to_stats = dict(agent_id_to_stats)

    def get_loss_stats_dict(self) -> dict[str, float]:
        """Return the losses of all agents, as ``agent/loss``."""
        return {
            f"{agent}/{name}": loss
            for agent, stats in self._agent_id_to_stats.items()
            for name, loss in stats.get_loss_stats_dict().items()
        }


_AGGREGATORS: dict[str, Callable[[list[float]], Any]] = {"min": np.min, "max": np.max, "mean": np.mean}


class MAPRolloutBatchProtocol(RolloutBatchProtocol, Protocol):
    """The rows of each agent by its name; see :meth:`MultiAgentPolicyManager.process_fn`."""


class AgentPolicies(nn.Module, Mapping[str, BasePolicy]):
    """One policy for each agent: a mapping, whose policies are submodules.

    :param policies: the policies by agent.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, policies: Mapping[str, BasePolicy]) -> None:
        super().__init__()
        self._places = {agent: str(place) for place, agent in enumerate(policies)}
        for agent, policy in policies.items():
            self[agent] = policy

    def __getitem__(self, agent: str) -> BasePolicy:
        return cast("BasePolicy", self._modules[self._places[agent]])

    def __setitem__(self, agent: str, policy: BasePolicy) -> None:
        if agent not in self._places:
            raise KeyError(f"{agent!r} is none of the agents {[*self._places]}")
        policy.set_agent_id(cast("Any", agent))
        self.add_module(self._places[agent], policy)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class MultiAgentPolicyManager(BasePolicy):
    """Several agents that act in turn, each with a policy of its own.

    Observations have ``agent_id``, the agent whose turn it is, as those of :class:`~rlfast.env.PettingZooEnv` have.
    Rewards have one column for each agent. An agent's policy acts on the observations with its ``agent_id``: on
    ``obs`` with its ``mask``, or on ``obs.obs`` if there is no mask. It learns from its own turns: its reward is the
    sum of its column until it acts again, and the next observation is that of its next turn. An action whose
    consequences until then are not known yet is left out of the sample.

    :param policies: one policy for each of ``env.agents``, in this order. One policy may play several agents.
    :param env: an environment with ``agents``, ``agent_idx``, ``action_space`` and ``observation_space``.
    :param action_scaling: whether actions of all agents are stretched to the bounds of the Box; the settings of
        ``policies`` are not used. :class:`BasePolicy` describes the other parameters.
    :raises ArgumentError: if the numbers of policies and agents differ.
    """

    counts_from_zero = True

    def __init__(
        self,
        *,
        policies: Sequence[BasePolicy],
        env: Any,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        super().__init__(
            action_space=env.action_space,
            observation_space=env.observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        if len(policies) != len(env.agents):
            raise ArgumentError(f"each agent needs a policy: got {len(policies)} policies for the agents {env.agents}")
        self.agent_idx: dict[str, int] = dict(env.agent_idx)
        self.policies = AgentPolicies(dict(zip(env.agents, policies, strict=True)))

    @property
    def learns_from(self) -> LearnsFrom | None:
        """What the policies learn from; None if they differ, or all of them learn from anything."""
        kinds = {policy.learns_from for policy in self.policies.values()} - {None}
        return kinds.pop() if len(kinds) == 1 else None

    def replace_policy(self, policy: BasePolicy, agent_id: str) -> None:
        """Replace the policy of an agent.

        :param policy: the new policy.
        :param agent_id: the agent.
        :raises KeyError: if there is no such agent.
        """
        self.policies[agent_id] = policy

    def seed(self, seed: int) -> None:
        """Restart the random streams of this policy and of all agents' policies, each with a seed of its own.

        :param seed: a non-negative integer.
        """
        super().seed(seed)
        for place, policy in enumerate(self.policies.values()):
            policy.seed(int(np.random.SeedSequence([seed, 2 + place]).generate_state(1)[0]))

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(self, batch: ObsBatchProtocol, state: Any = None, **kwargs: Any) -> Any:
        """Choose actions by the policies of the agents whose turn it is.

        :param batch: a batch with ``obs`` and ``info``, and ``obs.agent_id``.
        :param state: hidden states by agent; None at the start.
        :param kwargs: passed to the policies.
        :return: ``act``, ``[B, ...]``; ``out``, the results of the policies by agent; ``state``, the hidden states of
            recurrent policies by agent, ``[B, ...]``, or None.
        :raises ValueError: if an ``agent_id`` has no policy.
        """
        states = {} if state is None else {agent: state[agent] for agent in self.policies if agent in state}
        out: dict[str, Any] = {}
        acts: list[tuple[Index, NDArray[Any]]] = []
        turns = [*self._turns(batch.obs)]
        size = sum(len(rows) for _, rows in turns)
        for agent, rows in turns:
            before = tree.take(states.get(agent), rows)
            out[agent] = result = self.policies[agent](self._own(batch, rows), before, **kwargs)
            acts.append((rows, to_numpy(result.act)))
            after = result.get("state")
            if after is not None:
                states[agent] = tree.put(states.get(agent), rows, after, size)
        act = np.empty((size, *acts[0][1].shape[1:]), np.result_type(*(own for _, own in acts)))
        for rows, own in acts:
            act[rows] = own
        return Batch(act=act, out=Batch(out), state=Batch(states) if states else None)

    def exploration_noise(self, act: object, batch: ObsBatchProtocol) -> Any:
        """Add the noise of the policies of the agents whose turn it is.

        :param act: actions, ``[B, ...]``; not changed.
        :param batch: the observations that they were chosen for.
        """
        act = np.array(act)
        for agent, rows in self._turns(batch.obs):
            act[rows] = self.policies[agent].exploration_noise(act[rows], self._own(batch, rows))
        return act

    def _turns(self, obs: object) -> Iterator[tuple[str, Index]]:
        """Yield each agent that has rows, and these.

        :raises ValueError: if a row belongs to no agent; an ArgumentError if none says whose it is.
        """
        if not isinstance(obs, Batch) or "agent_id" not in obs:
            raise ArgumentError(
                "observations must have agent_id, which names whose turn it is, as PettingZooEnv gives it"
            )
        found = {agent: np.flatnonzero(is_turn_of(agent, obs)) for agent in self.policies}
        if sum(map(len, found.values())) != len(obs.agent_id):
            unknown = set(np.asarray(obs.agent_id).tolist()) - set(self.policies)
            raise ValueError(f"agent_id {sorted(map(str, unknown))}: there are policies for {[*self.policies]}")
        yield from ((agent, rows) for agent, rows in found.items() if len(rows))

    @staticmethod
    def _own(batch: Any, rows: Index) -> Any:
        own = batch[rows]
        own.obs = seen(own.obs)
        return own

    # -- learning ------------------------------------------------------------------------------------------------------

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> Any:
        """Give each policy the rows of its agent to process; see :class:`MultiAgentPolicyManager`.

        :param batch: a sample of B rows.
        :param buffer: the buffer that it was drawn from.
        :param indices: indices of the rows in the buffer, ``[B]``.
        :return: the results of the policies by agent, with ``indices``, their rows in the buffer; an empty batch for an
            agent without rows.
        :raises ValueError: if the buffer stacks frames or sums rewards, which would be those of several agents.
        """
        if buffer.stack_num > 1 or "last_index" in batch:
            raise ArgumentError(
                "the buffer has stack_num or a unit, and would join rows of several agents: leave both at their "
                "defaults, set estimation_step in the policies, and stack frames by a wrapper of the environment"
            )
        processed: dict[str, Any] = {agent: Batch() for agent in self.policies}
        for agent, place in self._turns(batch.obs):
            rows = AgentRows(buffer, agent, self.agent_idx[agent])
            turns = rows.turns(indices[place])
            known = np.flatnonzero(turns.known)
            if not len(known):
                continue
            own = rows.transitions(batch[place[known]], turns.of(known))
            own_indices = indices[place[known]]
            processed[agent] = self.policies[agent].process_fn(own, cast("Any", rows), own_indices)
            processed[agent].indices = own_indices
        return Batch(processed)

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> MapTrainingStats:
        """Train each policy on the rows of its agent, and step its learning-rate schedule.

        :param batch: the result of :meth:`process_fn`.
        :param args: passed to the policies' ``learn``, as ``kwargs`` are.
        :return: the losses of the agents that had rows.
        """
        found = {}
        for agent, policy in self.policies.items():
            own = batch[agent]
            if len(own.keys()):
                start = time.perf_counter()
                found[agent] = stats = as_stats(policy.learn(own, *args, **kwargs), type(policy).__name__)
                if policy.lr_scheduler is not None:
                    policy.lr_scheduler.step()
                stats.train_time = time.perf_counter() - start
        return MapTrainingStats(found)

    def post_process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> None:
        """Let each policy update the priorities of its agent's rows."""
        for agent, policy in self.policies.items():
            own = batch[agent]
            if len(own.keys()):
                rows = AgentRows(buffer, agent, self.agent_idx[agent])
                policy.post_process_fn(own, cast("Any", rows), own.indices)
