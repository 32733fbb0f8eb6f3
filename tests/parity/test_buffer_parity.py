"""The same programs on Tianshou 1.0's buffers and on ours: the same answers, apart from docs/differences.md."""

import random
from typing import Any

import numpy as np
import pytest

from parity.peer import answers, needs_tianshou

KINDS = ("single", "manager", "vector", "prioritized", "cached")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stacked": {"stack_num": 3},
    "available": {"stack_num": 3, "sample_avail": True},
    "ignore_obs_next": {"ignore_obs_next": True},
    "stacked, ignore_obs_next": {"stack_num": 2, "ignore_obs_next": True},
    "last_obs": {"save_only_last_obs": True, "stack_num": 2},
    "last_obs, ignore_obs_next": {"save_only_last_obs": True, "stack_num": 4, "ignore_obs_next": True},
}

pytestmark = needs_tianshou


def program(kind: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    rings = 1 if kind == "single" else rng.randint(2, 4)
    sizes = (
        [rng.randint(3, 9)] * rings if kind in ("vector", "prioritized") else [rng.randint(3, 9) for _ in range(rings)]
    )
    if kind == "cached":
        sizes = [rng.choice([0, 7, 12]), *[rng.randint(4, 6)] * (rings - 1)]
    writable = rings - (kind == "cached")
    number = iter(range(10, 10**6, 10))  # the first row of each episode; its rows count on from there
    now = [next(number) for _ in range(writable)]
    operations: list[list[Any]] = []
    for _ in range(60):
        if rng.random() < 0.6:
            steps = []
            for ring in sorted(rng.sample(range(writable), rng.randint(1, writable))):
                end = rng.choice(["", "", "", "", "terminated", "truncated"])
                steps.append({"ring": ring, "now": now[ring], "rew": rng.randint(-3, 3) / 2, "end": end})
                now[ring] = next(number) if end or now[ring] % 10 == 9 else now[ring] + 1
                if now[ring] % 10 == 0 and not end:
                    steps[-1]["end"] = "truncated"
            operations.append(["add", steps])
        else:
            # Under sample_avail Tianshou's managers move only rows with a whole stack; ours move all, as buffers do.
            operations.append(_question(rng, movable=kind == "single" or not options.get("sample_avail")))
        if operations[-1][0] == "reset":
            now = [next(number) for _ in range(writable)]
    return {"kind": kind, "options": options, "sizes": sizes, "operations": operations}


def _question(rng: random.Random, *, movable: bool) -> list[Any]:
    name = rng.choice(["all_rows", "neighbours", "state", "columns", "get", "one", "slice", "reset", "moved"])
    match name:
        case "get":
            return [name, rng.choice(["obs", "act", "rew", "info", "policy"]), rng.randint(1, 3)]
        case "one":
            return [name, rng.randrange(100)]
        case "slice":
            return [name, rng.randint(-6, 6), rng.randint(-6, 6)]
        case "reset":
            return ["state"] if rng.random() < 0.7 else [name, False]
        case "moved":
            return [name, rng.randint(1, 12)] if movable else ["state"]
    return [name]


def newest_frames(answer: Any) -> Any:
    """``obs_next`` without the frames before its newest: where an episode begins, Tianshou repeats ``obs_next``
    there."""
    if isinstance(answer, dict):
        return {key: newest(value) if key == "obs_next" else newest_frames(value) for key, value in answer.items()}
    return [newest_frames(value) for value in answer] if isinstance(answer, list) else answer


def newest(obs_next: dict[str, Any]) -> dict[str, Any]:
    """The frame axis of ``state`` is its last, that of ``image`` the one before."""
    return {
        key: np.array(value)[..., -1, :].tolist() if key == "image" else np.array(value)[..., -1].tolist()
        for key, value in obs_next.items()
    }


def with_ends(answer: Any, depth: int) -> Any:
    """Tianshou's answer under ``ignore_obs_next`` with what ends of episodes led to, which it forgets and we keep."""
    if isinstance(answer, list):
        return [with_ends(value, depth) for value in answer]
    if not isinstance(answer, dict) or "obs_next" not in answer:
        return answer
    done = np.array(answer["done"], bool)
    led_to = {key: after(np.array(value), key, depth) for key, value in answer["obs"].items()}
    kept = {
        key: np.where(done.reshape(done.shape + (1,) * (led_to[key].ndim - done.ndim)), led_to[key], value).tolist()
        for key, value in answer["obs_next"].items()
    }
    return answer | {"obs_next": kept}


def after(obs: Any, key: str, depth: int) -> Any:
    """The observation one step on, as the driver numbers them: ``state`` is n, a row of ``image`` (n, -n)."""
    axis = -2 if key == "image" else -1
    newest = obs[..., -1:, :] if key == "image" and depth > 1 else obs[..., -1:] if depth > 1 else obs
    newest = newest + np.array([1, -1] if key == "image" else 1)
    return np.concatenate([np.delete(obs, 0, axis), newest], axis) if depth > 1 else newest


CASES = [(kind, options) for kind in KINDS for options in OPTIONS]
PROGRAMS = 4


@pytest.fixture(scope="module")
def both() -> dict[tuple[str, str], list[tuple[dict[str, Any], Any, Any]]]:
    """Every program with our answers and theirs; all in one go, for Tianshou takes seconds to compile."""
    programs = [program(kind, OPTIONS[options], seed) for kind, options in CASES for seed in range(PROGRAMS)]
    ours, theirs = (answers("buffer_driver.py", library, programs) for library in ("rlfast", "tianshou"))
    triples = list(zip(programs, ours, theirs, strict=True))
    return {case: triples[place * PROGRAMS : (place + 1) * PROGRAMS] for place, case in enumerate(CASES)}


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_same_answers(
    both: dict[tuple[str, str], list[tuple[dict[str, Any], Any, Any]]], kind: str, options: str
) -> None:
    depth, ignored = OPTIONS[options].get("stack_num", 1), OPTIONS[options].get("ignore_obs_next")
    stacked = depth > 1 and not ignored
    for made, mine, yours in both[kind, options]:
        known = with_ends(yours, depth) if ignored else yours
        for operation, answer, wanted in zip(made["operations"], mine, known, strict=True):
            seen = newest_frames if stacked else list
            assert seen([answer]) == seen([wanted]), (made["sizes"], operation, made["operations"])
