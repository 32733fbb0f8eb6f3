"""The wrappers of DeepMind's agents, one step of the preprocessing each, for any environment with coloured screens.

:class:`~rlfast.env.atari.AtariEnv` does the same in one class, and faster. The names are those of OpenAI's Baselines.
"""

from collections import deque
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast._core import AreaResize, grey
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import PositiveInt, validate_arguments

Obs = NDArray[Any]
Step = tuple[Obs, SupportsFloat, bool, bool, dict[str, Any]]
Reset = tuple[Obs, dict[str, Any]]
Env = gym.Env[Obs, Any]
Wrapper = gym.Wrapper[Obs, Any, Obs, Any]

_NOOP, _FIRE = 0, 1


def _action_meanings(env: Env) -> list[str]:
    """Returns the names of the actions; an empty list if the environment has none."""
    try:
        return list(env.get_wrapper_attr("get_action_meanings")())
    except AttributeError:
        return []


class NoopResetEnv(Wrapper):
    """Begins a game with a random number of steps without an action.

    :param env: the environment, whose action 0 does nothing.
    :param noop_max: the greatest number of these steps; the least is 1. Default: 30.
    :raises ArgumentError: action 0 does something, or ``noop_max`` is less than 1.
    """

    @validate_arguments
    def __init__(self, env: Env, noop_max: PositiveInt = 30) -> None:
        super().__init__(env)
        meanings = _action_meanings(env)
        if meanings and meanings[_NOOP] != "NOOP":
            raise ArgumentError(f"NoopResetEnv needs an environment whose action 0 is NOOP, got {meanings}")
        self.noop_max = noop_max

    def reset(self, **kwargs: Any) -> Reset:
        """Resets, and takes the steps. A game that ends meanwhile is reset.

        :param kwargs: given to the environment's ``reset``.
        """
        obs, info = self.env.reset(**kwargs)
        for _ in range(self.unwrapped.np_random.integers(1, self.noop_max + 1)):
            obs, _, terminated, truncated, info = self.env.step(_NOOP)
            if terminated or truncated:
                obs, info = self.env.reset()
        return obs, info


class MaxAndSkipEnv(Wrapper):
    """Repeats each action, adds up the rewards, and returns the pixelwise maximum of the last two screens.

    :param env: the environment.
    :param skip: number of repetitions, 1 or more. Default: 4.
    :raises ArgumentError: ``skip`` is less than 1.
    """

    @validate_arguments
    def __init__(self, env: Env, skip: PositiveInt = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: object) -> Step:
        """Repeats ``action``, until the episode ends.

        :param action: the action.
        """
        total, last = 0.0, deque[Obs](maxlen=2)
        for _ in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            last.append(obs)
            total += float(reward)
            if terminated or truncated:
                break
        return np.maximum(last[0], last[-1]), total, terminated, truncated, info


class EpisodicLifeEnv(Wrapper):
    """Terminates an episode when a life is lost, and resets the game only when it is over.

    A reset with a seed always resets the game.

    :param env: the environment, which reports the number of lives in ``info["lives"]``, as games of ALE do.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: object) -> Step:
        """Takes a step.

        :param action: the action.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = info["lives"]
        if not self.was_real_done and 0 < lives < self.lives:
            terminated = True
        self.lives = lives
        return obs, reward, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Resets the game if it is over; otherwise takes a step without an action.

        :param seed: resets the game in any case, with this seed. Default: None.
        :param options: given to the environment's ``reset``. Default: None.
        """
        ended = self.was_real_done or seed is not None
        if not ended:
            obs, _, terminated, truncated, info = self.env.step(_NOOP)
            ended = terminated or truncated
        if ended:
            obs, info = self.env.reset(seed=seed, options=options)
        self.lives, self.was_real_done = info["lives"], False
        return obs, info


class FireResetEnv(Wrapper):
    """Begins an episode with the action FIRE, for games that wait for it.

    :param env: the environment, whose action 1 is FIRE.
    :raises ArgumentError: action 1 is another one.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        meanings = _action_meanings(env)
        if meanings[_FIRE:2] != ["FIRE"]:
            raise ArgumentError(f"FireResetEnv needs an environment whose action 1 is FIRE, got {meanings}")

    def reset(self, **kwargs: Any) -> Reset:
        """Resets, and takes the action FIRE. A game that ends with it is reset.

        :param kwargs: given to the environment's ``reset``.
        """
        self.env.reset(**kwargs)
        obs, _, terminated, truncated, info = self.env.step(_FIRE)
        return self.env.reset() if terminated or truncated else (obs, info)


