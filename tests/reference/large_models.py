"""Large operators by themselves, and whole attentions, for `random_models.py --what large`.

The other kinds have many small nodes, which a kernel computes in one block. These have few nodes of sizes
at which work is cut into blocks, strips and units, and edges that no block divides: the faults that only they
show are in what is left over. `make(r, seed)` returns a model whose inputs are x0, x1, ..., one set of inputs, and the
tolerance beyond which a difference from onnxruntime is an error. Consecutive seeds take the operators in turn.
"""
import math

import numpy as np
from onnx import TensorProto, helper

from contrib_models import One

# Elements of a tensor, and multiplications of a product: what a model of a few hundred milliseconds has.
ELEMENTS, PRODUCTS = 3_000_000, 1_500_000_000


class Model(One):
    """A model of a few nodes in a row."""

    def __init__(self, r):
        super().__init__(r)
        self.nodes = []

    def floats(self, *shape, scale=1.0):
        return super().floats(*shape, scale=scale)

    def either(self, array):
        return self.given(array) if self.r.random() < 0.3 else self.const(array)

    def op(self, kind, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attrs))
        return name

    def done(self, output, atol=2e-4):
        out = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "large", self.inputs, out, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), [self.feed], atol

    def size(self, most):
        """Of every order of magnitude, more of the large ones; often a power of two or beside one, or a multiple of eight."""
        n = int((most + 1) ** self.r.random() ** 0.6)
        near = 1 << max(0, n.bit_length() - 1)
        return max(1, min(most, self.r.choice([n, n, near, near + 1, near - 1, (n + 7) // 8 * 8])))

    def sizes(self, *most, elements=ELEMENTS):
        while True:
            sizes = [self.size(m) for m in most]
            if math.prod(sizes) <= elements:
                return sizes


def convolution(m):
    r, rank = m.r, m.r.choice([1, 2, 2, 2, 3])
    while True:
        group = r.choice([1, 1, 1, 2, 0])
        cin, cout = m.size(600), m.size(600)
        if group == 0:
            group, cout = cin, cin * r.choice([1, 1, 2])
        cin, cout = -(-cin // group) * group, -(-cout // group) * group
        side = [m.size(200 if rank == 2 else 4000 if rank == 1 else 40) for _ in range(rank)]
        window = [r.choice([1, 2, 3, 3, 3, 4, 5, 7, 11]) for _ in range(rank)]
        stride = [r.choice([1, 1, 1, 2, 3]) for _ in range(rank)]
        dilation = [r.choice([1, 1, 1, 2, 6, 12]) for _ in range(rank)]
        reach = [(w - 1) * d for w, d in zip(window, dilation)]
        before, after = ([r.choice([0, n // 2, n // 2, min(n, 2)]) for n in reach] for _ in "be")
        out = [(s + b + a - n - 1) // t + 1 for s, b, a, n, t in zip(side, before, after, reach, stride)]
        if min(s + b + a - n for s, b, a, n in zip(side, before, after, reach)) < 1 or cin * math.prod(side) > ELEMENTS:
            continue
        if cout * math.prod(out) <= ELEMENTS and cout * math.prod(out) * cin // group * math.prod(window) <= PRODUCTS // 4:
            break
    depth = cin // group * math.prod(window)
    weights = m.either(m.floats(cout, cin // group, *window, scale=depth**-0.5))
    bias = [m.const(m.floats(cout))] if r.random() < 0.5 else []
    x = m.given(m.floats(r.choice([1, 1, 2]) if cin * math.prod(side) < ELEMENTS // 4 else 1, cin, *side))
    y = m.op("Conv", x, weights, *bias, group=group, kernel_shape=window, strides=stride, dilations=dilation, pads=before + after)
    return m.done(m.op(r.choice(["Relu", "Sigmoid", "HardSwish"]), y) if r.random() < 0.4 else y)


def transposed(m):
    r = m.r
    while True:
        cin, cout, h, w = m.size(300), m.size(200), m.size(80), m.size(80)
        stride, window = [r.choice([1, 2, 2, 4]) for _ in "hw"], [r.choice([1, 2, 3, 4, 8]) for _ in "hw"]
        pads = [r.randrange(min(k, 3)) for k in window]
        group = r.choice([1, 1, 1, 2]) if cin % 2 == 0 else 1
        out = [(n - 1) * t + k - 2 * p for n, t, k, p in zip((h, w), stride, window, pads)]
        if min(out) >= 1 and cout * group * math.prod(out) <= ELEMENTS and cin * cout * h * w * math.prod(window) <= PRODUCTS // 4:
            break
    weights = m.either(m.floats(cin, cout, *window, scale=(cin // group) ** -0.5))
    bias = [m.const(m.floats(cout * group))] if r.random() < 0.5 else []
    return m.done(m.op("ConvTranspose", m.given(m.floats(1, cin, h, w)), weights, *bias, group=group, kernel_shape=window,
                       strides=stride, pads=pads * 2))


def pool(m):
    r = m.r
    c, h, w = m.sizes(600, 200, 200, elements=ELEMENTS // 2)
    h, w = h + 1, w + 1
    kind, window = r.choice(["MaxPool", "AveragePool"]), [r.choice([1, 2, 3, 3, 5, 7]) for _ in "hw"]
    window = [min(k, n) for k, n in zip(window, (h, w))]
    pads = [r.randrange(k) // 2 if k > 1 else 0 for k in window]
    attrs = dict(kernel_shape=window, strides=[r.choice([1, 1, 2, 3]) for _ in "hw"], pads=pads * 2, ceil_mode=r.choice([0, 0, 1]))
    if kind == "AveragePool":
        attrs["count_include_pad"], attrs["ceil_mode"] = r.choice([0, 1]), 0
    return m.done(m.op(kind, m.given(m.floats(1, c, h, w)), **attrs))


def product(m):
    r = m.r
    while True:
        b, (i, k, j) = m.size(40) if r.random() < 0.5 else 1, (m.size(3000) for _ in "ikj")
        if b * i * k * j <= PRODUCTS // 2 and b * max(i * k, k * j, i * j) <= ELEMENTS:
            break
    lead = (b,) if b > 1 else ()
    x, shared = m.floats(*lead, i, k), r.random() < 0.5
    y = m.floats(*(() if shared else lead), k, j, scale=k**-0.5)
    if r.random() < 0.2:
        return m.done(m.op("MatMul", m.op("Transpose", m.given(x.swapaxes(-1, -2).copy()), perm=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]),
                           m.either(y)))
    out = m.op("MatMul", m.given(x), m.either(y))
    if r.random() < 0.5:
        out = m.op("Add", out, m.const(m.floats(j)))
    if r.random() < 0.3:
        out = m.op(r.choice(["Relu", "Tanh", "Sigmoid"]), out)
    return m.done(out)


def along(m):
    """Softmax, norms and reductions over an axis or the last few."""
    r = m.r
    shape = m.sizes(*[3000] * r.choice([1, 2, 2, 3, 4]))
    axis = r.randrange(len(shape))
    x = m.given(m.floats(*shape))
    kind = r.choice(["Softmax", "Softmax", "LogSoftmax", "LayerNormalization", "ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2"])
    if kind == "LayerNormalization":
        return m.done(m.op(kind, x, m.const(m.floats(*shape[axis:])), m.const(m.floats(*shape[axis:])), axis=axis))
    if not kind.startswith("Reduce"):
        return m.done(m.op(kind, x, axis=axis))
    axes = m.const(np.array(sorted({axis, r.randrange(len(shape))}), np.int64))
    scale = math.prod(shape) ** 0.5 if kind == "ReduceSum" else 1
    return m.done(m.op(kind, x, axes, keepdims=r.choice([0, 1])), atol=2e-4 * max(1.0, scale / 100))


def attention(m):
    """As exporters of transformers write it: (batch, heads, positions, depth) from a transposed split, or as it is."""
    r = m.r
    while True:
        b, heads, depth = r.choice([1, 1, 2]), r.choice([1, 2, 3, 4, 8, 12]), r.choice([8, 16, 32, 40, 64, 64, 80, 96, 128])
        n = m.size(600)
        keys = n if r.random() < 0.7 else m.size(900)
        if b * heads * n * keys <= ELEMENTS:
            break

    def given(count, turned=False):
        if r.random() < 0.5:
            x = m.op("Transpose", m.given(m.floats(b, count, heads, depth)), perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])
        else:
            x = m.given(m.floats(b, heads, count, depth))
            x = m.op("Transpose", x, perm=[0, 1, 3, 2]) if turned else x
        return x

    scores = m.op("MatMul", given(n), given(keys, turned=True))
    scores = m.op(*r.choice([("Mul", scores, m.const(np.float32(depth**-0.5))), ("Div", scores, m.const(np.float32(depth**0.5)))]))
    mask = r.choice(["none", "causal", "keys", "given"])
    if mask == "causal" and n == keys:
        scores = m.op("Add", scores, m.const(np.triu(np.full((n, n), -1e9, np.float32), 1)[None, None]))
    elif mask == "keys":
        hidden = np.where(m.rng.rand(b, 1, 1, keys) < 0.3, -10000, 0).astype(np.float32)
        scores = m.op("Add", scores, m.given(hidden))
    elif mask == "given":
        scores = m.op("Add", scores, m.given(m.floats(1, heads, n, keys)))
    out = m.op("MatMul", m.op("Softmax", scores, axis=-1), given(keys))
    if r.random() < 0.7:
        out = m.op("Transpose", out, perm=[0, 2, 1, 3])
        out = m.op("Reshape", out, m.const(np.array([b, n, heads * depth], np.int64)))
    return m.done(out)


KINDS = [convolution, attention, product, along, pool, convolution, attention, transposed]


def make(r, seed):
    return KINDS[seed % len(KINDS)](Model(r))
