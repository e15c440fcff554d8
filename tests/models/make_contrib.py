#!/usr/bin/env python3
"""Makes tests/models/contrib: operators of com.microsoft in forms that are easily computed otherwise
than by onnxruntime, and onnxruntime's outputs.

    python make_contrib.py FOLDER [NAME ...]          (in the environment of tests/reference/requirements.txt, onnxruntime 1.31)

One folder a model: model.onnx, s0/input_<i>.npy and s0/expect/output_<i>.npy. Each node of a model
makes outputs of the model.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

HALF = np.float16


class Model:
    """A model under construction: arrays become inputs, or constants."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.inputs, self.feed, self.constants, self.nodes, self.outputs, self.stated = [], [], [], [], [], []

    def reals(self, *shape, scale=0.5, t=np.float32):
        return (self.rng.randn(*shape) * scale).astype(t)

    def ints(self, t, *shape):
        i = np.iinfo(t)
        return self.rng.randint(max(i.min, -64), min(i.max, 255) + 1, shape).astype(t)

    def given(self, array):
        array = np.asarray(array)
        name = f"x{len(self.feed)}"
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        self.feed.append(array)
        return name

    def c(self, array, t=None):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, t), name))
        return name

    def node(self, op, inputs, count=1, domain="com.microsoft", out=True, **attrs):
        """Adds a node; `count` lists its outputs by `1` (used) and `0`, or is their number."""
        used = [1] * count if isinstance(count, int) else count
        k = len(self.nodes)
        names = [f"v{k}_{i}" if u else "" for i, u in enumerate(used)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, name=f"n{k}", **attrs))
        if out:
            self.outputs += [n for n in names if n]
        return names[0]

    def build(self):
        outs = [helper.make_empty_tensor_value_info(n) for n in self.outputs]
        graph = helper.make_graph(self.nodes, "contrib", self.inputs, outs, self.constants, value_info=self.stated)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def grouped():
    """GroupQueryAttention: a cap with a bias, both directions over rows of two lengths, sinks, an empty window, scales without meaning."""
    m = Model(1)
    f, heads = m.reals, dict(num_heads=4, kv_num_heads=2)
    qkv = [m.given(f(2, 4, 64)), m.given(f(2, 4, 32)), m.given(f(2, 4, 32))]
    base = [*qkv, "", "", m.given(np.array([3, 3], np.int32)), m.c(4, np.int32)]
    shorter = [*qkv, "", "", m.given(np.array([3, 2], np.int32)), m.c(4, np.int32)]
    bias = m.given(f(1, 4, 4, 4, scale=3))
    m.node("GroupQueryAttention", base + ["", "", "", bias], 3, softcap=1.0, **heads)
    m.node("GroupQueryAttention", shorter, 3, causal=0, **heads)
    m.node("GroupQueryAttention", base + ["", "", "", bias, m.c(f(4))], 3, softcap=2.0, **heads)
    m.node("GroupQueryAttention", base, 3, smooth_softmax=1, **heads)
    m.node("GroupQueryAttention", base, 3, smooth_softmax=-1, local_window_size=0, **heads)
    scale = m.c([0.1], np.float32)
    m.node("GroupQueryAttention", base + [""] * 5 + [scale, scale], 3, **heads)
    return m


def masks():
    """Attention: masks with negative entries, with ends and starts, and a bias whose value part is wider."""
    m = Model(2)
    f = m.reals
    x, w, b = m.given(f(2, 3, 6)), m.c(f(6, 48)), m.c(f(48))
    m.node("Attention", [x, w, b, m.given(np.array([[1, -1, 1], [1, 1, 0]], np.int32))], num_heads=2)
    m.node("Attention", [x, w, b, m.given(np.array([2, 3, 0, 1], np.int32))], num_heads=2)
    q = m.node("MatMul", [x, m.c(f(6, 16))], domain="", out=False)
    v = m.node("MatMul", [x, m.c(f(6, 24))], domain="", out=False)
    m.node("MultiHeadAttention", [q, q, v, m.c(f(56))], num_heads=2)
    return m


