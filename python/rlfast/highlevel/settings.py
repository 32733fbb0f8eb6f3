"""What a declaration says, as settings of a run; the rest is beyond them."""

from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from rlfast.env.specs import is_atari
from rlfast.experiment.algorithms import find
from rlfast.experiment.config import RunConfig, renamed
from rlfast.experiment.networks import ACTIVATIONS
from rlfast.exploration import GaussianNoise
from rlfast.highlevel import optim, trainer
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactoryRegistered, Environments, EnvMode
from rlfast.highlevel.module import actor, critic
from rlfast.highlevel.params import alpha, env_param, noise
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactoryLinear

_NAMES = {
    "hidden_sizes": "head_sizes",
    "num_train_envs": "num_envs",
    "num_test_envs": "eval_envs",
    "num_test_episodes": "eval_episodes",
    "step_per_epoch": "eval_interval",
    "repeat_per_collect": "repeat",
    "update_per_step": "updates_per_step",
    "start_timesteps": "start_steps",
    "start_timesteps_random": "start_random",
}
"""Settings of runs that have other names than the fields of parameters and of sampling."""

_SAID_ELSEWHERE = {"env", "seed", "device", "run_dir"}
_WITHOUT_A_SCREEN = (EnvMode.TRAIN, EnvMode.TEST)
_AROUND_ACTORS = (actor.ActorFactoryTransientStorageDecorator, actor.IntermediateModuleFactoryFromActorFactory)
_EXPLORE = (
    trainer.EpochTrainCallbackDQNSetEps,
    trainer.EpochTrainCallbackDQNEpsLinearDecay,
    trainer.EpochTestCallbackDQNSetEps,  # says nothing, as tests do not explore
)
_USUAL = (actor.ActorFactoryDefault, critic.CriticFactoryDefault, critic.CriticEnsembleFactoryDefault)


