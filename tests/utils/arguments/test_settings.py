import inspect
import subprocess
import sys
from typing import Literal

import pytest

import rlfast.policy
from rlfast.utils.arguments.settings import REQUIRED, Setting, settings_of
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat

POLICIES = [getattr(rlfast.policy, name) for name in rlfast.policy.__all__ if name.endswith("Policy")]

BASE = '''
"""A module."""
from typing import Any, Literal
import torch
from house.numbers import PositiveInt, UnitFloat


class Options:
    """Options of a family.

    :param gamma: discount, :math:`\\\\gamma`, in
        [0, 1]. Default: 0.99.
    :param mode: ``"a"`` (default) or ``"b"``; see :class:`~house.base.Options`.
    :param net: a network.
    :param device: has no effect.
    :param scaled: must be False.
    """

    def __init__(
        self, net: torch.nn.Module, gamma: UnitFloat = 0.99, *, mode: Literal["a", "b"] = "a", device: str = "cpu",
        scaled: bool = False, low: float = -1.0, either: int | float = 1, texts: "tuple[str, ...]" = (),
    ) -> None: ...


class Mixin:
    def act(self) -> None: ...
'''
CHILD = '''
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from house.base import Mixin, Options as Family


class Closed(Family):
    """Closed.

    :param steps: see :class:`Child`.
    """

    def __init__(self, *, steps: PositiveInt, bound: float | None = None) -> None: ...


class Child(Mixin, Family):
    """Child.

    :param steps: how many. Default: 1e-3.
    :param low: lowest.
    """

    def __init__(self, *, steps: PositiveInt = 1, gamma: UnitFloat = 0.9, **options: Any) -> None: ...


class Grandchild(Child): ...


class Names(MoreNames, total=False):
    low: float


class MoreNames(TypedDict, total=False):
    mode: str


class Strict(Family):
    """Strict.

    :param discount: gamma of the base.
    """

    def __init__(self, discount: UnitFloat = 0.5, **options: Unpack[Names]) -> None: ...


class Stricter(Strict):
    def __init__(self, **options: Unpack[MoreNames]) -> None: ...
'''


@pytest.fixture
def house(tmp_path, monkeypatch):
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("from house.child import Child\n")
    (package / "base.py").write_text(BASE)
    (package / "child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)


def test_options_continue_with_the_next_class(house):
    steps = Setting("steps", PositiveInt, 1, "How many.")
    gamma = Setting("gamma", UnitFloat, 0.9, "Discount, gamma, in [0, 1].")
    mode = Setting("mode", Literal["a", "b"], "a", '"a" or "b"; see Options.')
    device, scaled = Setting("device", str, "cpu", "Has no effect."), Setting("scaled", bool, False, "Must be False.")
    others = (device, scaled, Setting("low", float, -1.0, "Lowest."), Setting("texts", tuple[str, ...], (), ""))
    for name in ("house.Child", "house.child.Child", "house.child.Grandchild"):
        assert settings_of(name) == (steps, gamma, mode, *others)
    assert [one.has_effect for one in (mode, device, scaled)] == [True, False, False]


def test_options_with_names_are_those(house):
    assert [one.name for one in settings_of("house.child.Strict")] == ["discount", "mode", "low"]
    assert [one.name for one in settings_of("house.child.Stricter")] == ["mode"]


def test_constructor_without_options_is_the_last(house):
    bound = Setting("bound", float | None, None, "")
    assert settings_of("house.child.Closed") == (Setting("steps", PositiveInt, REQUIRED, "How many."), bound)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("house.Child2", "there is no class house.Child2"),
        ("house.base.UnknownClass", "there is no class house.base.UnknownClass"),
        ("house.attic.Child", "there is no module house.attic"),
        ("no_such_house.Child", "there is no module no_such_house"),
    ],
)
def test_unknown_class(house, name, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        settings_of(name)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_source_and_signature_agree(policy):
    inits = [one.__init__ for one in policy.__mro__ if "__init__" in vars(one)]
    for one in settings_of(policy):
        found = (inspect.signature(init, eval_str=False).parameters.get(one.name) for init in inits)
        parameter = next(filter(None, found))
        assert (one.hint, one.default) == (parameter.annotation, parameter.default)
        assert one.help


def test_reading_settings_imports_no_torch():
    code = "import sys; from rlfast.utils.arguments.settings import settings_of as s; s('rlfast.policy.SACPolicy')"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)
