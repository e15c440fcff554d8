//! Tests of the text form: its meaning, round trips, and the messages for faulty texts.
use super::*;
use crate::graph::{Graph, Model};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::types::tensor::Origin;
use ge_plugin_api::types::*;
use proptest::prelude::*;

const SAMPLE: &str = r#"
# a comment; whitespace is free
graph @main(%x: f16[256,12288], %y: f16[256,12288]) attributes {_single_op_scene = false} {
  %ag1 = HcomAllGather(%x) {group = "hccl_world_group", rank_size = 8} : f16[2048,12288]
  %ag2 = HcomAllGather(%y) {group = "hccl_world_group", rank_size = 8} : f16[2048,12288]
  %c   = ConcatD(%ag1, %ag2) {N = 2, concat_dim = 0} : f16[4096,12288]
  %s   = SplitD(%c) {num_split = 2, split_dim = 0} : f16[2048,12288], f16[2048,12288]
  %r   = Relu(%s#1) after(%ag1) : f16[2048,12288]
  return %r, %s
}
graph @then(%a: f32[?,3,224,224]) { return %a }
"#;

fn read(text: &str) -> Model {
    parse(text, "t.ge", &NoFiles).unwrap_or_else(|d| panic!("{d:#?}\n{text}"))
}
fn show(m: &Model) -> String {
    to_string(m).expect("prints")
}
/// Line, column and message of every fault.
fn faults(text: &str) -> Vec<String> {
    let e = parse(text, "t.ge", &NoFiles).expect_err("faulty");
    e.iter()
        .map(|d| {
            let ROption::RSome(p) = &d.place else { panic!("no place: {d:?}") };
            assert_eq!(p.file, "t.ge");
            let help = if d.help.is_empty() { String::new() } else { format!(" [{}]", d.help) };
            format!("{}:{}: {}{help}", p.line, p.column, d.message)
        })
        .collect()
}

#[test]
fn the_sample_of_the_design_reads_and_prints_canonically() {
    let m = read(SAMPLE);
    assert_eq!(m.graphs().len(), 2);
    let r = m.root().find("r").expect("r");
    assert_eq!(m.root().producer(r, 0).map(|n| n.name()), Some("s"));
    assert_eq!(r.inputs()[0].output, 1);
    assert_eq!(r.controls().len(), 1);
    assert_eq!(m.root().net_output().map(|n| n.inputs().len()), Some(2));
    let text = show(&m);
    assert!(
        text.starts_with(
            "graph @main(%x: f16[256,12288], %y: f16[256,12288]) attributes {_single_op_scene = false} {\n"
        )
    );
    assert!(text.contains("\n  %r = Relu(%s#1) after(%ag1) : f16[2048,12288]\n  return %r, %s\n}\n"));
    assert_eq!(read(&text), m);
}

#[test]
fn every_form_of_the_design_comes_back_as_it_was() {
    let text = r#"graph @main(%x: f32[?,batch,...]) {
}
"#;
    // Dots must stand alone: a rank is either known or unknown.
    assert_eq!(faults(text), ["1:29: a dimension: a number, `?` or a name expected, found `...`"]);
    let text = r#"graph @main(%x: f32[?,batch,3], %"in put": seq<f16[...]>, %z: opt<f32[]>) {
  %v = RefData() {index = 1} : f32[8]
  %b = Variable() : f32[8]{can_reused_for_concat_optimize = false}
  %c = Const() {value = dense<f32[2,2]: 1 2.5 -0 1e-7>} : f32[2,2]
  %s = Const() {value = dense<f16[1152921504606846976]: splat 0.5>} : f16[1152921504606846976]
  %t = Const() {value = dense<string[3]: "a" "" "\"é\n">} : string[3]
  %i = Const() {value = dense<i4[3]: -8 7 -1>} : i4[3]
  %e = Const() {value = dense<bool[0]:>} : bool[0]
  %k = Const() {value = dense<complex64[2]: (1, -2) (nan, inf)>} : complex64[2]
  %n = Const() {value = dense<f32[2]: 0x7fc00001 -inf>} : f32[2]
  %w = Const() {value = dense<bool[2]: raw "0102">} : bool[2]
  %d = TransData(%x) : f16[1,4,7,7,16]@NC1HWC0(f16[1,64,7,7]@NCHW)
  %sc = Cast(%x) {dst_type = f16} : f32[1](f32[])
  %o = "my op"(%x, _, %"in put") {"a b" = "c", e = [], f = [1.0, -0.0, nan], g = [@then, @"else one"], l = [1, [2.5], {k = {}}], n = nan(0x7ff8000000000001)} after(%v, %b) : unknown[...], opt<seq<f32["2*n",?]>>
  %p = Send(%o#1) : ()
  return %o, _ {_stream_id = 0} after(%p)
}
graph @then() {
  %end = NetOutput() : f32[]
}
"#;
    let m = read(text);
    assert_eq!(show(&m), text);
    assert_eq!(read(&show(&m)), m);
    let index = |n: &str| m.root().find(n).and_then(|n| n.attrs().int("index"));
    assert_eq!((index("x"), index("in put"), index("z")), (Some(0), Some(2), Some(3)));
    let k = m.root().find("i").and_then(|n| n.attrs().tensor("value").cloned()).expect("i4");
    assert_eq!(k.data, ConstData::Bytes(Blob::copy_of(&[0x78, 0x0f])));
}

