# ruff: noqa: E501, E731, PYI024
"""Every kind of value through every operation of ``Batch`` and the converters, in Tianshou 1.0 or here.

    python value_sweep.py tianshou FIRST COUNT > outcomes

Run with either interpreter; what each operation gave, or the class of its error, is pickled as plain data.
"""

import array
import ast
import collections
import copy
import dataclasses
import decimal
import enum
import fractions
import importlib
import inspect
import io
import itertools
import math
import pickle
import signal
import sys
import types
import warnings

import h5py
import numpy as np
import torch


class Lazy:
    """Like the frames of a wrapper: an array that is made when asked for."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(6, dtype=dtype or np.float32).reshape(2, 3)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.__array__()[i]


class Graph:
    """An object that holds other objects, such as networkx has."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return {0: "x", 1: "y"}[i]

    def __iter__(self):
        return iter([0, 1])


class Thing:
    def __eq__(self, other):
        return isinstance(other, Thing)

    def __hash__(self):
        return 1


@dataclasses.dataclass
class Data:
    x: int = 1


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Ints(list):
    pass


class Dicts(dict):
    pass


Point = collections.namedtuple("Point", "x y")


class Row(collections.abc.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError(i)
        return float(i)


def values(Batch):
    t = torch.tensor
    z, o = np.zeros, np.ones
    thing = Thing()
    return {
        "int": 3, "negative": -1, "big": 2**70, "float": 2.5, "nan": math.nan, "inf": math.inf, "bool": True,
        "complex": 1 + 2j, "none": None, "str": "text", "empty str": "", "bytes": b"ab", "bytearray": bytearray(b"ab"),
        "memoryview": memoryview(b"ab"), "decimal": decimal.Decimal("1.5"), "fraction": fractions.Fraction(1, 2),
        "ellipsis": ..., "class": int, "function": len, "module": math, "thing": thing, "data": Data(), "enum": Color.RED,
        "intenum": Level.LOW, "slice": slice(1), "range": range(3), "np int": np.int32(4), "np float": np.float32(0.5),
        "np bool": np.bool_(True), "np str": np.str_("s"), "np void": np.void(b"ab"), "np dt": np.datetime64("2020-01-01"),
        "0d": np.array(5), "0d f4": np.array(1.5, "f4"), "0d obj": np.array(None, object), "0d str": np.array("x"),
        "1d": np.arange(3), "1d f4": np.arange(3, dtype="f4"), "1d u1": np.arange(3, dtype="u1"), "1d >f8": np.arange(3, dtype=">f8"),
        "1d f2": np.arange(3, dtype="f2"), "1d c8": np.arange(3, dtype="c8"), "1d bool": np.array([True, False]),
        "1d one": np.array([7]), "2d": np.arange(6.0).reshape(2, 3), "3d": z((2, 2, 2)), "empty": z(0), "empty 2d": z((0, 3)), "zero width": z((3, 0)),
        "F": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "strided": np.arange(6)[::2], "reversed": np.arange(3)[::-1],
        "readonly": np.broadcast_to(np.arange(3.0), (2, 3)), "U": np.array(["a", "bc"]), "S": np.array([b"a", b"bc"]),
        "dt": np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "td": np.array([1, 2], "m8[s]"),
        "struct": np.array([(1, 2.0), (3, 4.0)], [("x", int), ("y", float)]), "rec": np.rec.array([(1, 2.0)], [("x", int), ("y", float)]),
        "masked": np.ma.array([1, 2], mask=[0, 1]), "matrix": np.array([[1, 2]]),
        "obj": np.array([1, "x", None], object), "obj 2d": np.array([[1, "x"], [None, thing]], object), "obj empty": np.array([], object),
        "obj arrays": _objects([z(2), o(3)]), "obj same arrays": _objects([z(2), o(2)]), "obj dicts": np.array([{"x": 1}, {"x": 2}], object),
        "obj dicts 2d": np.array([[{"x": 1}], [{"x": 2}]], object), "obj batches": _objects([Batch(x=1), Batch(x=2)]),
        "obj tensors": _objects([t([1.0]), t([2.0])]), "obj tensors 2": _objects([t(1.0), 2]), "obj lists": _objects([[1], [2, 3]]), "obj none": np.array([None, None]),
        "obj numbers": np.array([1, 2.5], object), "obj dict and 1": _objects([{"x": 1}, 1]),
        "t0": t(1.5), "t0 i": t(2), "t1": t([1.0, 2.0]), "t1 i": t([1, 2, 3]), "t2": torch.arange(6.0).reshape(2, 3), "t bool": t([True, False]),
        "t f2": t([1.0], dtype=torch.float16), "t bf16": t([1.0, 2.0], dtype=torch.bfloat16), "t grad": t([1.0, 2.0], requires_grad=True),
        "t empty": torch.zeros(0, 2), "param": torch.nn.Parameter(torch.ones(2)), "t sparse": torch.eye(2).to_sparse(), "t size": torch.Size([1, 2]),
        "list": [1, 2, 3], "list f": [1.0, 2], "list b": [True, False], "list bi": [True, 2], "list 2d": [[1, 2], [3, 4]], "list empty": [], "list of empty": [[], []],
        "list one": [5], "tuple": (1, 2), "tuple empty": (), "list none": [None, None], "list none 1": [None, 1], "list none f": [1.5, None], "list str": ["a", "bc"], "list str 1": ["a", 1],
        "list bytes": [b"a", b"b"], "list ragged": [[1], [2, 3]], "list ragged 2": [[[1], [2]], [[3], [4, 5]]], "list ragged 3": [1, [2, 3]], "list ragged 4": [[1, 2], 3],
        "arrays": [z(2), o(2)], "arrays dtypes": [z(2, "i8"), o(2, "f4")], "arrays ragged": [z(2), o(3)], "arrays trailing": [z((2, 3)), z((2, 4))],
        "arrays leading": [z((2, 3)), z((3, 3))], "arrays ndim": [z(2), z((2, 2))], "arrays ndim 2": [z((2, 2)), z(2)], "arrays 0d": [np.array(1), np.array(2)], "arrays and 1": [z(2), 1], "arrays and none": [z(2), None],
        "arrays and list": [z(2), [1, 2]], "arrays and list 2": [z(2), [1, 2, 3]], "arrays of str": [np.array(["a"]), np.array(["b"])], "arrays obj": [np.array([None]), np.array([1])],
        "arrays trailing 3": [z((1, 3)), z((1, 4)), z((1, 3))], "arrays empty": [z(0), z(0)], "arrays empty 2": [z(0), z(1)], "arrays tuple": (z((2, 3)), z((2, 4))), "arrays nested": [[z(2), z(3)], [z(2), z(3)]],
        "tensors": [t([1.0]), t([2.0])], "tensors 0d": [t(1.0), t(2.0)], "tensors ragged": [t([1.0]), t([1.0, 2.0])], "tensors tuple": (t([1.0]), t([2.0])), "tensor one": [t([1.0, 2.0])],
        "tensors dtypes": [t([1.0]), t([1])], "tensor and 1": [t(1.0), 2.0], "1 and tensor": [1, t(2)], "tensor and array": [t([1.0, 2.0]), z(2)], "array and tensor": [z(2), t([1.0, 2.0])],
        "tensor and none": [t([1.0]), None], "tensor and str": [t(1.0), "x"], "tensor and list": [t([1.0, 2.0]), [1, 2]], "tensor and dict": [t([1.0]), {}], "tensors nested": [[t(1.0), t(2.0)], [t(3.0), t(4.0)]],
        "tensors nested ragged": [[t([1.0])], [t([1.0, 2.0])]], "tensor 2d and 1d": [torch.ones(2, 2), torch.ones(2)], "tensor and 1 ragged": [t([1.0, 2.0]), 3.0], "tensor set": {t([1.0])}, "tensor deque": collections.deque([t([1.0]), t([2.0])]),
        "tensor dict values": {"a": t([1.0])}.values(), "tensor grads": [t([1.0], requires_grad=True)] * 2, "grad and 1": [t(1.0, requires_grad=True), 2.0],
        "dict": {"x": 1, "y": [1, 2]}, "dict empty": {}, "dict deep": {"x": {"y": {"z": z(3)}}}, "dict int keys": {1: 2}, "dict sub": Dicts(x=[1, 2]), "ordered": collections.OrderedDict(x=1),
        "defaultdict": collections.defaultdict(list, x=[1]), "mappingproxy": types.MappingProxyType({"x": 1}), "counter": collections.Counter("aab"), "chainmap": collections.ChainMap({"x": 1}),
        "batch": Batch(x=[1, 2], y=Batch(z=[3, 4])), "batch empty": Batch(), "batch nested empty": Batch(x=Batch()), "batch scalar": Batch(x=1),
        "dicts": [{"x": 1}, {"x": 2}], "dicts tuple": ({"x": 1}, {"x": 2}), "dicts keys": [{"x": 1}, {"y": 2.5}], "dicts empty": [{}, {}], "dicts and empty": [{"x": 1}, {}], "batches": [Batch(x=1), Batch(x=2)],
        "batches arrays": [Batch(x=z(2)), Batch(x=o(2))], "batches ragged": [Batch(x=z(2)), Batch(x=o(3))], "dict and 1": [{"x": 1}, 1], "dict and none": [{"x": 1}, None], "dicts nested": [{"x": {"y": 1}}, {"x": {"y": 2}}],
        "dicts nested keys": [{"x": {"y": 1}}, {"x": {"z": 2}}], "dicts mixed": [{"x": 1}, {"x": "s"}], "dicts mixed 2": [{"x": 1}, {"x": {"y": 1}}], "dicts tensors": [{"x": t([1.0])}, {"x": t([2.0])}], "dicts lists": [[{"x": 1}], [{"x": 2}]],
        "dicts none": [{"x": None}, {"x": 1}], "dicts str": [{"x": "a"}, {"x": "b"}], "dicts list ragged": [{"x": [1]}, {"x": [1, 2]}], "dict one": [{"x": 1}], "dicts objects": [{"x": thing}, {"x": thing}],
        "set": {1}, "frozenset": frozenset([1]), "set empty": set(), "deque": collections.deque([1, 2]), "array": array.array("d", [1.0, 2.0]), "namedtuple": Point(1, 2.5), "namedtuples": [Point(1, 2), Point(3, 4)],
        "list sub": Ints([1, 2]), "sequence": Row(), "lazy": Lazy(), "lazies": [Lazy(), Lazy()], "graph": Graph(), "graphs": [Graph(), Graph()], "graph and 1": [Graph(), 1], "things": [thing, thing], "thing and 1": [thing, 1], "functions": [len, max],
        "decimals": [decimal.Decimal(1), decimal.Decimal(2)], "fractions": [fractions.Fraction(1, 2)] * 2, "datas": [Data(), Data()], "enums": [Color.RED] * 2, "intenums": [Level.LOW] * 2, "slices": [slice(1), slice(2)], "bigs": [2**70, 1],
        "np strs": [np.str_("a"), np.str_("b")], "np scalars": [np.float32(1), np.float32(2)], "np ints": [np.int8(1), np.int8(2)], "complexes": [1j, 2], "nans": [math.nan, 1], "ranges": [range(2), range(2)], "strs nested": [["a", "b"], ["c", "d"]], "strs ragged": [["a"], ["b", "c"]],
        "str and list": ["a", [1]], "none and list": [None, [1, 2]], "none nested": [[None], [None]], "tuples": [(1, 2), (3, 4)], "tuples mixed": [(1, "a"), (2, "b")], "bools and none": [True, None], "sets": [{1}, {2}], "list of classes": [int, str],
    }  # fmt: skip


def makers(Batch):
    """A function for each of the values that makes it anew."""
    given = next(n for n in ast.walk(ast.parse(inspect.getsource(values))) if isinstance(n, ast.Return)).value
    names = {**globals(), "t": torch.tensor, "z": np.zeros, "o": np.ones, "thing": Thing(), "Batch": Batch}
    for key, value in zip(given.keys, given.values, strict=True):
        code = compile(ast.Expression(value), key.value, "eval")
        yield key.value, lambda code=code: eval(code, names)


def _objects(entries):
    a = np.empty(len(entries), object)
    for i, entry in enumerate(entries):
        a[i] = entry
    return a


LIMIT = 2.0  # seconds; some operations never end in Tianshou


class TooLong(BaseException):
    pass


def _too_long(*_):
    raise TooLong


INDICES = {
    "0": 0, "1": 1, "-1": -1, "9": 9, "slice": slice(0, 2), "all": slice(None), "reverse": slice(None, None, -1), "none slice": slice(2, 2), "list": [0, 1], "list far": [0, 9], "list empty": [],
    "array": np.array([1, 0]), "array 2d": np.array([[0, 1]]), "mask": np.array([True, False]), "mask list": [True, False], "mask long": np.array([True, False, True]), "np int": np.int64(1), "tensor": torch.tensor([0, 1]), "tensor 0d": torch.tensor(1),
    "none": None, "...": ..., "tuple": (0, 0), "tuple 2": (slice(None), 0), "tuple 0": (), "True": True, "1.0": 1.0, "np float": np.float64(0.0), "bytes": b"a", "floats": np.array([0.0]), "object": np.array([0, 1], object),
}  # fmt: skip


class Machine:
    def __init__(self, name):
        self.data = importlib.import_module(f"{name}.data")
        self.batch = importlib.import_module(f"{name}.data.batch")
        self.converter = importlib.import_module(f"{name}.data.utils.converter")
        self.Batch = self.data.Batch

    def plain(self, x, depth=0):
        """Values in Python's own types."""
        if depth > 12:
            return "deep"
        if isinstance(x, self.Batch):
            return "batch", sorted((str(k), self.plain(v, depth + 1)) for k, v in x.__dict__.items())
        if isinstance(x, np.ndarray):
            entries = [self.plain(e, depth + 1) for e in x.ravel().tolist()] if x.dtype.kind != "V" else x.tobytes()
            return "array", str(x.dtype), x.shape, entries
        if isinstance(x, np.generic):
            return "scalar", str(x.dtype), repr(x.item())
        if isinstance(x, torch.Tensor):
            y = x.detach().to_dense() if x.is_sparse else x.detach()
            return "tensor", str(x.dtype), tuple(x.shape), [repr(e) for e in y.reshape(-1).tolist()]
        if isinstance(x, list | tuple | collections.deque):
            return type(x).__name__, [self.plain(e, depth + 1) for e in x]
        if isinstance(x, dict):
            return type(x).__name__, sorted((str(k), self.plain(v, depth + 1)) for k, v in x.items())
        if isinstance(x, bool | int | float | complex | str | bytes | type(None)):
            return type(x).__name__, repr(x)
        return "a", type(x).__name__

    def outcome(self, function):
        np.random.seed(0)
        torch.manual_seed(0)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            return "ok", self.plain(function())
        except TooLong:
            return "error", "endless", ""
        except Exception as error:
            builtin = next(t for t in type(error).__mro__ if t.__module__ == "builtins")
            return "error", builtin.__name__, str(error)[:300]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def operations(self, fresh):
        """Each operation's name and a function that does it; ``fresh`` makes the value anew."""
        B, c = self.Batch, copy.deepcopy

        def changed(batch, change):
            change(batch)
            return batch

        yield "Batch(v)", lambda: B(fresh())
        yield "Batch(v, copy)", lambda: B(fresh(), copy=True)
        yield "Batch(a=v)", lambda: B(a=fresh())
        yield "Batch({a: v})", lambda: B({"a": fresh()})
        yield "Batch(state=v)", lambda: B(state=fresh()).state.__class__.__name__ and None
        yield "setattr", lambda: changed(B(), lambda b: setattr(b, "a", fresh()))
        yield "setitem", lambda: changed(B(), lambda b: b.__setitem__("a", fresh()))
        yield "update", lambda: changed(B(a=1), lambda b: b.update(fresh()))
        yield "update(a=v)", lambda: changed(B(a=1), lambda b: b.update(a=fresh()))
        yield "to_numpy", lambda: self.data.to_numpy(fresh())
        yield "to_torch", lambda: self.data.to_torch(fresh())
        yield "to_torch f4", lambda: self.data.to_torch(fresh(), dtype=torch.float32)
        yield "to_torch_as", lambda: self.data.to_torch_as(fresh(), torch.zeros(1))
        yield "as like", lambda: self.data.to_torch_as(1, fresh())
        for size, stack in itertools.product((0, 3), (True, False)):
            yield f"create_value {size} {stack}", lambda s=size, k=stack: self.batch.create_value(fresh(), s, k)
        b = lambda: B(a=fresh())
        n = lambda: B(n=B(a=fresh()), i=np.arange(3))
        yield "len", lambda: len(b())
        yield "shape", lambda: b().shape
        yield "len nested", lambda: len(n())
        yield "shape nested", lambda: n().shape
        yield "is_empty", lambda: (b().is_empty(), b().is_empty(recurse=True))
        yield "iter", lambda: list(itertools.islice(b(), 5))
        yield "iter nested", lambda: list(itertools.islice(n(), 5))
        yield "split", lambda: list(b().split(2, shuffle=False))
        yield "split merge", lambda: list(b().split(2, shuffle=False, merge_last=True))
        yield "split shuffled", lambda: list(b().split(1))
        yield "+1", lambda: b() + 1
        yield "+b", lambda: b() + b()
        yield "+v", lambda: B(a=np.ones(3)) + fresh()
        yield "+Batch(v)", lambda: B(a=np.ones(3)) + b()
        yield "*2", lambda: b() * 2
        yield "*v", lambda: B(a=np.ones(3)) * fresh()
        yield "/2", lambda: b() / 2
        yield "/v", lambda: B(a=np.ones(3)) / fresh()
        yield "+=1", lambda: changed(b(), lambda x: x.__iadd__(1))
        yield "mean", lambda: np.mean(b())
        yield "sum", lambda: np.sum(b())
        yield "to_numpy()", lambda: changed(b(), lambda x: x.to_numpy())
        yield "to_torch()", lambda: changed(b(), lambda x: x.to_torch())
        yield "to_torch(f8)", lambda: changed(b(), lambda x: x.to_torch(dtype=torch.float64))
        yield "repr", lambda: repr(b())
        yield "deepcopy", lambda: c(b())
        yield "copy", lambda: copy.copy(b())
        yield "Batch(b)", lambda: B(b())
        yield "Batch(b, copy)", lambda: B(b(), copy=True)
        yield "Batch([b, b])", lambda: B([b(), b()])
        yield "pickle", lambda: pickle.loads(pickle.dumps(b()))
        yield "pickle row", lambda: pickle.loads(pickle.dumps(b()[0]))
        yield "empty_", lambda: changed(b(), lambda x: x.empty_())
        yield "empty_ 0", lambda: changed(b(), lambda x: x.empty_(0))
        yield "empty", lambda: B.empty(b())
        yield "empty row", lambda: B.empty(b()[0])
        yield "stack 1", lambda: B.stack([b()])
        yield "stack 2", lambda: B.stack([b(), b()])
        yield "stack -1", lambda: B.stack([b(), b()], axis=-1)
        yield "stack 1 axis", lambda: B.stack([b(), b()], axis=1)
        yield "stack dicts", lambda: B.stack([{"a": fresh()}, {"a": fresh()}])
        yield "stack partial", lambda: B.stack([b(), B(z=1)])
        yield "stack partial 2", lambda: B.stack([B(z=1), b()])
        yield "stack with array", lambda: B.stack([b(), B(a=np.zeros(2))])
        yield "stack with 1", lambda: B.stack([b(), B(a=1)])
        yield "stack with tensor", lambda: B.stack([b(), B(a=torch.zeros(2))])
        yield "stack with empty", lambda: B.stack([b(), B(a=B())])
        yield "stack v", lambda: B.stack(fresh())
        yield "stack [v]", lambda: B.stack([fresh(), fresh()])
        yield "stack_", lambda: changed(b(), lambda x: x.stack_([b()]))
        yield "cat 1", lambda: B.cat([b()])
        yield "cat 2", lambda: B.cat([b(), b()])
        yield "cat partial", lambda: B.cat([b(), B(z=np.arange(2))])
        yield "cat partial 2", lambda: B.cat([B(z=np.arange(2)), b()])
        yield "cat nested", lambda: B.cat([n(), n()])
        yield "cat with array", lambda: B.cat([b(), B(a=np.zeros(2))])
        yield "cat with array 2d", lambda: B.cat([b(), B(a=np.zeros((2, 3)))])
        yield "cat with tensor", lambda: B.cat([b(), B(a=torch.zeros(2))])
        yield "cat with empty", lambda: B.cat([b(), B(a=B())])
        yield "cat v", lambda: B.cat(fresh())
        yield "cat [v]", lambda: B.cat([fresh(), fresh()])
        yield "cat_", lambda: changed(b(), lambda x: x.cat_(b()))
        yield "cat_ v", lambda: changed(B(), lambda x: x.cat_(fresh()))
        for key, index in INDICES.items():
            yield f"[{key}]", lambda i=index: b()[i]
            yield f"[{key}] nested", lambda i=index: n()[i]
        for key in ("0", "slice", "list", "mask", "all", "array", "none slice", "-1"):
            i = INDICES[key]
            yield f"[{key}] = 1", lambda i=i: changed(b(), lambda x: x.__setitem__(i, {"a": 1}))
            yield f"[{key}] = b", lambda i=i: changed(b(), lambda x: x.__setitem__(i, b()[i]))
            yield f"[{key}] = {{}}", lambda i=i: changed(b(), lambda x: x.__setitem__(i, {}))
            yield f"[{key}] = v", lambda i=i: changed(b(), lambda x: x.__setitem__(i, fresh()))
            yield f"ints[{key}] = v", lambda i=i: changed(B(a=np.arange(3)), lambda x: x.__setitem__(i, {"a": fresh()}))
            yield (
                f"f4 2d[{key}] = v",
                lambda i=i: changed(B(a=np.ones((2, 3), "f4")), lambda x: x.__setitem__(i, {"a": fresh()})),
            )
            yield (
                f"objects[{key}] = v",
                lambda i=i: changed(B(a=_objects([1, "a", None])), lambda x: x.__setitem__(i, {"a": fresh()})),
            )
            yield (
                f"tensor[{key}] = v",
                lambda i=i: changed(B(a=torch.zeros(3)), lambda x: x.__setitem__(i, {"a": fresh()})),
            )
            yield (
                f"batch[{key}] = v",
                lambda i=i: changed(B(a=B(x=np.zeros(3))), lambda x: x.__setitem__(i, {"a": fresh()})),
            )
        yield "[v]", lambda: B(a=np.arange(6).reshape(3, 2), n=B(x=np.arange(3)))[fresh()]
        yield "[v] = 0", lambda: changed(B(a=np.arange(1, 7).reshape(3, 2)), lambda x: x.__setitem__(fresh(), {"a": 0}))
        yield "in", lambda: fresh() in B(a=1)
        yield "get", lambda: b().get("a")
        yield "pop", lambda: b().pop("a")
        yield "keys", lambda: sorted(map(str, b().keys()))
        yield "alloc", lambda: changed(B(), lambda x: self.batch.alloc_by_keys_diff(x, b(), 2))
        yield "alloc cat", lambda: changed(B(), lambda x: self.batch.alloc_by_keys_diff(x, b(), 2, False))
        yield "hdf5", lambda: self.hdf5({"a": fresh()})
        yield "hdf5 batch", lambda: self.hdf5({"b": b()})
        yield "hdf5 gzip", lambda: self.hdf5({"a": fresh()}, "gzip")

    def hdf5(self, data, compression=None):
        with h5py.File(io.BytesIO(), "w") as file:
            self.converter.to_hdf5(data, file, compression)
            return self.converter.from_hdf5(file)


def outcomes(name, first=0, count=None):
    """What each operation gave, for ``count`` kinds of values from the ``first`` on."""
    machine = Machine(name)
    signal.signal(signal.SIGALRM, _too_long)
    result = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if int(np.__version__.split(".")[0]) >= 2:
            np.set_printoptions(legacy="1.25")  # NumPy 2 shows scalars with their type
        try:
            for kind, fresh in itertools.islice(makers(machine.Batch), first, count and first + count):
                for operation, function in machine.operations(fresh):
                    result[kind, operation] = machine.outcome(function)
        finally:
            if int(np.__version__.split(".")[0]) >= 2:
                np.set_printoptions(legacy=False)
    return result


if __name__ == "__main__":
    module, *numbers = sys.argv[1:]
    sys.stdout.buffer.write(pickle.dumps(outcomes(module, *map(int, numbers))))
