#!/usr/bin/env python3
"""Arena of onnxruntime for the models of make_models.py, beside that of ge: `ort_arena.py MODELS_DIR GE [NAME...]`.

onnxruntime: the greatest "Total allocated bytes" that its CPU arena logs (verbose log, one run, memory pattern on, extension as
requested), initializers kept out of the arena; ge: size without zero copy, and the lower bound, on one stream and on four.
"""
import json, os, re, subprocess, sys, tempfile

RUN = r'''
import sys, numpy as np, onnxruntime as ort
model, data = sys.argv[1], sys.argv[2]
ort.set_default_logger_severity(0)
o = ort.SessionOptions()
o.log_severity_level, o.intra_op_num_threads, o.enable_mem_pattern = 0, 1, True
o.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
s = ort.InferenceSession(model, o, providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})])
z = {i.name: np.load(f"{data}/input_{k}.npy") for k, i in enumerate(s.get_inputs())}
s.run(None, z)
s.run(None, z)
'''


def ort(model, data):
    out = subprocess.run([sys.executable, "-c", RUN, model, data], capture_output=True, text=True)
    if out.returncode:
        return None
    return max((int(x) for x in re.findall(r"Total allocated bytes: (\d+)", out.stderr + out.stdout)), default=0)


def ge(binary, model, flags):
    with tempfile.TemporaryDirectory() as d:
        om = os.path.join(d, "m.om")
        done = subprocess.run([binary, "compile", model, "-o", om, "-q", *flags], capture_output=True, text=True)
        if done.returncode:
            return None
        doc = json.loads(subprocess.run([binary, "inspect", om, "--what", "memory", "--json"], capture_output=True, text=True).stdout)
        h = doc["memory"]["HBM"]
        return h["size"] - h["zero_copy"], h["lower_bound"]


def main():
    folder, binary, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    names = names or sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".onnx"))
    print("| model | lower bound | one stream | over bound | four streams | over bound | onnxruntime |\n|---|---|---|---|---|---|---|")
    for name in names:
        model = os.path.join(folder, name + ".onnx")
        one = ge(binary, model, ["--set", "ge.enableSingleStream=true"])
        many = ge(binary, model, ["--set", "ge.x.stream_mode=parallel:4"])
        other = ort(model, os.path.join(folder, name, "s0"))
        cells = [name, f"{one[1]:,}" if one else "-"]
        for r in (one, many):
            cells += [f"{r[0]:,}", f"{r[0] / r[1]:.3f}" if r[1] else "1.000"] if r else ["-", "-"]
        print("| " + " | ".join(cells + [f"{other:,}" if other else "-"]) + " |", flush=True)


main()
