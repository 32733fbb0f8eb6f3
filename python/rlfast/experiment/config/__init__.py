"""The settings of runs, as options of the command line and as ``config.json``.

Those of every run come first, then those of families of algorithms. :func:`settings` adds those of a policy's
constructor.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

import numpy as np

from rlfast.data.plain_data import summary
from rlfast.functional.schedules import Exponential, Linear
from rlfast.utils.arguments.settings import Setting, settings_of
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    did_you_mean,
    validate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rlfast.experiment.networks import Networks
    from rlfast.exploration import BaseNoise
    from rlfast.policy import Alpha, BasePolicy
    from rlfast.utils.net.continuous import StateDependentNoise

Presets: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Settings that are known to work and are not the defaults, by environment."""

# -- making settings from the constructor of a policy ------------------------------------------------------------------

C = TypeVar("C")

OLD_NAMES: Final = {
    "atoms": "num_atoms",
    "cosines": "num_cosines",
    "cql_alpha_learning_rate": "cql_alpha_lr",
    "critic_iters": "optim_critic_iters",
    "double": "is_double",
    "entropy_coef": "ent_coef",
    "fractions": "num_fractions",
    "gamma": "discount_factor",
    "huber": "clip_loss_grad",
    "n_step": "estimation_step",
    "normalize_advantage": "advantage_normalization",
    "online_samples": "online_sample_size",
    "quantiles": "num_quantiles",
    "samples": "sample_size",
    "scale_returns": "reward_normalization",
    "target_samples": "target_sample_size",
}
"""Names that settings had in version 0.1, and those of the policies' constructors. Both are understood everywhere: on
the command line, in ``config.json``, and by a class of settings, where it has no setting of the old name."""

DECIDED: Final = frozenset({"action_bound_method", "action_scaling"})
"""Settings of policies that follow from the action space."""


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Returns the annotations of all fields by name, which are texts that take longer to read than to check values by.

    :param kind: a class of settings.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def renamed(kind: type, given: Mapping[str, object]) -> dict[str, Any]:
    """Returns settings by the names that they have now. A value by an old name replaces that by the new one.

    :param kind: a class of settings.
    :param given: the settings, by old or new names.
    """
    known = {one.name for one in fields(kind)}
    old = {name for name in given if name not in known and OLD_NAMES.get(name) in known}
    return {name: given[name] for name in given if name not in old} | {OLD_NAMES[name]: given[name] for name in old}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings(policy: str | None = None, *, without: Sequence[str] = ()) -> Callable[[type[C]], type[C]]:
    """Makes a class one of settings: a frozen dataclass with the settings of a policy beside its own.

    A class attribute without an annotation is the default of the setting of its name, be it the policy's or inherited.

    :param policy: the name of the policy in :mod:`rlfast.policy`. Default: none.
    :param without: settings of the policy that runs do not have.
    :raises TypeError: if the class declares a setting of the policy again, or has a default of none.
    """

    def declare(kind: type[C]) -> type[C]:
        own: dict[str, Any] = vars(kind).get("__annotations__", {})
        inherited = {
            name: hint for base in kind.__bases__ if is_dataclass(base) for name, hint in hints_of(base).items()
        }
        added = {name: hint for name, hint in inherited.items() if name in vars(kind) and name not in own}
        if policy is not None:
            added |= _add_policy(kind, policy, own.keys() | inherited.keys(), without)
            values = {name for name, one in vars(kind).items() if name[0] != "_" and not callable(one)}
            if unknown := values - {"policy", "policy_settings", *own, *added}:
                raise TypeError(f"{kind.__module__} has defaults of what is no setting: {sorted(unknown)}")
        kind.__annotations__ = added | own
        _understand_old_names(dataclass(frozen=True, kw_only=True)(kind))
        return kind

    return declare