#[test]
fn faults_have_a_place_and_a_remedy_and_are_collected() {
    let text = "graph @main(%x: f32[2]) {\n  %a = Relu(%b) : f32[2]\n  %b = Relu(%xx) : f32[2]\n  %c = Relu(%x) f32[2]\n  %d = Relu(%c) : f23[2]\n  %e = Relu(%x#4) : f32[2]\n  %e2 = Relu(%x) {k = 1, k = 2} : f32[2]\n  %x = Relu(%e2) : ()\n  return %d\n}\n";
    assert_eq!(
        faults(text),
        [
            "2:13: `%b` is used before it is defined [move the definition of `%b` before this line]",
            "3:13: there is no value `%xx` in graph `@main` [did you mean `%x`?]",
            "4:17: `:` and the output types (`: ()` for none) expected, found `f32`",
            "5:19: there is no element type `f23` [did you mean `f32`?]",
            "6:13: `%x` has no output 4",
            "7:26: attribute `k` is given twice",
            "8:3: `%x` is defined twice in graph `@main`",
        ]
    );
    assert_eq!(faults(""), ["1:1: the text has no graph"]);
    assert_eq!(faults("graph @a() {"), ["1:13: `}` that closes the graph expected, found the end of the text"]);
    assert_eq!(faults("graph @a() {} graph @a() {}"), ["1:15: graph `@a` is defined twice"]);
    assert_eq!(
        faults("graph @a() { %a = X() {s = \"abc} : () }"),
        [
            "1:28: a string without its closing quote",
            "1:40: `}` that closes the graph expected, found the end of the text"
        ]
    );
    assert_eq!(
        faults("graph @a() { %a = C() {v = dense<f32[3]: 1 2>} : ()\n}"),
        ["1:28: a constant of shape [3] has 2 elements"]
    );
    assert_eq!(
        faults("graph @a() { %a = C() {v = dense<f16[1]: 70000>} : ()\n}"),
        ["1:42: `70000` is no element of type f16"]
    );
    let deep = format!("graph @a() {{ %a = C() {{v = {}1{}}} : ()\n}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(faults(&deep), ["1:93: values nest too deeply"]);
    let many = "%a = Relu(%q) : f32[]\n".repeat(1000);
    assert_eq!(faults(&format!("graph @a() {{\n{many}}}")).len(), ERROR_LIMIT);
}

struct OneFile(Vec<u8>);
impl SideFiles for OneFile {
    fn open(&self, path: &str) -> ge_plugin_api::Result<Blob> {
        if path == "w.bin" {
            Ok(Blob::copy_of(&self.0))
        } else {
            Err(ge_plugin_api::Error::usage(format!("cannot read `{path}`")))
        }
    }
}

#[test]
fn side_files_are_read_named_again_and_written() {
    let text = "graph @main() {\n  %c = Const() {value = dense<u8[3]: file \"w.bin\" 2 3>} : u8[3]\n}\n";
    let m = parse(text, "t.ge", &OneFile((0..10).collect())).expect("reads");
    assert_eq!(m.root().find("c").and_then(|c| c.attrs().tensor("value")?.to_i64(9)), Some(vec![2, 3, 4]));
    assert_eq!(show(&m), text);
    for bad in ["\"w.bin\" 8 3", "\"v.bin\" 0 3", "\"w.bin\" 0 4", "\"w.bin\" 18446744073709551615 3"] {
        let t = text.replace("\"w.bin\" 2 3", bad);
        assert!(parse(&t, "t.ge", &OneFile((0..10).collect())).is_err(), "{bad}");
    }
    struct Sink(Vec<u8>);
    impl SideFileSink for Sink {
        fn place(&mut self, bytes: &Blob, _: &FileRange) -> std::io::Result<FileRange> {
            let offset = self.0.len() as u64;
            self.0.extend_from_slice(bytes);
            Ok(FileRange { path: "w.bin".into(), offset })
        }
    }
    let mut sink = Sink(vec![9]);
    let mut out = Vec::new();
    print(&m, &mut out, &mut PrintOptions { inline_limit: 2, side_files: Some(&mut sink) }).expect("prints");
    assert!(String::from_utf8_lossy(&out).contains("file \"w.bin\" 1 3"));
    assert_eq!(sink.0, [9, 2, 3, 4]);
    assert_eq!(parse(&String::from_utf8_lossy(&out), "t.ge", &OneFile(sink.0)).expect("reads"), m);
}

#[test]
fn wide_and_hostile_texts_cost_what_they_are_long() {
    // Quadratic work on any of these texts would take minutes.
    let n = 50_000;
    let list = |f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
    let wide = format!(
        "graph @g({}) {{\n%a = X({}) {{{}}} after({}) : {}\nreturn {}\n}}",
        list(&|i| format!("%x{i}: f32[]")),
        list(&|i| format!("%x{i}")),
        list(&|i| format!("k{i} = {i}")),
        list(&|i| format!("%x{i}")),
        list(&|_| "f32[2]".into()),
        list(&|i| format!("%a#{i}")),
    );
    let m = read(&wide);
    assert_eq!(m.root().len(), n + 2);
    assert_eq!(read(&show(&m)), m);
    for junk in ["%a ", "%a = ", "\"\" ", "[", "{k = ", "\\ ", "@ ", "graph ", "graph @g(", "0x", "e", "- "] {
        assert!(!faults(&junk.repeat(n)).is_empty());
        assert!(!faults(&format!("graph @g() {{ %a = X() {{v = {}", junk.repeat(n))).is_empty());
    }
    let subs: String = (0..20_000).map(|i| format!("graph @g{i}() {{\nreturn\n}}\n")).collect();
    assert_eq!(read(&subs).graphs().len(), 20_000);
}

// ---- random models ----

fn text_strategy() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z_][a-z0-9_]{0,6}", 1 => "[ -~]{0,6}", 1 => "\\PC{0,4}", 1 => Just("a\"\\\n\t\0\u{1}".to_owned())]
}
fn float_strategy() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        any::<u64>().prop_map(f64::from_bits),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NAN),
        Just(1.0)
    ]
}
fn dtype_strategy() -> impl Strategy<Value = DType> {
    (0..DType::ALL.len()).prop_map(|i| DType::ALL[i])
}
fn tensor_strategy() -> impl Strategy<Value = ConstTensor> {
    (dtype_strategy(), proptest::collection::vec(0u64..4, 0..3), any::<u64>(), any::<bool>()).prop_filter_map(
        "no such tensor",
        |(d, dims, seed, splat)| {
            let mut x = seed | 1;
            let mut next = move || {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 24) as u8
            };
            if splat {
                let n = usize::try_from(d.bits()?.div_ceil(8)).ok()?;
                let e: Vec<u8> = (0..n).map(|_| next()).collect();
                return ConstTensor::splat(d, &dims, &e);
            }
            let count = Shape::of(&dims).count()?;
            let n = match d {
                DType::STRING => 8 * (count as usize + 1),
                _ => usize::try_from(d.bytes_of(count)?).ok()?,
            };
            let bytes = if d == DType::STRING { vec![0; n] } else { (0..n).map(|_| next()).collect() };
            ConstTensor::new(d, &dims, Blob::from_owner(bytes))
        },
    )
}
fn value_strategy() -> impl Strategy<Value = AttrValue> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(AttrValue::Int),
        float_strategy().prop_map(AttrValue::Float),
        any::<bool>().prop_map(AttrValue::Bool),
        text_strategy().prop_map(AttrValue::from),
        dtype_strategy().prop_map(AttrValue::Type),
        text_strategy().prop_map(|s| AttrValue::Graph(s.as_str().into())),
        tensor_strategy().prop_map(AttrValue::Tensor),
        proptest::collection::vec(float_strategy(), 0..4).prop_map(AttrValue::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(AttrValue::list),
            proptest::collection::btree_map(text_strategy(), inner, 0..4).prop_map(|m| AttrValue::Dict(
                m.into_iter().rev().map(|(k, value)| DictEntry { key: k.as_str().into(), value }).collect()
            )),
        ]
    })
}
fn attrs_strategy() -> impl Strategy<Value = AttrMap> {
    proptest::collection::vec((text_strategy(), value_strategy()), 0..4).prop_map(|v| {
        let mut m = AttrMap::default();
        for (k, x) in v {
            m.set(k.as_str(), x);
        }
        m
    })
}
fn shape_strategy() -> impl Strategy<Value = Shape> {
    let dim = prop_oneof![
        (0u64..9).prop_map(Dim::known),
        Just(Dim::known(i64::MAX as u64)),
        Just(Dim::UNKNOWN),
        text_strategy().prop_map(|s| Dim::symbol(&s))
    ];
    prop_oneof![proptest::collection::vec(dim, 0..4).prop_map(Shape::new), Just(Shape::unranked())]
}
fn desc_strategy() -> impl Strategy<Value = TensorDesc> {
    let format = || prop_oneof![3 => Just(Format::ND), 1 => Just(Format::NCHW), 1 => Just(Format::NC1HWC0), 1 => Just(Format(200))];
    let origin = proptest::option::of((format(), shape_strategy()));
    let dtype = prop_oneof![8 => dtype_strategy(), 1 => Just(DType(99))];
    (dtype, format(), 0u8..5, shape_strategy(), origin, proptest::option::weighted(0.2, attrs_strategy())).prop_map(
        |(dtype, format, c, shape, origin, attrs)| TensorDesc {
            dtype,
            format,
            container: Container(c),
            shape,
            origin: origin.map(|(format, shape)| Origin { format, shape }).into(),
            attrs: attrs.unwrap_or_default(),
        },
    )
}
#[derive(Clone, Debug)]
struct Seed {
    op: String,
    name: String,
    inputs: Vec<(bool, u32, u32)>,
    controls: Vec<u32>,
    outputs: Vec<TensorDesc>,
    attrs: AttrMap,
}
fn node_strategy() -> impl Strategy<Value = Seed> {
    let op = prop_oneof![2 => Just("Data".to_owned()), 1 => Just("RefData".to_owned()), 1 => Just("NetOutput".to_owned()), 4 => text_strategy()];
    (
        op,
        text_strategy(),
        proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>()), 0..4),
        proptest::collection::vec(any::<u32>(), 0..2),
        proptest::collection::vec(desc_strategy(), 0..3),
        attrs_strategy(),
        0i64..6,
    )
        .prop_map(|(op, name, mut inputs, mut controls, mut outputs, mut attrs, index)| {
            if op.ends_with("Data") {
                if index < 4 {
                    // Often a plain input of the head.
                    attrs = AttrMap::default();
                    inputs.clear();
                    controls.clear();
                    outputs.truncate(1);
                }
                attrs.set("index", index % 4);
            }
            Seed { op, name, inputs, controls, outputs, attrs }
        })
}
fn graph_of(name: &str, seeds: Vec<Seed>, root: bool) -> Graph {
    let mut g = Graph::new(name);
    let mut names = std::collections::HashSet::new();
    let count = seeds.len();
    for (i, s) in seeds.into_iter().enumerate() {
        let last = i + 1 == count && s.op == "NetOutput";
        let mut n = match (last, root) {
            (true, true) => "NetOutput".to_owned(),
            (true, false) => format!("{name}/NetOutput"),
            _ => s.name,
        };
        while !names.insert(n.clone()) {
            n.push('x');
        }
        let at = |k: u32| NodeId(k % u32::try_from(i.max(1)).expect("small"));
        let inputs = s
            .inputs
            .into_iter()
            .map(|(there, k, o)| match g.get(at(k)).map(|p| p.outputs().len() as u32) {
                Some(n) if there && n > 0 => ValueRef::new(at(k), o % n),
                _ => ValueRef::ABSENT,
            })
            .collect();
        let controls = s.controls.into_iter().filter(|_| i > 0).map(at).collect();
        let outputs = if last { Vec::new() } else { s.outputs };
        g.push_node(Key::new(&s.op), n, inputs, controls, outputs, s.attrs).expect("legal");
    }
    g
}
fn model_strategy() -> impl Strategy<Value = Model> {
    let graph = || proptest::collection::vec(node_strategy(), 0..8);
    (graph(), proptest::option::of((text_strategy(), graph())), attrs_strategy()).prop_map(|(a, b, attrs)| {
        let mut root = graph_of("main", a, true);
        *root.attrs_mut() = attrs;
        let mut graphs = vec![root];
        graphs.extend(b.filter(|(n, _)| n != "main").map(|(n, b)| graph_of(&n, b, false)));
        Model::from_graphs(graphs).expect("a root")
    })
}

