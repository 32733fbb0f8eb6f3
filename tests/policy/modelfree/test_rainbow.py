import numpy as np
import pytest
import torch

from distributional import make, transitions, weights
from rlfast.policy.modelfree.rainbow import RainbowTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import NoisyLinear


def noise_of(network):
    return [eps.clone() for m in network.modules() if isinstance(m, NoisyLinear) for eps in (m.eps_p, m.eps_q)]


def test_without_noise_it_is_c51():
    learned = []
    for name in ("C51", "Rainbow"):
        policy, buffer = make(name, Net(4, 2, [8], softmax=True, num_atoms=3), target_update_freq=2), transitions()
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.copy_(torch.randn_like(parameter))
        for _ in range(4):
            stats = policy.update(16, buffer)
        learned.append(weights(policy))
    assert torch.equal(*learned)
    assert isinstance(stats, RainbowTrainingStats)


@pytest.mark.pitfall("target network with the noise of the trained one")
def test_each_update_gives_both_networks_noise_of_their_own():
    policy, buffer = make("Rainbow", target_update_freq=2), transitions()
    seen = []
    for _ in range(4):  # the first and the third copy the weights, and not the noise
        policy.update(16, buffer)
        seen += [*noise_of(policy.model), *noise_of(policy.model_old)]
    layers = [module for module in policy.model.modules() if isinstance(module, NoisyLinear)]
    assert len(seen) == 4 * 2 * 2 * len(layers) == 4 * 2 * 2 * 4
    numbers = torch.cat(seen)
    assert len(numbers.unique()) == len(numbers)


def test_noise_reaches_targets_and_actions_but_not_evaluation():
    policy, obs = make("Rainbow", target_update_freq=2), np.ones((1, 4), np.float32)

    def with_new_noise(name):
        for module in policy.modules():
            if isinstance(module, NoisyLinear):
                module.sample()
        with torch.no_grad():
            return policy.values(obs, model=name)

    for name in ("model", "model_old"):
        assert not torch.equal(with_new_noise(name), with_new_noise(name))
    policy.eval()
    assert torch.equal(with_new_noise("model"), with_new_noise("model"))
    assert not torch.equal(with_new_noise("model_old"), with_new_noise("model_old"))
    policy.train()
    assert not torch.equal(with_new_noise("model_old"), with_new_noise("model_old"))


def test_noise_is_of_the_policys_own_stream():
    first, second = (make("Rainbow", seed=3) for _ in range(2))
    second.load_state_dict(first.state_dict())
    for number, policy in enumerate((first, second)):
        torch.manual_seed(number)
        policy.update(16, transitions())
    assert all(torch.equal(*pair) for pair in zip(noise_of(first.model), noise_of(second.model), strict=True))


def test_noise_is_like_that_of_the_layers():
    policy = make("Rainbow").to(torch.float64)
    assert {noise.dtype for noise in policy.draw_step(4)} == {torch.float64}
    assert {noise.device.type for noise in policy.to("meta").draw_step(4)} == {"meta"}


def test_noise_that_a_sample_brings_is_taken():
    policy, samples = make("Rainbow"), []
    step = policy.gradient_step
    policy.gradient_step = lambda sample: samples.append(sample) or step(sample)
    policy.update(16, transitions())
    assert all(torch.equal(*pair) for pair in zip(noise_of(policy.model), samples[0].draws, strict=True))


def test_learning_through_a_forward_of_ones_own_draws_noise_for_its_rows():
    policy, rows = make("Rainbow"), []
    draw, before = policy.draw_step, noise_of(policy.model)
    policy.draw_step = lambda number: rows.append(number) or draw(number)
    policy.register_forward_hook(lambda *_: None)
    policy.update(16, transitions())
    assert rows == [16]
    assert not any(torch.equal(*pair) for pair in zip(noise_of(policy.model), before, strict=True))


def test_noise_learns():
    policy, buffer = make("Rainbow"), transitions()
    layer = next(module for module in policy.model.modules() if isinstance(module, NoisyLinear))
    before = layer.sigma_W.detach().clone()
    policy.update(16, buffer)
    assert not torch.equal(layer.sigma_W, before)
