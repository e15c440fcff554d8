#!/usr/bin/env python3
"""Times many more single operators beside onnxruntime, with the options and the table of `single_operators.py`: other types, axes, shapes
and windows, and the operators of `model_operators.py`. Its purpose is to find outliers.

    more_operators.py GE PLUGINS [--seconds 0.15] [NAME...]
"""
import numpy as np
from onnx import TensorProto as T

import model_operators
from single_operators import RNG, conv, floats, main, one

TYPES = {"bool": T.BOOL, "i32": T.INT32, "i64": T.INT64, "u8": T.UINT8, "f16": T.FLOAT16, "f64": T.DOUBLE, "f32": T.FLOAT}
PLANE = [256, 512]


def ints(*values):
    return np.array(values, np.int64)


def maps():
    for t in ("i64", "i32", "f64", "f16"):
        for op in ("Add", "Mul"):
            yield f"{op} {t}", lambda o=op, t=t: one(o, PLANE, PLANE, types=[TYPES[t]] * 2)
    for t in ("f32", "i64", "i32"):
        for op in ("Greater", "Equal"):
            yield f"{op} {t}", lambda o=op, t=t: one(o, PLANE, PLANE, types=[TYPES[t]] * 2)
    for op in ("And", "Or", "Xor"):
        yield op, lambda o=op: one(o, PLANE, PLANE, types=[T.BOOL] * 2)
    yield "Not", lambda: one("Not", PLANE, types=[T.BOOL])
    for t in ("f32", "i64"):
        yield f"Where {t}", lambda t=t: one("Where", PLANE, PLANE, PLANE, types=[T.BOOL, TYPES[t], TYPES[t]])
    yield "Where f32 scalar", lambda: one("Where", PLANE, PLANE, types=[T.BOOL, T.FLOAT], constants=[np.float32(-1e9)])
    for a, b in (
        ([256, 1], [1, 512]), ([16, 1, 64, 64], [16, 16, 64, 64]), ([1, 64, 1, 56], [1, 64, 56, 56]), ([512], PLANE), ([256, 1], PLANE),
        ([32, 8, 1, 64], [32, 1, 32, 64]), ([8, 16, 16, 3], [3]), ([1000, 3], [1000, 1]),
    ):
        for op in ("Add", "Div"):
            yield f"{op} {a} {b}", lambda o=op, a=a, b=b: one(o, a, b)
    yield "Mod i64", lambda: one("Mod", PLANE, types=[T.INT64], constants=[np.int64(7)])
    yield "Mod f32", lambda: one("Mod", PLANE, PLANE, fmod=1)
    for power in (2, 3, 0.5, 1.7):
        yield f"Pow {power}", lambda p=power: one("Pow", PLANE, constants=[np.float32(p)])
    yield "Pow", lambda: one("Pow", PLANE, PLANE)
    for op in (
        "Abs", "Neg", "Sqrt", "Reciprocal", "Log", "Floor", "Sign", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "Mish", "Softsign", "Tan", "Asin",
        "Sinh", "Cosh", "Asinh", "Atanh", "Celu", "ThresholdedRelu", "IsNaN", "IsInf",
    ):
        yield op, lambda o=op: one(o, PLANE)
    for op in ("Abs", "Neg", "Sign"):
        yield f"{op} i64", lambda o=op: one(o, PLANE, types=[T.INT64])
    for shape in (PLANE, [32, 256, 1], [32, 64, 7, 7]):
        yield f"BatchNormalization {shape}", lambda s=shape: one("BatchNormalization", s, constants=[abs(floats(s[1])) + np.float32(0.5)] * 4)
    yield "PRelu", lambda: one("PRelu", [1, 64, 56, 56], constants=[floats(64, 1, 1)])
    yield "Clip", lambda: one("Clip", PLANE, constants=[np.float32(0), np.float32(6)])
    yield "Sigmoid f16", lambda: one("Sigmoid", PLANE, types=[T.FLOAT16])
    for a, b in (
        ("i64", "f32"), ("i32", "f32"), ("u8", "f32"), ("bool", "f32"), ("f16", "f32"), ("f32", "u8"), ("f32", "bool"), ("i64", "i32"),
        ("f64", "f32"), ("f32", "f64"), ("bool", "i64"),
    ):
        yield f"Cast {a} {b}", lambda a=a, b=b: one("Cast", PLANE, types=[TYPES[a]], to=TYPES[b])
    for n in (3, 4):
        yield f"Sum of {n}", lambda n=n: one("Sum", *[PLANE] * n)
        yield f"Max of {n}", lambda n=n: one("Max", *[PLANE] * n)


