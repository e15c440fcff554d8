#!/usr/bin/env python3
"""What f16 and bf16 cost a model, computed by another program: inputs and weights are rounded once, sums are in f32, and every result that
ge stores is rounded once. onnxruntime computes it, with graph optimisation off; this script inserts the roundings as casts.

    half_precision.py GE PLUGINS_TOML MODELS        (in the environment of requirements.txt)

Prints, for each model and type: the greatest difference of ge and of this computation from f32, the scale of the output, and how far the
two are apart.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

MODES = {"f16": ("force_fp16", T.FLOAT16), "bf16": ("allow_mix_precision_bf16", T.BFLOAT16)}
# What ge computes in one kernel with the product before it: nothing is rounded in between.
JOINED = {"Add", "Clip", "Relu", "BatchNormalization"}


def rounded(model, to):
    """The model with a rounding after each input, weight and stored result."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    g = m.graph
    made = {o: n for n in g.node for o in n.output}
    readers = {}
    for n in g.node:
        for i in n.input:
            readers.setdefault(i, []).append(n)
    outs = {o.name for o in g.output}
    nodes, alias = [], {}

    def cut(name):
        nodes.append(h.make_node("Cast", [name], [name + "/low"], to=to))
        nodes.append(h.make_node("Cast", [name + "/low"], [name + "/wide"], to=T.FLOAT))
        alias[name] = name + "/wide"

    for v in list(g.input) + [i for i in g.initializer if i.data_type == T.FLOAT]:
        if isinstance(v, onnx.TensorProto) or v.type.tensor_type.elem_type == T.FLOAT:
            cut(v.name)
    product = {"Conv", "MatMul", "Gemm"}
    joined = set()
    for n in g.node:
        new = onnx.NodeProto()
        new.CopyFrom(n)
        del new.input[:]
        new.input.extend(alias.get(i, i) for i in n.input)
        nodes.append(new)
        o = n.output[0]
        after = readers.get(o, [])
        mine = n.op_type in product or n.name in joined
        # A product with one reader and the chain after it are one kernel.
        if mine and len(after) == 1 and after[0].op_type in JOINED and o not in outs and first_product(after[0], made, o):
            joined.add(after[0].name)
        elif n.op_type not in ("Constant", "Shape"):
            cut(o)
    del g.node[:]
    g.node.extend(nodes)
    for o in g.output:
        if o.name in alias:
            o.name = alias[o.name]
    return m


def first_product(add, made, own):
    """Of the two products that an Add reads, the later one computes it."""
    if add.op_type != "Add":
        return True
    other = [i for i in add.input if i != own]
    return len(other) == 1


def main():
    ge, plugins, models = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    for name in ("gemm_1024", "mobilenet_v2"):
        model = onnx.load(models / f"{name}.onnx")
        for n in model.graph.node:
            n.name = n.name or n.output[0]
        data = models / name / "s0"
        session = lambda m: ort.InferenceSession(m.SerializeToString(), options(), providers=["CPUExecutionProvider"])
        wide = session(model)
        feed = {i.name: np.load(data / f"input_{k}.npy") for k, i in enumerate(wide.get_inputs())}
        exact = wide.run(None, feed)[0].astype(np.float64)
        for kind, (mode, to) in MODES.items():
            low = session(rounded(model, to)).run(None, feed)[0].astype(np.float64)
            with tempfile.TemporaryDirectory() as d:
                run = lambda *a: subprocess.run([ge, *a, "-q", "--plugins", plugins], check=True, cwd=d)
                run("compile", str(models / f"{name}.onnx"), "-o", "m.om", "--set", f"ge.exec.precision_mode={mode}")
                run("run", "m.om", "--inputs", str(data), "--outputs", "out")
                ours = np.load(Path(d) / "out" / "output_0.npy").astype(np.float64)
            far = lambda a, b: f"{np.abs(a - b).max():.4f}"
            print(f"| {name} | {kind} | {np.abs(exact).max():.2f} | {far(ours, exact)} | {far(low, exact)} | {far(ours, low)} |")


def options():
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return o


main()
