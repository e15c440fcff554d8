#!/usr/bin/env python3
"""Writes models whose control flow is decided when they run, with inputs and the outputs that they should give.

  python tests/models/make_control.py tests/models/control

digits_gate     the trained digits model behind an `If` over an input: with `bold` the network of the turned image (its 180 degree
                turn, rows and columns backwards), else that of the image as it is; each branch is the whole trained network
digits_loop     the trained network in a `Loop` over a number of turns that is an input: each turn moves the image by what the network
                says, with an `If` within each turn over what was computed in it, and stops early on the data
grouped         `npu::NPUGroupedMatmul`, whose rows a group are an input, between operators of `ai.onnx`

Each folder NAME/s<k> has input_<i>.npy and expect/output_<j>.npy: by onnxruntime with its graph optimisations off; of `grouped`, which it
has no kernel for, by numpy in double precision. Needs the packages of tests/reference/requirements.txt.
"""
import os, sys
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh

OUT = sys.argv[1] if len(sys.argv) > 1 else "."
HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = onnx.load(os.path.join(HERE, "digits", "digits.onnx"))
IMAGES = np.load(os.path.join(HERE, "digits", "images.npy")).reshape(-1, 1, 1, 8, 8)
vi = h.make_tensor_value_info


def network(prefix, image, scores):
    """the trained nodes under names of their own, reading `image`, giving `scores`"""
    g = DIGITS.graph
    held = {t.name for t in g.initializer}
    names = {g.input[0].name: image, g.output[0].name: scores}
    own = lambda n: n if n in held or not n else names.get(n, prefix + n)
    out = []
    for n in g.node:
        c = onnx.NodeProto()
        c.CopyFrom(n)
        c.name = prefix + (n.name or n.output[0])
        c.input[:] = [own(i) for i in n.input]
        c.output[:] = [own(o) for o in n.output]
        out.append(c)
    return out


def weights():
    return list(DIGITS.graph.initializer)


def save(name, nodes, inputs, outputs, inits, sets, domains=(), compute=None):
    g = h.make_graph(nodes, name, inputs, outputs, inits)
    opsets = [h.make_opsetid("", 17)] + [h.make_opsetid(d, 1) for d in domains]
    m = h.make_model(g, opset_imports=opsets, ir_version=10, producer_name="make_control.py")
    path = os.path.join(OUT, name + ".onnx")
    onnx.save(m, path)
    if compute is None:
        onnx.checker.check_model(m)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        compute = lambda feed: s.run(None, dict(zip([i.name for i in inputs], feed)))
    for k, feed in enumerate(sets):
        folder = os.path.join(OUT, name, "s%d" % k)
        os.makedirs(os.path.join(folder, "expect"), exist_ok=True)
        for i, a in enumerate(feed):
            np.save(os.path.join(folder, "input_%d.npy" % i), a)
        for j, a in enumerate(compute(feed)):
            np.save(os.path.join(folder, "expect", "output_%d.npy" % j), a)
        print(name, k, [np.shape(a) for a in feed], [np.ravel(a)[:3] for a in compute(feed)])


def gate():
    backwards = nh.from_array(np.arange(7, -1, -1, dtype=np.int64), "backwards")
    turned = [h.make_node("Gather", ["image", "backwards"], ["rows"], axis=2, name="rows"),
              h.make_node("Gather", ["rows", "backwards"], ["turned"], axis=3, name="columns")]
    then = h.make_graph(turned + network("then/", "turned", "then_scores"), "then", [], [vi("then_scores", T.FLOAT, [1, 10])])
    other = h.make_graph(network("else/", "image", "else_scores"), "else", [], [vi("else_scores", T.FLOAT, [1, 10])])
    nodes = [h.make_node("If", ["bold"], ["scores"], name="way", then_branch=then, else_branch=other),
             h.make_node("Sqrt", ["scores"], ["y"], name="root")]
    sets = [[IMAGES[k], np.array(k % 2 == 0)] for k in range(6)]
    save("digits_gate", nodes, [vi("image", T.FLOAT, [1, 1, 8, 8]), vi("bold", T.BOOL, [])],
         [vi("y", T.FLOAT, [1, 10])], weights() + [backwards], sets)