def folds():
    for t in ("i64", "i32"):
        for op in ("ReduceSum", "ReduceMax"):
            for axis in (0, 1):
                yield f"{op} {t} axis {axis}", lambda o=op, t=t, a=axis: one(o, [256, 1024], types=[TYPES[t]], constants=[ints(a)])
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceLogSumExp", "ReduceL1", "ReduceSumSquare", "ReduceLogSum"):
        for shape, axes in (
            ([16, 64, 7, 7], [2, 3]), ([1, 320, 56, 56], [2, 3]), ([8, 128, 768], [1]), ([64, 12, 64, 3], [3]), ([32, 5, 17, 33], [1, 3]),
            ([131072], [0]), ([2, 3, 224, 224], [0, 2, 3]), ([1000, 8], [0]),
        ):
            yield f"{op} {shape} axes {axes}", lambda o=op, s=shape, a=axes: one(o, s, constants=[ints(*a)])
    yield "GlobalAveragePool", lambda: one("GlobalAveragePool", [1, 1280, 7, 7])
    yield "GlobalMaxPool", lambda: one("GlobalMaxPool", [1, 512, 14, 14])
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (
            ([2, 1000, 1000], 2), ([8, 10], 1), ([512, 1000], 1), ([1, 8, 128, 128], 3), ([32, 128, 17], 1), ([4, 8, 1, 512], 3), ([256, 3], 1),
            ([1, 2, 100, 5], 2),
        ):
            yield f"{op} {shape} axis {axis}", lambda o=op, s=shape, a=axis: one(o, s, axis=a)
    for shape, axis in (([64, 1000], 0), ([32, 3, 5], 1), ([8, 128, 64], 2), ([1, 150, 64, 64], 1)):
        yield f"ArgMax {shape} axis {axis}", lambda s=shape, a=axis: one("ArgMax", s, axis=a)
    for axis in (0, 1):
        yield f"CumSum axis {axis}", lambda a=axis: one("CumSum", PLANE, constants=[np.int64(a)])
    for k, shape, axis in ((1, [64, 1000], 1), (5, [64, 1000], 1), (512, [16, 512], 1), (10, [512, 64], 0)):
        yield f"TopK {k} of {shape} axis {axis}", lambda k=k, s=shape, a=axis: one("TopK", s, constants=[ints(k)], outputs=2, axis=a)
    for shape in ([1, 64, 56, 56], [4, 32, 28, 28], [16, 8, 100]):
        c = shape[1]
        yield f"InstanceNormalization {shape}", lambda s=shape, c=c: one("InstanceNormalization", s, constants=[floats(c), floats(c)])
        yield f"BatchNormalization {shape}", lambda s=shape, c=c: one(
            "BatchNormalization", s, constants=[floats(c), floats(c), floats(c), np.abs(floats(c)) + np.float32(0.1)])
        yield f"LpNormalization {shape}", lambda s=shape: one("LpNormalization", s, axis=1, p=2)
    yield "LRN", lambda: one("LRN", [1, 64, 28, 28], size=5)
    yield "MeanVarianceNormalization", lambda: one("MeanVarianceNormalization", [1, 64, 28, 28])
    for rows, width in ((128, 512), (1, 768), (49, 96), (3136, 96), (32, 4096)):
        yield f"LayerNormalization {rows}x{width}", lambda r=rows, w=width: one(
            "LayerNormalization", [r, w], constants=[floats(w), floats(w)], axis=-1)


