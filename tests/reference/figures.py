#!/usr/bin/env python3
"""Figures of docs/benchmarks.md that need the whole program: start-up with all plugins, overhead of a node at run time, compile
time by graph size beside onnxruntime's session creation in the same run.

  python figures.py GE        # path of the ge binary; run with nothing else on the machine
"""
import json, os, subprocess, sys, tempfile, time
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

ge = os.path.abspath(sys.argv[1])


def run(*args):
    t = time.perf_counter()
    p = subprocess.run([ge, *args], capture_output=True, text=True)
    if p.returncode:
        sys.exit("ge %s: %d\n%s" % (" ".join(args), p.returncode, p.stderr))
    return time.perf_counter() - t, p.stdout


def chain(nodes, path):
    """Tiny operators one after the other: nothing to fuse, to fold or to merge."""
    ops = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh"]
    ns = [helper.make_node(ops[i % len(ops)], ["x" if i == 0 else "t%d" % (i - 1)], ["y" if i == nodes - 1 else "t%d" % i])
          for i in range(nodes)]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    m = helper.make_model(helper.make_graph(ns, "chain", io[:1], io[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(m, path)


with tempfile.TemporaryDirectory() as d:
    path = lambda n: os.path.join(d, n)
    print("start-up, all plugins (`ge plugin list`), least of 20: %.1f ms" % (1e3 * min(run("plugin", "list")[0] for _ in range(20))))
    chain(1000, path("m.onnx"))
    run("compile", path("m.onnx"), "-o", path("m.om"), "-q", "--set", "ge.x.auto_fusion=false")
    b = json.loads(run("bench", path("m.om"), "--json", "--iterations", "200", "--threads", "1")[1])
    nodes = len(json.loads(run("inspect", path("m.om"), "--json")[1])["tasks"])
    print("run of %d tasks on one stream, least of 200: %.1f us, %.3f us a task" % (nodes, b["latency_ms"]["min"] * 1e3, b["latency_ms"]["min"] * 1e3 / nodes))
    before = None
    for n in (1000, 10000, 100000):
        chain(n, path("m.onnx"))
        ours = min(run("compile", path("m.onnx"), "-o", path("m.om"), "-q", "--set", "ge.x.auto_fusion=false")[0] for _ in range(2))
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.log_severity_level = 2, 4
        t = time.perf_counter()
        ort.InferenceSession(path("m.onnx"), o, providers=["CPUExecutionProvider"])
        theirs = time.perf_counter() - t
        grown = "" if before is None else ", growth %.1f" % (ours / before)
        print("%d nodes: ge compile %.2f s%s; onnxruntime session %.2f s" % (n, ours, grown, theirs), flush=True)
        before = ours
