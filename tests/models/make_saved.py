#!/usr/bin/env python3
"""Makes tests/models/saved: models of open sizes as onnxruntime's optimiser saves them, with operators of its own in the place of what it
fused, random weights, inputs of several sizes and the outputs of onnxruntime without further optimisation.

    python make_saved.py FOLDER          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort

from make_open import G

LEVELS = ort.GraphOptimizationLevel


def reals():
    """Convolutions of one and two axes and products, with the activations that are fused into them: FusedConv, FusedGemm."""
    g = G(31)
    x = g.inp("x", ["B", 3, "H", "W"])
    y = g.op("LeakyRelu", g.conv(x, 3, 6, strides=[2, 2], act=False), alpha=0.2)
    z = g.op("HardSigmoid", g.conv(y, 6, 6, act=False), alpha=0.3, beta=0.4)
    z = g.op("Clip", g.conv(z, 6, 6, act=False), g.c(-0.2, np.float32), g.c(0.6, np.float32))
    y = g.op("Relu", g.op("Add", g.conv(z, 6, 6, act=False), y))
    line = g.op("ReduceMean", y, axes=[3], keepdims=0)
    line = g.op("Tanh", g.op("Conv", line, g.w(8, 6, 3), g.w(8), kernel_shape=[3], pads=[2, 0]))
    row = g.op("ReduceMax", line, axes=[2], keepdims=0)
    for activation, more in [("Relu", {}), ("LeakyRelu", dict(alpha=0.3)), ("Elu", dict(alpha=0.7)), ("Softplus", {})]:
        row = g.op(activation, g.op("Gemm", row, g.w(8, 8), g.w(8), transB=1, alpha=0.5, beta=1.5), **more)
    g.out("line", line, ["B", 8, "h"])
    g.out("row", row, ["B", 8])
    return g, LEVELS.ORT_ENABLE_EXTENDED, {"FusedConv", "FusedGemm"}, [[g.r.randn(b, 3, *s)] for b, s in [(1, (4, 4)), (3, (9, 17)), (2, (1, 30))]]


def bytes_():
    """Convolutions of bytes whose channels stand last: QLinearConv and NhwcMaxPool of com.microsoft."""
    g = G(32)

    def rounded(v, scale, zero):
        scale, zero = g.c(scale, np.float32), g.c(zero, np.uint8)
        return g.op("DequantizeLinear", g.op("QuantizeLinear", v, scale, zero), scale, zero)

    def conv(v, i, o, group=1, **attrs):
        w = g.op("DequantizeLinear", g.c(g.r.randint(-127, 128, (o, i // group, 3, 3)), np.int8), g.c(g.r.rand(o) * 0.002 + 0.001, np.float32),
                 g.c(np.zeros(o), np.int8), axis=0)
        return g.op("Conv", v, w, kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=group, **attrs)

    x = rounded(g.inp("x", ["B", 4, "H", "W"]), 0.03, 120)
    y = rounded(g.op("Relu", conv(x, 4, 8)), 0.02, 0)
    y = rounded(g.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), 0.02, 0)
    y = rounded(conv(y, 8, 8, group=8), 0.02, 130)
    y = rounded(conv(y, 8, 5, strides=[2, 2], dilations=[2, 2]), 0.02, 127)
    g.out("y", y, ["B", 5, "h", "w"])
    return g, LEVELS.ORT_ENABLE_ALL, {"QLinearConv", "NhwcMaxPool"}, [[g.r.randn(b, 4, *s)] for b, s in [(1, (6, 7)), (3, (9, 17)), (2, (5, 30))]]


def session(model, level, saved=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    if saved:
        options.optimized_model_filepath = saved
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main():
    for make in (reals, bytes_):
        g, level, fused, runs = make()
        folder = os.path.join(sys.argv[1], make.__name__.strip("_"))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "model.onnx")
        session(g.model("saved").SerializeToString(), level, path)
        there = {n.op_type for n in onnx.load(path).graph.node if n.domain == "com.microsoft"}
        assert there == fused, there
        right = session(path, LEVELS.ORT_DISABLE_ALL)
        for k, run in enumerate(runs):
            values = [v.astype(np.float32) for v in run]
            expect = os.path.join(folder, f"s{k}", "expect")
            os.makedirs(expect, exist_ok=True)
            for i, v in enumerate(values):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), v)
            for i, v in enumerate(right.run(None, {i.name: v for i, v in zip(right.get_inputs(), values)})):
                np.save(os.path.join(expect, f"output_{i}.npy"), v)
        print(f"{folder}: {sorted(there)}, {len(runs)} runs")


if __name__ == "__main__":
    main()
