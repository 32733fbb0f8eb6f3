"""Actors and critics for continuous actions: heads on a network that computes features of observations."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.net._generative import VAE as VAE  # noqa: PLC0414 (public names of this module)
from rlfast.utils.net._generative import Perturbation as Perturbation  # noqa: PLC0414
from rlfast.utils.net._layers import ArrayOrTensor, Placed, placed_like
from rlfast.utils.net._recurrent import State, lstm_features, make_lstm
from rlfast.utils.net._shared import features_of
from rlfast.utils.net.common import MLP, BaseActor, TActionShape, TLinearLayer, get_output_dim, size_of
from rlfast.utils.tree import EXPLORATION

SIGMA_MIN = -20
SIGMA_MAX = 2


class Actor(BaseActor):
    """A deterministic actor with bounded actions.

    :param preprocess_net: called as ``preprocess_net(obs, state)``; returns features ``[batch, size]`` and the next
        hidden state.
    :param action_shape: the shape of one action.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param max_action: actions are in [-max_action, max_action]. Default: 1.
    :param device: the initial device of the head.
    :param preprocess_net_output_dim: the size of the features, if ``preprocess_net`` has no ``output_dim``.

    >>> from rlfast.utils.net.common import Net
    >>> Actor(Net(4, hidden_sizes=[8]), action_shape=(2,))(torch.zeros(3, 4))[0].shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        preprocess_net: nn.Module,
        action_shape: TActionShape,
        hidden_sizes: Sequence[int] = (),
        max_action: float = 1.0,
        device: str | int | torch.device = "cpu",
        preprocess_net_output_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.preprocess = preprocess_net
        self.output_dim = size_of(action_shape)
        features = get_output_dim(preprocess_net, preprocess_net_output_dim)
        self.last = MLP(features, self.output_dim, hidden_sizes, device=device)
        self.max_action = max_action

    def forward(self, obs: ArrayOrTensor, state: object = None, info: object = None) -> tuple[torch.Tensor, Any]:
        """Compute actions.

        :param obs: ``[batch, ...]``, array or tensor.
        :param state: the hidden state of ``preprocess_net``.
        :param info: ignored.
        :return: actions ``[batch, size]``, and the next hidden state.
        """
        features, hidden = features_of(self.preprocess, obs, state)
        return self.max_action * torch.tanh(self.last(features)), hidden


class CriticBase(Placed, ABC):
    """The interface of critics."""

    @abstractmethod
    def forward(self, obs: ArrayOrTensor, act: ArrayOrTensor | None = None, info: object = None) -> torch.Tensor:
        """Compute values.

        :param obs: ``[batch, ...]``, array or tensor.
        :param act: actions ``[batch, ...]``; None for values of observations alone.
        :param info: ignored.
        :return: values ``[batch, 1]``.
        """


