"""Checks of ``rlfast.interop.d3rlpy`` for ``test_d3rlpy.py``, which runs them in an interpreter with d3rlpy.

``python d3rlpy_driver.py`` runs every ``check_*`` and writes the errors by name as JSON to standard output.
"""

import dataclasses
import io
import os
import tempfile
import warnings

import d3rlpy
import gymnasium
import numpy as np
from d3rlpy import dataset as host
from driving import follow_page, raises, run_checks

from rlfast.data import ReplayBuffer as Plain
from rlfast.interop.d3rlpy import ReplayBuffer

LENGTHS = (5, 3, 1, 8)


def episode(length, terminated, seed, several=False):
    rng = np.random.default_rng(seed)
    observations = rng.random((length, 3)).astype(np.float32)
    if several:
        observations = [observations, rng.integers(0, 256, (length, 2, 4, 4), dtype=np.uint8)]
    actions, rewards = rng.random((length, 2)).astype(np.float32), rng.random((length, 1)).astype(np.float32)
    return host.Episode(observations, actions, rewards, terminated)


def episodes(several=False):
    return [episode(length, place % 2 == 0, place, several) for place, length in enumerate(LENGTHS)]


def buffers(several=False, limit=100, **kwargs):
    mine = ReplayBuffer(limit, episodes=episodes(several), seed=0, **kwargs)
    yours = host.ReplayBuffer(host.FIFOBuffer(limit), episodes=episodes(several), **kwargs)
    return mine, yours


def arrays(value):
    return value if isinstance(value, list | tuple) else [value]


def same_episode(one, other):
    for mine, yours in zip(arrays(one.observations), arrays(other.observations), strict=True):
        np.testing.assert_array_equal(mine, yours)
        assert mine.dtype == yours.dtype
    np.testing.assert_array_equal(one.actions, other.actions)
    np.testing.assert_array_equal(one.rewards, other.rewards)
    assert one.rewards.dtype == other.rewards.dtype
    assert one.terminated == other.terminated


def check_episodes_are_what_was_given():
    for several in (False, True):
        mine, yours = buffers(several)
        assert isinstance(mine, host.ReplayBufferBase)
        assert mine.transition_count == yours.transition_count == len(mine.buffer)
        assert mine.size() == len(LENGTHS)
        for one, other in zip(mine.episodes, episodes(several), strict=True):
            same_episode(one, other)
        for index in range(yours.transition_count):
            (one, at), (other, there) = mine.buffer[index], yours.buffer[index]
            assert at == there
            same_episode(one, other)
        assert mine.dataset_info.action_size == yours.dataset_info.action_size