@dataclass
class Settings:
    """The settings of a run, in ``values``, and the parts of its declaration that they do not say, in ``beyond``.

    :param algorithm: the name of the algorithm.
    :param chosen: settings that count more than what else is declared.
    """

    algorithm: str
    chosen: dict[str, Any]

    def __post_init__(self) -> None:
        kind = find(self.algorithm).config
        self._names, self.chosen = {field.name for field in fields(kind)}, renamed(kind, self.chosen)
        self.values: dict[str, Any] = {}
        self.beyond: dict[str, Any] = {}

    def config(self, **more: Any) -> RunConfig:
        """Returns the settings.

        :param more: further settings.
        :raises ValueError: if one cannot be.
        """
        if elsewhere := _SAID_ELSEWHERE & self.chosen.keys():
            raise ValueError(f"with_settings cannot say {sorted(elsewhere)}: ExperimentConfig and EnvFactory do")
        given = self.values | self.chosen | more
        if unknown := given.keys() - self._names:
            raise ValueError(f"{self.algorithm} has no settings {sorted(unknown)}: see rlfast train {self.algorithm}")
        return find(self.algorithm).config(**given)

    def say(self, **given: Any) -> bool:
        """Adds settings, if there are such and none has another value.

        :param given: the settings.
        :return: whether they were added.
        """
        if any(name not in self._names or self.values.get(name, value) != value for name, value in given.items()):
            return False
        self.values |= given
        return True

    # -- algorithm ---------------------------------------------------------------------------------------------------

    def add_params(self, params: Any, envs: Environments, optim_factory: object) -> None:
        """Adds the settings of the algorithm. If one of them has no setting of a run, ``params`` are beyond.

        :param params: the settings of the algorithm.
        :param envs: the environments.
        :param optim_factory: makes the optimizers.
        """
        schedulers = [name for name in vars(params) if name.endswith("lr_scheduler_factory")]
        said = self._add_schedule([getattr(params, name) for name in schedulers]) and self._add_optimizer(optim_factory)
        for field in fields(params):
            value = getattr(params, field.name)
            usual = value == field.default and not field.name.endswith("lr")
            said &= field.name in schedulers or self._add_param(field.name, value, envs) or usual
        if not said:
            self.beyond["params"] = params

    def _add_schedule(self, factories: list[Any]) -> bool:
        steps = {type(one) is LRSchedulerFactoryLinear and one.sampling_config.max_steps for one in factories}
        return not any(factories) or (steps == {self._sampling.max_steps} and self.say(lr_schedule="linear"))

    def _add_optimizer(self, factory: object) -> bool:
        if type(factory) is not optim.OptimizerFactoryAdam or factory.weight_decay or factory.betas != (0.9, 0.999):
            return False
        return self.say(adam_eps=factory.eps) or factory.eps == 1e-8

    def _add_param(self, name: str, value: object, envs: Environments) -> bool:
        if isinstance(value, env_param.EnvValueFactory):
            value = value.create_value(envs)
        if name == "alpha":
            return self._add_alpha(value, envs)
        if name == "exploration_noise":
            return self._add_noise(value, envs)
        setting = "learning_rate" if name.endswith("lr") else _NAMES.get(name, name)
        if name == "actor_lr" and "actor_learning_rate" in self._names:
            setting = "actor_learning_rate"
        value = tuple(value) if isinstance(value, list) else value
        return isinstance(value, int | float | str | tuple | None) and self.say(**{setting: value})

    def _add_alpha(self, value: object, envs: Environments) -> bool:
        if type(value) is alpha.AutoAlphaFactoryDefault:
            target = value.target_entropy(envs)
            return self.say(auto_alpha=True, alpha=1.0, alpha_learning_rate=value.lr, target_entropy=target)
        return isinstance(value, int | float) and value > 0 and self.say(alpha=value, auto_alpha=False)

    def _add_noise(self, value: Any, envs: Environments) -> bool:
        if type(value) in (noise.NoiseFactoryMaxActionScaledGaussian, noise.MaxActionScaledGaussian):
            value = value.create_noise(envs)
        if type(value) is GaussianNoise and not value._mu:  # noqa: SLF001
            return self.say(noise=float(value._sigma))  # noqa: SLF001
        return value in (None, "default") and self.say(noise=0.1 if value else 0.0)

    def add_networks(self, envs: Environments, factories: dict[str, Any]) -> None:
        """Adds sizes and activations. Factories of other networks are beyond.

        :param envs: the environments.
        :param factories: the factories of networks, by name.
        """
        shared = not any(hasattr(factory, "actor_future") for factory in factories.values())
        for name, factory in factories.items():
            if not shared or not self._add_network(factory, envs):
                self.beyond[name] = getattr(factory, "actor_factory", factory)

    def _add_network(self, factory: Any, envs: Environments) -> bool:
        factory = getattr(factory, "preprocess_net_factory", factory)
        if isinstance(factory, _AROUND_ACTORS):
            factory = factory.actor_factory
        if type(factory) not in _USUAL:
            return False
        activation = getattr(factory, "hidden_activation", nn.ReLU)
        name = next((name for name, kind in ACTIVATIONS.items() if kind is activation), None)
        said: dict[str, Any] = {"hidden_sizes": tuple(factory.hidden_sizes), "activation": name}
        kind = getattr(factory, "continuous_actor_type", None)
        if kind is actor.ContinuousActorType.GAUSSIAN and envs.get_type().is_continuous():
            said |= {"bounded": not factory.continuous_unbounded, "log_std": -0.5}
            said["conditioned_sigma"] = factory.continuous_conditioned_sigma
        return self.say(**said)

    # -- the run -----------------------------------------------------------------------------------------------------

    def add_sampling(self, sampling: SamplingConfig) -> None:
        """Adds the numbers of steps.

        :param sampling: has them.
        :raises ValueError: if the algorithm cannot have one of them.
        """
        for name in ("num_train_envs", "step_per_collect"):
            if getattr(sampling, name) < 1:
                raise ValueError(f"SamplingConfig.{name} must be at least 1, got {getattr(sampling, name)}")
        if sampling.start_timesteps and "start_steps" not in self._names:
            raise ValueError(f"{self.algorithm} learns from its newest steps alone: leave out start_timesteps")
        for name in ("max_steps", "collect_steps", *vars(sampling)):
            if (setting := _NAMES.get(name, name)) in self._names:
                self.values[setting] = getattr(sampling, name)
        if sampling.episode_per_collect is not None and "buffer_size" not in self._names:  # nobody knows how many rows
            self.values["collect_steps"] = -(-sampling.buffer_size // sampling.num_train_envs) * sampling.num_train_envs
        self.values["batch_size"] = sampling.batch_size or self.values["collect_steps"]
        self._sampling = sampling
        if sampling.buffer_options() or sampling.episode_per_collect is not None:
            self.beyond["sampling_config"] = sampling

    def add_environments(self, factory: Any, env: Any, seed: int) -> None:
        """Adds the id of the environment and the seeds.

        :param factory: makes environments.
        :param env: one of them.
        :param seed: the seed of the experiment, for environments without one of their own.
        """
        self.values["env"] = getattr(factory, "task", None) or getattr(env.spec, "id", None) or type(env).__name__
        if (seeds := (factory.train_seed, factory.test_seed)) != (None, None):
            self.values["env_seeds"] = tuple(seed if one is None else one for one in seeds)
        plain = type(factory) is EnvFactoryRegistered and not (factory.envpool_factory or factory.make_kwargs)
        plain = plain and not is_atari(factory.task) and not any(map(factory.render_modes.get, _WITHOUT_A_SCREEN))
        if plain and factory.venv_type.backend is not None:
            self.values["backend"] = factory.venv_type.backend
        else:
            self.beyond["env_factory"] = factory

    def add_callbacks(self, callbacks: trainer.TrainerCallbacks, env: object) -> None:
        """Adds exploration and the return at which training ends.

        :param callbacks: say these.
        :param env: one of the environments.
        """
        if "eps_start" not in self._names and any(isinstance(one, _EXPLORE) for one in vars(callbacks).values()):
            raise ValueError(f"{self.algorithm} does not choose random actions by eps: leave out callbacks that set it")
        train, stop = callbacks.epoch_train_callback, callbacks.epoch_stop_callback
        eps = (0.0, 0.0, 0)
        if type(train) is trainer.EpochTrainCallbackDQNSetEps:
            eps = (train.eps_test, train.eps_test, 0)
        elif type(train) is trainer.EpochTrainCallbackDQNEpsLinearDecay:
            eps = (train.eps_train, train.eps_train_final, train.decay_steps)
        self.say(eps_start=eps[0], eps_end=eps[1], eps_steps=eps[2])
        if type(stop) is trainer.EpochStopCallbackRewardThreshold:
            self.values["stop_return"] = stop.of(env)
        said = {type(None), *_EXPLORE, trainer.EpochStopCallbackRewardThreshold}
        self.beyond |= {name: one for name, one in vars(callbacks).items() if type(one) not in said}
