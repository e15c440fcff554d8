//! Bad input: each case gives its exit code and one message, without the text of a panic, within 8
//! GiB of address space and two minutes. The loops are small by default; `GE_LONG=1` runs them in
//! full.
use super::made::{bytes, node, npy, number, value, varint};
use ge_tests::expect_code;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `ge` within 8 GiB of address space. A run that hangs is ended with 124, which is no exit
/// code of `ge`. `limits`: further shell commands that set limits.
fn limited(dir: &Path, limits: &str, args: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", &format!("ulimit -v 8388608; {limits} exec timeout 120 \"$@\""), "sh"])
        .arg(ge_tests::target().join("ge"))
        .args(args)
        .current_dir(dir)
        .env("GE_PLUGINS", ge_tests::root().join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .expect("a shell")
}

fn ge(dir: &Path, args: &[&str]) -> Output {
    limited(dir, "", args)
}

const TEXT: &str = "graph @main(%x: f32[4,8], %y: f32[4,8]) {\n  %a = Add(%x, %y) : f32[4,8]\n  %r = Relu(%a) : f32[4,8]\n  return %r\n}\n";

fn onnx(nodes: Vec<u8>, dims: &[u64], more: Vec<u8>) -> Vec<u8> {
    let graph = [nodes, bytes(2, "g"), more, value(11, "x", dims), value(12, "r", dims)].concat();
    [number(1, 8), bytes(7, graph), bytes(8, [bytes(1, ""), number(2, 17)].concat())].concat()
}
fn good() -> Vec<u8> {
    onnx([node("Add", &["x", "x"], "a"), node("Relu", &["a"], "r")].concat(), &[4, 8], Vec::new())
}

/// Checks that the exit code is one of `codes`, that a failure has a message, and that there is no
/// text of a panic.
fn refused(out: &Output, codes: &[i32], what: &str) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code().is_some_and(|c| codes.contains(&c)), "{what}: {:?}\n{said}", out.status);
    assert!(out.status.code() == Some(0) || said.contains("[GE-E"), "{what}: no message\n{said}");
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{what}: {said}");
}
fn long() -> bool {
    std::env::var_os("GE_LONG").is_some()
}
fn compiled(dir: &Path) -> Vec<u8> {
    std::fs::write(dir.join("m.ge"), TEXT).expect("written");
    expect_code(dir, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    std::fs::read(dir.join("m.om")).expect("an OM")
}
/// The next number of a pseudo-random sequence that is the same every time.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_onnx_files_are_refused_or_compiled_and_never_crash() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("m.onnx");
    let compile = |b: &[u8]| {
        std::fs::write(&file, b).expect("written");
        ge(dir.path(), &["compile", "m.onnx", "-o", "out.om", "-q"])
    };
    let good = good();
    refused(&compile(&good), &[0], "the sound model");
    refused(&compile(&[]), &[4], "an empty file");
    for k in 1..20 {
        refused(&compile(&good[..good.len() * k / 20]), &[2, 3, 4], &format!("cut at {k}/20"));
    }
    let cyclic = onnx([node("Add", &["x", "r"], "a"), node("Relu", &["a"], "r")].concat(), &[4, 8], Vec::new());
    refused(&compile(&cyclic), &[4], "a cyclic graph");
    let mut state = 7;
    for i in 0..if long() { 1000 } else { 300 } {
        let mut b = good.clone();
        let bit = next(&mut state) as usize % (b.len() * 8);
        b[bit / 8] ^= 1 << (bit % 8);
        refused(&compile(&b), &[0, 1, 2, 3, 4], &format!("flip {i} of bit {bit}"));
    }
}

/// A pipe that nobody writes to is refused and not waited for.
#[test]
fn a_named_pipe_is_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    compiled(dir.path());
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    for args in [
        &["compile", "pipe", "-o", "o.om", "-q"][..],
        &["compile", "m.ge", "-o", "o.om", "-q", "--options", "pipe"],
        &["run", "m.om", "--input", "x=pipe", "--input", "y=0", "-q"],
        &["run", "m.om", "--input", "x=./pipe", "--input", "y=0", "-q"],
    ] {
        refused(&ge(dir.path(), args), &[2], &args.join(" "));
    }
}

/// One number for an input whose sizes no memory holds, and strings that take no bytes of a file.
#[test]
fn inputs_that_no_memory_holds_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str, b: &[u8]| std::fs::write(dir.path().join(name), b).expect("written");
    for size in ["100000", "4294967296"] {
        let text = format!("graph @main(%x: f32[n,{size},{size}]) {{\n  %s = Shape(%x) : i64[3]\n  return %s\n}}\n");
        at("big.ge", text.as_bytes());
        expect_code(dir.path(), 0, &["compile", "big.ge", "-o", "big.om", "-q"]);
        refused(&ge(dir.path(), &["run", "big.om", "--input", "x=0", "-q"]), &[1], size);
    }
    at("text.ge", b"graph @main(%x: string[n]) {\n  %y = Identity(%x) : string[n]\n  return %y\n}\n");
    at("none.npy", &npy("<U0", "(1152921504606846976,)", &[]));
    refused(&ge(dir.path(), &["run", "text.ge", "--input", "x=none.npy", "-q"]), &[4], "strings of no characters");
}