fn cases(n: u32) -> ProptestConfig {
    let long = std::env::var_os("GE_LONG").is_some();
    ProptestConfig { cases: if long { n * 50 } else { n }, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(400))]
    #[test]
    fn what_is_printed_reads_back_as_the_same_model(m in model_strategy()) {
        let text = show(&m);
        let back = match parse(&text, "t.ge", &NoFiles) {
            Ok(b) => b,
            Err(d) => return Err(TestCaseError::fail(format!("{d:#?}\n{text}"))),
        };
        prop_assert_eq!(m.difference(&back), None, "{}", text);
        prop_assert_eq!(show(&back), text);
    }

    #[test]
    fn damaged_texts_are_refused_or_read_but_never_panic(
        m in model_strategy(),
        edits in proptest::collection::vec((any::<u32>(), 0u8..4, any::<u8>(), 0usize..40), 1..6),
    ) {
        let mut bytes = show(&m).into_bytes();
        for (at, what, byte, len) in edits {
            if bytes.is_empty() { break; }
            let at = at as usize % bytes.len();
            match what {
                0 => bytes[at] = byte & 0x7f,
                1 => { let end = (at + len).min(bytes.len()); bytes.drain(at..end); }
                2 => { let end = (at + len).min(bytes.len()); let part = bytes[at..end].to_vec(); bytes.splice(at..at, part); }
                _ => bytes.truncate(at),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match parse(&text, "t.ge", &NoFiles) {
            Ok(m) => { let again = show(&m); prop_assert_eq!(show(&read(&again)), again); }
            Err(d) => prop_assert!(!d.is_empty() && d.len() <= ERROR_LIMIT),
        }
    }
}
