"""Models that each have one operator of the domain com.microsoft, for `random_models.py --what contrib`.

`make(r, seed)` returns a model whose inputs are x0, x1, ..., one set of inputs, and the tolerance
beyond which a difference from onnxruntime is an error. Consecutive seeds take the operators in turn.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.int32): TensorProto.INT32,
         np.dtype(np.int64): TensorProto.INT64, np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8,
         np.dtype(np.bool_): TensorProto.BOOL}


class One:
    """A model of one node; arrays become inputs of the model, or constants."""

    def __init__(self, r):
        self.r, self.rng = r, np.random.RandomState(r.randrange(1 << 30))
        self.inputs, self.feed, self.constants = [], [], []

    def floats(self, *shape, scale=0.5):
        return (self.rng.randn(*shape) * scale).astype(np.float32)

    def given(self, array):
        name = f"x{len(self.feed)}"
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape))
        self.feed.append(array)
        return name

    def const(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def maybe(self, array, chance=0.6):
        return self.const(array) if self.r.random() < chance else ""

    def model(self, op, inputs, outputs, domain="com.microsoft", atol=1e-4, **attrs):
        while inputs and not inputs[-1]:
            inputs.pop()
        names = [f"y{k}" if kind else "" for k, kind in enumerate(outputs)]
        node = helper.make_node(op, inputs, names, domain=domain, name="node", **attrs)
        outs = [helper.make_tensor_value_info(n, k, None) for n, k in zip(names, outputs) if k]
        graph = helper.make_graph([node], "contrib", self.inputs, outs, self.constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9), [self.feed], atol


F, U8, I8, I32 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32


# Activations and normalisations -------------------------------------------------------------------


def gelu(o):
    return o.model("Gelu", [o.given(o.floats(3, 5, scale=2))], [F])


def bias_gelu(o):
    return o.model("BiasGelu", [o.given(o.floats(3, 5)), o.const(o.floats(5))], [F])


def fast_gelu(o):
    return o.model("FastGelu", [o.given(o.floats(3, 5, scale=2)), o.maybe(o.floats(5))], [F])


def quick_gelu(o):
    return o.model("QuickGelu", [o.given(o.floats(3, 5, scale=2))], [F], alpha=o.r.choice([1.702, 1.0, 0.5]))


def skip_layer_norm(o):
    x, skip = o.given(o.floats(2, 3, 8)), o.given(o.floats(*o.r.choice([(2, 3, 8), (3, 8), (1, 3, 8)])))
    inputs = [x, skip, o.const(o.floats(8)), o.maybe(o.floats(8)), o.maybe(o.floats(8))]
    return o.model("SkipLayerNormalization", inputs, [F, None, None, F] if o.r.random() < 0.5 else [F], epsilon=1e-5)


def skip_simplified(o):
    inputs = [o.given(o.floats(2, 3, 8)), o.given(o.floats(2, 3, 8)), o.const(o.floats(8)), o.maybe(o.floats(8))]
    return o.model("SkipSimplifiedLayerNormalization", inputs, [F, None, None, F] if o.r.random() < 0.5 else [F], epsilon=1e-5)


def simplified(o):
    inputs = [o.given(o.floats(2, 3, 8)), o.const(o.floats(8))]
    return o.model("SimplifiedLayerNormalization", inputs, [F], domain="", epsilon=1e-5, axis=-1)


def embed(o):
    words, length, batch = 11, 4, 2
    ids = lambda n, *s: o.rng.randint(0, n, s).astype(np.int32)
    segments = o.r.random() < 0.7
    inputs = [o.given(ids(words, batch, length)), o.given(ids(2, batch, length)) if segments else "",
              o.const(o.floats(words, 8)), o.const(o.floats(6, 8)), o.const(o.floats(2, 8)) if segments else "",
              o.const(o.floats(8)), o.const(o.floats(8)), o.given(ids(2, batch, length)) if o.r.random() < 0.6 else "",
              o.given(ids(6, batch, length)) if o.r.random() < 0.4 else ""]
    return o.model("EmbedLayerNormalization", inputs, [F, I32], epsilon=1e-5)


# Products -----------------------------------------------------------------------------------------


def fused_mat_mul(o):
    ta, tb = o.r.randint(0, 1), o.r.randint(0, 1)
    a, b = ((2, 3, 4), (2, 4, 5)) if o.r.random() < 0.5 else ((3, 4), (4, 5))
    turn = lambda s, t: s[:-2] + (s[-1], s[-2]) if t else s
    inputs = [o.given(o.floats(*turn(a, ta))), o.given(o.floats(*turn(b, tb)))]
    return o.model("FusedMatMul", inputs, [F], transA=ta, transB=tb, alpha=o.r.choice([1.0, 0.25]))


def whole(o, kind, *shape):
    info = np.iinfo(kind)
    return o.rng.randint(info.min // 2, info.max + 1, shape).astype(kind)


def weights(o, kind, *shape):
    """Signed weights have only seven bits: without VNNI, onnxruntime adds pairs of their products with
    bytes in sixteen bits that saturate, and would be wrong for larger weights."""
    return o.rng.randint(-64, 65, shape).astype(kind) if kind is np.int8 else whole(o, kind, *shape)


def integer_to_float(o):
    kind = o.r.choice([np.int8, np.uint8])
    inputs = [o.given(whole(o, np.uint8, 3, 4)), o.const(weights(o, kind, 4, 5)), o.const(np.float32(0.02)), o.const(np.float32(0.01)),
              o.const(np.uint8(3)), o.const(kind(2)), o.maybe(o.floats(5))]
    return o.model("MatMulIntegerToFloat", inputs, [F])


def dynamic_mat_mul(o):
    inputs = [o.given(o.floats(3, 4)), o.const(weights(o, np.int8, 4, 5)), o.const(np.float32(0.01)), o.const(np.int8(1)), o.maybe(o.floats(5))]
    return o.model("DynamicQuantizeMatMul", inputs, [F])


def q_gemm(o):
    ta, tb = o.r.randint(0, 1), o.r.randint(0, 1)
    a, b = whole(o, np.uint8, *((4, 3) if ta else (3, 4))), whole(o, np.uint8, *((5, 4) if tb else (4, 5)))
    each = o.r.random() < 0.5
    inputs = [o.given(a), o.const(np.float32(0.02)), o.const(np.uint8(7)), o.const(b),
              o.const(np.linspace(0.01, 0.03, 5).astype(np.float32) if each else np.float32(0.01)),
              o.const(np.full(5, 9, np.uint8) if each else np.uint8(9)), o.maybe(o.rng.randint(-90, 90, 5).astype(np.int32))]
    again = o.r.random() < 0.5
    inputs += [o.const(np.float32(0.2)), o.const(np.uint8(40))] if again else []
    return o.model("QGemm", inputs, [U8 if again else F], transA=ta, transB=tb, alpha=o.r.choice([1.0, 0.5]))


def n_bits(o):
    bits, block = o.r.choice([4, 4, 4, 8]), o.r.choice([16, 32])
    k, n = o.r.choice([16, 40, 64]), o.r.choice([3, 5, 8])
    blocks = -(-k // block)
    weight = o.rng.randint(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = (np.abs(o.floats(n * blocks)) * 0.1 + 0.01).astype(np.float32)
    zeros = o.rng.randint(0, 256, n * (-(-blocks * bits // 8))).astype(np.uint8)
    inputs = [o.given(o.floats(*o.r.choice([(2, k), (1, 2, k)]))), o.const(weight), o.const(scales), o.maybe(zeros)]
    return o.model("MatMulNBits", inputs, [F], K=k, N=n, bits=bits, block_size=block, atol=1e-3)


def inverse(o):
    n = o.r.choice([1, 2, 4])
    return o.model("Inverse", [o.given(o.floats(2, n, n) + 2 * np.eye(n, dtype=np.float32))], [F], atol=1e-3)


# Attention ----------------------------------------------------------------------------------------


def padding(o, batch, keys, forms):
    """A mask of keys: [batch, keys], or the number of keys that count."""
    form = o.r.choice(forms)
    lengths = o.rng.randint(1, keys + 1, batch).astype(np.int32)
    if form == "lengths":
        return o.given(lengths)
    return o.given((np.arange(keys)[None] < lengths[:, None]).astype(np.int32)) if form == "mask" else ""


def attention(o):
    b, s, n, h = o.r.choice([1, 2]), o.r.choice([1, 4]), 2, 4
    w = n * h
    past = o.r.choice([0, 0, 3])
    inputs = [o.given(o.floats(b, s, 6)), o.const(o.floats(6, 3 * w)), o.const(o.floats(3 * w)),
              padding(o, b, s + past, ["", "mask"] if past else ["", "mask", "lengths"]),
              o.given(o.floats(2, b, n, past, h)) if past else "",
              o.given(o.floats(b, n, s, s)) if not past and o.r.random() < 0.3 else ""]
    return o.model("Attention", inputs, [F, F] if past else [F], num_heads=n, unidirectional=o.r.randint(0, 1))


def q_attention(o):
    b, s, n, h = o.r.choice([1, 2]), o.r.choice([1, 4]), 2, 4
    inputs = [o.given(whole(o, np.uint8, b, s, 6)), o.const(weights(o, np.int8, 6, 3 * n * h)), o.const(o.floats(3 * n * h)),
              o.const(np.float32(0.01)), o.const(np.float32(0.01)), padding(o, b, s, ["", "mask", "lengths"]), o.const(np.uint8(128)),
              o.const(np.int8(0))]
    return o.model("QAttention", inputs, [F], num_heads=n, unidirectional=o.r.randint(0, 1), atol=1e-3)


def multi_head(o):
    b, s, n, h = o.r.choice([1, 2]), o.r.choice([1, 4]), 2, 4
    w, past = n * h, o.r.choice([0, 0, 3])
    # onnxruntime's CPU kernel takes no packed form.
    form = "plain" if past else o.r.choice(["plain", "heads"])
    length = s if past else o.r.choice([s, 5])
    if form == "heads":
        inputs = [o.given(o.floats(b, s, w)), o.given(o.floats(b, n, length, h)), o.given(o.floats(b, n, length, h))]
    else:
        inputs = [o.given(o.floats(b, s, w)), o.given(o.floats(b, length, w)), o.given(o.floats(b, length, w))]
    # onnxruntime's CPU kernel takes a bias only with the plain form.
    inputs.append(o.maybe(o.floats(3 * w)) if form == "plain" else "")
    inputs.append(padding(o, b, length + past, ["", "mask"]))
    inputs.append(o.given(o.floats(1, n, s, length + past)) if o.r.random() < 0.4 else "")
    inputs += [o.given(o.floats(b, n, past, h)), o.given(o.floats(b, n, past, h))] if past else []
    return o.model("MultiHeadAttention", inputs, [F, F, F] if past else [F], num_heads=n, unidirectional=o.r.randint(0, 1) if length == s else 0)


def group_query(o):
    # onnxruntime takes only head sizes that are multiples of 16.
    b, n, kv, h = o.r.choice([1, 2]), 4, o.r.choice([1, 2, 4]), 16
    prompt = o.r.random() < 0.5
    s, past = (o.r.choice([1, 5]), 0) if prompt else (1, 6)
    total = s if prompt else past
    lens = np.full(b, total - 1, np.int32) if prompt else o.rng.randint(1, past, b).astype(np.int32)
    if not prompt:
        lens[0] = total - 1
    packed, turned = o.r.random() < 0.3, o.r.random() < 0.6
    if packed:
        inputs = [o.given(o.floats(b, s, (n + 2 * kv) * h)), "", ""]
    else:
        inputs = [o.given(o.floats(b, s, n * h)), o.given(o.floats(b, s, kv * h)), o.given(o.floats(b, s, kv * h))]
    inputs += [o.given(o.floats(b, kv, past, h)), o.given(o.floats(b, kv, past, h))] if past else ["", ""]
    inputs += [o.given(lens), o.const(np.int32(total))]
    if turned:
        angle = o.floats(10, h // 2, scale=2)
        inputs += [o.const(np.cos(angle)), o.const(np.sin(angle))]
    return o.model("GroupQueryAttention", inputs, [F, F, F], num_heads=n, kv_num_heads=kv, do_rotary=int(turned),
                   rotary_interleaved=o.r.randint(0, 1), local_window_size=o.r.choice([-1, -1, 2]), softcap=o.r.choice([0.0, 2.0]))


def rotary(o):
    b, s, n, h = o.r.choice([1, 2]), o.r.choice([1, 3]), 2, 8
    part = o.r.choice([0, 0, 4])
    angle = o.floats(10, (part or h) // 2, scale=2)
    first = o.r.random() < 0.5
    x = o.floats(b, n, s, h) if first and not part else o.floats(b, s, n * h)
    ids = np.int64([2]) if o.r.random() < 0.5 else o.rng.randint(0, 10, (b, s)).astype(np.int64)
    return o.model("RotaryEmbedding", [o.given(x), o.given(ids), o.const(np.cos(angle)), o.const(np.sin(angle))], [F],
                   interleaved=o.r.randint(0, 1), num_heads=n if part else 0, rotary_embedding_dim=part)


# Quantised operators ------------------------------------------------------------------------------


def quantised(o, *shape):
    kind = o.kind
    return [o.given(whole(o, kind, *shape)), o.const(np.float32(o.r.choice([0.013, 0.05]))), o.const(kind(o.r.choice([3, 100])))]


def to(o):
    return [o.const(np.float32(0.021)), o.const(o.kind(o.r.choice([5, 90])))]


def q_model(o, op, inputs, **attrs):
    return o.model(op, inputs, [TYPES[np.dtype(o.kind)]], **attrs)


def q_linear(op, **attrs):
    def make(o):
        o.kind = o.r.choice([np.uint8, np.int8])
        if op in ("QLinearAdd", "QLinearMul"):
            # The order of the scales decides how a result in the middle between two bytes is rounded.
            return q_model(o, op, quantised(o, 2, 3, 4) + quantised(o, *o.r.choice([(2, 3, 4), (4,), (1,)])) + to(o), atol=1.0)
        if op == "QLinearConcat":
            return q_model(o, op, to(o) + quantised(o, 2, 3) + quantised(o, 2, 4), axis=1)
        if op == "QLinearGlobalAveragePool":
            return q_model(o, op, quantised(o, 1, 4, 5, 5) + to(o), channels_last=o.r.randint(0, 1), atol=1.0)
        if op == "QLinearSoftmax":
            # onnxruntime computes it with a table of rounded exponentials.
            inputs = quantised(o, 3, 6) + [o.const(np.float32(1 / 256)), o.const(o.kind(0))]
            return q_model(o, op, inputs, axis=-1, opset=13, atol=1.0)
        if op == "QLinearAveragePool":
            last = o.r.randint(0, 1)
            inputs = quantised(o, *((1, 6, 6, 3) if last else (1, 3, 6, 6))) + to(o)
            return q_model(o, op, inputs, channels_last=last, kernel_shape=[2, 2], strides=[2, 2], pads=[o.r.randint(0, 1)] * 4, atol=1.0)
        if op == "QLinearWhere":
            condition = o.given(o.rng.randint(0, 2, (2, 3)).astype(np.bool_))
            return q_model(o, op, [condition] + quantised(o, 2, 3) + quantised(o, 2, 3) + to(o))
        return q_model(o, op, quantised(o, 2, 3, 4) + to(o), **attrs)

    return make


def q_pool(o):
    o.kind = np.uint8
    return o.model("NhwcMaxPool", [o.given(whole(o, o.r.choice([np.uint8, np.int8]), 1, 6, 6, 3))],
                   [TYPES[o_dtype(o)]], kernel_shape=[2, 2], strides=[2, 2], pads=[o.r.randint(0, 1)] * 4)


def o_dtype(o):
    return o.feed[-1].dtype


def dequantise(o):
    kind = o.r.choice([np.uint8, np.int8])
    each = o.r.random() < 0.5
    scale = np.linspace(0.01, 0.05, 3).astype(np.float32) if each else np.float32(0.02)
    zero = np.full(3, 4, kind) if each else kind(4)
    return o.model("DequantizeLinear", [o.given(whole(o, kind, 2, 3, 4)), o.const(scale), o.const(zero)], [F], axis=1)


def quantise(o):
    return o.model("QuantizeLinear", [o.given(o.floats(2, 3, 4)), o.const(np.float32(0.02)), o.const(np.uint8(128))], [U8])


def lstm(o):
    s, b, i, h = o.r.choice([1, 3, 6]), o.r.choice([1, 2, 5]), o.r.choice([5, 16]), o.r.choice([4, 19])
    direction = o.r.choice(["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    kind = o.r.choice([np.int8, np.uint8])
    each = (d, 4 * h) if o.r.random() < 0.5 else (d,)
    zero = np.full(each, 128 if kind is np.uint8 else 0, kind)
    scale = lambda: o.const((np.abs(o.floats(*each)) * 0.01 + 0.004).astype(np.float32))
    lengths = o.const(o.rng.randint(1, s + 1, b).astype(np.int32)) if o.r.random() < 0.3 else ""
    inputs = [o.given(o.floats(s, b, i)), o.const(weights(o, kind, d, i, 4 * h)), o.const(weights(o, kind, d, h, 4 * h)), o.maybe(o.floats(d, 8 * h)),
              lengths, o.given(o.floats(d, b, h)) if o.r.random() < 0.5 else "", o.given(o.floats(d, b, h)) if o.r.random() < 0.5 else "",
              o.maybe(o.floats(d, 3 * h), 0.3), scale(), o.const(zero), scale(), o.const(zero)]
    return o.model("DynamicQuantizeLSTM", inputs, [F, F, F], direction=direction, hidden_size=h, atol=1e-2)


def fused_conv(o):
    axes, groups = o.r.choice([1, 2]), o.r.choice([1, 2])
    activation, params = o.r.choice([("Relu", []), ("Tanh", []), ("LeakyRelu", [0.2]), ("Clip", [-0.3, 0.5]), ("HardSigmoid", [0.3, 0.4])])
    x, w = o.given(o.floats(2, 4, *[7] * axes)), o.const(o.floats(6, 4 // groups, *[3] * axes))
    added = o.given(o.floats(2, 6, *[7] * axes)) if o.r.random() < 0.3 else ""
    return o.model("FusedConv", [x, w, o.maybe(o.floats(6)), added], [F], kernel_shape=[3] * axes, pads=[1] * (2 * axes), group=groups,
                   activation=activation, **({"activation_params": params} if params else {}))


def fused_gemm(o):
    activation, params = o.r.choice([("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", dict(activation_alpha=0.2)), ("Elu", dict(activation_alpha=0.7))])
    ta, tb = o.r.randint(0, 1), o.r.randint(0, 1)
    a, b = o.given(o.floats(*((5, 3) if ta else (3, 5)))), o.const(o.floats(*((4, 5) if tb else (5, 4))))
    return o.model("FusedGemm", [a, b, o.maybe(o.floats(4))], [F], transA=ta, transB=tb, alpha=0.5, beta=1.5, activation=activation, **params)


def byte_conv(o):
    o.kind, last, groups = np.uint8, o.r.randint(0, 1), o.r.choice([1, 2])
    shape = (2, 6, 5, 4) if last else (2, 4, 6, 5)
    w = [o.const(weights(o, np.int8, 6, 4 // groups, 3, 3)), o.const(np.linspace(0.001, 0.002, 6).astype(np.float32)), o.const(np.zeros(6, np.int8))]
    inputs = quantised(o, *shape) + w + [o.const(np.float32(0.05)), o.const(np.uint8(120)), o.maybe(o.rng.randint(-99, 99, 6).astype(np.int32))]
    return o.model("QLinearConv", inputs, [U8], channels_last=last, kernel_shape=[3, 3], pads=[1] * 4, strides=[o.r.randint(1, 2)] * 2, group=groups, atol=1.0)


KINDS = [gelu, bias_gelu, fast_gelu, quick_gelu, skip_layer_norm, skip_simplified, simplified, embed, fused_mat_mul, integer_to_float,
         dynamic_mat_mul, q_gemm, n_bits, inverse, attention, q_attention, multi_head, group_query, rotary, q_linear("QLinearAdd"),
         q_linear("QLinearMul"), q_linear("QLinearSigmoid"), q_linear("QLinearLeakyRelu", alpha=0.1), q_linear("QLinearGlobalAveragePool"),
         q_linear("QLinearAveragePool"), q_linear("QLinearWhere"), q_linear("QLinearConcat"), q_linear("QLinearSoftmax"), q_pool, dequantise, quantise, lstm, fused_conv,
         fused_gemm, byte_conv]


def make(r, seed):
    return KINDS[seed % len(KINDS)](One(r))
