"""The time of a vector step of a collector: a policy acts, environments step and a buffer stores."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST, RLFAST_NET

PEERS = (RLFAST, "tianshou1", "sb3", "plain")
CART_POLE = {"task": "cartpole", "envs": 16, "size": 32_000}
FORMS = {"array": (1, 8, 16), "mask": (16,), "hidden": (16,), "dict": (16,)}
"""Forms of observations, and how many environments give them."""
IMAGES = {"task": "image", "envs": 8, "size": 4_000}


def bars(tianshou: float = 0, sb3: float = 0, plain: float = 0) -> tuple[Bar, ...]:
    wanted = {"tianshou1": tianshou, "sb3": sb3, "plain": plain}
    return tuple(Bar((name,), times) for name, times in wanted.items() if times)


CASES = [
    Case("collect CartPole x16, MLP, Python environments", "collect", "policy", CART_POLE, PEERS, bars(8, 2.5, 1)),
    Case("collect CartPole x16, MLP, native environments", "collect", "policy", CART_POLE, PEERS, bars(100, 15, 7),
         own_operation="policy, native"),
    *(
        Case(f"collect CartPole x16, your own {kind}, native environments", "collect", "policy", CART_POLE,
             (*PEERS, RLFAST_NET), (*bars(80, 12, 5), Bar((RLFAST_NET,), 0.8)), own_operation=f"{kind}, native")
        for kind in ("MLP", "LayerNorm", "GELU", "residual")
    ),
    Case("collect CartPole x16, your own MLP, Python environments", "collect", "policy", CART_POLE, PEERS,
         bars(8, 2.5, 1), own_operation="MLP"),
    Case("collect CartPole x16, your own network that torch computes, Python environments", "collect", "policy",
         CART_POLE, PEERS, bars(4, 1.3), own_operation="torch"),
    *(
        Case(f"collect CartPole x{envs}, {form}, a network that torch computes", "collect_formed", "policy",
             {"form": form, "envs": envs, "size": 32_000}, (RLFAST, "plain"), bars(0, 0, 0.87))
        for form, counts in FORMS.items() for envs in counts
    ),
    Case("collect CartPole x16, random, Python environments", "collect", "random", CART_POLE, PEERS, bars(0, 1.3)),
    Case("collect CartPole x16, random, native environments", "collect", "random", CART_POLE, PEERS, bars(100),
         own_operation="random, native"),
    Case("collect images x8, NatureCNN", "collect", "policy", IMAGES, PEERS, bars(1.4, 1.3, 1.3)),
    Case("collect images x8, random", "collect", "random", IMAGES, PEERS, bars(10, 5)),
    Case("100 episodes of CartPole, at most 100 steps, Python environments", "evaluate", "evaluate",
         {"envs": 100, "episodes": 100, "limit": 100}, (RLFAST, "tianshou1", "sb3")),
    Case("100 episodes of CartPole, at most 100 steps, native environments", "evaluate", "evaluate",
         {"envs": 100, "episodes": 100, "limit": 100}, (RLFAST, "tianshou1", "sb3"),
         (Bar(at_most=20e-3), *bars(10)), own_operation="evaluate, native"),
    Case("choose an action for one observation, MLP", "choose", "choose", {}, (RLFAST, "tianshou1", "sb3"),
         (Bar(at_most=8e-6),)),
    Case("choose an action for one observation, your own MLP", "choose", "choose", {},
         (RLFAST, "tianshou1", "sb3"), (Bar(at_most=8e-6),), own_operation="choose, own MLP"),
]  # fmt: skip


def test_collecting(measure, case, library):
    measure(case, library)
