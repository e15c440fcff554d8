#!/usr/bin/env python3
"""Writes small loops of 64 iterations as exporters write them, to be timed by bench_peers.py.

    loop_models.py FOLDER

Each model is FOLDER/NAME.onnx with inputs in FOLDER/NAME/s0. NAME is the kind, the width, and `open` or `static`:
scan    Scan of a recurrence, h = tanh(x W + h U), with every state as an output
loop    the same as Loop, which takes row i of its input
square  Loop that counts up and returns the square of every state
grow    Loop that makes a tensor a row longer and returns the mean of its rows (open only)
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

TURNS = 64
RANDOM = np.random.default_rng(0)


def value(name, dims, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, dims)


def constant(name, numbers):
    return nh.from_array(np.asarray(numbers), name)


def weights(n):
    return [constant(name, RANDOM.normal(0, 0.1, (n, n)).astype(np.float32)) for name in "WU"]


def step():
    """The recurrence from `x` and `s` to `t`, and `t` once more as `y`."""
    ops = [("MatMul", "xW", "a"), ("MatMul", "sU", "b"), ("Add", "ab", "c"), ("Tanh", "c", "t"), ("Identity", "t", "y")]
    return [h.make_node(op, list(given), [out]) for op, given, out in ops]


def scan(n, turns):
    body = h.make_graph(step(), "body", [value("s", [1, n]), value("x", [1, n])], [value("t", [1, n]), value("y", [1, n])])
    node = h.make_node("Scan", ["s0", "xs"], ["last", "all"], body=body, num_scan_inputs=1)
    given = {"s0": np.zeros((1, n), np.float32), "xs": RANDOM.normal(size=(TURNS, 1, n)).astype(np.float32)}
    return [node], given, {"xs": [turns, 1, n]}, weights(n)


def in_loop(nodes, given, sizes, state, out, constants):
    """A Loop of these nodes from the state `s` to `t`, with `y` as scan output."""
    keep = h.make_node("Identity", ["go"], ["goes"])
    takes = [value("i", [], T.INT64), value("go", [], T.BOOL), value("s", state)]
    gives = [value("goes", [], T.BOOL), value("t", out), value("y", None)]
    body = h.make_graph([*nodes, keep], "body", takes, gives)
    node = h.make_node("Loop", ["m", "true", "s0"], ["last", "all"], body=body)
    return [node], {"m": np.array(TURNS, np.int64), **given}, sizes, [*constants, constant("true", np.array(True))]


def loop(n, turns):
    row = h.make_node("Gather", ["xs", "i"], ["x"], axis=0)
    given = {"s0": np.zeros((1, n), np.float32), "xs": RANDOM.normal(size=(TURNS, 1, n)).astype(np.float32)}
    return in_loop([row, *step()], given, {"xs": [turns, 1, n]}, [1, n], [1, n], weights(n))


def square(n, turns):
    nodes = [h.make_node("Add", ["s", "one"], ["t"]), h.make_node("Mul", ["t", "t"], ["y"])]
    size = n if turns == TURNS else "N"
    given = {"s0": np.zeros(n, np.float32)}
    return in_loop(nodes, given, {"s0": [size]}, [size], [size], [constant("one", np.ones(1, np.float32))])


def grow(n, turns):
    if turns == TURNS:
        return None
    nodes = [h.make_node("Concat", ["s", "row"], ["t"], axis=0), h.make_node("ReduceMean", ["t", "axes"], ["y"], keepdims=0)]
    constants = [constant("row", np.ones((1, n), np.float32)), constant("axes", np.array([0]))]
    return in_loop(nodes, {"s0": np.ones((1, n), np.float32)}, {"s0": ["N", n]}, ["K", n], ["L", n], constants)


def main():
    folder = sys.argv[1]
    for kind in (scan, loop, square, grow):
        for name, n, turns in [(f"{kind.__name__}_{n}_{how}", n, turns) for n in (16, 128, 512) for how, turns in (("open", "T"), ("static", TURNS))]:
            made = kind(n, turns)
            if made is None:
                continue
            nodes, given, sizes, constants = made
            inputs = [value(k, sizes.get(k, v.shape), h.np_dtype_to_tensor_dtype(v.dtype)) for k, v in given.items()]
            graph = h.make_graph(nodes, name, inputs, [value("last", None), value("all", None)], constants)
            model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)
            os.makedirs(os.path.join(folder, name, "s0"), exist_ok=True)
            onnx.save(model, os.path.join(folder, name + ".onnx"))
            for k, v in enumerate(given.values()):
                np.save(os.path.join(folder, name, "s0", f"input_{k}.npy"), v)


if __name__ == "__main__":
    main()
