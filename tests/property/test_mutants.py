"""The comparison finds bugs that are put into a model or into the buffers, within a few programs."""

from random import Random

import numpy as np
import pytest

from oracle.replay import Replay
from property.buffers import Buffers, Cached
from property.engine import Engine
from property.programs import random_program
from property.runner import failure
from rlfast.data import CachedReplayBuffer, NStep, ReplayBuffer, Sequence
from rlfast.data.buffer.store import reading
from rlfast.data.buffer.store.store import Store


class StacksCrossEpisodes(Replay):
    def _neighbour(self, row, step):
        time, history = row.time + step, self.rings[row.ring].history
        return history[time] if 0 <= time < len(history) and self.alive(history[time]) else row


class OverwrittenRowsAreAlive(Replay):
    def alive(self, row):
        return row.slot in self.rings[row.ring].slots


class TruncationIsTermination(Replay):
    def nstep(self, row, n_step, gamma):
        reward_sum, discount, last = super().nstep(row, n_step, gamma)
        return reward_sum, 0.0 if last.done else discount, last


class TheDiscountIsAlwaysOfNSteps(Replay):
    def nstep(self, row, n_step, gamma):
        reward_sum, discount, last = super().nstep(row, n_step, gamma)
        return reward_sum, discount and gamma**n_step, last


class TheTerminalRewardIsLost(Replay):
    def nstep(self, row, n_step, gamma):
        reward_sum, discount, last = super().nstep(row, n_step, gamma)
        return reward_sum - (last.fields["rew",] + 1 if last.terminated else 0), discount, last


class TheNextObservationIsTheNextSlot(Replay):
    def _next_frames(self, row, depth):
        if depth == 1 and self.save_obs_next:
            slots = self.rings[row.ring].slots
            return [(slots.get((row.slot + 1) % self.rings[row.ring].capacity, row), "obs")]
        return super()._next_frames(row, depth)


class NextStacksBeginWithTheNextFrame(Replay):
    def _next_frames(self, row, depth):
        if self.save_obs_next:
            return [(other, "obs_next") for other in self.stack(row, depth)]
        return super()._next_frames(row, depth)


class StaleUpdatesAreTaken(Replay):
    def update_priority(self, rows, priorities):
        return super().update_priority([self.rings[r.ring].slots.get(r.slot, r) for r in rows], priorities)


class TheFirstDuplicateWins(Replay):
    def update_priority(self, rows, priorities):
        return super().update_priority(list(rows)[::-1], list(priorities)[::-1])


class TheMaximumForgets(Replay):
    def update_priority(self, rows, priorities):
        refused = super().update_priority(rows, priorities)
        self.max_priority = max([1.0, *(row.leaf ** (1 / self.alpha) for row in self.live())])
        return refused


class WeightsAreAlwaysRelativeToTheBuffer(Replay):
    def weights(self, rows):
        return (np.array([row.leaf for row in rows]) / min(row.leaf for row in self.live())) ** -self.beta


class ResetForgetsTheRunningEpisode(Replay):
    def reset(self, ring_id=None, keep_statistics=False):
        super().reset(ring_id)


class FullStacksAreOneShort(Replay):
    def candidates(self, ring_id=None):
        return [r for r in self.live(ring_id) if not self.sample_avail or len(self.past(r)) >= self.stack_num - 1]


class PaddingIsNotMasked(Replay):
    def window(self, row, before, length):
        rows, mask = super().window(row, before, length)
        return rows, [True] * len(mask)


class GoalsLieOneStepTooNear(Replay):
    def goals(self, row, horizon):
        return self.future(row)[: max(1, horizon - 1)]


MUTANTS = [mutant for mutant in Replay.__subclasses__() if mutant.__module__ == __name__]


def is_found(target):
    """Whether a random program tells the subject from its model."""
    for seed in range(300):
        random = Random(seed)
        length = 60 if seed < 20 else 300  # most are found by a few operations, and some by many
        error = failure(random_program(random, length, objects=target.objects), target)
        if error is not None:
            assert isinstance(error, AssertionError), error
            return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_that_is_put_back_is_found(mutant):
    class Mutated(Engine):
        def model(self):
            return mutant(self.config.capacities, **self.config.options())

    assert is_found(Mutated)


