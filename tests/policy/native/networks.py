"""Networks as users write them: which act in Rust, and why the others do not.

``docs/guides/network.md`` shows this table.
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import Linear
from torch.nn import functional as F  # noqa: N812 (as users do)

from rlfast.data.forms import Form, Part
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import Net, Recurrent, SimbaNet


class User(nn.Module):
    """A network as the tutorials of Tianshou write it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.model = nn.Sequential(*layers)

    def forward(self, obs, state=None, info={}):  # noqa: B006
        if not isinstance(obs, torch.Tensor):
            obs = torch.tensor(obs, dtype=torch.float)
        batch = obs.shape[0]
        return self.model(obs.view(batch, -1)), state


class Residual(nn.Module):
    def __init__(self, size: int, norm=nn.LayerNorm, activation=nn.GELU) -> None:
        super().__init__()
        self.norm, self.activation = norm(size), activation()
        self.first, self.second = Linear(size, 4 * size), Linear(4 * size, size)

    def forward(self, x):
        return x + self.second(self.activation(self.first(self.norm(x))))


class Own(nn.Module):
    """A network whose modules are keyword arguments, and its forward a function of them and the observations."""

    def __init__(self, compute, **modules) -> None:
        super().__init__()
        self.compute = compute
        for name, value in modules.items():
            setattr(self, name, value)

    def forward(self, obs, state=None, info=None):
        return self.compute(self, torch.as_tensor(obs, dtype=torch.float32)), state


class Whole(Own):
    """One that takes integers."""

    def forward(self, obs, state=None, info=None):
        return self.compute(self, torch.as_tensor(obs)), state


def mlp(*sizes: int, activation=nn.Tanh) -> nn.Sequential:
    layers = [layer for a, b in pairwise(sizes) for layer in (Linear(a, b), activation())]
    return nn.Sequential(*layers[:-1])


def dueling(net, x):
    h = net.features(x)
    advantage = net.advantage(h)
    return net.value(h) + advantage - advantage.mean(1, keepdim=True)


def squashed(net, x):
    """CleanRL's actor of SAC: the mean of the action in its bounds, and the deviation."""
    x = F.relu(net.fc2(F.relu(net.fc1(x))))
    log_std = torch.tanh(net.fc_logstd(x))
    log_std = -5 + 0.5 * (2 - -5) * (log_std + 1)
    return torch.tanh(net.fc_mean(x)) * net.scale + net.shift, log_std.exp()


def in_halves(net, x):
    left, right = ((x - net.mean) / 2.0).chunk(2, dim=-1)
    return net.out(torch.cat([torch.tanh(net.left(left)), F.elu(net.right(right))], dim=-1))


def gated(net, x):
    a, gate = net.first(x).split(32, dim=1)
    return net.out(a * torch.sigmoid(gate))


def with_matrix(net, x):
    mean = net.out(F.normalize(x @ net.matrix.T))
    return mean, net.log_std.expand_as(mean).exp()


def sets(net, x):
    return net.out(F.silu(net.each(x)).sum(dim=1))


def stacked(net, x):
    heads = torch.stack([head(x) for head in net.heads], dim=1)
    return torch.minimum(heads[:, 0], heads[:, 1]) - heads.amax(1) / 4


def powers(net, x):
    x = net.first(x)
    return net.out(x.pow(2) + (1 - x) / 3 - torch.rsqrt(x.abs() + 1) - 2 * x.clamp(max=0.5) + 1 / (x**2 + 3))


def turned(net, x):
    return net.out(net.each(x.transpose(1, 2)).flatten(1)[:, 1:])


def with_time(net, x):
    with torch.no_grad():
        time = torch.zeros(len(x), 1)
    return net.first(torch.cat([torch.tensor(x), time, torch.ones_like(x[:, :1]) * torch.tensor([0.5])], dim=1))


def halves(*sizes: int) -> nn.Module:
    return nn.ModuleList([Linear(*sizes), Linear(*sizes)])