def windows():
    for op, shape, attrs in (
        ("MaxPool", [1, 64, 56, 56], dict(kernel_shape=[2, 2], strides=[2, 2])),
        ("MaxPool", [1, 32, 111, 111], dict(kernel_shape=[3, 3], strides=[2, 2])),
        ("MaxPool", [1, 256, 13, 13], dict(kernel_shape=[13, 13], pads=[6] * 4)),
        ("MaxPool", [8, 64, 200], dict(kernel_shape=[3], strides=[2])),
        ("AveragePool", [1, 192, 35, 35], dict(kernel_shape=[3, 3], pads=[1] * 4)),
        ("AveragePool", [1, 768, 17, 17], dict(kernel_shape=[5, 5], strides=[3, 3])),
        ("AveragePool", [1, 16, 8, 28, 28], dict(kernel_shape=[2, 2, 2], strides=[2, 2, 2])),
        ("MaxPool", [1, 16, 8, 28, 28], dict(kernel_shape=[3, 3, 3], pads=[1] * 6)),
        ("LpPool", [1, 64, 28, 28], dict(kernel_shape=[3, 3], p=2)),
        ("MaxPool", [4, 8, 30, 30], dict(kernel_shape=[3, 3], strides=[1, 2], dilations=[2, 2])),
    ):
        yield f"{op} {shape} {attrs['kernel_shape']}", lambda o=op, s=shape, a=attrs: one(o, s, **a)
    pads = [1] * 4
    for c, o, size, kernel, attrs in (
        (3, 32, [224, 224], [3, 3], dict(strides=[2, 2], pads=pads)), (64, 64, [56, 56], [3, 3], dict(pads=pads)),
        (128, 128, [28, 28], [3, 3], dict(pads=pads)), (256, 256, [14, 14], [3, 3], dict(pads=pads)), (512, 512, [7, 7], [3, 3], dict(pads=pads)),
        (64, 256, [56, 56], [1, 1], {}), (256, 64, [56, 56], [1, 1], {}), (1024, 256, [14, 14], [1, 1], {}), (512, 2048, [7, 7], [1, 1], {}),
        (256, 512, [56, 56], [1, 1], dict(strides=[2, 2])), (128, 128, [17, 17], [7, 1], dict(pads=[3, 0, 3, 0])),
        (64, 96, [35, 35], [3, 3], dict(pads=pads)), (192, 320, [17, 17], [3, 3], dict(strides=[2, 2])), (48, 64, [35, 35], [5, 5], dict(pads=[2] * 4)),
        (1, 16, [28, 28], [5, 5], {}), (16, 32, [100], [3], dict(pads=[1, 1])), (80, 256, [300], [3], dict(pads=[1, 1])),
        (256, 256, [150], [5], dict(strides=[2], pads=[2, 2])), (32, 32, [64, 64], [3, 3], dict(pads=pads, dilations=[4, 4])),
        (8, 8, [128, 128], [3, 3], dict(pads=pads)), (64, 1, [56, 56], [1, 1], {}), (64, 3, [56, 56], [3, 3], dict(pads=pads)),
        (96, 96, [8, 16, 16], [3, 1, 1], dict(pads=[1, 0, 0, 1, 0, 0])), (3, 64, [8, 56, 56], [3, 7, 7], dict(strides=[1, 2, 2], pads=[1, 3, 3] * 2)),
        (128, 64, [13, 13], [3, 3], dict(pads=pads)), (64, 64, [1, 200], [1, 9], dict(pads=[0, 4, 0, 4])),
    ):
        yield f"Conv {c}>{o} {size} {kernel}", lambda c=c, o=o, s=size, k=kernel, a=attrs: conv(c, o, s, k, **a)
    for c, size, kernel, attrs in (
        (64, [112, 112], [3, 3], dict(strides=[2, 2], pads=pads)), (384, [14, 14], [3, 3], dict(pads=pads)), (960, [7, 7], [3, 3], dict(pads=pads)),
        (240, [28, 28], [5, 5], dict(strides=[2, 2], pads=[2] * 4)), (672, [14, 14], [5, 5], dict(pads=[2] * 4)),
        (384, [14, 14], [7, 7], dict(pads=[3] * 4)), (512, [100], [3], dict(pads=[1, 1])), (16, [8, 28, 28], [3, 3, 3], dict(pads=[1] * 6)),
        (64, [28, 28], [3, 3], dict(pads=[2] * 4, dilations=[2, 2])), (128, [14, 14], [14, 14], {}),
    ):
        yield f"depthwise {c} {size} {kernel}", lambda c=c, s=size, k=kernel, a=attrs: conv(c, c, s, k, group=c, **a)
    for c, o, size, kernel, groups, attrs in (
        (256, 256, [28, 28], [3, 3], 4, dict(pads=pads)), (128, 256, [28, 28], [1, 1], 4, {}), (64, 128, [28, 28], [3, 3], 64, dict(pads=pads)),
    ):
        yield f"Conv {c}>{o} {size} {kernel} {groups} groups", lambda c=c, o=o, s=size, k=kernel, g=groups, a=attrs: conv(c, o, s, k, group=g, **a)
    for c, o, size, kernel, attrs in (
        (256, 128, [8, 8], [4, 4], dict(strides=[2, 2], pads=pads)), (64, 3, [64, 64], [4, 4], dict(strides=[2, 2], pads=pads)),
        (128, 64, [16, 16], [3, 3], dict(strides=[2, 2], pads=pads, output_padding=[1, 1])), (32, 16, [100], [8], dict(strides=[4], pads=[2, 2])),
        (128, 128, [1, 1], [4, 4], {}), (64, 64, [28, 28], [3, 3], dict(pads=pads)), (512, 256, [20], [16], dict(strides=[8], pads=[4, 4])),
        (16, 16, [8, 8, 8], [2, 2, 2], dict(strides=[2, 2, 2])),
    ):
        yield f"ConvTranspose {c}>{o} {size} {kernel}", lambda c=c, o=o, s=size, k=kernel, a=attrs: conv(c, o, s, k, op="ConvTranspose", **a)


