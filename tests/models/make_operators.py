#!/usr/bin/env python3
"""Makes tests/models/operators: operators of ONNX's newest sets with open sizes, inputs of several sizes and the outputs of
onnx's reference evaluator; those of n-grams by onnxruntime, as the evaluator takes weights by columns, the standard by n-grams.

    python make_operators.py FOLDER [NAME ...]          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

vi = h.make_tensor_value_info
F, D, I, B = T.FLOAT, T.DOUBLE, T.INT64, T.BOOL
SIZES = [(1, 1), (2, 3), (3, 16), (1, 0)]


def rand(r, *shape, t=np.float32):
    return r.standard_normal(shape).astype(t)


def linear(rule, heads, past, wide):
    """Linear attention of `heads` queries and keys, with a past, a decay of each head or each number of its keys."""
    (hq, hk), dk, dv = heads, 4, 3
    def make():
        r = np.random.RandomState(len(rule) + hq)
        gated, delta = rule.startswith("gated"), rule.endswith("delta")
        n = hk * dk if wide else hk
        ins = [vi("q", F, ["B", "T", hq * dk]), vi("k", F, ["B", "T", hk * dk]), vi("v", F, ["B", "T", hk * dv])]
        ins += [vi("past", F, ["B", hk, dk, dv])] * past + [vi("decay", F, ["B", "T", n])] * gated + [vi("beta", F, ["B", "T", 1 if wide else hk])] * delta
        names = [i.name for i in ins]
        take = [n if n in names else "" for n in ("q", "k", "v", "past", "decay", "beta")]
        node = h.make_node("LinearAttention", take, ["y", "state"], name="attention", q_num_heads=hq, kv_num_heads=hk, update_rule=rule)
        g = h.make_graph([node], "linear", ins, [vi("y", F, ["B", "T", hq * dv]), vi("state", F, ["B", hk, dk, dv])])
        def run(b, t):
            v = [rand(r, b, t, hq * dk), rand(r, b, t, hk * dk), rand(r, b, t, hk * dv)]
            v[1] /= np.sqrt(dk)
            v += [rand(r, b, hk, dk, dv)] * past + [-np.abs(rand(r, b, t, n))] * gated
            return v + [1 / (1 + np.exp(-rand(r, b, t, 1 if wide else hk)))] * delta
        return g, 27, [run(*s) for s in SIZES]
    return make


def causal(k, past, activation, bias):
    """A causal convolution of each channel by itself."""
    def make():
        r, c = np.random.RandomState(k), 5
        ins = [vi("x", F, ["B", c, "L"])] + [vi("past", F, ["B", c, k - 1])] * past
        w = [h.make_tensor("w", F, [c, 1, k], rand(r, c * k))] + [h.make_tensor("b", F, [c], rand(r, c))] * bias
        node = h.make_node("CausalConvWithState", ["x", "w", "b" if bias else "", "past" if past else ""], ["y", "state"], name="conv", activation=activation)
        g = h.make_graph([node], "causal", ins, [vi("y", F, ["B", c, "L"]), vi("state", F, ["B", c, k - 1])], w)
        run = lambda b, l: [rand(r, b, c, l)] + [rand(r, b, c, k - 1)] * past
        return g, 27, [run(*s) for s in SIZES if s[1] > 0]
    return make


def modifier(name, nodes, inits):
    shape = ["B", "H", "L", "S"]
    return h.make_graph(nodes, name, [vi(name + "_in", F, shape)], [vi(name + "_out", F, shape)], inits)


def flex(heads, score, prob, scale):
    """Attention whose scores lose what lies ahead and are capped, whose weights are scaled by a value from outside."""
    def make():
        r, (hq, hk) = np.random.RandomState(hq_seed(heads)), heads
        ins = [vi("q", F, ["B", hq, "L", 4]), vi("k", F, ["B", hk, "S", 4]), vi("v", F, ["B", hk, "S", 3])]
        attrs = {}
        if score:
            i64 = lambda n, v, d=(): h.make_tensor(n, I, d, v)
            attrs["score_mod"] = modifier("score", [
                h.make_node("Shape", ["score_in"], ["dims"]), h.make_node("Gather", ["dims", "i2"], ["L_"]),
                h.make_node("Gather", ["dims", "i3"], ["S_"]), h.make_node("Range", ["zero", "L_", "one"], ["ql"]),
                h.make_node("Range", ["zero", "S_", "one"], ["kl"]), h.make_node("Unsqueeze", ["ql", "a1"], ["qi"]),
                h.make_node("Greater", ["kl", "qi"], ["ahead"]), h.make_node("Tanh", ["score_in"], ["capped"]),
                h.make_node("Where", ["ahead", "low", "capped"], ["score_out"])],
                [i64("i2", [2]), i64("i3", [3]), i64("zero", [0]), i64("one", [1]), i64("a1", [1], [1]),
                 h.make_tensor("low", F, [], [float("-inf")])])
        if prob:
            attrs["prob_mod"] = modifier("prob", [h.make_node("Mul", ["prob_in", "factor"], ["prob_out"])], [h.make_tensor("factor", F, [], [0.5])])
        if scale:
            attrs["scale"] = scale
        node = h.make_node("FlexAttention", ["q", "k", "v"], ["y"], name="attention", domain="ai.onnx.preview", **attrs)
        g = h.make_graph([node], "flex", ins, [vi("y", F, ["B", hq, "L", 3])])
        run = lambda b, l, s: [rand(r, b, hq, l, 4), rand(r, b, hk, s, 4), rand(r, b, hk, s, 3)]
        return g, 24, [run(*s) for s in [(1, 1, 1), (2, 3, 5), (1, 7, 7), (3, 16, 2)]]
    return make


def hq_seed(heads):
    return 10 * heads[0] + heads[1]


def words(mode, lengths, skips, rows):
    """n-grams of one to three words, which have the numbers 0 to 5."""
    def make():
        r = np.random.RandomState(skips + lengths[1])
        one, two, three = [2, 3, 5, 4], [5, 4, 1, 2, 3, 3, 2, 5], [1, 2, 3, 5, 5, 5]
        columns = [0, 3, 1, 2, 7, 5, 4, 6, 9, 8]
        weights = {"weights": [float(v) for v in np.round(rand(r, 10), 2)]} if mode != "TF" else {}
        node = h.make_node("TfIdfVectorizer", ["x"], ["y"], name="grams", mode=mode, min_gram_length=lengths[0],
                           max_gram_length=lengths[1], max_skip_count=skips, ngram_counts=[0, 4, 12],
                           ngram_indexes=columns, pool_int64s=one + two + three, **weights)
        g = h.make_graph([node], "words", [vi("x", I, ["N", "C"] if rows else ["C"])], [vi("y", F, ["N", 10] if rows else [10])])
        sizes = [(n, c) if rows else (c,) for n, c in [(1, 1), (2, 3), (5, 21), (1, 0)]]
        return g, 21, [[r.randint(0, 6, s).astype(np.int64)] for s in sizes]
    return make


def attention(heads, past, mask, rank, opset=23, **attrs):
    """Attention of a decoder's step or a prompt: a past, a mask of truth values or of numbers with a row that sees nothing, heads
    apart or side by side."""
    def make():
        r, (hq, hk), size = np.random.RandomState(heads[0] + rank), heads, 4
        four = rank == 4
        of = lambda n, length: ["B", n, length, size] if four else ["B", length, n * size]
        ins = [vi("q", F, of(hq, "S")), vi("k", F, of(hk, "S")), vi("v", F, of(hk, "S"))]
        names = ["q", "k", "v", "m" if mask else ""] + (["pk", "pv"] if past else [])
        if mask:
            ins.append(vi("m", mask, ["S", "T"]))
        if past:
            ins += [vi(n, F, ["B", hk, "P", size]) for n in ("pk", "pv")]
        outs = [vi("y", F, of(hq, "S"))] + ([vi(n, F, ["B", hk, "T", size]) for n in ("k2", "v2")] if past else [])
        side = {} if four else dict(q_num_heads=hq, kv_num_heads=hk)
        node = h.make_node("Attention", names, [o.name for o in outs], name="attention", **attrs, **side)
        g = h.make_graph([node], "attention", ins, outs)
        def run(b, s, p):
            shape = lambda n, length: (b, n, length, size) if four else (b, length, n * size)
            p = p if past else 0
            given = [rand(r, *shape(hq, s)), rand(r, *shape(hk, s)), rand(r, *shape(hk, s))]
            if mask:
                seen = r.rand(s, p + s) > 0.4
                seen[-1] = s == 1
                given.append(seen if mask == B else np.where(seen, rand(r, s, p + s), np.float32(-np.inf)).astype(np.float32))
            return given + ([rand(r, b, hk, p, size), rand(r, b, hk, p, size)] if past else [])
        return g, opset, [run(*s) for s in [(1, 5, 0), (2, 1, 7), (1, 70, 3), (2, 3, 4)]]
    return make


def update(op, attrs, kept, open_type):
    """One update of two tensors, of open sizes; the count of updates is an input."""
    def make():
        r = np.random.RandomState(len(op) + kept)
        names = [f"{a}{i}" for a in ["x", "g", "v", "h"][:2 + kept] for i in (1, 2)]
        shapes = {"1": ["N"], "2": ["N", 3]}
        t = D if open_type == np.float64 else F
        ins = [vi("rate", t, []), vi("count", I, [])] + [vi(n, t, shapes[n[1]]) for n in names]
        outs = [f"{n}_new" for n in names if n[0] != "g"]
        node = h.make_node(op, [i.name for i in ins], outs, name="update", domain="ai.onnx.preview.training", **attrs)
        g = h.make_graph([node], "update", ins, [vi(n, t, shapes[n[1]]) for n in outs])
        def run(count, n):
            tensors = [rand(r, *([n] if name[1] == "1" else [n, 3]), t=open_type) for name in names]
            tensors = [np.abs(v) if name[0] == "h" or op == "Adagrad" and name[0] == "v" else v for name, v in zip(names, tensors)]
            return [open_type(0.1), np.int64(count)] + tensors
        return g, 21, [run(0, 1), run(7, 5), run(3, 0)]
    return make


MODELS = {
    "update_adagrad": update("Adagrad", dict(norm_coefficient=0.001, epsilon=1e-5, decay_factor=0.1), 1, np.float32),
    "update_adam": update("Adam", dict(norm_coefficient=0.01, alpha=0.95, beta=0.85, epsilon=1e-7, norm_coefficient_post=0.1), 2, np.float32),
    "update_momentum": update("Momentum", dict(norm_coefficient=0.001, alpha=0.95, beta=0.1, mode="standard"), 1, np.float64),
    "update_nesterov": update("Momentum", dict(norm_coefficient=0.01, alpha=0.95, beta=1.0, mode="nesterov"), 1, np.float32),
    "linear_attention": linear("linear", (2, 2), True, False),
    "linear_attention_gated": linear("gated", (4, 2), True, True),
    "linear_attention_delta": linear("delta", (2, 1), False, True),
    "linear_attention_gated_delta": linear("gated_delta", (4, 2), True, False),
    "causal_conv": causal(4, False, "none", False),
    "causal_conv_state": causal(3, True, "silu", True),
    "causal_conv_one": causal(1, False, "swish", True),
    "flex_attention": flex((2, 2), False, False, 0.7),
    "flex_attention_shared": flex((4, 2), False, False, None),
    "flex_attention_scores": flex((4, 2), True, False, None),
    "flex_attention_both": flex((2, 2), True, True, 0.3),
    "attention_cached": attention((4, 2), True, None, 4, is_causal=1),
    "attention_cached_rows": attention((4, 2), True, B, 3, opset=24),
    "attention_causal": attention((2, 2), False, None, 3, is_causal=1, scale=0.3),
    "attention_masked": attention((4, 1), False, F, 4, opset=24, is_causal=1),
    "attention_rows": attention((3, 3), False, B, 3),
    "words_tf": words("TF", (1, 3), 0, True),
    "words_idf": words("IDF", (2, 2), 3, True),
    "words_tfidf": words("TFIDF", (1, 2), 5, False),
}


def main():
    out, names = sys.argv[1], sys.argv[2:]
    for name, make in MODELS.items():
        if names and name not in names:
            continue
        graph, opset, runs = make()
        opsets = [h.make_opsetid("", opset)] + [h.make_opsetid("ai.onnx.preview", 1)] * name.startswith("flex")
        opsets += [h.make_opsetid("ai.onnx.preview.training", 1)] * name.startswith("update")
        m = h.make_model(graph, opset_imports=opsets, ir_version=10)
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        evaluator = ReferenceEvaluator(m)
        for k, run in enumerate(runs):
            expect = os.path.join(folder, f"s{k}", "expect")
            os.makedirs(expect, exist_ok=True)
            for i, v in enumerate(run):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), v)
            feeds = {i.name: v for i, v in zip(graph.input, run)}
            if name.startswith("words"):
                outs = ort.InferenceSession(m.SerializeToString()).run(None, feeds)
            else:
                outs = evaluator.run(None, feeds)
            for i, v in enumerate(outs):
                np.save(os.path.join(expect, f"output_{i}.npy"), v)
        print(f"{name}: {len(runs)} runs")


if __name__ == "__main__":
    main()