class Impala(nn.Module):
    """The residual network of IMPALA (arXiv:1802.01561), as CleanRL writes it for Procgen."""

    def __init__(self, shape, actions: int, depths=(4, 8)) -> None:
        super().__init__()
        channels, height, width = shape
        layers: list[nn.Module] = []
        for depth in depths:
            layers += [
                nn.Conv2d(channels, depth, 3, padding=1), nn.MaxPool2d(3, 2, 1), ResidualImage(depth),
                ResidualImage(depth),
            ]  # fmt: skip
            channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
        self.network = nn.Sequential(*layers, nn.Flatten(), nn.ReLU(), Linear(channels * height * width, 16), nn.ReLU())
        self.actor = Linear(16, actions)

    def forward(self, obs, state=None, info=None):
        x = torch.as_tensor(obs)
        return self.actor(self.network(x.permute((0, 3, 1, 2)) / 255.0)), state


class ResidualImage(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        inputs = x
        x = self.conv0(nn.functional.relu(x))
        return self.conv1(nn.functional.relu(x)) + inputs


def pixels(*shape: int) -> Form:
    """Images of uint8."""
    return Form((Part((), shape, is_bytes=True),))


def parts(**shapes) -> Form:
    """A dict of arrays of floats."""
    return Form(tuple(Part((name,), shape) for name, shape in shapes.items()))


class Fields(User):
    """A network of a dict with a position and an image."""

    def __init__(self, features: nn.Module, size: int) -> None:
        super().__init__(Linear(2 + size, 8), nn.ReLU(), Linear(8, 3))
        self.features = features

    def forward(self, obs, state=None, info=None):
        image = torch.as_tensor(obs["image"]).float() / 255
        position = torch.as_tensor(obs.position, dtype=torch.float32)
        return self.model(torch.cat([self.features(image).flatten(1), position], dim=1)), state


class Nested(User):
    def __init__(self) -> None:
        super().__init__(Linear(5, 3))

    def forward(self, obs, state=None, info=None):
        robot = obs["robot"]
        return self.model(
            torch.cat([torch.as_tensor(robot[name]).flatten(1) for name in ("arm", "speed")], dim=1)
        ), state


def nature(*, head: int = 3, size: int = 16) -> nn.Sequential:
    """CleanRL's network of DQN for Atari, with fewer filters."""
    return nn.Sequential(
        nn.Conv2d(4, 8, 8, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 4, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3),
        nn.ReLU(), nn.Flatten(), Linear(16, size), nn.ReLU(), Linear(size, head),
    )  # fmt: skip


def preprocessed(net, obs):
    """SB3's extractor of images, after its ``preprocess_obs``."""
    return net.q_net(net.linear(net.cnn(obs.float() / 255.0)))


def with_batch_norm(*groups: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.LeakyReLU(), nn.Conv2d(4, 4, 3, groups=4),
        nn.Conv2d(4, 8, 1), nn.SiLU(), nn.AvgPool2d(2, padding=1), nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), Linear(8, 2),
    ).eval()  # fmt: skip


