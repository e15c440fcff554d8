//! The fast kernels compared with those of the AI CPU, on shapes with axes of 0 and 1, very long
//! and very thin ones: the shapes and the numbers must be the same.
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::root;
use std::path::Path;

/// A node to test: the graph's inputs, nodes of constants, the operator with its attributes, and
/// its output types.
struct Case {
    inputs: String,
    constants: String,
    body: String,
    y: String,
}

fn case(inputs: &str, body: &str, y: &str) -> Case {
    Case { inputs: inputs.into(), constants: String::new(), body: body.into(), y: y.into() }
}

fn products() -> Vec<Case> {
    let sizes = [
        [1, 1, 1],
        [1, 1, 10_007],
        [1, 10_007, 1],
        [10_007, 1, 1],
        [1, 0, 5],
        [0, 3, 5],
        [3, 5, 0],
        [2, 1, 4099],
        [1, 97, 33],
        [193, 17, 1],
        [5, 20_011, 2],
    ];
    let mut all = Vec::new();
    for [m, n, k] in sizes {
        for turned in [false, true] {
            let b = if turned { format!("{n},{k}") } else { format!("{k},{n}") };
            let op = format!("MatMulV2(%x, %w) {{transpose_x2 = {turned}}}");
            all.push(case(&format!("%x: f32[{m},{k}], %w: f32[{b}]"), &op, &format!("f32[{m},{n}]")));
        }
        let inputs = format!("%x: f32[3,1,{m},{k}], %w: f32[1,2,{k},{n}]");
        all.push(case(&inputs, "BatchMatMulV2(%x, %w)", &format!("f32[3,2,{m},{n}]")));
    }
    all
}

fn convolutions() -> Vec<Case> {
    let conv = |op: &str, x: &str, w: &str, attrs: &str, y: &str| {
        case(&format!("%x: f32[{x}], %w: f32[{w}]"), &format!("{op}(%x, %w) {{{attrs}}}"), &format!("f32[{y}]"))
    };
    vec![
        conv("Conv2D", "1,16,1,4001", "8,16,1,3", "pads = [0, 0, 1, 1]", "1,8,1,4001"),
        conv("Conv2D", "1,16,4001,1", "8,16,3,1", "pads = [1, 1, 0, 0]", "1,8,4001,1"),
        conv("Conv2D", "1,3,16,160", "64,3,3,3", "pads = [1, 1, 1, 1]", "1,64,16,160"),
        conv("Conv2D", "1,1,1,1", "1,1,1,1", "", "1,1,1,1"),
        conv("Conv2D", "1,5,1,20011", "7,5,1,1", "", "1,7,1,20011"),
        conv("Conv2D", "2,200,1,97", "200,200,1,5", "", "2,200,1,93"),
        conv("Conv2D", "0,3,8,8", "4,3,3,3", "", "0,4,6,6"),
        conv("Conv2D", "1,4,1,5000", "6,2,1,9", "groups = 2, strides = [1, 1, 1, 3]", "1,6,1,1664"),
        conv("Conv2D", "1,2,3,3", "1,2,3,3", "", "1,1,1,1"),
        conv("DepthwiseConv2D", "1,5,1,3001", "5,1,1,7", "pads = [0, 0, 3, 3]", "1,5,1,3001"),
        conv("DepthwiseConv2D", "1,1,3001,1", "1,1,7,1", "", "1,1,2995,1"),
        conv("Conv3D", "1,2,1,1,3001", "3,2,1,1,3", "", "1,3,1,1,2999"),
        conv("Conv3D", "1,2,3001,1,1", "3,2,3,1,1", "", "1,3,2999,1,1"),
        conv("Conv2DTransposeD", "1,8,1,200", "8,4,1,3", "", "1,4,1,202"),
        conv("Conv2DTransposeD", "1,8,200,1", "8,4,3,1", "strides = [1, 1, 2, 1]", "1,4,401,1"),
        conv("Conv2DTransposeD", "1,1,1,1", "1,1,4,4", "", "1,1,4,4"),
    ]
}

