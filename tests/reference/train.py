"""The reference for `tests/models/train/step.ge`: 100 steps in NumPy with 32-bit numbers. Prints the weights for `tests/tests/state.rs`."""

import numpy as np

f = np.float32
x = (np.arange(24, dtype=f).reshape(8, 3) * f(0.37)) % f(1.0) - f(0.5)
t = np.stack([x[:, 0] + x[:, 1] * f(2), x[:, 2] - x[:, 0]], axis=1).astype(f)
w1 = np.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.6, -0.1, 0.4, 0.3, -0.5, 0.1, 0.2, -0.3, 0.7], f).reshape(3, 5)
b1 = np.full(5, 0.1, f)
w2 = np.array([0.4, -0.6, 0.2, 0.3, -0.1, 0.5, 0.7, -0.2, 0.3, 0.1], f).reshape(5, 2)
b2 = np.zeros(2, f)
lr, momentum, beta1, beta2, epsilon, scale = f(0.05), f(0.9), f(0.9), f(0.999), f(1e-7), f(0.125)
accum = [np.zeros_like(w1), np.zeros_like(b1)]
m, v = [np.zeros_like(w2), np.zeros_like(b2)], [np.zeros_like(w2), np.zeros_like(b2)]
power1, power2 = beta1, beta2
losses = []
for _ in range(100):
    h = np.maximum(x @ w1 + b1, f(0))
    e = h @ w2 + b2 - t
    losses.append((e * e).sum() * scale)
    d = e * scale
    dz = (d @ w2.T) * (h > 0).astype(f)
    for k, (w, g) in enumerate([(w1, x.T @ dz), (b1, dz.sum(axis=0))]):
        accum[k][...] = accum[k] * momentum + g
        w -= lr * accum[k]
    alpha = lr * np.sqrt(f(1) - power2) / (f(1) - power1)
    for k, (w, g) in enumerate([(w2, h.T @ d), (b2, d.sum(axis=0))]):
        m[k] += (g - m[k]) * (f(1) - beta1)
        v[k] += (g * g - v[k]) * (f(1) - beta2)
        w -= alpha * m[k] / (np.sqrt(v[k]) + epsilon)
    power1, power2 = power1 * beta1, power2 * beta2
for name, value in [("w1", w1), ("b1", b1), ("w2", w2), ("b2", b2), ("loss", np.array([losses[0], losses[-1]]))]:
    print(name, " ".join(f"{x:.6}" for x in value.ravel()))
