#!/usr/bin/env python3
"""Makes tests/models/gear_scans: small ONNX models of scans and loops over a size `b` that gears
set, inputs and the outputs of onnxruntime.

    python make_gear_scans.py FOLDER          (in the environment of tests/reference/requirements.txt)

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
SIZES = (1, 4, 7)


def scan():
    """Slices from the front, joined from the back and along another axis."""
    body = h.make_graph(
        [h.make_node("Add", ["s", "r"], ["t"]), h.make_node("Identity", ["t"], ["o"]), h.make_node("Mul", ["t", "r"], ["p"])],
        "body", [vi("s", F, [3]), vi("r", F, [3])], [vi("t", F, [3]), vi("o", F, [3]), vi("p", F, [3])])
    node = h.make_node("Scan", ["s0", "x"], ["last", "y", "z"], body=body, num_scan_inputs=1,
                       scan_output_directions=[0, 1], scan_output_axes=[0, 1])
    return h.make_graph([node], "scan", [vi("s0", F, [3]), vi("x", F, ["b", 3])],
                        [vi("last", F, [3]), vi("y", F, ["b", 3]), vi("z", F, [3, "b"])])


def nested():
    """A scan of each row, the rows from the back."""
    inner = h.make_graph([h.make_node("Add", ["a", "e"], ["a2"]), h.make_node("Identity", ["a2"], ["o"])], "inner",
                         [vi("a", F, []), vi("e", F, [])], [vi("a2", F, []), vi("o", F, [])])
    outer = h.make_graph([h.make_node("Scan", ["s", "r"], ["s2", "rows"], body=inner, num_scan_inputs=1,
                                      scan_output_directions=[1])], "outer",
                         [vi("s", F, []), vi("r", F, ["b"])], [vi("s2", F, []), vi("rows", F, ["b"])])
    node = h.make_node("Scan", ["s0", "x"], ["last", "y"], body=outer, num_scan_inputs=1, scan_output_axes=[1],
                       scan_input_directions=[1])
    return h.make_graph([node], "nested", [vi("s0", F, []), vi("x", F, ["b", "b"])],
                        [vi("last", F, []), vi("y", F, ["b", "b"])])


def counted():
    """A loop whose count is a size; numbers, truths and whole numbers in its scan outputs."""
    body = h.make_graph(
        [h.make_node("Gather", ["x", "i"], ["r"]), h.make_node("Add", ["s", "r"], ["t"]), h.make_node("Mul", ["t", "r"], ["o"]),
         h.make_node("Greater", ["t", "r"], ["g"]), h.make_node("Mul", ["i", "i"], ["q"]), h.make_node("Identity", ["c"], ["c2"])],
        "body", [vi("i", I, []), vi("c", B, []), vi("s", F, [3])],
        [vi("c2", B, []), vi("t", F, [3]), vi("o", F, [3]), vi("g", B, [3]), vi("q", I, [])])
    nodes = [h.make_node("Shape", ["x"], ["sizes"]), h.make_node("Gather", ["sizes", "zero"], ["n"]),
             h.make_node("Loop", ["n", "", "s0"], ["last", "y", "more", "squares"], body=body)]
    return h.make_graph(nodes, "counted", [vi("s0", F, [3]), vi("x", F, ["b", 3])],
                        [vi("last", F, [3]), vi("y", F, ["b", 3]), vi("more", B, ["b", 3]), vi("squares", I, ["b"])],
                        [nh.from_array(np.array(0), "zero")])


def ended():
    """A loop that its values end."""
    body = h.make_graph(
        [h.make_node("Add", ["s", "s"], ["t"]), h.make_node("Identity", ["t"], ["o"]),
         h.make_node("ReduceSum", ["t"], ["q"], keepdims=0), h.make_node("Less", ["q", "limit"], ["c2"])],
        "body", [vi("i", I, []), vi("c", B, []), vi("s", F, ["b"])], [vi("c2", B, []), vi("t", F, ["b"]), vi("o", F, ["b"])])
    return h.make_graph([h.make_node("Loop", ["n", "", "x"], ["last", "y"], body=body)], "ended", [vi("x", F, ["b"])],
                        [vi("last", F, ["b"]), vi("y", F, ["turns", "b"])],
                        [nh.from_array(np.array(9), "n"), nh.from_array(np.float32(100), "limit")])


def main(out):
    for make in (scan, nested, counted, ended):
        model = h.make_model(make(), opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        to = os.path.join(out, model.graph.name)
        os.makedirs(to, exist_ok=True)
        onnx.save(model, os.path.join(to, "model.onnx"))
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for k, b in enumerate(SIZES if make is not ended else ()):
            r = np.random.RandomState(b)
            shape = lambda i: [b if isinstance(d, str) else d for d in i.shape]
            given = {i.name: np.asarray(r.standard_normal(shape(i)), np.float32) for i in session.get_inputs()}
            run = os.path.join(to, f"s{k}")
            os.makedirs(os.path.join(run, "expect"), exist_ok=True)
            for i, v in enumerate(given.values()):
                np.save(os.path.join(run, f"input_{i}.npy"), v)
            for i, v in enumerate(session.run(None, given)):
                np.save(os.path.join(run, "expect", f"output_{i}.npy"), v)


if __name__ == "__main__":
    main(sys.argv[1])
