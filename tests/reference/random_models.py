#!/usr/bin/env python3
"""random_models.py - random ONNX models through `ge compile` and `ge run`, beside onnxruntime without optimisation.

    random_models.py GE [--seeds A:B | --seconds N] [--what operators,control,forms,contrib,open,large] [--keep FOLDER]

operators  4 to 22 nodes: element-wise, convolutions, products, normalisations, shapes, joins and splits, reductions
control    If and Loop nested three deep over three carried values; which branch and how many turns is known only at run
forms      If, Loop and Scan over values of five types and several shapes: carried values that change places, inputs given through,
           constants and captured values as outputs, loops of no turn, loops that stop early, outputs that a loop or Scan joins
contrib    one operator of the domain com.microsoft each, all of them in turn (contrib_models.py)
open       sizes left open: one OM runs several; shapes that are computed, sizes that hang on values (NonZero, Slice, Range, Tile, TopK),
           branches and turns that change shapes, a number of slices and of sequence elements that the run tells
large      one operator, or one whole attention, of a size at which work is cut into blocks and units (large_models.py)
A model that onnxruntime itself refuses for its values (a reshape to [0, -1]) is none, and is counted; of a hundred, five at most may be.
Each model runs on the streams of its engines and on three, in a random schedule with `check_races`. Exit 1 where a number, or a refusal,
is wrong; the model and its values then lie in FOLDER (the system's temporary folder).
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as pybind
from onnx import TensorProto, helper, numpy_helper

import contrib_models
import large_models

MODES = [[], ["--set", "ge.x.stream_mode=parallel:3", "--set", "ge.x.memory_effort=fast"]]
# Each operator of known shape in a model of open sizes becomes a model of its own, in bodies too.
SEALED = ["--set", "ge.exec.static_model_ops_lower_limit=1"]


class Graph:
    """Nodes, initializers, and the shapes of the nodes' results."""

    def __init__(self, prefix):
        self.prefix, self.count, self.nodes, self.constants, self.values = prefix, 0, [], [], []

    def name(self):
        self.count += 1
        return f"{self.prefix}_{self.count}"

    def const(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), self.name()))
        return self.constants[-1].name

    def op(self, kind, inputs, shape=None, count=1, **attrs):
        outs = [self.name() for _ in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outs, **attrs))
        if shape is not None:
            self.values.append((outs[0], tuple(shape)))
        return outs[0] if count == 1 else outs


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(graph, inputs, outputs):
    body = helper.make_graph(graph.nodes, "random", inputs, outputs, graph.constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


# Operators -------------------------------------------------------------------------------------------------------------------------


def numbers(r, *shape):
    return (np.random.RandomState(r.randrange(1 << 30)).randn(*shape) * 0.5).astype(np.float32)


def unary(g, r, n, s):
    g.op(r.choice(["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "HardSwish", "LeakyRelu", "Elu", "Softplus"]), [n], s)


def binary(g, r, n, s):
    other = r.choice([v for v in g.values if v[1] == s])[0]
    g.op(r.choice(["Add", "Mul", "Sub", "Max"]), [n, other], s)


def broadcast(g, r, n, s):
    pair = [n, g.const(numbers(r, s[-1]))] if s else [n, n]
    g.op(r.choice(["Add", "Mul", "Sub"]), pair if r.random() < 0.7 else pair[::-1], s)


def convolution(g, r, n, s):
    if len(s) != 4 or s[1] >= 64 or min(s[2:]) < 2:
        return
    group = r.choice([1, 1, s[1]])
    out, size, stride = (r.choice([4, 8]) if group == 1 else s[1]), r.choice([1, 3]), r.choice([1, 1, 2])
    pad = size // 2
    inputs = [n, g.const(numbers(r, out, s[1] // group, size, size))] + ([g.const(numbers(r, out))] if r.random() < 0.6 else [])
    sides = [(d + 2 * pad - size) // stride + 1 for d in s[2:]]
    y = g.op("Conv", inputs, (s[0], out, *sides), strides=[stride] * 2, pads=[pad] * 4, group=group)
    if r.random() < 0.3:
        g.op("Relu", [y], (s[0], out, *sides))


def batch_norm(g, r, n, s):
    if len(s) == 4:
        c = s[1]
        rest = [np.abs(numbers(r, c)) + np.float32(0.1), numbers(r, c), numbers(r, c), np.abs(numbers(r, c)) + np.float32(0.2)]
        g.op("BatchNormalization", [n] + [g.const(x) for x in rest], s)


def product(g, r, n, s):
    if len(s) >= 2:
        m = r.choice([8, 16])
        y = g.op("MatMul", [n, g.const(numbers(r, s[-1], m))], s[:-1] + (m,))
        if r.random() < 0.5:
            g.op("Add", [y, g.const(numbers(r, m))], s[:-1] + (m,))


def transpose(g, r, n, s):
    perm = list(range(len(s)))
    r.shuffle(perm)
    g.op("Transpose", [n], [s[p] for p in perm], perm=perm)


def concat(g, r, n, s):
    if not s:
        return
    axis = r.randrange(len(s))
    fits = [v for v in g.values if len(v[1]) == len(s) and all(a == b for k, (a, b) in enumerate(zip(v[1], s)) if k != axis)]
    more = [r.choice(fits) for _ in range(r.randint(1, 3))]
    if s[axis] * 4 <= 128:
        size = s[axis] + sum(v[1][axis] for v in more)
        g.op("Concat", [n] + [v[0] for v in more], s[:axis] + (size,) + s[axis + 1:], axis=axis)


def split(g, r, n, s):
    axes = [k for k, d in enumerate(s) if d >= 2 and d % 2 == 0]
    if axes:
        axis = r.choice(axes)
        half = s[:axis] + (s[axis] // 2,) + s[axis + 1:]
        g.values += [(o, half) for o in g.op("Split", [n], count=2, axis=axis, num_outputs=2)]


def part(g, r, n, s):
    if s:
        axis = r.randrange(len(s))
        begin = r.randrange(s[axis])
        end = r.randint(begin + 1, s[axis])
        g.op("Slice", [n] + [g.const(np.int64([k])) for k in (begin, end, axis)], s[:axis] + (end - begin,) + s[axis + 1:])


def reshape(g, r, n, s):
    count = int(np.prod(s))
    first = r.choice([k for k in (1, 2, 4, 8) if count % k == 0])
    g.op("Reshape", [n, g.const(np.int64([first, count // first]))], (first, count // first))


def softmax(g, r, n, s):
    if s:
        g.op("Softmax", [n], s, axis=r.choice([-1, 0]))


def layer_norm(g, r, n, s):
    if s:
        g.op("LayerNormalization", [n, g.const(numbers(r, s[-1])), g.const(numbers(r, s[-1]))], s, axis=-1)


def reduction(g, r, n, s):
    if len(s) > 1:
        axis, keep = r.randrange(len(s)), r.randint(0, 1)
        shape = s[:axis] + ((1,) if keep else ()) + s[axis + 1:]
        g.op(r.choice(["ReduceMean", "ReduceSum", "ReduceMax"]), [n, g.const(np.int64([axis]))], shape, keepdims=keep)


def pool(g, r, n, s):
    if len(s) == 4 and min(s[2:]) >= 2:
        g.op(r.choice(["MaxPool", "AveragePool"]), [n], (*s[:2], s[2] // 2, s[3] // 2), kernel_shape=[2, 2], strides=[2, 2])


def pad(g, r, n, s):
    edges = [r.randint(0, 1) for _ in range(2 * len(s))]
    shape = [d + edges[k] + edges[k + len(s)] for k, d in enumerate(s)]
    if s and np.prod(shape) <= 20000:
        g.op("Pad", [n, g.const(np.int64(edges))], shape)


def gelu(g, r, n, s):
    e = g.op("Erf", [g.op("Div", [n, g.const(np.float32(2**0.5))], s)], s)
    m = g.op("Mul", [n, g.op("Add", [e, g.const(np.float32(1))], s)], s)
    g.op("Mul", [m, g.const(np.float32(0.5))], s)


KINDS = [unary, unary, unary, binary, binary, broadcast, convolution, convolution, batch_norm, product, transpose, concat, split, part,
         reshape, softmax, layer_norm, reduction, pool, pad, gelu]


def operators(r):
    g, inputs = Graph("t"), []
    image = r.random() < 0.5
    for i in range(r.randint(1, 2)):
        shape = (1, r.choice([4, 8]), 8, 8) if image else (r.choice([2, 3]), 8, 16)
        inputs.append((f"x{i}", inputs[0][1] if i and r.random() < 0.7 else shape))
    g.values += inputs
    while len(g.nodes) < 4 or r.random() < 0.94 and len(g.nodes) < 22:
        r.choice(KINDS)(g, r, *r.choice(g.values[-5:]))
    read = {i for n in g.nodes for i in n.input}
    made = [v for v in g.values if v not in inputs]
    outputs = [v for v in made if v[0] not in read]
    if r.random() < 0.3:
        outputs = list(dict(outputs + [r.choice(made)]).items())
    feeds = [[np.random.RandomState(r.randrange(1 << 30)).randn(*s).astype(np.float32) for _, s in inputs]]
    return model(g, [value(*v) for v in inputs], [value(*v) for v in outputs]), feeds


# Control flow ----------------------------------------------------------------------------------------------------------------------

CARRIED = 3


def steps(g, r, v, depth, length):
    """A few steps over the values `v`, which are replaced in place."""
    for _ in range(r.randint(1, length)):
        a, b, c = (r.randrange(CARRIED) for _ in range(3))
        kind = r.randrange(6 if depth else 4)
        if kind < 3:
            v[a] = g.op(["Add", "Sub", "Max"][kind], [v[b], v[c]])
        elif kind == 3:
            v[a] = g.op("Clip", [v[b], g.const(np.float32(-50)), g.const(np.float32(50))])
        elif kind == 4:
            total = g.op("ReduceSum", [g.op("Sub", [v[a], v[b]])], keepdims=0)
            test = g.op("Less", [total, g.const(np.float32(r.randint(-2, 2)))])
            sides = []
            for side in ("then", "else"):
                inner, w = Graph(f"{g.name()}_{side}"), list(v)
                if r.random() < 0.75:
                    steps(inner, r, w, depth - 1, 3)
                outs = [inner.op("Identity", [x]) for x in w]
                sides.append(helper.make_graph(inner.nodes, inner.prefix, [], [value(x, [2]) for x in outs], inner.constants))
            v[:] = g.op("If", [test], count=CARRIED, then_branch=sides[0], else_branch=sides[1])
        else:
            most = g.op("Clip", [g.op("ReduceMax", [v[a]], keepdims=0), g.const(np.float32(0)), g.const(np.float32(3))])
            turns = g.op("Cast", [g.op("Floor", [most])], to=TensorProto.INT64)
            inner = Graph(g.name() + "_turn")
            ins = [inner.name() for _ in range(2 + CARRIED)]
            w = ins[2:]
            steps(inner, r, w, depth - 1, 3)
            if r.random() < 0.4:
                total = inner.op("ReduceSum", [r.choice(w)], keepdims=0)
                go = inner.op("Less", [total, inner.const(np.float32(20))])
            else:
                go = inner.op("Identity", [ins[1]])
            if r.random() < 0.3:
                w[0] = inner.op("Add", [w[0], inner.op("Cast", [ins[0]], to=TensorProto.FLOAT)])
            outs = [inner.op("Identity", [x]) for x in w]
            heads = [value(ins[0], [], TensorProto.INT64), value(ins[1], [], TensorProto.BOOL)] + [value(x, [2]) for x in ins[2:]]
            tails = [value(go, [], TensorProto.BOOL)] + [value(x, [2]) for x in outs]
            body = helper.make_graph(inner.nodes, inner.prefix, heads, tails, inner.constants)
            v[:] = g.op("Loop", [turns, g.const(np.array(True)), *v], count=CARRIED, body=body)


def control(r):
    g, names = Graph("m"), [f"x{k}" for k in range(CARRIED)]
    v = list(names)
    steps(g, r, v, 3, 4)
    outputs = [g.op("Add", [x, g.const(np.float32([1, 1]))]) for x in v]
    feeds = [[np.float32([r.randint(-3, 5), r.randint(-3, 5)]) for _ in names] for _ in range(3)]
    return model(g, [value(n, [2]) for n in names], [value(n, [2]) for n in outputs]), feeds


# Forms of control flow: types, swaps, values passed through, constants and repeated outputs, slices of loops and Scan ---------------

KINDS_OF = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "i64": TensorProto.INT64, "i32": TensorProto.INT32, "bool": TensorProto.BOOL}
ARRAYS = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}


class Held:
    """A value: name, type, shape; `own`: the current graph made it."""

    def __init__(self, name, kind, shape, own=True):
        self.name, self.kind, self.shape, self.own = name, kind, tuple(shape), own

    def info(self, name=None):
        return value(name or self.name, self.shape, KINDS_OF[self.kind])


def constant(g, r, kind, shape):
    array = np.random.RandomState(r.randrange(1 << 30)).randint(0 if kind == "bool" else -3, 2 if kind == "bool" else 5, shape)
    return g.const(array.astype(ARRAYS[kind]))


def replaced(g, r, v, values):
    """A value with some elements replaced by those of similar values or by constants: rows, or single elements along an axis."""
    alike = [w.name for w in values if (w.kind, w.shape) == (v.kind, v.shape)]
    rows = sorted(r.sample(range(v.shape[0]), r.randint(1, min(2, v.shape[0]))))
    index = g.const(np.int64(rows))
    new = g.op("Gather", [r.choice(alike), index], axis=0) if r.random() < 0.7 else constant(g, r, v.kind, (len(rows), *v.shape[1:]))
    if r.random() < 0.5:
        return g.op("ScatterND", [v.name, g.const(np.int64(rows).reshape(-1, 1)), new])
    wide = np.broadcast_to(np.int64(rows).reshape(-1, *[1] * (len(v.shape) - 1)), (len(rows), *v.shape[1:]))
    return g.op("ScatterElements", [v.name, g.const(np.ascontiguousarray(wide)), new], axis=0)


def step(g, r, values):
    """One plain operation: a new value with the type and shape of an existing one. Numbers stay whole and small."""
    v = r.choice(values)
    if v.shape and v.shape[0] and r.random() < 0.3:
        return Held(replaced(g, r, v, values), v.kind, v.shape)
    alike = [w for w in values if (w.kind, w.shape) == (v.kind, v.shape)]
    other = r.choice(alike).name if r.random() < 0.7 else constant(g, r, v.kind, v.shape)
    if v.kind == "bool":
        name = g.op(r.choice(["And", "Or", "Xor"]), [v.name, other]) if r.random() < 0.7 else g.op("Not", [v.name])
    else:
        low, high = (g.const(ARRAYS[v.kind](x)) for x in (-40, 40))
        kinds = ["Add", "Sub", "Max", "Min"] + (["Mul"] if v.kind in ("f32", "i64") else [])
        name = g.op("Clip", [g.op(r.choice(kinds), [v.name, other]), low, high])
    return Held(name, v.kind, v.shape)


def converted(g, r, values, kind, shape):
    """A value of this type and shape, made of any existing one."""
    fit = [v for v in values if (v.kind, v.shape) == (kind, tuple(shape))]
    if fit and r.random() < 0.8:
        return r.choice(fit)
    same = [v for v in values if v.shape == tuple(shape)]
    if not same:
        return Held(constant(g, r, kind, shape), kind, shape)
    v = r.choice(same)
    return Held(g.op("Cast", [v.name], to=KINDS_OF[kind]), kind, shape)


def test_of(g, r, values):
    """A truth value that is known only at run time."""
    v = r.choice(values)
    if v.kind == "bool":
        total = g.op("ReduceSum", [g.op("Cast", [v.name], to=TensorProto.FLOAT)], keepdims=0)
    else:
        x = v.name if v.kind == "f32" else g.op("Cast", [v.name], to=TensorProto.FLOAT)
        total = g.op("ReduceSum", [x], keepdims=0)
    return g.op(r.choice(["Less", "Greater"]), [total, g.const(np.float32(r.randint(-2, 4)))])


def results(g, r, values, wanted):
    """Names for outputs of a graph with these types and shapes: made here, passed through, constant, or repeated."""
    outs = []
    for kind, shape in wanted:
        again = [o for o in outs if (o.kind, o.shape) == (kind, shape)]
        if again and r.random() < 0.15:
            outs.append(Held(g.op("Identity", [again[-1].name]), kind, shape))
        elif r.random() < 0.2:
            outs.append(Held(constant(g, r, kind, shape), kind, shape))
        else:
            v = converted(g, r, values, kind, shape)
            free = v.own and all(o.name != v.name for o in outs)
            outs.append(v if free else Held(g.op("Identity", [v.name]), kind, shape))
    return outs


def outside(values):
    return [Held(v.name, v.kind, v.shape, own=False) for v in values]


def branch(g, r, values, depth):
    kept = r.sample(values, r.randint(1, len(values)))
    wanted = [(v.kind, v.shape) for v in kept]
    sides = []
    for side in ("then", "else"):
        inner, seen = Graph(f"{g.name()}_{side}"), outside(values)
        if r.random() < 0.8:
            forms_of(inner, r, seen, depth - 1, 3)
        outs = results(inner, r, seen, wanted)
        sides.append(helper.make_graph(inner.nodes, inner.prefix, [], [o.info() for o in outs], inner.constants))
    made = g.op("If", [test_of(g, r, values)], count=len(wanted), then_branch=sides[0], else_branch=sides[1])
    made = [made] if len(wanted) == 1 else made
    values += [Held(n, *w) for n, w in zip(made, wanted)]


def loop(g, r, values, depth):
    carried = r.sample(values, r.randint(1, min(4, len(values))))
    inner = Graph(g.name() + "_turn")
    turn, going = inner.name(), inner.name()
    ins = [Held(inner.name(), v.kind, v.shape) for v in carried]
    # Exporters may write a tensor of one element on one axis for a scalar.
    axes = [[1] if r.random() < 0.2 else [] for _ in range(3)]
    number = inner.op("Squeeze", [turn]) if axes[0] else turn
    # onnxruntime increments the turn number in place, so it must not be a carried value.
    seen = outside(values) + ins + [Held(number, "i64", (), own=False)]
    # What each turn passes on unchanged: constants and computed values.
    handed = [v for v in r.sample(values, min(2, len(values))) if r.random() < 0.3]
    if r.random() < 0.3:
        handed.append(Held(g.const(np.float32([r.randint(-3, 3), 0.5])), "f32", (2,)))
    handed = [(v, Held(inner.name(), v.kind, v.shape, own=False)) for v in handed]
    seen += [own for _, own in handed]
    sliced = r.random() < 0.35
    written = {}
    for early in (True, False):
        # Nodes that change a few elements of a carried value, before and after others that read it.
        for v in ins:
            if v.shape and v.shape[0] and r.random() < 0.2:
                last = written.get(v.name, v)
                written[v.name] = Held(replaced(inner, r, last, seen), v.kind, v.shape)
                seen = [*seen, written[v.name]]
        if early and r.random() < 0.75:
            forms_of(inner, r, seen, depth - 1, 3)
    outs = []
    swap = [w for w in ins if r.random() < 0.5]
    for v in ins:
        if v.name in written and r.random() < 0.7:
            outs.append(written[v.name])
            continue
        # Whole values change places: one comes in and goes out as another, without a copy.
        fit = [w for w in swap if (w.kind, w.shape) == (v.kind, v.shape) and all(o.name != w.name for o in outs)]
        outs.append(r.choice(fit) if fit and r.random() < 0.6 else results(inner, r, seen, [(v.kind, v.shape)])[0])
        if [o.name for o in outs].count(outs[-1].name) > 1 or not outs[-1].own:
            outs[-1] = Held(inner.op("Identity", [outs[-1].name]), v.kind, v.shape)
    back = [Held(inner.op("Identity", [v.name]) if r.random() < 0.5 else v.name, v.kind, v.shape) for _, v in handed]
    slices = []
    if sliced:
        for _ in range(r.randint(1, 2)):
            v = r.choice(seen)
            slices.append(Held(inner.op("Identity", [v.name]), v.kind, v.shape))
        count = r.randint(1, 4)
        turns = g.const(np.int64(count))
        go = inner.op("Identity", [going]) if r.random() < 0.5 else inner.const(np.array(True))
        first = g.const(np.array(True))
    else:
        count = None
        x = r.choice(values)
        x = x.name if x.kind == "f32" else g.op("Cast", [x.name], to=TensorProto.FLOAT)
        most = g.op("Clip", [g.op("ReduceMax", [x], keepdims=0), g.const(np.float32(0)), g.const(np.float32(4))])
        turns = g.op("Cast", [g.op("Floor", [most])], to=TensorProto.INT64)
        how = r.random()
        # Until the condition says stop; a bound of turns without a condition; both.
        go = test_of(inner, r, seen) if how < 0.5 else inner.op("Identity", [going])
        first = test_of(g, r, values) if r.random() < 0.25 else (g.const(np.array(True)) if r.random() < 0.7 else "")
    if axes[2]:
        turns = g.op("Reshape", [turns, g.const(np.int64([1]))])
    axes[1] = axes[1] if first else []
    if axes[1]:
        first, go = g.op("Reshape", [first, g.const(np.int64([1]))]), inner.op("Reshape", [go, inner.const(np.int64([1]))])
    heads = [value(turn, axes[0], TensorProto.INT64), value(going, axes[1], TensorProto.BOOL)]
    heads += [v.info() for v in ins + [own for _, own in handed]]
    tails = [value(go, axes[1], TensorProto.BOOL)] + [v.info() for v in outs + back + slices]
    body = helper.make_graph(inner.nodes, inner.prefix, heads, tails, inner.constants)
    carried += [v for v, _ in handed]
    made = g.op("Loop", [turns, first, *[v.name for v in carried]], count=len(tails) - 1, body=body)
    made = [made] if len(tails) == 2 else made
    values += [Held(n, v.kind, v.shape) for n, v in zip(made, carried)]
    for n, v in zip(made[len(carried):], slices):
        if count:
            flat = g.op("ReduceMax", [g.op("Cast", [n], to=TensorProto.FLOAT), g.const(np.int64([0]))], keepdims=0)
            values.append(Held(g.op("Cast", [flat], to=KINDS_OF[v.kind]), v.kind, v.shape))


def scan(g, r, values, depth):
    """Scan over the rows of one or two inputs of the model, whose sizes are known when it is read, with up to two carried values."""
    rows = [v for v in values if v.shape and v.name.startswith("x")]
    if not rows:
        return
    length = r.choice(rows).shape[0]
    rows = [v for v in rows if v.shape[0] == length]
    given = [r.choice(rows) for _ in range(r.randint(1, 2))]
    carried = r.sample(values, r.randint(0, min(2, len(values))))
    inner = Graph(g.name() + "_row")
    # For a carried value that passes through a Scan unchanged, onnxruntime returns memory that nothing has written.
    ins = [Held(inner.name(), v.kind, v.shape, own=False) for v in carried]
    ins += [Held(inner.name(), v.kind, v.shape[1:], own=False) for v in given]
    seen = outside(values) + ins
    forms_of(inner, r, seen, depth - 1, 2)
    outs = results(inner, r, seen, [(v.kind, v.shape) for v in carried])
    slices = []
    for _ in range(r.randint(1, 2)):
        v = r.choice(seen)
        slices.append(Held(inner.op("Identity", [v.name]), v.kind, v.shape))
    body = helper.make_graph(inner.nodes, inner.prefix, [v.info() for v in ins], [v.info() for v in outs + slices], inner.constants)
    attrs = {"num_scan_inputs": len(given), "body": body}
    if r.random() < 0.4:
        attrs["scan_input_directions"] = [r.randint(0, 1) for _ in given]
    if r.random() < 0.4:
        attrs["scan_output_directions"] = [r.randint(0, 1) for _ in slices]
    made = g.op("Scan", [v.name for v in carried + given], count=len(outs + slices), **attrs)
    made = [made] if len(outs + slices) == 1 else made
    values += [Held(n, v.kind, v.shape) for n, v in zip(made, carried)]
    values += [Held(n, v.kind, (length, *v.shape)) for n, v in zip(made[len(carried):], slices) if len(v.shape) < 2]


def forms_of(g, r, values, depth, length):
    """A few steps, plain and nested, after the existing values."""
    for _ in range(r.randint(1, length)):
        kind = r.random()
        if depth <= 0 or kind < 0.45:
            values.append(step(g, r, values))
        elif kind < 0.65:
            branch(g, r, values, depth)
        elif kind < 0.9:
            loop(g, r, values, depth)
        else:
            scan(g, r, values, depth)


def forms(r):
    g = Graph("m")
    kinds = ["f32"] + [r.choice(["f32", "f32", "f16", "i64", "i32", "bool"]) for _ in range(r.randint(1, 3))]
    shapes = [(2,), (2,), (3,), (), (2, 2)]
    ins = [Held(f"x{k}", kind, (2,) if k == 0 else r.choice(shapes), own=False) for k, kind in enumerate(kinds)]
    values = list(ins)
    while not any(n.op_type in ("If", "Loop", "Scan") for n in g.nodes):
        forms_of(g, r, values, 3, 5)
    made = values[len(ins):]
    outs = r.sample(made, r.randint(1, min(4, len(made))))
    ends = []
    for v in outs:
        x = v.name if v.kind in ("f32", "i64", "bool") else g.op("Cast", [v.name], to=TensorProto.FLOAT)
        ends.append((g.op("Identity", [x]), "f32" if v.kind in ("f16", "i32") else v.kind, v.shape))
    feeds = []
    for _ in range(3):
        rng = np.random.RandomState(r.randrange(1 << 30))
        feeds.append([rng.randint(0 if v.kind == "bool" else -3, 2 if v.kind == "bool" else 5, v.shape).astype(ARRAYS[v.kind]) for v in ins])
    return model(g, [v.info() for v in ins], [value(n, s, KINDS_OF[k]) for n, k, s in ends]), feeds


# Open sizes ------------------------------------------------------------------------------------------------------------------------


class Open(Graph):
    """A graph whose sizes are numbers or names; a unique name stands for a size that is not known to equal any other."""

    def __init__(self, prefix):
        super().__init__(prefix)
        self.fresh = 0

    def size(self):
        self.fresh += 1
        return f"{self.prefix}s{self.fresh}"

    def f32(self, kind, inputs, shape, **attrs):
        return self.op(kind, inputs, shape, **attrs)

    def ints(self, *v):
        return self.const(np.int64(v))

    def length(self, n, axis):
        """The size of an axis as a tensor of one number."""
        return self.op("Gather", [self.op("Shape", [n]), self.ints(axis)])


def o_unary(g, r, n, s):
    g.f32(r.choice(["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Elu"]), [n], s)


def o_binary(g, r, n, s):
    other = r.choice([v for v in g.values if v[1] == s])[0]
    g.f32(r.choice(["Add", "Mul", "Sub", "Max"]), [n, other], s)


def o_broadcast(g, r, n, s):
    if isinstance(s[-1], int):
        g.f32(r.choice(["Add", "Mul"]), [n, g.const(numbers(r, s[-1]))], s)
    else:
        g.f32("Add", [n, g.op("ReduceSum", [n, g.ints(len(s) - 1)], keepdims=1)], s)


def o_product(g, r, n, s):
    if len(s) >= 2 and isinstance(s[-1], int):
        m = r.choice([4, 8])
        g.f32("MatMul", [n, g.const(numbers(r, s[-1], m))], s[:-1] + (m,))


def o_gram(g, r, n, s):
    if len(s) == 2:
        y = g.op("MatMul", [n, g.op("Transpose", [n], perm=[1, 0])])
        g.f32("Softmax", [y], (s[0], s[0]), axis=-1)


def o_transpose(g, r, n, s):
    perm = list(range(len(s)))
    r.shuffle(perm)
    g.f32("Transpose", [n], tuple(s[p] for p in perm), perm=perm)


def o_concat(g, r, n, s):
    axis = r.randrange(len(s))
    fits = [v for v in g.values if len(v[1]) == len(s) and all(a == b for k, (a, b) in enumerate(zip(v[1], s)) if k != axis)]
    other = r.choice(fits)
    both = s[axis], other[1][axis]
    size = sum(both) if all(isinstance(d, int) for d in both) else g.size()
    g.f32("Concat", [n, other[0]], s[:axis] + (size,) + s[axis + 1:], axis=axis)


def o_reduce(g, r, n, s):
    if len(s) > 1:
        axis = r.randrange(len(s))
        kind = r.choice(["ReduceMean", "ReduceSum", "ReduceMax"])
        # The standard does not define the mean of no elements: NumPy gives NaN, onnxruntime gives 0.
        if kind == "ReduceMean" and not isinstance(s[axis], int):
            kind = "ReduceSum"
        g.f32(kind, [n, g.ints(axis)], s[:axis] + (1,) + s[axis + 1:], keepdims=1)


def o_flat(g, r, n, s):
    """Rows stay and the rest becomes one axis, by a computed shape."""
    shape = g.op("Concat", [g.length(n, 0), g.ints(-1)], axis=0)
    rest = s[1:]
    size = int(np.prod(rest)) if rest and all(isinstance(d, int) for d in rest) else (rest[0] if len(rest) == 1 else g.size())
    g.f32("Reshape", [n, shape], (s[0], size) if rest else (s[0], 1))


def o_slice(g, r, n, s):
    """Up to half of an axis; the length is computed."""
    axis = r.randrange(len(s))
    half = g.op("Div", [g.op("Add", [g.length(n, axis), g.ints(1)]), g.ints(2)])
    size = (s[axis] + 1) // 2 if isinstance(s[axis], int) else g.size()
    g.f32("Slice", [n, g.ints(0), half, g.ints(axis)], s[:axis] + (size,) + s[axis + 1:])


def o_chosen(g, r, n, s):
    """The rows whose first element is positive."""
    flat = g.op("Reshape", [n, g.op("Concat", [g.length(n, 0), g.ints(-1)], axis=0)])
    first = g.op("ReduceMax", [flat, g.ints(1)], keepdims=0)
    places = g.op("Reshape", [g.op("NonZero", [g.op("Greater", [first, g.const(np.float32(0.2))])]), g.ints(-1)])
    g.f32("Gather", [n, places], (g.size(),) + s[1:], axis=0)


def o_count(g, r, n, s):
    """The numbers up to the size of an axis."""
    axis = r.randrange(len(s))
    end = g.op("Reshape", [g.length(n, axis), g.const(np.zeros(0, np.int64))])
    seq = g.op("Range", [g.const(np.int64(0)), end, g.const(np.int64(1))])
    g.f32("Cast", [seq], (s[axis],), to=TensorProto.FLOAT)


def o_tile(g, r, n, s):
    axis = r.randrange(len(s))
    times = [2 if k == axis else 1 for k in range(len(s))]
    size = s[axis] * 2 if isinstance(s[axis], int) else g.size()
    g.f32("Tile", [n, g.ints(*times)], s[:axis] + (size,) + s[axis + 1:])


def o_expand(g, r, n, s):
    one = g.op("ReduceMax", [n, g.ints(0)], keepdims=1)
    g.f32("Expand", [one, g.op("Shape", [n])], s)


def o_branch(g, r, n, s):
    total = g.op("ReduceSum", [n], keepdims=0)
    size, sides = g.size(), []
    for k, kind in enumerate(r.sample(["Concat", "Neg", "Slice"], 2)):
        inner = Graph(f"{g.name()}_{k}")
        more = {"Concat": [n], "Neg": [], "Slice": [inner.const(np.int64([v])) for v in (0, 1, 0)]}[kind]
        attrs = {"axis": 0} if kind == "Concat" else {}
        out = inner.op(kind, [n] + more, **attrs)
        sides.append(helper.make_graph(inner.nodes, inner.prefix, [], [value(out, [None, *[d if isinstance(d, int) else None for d in s[1:]]])], inner.constants))
    # Terms that cancel (a value and its negative) add up to zero apart from rounding: no branch may depend on that.
    test = g.op("Less", [total, g.const(np.float32(r.randint(-1, 1) + 0.375))])
    g.f32("If", [test], (size,) + s[1:], then_branch=sides[0], else_branch=sides[1])


def o_loop(g, r, n, s):
    """Turns that lengthen what they carry and each give a slice; their number is the size of an axis."""
    inner = Graph(g.name() + "_turn")
    turn, going, held = inner.name(), inner.name(), inner.name()
    grown = inner.op("Concat", [held, inner.op("Identity", [n])], axis=0) if r.random() < 0.5 else inner.op("Relu", [held])
    grows = inner.nodes[-1].op_type == "Concat"
    cast = inner.op("Cast", [turn], to=TensorProto.FLOAT)
    piece = inner.op("Add", [inner.op("ReduceMean", [held], keepdims=0), cast])
    open_dims = [None] + [d if isinstance(d, int) else None for d in s[1:]]
    heads = [value(turn, [], TensorProto.INT64), value(going, [], TensorProto.BOOL), value(held, open_dims)]
    go = inner.op("Identity", [going])
    tails = [value(go, [], TensorProto.BOOL), value(grown, open_dims), value(piece, [])]
    body = helper.make_graph(inner.nodes, inner.prefix, heads, tails, inner.constants)
    most = g.op("Min", [g.op("Reshape", [g.length(n, 0), g.const(np.zeros(0, np.int64))]), g.const(np.int64(3))])
    a, b = g.op("Loop", [most, "", n], count=2, body=body)
    g.values.append((a, ((g.size() if grows else s[0]),) + s[1:]))
    g.values.append((b, (g.size(),)))


def o_parts(g, r, n, s):
    """Splits into a sequence and joins it again without its last tensor."""
    if not isinstance(s[0], int):
        parts = g.op("SplitToSequence", [n], axis=0, keepdims=1)
        parts = g.op("SequenceInsert", [parts, n])
        if r.random() < 0.5:
            parts = g.op("SequenceErase", [parts, g.const(np.int64(0))])
        g.f32("ConcatFromSequence", [parts], (g.size(),) + s[1:], axis=0)


OPEN = [o_unary, o_unary, o_binary, o_binary, o_broadcast, o_product, o_gram, o_transpose, o_concat, o_reduce, o_flat, o_slice, o_chosen,
        o_count, o_tile, o_expand, o_branch, o_loop, o_parts]


def open_sizes(r):
    g = Open("t")
    inputs = [("x0", ("N", r.choice([4, 8])))]
    inputs.append(r.choice([("x1", ("N", "M")), ("x1", inputs[0][1]), ("x1", ("M", 3, "N"))]))
    g.values += inputs
    while len(g.nodes) < 6 or r.random() < 0.93 and len(g.nodes) < 40:
        r.choice(OPEN)(g, r, *r.choice(g.values[-5:]))
    read = {i for n in g.nodes for i in n.input}
    outputs = [v for v in g.values if v not in inputs and v[0] not in read] or [g.values[-1]]
    feeds = []
    for _ in range(4):
        sizes = {"N": r.randint(1, 6), "M": r.randint(1, 5)}
        feeds.append([numbers(r, *[sizes.get(d, d) for d in s]) for _, s in inputs])
    feeds.append(feeds[0])
    named = [value(n, [d if isinstance(d, int) or d in "NM" else None for d in s]) for n, s in outputs]
    return model(g, [value(*v) for v in inputs], named), feeds


# The comparison --------------------------------------------------------------------------------------------------------------------


def save(folder, arrays, stem):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for k, a in enumerate(arrays):
        np.save(os.path.join(folder, f"{stem}_{k}.npy"), a)


class NoReference(Exception):
    """onnxruntime does not run the model on these values."""


def compare(ge, proto, feeds, atol, seed, folder):
    """Returns None, or what is wrong."""
    path, om = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.om")
    onnx.save(proto, path)
    o = ort.SessionOptions()
    o.log_severity_level, o.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    try:
        expected = [session.run(None, {f"x{k}": a for k, a in enumerate(f)}) for f in feeds]
    except pybind.Fail as why:
        raise NoReference(why) from why
    is_open = any(not d.HasField("dim_value") for v in proto.graph.input for d in v.type.tensor_type.shape.dim)
    for mode in MODES + [SEALED] * is_open:
        said = subprocess.run([ge, "compile", path, "-o", om, "-q", *mode], capture_output=True, text=True, timeout=300)
        if said.returncode:
            return f"compile {' '.join(mode)}: exit {said.returncode}: {said.stderr.strip()[:500]}"
        for given, outs in zip(feeds, expected):
            inputs, expect = os.path.join(folder, "inputs"), os.path.join(folder, "expect")
            save(inputs, given, "input")
            save(expect, outs, "output")
            call = [ge, "run", om, "--inputs", inputs, "--expect", expect, "-q", "--rtol", "1e-3", "--atol", str(atol),
                    "--device-option", f"schedule=random:{seed}", "--device-option", "check_races=true"]
            said = subprocess.run(call, capture_output=True, text=True, timeout=300)
            if said.returncode:
                return f"run {' '.join(mode)}: exit {said.returncode}: {(said.stderr.strip() or said.stdout)[:500]}"
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("ge")
    ap.add_argument("--seeds", default="0:40")
    ap.add_argument("--seconds", type=float, help="as many models of each kind, from the first seed on, as fit this time")
    ap.add_argument("--what", default="operators,control,forms,contrib,open,large")
    ap.add_argument("--keep", default=os.path.join(tempfile.gettempdir(), "ge-random-models"))
    a = ap.parse_args()
    begin, end = (int(x) for x in a.seeds.split(":"))
    wrong, too_many = 0, False
    for what in a.what.split(","):
        make = {"operators": operators, "control": control, "forms": forms, "open": open_sizes}.get(what)
        one = {"contrib": contrib_models.make, "large": large_models.make}.get(what)
        started, done, none = time.monotonic(), 0, 0
        for seed in range(begin, end if a.seconds is None else 1 << 30):
            if a.seconds is not None and time.monotonic() - started > a.seconds:
                break
            done += 1
            with tempfile.TemporaryDirectory() as folder:
                r = random.Random(seed)
                proto, feeds, atol = (*make(r), 1e-4) if make else one(r, seed)
                if seed % 8 == 5:
                    # Nodes in the order in which some converters leave them; every runtime sorts them.
                    nodes = list(proto.graph.node)
                    random.Random(seed).shuffle(nodes)
                    del proto.graph.node[:]
                    proto.graph.node.extend(nodes)
                try:
                    why = compare(os.path.abspath(a.ge), proto, feeds, atol, seed, folder)
                except NoReference:
                    none += 1
                    continue
                if why:
                    wrong += 1
                    kept = os.path.join(a.keep, f"{what}_{seed}")
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    print(f"{what} {seed}: {why}\n  kept in {kept}", flush=True)
        print(f"{what}: {done} random models, {wrong} wrong, {none} that onnxruntime does not run", flush=True)
        too_many |= none > max(1, done // 20)
    sys.exit(1 if wrong or too_many else 0)


if __name__ == "__main__":
    main()
