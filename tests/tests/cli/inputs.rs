//! Inputs: values in the command, archives, images, other types on request; models from stdin;
//! where the OM is written.
use super::made::{crc, f32s, npy, npz, read_f32s};
use ge_tests::{expect_code, root, target};
use std::path::Path;
use std::process::{Command, Stdio};

const TEXT: &str = "graph @main(%x: f32[2,3], %k: f32[], %n: i64[2]) {
  %m = Mul(%x, %k) : f32[2,3]
  %c = Cast(%n) {dst_type = f32} : f32[2]
  return %m, %c
}
";

fn text_of(out: &std::process::Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}
/// What a command printed, results and errors.
fn all_of(out: &std::process::Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &text_of(out)
}
fn output(d: &Path, k: usize) -> Vec<f32> {
    read_f32s(&std::fs::read(d.join(format!("out/output_{k}.npy"))).expect("an output"))
}

/// Integers so large that floating-point numbers cannot tell them apart, and floating-point numbers
/// of eight bits.
#[test]
fn numbers_are_taken_and_shown_to_the_last_digit() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%u: u64[2], %i: i64[2], %h: f32[2]) {
  %s = Const() {value = dense<i64[2]: 2, 1>} : i64[2]
  %a = Reshape(%u, %s) : u64[2,1]
  %b = Reshape(%i, %s) : i64[2,1]
  %c = Cast(%h) {dst_type = f8e4m3fn} : f8e4m3fn[2]
  return %a, %b, %c
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let given = ["--input", "u=[18446744073709551615,1]", "--input", "i=[9223372036854775807,-9223372036854775808]"];
    let out = expect_code(d, 0, &[&["run", "m.ge", "--input", "h=[1.5,-448]", "-q"], &given[..]].concat());
    let said = String::from_utf8(out.stdout).unwrap();
    for what in ["= 18446744073709551615 1\n", "= 9223372036854775807 -9223372036854775808\n", "= 1.5 -448\n"] {
        assert!(said.contains(what), "{said}");
    }
    let wrong = ["run", "m.ge", "--input", "u=[18446744073709551615,-1]", "--input", "i=1", "--input", "h=1", "-q"];
    assert!(text_of(&expect_code(d, 2, &wrong)).contains("no type holds -1 beside the others"));
}

/// The error says which input a folder lacks, and a note says which array after the last input is
/// not read.
#[test]
fn folders_with_arrays_too_few_or_too_many_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    std::fs::create_dir(d.join("in")).unwrap();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(d.join("in").join(name), bytes).unwrap();
    write("input_0.npy", npy("<f4", "(2, 3)", &f32s(&[1.0; 6])));
    write("input_2.npy", npy("<i8", "(2,)", &[0; 16]));
    let run = ["run", "m.ge", "--inputs", "in", "-q"];
    let said = text_of(&expect_code(d, 2, &run));
    assert!(said.contains("input `k` is not given") && said.contains("f32[] as `in/input_1.npy`"), "{said}");
    write("input_1.npy", npy("<f4", "()", &f32s(&[2.0])));
    expect_code(d, 0, &run);
    write("input_3.npy", npy("<f4", "()", &f32s(&[2.0])));
    expect_code(d, 0, &run);
    let said = text_of(&expect_code(d, 0, &run[..4]));
    assert!(said.contains("`in/input_3.npy` is not read: the model has 3 inputs"), "{said}");
}