def moves():
    for shape, perm in (
        ([8, 128, 12, 64], [0, 2, 1, 3]), ([1, 12, 128, 64], [0, 1, 3, 2]), ([128, 768], [1, 0]), ([1024, 1024], [1, 0]),
        ([1, 3, 224, 224], [0, 2, 3, 1]), ([1, 224, 224, 3], [0, 3, 1, 2]), ([4, 7, 7, 7, 7, 16], [0, 1, 3, 2, 4, 5]),
        ([1, 8, 8, 7, 7, 96], [0, 1, 3, 2, 4, 5]), ([64, 3, 49, 3, 32], [3, 0, 1, 2, 4]), ([32, 100, 3], [2, 0, 1]), ([16, 16, 16, 16], [3, 2, 1, 0]),
        ([2, 2000, 4], [0, 2, 1]), ([5, 4, 3, 2000], [3, 2, 1, 0]),
    ):
        yield f"Transpose {shape} {perm}", lambda s=shape, p=perm: one("Transpose", s, perm=p)
    for t in ("i64", "u8", "f16"):
        for shape, perm in ((PLANE, [1, 0]), ([1, 3, 224, 224], [0, 2, 3, 1]), ([8, 128, 12, 64], [0, 2, 1, 3])):
            yield f"Transpose {t} {shape} {perm}", lambda t=t, s=shape, p=perm: one("Transpose", s, types=[TYPES[t]], perm=p)
    yield "Concat of planes", lambda: one("Concat", [4, 64, 28, 28], [4, 64, 28, 28], axis=1)
    yield "Concat of 8", lambda: one("Concat", *[[1024, 16]] * 8, axis=-1)
    yield "Concat of columns", lambda: one("Concat", *[[4096, 1]] * 3, axis=-1)
    for name, shape, bounds in (
        ("steps", [64, 512], ([0], [512], [1], [2])), ("columns", [512, 512], ([100], [400], [1], [1])),
        ("backwards", PLANE, ([-1], [-1000], [1], [-1])), ("both axes", [1, 64, 56, 56], ([0, 0], [56, 56], [2, 3], [2, 2])),
    ):
        yield f"Slice {name}", lambda s=shape, b=bounds: one("Slice", s, constants=[ints(*v) for v in b])
    yield "Expand", lambda: one("Expand", [64, 1, 128], constants=[ints(64, 16, 128)])
    yield "Expand last axis", lambda: one("Expand", [4096, 1], constants=[ints(4096, 32)])
    for mode in ("edge", "reflect", "constant"):
        yield f"Pad {mode} of rows", lambda m=mode: one("Pad", [8, 64, 200], constants=[ints(0, 0, 5, 0, 0, 5)], mode=m)
    yield "Pad by less", lambda: one("Pad", [1, 32, 112, 112], constants=[ints(0, 0, -1, -1, 0, 0, -1, -1)])
    for mode, shape, scales, where in (
        ("nearest", [1, 64, 13, 13], [1, 1, 2, 2], "asymmetric"), ("nearest", [1, 16, 56, 56], [1, 1, 0.5, 0.5], "asymmetric"),
        ("linear", [1, 3, 224, 224], [1, 1, 0.5, 0.5], "half_pixel"), ("linear", [1, 64, 14, 14], [1, 1, 2, 2], "align_corners"),
        ("nearest", [1, 32, 40, 40], [1, 1, 1.5, 1.5], "half_pixel"), ("linear", [1, 16, 100], [1, 1, 2.5], "half_pixel"),
        ("linear", [1, 4, 8, 16, 16], [1, 1, 2, 2, 2], "half_pixel"),
    ):
        yield f"Resize {mode} {shape} {scales}", lambda m=mode, s=shape, c=scales, w=where: one(
            "Resize", s, constants=[None, np.array(c, np.float32)], mode=m, coordinate_transformation_mode=w, nearest_mode="floor")
    yield "Gather of channels", lambda: one("Gather", [8, 64, 28, 28], constants=[RNG.integers(0, 64, 32)], axis=1)
    yield "Gather of one", lambda: one("Gather", [1024, 64, 3], constants=[np.int64(1)], axis=2)
    yield "GatherND", lambda: one("GatherND", [64, 64, 32], constants=[RNG.integers(0, 64, (512, 2))])
    for reduction in ("none", "add"):
        yield f"ScatterND {reduction}", lambda r=reduction: one(
            "ScatterND", [1024, 64], constants=[RNG.integers(0, 1024, (256, 1)), floats(256, 64)], reduction=r)
        yield f"ScatterElements {reduction}", lambda r=reduction: one(
            "ScatterElements", PLANE, constants=[RNG.integers(0, 512, (256, 100)), floats(256, 100)], axis=1, reduction=r)
    yield "SpaceToDepth by 4", lambda: one("SpaceToDepth", [1, 3, 224, 224], blocksize=4)
    yield "DepthToSpace CRD", lambda: one("DepthToSpace", [1, 64, 28, 28], blocksize=2, mode="CRD")


