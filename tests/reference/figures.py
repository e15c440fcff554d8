#!/usr/bin/env python3
"""Figures of docs/benchmarks.md that need the whole program. Run it while nothing else runs on the machine.

  python make_models.py NODES --only none --nodes 1000,10000,100000
  python figures.py GE NODES [--ort-limit 100000]

start     `ge plugin list` with all plugins
overhead  time per task of a run of 1,000 tiny operators on one stream
compile   compile time and peak memory of the synthetic graphs in NODES, beside onnxruntime's session creation (up to
          --ort-limit nodes), the least of three runs up to 10,000 nodes; also the time of each stage
"""
import argparse, json, os, subprocess, sys, tempfile, time

import onnx
from onnx import TensorProto, helper

KINDS, SIZES = ("chain", "wide", "mixed", "blocks"), (1000, 10000, 100000)
SESSION = """import sys, time, resource, onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads, o.log_severity_level = 2, 4
t = time.perf_counter()
ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
print(time.perf_counter() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"""


def run(ge, *args):
    t = time.perf_counter()
    p = subprocess.run([ge, *args], capture_output=True, text=True)
    if p.returncode:
        sys.exit("ge %s: %d\n%s" % (" ".join(args), p.returncode, p.stderr))
    return time.perf_counter() - t, p.stdout


def chain(nodes, path):
    """Tiny operators one after the other."""
    ops = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh"]
    ns = [helper.make_node(ops[i % len(ops)], ["x" if i == 0 else "t%d" % (i - 1)], ["y" if i == nodes - 1 else "t%d" % i])
          for i in range(nodes)]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    m = helper.make_model(helper.make_graph(ns, "chain", io[:1], io[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(m, path)


def compile_once(ge, model, om):
    t, out = run(ge, "compile", model, "-o", om, "-q", "--json")
    said = json.loads(out)
    return t, said["peak_rss_bytes"] / 2**20, {s["stage"]: s["seconds"] for s in said["stages"]}


def compile_table(ge, folder, limit, om):
    print("| graph | nodes | ge, s | growth | MiB | onnxruntime, s | MiB |\n|---|---:|---:|---:|---:|---:|---:|")
    stages = {}
    for kind in KINDS:
        before = None
        for n in SIZES:
            model = os.path.join(folder, "synth_%s_%d.onnx" % (kind, n))
            ours = min((compile_once(ge, model, om) for _ in range(3)), key=lambda r: r[0])
            stages[kind, n] = ours[2]
            theirs = ("-", "-")
            if n <= limit:
                p = subprocess.run([sys.executable, "-c", SESSION, model], capture_output=True, text=True)
                seconds, kib = (float(x) for x in p.stdout.split()) if p.returncode == 0 else (float("nan"), 0)
                theirs = ("%.2f" % seconds, "%.0f" % (kib / 1024))
            grown = "" if before is None else "%.1f" % (ours[0] / before)
            print("| %s | %d | %.2f | %s | %.0f | %s | %s |" % (kind, n, ours[0], grown, ours[1], *theirs), flush=True)
            before = ours[0]
    print("\n| stage | %s |\n|---|%s" % (" | ".join("%s %dk" % (k, n // 1000) for k, n in stages), "---:|" * len(stages)))
    for stage in next(iter(stages.values())):
        print("| %s | %s |" % (stage, " | ".join("%.1f" % (1e3 * t.get(stage, 0)) for t in stages.values())))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("ge")
    a.add_argument("nodes")
    a.add_argument("--ort-limit", type=int, default=100000)
    a = a.parse_args()
    ge = os.path.abspath(a.ge)
    with tempfile.TemporaryDirectory() as d:
        model, om = os.path.join(d, "m.onnx"), os.path.join(d, "m.om")
        print("start-up, all plugins (`ge plugin list`), least of 20: %.1f ms" % (1e3 * min(run(ge, "plugin", "list")[0] for _ in range(20))))
        chain(1000, model)
        tasks = json.loads(run(ge, "compile", model, "-o", om, "-q", "--json", "--set", "ge.x.auto_fusion=false")[1])["tasks"]
        b = json.loads(run(ge, "bench", om, "--json", "--iterations", "200", "--threads", "1")[1])
        least = b["latency_ms"]["min"] * 1e6
        print("run of %d tasks on one stream, least of 200: %.1f us, %.0f ns a task\n" % (tasks, least / 1e3, least / tasks))
        compile_table(ge, a.nodes, a.ort_limit, om)


if __name__ == "__main__":
    main()
