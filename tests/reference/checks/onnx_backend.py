#!/usr/bin/env python3
"""Run ANY command over the ONNX backend test suite and count what it gets right.

  python onnx_backend.py run --cmd 'ge run {model} --inputs {inputs_dir} --outputs {outputs_dir}'
  python onnx_backend.py run --compile 'ge compile {model} -o {om}' --cmd 'ge run {om} --inputs {inputs_dir} --outputs {outputs_dir}'
  python onnx_backend.py run --inproc ort            # onnxruntime in this process (fast stand-in); also: ref, ov
  python onnx_backend.py run --cmd 'python onnx_backend.py ort-run {model} --inputs {inputs_dir} --outputs {outputs_dir}'
  python onnx_backend.py list [--by-op]              # what the suite holds

Needs: python packages onnx, numpy (and onnxruntime / openvino only for --inproc ort / ov and ort-run).

The contract of the command
  {model}       the ONNX file, alone in a folder of its own (the expected outputs are not beside it)
  {inputs_dir}  input_0.npy, input_1.npy ... in graph-input order (graph inputs that have an initializer are left out,
                unless the suite feeds them), and io.json: names, ONNX element types and shapes
  {outputs_dir} empty; the command writes output_0.npy ... in graph-output order
  {om} {tmp}    a scratch path / folder, shared by --compile and --cmd
  exit 0: outputs written.  exit 3 (or --unsupported-exit), or an other non-zero exit whose stderr matches
  --unsupported-re: the command says it does not support this model.  A signal, or exit 101/134/139: crash.
  Any other exit: error.
Element types that numpy has no name for travel as raw bits, one element per array element: bfloat16 as uint16,
float8*, float4, int4, uint4, int2, uint2 as uint8 (sub-byte values sign- or zero-extended to the byte for integers;
io.json tells the true type).

Counting: passed / failed (exit 0, wrong outputs) / error / unsupported / crash / timeout; the last line is
`N passed, M failed of K`, where M counts everything that is not a pass, and K is the number of cases run.
Skipped (not in K) unless --all: graphs whose inputs or outputs are sequences, optionals, maps, sparse tensors or
strings, and cases with random outputs no other implementation can match (NONDET below).
Tolerance: the suite's, rtol 1e-3 atol 1e-7 (light_densenet121 rtol 2e-3; bfloat16 outputs rtol 2**-6), dtype and
shape must be equal.  Which data: --data DIR (a backend/test/data folder), else $ONNX_BACKEND_DATA, else the installed
onnx package; where that has no node/ folder (onnx >= 1.23), the node cases are generated once, seeded, into --cache.
"""
import argparse, csv, glob, json, os, random, re, shlex, shutil, signal, subprocess, sys, tempfile, threading, time
from collections import Counter, OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# "light" can be asked for (--suites light) but is not in the default score: its weights are constants, and each of its
# nine expected outputs is one repeated value (0.001 in eight of them), the same for any input. It shows that a model loads
# and gives the right shape, not that a convolution is right. make_models.py makes seeded twins.
SUITES = ["node", "simple", "pytorch-operator", "pytorch-converted"]
NONDET = re.compile(
    r"^test_(bernoulli($|_double|_seed|_expanded|_double_expanded|_seed_expanded)"
    r"|training_dropout(_default)?(_mask)?$"
    r"|random_|multinomial)"
)
STATUSES = ["passed", "failed", "error", "unsupported", "crash", "timeout"]
RTOL, ATOL = 1e-3, 1e-7
LIGHT_RTOL = {"light_densenet121": 2e-3}


# ---------------------------------------------------------------- the suite
class Case:
    __slots__ = ("suite", "name", "model", "sets", "rtol", "atol", "op", "opset", "ops", "skip", "nodes", "ir")

    def __init__(self, suite, name, model, sets):
        self.suite, self.name, self.model, self.sets = suite, name, model, sets
        self.rtol, self.atol = LIGHT_RTOL.get(name, RTOL), ATOL
        self.op = self.opset = self.ops = self.skip = None
        self.nodes = self.ir = 0


