"""Exported policies act as the trained ones."""

import copy
import json
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from export.trained import (
    DRAWN,
    POLICIES,
    RANDOM,
    RECURRENT,
    SHAPE,
    SPACES,
    Embedded,
    dqn,
    episode,
    gsde,
    made,
    ppo,
    sampled,
    spaced,
    wanted,
)
from rlfast import load_policy
from rlfast._core import Network
from rlfast.data import Batch
from rlfast.export import program_of, save
from rlfast.policy import DQNPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


@pytest.fixture
def exported(tmp_path):
    """Exports a policy and loads it."""

    def exported(policy, shape=SHAPE):
        return load_policy(save(program_of(policy, shape), tmp_path / "policy.rlfast"))

    return exported


def observations(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, *SHAPE)).astype(np.float32)


def same(found, expected, tolerance=1e-6):
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "i":
        return (found == expected).mean() > 0.998  # where two actions are nearly as good
    return np.abs(found - expected).max() <= tolerance


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_actions(name, exported):
    policy, obs = made(name), observations(500)
    loaded = exported(policy)
    assert same(loaded(obs, deterministic=True), wanted(policy, obs, deterministic=True))
    assert same(loaded(obs[3], deterministic=True), wanted(policy, obs[3:4], deterministic=True)[0])


@pytest.mark.long
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_actions_a_million_times(name, exported):
    policy, obs = made(name), observations(1_000_000, 1)
    assert same(exported(policy)(obs, deterministic=True), wanted(policy, obs, deterministic=True))


@pytest.mark.parametrize("name", [name for name in POLICIES if "BDQ" not in name])
def test_numbers_are_about_as_exact_as_those_of_torch(name):
    """The rest of a difference is rounding, of torch as much as of ours: both are compared with double precision."""
    policy, obs = made(name), observations(2000)
    program = program_of(policy, SHAPE)
    slot = program.action.mean if hasattr(program.action, "mean") else program.action.slot
    found = Network(5, program.nodes).forward(obs, (slot,))[0]
    by_torch, exact = (
        decisive(policy, name, torch.from_numpy(obs).to(dtype)) for dtype in (torch.float32, torch.float64)
    )
    assert exact.dtype == np.float64
    errors = [np.abs(numbers.reshape(exact.shape) - exact) for numbers in (found, by_torch)]
    assert errors[0].mean() <= 2 * errors[1].mean()  # a tangent is within 4e-7 of its value
    assert errors[0].max() <= 2 * errors[1].max() <= 1e-6 * max(np.abs(exact).max(), 1)