STREAMS = ({"hidden_sizes": [8]}, {"hidden_sizes": [8]})
TAKEN = {
    "Net": (lambda: Net(4, 2, [64, 64]), (4,)),
    "Net, dueling": (lambda: Net(4, 3, [64], dueling_param=STREAMS), (4,)),
    "Net, of distributions": (lambda: Net(4, 3, [64], num_atoms=5, softmax=True, dueling_param=STREAMS), (4,)),
    "Net, NoisyLinear": (lambda: Net(4, 3, [64], linear_layer=discrete.NoisyLinear), (4,)),
    "Net, LayerNorm": (lambda: Net(4, 3, [64], norm_layer=nn.LayerNorm), (4,)),
    "Actor": (lambda: discrete.Actor(Net((2, 3), hidden_sizes=[8]), 4), (2, 3)),
    "Actor, continuous": (lambda: continuous.Actor(Net((4,), hidden_sizes=[8]), 4, max_action=2.0), (4,)),
    "ActorProb": (lambda: continuous.ActorProb(Net((4,), hidden_sizes=[8]), 3), (4,)),
    "ActorProb, conditioned": (
        lambda: continuous.ActorProb(Net((4,), hidden_sizes=[8]), 3, conditioned_sigma=True, unbounded=True),
        (4,),
    ),
    "SimbaNet": (lambda: discrete.Actor(SimbaNet(4, hidden_sizes=[16, 16]), 3, softmax_output=False), (4,)),
    "Sequential of Linear and ReLU": (
        lambda: User(Linear(4, 64), nn.ReLU(), Linear(64, 64), nn.ReLU(inplace=True), Linear(64, 2)),
        (4,),
    ),
    "Linear, LayerNorm, GELU": (
        lambda: User(Linear(4, 64), nn.LayerNorm(64), nn.GELU(), Linear(64, 2), nn.GELU("tanh")),
        (4,),
    ),
    "BatchNorm (evaluation), SiLU, RMSNorm, Softplus": (
        lambda: User(
            Linear(4, 64), nn.BatchNorm1d(64), nn.SiLU(), Linear(64, 64), nn.RMSNorm(64), nn.Softplus(), Linear(64, 2)
        ).eval(),
        (4,),
    ),
    "GroupNorm, ELU, ReLU6, Hardtanh, LeakyReLU": (
        lambda: User(
            Linear(4, 64), nn.GroupNorm(4, 64), nn.ELU(), nn.ReLU6(), nn.Hardtanh(), Linear(64, 8), nn.LeakyReLU(0.1),
            nn.Softmax(-1),
        ),
        (4,),
    ),
    "Dropout (evaluation)": (lambda: User(Linear(4, 8), nn.Dropout(), nn.Sigmoid(), Linear(8, 2)).eval(), (4,)),
    "residual blocks": (
        lambda: User(Linear(4, 32), Residual(32), Residual(32, nn.RMSNorm, nn.SiLU), nn.LayerNorm(32), Linear(32, 2)),
        (4,),
    ),
    "LayerNorm without weights": (
        lambda: User(Linear(4, 32), nn.LayerNorm(32, elementwise_affine=False), nn.Identity(), Linear(32, 2)),
        (4,),
    ),
    "dueling, by hand": (
        lambda: Own(dueling, features=mlp(4, 32, 16), value=Linear(16, 1), advantage=Linear(16, 3)),
        (4,),
    ),
    "CleanRL's actor of PPO": (lambda: Own(lambda net, x: net.actor(x), actor=mlp(4, 64, 64, 2)), (4,)),
    "CleanRL's actor of SAC": (
        lambda: Own(
            squashed, fc1=Linear(4, 32), fc2=Linear(32, 32), fc_mean=Linear(32, 2), fc_logstd=Linear(32, 2),
            scale=torch.tensor([2.0, 1.0]), shift=torch.tensor([0.0, 1.0]),
        ),
        (4,),
    ),
    "SB3's extractor and heads": (
        lambda: Own(
            lambda net, x: net.action_net(net.policy_net(net.flatten(x))),
            flatten=nn.Flatten(), policy_net=mlp(6, 64, 64, activation=nn.ReLU), action_net=Linear(64, 2),
        ),
        (2, 3),
    ),
    "halves, joined": (
        lambda: Own(
            in_halves, mean=nn.Parameter(torch.arange(4.0) / 4), left=Linear(2, 8), right=Linear(2, 8),
            out=Linear(16, 2),
        ),
        (4,),
    ),
    "gates": (lambda: Own(gated, first=Linear(4, 64), out=Linear(32, 2)), (4,)),
    "matrix of its own, normalized features": (
        lambda: Own(
            with_matrix, matrix=nn.Parameter(torch.randn(8, 4)), out=Linear(8, 2),
            log_std=nn.Parameter(torch.tensor([[0.1, 0.3]])),
        ),
        (4,),
    ),
    "sets of vectors": (lambda: Own(sets, each=Linear(3, 8), out=Linear(8, 2)), (5, 3)),
    "several heads": (lambda: Own(stacked, heads=halves(4, 3)), (4,)),
    "arithmetic": (lambda: Own(powers, first=Linear(4, 16), out=Linear(16, 2)), (4,)),
    "constants made in forward": (lambda: Own(with_time, first=Linear(6, 2)), (4,)),
    "other axes": (lambda: Own(turned, each=Linear(2, 4), out=Linear(11, 2)), (2, 3)),
    "weights stored as [inputs, outputs]": (
        lambda: Own(
            lambda net, x: torch.relu(x @ net.first + net.bias) @ net.second,
            first=nn.Parameter(torch.randn(4, 9)), bias=nn.Parameter(torch.randn(9)),
            second=nn.Parameter(torch.randn(9, 2)),
        ),
        (4,),
    ),
    "log_softmax and logsumexp": (
        lambda: Own(
            lambda net, x: torch.log_softmax(net.out(x), 1) + net.out(x).view(-1, 2, 3).logsumexp((1, 2), True)[:, 0],
            out=Linear(4, 6),
        ),
        (4,),
    ),
    "NatureCNN": (lambda: NatureCNN(4, 36, 36, 3, scale=1 / 255, channels=(8, 16, 16)), pixels(4, 36, 36)),
    "NatureCNN, scaled before": (lambda: NatureCNN(4, 36, 36, 3, channels=(8, 16, 16)), (4, 36, 36)),
    "CleanRL's network for Atari": (lambda: Own(lambda net, x: net.q(x / 255.0), q=nature()), pixels(4, 36, 36)),
    "SB3's NatureCNN": (
        lambda: Own(preprocessed, cnn=nature()[:7], linear=nn.Sequential(Linear(16, 8), nn.ReLU()), q_net=Linear(8, 2)),
        pixels(4, 36, 36),
    ),
    "IMPALA's residual network": (lambda: Impala((3, 16, 16), 5), pixels(16, 16, 3)),
    "BatchNorm2d (evaluation), depthwise Conv2d, AvgPool2d, GroupNorm, AdaptiveAvgPool2d": (
        lambda: Own(lambda net, x: net.layers(x), layers=with_batch_norm()),
        (2, 9, 7),
    ),
    "Conv1d and MaxPool1d": (
        lambda: User(
            nn.Unflatten(1, (2, 12)), nn.Conv1d(2, 4, 3, padding="same", dilation=2), nn.MaxPool1d(2), nn.Flatten(),
            Linear(24, 2),
        ),
        (24,),
    ),
    "dict of a position and an image": (
        lambda: Fields(nn.Conv2d(1, 2, 3), 2 * 4 * 4),
        Form((Part(("image",), (1, 6, 6), is_bytes=True), Part(("position",), (2,)))),
    ),
    "dicts in a dict": (
        lambda: Nested(),
        Form((Part(("robot", "speed"), (3,)), Part(("robot", "arm"), (2,)), Part(("unused",), (7,)))),
    ),
    "one of five": (
        lambda: Whole(lambda net, x: net.mlp(nn.functional.one_hot(x.long() - 0, 5).float()), mlp=mlp(5, 8, 2)),
        Form((Part((), (), is_integer=True),)),
    ),
    "one of twelve from 3": (
        lambda: Whole(lambda net, x: net.mlp(nn.functional.one_hot(x - 3, num_classes=12).float()), mlp=mlp(12, 8, 2)),
        Form((Part((), (), is_integer=True, least=3),)),
    ),
    "vectors that are looked up": (
        lambda: Whole(
            lambda net, x: net.mlp(net.rows(x).flatten(1)), rows=nn.Embedding(4, 3, padding_idx=1), mlp=mlp(6, 8, 2)
        ),
        Form((Part((), (2,), is_integer=True),)),
    ),
    "outputs that are not needed may be anything": (
        lambda: Own(lambda net, x: (net.mlp(x), (x @ net.mlp[0].weight.exp().T, net.mlp(x))[1]), mlp=mlp(4, 8, 2)),
        (4,),
    ),
    "views of other shapes": (
        lambda: Own(lambda net, x: net.mlp(x).squeeze(1), mlp=nn.Sequential(mlp(4, 8, 2), nn.Unflatten(1, (1, 2)))),
        (4,),
    ),
}  # fmt: skip


