#!/usr/bin/env python3
"""Makes tests/models/pictures: ONNX models with operators of the domain `ge.image`, inputs, and outputs by numpy.

    python make_pictures.py FOLDER          (in the environment of tests/reference/requirements.txt)
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

vi = h.make_tensor_value_info
own = lambda op, i, o, **a: h.make_node(op, [i], [o], name=o, domain="ge.image", **a)


def classifier_front():
    """Crop, halve, to BGR, then by ai.onnx: float, channels first, scaled."""
    nodes = [own("CropImage", "x", "c", top=2, left=4, height=8, width=12), own("ResizeImage", "c", "r", height=4, width=6),
             own("ConvertImage", "r", "b", **{"from": "RGB", "to": "BGR"}), h.make_node("Cast", ["b"], ["f"], to=T.FLOAT),
             h.make_node("Transpose", ["f"], ["t"], perm=[2, 0, 1]), h.make_node("Div", ["t", "k"], ["y"])]
    k = onnx.numpy_helper.from_array(np.float32(255), "k")

    def by_numpy(x):
        c = x[2:10, 4:16].astype(np.float64)
        means = c.reshape(4, 2, 6, 2, 3).mean((1, 3))
        # A half goes up, as pixels are rounded to the nearest.
        r = np.floor(means + 0.5)
        return (r[..., ::-1].astype(np.float32).transpose(2, 0, 1) / np.float32(255)).astype(np.float32)
    return nodes, [vi("x", T.UINT8, [12, 20, 3])], [vi("y", T.FLOAT, [3, 4, 6])], [k], by_numpy


def grey():
    """Doubled by the nearest pixel, then grey."""
    nodes = [own("ResizeImage", "x", "r", height=24, width=40, interpolation="nearest"), own("ConvertImage", "r", "y", to="Grayscale")]

    def by_numpy(x):
        r = x.repeat(2, 0).repeat(2, 1).astype(np.float64)
        return np.floor(r @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)[..., None]
    return nodes, [vi("x", T.UINT8, [12, 20, 3])], [vi("y", T.UINT8, [24, 40, 1])], [], by_numpy


def main():
    r = np.random.RandomState(3)
    for make in (classifier_front, grey):
        nodes, ins, outs, weights, by_numpy = make()
        g = h.make_graph(nodes, make.__name__, ins, outs, weights)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ge.image", 1)], producer_name="make_pictures")
        m.ir_version = 8
        onnx.checker.check_model(m)
        folder = os.path.join(sys.argv[1], make.__name__)
        os.makedirs(os.path.join(folder, "s0", "expect"), exist_ok=True)
        onnx.save(m, os.path.join(folder, "model.onnx"))
        x = r.randint(0, 256, (12, 20, 3)).astype(np.uint8)
        np.save(os.path.join(folder, "s0", "input_0.npy"), x)
        np.save(os.path.join(folder, "s0", "expect", "output_0.npy"), by_numpy(x))


main()