class WarpFrame(gym.ObservationWrapper[Obs, Any, Obs]):
    """Makes screens grey and resizes them, as OpenCV's ``COLOR_RGB2GRAY`` and ``INTER_AREA`` do.

    :param env: the environment, with observations ``[H, W, 3]``, uint8.
    :param size: height and width of the result. Default: 84.
    :raises TypeError: the environment has other observations.
    """

    def __init__(self, env: Env, size: int = 84) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or space.shape[2:] != (3,) or space.dtype != np.uint8:
            raise TypeError(f"WarpFrame needs coloured screens of uint8, [height, width, 3], got {space}")
        height, width = space.shape[:2]
        self.size = size
        self.observation_space = gym.spaces.Box(0, 255, (size, size), np.uint8)
        self._grey = np.empty((height, width), np.uint8)
        self._resize = AreaResize((height, width), (size, size))

    def observation(self, observation: Obs) -> Obs:
        """Returns a screen in grey, resized.

        :param observation: ``[H, W, 3]``.
        :return: ``[size, size]``.
        """
        grey(np.ascontiguousarray(observation), self._grey)
        out = np.empty((self.size, self.size), np.uint8)
        self._resize(self._grey, out)
        return out


class ScaledFloatFrame(gym.ObservationWrapper[Obs, Any, Obs]):
    """Scales observations to [0, 1], as float32, which takes four times the memory of uint8.

    :param env: the environment, with observations in a bounded Box.
    :raises TypeError: the environment has other observations.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or not space.is_bounded():
            raise TypeError(f"ScaledFloatFrame needs observations in a bounded Box, got {space}")
        low, high = space.low.min(), space.high.max()
        self.bias, self.scale = np.float32(low), np.float32(high) - np.float32(low)
        self.observation_space = gym.spaces.Box(0.0, 1.0, space.shape, np.float32)

    def observation(self, observation: Obs) -> Obs:
        """Returns an observation in [0, 1].

        :param observation: the observation.
        """
        scaled: Obs = (np.asarray(observation, np.float32) - self.bias) / self.scale
        return scaled


class ClipRewardEnv(gym.RewardWrapper[Obs, Any]):
    """Replaces rewards by their signs.

    :param env: the environment.
    """

    reward_range = (-1, 1)

    def reward(self, reward: SupportsFloat) -> float:
        """Returns -1, 0 or 1.

        :param reward: the reward.
        """
        return float(np.sign(float(reward)))


class FrameStack(Wrapper):
    """Stacks the newest observations along a new first axis; at the start of an episode, the first one repeatedly.

    :param env: the environment, with observations in a Box.
    :param n_frames: number of observations in a stack, 1 or more.
    :raises ArgumentError: ``n_frames`` is less than 1.
    """

    @validate_arguments
    def __init__(self, env: Env, n_frames: PositiveInt) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        self.n_frames = n_frames
        self.frames = deque[Obs](maxlen=n_frames)
        shape = (n_frames, *space.shape)
        self.observation_space = gym.spaces.Box(space.low.min(), space.high.max(), shape, space.dtype)

    def reset(self, **kwargs: Any) -> Reset:
        """Resets, and fills the stack with the first observation.

        :param kwargs: given to the environment's ``reset``.
        """
        obs, info = self.env.reset(**kwargs)
        self.frames.extend([obs] * self.n_frames)
        return np.stack(self.frames), info

    def step(self, action: object) -> Step:
        """Takes a step, and adds its observation to the stack.

        :param action: the action.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.frames.append(obs)
        return np.stack(self.frames), reward, terminated, truncated, info


def wrap_deepmind(
    env: Env,
    episode_life: bool = True,
    clip_rewards: bool = True,
    frame_stack: int = 4,
    scale: bool = False,
    warp_frame: bool = True,
) -> Env:
    """Puts the wrappers of DeepMind's agents around an environment (Mnih et al., Nature 518, 2015, "Methods").

    :param env: a game of ALE that does not skip frames, such as
        ``gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)``.
    :param episode_life: whether a lost life terminates an episode. Default: True.
    :param clip_rewards: whether rewards are replaced by their signs. Default: True.
    :param frame_stack: number of frames in an observation; 0 for no stack. Default: 4.
    :param scale: whether observations are float32 in [0, 1]. Default: False.
    :param warp_frame: whether screens become grey and 84 pixels high and wide. Default: True.
    :return: the wrapped environment.
    """
    env = MaxAndSkipEnv(NoopResetEnv(env, noop_max=30), skip=4)
    if episode_life:
        env = EpisodicLifeEnv(env)
    if "FIRE" in _action_meanings(env):
        env = FireResetEnv(env)
    if warp_frame:
        env = WarpFrame(env)
    if scale:
        env = ScaledFloatFrame(env)
    if clip_rewards:
        env = ClipRewardEnv(env)
    return FrameStack(env, frame_stack) if frame_stack else env
