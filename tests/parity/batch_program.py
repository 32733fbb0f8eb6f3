"""Random programs of operations on batches, and an interpreter that runs them on any class called ``Batch``.

Both sides of a comparison run this file in their own interpreter, from the same seeds: ``python batch_program.py MODULE
FIRST COUNT LENGTH`` writes a pickle of what each operation gave, in plain Python types, to standard output. It needs
Python 3.11 and NumPy 1.24 or later.
"""

import copy
import importlib
import math
import pickle
import random
import sys
import warnings

import numpy as np
import torch

REGISTERS = 4
KEYS = "abcd"


# -- programs: plain data, drawn without looking at results ------------------------------------------------------------


def program(seed, length):
    rng = random.Random(seed)
    narrow = rng.random() < 0.3  # float32 and uint8, without arithmetic: NumPy 1 and 2 promote them differently
    start = [("new", r, fields(rng, narrow, 2)) for r in range(REGISTERS)]
    return start + [operation(rng, narrow) for _ in range(length - REGISTERS)]


def operation(rng, narrow):
    name = rng.choice([n for n in DRAW if not (narrow and n in ARITHMETIC)])
    return (name, rng.randrange(REGISTERS), *DRAW[name](rng, narrow))


def fields(rng, narrow, depth):
    rows = rng.choice([1, 2, 3, 3, 3])
    plain = rng.random() < 0.6  # a batch as they mostly are: rows in every field
    return {k: value(rng, narrow, depth, rows, plain) for k in rng.sample(KEYS, rng.randint(0, len(KEYS)))}


def value(rng, narrow, depth, rows, plain):
    """How to build a value: a tuple that starts with the kind."""
    if rng.random() < 0.1:
        rows = rng.randint(0, 3)
    kinds = ["array"] * 6 + ["tensor", "strings", "numbers", "reserved"]
    if depth:
        kinds += ["dict", "dict", "dict"]
    if not plain:
        kinds += [
            "single", "single", "none", "string", "ragged",
            "mixed", "tensors", "uneven tensors", "dicts", "empty list",
        ]  # fmt: skip
    kind = rng.choice(kinds)
    if kind == "dict":
        return kind, {k: value(rng, narrow, depth - 1, rows, plain) for k in rng.sample(KEYS, rng.randint(0, 3))}
    if kind == "dicts":
        kind_of = {"a": int, "b": float, "c": bool, "d": str}
        rows_of = [{k: kind_of[k](number(rng)) for k in rng.sample(KEYS, rng.randint(0, 2))} for _ in range(rows)]
        return kind, [row or {"a": 0} for row in rows_of]  # empty ones are of no row in Tianshou
    if kind in ("array", "tensor"):
        dtypes = ["float64", "float64", "int64", "bool"] + (["float32", "uint8"] if narrow else [])
        return kind, rng.choice(dtypes), (rows, *rng.choice([(), (), (2,), (3, 2)])), rng.randrange(100)
    return kind, rows, number(rng)


def number(rng):
    return rng.choice([rng.randint(-3, 3), rng.randint(0, 8) / 4, rng.random() < 0.5])


def index(rng, _narrow=None):
    kind = rng.choice(["int", "int", "slice", "list", "array", "mask", "ellipsis", "tuple", "none", "float", "empty"])
    return (kind, rng.randint(-3, 3), rng.randint(-3, 4), [rng.randint(-2, 2) for _ in range(rng.randint(1, 3))])


def several(rng, _narrow):
    return ([(rng.randrange(REGISTERS), rng.random() < 0.2) for _ in range(rng.randint(0, 3))],)


