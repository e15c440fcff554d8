#!/usr/bin/env python3
"""Makes tests/models/open: models of open sizes of the kinds that run with another size each time, with random weights, inputs of
five sizes and the outputs of onnxruntime without optimisations.

    python make_open.py FOLDER          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy. Where runs follow each other (`block`,
`speech`), what a run gives as state is what the next one takes.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

F, I = T.FLOAT, T.INT64


class G:
    """A small graph builder."""

    def __init__(self, seed):
        self.r, self.nodes, self.inits, self.ins, self.outs, self.n = np.random.RandomState(seed), [], [], [], [], 0

    def op(self, op, *ins, n=1, **attrs):
        self.n += 1
        outs = [f"{op.lower()}_{self.n}" + (f"_{k}" if n > 1 else "") for k in range(n)]
        self.nodes.append(h.make_node(op, list(ins), outs, name=f"n_{self.n}", **attrs))
        return outs[0] if n == 1 else outs

    def c(self, v, t=np.int64):
        self.n += 1
        self.inits.append(nh.from_array(np.asarray(v, t), f"c_{self.n}"))
        return f"c_{self.n}"

    def w(self, *shape):
        fan = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
        return self.c(self.r.standard_normal(shape) / np.sqrt(fan), np.float32)

    def inp(self, name, shape, t=F):
        self.ins.append(h.make_tensor_value_info(name, t, shape))
        return name

    def out(self, name, value, shape, t=F):
        self.nodes.append(h.make_node("Identity", [value], [name], name=f"out_{name}"))
        self.outs.append(h.make_tensor_value_info(name, t, shape))

    def size(self, v, axis):
        """The size of an axis, as a list of one."""
        return self.op("Shape", v, start=axis, end=axis + 1)

    def scalar(self, v):
        return self.op("Squeeze", v, self.c([0]))

    def sliced(self, v, a, b, axis):
        return self.op("Slice", v, a, b, self.c([axis]))

    def conv(self, v, i, o, k=3, act=True, **attrs):
        pad = attrs.pop("pad", k // 2)
        v = self.op("Conv", v, self.w(o, i, k, k), self.w(o), kernel_shape=[k, k], pads=[pad] * 4, **attrs)
        return self.op("Relu", v) if act else v

    def linear(self, v, i, o):
        return self.op("Add", self.op("MatMul", v, self.w(i, o)), self.w(o))

    def norm(self, v, n):
        return self.op("LayerNormalization", v, self.c(1 + self.r.standard_normal(n) / 9, np.float32), self.w(n), axis=-1, epsilon=1e-5)

    def swap(self, v, *perm):
        return self.op("Transpose", v, perm=list(perm))

    def softmax(self, v):
        return self.op("Softmax", v, axis=-1)

    def model(self, name):
        g = h.make_graph(self.nodes, name, self.ins, self.outs, self.inits)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m)
        return m


def detection():
    """A detector: two convolutions down, boxes around the places of a grid that the picture's size makes, and their suppression."""
    g = G(1)
    x = g.inp("x", [1, 3, "H", "W"])
    f = g.conv(g.conv(x, 3, 8, strides=[2, 2]), 8, 12, strides=[2, 2])
    head = g.conv(f, 12, 7, k=1, act=False)
    flat = g.swap(g.op("Reshape", head, g.c([1, 7, -1])), 0, 2, 1)
    delta, logits = g.op("Split", flat, g.c([4, 3]), n=2, axis=2)
    wide = lambda axis: g.op("Range", g.c(0), g.scalar(g.size(f, axis)), g.c(1))
    rows, cols = g.op("Unsqueeze", wide(2), g.c([1])), g.op("Unsqueeze", wide(3), g.c([0]))
    whole = g.op("Concat", g.size(f, 2), g.size(f, 3), axis=0)
    grid = lambda v: g.op("Cast", g.op("Reshape", g.op("Expand", v, whole), g.c([-1, 1])), to=F)
    place = g.op("Mul", g.op("Concat", grid(rows), grid(cols), axis=1), g.c(4.0, np.float32))
    mid, size = g.op("Split", delta, g.c([2, 2]), n=2, axis=2)
    mid = g.op("Add", g.op("Mul", g.op("Sigmoid", mid), g.c(8.0, np.float32)), place)
    half = g.op("Mul", g.op("Exp", g.op("Tanh", size)), g.c(6.0, np.float32))
    boxes = g.op("Concat", g.op("Sub", mid, half), g.op("Add", mid, half), axis=2)
    scores = g.swap(g.op("Sigmoid", logits), 0, 2, 1)
    kept = g.op("NonMaxSuppression", boxes, scores, g.c([20]), g.c([0.4], np.float32), g.c([0.55], np.float32))
    of = lambda k: g.op("Squeeze", g.sliced(kept, g.c([k]), g.c([k + 1]), 1), g.c([1]))
    g.out("boxes", g.op("Gather", g.op("Squeeze", boxes, g.c([0])), of(2), axis=0), ["n", 4])
    g.out("scores", g.op("GatherND", scores, kept), ["n"])
    g.out("classes", of(1), ["n"], I)
    sizes = [(8, 8), (16, 24), (33, 47), (64, 40), (97, 128)]
    return g, [[g.r.standard_normal((1, 3, *s)).astype(np.float32)] for s in sizes]


