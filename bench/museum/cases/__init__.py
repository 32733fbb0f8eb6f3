"""The cases: one module for each area, in the order of the page."""

from bench.museum.case import Case
from bench.museum.cases import environments, learning, observations, priorities, returns, storage

AREAS: dict[str, tuple[Case, ...]] = {
    "Returns and advantages": returns.CASES,
    "Observations and stacks": observations.CASES,
    "Prioritized replay": priorities.CASES,
    "Rings, goals, sequences and files": storage.CASES,
    "Environments and collecting": environments.CASES,
    "Normalisation, actions and learners": learning.CASES,
}
CASES = {case.id: case for cases in AREAS.values() for case in cases}
