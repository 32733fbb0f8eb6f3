"""How an experiment collects, learns and tests."""

import logging
import os
from dataclasses import dataclass
from typing import Any

from rlfast.utils.string import ToStringMixin

log = logging.getLogger(__name__)


@dataclass
class SamplingConfig(ToStringMixin):
    """The numbers of epochs, steps, environments and rows of an experiment."""

    num_epochs: int = 100
    """Number of epochs: training of step_per_epoch steps, followed by a test."""
    step_per_epoch: int = 30000
    """Environment steps of an epoch, rounded up to whole collects."""
    batch_size: int = 64
    """Rows of a gradient step. On-policy, minibatches of what was collected."""
    num_train_envs: int = -1
    """Number of training environments; -1 for one for each processor."""
    num_test_envs: int = 1
    """Number of test environments."""
    num_test_episodes: int = 1
    """Number of episodes of a test."""
    buffer_size: int = 4096
    """Rows of the replay buffer. On-policy, it has those of a collect, unless collects are of episodes."""
    step_per_collect: int = 2048
    """Environment steps of a collect, rounded up to a multiple of num_train_envs."""
    repeat_per_collect: int | None = 1
    """On-policy, passes over what was collected."""
    update_per_step: float = 1.0
    """Off-policy, gradient steps for each environment step."""
    start_timesteps: int = 0
    """Off-policy, environment steps before the first epoch."""
    start_timesteps_random: bool = False
    """Whether these have random actions, and not those of the policy."""
    replay_buffer_ignore_obs_next: bool = False
    """See :class:`rlfast.data.ReplayBuffer`."""
    replay_buffer_save_only_last_obs: bool = False
    """See :class:`rlfast.data.ReplayBuffer`."""
    replay_buffer_stack_num: int = 1
    """See :class:`rlfast.data.ReplayBuffer`."""
    train_seed: int = 42
    """A seed for training environments, where a factory is given it."""
    episode_per_collect: int | None = None
    """Episodes of a collect, in place of step_per_collect."""

    def __post_init__(self) -> None:
        if self.num_train_envs == -1:
            self.num_train_envs = os.cpu_count() or 1

    @property
    def test_seed(self) -> int:
        """A seed for test environments, which are seeded otherwise than those of training."""
        return self.train_seed + self.num_train_envs

    @property
    def max_steps(self) -> int:
        """Environment steps of all epochs, with those before the first."""
        collects = self.num_epochs * -(-self.step_per_epoch // self.collect_steps)
        return self.start_timesteps + collects * self.collect_steps

    @property
    def collect_steps(self) -> int:
        """Environment steps of a collect: ``step_per_collect``, rounded up."""
        return -(-self.step_per_collect // self.num_train_envs) * self.num_train_envs

    def buffer_options(self) -> dict[str, Any]:
        """Returns arguments of the replay buffer that are not its defaults."""
        names = {"stack_num": 1, "save_only_last_obs": False, "ignore_obs_next": False}
        given = {name: getattr(self, f"replay_buffer_{name}") for name in names}
        return {name: value for name, value in given.items() if value != names[name]}