# -- bugs in the buffers ---------------------------------------------------------------------------------------------
def closing_does_nothing(patch):
    patch(ReplayBuffer, "close_episodes", lambda self, buffer_ids=None: None)


def closing_keeps_the_statistics_of_forgotten_rows(patch):
    def close_episodes(self, buffer_ids=None):
        for ring in self._rings_of(buffer_ids):
            self._core.close_episode(ring)

    patch(ReplayBuffer, "close_episodes", close_episodes)


def caches_keep_closed_episodes(patch):
    patch(CachedReplayBuffer, "close_episodes", lambda self, ids: ReplayBuffer.close_episodes(self, np.array(ids) + 1))


def update_takes_frame_stacks(patch):
    take = Store.take
    patch(Store, "take", lambda self, rows, keys=None, stack_num=None, out=None: take(self, rows, keys, None, out))


def update_takes_only_rows_that_may_be_drawn(patch):
    patch(Store, "live", lambda self, ring=None: self.core.chronological(ring))


def update_takes_all_rings(patch):
    live = Store.live
    patch(Store, "live", lambda self, ring=None: live(self))


def set_batch_forgets_running_episodes(patch):
    def set_batch(self, batch):
        self._store.replace(dict(batch.items()), self._core.sizes().tolist(), self._core.cursors().tolist())

    patch(ReplayBuffer, "set_batch", set_batch)


def set_batch_forgets_priorities(patch):
    def set_batch(self, batch):
        running = [self._core.running(ring) for ring in range(len(self._core.capacities))]
        self._store.replace(dict(batch.items()), self._core.sizes().tolist(), self._core.cursors().tolist())
        for ring, statistics in enumerate(running):
            self._core.set_running(ring, *statistics)

    patch(ReplayBuffer, "set_batch", set_batch)


def arrays_to_be_filled_are_put_aside(patch):
    patch(reading, "fillable", lambda store, out: {})


def weights_to_be_filled_are_not(patch):
    patch(reading.np, "copyto", lambda to, values: None)


def arrays_that_do_not_fit_are_replaced(patch):
    def fitting(store, out):
        return {key: array for key, array in fillable(store, out).items() if array.shape[1:] != (9, 9)}

    fillable = reading.fillable
    patch(reading, "fillable", fitting)


def steps_lead_where_their_first_row_led(patch):
    def expand(self, buffer, indices):
        batch = buffer[indices]
        batch.rew, batch.discount, batch.last_index = buffer.nstep(indices, self.n_step, self.gamma)
        return batch

    patch(NStep, "expand", expand)


def burn_in_is_learned_from(patch):
    def expanded(self, buffer, indices):
        batch = expand(self, buffer, indices)
        batch.loss_mask = batch.mask
        return batch

    expand = Sequence.expand
    patch(Sequence, "expand", expanded)


def sequences_start_at_the_row_before(patch):
    expand = Sequence.expand
    patch(Sequence, "expand", lambda self, buffer, indices: expand(self, buffer, buffer.prev(indices)))


def folders_are_not_used(patch):
    engine = Store._engine
    patch(Store, "_engine", lambda self, capacities, seed, storage: engine(self, capacities, seed, "ram"))


def loading_forgets_the_folder(patch):
    setup = ReplayBuffer._setup

    def in_memory(self, sizes, config, seed, storage="ram", *children):
        setup(self, sizes, config, seed, storage if seed else "ram", *children)  # which load takes from the file

    patch(ReplayBuffer, "_setup", in_memory)


IN_BUFFERS = [
    one for one in list(globals().values()) if getattr(one, "__code__", None) and "patch" in one.__code__.co_varnames
]


@pytest.mark.parametrize("put", IN_BUFFERS, ids=lambda put: put.__name__)
def test_a_bug_in_the_buffers_is_found(put, monkeypatch):
    put(monkeypatch.setattr)
    assert is_found(Cached if put is caches_keep_closed_episodes else Buffers)
