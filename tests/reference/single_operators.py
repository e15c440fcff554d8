#!/usr/bin/env python3
"""Times single operators beside onnxruntime, with one thread each: this shows what whole models hide.

    single_operators.py GE PLUGINS [--seconds 0.15] [NAME...]

Every case is a model of one operator, or of the few nodes that exporters write for one. The table has the least time of each program in
microseconds and the ratio of ge to onnxruntime, the greatest first. Needs the packages of requirements.txt.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(0)
DTYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8, "tensor(float16)": np.float16, "tensor(bool)": bool, "tensor(int8)": np.int8,
}


def floats(*sizes):
    return (RNG.standard_normal(sizes) * 0.5).astype(np.float32)


def model(nodes, inputs, outputs, constants=None, opset=18):
    values = [nh.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    ins = [h.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    graph = h.make_graph(nodes, "g", ins, [h.make_empty_tensor_value_info(o) for o in outputs], values)
    imports = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)]
    made = h.make_model(graph, opset_imports=imports, ir_version=9 if opset < 21 else 10)
    return onnx.shape_inference.infer_shapes(made, data_prop=True)


def one(op, *shapes, constants=(), outputs=1, types=None, **attrs):
    """A node with the inputs `a`, `b`, ... and the constants after them; None leaves an input out."""
    types = types or [T.FLOAT] * len(shapes)
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    given = ["" if v is None else f"k{i}" for i, v in enumerate(constants)]
    outs = [f"y{i}" for i in range(outputs)]
    node = h.make_node(op, names + given, outs, **attrs)
    return model([node], list(zip(names, types, shapes)), outs, {k: v for k, v in zip(given, constants) if k})


def conv(channels, out, size, kernel, group=1, op="Conv", **attrs):
    weights = (channels, out // group, *kernel) if op == "ConvTranspose" else (out, channels // group, *kernel)
    return one(op, [1, channels, *size], constants=[floats(*weights) * 0.2], kernel_shape=kernel, group=group, **attrs)


def chain(shape, *steps):
    """A chain of nodes: operator, constants after the first input, attributes."""
    nodes, constants, at = [], {}, "a"
    for i, (op, extra, attrs) in enumerate(steps):
        names = []
        for k, v in enumerate(extra):
            names.append(v if isinstance(v, str) else f"c{i}_{k}")
            if not isinstance(v, str):
                constants[names[-1]] = v
        nodes.append(h.make_node(op, [at, *names], [f"v{i}"], **attrs))
        at = f"v{i}"
    return model(nodes, [("a", T.FLOAT, shape)], [at], constants)


def cases():
    for rows, width in ((1024, 64), (256, 768), (4096, 17)):
        yield f"LayerNormalization {rows}x{width}", lambda r=rows, w=width: one(
            "LayerNormalization", [r, w], constants=[floats(w), floats(w)], axis=-1)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd"):
        for shape, axis in (([256, 1024], 1), ([4096, 32], 1), ([256, 1024], 0), ([8, 64, 28, 28], 1), ([64, 3136], 1)):
            yield f"{op} {'x'.join(map(str, shape))} axis {axis}", lambda o=op, s=shape, a=axis: one(
                o, s, constants=[np.array([a])], keepdims=0)
    for shape, axis in (([4, 21, 64, 64], 1), ([64, 3, 49, 49], -1), ([1, 1000], -1), ([4096, 17], -1), ([1536, 128], -1)):
        yield f"Softmax {'x'.join(map(str, shape))} axis {axis}", lambda s=shape, a=axis: one("Softmax", s, axis=a)
    for shape, axis in (([64, 1000], 1), ([4, 21, 64, 64], 1)):
        yield f"ArgMax {'x'.join(map(str, shape))}", lambda s=shape, a=axis: one("ArgMax", s, axis=a)
    yield "TopK 16x8400", lambda: one("TopK", [16, 8400], constants=[np.array([100])], outputs=2)
    for equation, a, b in (("bhid,bhjd->bhij", [1, 8, 64, 64], [1, 8, 64, 64]), ("bqhd,bkhd->bhqk", [1, 64, 8, 64], [1, 64, 8, 64])):
        yield f"Einsum {equation}", lambda e=equation, a=a, b=b: one("Einsum", a, b, equation=e)
    for name, shape, attrs in (
        ("MaxPool 3x3 s2", [1, 64, 112, 112], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)),
        ("MaxPool 3x3 s1", [1, 64, 28, 28], dict(kernel_shape=[3, 3], pads=[1] * 4)),
        ("MaxPool 5x5 s1", [1, 128, 20, 20], dict(kernel_shape=[5, 5], pads=[2] * 4)),
        ("AveragePool 3x3 s1", [1, 64, 28, 28], dict(kernel_shape=[3, 3], pads=[1] * 4)),
        ("AveragePool 2x2 s2", [1, 64, 56, 56], dict(kernel_shape=[2, 2], strides=[2, 2])),
    ):
        yield name, lambda n=name, s=shape, a=attrs: one(n.split()[0], s, **a)
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]):
        yield f"Transpose {''.join(map(str, perm))}", lambda p=perm: one("Transpose", [2, 64, 48, 40], perm=p)
    for to in ("INT32", "INT64", "FLOAT16"):
        yield f"Cast {to}", lambda t=to: one("Cast", [256, 512], to=getattr(T, t))
    yield "Gather rows", lambda: one("Gather", [30000, 256], constants=[RNG.integers(0, 30000, (1, 128))])
    yield "Gather columns", lambda: one("Gather", [64, 512], constants=[RNG.integers(0, 512, 100)], axis=1)
    yield "GatherElements", lambda: one("GatherElements", [256, 512], constants=[RNG.integers(0, 512, (256, 100))], axis=1)
    yield "Concat last axis", lambda: one("Concat", [4096, 24], [4096, 8], axis=-1)
    yield "Split last axis", lambda: one("Split", [128, 768], outputs=3, axis=-1, num_outputs=3)
    yield "Tile", lambda: one("Tile", [64, 64], constants=[np.array([8, 8])])
    for mode, width in (("constant", 1), ("reflect", 3)):
        pads = np.array([0, 0, width, width] * 2)
        yield f"Pad {mode}", lambda m=mode, p=pads: one("Pad", [1, 64, 56, 56], constants=[p], mode=m)
    for mode in ("nearest", "linear", "cubic"):
        where = "asymmetric" if mode == "nearest" else "half_pixel"
        yield f"Resize {mode}", lambda m=mode, w=where: one(
            "Resize", [1, 32, 40, 40], constants=[None, np.array([1, 1, 2, 2], np.float32)], mode=m,
            coordinate_transformation_mode=w, nearest_mode="floor")
    yield "DepthToSpace", lambda: one("DepthToSpace", [1, 64, 40, 40], blocksize=2)
    yield "SpaceToDepth", lambda: one("SpaceToDepth", [1, 16, 80, 80], blocksize=2)
    for name, made in (
        ("ConvTranspose 2x2 s2", lambda: conv(64, 32, [40, 40], [2, 2], op="ConvTranspose", strides=[2, 2])),
        ("ConvTranspose 4x4 s2", lambda: conv(64, 32, [32, 32], [4, 4], op="ConvTranspose", strides=[2, 2], pads=[1] * 4)),
        ("Conv 7x7 s2", lambda: conv(3, 64, [224, 224], [7, 7], strides=[2, 2], pads=[3] * 4)),
        ("Conv 3x3 s2", lambda: conv(64, 128, [56, 56], [3, 3], strides=[2, 2], pads=[1] * 4)),
        ("Conv 3x3 d2", lambda: conv(64, 64, [28, 28], [3, 3], dilations=[2, 2], pads=[2] * 4)),
        ("Conv 5x5", lambda: conv(32, 64, [28, 28], [5, 5], pads=[2] * 4)),
        ("Conv 1x7", lambda: conv(128, 128, [17, 17], [1, 7], pads=[0, 3, 0, 3])),
        ("Conv 9, one axis", lambda: conv(128, 128, [400], [9], pads=[4, 4])),
        ("Conv 3x3x3", lambda: conv(16, 16, [16, 28, 28], [3, 3, 3], pads=[1] * 6)),
        ("Conv 32 groups", lambda: conv(128, 128, [28, 28], [3, 3], group=32, pads=[1] * 4)),
        ("depthwise 3x3", lambda: conv(32, 32, [56, 56], [3, 3], group=32, pads=[1] * 4)),
        ("depthwise 5x5", lambda: conv(48, 48, [56, 56], [5, 5], group=48, pads=[2] * 4)),
        ("depthwise 7x7", lambda: conv(96, 96, [56, 56], [7, 7], group=96, pads=[3] * 4)),
        ("depthwise 31, one axis", lambda: conv(256, 256, [200], [31], group=256, pads=[15, 15])),
    ):
        yield name, made
    for op in ("Erf", "Tanh", "Sigmoid", "Exp", "Relu", "HardSwish", "Sin", "Cos", "Atan", "Softplus", "Round"):
        yield op, lambda o=op: one(o, [256, 512])
    for op in ("Add", "Div", "Max"):
        yield op, lambda o=op: one(o, [256, 512], [256, 512])
    yield "Mul by channel", lambda: one("Mul", [1, 64, 56, 56], [1, 64, 1, 1])
    for m, k, n in ((1, 1024, 1000), (4, 768, 768), (32, 512, 512), (128, 256, 1024), (49, 96, 384)):
        yield f"MatMul {m}x{k}x{n}", lambda m=m, k=k, n=n: one("MatMul", [m, k], constants=[floats(k, n)])
    for b, m, k, n in ((12, 128, 64, 128), (192, 49, 32, 49), (1000, 4, 4, 4)):
        yield f"MatMul {b} of {m}x{k}x{n}", lambda b=b, m=m, k=k, n=n: one("MatMul", [b, m, k], [b, k, n])
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        yield op, lambda o=op, g=gates: one(
            o, [50, 1, 64], constants=[floats(1, g * 128, 64) * 0.2, floats(1, g * 128, 128) * 0.2, floats(1, 2 * g * 128)],
            hidden_size=128)
    for op, kind in (("Add", T.DOUBLE), ("Neg", T.INT64), ("Max", T.INT32)):
        many = 1 if op == "Neg" else 2
        yield f"{op} {T.DataType.Name(kind)}", lambda o=op, k=kind, m=many: one(o, *[[256, 512]] * m, types=[k] * m)
    yield "Mod INT64", lambda: one("Mod", [256, 512], types=[T.INT64], constants=[np.int64(7)])
    yield "Pow by INT64", lambda: one("Pow", [256, 512], constants=[np.int64(2)])
    for axis in (0, 1):
        yield f"ReduceMax INT64 axis {axis}", lambda a=axis: one("ReduceMax", [256, 1024], types=[T.INT64], constants=[np.array([a])])
        yield f"CumSum axis {axis}", lambda a=axis: one("CumSum", [256, 512], constants=[np.int64(a)])
    yield "TopK INT64", lambda: one("TopK", [64, 1000], types=[T.INT64], constants=[np.array([10])], outputs=2)
    yield "NonZero", lambda: one("NonZero", [256, 512])
    yield "Trilu", lambda: one("Trilu", [8, 256, 256], upper=0)
    lengths = np.array([50, 40, 30, 20, 10, 5, 3, 1])
    yield "ReverseSequence", lambda: one("ReverseSequence", [50, 8, 64], constants=[lengths], time_axis=0, batch_axis=1)
    for how in ("none", "add"):
        places, rows = RNG.integers(0, 512, (256, 100)), RNG.integers(0, 1024, (256, 1))
        yield f"ScatterElements {how}", lambda h=how, p=places: one(
            "ScatterElements", [256, 512], constants=[p, floats(256, 100)], axis=1, reduction=h)
        yield f"ScatterND {how}", lambda h=how, r=rows: one("ScatterND", [1024, 64], constants=[r, floats(256, 64)], reduction=h)
    yield "Einsum i,j->ij", lambda: one("Einsum", [256], [512], equation="i,j->ij")
    yield "Einsum ij,jk,kl->il", lambda: one("Einsum", [32, 32], [32, 32], [32, 32], equation="ij,jk,kl->il")
    yield "LpNormalization", lambda: one("LpNormalization", [1, 64, 56, 56], axis=1, p=2)
    yield "MeanVarianceNormalization", lambda: one("MeanVarianceNormalization", [1, 64, 28, 28])
    yield "GridSample", lambda: one("GridSample", [1, 32, 28, 28], [1, 28, 28, 2])
    yield "Col2Im", lambda: one("Col2Im", [1, 144, 676], constants=[np.array([28, 28]), np.array([3, 3])])
    regions = np.abs(floats(50, 4)) * 8 + np.array([0, 0, 10, 10], np.float32)
    yield "RoiAlign", lambda: one(
        "RoiAlign", [1, 64, 28, 28], constants=[regions, np.zeros(50, np.int64)], output_height=7, output_width=7,
        sampling_ratio=2)
    scale, zero = np.float32(0.02), np.uint8(3)
    yield "QuantizeLinear", lambda: one("QuantizeLinear", [256, 512], constants=[scale, zero])
    yield "DequantizeLinear", lambda: one("DequantizeLinear", [256, 512], types=[T.UINT8], constants=[scale, zero])
    yield "GELU of Erf", lambda: chain(
        [128, 3072], ("Div", [np.float32(2 ** 0.5)], {}), ("Erf", [], {}), ("Add", [np.float32(1)], {}), ("Mul", ["a"], {}),
        ("Mul", [np.float32(0.5)], {}))
    yield "Swish", lambda: chain([1, 64, 56, 56], ("Sigmoid", [], {}), ("Mul", ["a"], {}))


def inputs(session):
    sizes = lambda i: [d if isinstance(d, int) else 1 for d in i.shape]
    real = lambda i: "float" in i.type or "double" in i.type
    whole = lambda i: RNG.integers(0, 2 if "bool" in i.type else 100, sizes(i))
    draw = lambda i: RNG.standard_normal(sizes(i)) if real(i) else whole(i)
    return {i.name: draw(i).astype(DTYPES[i.type]) for i in session.get_inputs()}


def theirs(path, seconds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed, best, end = inputs(session), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def ours(args, path):
    om, common = path[:-5] + ".om", ["-q", "--plugins", args.plugins]
    subprocess.run([args.ge, "compile", path, "-o", om, *common], check=True, capture_output=True)
    command = [args.ge, "bench", om, "--threads", "1", "--duration", str(args.seconds), "--json", *common]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["latency_ms"]["min"] * 1e3


def main(cases):
    p = argparse.ArgumentParser()
    p.add_argument("ge"), p.add_argument("plugins"), p.add_argument("names", nargs="*")
    p.add_argument("--seconds", type=float, default=0.15)
    args = p.parse_intermixed_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, made in cases():
            if args.names and not any(n in name for n in args.names):
                continue
            path = os.path.join(folder, "m.onnx")
            onnx.save(made(), path)
            try:
                a, b = ours(args, path), theirs(path, args.seconds)
            except Exception as e:  # One of the two does not take the model.
                print(f"not measured: {name}: {str(getattr(e, 'stderr', e))[:200]}")
                continue
            rows.append((a / b, name, a, b))
    print("| operator | ge us | onnxruntime us | ge/onnxruntime |\n|---|---:|---:|---:|")
    for ratio, name, a, b in sorted(rows, reverse=True):
        print(f"| {name} | {a:.1f} | {b:.1f} | {ratio:.2f} |")
    if rows:
        print(f"\ngeometric mean {np.exp(np.mean([np.log(r[0]) for r in rows])):.2f} of {len(rows)}")


if __name__ == "__main__":
    main(cases)