#[test]
fn external_data_that_is_missing_or_elsewhere_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for (location, code) in [("w.bin", 2), ("../w.bin", 4), ("/etc/passwd", 4)] {
        let entry = bytes(13, [bytes(1, "location"), bytes(2, location)].concat());
        let w = bytes(5, [number(1, 4), number(1, 8), number(2, 1), bytes(8, "w"), entry, number(14, 1)].concat());
        let nodes = [node("Add", &["x", "w"], "a"), node("Relu", &["a"], "r")].concat();
        std::fs::write(dir.path().join("m.onnx"), onnx(nodes, &[4, 8], w)).expect("written");
        let out = ge(dir.path(), &["compile", "m.onnx", "-o", "o.om", "-q"]);
        refused(&out, &[code], location);
    }
}

#[test]
fn damaged_om_files_are_refused_with_the_checksum_wrong_or_right() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = compiled(dir.path());
    let run = |b: &[u8]| {
        std::fs::write(dir.path().join("bad.om"), b).expect("written");
        ge(dir.path(), &["run", "bad.om", "--random", "1", "-q"])
    };
    for k in 1..20 {
        refused(&run(&good[..good.len() * k / 20]), &[4], &format!("cut at {k}/20"));
    }
    let mut state = 11;
    for i in 0..1000 {
        let bit = next(&mut state) as usize % (good.len() * 8);
        let mut b = good.clone();
        b[bit / 8] ^= 1 << (bit % 8);
        assert!(ge_om::OmFile::from_bytes(b.clone()).is_err(), "flip {i} of bit {bit} was not seen");
        // With the checksum corrected, nothing may crash; a few of the files go through a whole
        // run.
        if ge_om::reader::reseal(&mut b).is_ok() {
            let sound = ge_om::OmFile::from_bytes(b.clone()).is_ok_and(|f| ge_model::decode(&f).is_ok());
            if i % 25 == 0 || (sound && (long() || i % 10 == 0)) {
                refused(&run(&b), &[0, 1, 2, 3, 4, 5, 6], &format!("flip {i} of bit {bit}, resealed"));
            }
        }
    }
}

#[test]
fn inputs_and_outputs_that_do_not_fit_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    compiled(dir.path());
    let npy = |descr: &str, shape: &str, data: usize| {
        let mut h = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (11 + h.len()) % 64 != 0 {
            h.push(' ');
        }
        h.push('\n');
        [b"\x93NUMPY\x01\x00".to_vec(), (h.len() as u16).to_le_bytes().to_vec(), h.into_bytes(), vec![0; data]].concat()
    };
    let run = |a: &[u8]| {
        std::fs::write(dir.path().join("x.npy"), a).expect("written");
        ge(dir.path(), &["run", "m.om", "--input", "x=x.npy", "--input", "y=x.npy", "-q"])
    };
    refused(&run(&npy("<f4", "(4, 8)", 128)), &[0], "what fits");
    refused(&run(&npy("<f4", "(8, 4)", 128)), &[2], "another shape");
    refused(&run(&npy("<i4", "(4, 8)", 128)), &[2], "another type");
    refused(&run(&npy("<f4", "(4, 8)", 100)), &[4], "a short file");
    refused(&run(b"no array"), &[4], "no .npy file");
    refused(&ge(dir.path(), &["run", "m.om", "--inputs", "missing"]), &[2], "a missing folder");
    refused(&ge(dir.path(), &["run", "missing.om", "--random", "1"]), &[2], "a missing model");
    refused(&ge(dir.path(), &["compile", "m.ge", "-o", "missing/m.om"]), &[1], "a folder that is not there");
    refused(&ge(dir.path(), &["compile", "m.ge", "-o", "n.om", "--dump", "streems"]), &[2], "an unknown stage");
}

