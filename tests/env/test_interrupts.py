"""Vector environments that are interrupted at any bytecode: reset() works afterwards, and no row is another's."""

from functools import partial
from itertools import count

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from env.backends import threaded
from interrupts import Interrupt, interrupt, points, points_at, spread
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv, VectorEnvNormReward, as_vector_env
from rlfast.env.atari.stacking import StackingDummyEnv
from rlfast.env.backends.rows import joined
from rlfast.utils.statistics import RunningMeanStd

N, LENGTH = 3, 4
MODES = [None, "next-step", "same-step", "disabled"]


class Marked(gym.Env):
    """Observations ``[number, episode, step]``; the reward is the action; every fourth step ends an episode."""

    observation_space = Box(-1, 1e9, (3,), np.float64)
    action_space = Discrete(100)

    def __init__(self, number):
        self.number, self.episode, self.count = number, 0, 0

    def look(self):
        return np.array([self.number, self.episode, self.count], np.float64)

    def reset(self, *, seed=None, options=None):
        self.episode, self.count = self.episode + 1, 0
        return self.look(), {"number": self.number}

    def step(self, action):
        self.count += 1
        return self.look(), float(action), self.count == LENGTH, False, {"number": self.number}


class Framed(Marked):
    """The same as single frames."""

    observation_space = Box(-1, 1e9, (1, 3), np.float64)

    def look(self):
        return super().look()[None]


def makers(kind=Marked):
    return [partial(kind, i) for i in range(N)]


KINDS = {
    "dummy": lambda mode: DummyVectorEnv(makers(), autoreset_mode=mode),
    "workers": lambda mode: threaded(makers(), autoreset_mode=mode),
    "process": lambda mode: SubprocVectorEnv(makers(), autoreset_mode=mode, num_workers=2),
    "scaled": lambda mode: VectorEnvNormReward(DummyVectorEnv(makers(), autoreset_mode=mode)),
    "stacked": lambda mode: StackingDummyEnv(makers(Framed), frame_stack=2, autoreset_mode=mode),
    "gymnasium": lambda mode: as_vector_env(
        gym.vector.SyncVectorEnv(
            makers(), autoreset_mode=AutoresetMode[(mode or "next-step").upper().replace("-", "_")]
        )
    ),
}


IN_PROCESS = ("dummy", "workers", "scaled", "stacked", "gymnasium")


def number_of(obs):
    """The columns ``number``, ``episode`` and ``step`` of observations, the newest of a stack."""
    return np.asarray(obs).reshape(len(obs), -1, 3)[:, -1].astype(int)


def rows_of(envs, answer, ids, actions):
    """Checks that the rows of a step belong to the environments ``ids`` and to their ``actions``."""
    obs, rew, terminated, truncated, _ = answer
    seen = number_of(obs)
    assert seen[:, 0].tolist() == list(ids)
    ended = terminated | truncated
    for (_, _, step), reward, action, over in zip(seen.tolist(), rew.tolist(), actions, ended.tolist(), strict=True):
        only_reset = envs.autoreset_mode is AutoresetMode.NEXT_STEP and step == 0
        if not isinstance(envs, VectorEnvNormReward):
            assert reward == (0 if only_reset else action)
        assert over == (step == (0 if envs.autoreset_mode is AutoresetMode.SAME_STEP else LENGTH)) or only_reset
    return seen


def works(envs):
    """Resets all environments, and checks every row of six steps."""
    obs, _ = envs.reset(seed=3)
    seen = number_of(obs)
    assert seen[:, 0].tolist() == [*range(N)]
    assert seen[:, 2].tolist() == [0] * N
    mode = envs.autoreset_mode
    for k in count(1):
        actions = np.array([10 * i + k for i in range(N)])
        before = seen
        seen = rows_of(envs, envs.step(actions), range(N), actions.tolist())
        if k <= LENGTH and not (mode is AutoresetMode.SAME_STEP and k == LENGTH):
            assert seen[:, 2].tolist() == [k] * N
            assert seen[:, 1].tolist() == before[:, 1].tolist()
        if k == (LENGTH if mode in (None, AutoresetMode.DISABLED) else LENGTH + 2):
            break


def obey(envs, error):
    """Makes the call that an error names."""
    assert any(call in str(error) for call in ("call reset", "reset()", "step_wait()", "recv()")), error
    if "recv()" in str(error):  # the interrupt came before it was called
        while envs.waiting_id:
            envs.recv()
    if "step_wait()" in str(error):
        envs.step_wait()


