from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from rlfast.data import Batch, ReplayBuffer
from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol
from rlfast.env.spaces.random_actions import random_legal, sizes_of
from rlfast.policy.base import BasePolicy, Index, TrainingStats
from rlfast.policy.components.action_masks import action_mask


@dataclass(kw_only=True)
class RandomTrainingStats(TrainingStats):
    """The statistics of :class:`RandomPolicy`, which learns nothing."""


TRandomTrainingStats = TypeVar("TRandomTrainingStats", bound=RandomTrainingStats)


class RandomPolicy(BasePolicy):
    """A policy that chooses actions uniformly, among the legal ones if observations have ``obs.mask``, bool ``[B,
    actions]`` with True for legal actions.

    :param action_bound_method: as for :class:`BasePolicy`. Default: None, as all actions of the space are drawn.
    :param options: of :class:`BasePolicy`.

    >>> policy = RandomPolicy(action_space=Discrete(3))
    >>> policy(Batch(obs=Batch(obs=np.zeros((2, 4)), mask=np.array([[False, True, False]] * 2)), info={})).act.tolist()
    [1, 1]
    """

    counts_from_zero = True

    def __init__(self, *, action_bound_method: Literal["clip", "tanh"] | None = None, **options: Any) -> None:
        super().__init__(action_bound_method=action_bound_method, **options)

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> ActBatchProtocol:
        mask, sizes, size = action_mask(batch.obs), sizes_of(self.action_space), len(batch.obs)
        if mask is not None and sizes and mask.size == size * sum(sizes):
            act = random_legal(self.rng, mask.reshape(size, -1), sizes).reshape(size, *(self.action_space.shape or ()))
        elif isinstance(self.action_space, Discrete):
            act = self.rng.integers(self.action_space.n, size=len(batch.obs))
        else:
            act = self.map_action_inverse(self._sample(len(batch.obs)))
        return cast(ActBatchProtocol, Batch(act=act, state=state))

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> RandomTrainingStats:
        """Return empty statistics."""
        return RandomTrainingStats()

    def post_process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> None:
        """Leave priorities as they are."""

    def _sample(self, size: int) -> NDArray[Any]:
        space = deepcopy(self.action_space)  # the environment may draw from the original's random stream
        space.seed(int(self.rng.integers(2**31)))
        return np.stack([space.sample() for _ in range(size)])


#: Other names.
MARLRandomPolicy, MARLRandomTrainingStats, TMARLRandomTrainingStats = (
    RandomPolicy,
    RandomTrainingStats,
    TRandomTrainingStats,
)
