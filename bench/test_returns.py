"""N-step returns and generalized advantages."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST, TIANSHOU

NSTEP = {"rows": 100_000, "envs": 16, "n_step": 3, "batch_size": 256}
GAE = {"steps": 2048, "envs": 16}
OWN_STATIC = "static"
CASES = [
    Case("n-step 3 x256", "nstep", "alone", NSTEP, (RLFAST, *TIANSHOU), (Bar(("tianshou1",), 20),)),
    Case(
        "n-step 3 x256, BasePolicy.compute_nstep_return",
        "nstep",
        "alone",
        NSTEP,
        (RLFAST, *TIANSHOU),
        quick=None,
        own_operation=OWN_STATIC,
    ),
    Case(
        "sample + n-step 3 x256, 16 envs 100k",
        "nstep",
        "sample+nstep",
        NSTEP,
        (RLFAST, "sb3", *TIANSHOU),
        (Bar(("tianshou1",), 30), Bar(("sb3",), 10)),
    ),
    Case("GAE 2048x16, kernel", "gae", "kernel", GAE, (RLFAST, *TIANSHOU, "rlox"), (Bar(("tianshou1",), 7),)),
    Case(
        "GAE 2048x16, library call",
        "gae",
        "call",
        GAE,
        (RLFAST, "sb3", "torchrl", *TIANSHOU),
        (Bar(("tianshou1",), 25),),
    ),
]


def test_returns(measure, case, library):
    measure(case, library)