def materialise(out):
    """Node cases of an onnx package that ships none as files; same bytes on every call (seeded)."""
    import onnx
    from onnx import TensorProto, numpy_helper
    done = os.path.join(out, ".done")
    if os.path.exists(done):
        return
    np.random.seed(0)
    random.seed(0)
    from onnx.backend.test.case.node import collect_testcases
    for c in collect_testcases():
        base = os.path.join(out, "node", c.name)
        for i, (ins, outs) in enumerate(c.data_sets):
            p = os.path.join(base, "test_data_set_%d" % i)
            os.makedirs(p, exist_ok=True)
            for kind, vals, vis in (("input", ins, c.model.graph.input), ("output", outs, c.model.graph.output)):
                for j, v in enumerate(vals):
                    k, n = vis[j].type.WhichOneof("value"), vis[j].name
                    if k == "map_type":
                        m = numpy_helper.from_dict(v, n)
                    elif k == "sequence_type":
                        m = numpy_helper.from_list(v, n)
                    elif k == "optional_type":
                        m = numpy_helper.from_optional(v, n)
                    else:
                        m = v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), n)
                    with open(os.path.join(p, "%s_%d.pb" % (kind, j)), "wb") as f:
                        f.write(m.SerializeToString(deterministic=True))
        with open(os.path.join(base, "model.onnx"), "wb") as f:
            f.write(c.model.SerializeToString(deterministic=True))
    open(done, "w").write(onnx.__version__ + "\n")


def data_roots(a):
    """suite name -> folder"""
    import onnx
    root = a.data or os.environ.get("ONNX_BACKEND_DATA") or os.path.join(
        os.path.dirname(onnx.__file__), "backend", "test", "data")
    roots = {s: os.path.join(root, s) for s in SUITES + ["light"]}
    if not os.path.isdir(roots["node"]):
        cache = a.cache or os.path.join(os.path.expanduser("~"), ".cache", "onnx_backend", onnx.__version__)
        materialise(cache)
        roots["node"] = os.path.join(cache, "node")
    return roots


def fingerprint(cases):
    """12 hex digits over the models and data of these cases: two scores are comparable only if these agree"""
    import hashlib
    h = hashlib.sha256()
    for c in sorted(cases, key=lambda c: (c.suite, c.name)):
        files = [c.model] + (sorted(glob.glob(c.model[:-5] + "_output_*.pb")) if c.sets is None else
                             [f for d in c.sets for f in sorted(glob.glob(os.path.join(d, "*.pb")))])
        for f in files:
            h.update(("%s/%s/%s" % (c.suite, c.name, os.path.basename(f))).encode())
            h.update(open(f, "rb").read())
    return h.hexdigest()[:12]


def load_cases(a):
    roots = data_roots(a)
    cases = []
    for s in a.suites.split(","):
        if s == "light":
            for m in sorted(glob.glob(os.path.join(roots[s], "*.onnx"))):
                cases.append(Case(s, os.path.basename(m)[:-5], m, None))
            continue
        for d in sorted(os.listdir(roots[s])):
            m = os.path.join(roots[s], d, "model.onnx")
            if os.path.exists(m):
                c = Case(s, d, m, sorted(glob.glob(os.path.join(roots[s], d, "test_data_set_*"))))
                dj = os.path.join(roots[s], d, "data.json")
                if os.path.exists(dj):
                    j = json.load(open(dj))
                    c.rtol, c.atol = j.get("rtol", RTOL), j.get("atol", ATOL)
                cases.append(c)
    if a.filter:
        r = re.compile(a.filter)
        cases = [c for c in cases if r.search(c.suite + "/" + c.name)]
    for c in cases:
        describe(c)
    if a.op:
        want = set(a.op.split(","))
        cases = [c for c in cases if c.op in want]
    return cases


def walk(graph, into):
    import onnx
    for n in graph.node:
        into[(n.domain + "." if n.domain else "") + n.op_type] += 1
        for at in n.attribute:
            if at.type == onnx.AttributeProto.GRAPH:
                walk(at.g, into)
            elif at.type == onnx.AttributeProto.GRAPHS:
                for g in at.graphs:
                    walk(g, into)