def _add_policy(kind: Any, policy: str, declared: AbstractSet[str], without: Sequence[str]) -> dict[str, Any]:
    """Adds what runs have of a policy's settings to a class, with their defaults, and returns annotations."""
    found = [one for one in settings_of(f"rlfast.policy.{policy}") if one.has_effect]
    if again := sorted(declared & {one.name for one in found}):
        raise TypeError(f"{kind.__module__} declares {', '.join(again)} again, which {policy} declares")
    kind.policy = policy
    kind.policy_settings = tuple(one for one in found if one.name not in DECIDED.union(without))
    for one in kind.policy_settings:
        setattr(kind, one.name, getattr(kind, one.name, one.default))
    return {one.name: one.hint for one in kind.policy_settings}


def _understand_old_names(kind: Any) -> None:
    init = kind.__init__

    @wraps(init)
    def by_any_name(self: object, **given: object) -> None:
        values, names = renamed(type(self), given), [one.name for one in fields(type(self))]  # type: ignore[arg-type]
        if unknown := [name for name in values if name not in names]:
            raise TypeError(f"there is no setting {unknown[0]!r}{did_you_mean(unknown, names)}")
        init(self, **values)

    kind.__init__ = by_any_name


# -- every run ---------------------------------------------------------------------------------------------------------

Activation: TypeAlias = Literal["relu", "tanh", "elu", "gelu", "silu"]
"""The activation of hidden layers."""

Schedule: TypeAlias = Literal["constant", "linear", "exponential"]
"""How a number changes in the course of a run, see :meth:`RunConfig.scheduled`."""


def stream_seed(seed: int, name: str) -> int:
    """Returns the seed of a random stream of a run.

    :param seed: the seed of the run.
    :param name: the name of the stream.

    >>> stream_seed(0, "sampler") == stream_seed(0, "sampler"), stream_seed(0, "sampler") == stream_seed(0, "policy")
    (True, False)
    """
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


class RunWarning(UserWarning):
    """A warning of something that a run could not do; the run continues."""


def flag(name: str) -> str:
    """Returns the option of the command line for a field.

    >>> flag("max_steps")
    '--max-steps'
    """
    return "--" + name.replace("_", "-")


