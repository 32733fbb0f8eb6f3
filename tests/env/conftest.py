"""Vector environments of every kind, closed after the test."""

import pytest

from env.backends import BACKENDS


@pytest.fixture
def closed():
    """Closes after the test what it is called with, and returns it."""
    made = []

    def keep(envs):
        made.append(envs)
        return envs

    yield keep
    for envs in made:
        envs.close()


@pytest.fixture(params=BACKENDS)
def face(request, closed):
    """Makes vector environments of one kind, whose name is ``face.kind``."""

    def make(env_fns, **options):
        return closed(BACKENDS[request.param](env_fns, **options))

    make.kind = request.param
    return make
