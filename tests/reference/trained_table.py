#!/usr/bin/env python3
"""Trained models as ge compiles them, beside onnxruntime: one line for each model and size, as in docs/benchmarks.md.

    python trained_table.py GE PLUGINS_TOML TRAINED [NAME …]        (TRAINED: made by `cargo xtask fetch-models --all`)

For `sim` (the model's own types) and for Ascend910B (its default types): the greatest difference from onnxruntime relative
to the output's greatest number (to 0.01 if that is smaller), over all outputs and sets, and how many rows of output 0 have another class;
rows whose two best classes are within a hundredth in onnxruntime's own numbers are counted as ties. Times are medians of one thread on this
machine, of the simulator's kernels in f32 and of onnxruntime; memory is what the model takes on the device, including weights.
Exits with 1 if a model that should compile does not, gives a NaN, or changes a class (in a map of pixels: more than one in a thousand).
"""
import json, os, subprocess, sys, tempfile, time
import numpy as np
import onnx
import onnxruntime as ort

GE, PLUGINS, ROOT, *ONLY = sys.argv[1:]


def ge(*args, timeout=90):
    try:
        p = subprocess.run([GE, *args, "--plugins", PLUGINS, "--progress", "none"], capture_output=True, text=True, timeout=timeout)
        return p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired:
        return -1, "", f"no end after {timeout} s"


def classes(name, y):
    """The class that a reader takes from output 0, and by how much it leads: the greatest number of a row, or the side of a half.
    None: the output is plain numbers."""
    if name.startswith(("text_direction", "text_recognition", "file_type", "vowels")) or name == "word_timer":
        best = np.partition(y, -2, -1)
        return y.argmax(-1), best[..., -1] - best[..., -2]
    if name.startswith(("text_detection", "voice_", "word_")) and not name.startswith(("voice_embedding", "voice_cleaning")):
        return y > 0.5, 2 * np.abs(y - 0.5)
    return None


def judged(name, om, folder, sets):
    """The greatest relative error, the changed classes and all classes, and whether all numbers are finite."""
    worst, changed, ties, rows = 0.0, 0, 0, 0
    finite = True
    for k in range(sets):
        with tempfile.TemporaryDirectory() as d:
            code, _, err = ge("run", om, "--inputs", f"{folder}/s{k}", "--outputs", d, "-q")
            if code:
                raise RuntimeError(err.strip().splitlines()[0])
            for j in range(len(os.listdir(f"{folder}/s{k}/expect"))):
                x, y = np.load(f"{folder}/s{k}/expect/output_{j}.npy"), np.load(f"{d}/output_{j}.npy")
                finite &= bool(np.isfinite(y).all())
                if x.dtype.kind != "f":
                    changed += int((x != y).sum())
                    rows += x.size
                    continue
                worst = max(worst, float(np.abs(x - y).max() / max(np.abs(x).max(), 1e-2)))
                if j == 0 and classes(name, x) is not None:
                    (a, lead), (b, _) = classes(name, x), classes(name, y)
                    changed, rows = changed + int(((a != b) & (lead > 0.01)).sum()), rows + a.size
                    ties += int(((a != b) & (lead <= 0.01)).sum())
    return worst, changed, ties, rows, finite


def onnxruntime_ms(path, folder):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {v.name: np.load(f"{folder}/s0/input_{i}.npy") for i, v in enumerate(session.get_inputs())}
    took, end = [], time.time() + 2
    while len(took) < 5 or (time.time() < end and len(took) < 300):
        begin = time.perf_counter()
        session.run(None, feed)
        took.append(time.perf_counter() - begin)
    return float(np.median(took)) * 1e3


def row(line, d):
    name, shape, _, _, sets, how, file = line.split()
    path, folder = f"{ROOT}/{file}.onnx", f"{ROOT}/{name}"
    options = [] if shape == "-" else ["--input-shape", shape]
    if how == "run":
        inputs = onnx.load(path).graph.input
        for i, v in enumerate(inputs):
            if not v.type.tensor_type.shape.dim:
                options += ["--input", f"{v.name}={folder}/s0/input_{i}.npy"]
    cells, bad = [], False
    for soc in ("sim", "Ascend910B"):
        om = f"{d}/{soc}.om"
        begin = time.time()
        code, out, err = ge("compile", path, "-o", om, "--soc", soc, "--json", "-q", *options)
        if code:
            why = next((l for l in err.splitlines() if l.startswith("error")), err.strip().splitlines()[-1])
            return [name, f"exit {code}: {why[:120]}"] + ["-"] * 7, how != "refused"
        took = time.time() - begin
        worst, changed, ties, of, finite = judged(name, om, folder, int(sets))
        bad |= not finite or changed > (of // 1000 if name.startswith("text_detection") else 0)
        cells.append((json.loads(out), took, f"{worst:.1e}" if finite else "NaN", f"{changed} of {of}" + (f", {ties} ties" if ties else "") if of else "-"))
    (own, took, sim_error, _), (_, _, half_error, changed) = cells
    code, out, err = ge("bench", f"{d}/sim.om", "--inputs", f"{folder}/s0", "--threads", "1", "--duration", "2", "--json", "-q")
    bench = json.loads(out)
    ours, theirs = bench["latency_ms"]["median"], onnxruntime_ms(path, folder)
    memory = bench["device_memory_bytes"] / 2**20
    return [name, f"{own['nodes']} nodes, {took:.2f} s", sim_error, half_error, changed, f"{ours:.2f}", f"{theirs:.2f}",
            f"{theirs / ours:.2f}", f"{memory:.1f}"], bad


def main():
    lines = open(f"{ROOT}/models.txt").read().splitlines()
    print("| model | compiled | error in f32 | error on Ascend910B | classes changed there | ge, ms | onnxruntime, ms | ratio | device MiB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    failed = []
    for line in lines:
        name = line.split()[0]
        if ONLY and name not in ONLY:
            continue
        with tempfile.TemporaryDirectory() as d:
            try:
                cells, bad = row(line, d)
            except (RuntimeError, ValueError, KeyError) as e:
                cells, bad = [name, f"{e}"] + ["-"] * 7, True
        print("| " + " | ".join(cells) + " |", flush=True)
        failed += [name] if bad else []
    if failed:
        raise SystemExit("not as they should be: " + ", ".join(failed))


main()