fn windows() -> Vec<Case> {
    let mut all = Vec::new();
    for op in ["MaxPoolV3", "AvgPoolV2"] {
        for (x, k, y) in [
            ("1,1,1,5000", "1, 1, 1, 7", "1,1,1,4994"),
            ("2,3,5000,1", "1, 1, 7, 1", "2,3,4994,1"),
            ("1,1,1,1", "1, 1, 1, 1", "1,1,1,1"),
            ("0,3,9,9", "1, 1, 3, 3", "0,3,7,7"),
            ("1,70,2,2", "1, 1, 2, 2", "1,70,1,1"),
        ] {
            all.push(case(&format!("%x: f32[{x}]"), &format!("{op}(%x) {{ksize = [{k}]}}"), &format!("f32[{y}]")));
        }
    }
    for op in ["GlobalAveragePool", "GlobalMaxPool"] {
        for (x, y) in
            [("1,3,1,20011", "1,3,1,1"), ("2,1,1,1", "2,1,1,1"), ("0,3,5,5", "0,3,1,1"), ("1,3,40000", "1,3,1")]
        {
            all.push(case(&format!("%x: f32[{x}]"), &format!("{op}(%x)"), &format!("f32[{y}]")));
        }
    }
    all
}

fn lines() -> Vec<Case> {
    let mut all = Vec::new();
    for [a, b, c] in [[1, 1, 1], [1, 1, 20_011], [20_011, 1, 1], [1, 20_011, 1], [3, 1, 5], [0, 3, 4], [3, 4099, 2]] {
        let x = format!("%x: f32[{a},{b},{c}]");
        for axis in 0..3 {
            let y = format!("f32[{a},{b},{c}]");
            for op in ["SoftmaxV2", "LogSoftmaxV2"] {
                all.push(case(&x, &format!("{op}(%x) {{axes = [{axis}]}}"), &y));
            }
            let mut kept = [a, b, c];
            kept[axis] = 1;
            let reduced = format!("f32[{},{},{}]", kept[0], kept[1], kept[2]);
            if [a, b, c][axis] > 0 {
                for op in ["ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceLogSumExpD"] {
                    all.push(case(&x, &format!("{op}(%x) {{axes = [{axis}], keep_dims = true}}"), &reduced));
                }
            }
            let perm = [[1, 0, 2], [2, 1, 0], [0, 2, 1]][axis];
            let [p, q, r] = perm.map(|i: usize| [a, b, c][i]);
            all.push(case(&x, &format!("TransposeD(%x) {{perm = {perm:?}}}"), &format!("f32[{p},{q},{r}]")));
            let mut two = [a, b, c];
            two[axis] *= 2;
            let joined = format!("f32[{},{},{}]", two[0], two[1], two[2]);
            all.push(case(&x, &format!("ConcatD(%x, %x) {{concat_dim = {axis}, N = 2}}"), &joined));
        }
        let gamma = format!("{x}, %g: f32[{c}], %b: f32[{c}]");
        let stat = format!("f32[{a},{b},1]");
        let y = format!("f32[{a},{b},{c}], {stat}, {stat}");
        all.push(case(&gamma, "LayerNormV3(%x, %g, %b) {begin_norm_axis = -1}", &y));
        let channels = format!("{x}, %g: f32[{b}], %b: f32[{b}]");
        all.push(case(&channels, "InstanceNorm(%x, %g, %b)", &format!("f32[{a},{b},{c}]")));
        let thin = format!("{x}, %t: f32[{b},1]");
        for op in ["Add", "Mul", "Maximum"] {
            all.push(case(&thin, &format!("{op}(%x, %t)"), &format!("f32[{a},{b},{c}]")));
        }
        all.push(case(&x, "PadD(%x) {paddings = [1, 0, 0, 2, 3, 0]}", &format!("f32[{},{},{}]", a + 1, b + 2, c + 3)));
        all.push(case(&x, "TileD(%x) {multiples = [2, 1, 3]}", &format!("f32[{},{b},{}]", 2 * a, 3 * c)));
    }
    all
}