def check_mini_batches_are_the_pickers():
    for several in (False, True):
        mine, _ = buffers(several)
        batch = mine.sample_transition_batch(64)
        picker, given = host.BasicTransitionPicker(), episodes(several)
        known = {float(arrays(e.observations)[0][i, 0]): (e, i) for e in given for i in range(e.transition_count)}
        expected = []
        for place in range(64):
            found, at = known[float(arrays(batch.observations)[0][place, 0])]
            expected.append(picker(found, at))
        whole = host.TransitionMiniBatch.from_transitions(expected)
        for name in ("observations", "next_observations"):
            for one, other in zip(arrays(getattr(batch, name)), arrays(getattr(whole, name)), strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == np.float32
        for name in ("actions", "rewards", "next_actions", "terminals", "intervals"):
            np.testing.assert_array_equal(getattr(batch, name), getattr(whole, name))
            assert getattr(batch, name).dtype == np.float32
        assert len(batch.transitions) == 64
        for one, other in zip(batch.transitions, expected, strict=True):
            np.testing.assert_array_equal(one.rewards_to_go, other.rewards_to_go)
            np.testing.assert_array_equal(one.reward, other.reward)
            np.testing.assert_array_equal(one.next_action, other.next_action)
            assert (one.terminal, one.interval) == (other.terminal, other.interval)
            for x, y in zip(arrays(one.next_observation), arrays(other.next_observation), strict=True):
                np.testing.assert_array_equal(x, y)
        assert len(batch.transitions[3:7]) == 4


def check_every_transition_is_drawn_alike():
    mine, _ = buffers()
    seen = np.concatenate([mine.sample_transition_batch(1000).observations[:, 0] for _ in range(20)])
    counts = np.unique(seen, return_counts=True)[1]
    assert len(counts) == mine.transition_count
    assert abs(counts / 20_000 * mine.transition_count - 1).max() < 0.2


def check_other_pickers_and_slicers():
    for picker in (host.MultiStepTransitionPicker(3, 0.9), host.SparseRewardTransitionPicker(-100)):
        mine, _ = buffers(transition_picker=picker)
        batch = mine.sample_transition_batch(16)
        assert batch.observations.shape == (16, 3)
        wanted = {1.0} if isinstance(picker, host.SparseRewardTransitionPicker) else {1.0, 2.0, 3.0}
        assert set(np.unique(batch.intervals)) <= wanted
    mine, yours = buffers()
    part = mine.sample_trajectory_batch(8, 4)
    assert part.observations.shape == (8, 4, 3)
    assert mine.sample_trajectory(4).length == yours.sample_trajectory(4).length == 4
    assert mine.sample_transition().observation.shape == (3,)
    mixed = host.MixedReplayBuffer(mine, yours, 0.5)
    assert mixed.sample_transition_batch(8).observations.shape == (8, 3)


def check_steps_online():
    env = gymnasium.make("CartPole-v1")
    mine = ReplayBuffer(50, env=env, seed=0)
    yours = host.create_fifo_replay_buffer(50, env=env)
    for place, length in enumerate((6, 2, 4)):
        rng = np.random.default_rng(place)
        for _ in range(length):
            step = rng.random(4).astype(np.float32), int(rng.integers(2)), float(rng.random())
            for buffer in (mine, yours):
                buffer.append(*step)
        for buffer in (mine, yours):
            buffer.clip_episode(terminated=place % 2 == 1)
        assert mine.transition_count == yours.transition_count
    for one, other in zip(mine.episodes, yours.episodes, strict=True):
        same_episode(one, other)
    mine.append(np.ones(4, np.float32), 1, 1.0)  # d3rlpy's writer lets an episode of one step run on into the next
    mine.clip_episode(terminated=True)
    assert mine.episodes[-1].size() == 1
    assert mine.episodes[-1].terminated
    assert mine.sample_transition_batch(9).actions.shape == (9, 1)


def online(space, **kwargs):
    """A buffer of ours and one of d3rlpy's for steps of an environment with observations of this space."""

    class Env(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(3)

    return ReplayBuffer(200, env=Env(), seed=0, **kwargs), host.create_fifo_replay_buffer(200, env=Env(), **kwargs)


def walk(pair, lengths, shape=(2,)):
    """Adds steps to both; the last episode goes on."""
    number = 0
    for place, length in enumerate(lengths):
        if place:
            for buffer in pair:
                buffer.clip_episode(terminated=place % 2 == 1)
        for _ in range(length):
            number += 1
            for buffer in pair:
                buffer.append(np.full(shape, number), number % 3, 0.5 * number)


def same_transitions(mine, yours):
    assert mine.transition_count == yours.transition_count
    for index in range(yours.transition_count):
        one, other = (buffer.transition_picker(*buffer.buffer[index]) for buffer in (mine, yours))
        for field in dataclasses.fields(other):
            found, wanted = getattr(one, field.name), getattr(other, field.name)
            np.testing.assert_array_equal(found, wanted, field.name)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype, field.name


def check_the_running_episode():
    space = gymnasium.spaces.Box(0, 99, (2,), np.float32)
    for picker in (host.BasicTransitionPicker(), host.MultiStepTransitionPicker(3, 0.9)):
        mine, yours = online(space, transition_picker=picker)
        walk((mine, yours), (4, 3, 5))
        same_transitions(mine, yours)
        same_episode(mine.episodes[-1], yours.episodes[-1])
        assert mine.sample_transition_batch(200).observations.shape == (200, 2)
        assert mine.sample_trajectory_batch(200, 3).observations.shape == (200, 3, 2)
    mine, yours = online(space)
    walk((mine, yours), (4, 3, 5))
    for one in mine.sample_transition_batch(50).transitions:
        (other,) = (
            found
            for found in (yours.transition_picker(*yours.buffer[i]) for i in range(yours.transition_count))
            if (found.observation == one.observation).all()
        )
        np.testing.assert_array_equal(one.rewards_to_go, other.rewards_to_go)


def check_frame_stacks_online():
    space = gymnasium.spaces.Box(0, 255, (4, 6, 6), np.uint8)
    pair = online(
        space,
        transition_picker=host.FrameStackTransitionPicker(4),
        writer_preprocessor=host.LastFrameWriterPreprocess(),
    )
    walk(pair, (4, 3, 5), (4, 6, 6))
    same_transitions(*pair)
    assert pair[0].sample_transition_batch(200).observations.shape == (200, 4, 6, 6)


def check_preprocessors():
    class Own(host.BasicWriterPreprocess):
        def process_observation(self, observation):
            return (observation[:1] / 255).astype(np.float32)

        def process_action(self, action):
            return np.eye(3, dtype=np.float32)[int(np.atleast_1d(action)[0])]

        def process_reward(self, reward):
            return reward / 2 if reward[0] > 1 else reward

    pair = online(gymnasium.spaces.Box(0, 255, (2,), np.uint8), writer_preprocessor=Own())
    walk(pair, (4, 3, 5))
    same_transitions(*pair)


def check_steps_are_copied():
    pair = online(gymnasium.spaces.Box(0, 9, (2,), np.float32))
    observation, action = np.zeros(2, np.float32), np.zeros(1, np.int64)
    for _ in range(5):
        for buffer in pair:
            buffer.append(observation, action, 1.0)
        observation += 1
        action += 1
    same_transitions(*pair)
    for buffer in pair:
        raises(ValueError, "", lambda buffer=buffer: buffer.append(np.zeros(3, np.float32), action, 1.0))


def check_writing_at_termination():
    pair = online(gymnasium.spaces.Box(0, 99, (2,), np.float32), write_at_termination=True)
    walk(pair, (4, 3, 5))
    same_transitions(*pair)
    assert pair[0].transition_count == 4 + 2
    for buffer in pair:
        buffer.clip_episode(terminated=True)
    same_transitions(*pair)


def check_the_oldest_go():
    mine = ReplayBuffer(10, episodes=episodes(), seed=0)
    assert [one.size() for one in mine.episodes] == [1, 1, 8]
    assert mine.transition_count == 1 + 7
    same_episode(mine.episodes[-1], episodes()[-1])


def check_files_both_ways():
    mine, yours = buffers()
    for writer in (mine, yours):
        for kind, where in ((ReplayBuffer, 100), (host.ReplayBuffer, host.FIFOBuffer(100))):
            file = io.BytesIO()
            writer.dump(file)
            again = kind.load(file, where)
            for one, other in zip(again.episodes, episodes(), strict=True):
                same_episode(one, other)
    made = ReplayBuffer.from_episode_generator(episodes, 100)
    assert made.transition_count == mine.transition_count


def check_training():
    env = gymnasium.make("CartPole-v1")
    mine = ReplayBuffer(1000, env=env, seed=0)
    config = d3rlpy.algos.DQNConfig(batch_size=16, target_update_interval=20)
    dqn = config.create()
    dqn.fit_online(env, mine, n_steps=150, n_steps_per_epoch=150, update_start_step=50, **QUIET)
    assert mine.transition_count > 120
    offline = d3rlpy.algos.DiscreteCQLConfig(batch_size=16).create()
    offline.fit(mine, n_steps=20, n_steps_per_epoch=20, **QUIET)
    pi = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    pi.fit(buffers()[0], n_steps=5, n_steps_per_epoch=5, **QUIET)
    decision = d3rlpy.algos.DecisionTransformerConfig(batch_size=4, context_size=3).create()
    decision.fit(buffers()[0], n_steps=2, n_steps_per_epoch=2, **QUIET)


QUIET = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}


def check_what_minaris_collector_writes():
    import minari

    warnings.simplefilter("ignore")
    os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
    env = minari.DataCollector(gymnasium.make("CartPole-v1", max_episode_steps=12), record_infos=True)
    env.action_space.seed(0)
    for seed in range(4):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    dataset = env.create_dataset("cartpole/test-v0")
    buffer = Plain.from_minari(dataset)
    assert len(buffer) == dataset.total_steps
    again = buffer.to_minari("cartpole/again-v0", env="CartPole-v1")
    for one, other in zip(dataset.iterate_episodes(), again.iterate_episodes(), strict=True):
        for field in ("observations", "actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        assert one.infos.keys() == other.infos.keys()
    assert {bool(one.truncations[-1]) for one in dataset.iterate_episodes()} == {True} or len(buffer) < 48


def check_migration_page():
    follow_page("d3rlpy")


if __name__ == "__main__":
    run_checks(globals(), d3rlpy.__version__)
