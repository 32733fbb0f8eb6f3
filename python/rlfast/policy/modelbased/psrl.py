"""Posterior sampling: acting by a model of the environment that is drawn from what is known about it."""

import warnings
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data import Batch
from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol
from rlfast.env.spaces.random_actions import random_legal
from rlfast.policy.base import BasePolicy, TLearningRateScheduler, TrainingStats
from rlfast.utils.arguments.validation import NonNegativeFloat, UnitFloat, validate_arguments
from rlfast.utils.runtime.seeding import generator

Floats = NDArray[np.float64]


@dataclass(kw_only=True)
class PSRLTrainingStats(TrainingStats):
    """The statistics of one update of PSRL."""

    psrl_rew_mean: float = 0.0
    """Expected reward, averaged over states and actions."""
    psrl_rew_std: float = 0.0
    """Standard deviation of the expected reward, averaged over states and actions."""


TPSRLTrainingStats = TypeVar("TPSRLTrainingStats", bound=PSRLTrainingStats)


class PSRLModel:
    r"""What is known about S states and A actions: Dirichlet counts of transitions, and normal expected rewards.

    :param trans_count_prior: :math:`\alpha`, the counts before any transition, ``[S, A, S]``, all above 0; copied.
    :param rew_mean_prior: expected rewards before any transition, ``[S, A]``.
    :param rew_std_prior: their standard deviations, ``[S, A]``.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1].
    :param epsilon: the weight of ``rew_mean_prior``, in transitions, and the relative change of values at which value
        iteration stops.
    :raises ValueError: if the shapes do not fit, a count is not above 0, or a deviation is negative.
    """

    def __init__(
        self,
        trans_count_prior: ArrayLike,
        rew_mean_prior: ArrayLike,
        rew_std_prior: ArrayLike,
        discount_factor: float,
        epsilon: float,
    ) -> None:
        self.trans_count = np.array(trans_count_prior, np.float64)
        self.rew_mean = np.array(rew_mean_prior, np.float64)
        self.rew_std_prior = np.array(rew_std_prior, np.float64)
        _check_priors(self.trans_count, self.rew_mean, self.rew_std_prior)
        self.n_state, self.n_action = self.rew_mean.shape
        self.rew_std = self.rew_std_prior.copy()
        self.rew_count = np.full(self.rew_mean.shape, epsilon, np.float64)
        self.rew_square_sum = self.rew_count * self.rew_mean**2
        self.discount_factor = discount_factor
        self.eps = epsilon
        self.policy = np.zeros(self.n_state, np.int64)
        """The action of each state, which is valid while ``updated`` is True."""
        self.value = np.zeros(self.n_state)
        self.updated = False

    def observe(self, trans_count: Floats, rew_sum: Floats, rew_square_sum: Floats, rew_count: Floats) -> None:
        r"""Add transitions.

        The expected reward of a state and an action becomes the mean :math:`\bar r` of its n rewards, and its precision

        .. math:: \sigma^{-2} = \frac{n}{\overline{r^2} - \bar r^2} + \sigma_0^{-2}

        (Gelman et al., *Bayesian Data Analysis*, 3rd edition, equation 2.12, with the variance of the rewards that were
        seen). A pair without rewards keeps its prior.

        :param trans_count: number of transitions, ``[S, A, S]``.
        :param rew_sum: sums of rewards, ``[S, A]``.
        :param rew_square_sum: sums of their squares, ``[S, A]``.
        :param rew_count: number of rewards, ``[S, A]``.
        """
        self.updated = False
        self.trans_count += trans_count
        count = self.rew_count + rew_count
        seen = count > self.eps
        self.rew_mean[seen] = ((self.rew_mean * self.rew_count + rew_sum)[seen]) / count[seen]
        self.rew_square_sum += rew_square_sum
        self.rew_count = count
        variance = self.rew_square_sum[seen] / count[seen] - self.rew_mean[seen] ** 2
        with np.errstate(divide="ignore"):  # a deviation of 0 has infinite precision
            precision = count[seen] / (np.maximum(variance, 0) + _TINY) + self.rew_std_prior[seen] ** -2.0
        self.rew_std[seen] = precision**-0.5

    def sample_trans_prob(self, rng: np.random.Generator | None = None) -> Floats:
        """Draw transition probabilities.

        :param rng: the source of random numbers. Default: a new one, seeded by NumPy's global generator.
        :return: ``[S, A, S]``; the last axis sums to 1.
        """
        rng = generator() if rng is None else rng
        alpha = self.trans_count  # the logarithms of gamma variates, as those of small counts are too small for a float
        log = np.log(rng.standard_gamma(alpha + 1)) + np.log1p(-rng.random(alpha.shape)) / alpha
        share = np.exp(log - log.max(axis=2, keepdims=True))
        return cast("Floats", share / share.sum(axis=2, keepdims=True))

    def sample_reward(self, rng: np.random.Generator | None = None) -> Floats:
        """Draw expected rewards.

        :param rng: see :meth:`sample_trans_prob`.
        :return: ``[S, A]``.
        """
        return (generator() if rng is None else rng).normal(self.rew_mean, self.rew_std)

    def solve_policy(self, rng: np.random.Generator | None = None) -> None:
        """Draw a model, and set :attr:`policy` and :attr:`value` to its best policy and the values of states.

        :param rng: see :meth:`sample_trans_prob`.
        """
        rng = generator() if rng is None else rng
        model = self.sample_trans_prob(rng), self.sample_reward(rng)
        self.policy, self.value = self.value_iteration(*model, self.discount_factor, self.eps, self.value, rng)
        self.updated = True

    @staticmethod
    def value_iteration(
        trans_prob: Floats,
        rew: Floats,
        discount_factor: float,
        eps: float,
        value: Floats,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.int64], Floats]:
        r"""Find the best policy of a model.

        .. math:: V(s) \leftarrow \max_a r(s, a) + \gamma \sum_{s'} P(s' \mid s, a)\, V(s')

        (Sutton and Barto, 2nd edition, equation 4.10), until no value changes by more than ``eps`` times itself.

        :param trans_prob: P, ``[S, A, S]``.
        :param rew: r, ``[S, A]``.
        :param discount_factor: :math:`\gamma`.
        :param eps: the relative change of values at which iteration stops.
        :param value: values to start from, ``[S]``.
        :param rng: chooses among actions of equal value; see :meth:`sample_trans_prob`.
        :return: the best action of each state, int64 ``[S]``, and the values of states, ``[S]``.

        >>> import numpy as np
        >>> stay_or_go = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> rew = np.array([[0.0, 0.0], [1.0, 0.0]])
        >>> policy, value = PSRLModel.value_iteration(stay_or_go, rew, 0.5, 1e-6, np.zeros(2))
        >>> policy.tolist(), value.round(3).tolist()
        ([1, 0], [1.0, 2.0])
        """
        for _ in range(_MAX_SWEEPS):
            q_SA = rew + discount_factor * (trans_prob @ value)
            before, value = value, q_SA.max(axis=1)
            if np.allclose(value, before, eps):
                break
        else:
            warnings.warn(
                f"values have not settled after {_MAX_SWEEPS} sweeps: use a smaller discount_factor than "
                f"{discount_factor}, or a greater epsilon than {eps}",
                stacklevel=2,
            )
        best = np.isclose(q_SA, value[:, None], rtol=1e-12, atol=0)
        return random_legal(generator() if rng is None else rng, best), value

    def __call__(self, obs: NDArray[np.integer], state: object = None, info: object = None) -> NDArray[np.int64]:
        """Return the actions of the newest policy, which is made first if transitions were added since.

        :param obs: states, ``[B]``.
        :param state: ignored.
        :param info: ignored.
        :return: ``[B]``.
        """
        if not self.updated:
            self.solve_policy()
        act: NDArray[np.int64] = self.policy[obs]
        return act