/// Recurrences whose weights are inputs, or constants that are folded and packed.
fn recurrences() -> Vec<Case> {
    let mut all = Vec::new();
    let sizes = [
        [1, 1, 1, 1],
        [3, 2, 5, 17],
        [7, 1, 300, 33],
        [2, 19, 1, 16],
        [2, 3, 4, 100],
        [12, 2, 3, 4],
        [1, 2, 3, 0],
        [0, 1, 2, 3],
    ];
    for (op, gates, attr) in [
        ("CommonRNN", 1, "activations = [\"Relu\", \"LeakyRelu\"]"),
        ("CommonGRU", 3, "linear_before_reset = 1"),
        ("CommonGRU", 3, "linear_before_reset = 0, clip = 0.5"),
        ("CommonLSTM", 4, "input_forget = 0"),
        ("CommonLSTM", 4, "input_forget = 1, layout = 1"),
    ] {
        for [s, b, i, h] in sizes {
            let rows = gates * h;
            let (w, r, bias) =
                (format!("f32[2,{rows},{i}]"), format!("f32[2,{rows},{h}]"), format!("f32[2,{}]", 2 * rows));
            let first = attr.contains("layout");
            let x = if first { format!("f32[{b},{s},{i}]") } else { format!("f32[{s},{b},{i}]") };
            let state = if first { format!("f32[{b},2,{h}]") } else { format!("f32[2,{b},{h}]") };
            let y = if first { format!("f32[{b},{s},2,{h}]") } else { format!("f32[{s},2,{b},{h}]") };
            let y = if gates == 4 { format!("{y}, {state}, {state}") } else { format!("{y}, {state}") };
            let body = format!("{op}(%x, %w, %r, %b) {{direction = \"bidirectional\", hidden_size = {h}, {attr}}}");
            all.push(case(&format!("%x: {x}, %w: {w}, %r: {r}, %b: {bias}"), &body, &y));
            // Numbers between minus one and one, made by operators that are folded.
            let constant = |name: &str, t: &str, by: f64| {
                format!(
                    "%{name}_v = Const() {{value = dense<{t}: splat {by}>}} : {t} \
                     %{name}_a = Const() {{value = dense<i64[]: 1>}} : i64[] \
                     %{name}_s = Cumsum(%{name}_v, %{name}_a) : {t} %{name} = Sin(%{name}_s) : {t} "
                )
            };
            let constants = [constant("w", &w, 1.7), constant("r", &r, 0.9)].concat();
            all.push(Case { constants, ..case(&format!("%x: {x}, %b: {bias}"), &body, &y) });
        }
    }
    all
}

fn real(t: &HostTensor) -> Vec<f64> {
    assert_eq!(t.dtype, DType::F32);
    t.bytes().as_chunks::<4>().0.iter().map(|c| f64::from(f32::from_le_bytes(*c))).collect()
}

#[test]
fn thin_and_long_and_empty_shapes_give_the_numbers_of_the_ai_cpu() {
    let plugins = Some(root().join("plugins.toml"));
    let s = Session::new(SessionOptions { plugins, ..SessionOptions::default() }).unwrap();
    let plain = OptionMap::default();
    let mut slow = OptionMap::default();
    slow.set("ge.exec.exclude_engines", "AiCore|AiVector", "a test").unwrap();
    let (mut wrong, mut fast) = (Vec::new(), 0);
    let cases: Vec<Case> =
        [products(), convolutions(), windows(), lines(), recurrences()].into_iter().flatten().collect();
    for c in &cases {
        let text = format!("graph @main({}) {{ {}%y = {} : {} return %y }}", c.inputs, c.constants, c.body, c.y);
        let run = |options: &OptionMap| {
            let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).map_err(|e| e.to_string())?;
            let compiled = s.compile("m", graph, options, &Silent).map_err(|e| e.to_string())?;
            let on = compiled.model.graphs[0].nodes.iter().find(|n| n.name == "y").map(|n| n.engine.clone());
            let model = s.load(compiled.model).map_err(|e| e.to_string())?;
            let out = model.run_random(7).map_err(|e| e.to_string())?;
            Ok::<_, String>((out, on))
        };
        match (run(&plain), run(&slow)) {
            (Ok((got, on)), Ok((want, _))) => {
                fast += usize::from(on.is_some_and(|e| e.contains("AIcoreEngine")));
                let dims = |t: &[HostTensor]| t[0].dims.to_vec();
                let (g, w) = (real(&got[0]), real(&want[0]));
                let top = w.iter().filter(|v| v.is_finite()).fold(1f64, |a, b| a.max(b.abs()));
                let near = |(g, w): (&f64, &f64)| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 2e-5 * top;
                if dims(&got) != dims(&want) || !g.iter().zip(&w).all(near) {
                    let at = g.iter().zip(&w).position(|p| !near(p));
                    wrong.push(format!("{text}\n  {:?} {at:?} {:?}", dims(&got), at.map(|i| (g[i], w[i]))));
                }
            }
            (a, b) => wrong.push(format!("{text}\n  {:?}\n  {:?}", a.err(), b.err())),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(fast * 4 >= cases.len() * 3, "{fast} of {} are the AI core's", cases.len());
}
