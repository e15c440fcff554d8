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
from onnx import helper as h, numpy_helper

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


def constants(**arrays):
    """Initializers by name."""
    def one(name, v):
        return h.make_tensor(name, S, v.shape, [s.encode() for s in v.ravel().tolist()]) if v.dtype.kind == "U" else numpy_helper.from_array(v, name)
    return [one(name, np.asarray(v)) for name, v in arrays.items()]


def moved():
    """Operators that move elements, whatever they are; equal ones, choices of them."""
    ints = lambda *v: np.array(v, np.int64)
    c = constants(flat=ints(-1), last=ints(0, -1), twice=ints(2, 1), wide=ints(2, 1, 1), a=np.array(["x"]), b=np.array("B"), to=ints(-100), axis=ints(1),
                  back=ints(-1), row=ints(0).reshape(1, 1), new=np.array([["n"]]))
    n = lambda op, ins, outs, **attrs: h.make_node(op, ins, outs if isinstance(outs, list) else [outs], **attrs)
    nodes = [n("Reshape", ["x", "flat"], "line"), n("Transpose", ["x"], "turned"), n("Concat", ["x", "x"], "joined", axis=1),
             n("Gather", ["x", "last"], "gathered", axis=1), n("Slice", ["x", "back", "to", "axis", "back"], "sliced"), n("Tile", ["x", "twice"], "tiled"),
             n("Expand", ["x", "wide"], "wider"), n("Equal", ["x", "a"], "same"), n("Where", ["same", "b", "x"], "chosen"),
             n("ScatterElements", ["x", "row", "new"], "scattered", axis=1),
             n("Unique", ["line"], ["kinds", "first", "which", "count"]), n("SplitToSequence", ["x"], "parts", axis=1), n("ConcatFromSequence", ["parts"], "again", axis=0),
             n("GatherND", ["x", "row"], "rows"), n("Compress", ["x", "keep"], "kept", axis=0)]
    texts = ["line", "turned", "joined", "gathered", "sliced", "tiled", "wider", "chosen", "scattered", "kinds", "again", "rows", "kept"]
    outs = [vi(t, S, None) for t in texts] + [vi(t, I, None) for t in ("first", "which", "count")] + [vi("same", B, None)]
    g = h.make_graph(nodes, "moved", [vi("x", S, ["a", "b"]), vi("keep", B, ["a"])], outs, c)
    return g, 19, [[WORDS, np.array([False, True])], [WORDS[:1, :1], np.array([True])], [WORDS.T, np.array([True, False, True])]]


def named():
    """Strings in a branch and through the turns of a loop; constants of text."""
    body = h.make_graph([h.make_node("Identity", ["c"], ["d"]), h.make_node("Concat", ["s", "x"], ["t"], axis=0), h.make_node("Cast", ["i"], ["n"], to=S)], "body",
                        [vi("i", I, []), vi("c", B, []), vi("s", S, [None])], [vi("d", B, []), vi("t", S, [None]), vi("n", S, [])])
    yes = h.make_graph([h.make_node("StringConcat", ["long", "mark"], ["r"])], "yes", [], [vi("r", S, [None])])
    no = h.make_graph([h.make_node("Constant", [], ["q"], value_strings=["few", "words"])], "no", [], [vi("q", S, [None])])
    nodes = [h.make_node("Constant", [], ["mark"], value_string="!"), h.make_node("Loop", ["turns", "", "x"], ["long", "numbers"], body=body),
             h.make_node("Size", ["long"], ["n"]), h.make_node("Greater", ["n", "limit"], ["many"]), h.make_node("If", ["many"], ["y"], then_branch=yes, else_branch=no)]
    g = h.make_graph(nodes, "named", [vi("x", S, ["a"]), vi("turns", I, [])], [vi("y", S, None), vi("numbers", S, None)], constants(limit=np.array(5)))
    return g, 20, [[np.array(x), np.array(n)] for x, n in ((["a", "bé"], 4), (["z"], 1), (["", "q", "r"], 2))]


