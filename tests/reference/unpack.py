#!/usr/bin/env python3
"""Lays reference models out for `ge run`: MODELS/<name>.npz to MODELS/<name>/s<k>/{input_<i>.npy,expect/output_<j>.npy}, and
index.json's tolerances to MODELS/tolerances.txt (name rtol atol sets).

  python unpack.py MODELS
"""
import json, os, re, sys
import numpy as np

root = sys.argv[1]
index = json.load(open(os.path.join(root, "index.json")))
models = index["models"] if isinstance(index, dict) and "models" in index else index
lines = []
for name in sorted(f[:-4] for f in os.listdir(root) if f.endswith(".npz")):
    data = np.load(os.path.join(root, name + ".npz"))
    sets = 0
    for key in data.files:
        k, kind, i = re.fullmatch(r"s(\d+)_(in|out)(\d+)", key).groups()
        sets = max(sets, int(k) + 1)
        folder = os.path.join(root, name, "s" + k) + ("" if kind == "in" else "/expect")
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, ("input_" if kind == "in" else "output_") + i + ".npy"), np.asarray(data[key], order="C"))
    meta = models[name] if isinstance(models, dict) else next(m for m in models if m["name"] == name)
    lines.append("%s %r %r %d" % (name, meta["rtol"], meta["atol"], sets))
open(os.path.join(root, "tolerances.txt"), "w").write("\n".join(lines) + "\n")