def session(envs):
    """Calls everything that changes a vector environment."""
    envs.reset(seed=5)
    actions = np.arange(N)
    envs.step(actions)
    envs.send(actions)
    rows = envs.recv()
    if envs.autoreset_mode is None:
        envs.step([7], id=[1])
        envs.reset([0])
        envs.step([8, 9], id=[2, 0])
    else:
        envs.step_async(actions)
        envs.step_wait()
    envs.exchange(actions)
    if envs.autoreset_mode is not AutoresetMode.DISABLED and envs.autoreset_mode is not None:
        envs.step(actions)
    return rows


def after(envs):
    """Checks an interrupted vector environment: a step says that a reset is needed, or its rows are right."""
    try:
        rows_of(envs, envs.step(np.array([4, 5, 6])), range(N), [4, 5, 6])
    except (RuntimeError, gym.error.Error) as error:
        obey(envs, error)
    works(envs)


def sweep(make, use, check, sample, start=0, error=Interrupt):
    """Interrupts ``use`` at ``sample`` of its points, each time in the same object, and checks the object."""
    thing = make()
    check(thing)
    total = points(lambda: use(thing))
    done = 0
    for point in spread(total, sample, start):
        place = interrupt(lambda: use(thing), point, error)
        try:
            check(thing)
        except BaseException as failure:
            failure.add_note(f"after an interrupt at point {point}, {place}")
            raise
        done += 1
    close = getattr(thing, "close", None)
    if close:
        close()
    return done


@pytest.mark.parametrize("error", [Interrupt, MemoryError])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_reset_heals(kind, mode, error):
    if kind == "gymnasium" and mode is None:
        pytest.skip("an adapted environment keeps its mode")
    few = 25 if kind in IN_PROCESS else 4
    sweep(lambda: KINDS[kind](mode), session, after, few, start=MODES.index(mode), error=error)


@pytest.mark.long
@pytest.mark.parametrize("error", [Interrupt, MemoryError])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_reset_heals_at_every_point(kind, mode, error):
    if kind == "gymnasium" and mode is None:
        pytest.skip("an adapted environment keeps its mode")
    done = sweep(lambda: KINDS[kind](mode), session, after, 10**6 if kind in IN_PROCESS else 400, error=error)
    assert done > (2000 if kind in IN_PROCESS else 300)


@pytest.mark.parametrize("mode", MODES[:2])
def test_worker_replaced_after_half_a_message(mode):
    envs = KINDS["process"](mode)
    after(envs)
    found = points_at(lambda: session(envs), "while rest:")
    assert found
    for point in found:
        place = interrupt(lambda: session(envs), point)
        try:
            after(envs)
        except BaseException as failure:
            failure.add_note(f"after an interrupt at point {point}, {place}")
            raise
    envs.close()


# -- environments of other kinds ---------------------------------------------------------------------------------------


def cartpole(mode):
    return NativeVectorEnv("CartPole-v1", N, autoreset_mode=mode)


def beside(envs):
    """Checks an environment of CartPole by an equal one that was never interrupted."""
    other = cartpole(envs.autoreset_mode)
    actions = np.array([0, 1, 0])
    try:
        envs.step(actions)
    except (RuntimeError, gym.error.Error) as error:
        obey(envs, error)
    np.testing.assert_array_equal(envs.reset(seed=3)[0], other.reset(seed=3)[0])
    for k in range(12):
        ours, theirs = envs.step((actions + k) % 2), other.step((actions + k) % 2)
        for one, two in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, two)
        if envs.autoreset_mode in (None, AutoresetMode.DISABLED) and (ours[2] | ours[3]).any():
            break
    if envs.autoreset_mode is not None and not (ours[2] | ours[3]).any():
        mask = np.array([True, False, True])
        ours, theirs = (one.reset(seed=7, options={"reset_mask": mask})[0] for one in (envs, other))
        np.testing.assert_array_equal(ours, theirs)


def cartpole_session(envs):
    envs.reset(seed=5)
    actions = np.array([0, 1, 0])
    for _ in range(2):
        envs.step(actions)
        envs.send(actions)
        envs.recv()
        envs.exchange(actions)
    envs.step(actions)


