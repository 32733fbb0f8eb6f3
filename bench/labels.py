"""Names of libraries and of measurements for readers; those of recordings are short, and say shapes and sizes."""

from __future__ import annotations

import re

TITLES = {
    "tianshou1": "Tianshou 1.0",
    "tianshou2": "Tianshou 2.0",
    "sb3": "Stable-Baselines3",
    "torchrl": "TorchRL",
    "cleanrl": "CleanRL",
    "plain": "a loop by hand",
    "tianshou1 workers": "Tianshou 1.0 workers",
    "sb3 workers": "Stable-Baselines3 workers",
    "gymnasium sync": "Gymnasium, SyncVectorEnv",
    "gymnasium async": "Gymnasium, AsyncVectorEnv",
    "gymnasium vectorised": "Gymnasium, vectorised CartPole",
    "gymnasium in-process": "Gymnasium in this process",
    "rlfast in-process": "rlfast in this process",
    "rlfast auto": "rlfast, placed by measuring",
    "envpool atari": "EnvPool",
    "ale-py atari": "ale-py's AtariVectorEnv",
    "sb3 atari": "Stable-Baselines3",
    "opencv": "OpenCV",
    "rlfast Net": "rlfast's own Net",
    "rlfast lz4": "rlfast, LZ4",
    "rlfast zstd": "rlfast, Zstandard",
    "rlfast shards": "shards in this process",
    "rlfast one buffer": "one buffer",
    "envpool": "EnvPool",
    "take": "copy by np.take (a limit)",
    "gather": "copy in C (a limit)",
    "network by hand": "gradient steps alone (a limit)",
}
"""Names of libraries in tables and pictures."""

_NUMBER = r"(\d+(?:,\d{3})*)"
_RULES = (
    (r"\b(\d+)M\b", lambda match: f"{int(match[1]):,},000,000"),
    (r"\b(\d+)k\b", lambda match: f"{int(match[1]):,},000"),
    (r"\bx ?(\d{4,})\b", lambda match: f"x{int(match[1]):,}"),
    (r"\b(\d{4})x(\d+)\b", lambda match: f"{int(match[1]):,} x {match[2]}"),
    (r"\bSB3\b", "Stable-Baselines3"),
    (r"\bf32\[376\]/a17\b", "wide"),
    (r"^memory f64\[17\]/f32\[6\], 1 env$", "memory of a row of 17 + 6 numbers"),
    (r"^memory Atari 8 envs(, 4-stacks in and out)?", "memory of an Atari row"),
    (r"^add (\d+) envs Atari\b", r"store a step of \1 Atari environments"),
    (r"^add (\d+) envs f32\S+, dicts$", r"store a step of \1 environments, dicts"),
    (r"^add (\d+) envs f32[^ ,]+", r"store a step of \1 environments"),
    (r"^add 1 env f32[^ ,]+", "store a step of 1 environment"),
    (rf"^sample (?:f32\[4\] )?{_NUMBER} x{_NUMBER}", r"sample \2 of \1 rows"),
    (rf"^sample wide {_NUMBER} x{_NUMBER}", r"sample \2 of \1 wide rows"),
    (rf"^sample Atari 8 envs {_NUMBER} x{_NUMBER}", r"sample \2 of \1 Atari rows"),
    (rf"^sample hindsight x{_NUMBER} {_NUMBER}", r"sample \1 of \2 rows, hindsight goals"),
    (rf"^sample (?:\+ )?n-step 3 x(\d+),? 16 envs {_NUMBER}", r"sample \1 of \2 rows, 3-step returns"),
    (r"^n-step 3 x(\d+)", r"3-step returns of \1 rows"),
    (rf"^prioritized sample\+update x(\d+) f32\[4\] {_NUMBER}", r"sample \1 of \2 by priority, update them"),
    (rf"^prioritized sample\+update in TorchRL x(\d+) f32\[4\] {_NUMBER}", r"sample \1 of \2 by priority in TorchRL"),
    (r"^prioritized sample\+update x(\d+)", r"sample \1 by priority, update them,"),
    (rf"^segment tree sample\+update x(\d+) {_NUMBER}", r"sample and update \1 priorities of \2 in a tree"),
    (r"^GAE ([\d,]+ x \d+)", r"advantages (GAE) of \1 steps"),
    (r"^advantages ([\d,]+ x \d+)", r"advantages (GAE) of \1 steps"),
    (r"^collect CartPole x(\d+)", r"collect a step of \1 CartPoles"),
    (r"^collect images x(\d+)", r"collect a step of \1 image environments"),
    (rf"^D4RL HDF5, {_NUMBER} rows", r"read a D4RL file of \1 rows"),
    (r"^steps that do nothing x (\d+)", r"step \1 environments that do nothing"),
    (r"^steps of (\d+) us x (\d+)", r"step \2 environments of \1 us each"),
    (r"^images (\S+) x (\d+)", r"step \2 environments of \1 pictures"),
    (rf"^EnvPool's (\S+) x ?{_NUMBER}", r"step \2 \1 of EnvPool"),
    (rf"^(CartPole-v1|Pendulum-v1|Pong) x ?{_NUMBER}", r"step \2 \1"),
    (r"^f32\[17\], (insert|sample) x?(\d+)(?: rows)?", r"\1 \2 rows"),
    (r"^Atari, (insert|sample) x?(\d+)(?: rows)?", r"\1 \2 Atari rows"),
    (r"^storage Pong, memory", "memory of a row of Pong"),
    (r"^storage Pong, add (\d+) envs", r"store a step of \1 environments of Pong"),
    (r"^storage Pong, sample (\d+)", r"sample \1 rows of Pong"),
    (r"\b1 env\b", "1 environment"),
    (r"\b(\d+) envs\b", r"\1 environments"),
    (r" x(\d+) in\b", r" \1 in"),
)


def described(name: str) -> str:
    """Returns the name of a measurement in words.

    :param name: its name in recordings, such as ``"sample f32[4] 100k x256"``.

    >>> described("sample f32[4] 100k x256")
    'sample 256 of 100,000 rows'
    """
    for pattern, words in _RULES:
        name = re.sub(pattern, words, name)
    return name


def verdict(bar: str) -> str:
    """Returns a goal with the names of libraries in words.

    :param bar: the goal, such as ``"10.5x, >= 15x tianshou1: MISSED"``.
    """
    return re.sub(
        r"(?<=x )[\w -]+?(?=: (?:met|MISSED|not measured))", lambda match: TITLES.get(match[0], match[0]), bar
    )
