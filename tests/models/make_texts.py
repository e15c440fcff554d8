#!/usr/bin/env python3
"""Makes tests/models/texts: operators of strings with open sizes, inputs of several sizes and the outputs of onnxruntime.

    python make_texts.py FOLDER          (in the environment of tests/reference/requirements.txt)

One folder a model: model.onnx, and for each run s<k>/input_<i>.npy and s<k>/expect/output_<i>.npy.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h

vi = h.make_tensor_value_info
S, I, B = T.STRING, T.INT64, T.BOOL
WORDS = np.array([["", "Äpfel und  Birnen", " a\tb "], ["x", "fin.", "a,b,,c"]])


def concat():
    """Broadcast both ways."""
    node = h.make_node("StringConcat", ["x", "y"], ["z"])
    g = h.make_graph([node], "concat", [vi("x", S, ["a", "b"]), vi("y", S, ["c", 1])], [vi("z", S, ["d", "b"])])
    return g, 20, [[WORDS, np.array([["-é"], [""]])], [WORDS[:1], np.array([["1"], ["22"], [""]])], [WORDS[:, :0], np.array([["a"]])]]


def split():
    """Between white space and by delimiters, the strings joined again: a second run sees what a first one made."""
    nodes = [h.make_node("StringSplit", ["x"], ["words", "n"]), h.make_node("StringSplit", ["x"], ["first", "m"], maxsplit=1),
             h.make_node("StringSplit", ["x"], ["parts", "k"], delimiter=","),
             h.make_node("StringSplit", ["x"], ["two", "l"], delimiter="b,", maxsplit=1)]
    outs = [vi(n, S, ["a", n]) for n in ("words", "first", "parts", "two")] + [vi(n, I, ["a"]) for n in ("n", "m", "k", "l")]
    runs = [["one two  three", " lead", "tail ", "a,b,,c"], ["a,b,c d"], ["b,b,b", ",", "x"]]
    return h.make_graph(nodes, "split", [vi("x", S, ["a"])], outs), 20, [[np.array(r)] for r in runs]


def normalized():
    """Stop words with and without regard to case, letters changed, nothing left."""
    def node(out, **attrs):
        return h.make_node("StringNormalizer", ["x"], [out], locale="C.UTF-8", **attrs)
    nodes = [node("same"), node("low", case_change_action="LOWER", is_case_sensitive=1, stopwords=["monday"]),
             node("up", case_change_action="UPPER", is_case_sensitive=0, stopwords=["MONDAY", "ÜBER"]),
             node("kept", case_change_action="NONE", is_case_sensitive=0, stopwords=["über"])]
    g = h.make_graph(nodes, "normalized", [vi("x", S, [1, "c"])], [vi(n, S, [1, n]) for n in ("same", "low", "up", "kept")])
    return g, 10, [[np.array([r])] for r in (["Monday", "monday", "Öl", "über"], ["monday"], ["x", "y", "Über"])]


def matched():
    """Whole strings alone; classes, choices, flags."""
    patterns = [r"\w+ .*", "a|x", "(?i)FIN.", "[^,]*(,[^,]*)+", ""]
    nodes = [h.make_node("RegexFullMatch", ["x"], [f"y{k}"], pattern=p) for k, p in enumerate(patterns)]
    g = h.make_graph(nodes, "matched", [vi("x", S, ["a", "b"])], [vi(f"y{k}", B, ["a", "b"]) for k in range(len(patterns))])
    return g, 20, [[WORDS], [WORDS[1:]], [WORDS[:, 1:2]]]


def main(out):
    for make in (concat, split, normalized, matched):
        graph, opset, runs = make()
        m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=9)
        onnx.checker.check_model(m, full_check=True)
        folder = os.path.join(out, graph.name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        plain = lambda v: np.asarray(v, str) if v.dtype.kind in "OU" else v
        for k, run in enumerate(runs):
            expect = os.path.join(folder, f"s{k}", "expect")
            os.makedirs(expect, exist_ok=True)
            for i, v in enumerate(run):
                np.save(os.path.join(folder, f"s{k}", f"input_{i}.npy"), plain(v))
            for i, v in enumerate(session.run(None, {i.name: v.astype(object) for i, v in zip(graph.input, run)})):
                np.save(os.path.join(expect, f"output_{i}.npy"), plain(v))
        print(f"{graph.name}: {len(runs)} runs")


if __name__ == "__main__":
    main(sys.argv[1])
