"""The comparison finds bugs that are put into a model, within a few programs."""

from random import Random

import numpy as np
import pytest

from oracle.replay import Replay
from property.engine import Engine
from property.programs import random_program
from property.runner import failure


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
