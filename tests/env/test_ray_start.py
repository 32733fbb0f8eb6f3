import pytest

from rlfast.env import RayVectorEnv
from scripted import Scripted

ray = pytest.importorskip("ray")


class Started(Exception):
    pass


def test_ray_is_started_without_its_dashboard(monkeypatch):
    def init(**given):
        raise Started(given)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(Started, match="'include_dashboard': False"):
        RayVectorEnv([Scripted])
