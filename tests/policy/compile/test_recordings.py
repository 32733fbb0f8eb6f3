"""Updates that replay recordings equal eager ones, and are recorded again when something has changed."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch._dynamo.utils import counters

from algorithms import ALL, learned_temperature, make_policy, rows
from continuous import weights
from policy.compile.taped import Taped
from rlfast.functional import Categorical
from rlfast.policy import A2CPolicy, PPOPolicy
from rlfast.policy.compile import compiled_update
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.compile.recordings import RecordedFunction, tensors_of, with_tensors
from rlfast.trainer._prefetch import PrefetchedBuffer
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.net.ensemble import BatchRenorm
from rlfast.utils.optim import adam

CPU = pytest.param("cpu", id="cpu")
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
DRAWING = ("rainbow",)
"""Algorithms that draw within their update, as compiled code does in another way."""


@pytest.fixture
def replaying(monkeypatch):
    """Let the updates of a device replay recordings of the update itself, as where PyTorch cannot compile it."""

    def on(device):
        monkeypatch.setattr(compiled_update.graph_gradients, "has_gradients_in_graphs", lambda: False)
        monkeypatch.setattr(CompiledUpdate, "recorded_devices", frozenset({"cpu", "cuda"}))
        if device == "cpu":
            monkeypatch.setattr(RecordedFunction, "recording", Taped)

    return on


def made(name, device="cpu", **options):
    return make_policy(name, **options, **learned_temperature(name)).to(device)


def updated(policy, buffer, start=0, stop=20, size=16):
    """Learn from the same rows and noise for each policy; return the losses of the steps."""
    losses = []
    for step in range(start, stop):
        torch.manual_seed(step)
        indices = np.random.default_rng(step).integers(100, size=size)
        losses.append(policy.learn(policy.process_fn(buffer[indices], buffer, indices)).get_loss_stats_dict())
    return losses


def compare(name, device, tolerance, **options):
    eager, compiled = made(name, device, **options), made(name, device, compile=True, **options)
    buffer = eager.process_buffer(rows(name))
    for ours, theirs in zip(updated(compiled, buffer), updated(eager, buffer), strict=True):
        assert ours == pytest.approx(theirs, rel=10 * tolerance, abs=10 * tolerance)
    torch.testing.assert_close(weights(compiled), weights(eager), atol=tolerance, rtol=tolerance)
    return compiled


def recordings_of(policy):
    return [one for one in policy._compiled._recorded._kept.values() if one.is_recorded]


@pytest.mark.parametrize("device", [CPU, CUDA])
@pytest.mark.parametrize("name", ALL)
def test_a_replayed_update_is_the_eager_one(name, device, replaying):
    replaying(device)
    assert 1 <= len(recordings_of(compare(name, device, 1e-5 if device == "cpu" else 1e-4))) <= 2


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("name", [name for name in ALL if name not in DRAWING])
def test_a_replayed_compiled_update_is_the_eager_one(name, device):
    torch._dynamo.reset()
    assert 1 <= len(recordings_of(compare(name, device, 1e-3))) <= 2


@pytest.mark.long
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_code_from_the_compilers_cache_agrees_as_well(device, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        compare("dqn", device, 1e-5 if device == "cpu" else 1e-3)
    assert counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"] >= 1


def on_policy(kind, device, **options):
    torch.manual_seed(0)
    nets = {"actor": Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False)}
    nets["critic"] = Critic(Net(4, hidden_sizes=[8]))
    space = {"action_space": Discrete(3), "action_scaling": False, "dist_fn": Categorical}
    policy = kind(**nets, **space, optim=adam(1e-3), max_grad_norm=0.5, **options)
    policy.seed(0)
    return policy.to(device)


@pytest.mark.parametrize("device", [CPU, CUDA])
@pytest.mark.parametrize("kind", [A2CPolicy, PPOPolicy])
def test_minibatches_of_two_sizes_have_two_recordings(kind, device, replaying):
    replaying(device)
    eager, compiled = on_policy(kind, device), on_policy(kind, device, compile=True)
    buffer = rows("dqn")
    for _ in range(3):
        ours, theirs = (one.update(0, buffer, batch_size=30, repeat=2) for one in (compiled, eager))
        for name, value in theirs.get_loss_stats_dict().items():
            assert ours.get_loss_stats_dict()[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
    torch.testing.assert_close(weights(compiled), weights(eager), atol=1e-4, rtol=1e-4)
    assert sorted(len(one._inputs[0]) for one in recordings_of(compiled)) == [30, 40]


def set_learning_rate(policy):
    policy.optim.param_groups[0]["lr"] = 0.5


def set_weight_decay(policy):
    policy.optim.param_groups[0]["weight_decay"] = 0.5


def set_loss(policy):
    policy.clip_loss_grad = True


def set_mode(policy):
    policy.model.eval()


def load(policy):
    other = copy.deepcopy(policy)
    for parameter in other.model.parameters():
        nn.init.constant_(parameter, 0.2)
    policy.load_state_dict(copy.deepcopy(other.state_dict()))


def replace_target(policy):
    torch.manual_seed(3)
    policy.model_old = copy.deepcopy(policy.model)
    for parameter in policy.model_old.parameters():
        parameter.requires_grad_(False).fill_(0.1)


CHANGES = [set_learning_rate, set_weight_decay, set_loss, set_mode, load, replace_target]
"""What a user may change between updates."""


@pytest.mark.parametrize("device", [CPU, CUDA])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_have_an_effect(change, device, replaying):
    replaying(device)
    net = Net(4, 3, hidden_sizes=[8], linear_layer=lambda i, o: nn.Sequential(BatchRenorm(i), nn.Linear(i, o)))
    options = {"target_update_freq": 1000}
    eager, unchanged = (made("dqn", device, model=copy.deepcopy(net), **options) for _ in range(2))
    compiled, buffer = made("dqn", device, model=net, compile=True, **options), rows("dqn")
    for policy in (eager, compiled, unchanged):
        updated(policy, buffer, 0, 5)
        if policy is not unchanged:
            change(policy)
        updated(policy, buffer, 5, 10)
    torch.testing.assert_close(weights(compiled), weights(eager), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(weights(compiled), weights(unchanged), atol=1e-5)


class Rounded(nn.Module):
    """A network that computes in bfloat16, with weights of float32, as that of ``--dtype bfloat16``."""

    def __init__(self):
        super().__init__()
        self.net = Net(4, 3, hidden_sizes=[8])

    def forward(self, obs, state=None, info=None):
        with torch.autocast(next(self.parameters()).device.type, torch.bfloat16):
            return self.net(obs)[0].float(), state


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_autocast_is_recorded(device, replaying):
    replaying(device)
    torch.manual_seed(0)
    eager, compiled = (made("dqn", device, model=Rounded(), compile=compile) for compile in (False, True))
    compiled.load_state_dict(eager.state_dict())
    for policy in (eager, compiled):
        updated(policy, rows("dqn"))
    assert recordings_of(compiled)
    torch.testing.assert_close(weights(compiled), weights(eager), atol=1e-4, rtol=1e-4)


def test_a_learning_rate_needs_no_new_recording(replaying):
    replaying("cpu")
    policy, buffer = made("sac", compile=True), rows("sac")
    updated(policy, buffer, 0, 5)
    found = recordings_of(policy)
    for optim in (policy.actor_optim, policy.critic_optim, policy.critic2_optim):
        optim.param_groups[0]["lr"] *= 0.5
    updated(policy, buffer, 5, 8)
    assert recordings_of(policy) == found


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_copies_record_for_themselves(carry, replaying):
    replaying("cpu")
    policy, buffer = made("td3", compile=True), rows("td3")
    updated(policy, buffer, 0, 6)
    other, before = carry(policy), weights(policy)
    updated(other, buffer, 6, 12)
    assert torch.equal(weights(policy), before)
    updated(policy, buffer, 6, 12)
    torch.testing.assert_close(weights(policy), weights(other))


def test_recordings_are_no_state(replaying):
    replaying("cpu")
    eager, compiled = made("sac"), made("sac", compile=True)
    for policy in (eager, compiled):
        updated(policy, rows("sac"), 0, 4)
    states = [policy.state_dict()["_extra_state"]["values"] for policy in (eager, compiled)]
    for part in ("changed", "made_with"):
        assert states[0][part].keys() == states[1][part].keys()


def test_results_are_not_overwritten(replaying):
    replaying("cpu")
    policy = on_policy(PPOPolicy, "cpu", compile=True)
    kept = [dict(one) for one in record_losses(policy)]
    assert len({one["loss"].item() for one in kept}) == len(kept)


def record_losses(policy):
    batch = policy.process_fn(rows("dqn")[np.arange(100)], rows("dqn"), np.arange(100))
    return policy.losses_of_passes(batch, 20, 3)


class TestRecordedFunction:
    @pytest.fixture(autouse=True)
    def _taped(self, monkeypatch):
        monkeypatch.setattr(RecordedFunction, "recording", Taped)

    def recorded(self, function):
        calls = []
        return RecordedFunction(lambda *args: calls.append(1) or function(*args)), calls

    def test_the_first_call_runs_and_the_second_records(self):
        double, calls = self.recorded(lambda x: {"twice": 2 * x})
        for number, expected in enumerate((1, 2, 2, 2)):
            assert double(torch.tensor([1.0, number]))["twice"].tolist() == [2.0, 2.0 * number]
            assert len(calls) == expected

    def test_what_is_recorded_has_run_with_the_same_tensors(self):  # or the compiler may have to compile meanwhile
        seen, rows = [], torch.arange(8.0)
        double, _ = self.recorded(lambda x: seen.append((x.data_ptr(), x.storage_offset())) or 2 * x)
        for start in (4, 2, 3):
            assert double(rows[start : start + 2]).tolist() == [2 * start, 2 * start + 2]
        assert len(seen) == 2
        assert len({*seen}) == 1

    def test_shapes_dtypes_and_numbers_have_recordings_of_their_own(self):
        scale, calls = self.recorded(lambda x, by: x * by)
        x = torch.ones(2)
        for args in ((x, 2), (torch.ones(3), 2), (x.double(), 2), (x, 3)):
            calls.clear()
            for _ in range(3):
                result = scale(*args)
                assert torch.equal(result, args[0] * args[1])
                assert result.dtype is args[0].dtype
            assert len(calls) == 2

    def test_a_missing_argument_is_no_tensor(self):
        first, _ = self.recorded(lambda x, y: 2 * (y if x is None else x + 1))
        for _ in range(3):
            assert (first(torch.ones(()), None).item(), first(None, torch.ones(())).item()) == (4.0, 2.0)

    def test_what_was_not_used_for_long_is_forgotten(self):
        total, calls = self.recorded(lambda x: x.sum())
        for _ in range(3):
            total(torch.ones(1))
        for size in range(2, 18):
            total(torch.ones(size))
        calls.clear()
        assert total(torch.ones(1)) == 1.0
        assert calls == [1]
        assert len(total._kept) == 16

    def test_recordings_share_memory_as_long_as_one_is_kept(self, monkeypatch):
        pools = []

        class Pooled(Taped):
            def record(self, tensors, pool):
                pools.append(pool)
                return super().record(tensors, pool)

        monkeypatch.setattr(RecordedFunction, "recording", Pooled)
        total = RecordedFunction(lambda x: x.sum())
        for size in (1, 1, 2, 2):
            total(torch.ones(size))
        total.forget()
        total(torch.ones(1)), total(torch.ones(1))
        assert pools[0] is pools[1] is not pools[2]

    def test_a_warning_where_nothing_stays(self):
        total, _ = self.recorded(lambda x: x.sum())
        for size in range(31):
            total(torch.ones(size))
        with pytest.warns(UserWarning, match="hardly an effect on this device, as the shapes of samples"):
            total(torch.ones(31))

    def test_structures(self):
        value = {"a": torch.ones(2), "b": (torch.zeros(()), None), "c": [3, torch.ones(1, dtype=torch.int64)]}
        assert [tensor.numel() for tensor in tensors_of(value)] == [2, 1, 1]
        assert with_tensors(value, iter("xyz")) == {"a": "x", "b": ("y", None), "c": [3, "z"]}
        recorded, _ = self.recorded(lambda x: ({"a": x, "b": (x > 1).sum()}, None, x.reshape(1, -1)))
        for number in range(4):
            losses, nothing, row = recorded(torch.tensor([0.0, number]))
            assert losses["a"].tolist() == [0.0, number]
            assert (losses["b"].item(), losses["b"].dtype) == (int(number > 1), torch.int64)
            assert (nothing, row.shape) == (None, (1, 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_update_that_waits_for_the_device_is_an_error():
    recorded, x = RecordedFunction(lambda x: x * x.sum().item()), torch.ones(2, device="cuda")
    recorded(x)
    with pytest.raises(RuntimeError, match="for which it must not wait for the device"):
        recorded(x)
    assert (x + 1).tolist() == [2.0, 2.0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_samples_that_are_drawn_ahead_and_their_size_changes():
    torch._dynamo.reset()
    policy = made("sac", "cuda", compile=True)
    source = PrefetchedBuffer(policy.process_buffer(rows("sac")), torch.device("cuda"))
    for size in (16, 16, 16, 32, 32, 32, 16, 32):
        policy.update(size, source.series(1))
    assert [one.is_recorded for one in policy._compiled._recorded._kept.values()] == [True, True]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_random_numbers_differ_between_replays():
    recorded, x = RecordedFunction(lambda x: nn.functional.dropout(x)), torch.ones(64, device="cuda")
    drawn = [recorded(x) for _ in range(4)]
    assert len({tuple(one.tolist()) for one in drawn}) == 4


def test_what_cannot_be_compiled_is_recorded_as_it_is(monkeypatch, replaying):
    def fails(graph, inputs):
        raise AssertionError("a bug")

    replaying("cpu")
    monkeypatch.setattr(compiled_update.graph_gradients, "has_gradients_in_graphs", lambda: True)
    monkeypatch.setattr(CompiledUpdate, "backend", staticmethod(fails))
    eager, compiled = made("sac"), made("sac", compile=True)
    with pytest.warns(UserWarning, match=r"(?s)but does not compile it before.* as torch.compile failed: .*a bug"):
        updated(compiled, rows("sac"), 0, 2)
    updated(compiled, rows("sac"), 2, 6)
    updated(eager, rows("sac"), 0, 6)
    assert recordings_of(compiled)
    torch.testing.assert_close(weights(compiled), weights(eager))


def test_a_pytorch_that_cannot(monkeypatch):
    monkeypatch.setattr(compiled_update.graph_gradients, "has_gradients_in_graphs", lambda: False)
    with pytest.raises(RuntimeError, match="on the CPU, compile=True needs a PyTorch that takes gradients"):
        made("dqn", compile=True)