def describe(c):
    import onnx
    m = onnx.load(c.model)
    ops = Counter()
    walk(m.graph, ops)
    for f in m.functions:
        for n in f.node:
            ops[n.op_type] += 1
    c.ops, c.nodes, c.ir = ops, sum(ops.values()), m.ir_version
    c.opset = ",".join("%s%d" % (o.domain + ":" if o.domain not in ("", "ai.onnx") else "", o.version)
                       for o in m.opset_import)
    c.op = "(%s)" % c.suite
    if c.suite == "node":
        if "_expanded" in c.name:
            base = os.path.join(os.path.dirname(os.path.dirname(c.model)), c.name.split("_expanded")[0], "model.onnx")
            if os.path.exists(base):
                m2 = onnx.load(base)
                c.op = main_op(m2) + " (expanded)"
        else:
            c.op = main_op(m)
    why = []
    for kind, vis in (("input", m.graph.input), ("output", m.graph.output)):
        for v in vis:
            t = v.type.WhichOneof("value")
            if t != "tensor_type":
                why.append("%s %s" % (kind, (t or "untyped").replace("_type", "")))
            elif v.type.tensor_type.elem_type == onnx.TensorProto.STRING:
                why.append(kind + " string")
    if not why and NONDET.search(c.name):
        why.append("random outputs")
    c.skip = "; ".join(sorted(set(why)))


def main_op(m):
    """The op that a node case is about: its only node, else the least common one."""
    plain = {"Constant", "Identity", "Cast", "Shape"}
    ns = [n for n in m.graph.node if n.op_type not in plain] or list(m.graph.node)
    n = ns[0]
    return (n.domain + "." if n.domain not in ("", "ai.onnx") else "") + n.op_type


# ---------------------------------------------------------------- values
def to_raw(x):
    """Turns an ml_dtypes array into what is written to the .npy file."""
    if x.dtype == object:
        return x.astype(np.str_)
    if plain(x):
        return x
    if x.dtype.itemsize == 2:
        return x.view(np.uint16)
    if x.dtype.name in ("int4", "int2"):
        return x.astype(np.int8).view(np.uint8)
    if x.dtype.name in ("uint4", "uint2"):
        return x.astype(np.uint8)
    return x.view(np.uint8)


def from_raw(x, like):
    """Views what came back as the expected dtype."""
    if x.dtype == like.dtype:
        return x
    if like.dtype == object:
        return x.astype(object)
    if like.dtype.kind in "biufc" and like.dtype.isbuiltin == 1:
        return x                                # a wrong dtype is left wrong
    if like.dtype.itemsize == 2 and x.dtype.itemsize == 2:
        return np.ascontiguousarray(x).view(like.dtype)
    if x.dtype.itemsize == 1:
        if like.dtype.name in ("int4", "int2"):
            return x.view(np.int8).astype(like.dtype)
        if like.dtype.name in ("uint4", "uint2"):
            return x.view(np.uint8).astype(like.dtype)
        return x.view(like.dtype)
    return x


def load_pb(path, tp):
    import onnx
    from onnx import numpy_helper
    b = open(path, "rb").read()
    k = tp.WhichOneof("value")
    if k == "sequence_type":
        p = onnx.SequenceProto(); p.ParseFromString(b); return numpy_helper.to_list(p)
    if k == "optional_type":
        p = onnx.OptionalProto(); p.ParseFromString(b); return numpy_helper.to_optional(p)
    if k == "map_type":
        p = onnx.MapProto(); p.ParseFromString(b); return numpy_helper.to_dict(p)
    p = onnx.TensorProto(); p.ParseFromString(b)
    return numpy_helper.to_array(p)


def light_io(c, m):
    inits = {i.name for i in m.graph.initializer}
    ins = []
    for x in m.graph.input:
        if x.name in inits:
            continue
        shp = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in x.type.tensor_type.shape.dim)
        n = int(np.prod(shp))
        ins.append((np.arange(n).reshape(shp) / n).astype(np.float32))
    outs = [load_pb(c.model[:-5] + "_output_%d.pb" % i, o.type) for i, o in enumerate(m.graph.output)]
    return ins, outs


def data_sets(c, m):
    """[(inputs, input_infos, expected)]"""
    inits = {i.name for i in m.graph.initializer}
    free = [i for i in m.graph.input if i.name not in inits]
    if c.sets is None:
        ins, outs = light_io(c, m)
        return [(ins, free[:len(ins)], outs)]
    res = []
    for d in c.sets:
        n = len(glob.glob(os.path.join(d, "input_*.pb")))
        k = len(glob.glob(os.path.join(d, "output_*.pb")))
        infos = free if n <= len(free) else list(m.graph.input)
        ins = [load_pb(os.path.join(d, "input_%d.pb" % i), infos[i].type) for i in range(n)]
        outs = [load_pb(os.path.join(d, "output_%d.pb" % i), m.graph.output[i].type) for i in range(k)]
        res.append((ins, infos[:n], outs))
    return res