@settings()
class RunConfig:
    """The settings of every run. Annotations define the values that a field accepts."""

    policy: ClassVar[str]
    """The name of the policy in :mod:`rlfast.policy`, of a run with an algorithm."""
    policy_settings: ClassVar[tuple[Setting, ...]] = ()
    """Those of its settings that are fields, by the names of its constructor."""
    reads_rows: ClassVar[bool] = False
    """Whether learning reads rows of the buffer beside those of a sample, which only one process has."""

    ray: str | None = None
    """Spreads the run over a Ray cluster: its address, HOST:PORT; auto, for the one that runs on this machine, or else
    a new one; local, for a new one; or in-process, for the same parts without Ray. Default: one process."""
    collectors: PositiveInt = 1
    """Number of collectors, with --ray. They share the num_envs environments; off-policy, each has at least one."""
    shards: PositiveInt = 1
    """Number of parts of the replay buffer, with --ray, each in a process of its own."""
    learners: PositiveInt = 1
    """Number of learners, with --ray. They share batches, and average their gradients."""
    chunk_steps: PositiveInt = 64
    """Environment steps that a collector takes before it sends them, with --ray."""
    weights_every: PositiveInt = 16
    """Gradient steps between two broadcasts of the weights, with --ray: collectors begin with weights no older."""
    insert_ahead: PositiveInt | None = None
    """Environment steps that collectors may be ahead of learning, with --ray. Default: three times the chunk_steps of
    all collectors, and at least twice collect_steps."""
    env: str = "CartPole-v1"
    """Id of the Gymnasium environment. One of your own: MODULE:ID, where importing MODULE registers ID."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, such as gravity=9.8 map='{"size": 5}': the values are JSON, or else texts."""
    wrappers: tuple[str, ...] = ()
    """Wrappers around the environment, such as gymnasium.wrappers:FlattenObservation, the innermost first. Arguments
    follow in parentheses, all in quotes: "gymnasium.wrappers:ResizeObservation(shape=(84, 84))"."""
    seed: NonNegativeInt = 0
    """Seed of all random numbers: the same seed on the same machine gives the same parameters. --seeds 0-4 in its place
    trains several."""
    env_seeds: tuple[NonNegativeInt, NonNegativeInt] | None = None
    """Seeds of the training and of the test environments. Default: that of all random numbers, for both."""
    max_steps: PositiveInt = 100_000
    """Exact number of environment steps of all training environments together, with random steps, without tests."""
    stop_return: float | None = None
    """Mean return of a test at which the run stops early."""
    require_stop_return: bool = False
    """Whether a run that ends below stop_return counts as failed (exit status 1)."""
    run_dir: Path | None = None
    """Folder of the run, new or empty. Default: runs/ALGO-ENV-seedSEED, with a number if that exists."""
    num_envs: PositiveInt = 8
    """Number of training environments, which are stepped together."""
    eval_episodes: PositiveInt = 20
    """Number of episodes of a test."""
    eval_envs: PositiveInt = 20
    """Number of test environments, which share the episodes evenly."""
    eval_interval: PositiveInt = 2_000
    """Environment steps between two tests; each is followed by a checkpoint."""
    backend: Literal["auto", "native", "in-process", "process"] = "auto"
    """Backend that steps the environments. auto: native (Rust) if it has the environment, else in-process."""
    env_backend: Literal["auto", "ale", "gymnasium", "envpool", "ale-vector"] = "auto"
    """What steps Atari games: rlfast's environment (ale), Gymnasium's with wrappers, EnvPool, or ale-py's vector
    environment; see the documentation. auto: ale."""
    normalize_obs: bool = False
    """Whether observations are scaled to mean 0 and variance 1 by the statistics of training so far. Tests use the same
    statistics and do not change them. A replay buffer keeps rows as they were scaled when they were collected."""
    normalize_reward: bool = False
    """Whether rewards of training are divided by the standard deviation of discounted returns so far. Logs, tests and
    stop_return are of the environment's own rewards."""
    save_buffer: bool = True
    """Whether checkpoints contain the replay buffer; without it, a resumed run fills a new one."""
    device: str = "cpu"
    """Device of the networks: cpu, cuda, cuda:1, ..."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What convolutions, and the layer after them, compute in; weights and all else are float32. bfloat16 is faster on
    processors that have instructions for it (avx512_bf16, AMX; GPUs), and only there."""
    threads: PositiveInt = 1
    """Number of threads of PyTorch; small networks are fastest with one."""
    progress: bool = True
    """Whether to show a progress bar."""
    video_interval: PositiveInt | None = None
    """Number of environment steps between films of an episode, in the folder videos of the run; needs the extra video.
    Default: no films."""
    trackers: tuple[Literal["mlflow", "trackio", "wandb"], ...] = ()
    """Trackers that get the logs too: mlflow, trackio, wandb."""
    hidden_sizes: tuple[PositiveInt, ...] = (256, 256)
    """Number of units of each hidden layer."""
    channels: tuple[PositiveInt, PositiveInt, PositiveInt] = (32, 64, 64)
    """Number of output channels of each of the three convolutions that pictures pass through before hidden layers."""
    recurrent: bool = False
    """Whether networks are recurrent: an LSTM, with as many units as the last hidden layer, instead of hidden layers.
    """
    learning_rate: NonNegativeFloat = 3e-4
    """Learning rate of Adam."""
    lr_schedule: Schedule = "constant"
    """Schedule of all learning rates: constant; linear to 0 at max_steps; or exponential, see schedule_factor."""
    schedule_factor: PositiveFloat = 0.1
    """What exponential schedules multiply a number by in the course of max_steps."""
    batch_size: PositiveInt = 256
    """Number of rows of a gradient step."""
    collect_steps: PositiveInt = 8
    """Number of environment steps between updates."""

    def __post_init__(self) -> None:
        """Checks the types and ranges of all fields.

        :raises TypeError: if a value has another type than its field.
        :raises ValueError: if a value is out of range, or contradicts another one.
        """
        kind: Any = type(self)
        hints = hints_of(kind)
        for one in fields(self):
            value = validate(flag(one.name), getattr(self, one.name), hints[one.name])
            object.__setattr__(self, one.name, value)
        several = {name: getattr(self, name) for name in ("collectors", "shards", "learners")}
        named = ", ".join(f"--{name} {number}" for name, number in several.items() if number > 1)
        if self.ray is None and named:
            raise ValueError(f"{named} spreads a run over processes, and --ray says where they are: --ray auto")
        if self.require_stop_return and self.stop_return is None:
            raise ValueError("--require-stop-return needs a --stop-return")
        if self.recurrent and not self.hidden_sizes:
            raise ValueError("--recurrent needs a size of its memory in --hidden-sizes")
        if self.collect_steps % self.num_envs:
            raise ValueError(f"--collect-steps {self.collect_steps} must be a multiple of --num-envs {self.num_envs}")

    def __getattr__(self, name: str) -> Any:
        """Returns a setting by its old name.

        :param name: the name, see :data:`OLD_NAMES`.
        """
        if OLD_NAMES.get(name) in type(self).__dataclass_fields__:
            return getattr(self, OLD_NAMES[name])
        raise AttributeError(f"{type(self).__qualname__} has no setting {name!r}")

    def build(self, networks: Networks) -> BasePolicy:
        """Makes the policy: here one with a network of action values.

        :param networks: makes the networks and the optimizers.
        """
        return networks.policy(model=networks.action_values(), optim=networks.optim())

    def set_schedules(self, policy: object, env_step: int) -> None:
        """Sets the values of a policy that change with the environment steps, but for its learning rates.

        :param policy: the policy.
        :param env_step: the number of environment steps so far.
        """

    @property
    def collects(self) -> bool:
        """Whether the run collects transitions. If not, its steps are gradient steps, and its logs count rows."""
        return True

    @property
    def steps(self) -> int:
        """The number of environment steps, or of gradient steps of a run that does not collect."""
        return self.max_steps

    @property
    def gradient_steps(self) -> float:
        """About how many gradient steps the whole run makes."""
        return self.max_steps

    @property
    def policy_arguments(self) -> dict[str, Any]:
        """The arguments of the policy's constructor that are settings."""
        return {one.name: getattr(self, one.name) for one in self.policy_settings}

    def scheduled(self, schedule: Schedule, start: float, env_step: int) -> float:
        """Returns the number after ``env_step`` environment steps that begins at ``start`` and follows a schedule.

        >>> config = RunConfig(max_steps=100, schedule_factor=0.25)
        >>> [config.scheduled(schedule, 8.0, 50) for schedule in ("constant", "linear", "exponential")]
        [8.0, 4.0, 4.0]
        """
        if schedule == "linear":
            return Linear(start, 0.0, self.max_steps)(env_step)
        if schedule == "exponential":
            return start * Exponential(1.0, self.schedule_factor, self.max_steps, self.schedule_factor)(env_step)
        return start

    def to_json(self) -> str:
        """Returns all fields as JSON.

        >>> RunConfig.from_json(RunConfig(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the settings from the result of :meth:`to_json`.

        :param text: the JSON.
        :raises ValueError: if the text is not JSON, has unknown fields, or values that do not fit their fields.
        """
        try:
            values = dict(json.loads(text))
            if unknown := values.keys() - {one.name for one in fields(cls)} - OLD_NAMES.keys():
                raise ValueError(f"unknown fields {sorted(unknown)} in a configuration")
            now = renamed(cls, values)  # an old name that is left had one value, or no effect
            return cls(**{name: value for name, value in now.items() if name in cls.__dataclass_fields__})
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not the settings of a run: {summary(error)}") from error


