"""The time of a step of Atari's environments, on two cores, and of the kernel for its screens."""

from bench.harness import Bar, Case

ENVS = ("rlfast atari", "envpool atari", "ale-py atari", "sb3 atari")
CASES = [
    *(
        Case(f"Pong x {count}, wrapped, random actions", "atari_step", "step", {"num_envs": count}, ENVS[:wide],
             (Bar(("envpool atari",), 1.3),), threads=2)
        for count, wide in ((8, 4), (64, 3))  # a process for each of 64 environments is too much for two cores
    ),
    Case("a coloured screen to a grey frame of 84x84", "screens", "resize", {}, ("rlfast screens", "opencv"),
         (Bar(("opencv",), 4),)),
]  # fmt: skip


def test_atari(measure, case, library):
    measure(case, library)
