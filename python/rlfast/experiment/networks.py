"""Networks for the observation and action spaces of an environment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net._generative import VAE, Perturbation
from rlfast.utils.net._recurrent import each_step
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import MLP, BranchingNet, EnsembleLinear, Net, Recurrent, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from gymnasium.spaces import Box

    from rlfast.data import ReplayBuffer
    from rlfast.experiment.config import RunConfig
    from rlfast.policy.learners.rollout_learner import TDistFn
    from rlfast.utils.net.common import TLinearLayer

    LayerOf = Callable[[int, int, int], nn.Module]

P = TypeVar("P")

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
"""The activations of hidden layers, by the names that settings give them."""

_SMALLEST_IMAGE = 36
"""The least height and width that three convolutions need."""


class Networks:
    """Makes networks for observations that are vectors, images, numbers or dicts of these, and for any actions.

    Images pass through convolutions, and the parts of dicts are encoded one by one. Of a dict with ``obs`` and a
    ``mask`` of discrete actions, networks get ``obs``. The features pass through layers of the ``hidden_sizes`` of the
    settings. Networks share no parameters.

    :param config: the settings of the run.
    :param title: the title of the algorithm, for errors.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    :param data: what an algorithm imitates that also acts; None for others.
    """

    def __init__(
        self,
        config: RunConfig,
        title: str,
        obs_space: gym.Space[Any],
        act_space: gym.Space[Any],
        data: ReplayBuffer | None = None,
    ) -> None:
        self.data = data
        self._config, self._title = config, title
        self._activation = ACTIVATIONS[getattr(config, "activation", "relu")]
        self._obs_space, self._act_space = _without_mask(obs_space, act_space), act_space

    @property
    def spaces(self) -> dict[str, Any]:
        """The spaces, as arguments of a policy."""
        return {"action_space": self._act_space, "observation_space": self._obs_space}

    @property
    def continuous(self) -> bool:
        """Whether the action space is a Box."""
        return isinstance(self._act_space, spaces.Box)

    @property
    def action_size(self) -> int:
        """The number of elements of a continuous action.

        :raises ValueError: if actions are not continuous.
        """
        return size_of(self._box().shape)

    def policy(self, kind: Callable[..., P], **arguments: Any) -> P:
        """Returns a policy.

        :param kind: its class.
        :param arguments: those of its constructor, without the spaces.
        """
        return kind(**arguments, **self.spaces)

    def initialize(self, actor: nn.Module, *critics: nn.Module) -> None:
        """Initializes networks by :func:`initialize_orthogonally`.

        :param actor: the actor.
        :param critics: other networks.
        """
        initialize_orthogonally(actor, *critics)

    def action_values(
        self,
        *,
        dueling: bool = False,
        atoms: int = 1,
        softmax: bool = False,
        linear_layer: Callable[[int, int], nn.Module] = nn.Linear,
        norm_layer: type[nn.Module] | None = None,
    ) -> nn.Module:
        """Returns a network for values of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        :param dueling: whether it has separate streams for state value and advantages.
        :param atoms: number of outputs for each action; more than 1 gives ``[B, actions, atoms]``.
        :param softmax: whether the outputs of an action are probabilities.
        :param linear_layer: makes the layers of the streams, or all layers without streams.
        :param norm_layer: normalizes each hidden layer. Default: none.
        :raises ValueError: if actions are not discrete, or a recurrent network should have atoms or be normalized.
        """
        actions = self.actions
        if norm_layer is not None and self._config.recurrent:
            raise ValueError("--layer-norm and --recurrent cannot be had together: say --no-layer-norm")
        if atoms > 1 and self._config.recurrent:
            raise ValueError(f"--recurrent cannot be had with {self._title}: leave it out")
        stream: dict[str, Any] = {"hidden_sizes": self._config.hidden_sizes[-1:], "linear_layer": linear_layer}
        return self._over_encoder(
            lambda size: (
                self._remembering(size, actions, dueling_param=(stream, stream) if dueling else None)
                if self._config.recurrent
                else self._net(
                    size,
                    action_shape=actions,
                    num_atoms=atoms,
                    softmax=softmax,
                    dueling_param=(stream, stream) if dueling else None,
                    linear_layer=nn.Linear if dueling else linear_layer,
                    norm_layer=norm_layer,
                )
            )
        )

    @property
    def actions(self) -> int:
        """How many discrete actions there are.

        :raises ValueError: the actions are not discrete.
        """
        if not isinstance(self._act_space, spaces.Discrete):
            raise self._refused("discrete actions", self._act_space)
        return int(self._act_space.n)

    def features(self) -> tuple[nn.Module, int]:
        """Features of observations, ``(obs, state) -> ([B, size], state)``, and their size.

        :raises ValueError: there is no hidden layer, or the network shall be dueling.
        """
        if not self._config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        self._refuse("dueling")
        return self._over_encoder(self._body), self._config.hidden_sizes[-1]

    def choice_actor(self) -> nn.Module:
        """Returns an actor of logits of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Actor, softmax_output=False, action_shape=self.actions)

    def choice_values(self) -> nn.Module:
        """Returns a critic of all discrete actions, ``obs -> [B, actions]``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Critic, last_size=self.actions)

    def quantiles(self, head_sizes: Sequence[int], *, cosines: int) -> nn.Module:
        """Returns a network of quantiles of the returns of discrete actions, at levels that it draws.

        :param head_sizes: sizes of the hidden layers above the embedding of levels.
        :param cosines: number of cosines of that embedding.
        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(
            discrete.ImplicitQuantileNetwork, action_shape=self.actions, hidden_sizes=head_sizes, num_cosines=cosines
        )

    def _choices(self, head: Callable[..., nn.Module], **options: Any) -> nn.Module:
        """Returns a head on features."""
        features, size = self.features()
        return head(features, preprocess_net_output_dim=size, device=self._config.device, **options)

    def action_value(self) -> nn.Module:
        """Returns a network for the value of a continuous action, ``(obs, act) -> [B, 1]``, never recurrent.

        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        return self._over_encoder(lambda size: continuous.Critic(self._net(size, action_shape=shape, concat=True)))

    def action_values_by(
        self,
        number: int,
        *,
        values: int = 1,
        hidden_layer: LayerOf = EnsembleLinear,
        last_layer: LayerOf = EnsembleLinear,
        hidden_sizes: tuple[int, ...] | None = None,
    ) -> nn.Module:
        """Returns an ensemble for values of a continuous action, ``(obs, act) -> [number, B, values]``.

        :param number: number of members.
        :param values: number of outputs of each member, for distributional learning.
        :param hidden_layer: makes a hidden layer, ``(number, inputs, outputs)``. Default: a linear layer.
        :param last_layer: makes the last layer, as ``hidden_layer``.
        :param hidden_sizes: sizes of the hidden layers; None for those of the configuration.
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        hidden, last = partial(hidden_layer, number), partial(last_layer, number)
        sizes = self._config.hidden_sizes if hidden_sizes is None else hidden_sizes
        return self._over_encoder(
            lambda size: continuous.Critic(
                self._net(size, action_shape=shape, concat=True, linear_layer=hidden, hidden_sizes=sizes),
                linear_layer=last,
                flatten_input=False,
                output_dim=values,
            )
        )

    def branches(self, choices: int) -> nn.Module:
        """Values of the choices in each dimension of a continuous action, ``(obs, state) -> ([B, D, choices], state)``.

        :param choices: how many there are in each dimension, 2 or more.
        :raises ValueError: the actions are not continuous, there are too few choices, or the network shall have a
            memory.
        """
        if choices < 2:
            raise ValueError(f"--choices must be at least 2, got {choices}")
        self._refuse("dueling")
        self._refuse("recurrent")
        dimensions, sizes = self.action_size, [*self._config.hidden_sizes]
        return self._over_encoder(
            lambda size: BranchingNet(size, dimensions, choices, sizes, activation=self._activation)
        )

    def state_value(self) -> nn.Module:
        """Returns a network for the value of a state, ``obs -> [B, 1]``, never recurrent."""
        return self._over_encoder(lambda size: discrete.Critic(self._net(size)))

    def autoencoder(self, latent_dim: int) -> VAE:
        """Returns an autoencoder of continuous actions.

        :param latent_dim: number of latent numbers.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        obs, act, sizes = self._vector_size(), self.action_size, self._config.hidden_sizes
        encoder, decoder = MLP(obs + act, 0, sizes), MLP(obs + latent_dim, act, sizes)
        return VAE(encoder, decoder, sizes[-1], latent_dim, 1.0).to(self._config.device)

    def perturbation(self, phi: float) -> Perturbation:
        """Returns a network that moves continuous actions.

        :param phi: the largest movement.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        net = self._net(self._vector_size() + self.action_size, action_shape=self.action_size)
        return Perturbation(net, 1.0, phi=phi).to(self._config.device)

    def discriminator(self) -> nn.Module:
        """Returns a network of one number for an observation and an action, concatenated.

        :raises ValueError: if observations are no vectors.
        """
        act = self.action_size if self.continuous else self.actions
        return MLP(self._vector_size() + act, 1, self._config.hidden_sizes, activation=nn.Tanh).to(self._config.device)

    def _vector_size(self) -> int:
        if not isinstance(self._obs_space, spaces.Box) or is_image(self._obs_space):
            raise self._refused("observations that are vectors", self._obs_space)
        if not self._config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        return size_of(self._obs_space.shape)

    def deterministic_actor(self) -> nn.Module:
        """Returns an actor with one action in [-1, 1] for each observation, ``(obs, state) -> ([B, size], state)``.

        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        return self._over_encoder(lambda size: continuous.Actor(self._body(size), shape))

    def normal_actor(
        self,
        *,
        conditioned_sigma: bool,
        log_std: float = 0.0,
        linear_layer: TLinearLayer = nn.Linear,
        bounded: bool = False,
    ) -> nn.Module:
        """Returns an actor of means and standard deviations, ``(obs, state) -> (([B, size], [B, size]), state)``.

        :param conditioned_sigma: whether standard deviations depend on the observation.
        :param log_std: first logarithm of standard deviations that do not.
        :param linear_layer: makes a hidden layer from its two sizes; not used with ``recurrent``.
        :param bounded: whether means are in [-1, 1].
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape

        def head(size: Any) -> nn.Module:
            body = self._body(size, linear_layer=linear_layer)
            actor = continuous.ActorProb(body, shape, unbounded=not bounded, conditioned_sigma=conditioned_sigma)
            if not conditioned_sigma:
                nn.init.constant_(actor.sigma_param, log_std)
            return actor

        return self._over_encoder(head)

    def actor(self, *, log_std: float) -> tuple[nn.Module, TDistFn]:
        """Returns an actor of parameters of a distribution over actions, and the class of the distribution.

        :param log_std: see :meth:`normal_actor`.
        :raises ValueError: if there is no distribution for the action space.
        """
        space = self._act_space
        if isinstance(space, spaces.Box) and len(space.shape) == 1:
            options: dict[str, Any] = {
                name: getattr(self._config, name, False) for name in ("conditioned_sigma", "bounded")
            }
            return self.normal_actor(log_std=log_std, **options), DiagonalNormal
        choices: list[int] = []
        if isinstance(space, spaces.Discrete):
            choices = [int(space.n)]
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            choices = space.nvec.tolist()
        else:
            raise self._refused("discrete, multi-discrete or continuous actions along one axis", space)
        actor = self._over_encoder(lambda size: discrete.Actor(self._body(size), sum(choices), softmax_output=False))
        return actor, Categorical if isinstance(space, spaces.Discrete) else partial(MultiCategorical, nvec=choices)

    def _box(self) -> Box[Any]:
        if not isinstance(self._act_space, spaces.Box):
            raise self._refused("continuous actions", self._act_space)
        return self._act_space

    def _refuse(self, flag: str) -> None:
        if getattr(self._config, flag, False):
            raise ValueError(f"--{flag} cannot be had with {self._title}: leave it out")

    def _refused(self, what: str, space: gym.Space[Any]) -> ValueError:
        return ValueError(f"{self._title} needs {what}, and those of {self._config.env} are {space}")

    def _net(self, size: Any, **more: Any) -> Net:
        usual: dict[str, Any] = {"hidden_sizes": self._config.hidden_sizes, "activation": self._activation}
        return Net(size, **usual | more)

    def _remembering(self, size: Any, outputs: int, **options: Any) -> Recurrent:
        units = self._config.hidden_sizes[-1]
        return Recurrent(1, size, outputs, hidden_layer_size=units, **options)

    def _body(self, size: Any, **options: Any) -> nn.Module:
        """Returns a network of features for an actor's head."""
        if self._config.recurrent:
            return self._remembering(size, self._config.hidden_sizes[-1])
        return self._net(size, **options)

    def _encoder(self) -> Encoder | None:
        space = self._obs_space
        if isinstance(space, spaces.Box) and not is_image(space):
            return None
        try:
            return Encoder(space)
        except TypeError:
            raise self._refused("observations that are arrays, numbers or dicts of these", space) from None

    def _over_encoder(self, head: Callable[[Any], nn.Module]) -> nn.Module:
        """Returns a head on observations that are vectors, or on encoded observations."""
        encoder = self._encoder()
        net = head(self._obs_space.shape) if encoder is None else Encoded(encoder, head(encoder.output_dim))
        return net.to(self._config.device)


