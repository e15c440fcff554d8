#!/usr/bin/env python3
"""Models of open sizes: ONE OM per model, run with several sizes beside onnxruntime and beside a static OM of each size.

    open_sizes.py GE PLUGINS_TOML MODELS [--trained] [--rounds 2] [--seconds 0.3] [NAME...]

MODELS is `target/models` (whose models have fixed sizes: those of OPEN below are made symbolic in a copy), or with --trained the folder of
`cargo xtask fetch-models --all` (whose models are compiled as they are, without `--input-shape`). Inputs are drawn from the model's own
first set. Prints one line per model: the sizes; the greatest difference from onnxruntime relative to the output's greatest number (to 0.01 if
that is smaller), over all outputs and sizes; the time for each size in ms (least of the rounds, one thread), that of onnxruntime, and the
ratio to the static OM; for how many sizes both ran the same kernels. Exits with 1 if a model is refused or an error is above 0.001 (0.03
for the LSTMs of bytes, whose steps may round to one byte or the next: docs/benchmarks.md).
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort

SIZES = {"N": [1, 2, 3, 5, 8], "M": [1, 7, 33, 256, 1500], "K": [1, 16, 100, 512, 1030], "S": [1, 8, 33, 128, 200],
         "H": [32, 40, 57, 64, 112], "W": [32, 64, 49, 96, 128]}
# Inputs with a letter for each open size; sizes for letters that differ from those above. `lenet` and `inception_batch_concat` hold their
# batch in constants, `loop_carried` has no size that could be open.
OPEN = {
    "allgather_fn": ("rank0:M,64;rank1:M,64", {}),
    "bert_l4_h256_s128": ("input_ids:N,128;attention_mask:N,128", {}),
    "conv3x3_64_56": ("x:N,64,H,W", {}),
    "depthwise_separable": ("x:N,32,H,W", {}),
    "dynamic_batch": ("x:N,3,32,32", {"N": [1, 2, 5, 16, 64]}),
    "elementwise_chain": ("x:M,K", {}),
    "encoder_l6_h384_s128": ("x:N,128,384;mask:N,1,1,128", {"N": [1, 2, 3, 4, 5]}),
    "fft_dft": ("a:N,1024,1;b:N,1000,2;c:N,97,2", {}),
    "fp16_mlp": ("x:M,128", {}),
    "gemm_1024": ("a:M,K;b:K,C", {"C": [1, 24, 99, 400, 1024]}),
    "gpt_decode_p128": ("x:N,1,512;pk0:N,8,128,64;pv0:N,8,128,64;pk1:N,8,128,64;pv1:N,8,128,64", {"N": [1, 2, 3, 4, 5]}),
    "gpt_prefill_s64": ("x:N,64,512", {"N": [1, 2, 3, 4, 5]}),
    "gru": ("x:S,2,64", {}),
    "if_else": ("x:M,8", {}),
    "image_preprocess": ("img:H,W,3", {"H": [240, 480, 481, 600, 1080], "W": [240, 640, 333, 800, 1920]}),
    "int8_cnn_qdq": ("x:N,16,H,W", {}),
    "int8_cnn_qlinear": ("x:N,16,H,W", {}),
    "lstm": ("x:S,2,64", {}),
    "lstm_l2_h256_s64": ("x:S,1,128", {}),
    "mlp": ("x:M,784", {}),
    "mobilenet_v2": ("x:N,3,H,W", {"H": [64, 96, 129, 192, 224], "N": [1, 2, 1, 3, 1]}),
    "qdq_mlp": ("x:M,128", {}),
    "resnet_cifar": ("x:N,3,32,32", {}),
    "shards_concat": ("x:M,256", {}),
    "softmax_layernorm": ("x:M,1024", {}),
    "split_relu3_concat": ("x:N,96,16", {}),
}
TRAINED = {
    "file_type": ("bytes:N,2048", {}),
    "sentence": ("input_ids:N,S;attention_mask:N,S;token_type_ids:N,S", {"N": [1, 2, 1, 2, 1]}),
    "spectrogram": ("input:N,L", {"N": [1] * 5, "L": [512, 1760, 5003, 16000, 40000]}),
    "text_detection": ("x:N,3,H,W", {"N": [1, 1, 2, 1, 1], "H": [32, 96, 160, 320, 480], "W": [32, 160, 224, 320, 640]}),
    "text_direction": ("x:N,3,48,192", {}),
    "text_recognition": ("x:N,3,48,W", {"N": [1, 2, 1, 2, 1], "W": [32, 104, 321, 320, 640]}),
    "voice_both_rates": ("input:N,576;state:2,N,128;sr:", {}),
    "voice_embedding": ("input_1:N,76,32,1", {}),
    "voice_half": ("input:N,576;state:2,N,128", {}),
    "voice_ifless": ("input:N,576;sr:;state:2,N,128", {}),
    "voice_op15": ("input:N,576;state:2,N,128;sr:", {}),
    "voice_rates": ("input:N,576;state:2,N,128;sr:", {}),
    "voice_rates_8k": ("input:N,288;state:2,N,128;sr:", {}),
    "voice_sequence": ("input:S,576;h:1,1,128;c:1,1,128", {}),
    "voice_v4": ("input:N,L;sr:;h:2,N,64;c:2,N,64", {"L": [512, 768, 1000, 1024, 1536]}),
    "vowels_bilstm": ("input_ids:N,S", {"N": [1, 2, 1, 3, 4], "S": [1, 8, 33, 60, 120]}),
    "vowels_rawi": ("input:N,S", {"N": [1, 2, 1, 3, 4], "S": [1, 8, 33, 60, 120]}),
    "vowels_rawi_ensemble": ("input:N,S", {"N": [1, 2, 1, 3, 4], "S": [1, 8, 33, 60, 120]}),
    "vowels_rawi_v2": ("input:N,S", {"N": [1, 2, 1, 3, 4], "S": [1, 8, 33, 60, 120]}),
    "vowels_rawi_v3": ("input:N,S", {"N": [1, 2, 1, 3, 4], "S": [1, 8, 33, 60, 120]}),
}


def ge(args, *words):
    done = subprocess.run([args.ge, *words, "--plugins", args.plugins], capture_output=True, text=True)
    if done.returncode:
        why = [l for l in done.stderr.splitlines() if l.strip()]
        raise RuntimeError(f"exit {done.returncode}: {' '.join(why[:2])[:200]}")
    return done.stdout


def axes(text):
    return {i.split(":")[0]: [a for a in i.split(":")[1].split(",") if a] for i in text.split(";")}


def opened(path, spec, to):
    """Writes a copy of the model whose letters are symbols, without the sizes that depend on them."""
    m = onnx.load(path)
    for i in m.graph.input:
        for d, a in zip(i.type.tensor_type.shape.dim, spec.get(i.name, [])):
            if not a.isdigit():
                d.dim_param = a
    forget(m.graph)
    onnx.save(m, to)


def forget(graph):
    del graph.value_info[:]
    for o in graph.output:
        o.type.tensor_type.ClearField("shape")
    for a in (a for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH):
        forget(a.g)


def drawn(folder, spec, sizes, r):
    """Inputs of these sizes, made of the numbers of the model's own inputs."""
    values = []
    for i, (name, dims) in enumerate(spec.items()):
        own = np.load(os.path.join(folder, f"input_{i}.npy"))
        shape = [int(d) if d.isdigit() else sizes[d] for d in dims]
        values.append(r.choice(own.ravel(), shape).astype(own.dtype) if dims else own)
    return values