class Remembering(nn.Module):
    """A network with a hidden state of its own kind: ``step`` returns an output and the next state."""

    def __init__(self, step, size: int, **modules) -> None:
        super().__init__()
        self.step, self.size = step, size
        for name, value in modules.items():
            setattr(self, name, value)

    def forward(self, obs, state=None, info=None):
        x = torch.as_tensor(obs, dtype=torch.float32)
        return self.step(self, x, torch.zeros(len(x), self.size) if state is None else state)


def gru_step(net, x, state):
    """CleanRL's way: time first, and a linear layer before and after."""
    out, hidden = net.gru(torch.relu(net.first(x)).unsqueeze(0), state.unsqueeze(0))
    return net.out(out.squeeze(0)), hidden.squeeze(0)


def cell_step(net, x, state):
    hidden, cell = state.chunk(2, dim=1)
    hidden, cell = net.cell(x, (hidden, cell))
    return net.out(hidden), torch.cat([hidden, cell], dim=1)


def gru_cell_step(net, x, state):
    after = net.cell(x, state)
    return net.out(after), after


REMEMBERING = {
    "Recurrent": (lambda: Recurrent(1, 4, 3, hidden_layer_size=8), (4,)),
    "Recurrent, two layers, dueling": (lambda: Recurrent(2, 4, 3, hidden_layer_size=8, dueling_param=STREAMS), (4,)),
    "RecurrentActorProb": (lambda: continuous.RecurrentActorProb(1, (4,), (2,), hidden_layer_size=8), (4,)),
    "GRU": (lambda: Remembering(gru_step, 6, first=Linear(4, 5), gru=nn.GRU(5, 6), out=Linear(6, 2)), (4,)),
    "LSTMCell": (lambda: Remembering(cell_step, 12, cell=nn.LSTMCell(4, 6), out=Linear(6, 2)), (4,)),
    "GRUCell without biases": (
        lambda: Remembering(gru_cell_step, 6, cell=nn.GRUCell(4, 6, bias=False), out=Linear(6, 2)),
        (4,),
    ),
    "its observation before": (lambda: HiddenState(), (4,)),
}


