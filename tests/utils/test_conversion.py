import numpy as np
import pytest
import torch

from rlfast.utils.conversion import to_optional_float


@pytest.mark.parametrize("x", [2, 2.0, np.float32(2), torch.tensor(2), torch.tensor([2.0], requires_grad=True)])
def test_one_number_becomes_a_float(x):
    assert to_optional_float(x) == 2.0
    assert type(to_optional_float(x)) is float


def test_none_stays_none():
    assert to_optional_float(None) is None
