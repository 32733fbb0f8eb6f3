import logging
import os

import numpy as np
import pytest

from env.beside import SPACES, Telling
from env.odd import Showing
from faulty import Faulty, Slow
from rlfast.env import ShmemVectorEnv, SubprocVectorEnv
from rlfast.env.process import placement as module
from rlfast.env.process.placement import choose
from scripted import Scripted


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 2)


def took(monkeypatch, workers, one):
    """Replaces the measured times of a step: of all environments in workers, and of one in this process."""
    real = module._step_time

    def measured(backend):
        real(backend)
        return workers if backend.placement == "process" else one * backend.num_envs

    monkeypatch.setattr(module, "_step_time", measured)


@pytest.mark.parametrize(("workers", "placement"), [(7.1, "process"), (7.3, "in-process")])
def test_workers_need_a_clear_gain(monkeypatch, workers, placement):
    took(monkeypatch, workers, 1.0)
    assert choose([Scripted] * 8) == (
        placement,
        f"a step takes 8e+06 us in this process, and {workers * 1e6:.3g} us in workers",
    )
    assert choose([lambda: Telling(SPACES["dict"], SPACES["dict"])] * 3, 2, "fork")[0] == "in-process"


@pytest.mark.parametrize(("count", "num_workers", "cores"), [(1, None, 2), (8, 1, 2), (8, None, 1)])
def test_nothing_to_share(monkeypatch, count, num_workers, cores):
    monkeypatch.setattr(module, "cores", lambda: cores)
    choice = choose([Slow] * count, num_workers)
    assert choice == ("in-process", "there is nothing to share between processes")


def test_slow_steps_are_shared():
    assert choose([lambda: Slow(0.01)] * 6)[0] == "process"


@pytest.mark.parametrize(
    ("fault", "phase", "reason"),
    [
        ("kill", "step", "was killed by SIGKILL"),
        ("exit", "constructor", "left with exit status 3"),
        ("raise", "reset", "ZeroDivisionError: no such number"),
        ("hang", "step", "did not return within step_timeout=1 s"),
    ],
)
def test_unmeasurable_envs_get_processes(monkeypatch, fault, phase, reason):
    monkeypatch.setattr(module, "_PATIENCE", 1.0)
    placement, why = choose([lambda: Faulty(fault, phase=phase, at=1)] * 2)
    assert placement == "process"
    assert "could not be measured" in why
    assert reason in why


def test_type_error_of_env_is_no_pickling_error():
    class Odd(Scripted):
        def step(self, action):
            raise TypeError("odd")

    assert choose([Odd] * 2)[0] == "process"


@pytest.mark.parametrize(
    ("options", "placement"),
    [
        ({}, "in-process"),
        ({"autoreset_mode": "next-step", "on_error": "raise", "context": None}, "in-process"),
        ({"wait_num": 1}, "process"),
        ({"timeout": 1.0}, "process"),
        ({"context": "fork"}, "process"),
        ({"num_workers": 1}, "process"),
        ({"step_timeout": 5.0}, "process"),
        ({"on_error": "restart"}, "process"),
        ({"placement": "process"}, "process"),
        ({"num_workers": 2, "placement": "auto"}, "in-process"),
    ],
)
def test_shmem_uses_processes_when_asked(monkeypatch, options, placement):
    took(monkeypatch, 1.0, 0.1)
    with ShmemVectorEnv([Scripted] * 2, **options) as envs:
        assert envs.placement == placement
        envs.reset()


def test_auto_logs_its_choice(monkeypatch, caplog):
    class Where(Slow):
        def reset(self, **kwargs):
            self.pid = os.getpid()
            return super().reset(**kwargs)

    for workers, placement in [(1.0, "in-process"), (0.1, "process")]:
        with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
            took(patch, workers, 0.1)
            envs = SubprocVectorEnv([Where] * 4, placement="auto")
        envs.reset(seed=3)
        assert envs.placement == placement
        assert (envs.get_env_attr("pid", 0) == [os.getpid()]) == (placement == "in-process")
        assert f"environments run {placement}: a step takes" in caplog.text
        assert envs.step([0] * 4)[0].tolist() == [[0, 1]] * 4  # no trace of what was measured
        envs.close()
    for wrong in ("mars", "split"):
        with pytest.raises(ValueError, match=f'placement must be "process" or "auto", got {wrong!r}'):
            SubprocVectorEnv([Scripted], placement=wrong)


def test_measuring_does_not_warn():
    choose([lambda: Showing(SPACES["box"], np.zeros(3), SPACES["box"])] * 2)  # warnings are errors here
