"""Games of the Arcade Learning Environment, preprocessed as DeepMind's agents saw them."""

import math
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast._core import AreaResize
from rlfast.env.atari.games import rom_of, spec_of, sticky_probability
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.runtime.extras import needed_by

_NOOP, _FIRE = 0, 1
_NEVER = 1e-18  # a probability that is as good as 0
_LOOKED_AT = 8  # number of frames after which it is known what they repeated at the start
_FRAMES = 64  # number of frames for which memory is allocated together


class AtariEnv(gym.Env[NDArray[Any], int]):
    """A game whose screens are skipped, made grey, made smaller and stacked (Mnih et al., Nature 518, 2015, "Methods").

    One step repeats its action for ``frame_skip`` frames. The observation is the pixelwise maximum of the last two of
    these frames, in grey, resized to ``screen_size`` squared, and stacked on those of the steps before. Only the two
    frames that are looked at are fetched from the emulator. If the game ends within a step, its last frame alone is
    the observation. The emulator is ``ale-py``; both draw their random numbers from one seed.

    ``info`` has, beside ``lives``, ``episode_frame_number`` and ``frame_number`` of the emulator, ``game_over``, and
    ``game_return``, the sum of the rewards of the whole game so far, before they are clipped.

    :param game: a name such as ``"Pong"``, ``"ALE/Pong-v5"`` or ``"PongNoFrameskip-v4"``.
    :param frame_stack: number of frames in an observation, 1 or more. Default: 4.
    :param episodic_life: whether a lost life terminates an episode. The next reset continues the game.
        Default: True.
    :param clip_rewards: whether rewards are replaced by their signs. Default: True.
    :param scale: whether observations are float32 in [0, 1], which takes four times the memory. Default: False, for
        uint8 in [0, 255].
    :param frame_skip: number of frames of a step, 1 or more. Default: 4.
    :param noop_max: a game begins with 1 to this number of frames without an action; 0 for none. Default: 30.
    :param fire_on_reset: whether an episode begins with the action FIRE in games that wait for it. Default: True.
    :param screen_size: height and width of observations. Default: 84.
    :param repeat_action_probability: probability that a frame repeats the action of the frame before it ("sticky
        actions", Machado et al., arXiv:1709.06009). Default: None, for 0.25 if ``game`` ends with ``-v5`` or
        ``-v0``, else 0.
    :param max_frames: number of frames after which a game is truncated. Default: 108,000, which is half an hour.
    :param full_action_space: whether all 18 actions are there, not only those with an effect. Default: False.
    :param mode: mode of the game. Default: None, for the game's own.
    :param difficulty: difficulty of the game. Default: None, for the game's own.
    :param render_mode: ``"rgb_array"``, ``"human"`` or None (default).
    :raises ImportError: ``ale-py`` is not installed.
    :raises ValueError: there is no such game, or an argument is out of range.

    >>> env = AtariEnv("Pong")
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, obs.dtype.name, info["lives"]
    ((4, 84, 84), 'uint8', 0)
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 60}  # noqa: RUF012 (Gymnasium's)

    @validate_arguments
    def __init__(
        self,
        game: str,
        *,
        frame_stack: PositiveInt = 4,
        episodic_life: bool = True,
        clip_rewards: bool = True,
        scale: bool = False,
        frame_skip: PositiveInt = 4,
        noop_max: NonNegativeInt = 30,
        fire_on_reset: bool = True,
        screen_size: int = 84,
        repeat_action_probability: UnitFloat | None = None,
        max_frames: PositiveInt = 108_000,
        full_action_space: bool = False,
        mode: int | None = None,
        difficulty: int | None = None,
        render_mode: Literal["human", "rgb_array"] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "game")}
        with needed_by("rlfast.env.atari"):
            from ale_py import ALEInterface, LoggerMode
            from ale_py.env import AtariEnv as Emulator
        ALEInterface.setLoggerMode(LoggerMode.Error)
        sticky = sticky_probability(game) if repeat_action_probability is None else repeat_action_probability
        self._emulator = Emulator(
            game=rom_of(game),
            mode=mode,
            difficulty=difficulty,
            obs_type="grayscale",
            frameskip=1,
            repeat_action_probability=sticky,
            full_action_space=full_action_space,
            max_num_frames_per_episode=max_frames,
            render_mode=render_mode,
        )
        self._ale = self._emulator.ale
        self._actions = self._emulator._action_set  # noqa: SLF001 (there is no other way to them)
        self.action_space = self._emulator.action_space
        self.render_mode, self.spec = render_mode, spec_of(game, **given)
        self._episodic_life, self._clip_rewards, self._scale = episodic_life, clip_rewards, scale
        self._frame_skip, self._noop_max = frame_skip, noop_max
        self._fires = fire_on_reset and self.action_meanings()[_FIRE:2] == ["FIRE"]
        height, width = self._ale.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._resize = AreaResize((height, width), (screen_size, screen_size))
        shape = (frame_stack, screen_size, screen_size)
        self.observation_space = (
            gym.spaces.Box(0.0, 1.0, shape, np.float32) if scale else gym.spaces.Box(0, 255, shape, np.uint8)
        )
        self._frames = np.zeros((frame_stack, screen_size, screen_size), np.uint8)
        self._stack = frame_stack
        self._newest = frame_stack - 1  # the place of the newest frame in `_frames`
        self._lives, self._goes_on, self._game_return = 0, False, 0.0
        self._action = _NOOP
        self._holding = math.ceil(math.log(_NEVER) / math.log(sticky)) if 0 < sticky < 1 else 0

    def action_meanings(self) -> list[str]:
        """Returns the names of the actions, such as ``["NOOP", "FIRE", "RIGHT"]``."""
        return [action.name for action in self._actions]

    get_action_meanings = action_meanings

    @property
    def np_random(self) -> np.random.Generator:
        """The generator of the number of frames without an action at the start; it is the emulator's."""
        return self._emulator.np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._emulator.np_random = value

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begins an episode: a new game, or, if lives are episodes and the game is not over, the rest of the game.

        :param seed: begins a new game with this seed. Default: None.
        :param options: not used. Default: None.
        :return: the observation, and infos.
        """
        if seed is not None or not self._goes_on or self._play(_NOOP)[1]:
            self._begin_game(seed, options)
        if self._fires and self._play(_FIRE)[1]:
            self._begin_game(None, options)
        self._goes_on, self._lives = self._episodic_life, self._ale.lives()
        self._frames = np.empty((_FRAMES, *self._frames.shape[1:]), np.uint8)
        self._newest = self._stack - 1
        self._resize(self._screens[0], self._frames[0], self._screens[1])
        self._frames[1 : self._stack] = self._frames[0]
        return self._observation(), self._info(game_over=False)

    def _begin_game(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Begins a game with some frames without an action."""
        self._screens[:] = self._emulator.reset(seed=seed, options=options)[0]
        self._game_return = 0.0
        if not self._noop_max:
            return
        for _ in range(self.np_random.integers(1, self._noop_max + 1)):
            self._game_return += self._ale.act(self._actions[_NOOP])
            if self._ale.game_over():
                self._emulator.reset(options=options)
                self._game_return = 0.0
        self._fetch(0)
        self._screens[1] = self._screens[0]

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Repeats an action for some frames.

        :param action: the number of the action.
        :return: the observation, the reward, whether a life or the game was lost, whether the game reached its limit
            of frames, and infos.
        """
        reward, game_over = self._play(action)
        terminated = self._ale.game_over(with_truncation=False)
        truncated = game_over and not terminated
        lives = self._ale.lives()
        if self._episodic_life and not game_over and 0 < lives < self._lives:
            terminated = True
        self._goes_on = self._episodic_life and not game_over
        self._lives = lives
        self._append_frame()
        if self._clip_rewards:
            reward = float((reward > 0) - (reward < 0))
        return self._observation(), reward, terminated, truncated, self._info(game_over=game_over)

    def _play(self, action: int) -> tuple[float, bool]:
        """Plays the frames of a step, and fetches the last two; the reward, and whether the game is over."""
        reward, chosen = 0.0, self._actions[action]
        self._action = action
        for left in range(self._frame_skip - 1, -1, -1):
            reward += self._ale.act(chosen)
            over = self._ale.game_over()
            if left < 2 or over:
                self._fetch(left % 2)
            if over:
                break
        if (over and left > 0) or self._frame_skip == 1:
            self._screens[1 - left % 2] = self._screens[left % 2]
        self._game_return += reward
        return reward, over

    def _fetch(self, place: int) -> None:
        self._ale.getScreenGrayscale(self._screens[place])

    def _append_frame(self) -> None:
        """Adds the newest frame behind the others; frames are never written again."""
        if self._newest + 1 == len(self._frames):
            older = self._frames[len(self._frames) - self._stack + 1 :]
            self._frames = np.empty_like(self._frames)
            self._frames[: self._stack - 1] = older
            self._newest = self._stack - 2
        self._newest += 1
        self._resize(self._screens[0], self._frames[self._newest], self._screens[1])

    def _observation(self) -> NDArray[Any]:
        stack = self._frames[self._newest - self._stack + 1 : self._newest + 1]
        if self._scale:
            return stack.astype(np.float32) / 255
        return stack if self._stack == 1 else stack.copy()  # stacks share frames, and callers may write to theirs

    def _info(self, *, game_over: bool) -> dict[str, Any]:
        return {
            "lives": self._ale.lives(),
            "episode_frame_number": self._ale.getEpisodeFrameNumber(),
            "frame_number": self._ale.getFrameNumber(),
            "game_over": game_over,
            "game_return": self._game_return,
        }

    def render(self) -> Any:
        """Returns the screen in colours, ``[210, 160, 3]``, if ``render_mode`` is ``"rgb_array"``."""
        return self._emulator.render()

    def close(self) -> None:
        """Closes the emulator."""
        self._emulator.close()

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the game, of the random numbers and of the stack of frames, for :meth:`set_state`."""
        stack = self._frames[self._newest - self._stack + 1 : self._newest + 1]
        system = self._ale.cloneSystemState()
        return {
            "emulator": system.serialize(),
            "action": self._action_held(system),
            "random": self.np_random.bit_generator.state,
            "screens": self._screens.copy(),
            "frames": stack.copy(),
            "lives": self._lives,
            "goes_on": self._goes_on,
            "game_return": self._game_return,
        }

    def _action_held(self, system: Any) -> int:
        """Returns the action that a frame may repeat, which the emulator's state lacks: the one that leads where the
        emulator goes. The emulator stays in the state ``system``.
        """
        if not self._holding:
            return _NOOP
        wanted = self._going(system)
        candidates: list[int] = [self._action, *range(len(self._actions))]
        for action in candidates:
            self._hold(action)
            if self._going(system) == wanted:
                break
        self._hold(action)
        self._ale.restoreSystemState(system)
        return action

    def _hold(self, action: int) -> None:
        """Plays an action until it is the one that frames repeat, whatever they repeated before."""
        for _ in range(self._holding):
            self._ale.act(self._actions[action])

    def _going(self, system: Any) -> bytes:
        """Returns the memory in the next frames from a state on; frames differ by what they repeat at the start."""
        self._ale.restoreSystemState(system)
        seen = []
        for _ in range(_LOOKED_AT):
            self._ale.act(self._actions[_NOOP])
            seen.append(self._ale.getRAM().tobytes())
        return b"".join(seen)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state, so that the same actions lead to the same results.

        :param state: what :meth:`get_state` returned, of an environment with the same arguments.
        """
        from ale_py import ALEState

        self._hold(state["action"])
        self._ale.restoreSystemState(ALEState(state["emulator"]))
        self.np_random.bit_generator.state = state["random"]
        self._screens[:] = state["screens"]
        self._frames = np.empty((_FRAMES + self._stack, *self._frames.shape[1:]), np.uint8)
        self._frames[: self._stack] = state["frames"]
        self._newest = self._stack - 1
        self._lives, self._goes_on, self._game_return = state["lives"], state["goes_on"], state["game_return"]