def decisive(policy, name, obs):
    """The numbers from which torch chooses actions."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(obs.dtype)
        with torch.no_grad():
            output = copy.deepcopy(policy.acting_network).to(obs.dtype)(obs)[0]
            if name == "C51":
                output = (output * policy.support.to(obs.dtype)).sum(2)
            output = output.mean(2) if name == "QR-DQN" else output
    finally:
        torch.set_default_dtype(before)
    return (output[0] if isinstance(output, tuple) else output).flatten(1).numpy()


@pytest.mark.parametrize("name", RANDOM)
def test_the_same_draws_from_the_same_seed(name, exported):
    policy = made(name)
    loaded = exported(policy)
    for seed in (7, 2**32 + 5):
        policy.seed(seed)
        loaded.seed(seed)
        for count in (1, 2, 40, 1, 6):
            obs = observations(count, seed)
            found = loaded(obs, deterministic=False)
            assert same(found, wanted(policy, obs, deterministic=False), DRAWN)


@pytest.mark.parametrize("name", POLICIES)
def test_it_draws_if_the_policy_does(name, exported):
    policy, obs = made(name), observations(50)
    loaded = exported(policy)
    policy.seed(0)
    assert same(loaded(obs), wanted(policy, obs), DRAWN)


def test_one_observation_gives_the_action_of_several(exported):
    for name in POLICIES:
        loaded, obs = exported(made(name)), observations(19)
        several = loaded(obs, deterministic=True)
        assert [np.asarray(loaded(one, deterministic=True)).tolist() for one in obs] == np.asarray(several).tolist()


def test_observations_of_other_dtypes(exported):
    loaded = exported(made("DDPG"))
    obs = np.arange(10).reshape(2, 5)
    expected = loaded(obs.astype(np.float32))
    for given in (
        obs,
        obs.astype(np.uint8),
        obs.astype(np.float16),
        obs.astype(">f8"),
        obs.tolist(),
        obs[:, ::-1].copy()[:, ::-1],
    ):
        assert loaded(given).tolist() == expected.tolist()
    assert loaded(np.array([True, False, True, True, False])).shape == (3,)


@pytest.mark.parametrize(
    ("obs", "error", "message"),
    [
        (np.zeros(4, np.float32), ValueError, r"an observation has the shape \[5\], .*got \[4\]"),
        (np.zeros((2, 3, 5), np.float32), ValueError, r"got \[2, 3, 5\]"),
        (np.zeros(()), ValueError, r"got \[\]"),
        (np.array(["x"] * 5), TypeError, "observations are numbers, got an array of <U1"),
        (np.zeros(5, complex), TypeError, "complex128"),
        (np.array([None] * 5), TypeError, "object"),
        (np.full(5, 1e300), ValueError, "too large for a float32"),
        (np.full(5, np.nan), ValueError, "not finite"),
    ],
)
def test_errors_for_wrong_observations(obs, error, message, exported):
    with pytest.raises(error, match=message):
        exported(made("DDPG"))(obs)


def test_no_observations_give_no_actions(exported):
    assert exported(made("DQN"))(np.zeros((0, 5))).shape == (0,)
    assert exported(made("PPO"))(np.zeros((0, 5))).shape == (0, 3)


def test_one_action_is_of_the_type_of_the_space(exported):
    obs = np.zeros(5, np.float32)
    assert type(exported(made("DQN"))(obs)) is int
    assert exported(made("BDQ"))(obs).dtype == np.int64
    assert exported(made("PPO, float64"))(obs).dtype == np.float64


def test_deterministic_policies_draw_nothing(exported):
    with pytest.raises(ValueError, match="one action for each observation"):
        exported(made("DQN"))(np.zeros(5), deterministic=False)


# -- observations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_other_spaces(name, exported):
    space, policy = SPACES[name], spaced(name)
    loaded, obs = exported(policy, space), sampled(space, 300)
    assert same(loaded(obs), wanted(policy, obs))
    space.seed(0)
    for k in range(5):
        assert loaded(space.sample()) == loaded(obs)[k]
    assert same(loaded(sampled(space, 1)), wanted(policy, sampled(space, 1)))


def test_vectors_that_are_looked_up(exported):
    policy = dqn(model=Embedded()).eval()
    obs = np.random.default_rng(0).integers(0, 5, (200, 2))
    assert same(exported(policy, MultiDiscrete([5, 5]))(obs), wanted(policy, obs))


def test_observations_outside_of_a_discrete_space(exported):
    loaded = exported(spaced("discrete"), Discrete(5))
    for wrong in (5, -1, 0.5, np.nan, 1e9):
        with pytest.raises(ValueError, match="not in its space"):
            loaded(wrong)
    assert loaded(4) in range(4)
    assert loaded(np.int32(4)) == loaded(4.0) == loaded(np.array(4)) == loaded([4])[0] == loaded(4)


def test_errors_for_wrong_dicts(exported):
    space = SPACES["nested"]
    loaded = exported(spaced("nested"), space)
    obs = sampled(space, 2)
    few = {"a": obs["a"], "b": {"x": obs["b"]["x"]}}
    for wrong, error, message in (
        (few, ValueError, '"b.place".* this dict has not'),
        (np.zeros((2, 4)), ValueError, "this ndarray has not"),
        (None, ValueError, "this NoneType has not"),
        ({**obs, "a": obs["a"][:1]}, ValueError, '"a" has another number of rows'),
        ({**obs, "a": obs["a"][0]}, ValueError, "another number of rows"),
        ({**obs, "a": np.zeros((2, 5))}, ValueError, r'"a" has the shape \[1\].* got \[2, 5\]'),
        ({**obs, "a": np.array([["x"], ["y"]])}, TypeError, "array of <U1"),
    ):
        with pytest.raises(error, match=message):
            loaded(wrong)
    assert loaded({"more": None, **obs}).tolist() == loaded(obs).tolist()
    assert loaded(Batch(obs)).tolist() == loaded(obs).tolist()
    assert loaded({"a": obs["a"][:0], "b": {name: rows[:0] for name, rows in obs["b"].items()}}).shape == (0,)


def test_matrices_of_noise_are_not_drawn(exported):
    with pytest.raises(ValueError, match="one action for each observation"):
        exported(made("gSDE PPO"))(np.zeros(5), deterministic=False)
    with pytest.raises(ValueError, match="state-dependent noise"):
        program_of(gsde().eval(), SHAPE)


# -- hidden states -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECURRENT)
def test_hidden_states_are_kept_between_steps(name, exported):
    policy = made(name)
    loaded = exported(policy)
    for rows in (1, 20):
        obs = observations(rows * 6).reshape(6, rows, *SHAPE)
        for _ in range(2):
            loaded.reset()
            for step, expected in zip(obs, episode(policy, obs, deterministic=True), strict=True):
                assert same(loaded(step, deterministic=True), expected)
    loaded.reset()
    several = episode(policy, obs[:, :1], deterministic=True)
    assert [np.ravel(loaded(step[0], deterministic=True)).tolist() for step in obs] == [
        pytest.approx(np.ravel(one).tolist(), abs=1e-6) for one in several
    ]


def test_recurrent_policies_draw_from_the_same_seed(exported):
    obs = observations(60).reshape(6, 10, *SHAPE)
    for name in ("PPO, LSTM", "SAC, LSTM"):
        policy, state = made(name), None
        policy.deterministic_eval = False
        loaded = exported(policy)
        policy.seed(3)
        loaded.seed(3)
        for step in obs:
            result = policy(Batch(obs=step, info={}), state)
            assert same(loaded(step, deterministic=False), policy.map_action(result.act.detach().numpy()), 1e-5)
            state = result.state


def test_episodes_of_some_rows_begin(exported):
    loaded, obs = exported(made("SAC, LSTM")), observations(20).reshape(5, 4, *SHAPE)
    for rows in ([1, 3], np.array([False, True, False, True]), np.array([3, 1], np.uint8)):
        loaded.reset()
        for step in obs[:3]:
            loaded(step)
        loaded.reset(rows)
        mixed = loaded(obs[3], deterministic=True)
        loaded.reset()
        begun = loaded(obs[3], deterministic=True)
        loaded.reset()
        lasting = [loaded(step, deterministic=True) for step in obs[:4]][-1]
        assert (mixed[[1, 3]] == begun[[1, 3]]).all()
        assert (mixed[[0, 2]] == lasting[[0, 2]]).all()
        assert (mixed[0] != begun[0]).any()


def test_other_numbers_of_rows_need_a_reset(exported):
    loaded = exported(made("DQN, LSTM"))
    assert loaded.reset([7]) is None  # there is no state yet
    loaded(observations(3))
    for rows in (observations(2), observations(1)[0]):
        with pytest.raises(ValueError, match=r"of 3 observations, and this step has .: begin new episodes with reset"):
            loaded(rows)
    for rows, error in (([3], IndexError), ([-1], IndexError), ([True, False], ValueError), (["x"], TypeError)):
        with pytest.raises(error):
            loaded.reset(rows)
    loaded.reset()
    assert loaded(observations(2)).shape == (2,)


def test_errors_leave_hidden_states(exported):
    loaded, obs = exported(made("SAC, LSTM")), observations(2)
    first = [loaded(one, deterministic=True) for one in obs][-1]
    loaded.reset()
    loaded(obs[0])
    with pytest.raises(ValueError, match="NaN"):
        loaded(np.full(5, np.nan), deterministic=True)
    assert (loaded(obs[1], deterministic=True) == first).all()


def test_policies_without_a_hidden_state_have_nothing_to_reset(exported):
    loaded = exported(made("DQN"))
    loaded(observations(3))
    assert loaded.reset() is None
    assert loaded.reset([0, 2]) is None
    assert loaded(observations(2)).shape == (2,)


class Greedy(DQNPolicy):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Greedy(model=Net(5, 4, [8]), optim=adam(1e-3), action_space=Discrete(4)), "a method of its own"),
        (lambda: ppo(action_space=Box(0, 9, (3,), np.int64)), "not of a float Box"),
        (lambda: ppo(dist_fn=lambda *x: torch.distributions.Independent(torch.distributions.Normal(*x), 1)), "dist_fn"),
        (lambda: dqn(model=nn.Sequential(nn.Linear(5, 4))), "raised ValueError"),
    ],
)
def test_the_reason_for_a_policy_that_cannot_be_exported(make, why):
    with pytest.raises(ValueError, match=f"cannot be exported: .*{why}"):
        program_of(make().eval(), SHAPE)


def test_the_file_is_small(tmp_path):
    policy = dqn(Discrete(6), Net(17, 6, [64, 64])).eval()
    assert save(program_of(policy, (17,)), tmp_path / "x").stat().st_size < 40_000


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "rlfast", "json", *sys.stdlib_module_names}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import numpy as np, rlfast
policy = rlfast.load_policy(sys.argv[1])
print(policy(np.ones(5, np.float32)), policy.metadata["about"]["policy"])
"""


