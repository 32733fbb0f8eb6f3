"""Pools of worker processes, which systems without them skip."""

import sys

import numpy as np
import pytest

from rlfast.env.process import ProcessBackend


def pytest_collection_modifyitems(items):
    if sys.platform == "win32":
        for item in items:
            if "env/process" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="worker processes pass open files on, which Windows cannot"))


class Pool(ProcessBackend):
    """A pool with shorter calls, for all environments unless some are named."""

    def begin(self, seeds=None, envs=None, options=None):
        envs = np.arange(self.num_envs) if envs is None else np.asarray(envs)
        return self.reset(envs, [None] * len(envs) if seeds is None else seeds, options)[0]

    def go(self, envs=None, action=2):
        envs = np.arange(self.num_envs) if envs is None else np.asarray(envs)
        self.send(np.full(len(envs), action), envs)
        return self.recv(len(envs))

    def rest(self):
        """Receives all remaining results, and returns whose they are."""
        rows = []
        while self._stepping.any():
            rows += self.recv(1).env_id.tolist()
        return sorted(rows)


@pytest.fixture
def make():
    """Makes pools, and closes them after the test without waiting for environments that hang."""
    pools = []

    def made(fns, **options):
        pools.append(Pool(fns, **options))
        return pools[-1]

    yield made
    for pool in pools:
        pool.close()
        assert all(child is None for child in pool._workers.children)