# -- noise of exploration ----------------------------------------------------------------------------------------------


@settings()
class StateDependentConfig(RunConfig):
    """The settings of runs with normal distributions of actions that can explore by noise which lasts."""

    sde: bool = False
    """Whether continuous actions explore by a random function of the observation that stays the same for several steps
    (gSDE, arXiv:2005.05719), and not by noise that is independent in each step."""
    sde_sample_freq: int = -1
    """Number of steps of an environment after which that function is drawn anew, with sde; -1 draws it for each
    episode, and for each roll-out of an algorithm that learns from these."""
    sde_log_std: FiniteFloat = -2.0
    """First logarithm of the standard deviations of that function's weights, with sde."""
    clip_mean: ClassVar[float | None] = None
    """The largest mean of actions with ``sde``, where means have no other bound; None for no bound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sde_sample_freq < 1 and self.sde_sample_freq != -1:
            raise ValueError(
                f"--sde-sample-freq must be at least 1, or -1 for episodes and roll-outs, got {self.sde_sample_freq}"
            )

    def make_sde(self) -> Callable[[int, int], StateDependentNoise] | None:
        """Returns what makes the noise of an actor; None without ``sde``."""
        from rlfast.utils.net.continuous import StateDependentNoise

        if not self.sde:
            return None
        return partial(StateDependentNoise, sample_freq=self.sde_sample_freq, log_std=self.sde_log_std)


# -- runs that learn from roll-outs ------------------------------------------------------------------------------------


@settings()
class OnPolicyConfig(RunConfig):
    """The settings of runs that learn from roll-outs of the newest policy, each of which is used once."""

    hidden_sizes = (64, 64)
    activation: Activation = "tanh"
    """Activation of the hidden layers."""
    adam_eps: PositiveFloat = 1e-5
    """What Adam adds to denominators."""
    eval_interval: PositiveInt = 8_192
    """Environment steps between two tests; each is followed by a checkpoint."""
    collect_steps: PositiveInt = 2_048
    """Number of environment steps of a roll-out."""
    repeat: PositiveInt = 10
    """Number of passes over a roll-out."""

    @property
    def gradient_steps(self) -> float:
        """One for each minibatch of each pass."""
        return self.max_steps * self.repeat / self.batch_size


@settings()
class PolicyGradientConfig(OnPolicyConfig, StateDependentConfig):
    """The settings of runs that learn from roll-outs by policy gradients."""

    log_std: FiniteFloat = 0.0
    """First logarithm of the standard deviation of continuous actions."""
    conditioned_sigma: bool = False
    """Whether that deviation depends on the observation."""
    bounded: bool = False
    """Whether means of continuous actions are bounded, by a hyperbolic tangent."""
    deterministic_eval = True


@settings()
class AdvantageConfig(PolicyGradientConfig):
    """The settings of runs that learn from roll-outs with a critic."""

    ent_coef = 0.0
    max_grad_norm = 0.5
    shared_features: bool = False
    """Whether actor and critic have the same convolutions and hidden layers, and only their last layers differ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_features and self.recurrent:
            raise ValueError("--shared-features excludes --recurrent: the critic has no hidden state")

    def build(self, networks: Networks) -> BasePolicy:
        """Makes the policy, with an actor and a critic whose first weights are orthogonal."""
        actor, dist_fn, critic = networks.actor_critic()
        return networks.policy(actor=actor, critic=critic, dist_fn=dist_fn, optim=networks.optim())


