#!/usr/bin/env python3
"""Trains the demo's model: a small convolutional classifier of the 8x8 handwritten digits of scikit-learn.

  python -m venv v && v/bin/pip install numpy==2.* onnx==1.23.2 scikit-learn==1.*
  v/bin/python tests/models/train_digits.py tests/models/digits

Writes digits.onnx (batch 1, input 1x1x8x8 from 0 to 1, output 10 scores), images.npy (f32[N,1,1,8,8], held back, never trained
on) and labels.npy (i64[N]). Plain numpy: two 3x3 convolutions with ReLU, a 2x2 pooling, one dense layer, softmax loss, Adam.
The split and the weights come from a fixed seed, so that any machine writes nearly the same model.
"""
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper as h, numpy_helper as nh
from sklearn.datasets import load_digits

OUT = sys.argv[1] if len(sys.argv) > 1 else "."
HELD_BACK, EPOCHS, BATCH = 200, 40, 64
r = np.random.RandomState(7)
data = load_digits()
order = r.permutation(len(data.images))
x = (data.images[order] / 16.0).astype(np.float32)[:, None]
y = data.target[order]
train_x, train_y, test_x, test_y = x[:-HELD_BACK], y[:-HELD_BACK], x[-HELD_BACK:], y[-HELD_BACK:]


def columns(a):
    """3x3 neighbourhoods, padded by one: N,C,H,W -> N,H,W,C*9"""
    p = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    w = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(2, 3))
    return w.transpose(0, 2, 3, 1, 4, 5).reshape(a.shape[0], a.shape[2], a.shape[3], -1)


def columns_back(g, shape):
    n, c, hh, ww = shape
    g = g.reshape(n, hh, ww, c, 3, 3)
    out = np.zeros((n, c, hh + 2, ww + 2), np.float32)
    for i in range(3):
        for j in range(3):
            out[:, :, i:i + hh, j:j + ww] += g[..., i, j].transpose(0, 3, 1, 2)
    return out[:, :, 1:-1, 1:-1]


def he(*s):
    return (r.standard_normal(s) * np.sqrt(2.0 / np.prod(s[1:]))).astype(np.float32)


P = {"w1": he(12, 1 * 9), "b1": np.zeros(12, np.float32), "w2": he(24, 12 * 9), "b2": np.zeros(24, np.float32),
     "w3": he(10, 24 * 16), "b3": np.zeros(10, np.float32)}
M = {k: (np.zeros_like(v), np.zeros_like(v)) for k, v in P.items()}


def forward(a):
    c1 = columns(a)
    z1 = c1 @ P["w1"].T + P["b1"]
    a1 = np.maximum(z1, 0).transpose(0, 3, 1, 2)
    c2 = columns(a1)
    z2 = c2 @ P["w2"].T + P["b2"]
    a2 = np.maximum(z2, 0).transpose(0, 3, 1, 2)
    n = a.shape[0]
    win = a2.reshape(n, 24, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, 24, 4, 4, 4)
    pool = win.max(-1)
    flat = pool.reshape(n, -1)
    return flat @ P["w3"].T + P["b3"], (c1, z1, a1, c2, z2, win, pool, flat)


def step(a, t, k):
    s, (c1, z1, a1, c2, z2, win, pool, flat) = forward(a)
    n = len(a)
    e = np.exp(s - s.max(1, keepdims=True))
    g = e / e.sum(1, keepdims=True)
    g[np.arange(n), t] -= 1
    g /= n
    G = {"w3": g.T @ flat, "b3": g.sum(0)}
    gp = (g @ P["w3"]).reshape(pool.shape)
    gw = (win == pool[..., None]) * gp[..., None]
    ga2 = gw.reshape(n, 24, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, 24, 8, 8)
    gz2 = ga2.transpose(0, 2, 3, 1) * (z2 > 0)
    G["w2"], G["b2"] = np.einsum("nhwo,nhwk->ok", gz2, c2), gz2.sum((0, 1, 2))
    gz1 = columns_back(gz2 @ P["w2"], a1.shape).transpose(0, 2, 3, 1) * (z1 > 0)
    G["w1"], G["b1"] = np.einsum("nhwo,nhwk->ok", gz1, c1), gz1.sum((0, 1, 2))
    for name, v in G.items():
        m, q = M[name]
        m += 0.1 * (v - m)
        q += 0.001 * (v * v - q)
        P[name] -= 0.002 * (m / (1 - 0.9 ** k)) / (np.sqrt(q / (1 - 0.999 ** k)) + 1e-8)


k = 0
for epoch in range(EPOCHS):
    p = r.permutation(len(train_x))
    for i in range(0, len(p), BATCH):
        k += 1
        step(train_x[p[i:i + BATCH]], train_y[p[i:i + BATCH]], k)
print("held back: %.1f %% of %d right" % (100 * (forward(test_x)[0].argmax(1) == test_y).mean(), HELD_BACK))

init = [nh.from_array(P["w1"].reshape(12, 1, 3, 3), "w1"), nh.from_array(P["b1"], "b1"), nh.from_array(P["w2"].reshape(24, 12, 3, 3), "w2"),
        nh.from_array(P["b2"], "b2"), nh.from_array(P["w3"], "w3"), nh.from_array(P["b3"], "b3")]
nodes = [h.make_node("Conv", ["image", "w1", "b1"], ["c1"], name="conv1", pads=[1] * 4), h.make_node("Relu", ["c1"], ["r1"], name="relu1"),
         h.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", pads=[1] * 4), h.make_node("Relu", ["c2"], ["r2"], name="relu2"),
         h.make_node("MaxPool", ["r2"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]), h.make_node("Flatten", ["p"], ["f"], name="flatten"),
         h.make_node("Gemm", ["f", "w3", "b3"], ["s"], name="dense", transB=1), h.make_node("Softmax", ["s"], ["scores"], name="softmax", axis=1)]
vi = h.make_tensor_value_info
g = h.make_graph(nodes, "digits", [vi("image", TensorProto.FLOAT, [1, 1, 8, 8])], [vi("scores", TensorProto.FLOAT, [1, 10])], init)
m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], producer_name="train_digits")
m.ir_version = 8
onnx.checker.check_model(m)
onnx.save(m, OUT + "/digits.onnx")
np.save(OUT + "/images.npy", test_x[:, None])
np.save(OUT + "/labels.npy", test_y.astype(np.int64))