def half():
    """Half precision: a filter and sums beyond its range, and scales of its type."""
    m = Model(3)
    f, h = m.reals, HALF
    q = [m.given(f(1, 3, 16, t=h)) for _ in range(3)]
    m.node("MultiHeadAttention", [*q, "", m.given(np.zeros((1, 3), np.int32))], num_heads=2, mask_filter_value=-1e9)
    x, skip = m.given(np.full((1, 1, 8), 4e4, h)), m.given(np.full((1, 1, 8), 3e4, h) * np.array([1, -1] * 4, h))
    m.node("SkipLayerNormalization", [x, skip, m.c(f(8, t=h)), m.c(f(8, t=h))], epsilon=1e-5)
    m.node("SkipSimplifiedLayerNormalization", [x, skip, m.c(f(8, t=h))], epsilon=1e-5)
    m.node("SimplifiedLayerNormalization", [m.given(f(2, 3, 8, t=h)), m.c(f(8))], domain="")
    a, b, s = m.given(m.ints(np.uint8, 3, 4)), m.c(m.ints(np.int8, 4, 5)), m.c(0.02, h)
    m.node("MatMulIntegerToFloat", [a, b, s, s])
    m.node("MatMulIntegerToFloat", [a, b, m.given(np.array(0.01, h)), m.given(np.array(0.01, h)), "", "", m.c(f(5, t=h))])
    m.node("QAttention", [m.given(m.ints(np.uint8, 1, 3, 6)), m.c(m.ints(np.int8, 6, 48)), m.c(f(48, t=h)), m.c(0.01, h), m.c(0.01, h), "",
                          m.c(128, np.uint8), m.c(0, np.int8)], num_heads=2)
    return m


def norms():
    """Normalisations with all outputs, and of doubles; embeddings with a mask index."""
    m = Model(4)
    f = m.reals
    x = m.given(f(2, 3, 8))
    m.node("SkipSimplifiedLayerNormalization", [x, x, m.c(f(8))], 4)
    m.node("SimplifiedLayerNormalization", [m.given(f(2, 3, 8, t=np.float64)), m.c(f(8, t=np.float64))], 2, domain="")
    ids, mask = m.given(np.array([[0, 1]], np.int32)), m.given(np.array([[1, 0]], np.int32))
    m.node("EmbedLayerNormalization", [ids, "", m.c(f(11, 8)), m.c(f(4, 8)), "", m.c(f(8)), m.c(f(8)), mask], 2, epsilon=1e-5, mask_index_type=1)
    return m