@settings()
class NaturalGradientConfig(AdvantageConfig):
    """The settings of runs whose actors take steps along the natural gradient."""

    shared_features: ClassVar[bool] = False  # type: ignore[misc]
    """Always False: the actor's steps would change the critic."""
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critic."""
    batch_size = 2_048
    repeat = 1
    optim_critic_iters = 10


# -- runs that learn from a replay buffer ------------------------------------------------------------------------------


@settings()
class OffPolicyConfig(RunConfig):
    """The settings of runs that fill a replay buffer and learn from it."""

    activation: Activation = "relu"
    """Activation of the hidden layers."""
    orthogonal: bool = False
    """Whether convolutions begin with orthogonal weights, as those of algorithms that learn from roll-outs always do,
    and not with PyTorch's first weights. They learn much sooner from pictures that are nearly empty."""
    buffer_size: PositiveInt = 1_000_000
    """Number of transitions in the buffer."""
    storage: str = "ram"
    """Where they are: "ram", "lz4" or "zstd" (in RAM, with pictures packed), or a folder for files, such as ./rows."""
    start_steps: NonNegativeInt = 1_000
    """Number of environment steps before the first update, with random actions."""
    start_random: bool = True
    """Whether the actions of these steps are random, and not those of the untrained policy."""
    updates_per_step: PositiveFloat = 1.0
    """Number of gradient steps for each environment step; fractions add up."""

    @property
    def gradient_steps(self) -> float:
        """``updates_per_step`` after the first steps."""
        return (self.max_steps - self.start_steps) * self.updates_per_step

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_size < self.num_envs:
            raise ValueError(
                f"--buffer-size {self.buffer_size} has no row for each of the --num-envs {self.num_envs}: raise it"
            )


