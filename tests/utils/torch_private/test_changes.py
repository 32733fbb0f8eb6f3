"""Every change of modules that a computation from their structure must notice."""

import gc
from weakref import ref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from rlfast.utils.torch_private.changes import ModuleVersion, registrations


def version():
    caller, layer = nn.Module(), nn.Linear(3, 2)
    return caller, layer, ModuleVersion([layer], [(layer, "weight"), (layer, "bias")], caller)


def replace_weight(_, layer):
    layer.weight = nn.Parameter(layer.weight.detach().clone())


def remove_bias(_, layer):
    layer.bias = None


def delete_bias(_, layer):
    del layer.bias


def add_submodule(_, layer):
    layer.more = nn.Linear(2, 2)


def register_buffer(_, layer):
    layer.register_buffer("scale", torch.ones(1))


def move_weight(_, layer):
    layer.weight.data = layer.weight.data.clone()


@pytest.mark.parametrize(
    "change",
    [
        replace_weight,
        remove_bias,
        delete_bias,
        add_submodule,
        register_buffer,
        move_weight,
        lambda _, layer: layer.eval(),
        lambda _, layer: layer.register_forward_hook(print),
        lambda _, layer: layer.register_forward_pre_hook(print),
        lambda caller, _: caller.register_forward_hook(print),
        lambda caller, _: caller.register_forward_pre_hook(print),
    ],
)
def test_change_ends_version(change):
    caller, layer, one = version()
    assert one.is_current()
    change(caller, layer)
    assert not one.is_current()


def test_values_of_parameters_may_change():
    _, layer, one = version()
    with torch.no_grad():
        layer.weight.add_(1)
    layer(torch.zeros(1, 3)).sum().backward()
    assert one.is_current()


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook"])
def test_hooks_of_all_modules_and_autocast_are_noticed(kind):
    *_, one = version()
    handle = getattr(torch_module, f"register_module_{kind}")(lambda *_: None)
    assert not one.is_current()
    handle.remove()
    assert one.is_current()
    with torch.autocast("cpu"):
        assert not one.is_current()
    assert one.is_current()


def test_registrations_elsewhere_count():
    *_, one = version()
    before = registrations()
    nn.Linear(1, 1)
    assert registrations() > before
    assert not one.is_current()


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.none = 2.0, None
        self.register_buffer("sparse", torch.zeros(2).to_sparse())


@pytest.mark.parametrize("name", ["scale", "none", "more", "sparse"])
def test_attributes_and_tensors_without_memory(name):
    own = Own()
    one = ModuleVersion([own], [(own, "sparse")], own, attributes=True)
    assert one.is_current()
    (own._buffers if name == "sparse" else vars(own))[name] = torch.zeros(2).to_sparse()  # PyTorch does not report it
    assert not one.is_current()


def test_a_version_within_its_own_module_is_collected():
    own = Own()
    own.version = ModuleVersion([own], [(own, "sparse")], own, attributes=True)
    gone = ref(own)
    del own
    gc.collect()
    assert gone() is None
