import inspect
import typing

import numpy as np
import pytest
import torch

from rlfast.data import Batch, types
from rlfast.data.types import BatchProtocol

FIELDS = {
    "ObsBatchProtocol": {"obs", "info"},
    "RolloutBatchProtocol": {"obs", "info", "obs_next", "act", "rew", "terminated", "truncated"},
    "PrioBatchProtocol": {"obs", "info", "obs_next", "act", "rew", "terminated", "truncated", "weight"},
    "RecurrentStateBatch": {"hidden", "cell"},
    "ActBatchProtocol": {"act"},
    "ActStateBatchProtocol": {"act", "state"},
    "ModelOutputBatchProtocol": {"act", "state", "logits"},
    "FQFBatchProtocol": {"act", "state", "logits", "fractions", "quantiles_tau"},
    "DistBatchProtocol": {"act", "state", "logits", "dist"},
    "DistLogProbBatchProtocol": {"act", "state", "logits", "dist", "log_prob"},
    "QuantileRegressionBatchProtocol": {"act", "state", "logits", "taus"},
    "ImitationBatchProtocol": {"act", "state", "q_value", "imitation_logits"},
}
FIELDS["BatchWithReturnsProtocol"] = FIELDS["RolloutBatchProtocol"] | {"returns"}
FIELDS["BatchWithAdvantagesProtocol"] = FIELDS["BatchWithReturnsProtocol"] | {"adv", "v_s"}
FIELDS["LogpOldProtocol"] = FIELDS["BatchWithAdvantagesProtocol"] | {"logp_old"}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_of_each_protocol(name):
    protocol = getattr(types, name)
    declared = {field for base in protocol.__mro__ for field in inspect.get_annotations(base)}
    assert declared == FIELDS[name]


def test_there_are_no_others():
    protocols = {n for n, v in vars(types).items() if getattr(v, "_is_protocol", False) and v is not typing.Protocol}
    assert protocols == {*FIELDS, "BatchProtocol"}


def test_a_batch_has_what_the_protocol_asks_for():
    missing = [name for name in vars(BatchProtocol) if name not in dir(Batch) and not name.startswith("_")]
    assert missing == []
    assert isinstance(Batch(a=np.zeros(1)), BatchProtocol)
    assert not isinstance({"a": 1}, BatchProtocol)


def test_types_of_fields_and_indices_are_types():
    assert {np.ndarray, torch.Tensor} == set(typing.get_args(types.arr_type))
    assert types.TArr == types.arr_type
    assert {slice, int, np.ndarray} < set(typing.get_args(types.IndexType))
    from rlfast.data import batch

    assert (batch.arr_type, batch.IndexType) == (types.arr_type, types.IndexType)
    assert isinstance(np.zeros(1), types.arr_type)
    assert typing.get_type_hints(types.RolloutBatchProtocol)["act"] == types.arr_type
