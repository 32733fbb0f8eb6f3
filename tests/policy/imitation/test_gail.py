import numpy as np
import pytest
import torch
from torch import nn

from rlfast.data import Batch, ReplayBuffer
from rlfast.policy import GAILPolicy
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.discrete import Critic
from rlfast.utils.optim import adam
from rollouts import HEADS, rollout, weights


def expert(action, rows=30):
    buffer = ReplayBuffer(max(rows, 1), seed=0)
    for obs in np.random.default_rng(1).normal(size=(rows, 4)).astype(np.float32):
        buffer.append(obs=obs, act=action, rew=0.0, terminated=False, truncated=False, obs_next=obs)
    return buffer


def make_gail(head="normal", seed=0, buffer=None, **options):
    torch.manual_seed(seed)
    space, dist_fn, actor = HEADS[head]
    nets = {"actor": actor(), "critic": Critic(Net(4, hidden_sizes=[8]))}
    given = {"dist_fn": dist_fn, "action_space": space, "action_scaling": head == "normal"}
    action = np.ones(2, np.float32) if head == "normal" else 2
    given |= {"expert_buffer": expert(action) if buffer is None else buffer}
    given |= {"disc_net": MLP(6 if head == "normal" else 7, 1, [8]), "disc_optim": adam(1e-2), "optim": adam(1e-3)}
    policy = GAILPolicy(**nets, **given | options)
    policy.seed(seed)
    return policy


@pytest.mark.parametrize("head", ["normal", "categorical"])
def test_rewards_are_the_discriminators(head):
    policy = make_gail(head)
    buffer = rollout(policy)
    batch, indices = buffer.sample(0)
    before = np.array(buffer.rew)
    done = policy.process_fn(batch, buffer, indices)
    assert head == "categorical" or (batch.act.abs() > 1).any()
    act = torch.as_tensor(batch.act)  # continuous actions count as the environment gets them
    act = act.clamp(-1, 1) if head == "normal" else nn.functional.one_hot(act, 3)
    with torch.no_grad():
        logits = policy.disc_net(torch.cat([torch.as_tensor(batch.obs), act.float()], dim=1)).flatten()
    assert done.rew == pytest.approx(-np.log(1 - torch.sigmoid(logits).numpy()), rel=1e-4)
    assert np.array_equal(buffer.rew, before)  # those of the environment stay in the buffer


@pytest.mark.parametrize(("method", "bounded"), [("clip", np.clip), ("tanh", np.tanh), (None, np.asarray)])
def test_actions_are_compared_as_the_environment_gets_them(method, bounded):
    policy, act = make_gail(action_bound_method=method), np.array([[-3.0, 0.5], [2.0, 0.0]], np.float32)
    obs, bounds = np.zeros((2, 4), np.float32), (-1.0, 1.0) if method == "clip" else ()
    with torch.no_grad():
        told = policy.disc(Batch(obs=obs, act=act))
        wanted = policy.disc_net(torch.as_tensor(np.concatenate([obs, bounded(act, *bounds)], axis=1)))
    assert told.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), rel=1e-6)


def test_it_learns_to_tell_the_expert_and_then_to_be_like_it():
    policy = make_gail(disc_update_num=10)
    for _ in range(8):
        stats = policy.update(0, rollout(policy), batch_size=None, repeat=1)
    assert stats.acc_exp.mean > 0.9
    assert stats.disc_loss.mean < np.log(4) - 0.1
    assert stats.get_loss_stats_dict().keys() >= {"loss", "clip_loss", "vf_loss", "ent_loss", "acc_pi", "disc_loss"}
    near, far = (Batch(obs=np.zeros((1, 4), np.float32), act=np.full((1, 2), one, np.float32)) for one in (1.0, -1.0))
    assert policy.disc(near) > policy.disc(far)


def test_each_roll_out_is_seen_once_by_the_discriminator():
    policy, seen = make_gail(disc_update_num=3), []
    buffer = rollout(policy)
    policy.disc_net.register_forward_hook(lambda *parts: seen.append(len(parts[2])))
    policy.update(0, buffer, batch_size=None, repeat=2)
    assert seen == [80, 26, 26, 26, 26, 28, 26]  # the rewards, and then those of policy and expert


def test_the_accuracies_by_hand():
    policy = make_gail()
    with torch.no_grad():
        for parameter in policy.disc_net.parameters():
            parameter.zero_()
        policy.disc_net.model[-1].bias.fill_(5.0)
    policy.disc_optim = torch.optim.SGD(policy.disc_net.parameters(), lr=0.0)
    stats = policy.update(0, rollout(policy), batch_size=None, repeat=1)
    assert (stats.acc_pi.mean, stats.acc_exp.mean) == (0.0, 1.0)
    assert stats.disc_loss.mean == pytest.approx(np.log1p(np.exp(5)) + np.log1p(np.exp(-5)), rel=1e-5)


def test_an_expert_that_did_nothing():
    policy = make_gail(buffer=ReplayBuffer(5))
    with pytest.raises(ValueError, match="the expert_buffer is empty"):
        policy.update(0, rollout(policy), batch_size=None, repeat=1)


def test_resume_is_exact():
    half, straight, resumed = make_gail(), make_gail(), make_gail(seed=5)
    buffer = rollout(half)
    straight.load_state_dict(half.state_dict())
    for policy in (half, straight, straight):
        policy.update(0, buffer, batch_size=16, repeat=1)
    resumed.load_state_dict(half.state_dict())
    resumed.update(0, buffer, batch_size=16, repeat=1)
    assert torch.equal(weights(resumed), weights(straight))
