#!/usr/bin/env python3
"""Makes tests/models/loops: small ONNX models with `Loop`, inputs and the outputs of onnxruntime.

    python make_loops.py FOLDER          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

vi = h.make_tensor_value_info
F, I, B = T.FLOAT, T.INT64, T.BOOL


def const(name, v):
    return h.make_node("Constant", [], [name], value=nh.from_array(np.asarray(v)))


def counted():
    """A count and a condition, both known at run alone; the weight is captured."""
    r = np.random.RandomState(7)
    w = nh.from_array((r.standard_normal((8, 8)) * 0.5).astype(np.float32), "w")
    body = h.make_graph(
        [h.make_node("MatMul", ["v", "w"], ["vm"]), h.make_node("Add", ["vm", "v"], ["v2"]),
         h.make_node("Abs", ["v2"], ["va"]), h.make_node("ReduceMax", ["va"], ["vx"], keepdims=0),
         h.make_node("Less", ["vx", "limit"], ["c2"])],
        "body", [vi("i", I, []), vi("c", B, []), vi("v", F, [8])], [vi("c2", B, []), vi("v2", F, [8])])
    g = h.make_graph([h.make_node("Loop", ["n", "go", "x"], ["y"], name="loop", body=body)], "counted",
                     [vi("n", I, []), vi("go", B, []), vi("x", F, [8]), vi("limit", F, [])], [vi("y", F, [8])], [w])
    x = r.standard_normal(8).astype(np.float32)
    run = lambda n, go, limit: [np.int64(n), np.array(go), x, np.float32(limit)]
    return g, [run(3, True, 50), run(40, True, 50), run(0, True, 50), run(5, False, 50), run(1, True, 0), run(200, True, 1e9)]


def exchanged():
    """Values that change places, one that stays, the turn's number, no condition."""
    body = h.make_graph(
        [const("one", np.float32(1)), h.make_node("Cast", ["i"], ["f"], to=F), h.make_node("Add", ["f", "one"], ["k"]),
         h.make_node("Mul", ["a", "k"], ["m"]), h.make_node("Add", ["m", "s"], ["b2"]), h.make_node("Identity", ["b"], ["a2"]),
         h.make_node("Identity", ["c"], ["c2"]), h.make_node("Identity", ["s"], ["s2"]), h.make_node("Add", ["t", "i"], ["t2"])],
        "body", [vi("i", I, []), vi("c", B, []), vi("a", F, [2, 3]), vi("b", F, [2, 3]), vi("s", F, [2, 3]), vi("t", I, [])],
        [vi("c2", B, []), vi("a2", F, [2, 3]), vi("b2", F, [2, 3]), vi("s2", F, [2, 3]), vi("t2", I, [])])
    names = ["ya", "yb", "ys", "yt"]
    g = h.make_graph([h.make_node("Loop", ["n", "", "x", "z", "q", "t0"], names, name="loop", body=body)], "exchanged",
                     [vi("n", I, []), vi("x", F, [2, 3]), vi("z", F, [2, 3]), vi("q", F, [2, 3]), vi("t0", I, [])],
                     [vi(n, F, [2, 3]) for n in names[:3]] + [vi("yt", I, [])])
    r = np.random.RandomState(8)
    v = [r.standard_normal((2, 3)).astype(np.float32) for _ in range(3)]
    return g, [[np.int64(n), *v, np.int64(100)] for n in (0, 1, 2, 7)]