#[test]
fn numbers_lists_archives_and_other_types_are_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let x = npy("<f4", "(2, 3)", &f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    std::fs::write(d.join("x.npy"), &x).unwrap();
    // The same flags work for an OM and for the model itself.
    for m in ["m.om", "m.ge"] {
        let by_hand =
            ["run", m, "--input", "x=x.npy", "--input", "k=2.5", "--input", "n=[7,-8]", "--outputs", "out", "-q"];
        expect_code(d, 0, &by_hand);
        assert_eq!(output(d, 0), [2.5, 5.0, 7.5, 10.0, 12.5, 15.0]);
        assert_eq!(output(d, 1), [7.0, -8.0]);
        expect_code(
            d,
            0,
            &["run", m, "--input", "x=[[1,2,3],[4,5,6]]", "--input", "k=1", "--input", "n=9", "--outputs", "out", "-q"],
        );
        assert_eq!((output(d, 0)[5], output(d, 1)), (6.0, vec![9.0, 9.0]));
    }
    let doubles: Vec<u8> = [1.0f64; 6].iter().flat_map(|v| v.to_le_bytes()).collect();
    let whole: Vec<u8> = [3i32, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    let k = npy("<f4", "()", &f32s(&[3.0]));
    let archive = |x: Vec<u8>, n: Vec<u8>| npz(&[("n", n), ("x", x), ("k", k.clone())]);
    let n = npy("<i8", "(2,)", &[3i64.to_le_bytes(), 4i64.to_le_bytes()].concat());
    std::fs::write(d.join("in.npz"), archive(x.clone(), n)).unwrap();
    expect_code(d, 0, &["run", "m.om", "--inputs", "in.npz", "--outputs", "out", "-q"]);
    assert_eq!((output(d, 0)[1], output(d, 1)), (6.0, vec![3.0, 4.0]));
    // Two wrong types are both reported, by input, in NumPy's words, each with the line that
    // corrects it; `--cast` does it here.
    let wrong = archive(npy("<f8", "(2, 3)", &doubles), npy("<i4", "(2,)", &whole));
    std::fs::write(d.join("wrong.npz"), wrong).unwrap();
    let run = ["run", "m.om", "--inputs", "wrong.npz", "--outputs", "out", "-q"];
    let text = text_of(&expect_code(d, 2, &run));
    for what in ["input `x`", "float64", "float32", "x.astype(numpy.float32)", "input `n`", "int32", "int64", "--cast"]
    {
        assert!(text.contains(what), "no {what} in {text}");
    }
    expect_code(d, 0, &[&run[..], &["--cast"]].concat());
    assert_eq!((output(d, 0)[0], output(d, 1)), (3.0, vec![3.0, 4.0]));
    // A value that the input's type cannot hold, another shape, and what is neither a file nor a
    // value.
    for (bad, what) in
        [("n=2.5", "does not fit i64"), ("n=[1,2,3]", "another shape"), ("k=cat", "neither a file nor a value")]
    {
        let more = ["--input", "x=x.npy", "--input", bad, "-q"];
        let rest: &[&str] = if bad.starts_with('n') { &["--input", "k=1"] } else { &["--input", "n=1"] };
        let text = text_of(&expect_code(d, 2, &[&["run", "m.om"][..], &more, rest].concat()));
        assert!(text.contains(what), "{bad}: {text}");
    }
    let text = text_of(&expect_code(d, 2, &["run", "m.om", "--input", "xx=1", "-q"]));
    assert!(text.contains("did you mean `x`"), "{text}");
    // Several missing inputs are reported at once.
    let text = text_of(&expect_code(d, 2, &["run", "m.om", "--input", "x=x.npy", "-q"]));
    assert!(text.contains("input `k` is not given") && text.contains("input `n` is not given"), "{text}");
}

/// A PNG of 8-bit RGB whose data is stored, not compressed.
fn png(w: usize, h: usize, pixel: impl Fn(usize, usize) -> [u8; 3]) -> Vec<u8> {
    let mut raw = Vec::new();
    for y in 0..h {
        raw.push(0);
        (0..w).for_each(|x| raw.extend(pixel(x, y)));
    }
    let adler = raw
        .iter()
        .fold((1u32, 0u32), |(a, b), v| ((a + u32::from(*v)) % 65521, (b + (a + u32::from(*v)) % 65521) % 65521));
    let (len, not) = (raw.len() as u16, !(raw.len() as u16));
    let zlib =
        [&[0x78, 1, 1][..], &len.to_le_bytes(), &not.to_le_bytes(), &raw, &(adler.1 << 16 | adler.0).to_be_bytes()]
            .concat();
    let chunk = |name: &[u8], data: &[u8]| {
        let body = [name, data].concat();
        [&(data.len() as u32).to_be_bytes()[..], &body, &crc(&body).to_be_bytes()].concat()
    };
    let head = [&(w as u32).to_be_bytes()[..], &(h as u32).to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &head), &chunk(b"IDAT", &zlib), &chunk(b"IEND", &[])].concat()
}