class Critic(CriticBase):
    """A critic: it computes the value of an observation and an action, or of an observation alone.

    :param preprocess_net: computes features of observation and action concatenated, such as ``Net(..., concat=True)``.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param device: the initial device of the head.
    :param preprocess_net_output_dim: see :class:`Actor`.
    :param linear_layer: makes a linear module from its two sizes. Default: ``nn.Linear``.
    :param flatten_input: whether the head flattens the features. Default: True.
    :param apply_preprocess_net_to_obs_only: whether the input of ``preprocess_net`` is the observation only, and the
        action is concatenated with its features; then it may be shared with an actor. For values of actions,
        ``preprocess_net_output_dim`` is then the size of features and action together. Default: False.
    :param output_dim: how many values there are for each action, for distributional learning. Default: 1.

    >>> from rlfast.utils.net.common import EnsembleLinear, Net
    >>> Critic(Net(4, 2, hidden_sizes=[8], concat=True))(torch.zeros(3, 4), torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    >>> ten = {"linear_layer": lambda inputs, outputs: EnsembleLinear(10, inputs, outputs)}
    >>> critics = Critic(Net(4, 2, hidden_sizes=[8], concat=True, **ten), **ten, flatten_input=False)
    >>> critics(torch.zeros(3, 4), torch.zeros(3, 2)).shape
    torch.Size([10, 3, 1])
    """

    def __init__(
        self,
        preprocess_net: nn.Module,
        hidden_sizes: Sequence[int] = (),
        device: str | int | torch.device = "cpu",
        preprocess_net_output_dim: int | None = None,
        linear_layer: TLinearLayer = nn.Linear,
        flatten_input: bool = True,
        apply_preprocess_net_to_obs_only: bool = False,
        output_dim: int = 1,
    ) -> None:
        super().__init__()
        self.preprocess = preprocess_net
        self.output_dim = output_dim
        self.apply_preprocess_net_to_obs_only = apply_preprocess_net_to_obs_only
        features = (apply_preprocess_net_to_obs_only and preprocess_net_output_dim) or get_output_dim(
            preprocess_net, preprocess_net_output_dim
        )
        self.last = MLP(
            features, output_dim, hidden_sizes, device=device, linear_layer=linear_layer, flatten_input=flatten_input
        )

    def forward(self, obs: ArrayOrTensor, act: ArrayOrTensor | None = None, info: object = None) -> torch.Tensor:
        """Compute values.

        :param obs: ``[batch, ...]``, array or tensor.
        :param act: actions ``[batch, ...]``; None for values of observations alone.
        :param info: ignored.
        :return: values ``[batch, output_dim]``; ``[m, batch, output_dim]`` of an ensemble.
        """
        x = placed_like(self.last, obs)
        x = (features_of(self.preprocess, x, None)[0] if self.apply_preprocess_net_to_obs_only else x).flatten(1)
        if act is not None:
            x = torch.cat([x, placed_like(self.last, act).flatten(1)], dim=1)
        if not self.apply_preprocess_net_to_obs_only:
            x, _ = features_of(self.preprocess, x, None)
        value: torch.Tensor = self.last(x)
        return value


