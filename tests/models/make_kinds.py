#!/usr/bin/env python3
"""Makes tests/models/kinds: more models of open sizes, as exporters write them, with random weights, inputs of several sizes and the
outputs of onnxruntime without optimisations. Where that cannot run a size, what the standard defines stands instead (`scanned`).

    python make_kinds.py FOLDER          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h

from make_open import G, attention

F, I, B = T.FLOAT, T.INT64, T.BOOL
vi = h.make_tensor_value_info
END = 2 ** 62


def real(g, *shape):
    return g.r.standard_normal(shape).astype(np.float32)


def body(g, ins, make):
    """A subgraph of inputs (name, type, shape); `make` writes its nodes and gives its outputs as (value, type, shape)."""
    b = G(g.r.randint(1 << 20))
    b.n = g.n + 10_000
    outs = make(b)
    g.n = b.n
    return h.make_graph(b.nodes, "body", [vi(*i) for i in ins], [vi(*o) for o in outs], b.inits)


def filled(g, shape, value, t):
    return g.op("ConstantOfShape", shape, value=h.make_tensor("value", t, [1], [value]))


def chosen():
    """What is left of a detector's boxes, picture by picture: those of a score, the best three of them, in a loop."""
    g = G(11)
    boxes, scores = g.inp("boxes", ["N", "A", 4]), g.inp("scores", ["N", "A"])

    def turn(b):
        s = b.op("Gather", scores, "i", axis=0)
        kept = b.op("Squeeze", b.op("Transpose", b.op("NonZero", b.op("Greater", s, b.c(0.3, np.float32)))), b.c([1]))
        s = b.op("Gather", s, kept, axis=0)
        count = b.op("Min", b.op("Shape", s), b.c([3]))
        best, at = b.op("TopK", s, count, n=2, axis=0)
        left = b.op("Gather", b.op("Gather", b.op("Gather", boxes, "i", axis=0), kept, axis=0), at, axis=0)
        all_boxes = b.op("Concat", "all", left, axis=0)
        padded = b.op("Pad", best, b.op("Concat", b.c([0]), b.op("Sub", b.c([3]), count), axis=0), b.c(-1, np.float32))
        return [(b.op("Identity", "go"), B, []), (all_boxes, F, ["M", 4]), (b.op("Squeeze", count), I, []), (padded, F, [3])]

    loop = body(g, [("i", I, []), ("go", B, []), ("all", F, ["M", 4])], turn)
    none = g.op("ConstantOfShape", g.c([0, 4]))
    found, counts, best = g.op("Loop", g.scalar(g.size(boxes, 0)), g.c(True, bool), none, n=3, body=loop)
    g.out("found", found, ["M", 4])
    g.out("counts", counts, ["N"], I)
    g.out("best", best, ["N", 3])
    return g, [[real(g, n, a, 4), real(g, n, a)] for n, a in [(1, 5), (3, 10), (2, 0), (7, 60), (0, 4)]]


def scanned():
    """A recurrence written as a scan, forwards and backwards, each sequence as long as it says; of no step at all, too."""
    g = G(12)
    x, lens = g.inp("x", ["T", "B", 5]), g.inp("lengths", ["B"], I)
    w, u = g.w(5, 6), g.w(6, 6)

    def step(b):
        new = b.op("Tanh", b.op("Add", b.op("MatMul", "row", w), b.op("MatMul", "state", u)))
        valid = b.op("Unsqueeze", b.op("Less", "t", lens), b.c([1]))
        new = b.op("Where", valid, new, "state")
        y = b.op("Mul", new, b.op("Cast", valid, to=F))
        return [(new, F, None), (b.op("Add", "t", b.c(1)), I, []), (y, F, None)]

    zero = g.op("ConstantOfShape", g.op("Concat", g.size(x, 1), g.c([6]), axis=0))
    ins = [("state", F, None), ("t", I, []), ("row", F, None)]
    last, _, ys = g.op("Scan", zero, g.c(0), x, n=3, num_scan_inputs=1, body=body(g, ins, step))
    back = dict(scan_input_directions=[1], scan_output_directions=[1], scan_output_axes=[1])
    first, _, zs = g.op("Scan", zero, g.c(0), x, n=3, num_scan_inputs=1, body=body(g, ins, step), **back)
    g.out("last", last, ["B", 6])
    g.out("first", first, ["B", 6])
    g.out("ys", ys, ["T", "B", 6])
    g.out("zs", zs, ["B", "T", 6])
    run = lambda t, b: [real(g, t, b, 5), g.r.randint(0, t + 2, b).astype(np.int64)]
    # onnxruntime divides by both sizes.
    none = lambda t, b: (run(t, b), [np.zeros(s, np.float32) for s in [(b, 6), (b, 6), (t, b, 6), (b, t, 6)]])
    return g, [run(1, 1), run(4, 3), run(30, 2), none(5, 0), none(0, 2)]


