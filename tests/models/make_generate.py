"""Makes a small random decoder with a key and value cache, and what onnxruntime generates with it.

Usage: python make_generate.py FOLDER [LAYERS HEADS HEAD VOCAB MOST STEPS SCALE]
Writes FOLDER/decoder.onnx, FOLDER/prompt.npy, FOLDER/tokens.npy (the prompt and what follows it, greedily) and FOLDER/logits.npy (of the
last position of each step). The numbers make another one than that of the tests, and onnxruntime's time of a step on one thread is told. One model runs the prompt as a whole and then token by token: `past_*` has as many positions as were seen.
"""
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

SIZES = sys.argv[2:] or ["2", "2", "8", "48", "64", "20", "0.4"]
LAYERS, HEADS, HEAD, VOCAB, MOST, STEPS = map(int, SIZES[:6])
WIDTH, SCALE = HEADS * HEAD, float(SIZES[6])


def build(seed):
    rng = np.random.default_rng(seed)
    nodes, weights = [], []

    def const(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(name, *shape, scale=SCALE):
        return const(name, (rng.standard_normal(shape) * scale).astype(np.float32))

    def op(kind, inputs, outputs=1, **attrs):
        names = [f"{kind}_{len(nodes)}_{k}" for k in range(outputs)]
        nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}_{len(nodes)}", **attrs))
        return names[0] if outputs == 1 else names

    def named(kind, inputs, name, **attrs):
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attrs))
        return name

    def norm(x, name):
        scale, bias = const(f"{name}_scale", np.ones(WIDTH, np.float32)), const(f"{name}_bias", np.zeros(WIDTH, np.float32))
        return op("LayerNormalization", [x, scale, bias], axis=-1)

    def heads(x):
        split = op("Reshape", [x, const_heads])
        return op("Transpose", [split], perm=[0, 2, 1, 3])

    const_heads = const("heads", np.array([0, 0, HEADS, HEAD], np.int64))
    const_flat = const("flat", np.array([0, 0, WIDTH], np.int64))
    zero, one = const("zero", np.array(0, np.int64)), const("one", np.array(1, np.int64))
    two = const("two", np.array(2, np.int64))
    seen = op("Gather", [op("Shape", ["past_key_0"]), two])
    new = op("Gather", [op("Shape", ["tokens"]), one])
    total = op("Add", [seen, new])
    place = op("Range", [seen, total, one])
    x = op("Add", [op("Gather", [weight("embedding", VOCAB, WIDTH, scale=0.5), "tokens"]),
                   op("Gather", [weight("places", MOST, WIDTH, scale=0.5), place])])
    # A position sees itself and what stands before it.
    behind = op("Unsqueeze", [place, const("last", np.array([1], np.int64))])
    sees = op("LessOrEqual", [op("Range", [zero, total, one]), behind])
    hidden = op("Where", [sees, const("open", np.float32(0)), const("shut", np.float32(-1e9))])
    for i in range(LAYERS):
        h = norm(x, f"before_{i}")
        q, k, v = (heads(op("MatMul", [h, weight(f"{n}_{i}", WIDTH, WIDTH)])) for n in ("q", "k", "v"))
        key = named("Concat", [f"past_key_{i}", k], f"present_key_{i}", axis=2)
        value = named("Concat", [f"past_value_{i}", v], f"present_value_{i}", axis=2)
        scores = op("MatMul", [q, op("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = op("Add", [op("Mul", [scores, const(f"scale_{i}", np.float32(HEAD ** -0.5))]), hidden])
        mixed = op("MatMul", [op("Softmax", [scores], axis=-1), value])
        mixed = op("Reshape", [op("Transpose", [mixed], perm=[0, 2, 1, 3]), const_flat])
        x = op("Add", [x, op("MatMul", [mixed, weight(f"o_{i}", WIDTH, WIDTH)])])
        h = op("Relu", [op("MatMul", [norm(x, f"behind_{i}"), weight(f"up_{i}", WIDTH, 4 * WIDTH)])])
        x = op("Add", [x, op("MatMul", [h, weight(f"down_{i}", 4 * WIDTH, WIDTH)])])
    named("MatMul", [norm(x, "final"), weight("head", WIDTH, VOCAB)], "logits")

    def cache(word, length):
        return [helper.make_tensor_value_info(f"{word}_{n}_{i}", TensorProto.FLOAT, [1, HEADS, length, HEAD])
                for i in range(LAYERS) for n in ("key", "value")]

    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "new"])] + cache("past", "seen")
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "new", VOCAB])] + cache("present", "total")
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def generate(model, prompt):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    past = {i.name: np.zeros((1, HEADS, 0, HEAD), np.float32) for i in session.get_inputs()[1:]}
    tokens, new, logits, times = list(prompt), list(prompt), [], []
    for _ in range(STEPS):
        begun = time.perf_counter()
        out = dict(zip(names, session.run(None, {"tokens": np.array([new], np.int64), **past})))
        times.append(time.perf_counter() - begun)
        logits.append(out["logits"][0, -1])
        past = {n.replace("present", "past"): v for n, v in out.items() if n != "logits"}
        new = [int(np.argmax(logits[-1]))]
        tokens += new
    if sys.argv[2:]:
        print(f"onnxruntime: a step takes {np.median(times) * 1e3:.2f} ms in the median")
    return np.array(tokens, np.int64), np.stack(logits)


def main(folder):
    model = build(2)
    prompt = np.array([3, 17, 41, 8, 29], np.int64)
    tokens, logits = generate(model, prompt)
    onnx.save(model, f"{folder}/decoder.onnx")
    np.save(f"{folder}/prompt.npy", prompt)
    np.save(f"{folder}/tokens.npy", tokens)
    np.save(f"{folder}/logits.npy", logits)


if __name__ == "__main__":
    main(sys.argv[1])