class StateDependentNoise(nn.Module):
    r"""Generalized state-dependent exploration, gSDE (Raffin, Kober and Stulp, arXiv:2005.05719).

    The noise of an action is a linear function of features z of the observation, which stays the same for several steps
    of an episode, so that equal observations have equal actions:

    .. math::
        a &= \mu(s) + \theta^\top z(s), \qquad \theta_{ij} \sim \mathcal N(0, \sigma_{ij}^2) \\
        \pi_j(a_j \mid s) &= \mathcal N\bigl(\mu_j(s), \hat\sigma_j(s)^2\bigr), \qquad
        \hat\sigma_j(s) = \sqrt{\textstyle\sum_i \bigl(\sigma_{ij} z_i(s)\bigr)^2}

    (section 2, equations of *state-dependent exploration*, with the features of section 3.) Learning needs the second
    line alone: what an actor returns is a normal distribution like any other. Gradients reach :math:`\sigma` and,
    through the mean only, the features.

    :math:`\theta = \sigma \odot \epsilon`, and it is the standard normal :math:`\epsilon` that is kept, one matrix for
    each environment. So the distribution of actions is exact after :math:`\sigma` has changed, too. Policies draw the
    matrices: for the first step of an episode, for the first one after an update from a roll-out, and after each
    ``sample_freq`` steps. They are part of the hidden state, under ``exploration``, which collectors pass on, save in
    checkpoints and do not store.

    As in Stable-Baselines3, 1e-6 is added to variances.

    :param features: the number of features.
    :param actions: the number of dimensions of an action.
    :param sample_freq: steps after which a matrix is drawn anew; -1 for episodes and roll-outs alone. Default: -1.
    :param log_std: the first logarithm of each :math:`\sigma_{ij}`. Default: -2.
    :param full_std: whether each dimension of actions has its own :math:`\sigma_{ij}`, and not one :math:`\sigma_i` for
        all. Default: True.
    :param use_expln: whether :math:`\sigma` is :math:`1 + \log(1 + x)` of parameters x above 0, which grows more slowly
        than the usual exponential. Default: False.
    :param learn_features: whether gradients of deviations reach the features. Default: False.
    :raises ArgumentError: ``sample_freq`` is neither positive nor -1; this is a ValueError.

    >>> noise = StateDependentNoise(2, 1, log_std=0.0)
    >>> noise(torch.tensor([[3.0, 4.0]])).tolist()
    [[5.0...]]
    """

    rollout: torch.Tensor
    """The number of roll-outs that were learned from. When it changes, matrices are drawn anew."""

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        sample_freq: int = -1,
        log_std: float = -2.0,
        full_std: bool = True,
        use_expln: bool = False,
        learn_features: bool = False,
    ) -> None:
        if sample_freq < 1 and sample_freq != -1:
            raise ArgumentError(
                f"sample_freq must be at least 1 step, or -1 to draw noise for episodes alone, got {sample_freq}"
            )
        super().__init__()
        self.shape = features, actions
        self.log_std = nn.Parameter(torch.full((features, actions if full_std else 1), float(log_std)))
        self.sample_freq, self.use_expln, self.learn_features = sample_freq, use_expln, learn_features
        self.register_buffer("rollout", torch.zeros((), dtype=torch.int64))

    def sigma(self) -> torch.Tensor:
        r"""Return the deviations :math:`\sigma` of the matrix, ``[features, actions]``."""
        if not self.use_expln:
            return self.log_std.exp().expand(self.shape)
        above = self.log_std.clamp(min=0)
        return torch.where(self.log_std > 0, above.log1p() + 1, (self.log_std - above).exp()).expand(self.shape)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        r"""Compute the standard deviations of actions, :math:`\hat\sigma(s)`.

        :param features: ``[B, features]``.
        :return: ``[B, actions]``.
        """
        z = features if self.learn_features else features.detach()
        return (z.square() @ self.sigma().square() + 1e-6).sqrt()

    def next_state(self, state: object, rows: int, stream: torch.Generator | None) -> dict[str, Any]:
        """Return the hidden state for one step, with new matrices where they are due.

        Each step draws a seed for each environment, whether its matrix is due or not, so that collectors of a part of
        the environments draw what one collector of all does.

        :param state: the hidden state after the step before, zero in rows whose episode begins; None at the start.
        :param rows: the number of environments, B.
        :param stream: the random stream; None for torch's global one.
        :return: the state, with ``exploration``: ``matrix``, ``[B, features, actions]``; ``left``, the steps until the
            next one, ``[B]``, negative for never; ``rollout``, ``[B]``.
        """
        rest, before = _without_exploration(state)
        weight = self.log_std
        if before is None:
            none = torch.zeros(rows, dtype=torch.int64)
            before = {"matrix": weight.new_zeros(rows, *self.shape), "left": none, "rollout": none}
        matrix, left, rollout = before["matrix"].to(weight), before["left"], int(self.rollout)
        due = (left == 0) | (before["rollout"] != rollout)
        seeds = torch.randint(2**62, (rows,), generator=stream)
        if due.any():
            generators = [torch.Generator().manual_seed(seed) for seed in seeds[due].tolist()]
            drawn = torch.stack([torch.randn(self.shape, dtype=weight.dtype, generator=one) for one in generators])
            matrix = matrix.index_put((due.nonzero()[:, 0].to(weight.device),), drawn.to(weight.device))
        left = torch.where(due, self.sample_freq, left) - 1
        return {
            **(rest or {}),
            EXPLORATION: {"matrix": matrix, "left": left, "rollout": torch.full_like(left, rollout)},
        }

    @torch.no_grad()
    def explore(self, features: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        r"""Compute the noise of actions, :math:`\theta^\top z(s)`.

        :param features: ``[B, features]``.
        :param matrix: the standard normal matrices, ``[B, features, actions]``.
        :return: ``[B, actions]``.
        """
        return torch.bmm(features[:, None], self.sigma() * matrix)[:, 0]


def state_dependent_noise(actor: nn.Module) -> StateDependentNoise | None:
    """Return the noise of an actor that explores by a :class:`StateDependentNoise`; None for others.

    :param actor: the actor, which may contain an :class:`ActorProb`.
    """
    return next((module for module in actor.modules() if isinstance(module, StateDependentNoise)), None)


def _without_exploration(state: object) -> tuple[Any, Any]:
    """Return the hidden state of a network, and what a :class:`StateDependentNoise` has added to it.

    :raises ArgumentError: it is no mapping, to which nothing can be added.
    """
    if state is None:
        return None, None
    if not hasattr(state, "items"):
        raise ArgumentError(f"state-dependent noise needs hidden states that are dicts, got a {type(state).__name__}")
    rest = dict(state.items())  # it may be a Batch
    exploration = rest.pop(EXPLORATION, None)
    return rest or None, exploration


class ActorProb(BaseActor):
    """An actor that computes mean and standard deviation of a normal distribution over actions.

    :param preprocess_net: see :class:`Actor`.
    :param action_shape: the shape of one action.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param max_action: means are in [-max_action, max_action], unless ``unbounded`` is set. Default: 1.
    :param device: the initial device of the head.
    :param unbounded: whether means have no bound. Default: False.
    :param conditioned_sigma: whether the standard deviation depends on the observation; else it is a parameter with the
        initial value 1. Default: False.
    :param preprocess_net_output_dim: see :class:`Actor`.
    :param sde: makes the noise of exploration from the numbers of features and actions, such as
        :class:`StateDependentNoise`, or ``partial(StateDependentNoise, sample_freq=8)``; its deviations take the place
        of the others. None for noise that is independent in each step. Default: None.
    :param clip_mean: unbounded means are clipped to [-clip_mean, clip_mean]; SAC with ``sde`` usually has 2. None for
        no bound. Default: None.
    :raises ArgumentError: ``sde`` together with ``conditioned_sigma`` or ``hidden_sizes``; this is a ValueError.

    >>> from rlfast.utils.net.common import Net
    >>> (mean, std), state = ActorProb(Net(4, hidden_sizes=[8]), action_shape=2)(torch.zeros(3, 4))
    >>> mean.shape, std[0].tolist()
    (torch.Size([3, 2]), [1.0, 1.0])
    """

    clip_mean: float | None = None

    def __init__(
        self,
        preprocess_net: nn.Module,
        action_shape: TActionShape,
        hidden_sizes: Sequence[int] = (),
        max_action: float = 1.0,
        device: str | int | torch.device = "cpu",
        unbounded: bool = False,
        conditioned_sigma: bool = False,
        preprocess_net_output_dim: int | None = None,
        sde: Callable[[int, int], StateDependentNoise] | None = None,
        clip_mean: float | None = None,
    ) -> None:
        if sde is not None and (conditioned_sigma or hidden_sizes):
            raise ArgumentError(
                "sde has its own deviations, on the features of the last hidden layer: leave out conditioned_sigma, "
                "and give hidden layers to preprocess_net instead of hidden_sizes"
            )
        super().__init__()
        self.preprocess = preprocess_net
        self.output_dim = size_of(action_shape)
        self.max_action = _bound(max_action, unbounded=unbounded)
        self.clip_mean = clip_mean
        features = get_output_dim(preprocess_net, preprocess_net_output_dim)
        self.mu = MLP(features, self.output_dim, hidden_sizes, device=device)
        self.sigma: MLP | StateDependentNoise | None = None
        if sde is not None:
            self.sigma = sde(features, self.output_dim).to(device)
        elif conditioned_sigma:
            self.sigma = MLP(features, self.output_dim, hidden_sizes, device=device)
        else:
            self.sigma_param = nn.Parameter(torch.zeros(self.output_dim, 1, device=device))
        self._unbounded = unbounded

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], Any]:
        """Compute the distribution of actions.

        :param obs: ``[batch, ...]``, array or tensor.
        :param state: the hidden state of ``preprocess_net``; with ``sde``, also that of
            :meth:`StateDependentNoise.next_state`.
        :param info: ignored.
        :return: means and standard deviations, each ``[batch, size]``, and the next hidden state; with matrices of
            noise in ``state``, its ``exploration`` has the ``noise`` of the actions, ``[batch, size]``.
        """
        if not isinstance(self.sigma, StateDependentNoise):
            features, hidden = features_of(self.preprocess, obs, state)
            return _normal(self, features), hidden
        own, exploration = _without_exploration(state)
        features, hidden = features_of(self.preprocess, obs, own)
        if exploration is not None:
            noise = self.sigma.explore(features, exploration["matrix"])
            hidden = {**(hidden or {}), EXPLORATION: {**exploration, "noise": noise}}
        return _normal(self, features), hidden