@pytest.mark.parametrize("error", [Interrupt, MemoryError])
@pytest.mark.parametrize("mode", MODES)
def test_reset_heals_native_ones(mode, error):
    sweep(lambda: cartpole(mode), cartpole_session, beside, 60, start=MODES.index(mode), error=error)


@pytest.mark.parametrize("mode", MODES[1:])
def test_last_observation_is_newest_or_refetched(mode):
    """A masked reset shows what the other environments showed last; after an interrupted step that is not known."""
    envs = cartpole(mode)
    envs.reset(seed=1)
    for point in range(points(lambda: envs.step(np.array([0, 1, 0])))):
        envs.reset(seed=1)
        interrupt(lambda: envs.step(np.array([0, 1, 0])), point)
        other = cartpole(mode)
        firsts = [other.reset(seed=1)[0], other.step(np.array([0, 1, 0]))[0]]
        at = envs._backend.get_state(np.array([1])) == other._backend.get_state(np.array([1]))
        try:
            shown = envs.reset(seed=2, options={"reset_mask": np.array([True, False, False])})[0]
        except RuntimeError as error:
            obey(envs, error)
        else:
            np.testing.assert_array_equal(shown[1:], firsts[int(at)][1:])


class Stepped(DummyVectorEnv):
    """A user's class, which overrides methods of Tianshou's protocol."""

    def step(self, action, id=None):
        return super().step(action, id)

    def reset(self, id=None, **kwargs):
        return super().reset(id, **kwargs)


@pytest.mark.parametrize("error", [Interrupt, MemoryError])
def test_reset_heals_those_that_override_step(error):
    sweep(lambda: as_vector_env(Stepped(makers())), session, after, 60, error=error)


ASYNC = {
    "dummy": lambda: DummyVectorEnv(makers(), wait_num=2),
    "workers": lambda: threaded(makers(), wait_num=2),
    "process": lambda: SubprocVectorEnv(makers(), wait_num=2, num_workers=2),
}


def async_session(envs):
    envs.reset()
    ids = np.arange(N)
    for k in range(4):
        *_, infos = envs.step(np.full(len(ids), k), ids)
        ids = np.array([info["env_id"] for info in infos])


def async_after(envs):
    try:
        envs.reset()
    except RuntimeError as error:
        obey(envs, error)
        envs.reset()
    ids, left = np.arange(N), dict.fromkeys(range(N), 0)
    for k in range(3):
        obs, rew, *_, infos = envs.step(100 * k + ids, ids)
        ids = np.array([info["env_id"] for info in infos])
        assert number_of(obs)[:, 0].tolist() == ids.tolist()
        for i, reward, step in zip(ids.tolist(), rew.tolist(), number_of(obs)[:, 2].tolist(), strict=True):
            left[i] += 1
            assert step == left[i]
            assert reward % 100 == i
    while envs.waiting_id:
        envs.recv()


@pytest.mark.parametrize("kind", ASYNC)
def test_reset_heals_asynchronous_ones(kind):
    sweep(ASYNC[kind], async_session, async_after, 40)


def test_envpool_gives_no_old_results():
    envpool = pytest.importorskip("envpool")

    def make(batch_size):
        return as_vector_env(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, batch_size=batch_size))

    def use(envs):
        envs.reset()
        for _ in range(4):
            envs.step(np.zeros(4, int))

    def check(envs):
        envs.reset()
        for k in range(1, 4 if envs.wait_num == 4 else 2):  # a group is completed by resets
            rows = envs.exchange(np.ones(4, int))
            while len(rows.env_id) < 4:
                rows = joined(rows, envs.recv())
            assert sorted(rows.env_id.tolist()) == [*range(4)]
            assert rows.info.columns()["elapsed_step"].tolist() == [k] * 4

    sweep(lambda: make(4), use, check, 30)

    def use_async(envs):
        envs.reset()
        envs.send(np.zeros(4, int))
        ids = envs.recv().env_id
        for _ in range(3):
            envs.send(np.zeros(len(ids), int), ids)
            ids = envs.recv().env_id
        while envs.waiting_id:
            envs.recv()

    def check_async(envs):
        try:
            envs.reset_rows()
        except RuntimeError as error:
            obey(envs, error)
        check(envs)

    sweep(lambda: make(3), use_async, check_async, 30)