class Encoder(nn.Module):
    """Encodes an observation as one vector: images by convolutions, numbers as one-hot, and dicts part by part.

    :param space: space of one observation.
    :raises TypeError: if there is no encoding for the space.

    >>> space = spaces.Dict(place=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,)))
    >>> encoder = Encoder(space)
    >>> encoder({"place": torch.tensor([1]), "speed": torch.tensor([[0.5, -0.5]])}).tolist()
    [[0.0, 1.0, 0.0, 0.5, -0.5]]
    """

    _anchor: torch.Tensor
    output_dim: int

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        self._space = space
        self.register_buffer("_anchor", torch.zeros(0), persistent=False)  # it has the device of the module
        self.parts: dict[str, Encoder] = {}
        self.convolutions: NatureCNN | None = None
        if isinstance(space, spaces.Dict):
            self.parts = {name: Encoder(part) for name, part in space.items()}
            self.by_name = nn.ModuleDict(self.parts)
            self.output_dim = sum(part.output_dim for part in self.parts.values())
        elif isinstance(space, spaces.Discrete):
            self.output_dim = int(space.n)
        elif is_image(space):
            channels, height, width = _channels_first(torch.empty(1, *(space.shape or ()))).shape[1:]
            scale = 1 / 255 if space.dtype == "uint8" else 1.0
            self.convolutions = NatureCNN(channels, height, width, features_only=True, scale=scale)
            self.output_dim = self.convolutions.output_dim
        elif isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
            self.output_dim = size_of(space.shape)
        else:
            raise TypeError(f"no network for {space}")

    def forward(self, obs: Any) -> torch.Tensor:
        """Compute features ``[batch, output_dim]``.

        :param obs: ``[batch, ...]``, an array, a tensor, or a dict or Batch of these.
        """
        if self.parts:
            return torch.cat([part(obs[name]) for name, part in self.parts.items()], dim=1)
        values = torch.as_tensor(obs, device=self._anchor.device)
        if isinstance(self._space, spaces.Discrete):
            numbers = values.long().flatten() - int(self._space.start)
            return functional.one_hot(numbers, self.output_dim).float()
        if self.convolutions is not None:
            features: torch.Tensor = self.convolutions(_channels_first(values))[0]
            return features
        return values.float().reshape(len(values), -1)


