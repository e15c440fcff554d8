#!/usr/bin/env python3
"""Takes trained models out of the wheels in WHEELS and lays them out for `ge compile` and `ge run`, with what onnxruntime
computes for them: OUT/<name>.onnx, OUT/<name>/s<k>/{input_<i>.npy,expect/output_<j>.npy}, and OUT/models.txt with a line
`name input-shape rtol atol sets how` each (`-`: shapes as the model has them; how: `om` compiles and runs the OM, `run`
runs the model for its inputs, where one of its branches fits no other).

  python trained_models.py WHEELS OUT

Inputs are seeded: pictures with strokes and gradients, one second of tones and noise, bytes of texts.
"""
import glob, os, sys, zipfile
import numpy as np
import onnxruntime as ort

wheels, out = sys.argv[1:3]
rng = np.random.default_rng(7)


def picture(h, w):
    """Strokes on a gradient, as a text line's picture has them, in -1..1."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    p = np.stack([0.6 + 0.3 * x / w, 0.7 - 0.2 * y / h, 0.65 + 0.1 * np.sin(x / 31)])
    for _ in range(w // 6):
        cx, cy, l = rng.integers(0, w), rng.integers(h // 4, 3 * h // 4), rng.integers(3, max(4, h // 2))
        p[:, max(0, cy - l // 2):cy + l // 2, cx:cx + 2] = 0.05
    return (p[None] * 2 - 1).astype(np.float32)


def sound(n, rate):
    t = np.arange(n) / rate
    s = 0.3 * np.sin(2 * np.pi * 180 * t) * (1 + np.sin(2 * np.pi * 4 * t)) + 0.1 * np.sin(2 * np.pi * 930 * t)
    return (s + 0.02 * rng.standard_normal(n))[None].astype(np.float32)


def text(n):
    words = b"fn main() { let answer = 42; println!(\"{answer}\"); }\n" * 60
    return np.frombuffer(words[:n], np.uint8).astype(np.int32)[None]


def state(*shape):
    return (0.1 * rng.standard_normal(shape)).astype(np.float32)


# name, file in the wheel, --input-shape, sets of inputs by name, rtol, atol, how
MODELS = [
    ("text_direction", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "x:1,3,48,192",
     [{"x": picture(48, 192)} for _ in range(2)], 1e-3, 1e-5),
    ("text_detection", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "x:1,3,192,320",
     [{"x": picture(192, 320)}], 1e-3, 1e-4),
    ("text_recognition", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "x:1,3,48,160",
     [{"x": picture(48, 160)}], 1e-3, 1e-5),
    ("voice_16k", "silero_vad/data/silero_vad_openvino_16k.onnx", "-",
     [{"input": sound(576, 16000), "state": state(2, 1, 128)} for _ in range(2)], 1e-3, 1e-5),
    ("voice_rates", "silero_vad/data/silero_vad.onnx", "input:1,576;state:2,1,128",
     [{"input": sound(576, 16000), "state": state(2, 1, 128), "sr": np.array(16000, np.int64)}], 1e-3, 1e-5, "run"),
    ("voice_rates_8k", "silero_vad/data/silero_vad.onnx", "input:1,288;state:2,1,128",
     [{"input": sound(288, 8000), "state": state(2, 1, 128), "sr": np.array(8000, np.int64)}], 1e-3, 1e-5, "run"),
    ("voice_ifless", "silero_vad/data/silero_vad_op18_ifless.onnx", "input:1,576;state:2,1,128",
     [{"input": sound(576, 16000), "sr": np.array(16000, np.int64), "state": state(2, 1, 128)}], 1e-3, 1e-5),
    ("voice_op15", "silero_vad/data/silero_vad_16k_op15.onnx", "input:1,576;state:2,1,128",
     [{"input": sound(576, 16000), "state": state(2, 1, 128), "sr": np.array(16000, np.int64)}], 1e-3, 1e-5),
    ("voice_half", "silero_vad/data/silero_vad_half.onnx", "input:1,576;state:2,1,128",
     [{"input": sound(576, 16000), "state": state(2, 1, 128)}], 1e-3, 1e-5),
    ("voice_sequence", "silero_vad/data/silero_vad_16k_sequence.onnx", "input:4,576",
     [{"input": np.concatenate([sound(576, 16000) for _ in range(4)]), "h": state(1, 1, 128), "c": state(1, 1, 128)}],
     1e-3, 1e-5),
    ("voice_both_rates", "silero_vad/data/silero_vad.onnx", "input:1,288;state:2,1,128",
     [{"input": sound(288, rate), "state": state(2, 1, 128), "sr": np.array(rate, np.int64)} for rate in (16000, 8000, 16000)],
     1e-3, 1e-5),
    ("file_type", "magika/models/standard_v3_3/model.onnx", "bytes:1,2048", [{"bytes": text(2048)}], 1e-3, 1e-5),
]

archives = [zipfile.ZipFile(w) for w in sorted(glob.glob(os.path.join(wheels, "*.whl")))]
lines = []
for name, path, shape, sets, rtol, atol, *how in MODELS:
    archive = next(a for a in archives if path in a.namelist())
    model = archive.read(path)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, name + ".onnx"), "wb") as f:
        f.write(model)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    for k, inputs in enumerate(sets):
        folder = os.path.join(out, name, "s%d" % k)
        os.makedirs(os.path.join(folder, "expect"), exist_ok=True)
        for i, v in enumerate(session.get_inputs()):
            np.save(os.path.join(folder, "input_%d.npy" % i), inputs[v.name])
        for j, v in enumerate(session.run(None, inputs)):
            np.save(os.path.join(folder, "expect", "output_%d.npy" % j), v)
    lines.append("%s %s %r %r %d %s" % (name, shape, rtol, atol, len(sets), how[0] if how else "om"))
with open(os.path.join(out, "models.txt"), "w") as f:
    f.write("\n".join(lines) + "\n")