DRAW = {
    "new": lambda rng, narrow: (fields(rng, narrow, 2),),
    "new from list": several,
    "setattr": lambda rng, narrow: (rng.choice(KEYS), value(rng, narrow, 1, rng.randint(1, 3), rng.random() < 0.5)),
    "copy key": lambda rng, _: (rng.choice(KEYS), rng.randrange(REGISTERS), rng.choice(KEYS)),
    "get rows": lambda rng, _: (rng.randrange(REGISTERS), index(rng)),
    "get key": lambda rng, _: (rng.choice(KEYS),),
    "attribute": lambda rng, _: (rng.choice([*KEYS, "missing"]),),
    "set rows": lambda rng, narrow: (index(rng), fields(rng, narrow, 2) if rng.random() < 0.9 else ("none", 1, 1)),
    "set rows to rows": lambda rng, _: (index(rng), rng.randrange(REGISTERS), index(rng)),
    "add": lambda rng, _: (number(rng),),
    "iadd": lambda rng, _: (number(rng),),
    "add itself": lambda _rng, _: (),
    "add nonsense": lambda rng, _: (rng.choice(["x", None, [1]]),),
    "mul": lambda rng, _: (rng.choice([number(rng), "x"]),),
    "div": lambda rng, _: (rng.choice([2, 0.5, "x"]),),
    "mean": lambda _rng, _: (),
    "cat": several,
    "cat_": several,
    "stack": lambda rng, narrow: (*several(rng, narrow), rng.choice([0, 0, 0, 1, -1])),
    "stack_": several,
    "empty": lambda rng, _: (index(rng) if rng.random() < 0.5 else None,),
    "empty_": lambda rng, _: (index(rng) if rng.random() < 0.5 else None,),
    "update": lambda rng, narrow: (fields(rng, narrow, 1), fields(rng, narrow, 1)),
    "pop": lambda rng, _: (rng.choice(KEYS), rng.random() < 0.5),
    "get": lambda rng, _: (rng.choice(KEYS),),
    "contains": lambda rng, _: (rng.choice(KEYS),),
    "delete": lambda rng, _: (rng.choice(KEYS),),
    "len": lambda _rng, _: (),
    "shape": lambda _rng, _: (),
    "is_empty": lambda rng, _: (rng.random() < 0.5,),
    "rows": lambda _rng, _: (),
    "split": lambda rng, _: (rng.choice([-1, 0, 1, 2, 3, 7]), rng.random() < 0.5, rng.random() < 0.5),
    "to_numpy": lambda _rng, _: (),
    "to_torch": lambda rng, _: (rng.choice([None, None, "float32"]),),
    "convert": lambda rng, narrow: (rng.choice(["to_numpy", "to_torch"]), value(rng, narrow, 1, 2, False)),
    "pickle": lambda _rng, _: (),
    "deepcopy": lambda _rng, _: (),
    "repr": lambda _rng, _: (),
    "create_value": lambda rng, narrow: (value(rng, narrow, 1, 2, False), rng.randint(0, 3), rng.random() < 0.5),
    "alloc_by_keys_diff": lambda rng, _: (rng.randrange(REGISTERS), rng.randint(0, 3), rng.random() < 0.5),
}
COMBINING = {"new from list", "cat", "cat_", "stack", "stack_"}
ARITHMETIC = {"add", "iadd", "add itself", "add nonsense", "mul", "div", "mean"}


# -- the interpreter ---------------------------------------------------------------------------------------------------


