import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Bernoulli

from rlfast.data import Batch
from rlfast.functional import Categorical, MultiCategorical
from rlfast.policy.components.action_masks import check_legal, legal_distribution, legal_logits, legal_values
from rlfast.utils.arguments.checks import ArgumentError

PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
MASK = np.array([[True, False, True], [False, False, True]])
KINDS = {
    "rlfast": lambda: Categorical(PROBS.log()),
    "logits": lambda: torch.distributions.Categorical(logits=PROBS.log()),
    "probabilities": lambda: torch.distributions.Categorical(PROBS),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "mask", [MASK, torch.as_tensor(MASK), MASK.astype(np.int8), MASK.astype(np.float32), MASK[:, None]]
)
def test_probabilities_of_legal_actions_keep_their_ratios(kind, mask):
    dist = legal_distribution(KINDS[kind](), mask)
    assert type(dist) is type(KINDS[kind]())
    assert dist.probs.numpy() == pytest.approx(np.array([[5 / 7, 0, 2 / 7], [0, 0, 1]]))
    assert dist.entropy().tolist() == pytest.approx([-5 / 7 * math.log(5 / 7) - 2 / 7 * math.log(2 / 7), 0.0])
    assert dist.log_prob(torch.tensor([2, 2])).tolist() == pytest.approx([math.log(2 / 7), 0.0])
    assert dist.log_prob(torch.tensor([1, 0])).tolist() == [-math.inf] * 2
    assert dist.mode.tolist() == [0, 2]
    assert {*dist.sample((1000,))[:, 0].tolist()} == {0, 2}


def test_several_choices():
    dist = MultiCategorical(torch.cat([PROBS[:, :2], PROBS], 1).log(), [2, 3])
    mask = np.array([[True, False, *MASK[0]], [True, True, *MASK[1]]])
    legal = legal_distribution(dist, mask)
    assert legal.log_prob(torch.tensor([[0, 2], [1, 2]])).exp().tolist() == pytest.approx([2 / 7, 6 / 7])
    assert legal.mode.tolist() == [[0, 0], [1, 2]]


def test_rows_by_time_and_environment():
    logits = torch.cat([PROBS[:, :2], PROBS], 1).log()
    mask = np.array([[True, False, *MASK[0]], [True, True, *MASK[1]]])
    flat = legal_distribution(MultiCategorical(logits, [2, 3]), mask)
    legal = legal_distribution(MultiCategorical(logits[:, None], [2, 3]), mask[:, None])
    act = torch.tensor([[0, 2], [1, 2]])
    assert legal.log_prob(act[:, None]).tolist() == [[value] for value in flat.log_prob(act).tolist()]
    assert torch.equal(legal_logits(PROBS[:, None], MASK), legal_logits(PROBS, MASK)[:, None])


def test_a_network_that_diverged_is_no_error_of_the_mask():
    dist = torch.distributions.Categorical(logits=torch.full((1, 3), math.nan), validate_args=False)
    assert legal_distribution(dist, MASK[:1]).probs[0, 0].isnan()


def test_gradients_of_entropy_are_finite():
    logits = PROBS.log().requires_grad_()
    legal_distribution(Categorical(logits), MASK).entropy().sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[~torch.as_tensor(MASK)].tolist() == [0.0] * 3


def test_a_row_without_legal_actions_counts_as_one_with_all():
    dist = MultiCategorical(PROBS.log(), [1, 2])
    legal = legal_distribution(dist, np.array([[True, False, False], [True, True, False]]))
    assert legal.mode.tolist() == [[0, 0]] * 2
    assert legal.log_prob(torch.tensor([[0, 1], [0, 0]])).exp().tolist() == pytest.approx([0.4, 1.0])
    values = legal_logits(PROBS, np.array([[False, False, False], [True, False, True]]))
    assert values.tolist() == [pytest.approx([0.5, 0.3, 0.2]), pytest.approx([0.1, -math.inf, 0.3])]


@pytest.mark.parametrize("mask", [MASK, torch.as_tensor(MASK), MASK.astype(np.int8)])
def test_values_of_illegal_actions_are_the_least(mask):
    values = legal_values(PROBS, mask)
    assert values.tolist() == [pytest.approx([0.5, -math.inf, 0.2]), pytest.approx([-math.inf, -math.inf, 0.3])]
    assert legal_values(PROBS, None) is PROBS
    for masked in (legal_values, legal_logits):
        assert masked(PROBS.to("meta"), mask).device.type == "meta"


@pytest.mark.parametrize("mask", [None, np.ones((2, 5), bool)])
def test_what_is_no_mask_of_actions_changes_nothing(mask):
    assert torch.equal(legal_distribution(KINDS["rlfast"](), mask).probs, KINDS["rlfast"]().probs)
    assert legal_logits(PROBS, mask) is PROBS


def test_another_distribution_is_left_as_it_is_with_a_warning():
    dist = Bernoulli(PROBS)
    with pytest.warns(UserWarning, match="obs.mask is not applied to a Bernoulli"):
        assert legal_distribution(dist, MASK) is dist


class TestCheckLegal:
    SPACE = MultiDiscrete([2, 3])
    MASK = np.array([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0]], np.int8)

    def batch(self, act, mask=MASK):
        return Batch(obs=Batch(obs=np.zeros(2), mask=mask), act=act)

    @pytest.mark.parametrize("act", [[[0, 1], [1, 0]], [[0, 2], [1, 0]]])
    def test_legal_actions(self, act):
        check_legal(self.batch(np.array(act)), self.SPACE)
        check_legal(self.batch(torch.tensor(act), torch.as_tensor(self.MASK)), self.SPACE)

    @pytest.mark.parametrize("act", [[[0, 1], [0, 0]], [[0, 1], [1, 1]], [[0, 1], [1, 3]], [[0, 1], [-1, 0]]])
    def test_illegal_actions(self, act):
        with pytest.raises(ArgumentError, match=r"row 1 .* \[0, 1, 1, 0, 0\] calls illegal"):
            check_legal(self.batch(np.array(act)), self.SPACE)

    def test_what_allows_all(self):
        act = np.array([[1, 0], [0, 2]])
        check_legal(self.batch(act, np.zeros((2, 5), bool)), self.SPACE)  # of terminal states
        check_legal(self.batch(act, np.zeros((2, 4), bool)), self.SPACE)  # another size
        check_legal(Batch(obs=np.zeros(2), act=act), self.SPACE)
        check_legal(self.batch(act), Box(-1, 1, (2,)))

    def test_one_choice(self):
        batch = self.batch(np.array([0, 1]), np.eye(2, dtype=bool))
        check_legal(batch, Discrete(2, start=5))
        batch.act = np.array([0, 0])
        with pytest.raises(ArgumentError, match=r"row 1 of the sample has the action \[0\], counted from 0"):
            check_legal(batch, Discrete(2, start=5))
