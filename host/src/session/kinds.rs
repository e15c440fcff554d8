//! Files that `ge` cannot read as a model: recognises them by their content and says how to make a
//! model from them.

/// Describes what a file is, and what to do with it.
pub fn of(path: &str, bytes: &[u8]) -> (String, String) {
    let ends = |e: &str| path.to_lowercase().ends_with(e);
    let all = |what: &str, help: &str| (format!("{what} of {} bytes", bytes.len()), help.to_owned());
    let torch = "load it in PyTorch and export it: `torch.onnx.export(model, (example,), \"model.onnx\")`";
    let keras =
        "convert it: `pip install tf2onnx`, then `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx`";
    match bytes {
        [] => ("an empty file".into(), "check the file: the copy or download may have failed".into()),
        b if b.get(4..8) == Some(b"TFL3") => all(
            "a TensorFlow Lite model",
            "convert it: `pip install tf2onnx`, then `python -m tf2onnx.convert --tflite FILE --output model.onnx`",
        ),
        b if safetensors(b) => all(
            "safetensors weights, which say nothing of the graph",
            "load them into their model and export that: `optimum-cli export onnx --model FOLDER OUT`, or `torch.onnx.export`",
        ),
        b if b.starts_with(b"PK\x03\x04") && (contains(b, b"data.pkl") || contains(b, b"constants.pkl")) => {
            all("a PyTorch file (weights or TorchScript)", torch)
        }
        b if b.starts_with(b"PK\x03\x04") && contains(b, b".npy") => {
            all("a .npz file of arrays", "arrays are inputs of a model: `ge run MODEL --inputs FILE.npz`")
        }
        b if b.starts_with(b"PK\x03\x04") && ends(".keras") => all("a Keras model", keras),
        b if b.starts_with(b"PK\x03\x04") => all("a ZIP archive", "unpack it, and give the model that is in it"),
        b if b.starts_with(b"\x80\x02") && (ends(".pt") || ends(".pth") || ends(".bin")) => {
            all("a pickled PyTorch file", torch)
        }
        b if b.starts_with(b"\x89HDF") => all("an HDF5 file, perhaps a Keras model", keras),
        b if b.starts_with(b"GGUF") => {
            all("a GGUF model", "export the model that it was made of: `optimum-cli export onnx --model FOLDER OUT`")
        }
        b if b.starts_with(b"\x93NUMPY") => {
            all("a .npy array", "an array is an input of a model: `ge run MODEL --input NAME=FILE.npy`")
        }
        b if b.starts_with(b"\x1f\x8b") => all("a gzip archive", "unpack it first"),
        b if b.starts_with(b"version https://git-lfs") => {
            all("a Git LFS pointer, not the model itself", "fetch the file: `git lfs pull`")
        }
        b if is_tensorflow(path, b) => all("a TensorFlow graph (saved_model.pb or frozen)", keras),
        _ if ends(".mlmodel") => all("a Core ML model", "export the model that it was made of to ONNX"),
        b if text(b) => all("a text file", "check the file; ge's own text form begins with `graph @main(…)`"),
        _ => all("a binary file", "check the file; `ge plugin list` shows the front ends"),
    }
}

/// Whether a file is a TensorFlow graph, judged by its name or its first bytes.
pub fn is_tensorflow(path: &str, b: &[u8]) -> bool {
    path.to_lowercase().ends_with(".pb") || contains(&b[..b.len().min(1 << 16)], b"saved_model")
}

/// The format starts with the header's length in eight bytes, then a JSON object of tensors.
fn safetensors(b: &[u8]) -> bool {
    let Some((len, rest)) = b.split_first_chunk::<8>() else { return false };
    let len = u64::from_le_bytes(*len);
    let head = usize::try_from(len).ok().and_then(|n| rest.get(..n));
    head.is_some_and(|h| h.starts_with(b"{") && contains(h, b"data_offsets"))
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    // The names of an archive's first entries stand at its beginning, the full list at its end.
    let (head, tail) = (&bytes[..bytes.len().min(1 << 16)], &bytes[bytes.len().saturating_sub(1 << 16)..]);
    [head, tail].iter().any(|p| p.windows(what.len()).any(|w| w == what))
}

fn text(bytes: &[u8]) -> bool {
    bytes.iter().take(256).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_content_with_a_way_to_onnx() {
        let json = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let safe = [&(json.len() as u64).to_le_bytes()[..], json, &[0; 4]].concat();
        for (name, bytes, what, help) in [
            ("m.tflite", &b"\x1c\0\0\0TFL3\0\0"[..], "TensorFlow Lite", "--tflite"),
            ("m.safetensors", &safe[..], "safetensors", "export"),
            ("m.pt", b"PK\x03\x04....archive/data.pklFB", "PyTorch", "torch.onnx.export"),
            ("saved_model.pb", b"\x08\x01\x12\x05", "TensorFlow graph", "tf2onnx"),
            ("m.h5", b"\x89HDF\r\n\x1a\n", "HDF5", "tf2onnx"),
            ("m.onnx", b"version https://git-lfs.github.com/spec/v1", "LFS", "git lfs pull"),
            ("m.onnx", b"", "empty", "download"),
            ("notes.txt", b"hello world", "text file", "graph @main"),
        ] {
            let (found, told) = of(name, bytes);
            assert!(found.contains(what) && told.contains(help), "{name}: {found}: {told}");
        }
    }
}