def kernels(profile):
    with open(profile) as f:
        events = json.load(f)["traceEvents"]
    return collections.Counter((e["args"]["op"], e["args"]["engine"]) for e in events
                               if e.get("ph") == "X" and e["args"].get("type") not in ("END_GRAPH", None))


def once(session, feed, seconds):
    best, count, end = float("inf"), 0, time.perf_counter() + seconds
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        best, count = min(best, time.perf_counter() - start), count + 1
    return best * 1e3


def measured(args, om, data, ms):
    runs = str(max(5, min(5000, int(args.seconds * 1e3 / max(ms, 1e-3)))))
    return json.loads(ge(args, "bench", om, "--inputs", data, "--threads", "1", "--iterations", runs, "--json", "-q"))["latency_ms"]["min"]


def row(args, name, d):
    text, own = (TRAINED if args.trained else OPEN)[name]
    spec, path = axes(text), os.path.join(args.models, name + ".onnx")
    folder = next(os.path.join(args.models, f, "s0") for f in sorted(os.listdir(args.models))
                  if os.path.isdir(os.path.join(args.models, f, "s0")) and (f == name or f.startswith(name + "_") and f[len(name) + 1].isdigit()))
    if not args.trained:
        opened(path, spec, f"{d}/open.onnx")
        path = f"{d}/open.onnx"
    ge(args, "compile", path, "-o", f"{d}/open.om", "-q")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    letters = sorted({a for dims in spec.values() for a in dims if not a.isdigit()})
    lists = {a: own.get(a, SIZES.get(a)) for a in letters}
    error, ours, theirs, ratios, same, r, notes = 0.0, [], [], [], 0, np.random.RandomState(1), []
    for k in range(5):
        sizes = {a: v[k] for a, v in lists.items()}
        data, out = f"{d}/i{k}", f"{d}/o{k}"
        os.makedirs(data)
        values = drawn(folder, spec, sizes, r)
        for i, v in enumerate(values):
            np.save(f"{data}/input_{i}.npy", v)
        feed = {i.name: v for i, v in zip(session.get_inputs(), values)}
        right = session.run(None, feed)
        ge(args, "run", f"{d}/open.om", "--inputs", data, "--outputs", out, "--profile", f"{d}/open.json", "-q")
        for j, x in enumerate(right):
            y = np.load(f"{out}/output_{j}.npy")
            if x.shape != y.shape or x.dtype != y.dtype:
                raise RuntimeError(f"{sizes}: output {j} is {y.dtype}{list(y.shape)}, not {x.dtype}{list(x.shape)}")
            if x.size:
                a, b = x.astype(np.float64), y.astype(np.float64)
                worst = float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-2))
                error = max(error, worst if np.isfinite(worst) else float("inf"))
        shape = ";".join(f"{n}:{','.join(a if a.isdigit() else str(sizes[a]) for a in v)}" for n, v in spec.items() if v)
        try:
            ge(args, "compile", path, "-o", f"{d}/s{k}.om", "-q", "--input-shape", shape)
            ge(args, "run", f"{d}/s{k}.om", "--inputs", data, "--outputs", f"{d}/p{k}", "--profile", f"{d}/static.json", "-q")
            mine, other = kernels(f"{d}/open.json"), kernels(f"{d}/static.json")
            same += mine == other
            if mine != other:
                notes.append(f"{name} {sizes}: {dict(mine - other)} for {dict(other - mine)}")
            static = True
        except RuntimeError as e:
            notes.append(f"{name} {sizes}: no static OM: {e}")
            static = False
        now = [float("inf")] * 3
        for _ in range(args.rounds):
            now[2] = min(now[2], once(session, feed, args.seconds))
            now[0] = min(now[0], measured(args, f"{d}/open.om", data, now[2]))
            if static:
                now[1] = min(now[1], measured(args, f"{d}/s{k}.om", data, now[2]))
        ours.append(now[0]), theirs.append(now[2]), ratios.append(now[0] / now[1] if static else float("nan"))
    sizes = ", ".join("x".join(str(lists[a][k]) for a in letters) for k in range(5))
    cells = [name, f"{'x'.join(letters)}: {sizes}", f"{error:.1e}", " ".join(f"{v:.2f}" for v in ours), " ".join(f"{v:.2f}" for v in theirs),
             " ".join(f"{v:.2f}" for v in ratios), f"{same} of 5"]
    return cells, notes, error > (0.03 if name.startswith("vowels_") else 1e-3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ge"), p.add_argument("plugins"), p.add_argument("models"), p.add_argument("names", nargs="*")
    p.add_argument("--trained", action="store_true")
    p.add_argument("--rounds", type=int, default=2), p.add_argument("--seconds", type=float, default=0.3)
    args = p.parse_intermixed_args()
    print("| model | sizes | greatest error | open OM, ms | onnxruntime, ms | over the static OM | same kernels |")
    print("|---|---|---:|---|---|---|---:|")
    failed = []
    for name in args.names or (TRAINED if args.trained else OPEN):
        with tempfile.TemporaryDirectory() as d:
            try:
                cells, notes, bad = row(args, name, d)
            except Exception as e:
                cells, notes, bad = [name, str(e).replace("\n", " ")[:300]] + ["-"] * 5, [], True
        print("| " + " | ".join(cells) + " |", flush=True)
        print("".join(n + "\n" for n in notes), end="", file=sys.stderr, flush=True)
        failed += [name] if bad else []
    if failed:
        raise SystemExit("not as they should be: " + ", ".join(failed))


main()