def until():
    """No count: Newton's square root until it is near; both branches of an `If` and another loop within."""
    inner = h.make_graph(
        [const("half", np.float32(0.5)), h.make_node("Div", ["a", "u"], ["q"]), h.make_node("Add", ["q", "u"], ["p"]),
         h.make_node("Mul", ["p", "half"], ["u2"]), h.make_node("Identity", ["ci"], ["ci2"])],
        "inner", [vi("j", I, []), vi("ci", B, []), vi("u", F, [4])], [vi("ci2", B, []), vi("u2", F, [4])])
    then = h.make_graph([h.make_node("Loop", ["turns", "", "v"], ["th"], name="newton", body=inner)], "then", [], [vi("th", F, [4])])
    other = h.make_graph([h.make_node("Abs", ["v"], ["ab"]), const("one_", np.float32(1)), h.make_node("Add", ["ab", "one_"], ["el"])],
                         "else", [], [vi("el", F, [4])])
    body = h.make_graph(
        [const("zero", np.int64(0)), h.make_node("Greater", ["i", "zero"], ["later"]),
         h.make_node("If", ["later"], ["v2"], name="pick", then_branch=then, else_branch=other),
         h.make_node("Mul", ["v2", "v2"], ["sq"]), h.make_node("Sub", ["sq", "a"], ["d"]), h.make_node("Abs", ["d"], ["e"]),
         h.make_node("ReduceMax", ["e"], ["worst"], keepdims=0), h.make_node("Greater", ["worst", "near"], ["c2"])],
        "body", [vi("i", I, []), vi("c", B, []), vi("v", F, [4])], [vi("c2", B, []), vi("v2", F, [4])])
    g = h.make_graph([const("yes", np.array(True)), h.make_node("Loop", ["", "yes", "x"], ["y"], name="outer", body=body)], "until",
                     [vi("x", F, [4]), vi("a", F, [4]), vi("near", F, []), vi("turns", I, [])], [vi("y", F, [4])])
    x, a = np.array([1, -9, 3, 40], np.float32), np.array([2, 9, 100, 1e4], np.float32)
    return g, [[x, a, np.float32(near), np.int64(t)] for near, t in ((1e-1, 1), (1e-1, 3), (1e9, 2))]


def rows():
    """Tensors of which a turn changes a row or some elements: read before, read as they were behind it, twice in a turn, added to."""
    body = h.make_graph(
        [const("four", np.int64(4)), const("at", np.int64([1, 1])), const("wide", np.int64([1, 3])), const("none", np.int64([0])),
         h.make_node("Mod", ["i", "four"], ["k"]), h.make_node("Reshape", ["k", "at"], ["row"]), h.make_node("Unsqueeze", ["k", "none"], ["one"]),
         h.make_node("Gather", ["p", "one"], ["old"], axis=0), h.make_node("Add", ["old", "x"], ["new"]),
         h.make_node("ScatterND", ["p", "row", "new"], ["p2"], name="before"),
         h.make_node("ScatterND", ["q", "row", "new"], ["q2"], name="behind"), h.make_node("ReduceSum", ["q"], ["was"], keepdims=0),
         h.make_node("Expand", ["row", "wide"], ["places"]),
         h.make_node("ScatterElements", ["r", "places", "x"], ["ra"], name="first", axis=0),
         h.make_node("ScatterND", ["ra", "row", "new"], ["r2"], name="second", reduction="add"),
         h.make_node("Add", ["s", "was"], ["s2"]), h.make_node("Identity", ["c"], ["c2"])],
        "body", [vi("i", I, []), vi("c", B, []), *[vi(n, F, [4, 3]) for n in "pqr"], vi("s", F, [])],
        [vi("c2", B, []), *[vi(n + "2", F, [4, 3]) for n in "pqr"], vi("s2", F, [])])
    names = ["yp", "yq", "yr", "ys"]
    g = h.make_graph([h.make_node("Loop", ["n", "", "a", "a", "b", "z"], names, name="loop", body=body)], "rows",
                     [vi("n", I, []), vi("a", F, [4, 3]), vi("b", F, [4, 3]), vi("x", F, [1, 3]), vi("z", F, [])],
                     [vi(n, F, [4, 3]) for n in names[:3]] + [vi("ys", F, [])])
    r = np.random.RandomState(9)
    v = [r.standard_normal(s).astype(np.float32) for s in ((4, 3), (4, 3), (1, 3))]
    return g, [[np.int64(n), *v, np.float32(0)] for n in (0, 1, 3, 9)]


def main():
    for make in (counted, exchanged, until, rows):
        g, runs = make()
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], producer_name="make_loops")
        m.ir_version = 8
        onnx.checker.check_model(m, full_check=True)
        folder = os.path.join(sys.argv[1], g.name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        seen = []
        for k, values in enumerate(runs):
            values = [np.asarray(v) for v in values]
            out = s.run(None, dict(zip([i.name for i in s.get_inputs()], values)))
            assert all(np.isfinite(o).all() for o in out), g.name
            seen.append(out)
            os.makedirs(os.path.join(folder, f"s{k}", "expect"), exist_ok=True)
            for i, v in enumerate(values):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), v)
            for i, v in enumerate(out):
                np.save(os.path.join(folder, f"s{k}", "expect", f"output_{i}.npy"), v)
        assert len({o[0].tobytes() for o in seen}) > 1, "runs that cannot be told apart"


main()