#[test]
fn an_image_is_an_input_in_the_models_order_of_axes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let pixel = |x: usize, y: usize| [(x * 10) as u8, (y * 20) as u8, 255];
    std::fs::write(d.join("cat.png"), png(4, 2, pixel)).unwrap();
    // A floating-point input in planes gets values from 0 to 1, an integer input in pixels gets the
    // bytes.
    std::fs::write(
        d.join("m.ge"),
        "graph @main(%image: f32[1,3,2,4]) {\n  %r = Neg(%image) : f32[1,3,2,4]\n  return %r\n}\n",
    )
    .unwrap();
    expect_code(d, 0, &["run", "m.ge", "--input", "image=cat.png", "--outputs", "out", "-q"]);
    let want: Vec<f32> = (0..3)
        .flat_map(|c| (0..2).flat_map(move |y| (0..4).map(move |x| -f32::from(pixel(x, y)[c]) / 255.0)))
        .collect();
    let near = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near(&output(d, 0), &want), "{:?}", output(d, 0));
    // Normalised, and (below) scaled to the size that the model wants.
    let norm = ["--image-mean", "0.5,0.25,1", "--image-std", "0.5"];
    expect_code(d, 0, &[&["run", "m.ge", "--input", "image=cat.png", "--outputs", "out", "-q"][..], &norm].concat());
    let mean = [0.5, 0.25, 1.0];
    let want: Vec<f32> = want.iter().enumerate().map(|(i, v)| -((-v - mean[i / 8]) / 0.5)).collect();
    assert!(near(&output(d, 0), &want), "{:?}", output(d, 0));
    std::fs::write(
        d.join("u.ge"),
        "graph @main(%image: u8[1,1,2,3]) {\n  %r = Cast(%image) {dst_type = f32} : f32[1,1,2,3]\n  return %r\n}\n",
    )
    .unwrap();
    expect_code(d, 0, &["run", "u.ge", "--input", "image=cat.png", "--outputs", "out", "-q"]);
    assert_eq!(output(d, 0).len(), 6);
    // A file that is no valid picture, and an input that no picture fits.
    std::fs::write(d.join("bad.png"), &png(4, 2, pixel)[..40]).unwrap();
    let text = text_of(&expect_code(d, 4, &["run", "m.ge", "--input", "image=bad.png", "-q"]));
    assert!(text.contains("bad.png") && text.contains("decoded"), "{text}");
    std::fs::write(d.join("v.ge"), "graph @main(%image: f32[7]) {\n  %r = Neg(%image) : f32[7]\n  return %r\n}\n")
        .unwrap();
    let text = text_of(&expect_code(d, 2, &["run", "v.ge", "--input", "image=cat.png", "-q"]));
    assert!(text.contains("cannot be the image") && text.contains("[1,3,H,W]"), "{text}");
}

