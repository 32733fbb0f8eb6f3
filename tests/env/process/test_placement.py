import logging
import os

import pytest

from faulty import Faulty, Sampled, Slow
from machine import PATIENCE
from rlfast.env import ShmemVectorEnv, SubprocVectorEnv
from rlfast.env.process import placement as module
from rlfast.env.process.placement import Measurement, choose, measure, measure_in_workers, measure_split
from scripted import Scripted


@pytest.fixture
def steps(monkeypatch):
    """Replaces the measured times and the number of cores, so that choices do not depend on the machine."""

    def measured(fn):
        return Measurement(max(getattr(fn(), "seconds", 0.0), 10e-6), 8)

    monkeypatch.setattr(module, "measure", measured)
    monkeypatch.setattr(module, "cores", lambda: 2)
    return monkeypatch


@pytest.fixture
def patient(monkeypatch):
    """Waits for processes on slow machines, too."""
    monkeypatch.setattr(module, "_PATIENCE", PATIENCE)


@pytest.mark.usefixtures("patient")
def test_trial_step_runs_in_throwaway_process():
    found = measure(lambda: Slow(0.05))
    assert found.step >= 0.05
    assert (found.size, found.failure) == (8, None)
    assert 0 < measure(Scripted).step < 0.05
    assert measure(lambda: Sampled("nested")).size == 2 + 4 + 8


def test_fast_envs_stay_slow_envs_split(steps):
    choice = choose([Scripted] * 8)
    assert choice.placement == "in-process"
    assert "for 8 environments in this process" in choice.reason
    assert choose([lambda: Slow(0.004)] * 8).placement == "process"
    assert choose([lambda: Slow(0.004)]).placement == "in-process"  # one has nobody to share with
    steps.setattr(module, "cores", lambda: 1)
    assert choose([lambda: Slow(0.004)] * 8).placement == "in-process"


def test_processes_that_promise_a_gain_are_tried(steps):
    steps.setattr(module, "_TRIAL", 1.0)
    taken = []

    def in_vain(env_fns, num_workers, context):
        taken.append((len(env_fns), num_workers, context))
        return 1.0

    steps.setattr(module, "measure_in_workers", in_vain)
    choice = choose([lambda: Slow(0.004)] * 8, 2, "fork")
    assert choice.placement == "in-process"
    assert "and measured 1e+06 us in 2 others" in choice.reason
    assert taken == [(8, 2, "fork")]
    steps.setattr(module, "measure_in_workers", lambda *_: 0.001)
    assert choose([lambda: Slow(0.004)] * 8).placement == "process"

    def broken(*_):
        raise ValueError("no")

    steps.setattr(module, "measure_in_workers", broken)
    choice = choose([lambda: Slow(0.004)] * 8)
    assert choice == module.Choice("process", "the environments could not be measured: ValueError: no")
    steps.setattr(module, "_TRIAL", 0.01)
    assert choose([lambda: Slow(0.004)] * 8).placement == "process"  # long enough to be sure of it


def test_a_share_stays_where_that_is_clearly_quicker(steps):
    steps.setattr(module, "_TRIAL", 1.0)
    steps.setattr(module, "measure_in_workers", lambda *_: 0.024)
    fns = [lambda: Slow(0.004)] * 8  # 0.032 s alone
    for both, placement in [(0.021, "split"), (0.023, "process"), (float("inf"), "process")]:
        steps.setattr(module, "measure_split", lambda *_, both=both: both)
        choice = choose(fns, 2, "fork", may_split=True)
        assert (choice.placement, f", {both * 1e6:.3g} us in both" in choice.reason) == (placement, both < 1)
        assert choose(fns).placement == "process"
    steps.setattr(module, "measure_in_workers", lambda *_: 1.0)
    for both, placement in [(0.028, "split"), (0.03, "in-process")]:
        steps.setattr(module, "measure_split", lambda *_, both=both: both)
        assert choose(fns, may_split=True).placement == placement
    steps.setattr(module, "_TRIAL", 0.03)  # so long that a worker's isolation costs nothing
    assert choose(fns, may_split=True).placement == "process"
    steps.setattr(module, "_TRIAL", 1.0)
    steps.setattr(module, "measure_split", lambda *_: 1 / 0)
    assert "could not be measured: ZeroDivisionError" in choose(fns, may_split=True).reason
    quick = [lambda: Slow(20e-6)] * 8  # a worker more would have to be woken for them
    steps.setattr(module, "measure_split", lambda *_: 0.0)
    assert (choose(quick).placement, choose(quick, may_split=True).placement) == ("in-process", "split")