/// A file of a few hundred bytes must not make any reader reserve what its numbers claim.
#[test]
fn sizes_of_gigabytes_in_a_small_file_reserve_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str, b: &[u8]| std::fs::write(dir.path().join(name), b).expect("written");
    // Dimensions of 2 GiB and of 2^62 elements, with four bytes of data.
    for dims in [vec![1 << 29], vec![1 << 31, 1 << 31], vec![1 << 62, 8]] {
        let dims: Vec<u8> = dims.iter().flat_map(|d| number(1, *d)).collect();
        let w = bytes(5, [dims, number(2, 1), bytes(8, "w"), bytes(9, [0u8; 4])].concat());
        at("m.onnx", &onnx([node("Add", &["x", "w"], "a"), node("Relu", &["a"], "r")].concat(), &[4, 8], w));
        refused(
            &ge(dir.path(), &["compile", "m.onnx", "-o", "o.om", "-q"]),
            &[2, 4],
            "an initializer without its data",
        );
    }
    // A field that claims 2 GiB.
    let mut claim = varint(7 << 3 | 2);
    claim.extend(varint(2 << 30));
    at("m.onnx", &[number(1, 8), claim, vec![0; 900]].concat());
    refused(&ge(dir.path(), &["compile", "m.onnx", "-o", "o.om", "-q"]), &[4], "a field of 2 GiB");
    let nested = "graph @main(%x: f32[4]) {\n  %c = Const() {value = dense<f32[536870912]: 1 2>} : f32[536870912]\n  return %c\n}\n";
    at("m.ge", nested.as_bytes());
    refused(&ge(dir.path(), &["compile", "m.ge", "-o", "o.om", "-q"]), &[4], "a constant of 2 GiB in text");
    // An array file that claims as much.
    compiled(dir.path());
    let mut h = String::from("{'descr': '<f4', 'fortran_order': False, 'shape': (536870912,), }");
    h.push_str(&" ".repeat(128 - 11 - h.len()));
    h.push('\n');
    let npy = [b"\x93NUMPY\x01\x00".to_vec(), (h.len() as u16).to_le_bytes().to_vec(), h.into_bytes(), vec![0; 64]];
    at("x.npy", &npy.concat());
    let run = ge(dir.path(), &["run", "m.om", "--input", "x=x.npy", "--input", "y=x.npy", "-q"]);
    refused(&run, &[4], "an array of 2 GiB without data");
    // Lengths in the OM's header and table, with a correct checksum.
    let good = std::fs::read(dir.path().join("m.om")).expect("an OM");
    for at in (0..good.len().min(512) - 4).step_by(4) {
        let mut b = good.clone();
        b[at..at + 4].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        if ge_om::reader::reseal(&mut b).is_ok() && (long() || at % 16 == 0) {
            std::fs::write(dir.path().join("bad.om"), &b).expect("written");
            refused(
                &ge(dir.path(), &["run", "bad.om", "--random", "1", "-q"]),
                &[0, 2, 3, 4],
                &format!("2 GiB at {at}"),
            );
        }
    }
}

/// What a command leaves behind when it cannot write any further.
#[test]
fn a_full_disk_is_named_and_leaves_no_half_file() {
    let dir = tempfile::tempdir().expect("a folder");
    // Weights of 256 KiB, which cannot be written within the limit on the size of a file.
    let text = "graph @main(%x: f32[64,1024]) {\n  %c = Const() {value = dense<f32[64,1024]: splat 0.5>} : f32[64,1024]\n  %a = Add(%x, %c) : f32[64,1024]\n  return %a\n}\n";
    std::fs::write(dir.path().join("m.ge"), text).expect("written");
    expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let before = std::fs::read(dir.path().join("m.om")).expect("an OM");
    let files = || {
        let mut v: Vec<String> = std::fs::read_dir(dir.path())
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        v.sort();
        v
    };
    let names = files();
    let full = "ulimit -f 64;";
    // Another model is written in place of the old one: the old file stays whole.
    std::fs::write(dir.path().join("m.ge"), text.replace("0.5", "0.25")).expect("written");
    let out = limited(dir.path(), full, &["compile", "m.ge", "-o", "m.om", "-q"]);
    refused(&out, &[1], "compile to a full disk");
    assert!(String::from_utf8_lossy(&out.stderr).contains("m.om"), "the file is named");
    assert_eq!(std::fs::read(dir.path().join("m.om")).expect("an OM"), before);
    assert_eq!(files(), names, "half a file is left");
    for (what, args) in [("outputs", vec!["--outputs", "out"]), ("tensors", vec!["--dump-tensors", "out"])] {
        let args = [vec!["run", "m.om", "--random", "1", "-q"], args].concat();
        refused(&limited(dir.path(), full, &args), &[1], what);
        let left = std::fs::read_dir(dir.path().join("out")).expect("made").count();
        assert_eq!(left, 0, "{what}: half a file is left");
    }
    let out = limited(dir.path(), "exec >/dev/full;", &["inspect", "m.om", "--json"]);
    refused(&out, &[1], "a full stdout");
}

#[test]
fn sizes_that_do_not_fit_the_model_are_refused_when_it_is_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let text = "graph @main(%x: f32[?,8], %y: f32[4,8]) {\n  %a = Relu(%x) : f32[?,8]\n  %r = Neg(%y) : f32[4,8]\n  return %a, %r\n}\n";
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let out = expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("sizes: open in x[x_0,8]"), "{said}");
    expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "--input-shape", "x:1,8"]);
    for wrong in ["x:1,9", "x:1", "z:1,8"] {
        expect_code(dir.path(), 2, &["compile", "m.ge", "-o", "n.om", "--input-shape", wrong]);
    }
}
