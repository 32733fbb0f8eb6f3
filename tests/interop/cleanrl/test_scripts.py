"""Scripts in CleanRL's style give the same parameters, bit for bit, after their import of the buffer is changed.

CleanRL's buffer is a copy of an older one of SB3; these scripts import SB3's.
"""

from pathlib import Path

import pytest
import torch

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")

THEIRS = "from stable_baselines3.common.buffers import ReplayBuffer\n"
OURS = "from rlfast.interop.cleanrl import ReplayBuffer\n"


def run(name, change=()):
    script = Path(__file__).with_name(f"{name}.py")
    text = script.read_text()
    for old, new in change:
        assert text.count(old) == 1
        text = text.replace(old, new)
    names = {"__name__": "__main__"}
    exec(compile(text, script.name, "exec"), names)
    return names


@pytest.mark.parametrize("name", ["dqn", "td3"])
def test_one_import_changes_and_no_number(name):
    theirs, ours = run(name), run(name, [(THEIRS, OURS)])
    assert type(ours["rb"]).__module__ == "rlfast.interop.cleanrl"
    assert ours["learned"].keys() == theirs["learned"].keys()
    for key, value in theirs["learned"].items():
        assert torch.equal(ours["learned"][key], value), key


def test_frames_too():
    plain = ("        optimize_memory_usage=True,\n", "")
    theirs, ours = run("c51", [plain]), run("c51", [plain, (THEIRS, OURS)])
    for key, value in theirs["learned"].items():
        assert torch.equal(ours["learned"][key], value), key


@pytest.mark.pitfall("B4")
def test_saving_memory_loses_no_final_frame():
    def sliding(rb):
        """Whether next observations are their observations one frame on, as they are within an episode."""
        batch = rb.sample(400)
        return bool(torch.equal(batch.observations[:, 1:], batch.next_observations[:, :-1]))

    theirs, ours = run("c51")["rb"], run("c51", [(THEIRS, OURS)])["rb"]
    assert not sliding(theirs)
    assert sliding(ours)


PPO = (Path(__file__).parent / "ppo.py").read_text()
LOOP = PPO[PPO.index("        advantages = ") : PPO.index("        returns = ")]
CALL = """        next_values = torch.cat((values[1:], next_value))
        ended = torch.cat((dones[1:], next_done[None])).bool()
        from rlfast.functional import gae
        advantages = gae(rewards, values, next_values, ended, gamma=GAMMA, gae_lambda=GAE_LAMBDA)
"""


def test_gae_replaces_the_loop_of_ppo():
    loop, call = run("ppo"), run("ppo", [(LOOP, CALL)])
    assert call["returns"].shape == (16, 3)
    torch.testing.assert_close(call["advantages"], loop["advantages"], rtol=1e-5, atol=1e-6)
    for key, value in loop["learned"].items():
        torch.testing.assert_close(call["learned"][key], value, rtol=1e-4, atol=1e-5)
