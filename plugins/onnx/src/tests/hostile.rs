//! Files that are truncated, corrupted or cyclic, or that state false sizes: each must give an
//! error, never a panic, and never allocate memory for data that does not exist.
use super::*;
use crate::read;
use ge_plugin_api::diagnostic::ErrorKind;

fn sample() -> Vec<u8> {
    let branch = |n: &str| graph(vec![], vec![node("Relu", &["a"], &[n])], vec![], &[n]);
    let nodes = vec![
        with(node("Conv", &["x", "w"], &["a"]), vec![ints("pads", &[1, 1, 1, 1])]),
        with(
            node("If", &["c"], &["b"]),
            vec![graph_attr("then_branch", branch("t")), graph_attr("else_branch", branch("e"))],
        ),
        node("Reshape", &["b", "s"], &["y"]),
    ];
    let ins = vec![value("x", 1, &["n", "2", "5", "5"]), value("c", 9, &[])];
    let inits = vec![f32s("w", &[3, 2, 3, 3], &[0.5; 54]), i64s("s", &[2], &[0, -1])];
    model(17, graph(ins, nodes, inits, &["y"])).encode_to_vec()
}
fn run(bytes: Vec<u8>) -> Result<Vec<Edit>> {
    import_bytes(bytes, &ImportOptions::default(), &Files(Vec::new()))
}

#[test]
fn cut_off_at_every_place() {
    let whole = sample();
    assert!(run(whole.clone()).is_ok());
    assert!(read::recognises(&whole));
    let mut damaged = 0;
    for n in 0..whole.len() {
        match run(whole[..n].to_vec()) {
            Err(e) => damaged += usize::from(e.kind == ErrorKind::DAMAGED),
            Ok(_) => assert!(n + 64 > whole.len(), "a model without its last {} bytes", whole.len() - n),
        }
    }
    assert!(damaged > whole.len() - 80);
    assert!(read::recognises(&whole[..whole.len() / 2]));
}

#[test]
fn bits_flipped() {
    let whole = sample();
    let flips = if std::env::var_os("GE_LONG").is_some() { 200_000 } else { 1_000 };
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..flips {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut b = whole.clone();
        let at = (seed as usize >> 3) % b.len();
        b[at] ^= 1 << (seed & 7);
        let _ = read::recognises(&b);
        let _ = run(b);
    }
}

#[test]
fn cycles_and_missing_values_are_named() {
    let g = graph(
        vec![value("x", 1, &["2"])],
        vec![node("Add", &["x", "b"], &["a"]), node("Relu", &["a"], &["b"])],
        vec![],
        &["b"],
    );
    let e = run(model(17, g).encode_to_vec()).expect_err("a cycle");
    assert_eq!(e.kind, ErrorKind::DAMAGED);
    assert_eq!(e.diagnostics[0].subject, "b");
}

#[test]
fn sizes_of_gigabytes_in_a_kilobyte() {
    let t = |dims: &[i64]| {
        let mut t = f32s("w", dims, &[1.0]);
        t.name = "w".into();
        model(17, graph(vec![], vec![node("Relu", &["w"], &["y"])], vec![t], &["y"])).encode_to_vec()
    };
    for dims in [&[1i64 << 29][..], &[1 << 40, 1 << 40], &[i64::MAX], &[-1], &[i64::MAX, i64::MAX, i64::MAX]] {
        assert_eq!(run(t(dims)).expect_err("too little data").kind, ErrorKind::DAMAGED, "{dims:?}");
    }
    // A length far beyond the end of the file.
    let mut b = vec![0x08, 0x08, 0x3a];
    b.extend([0x80, 0x80, 0x80, 0x80, 0x08]);
    b.extend([0; 1000]);
    assert_eq!(run(b).expect_err("short").kind, ErrorKind::DAMAGED);
    // A typed list that is shorter than the tensor's sizes require.
    let t = i64s("w", &[1 << 28], &[1, 2]);
    let g = graph(vec![], vec![node("Relu", &["w"], &["y"])], vec![t], &["y"]);
    assert_eq!(run(model(17, g).encode_to_vec()).expect_err("short list").kind, ErrorKind::DAMAGED);
}

#[test]
fn fields_that_are_not_known_are_skipped_beside_a_graph() {
    let field = b"\xfa\x07\x01a";
    let whole = sample();
    for bytes in [[&whole[..], field].concat(), [field, &whole[..]].concat()] {
        assert!(read::recognises(&bytes) && run(bytes).is_ok());
    }
    // Other formats begin like a model, too: a version, a text, and fields of their own.
    assert!(!read::recognises(b"\x08\x05\x12\x01a\xc2\x0c\x01a"));
}

#[test]
fn other_files_are_not_recognised() {
    for b in [
        &b""[..],
        b"graph @main() { }",
        b"# a comment\ngraph",
        b"IMOD\0\0\0\0",
        b"\x93NUMPY\x01\x00",
        b"\x7fELF\x02\x01",
        b"PK\x03\x04",
        b"{\"a\": 1}",
    ] {
        assert!(!read::recognises(b), "{:?}", String::from_utf8_lossy(b));
    }
}