def products():
    for m, k, n in (
        (1, 64, 64), (1, 4096, 1024), (2, 256, 256), (7, 512, 512), (13, 300, 77), (64, 64, 64), (197, 768, 3072), (3136, 96, 96), (1000, 17, 33),
        (1024, 1024, 8), (1024, 1024, 1), (50, 2048, 50),
    ):
        yield f"MatMul {m}x{k}x{n}", lambda m=m, k=k, n=n: one("MatMul", [m, k], constants=[floats(k, n)])
    for b, m, k, n in (
        (12, 128, 128, 64), (12, 1, 64, 512), (12, 1, 512, 64), (96, 49, 49, 32), (64, 16, 16, 16), (8, 197, 64, 197), (16, 100, 5, 100), (64, 7, 7, 7),
    ):
        yield f"MatMul {b} of {m}x{k}x{n}", lambda b=b, m=m, k=k, n=n: one("MatMul", [b, m, k], [b, k, n])
    yield "Gemm of a turned matrix", lambda: one("Gemm", [512, 64], constants=[floats(512, 256), floats(256)], transA=1)
    yield "Einsum i,j->ij", lambda: one("Einsum", [256], [512], equation="i,j->ij")
    yield "LSTM both ways", lambda: one(
        "LSTM", [30, 4, 64], constants=[floats(2, 256, 64) * 0.2, floats(2, 256, 64) * 0.2, floats(2, 512)], hidden_size=64, direction="bidirectional")


def cases():
    for part in (maps, folds, windows, moves, products, model_operators.cases):
        yield from part()


if __name__ == "__main__":
    main(cases)
