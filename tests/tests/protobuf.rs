//! The generated Rust types of the protobuf messages match the files that they were made from.
use ge_tests::root;
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// `cargo xtask protobuf` notes in each file the digests of its sources and of what it wrote.
#[test]
fn generated_types_are_those_of_the_proto_files() {
    for path in [
        "host/om/src/proto/ir.rs",
        "host/om/src/proto/task.rs",
        "host/om/src/guard/schema.rs",
        "plugins/onnx/src/proto.rs",
    ] {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let mut parts = text.splitn(5, '\n').skip(1);
        let mut next = || parts.next().unwrap_or("");
        let (from, protos, own, code) = (next(), next(), next(), next());
        let (_, files) = from.split_once("From ").unwrap_or_else(|| panic!("{path}: {from}"));
        let made_from: Vec<u8> = files.split(' ').flat_map(|f| std::fs::read(root().join(f)).unwrap()).collect();
        let advice = "run `cargo xtask protobuf`";
        assert_eq!(protos, format!("// {}", sha256(&made_from)), "{path} is older than {files}: {advice}");
        assert_eq!(own, format!("// {}", sha256(code.as_bytes())), "{path} was changed by hand: {advice}");
    }
}
