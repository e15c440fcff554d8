#!/usr/bin/env python3
"""Times models beside onnxruntime and, if it is installed, OpenVINO: what `cargo xtask bench-peers` prints.

    bench_peers.py GE PLUGINS MODELS [--threads 1,2] [--rounds 3] [--seconds 1.0] [NAME...]

MODELS is a folder of NAME.onnx with inputs in NAME/s0. Each round starts one process of each program, one after the other, which loads
the model, warms up and runs it for the given seconds on the same inputs. The table has the least time of all rounds, the time to load
(an OM; the others load the ONNX file), and the largest memory that a process held. Times are comparable because the programs alternate;
on a busy machine only the least time of several rounds is meaningful.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

RUN = r'''
import json, os, sys, time
import numpy as np
program, model, data, threads, seconds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
files = sorted((f for f in os.listdir(data) if f.startswith("input_")), key=lambda f: int(f[6:-4]))
values = [np.load(os.path.join(data, f)) for f in files]
start = time.perf_counter()
if program == "onnxruntime":
    import onnxruntime
    start = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: v for i, v in zip(session.get_inputs(), values)}
    once = lambda: session.run(None, feed)
else:
    import openvino
    start = time.perf_counter()
    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
    once = lambda: request.infer(values, share_inputs=True, share_outputs=True)
load = time.perf_counter() - start
for _ in range(3):
    once()
best, end = float("inf"), time.perf_counter() + seconds
while time.perf_counter() < end:
    start = time.perf_counter()
    once()
    best = min(best, time.perf_counter() - start)
print(json.dumps({"ms": best * 1e3, "load": load * 1e3}))
'''


def measured(command):
    """What a command prints as JSON, and the largest memory that it held, in MiB; None if it fails."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    return (json.loads(text.splitlines()[-1]), used.ru_maxrss / 1024) if child.returncode == 0 else None


def ours(args, om, data, threads, runs):
    command = [args.ge, "bench", om, "--threads", str(threads), "--iterations", str(runs), "--warmup", "3", "--inputs", data]
    got = measured([*command, "--json", "-q", "--plugins", args.plugins])
    return got and {"ms": got[0]["latency_ms"]["min"], "load": got[0]["load_ms"], "mib": got[1]}


def theirs(program, model, data, threads, seconds):
    got = measured([sys.executable, "-c", RUN, program, model, data, str(threads), str(seconds)])
    return got and {**got[0], "mib": got[1]}


def least(a, b):
    return a if b is None else b if a is None else {k: min(a[k], b[k]) for k in a}


def machine():
    try:
        lines = dict(l.split(":", 1) for l in open("/proc/cpuinfo").read().split("\n\n")[0].splitlines() if ":" in l)
    except OSError:
        return "unknown machine"
    lines = {k.strip(): v.strip() for k, v in lines.items()}
    flags = lines.get("flags", "").split()
    has = [n for f, n in [("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_vnni", "VNNI"), ("avx512_bf16", "BF16"), ("amx_tile", "AMX")] if f in flags]
    return f"{lines.get('model name', '')}, family {lines.get('cpu family', '?')} model {lines.get('model', '?')}, {os.cpu_count()} cores, {' '.join(has)}"


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def cell(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ge"), p.add_argument("plugins"), p.add_argument("models"), p.add_argument("names", nargs="*")
    p.add_argument("--threads", default="1,2"), p.add_argument("--rounds", type=int, default=3), p.add_argument("--seconds", type=float, default=1.0)
    args = p.parse_intermixed_args()
    names = args.names or sorted(f[:-5] for f in os.listdir(args.models) if f.endswith(".onnx"))
    programs = ["ge", "onnxruntime"]
    if subprocess.run([sys.executable, "-c", "import openvino"], stderr=subprocess.DEVNULL).returncode == 0:
        programs.append("OpenVINO")
    print(f"{machine()}; least of {args.rounds} rounds\n")
    print("| model | threads | " + " | ".join(f"{n} ms" for n in programs) + " | ge/onnxruntime | load ms | peak MiB |")
    print("|---|---:|" + "---:|" * (len(programs) + 3))
    ratios, failed = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            model, data, om = os.path.join(args.models, name + ".onnx"), os.path.join(args.models, name, "s0"), os.path.join(folder, name + ".om")
            done = subprocess.run([args.ge, "compile", model, "-o", om, "-q", "--plugins", args.plugins], capture_output=True, text=True)
            if done.returncode or not os.path.isdir(data):
                failed.append(f"{name}: {(done.stderr.strip().splitlines() or ['no inputs'])[0]}")
                continue
            for threads in map(int, args.threads.split(",")):
                best, runs = {}, 10
                for _ in range(args.rounds):
                    now = {"ge": ours(args, om, data, threads, runs)}
                    if now["ge"]:
                        runs = max(10, min(20000, int(args.seconds * 1e3 / max(now["ge"]["ms"], 1e-3))))
                    for program in programs[1:]:
                        now[program] = theirs(program, model, data, threads, args.seconds)
                    best = {k: least(now[k], best.get(k)) for k in programs}
                of = lambda what, form: " / ".join(cell(best[k] and best[k][what], form) for k in programs)
                pair = best["ge"] and best["onnxruntime"] and best["ge"]["ms"] / best["onnxruntime"]["ms"]
                if pair:
                    ratios.setdefault(threads, {})[name] = (pair, best["ge"]["ms"])
                times = " | ".join(cell(best[k] and best[k]["ms"], "{:.3f}") for k in programs)
                print(f"| {name} | {threads} | {times} | {cell(pair)} | {of('load', '{:.1f}')} | {of('mib', '{:.0f}')} |", flush=True)
    for threads, of in ratios.items():
        print(f"\n{threads} threads: geometric mean of ge/onnxruntime {cell(mean([r for r, _ in of.values()]))}, greatest {max(r for r, _ in of.values()):.2f} ({max(of, key=lambda n: of[n][0])})")
    if 1 in ratios and 2 in ratios:
        both = [ratios[2][n][1] / ratios[1][n][1] for n in ratios[1] if n in ratios[2]]
        print(f"\nge with two threads over one: geometric mean {cell(mean(both))}, greatest {max(both):.2f}")
    for line in failed:
        print(f"\nnot measured: {line}")


main()