@pytest.mark.parametrize(
    ("options", "may_split"), [({}, True), ({"wait_num": 1}, False), ({"timeout": 1.0}, False),
                               ({"step_timeout": 9.0}, False), ({"on_error": "restart"}, False)]
)  # fmt: skip
def test_split_needs_supported_options(monkeypatch, options, may_split):
    asked = []

    def chosen(env_fns, num_workers, context, *, may_split):
        asked.append(may_split)
        return module.Choice("split" if may_split else "process", "as told")

    monkeypatch.setattr("rlfast.env.subproc.choose", chosen)
    with SubprocVectorEnv([Scripted] * 2, num_workers=2, placement="auto", **options) as envs:
        assert envs.placement == ("split" if may_split else "process")
    assert asked == [may_split]


@pytest.mark.usefixtures("patient")
def test_a_trial_of_a_split_steps_all_environments():
    assert measure_split([lambda: Slow(0.004, length=3), lambda: Slow(0.002, length=2)], 2, None) >= 0.004
    assert measure_split([lambda: Sampled("nested")] * 2, 2, "fork") > 0
    assert measure_split([lambda: Sampled("text")] * 2, 2, "fork") == float("inf")


@pytest.mark.usefixtures("patient")
def test_trial_steps_all_envs_and_cleans_up():
    took = measure_in_workers([lambda: Slow(0.004, length=3), lambda: Slow(0.001, length=2)] * 2, 2, None)
    assert took >= 0.004
    assert measure_in_workers([lambda: Sampled("nested")] * 2, 2, "fork") > 0


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
def test_shmem_uses_processes_when_asked(options, placement):
    with ShmemVectorEnv([Scripted] * 2, **options) as envs:
        assert envs.placement == placement
        envs.reset()
    with SubprocVectorEnv([Scripted] * 2) as envs:
        assert envs.placement == "process"


@pytest.mark.parametrize(
    ("fault", "phase", "why"),
    [
        ("kill", "step", "it ended its process"),
        ("exit", "constructor", "it ended its process"),
        ("raise", "reset", "it raised ZeroDivisionError: no such number"),
        ("hang", "step", "it took more than 1 s"),
    ],
)
def test_what_cannot_be_measured_goes_into_a_process(monkeypatch, fault, phase, why):
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module, "_PATIENCE", PATIENCE if fault != "hang" else 1.0)
    choice = choose([lambda: Faulty(fault, phase=phase, at=1)] * 2)
    assert choice.placement == "process"
    assert why in choice.reason


def test_auto_says_what_it_chose(steps, caplog):
    steps.setattr(module, "_TRIAL", 0.0)
    pid = os.getpid()

    class Where(Slow):
        def reset(self, **kwargs):
            self.pid = os.getpid()
            return super().reset(**kwargs)

    for seconds, placement in [(0.0, "in-process"), (0.004, "process")]:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            envs = SubprocVectorEnv([lambda seconds=seconds: Where(seconds)] * 4, placement="auto")
        envs.reset(seed=3)
        assert envs.placement == placement
        assert (envs.get_env_attr("pid", 0) == [pid]) == (placement == "in-process")
        assert f"environments run {placement}: a step of" in caplog.text
        assert envs.step([0] * 4)[0].tolist() == [[0, 1]] * 4
        envs.close()
    with pytest.raises(ValueError, match='placement must be "process", "split" or "auto", got \'mars\''):
        SubprocVectorEnv([Scripted], placement="mars")