def compare(exp, got, rtol, atol, where="output"):
    """-> (ok, what, max abs error)"""
    if isinstance(exp, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(exp):
            return False, where + ": sequence length", 0.0
        worst = 0.0
        for i, (e, g) in enumerate(zip(exp, got)):
            ok, w, d = compare(e, g, rtol, atol, "%s[%d]" % (where, i))
            worst = max(worst, d)
            if not ok:
                return ok, w, worst
        return True, "", worst
    if isinstance(exp, dict):
        return (exp == got), where + ": map", 0.0
    if exp is None or got is None:
        return (exp is None) == (got is None), where + ": optional", 0.0
    exp = np.asarray(exp)
    got = from_raw(np.asarray(got), exp)
    if exp.shape != got.shape:
        return False, "%s: shape %s, expected %s" % (where, list(got.shape), list(exp.shape)), 0.0
    if exp.dtype == object:
        ok = bool(np.array_equal(exp.astype(np.str_), got.astype(np.str_)))
        return ok, "" if ok else where + ": strings differ", 0.0
    if exp.dtype != got.dtype:
        return False, "%s: dtype %s, expected %s" % (where, got.dtype, exp.dtype), 0.0
    if exp.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0 ** -6)
    if not (exp.dtype.kind in "biufc" and exp.dtype.isbuiltin == 1):
        exp, got = exp.astype(np.float32), got.astype(np.float32)
    if exp.size == 0:
        return True, "", 0.0
    wide = np.complex128 if exp.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        ok = np.isclose(got, exp, rtol=rtol, atol=atol, equal_nan=True)
        if exp.dtype.kind in "iu" and exp.dtype.itemsize == 8:
            ok |= got == exp
        e, g = exp.astype(wide), got.astype(wide)
        d = np.abs(e - g)
        fin = np.isfinite(d)
        mx = float(d[fin].max()) if fin.any() else 0.0
    if ok.all():
        return True, "", mx
    bad = int((~ok).sum())
    at = np.argwhere(~ok)[0]
    return False, "%s: %d of %d elements differ, first at %s: %s, expected %s" % (
        where, bad, exp.size, at.tolist(), got[tuple(at)], exp[tuple(at)]), mx


# ---------------------------------------------------------------- running a command
def put(dir_, stem, i, v):
    if isinstance(v, (list, tuple)):
        for j, x in enumerate(v):
            put(dir_, "%s_%d" % (stem, i), j, x)
    elif isinstance(v, dict):
        json.dump({str(k): np.asarray(x).item() for k, x in v.items()}, open(os.path.join(dir_, "%s_%d.json" % (stem, i)), "w"))
    elif v is not None:
        np.save(os.path.join(dir_, "%s_%d.npy" % (stem, i)), to_raw(np.asarray(v)), allow_pickle=False)


def get(dir_, stem, i, like):
    if isinstance(like, (list, tuple)):
        n = len(glob.glob(os.path.join(dir_, "%s_%d_*.npy" % (stem, i))))
        return [get(dir_, "%s_%d" % (stem, i), j, like[min(j, len(like) - 1)] if like else None) for j in range(n)]
    p = os.path.join(dir_, "%s_%d.npy" % (stem, i))
    if not os.path.exists(p):
        if like is None:
            return None
        raise FileNotFoundError("output_%d.npy was not written" % i)
    return np.load(p, allow_pickle=False)


def io_json(infos, m):
    import onnx
    def one(v):
        t = v.type
        k = t.WhichOneof("value")
        if k != "tensor_type":
            return {"name": v.name, "kind": k}
        tt = t.tensor_type
        return {"name": v.name, "type": onnx.TensorProto.DataType.Name(tt.elem_type),
                "shape": [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tt.shape.dim]}
    return {"inputs": [one(v) for v in infos], "outputs": [one(v) for v in m.graph.output]}