#[test]
fn a_model_comes_from_stdin_and_an_om_is_named_after_its_model() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[2]) {\n  %r = Relu(%x) : f32[2]\n  return %r\n}\n";
    std::fs::create_dir(d.join("models")).unwrap();
    std::fs::write(d.join("models/net.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "models/net.ge", "-q"]);
    expect_code(d, 0, &["run", "net.om", "--random", "1", "-q"]);
    let piped = |args: &[&str], file: &str| {
        let out = Command::new(target().join("ge"))
            .args(args)
            .current_dir(d)
            .env("GE_PLUGINS", root().join("plugins.toml"))
            .stdin(Stdio::from(std::fs::File::open(d.join(file)).unwrap()))
            .output()
            .unwrap();
        (out.status.code(), text_of(&out))
    };
    assert_eq!(piped(&["compile", "-", "-o", "p.om", "-q"], "models/net.ge").0, Some(0));
    expect_code(d, 0, &["run", "p.om", "--random", "1", "-q"]);
    assert_eq!(piped(&["run", "-", "--random", "1", "-q"], "models/net.ge").0, Some(0));
    std::fs::write(d.join("nothing"), "").unwrap();
    let (code, said) = piped(&["compile", "-", "-o", "p.om", "-q"], "nothing");
    assert!(code == Some(2) && said.contains("nothing came"), "{said}");
    // An error does not name the file that keeps what came.
    std::fs::write(d.join("junk"), "junk").unwrap();
    let (code, said) = piped(&["compile", "-", "-o", "p.om", "-q"], "junk");
    assert!(code == Some(4) && said.contains("`stdin` is no model"), "{said}");
}

/// Integers must be exactly as expected, unless a tolerance is given.
#[test]
fn whole_numbers_are_expected_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: i64[2]) {\n  %y = Neg(%x) : i64[2]\n  return %y\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    std::fs::create_dir(d.join("want")).unwrap();
    let want = [-1000i64, -5].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(d.join("want/output_0.npy"), npy("<i8", "(2,)", &want)).unwrap();
    let run = ["run", "m.ge", "--expect", "want", "-q", "--input"];
    expect_code(d, 0, &[&run[..], &["x=[1000,5]"]].concat());
    let said = text_of(&expect_code(d, 1, &[&run[..], &["x=[1001,5]"]].concat()));
    assert!(said.contains("differs most at element 0") && said.contains("-1001"), "{said}");
    expect_code(d, 0, &[&run[..], &["x=[1001,5]", "--atol", "1"]].concat());
    // Beyond the digits of a real number.
    let want = [-(1i64 << 53), -5].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(d.join("want/output_0.npy"), npy("<i8", "(2,)", &want)).unwrap();
    let said = text_of(&expect_code(d, 1, &[&run[..], &["x=[9007199254740993,5]"]].concat()));
    assert!(said.contains("-9007199254740993"), "{said}");
    let exact = ["compare", "m.ge", "want", "--rtol", "0", "--atol", "0", "-q", "--input"];
    expect_code(d, 1, &[&exact[..], &["x=[9007199254740993,5.0]"]].concat());
    expect_code(d, 0, &[&exact[..], &["x=[9007199254740992,5.0]"]].concat());
}

/// An array of a `.npz` file is for one input: the one of its name, or else of its number.
#[test]
fn arrays_are_never_taken_for_another_input() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text =
        "graph @main(%input_1: f32[2], %input_2: f32[2]) {\n  %y = Sub(%input_1, %input_2) : f32[2]\n  return %y\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let array = |v: [f32; 2]| npy("<f4", "(2,)", &f32s(&v));
    let run = |code: i32, arrays: &[(&str, Vec<u8>)]| {
        std::fs::write(d.join("in.npz"), npz(arrays)).unwrap();
        all_of(&expect_code(d, code, &["run", "m.ge", "--inputs", "in.npz", "-q"]))
    };
    let (a, b) = (array([5.0, 6.0]), array([1.0, 2.0]));
    // The name `input_1` is also the number of the second input.
    let said = run(2, &[("input_1", a.clone())]);
    assert!(said.contains("input `input_2` is not given"), "{said}");
    assert!(run(0, &[("input_1", a.clone()), ("input_2", b.clone())]).contains("y: f32[2] = 4 4"));
    assert!(run(0, &[("arr_0", a.clone()), ("arr_1", b.clone())]).contains("y: f32[2] = 4 4"));
    let said = run(2, &[("input_1", a.clone()), ("input_2", b.clone()), ("arr_0", b.clone())]);
    assert!(said.contains("two arrays for input `input_1`"), "{said}");
    // A changed byte of an array does not fit the checksum of the archive.
    let mut changed = npz(&[("input_1", a), ("input_2", b)]);
    let at = changed.windows(4).position(|w| w == 5f32.to_le_bytes()).unwrap();
    changed[at + 2] ^= 0x40;
    std::fs::write(d.join("in.npz"), changed).unwrap();
    let said = all_of(&expect_code(d, 4, &["run", "m.ge", "--inputs", "in.npz", "-q"]));
    assert!(said.contains("checksum"), "{said}");
}

