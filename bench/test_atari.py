"""The time of a step of Atari's environments, on two cores, and of the kernel for its screens."""

from bench.harness import Bar, Case

ENVS = ("rlfast atari", "envpool atari", "ale-py atari", "sb3 atari")
CASES = [
    *(
        Case(f"Pong x {count}, wrapped, random actions", "atari_step", "step", {"num_envs": count}, ENVS[:wide],
             (Bar(("envpool atari", "ale-py atari"), times),), threads=2)
        for count, wide, times in ((8, 4, 1.0), (64, 3, 1.05))  # 64 processes are too many for two cores
    ),
    Case("a coloured screen to a grey frame of 84x84", "screens", "resize", {}, ("rlfast screens", "opencv"),
         (Bar(("opencv",), 4),)),
]  # fmt: skip


def test_atari(measure, case, library):
    measure(case, library)