def loop():
    inits = weights() + [nh.from_array(np.float32(0.9), "much"), nh.from_array(np.float32(0.5), "half"),
                         nh.from_array(np.float32(40.0), "far"), nh.from_array(np.array(True), "yes"),
                         nh.from_array(np.random.RandomState(3).standard_normal((10, 64)).astype(np.float32) * 0.05, "back"),
                         nh.from_array(np.array([1, 1, 8, 8], np.int64), "square")]
    soften = [h.make_node("Mul", ["moved", "half"], ["less"]), h.make_node("Tanh", ["less"], ["then_out"])]
    # A branch that is no small one: the network once more.
    again = network("again/", "moved", "again_scores") + [
        h.make_node("MatMul", ["again_scores", "back"], ["again_flat"]), h.make_node("Reshape", ["again_flat", "square"], ["again_image"]),
        h.make_node("Sub", ["moved", "again_image"], ["else_out"])]
    image = [1, 1, 8, 8]
    body = h.make_graph(
        network("turn/", "image_in", "likely") +
        [h.make_node("ReduceMax", ["likely"], ["most"], keepdims=0),
         h.make_node("MatMul", ["likely", "back"], ["flat"]), h.make_node("Reshape", ["flat", "square"], ["step"]),
         h.make_node("Add", ["image_in", "step"], ["moved"]), h.make_node("Greater", ["most", "much"], ["sure"]),
         h.make_node("If", ["sure"], ["image_out"], name="within",
                     then_branch=h.make_graph(soften, "sure", [], [vi("then_out", T.FLOAT, image)]),
                     else_branch=h.make_graph(again, "unsure", [], [vi("else_out", T.FLOAT, image)])),
         h.make_node("Add", ["sum_in", "likely"], ["sum_out"]),
         h.make_node("ReduceMax", ["sum_out"], ["reached"], keepdims=0), h.make_node("Less", ["reached", "far"], ["go_on"])],
        "body", [vi("turn", T.INT64, []), vi("go_in", T.BOOL, []), vi("image_in", T.FLOAT, image), vi("sum_in", T.FLOAT, [1, 10])],
        [vi("go_on", T.BOOL, []), vi("image_out", T.FLOAT, image), vi("sum_out", T.FLOAT, [1, 10])])
    nodes = [h.make_node("Loop", ["turns", "yes", "image", "sum"], ["last", "total"], name="loop", body=body)]
    zero = np.zeros((1, 10), np.float32)
    # The last one would go on for a thousand turns; it stops when one class has forty.
    sets = [[np.int64(n), IMAGES[k], zero] for k, n in enumerate([0, 1, 2, 17, 1000])]
    # A class that is far behind: a thousand turns are made.
    sets.append([np.int64(1000), IMAGES[7], zero - 2000])
    sets = [[np.array(a[0])] + a[1:] for a in sets]
    save("digits_loop", nodes, [vi("turns", T.INT64, []), vi("image", T.FLOAT, image), vi("sum", T.FLOAT, [1, 10])],
         [vi("last", T.FLOAT, image), vi("total", T.FLOAT, [1, 10])], inits, sets)


def grouped():
    r = np.random.RandomState(11)
    rows, k, n, groups = 24, 32, 16, 4
    weight = r.standard_normal((groups, k, n)).astype(np.float32)
    nodes = [h.make_node("Relu", ["x"], ["a"], name="a"),
             h.make_node("NPUGroupedMatmul", ["a", "weight", "rows"], ["g"], name="g", domain="npu", group_list_type=1, split_item=3),
             h.make_node("Sigmoid", ["g"], ["y"], name="y")]
    sets = [[r.standard_normal((rows, k)).astype(np.float32), np.array(list_, np.int64)]
            for list_ in ([6, 6, 6, 6], [24, 0, 0, 0], [0, 1, 0, 23], [3, 9, 2, 10])]

    def compute(feed):
        x, list_ = np.maximum(feed[0].astype(np.float64), 0), feed[1]
        parts = np.split(x, np.cumsum(list_)[:-1])
        y = np.concatenate([p @ weight[e].astype(np.float64) for e, p in enumerate(parts)])
        return [(1 / (1 + np.exp(-y))).astype(np.float32)]

    save("grouped", nodes, [vi("x", T.FLOAT, [rows, k]), vi("rows", T.INT64, [groups])], [vi("y", T.FLOAT, [rows, n])],
         [nh.from_array(weight, "weight")], sets, domains=["npu"], compute=compute)


os.makedirs(OUT, exist_ok=True)
gate()
loop()
grouped()