class RecurrentActorProb(Placed):
    """An :class:`ActorProb` on an LSTM; see :class:`rlfast.utils.net.common.Recurrent`.

    :param layer_num: the number of LSTM layers.
    :param state_shape: the shape of one observation.
    :param action_shape: the shape of one action.
    :param hidden_layer_size: the size of each LSTM layer. Default: 128.
    :param max_action: as in :class:`ActorProb`.
    :param device: as in :class:`ActorProb`.
    :param unbounded: as in :class:`ActorProb`.
    :param conditioned_sigma: as in :class:`ActorProb`.
    """

    clip_mean: float | None = None

    def __init__(
        self,
        layer_num: int,
        state_shape: Sequence[int],
        action_shape: Sequence[int],
        hidden_layer_size: int = 128,
        max_action: float = 1.0,
        device: str | int | torch.device = "cpu",
        unbounded: bool = False,
        conditioned_sigma: bool = False,
    ) -> None:
        super().__init__()
        self.max_action = _bound(max_action, unbounded=unbounded)
        self.nn = make_lstm(size_of(state_shape), hidden_layer_size, layer_num)
        self.output_dim = size_of(action_shape)
        self.mu = nn.Linear(hidden_layer_size, self.output_dim)
        self.sigma: nn.Linear | None = None
        if conditioned_sigma:
            self.sigma = nn.Linear(hidden_layer_size, self.output_dim)
        else:
            self.sigma_param = nn.Parameter(torch.zeros(self.output_dim, 1))
        self._unbounded = unbounded
        self.to(device)

    def forward(
        self, obs: ArrayOrTensor, state: State | None = None, info: object = None
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute the distribution of actions after the last step.

        :param obs: ``[batch, size]`` for one step, ``[batch, steps, size]`` for several.
        :param state: ``hidden`` and ``cell``, each ``[batch, layers, hidden_layer_size]``; None for zeros.
        :param info: ignored.
        :return: means and standard deviations, each ``[batch, size]``, and the next state.
        """
        x = placed_like(self.mu, obs)
        features, after = lstm_features(self.nn, x, state)
        return _normal(self, features), after


class RecurrentCritic(Placed):
    """A :class:`Critic` on an LSTM, whose hidden state is zero before the first step of its input.

    :param layer_num: the number of LSTM layers.
    :param state_shape: the shape of one observation.
    :param action_shape: the shape of one action; ``[0]`` (default) for values of observations alone.
    :param device: the initial device of the parameters.
    :param hidden_layer_size: the size of each LSTM layer. Default: 128.
    """

    def __init__(
        self,
        layer_num: int,
        state_shape: Sequence[int],
        action_shape: Sequence[int] = (0,),
        device: str | int | torch.device = "cpu",
        hidden_layer_size: int = 128,
    ) -> None:
        super().__init__()
        self.state_shape = state_shape
        self.action_shape = action_shape
        self.nn = make_lstm(size_of(state_shape), hidden_layer_size, layer_num)
        self.fc2 = nn.Linear(hidden_layer_size + size_of(action_shape), 1)
        self.to(device)

    def forward(self, obs: ArrayOrTensor, act: ArrayOrTensor | None = None, info: object = None) -> torch.Tensor:
        """Compute values after the last step.

        :param obs: ``[batch, size]`` for one step, ``[batch, steps, size]`` for several.
        :param act: actions ``[batch, ...]``; None for values of observations alone.
        :param info: ignored.
        :return: values ``[batch, 1]``.
        """
        features, _ = lstm_features(self.nn, placed_like(self.fc2, obs), None)
        if act is not None:
            features = torch.cat([features, placed_like(self.fc2, act).flatten(1)], dim=1)
        value: torch.Tensor = self.fc2(features)
        return value


def _bound(max_action: float, *, unbounded: bool) -> float:
    if not unbounded or math.isclose(max_action, 1.0):
        return max_action
    warnings.warn(f"unbounded means have no max_action: {max_action} is not used", stacklevel=3)
    return 1.0


def _normal(head: ActorProb | RecurrentActorProb, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute means and standard deviations, each ``[batch, size]``."""
    mean: torch.Tensor = head.mu(features)
    if not head._unbounded:  # noqa: SLF001 (both classes share this part)
        mean = head.max_action * torch.tanh(mean)
    elif head.clip_mean is not None:
        mean = mean.clamp(-head.clip_mean, head.clip_mean)
    if isinstance(head.sigma, StateDependentNoise):
        return mean, head.sigma(features)
    log_std = head.sigma_param.flatten() if head.sigma is None else head.sigma(features).clamp(SIGMA_MIN, SIGMA_MAX)
    return mean, log_std.exp().expand_as(mean)