class Encoded(nn.Module):
    """A network on the features of an :class:`Encoder`.

    :param encoder: the encoder.
    :param net: the network, which gets features in place of observations.
    """

    def __init__(self, encoder: Encoder, net: nn.Module) -> None:
        super().__init__()
        self.encoder, self.net = encoder, net

    def forward(self, obs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output of ``net`` for encoded observations.

        :param obs: observations, ``[batch, ...]``.
        :param args: passed to ``net``.
        :param kwargs: passed to ``net``.
        """
        return self.net(each_step(self.encoder, obs), *args, **kwargs)


def _without_mask(obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> gym.Space[Any]:
    """Returns the space of what networks get: ``obs`` of a dict that also has a ``mask`` of counted actions."""
    masked = isinstance(obs_space, spaces.Dict) and {"obs", "mask"} <= obs_space.keys()
    return obs_space["obs"] if masked and not isinstance(act_space, spaces.Box) else obs_space  # type: ignore[index]


def is_image(space: gym.Space[Any]) -> bool:
    """Returns whether observations are images that are large enough for convolutions, with channels first or last.

    :param space: space of one observation.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    return min(_channels_first(torch.empty(1, *space.shape)).shape[2:]) >= _SMALLEST_IMAGE


def _channels_first(images: torch.Tensor) -> torch.Tensor:
    """Returns images as ``[batch, channels, height, width]``; the smaller outer axis is taken for the channels."""
    return images.permute(0, 3, 1, 2) if images.shape[3] < images.shape[1] else images


def initialize_orthogonally(actor: nn.Module, *critics: nn.Module) -> None:
    """Initialise weights orthogonally, and the actor's last layer near zero (arXiv:2006.05990, section 3.2).

    :param actor: the actor.
    :param critics: other networks.
    """
    for layer in nn.ModuleList([actor, *critics]).modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, 2**0.5)
            nn.init.zeros_(layer.bias)
    head: Any = actor.net if isinstance(actor, Encoded) else actor
    last = head.mu if isinstance(head, continuous.ActorProb) else head.last
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(0.01)