def lengths():
    """A tagger of sequences, each as long as it says: a two-way LSTM, a GRU backwards, the mean of what is valid."""
    g = G(2)
    x, lens = g.inp("x", ["T", "B", 6]), g.inp("lengths", ["B"], T.INT32)
    zero = g.op("ConstantOfShape", g.op("Concat", g.c([2]), g.size(x, 1), g.c([5]), axis=0))
    y, state, _ = g.op("LSTM", x, g.w(2, 20, 6), g.w(2, 20, 5), g.w(2, 40), lens, zero, zero, n=3, hidden_size=5, direction="bidirectional")
    joined = g.op("Reshape", g.swap(y, 0, 2, 1, 3), g.c([0, 0, 10]))
    z, last = g.op("GRU", joined, g.w(1, 12, 10), g.w(1, 12, 4), g.w(1, 24), lens, n=2, hidden_size=4, direction="reverse", linear_before_reset=1)
    z = g.op("Squeeze", z, g.c([1]))
    steps = g.op("Unsqueeze", g.op("Range", g.c(0), g.scalar(g.size(x, 0)), g.c(1)), g.c([1]))
    valid = g.op("Less", steps, g.op("Unsqueeze", g.op("Cast", lens, to=I), g.c([0])))
    mask = g.op("Unsqueeze", g.op("Cast", valid, to=F), g.c([2]))
    mean = g.op("Div", g.op("ReduceSum", g.op("Mul", z, mask), g.c([0]), keepdims=0), g.op("Unsqueeze", g.op("Cast", lens, to=F), g.c([1])))
    g.out("tags", g.op("ArgMax", g.linear(z, 4, 7), axis=2, keepdims=0), ["T", "B"], I)
    g.out("mean", mean, ["B", 4])
    g.out("state", state, [2, "B", 5])
    g.out("last", last, [1, "B", 4])
    runs = []
    for t, b in [(1, 1), (5, 2), (9, 3), (32, 4), (60, 7)]:
        runs.append([g.r.standard_normal((t, b, 6)).astype(np.float32), np.minimum(g.r.randint(1, t + 1, b), t).astype(np.int32)])
    return g, runs


def attention(g, q, k, v, size, mask=None):
    s = g.op("Mul", g.op("MatMul", q, g.swap(k, 0, 1, 3, 2)), g.c(1 / np.sqrt(size), np.float32))
    return g.op("MatMul", g.softmax(g.op("Add", s, mask) if mask else s), v)


