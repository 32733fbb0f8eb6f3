"""Fixtures for tests of the templates of learning."""

import pytest
import torch

from rlfast.policy.components import compiled_update


@pytest.fixture
def as_it_is(monkeypatch):
    """What would be compiled runs as the function that it is."""
    monkeypatch.setattr(compiled_update, "_allow_gradients", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda update, *, fullgraph, backend, isolate_recompiles, **options: update)
