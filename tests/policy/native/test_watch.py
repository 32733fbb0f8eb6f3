"""What the computation of modules rests on, and every change of it."""

import pytest
import torch
from torch import nn

from rlfast._core import Unchanged
from rlfast.policy.native.watch import Watch


class Scaled(nn.Linear):
    """A layer with a number that a computation rests on."""

    def __init__(self):
        super().__init__(3, 2)
        self.scale = 1.5


def watched():
    layer, watch = Scaled(), Watch()
    watch.module(layer)
    assert watch.fact(layer, "scale") == 1.5
    for tensor in layer.parameters():
        watch.tensor(tensor)
    return layer, watch


def rescale(layer):
    layer.scale = 2.5


def forget_the_scale(layer):
    del layer.scale


def act_otherwise(layer):
    layer.forward = lambda x: x


def become_linear(layer):
    layer.__class__ = nn.Linear


def take_another_weight(layer):
    layer.weight = nn.Parameter(layer.weight.detach().clone())


def lose_the_bias(layer):
    layer.bias = None


def get_a_part(layer):
    layer.more = nn.Linear(2, 2)


def move_the_weight(layer):
    layer.weight.data = layer.weight.data.clone()


def transpose_the_weight(layer):
    layer.weight.data = torch.as_strided(layer.weight.data, (2, 3), (1, 2))  # the same address


CHANGES = [
    rescale,
    forget_the_scale,
    act_otherwise,
    become_linear,
    take_another_weight,
    lose_the_bias,
    get_a_part,
    move_the_weight,
    transpose_the_weight,
    lambda layer: layer.register_forward_hook(print),
    lambda layer: layer.register_forward_pre_hook(print),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change):
    layer, watch = watched()
    assert watch.begin()
    assert watch.holds()
    change(layer)
    assert not watch.holds()


@pytest.mark.parametrize("change", [act_otherwise, *CHANGES[-2:]])
def test_modules_that_compute_otherwise_are_no_beginning(change):
    layer, watch = watched()
    change(layer)
    assert not watch.begin()


def test_numbers_may_change():
    layer, watch = watched()
    watch.begin()
    layer.scale = 1.5
    with torch.no_grad():
        layer.weight += 1
    layer(torch.zeros(1, 3)).sum().backward()
    assert watch.holds()


def test_hooks_of_all_modules_and_autocast_are_noticed():
    layer, watch = watched()
    assert watch.begin()
    for register in (
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
    ):
        handle = register(lambda *_: None)
        assert not watch.holds()
        handle.remove()
        assert watch.holds()
    with torch.autocast("cpu"):
        assert not watch.holds()
    assert watch.holds()
    assert layer.scale == 1.5


def test_values_stay_the_same_objects_and_facts_equal():
    one, other = [1], {"a": 1}
    table = {"x": one, "y": other}
    unchanged = Unchanged([one], [{}, table], [(table, "x"), (table, "z")])
    assert unchanged.holds()
    one.append(2)
    assert unchanged.holds()
    table["x"] = [1, 2]
    assert not unchanged.holds()  # equal, and another object
    table["x"] = one
    assert unchanged.holds()
    table["z"] = None
    assert not unchanged.holds()


def test_an_object_that_cannot_be_compared_raises():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise ValueError("no")

    table = {"x": Odd()}
    unchanged = Unchanged([], [], [(table, "x")])
    assert unchanged.holds()
    table["x"] = Odd()
    with pytest.raises(ValueError, match="no"):
        unchanged.holds()
