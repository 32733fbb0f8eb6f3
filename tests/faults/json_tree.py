"""JSON documents with one error each."""

import copy
import json
import random

JUNK = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x" * 40,
    "1",
    [],
    [[]],
    {},
    {"~": "tuple"},
]


def nested(depth):
    """Returns JSON that is nested more deeply than the interpreter's stack."""
    return "[" * depth + "]" * depth


def places(tree, path=()):
    """The path of every value in a tree of JSON."""
    yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, key))


def changed(tree, path, value):
    """The tree with another value at ``path``."""
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = changed(tree[path[0]], path[1:], value)
    return tree


def without(tree, path):
    """Returns the tree without the value at ``path``."""
    tree = copy.deepcopy(tree)
    owner = tree
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return tree


def variants(tree, number, seed):
    """Returns texts of JSON, each with one fault."""
    chance, everywhere = random.Random(seed), list(places(tree))
    for _ in range(number):
        path = chance.choice(everywhere)
        if path and chance.random() < 0.2:
            yield json.dumps(without(tree, path))
        else:
            yield json.dumps(changed(tree, path, chance.choice(JUNK)))
    for path in chance.sample(everywhere, min(5, len(everywhere))):
        mark = json.dumps(changed(tree, path, "a mark"))
        yield mark.replace('"a mark"', nested(100_000))
