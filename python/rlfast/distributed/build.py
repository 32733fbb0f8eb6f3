"""Building the parts of a run that is spread over processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from rlfast.data import VectorReplayBuffer
from rlfast.data.buffer.options.units import NStep, Sequence
from rlfast.data.collect.collector import Collector
from rlfast.data.plain_data import summary
from rlfast.distributed.cluster.actors import IN_PROCESS, Actor, Cluster, InProcessCluster
from rlfast.distributed.cluster.ray_cluster import RayCluster
from rlfast.distributed.collectors.collector_worker import CollectorWorker, WorkerConfig
from rlfast.distributed.collectors.replay_collectors import Member, Pace, ReplayCollectors
from rlfast.distributed.collectors.rollout_collectors import RolloutCollectors
from rlfast.distributed.collectors.rollout_worker import RolloutWorker
from rlfast.distributed.collectors.weights import Broadcast
from rlfast.distributed.learning.team import LearnerConfig, LearnerWorker, Team, make_buffer, make_policy
from rlfast.distributed.learning.trainers import ReplayTrainer, RolloutTrainer
from rlfast.distributed.replay.rate_limiter import RateLimiter
from rlfast.distributed.replay.shard import Shard, ShardConfig
from rlfast.distributed.replay.sharded_buffer import ShardedBuffer
from rlfast.experiment.build import Parts, explore_in_tests, parts_of, prepare_torch
from rlfast.experiment.build import build as build_in_one_process
from rlfast.experiment.config import (
    DataConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    QLearningConfig,
    RunConfig,
    SequenceConfig,
    stream_seed,
)
from rlfast.experiment.declaration import Declaration
from rlfast.experiment.environments import make_envs, single_action_space
from rlfast.policy import BasePolicy
from rlfast.trainer import BaseTrainer

if TYPE_CHECKING:
    import gymnasium as gym


def build(config: RunConfig, declaration: Declaration | None = None) -> Parts:
    """Makes the parts of a run: with ``config.ray``, in actors; without, as :func:`rlfast.experiment.build.build`.

    :param config: the settings of the run.
    :param declaration: what the settings describe completely, if the parts are in actors.
    :return: the parts. Closing them ends the actors.
    :raises ValueError: if the settings cannot be run.
    :raises ConnectionError: if there is no Ray cluster at the address.
    :raises ImportError: if Ray is not installed.
    :raises gymnasium.error.Error: if the environment does not exist.
    """
    declaration = declaration or Declaration()
    if config.ray is None:
        return build_in_one_process(config, declaration)
    check(config, declaration)
    try:
        with ExitStack() as made:
            cluster: Cluster = made.enter_context(closing(connect(config.ray)))
            if isinstance(config, OffPolicyConfig):
                parts = _ReplayBuilder(config, declaration, cluster).parts(made)
            else:
                parts = _rollout_parts(config, declaration, cluster, made)
            made.pop_all()
    except (RuntimeError, MemoryError, OverflowError) as error:  # such as those of actors that could not be made
        raise ValueError(f"cannot build what these settings describe: {summary(error)}") from error
    return parts


def connect(address: str) -> Cluster:
    """Connects to a cluster.

    :param address: ``HOST:PORT``, ``"auto"``, or ``"in-process"``.
    :raises ConnectionError: if there is no Ray cluster at the address.
    :raises ImportError: if Ray is not installed.
    """
    return InProcessCluster() if address == IN_PROCESS else RayCluster(address)


def check(config: RunConfig, declaration: Declaration) -> None:
    """Checks that a run can be spread over processes.

    :param config: its settings.
    :param declaration: makes what the settings do not describe.
    :raises ValueError: if it cannot.
    """
    if declaration.beyond:
        raise ValueError(
            f"--ray: other processes get only the settings, which cannot describe {'; '.join(declaration.beyond)}"
        )
    if isinstance(config, DataConfig):
        raise ValueError("--ray spreads collecting over processes, and this algorithm learns from data: leave it out")
    for name in ("normalize_obs", "normalize_reward"):
        if getattr(config, name):
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag} needs statistics of all environments, which are in one process: leave out --ray")
    if config.reads_rows:
        raise ValueError("--ray: this algorithm reads rows that follow those of a sample, in one process: leave it out")
    if isinstance(config, OnPolicyConfig):
        _check_rollouts(config)
        return
    assert isinstance(config, OffPolicyConfig)  # noqa: S101 (there are no others)
    if config.recurrent and not isinstance(config, SequenceConfig):
        raise ValueError("--ray supports --recurrent only with r2d2, which learns from sequences: leave one out")
    if config.shards > config.collectors:
        raise ValueError(
            f"--shards {config.shards} needs as many --collectors, got {config.collectors}: each fills one shard"
        )
    if config.learners > 1:
        _check_learners(config)


def _check_rollouts(config: OnPolicyConfig) -> None:
    for name in ("shards", "learners"):
        if (number := getattr(config, name)) > 1:
            raise ValueError(f"--{name} {number} are for algorithms with a replay buffer: leave it out")
    if config.num_envs % config.collectors:
        raise ValueError(f"--collectors {config.collectors} must share the --num-envs {config.num_envs} evenly")
    if config.max_steps % config.num_envs:
        raise ValueError(f"--max-steps {config.max_steps} must be a multiple of the --num-envs {config.num_envs}")


def _check_learners(config: OffPolicyConfig) -> None:
    if config.ray == IN_PROCESS:
        raise ValueError(f"--learners {config.learners} need processes of their own: give --ray another address")
    if getattr(config, "compile", False):
        raise ValueError(
            f"--learners {config.learners} average gradients within a step, and --compile makes it one: leave one out"
        )
    if config.batch_size % config.learners:
        raise ValueError(f"--learners {config.learners} must share --batch-size {config.batch_size} evenly")


class _ReplayBuilder:
    """Makes the parts of one run with a replay buffer.

    :param config: its settings.
    :param declaration: the default one.
    :param cluster: where the actors are.
    """

    def __init__(self, config: OffPolicyConfig, declaration: Declaration, cluster: Cluster) -> None:
        self._config, self._declaration, self._cluster = config, declaration, cluster
        share, rest = divmod(max(config.num_envs, config.collectors), config.collectors)
        self._envs = [share + (number < rest) for number in range(config.collectors)]
        self._owners = [number % config.shards for number in range(config.collectors)]

    def parts(self, made: ExitStack) -> Parts:
        config = self._config
        shards = [self._shard(number, 0) for number in range(config.shards)]
        workers = [self._worker(number, 0) for number in range(config.collectors)]
        _await(*shards, *workers)
        prepare_torch(config)
        test_envs = made.enter_context(closing(make_envs(config, "test")))
        space = single_action_space(test_envs)
        policy = make_policy(config, test_envs.single_observation_space, space)
        policy.seed(stream_seed(config.seed, "policy"))
        team = self._team(policy, test_envs.single_observation_space, space) if config.learners > 1 else None
        ahead = int(config.ray != IN_PROCESS)
        seed = stream_seed(config.seed, "sampler")
        buffer = make_buffer(config, shards, seed, ahead, None if team is None else team.largest)
        collectors = self._collectors(workers, buffer, policy, None if team is None else team.close)
        tests = Collector(policy, test_envs, exploration_noise=explore_in_tests(config, policy))
        trainer = partial(_trainer, config, self._cluster, team)
        return parts_of(config, policy, collectors, tests, trainer, self._declaration)

    def _shard(self, number: int, restarts: int) -> Actor:
        config = self._config
        rings = sum(envs for envs, owner in zip(self._envs, self._owners, strict=True) if owner == number)
        made = ShardConfig(
            rows=max(config.buffer_size // config.shards, rings),
            rings=rings,
            seed=stream_seed(config.seed, f"sampler/shard/{number}/{restarts}"),
            unit=Sequence(config.sequence_length, config.burn_in)
            if isinstance(config, SequenceConfig)
            else NStep(config.estimation_step, config.gamma),
            alpha=config.alpha if isinstance(config, QLearningConfig) and config.prioritized else None,
        )
        return self._cluster.start(Shard, made)

    def _worker(self, number: int, restarts: int) -> Actor:
        made = WorkerConfig(
            run=self._config,
            number=number,
            first_env=sum(self._envs[:number]),
            envs=self._envs[number],
            rows=max(self._config.chunk_steps, self._envs[number]),
            all_envs=sum(self._envs),
            restarts=restarts,
        )
        return self._cluster.start(CollectorWorker, made)

    def _team(self, policy: BasePolicy, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> Team:
        config = self._config

        def start(rank: int) -> Actor:
            made = LearnerConfig(run=config, rank=rank, observation_space=obs_space, action_space=act_space)
            return self._cluster.start(LearnerWorker, made)

        team = Team(self._cluster, start, policy, config.learners, config.device)
        _await(*team.workers)
        return team

    def _collectors(
        self, workers: list[Actor], buffer: ShardedBuffer, policy: BasePolicy, on_close: Callable[[], None] | None
    ) -> ReplayCollectors:
        config = self._config
        members, filled = [], [0] * config.shards
        for number, (envs, shard) in enumerate(zip(self._envs, self._owners, strict=True)):
            members.append(Member(number, envs, shard, filled[shard], workers[number]))
            workers[number].call("attach", buffer.shards[shard], filled[shard], False)
            filled[shard] += envs
        ahead = max(3 * config.chunk_steps * config.collectors, 2 * config.collect_steps)
        return ReplayCollectors(
            self._cluster,
            members,
            buffer,
            RateLimiter(
                samples_per_insert=config.updates_per_step * config.batch_size,
                min_size=max(config.start_steps, 1),
                tolerance=config.insert_ahead or ahead,
            ),
            Broadcast(self._cluster, policy, config.weights_every),
            Pace(chunk=config.chunk_steps, budget=config.max_steps, batch_size=config.batch_size),
            self._worker,
            self._shard,
            on_close,
        )


def _await(*actors: Actor) -> None:
    """Waits until actors have been made."""
    for actor in actors:
        actor.call("ready").result()


def _trainer(config: OffPolicyConfig, cluster: Cluster, team: Team | None, **given: Any) -> BaseTrainer:
    trainer = ReplayTrainer(
        batch_size=config.batch_size // config.learners,
        step_per_collect=config.collect_steps,
        update_per_step=config.updates_per_step,
        start_timesteps=config.start_steps,
        start_random=config.start_random,
        **given,
    )
    trainer.report_to(cluster)
    if team is not None:
        trainer.learn_with(team)
    return trainer


def _rollout_parts(config: RunConfig, declaration: Declaration, cluster: Cluster, made: ExitStack) -> Parts:
    share = config.num_envs // config.collectors

    def worker(number: int, restarts: int) -> Actor:
        given = WorkerConfig(
            run=config,
            number=number,
            first_env=number * share,
            envs=share,
            rows=config.collect_steps // config.collectors,
            all_envs=config.num_envs,
            restarts=restarts,
        )
        return cluster.start(RolloutWorker, given)

    workers = [worker(number, 0) for number in range(config.collectors)]
    _await(*workers)
    prepare_torch(config)
    test_envs = made.enter_context(closing(make_envs(config, "test")))
    policy = declaration.policy(config, test_envs.single_observation_space, single_action_space(test_envs))
    policy.seed(stream_seed(config.seed, "policy"))
    policy.to(config.device)
    buffer = VectorReplayBuffer(config.collect_steps, config.num_envs)
    collectors = RolloutCollectors(cluster, workers, buffer, policy, worker)
    tests = Collector(policy, test_envs, exploration_noise=explore_in_tests(config, policy))
    return parts_of(config, policy, collectors, tests, partial(_rollout_trainer, config, cluster), declaration)


def _rollout_trainer(config: RunConfig, cluster: Cluster, **given: Any) -> BaseTrainer:
    assert isinstance(config, OnPolicyConfig)  # noqa: S101 (checked before)
    trainer = RolloutTrainer(
        batch_size=config.batch_size, step_per_collect=config.collect_steps, repeat_per_collect=config.repeat, **given
    )
    trainer.report_to(cluster)
    return trainer