@settings()
class ActorCriticConfig(OffPolicyConfig):
    """The settings of runs with an actor and critics that learn from a replay buffer."""

    network: Literal["mlp", "simba"] = "mlp"
    """Hidden layers of actor and critics. mlp: fully connected ones; simba: residual blocks with layer normalization,
    on observations that are normalized by the statistics of the buffer (arXiv:2410.09754)."""
    hidden_sizes: tuple[PositiveInt, ...] = (256, 256)
    """Number of units of each hidden layer; with network simba, of each residual block, all of one width."""
    critic_hidden_sizes: tuple[PositiveInt, ...] | None = None
    """The same of the critics. Default: hidden_sizes."""
    weight_decay: NonNegativeFloat | None = None
    """Weight decay of actor and critics (AdamW). Default: 0.01 with network simba, else 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network == "mlp":
            return
        if self.recurrent:
            raise ValueError(f"--network {self.network} and --recurrent exclude each other: leave one out")
        for name in ("hidden_sizes", "critic_hidden_sizes"):
            sizes = getattr(self, name)
            if sizes is not None and len({*sizes}) != 1:
                raise ValueError(
                    f"{flag(name)} must be one width, once for each residual block of --network {self.network}, such "
                    f"as 128 128, got {[*sizes]}"
                )

    @property
    def decay(self) -> float:
        """The weight decay."""
        usual = 0.01 if self.network == "simba" else 0.0
        return usual if self.weight_decay is None else self.weight_decay


@settings()
class DeterministicConfig(ActorCriticConfig):
    """The settings of runs with a deterministic actor, which explores by noise."""

    env = "Pendulum-v1"
    num_envs = 1
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critics."""
    actor_learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the actor."""
    collect_steps = 1
    noise: NonNegativeFloat = 0.1
    """Strength of the noise that explores, where actions reach from -1 to 1: the standard deviation, if it is normal.
    """
    noise_process: Literal["normal", "ornstein-uhlenbeck"] = "normal"
    """The noise that explores. normal: independent at each step; ornstein-uhlenbeck: a process that keeps its direction
    for about seven steps (arXiv:1509.02971, section 7), for goals that must be reached before anything is learned."""

    def make_noise(self) -> BaseNoise:
        """Returns the noise."""
        from rlfast.exploration import GaussianNoise, OUNoise

        return GaussianNoise(sigma=self.noise) if self.noise_process == "normal" else OUNoise(sigma=self.noise, dt=1.0)

    def build(self, networks: Networks) -> BasePolicy:
        """Makes the policy, with an actor and a critic."""
        return networks.policy(
            actor=networks.deterministic_actor(),
            actor_optim=networks.adam(self.actor_learning_rate),
            critic=networks.action_value(),
            critic_optim=networks.optim(),
            exploration_noise=self.make_noise(),
        )


@settings()
class TemperatureConfig(RunConfig):
    """The settings of runs that weigh entropy beside returns."""

    alpha: PositiveFloat = 0.2
    """The temperature, or where it starts."""
    auto_alpha: bool = True
    """Learn the temperature, so that the entropy stays at its target."""
    target_entropy: FiniteFloat | None = None
    """The target of the entropy. Default: minus the number of action dimensions."""
    alpha_learning_rate: NonNegativeFloat = 3e-4
    """Adam's step size, of the temperature."""

    def make_alpha(self, target: float) -> Alpha:
        """Returns the temperature, fixed or learned.

        :param target: the target of the entropy, without a ``target_entropy``.
        """
        from rlfast.policy import AutoAlpha, FixedAlpha
        from rlfast.utils.optim import adam

        if not self.auto_alpha:
            return FixedAlpha(self.alpha)
        return AutoAlpha(
            target if self.target_entropy is None else self.target_entropy,
            math.log(self.alpha),
            adam(self.alpha_learning_rate),
        )