/// `--cast` and values of the command line make complex numbers, and nothing of a small type that
/// it does not hold.
#[test]
fn values_become_what_the_model_takes_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for (name, dtype) in [("eight", "f8e4m3fn"), ("four", "f4e2m1"), ("pair", "complex64"), ("whole", "i64")] {
        let text = format!("graph @main(%x: {dtype}[2]) {{\n  %y = Identity(%x) : {dtype}[2]\n  return %y\n}}\n");
        std::fs::write(d.join(format!("{name}.ge")), text).unwrap();
    }
    let run = |model: &str, code: i32, x: &str| {
        all_of(&expect_code(d, code, &["run", &format!("{model}.ge"), "--input", &format!("x={x}"), "--cast", "-q"]))
    };
    let doubles = [1000f64, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(d.join("x.npy"), npy("<f8", "(2,)", &doubles)).unwrap();
    for (model, dtype) in [("eight", "f8e4m3fn"), ("four", "f4e2m1")] {
        for x in ["x.npy", "1000"] {
            let said = run(model, 2, x);
            assert!(said.contains(&format!("element 0 does not fit {dtype}")), "{said}");
        }
    }
    assert!(run("pair", 0, "x.npy").contains("y: complex64[2] = 1000+0i 1+0i"));
    assert!(run("pair", 0, "2.5").contains("y: complex64[2] = 2.5+0i 2.5+0i"));
    assert!(run("whole", 0, "[9007199254740993,1.0]").contains("y: i64[2] = 9007199254740993 1"));
    assert!(run("whole", 2, "[1.5,1]").contains("element 0 does not fit i64"));
}

/// Models of open sizes, with gears, with sizes beside the gears, and with values that decide sizes:
/// each has the branch for 16000 only.
#[test]
fn a_value_that_was_fixed_is_the_only_one_that_any_kind_of_model_runs() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[n,2], %sr: i64[]) {
  %f = Cast(%sr) {dst_type = f32} : f32[]
  %y = Mul(%x, %f) : f32[n,2]
  return %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let found = text.replace("return %y", "%p = NonZero(%y) : i64[2,?]\n  return %y, %p");
    std::fs::write(d.join("found.ge"), found).unwrap();
    let hybrid = ["--dim", "n=2,3", "--set", "compileHybridMode=1"];
    let kinds: [(&str, &[&str]); 6] = [
        ("m.ge", &[]),
        ("m.ge", &["--input-shape", "x:1,2"]),
        ("m.ge", &["--dim", "n=1,3"]),
        ("m.ge", &hybrid),
        ("found.ge", &["--dim", "n=1,3"]),
        ("found.ge", &["--input-shape", "x:1,2"]),
    ];
    for (model, how) in kinds {
        expect_code(d, 0, &[&["compile", model, "-o", "m.om", "-q", "--input", "sr=16000"], how].concat());
        let run = ["run", "m.om", "--input", "x=[[1,2]]", "-q"];
        // Without the value, with it, and as one of several runs: the plan of earlier runs is used.
        for same in [&[][..], &["--input", "sr=16000"]] {
            let out = expect_code(d, 0, &[&run[..], same].concat());
            assert!(String::from_utf8_lossy(&out.stdout).starts_with("y: f32[1,2] = 16000 32000\n"), "{how:?}");
        }
        let told = text_of(&expect_code(d, 2, &[&run[..], &["--input", "sr=8000"]].concat()));
        assert!(told.contains("GE-E0302") && told.contains("compiled for, [16000]"), "{how:?}: {told}");
    }
}

/// A choice of open sizes takes its condition in the run.
#[test]
fn a_condition_of_several_elements_is_refused_with_its_node_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[n], %c: bool[k]) {
  %y = If(%c, %x) {then_branch = @t, else_branch = @e} : f32[?]
  return %y
}
graph @t(%x: f32[n]) { %y = ConcatD(%x, %x) {concat_dim = 0, N = 2} : f32[?] return %y }
graph @e(%x: f32[n]) { %z = Neg(%x) : f32[n] return %z }
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let told = text_of(&expect_code(d, 1, &["run", "m.om", "--input", "x=[1,2]", "--input", "c=[true,false]"]));
    for what in ["the condition has 2 elements", "at node `y` (If)", "ReduceMin"] {
        assert!(told.contains(what), "{told}");
    }
}