class PSRLPolicy(BasePolicy):
    """Posterior sampling for reinforcement learning (Strens 2000, *A Bayesian Framework for Reinforcement Learning*).

    States are numbers from 0 to S - 1, and actions from 0 to A - 1. Before the first action, and before the first after
    each update, a model of the environment is drawn from the posterior, and its best policy acts until the next update.

    Each row given to :meth:`learn` counts as one more transition, so every transition must be given once, as
    :class:`~rlfast.trainer.OnpolicyTrainer` does. Collects of one episode give the algorithm of the paper.

    :param trans_count_prior: Dirichlet counts of transitions before the first one, ``[S, A, S]``, all above 0; copied.
    :param rew_mean_prior: expected rewards before the first transition, ``[S, A]``.
    :param rew_std_prior: their standard deviations, ``[S, A]``; large ones make the policy try actions.
    :param action_space: action space of one environment, with A actions.
    :param discount_factor: discount of future rewards, in [0, 1]. Default: 0.99.
    :param epsilon: the weight of ``rew_mean_prior``, in transitions, and the relative change of values at which value
        iteration stops. Default: 0.01.
    :param add_done_loop: whether a terminal state counts as one that leads to itself without reward. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :raises ValueError: for a value out of range, or priors whose shapes do not fit.

    >>> ones = np.ones((3, 2))
    >>> policy = PSRLPolicy(
    ...     trans_count_prior=np.ones((3, 2, 3)), rew_mean_prior=0 * ones, rew_std_prior=ones,
    ...     action_space=gym.spaces.Discrete(2),
    ... )
    >>> policy(Batch(obs=np.array([0, 2]), info={})).act.shape
    (2,)
    """

    counts_from_zero = True

    @validate_arguments
    def __init__(
        self,
        *,
        trans_count_prior: NDArray[Any],
        rew_mean_prior: NDArray[Any],
        rew_std_prior: NDArray[Any],
        action_space: gym.spaces.Discrete,
        discount_factor: UnitFloat = 0.99,
        epsilon: NonNegativeFloat = 0.01,
        add_done_loop: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_bound_method=None,
            lr_scheduler=lr_scheduler,
        )
        self.model = PSRLModel(trans_count_prior, rew_mean_prior, rew_std_prior, discount_factor, epsilon)
        if self.model.n_action != getattr(action_space, "n", None):
            raise ValueError(f"the priors have {self.model.n_action} actions, but the action space is {action_space}")
        self._add_done_loop = add_done_loop

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> ActBatchProtocol:
        """Choose the actions that are best in the model that was drawn last.

        :param batch: a batch with ``obs``, the numbers of states, ``[B]``.
        :param state: ignored.
        :param kwargs: ignored.
        :return: ``act``, int64 ``[B]``.
        """
        states = self._numbers("state", batch.obs, self.model.n_state)
        if not self.model.updated:
            self.model.solve_policy(self.rng)
        return cast(ActBatchProtocol, Batch(act=self.model.policy[states]))

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> PSRLTrainingStats:
        """Add transitions to the model.

        :param batch: B transitions.
        :return: the mean of expected rewards, and of their deviations.
        :raises ValueError: if a number is not that of a state, or of an action, or a reward is not finite.
        """
        model = self.model
        obs, obs_next = (self._numbers("state", states, model.n_state) for states in (batch.obs, batch.obs_next))
        act = self._numbers("action", batch.act, model.n_action)
        rew = np.asarray(batch.rew, np.float64).reshape(-1)
        if not np.isfinite(rew).all():
            raise ValueError(f"rewards must be finite, got {rew[~np.isfinite(rew)][0]}")
        trans_count = np.zeros_like(model.trans_count)
        rew_sum, rew_square_sum, rew_count = np.zeros((3, *model.rew_mean.shape))
        np.add.at(trans_count, (obs, act, obs_next), 1)
        np.add.at(rew_sum, (obs, act), rew)
        np.add.at(rew_square_sum, (obs, act), rew**2)
        np.add.at(rew_count, (obs, act), 1)
        if self._add_done_loop:
            final = obs_next[np.asarray(batch.terminated, bool).reshape(-1)]
            np.add.at(trans_count.transpose(0, 2, 1), (final, final), 1)
            np.add.at(rew_count, final, 1)
        model.observe(trans_count, rew_sum, rew_square_sum, rew_count)
        return PSRLTrainingStats(psrl_rew_mean=float(model.rew_mean.mean()), psrl_rew_std=float(model.rew_std.mean()))

    @staticmethod
    def _numbers(what: str, values: object, size: int) -> NDArray[np.int64]:
        array = np.asarray(values)
        if array.dtype.kind not in "biu" or (array.size and not 0 <= array.min() <= array.max() < size):
            raise ValueError(
                f"the priors have {size} {what}s, so a {what} must be an integer from 0 to {size - 1}, got {array}"
            )
        return array.astype(np.int64).reshape(-1)


def _check_priors(trans_count: Floats, rew_mean: Floats, rew_std: Floats) -> None:
    if rew_mean.ndim != 2 or rew_std.shape != rew_mean.shape or trans_count.shape != (*rew_mean.shape, len(rew_mean)):
        raise ValueError(
            "priors must be of shapes [S, A, S], [S, A] and [S, A] for S states and A actions, got "
            f"{trans_count.shape}, {rew_mean.shape} and {rew_std.shape}"
        )
    if not ((trans_count > 0) & np.isfinite(trans_count)).all():
        raise ValueError("every entry of trans_count_prior must be above 0 and finite: a transition of count 0 is none")
    if not (np.isfinite(rew_mean).all() and np.isfinite(rew_std).all() and (rew_std >= 0).all()):
        raise ValueError("rew_mean_prior and rew_std_prior must be finite, and no deviation negative")


_MAX_SWEEPS = 100_000
_TINY = float(np.finfo(np.float32).eps)  # added to a variance that is divided by