@settings()
class EntropyConfig(ActorCriticConfig, TemperatureConfig):
    """The settings of runs that maximise entropy beside returns: soft actor-critic and its variants."""

    env = "Pendulum-v1"
    num_envs = 1
    collect_steps = 1


@settings()
class ExploringConfig(EntropyConfig, StateDependentConfig):
    """The settings of such runs whose actors can explore by noise that lasts."""

    sde_log_std = -3.0
    clip_mean: ClassVar[float | None] = 2.0  # further from 0, squashed noise would have no effect


@settings()
class NormalConfig(ExploringConfig):
    """The settings of such runs whose actors give normal distributions that can be of several forms."""

    log_std: FiniteFloat = 0.0
    """First logarithm of the standard deviation of actions, where it does not depend on the observation."""
    conditioned_sigma: bool = True
    """Whether that deviation depends on the observation."""
    bounded: bool = False
    """Whether means of actions are bounded by a hyperbolic tangent before that of all actions."""


@settings()
class ExplorationConfig(RunConfig):
    """The settings of runs that take random actions with a probability that falls."""

    eps_start: UnitFloat = 1.0
    """Probability of a random action at the start."""
    eps_end: UnitFloat = 0.05
    """Probability of a random action after eps_steps steps."""
    eps_steps: NonNegativeInt = 10_000
    """Number of environment steps over which that probability falls linearly."""
    eval_eps: UnitFloat = 0.0
    """Probability of a random action in tests. Where greedy actions lead nowhere, as in games that wait for FIRE, a
    small one ends the test."""

    def eps_at(self, env_step: int) -> float:
        """Returns the probability of a random action after ``env_step`` environment steps.

        >>> config = ExplorationConfig(eps_start=1, eps_end=0, eps_steps=100)
        >>> [round(config.eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0, 0]
        """
        return Linear(self.eps_start, self.eps_end, self.eps_steps)(env_step)

    def set_schedules(self, policy: Any, env_step: int) -> None:
        """Sets the probability of random actions."""
        policy.set_eps(self.eps_at(env_step))