def spawn(template, env, timeout, cwd):
    """-> (rc | 'timeout', seconds, tail of stderr+stdout)"""
    if re.search(r"[|&;<>`$]", template):
        argv = ["bash", "-c", template.format(**{k: shlex.quote(v) for k, v in env.items()})]
    else:
        argv = [w.format(**env) for w in shlex.split(template)]
    t0 = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        try:
            p = subprocess.Popen(argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=cwd, start_new_session=True)
        except OSError as e:
            return 127, 0.0, str(e)
        try:
            rc = p.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            rc = "timeout"
        dt = time.perf_counter() - t0
        size = out.seek(0, 2)
        out.seek(max(0, size - 4000))
        return rc, dt, out.read().decode("utf-8", "replace")


def status_of(rc, text, a):
    if rc == "timeout":
        return "timeout"
    if rc == a.unsupported_exit:
        return "unsupported"
    if rc < 0 or rc in (101, 134, 136, 139):
        return "crash"
    if rc != 0 and a.unsupported_re and re.search(a.unsupported_re, text):
        return "unsupported"
    return "error"


def last_line(text):
    ls = [l.strip() for l in text.splitlines() if l.strip()]
    return ls[-1][:300] if ls else ""


def run_cmd(c, a):
    import onnx
    m = onnx.load(c.model)
    tmp = tempfile.mkdtemp(prefix="onnxbe_")
    try:
        md = os.path.join(tmp, "m")
        os.makedirs(md)
        model = os.path.join(md, "model.onnx")
        if a.scrub:
            m.graph.name, m.doc_string, m.graph.doc_string, m.producer_name = "g", "", "", ""
            open(model, "wb").write(m.SerializeToString())
        else:
            shutil.copyfile(c.model, model)
        env = {"model": model, "om": os.path.join(tmp, "model.om"), "tmp": os.path.join(tmp, "t")}
        os.makedirs(env["tmp"])
        total, worst = 0.0, 0.0
        if a.compile:
            env["inputs_dir"] = env["outputs_dir"] = ""
            rc, dt, text = spawn(a.compile, env, a.timeout, a.cwd)
            total += dt
            if rc != 0:
                return status_of(rc, text, a), total, 0.0, "compile: rc %s: %s" % (rc, last_line(text))
        for i, (ins, infos, exp) in enumerate(data_sets(c, m)):
            di, do = os.path.join(tmp, "in%d" % i), os.path.join(tmp, "out%d" % i)
            os.makedirs(di), os.makedirs(do)
            for j, v in enumerate(ins):
                put(di, "input", j, v)
            json.dump(io_json(infos, m), open(os.path.join(di, "io.json"), "w"))
            env["inputs_dir"], env["outputs_dir"] = di, do
            rc, dt, text = spawn(a.cmd, env, a.timeout, a.cwd)
            total += dt
            if rc != 0:
                return status_of(rc, text, a), total, worst, "rc %s: %s" % (rc, last_line(text))
            for j, e in enumerate(exp):
                try:
                    g = get(do, "output", j, e)
                except Exception as x:
                    return "failed", total, worst, str(x)[:300]
                ok, why, d = compare(e, g, c.rtol, c.atol, "output %d" % j)
                worst = max(worst, d)
                if not ok:
                    return "failed", total, worst, why
        return "passed", total, worst, ""
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


# ---------------------------------------------------------------- in-process stand-ins
def ort_options(threads=1):
    import onnxruntime as ort
    so = ort.SessionOptions()
    so.intra_op_num_threads, so.inter_op_num_threads, so.log_severity_level = threads, 1, 4
    return so


UNSUPPORTED_ORT = re.compile(
    r"NOT_IMPLEMENTED|Could not find an implementation|is not a registered function/op|No Op registered|"
    r"under development and support for this is limited|Unsupported model IR version|No opset import|"
    r"Fatal error: .* is not a registered|Batchwise recurrent operations|NotImplemented|not implemented|not supported|Unsupported|unsupported")


PLAIN_ORT = ("float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "bool", "string")
SUB = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}      # bits, packed low bits first


def plain(v):
    return v.dtype == object or (v.dtype.kind in "biufcSU" and v.dtype.isbuiltin == 1)


