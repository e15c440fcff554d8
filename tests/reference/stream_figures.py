#!/usr/bin/env python3
"""stream_figures.py - the tables of docs/benchmarks.md about stream plans, by one command.

    python3 stream_figures.py [--ge PATH] [--instances DIR] [--only NAME,NAME] [--streams 2,4,8] [--event-cost 0,1500]
                              [--what speed,balanced,scale]

speed     makespan over the lower bound of stream_check.py, events over the least number, seconds of the whole command
balanced  makespan and arena of one plan, `speed` beside `balanced`; the arena over what lives at once on one stream in the
          order of the file, and the share of the extra memory that is left
scale     1k, 10k and 100k nodes of a layered random graph on 8 streams: seconds by part
Every plan is judged by checks/stream_check.py, its memory by checks/mem_check.py. Needs numpy. Exit 1 where a plan is refused.
"""
import argparse
import glob
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKS = os.path.join(HERE, "checks")
sys.path.insert(0, CHECKS)
import stream_check as sc  # noqa: E402


def extra_streams(graph):
    """The number of additional streams: one for each label and each independent engine."""
    independent = graph.get("independent_engines", ["DNN_HCCL"])
    labels = {n["label"] for n in graph["nodes"] if n.get("label")}
    engines = {n.get("engine") for n in graph["nodes"] if not n.get("label") and n.get("engine") in independent}
    return len(labels) + len(engines)


def plan(a, path, streams, cost, aim, folder):
    out, csv = os.path.join(folder, "plan.json"), os.path.join(folder, "memory.csv")
    call = [a.ge, "plan", "streams", path, "-o", out, "--mode", f"parallel:{streams}", "--event-cost", str(cost),
            "--memory", csv, "--set", f"ge.x.plan={aim}", "--json", "-q"]
    begin = time.time()
    said = subprocess.run(call, capture_output=True, text=True)
    seconds = time.time() - begin
    if said.returncode:
        sys.exit(f"{' '.join(call)}\n{said.stderr}")
    return out, csv, json.loads(said.stdout), seconds


def judge(a, path, graph, bounds, streams, cost, aim, folder):
    out, csv, said, seconds = plan(a, path, streams, cost, aim, folder)
    p = sc.Plan.load(out, path)
    p.check(streams + extra_streams(graph))
    least, span = p.min_events(), p.simulate(cost)
    if span != said["makespan"]:
        sys.exit(f"{path}: the plan takes {span} ns, ge says {said['makespan']}")
    if len(p.events) != least:
        sys.exit(f"{path}: {len(p.events)} events, {least} would do")
    mem = subprocess.run([sys.executable, os.path.join(CHECKS, "mem_check.py"), "--graph", path, "--plan", out, csv, "--json"],
                         capture_output=True, text=True)
    if mem.returncode:
        sys.exit(f"{path}: {mem.stdout}{mem.stderr}")
    if streams not in bounds:
        bounds[streams] = p.bounds(streams + extra_streams(graph))[2]
    return {"ratio": span / bounds[streams], "arena": json.loads(mem.stdout)["arena"], "one": said["one_stream"], "s": seconds,
            "span": span, "streams": said["streams"]}


def layered(nodes, seed):
    """Layers of about 40 nodes, each with one to three inputs from the layers before."""
    rng = random.Random(seed)
    out, edges = [], []
    for k in range(nodes):
        out.append({"id": k, "engine": "AIcoreEngine", "cost": rng.randrange(2000, 40000), "out_bytes": 512 * rng.randrange(1, 200)})
        layer = k // 40
        if layer:
            for _ in range(rng.randrange(1, 4)):
                edges.append([rng.randrange(max(0, (layer - 2) * 40), layer * 40), k])
    return {"nodes": out, "edges": edges}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ge", default=os.path.join(HERE, "../../target/debug/ge"))
    ap.add_argument("--instances", default=os.path.join(HERE, "planning/streams"))
    ap.add_argument("--only", default="")
    ap.add_argument("--streams", default="2,4,8")
    ap.add_argument("--event-cost", default="0,1500")
    ap.add_argument("--what", default="speed,balanced,scale")
    a = ap.parse_args()
    what = a.what.split(",")
    widths, costs = [int(x) for x in a.streams.split(",")], [int(x) for x in a.event_cost.split(",")]
    files = sorted(glob.glob(os.path.join(a.instances, "*.json*")))
    files = [f for f in files if not a.only or os.path.basename(f).split(".")[0] in a.only.split(",")]
    columns = [(w, c) for c in costs for w in widths]
    with tempfile.TemporaryDirectory() as folder:
        loaded = [(f, sc.read(f), {}) for f in files]
        quick = {}
        for aim in ("speed", "balanced"):
            if aim not in what and not (aim == "speed" and "balanced" in what):
                continue
            for f, g, bounds in loaded:
                for w, c in columns:
                    quick[aim, f, w, c] = judge(a, f, g, bounds, w, c, aim, folder)
        name = lambda f: os.path.basename(f).split(".")[0]
        head = " | ".join(f"N={w} {'free' if c == 0 else f'at {c / 1000:g} us'}" for w, c in columns)
        if "speed" in what:
            print(f"| instance | {head} | slowest |\n|{'---|' * (len(columns) + 2)}")
            for f, _, _ in loaded:
                row = [quick["speed", f, w, c] for w, c in columns]
                print(f"| {name(f)} | " + " | ".join(f"{r['ratio']:.3f}" for r in row) + f" | {max(r['s'] for r in row):.1f} s |", flush=True)
            geo = [math.exp(sum(math.log(quick["speed", f, w, c]["ratio"]) for f, _, _ in loaded) / len(loaded)) for w, c in columns]
            print("| geometric mean | " + " | ".join(f"{x:.3f}" for x in geo) + " | |\n")
        if "balanced" in what:
            print(f"| instance | {head} |\n|{'---|' * (len(columns) + 1)}")
            for f, _, _ in loaded:
                cells = []
                for w, c in columns:
                    q, b = quick["speed", f, w, c], quick["balanced", f, w, c]
                    more = [r["arena"] / r["one"] for r in (q, b)]
                    left = f"{(more[1] - 1) / (more[0] - 1):.2f}" if more[0] > 1.001 else "-"
                    cells.append(f"{b['span'] / q['span']:.3f}, {more[0]:.2f} to {more[1]:.2f}, {left}")
                print(f"| {name(f)} | " + " | ".join(cells) + " |", flush=True)
            print(f"slowest balanced command: {max(v['s'] for k, v in quick.items() if k[0] == 'balanced'):.1f} s\n")
        if "scale" in what:
            print("| nodes | edges | whole command | makespan over work / 8 |\n|---|---|---|---|")
            for n in (1000, 10000, 100000):
                path = os.path.join(folder, f"{n}.json")
                with open(path, "w") as out:
                    json.dump(layered(n, 7), out)
                for aim in ("speed",):
                    begin = time.time()
                    said = subprocess.run([a.ge, "plan", "streams", path, "-o", os.path.join(folder, "p.json"), "--mode", "parallel:8", "--json", "-v"],
                                          capture_output=True, text=True)
                    seconds = time.time() - begin
                    doc = json.loads(said.stdout)
                    print(f"| {n} | {doc['edges']} | {seconds:.2f} s | {doc['makespan'] / (doc['work'] / 8):.3f} |", flush=True)


if __name__ == "__main__":
    main()