@settings()
class QLearningConfig(OffPolicyConfig, ExplorationConfig):
    """The settings of runs that learn values of discrete actions."""

    hidden_sizes = (128, 128)
    dueling: bool = False
    """Whether networks have separate streams for state value and advantages (arXiv:1511.06581)."""
    learning_rate = 1e-3
    estimation_step = 3
    target_update_freq = 100
    buffer_size = 50_000
    batch_size = 128
    prioritized: bool = False
    """Whether transitions are sampled in proportion to their temporal difference errors (arXiv:1511.05952)."""
    alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities."""
    beta: UnitFloat = 0.4
    """Exponent of the importance weights at the start."""
    beta_end: UnitFloat = 1.0
    """Exponent of the importance weights once beta_steps have been taken: 1 takes all the bias out (section 3.4)."""
    beta_steps: NonNegativeInt = 100_000
    """Environment steps over which that exponent changes, linearly."""
    collect_steps = 64
    updates_per_step = 0.25

    def beta_at(self, env_step: int) -> float:
        """Returns the exponent of the importance weights after ``env_step`` environment steps.

        >>> QLearningConfig(beta=0.5, beta_end=1.0, beta_steps=100).beta_at(50)
        0.75
        """
        return Linear(self.beta, self.beta_end, self.beta_steps)(env_step)


@settings()
class SequenceConfig(QLearningConfig):
    """The settings of runs that learn values of discrete actions from sequences, by a recurrent network."""

    recurrent: ClassVar[bool] = True  # type: ignore[misc]
    """Always True: a sequence needs a recurrent network."""
    activation: ClassVar[Activation] = "relu"  # type: ignore[misc]
    """Always relu: recurrent networks have no other hidden layers."""
    sequence_length: PositiveInt = 20
    """Number of steps of a sequence that are learned from."""
    burn_in: NonNegativeInt = 10
    """Number of steps before them, which only refresh the stored hidden state."""
    observe: tuple[NonNegativeInt, ...] = ()
    """Indices of the numbers of an observation that the policy sees, such as 0 2. Default: all."""
    hidden_sizes = (64,)
    batch_size: PositiveInt = 32
    """Number of sequences of a gradient step."""


# -- runs that learn from data -----------------------------------------------------------------------------------------


@settings()
class DataConfig(RunConfig):
    """The settings of runs that learn from data."""

    data: str | None = None
    """Data to learn from: a buffer's file (a snapshot, or HDF5), an HDF5 file of D4RL, or the id or
    folder of a Minari dataset. It must be given."""


@settings()
class OfflineConfig(DataConfig):
    """The settings of runs that learn from data alone, and meet the environment in tests only."""

    max_steps: PositiveInt = 100_000
    """Number of gradient steps."""
    eval_interval: PositiveInt = 5_000
    """Gradient steps between two tests; each is followed by a checkpoint."""
    save_buffer: bool = True
    """Whether checkpoints contain the data; without it, a resumed run draws other rows."""
    num_envs: Literal[1] = 1
    """Always 1: at most one environment is collected from."""
    collect_steps: Literal[1] = 1
    """Always 1: see num_envs."""
    recurrent: Literal[False] = False
    """Always False: data have no hidden states."""
    normalize_obs: bool = False
    """Whether observations are scaled to mean 0 and variance 1 of the data."""
    normalize_reward: Literal[False] = False
    """Always False: rewards are those of the data."""
    lr_schedule: Literal["constant"] = "constant"
    """Always constant."""

    @property
    def collects(self) -> bool:
        """Whether the run collects: not without ``online_steps``."""
        return False


@settings()
class OfflineRewardConfig(OfflineConfig):
    """The settings of offline runs that learn from rewards."""

    reward_scale: PositiveFloat = 1.0
    """Rewards that are learned from are multiplied by it; returns of tests are those of the environment."""
    online_steps: NonNegativeInt = 0
    """Number of environment steps of a run that also collects, in the place of max_steps. Default: it learns from data
    alone. rlfast train --resume RUN_DIR --online-steps N begins such a run with the policy of an offline one."""
    data_share: UnitFloat = 0.5
    """Share of the data in each batch, with online_steps; the rest is drawn from the run's replay buffer."""
    updates_per_step: PositiveFloat = 1.0
    """Number of gradient steps for each environment step, with online_steps."""
    start_steps: NonNegativeInt = 1_000
    """Number of environment steps before the first update, by the policy, with online_steps."""
    buffer_size: PositiveInt = 1_000_000
    """Number of transitions in the replay buffer, with online_steps."""

    @property
    def collects(self) -> bool:
        """Whether the run has ``online_steps``."""
        return self.online_steps > 0

    @property
    def steps(self) -> int:
        """The ``online_steps``, or without them ``max_steps``, the number of gradient steps."""
        return self.online_steps or self.max_steps

    def explorer(self) -> BaseNoise | None:
        """Returns the noise that explores, with ``online_steps``; None for an actor that draws its actions."""
        return None


@settings()
class OfflineControlConfig(OfflineRewardConfig):
    """The settings of offline runs with continuous actions and target critics."""

    env = "Pendulum-v1"
    layer_norm: bool = False
    """Whether hidden layers of critics are normalized (LayerNorm), which keeps values of unknown actions bounded."""

    def build(self, networks: Networks) -> BasePolicy:
        """Makes the policy, with a deterministic actor and two critics."""
        actor = networks.deterministic_actor()
        return networks.policy(actor=actor, actor_optim=networks.optim(), **networks.two(networks.action_value))


@settings()
class OfflineDeterministicConfig(OfflineControlConfig):
    """The settings of such runs with a deterministic actor."""

    noise: NonNegativeFloat = 0.1
    """Standard deviation of normal noise on collected actions, which reach from -1 to 1, with online_steps."""

    def explorer(self) -> BaseNoise | None:
        """Returns the noise that explores, with ``online_steps``."""
        from rlfast.exploration import GaussianNoise

        return GaussianNoise(sigma=self.noise)


@settings()
class OfflineChoiceConfig(OfflineRewardConfig):
    """The settings of offline runs with discrete actions."""

    hidden_sizes = (128, 128)
    learning_rate = 1e-3
    batch_size = 128
    target_update_freq = 100
