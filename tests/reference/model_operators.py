"""Operators as models use them, for `more_operators.py`: detectors, transformers, speech, quantised models; odd
sizes, other types, and the groups of nodes that exporters write for one operator."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

from single_operators import RNG, chain, conv, floats, model, one

PLANE = [256, 512]
WHOLE = {"i32": (T.INT32, np.int32), "i64": (T.INT64, np.int64)}
P1 = [1] * 4


def ints(*values):
    return np.array(values, np.int64)


def scales(n):
    return np.abs(floats(n)) * 0.1 + np.float32(0.01)


def bytes_of(*shape):
    return RNG.integers(-127, 127, shape).astype(np.int8)


def four_bits(rows, block, k=1024, n=1024):
    """A product by weights of four bits, as onnxruntime's quantiser writes it."""
    packed = RNG.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8)
    node = h.make_node("MatMulNBits", ["a", "w", "s"], ["y0"], domain="com.microsoft", K=k, N=n, bits=4, block_size=block)
    return model([node], [("a", T.FLOAT, [rows, k])], ["y0"], {"w": packed, "s": scales(n * k // block)})


def blocks_of_weights(rows, block, k=1024, n=1024):
    """The same with the standard's operators and bytes."""
    nodes = [h.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=block), h.make_node("MatMul", ["a", "d"], ["y0"])]
    weights = {"w": bytes_of(k, n), "s": scales(n * k // block).reshape(k // block, n)}
    return model(nodes, [("a", T.FLOAT, [rows, k])], ["y0"], weights, opset=21)


def quantised():
    for axis, n in ((0, 256), (1, 512)):
        yield f"DequantizeLinear i8 axis {axis}", lambda a=axis, n=n: one(
            "DequantizeLinear", PLANE, types=[T.INT8], constants=[scales(n), np.zeros(n, np.int8)], axis=a)
        yield f"QuantizeLinear axis {axis}", lambda a=axis, n=n: one(
            "QuantizeLinear", PLANE, constants=[scales(n), np.full(n, 3, np.uint8)], axis=a)
    yield "DequantizeLinear i32 of channels", lambda: one(
        "DequantizeLinear", [1, 64, 28, 28], types=[T.INT32], constants=[scales(64)], axis=1)
    yield "DequantizeLinear of windows", lambda: one(
        "DequantizeLinear", [64, 64, 3, 3], types=[T.INT8], constants=[scales(64)], axis=0)
    yield "QuantizeLinear i8", lambda: one("QuantizeLinear", PLANE, constants=[np.float32(0.02), np.int8(0)])
    yield "DynamicQuantizeLinear", lambda: one("DynamicQuantizeLinear", PLANE, outputs=3)
    for rows, k in ((128, 256), (1, 512)):
        yield f"MatMulInteger of {rows} rows", lambda r=rows, k=k: one(
            "MatMulInteger", [r, k], types=[T.UINT8], constants=[bytes_of(k, k), np.uint8(3)])
    for rows, block in ((1, 32), (1, 128), (16, 32), (128, 32)):
        yield f"MatMulNBits of {rows} rows, blocks of {block}", lambda r=rows, b=block: four_bits(r, b)
        yield f"MatMul of {rows} rows by blocks of {block}", lambda r=rows, b=block: blocks_of_weights(r, b)
    yield "ConvInteger", lambda: one(
        "ConvInteger", [1, 64, 28, 28], types=[T.UINT8], constants=[bytes_of(64, 64, 3, 3), np.uint8(3)], pads=P1)


def other_types():
    for name, (t, of) in WHOLE.items():
        for op in ("Div", "Sub", "Max", "Min", "Less", "Equal"):
            yield f"{op} {name} by one", lambda o=op, t=t, of=of: one(o, PLANE, types=[t], constants=[of(7)])
        yield f"Clip {name}", lambda t=t, of=of: one("Clip", PLANE, types=[t], constants=[of(3), of(50)])
        yield f"Where {name} scalar", lambda t=t, of=of: one("Where", PLANE, PLANE, types=[T.BOOL, t], constants=[of(7)])
        yield f"MatMul {name}", lambda t=t: one("MatMul", [64, 64], [64, 64], types=[t] * 2)
    yield "BitwiseAnd u8", lambda: one("BitwiseAnd", PLANE, PLANE, types=[T.UINT8] * 2)
    yield "Max u8", lambda: one("Max", PLANE, PLANE, types=[T.UINT8] * 2)
    yield "BitShift u8", lambda: one("BitShift", PLANE, types=[T.UINT8], constants=[np.uint8(2)], direction="RIGHT")
    yield "Mod i32", lambda: one("Mod", PLANE, types=[T.INT32], constants=[np.int32(7)])
    yield "Pow i64", lambda: one("Pow", PLANE, types=[T.INT64], constants=[np.int64(2)])
    for a, b in (
        ("UINT8", "FLOAT16"), ("FLOAT16", "INT64"), ("FLOAT", "INT8"), ("INT64", "BOOL"), ("INT32", "INT64"), ("BOOL", "UINT8"),
        ("INT8", "FLOAT"), ("UINT8", "INT32"), ("INT64", "DOUBLE"), ("BOOL", "FLOAT16"),
    ):
        yield f"Cast {a} {b}", lambda a=a, b=b: one("Cast", PLANE, types=[getattr(T, a)], to=getattr(T, b))
    for op in ("Sigmoid", "Tanh", "Exp", "Sqrt", "Relu", "Erf"):
        yield f"{op} of f16", lambda o=op: one(o, PLANE, types=[T.FLOAT16])
    for op in ("Sigmoid", "Tanh", "Exp", "Sqrt", "Relu"):
        yield f"{op} of f64", lambda o=op: one(o, PLANE, types=[T.DOUBLE])
    for op in ("Sub", "Div", "Max", "Pow"):
        yield f"{op} f64", lambda o=op: one(o, PLANE, PLANE, types=[T.DOUBLE] * 2)
    for name, t in (("f64", T.DOUBLE), ("f16", T.FLOAT16)):
        for axis in (0, 1):
            yield f"ReduceMean {name} axis {axis}", lambda t=t, a=axis: one("ReduceMean", PLANE, types=[t], constants=[ints(a)])
        yield f"Softmax {name}", lambda t=t: one("Softmax", [64, 512], types=[t])
    for name, t in (("u8", T.UINT8), ("i8", T.INT8)):
        for axis in (0, 1):
            yield f"ReduceMax {name} axis {axis}", lambda t=t, a=axis: one("ReduceMax", PLANE, types=[t], constants=[ints(a)])
    yield "MatMul f64", lambda: one("MatMul", [64, 128], [128, 64], types=[T.DOUBLE] * 2)
    yield "MatMul f16", lambda: one("MatMul", [64, 128], types=[T.FLOAT16], constants=[floats(128, 64).astype(np.float16)])
    yield "Gemm f64", lambda: one(
        "Gemm", [64, 128], types=[T.DOUBLE], constants=[floats(128, 64).astype(np.float64), floats(64).astype(np.float64)])


def searches():
    for op in ("ReduceMean", "ReduceMax"):
        for shape, axes in (
            ([32, 128, 768], [2]), ([2, 256, 56, 56], [1]), ([4, 100, 4], [2]), ([1, 64, 112, 112], [2, 3]), ([128, 30, 30], [0]),
            ([8, 16, 32, 32], [0, 2, 3]), ([1, 196, 384], [1]), ([64, 10, 10, 3], [1, 2]),
        ):
            yield f"{op} {shape} axes {axes}, kept", lambda o=op, s=shape, a=axes: one(o, s, constants=[ints(*a)], keepdims=1)
    for name, t in (("i64", T.INT64), ("f16", T.FLOAT16)):
        yield f"ArgMax {name}", lambda t=t: one("ArgMax", [64, 1000], types=[t], axis=1)
    yield "ArgMax of 4", lambda: one("ArgMax", [10000, 4], axis=1)
    yield "ArgMax, the last", lambda: one("ArgMax", [64, 1000], axis=1, select_last_index=1)
    for k, shape in ((300, [1, 8400]), (50, [1, 32000]), (300, [16, 300])):
        yield f"TopK {k} of {shape}", lambda k=k, s=shape: one("TopK", s, constants=[ints(k)], outputs=2)
    yield "TopK, the least", lambda: one("TopK", [64, 1000], constants=[ints(10)], outputs=2, largest=0)
    yield "NonMaxSuppression", lambda: one(
        "NonMaxSuppression", [1, 1000, 4], [1, 1, 1000], constants=[np.int64(100), np.float32(0.5), np.float32(0.2)])
    yield "CumSum i64", lambda: one("CumSum", [64, 512], types=[T.INT64], constants=[np.int64(1)])
    yield "NonZero bool", lambda: one("NonZero", [64, 512], types=[T.BOOL])
    yield "Compress", lambda: one("Compress", [1000, 64], constants=[RNG.integers(0, 2, 1000).astype(bool)], axis=0)
    yield "OneHot", lambda: one("OneHot", [1000], types=[T.INT64], constants=[ints(50), np.array([0, 1], np.float32)])
    for shape, axis in (
        ([1, 12, 197, 197], -1), ([64, 4, 49, 49], -1), ([1, 19, 128, 128], 1), ([8, 16, 77, 77], -1), ([300, 91], -1), ([1, 32000], -1),
        ([16, 3, 20, 20], 1), ([1, 4, 16, 400], 1), ([100, 100, 2], 1),
    ):
        yield f"Softmax {shape} over {axis}", lambda s=shape, a=axis: one("Softmax", s, axis=a)
    yield "LogSoftmax of letters", lambda: one("LogSoftmax", [200, 29])
    for rows, width in ((1, 512), (64, 100), (1000, 80), (16, 2048), (3136, 128)):
        yield f"LayerNormalization of {rows}x{width}", lambda r=rows, w=width: one(
            "LayerNormalization", [r, w], constants=[floats(w), floats(w)], axis=-1)


def layouts():
    for name, t in (("f32", T.FLOAT), ("u8", T.UINT8), ("i64", T.INT64), ("f16", T.FLOAT16)):
        for axis in (0, 1):
            yield f"Concat {name} axis {axis}", lambda t=t, a=axis: one("Concat", PLANE, PLANE, types=[t] * 2, axis=a)
        yield f"Pad {name}", lambda t=t: one("Pad", [1, 16, 56, 56], types=[t], constants=[ints(0, 0, 1, 1, 0, 0, 1, 1)])
        yield f"Gather {name} rows", lambda t=t: one("Gather", [1000, 128], types=[t], constants=[RNG.integers(0, 1000, 256)])
    for mode in ("edge", "reflect", "wrap"):
        yield f"Pad {mode} of planes", lambda m=mode: one("Pad", [1, 64, 56, 56], constants=[ints(0, 0, 3, 3, 0, 0, 3, 3)], mode=m)
    yield "Pad of a channel", lambda: one("Pad", [1, 3, 224, 224], constants=[ints(0, 0, 0, 0, 0, 1, 0, 0)])
    yield "Pad, channels last", lambda: one("Pad", [1, 112, 112, 16], constants=[ints(0, 0, 0, 0, 0, 1, 1, 0)])
    yield "Expand bool", lambda: one("Expand", [1, 1, 1, 128], types=[T.BOOL], constants=[ints(1, 8, 128, 128)])
    yield "Tile rows", lambda: one("Tile", [1, 77, 64], constants=[ints(16, 1, 1)])
    yield "Tile last", lambda: one("Tile", [512, 1, 7], constants=[ints(1, 1, 9)])
    for name, shape, bounds in (
        ("heads", [1, 128, 12, 192], ([64], [128], [3])), ("focus", [1, 3, 320, 320], ([0, 0], [320, 320], [2, 3], [2, 2])),
        ("step 3", [64, 3000], ([0], [3000], [1], [3])), ("rows backwards", PLANE, ([-1], [-1000], [0], [-1])),
    ):
        yield f"Slice {name}", lambda s=shape, b=bounds: one("Slice", s, constants=[ints(*v) for v in b])
    yield "Split of channels", lambda: one("Split", [1, 96, 56, 56], outputs=3, axis=1, num_outputs=3)
    yield "Split uneven", lambda: one("Split", [8400, 85], constants=[ints(4, 1, 80)], outputs=3, axis=1)
    for shape, perm in (
        ([1, 128, 3, 12, 64], [2, 0, 3, 1, 4]), ([1, 64, 7, 8, 7, 8], [0, 2, 4, 3, 5, 1]), ([1, 12, 64, 128], [0, 1, 3, 2]),
        ([8, 64, 49], [0, 2, 1]), ([1, 56, 56, 96], [0, 3, 1, 2]), ([77, 1, 512], [1, 0, 2]), ([1, 2, 4, 28, 28], [0, 2, 1, 3, 4]),
        ([3, 100, 100], [1, 2, 0]), ([1, 8, 32, 32, 4], [0, 4, 1, 2, 3]), ([1, 85, 80, 80, 3], [0, 4, 2, 3, 1]),
        ([1, 3, 85, 20, 20], [0, 1, 3, 4, 2]),
    ):
        yield f"Transpose of {shape} {perm}", lambda s=shape, p=perm: one("Transpose", s, perm=p)
    yield "GatherElements axis 0", lambda: one("GatherElements", [512, 256], constants=[RNG.integers(0, 512, (100, 256))], axis=0)
    yield "GatherElements i64", lambda: one(
        "GatherElements", [8, 8400], types=[T.INT64], constants=[RNG.integers(0, 8400, (8, 300))], axis=1)
    yield "Gather boxes", lambda: one("Gather", [1, 8400, 4], constants=[RNG.integers(0, 8400, 300)], axis=1)
    yield "Gather few columns", lambda: one("Gather", [8400, 85], constants=[ints(0, 1, 2, 3)], axis=1)
    yield "GatherND batch", lambda: one("GatherND", [8, 128, 64], constants=[RNG.integers(0, 128, (8, 16, 1))], batch_dims=1)
    yield "ScatterElements axis 0 add", lambda: one(
        "ScatterElements", PLANE, constants=[RNG.integers(0, 256, (100, 512)), floats(100, 512)], axis=0, reduction="add")
    places = np.stack([RNG.integers(0, 64, 4000), RNG.integers(0, 1000, 4000)], 1)
    yield "ScatterND elements", lambda: one("ScatterND", [64, 1000], constants=[places, floats(4000)])


def products():
    for m, k, n in (
        (1, 768, 3072), (1, 2048, 1000), (8, 512, 512), (77, 512, 2048), (300, 256, 91), (300, 256, 4), (64, 768, 2), (128, 64, 29),
        (100, 100, 100), (16, 16, 16), (33, 65, 129), (500, 13, 7), (4096, 64, 3), (3, 4096, 4096),
    ):
        yield f"MatMul {m}x{k}x{n}", lambda m=m, k=k, n=n: one("MatMul", [m, k], constants=[floats(k, n)])
    for b, m, k, n in (
        (8, 100, 32, 100), (12, 77, 64, 77), (8, 77, 77, 64), (4, 300, 32, 300), (1, 128, 64, 2048), (16, 10, 10, 10), (100, 1, 64, 64),
        (256, 3, 3, 3), (64, 4, 4, 1), (32, 8, 64, 8), (12, 257, 64, 257),
    ):
        yield f"MatMul {b} of {m}x{k}x{n}", lambda b=b, m=m, k=k, n=n: one("MatMul", [b, m, k], [b, k, n])
    for equation, a, b in (
        ("ij,j->i", [256, 512], [512]), ("bij,bj->bi", [16, 64, 64], [16, 64]), ("bhwc,hkc->bhwk", [2, 14, 14, 64], [14, 14, 64]),
        ("nchw,cd->ndhw", [1, 64, 28, 28], [64, 32]), ("bnd,bmd->bnm", [4, 100, 64], [4, 50, 64]), ("i,i->", [1000], [1000]),
        ("ij,ij->i", [256, 512], [256, 512]), ("bqc,bchw->bqhw", [1, 100, 64], [1, 64, 32, 32]), ("...ij,...jk->...ik", [8, 32, 64], [8, 64, 32]),
    ):
        yield f"Einsum {equation}", lambda e=equation, a=a, b=b: one("Einsum", a, b, equation=e)
    yield "MatMul of a turned one", lambda: model(
        [h.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]), h.make_node("MatMul", ["a", "t"], ["y"])],
        [("a", T.FLOAT, [12, 128, 64]), ("b", T.FLOAT, [12, 128, 64])], ["y"])
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        for steps, batch, size, hidden in ((1, 1, 256, 256), (100, 1, 32, 32), (20, 8, 128, 128), (5, 1, 512, 512)):
            yield f"{op} {steps}x{batch}x{size}, {hidden}", lambda o=op, g=gates, t=steps, b=batch, n=size, w=hidden: one(
                o, [t, b, n], constants=[floats(1, g * w, n) * 0.2, floats(1, g * w, w) * 0.2, floats(1, 2 * g * w)], hidden_size=w)


def images():
    for mode, shape, scale, where in (
        ("linear", [1, 3, 480, 640], [1, 1, 0.5, 0.5], "half_pixel"), ("linear", [1, 256, 20, 20], [1, 1, 2, 2], "half_pixel"),
        ("linear", [1, 64, 7, 7], [1, 1, 4, 4], "align_corners"), ("cubic", [1, 3, 64, 64], [1, 1, 2, 2], "half_pixel"),
        ("nearest", [1, 256, 20, 20], [1, 1, 2, 2], "asymmetric"), ("nearest", [1, 128, 7, 7], [1, 1, 2, 2], "asymmetric"),
        ("nearest", [1, 64, 28, 28], [1, 1, 4, 4], "asymmetric"), ("linear", [1, 19, 64, 64], [1, 1, 8, 8], "half_pixel"),
        ("nearest", [1, 80, 100], [1, 1, 2], "asymmetric"), ("nearest", [1, 64, 14, 14, 3], [1, 1, 2, 2, 1], "asymmetric"),
    ):
        yield f"Resize {mode} of {shape} {scale}", lambda m=mode, s=shape, c=scale, w=where: one(
            "Resize", s, constants=[None, np.array(c, np.float32)], mode=m, coordinate_transformation_mode=w, nearest_mode="floor")
    yield "Resize nearest u8", lambda: one(
        "Resize", [1, 3, 240, 320], types=[T.UINT8], constants=[None, np.array([1, 1, 0.5, 0.5], np.float32)], mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield "Resize antialias", lambda: one(
        "Resize", [1, 3, 224, 224], constants=[None, np.array([1, 1, 0.5, 0.5], np.float32)], mode="linear", antialias=1)
    yield "GridSample of points", lambda: one("GridSample", [8, 32, 32, 32], [8, 300, 4, 2])
    yield "GridSample of an image", lambda: one("GridSample", [1, 3, 224, 224], [1, 224, 224, 2], padding_mode="border", align_corners=1)
    yield "MaxPool indices", lambda: one("MaxPool", [1, 64, 56, 56], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    for op, shape, kernel, attrs in (
        ("MaxPool", [1, 64, 112, 112], [3, 3], dict(strides=[2, 2], pads=P1, ceil_mode=1)), ("MaxPool", [1, 512, 7, 7], [2, 2], dict(strides=[2, 2])),
        ("MaxPool", [1, 480, 28, 28], [3, 3], dict(pads=P1)), ("MaxPool", [1, 832, 7, 7], [3, 3], dict(pads=P1)),
        ("AveragePool", [1, 128, 56, 56], [2, 2], dict(strides=[2, 2])), ("AveragePool", [1, 2048, 7, 7], [7, 7], {}),
        ("AveragePool", [1, 1280, 8, 8], [3, 3], dict(pads=P1)), ("AveragePool", [1, 40, 1, 100], [1, 5], dict(strides=[1, 5])),
        ("MaxPool", [1, 32, 1000], [4], dict(strides=[4])), ("AveragePool", [1, 64, 400], [2], dict(strides=[2])),
        ("MaxPool", [1, 512, 20, 20], [5, 5], dict(pads=[2] * 4)), ("MaxPool", [1, 64, 24, 94], [3, 3], dict(strides=[1, 2])),
    ):
        yield f"{op} of {shape} {kernel}", lambda o=op, s=shape, k=kernel, a=attrs: one(o, s, kernel_shape=k, **a)
    for c, o, size, kernel, attrs in (
        (3, 16, [32, 32], [3, 3], dict(pads=P1)), (3, 64, [256, 256], [4, 4], dict(strides=[4, 4])),
        (3, 768, [224, 224], [16, 16], dict(strides=[16, 16])),
        (64, 128, [40, 40], [3, 3], dict(strides=[2, 2], pads=P1)),
        (512, 255, [13, 13], [1, 1], {}), (80, 512, [1, 200], [1, 3], dict(pads=[0, 1, 0, 1])),
        (1, 512, [16000], [10], dict(strides=[5])), (512, 512, [400], [3], dict(strides=[2])), (960, 240, [1, 1], [1, 1], {}),
        (160, 160, [17, 17], [1, 7], dict(pads=[0, 3, 0, 3])),
        (448, 384, [8, 8], [3, 3], dict(pads=P1)), (384, 384, [8, 8], [1, 3], dict(pads=[0, 1, 0, 1])),
        (24, 144, [56, 56], [1, 1], {}), (256, 1, [64, 64], [3, 3], dict(pads=P1)),
        (256, 256, [28, 28], [3, 3], dict(pads=[12] * 4, dilations=[12, 12])),
        (64, 64, [300], [3], dict(pads=[4, 4], dilations=[4])),
    ):
        yield f"Conv of {c}>{o} {size} {kernel}", lambda c=c, o=o, s=size, k=kernel, a=attrs: conv(c, o, s, k, **a)
    for c, size, kernel, attrs in (
        (32, [112, 112], [3, 3], dict(pads=P1)), (576, [14, 14], [3, 3], dict(strides=[2, 2], pads=P1)), (480, [14, 14], [5, 5], dict(pads=[2] * 4)),
        (1152, [7, 7], [5, 5], dict(pads=[2] * 4)), (768, [7, 7], [7, 7], dict(pads=[3] * 4)), (256, [200], [15], dict(pads=[7, 7])),
        (128, [20, 20], [3, 3], dict(pads=P1)), (256, [16, 16], [9, 9], dict(pads=[4] * 4)),
        (64, [40, 40], [3, 3], dict(pads=[3] * 4, dilations=[3, 3])),
    ):
        yield f"depthwise of {c} {size} {kernel}", lambda c=c, s=size, k=kernel, a=attrs: conv(c, c, s, k, group=c, **a)
    for c, o, size, kernel, attrs in (
        (128, 64, [28, 28], [2, 2], dict(strides=[2, 2])),
        (512, 256, [7, 7], [2, 2], dict(strides=[2, 2])), (256, 128, [40], [4], dict(strides=[2], pads=[1, 1])),
        (100, 512, [1, 1], [4, 4], {}), (512, 256, [4, 4], [4, 4], dict(strides=[2, 2], pads=P1)),
        (21, 21, [16, 16], [4, 4], dict(strides=[2, 2], pads=P1)),
        (32, 1, [200], [16], dict(strides=[8], pads=[4, 4])), (64, 64, [14, 14], [5, 5], dict(pads=[2] * 4)),
    ):
        yield f"ConvTranspose of {c}>{o} {size} {kernel}", lambda c=c, o=o, s=size, k=kernel, a=attrs: conv(c, o, s, k, op="ConvTranspose", **a)


def written_out():
    """Operators that exporters write as several nodes."""
    yield "GELU of Tanh", lambda: chain(
        [128, 3072], ("Pow", [np.float32(3)], {}), ("Mul", [np.float32(0.044715)], {}), ("Add", ["a"], {}), ("Mul", [np.float32(0.79788)], {}),
        ("Tanh", [], {}), ("Add", [np.float32(1)], {}), ("Mul", ["a"], {}), ("Mul", [np.float32(0.5)], {}))
    yield "Mish of Softplus", lambda: chain([1, 64, 56, 56], ("Softplus", [], {}), ("Tanh", [], {}), ("Mul", ["a"], {}))
    yield "RMS norm", lambda: chain(
        [128, 768], ("Pow", [np.float32(2)], {}), ("ReduceMean", [ints(-1)], {}), ("Add", [np.float32(1e-6)], {}), ("Sqrt", [], {}),
        ("Reciprocal", [], {}), ("Mul", ["a"], {}), ("Mul", [floats(768)], {}))
    yield "half rotated", lambda: model(
        [h.make_node("Slice", ["a", "z", "m", "x"], ["l"]), h.make_node("Slice", ["a", "m", "e", "x"], ["r"]), h.make_node("Neg", ["r"], ["n"]),
         h.make_node("Concat", ["n", "l"], ["y"], axis=-1)],
        [("a", T.FLOAT, [1, 12, 128, 64])], ["y"], {"z": ints(0), "m": ints(32), "e": ints(64), "x": ints(3)})
    yield "attention", lambda: model(
        [h.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), h.make_node("MatMul", ["q", "t"], ["s"]), h.make_node("Mul", ["s", "c"], ["m"]),
         h.make_node("Softmax", ["m"], ["p"], axis=-1), h.make_node("MatMul", ["p", "v"], ["y"])],
        [(n, T.FLOAT, [1, 12, 77, 64]) for n in "qkv"], ["y"], {"c": np.float32(0.125)})
    yield "image to planes", lambda: model(
        [h.make_node("Cast", ["a"], ["f"], to=T.FLOAT), h.make_node("Sub", ["f", "m"], ["s"]), h.make_node("Div", ["s", "d"], ["v"]),
         h.make_node("Transpose", ["v"], ["y"], perm=[0, 3, 1, 2])],
        [("a", T.UINT8, [1, 224, 224, 3])], ["y"], {"m": floats(3), "d": floats(3) + np.float32(2)})
    yield "mask of heads", lambda: one("Where", [1, 1, 128, 128], [1, 12, 128, 128], types=[T.BOOL, T.FLOAT], constants=[np.float32(-1e9)])
    for op, a, b in (("Add", [1, 12, 128, 128], [1, 1, 1, 128]), ("Mul", [1, 64, 56, 56], [1, 1, 56, 56]), ("Div", [1, 224, 224, 3], [3])):
        yield f"{op} {a} {b}", lambda o=op, a=a, b=b: one(o, a, b)


def cases():
    for part in (quantised, other_types, searches, layouts, products, images, written_out):
        yield from part()