def test_numpy_is_enough(tmp_path):
    policy = made("DQN")
    path = save(program_of(policy, SHAPE), tmp_path / "policy.rlfast")
    ran = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(wanted(policy, np.ones((1, 5), np.float32))[0]), "DQNPolicy"]


# -- hostile files -----------------------------------------------------------------------------------------------------


def parts(contents):
    """The header and the numbers of a safetensors file."""
    size = struct.unpack("<Q", contents[:8])[0]
    header = json.loads(contents[8 : 8 + size])
    return header, contents[8 + size :]


def joined(header, numbers):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + numbers


@pytest.fixture
def contents(tmp_path):
    return save(program_of(made("PPO"), SHAPE), tmp_path / "policy").read_bytes()


@pytest.fixture
def recurrent(tmp_path):
    return save(program_of(made("PPO, LSTM"), SHAPE), tmp_path / "policy").read_bytes()


@pytest.fixture
def nested(tmp_path):
    return save(program_of(spaced("nested"), SPACES["nested"]), tmp_path / "policy").read_bytes()


def changed(contents, change):
    header, numbers = parts(contents)
    policy = json.loads(header["__metadata__"]["policy"])
    change(policy)
    header["__metadata__"]["policy"] = json.dumps(policy)
    return joined(header, numbers)


