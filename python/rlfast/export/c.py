"""A C header: the weights of a program and one function, C99 with nothing but ``math.h``."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rlfast.export.program import Array, Choices, Program

FUNCTIONS = {
    "relu": "x < 0.0f ? 0.0f : x",
    "leaky_relu": "x < 0.0f ? x * {0} : x",
    "tanh": "tanhf(x)",
    "sigmoid": "1.0f / (1.0f + expf(-x))",
    "silu": "x / (1.0f + expf(-x))",
    "elu": "x < 0.0f ? {0} * expm1f(x) : x",
    "exp": "expf(x)",
    "clamp": "x < {0} ? {0} : x > {1} ? {1} : x",
    "scale": "x * {0}",
    "shift": "x + {0}",
    "gelu": "0.5f * x * erfcf(-x * 0.70710678f)",
    "gelu_tanh": "0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)))",
    "softplus": "x * {0} > {1} ? x : log1pf(expf(x * {0})) / {0}",
    "abs": "fabsf(x)",
    "square": "x * x",
    "sqrt": "sqrtf(x)",
    "log": "logf(x)",
    "reciprocal": "1.0f / x",
}
"""Functions of one number x, and of the node's numbers, in C."""
PAIRS = {
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "maximum": "x > y || x != x ? x : y",
    "minimum": "x < y || x != x ? x : y",
}
"""Functions of two numbers in C."""


def literal(number: float, kind: str = "f") -> str:
    """Return a number in C.

    :param number: the number.
    :param kind: ``"f"`` (default) for a float, ``""`` for a double.

    >>> literal(0.1), literal(-float("inf")), literal(0.1, "")
    ('1.00000001e-01f', '-INFINITY', '1.00000000000000006e-01')
    """
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    if math.isnan(number):
        raise ValueError("a number of the policy is NaN, and there is none in C")
    return f"{np.float32(number):.8e}f" if kind == "f" else f"{number:.17e}"