def products():
    """Products of vectors, of batches between rows and columns, and of grouped weights; singular matrices; a softmax over merged axes."""
    m = Model(5)
    f = m.reals
    s = m.c([0.1], np.float32)
    m.node("MatMulIntegerToFloat", [m.given(m.ints(np.uint8, 4)), m.c(m.ints(np.int8, 4)), s, s])
    m.node("FusedMatMul", [m.given(f(3, 2, 4)), m.given(f(2, 4, 5))], transBatchA=1)
    m.node("FusedMatMul", [m.given(f(3, 2, 4)), m.given(f(3, 2, 4))], transBatchA=1, transBatchB=1, transB=1, alpha=0.5)
    weights = [m.c(m.ints(np.uint8, 5, 2, 8)), m.c(np.abs(f(10)))]
    for ids in [np.arange(32) // 16, np.arange(32) % 2]:
        m.node("MatMulNBits", [m.given(f(3, 32)), *weights, "", m.c(ids, np.int32)], K=32, N=5, bits=4, block_size=16)
    m.node("MatMulInteger16", [m.given(m.ints(np.int16, 2, 3)), m.given(m.ints(np.int16, 3, 4))])
    a, b = m.given(f(3, 4)), m.given(f(2, 4))
    m.node("CDist", [a, b], metric="euclidean")
    m.node("CDist", [a, b], metric="sqeuclidean")
    m.node("FusedConv", [m.given(f(1, 2, 3, 3)), m.c(f(2, 2, 1, 1))], activation="HardSwish")
    gemm = [m.given(f(2, 3)), m.c(f(3, 4))]
    m.node("FusedGemm", gemm, activation="Selu", activation_alpha=1.6, activation_gamma=1.05)
    for name in ["ScaledTanh", "ParametricSoftplus"]:
        m.node("FusedGemm", gemm, activation=name, activation_alpha=0.7, activation_beta=0.4)
    m.node("FusedGemm", gemm, activation="Celu", activation_alpha=0.7)
    singular = np.array([[[1, 0], [0, 2]], [[1, 2], [2, 4]], [[np.nan, 0], [0, 1]], [[3, 1], [1, 2]]], np.float32)
    m.node("Inverse", [m.given(singular)])
    return m


def merged():
    """A softmax of bytes over all axes from one on."""
    m = Model(6)
    x = [m.given(m.ints(np.uint8, 3, 4, 2)), m.c(0.05, np.float32), m.c(9, np.uint8), m.c(1 / 256, np.float32), m.c(0, np.uint8)]
    m.node("QLinearSoftmax", x, axis=1, opset=12)
    return m


def standard():
    """Operators of the standard under the domain of onnxruntime."""
    m = Model(7)
    f = m.reals
    x = m.given(f(2, 3, 4))
    m.node("ExpandDims", [x, m.c(-2, np.int32)])
    m.node("GatherND", [x, m.given(np.array([[0, 1], [1, 2]], np.int32))])
    m.node("GridSample", [m.given(f(1, 1, 4, 4)), m.given(f(1, 2, 2, 2))], mode="bilinear")
    m.node("Pad", [m.given(f(2, 2)), m.c([[1, 0, 0, 1]], np.int64), m.given(np.array([2], np.float32))])
    m.node("Range", [m.given(np.array([1], np.float32)), m.given(np.array([5], np.float32)), m.given(np.array([1.5], np.float32))])
    m.node("Range", [m.given(np.array(1, np.int16)), m.given(np.array(5, np.int16))])
    m.node("Trilu", [m.given(f(3, 3)), m.c(1, np.int64)], upper=0)
    m.node("Unique", [m.given(np.array([3, 1, 3, 2], np.float32))], 3)
    return m


def ranks():
    """Operators that must know the rank of what another operator of onnxruntime makes, and of a value whose rank the model states."""
    m = Model(8)
    f = m.reals
    x, w = m.given(f(2, 5, 16)), m.c(f(16, 16))
    e = m.node("SkipLayerNormalization", [x, x, m.c(f(16))], out=False)
    k = m.node("MatMul", [e, w], domain="", out=False)
    m.node("MultiHeadAttention", [e, k, k], num_heads=2)
    c, z = m.c(0.05, np.float32), m.c(100, np.uint8)
    p = m.node("NhwcMaxPool", [m.given(m.ints(np.uint8, 1, 8, 8, 16))], out=False, kernel_shape=[2, 2])
    m.node("QLinearGlobalAveragePool", [p, c, z, c, z], channels_last=1)
    shape = m.given(np.array([2, 5, 16], np.int64))
    r = m.node("Reshape", [x, m.node("Identity", [shape], domain="", out=False)], domain="", out=False)
    m.stated.append(helper.make_tensor_value_info(r, onnx.TensorProto.FLOAT, [2, 5, 16]))
    m.node("MultiHeadAttention", [r, r, r], num_heads=2)
    return m


ALL = [grouped, masks, half, norms, products, merged, standard, ranks]


def main(folder, names):
    for make in ALL:
        if names and make.__name__ not in names:
            continue
        m = make()
        model = m.build()
        so = ort.SessionOptions()
        so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        s = ort.InferenceSession(model.SerializeToString(), so, providers=["CPUExecutionProvider"])
        outs = s.run(m.outputs, {i.name: a for i, a in zip(m.inputs, m.feed)})
        at = os.path.join(folder, make.__name__)
        os.makedirs(os.path.join(at, "s0", "expect"), exist_ok=True)
        onnx.save(model, os.path.join(at, "model.onnx"))
        for k, a in enumerate(m.feed):
            np.save(os.path.join(at, "s0", f"input_{k}.npy"), a)
        for k, a in enumerate(outs):
            np.save(os.path.join(at, "s0", "expect", f"output_{k}.npy"), a)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
