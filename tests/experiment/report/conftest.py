from dataclasses import replace
from pathlib import Path

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.report.curves import RunCurve


@pytest.fixture
def make_curve():
    """Makes the curve of a run with a test at step 0 and others that divide its steps evenly."""

    def make(algorithm, env, seed, mean, *, max_steps=1_000, seconds=60.0, ended=True, **settings):
        config = replace(ALGORITHMS[algorithm].preset(env), seed=seed, max_steps=max_steps, **settings)
        parts = max(1, len(mean) - 1)
        return RunCurve(
            source=Path(f"{algorithm}-{env}-{seed}-{max_steps}"),
            config=config,
            beyond=(),
            versions={"rlfast": "1.2", "torch": "3.4", "gymnasium": "5.6", "mujoco": "7.8", "python": "9"},
            processor="A Processor",
            seconds=seconds,
            ended=ended,
            steps=tuple(max_steps * number // parts for number in range(len(mean))),
            mean=tuple(map(float, mean)),
            std=tuple(float(number) / 3 for number in range(len(mean))),
        )

    return make
