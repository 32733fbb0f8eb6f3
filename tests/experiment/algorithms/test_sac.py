from functools import partial

import pytest
import torch

from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.run import train


@pytest.fixture
def tiny(short):
    return partial(short, "sac")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tau": 1.5}, "--tau must be within 0 and 1"),
        ({"alpha": 0.0}, "--alpha must be above 0"),
        ({"updates_per_step": 0.0}, "--updates-per-step must be above 0, got 0.0"),
        ({"collect_steps": 3}, "--collect-steps 3 must be a multiple of --num-envs 2"),
    ],
)
def test_values_out_of_range(tiny, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


@pytest.mark.pitfall("E9")
def test_a_run_and_its_repetition(tiny, tmp_path):
    weights = []
    for number in range(2):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(run_dir=tmp_path / str(number)))
        assert (result.env_step, result.info.gradient_step) == (80, 30)
        parts = build(result.config)
        load_policy(tmp_path / str(number) / "checkpoint", parts.policy)
        weights.append(torch.cat([p.detach().flatten() for p in parts.policy.parameters()]))
        assert parts.policy.alpha != pytest.approx(0.2, abs=1e-6)
        parts.close()
    assert torch.equal(*weights)


def test_each_learning_rate_follows_the_schedule_from_its_own_start(tiny):
    parts = build(tiny(learning_rate=0.4, alpha_learning_rate=0.2, lr_schedule="exponential", schedule_factor=0.25))
    policy = parts.policy
    optims = [policy.actor_optim, policy.critic_optim, policy.critic2_optim, policy.alpha_optim]
    for step, factor in ((0, 1.0), (40, 0.5), (80, 0.25), (20, 0.25**0.25)):
        parts.before_collect(0, step)
        rates = [group["lr"] for optim in optims for group in optim.param_groups]
        assert rates == pytest.approx([0.4 * factor] * 3 + [0.2 * factor])
    parts.close()