def ort_value(v, info):
    """onnxruntime's Python has no numpy name for the unusual types, so the tensor's memory is filled by hand."""
    import ctypes
    import onnxruntime as ort
    if isinstance(v, (list, dict)) or v is None:
        return v
    v = np.asarray(v)
    if plain(v):
        return v
    o = ort.OrtValue.ortvalue_from_shape_and_type(list(v.shape), info.type.tensor_type.elem_type, "cpu", 0)
    raw = np.ascontiguousarray(to_raw(v)).ravel()
    if v.dtype.name in SUB:
        bits = SUB[v.dtype.name]
        per = 8 // bits
        raw = np.concatenate([raw & ((1 << bits) - 1), np.zeros(-raw.size % per, np.uint8)]).reshape(-1, per)
        raw = np.bitwise_or.reduce(raw << (np.arange(per, dtype=np.uint8) * bits), axis=1).astype(np.uint8)
    b = raw.tobytes()
    ctypes.memmove(o.data_ptr(), b, len(b))
    return o


ODD_ORT = {"bfloat16": "bfloat16", "int4": "int4", "uint4": "uint4", "int2": "int2", "uint2": "uint2",
           "float4e2m1": "float4_e2m1fn", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
           "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu"}


def ort_read(o, info_type):
    import ctypes
    import ml_dtypes
    t = info_type.split("(")[-1].rstrip(")")
    if t not in ODD_ORT:
        return o.numpy()
    dt = np.dtype(getattr(ml_dtypes, ODD_ORT[t]))
    n = int(np.prod(o.shape(), dtype=np.int64))
    if dt.name not in SUB:
        return np.frombuffer(ctypes.string_at(o.data_ptr(), n * dt.itemsize), dt).reshape(o.shape())
    bits = SUB[dt.name]
    per = 8 // bits
    b = np.frombuffer(ctypes.string_at(o.data_ptr(), -(-n // per)), np.uint8)
    e = ((b[:, None] >> (np.arange(per, dtype=np.uint8) * bits)) & ((1 << bits) - 1)).ravel()[:n].astype(np.uint8)
    if dt.name == "float4_e2m1fn":
        return e.view(dt).reshape(o.shape())
    if dt.name.startswith("int"):
        h = 1 << (bits - 1)
        e = ((e.astype(np.int16) ^ h) - h).astype(np.int8)
    return e.astype(dt).reshape(o.shape())


def run_ort(m_path, ins, infos, n_out, threads=1):
    import onnxruntime as ort
    s = ort.InferenceSession(m_path, ort_options(threads), providers=["CPUExecutionProvider"])
    feed = {i.name: ort_value(v, i) for v, i in zip(ins, infos)}
    outs = s.get_outputs()
    if any(isinstance(v, ort.OrtValue) for v in feed.values()) or any(
            o.type.startswith("tensor(") and o.type[7:-1] not in PLAIN_ORT for o in outs):
        feed = {k: v if isinstance(v, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(v) if v.ndim else v)
                for k, v in feed.items()}
        return [ort_read(v, o.type) for v, o in zip(s.run_with_ort_values([o.name for o in outs], feed), outs)]
    return s.run(None, feed)


def run_ref(m_path, ins, infos, n_out):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(m_path).run(None, {i.name: v for v, i in zip(ins, infos)})


def run_ov(m_path, ins, infos, n_out):
    import openvino as ov
    core = ov.Core()
    cm = core.compile_model(core.read_model(m_path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    r = cm([np.asarray(v) for v in ins])
    return [r[o] for o in cm.outputs]


INPROC = {"ort": run_ort, "ref": run_ref, "ov": run_ov}


def inproc_one(c, a):
    import onnx
    t0 = time.perf_counter()
    worst = 0.0
    try:
        m = onnx.load(c.model)
        for ins, infos, exp in data_sets(c, m):
            got = INPROC[a.inproc](c.model, ins, infos, len(exp))
            if len(got) < len(exp):
                return "failed", time.perf_counter() - t0, worst, "%d outputs, expected %d" % (len(got), len(exp))
            for j, e in enumerate(exp):
                ok, why, d = compare(e, got[j], c.rtol, c.atol, "output %d" % j)
                worst = max(worst, d)
                if not ok:
                    return "failed", time.perf_counter() - t0, worst, why
        return "passed", time.perf_counter() - t0, worst, ""
    except Exception as x:
        t = "%s: %s" % (type(x).__name__, x)
        s = "unsupported" if UNSUPPORTED_ORT.search(t) else "error"
        return s, time.perf_counter() - t0, worst, " ".join(t.split())[:300]


def run_inproc(cases, a, report):
    """Each worker takes every jobs-th case. If a worker dies, its case counts as a crash, and another worker goes on after it."""
    import multiprocessing as mp
    ctx = mp.get_context("fork")

    def worker(mine, q):
        for i in mine:
            q.send((i, None))
            q.send((i, inproc_one(cases[i], a)))
        q.send(None)

    def lane(k):
        todo = list(range(k, len(cases), a.jobs))
        while todo:
            r, w = ctx.Pipe(False)
            p = ctx.Process(target=worker, args=(todo, w))
            p.start()
            w.close()
            cur, done = None, set()
            while True:
                if not r.poll(a.timeout):
                    p.kill()
                    p.join()
                    if cur is None:
                        cur = todo[0]
                    report(cases[cur], ("timeout", a.timeout, 0.0, ""))
                    done.add(cur)
                    break
                try:
                    msg = r.recv()
                except EOFError:
                    p.join()
                    if cur is not None and cur not in done:
                        report(cases[cur], ("crash", 0.0, 0.0, "exit %s" % p.exitcode))
                        done.add(cur)
                    break
                if msg is None:
                    p.join()
                    done = set(todo)
                    break
                i, res = msg
                cur = i
                if res is not None:
                    report(cases[i], res)
                    done.add(i)
            if not done:
                done.add(todo[0])
            todo = [i for i in todo if i not in done]

    ts = [threading.Thread(target=lane, args=(k,)) for k in range(a.jobs)]
    [t.start() for t in ts]
    [t.join() for t in ts]


# ---------------------------------------------------------------- verbs
def do_run(a):
    if bool(a.cmd) == bool(a.inproc):
        sys.exit("give --cmd TEMPLATE or --inproc ort|ref|ov")
    cases = load_cases(a)
    skipped = [] if a.all else [c for c in cases if c.skip]
    if not a.all:
        cases = [c for c in cases if not c.skip]
    if a.no_expanded:
        cases = [c for c in cases if "_expanded" not in c.name]
    if a.sample and a.sample < len(cases):
        cases = sorted(random.Random(a.seed).sample(cases, a.sample), key=lambda c: (c.suite, c.name))
    fp = fingerprint(cases)
    print("data: %d cases, fingerprint %s%s" % (len(cases), fp, "" if a.quiet_paths else ", node cases from " + data_roots(a)["node"]), flush=True)
    if a.expect_fingerprint and a.expect_fingerprint != fp:
        sys.exit("the suite on this machine is not the one expected (%s): scores would not compare" % a.expect_fingerprint)
    res, lock = OrderedDict(), threading.Lock()

    def report(c, r):
        with lock:
            res[(c.suite, c.name)] = (c,) + r
            if a.verbose or (r[0] != "passed" and a.show_failures):
                print("%-11s %s/%s  %s" % (r[0], c.suite, c.name, r[3]), flush=True)

    t0 = time.time()
    if a.inproc:
        run_inproc(cases, a, report)
    else:
        with ThreadPoolExecutor(a.jobs) as ex:
            list(ex.map(lambda c: report(c, guarded(c, a)), cases))
    wall = time.time() - t0
    rows = [res[k] for k in sorted(res)]
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["suite", "case", "op", "opset", "ir", "nodes", "status", "max_abs_err", "ms", "detail", "ops"])
            for c, s, dt, d, why in rows:
                w.writerow([c.suite, c.name, c.op, c.opset, c.ir, c.nodes, s, "%.3g" % d, "%.2f" % (dt * 1e3), why,
                            " ".join("%s*%d" % kv for kv in sorted(c.ops.items()))])
            for c in sorted(skipped, key=lambda c: (c.suite, c.name)):
                w.writerow([c.suite, c.name, c.op, c.opset, c.ir, c.nodes, "skipped", "", "", c.skip,
                            " ".join("%s*%d" % kv for kv in sorted(c.ops.items()))])
    by = defaultdict(Counter)
    for c, s, *_ in rows:
        by[c.op if a.by_op else c.suite][s] += 1
    print("%-44s %6s %s" % ("op" if a.by_op else "suite", "cases", " ".join("%11s" % s for s in STATUSES)))
    for k in sorted(by):
        n = sum(by[k].values())
        if a.by_op and a.only_short and by[k]["passed"] == n:
            continue
        print("%-44s %6d %s" % (k[:44], n, " ".join("%11d" % by[k][s] for s in STATUSES)))
    tot = Counter(s for _, s, *_ in rows)
    k = len(rows)
    print("total: " + ", ".join("%d %s" % (tot[s], s) for s in STATUSES) + "; %d skipped; %.1f s" % (len(skipped), wall))
    print("%d passed, %d failed of %d" % (tot["passed"], k - tot["passed"], k))
    if a.min_pass is not None and tot["passed"] < a.min_pass:
        return 1
    return 0


def guarded(c, a):
    try:
        return run_cmd(c, a)
    except Exception as x:                       # the harness itself fails on a case
        return "error", 0.0, 0.0, "harness: %r" % (x,)


def do_list(a):
    cases = load_cases(a)
    if a.by_op:
        t = defaultdict(lambda: [0, 0])
        for c in cases:
            if c.suite == "node":
                t[c.op.replace(" (expanded)", "")][1 if "(expanded)" in c.op else 0] += 1
        for k in sorted(t):
            print("%s\t%d\t%d" % (k, t[k][0], t[k][1]))
        return 0
    for c in cases:
        print("\t".join([c.suite, c.name, c.op, c.opset, str(c.nodes), c.skip]))
    return 0


def do_ort_run(a):
    import onnx
    m = onnx.load(a.model, load_external_data=False)
    io = json.load(open(os.path.join(a.inputs, "io.json")))
    infos = {i.name: i for i in m.graph.input}
    import ml_dtypes
    names = {"BFLOAT16": "bfloat16", "INT4": "int4", "UINT4": "uint4", "INT2": "int2", "UINT2": "uint2",
             "FLOAT4E2M1": "float4_e2m1fn", "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
             "FLOAT8E5M2": "float8_e5m2", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu"}
    ins = []
    for i, d in enumerate(io["inputs"]):
        v = np.load(os.path.join(a.inputs, "input_%d.npy" % i))
        if d["type"] in names:
            v = from_raw(v, np.zeros(0, np.dtype(getattr(ml_dtypes, names[d["type"]]))))
        ins.append(v)
    try:
        outs = run_ort(a.model, ins, [infos[d["name"]] for d in io["inputs"]], 0, a.threads)
    except Exception as x:
        print(" ".join(str(x).split())[:500], file=sys.stderr)
        return 3 if UNSUPPORTED_ORT.search(str(x)) else 1
    for i, o in enumerate(outs):
        put(a.outputs, "output", i, o)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="verb", required=True)
    for verb in ("run", "list"):
        q = sub.add_parser(verb)
        q.add_argument("--data"), q.add_argument("--cache")
        q.add_argument("--suites", default=",".join(SUITES))
        q.add_argument("--filter", help="regular expression over suite/case")
        q.add_argument("--op", help="only these op types (node cases), comma separated")
        q.add_argument("--by-op", action="store_true")
        if verb == "run":
            q.add_argument("--cmd"), q.add_argument("--compile"), q.add_argument("--inproc", choices=sorted(INPROC))
            q.add_argument("--jobs", type=int, default=2), q.add_argument("--timeout", type=float, default=60)
            q.add_argument("--sample", type=int), q.add_argument("--seed", type=int, default=0)
            q.add_argument("--all", action="store_true", help="sequences, strings, optionals, random outputs too")
            q.add_argument("--no-expanded", action="store_true", help="leave out the function-body twins")
            q.add_argument("--scrub", action="store_true", help="blank the graph name and doc strings, which tell the case")
            q.add_argument("--csv"), q.add_argument("--cwd"), q.add_argument("--verbose", action="store_true")
            q.add_argument("--show-failures", action="store_true"), q.add_argument("--only-short", action="store_true",
                           help="with --by-op: only ops with a case that did not pass")
            q.add_argument("--unsupported-exit", type=int, default=3)
            q.add_argument("--unsupported-re", default=r"(?i)\bunsupported\b|not supported|not implemented|no kernel")
            q.add_argument("--expect-fingerprint", help="stop unless the chosen cases have this fingerprint")
            q.add_argument("--quiet-paths", action="store_true", help="print no folder names")
            q.add_argument("--min-pass", type=int, help="exit 1 below this many passes")
    q = sub.add_parser("ort-run")
    q.add_argument("model"), q.add_argument("--inputs", required=True), q.add_argument("--outputs", required=True)
    q.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    sys.exit({"run": do_run, "list": do_list, "ort-run": do_ort_run}[a.verb](a))


if __name__ == "__main__":
    main()