class _Writer:
    """The lines of the header.

    :param program: the program.
    :param name: what all its names begin with.
    """

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.widths = program.widths()
        self.data: list[str] = []
        self.code: list[str] = []
        self._names: dict[tuple[int, tuple[int, ...], bool], str] = {}
        self._kept: list[Array] = []

    def array(self, numbers: Array, *, transposed: bool = False) -> str:
        """Return the name of a constant array."""
        numbers = np.asarray(numbers)
        key = (numbers.__array_interface__["data"][0], numbers.shape, transposed)
        if key not in self._names:
            self._kept.append(numbers)  # so that no other array has its address
            self._names[key] = f"{self.name}_{len(self._names)}"
            flat = (numbers.T if transposed else numbers).ravel()
            kind = {"f4": "float", "f8": "double"}.get(numbers.dtype.str[1:], "int")
            texts = [str(x) if kind == "int" else literal(float(x), kind[0].replace("d", "")) for x in flat]
            lines = (", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
            body = ",\n    ".join(lines)
            self.data.append(f"static const {kind} {self._names[key]}[{flat.size}] = {{\n    {body}\n}};")
        return self._names[key]

    def each(self, slot: int, text: str, count: int | None = None) -> None:
        """Add a loop over the numbers ``i`` of a slot."""
        self.code.append(f"for (i = 0; i < {self.widths[slot] if count is None else count}; i++) {text}")

    def node(self, slot: int, name: str, *parts: Any) -> None:
        """Add the code of a node."""
        self.code.append(f"/* {slot}: {name} */")
        if name in FUNCTIONS:
            below, *numbers = parts
            value = FUNCTIONS[name].format(*map(literal, numbers))
            self.each(slot, f"{{ const float x = s{below}[i]; s{slot}[i] = {value}; }}")
        elif name in PAIRS:
            one, other = parts
            self.each(slot, f"{{ const float x = s{one}[i], y = s{other}[i]; s{slot}[i] = {PAIRS[name]}; }}")
        elif name in _NODES:
            _NODES[name](self, slot, *parts)
        else:
            raise ValueError(
                f"the network has a node {name!r}, which is not written in C yet: export to rlfast or onnx"
            )


def _linear(to: _Writer, slot: int, below: int, weight: Array, bias: Array | None, relu: object) -> None:
    _columns(to, slot, below, to.array(weight, transposed=True), weight.shape[1], bias, relu)


def _linear_turned(to: _Writer, slot: int, below: int, weight: Array, bias: Array | None, relu: object) -> None:
    _columns(to, slot, below, to.array(weight), weight.shape[0], bias, relu)


def _columns(to: _Writer, slot: int, below: int, columns: str, inputs: int, bias: Array | None, relu: object) -> None:
    outputs = to.widths[slot]
    skip = "if (x == 0.0f) continue;\n        " if outputs >= WIDE else ""
    to.each(slot, f"s{slot}[i] = 0.0f;")
    to.code.append(
        f"for (k = 0; k < {inputs}; k++) {{ const float x = s{below}[k]; const float *w = {columns} + k * {outputs};\n"
        f"        {skip}for (i = 0; i < {outputs}; i++) RLFAST_ADD(s{slot}[i], x, w[i]); }}"
    )
    if bias is not None:
        to.each(slot, f"s{slot}[i] += {to.array(bias)}[i];")
    if relu:
        to.each(slot, f"if (s{slot}[i] < 0.0f) s{slot}[i] = 0.0f;")


_ADD = """
#ifndef RLFAST_ADD
#ifdef FP_FAST_FMAF
#define RLFAST_ADD(sum, a, b) sum = fmaf(a, b, sum)
#else
#define RLFAST_ADD(sum, a, b) sum += (a) * (b)
#endif
#endif
"""
"""Adds a product. Compilers that follow the standard do not fuse it themselves."""

WIDE = 128
"""The outputs of a layer from which on zeros of its input, of which ReLU gives many, are worth a look."""


def _results(window: Array) -> tuple[int, int]:
    """Return the height and width of the results of a window."""
    _, h, w, kh, kw, sh, sw, ph, pw, dh, dw = map(int, window)
    return (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1


def _windows(window: Array) -> tuple[str, int, int]:
    """Return loops over the places of a window and of its results in C, and the height and width of the results.

    ``y`` is a row of results, ``iy`` the row of an image that they read at the row ``a`` of the window, and ``first``
    to ``last`` are the results whose number at the column ``b`` of the window is within the image, without ``last``.
    """
    _, h, w, kh, kw, sh, sw, ph, pw, dh, dw = map(int, window)
    out_h, out_w = _results(window)
    loops = (
        f"for (a = 0; a < {kh}; a++) {{ const int iy = y * {sh} + a * {dh} - {ph}; if (iy < 0 || iy >= {h}) continue;\n"
        f"        for (b = 0; b < {kw}; b++) {{ const int off = b * {dw} - {pw};\n"
        f"        const int first = off < 0 ? ({sw} - 1 - off) / {sw} : 0;\n"
        f"        const int end = {w} - 1 - off < 0 ? 0 : ({w} - 1 - off) / {sw} + 1;\n"
        f"        const int last = end < {out_w} ? end : {out_w};"
    )
    return loops, out_h, out_w


def _conv(
    to: _Writer, slot: int, below: int, weight: Array, bias: Array | None, window: Array, groups: float, relu: object
) -> None:
    """Add a convolution: several filters at several places together, whose sums stay in registers."""
    out_h, out_w = _results(window)
    channels, h, w, kh, kw, sh, sw, ph, pw, dh, dw = map(int, window)
    own, each, places = channels // int(groups), weight.shape[0] // int(groups), out_h * out_w
    lanes, across = min(each, LANES), min(places, ACROSS)
    blocks = -(-each // lanes)
    packed = np.zeros((int(groups), blocks * lanes, own * kh * kw), np.float32)
    packed[:, :each] = weight.reshape(int(groups), each, -1)
    packed = packed.reshape(-1, lanes, own, kh, kw).transpose(0, 2, 3, 4, 1)
    start = (
        "0.0f" if bias is None else f"{to.array(bias)}[g * {each} + (f * {lanes} + i < {each} ? f * {lanes} + i : 0)]"
    )
    sums, image = range(across), f"s{below}"
    to.code.append("{ int g, f, p, q, c, a, b;")
    if ph or pw:  # a copy with zeros around it
        image, tall, wide = "image", h + 2 * ph, w + 2 * pw
        to.code.append(
            f"float image[{channels * tall * wide}]; for (i = 0; i < {channels * tall * wide}; i++) image[i] = 0.0f;\n"
            f"        for (c = 0; c < {channels}; c++) for (a = 0; a < {h}; a++) for (b = 0; b < {w}; b++)\n"
            f"        image[(c * {tall} + a + {ph}) * {wide} + b + {pw}] = s{below}[(c * {h} + a) * {w} + b];"
        )
        h, w = tall, wide
    to.code.append(  # the last places may be computed twice
        f"for (g = 0; g < {int(groups)}; g++) for (f = 0; f < {blocks}; f++)\n"
        f"        for (q = 0; q < {places}; q += {across}) {{ p = q < {places - across} ? q : {places - across};\n"
        f"        float {', '.join(f't{k}[{lanes}]' for k in sums)};\n"
        f"        const float *w = {to.array(np.ascontiguousarray(packed))} + (g * {blocks} + f) * {packed[0].size};\n"
        f"        const float *in = {image} + g * {own * h * w};\n"
        + "".join(
            f"        const int o{k} = (p + {k}) / {out_w} * {sh * w} + (p + {k}) % {out_w} * {sw};\n" for k in sums
        )
        + f"        for (i = 0; i < {lanes}; i++) {' = '.join(f't{k}[i]' for k in sums)} = {start};\n"
        f"        for (c = 0; c < {own}; c++, in += {h * w}) for (a = 0; a < {kh}; a++) for (b = 0; b < {kw}; b++) {{\n"
        f"        const float *at = in + a * {dh * w} + b * {dw};\n"
        + "".join(f"        for (i = 0; i < {lanes}; i++) RLFAST_ADD(t{k}[i], w[i], at[o{k}]);\n" for k in sums)
        + f"        w += {lanes}; }}\n"
        f"        for (i = 0; i < {lanes} && f * {lanes} + i < {each}; i++) {{\n"
        f"        float *out = s{slot} + (g * {each} + f * {lanes} + i) * {places} + p;"
        + "".join(f" out[{k}] = t{k}[i];" for k in sums)
        + " } } }"
    )
    if relu:
        to.each(slot, f"if (s{slot}[i] < 0.0f) s{slot}[i] = 0.0f;")


LANES, ACROSS = 32, 4
"""The filters and the places of an image whose sums are computed together."""


def _pool(start: str, step: str, end: str) -> Callable[..., None]:
    def add(to: _Writer, slot: int, below: int, window: Array) -> None:
        loops, out_h, out_w = _windows(window)
        channels, h, w, kh, kw, _, sw = map(int, window[:7])
        to.code.append(
            f"{{ int y, x, c, a, b; for (c = 0; c < {channels}; c++) for (y = 0; y < {out_h}; y++) {{\n"
            f"        float *out = s{slot} + (c * {out_h} + y) * {out_w};\n"
            f"        for (x = 0; x < {out_w}; x++) out[x] = {start};\n"
            f"        {loops}\n"
            f"        const float *in = s{below} + (c * {h} + iy) * {w} + off;\n"
            f"        for (x = first; x < last; x++) {{ const float v = in[x * {sw}]; {step}; }} }} }} }} }}"
        )
        if end:
            to.each(slot, f"s{slot}[i] {end.format(size=kh * kw)};")

    return add


def _reduced(start: str, step: str, end: str = "total") -> Callable[..., None]:
    def add(to: _Writer, slot: int, below: int, size: int) -> None:
        to.each(
            slot,
            f"{{ const float *x = s{below} + i * {size}; double total = {start};\n"
            f"        for (k = 0; k < {size}; k++) {step};\n"
            f"        s{slot}[i] = (float)({end.format(size=size)}); }}",
        )

    return add


def _softmax(to: _Writer, slot: int, below: int, size: int) -> None:
    to.each(
        slot,
        f"{{ const float *x = s{below} + i * {size}; float *y = s{slot} + i * {size}; float most = x[0]; "
        f"double total = 0.0;\n"
        f"        for (k = 1; k < {size}; k++) if (x[k] > most) most = x[k];\n"
        f"        for (k = 0; k < {size}; k++) {{ y[k] = (float)exp((double)x[k] - most); total += y[k]; }}\n"
        f"        for (k = 0; k < {size}; k++) y[k] = (float)(y[k] / total); }}",
        to.widths[slot] // size,
    )


def _expectation(to: _Writer, slot: int, below: int, values: Array) -> None:
    size = values.size
    to.each(
        slot,
        f"{{ const float *x = s{below} + i * {size}; double total = 0.0;\n"
        f"        for (k = 0; k < {size}; k++) total += (double)x[k] * {to.array(values)}[k];\n        "
        f"s{slot}[i] = (float)total; }}",
    )


def _normalize(
    to: _Writer, slot: int, below: int, size: int, epsilon: float, centered: object, *more: Array | None
) -> None:
    weight, bias = (None if part is None else to.array(part) for part in more)
    scale = "" if weight is None else f" * {weight}[k]"
    shift = "" if bias is None else f" + {bias}[k]"
    mean = f"for (k = 0; k < {size}; k++) mean += x[k];\n        mean /= {size};" if centered else ""
    to.each(
        slot,
        f"{{ const float *x = s{below} + i * {size}; float *y = s{slot} + i * {size}; double mean = 0.0, total = 0.0;\n"
        f"        {mean}\n"
        f"        for (k = 0; k < {size}; k++) total += (x[k] - mean) * (x[k] - mean);\n"
        f"        total = 1.0 / sqrt(total / {size} + {literal(float(np.float32(epsilon)), '')});\n"
        f"        for (k = 0; k < {size}; k++) y[k] = (float)((x[k] - mean) * total){scale}{shift}; }}",
        to.widths[slot] // size,
    )


def _one_hot(to: _Writer, slot: int, below: int, size: int) -> None:
    to.each(slot, f"s{slot}[i] = s{below}[i / {size}] == (float)(i % {size}) ? 1.0f : 0.0f;")


def _pick(to: _Writer, slot: int, below: int, places: Array) -> None:
    to.each(slot, f"s{slot}[i] = s{below}[{to.array(places)}[i]];")


def _join(to: _Writer, slot: int, slots: Array) -> None:
    start = 0
    for below in map(int, slots):
        to.each(slot, f"s{slot}[{start} + i] = s{below}[i];", to.widths[below])
        start += to.widths[below]


def _constant(to: _Writer, slot: int, values: Array) -> None:
    to.each(slot, f"s{slot}[i] = {to.array(values)}[i];")


_NODES: dict[str, Callable[..., None]] = {
    "linear": _linear,
    "linear_turned": _linear_turned,
    "conv": _conv,
    "max_pool": _pool("-INFINITY", "if (v > out[x] || v != v) out[x] = v", ""),
    "mean_pool": _pool("0.0f", "out[x] += v", "/= {size}.0f"),
    "sum": _reduced("0.0", "total += x[k]"),
    "mean": _reduced("0.0", "total += x[k]", "total / {size}"),
    "max": _reduced("x[0]", "if (x[k] > total || x[k] != x[k]) total = x[k]"),
    "min": _reduced("x[0]", "if (x[k] < total || x[k] != x[k]) total = x[k]"),
    "softmax": _softmax,
    "expectation": _expectation,
    "normalize": _normalize,
    "one_hot": _one_hot,
    "pick": _pick,
    "join": _join,
    "constant": _constant,
}


def _prepared(to: _Writer) -> None:
    """Add the code that prepares the observation."""
    program = to.program
    place = "i" if program.places is None else f"{to.array(np.array(program.places, np.int64))}[i]"
    steps = []
    for scale in program.scales:
        steps.append(f"x = (x - {to.array(scale.mean)}[i]) / {to.array(scale.deviation)}[i];")
        if scale.limit is not None:
            limit = literal(scale.limit, "")
            steps.append(f"x = x > {limit} ? {limit} : x < -{limit} ? -{limit} : x;")
    to.each(0, f"{{ double x = obs[{place}]; {' '.join(steps)} s0[i] = (float)x; }}", program.seen)
    if program.state is not None:
        to.each(0, f"s0[{program.seen} + i] = state->numbers[i];", program.state.size)


def _chosen(to: _Writer, action: Choices) -> None:
    """Add the code that chooses discrete actions."""
    start = 0
    for group, (size, first) in enumerate(zip(action.sizes, action.starts, strict=True)):
        numbers = f"s{action.slot} + {start}"
        to.code.append(f"{{ const float *x = {numbers}; int best = 0;")
        if action.logits:
            to.code.append(
                f"if (draws) {{ const float *clock = draws + {start}; double score = -1.0, most = x[0];\n"
                f"        for (i = 1; i < {size}; i++) if (x[i] > most) most = x[i];\n"
                f"        for (i = 0; i < {size}; i++) {{ const double y = exp(x[i] - most) / clock[i];\n"
                f"            if (y > score) {{ score = y; best = i; }} }}\n"
                f"    }} else"
            )
        to.code.append(f"for (i = 1; i < {size}; i++) if (x[i] > x[best]) best = i;")
        to.code.append(f"action[{group}] = best + ({first}); }}")
        start += size


def _controlled(to: _Writer) -> None:
    """Add the code that computes continuous actions."""
    action: Any = to.program.action
    real = "float" if action.dtype == "float32" else "double"
    steps = [f"float x = s{action.mean}[i]; {real} y;"]
    if action.deviation is not None:
        steps.append(f"if (draws) x += s{action.deviation}[i] * draws[i];")
    if action.squashed:
        steps.append("x = tanhf(x);")
    steps += {"clip": ["x = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;"], "tanh": ["x = tanhf(x);"]}.get(action.bound, [])
    steps.append("y = x;")
    if action.range is not None:
        low, high = (to.array(bound.astype(np.float32) if real == "float" else bound) for bound in action.range)
        if action.stretched:
            half = "0.5f" if real == "float" else "0.5"
            steps.append(f"y = {low}[i] + ({high}[i] - {low}[i]) * ((y + 1) * {half});")
        steps.append(f"y = y < {low}[i] ? {low}[i] : y > {high}[i] ? {high}[i] : y;")
    text = "\n        ".join(steps)
    to.each(action.mean, f"{{\n        {text}\n        action[i] = y;\n    }}")


def _identifier(name: str) -> str:
    """Return a name of C that is like another one.

    >>> _identifier("hopper-v5"), _identifier("2x")
    ('hopper_v5', 'policy_2x')
    """
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) else f"policy_{name}"


def _order(program: Program) -> str:
    """Return the order of the arrays of an observation, for a comment; nothing if there is one."""
    parts = [f"{'.'.join(part.keys)} {[*part.shape]}" for part in program.form.parts if part.keys]
    return re.sub(r"[*\\]|\s+", " ", f": {', '.join(parts)}") if parts else ""  # which ends no comment


def _state(name: str, size: int) -> list[str]:
    """Return the type of the hidden state, and the function that begins an episode."""
    return [
        f"typedef struct {{ float numbers[{size}]; }} {name}_state;\n",
        f"static inline void {name}_reset({name}_state *state)\n{{",
        f"    int i;\n    for (i = 0; i < {size}; i++) state->numbers[i] = 0.0f;\n}}\n",
    ]


def _text(lines: Sequence[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def written(program: Program, name: str = "policy") -> bytes:
    """Return the header of a program.

    :param program: the program.
    :param name: what its names begin with. Default: ``"policy"``.
    :raises ValueError: if the program has a node that is not written in C yet, or a weight that is NaN.
    """
    name = _identifier(name)
    to, action = _Writer(program, name), program.action
    _prepared(to)
    for slot, node in enumerate(program.nodes, 1):
        to.node(slot, *node)
    if program.state is not None:
        to.each(program.state.slot, f"state->numbers[i] = s{program.state.slot}[i];")
    count = len(action.sizes) if isinstance(action, Choices) else to.widths[action.mean]
    if isinstance(action, Choices):
        kind = "int"
        _chosen(to, action)
    else:
        kind = "float" if action.dtype == "float32" else "double"
        _controlled(to)
    given = "double" if program.scales else "float"
    slots = [f"float s{slot}[{width}];" for slot, width in enumerate(to.widths)]
    about = ", ".join(str(program.about[key]) for key in ("policy", "env") if key in program.about)
    about = f"{about}: written by rlfast {program.about.get('rlfast', '')}".replace("*", "")  # ends no comment
    how = "exponential" if isinstance(action, Choices) else "standard normal"
    arguments = [(f"const {given} *obs", f"{name}_OBSERVATION numbers, as the environment gives them{_order(program)}")]
    if program.state is not None:
        why = f"the hidden state; call {name}_reset where an episode begins"
        arguments.append((f"{name}_state *state", why))
    if program.draws:
        why = f"{name}_DRAWS {how} random numbers for a drawn action, or NULL for the best one"
        arguments.append(("const float *draws", why))
    arguments.append((f"{kind} *action", f"{name}_ACTION numbers, as the environment takes them"))
    guard = f"{name.upper()}_{zlib.crc32(repr([to.data, to.code]).encode()):08X}_H"  # another policy of its name fails
    lines = [
        f"/* {about}. C99, needs libm.\n",
        f"   {name}_act computes the action for one observation; it allocates nothing and keeps nothing.",
        *(f"   {argument.split('*')[1]}: {why}" for argument, why in arguments),
        "*/",
        f"#ifndef {guard}\n#define {guard}\n#include <math.h>\n{_ADD}",
        f"enum {{ {name}_OBSERVATION = {program.size}, {name}_ACTION = {count}, {name}_DRAWS = {program.draws} }};\n",
        *(_state(name, program.state.size) if program.state else []),
        *to.data,
        f"\nstatic inline void {name}_act({', '.join(argument for argument, _ in arguments)})\n{{",
        *_text([*slots, "int i, k;", "(void)k;", *to.code]),
        "}\n\n#endif\n",
    ]
    return "\n".join(lines).encode()