class Machine:
    def __init__(self, module):
        self.batch_module = importlib.import_module(f"{module}.data.batch")
        self.data = importlib.import_module(f"{module}.data")
        self.Batch = self.data.Batch
        self.registers = [self.Batch() for _ in range(REGISTERS)]

    def run(self, steps):
        """Returns the result of each step and its register afterwards; a step that raises an error changes nothing."""
        return [self.step(*step) for step in steps]

    def step(self, name, register, *arguments):
        before = [self.clone(batch) for batch in self.registers]
        traits = self.traits(name, register, arguments)
        np.random.seed(0)
        try:
            result = getattr(self, "do_" + name.replace(" ", "_"))(register, *arguments)
            return "ok", self.plain(result), self.plain(self.registers[register]), traits
        except Exception as error:
            self.registers = before
            builtin = next(t for t in type(error).__mro__ if t.__module__ == "builtins")
            return "error", builtin.__name__, str(error), traits

    def clone(self, x):
        """A deep copy that parses nothing anew, unlike the batch's own."""
        if not isinstance(x, self.Batch):
            return copy.deepcopy(x)
        new = self.Batch()
        new.__dict__.update({k: self.clone(v) for k, v in x.__dict__.items()})
        return new

    def plain(self, x):
        """Values in Python's own types, so that any interpreter reads and compares them."""
        if isinstance(x, self.Batch):
            return "batch", sorted((k, self.plain(v)) for k, v in x.__dict__.items())
        if isinstance(x, np.ndarray | np.generic):
            kind = "array" if isinstance(x, np.ndarray) else "scalar"
            return kind, str(x.dtype), x.shape, [self.plain(entry) for entry in x.ravel().tolist()]
        if isinstance(x, torch.Tensor):
            return "tensor", str(x.dtype), tuple(x.shape), [self.plain(entry) for entry in x.reshape(-1).tolist()]
        if isinstance(x, float) and math.isnan(x):
            return "nan"  # which is equal to itself
        if isinstance(x, list | tuple):
            return type(x).__name__, [self.plain(e) for e in x]
        if isinstance(x, dict):
            return "dict", sorted((k, self.plain(v)) for k, v in x.items())
        return x if isinstance(x, str | bool | int | float | None) else f"a {type(x).__name__}"

    def traits(self, name, register, arguments):
        """Returns how the structures of combined batches differ."""
        if name not in COMBINING:
            return frozenset()
        batches = [self.registers[r] for r, _ in arguments[0] if not self.registers[r].is_empty()]
        head = self.registers[register]
        if name in {"cat_", "stack_"} and batches and not head.is_empty():
            batches.insert(0, head)
        return frozenset(self.compare([dict(batch.__dict__) for batch in batches]))

    def compare(self, batches):
        for key in {key for batch in batches for key in batch}:
            values = [batch[key] for batch in batches if key in batch]
            values = [v for v in values if not (isinstance(v, self.Batch) and v.is_empty())]
            partial = 0 < len(values) < len(batches)
            nested = [v.__dict__ for v in values if isinstance(v, self.Batch)]
            if partial:
                yield "partial"
            if 0 < len(nested) < len(values):
                yield "mixed"
            if nested:
                yield from self.compare(nested + [{}] * (len(batches) - len(values)))
            else:
                if partial and len({str(getattr(v, "dtype", None)) for v in values}) > 1:
                    yield "dtypes"
                if len({tuple(getattr(v, "shape", ())) for v in values}) > 1:
                    yield "shapes"

    def build(self, spec):
        if isinstance(spec, dict):
            return {k: self.build(v) for k, v in spec.items()}
        kind, first, *rest = spec
        if kind in ("array", "tensor"):
            shape, seed = rest
            array = (
                np.array([(seed * 7 + i * 3) % 11 - 5 for i in range(math.prod(shape))]).reshape(shape).astype(first)
            )
            return array if kind == "array" else torch.from_numpy(array)
        if kind in ("dict", "dicts"):
            return self.build(first) if kind == "dict" else first
        rows, x = first, rest[0]
        return {
            "strings": lambda: np.array([f"s{i}" for i in range(rows)], dtype=object),
            "numbers": lambda: [x] * rows,
            "reserved": lambda: self.Batch() if rows % 2 else {},
            "single": lambda: np.float64(x) if rows == 1 else np.array(x) if rows == 2 else x,
            "none": lambda: None,
            "string": lambda: "text",
            "ragged": lambda: [[1.0] * (i + 1) for i in range(rows)],
            "mixed": lambda: [x, None, *["s"] * (rows - 1)],
            "tensors": lambda: [torch.full((2,), float(x))] * rows,
            "uneven tensors": lambda: [torch.zeros(2), torch.zeros(3)],
            "empty list": list,
        }[kind]()

    def index(self, spec):
        if spec is None:
            return None
        kind, a, b, many = spec
        return {
            "int": a,
            "slice": slice(a, b),
            "list": many,
            "array": np.array(many),
            "mask": np.array([bool(m % 2) for m in (*many, 1, 0)][:3]),
            "ellipsis": Ellipsis,
            "tuple": (Ellipsis, 0),
            "none": None,
            "float": 0.5,
            "empty": slice(0, 0),
        }[kind]

    def many(self, specs):
        """Registers, some of them as dicts."""
        return [dict(self.registers[r].__dict__) if as_dict else self.registers[r] for r, as_dict in specs]

    def do_new(self, r, spec):
        self.registers[r] = self.Batch(self.build(spec))

    def do_new_from_list(self, r, specs):
        self.registers[r] = self.Batch(self.many(specs))

    def do_setattr(self, r, key, spec):
        setattr(self.registers[r], key, self.build(spec))

    def do_copy_key(self, r, key, source, source_key):
        self.registers[r][key] = self.clone(self.registers[source][source_key])

    def do_get_rows(self, r, source, index):
        self.registers[r] = self.clone(self.registers[source][self.index(index)])

    def do_get_key(self, r, key):
        return self.registers[r][key]

    def do_attribute(self, r, key):
        return getattr(self.registers[r], key)

    def do_set_rows(self, r, index, spec):
        self.registers[r][self.index(index)] = self.build(spec)

    def do_set_rows_to_rows(self, r, index, source, source_index):
        self.registers[r][self.index(index)] = self.clone(self.registers[source][self.index(source_index)])

    def do_add(self, r, x):
        return self.registers[r] + x

    def do_iadd(self, r, x):
        self.registers[r] += x

    def do_add_itself(self, r):
        return self.registers[r] + self.registers[r]

    def do_add_nonsense(self, r, x):
        return self.registers[r] + x

    def do_mul(self, r, x):
        return self.registers[r] * x

    def do_div(self, r, x):
        return self.registers[r] / x

    def do_mean(self, r):
        return np.mean(self.registers[r])

    def do_cat(self, r, specs):
        self.registers[r] = self.Batch.cat(self.many(specs))

    def do_cat_(self, r, specs):
        self.registers[r].cat_(self.many(specs))

    def do_stack(self, r, specs, axis):
        self.registers[r] = self.Batch.stack(self.many(specs), axis)

    def do_stack_(self, r, specs):
        self.registers[r].stack_(self.many(specs))

    def do_empty(self, r, index):
        return self.Batch.empty(self.registers[r], self.index(index))

    def do_empty_(self, r, index):
        self.registers[r].empty_(self.index(index))

    def do_update(self, r, first, second):
        self.registers[r].update(self.build(first), **self.build(second))

    def do_pop(self, r, key, default):
        return self.registers[r].pop(key, 7) if default else self.registers[r].pop(key)

    def do_get(self, r, key):
        return self.registers[r].get(key)

    def do_contains(self, r, key):
        return key in self.registers[r]

    def do_delete(self, r, key):
        delattr(self.registers[r], key)

    def do_len(self, r):
        return len(self.registers[r])

    def do_shape(self, r):
        return self.registers[r].shape

    def do_is_empty(self, r, recurse):
        return self.registers[r].is_empty(recurse=recurse)

    def do_rows(self, r):
        rows = []
        for row in self.registers[r]:
            rows.append(row)
            if len(rows) > 20:
                raise OverflowError("rows without end")
        return rows

    def do_split(self, r, size, shuffle, merge_last):
        return list(self.registers[r].split(size, shuffle, merge_last))

    def do_to_numpy(self, r):
        self.registers[r].to_numpy()  # ours gives the batch itself as well

    def do_to_torch(self, r, dtype):
        self.registers[r].to_torch(dtype=dtype and getattr(torch, dtype))

    def do_convert(self, _r, function, spec):
        return getattr(self.data, function)(self.build(spec))

    def do_pickle(self, r):
        self.registers[r] = pickle.loads(pickle.dumps(self.registers[r]))

    def do_deepcopy(self, r):
        self.registers[r] = copy.deepcopy(self.registers[r])

    def do_repr(self, r):
        return sorted(repr(self.registers[r]).splitlines())  # the order of the fields is arbitrary in Tianshou

    def do_create_value(self, _r, spec, size, stack):
        return self.batch_module.create_value(self.Batch(a=self.build(spec)).a, size, stack)

    def do_alloc_by_keys_diff(self, r, source, size, stack):
        self.batch_module.alloc_by_keys_diff(self.registers[r], self.registers[source], size, stack)


def outcomes(module, first, count, length):
    """For each seed, what every operation of its program gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if int(np.__version__.split(".")[0]) >= 2:
            np.set_printoptions(legacy="1.25")  # NumPy 2 shows scalars with their type
        try:
            return [Machine(module).run(program(seed, length)) for seed in range(first, first + count)]
        finally:
            if int(np.__version__.split(".")[0]) >= 2:
                np.set_printoptions(legacy=False)


if __name__ == "__main__":
    module, *numbers = sys.argv[1:]
    sys.stdout.buffer.write(pickle.dumps(outcomes(module, *map(int, numbers))))