def by_size(net, x):
    return net.first(x) * (2.0 if len(x) > 2 else 1.0)


def counting(net, x):
    net.count += 1
    return net.first(x)


def with_a_branch(net, x):
    y = net.first(x)
    return y + 1 if (y > 0).all() else y


TORCH = {
    "BatchNorm (training)": (
        lambda: User(Linear(4, 8), nn.BatchNorm1d(8), Linear(8, 2)),
        (4,),
        "calls torch.Tensor.add_",
    ),
    "Dropout (training)": (lambda: User(Linear(4, 8), nn.Dropout(), Linear(8, 2)), (4,), "a Dropout is in training"),
    "LSTM of two directions": (
        lambda: Own(lambda net, x: net.lstm(x)[0].flatten(1), lstm=nn.LSTM(4, 8, bidirectional=True)),
        (1, 4),
        "two directions",
    ),
    "LSTM with projections": (
        lambda: Own(lambda net, x: net.lstm(x)[0].flatten(1), lstm=nn.LSTM(4, 8, proj_size=2)),
        (1, 4),
        "projections",
    ),
    "hidden state without a batch": (
        lambda: Remembering(
            lambda net, x, state: (net.first(x), net.memory), 1, first=Linear(4, 2), memory=nn.Parameter(torch.zeros(5))
        ),
        (4,),
        "hidden state is not a dict of tensors",
    ),
    "hidden state that is not zero at first": (lambda: FirstStep(), (4,), "what it did before"),
    "softsign": (lambda: User(Linear(4, 8), nn.Softsign()), (4,), "calls torch.nn.functional.softsign"),
    "ConvTranspose2d": (
        lambda: Own(lambda net, x: net.conv(x).flatten(1), conv=nn.ConvTranspose2d(1, 2, 2)),
        (1, 4, 4),
        "calls .*conv_transpose2d",
    ),
    "Conv2d with other padding than zeros": (
        lambda: Own(lambda net, x: net.conv(x).flatten(1), conv=nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")),
        (1, 4, 4),
        "calls torch.nn.functional.pad",
    ),
    "Conv2d of computed weights": (
        lambda: Own(lambda net, x: F.conv2d(x, net.conv.weight.exp()).flatten(1), conv=nn.Conv2d(1, 2, 3)),
        (1, 4, 4),
        "convolves with weights that it computes",
    ),
    "MaxPool2d with ceil_mode": (
        lambda: Own(lambda net, x: net.layers(x).flatten(1), layers=nn.MaxPool2d(2, ceil_mode=True)),
        (1, 5, 4),
        "reach over the border",
    ),
    "numbers that are rounded": (
        lambda: Whole(lambda net, x: net.rows(x.abs().long()).flatten(1), rows=nn.Embedding(9, 3)),
        (2,),
        "computes in torch.int64",
    ),
    "arithmetic of integers": (
        lambda: Whole(lambda net, x: net.rows(x * 2).flatten(1), rows=nn.Embedding(9, 3)),
        Form((Part((), (2,), is_integer=True),)),
        "computes in torch.int64",
    ),
    "vectors of bounded length": (
        lambda: Whole(lambda net, x: net.rows(x).flatten(1), rows=nn.Embedding(9, 3, max_norm=1.0)),
        Form((Part((), (2,), is_integer=True),)),
        "max_norm",
    ),
    "numbers without an end": (
        lambda: Whole(lambda net, x: net.mlp(nn.functional.one_hot(x).float()), mlp=mlp(2, 4)),
        Form((Part((), (), is_integer=True),)),
        "without a number of classes|raised",
    ),
    "integers far from those that a float holds": (
        lambda: Whole(lambda net, x: net.first((x - 2**30).float()), first=Linear(4, 2)),
        Form((Part((), (4,), is_integer=True),)),
        "adds integers beyond",
    ),
    "integers as bytes": (
        lambda: Whole(lambda net, x: net.first(x.to(torch.uint8).float()), first=Linear(4, 2)),
        Form((Part((), (4,), is_integer=True),)),
        "makes bytes of larger integers",
    ),
    "float64 before the first layer": (
        lambda: Whole(lambda net, x: net.first((x - 1e9).float()), first=Linear(4, 2)),
        Form((Part((), (4,), is_double=True),)),
        "computes in torch.float64",
    ),
    "arithmetic of bytes": (lambda: Bytes(), pixels(4), "computes in torch.uint8"),
    "weight_norm": (
        lambda: User(nn.utils.parametrizations.weight_norm(Linear(4, 8)), Linear(8, 2)),
        (4,),
        "calls _weight_norm",
    ),
    "float64": (lambda: User(Linear(4, 2)).double(), (4,), "its weights are torch.float64, not float32"),
    "meta": (lambda: User(Linear(4, 2)).to("meta"), (4,), "on meta, and has no copy on the CPU"),
    "depends on the batch size": (lambda: Own(by_size, first=Linear(4, 2)), (4,), "depends on the batch size"),
    "counts": (lambda: Own(counting, first=Linear(4, 2), count=nn.Buffer(torch.zeros(()))), (4,), "Tensor.add_"),
    "depends on its numbers": (lambda: Own(with_a_branch, first=Linear(4, 2)), (4,), "calls torch.Tensor.gt"),
    "mean of the batch": (
        lambda: Own(lambda net, x: net.first(x - x.mean(0)), first=Linear(4, 2)),
        (4,),
        "the mean of several rows",
    ),
    "other rows": (
        lambda: Own(lambda net, x: net.first(x.flip(0)), first=Linear(4, 2)),
        (4,),
        "mixes the numbers of several rows",
    ),
    "one row": (
        lambda: Own(lambda net, x: net.first(x)[:1], first=Linear(4, 2)),
        (4,),
        r"returns \[1, 2\] numbers for 3 observations",
    ),
    "computes by NumPy": (
        lambda: Own(lambda net, x: net.first(torch.from_numpy(x.numpy() * 2)), first=Linear(4, 2)),
        (4,),
        "calls torch.Tensor.numpy",
    ),
    "makes a tensor by a constructor": (
        lambda: Own(lambda net, x: net.first(torch.FloatTensor(x.shape).fill_(1.0) + x), first=Linear(4, 2)),
        (4,),
        "calls torch.Tensor.fill_",
    ),
    "makes one by another": (
        lambda: Own(lambda net, x: net.first(torch.Tensor([1.0, 2.0, 3.0, 4.0]) + x), first=Linear(4, 2)),
        (4,),
        "in another way than by functions of torch",
    ),
    "wants other observations": (lambda: User(Linear(5, 2)), (4,), "raised RuntimeError"),
    "no layer": (lambda: Own(lambda net, x: torch.tanh(x)), (4,), "no linear layer"),
    "dict without its key": (lambda: NoField(Linear(4, 2)), parts(position=(4,)), "raised"),
    "empty observations": (lambda: User(nn.Flatten()), (0,), "observations are empty"),
    "part of a matrix": (
        lambda: Own(lambda net, x: x @ net.matrix[:4], matrix=nn.Parameter(torch.randn(5, 2))),
        (4,),
        "a part of a matrix",
    ),
}


class FirstStep(User):
    def __init__(self) -> None:
        super().__init__(Linear(4, 2))

    def forward(self, obs, state=None, info=None):
        count = torch.ones(len(obs), 2) if state is None else state["count"]
        return self.model(obs) + count, {"count": count + 1}


class NoField(User):
    def forward(self, obs, state=None, info=None):
        return self.model(torch.as_tensor(obs["velocity"])), state


class Bytes(User):
    def __init__(self) -> None:
        super().__init__(Linear(4, 2))

    def forward(self, obs, state=None, info=None):
        return self.model((torch.as_tensor(obs) - 128).float()), state


class HiddenState(User):
    def __init__(self) -> None:
        super().__init__(Linear(4, 2))

    def forward(self, obs, state=None, info=None):
        return self.model(obs), {"hidden": obs}