CHANGES = {
    "a slot that comes later": (lambda p: p["nodes"][0].__setitem__(1, 1), "needs slot 1"),
    "a slot that does not exist": (lambda p: p["action"].__setitem__("mean", 999), "there is no slot 999"),
    "another size": (lambda p: p["observation"]["arrays"][0].__setitem__("shape", [6]), "weights"),
    "no arrays": (lambda p: p["observation"].__setitem__("arrays", []), "an array, or arrays with keys"),
    "arrays without keys": (
        lambda p: p["observation"].__setitem__("arrays", [{"keys": [], "shape": [2]}, {"keys": ["x"], "shape": [3]}]),
        "an array, or arrays with keys",
    ),
    "a key that is no text": (
        lambda p: p["observation"].__setitem__("arrays", [{"keys": [7], "shape": [5]}]),
        "a key is 7",
    ),
    "no size": (lambda p: p["observation"]["arrays"][0].__setitem__("shape", [0]), "too large, or empty"),
    "a huge size": (lambda p: p["observation"]["arrays"][0].__setitem__("shape", [2**40, 2**40]), "too large"),
    "a fractional size": (
        lambda p: p["observation"]["arrays"][0].__setitem__("shape", [1.5]),
        "1.5 is no whole number",
    ),
    "a negative size": (lambda p: p["observation"]["arrays"][0].__setitem__("shape", [-1]), "-1 is no whole number"),
    "an unknown node": (lambda p: p["nodes"].__setitem__(0, ["system", 0]), "there is no node system"),
    "other parts": (
        lambda p: p["nodes"][0].__setitem__(0, "system"),
        "a function takes numbers, got Weights.80 numbers",
    ),
    "an unknown tensor": (lambda p: p["nodes"][0].__setitem__(2, "t99"), "there is no tensor"),
    "a node that is no list": (lambda p: p["nodes"].__setitem__(0, {}), "no list"),
    "no nodes": (lambda p: p.pop("nodes"), "no `nodes`"),
    "an unknown type": (lambda p: p["action"].__setitem__("type", "text"), "neither discrete nor continuous"),
    "an unknown bound": (lambda p: p["action"].__setitem__("bound", "cut"), 'bounded by "cut"'),
    "another action": (lambda p: p["action"].__setitem__("shape", [4]), "its actions have 4 numbers"),
    "draws without a distribution": (lambda p: p["action"].__setitem__("deviation", None), "no distribution"),
    "a state of no slot": (lambda p: p.__setitem__("state", {"slot": 999, "size": 3}), "weights|not those of slot"),
    "a state of another size": (lambda p: p.__setitem__("state", {"slot": 1, "size": 1}), "weights|not those of slot"),
    "a state without numbers": (lambda p: p.__setitem__("state", {"slot": 1, "size": 0}), "not those of slot 1"),
    "a huge state": (lambda p: p.__setitem__("state", {"slot": 1, "size": 2**63}), "weights|numbers for a row"),
    "a state that is none": (lambda p: p.__setitem__("state", 7), "no `slot`"),
    "too many nodes": (lambda p: p["nodes"].extend([["tanh", 1]] * 2**18), "numbers for a row"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_descriptions_are_errors(name, contents, tmp_path):
    change, message = CHANGES[name]
    path = tmp_path / "policy.rlfast"
    path.write_bytes(changed(contents, change))
    with pytest.raises(ValueError, match=message) as caught:
        load_policy(path)
    assert str(caught.value).startswith(f"{path} is no policy of rlfast: ")
    assert len(str(caught.value)) < 600


def test_files_that_are_none(contents, tmp_path):
    header, numbers = parts(contents)
    meta = header["__metadata__"]
    offsets = {**header, "t0": {**header["t0"], "data_offsets": [0, 2**60]}}
    deep = {**header, "__metadata__": {**meta, "policy": "[" * 100_000}}
    cases = {
        b"": "safetensors",
        b"x" * 100: "safetensors",
        contents[:-1]: "safetensors",
        struct.pack("<Q", 2**63) + contents[8:]: "safetensors",
        joined(offsets, numbers): "safetensors",
        joined(deep, numbers): "no JSON",
        joined(
            {**header, "__metadata__": {**meta, "version": "2"}}, numbers
        ): "its version is 2, and this rlfast reads 1",
        joined({**header, "__metadata__": {}}, numbers): "no `policy`",
    }
    for wrong, message in cases.items():
        path = tmp_path / "wrong"
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            load_policy(path)
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a folder"):
        load_policy(tmp_path)


def mutations(contents, count, seed):
    """Copies of a file with a few changed bytes, most of them in the header."""
    rng, header = np.random.default_rng(seed), 8 + struct.unpack("<Q", contents[:8])[0]
    for _ in range(count):
        wrong = bytearray(contents)
        for _ in range(rng.integers(1, 4)):
            where = int(rng.integers(header if rng.random() < 0.8 else len(wrong)))
            wrong[where] = int(rng.integers(256)) if rng.random() < 0.5 else wrong[where] ^ (1 << int(rng.integers(8)))
        yield bytes(wrong[: int(rng.integers(len(wrong)))] if rng.random() < 0.05 else wrong)


def survives(contents, tmp_path, count, seed, obs=None):
    path, opened = tmp_path / "wrong", 0
    obs = observations(2) if obs is None else obs
    for wrong in mutations(contents, count, seed):
        path.write_bytes(wrong)
        try:
            policy = load_policy(path)
            opened += 1
            first = policy.metadata["observation"]["arrays"][0]
            policy(np.ones((2, *first["shape"]), np.float32) if opened % 2 and not first["keys"] else obs)
        except (ValueError, MemoryError):
            continue
    return opened


def test_damaged_files_are_errors(contents, recurrent, nested, tmp_path):
    assert 0 < survives(contents, tmp_path, 500, 0) < 500
    assert 0 < survives(recurrent, tmp_path, 500, 1) < 500
    assert 0 < survives(nested, tmp_path, 500, 2, sampled(SPACES["nested"], 2)) < 500


def test_nan_weights_are_errors_when_acting(contents, tmp_path):
    header, numbers = parts(contents)
    path = tmp_path / "policy"
    path.write_bytes(joined(header, b"\xff" * len(numbers)))
    with pytest.raises(ValueError):
        load_policy(path)(np.ones(5, np.float32))
