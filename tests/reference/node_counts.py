#!/usr/bin/env python3
"""Counts nodes, kernels and layout changes of models, beside onnxruntime's optimised graph.

    node_counts.py [--ge target/release/ge] [--plugins plugins.toml] MODEL.onnx[@SHAPES]... [--check]

Writes a table in Markdown. "before": passes of level O1 alone and no fusion; "after": as `ge compile` does it. Counted are all nodes of
the OM but the host's own from Data to NetOutput, Send/Recv, SendNotify/RecvNotify and StreamActive; kernels are tasks that launch one;
layout changes are Transpose, TransposeD and TransData. onnxruntime: nodes of the model that it writes at ORT_ENABLE_EXTENDED, in the
graph and in branches and bodies. A model with free sizes is compiled with SHAPES (as `--input-shape` takes them), else with 1 for each. With --check the exit code is 1 where
there are more nodes after than onnxruntime has.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

STRUCTURAL = set(
    "Data RefData AippData Const Constant FileConstant Variable NetOutput Send Recv SendNotify RecvNotify StreamActive".split()
)
LAYOUT = {"Transpose", "TransposeD", "TransData"}


def ours(args, model, folder, options, shapes):
    om = os.path.join(folder, "m.om")
    command = [args.ge, "compile", model, "-o", om, "-q", "--plugins", args.plugins]
    if shapes:
        command += ["--input-shape", shapes]
    for o in options:
        command += ["--set", o]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    doc = json.loads(subprocess.run([args.ge, "inspect", om, "--json"], capture_output=True, text=True, check=True).stdout)
    types = [n["type"] for g in doc["graphs"] for n in g["nodes"]]
    return (
        sum(t not in STRUCTURAL for t in types),
        sum("KERNEL" in t["type"] for t in doc["tasks"]),
        sum(t in LAYOUT for t in types),
    )


def free_sizes(model):
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    given = {i.name for i in graph.initializer}
    lines = []
    for i in graph.input:
        dims = i.type.tensor_type.shape.dim
        if i.name not in given and any(not d.dim_value for d in dims):
            lines.append(i.name + ":" + ",".join(str(d.dim_value or 1) for d in dims))
    return ";".join(lines)


def theirs(model, folder):
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = os.path.join(folder, "ort.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def count(graph):
        bodies = (a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH)
        return len(graph.node) + sum(map(count, bodies))

    return count(onnx.load(options.optimized_model_filepath, load_external_data=False).graph)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--ge", default="target/release/ge")
    p.add_argument("--plugins", default="plugins.toml")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    more = []
    print("| model | nodes before | after | onnxruntime | kernels before | after | layout changes before | after |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        off = os.path.join(folder, "off.cfg")
        with open(off, "w", encoding="ascii") as f:
            f.write("ALL:off\n")
        for model in args.models:
            model, _, shapes = model.partition("@")
            name = os.path.splitext(os.path.basename(model))[0]
            try:
                shapes = shapes or free_sizes(model)
                before = ours(args, model, folder, ["ge.oo.level=O1", "ge.fusionSwitchFile=" + off], shapes)
                after = ours(args, model, folder, [], shapes)
                ort = theirs(model, folder)
            except RuntimeError as e:
                print(f"| {name} | {e} | | | | | | |")
                continue
            mark = ""
            if after[0] > ort:
                more.append(name)
                mark = " (more)"
            print(
                f"| {name} | {before[0]} | {after[0]}{mark} | {ort} | {before[1]} | {after[1]} | {before[2]} | {after[2]} |",
                flush=True,
            )
    if more:
        print("more nodes than onnxruntime: " + ", ".join(more), file=sys.stderr)
    return 1 if args.check and more else 0


if __name__ == "__main__":
    sys.exit(main())