def written():
    """Numbers as text and back."""
    def cast(x, y, to):
        return h.make_node("Cast", [x], [y], to=to)
    nodes = [cast("f", "fs", S), cast("d", "ds", S), cast("i", "is", S), cast("b", "bs", S), cast("fs", "fb", T.FLOAT), cast("ds", "db", T.DOUBLE), cast("is", "ib", I),
             h.make_node("CastLike", ["i", "fs"], ["like"])]
    outs = [vi(t, S, None) for t in ("fs", "ds", "is", "bs", "like")] + [vi("fb", T.FLOAT, None), vi("db", T.DOUBLE, None), vi("ib", I, None)]
    g = h.make_graph(nodes, "written", [vi("f", T.FLOAT, ["n"]), vi("d", T.DOUBLE, ["n"]), vi("i", I, ["n"]), vi("b", B, ["n"])], outs)
    rows = np.array([1, 0.1, 1 / 3, 1e10, 1e-10, 123456789, -0.0, np.nan, np.inf, -np.inf, 3.4e38, 1e-5, 0.0001, 9999.5])
    return g, 19, [[r.astype(np.float32), r, np.arange(len(r)) - 3, r > 1] for r in (rows, rows[2:3], rows[:0])]


def counted():
    """N-grams of words, counted: rows, pairs with a word between them, weights."""
    attrs = dict(min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 4, 3],
                 pool_strings=["a", "bc", "é", "a", "bc", "é", "a"])
    nodes = [h.make_node("TfIdfVectorizer", ["x"], ["tf"], mode="TF", **attrs),
             h.make_node("TfIdfVectorizer", ["x"], ["weighted"], mode="TFIDF", weights=[1.0, 2.0, 3.0, 0.5, 0.25], **attrs)]
    g = h.make_graph(nodes, "counted", [vi("x", S, ["a", "b"])], [vi("tf", T.FLOAT, None), vi("weighted", T.FLOAT, None)])
    words = np.array([["a", "bc", "é", "a"], ["é", "x", "a", "bc"], ["", "bc", "a", "a"]])
    return g, 17, [[words], [words[:1, :1]], [words[:2, 1:]]]


def tokens():
    """Words between separators, words that match, characters; marks and what rows are filled with."""
    def node(out, **attrs):
        return h.make_node("Tokenizer", ["x"], [out], domain="com.microsoft", pad_value="#", **attrs)
    nodes = [node("letters", mark=0, mincharnum=1, separators=[""]), node("parts", mark=1, mincharnum=1, separators=[r"\s+", ","]),
             node("found", mark=0, mincharnum=2, tokenexp=r"[a-c]+|\w+"), node("longest", mark=1, mincharnum=1, tokenexp="fi|fin|B")]
    g = h.make_graph(nodes, "tokens", [vi("x", S, ["a", "b"])], [vi(t, S, None) for t in ("letters", "parts", "found", "longest")])
    return g, 17, [[WORDS], [WORDS[1:, 1:]], [np.array([["abc xyz a", "fin fi"]])]]


def main(out):
    for make in (concat, split, normalized, matched, moved, named, written, counted, tokens):
        graph, opset, runs = make()
        more = [h.make_opsetid("com.microsoft", 1)] if make is tokens else []
        m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)] + more, ir_version=9)
        if not all(o.type.tensor_type.HasField("shape") for o in graph.output):
            m = onnx.shape_inference.infer_shapes(m)
        if not more:
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
            for i, v in enumerate(session.run(None, {i.name: v.astype(object) if v.dtype.kind == "U" else v for i, v in zip(graph.input, run)})):
                np.save(os.path.join(expect, f"output_{i}.npy"), plain(v))
        print(f"{graph.name}: {len(runs)} runs")


if __name__ == "__main__":
    main(sys.argv[1])