def shifted():
    """Attention in windows that are shifted, with a mask made of the sizes, biases by place, and patches merged two by two."""
    g, (c, w) = G(13), (6, 3)
    y = g.swap(g.inp("x", ["B", c, "H", "W"]), 0, 2, 3, 1)
    high, wide = g.size(y, 1), g.size(y, 2)
    whole = lambda n: g.op("Mul", g.op("Div", g.op("Add", n, g.c([w - 1])), g.c([w])), g.c([w]))
    hp, wp = whole(high), whole(wide)
    y = g.op("Pad", y, g.op("Concat", g.c([0] * 5), g.op("Sub", hp, high), g.op("Sub", wp, wide), g.c([0]), axis=0))
    hn, wn = g.op("Div", hp, g.c([w])), g.op("Div", wp, g.c([w]))

    def rolled(v, by):
        for axis in (1, 2):
            v = g.op("Concat", g.sliced(v, g.c([by]), g.c([END]), axis), g.sliced(v, g.c([0]), g.c([by]), axis), axis=axis)
        return v

    def cut(v, n):
        v = g.op("Reshape", v, g.op("Concat", g.c([-1]), hn, g.c([w]), wn, g.c([w, n]), axis=0))
        return g.op("Reshape", g.swap(v, 0, 1, 3, 2, 4, 5), g.c([-1, w * w, n]))

    def region(n):
        at, n = g.op("Range", g.c(0), g.scalar(n), g.c(1)), g.scalar(n)
        behind = lambda k: g.op("Cast", g.op("GreaterOrEqual", at, g.op("Sub", n, g.c(k))), to=F)
        return g.op("Add", behind(w), behind(1))

    of = g.op("Add", g.op("Mul", g.op("Unsqueeze", region(hp), g.c([1])), g.c(3, np.float32)), g.op("Unsqueeze", region(wp), g.c([0])))
    of = g.op("Squeeze", cut(g.op("Unsqueeze", of, g.c([0, 3])), 1), g.c([2]))
    same = g.op("Equal", g.op("Unsqueeze", of, g.c([1])), g.op("Unsqueeze", of, g.c([2])))
    mask = g.op("Where", same, g.c(0, np.float32), g.c(-100, np.float32))
    z = cut(rolled(g.norm(y, c), 1), c)
    parts = g.swap(g.op("Reshape", g.linear(z, c, 3 * c), g.c([0, w * w, 3, 2, c // 2])), 2, 0, 3, 1, 4)
    q, k, v = (g.op("Gather", parts, g.c(i), axis=0) for i in range(3))
    a = g.op("MatMul", q, g.swap(k, 0, 1, 3, 2))
    bias = g.op("Gather", g.w((2 * w - 1) ** 2, 2), g.c(g.r.randint(0, (2 * w - 1) ** 2, w ** 4)))
    a = g.op("Add", a, g.op("Unsqueeze", g.swap(g.op("Reshape", bias, g.c([w * w, w * w, 2])), 2, 0, 1), g.c([0])))
    a = g.op("Reshape", a, g.op("Concat", g.c([-1]), g.op("Mul", hn, wn), g.c([2, w * w, w * w]), axis=0))
    a = g.op("Reshape", g.op("Add", a, g.op("Unsqueeze", mask, g.c([0, 2]))), g.c([-1, 2, w * w, w * w]))
    z = g.linear(g.op("Reshape", g.swap(g.op("MatMul", g.softmax(a), v), 0, 2, 1, 3), g.c([-1, w * w, c])), c, c)
    z = g.op("Reshape", z, g.op("Concat", g.c([-1]), hn, wn, g.c([w, w, c]), axis=0))
    z = g.op("Reshape", g.swap(z, 0, 1, 3, 2, 4, 5), g.op("Concat", g.c([-1]), hp, wp, g.c([c]), axis=0))
    y = g.op("Slice", g.op("Add", y, rolled(z, -1)), g.c([0, 0]), g.op("Concat", high, wide, axis=0), g.c([1, 2]))
    odd = [g.op("Mod", n, g.c([2])) for n in (high, wide)]
    y = g.op("Pad", y, g.op("Concat", g.c([0] * 5), *odd, g.c([0]), axis=0))
    each = lambda a, b: g.op("Slice", y, g.c([a, b]), g.c([END, END]), g.c([1, 2]), g.c([2, 2]))
    y = g.op("Concat", *(each(*at) for at in ((0, 0), (1, 0), (0, 1), (1, 1))), axis=-1)
    g.out("y", g.op("MatMul", y, g.w(4 * c, 5)), ["B", "h", "w", 5])
    return g, [[real(g, b, c, *s)] for b, s in [(1, (3, 3)), (1, (7, 9)), (2, (1, 1)), (1, (1, 40)), (2, (20, 13))]]


def conformer():
    """A chunk of sound: attention over what is kept of before, by distances, and a convolution with a tail; both are handed on."""
    g, d, n = G(14), 8, 2
    x, past, tail = g.inp("x", ["B", "T", d]), g.inp("past", ["B", "P", d]), g.inp("tail", ["B", d, 4])
    memory = g.op("Concat", past, g.norm(x, d), axis=1)
    t, m = g.size(x, 1), g.size(memory, 1)
    heads = lambda v: g.swap(g.op("Reshape", v, g.c([0, 0, n, d // n])), 0, 2, 1, 3)
    q, k, v = heads(g.linear(g.norm(x, d), d, d)), heads(g.linear(memory, d, d)), heads(g.linear(memory, d, d))
    far = g.op("Range", g.op("Sub", g.scalar(m), g.c(1)), g.op("Neg", g.scalar(t)), g.c(-1))
    angle = g.op("Mul", g.op("Unsqueeze", g.op("Cast", far, to=F), g.c([1])), g.c([1.0, 0.3], np.float32))
    places = g.op("Concat", g.op("Sin", angle), g.op("Cos", angle), axis=1)
    by = g.op("MatMul", q, g.swap(places, 1, 0))
    # Scores by distance become scores by place: a column in front, the rows read one shorter.
    r = g.size(by, 3)
    by = g.op("Pad", by, g.c([0, 0, 0, 1, 0, 0, 0, 0]))
    by = g.op("Reshape", by, g.op("Concat", g.c([0, 0]), g.op("Add", r, g.c([1])), t, axis=0))
    by = g.op("Reshape", g.sliced(by, g.c([1]), g.c([END]), 2), g.op("Concat", g.c([0, 0]), t, r, axis=0))
    scores = g.op("Add", g.op("MatMul", q, g.swap(k, 0, 1, 3, 2)), g.sliced(by, g.c([0]), m, 3))
    y = g.op("MatMul", g.softmax(g.op("Mul", scores, g.c(0.5, np.float32))), v)
    y = g.op("Add", x, g.linear(g.op("Reshape", g.swap(y, 0, 2, 1, 3), g.c([0, 0, d])), d, d))
    a, b = g.op("Split", g.swap(g.linear(g.norm(y, d), d, 2 * d), 0, 2, 1), n=2, axis=1)
    z = g.op("Concat", tail, g.op("Mul", a, g.op("Sigmoid", b)), axis=2)
    g.out("new_tail", g.sliced(z, g.c([-4]), g.c([END]), 2), ["B", d, 4])
    z = g.op("Conv", z, g.w(d, 1, 5), g.w(d), group=d, kernel_shape=[5])
    z = g.op("BatchNormalization", z, g.w(d), g.w(d), g.w(d), g.c(np.abs(g.r.randn(d)) + 0.1, np.float32))
    y = g.op("Add", y, g.linear(g.swap(g.op("Mul", z, g.op("Sigmoid", z)), 0, 2, 1), d, d))
    g.out("y", y, ["B", "T", d])
    g.out("kept", g.sliced(memory, g.op("Max", g.op("Sub", m, g.c([12])), g.c([0])), g.c([END]), 1), ["B", "P2", d])
    run = lambda b, t, p: [real(g, b, t, d), real(g, b, p, d), real(g, b, d, 4)]
    return g, [run(1, 1, 0), run(2, 4, 4), run(1, 16, 12), run(2, 1, 60), run(0, 4, 3)]


def decoder():
    """A decoder's block in the idiom of exporters: each size by a gather of a shape, the mask cut out of a constant triangle."""
    g, (vocab, d, n, most) = G(15), (20, 8, 2, 64)
    ids, past = g.inp("ids", ["batch", "seq"], I), g.inp("past", [2, "batch", n, "past", d // n])
    seen = g.inp("seen", ["batch", "total"], I)
    at = lambda v, k: g.op("Gather", g.op("Shape", v), g.c(k), axis=0)
    one = lambda v: g.op("Unsqueeze", v, g.c([0]))
    b, s, p = at(ids, 0), at(ids, 1), at(past, -2)
    place = g.op("Reshape", one(g.op("Range", p, g.op("Add", s, p), g.c(1))), g.op("Concat", g.c([-1]), one(s), axis=0))
    x = g.op("Add", g.op("Gather", g.w(vocab, d), ids), g.op("Gather", g.w(most, d), place))
    low = g.c(np.finfo(np.float32).min, np.float32)
    hidden = g.op("Mul", g.op("Sub", g.c(1, np.float32), g.op("Cast", g.op("Unsqueeze", seen, g.c([1, 2])), to=F)), low)
    parts = g.op("Gemm", g.op("Reshape", g.norm(x, d), g.c([-1, d])), g.w(d, 3 * d), g.w(3 * d))
    parts = g.op("Reshape", parts, g.op("Concat", one(b), one(s), g.c([3 * d]), axis=0))
    sizes = lambda t: g.op("Concat", one(at(t, 0)), one(at(t, 1)), g.c([n]), one(g.op("Div", at(t, 2), g.c(n))), axis=0)
    q, k, v = (g.swap(g.op("Reshape", t, sizes(t)), 0, 2, 1, 3) for t in g.op("Split", parts, g.c([d, d, d]), n=3, axis=2))
    before = [g.op("Squeeze", g.op("Gather", past, g.c([i]), axis=0), g.c([0])) for i in (0, 1)]
    k, v = g.op("Concat", before[0], k, axis=-2), g.op("Concat", before[1], v, axis=-2)
    w = g.op("MatMul", q, g.swap(k, 0, 1, 3, 2))
    w = g.op("Div", w, g.op("Sqrt", g.op("Cast", at(v, -1), to=F)))
    rows, columns = at(w, -2), at(w, -1)
    ahead = g.c(np.tril(np.ones((1, 1, most, most), bool)), bool)
    ahead = g.sliced(ahead, one(g.op("Sub", columns, rows)), one(columns), 2)
    w = g.op("Where", g.sliced(ahead, g.c([0]), one(columns), 3), w, low)
    y = g.swap(g.op("MatMul", g.softmax(g.op("Add", w, hidden)), v), 0, 2, 1, 3)
    y = g.op("Reshape", y, g.op("Concat", one(at(y, 0)), one(at(y, 1)), one(g.op("Mul", at(y, 2), at(y, 3))), axis=0))
    x = g.op("Add", x, g.linear(y, d, d))
    g.out("next", g.linear(g.op("Gather", x, g.c(-1), axis=1), d, vocab), ["batch", vocab])
    g.out("present", g.op("Concat", one(k), one(v), axis=0), [2, "batch", n, "total", d // n])
    run = lambda b, s, p: [g.r.randint(0, vocab, (b, s)), real(g, 2, b, n, p, d // n), np.ones((b, p + s), np.int64)]
    return g, [run(1, 1, 0), run(2, 5, 0), run(1, 1, 7), run(3, 4, 20), run(1, 1, 63)]


def written():
    """A text word by word in one loop, which ends where each of the batch has ended: words and scores that grow."""
    g, (vocab, d) = G(16), (7, 6)
    known, most = g.inp("known", ["B", "S", d]), g.inp("most", [], I)
    words, out, turn_of = g.w(vocab, d), g.w(d, vocab), g.w(vocab)

    def turn(b):
        q = b.op("Gather", words, b.op("Gather", "text", b.c(-1), axis=1))
        a = b.softmax(b.op("MatMul", b.op("Unsqueeze", q, b.c([1])), b.swap(known, 0, 2, 1)))
        seen = b.op("Squeeze", b.op("MatMul", a, known), b.c([1]))
        count = b.op("Cast", b.op("Shape", "text", start=1, end=2), to=F)
        scores = b.op("Add", b.op("MatMul", b.op("Add", seen, q), out), b.op("Mul", b.op("Sin", count), turn_of))
        word = b.op("ArgMax", scores, axis=1, keepdims=1)
        over = b.op("Or", "ended", b.op("Equal", word, b.c(2)))
        text = b.op("Concat", "text", b.op("Where", over, b.c(2), word), axis=1)
        all_over = b.op("Cast", b.op("ReduceMin", b.op("Cast", over, to=T.INT32), keepdims=0), to=B)
        return [(b.op("Not", all_over), B, []), (text, I, None), (over, B, None), (scores, F, None)]

    loop = body(g, [("i", I, []), ("go", B, []), ("text", I, None), ("ended", B, None)], turn)
    each = g.op("Concat", g.size(known, 0), g.c([1]), axis=0)
    text, _, scores = g.op("Loop", most, g.c(True, bool), filled(g, each, 1, I), filled(g, each, 0, B), n=3, body=loop)
    g.out("text", text, ["B", "n"], I)
    g.out("scores", scores, ["n", "B", vocab])
    return g, [[real(g, b, s, d), np.array(n, np.int64)] for b, s, n in [(1, 3, 10), (2, 5, 1), (4, 1, 30), (3, 9, 12)]]


def experts():
    """Rows that go to two of three experts each: by a sort, rows of each expert by NonZero, what they give is added up in place."""
    g, d, n = G(17), 6, 3
    x = g.inp("x", ["T", d])
    best, at = g.op("TopK", g.softmax(g.op("MatMul", x, g.w(d, n))), g.c([2]), n=2, axis=1)
    best = g.op("Div", best, g.op("ReduceSum", best, g.c([1])))
    hot = g.op("OneHot", at, g.c([n]), g.c([0, 1], np.float32), axis=-1)
    share = g.op("Einsum", best, hot, equation="tk,tke->te")
    y = g.op("ConstantOfShape", g.op("Shape", x))
    for e in range(n):
        own = g.op("Gather", share, g.c(e), axis=1)
        rows = g.op("Squeeze", g.op("NonZero", g.op("Greater", own, g.c(0, np.float32))), g.c([0]))
        z = g.op("Relu", g.op("Gemm", g.op("Gather", x, rows), g.w(d, 8), g.w(8)))
        z = g.op("Mul", g.op("MatMul", z, g.w(8, d)), g.op("Unsqueeze", g.op("Gather", own, rows), g.c([1])))
        y = g.op("ScatterND", y, g.op("Unsqueeze", rows, g.c([1])), z, reduction="add")
    g.out("y", y, ["T", d])
    g.out("load", g.op("ReduceSum", hot, g.c([0, 1]), keepdims=0), [n])
    return g, [[real(g, t, d)] for t in (1, 2, 0, 17, 80)]


def spoken():
    """Letters to sound: how long each lasts decides the number of frames; a path of ones takes the letters there."""
    g, d = G(18), 5
    x, lens, speed = g.inp("x", ["B", d, "T"]), g.inp("lengths", ["B"], I), g.inp("speed", [1])
    at = g.op("Unsqueeze", g.op("Range", g.c(0), g.scalar(g.size(x, 2)), g.c(1)), g.c([0]))
    valid = g.op("Cast", g.op("Unsqueeze", g.op("Less", at, g.op("Unsqueeze", lens, g.c([1]))), g.c([1])), to=F)
    x = g.op("Mul", x, valid)
    long = g.op("Exp", g.op("Mul", g.op("Conv", x, g.w(1, d, 3), kernel_shape=[3], pads=[1, 1]), valid))
    long = g.op("Ceil", g.op("Mul", g.op("Mul", long, valid), speed))
    frames = g.op("Cast", g.op("Max", g.op("ReduceSum", long, g.c([1, 2]), keepdims=0), g.c([1], np.float32)), to=I)
    frame = g.op("Range", g.c(0), g.op("ReduceMax", frames, keepdims=0), g.c(1))
    frame = g.op("Unsqueeze", g.op("Cast", frame, to=F), g.c([0, 2]))
    end = g.op("CumSum", g.op("Squeeze", long, g.c([1])), g.c(1))
    begin = g.op("Sub", end, g.op("Squeeze", long, g.c([1])))
    end, begin = g.op("Unsqueeze", end, g.c([1])), g.op("Unsqueeze", begin, g.c([1]))
    path = g.op("Cast", g.op("And", g.op("Less", frame, end), g.op("GreaterOrEqual", frame, begin)), to=F)
    z = g.swap(g.op("MatMul", path, g.swap(x, 0, 2, 1)), 0, 2, 1)
    z = g.op("ConvTranspose", z, g.w(d, 4, 4), kernel_shape=[4], strides=[2], pads=[1, 1])
    z = g.op("LeakyRelu", z, alpha=0.1)
    z = g.op("Add", g.op("Conv", z, g.w(4, 4, 3), kernel_shape=[3], dilations=[3], pads=[3, 3]), z)
    g.out("sound", g.op("Tanh", g.op("Conv", z, g.w(1, 4, 7), kernel_shape=[7], pads=[3, 3])), ["B", 1, "S"])
    g.out("frames", frames, ["B"], I)
    run = lambda b, t, s: [real(g, b, d, t), g.r.randint(0, t + 1, b).astype(np.int64), np.array([s], np.float32)]
    return g, [run(1, 1, 1.0), run(2, 7, 1.3), run(1, 40, 0.5), run(3, 5, 2.0), run(1, 3, 0.0)]


def queries():
    """A detector of queries: what pictures are padded with is masked, places are counted up over what is not."""
    g, d = G(19), 8
    x, padded = g.inp("x", ["B", 3, "H", "W"]), g.inp("padded", ["B", "H", "W"], B)
    f = g.conv(g.conv(x, 3, 6, strides=[2, 2]), 6, d, strides=[2, 2])
    sizes = g.op("Concat", g.size(x, 0), g.c([1]), g.op("Shape", f, start=2, end=4), axis=0)
    m = g.op("Resize", g.op("Unsqueeze", g.op("Cast", padded, to=F), g.c([1])), "", "", sizes, mode="nearest")
    there = g.op("Not", g.op("Cast", g.op("Squeeze", m, g.c([1])), to=B))

    def places(axis):
        at = g.op("CumSum", g.op("Cast", there, to=F), g.c(axis))
        last = g.op("Add", g.sliced(at, g.c([-1]), g.c([END]), axis), g.c(1e-6, np.float32))
        p = g.op("Unsqueeze", g.op("Mul", g.op("Div", at, last), g.c(6.28, np.float32)), g.c([3]))
        p = g.op("Div", p, g.c([1, 10], np.float32))
        return g.op("Concat", g.op("Sin", p), g.op("Cos", p), axis=3)

    flat = lambda v: g.op("Reshape", v, g.op("Concat", g.size(v, 0), g.c([-1, d]), axis=0))
    place, v = flat(g.op("Concat", places(1), places(2), axis=3)), flat(g.swap(f, 0, 2, 3, 1))
    mask = g.op("Unsqueeze", g.op("Reshape", there, g.op("Concat", g.size(there, 0), g.c([-1]), axis=0)), g.c([1, 2]))
    mask = g.op("Where", mask, g.c(0, np.float32), g.c(-np.inf, np.float32))

    def heads(q, k, v, mask):
        cut = lambda t: g.swap(g.op("Reshape", g.linear(t, d, d), g.c([0, 0, 2, d // 2])), 0, 2, 1, 3)
        y = attention(g, cut(q), cut(k), cut(v), d // 2, mask)
        return g.linear(g.op("Reshape", g.swap(y, 0, 2, 1, 3), g.c([0, 0, d])), d, d)

    e = g.op("Add", v, place)
    v = g.norm(g.op("Add", v, heads(e, e, v, mask)), d)
    q = g.op("Expand", g.op("Unsqueeze", g.w(5, d), g.c([0])), g.op("Concat", g.size(x, 0), g.c([1, 1]), axis=0))
    t = g.norm(heads(q, g.op("Add", v, place), v, mask), d)
    g.out("boxes", g.op("Sigmoid", g.linear(t, d, 4)), ["B", 5, 4])
    runs = []
    for b, high, wide in [(1, 4, 4), (2, 17, 23), (1, 1, 64), (3, 40, 9)]:
        padded = np.zeros((b, high, wide), bool)
        padded[:, :, max(wide - wide // 3, 1):] = True
        runs.append([real(g, b, 3, high, wide), padded])
    return g, runs


def ragged():
    """Sequences of other lengths in one batch: cut by their lengths, each without its mean, put together again."""
    g = G(20)
    x, lens, shift = g.inp("x", ["T", 3]), g.inp("lengths", ["B"], I), g.inp("shift", [3])
    parts = g.op("SplitToSequence", x, lens, axis=0)
    others = g.op("SequenceInsert", parts, shift_row := g.op("Unsqueeze", shift, g.c([0])))

    def each(b):
        mean = b.op("ReduceMean", "one", axes=[0], keepdims=1)
        there = b.op("Add", b.op("Sub", "one", mean), "by")
        return [(there, F, None), (b.op("Add", mean, b.op("ReduceMax", "other", axes=[0], keepdims=1)), F, None)]

    centred, means = g.op("SequenceMap", parts, others, shift, n=2, body=body(g, [(n, F, None) for n in ("one", "other", "by")], each))
    g.out("centred", g.op("ConcatFromSequence", centred, axis=0), ["T", 3])
    g.out("means", g.op("ConcatFromSequence", means, axis=0), ["B", 3])
    g.out("last", g.op("SequenceAt", centred, g.c(-1)), ["L", 3])
    g.out("others", g.op("Add", g.op("SequenceLength", others), g.op("Squeeze", g.size(shift_row, 0))), [], I)
    lists = ([1], [2, 3], [5, 1, 1, 9], [40] * 3, [1] * 12)
    return g, [[real(g, sum(n), 3), np.array(n, np.int64), real(g, 3)] for n in lists]


def nearest():
    """Resizes to what is given, by each way to round: which of two places is nearer hangs on single precision."""
    g = G(21)
    x, sizes = g.inp("x", [1, 1, "H", "W"]), g.inp("sizes", [2], I)
    to = g.op("Concat", g.c([1, 1]), sizes, axis=0)
    for k, (way, rounding) in enumerate([("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
                                         ("asymmetric", "ceil"), ("half_pixel_symmetric", "floor")]):
        y = g.op("Resize", x, "", "", to, mode="nearest", coordinate_transformation_mode=way, nearest_mode=rounding)
        g.out(f"y{k}", y, [1, 1, "h", "w"])
    crop = g.c([0, 0, 0.3, 0.1, 1, 1, 0.7, 0.9], np.float32)
    g.out("crop", g.op("Resize", x, crop, "", to, mode="linear", coordinate_transformation_mode="tf_crop_and_resize"), [1, 1, "h", "w"])
    run = lambda a, b, c, d: [np.arange(a * b, dtype=np.float32).reshape(1, 1, a, b), np.array([c, d])]
    return g, [run(1, 1, 3, 2), run(15, 22, 47, 8), run(28, 39, 49, 42), run(17, 29, 35, 84), run(23, 21, 7, 6)]


def lasting():
    """How long each row lasts comes of products and a convolution whose weights are packed for their kernels, real ones and bytes."""
    g, d = G(22), 16
    x = g.inp("x", ["T", d])
    hidden = g.op("Relu", g.linear(x, d, 32))
    by_reals = g.op("Squeeze", g.linear(hidden, 32, 1), g.c([1]))
    q, scale, zero = g.op("DynamicQuantizeLinear", hidden, n=3)
    y = g.op("MatMulInteger", q, g.c(g.r.randint(-127, 128, (32, 24)), np.int8), zero)
    y = g.op("Mul", g.op("Cast", y, to=F), g.op("Mul", scale, g.c(0.01, np.float32)))
    q, scale, zero = g.op("DynamicQuantizeLinear", y, n=3)
    filters = g.c(g.r.randint(-127, 128, (1, 24, 3)), np.int8)
    y = g.op("ConvInteger", g.op("Unsqueeze", g.swap(q, 1, 0), g.c([0])), filters, zero, kernel_shape=[3], pads=[1, 1])
    by_bytes = g.op("Mul", g.op("Squeeze", g.op("Cast", y, to=F), g.c([0, 1])), g.op("Mul", scale, g.c(0.01, np.float32)))
    long = g.op("Ceil", g.op("Exp", g.op("Min", g.op("Add", by_reals, by_bytes), g.c(3, np.float32))))
    end = g.op("CumSum", long, g.c(0))
    frames = g.op("Cast", g.op("ReduceSum", long, g.c([0]), keepdims=0), to=I)
    frame = g.op("Unsqueeze", g.op("Cast", g.op("Range", g.c(0), frames, g.c(1)), to=F), g.c([1]))
    rows = g.op("ReduceSum", g.op("Cast", g.op("GreaterOrEqual", frame, end), to=I), g.c([1]), keepdims=0)
    g.out("drawn", g.op("Gather", hidden, rows), ["frames", 32])
    g.out("long", long, ["T"])
    return g, [[real(g, t, d)] for t in (1, 2, 7, 40)]


def main():
    for make in (chosen, scanned, shifted, conformer, decoder, written, experts, spoken, queries, ragged, nearest, lasting):
        g, runs = make()
        name = make.__name__
        m = g.model(name)
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for k, run in enumerate(runs):
            values, right = run if isinstance(run, tuple) else (run, None)
            if right is None:
                right = session.run(None, {i.name: v for i, v in zip(m.graph.input, values)})
            expect = os.path.join(folder, f"s{k}", "expect")
            os.makedirs(expect, exist_ok=True)
            for i, v in enumerate(values):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), v)
            for i, v in enumerate(right):
                np.save(os.path.join(expect, f"output_{i}.npy"), v)
        print(f"{name}: {len(m.graph.node)} nodes, {len(runs)} runs; outputs of the last: {[v.shape for v in right]}")


if __name__ == "__main__":
    main()
