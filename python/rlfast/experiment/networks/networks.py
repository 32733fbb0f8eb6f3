"""The networks of runs, for the observation and action spaces of an environment."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.encoder import Encoded, Encoder, ReducedLinear, is_image
from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical
from rlfast.utils.arguments.settings import settings_of
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net._generative import VAE, Perturbation
from rlfast.utils.net.atari import layer_init
from rlfast.utils.net.common import MLP, BranchingNet, EnsembleLinear, Net, Recurrent, SimbaNet, size_of
from rlfast.utils.net.ensemble import EnsembleLayerNorm
from rlfast.utils.optim import adam, adamw, radam

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from gymnasium.spaces import Box

    from rlfast.data import ReplayBuffer
    from rlfast.policy import Alpha, BasePolicy
    from rlfast.policy.rollout import TDistFn
    from rlfast.utils.net.common import TLinearLayer
    from rlfast.utils.optim import OptimizerFactory

    LayerOf = Callable[[int, int, int], nn.Module]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
"""The activations of hidden layers, by the names that settings give them."""


class Networks:
    """Makes networks for observations that are vectors, images, numbers or dicts of these, and for any actions.

    Images pass through convolutions, and the parts of dicts are encoded one by one. Of a dict with ``obs`` and a
    ``mask`` of discrete actions, networks get ``obs``. The features pass through layers of the ``hidden_sizes`` of the
    settings. Networks share no parameters, but an actor and its critic may: see :meth:`actor_critic`.

    :param config: the settings of the run.
    :param title: the title of the algorithm, for errors.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    :param data: the transitions of an expert, for an algorithm that imitates it and also acts; None for others.
    """

    def __init__(
        self,
        config: Any,
        title: str,
        obs_space: gym.Space[Any],
        act_space: gym.Space[Any],
        data: ReplayBuffer | None = None,
    ) -> None:
        self.config, self.data = config, data
        self._title = title
        self._activation = ACTIVATIONS[self._chosen("activation", "relu")]
        self._obs_space, self._act_space = _without_mask(obs_space, act_space), act_space

    def _chosen(self, name: str, usual: object = False) -> Any:
        """Returns a setting, or ``usual`` for an algorithm that does not have it."""
        return getattr(self.config, name, usual)

    def _refuse_setting(self, flag: str) -> None:
        if self._chosen(flag):
            raise ValueError(f"{self._title} does not support --{flag}: leave it out")

    def _space_error(self, what: str, space: gym.Space[Any]) -> ValueError:
        return ValueError(f"{self._title} needs {what}, and those of {self.config.env} are {space}")

    def _vector_size(self) -> int:
        if not isinstance(self._obs_space, spaces.Box) or is_image(self._obs_space):
            raise self._space_error("observations that are vectors", self._obs_space)
        if not self.config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        return size_of(self._obs_space.shape)

    def _net(self, size: Any, **more: Any) -> nn.Module:
        given = {"hidden_sizes": self.config.hidden_sizes, "activation": self._activation, **more}
        if self._chosen("network", "mlp") != "mlp":
            self._vector_size()
            return SimbaNet(size, **given)
        is_plain = given.get("linear_layer", nn.Linear) is nn.Linear and size not in given["hidden_sizes"]
        if self._dtype != torch.float32 and is_image(self._obs_space) and given["hidden_sizes"] and is_plain:
            given["linear_layer"] = partial(_linear_layer, size, self._dtype)
        return Net(size, **given)

    def _critic_sizes(self) -> tuple[int, ...]:
        sizes: tuple[int, ...] = self._chosen("critic_hidden_sizes", None) or self.config.hidden_sizes
        return sizes

    def _recurrent(self, size: Any, outputs: int, **options: Any) -> Recurrent:
        units = self.config.hidden_sizes[-1]
        return Recurrent(1, size, outputs, hidden_layer_size=units, **options)

    def _body(self, size: object, **options: Any) -> nn.Module:
        """Returns a network of features for a head."""
        if self.config.recurrent:
            return self._recurrent(size, self.config.hidden_sizes[-1])
        return self._net(size, **options)

    def _encoder(self, **convolutions: Any) -> Encoder | None:
        space = self._obs_space
        if isinstance(space, spaces.Box) and not is_image(space):
            return None
        try:
            return Encoder(space, **self._convolutions(), **convolutions)
        except TypeError:
            raise self._space_error("observations that are arrays, numbers or dicts of these", space) from None

    def _convolutions(self) -> dict[str, Any]:
        given: dict[str, Any] = {"channels": self.config.channels, "dtype": self._dtype}
        if self._chosen("orthogonal"):
            given["layer_init"] = layer_init
        return given

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.config.dtype)
        return dtype

    def _over_encoder(self, head: Callable[[Any], nn.Module], **convolutions: Any) -> nn.Module:
        """Returns a head on observations that are vectors, or on encoded observations.

        :param head: makes it from the shape of an observation, or from the number of features.
        :param convolutions: arguments of :class:`~rlfast.utils.net.atari.NatureCNN` beside those of the settings.
        """
        encoder = self._encoder(**convolutions)
        net = head(self._obs_space.shape) if encoder is None else Encoded(encoder, head(encoder.output_dim))
        return net.to(self.config.device)

    @property
    def continuous(self) -> bool:
        """Whether the action space is a Box."""
        return isinstance(self._act_space, spaces.Box)

    def policy(self, **parts: object) -> BasePolicy:
        """Returns the policy, with the spaces and with all settings that its constructor has.

        :param parts: the other arguments: networks, optimizers and what else is no setting.
        """
        name = self.config.policy
        given = {"action_space": self._act_space, "observation_space": self._obs_space, **self.config.policy_arguments}
        if any(one.name == "action_scaling" for one in settings_of(f"rlfast.policy.{name}")):
            given["action_scaling"] = self.continuous
        policy: BasePolicy = getattr(import_module("rlfast.policy"), name)(**given | parts)
        return policy

    def adam(self, learning_rate: float, **options: float | tuple[float, float]) -> OptimizerFactory:
        """Returns a factory of optimizers, with the weight decay of the settings; see
        :func:`~rlfast.utils.optim.adam`.

        :param learning_rate: the learning rate.
        :param options: other arguments of Adam.
        """
        decay = self._chosen("decay", 0.0)
        return adamw(learning_rate, weight_decay=decay, **options) if decay else adam(learning_rate, **options)

    def optim(self) -> OptimizerFactory:
        """Returns a factory of optimizers with the ``learning_rate`` of the settings, their ``adam_eps``, and their
        ``optimizer``.
        """
        eps = self._chosen("adam_eps", None)
        make = radam if self._chosen("optimizer", "adam") == "radam" else self.adam
        return make(self.config.learning_rate, **{} if eps is None else {"eps": eps})

    def alpha(self) -> Alpha:
        """Returns the temperature of the settings, for continuous actions."""
        made: Alpha = self.config.make_alpha(-float(self.action_size))
        return made

    def two(self, critic: Callable[[], nn.Module]) -> dict[str, Any]:
        """Returns two critics and their optimizers, by the names that policies have for them.

        :param critic: makes one.
        """
        return {"critic": critic(), "critic_optim": self.optim(), "critic2": critic(), "critic2_optim": self.optim()}

    def initialize(self, actor: nn.Module, *critics: nn.Module) -> None:
        """Initializes networks by :func:`initialize_orthogonally`.

        :param actor: the actor.
        :param critics: other networks.
        """
        initialize_orthogonally(actor, *critics)

    def actor(self) -> tuple[nn.Module, TDistFn]:
        """Returns an actor of parameters of a distribution over actions, and the class of the distribution.

        :raises ValueError: if there is no distribution for the action space.
        """
        space = self._act_space
        if isinstance(space, spaces.Box) and len(space.shape) == 1:
            return self.normal_actor(), DiagonalNormal
        choices: list[int] = []
        if isinstance(space, spaces.Discrete):
            choices = [int(space.n)]
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            choices = space.nvec.tolist()
        else:
            raise self._space_error("discrete, multi-discrete or continuous actions along one axis", space)
        actor = self._over_encoder(lambda size: discrete.Actor(self._body(size), sum(choices), softmax_output=False))
        return actor, Categorical if isinstance(space, spaces.Discrete) else partial(MultiCategorical, nvec=choices)

    def actor_critic(self) -> tuple[nn.Module, TDistFn, nn.Module]:
        """Returns an actor, the class of its distribution, and a critic, with orthogonal first weights.

        With ``shared_features``, the critic is one layer on the features of the actor: what encodes observations and
        the hidden layers are in both. The networks are separate otherwise.

        :raises ValueError: if there is no distribution for the action space.
        """
        if not self._chosen("shared_features"):
            critic = self.state_value()
            actor, dist_fn = self.actor()
        else:
            actor, dist_fn = self.actor()
            head: Any = actor.net if isinstance(actor, Encoded) else actor
            critic = discrete.Critic(head.preprocess)
            critic = Encoded(actor.encoder, critic) if isinstance(actor, Encoded) else critic
            critic = critic.to(self.config.device)
        self.initialize(actor, critic)
        return actor, dist_fn, critic

    def state_value(self) -> nn.Module:
        """Returns a network for the value of a state, ``obs -> [B, 1]``, never recurrent."""
        return self._over_encoder(lambda size: discrete.Critic(self._net(size)))

    def discriminator(self) -> nn.Module:
        """Returns a network of one number for an observation and an action, concatenated.

        :raises ValueError: if observations are no vectors.
        """
        act = self.action_size if self.continuous else self.actions
        return MLP(self._vector_size() + act, 1, self.config.hidden_sizes, activation=nn.Tanh).to(self.config.device)

    # -- discrete actions ----------------------------------------------------------------------------------------------

    @property
    def actions(self) -> int:
        """How many discrete actions there are.

        :raises ValueError: the actions are not discrete.
        """
        if not isinstance(self._act_space, spaces.Discrete):
            raise self._space_error("discrete actions", self._act_space)
        return int(self._act_space.n)

    def action_values(self, *, linear_layer: Callable[[int, int], nn.Module] = nn.Linear) -> nn.Module:
        """Returns a network for values of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        Settings decide whether it is dueling and whether its layers are normalized. With a setting ``num_atoms``, it
        gives probabilities of values ``[B, actions, num_atoms]``; with ``num_quantiles``, ``[B, actions,
        num_quantiles]``.

        :param linear_layer: makes the layers of the streams, or all layers without streams.
        :raises ValueError: if actions are not discrete, or a recurrent network should have atoms or be normalized.
        """
        actions, dueling = self.actions, self._chosen("dueling")
        softmax = self._chosen("num_atoms", 0) > 0
        atoms = self._chosen("num_atoms" if softmax else "num_quantiles", 1)
        norm_layer = nn.LayerNorm if self._chosen("layer_norm") else None
        convolutions = {} if norm_layer is None else {"norm_layer": partial(nn.GroupNorm, 1)}
        if norm_layer is not None and self.config.recurrent:
            raise ValueError("--layer-norm and --recurrent exclude each other: add --no-layer-norm")
        if atoms > 1 and self.config.recurrent:
            raise ValueError(f"{self._title} does not support --recurrent: leave it out")
        stream: dict[str, Any] = {"hidden_sizes": self.config.hidden_sizes[-1:], "linear_layer": linear_layer}
        return self._over_encoder(
            lambda size: (
                self._recurrent(size, actions, dueling_param=(stream, stream) if dueling else None)
                if self.config.recurrent
                else self._net(
                    size,
                    action_shape=actions,
                    num_atoms=atoms,
                    softmax=softmax,
                    dueling_param=(stream, stream) if dueling else None,
                    linear_layer=nn.Linear if dueling else linear_layer,
                    norm_layer=norm_layer,
                )
            ),
            **convolutions,
        )

    def features(self, hidden_sizes: tuple[int, ...] | None = None) -> tuple[nn.Module, int]:
        """Features of observations, ``(obs, state) -> ([B, size], state)``, and their size.

        :param hidden_sizes: sizes of the hidden layers; None for those of an actor.
        :raises ValueError: there is no hidden layer, or the network shall be dueling.
        """
        if not self.config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        self._refuse_setting("dueling")
        sizes = self.config.hidden_sizes if hidden_sizes is None or self.config.recurrent else hidden_sizes
        return self._over_encoder(lambda size: self._body(size, hidden_sizes=sizes)), sizes[-1]

    def choice_actor(self) -> nn.Module:
        """Returns an actor of logits of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Actor, softmax_output=False, action_shape=self.actions)

    def choice_values(self) -> nn.Module:
        """Returns a critic of all discrete actions, ``obs -> [B, actions]``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Critic, self._critic_sizes(), last_size=self.actions)

    def quantiles(
        self, head_sizes: Sequence[int], *, cosines: int, kind: type[nn.Module] = discrete.ImplicitQuantileNetwork
    ) -> nn.Module:
        """Returns a network of quantiles of the returns of discrete actions.

        :param head_sizes: sizes of the hidden layers above the embedding of levels.
        :param cosines: number of cosines of that embedding.
        :param kind: the class of the network. Default: one that draws the levels itself.
        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(kind, action_shape=self.actions, hidden_sizes=head_sizes, num_cosines=cosines)

    def _choices(
        self, head: Callable[..., nn.Module], body_sizes: tuple[int, ...] | None = None, **options: Any
    ) -> nn.Module:
        """Returns a head on features."""
        features, size = self.features(body_sizes)
        return head(features, preprocess_net_output_dim=size, device=self.config.device, **options)

    # -- continuous actions --------------------------------------------------------------------------------------------

    @property
    def action_size(self) -> int:
        """The number of elements of a continuous action.

        :raises ValueError: if actions are not continuous.
        """
        return size_of(self._box().shape)

    def _box(self) -> Box[Any]:
        space = self._act_space
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise self._space_error("continuous actions", space)
        if not space.shape:
            raise self._space_error("actions along at least one axis", space)
        return space

    def deterministic_actor(self) -> nn.Module:
        """Returns an actor with one action in [-1, 1] for each observation, ``(obs, state) -> ([B, size], state)``.

        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        return self._over_encoder(lambda size: continuous.Actor(self._body(size), shape))

    def normal_actor(self, *, linear_layer: TLinearLayer = nn.Linear, **chosen: float) -> nn.Module:
        """Returns an actor of means and standard deviations, ``(obs, state) -> (([B, size], [B, size]), state)``.

        :param linear_layer: makes a hidden layer from its two sizes; not used with ``recurrent``.
        :param chosen: values in place of those of the settings: ``conditioned_sigma``, whether standard deviations
            depend on the observation (True for an algorithm without the setting); ``log_std``, the first logarithm of
            those that do not; ``bounded``, whether means are in [-1, 1].
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        usual = {"conditioned_sigma": True, "log_std": 0.0, "bounded": False}
        conditioned_sigma, log_std, bounded = (chosen.get(name, self._chosen(name, usual[name])) for name in usual)
        options: dict[str, Any] = {"unbounded": not bounded, "conditioned_sigma": conditioned_sigma}
        if self._chosen("sde"):
            options |= {"conditioned_sigma": False, "sde": self.config.make_sde()}
            options["clip_mean"] = self.config.clip_mean

        def head(size: object) -> nn.Module:
            actor = continuous.ActorProb(self._body(size, linear_layer=linear_layer), shape, **options)
            if actor.sigma is None:
                nn.init.constant_(actor.sigma_param, log_std)
            return actor

        return self._over_encoder(head)

    def action_value(self) -> nn.Module:
        """Returns a network for the value of a continuous action, ``(obs, act) -> [B, 1]``, never recurrent.

        :raises ValueError: if actions are not continuous.
        """
        options: dict[str, Any] = {"action_shape": self._box().shape, "concat": True}
        options["hidden_sizes"] = self._critic_sizes()
        if self._chosen("layer_norm"):
            options["norm_layer"] = nn.LayerNorm
        return self._over_encoder(lambda size: continuous.Critic(self._net(size, **options)))

    def action_values_by(
        self, number: int, *, values: int = 1, hidden_layer: LayerOf | None = None, last_layer: LayerOf = EnsembleLinear
    ) -> nn.Module:
        """Returns an ensemble for values of a continuous action, ``(obs, act) -> [number, B, values]``.

        :param number: number of members.
        :param values: number of outputs of each member, for distributional learning.
        :param hidden_layer: makes a hidden layer, ``(number, inputs, outputs)``. Default: a linear layer, which is
            normalized with the setting ``layer_norm``, except in SimBa's blocks, which normalize.
        :param last_layer: makes the last layer, as ``hidden_layer``.
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        is_simba = self._chosen("network", "mlp") == "simba"
        usual = _normalized_layer if self._chosen("layer_norm") and not is_simba else EnsembleLinear
        hidden, last = partial(hidden_layer or usual, number), partial(last_layer, number)
        options: dict[str, Any] = {"linear_layer": hidden, "hidden_sizes": self._critic_sizes()}
        if is_simba:
            options["norm_layer"] = partial(EnsembleLayerNorm, number)
        return self._over_encoder(
            lambda size: continuous.Critic(
                self._net(size, action_shape=shape, concat=True, **options),
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
        self._refuse_setting("dueling")
        self._refuse_setting("recurrent")
        dimensions, sizes = self.action_size, [*self.config.hidden_sizes]
        return self._over_encoder(
            lambda size: BranchingNet(size, dimensions, choices, sizes, activation=self._activation)
        )

    def autoencoder(self, latent_dim: int) -> VAE:
        """Returns an autoencoder of continuous actions.

        :param latent_dim: number of latent numbers.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        obs, act, sizes = self._vector_size(), self.action_size, self.config.hidden_sizes
        encoder, decoder = MLP(obs + act, 0, sizes), MLP(obs + latent_dim, act, sizes)
        return VAE(encoder, decoder, sizes[-1], latent_dim, 1.0).to(self.config.device)

    def perturbation(self, phi: float) -> Perturbation:
        """Returns a network that moves continuous actions.

        :param phi: the largest movement.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        net = self._net(self._vector_size() + self.action_size, action_shape=self.action_size)
        return Perturbation(net, 1.0, phi=phi).to(self.config.device)


def _linear_layer(features: int, dtype: torch.dtype, inputs: int, outputs: int) -> nn.Module:
    """Returns a linear layer, which computes in a dtype if its inputs are the features of images."""
    return ReducedLinear(inputs, outputs, dtype) if inputs == features else nn.Linear(inputs, outputs)


def _normalized_layer(number: int, inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(EnsembleLinear(number, inputs, outputs), EnsembleLayerNorm(number, outputs))


def initialize_orthogonally(actor: nn.Module, *critics: nn.Module) -> None:
    """Initialise weights orthogonally, and the actor's last layer near zero (arXiv:2006.05990, section 3.2).

    Weights of a convolution are taken as a matrix with a row for each output channel.

    :param actor: the actor.
    :param critics: other networks.
    """
    for layer in nn.ModuleList([actor, *critics]).modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer_init(layer)
    head: Any = actor.net if isinstance(actor, Encoded) else actor
    last = head.mu if isinstance(head, continuous.ActorProb) else head.last
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(0.01)


def _without_mask(obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> gym.Space[Any]:
    """Returns the space of what networks get: ``obs`` of a dict that also has a ``mask`` of counted actions."""
    masked = isinstance(obs_space, spaces.Dict) and {"obs", "mask"} <= obs_space.keys()
    return obs_space["obs"] if masked and not isinstance(act_space, spaces.Box) else obs_space  # type: ignore[index]