@pytest.mark.filterwarnings("ignore:.*Calling .close. while waiting")
def test_gymnasiums_processes_recover_or_say_so():
    def make():
        return as_vector_env(gym.vector.AsyncVectorEnv(makers()))

    envs, remade = make(), 0
    envs.reset()
    for point in spread(points(partial(session, envs)), 40):
        interrupt(partial(session, envs), point)
        try:
            after(envs)
        except (RuntimeError, AssertionError) as error:
            if "was interrupted while it exchanged results with its processes" not in str(error):
                raise
            with pytest.raises(RuntimeError, match="make a new one"):
                envs.reset()
            envs.close()
            envs, remade = make(), remade + 1
    envs.close()
    assert remade < 20


# -- exceptions of environments ----------------------------------------------------------------------------------------


class Odd:
    """A reward that cannot be a number."""

    def __float__(self):
        raise SystemError("no number")

    def __array__(self, *_, **__):
        raise SystemError("no array")


ANSWERS = {"too large": 10**400, "text": "x", "nested": [1.0, [2.0]], "odd": Odd(), "flag": np.array([True, False])}


class Fails(Marked):
    """Environment 1 answers its second step with what cannot be put together, or raises."""

    def __init__(self, number, what, left):
        super().__init__(number)
        self.what, self.left = what, left if number == 1 else []

    def step(self, action):
        answer = super().step(action)
        if self.left and self.count == 2:
            self.left.clear()  # once, also if this is made anew
            if self.what == "raise":
                raise ValueError("simulator hiccup")
            if self.what == "interrupt":
                raise KeyboardInterrupt
            if self.what == "flag":
                return answer[0], answer[1], ANSWERS["flag"], *answer[3:]
            return answer[0], ANSWERS[self.what], *answer[2:]
        return answer


@pytest.mark.parametrize("call", ["step", "exchange", "recv"])
@pytest.mark.parametrize("what", [*ANSWERS, "raise", "interrupt"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["dummy", "workers"])
def test_reset_heals_after_a_failing_step(backend, what, mode, call):
    kind = {"dummy": DummyVectorEnv, "workers": threaded}[backend]
    left = [1]
    with kind([partial(Fails, i, what, left) for i in range(N)], autoreset_mode=mode) as envs:
        envs.reset()
        envs.step([1, 2, 3])
        with pytest.raises(BaseException):  # noqa: B017 (an exception of any kind)
            if call == "recv":
                envs.send(np.array([1, 2, 3]))
                envs.recv()
            else:
                getattr(envs, call)(np.array([1, 2, 3]))
        works(envs)


class Seeded(Marked):
    """Tells the seed of its reset in the info."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset()
        return obs, {**info, "seed": -1 if seed is None else seed}


def test_an_interrupted_reset_leaves_no_seed_behind():
    envs = SubprocVectorEnv(makers(Seeded), num_workers=1)
    envs.reset()
    for point in spread(points(lambda: envs.reset(seed=5)), 60):
        place = interrupt(lambda: envs.reset(seed=5), point)
        _, infos = envs.reset()
        assert [info["seed"] for info in infos] == [-1] * N, place
    envs.close()


def test_a_worker_that_cannot_forget_is_replaced():
    envs = threaded(makers())
    envs.reset()
    first = list(envs.workers)

    def interrupted():
        raise KeyboardInterrupt

    envs.workers[1].recv = interrupted
    with pytest.raises(KeyboardInterrupt):
        envs.step(np.arange(N))
    works(envs)
    assert [one is two for one, two in zip(envs.workers, first, strict=True)] == [True, False, True]
    envs.close()


def test_statistics_are_never_half_updated():
    data = np.random.default_rng(0).normal(3, 2, (20, 2))
    made = RunningMeanStd()
    made.update(data[:10])
    before = made.mean.tolist(), made.var.tolist(), made.count
    whole = RunningMeanStd()
    whole.update(data[:10])
    total = points(lambda: whole.update(data[10:]))
    after_ = whole.mean.tolist(), whole.var.tolist(), whole.count
    seen = set()
    for point in range(total):
        stats = RunningMeanStd()
        stats.update(data[:10])
        interrupt(lambda stats=stats: stats.update(data[10:]), point)
        now = stats.mean.tolist(), stats.var.tolist(), stats.count
        assert now in (before, after_)
        seen.add(now == after_)
    assert seen == {False, True}
