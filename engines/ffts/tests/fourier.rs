//! Transforms run through the engine as the host would call it, compared with sums by definition in
//! double precision.
#![allow(clippy::unwrap_used)]
use ge_ffts::fourier::FftEngine;
use ge_ir::text::{NoFiles, parse};
use ge_ir::view::GraphContext;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{ArgInfo, Engine, LoadRequest, Support, Target, TaskContext};
use ge_plugin_api::kernel::KernelCall;
use std::f64::consts::PI;

/// Parses a graph with one node, such as `%y = DFT(%x, %n) {...} : f64[...]`, given the graph's
/// inputs and the constants before the node, and calls `f` with the node `y`.
fn with_node<R>(inputs: &str, body: &str, f: impl FnOnce(&ge_plugin_api::view::Node<'_>) -> R) -> R {
    let text = format!("graph @main({inputs}) {{\n  {body}\n  return %y\n}}\n");
    let model = parse(&text, "t.ge", &NoFiles).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    let context = GraphContext::new(&model, 0, &());
    let graph = context.graph();
    let node = graph.nodes().find(|n| n.name() == "y").unwrap();
    f(&node)
}

fn refusal(inputs: &str, body: &str) -> String {
    with_node(inputs, body, |n| match FftEngine.supports(n) {
        Support::Yes | Support::YesAt(_) => panic!("{body} is taken"),
        Support::No(why) => why.to_string(),
    })
}

/// Runs the node with these input values (in f64; `None` if absent), in `blocks` blocks, the last
/// one first.
fn run(inputs: &str, body: &str, values: &[Option<&[f64]>], blocks: u32) -> Vec<f64> {
    with_node(inputs, body, |node| {
        assert_eq!(FftEngine.supports(node), Support::Yes, "{body}");
        let soc = SocSpec { aic_cores: 4, ..SocSpec::default() };
        let target = Target { soc, deterministic: true, online: false, rank_size: 1 };
        let kernel = FftEngine.compile(node, &target).unwrap().unwrap();
        let context = TaskContext { target, kernel: ROption::RSome(kernel.clone()), rank_size: 1 };
        let task = FftEngine.generate_task(node, &context).unwrap().remove(0);
        let mut args = Vec::new();
        let mut memory: Vec<Vec<f64>> = Vec::new();
        for i in 0..node.inputs().len() {
            let desc = node.input_desc(i).cloned();
            let bytes = desc.as_ref().and_then(|d| d.data_bytes()).unwrap_or(0);
            let kind = if desc.is_some() { "i" } else { "" };
            args.push(ArgInfo { kind: kind.into(), index: i as u32, desc: desc.into(), bytes });
            memory.push(values.get(i).copied().flatten().map(<[f64]>::to_vec).unwrap_or(vec![0.0]));
        }
        let out = node.outputs()[0].clone();
        let count = out.shape.count().unwrap() as usize;
        let bytes = out.data_bytes().unwrap();
        args.push(ArgInfo { kind: "o".into(), index: 0, desc: ROption::RSome(out), bytes });
        memory.push(vec![f64::NAN; count]);
        let request = LoadRequest {
            node: "y".into(),
            op: node.op().into(),
            attrs: node.attrs().iter().cloned().collect(),
            task,
            binary: kernel.binary,
            args: args.into(),
            rank: 0,
            rank_size: 1,
        };
        let loaded = FftEngine.load_kernel(&request).unwrap();
        let places: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        for block_idx in (0..blocks).rev() {
            let call = KernelCall {
                args: places.as_ptr(),
                n_args: places.len(),
                block_idx,
                block_dim: blocks,
                tiling_key: 0,
                tiling: std::ptr::null(),
                tiling_len: 0,
                scratch: std::ptr::null_mut(),
                host: ROption::RNone,
            };
            // SAFETY: the arguments live during the call and have the sizes given in the request.
            assert_eq!(unsafe { (loaded.run)(loaded.ctx, &call) }, 0);
        }
        if let ROption::RSome(d) = loaded.drop {
            // SAFETY: the context is dropped once.
            unsafe { (d.0)(loaded.ctx) };
        }
        memory.pop().unwrap()
    })
}

fn noise(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 504.5 - 1.0).collect()
}

/// The transform by definition: bins of complex items; the inverse is divided by the length.
fn slow(x: &[(f64, f64)], n: usize, inverse: bool) -> Vec<(f64, f64)> {
    let sign = if inverse { 2.0 } else { -2.0 };
    (0..n)
        .map(|k| {
            let mut sum = (0.0, 0.0);
            for (j, &(re, im)) in x.iter().take(n).enumerate() {
                let (s, c) = (sign * PI * ((j * k) % n) as f64 / n as f64).sin_cos();
                sum = (sum.0 + re * c - im * s, sum.1 + re * s + im * c);
            }
            if inverse { (sum.0 / n as f64, sum.1 / n as f64) } else { sum }
        })
        .collect()
}

fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() < 1e-9, "number {i}: {g}, expected {w}");
    }
}
fn flat(v: &[(f64, f64)]) -> Vec<f64> {
    v.iter().flat_map(|c| [c.0, c.1]).collect()
}

#[test]
fn dft_of_any_length_along_an_inner_axis() {
    for (n, blocks) in [(8, 1), (7, 3), (30, 5)] {
        // x [2, n, 3, 2] along axis 1: lines are strided.
        let x = noise(2 * n * 3 * 2, n);
        let inputs = format!("%x: f64[2,{n},3,2]");
        let got = run(&inputs, &format!("%y = DFT(%x) {{axis = 1}} : f64[2,{n},3,2]"), &[Some(&x)], blocks);
        for (a, b) in (0..2).flat_map(|a| (0..3).map(move |b| (a, b))) {
            let at = |k: usize| ((a * n + k) * 3 + b) * 2;
            let line: Vec<_> = (0..n).map(|k| (x[at(k)], x[at(k) + 1])).collect();
            let found: Vec<f64> = (0..n).flat_map(|k| [got[at(k)], got[at(k) + 1]]).collect();
            near(&found, &flat(&slow(&line, n, false)));
        }
    }
}

#[test]
fn onesided_pads_cuts_and_comes_back() {
    let x = noise(6, 1);
    let line: Vec<_> = x.iter().map(|v| (*v, 0.0)).collect();
    for n in [4usize, 6, 9] {
        let bins = n / 2 + 1;
        let body = format!(
            "%n = Const() {{value = dense<i64[]: {n}>}} : i64[]\n  %y = DFT(%x, %n) {{axis = 1, onesided = true}} : f64[1,{bins},2]"
        );
        let got = run("%x: f64[1,6,1]", &body, &[Some(&x), None], 2);
        near(&got, &flat(&slow(&line, n, false)[..bins]));
        let body = format!("%y = IRFFT(%x) {{n = {n}}} : f64[1,{n}]");
        let back = run(&format!("%x: f64[1,{bins},2]"), &body, &[Some(&got)], 1);
        let padded: Vec<f64> = (0..n).map(|i| x.get(i).copied().unwrap_or(0.0)).collect();
        near(&back, &padded);
        let half = run("%x: f64[1,6]", &format!("%y = RFFT(%x) {{n = {n}}} : f64[1,{bins},2]"), &[Some(&x)], 1);
        near(&half, &got);
    }
}

#[test]
fn inverse_divides_by_the_length() {
    let x = noise(2 * 5 * 2, 3);
    let line: Vec<_> = x[10..].chunks_exact(2).map(|c| (c[0], c[1])).collect();
    let got = run("%x: f64[2,5,2]", "%y = DFT(%x) {axis = 1, inverse = true} : f64[2,5,2]", &[Some(&x)], 2);
    near(&got[10..], &flat(&slow(&line, 5, true)));
}

#[test]
fn stft_windows_each_frame() {
    let (x, w) = (noise(2 * 20, 5), noise(8, 6));
    let body =
        "%s = Const() {value = dense<i64[]: 3>} : i64[]\n  %y = STFT(%x, %s, %w) {onesided = true} : f64[2,5,5,2]";
    let got = run("%x: f64[2,20,1], %w: f64[8]", body, &[Some(&x), None, Some(&w)], 3);
    for (b, f) in (0..2).flat_map(|b| (0..5).map(move |f| (b, f))) {
        let line: Vec<_> = (0..8).map(|k| (x[b * 20 + f * 3 + k] * w[k], 0.0)).collect();
        let at = (b * 5 + f) * 10;
        near(&got[at..at + 10], &flat(&slow(&line, 8, false)[..5]));
    }
}

#[test]
fn refusals_say_why() {
    let why = refusal("%x: f64[1,6,3]", "%y = DFT(%x) {axis = 1} : f64[1,6,2]");
    assert!(why.contains("last dimension of input 0 is 3"), "{why}");
    let why = refusal("%x: i32[1,6,1]", "%y = DFT(%x) {axis = 1} : i32[1,6,2]");
    assert!(why.contains("it takes f32, f64"), "{why}");
    let why = refusal("%x: f64[1,6,1], %n: i64[]", "%y = DFT(%x, %n) {axis = 1} : f64[1,6,2]");
    assert!(why.contains("dft_length") && why.contains("not a constant"), "{why}");
    let why = refusal("%x: f64[1,6,1]", "%y = DFT(%x) {axis = 2} : f64[1,6,2]");
    assert!(why.contains("axis 2"), "{why}");
}