def block():
    """A decoder's block with a cache that grows: places by the length of the past, a mask of what lies ahead."""
    g, (n, d) = G(3), (2, 8)
    x, past = g.inp("x", ["B", "S", n * d]), [g.inp(p, ["B", n, "P", d]) for p in ("past_k", "past_v")]
    s, p = g.scalar(g.size(x, 1)), g.scalar(g.size(past[0], 2))
    total = g.op("Add", s, p)
    at = g.op("Range", p, total, g.c(1))
    angle = g.op("Mul", g.op("Unsqueeze", g.op("Cast", at, to=F), g.c([1])), g.c(0.5 ** np.arange(d // 2), np.float32))
    cos, sin = g.op("Cos", angle), g.op("Sin", angle)
    y = g.norm(x, n * d)
    heads = lambda v: g.swap(g.op("Reshape", v, g.c([0, 0, n, d])), 0, 2, 1, 3)
    q, k, v = (heads(g.linear(y, n * d, n * d)) for _ in range(3))
    def turned(v):
        a, b = g.op("Split", v, n=2, axis=3)
        m = lambda a, b: g.op("Mul", a, b)
        return g.op("Concat", g.op("Sub", m(a, cos), m(b, sin)), g.op("Add", m(a, sin), m(b, cos)), axis=3)
    q, k = turned(q), g.op("Concat", past[0], turned(k), axis=2)
    v = g.op("Concat", past[1], v, axis=2)
    ahead = g.op("Greater", g.op("Unsqueeze", g.op("Range", g.c(0), total, g.c(1)), g.c([0])), g.op("Unsqueeze", at, g.c([1])))
    mask = g.op("Where", ahead, g.c(-1e9, np.float32), g.c(0, np.float32))
    y = g.op("Reshape", g.swap(attention(g, q, k, v, d, mask), 0, 2, 1, 3), g.c([0, 0, n * d]))
    x = g.op("Add", x, g.linear(y, n * d, n * d))
    y = g.linear(g.norm(x, n * d), n * d, 32)
    y = g.linear(g.op("Mul", y, g.op("Sigmoid", y)), 32, n * d)
    g.out("y", g.op("Add", x, y), ["B", "S", n * d])
    g.out("present_k", k, ["B", n, "P2", d])
    g.out("present_v", v, ["B", n, "P2", d])
    runs = [[g.r.standard_normal((2, s, n * d)).astype(np.float32), (1, "past_k"), (2, "past_v")] for s in (5, 1, 1, 3, 20)]
    runs[0][1:] = [np.zeros((2, n, 0, d), np.float32)] * 2
    return g, runs


def windows():
    """Attention within windows of four by four: the picture padded to whole windows, rolled, cut, put together, rolled back, cropped."""
    g, (c, w) = G(4), (8, 4)
    x = g.inp("x", ["B", "H", "W", c])
    y = g.norm(x, c)
    def missing(axis):
        n = g.size(y, axis)
        return g.op("Mod", g.op("Sub", g.c([w]), g.op("Mod", n, g.c([w]))), g.c([w]))
    pads = g.op("Concat", g.c([0, 0, 0, 0, 0]), missing(1), missing(2), g.c([0]), axis=0)
    y = g.op("Pad", y, pads, mode="constant")
    def rolled(v, by, axis):
        end = g.c([2 ** 40])
        return g.op("Concat", g.sliced(v, g.c([by]), end, axis), g.sliced(v, g.c([0]), g.c([by]), axis), axis=axis)
    y = rolled(rolled(y, 2, 1), 2, 2)
    high, wide = (g.op("Div", g.size(y, a), g.c([w])) for a in (1, 2))
    cut = g.op("Concat", g.size(y, 0), high, g.c([w]), wide, g.c([w]), g.c([c]), axis=0)
    y = g.op("Reshape", g.swap(g.op("Reshape", y, cut), 0, 1, 3, 2, 4, 5), g.c([-1, w * w, c]))
    heads = lambda v: g.swap(g.op("Reshape", v, g.c([0, 0, 2, c // 2])), 0, 2, 1, 3)
    q, k, v = (heads(g.linear(y, c, c)) for _ in range(3))
    y = attention(g, q, k, v, c // 2, g.w(1, 2, w * w, w * w))
    y = g.linear(g.op("Reshape", g.swap(y, 0, 2, 1, 3), g.c([0, 0, c])), c, c)
    back = g.op("Concat", g.size(x, 0), high, wide, g.c([w, w, c]), axis=0)
    whole = g.op("Concat", g.size(x, 0), g.op("Mul", high, g.c([w])), g.op("Mul", wide, g.c([w])), g.c([c]), axis=0)
    y = g.op("Reshape", g.swap(g.op("Reshape", y, back), 0, 1, 3, 2, 4, 5), whole)
    y = rolled(rolled(y, -2, 1), -2, 2)
    y = g.sliced(g.sliced(y, g.c([0]), g.size(x, 1), 1), g.c([0]), g.size(x, 2), 2)
    g.out("y", g.op("Add", x, y), ["B", "H", "W", c])
    return g, [[g.r.standard_normal((*s, c)).astype(np.float32)] for s in [(1, 4, 4), (2, 8, 12), (1, 7, 9), (3, 1, 5), (1, 33, 30)]]


def unet():
    """Down twice and up again, to the very size of what stood before: by a resize to it, and by a transposed convolution that is padded or cropped."""
    g = G(5)
    x = g.inp("x", ["B", 3, "H", "W"])
    a = g.conv(x, 3, 8)
    b = g.conv(g.op("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), 8, 12)
    c = g.conv(b, 12, 16, strides=[2, 2])
    sizes = g.op("Concat", g.op("Shape", c, start=0, end=2), g.op("Shape", b, start=2, end=4), axis=0)
    up = g.op("Resize", c, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    d = g.conv(g.op("Concat", up, b, axis=1), 28, 12)
    up = g.op("ConvTranspose", d, g.w(12, 8, 2, 2), g.w(8), kernel_shape=[2, 2], strides=[2, 2])
    room = g.op("Sub", g.op("Shape", a, start=2, end=4), g.op("Shape", up, start=2, end=4))
    first = g.op("Div", room, g.c([2, 2]))
    pads = g.op("Concat", g.c([0, 0]), first, g.c([0, 0]), g.op("Sub", room, first), axis=0)
    up = g.op("Pad", up, pads, mode="constant")
    y = g.conv(g.op("Concat", up, a, axis=1), 16, 2, k=1, act=False)
    g.out("y", g.op("Sigmoid", y), ["B", 2, "H", "W"])
    g.out("low", g.op("ReduceMean", c, axes=[2, 3], keepdims=0), ["B", 16])
    return g, [[g.r.standard_normal((b, 3, *s)).astype(np.float32)] for b, s in [(1, (1, 1)), (2, (8, 6)), (1, (13, 17)), (1, (32, 21)), (2, (45, 64))]]


def speech():
    """A stream of sound in chunks: what the filters still need and what the GRU knows go from one run to the next."""
    g, n = G(6), 10
    x, tail, state = g.inp("x", ["B", 1, "L"]), g.inp("tail", ["B", 1, 24]), g.inp("state", [1, "B", n])
    context = g.inp("context", ["B", 8, 2])
    sound = g.op("Concat", tail, x, axis=2)
    f = g.op("Conv", sound, g.w(16, 1, 32), kernel_shape=[32], strides=[8])
    re, im = g.op("Split", f, n=2, axis=1)
    power = g.op("Add", g.op("Mul", re, re), g.op("Mul", im, im))
    f = g.op("Concat", context, g.op("Log", g.op("Add", power, g.c(1e-3, np.float32))), axis=2)
    y = g.op("Relu", g.op("Conv", f, g.w(6, 8, 3), g.w(6), kernel_shape=[3]))
    y, last = g.op("GRU", g.swap(y, 2, 0, 1), g.w(1, 3 * n, 6), g.w(1, 3 * n, n), g.w(1, 6 * n), "", state, n=2, hidden_size=n)
    y = g.linear(g.swap(g.op("Squeeze", y, g.c([1])), 1, 0, 2), n, 1)
    g.out("voice", g.op("Sigmoid", g.op("Squeeze", y, g.c([2]))), ["B", "frames"])
    end = g.c([2 ** 40])
    g.out("new_tail", g.sliced(sound, g.c([-24]), end, 2), ["B", 1, 24])
    g.out("new_state", last, [1, "B", n])
    g.out("new_context", g.sliced(f, g.c([-2]), end, 2), ["B", 8, 2])
    b = 2
    runs = [[g.r.standard_normal((b, 1, l)).astype(np.float32), (1, "tail"), (2, "state"), (3, "context")] for l in (8, 80, 40, 160, 512)]
    runs[0][1:] = [np.zeros(s, np.float32) for s in [(b, 1, 24), (1, b, n), (b, 8, 2)]]
    return g, runs


def scaled():
    """A picture brought to a least side of 30, at most 50 the other way, as detectors do it: sizes are floors of products of
    reciprocals, whose last bit decides (1 / 25 * 30 * 25 is less than 30)."""
    g = G(7)
    x = g.op("Unsqueeze", g.inp("x", [3, "H", "W"]), g.c([0]))
    sides = g.op("Shape", x, start=2, end=4)
    to = lambda find, side: g.op("Mul", g.op("Reciprocal", g.op("Cast", g.op(find, sides, keepdims=0), to=F)), g.c(side, np.float32))
    scale = g.op("Min", to("ReduceMin", 30), to("ReduceMax", 50))
    side = lambda k: g.op("Unsqueeze", g.op("Floor", g.op("Mul", g.op("Cast", g.op("Gather", sides, g.c(k)), to=F), scale)), g.c([0]))
    sizes = g.op("Cast", g.op("Concat", side(0), side(1), axis=0), to=I)
    y = g.op("Resize", x, "", "", g.op("Concat", g.c([1, 3]), sizes, axis=0), mode="linear", coordinate_transformation_mode="half_pixel")
    g.out("y", g.op("AveragePool", g.conv(y, 3, 4), kernel_shape=[4, 4], strides=[4, 4]), [1, 4, "h", "w"])
    g.out("size", g.op("Shape", y), [4], I)
    return g, [[g.r.standard_normal((3, *s)).astype(np.float32)] for s in [(30, 30), (25, 31), (41, 47), (43, 20), (29, 50)]]


def main():
    for make in (detection, lengths, block, windows, unet, speech, scaled):
        g, runs = make()
        name = make.__name__
        m = g.model(name)
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        before = None
        for k, run in enumerate(runs):
            values = [before[v[0]] if isinstance(v, tuple) else v for v in run]
            expect = os.path.join(folder, f"s{k}", "expect")
            os.makedirs(expect, exist_ok=True)
            for i, v in enumerate(values):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), v)
            before = session.run(None, {i.name: v for i, v in zip(m.graph.input, values)})
            for i, v in enumerate(before):
                np.save(os.path.join(expect, f"output_{i}.npy"), v)
        print(f"{name}: {len(m.graph.node)} nodes, {len(runs)} runs; outputs of the last: {[v.shape for v in before]}")


if __name__ == "__main__":
    main()
