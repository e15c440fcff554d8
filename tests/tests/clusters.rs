//! `ClusterAutoFusionPass` on random graphs: each output has the same numbers as without the pass,
//! and is near the result of the `cpu` engine. `GE_LONG=1500 cargo test -p ge-tests --test suite
//! clusters` runs that many graphs.
use crate::dynamic::session;
use ge::options::OptionMap;
use ge::session::{Model, Session};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Blob, ConstTensor, DType};
use ge_tests::{Chance, long_of};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Switches off the passes that make clusters; operators are still taken apart for clusters.
const APART: &str = "ClusterAutoFusionPass:off;ElementwiseAutoFusionPass:off;ChainEpilogueUbFusionPass:off";

/// A value: its name and its sizes as text.
type Value = (String, Vec<String>);

fn text(kind: &str, sizes: &[String]) -> String {
    format!("{kind}[{}]", sizes.join(","))
}

/// A graph: its text, the sizes of its inputs, whether its types are half types, and whether a size
/// is open.
struct Made {
    text: String,
    inputs: Vec<Vec<String>>,
    half: bool,
    open: bool,
}

/// The broadcast of two shapes; `None` if they do not fit.
fn broadcast(a: &[String], b: &[String]) -> Option<Vec<String>> {
    let rank = a.len().max(b.len());
    let at = |s: &[String], k: usize| (k + s.len()).checked_sub(rank).map_or("1".to_owned(), |k| s[k].clone());
    (0..rank)
        .map(|k| match (at(a, k), at(b, k)) {
            (x, y) if x == y || y == "1" => Some(x),
            (x, y) if x == "1" => Some(y),
            _ => None,
        })
        .collect()
}

/// Makes a random graph of maps, pairs with broadcast operands, and reductions over any axes, kept
/// or not. Some values are read several times, also by operators that no cluster takes. There are
/// softmax, normalisations, comparisons, selections, logic, casts, whole numbers, and operators of
/// several parts. Numbers stay small: what grows goes through a bounded map. Thresholds are chosen
/// so that no sum equals them.
fn graph(seed: u64) -> Made {
    let mut c = Chance(seed);
    let (half, open) = (c.below(5) == 0, c.below(6) == 0);
    let kind = if half { "f16" } else { "f32" };
    let mut sizes: Vec<String> =
        (0..1 + c.below(4)).map(|_| c.pick(&["1", "2", "3", "5", "7", "33"]).to_owned()).collect();
    if c.below(12) == 0 {
        *sizes.last_mut().unwrap() = "1500".into();
    }
    if open {
        sizes[0] = "B".into();
    }
    let rank = sizes.len();
    let mut given: Vec<Value> = ["x0", "x1"].map(|x| (x.to_owned(), sizes.clone())).into();
    // Operands of one number, of one row, of one column, and with any of the axes.
    let mut row = sizes.clone();
    row[0] = "1".into();
    let mut column = sizes.clone();
    column[rank - 1] = "1".into();
    let any = sizes.iter().map(|s| if c.below(2) == 0 { s.clone() } else { "1".into() }).collect();
    given.extend([("s".into(), vec![]), ("row".into(), row), ("col".into(), column), ("any".into(), any)]);
    if rank > 1 {
        given.push(("last".into(), vec![sizes[rank - 1].clone()]));
    }
    let params: Vec<String> = given.iter().map(|(n, s)| format!("%{n}_: {}", text("f32", s))).collect();
    let mut out = format!("graph @main({}) {{\n", params.join(", "));
    for (n, v) in [("low", -0.414_27), ("high", 0.313_72)] {
        writeln!(out, "  %{n} = Const() {{value = dense<f32[]: {v}>}} : f32[]").unwrap();
    }
    for (n, s) in &given {
        writeln!(out, "  %{n} = Cast(%{n}_) {{dst_type = {kind}}} : {}", text(kind, s)).unwrap();
    }
    let inputs = given.len();
    let mut values = given;
    let mut used = BTreeSet::new();
    let put = |out: &mut String,
               values: &mut Vec<Value>,
               used: &mut BTreeSet<String>,
               op: &str,
               of: &[&Value],
               attrs: &str,
               to: Vec<String>| {
        let name = format!("v{}", values.len() - inputs);
        let reads: Vec<String> = of.iter().map(|v| format!("%{}", v.0)).collect();
        used.extend(of.iter().map(|v| v.0.clone()));
        writeln!(out, "  %{name} = {op}({}){attrs} : {}", reads.join(", "), text(kind, &to)).unwrap();
        values.push((name, to));
        values.len() - 1
    };
    macro_rules! put {
        ($op:expr, [$($of:expr),*], $attrs:expr, $to:expr) => {{
            let of = [$($of.clone()),*];
            put(&mut out, &mut values, &mut used, $op, &of.iter().collect::<Vec<_>>(), $attrs, $to)
        }};
    }
    for _ in 0..3 + c.below(9) {
        let recent = values.len() - c.below(values.len().min(4)) - 1;
        let (x, own) = (values[recent].clone(), values[recent].1.clone());
        let axes = |n: usize| format!("axes = {:?}", (0..n).map(|k| k as i64 - n as i64).collect::<Vec<_>>());
        let kept = |n: usize| {
            own.iter()
                .enumerate()
                .map(|(k, s)| if k + n >= own.len() { "1".into() } else { s.clone() })
                .collect::<Vec<String>>()
        };
        // Not for half types: rounding may change the result of a comparison, and then the outputs
        // need not be near each other.
        if !half && own.len() > 1 && c.below(3) == 0 {
            let (n, x) = (values.len(), &x.0);
            let (b, i, f) = (text("bool", &own), text("i32", &own), text("f32", &own));
            let lines = match c.below(6) {
                0 => {
                    let test = c.pick(&["Greater", "Less", "GreaterEqual", "LessEqual"]);
                    format!("%a{n} = {test}(%{x}, %low) : {b}\n  %t{n} = SelectV2(%a{n}, %{x}, %high) : {f}")
                }
                1 => {
                    let logic = c.pick(&["LogicalAnd", "LogicalOr", "LogicalXor"]);
                    format!(
                        "%a{n} = Less(%low, %{x}) : {b}\n  %b{n} = Less(%{x}, %high) : {b}\n  %c{n} = LogicalNot(%b{n}) : {b}\n  \
                         %d{n} = {logic}(%a{n}, %c{n}) : {b}\n  %t{n} = Cast(%d{n}) {{dst_type = f32}} : {f}"
                    )
                }
                2 => format!(
                    "%a{n} = Muls(%{x}) {{value = 7.77}} : {f}\n  %b{n} = Cast(%a{n}) {{dst_type = i32}} : {i}\n  \
                     %c{n} = {}(%b{n}, %b{n}) : {i}\n  %d{n} = Cast(%c{n}) {{dst_type = f32}} : {f}\n  %t{n} = Tanh(%d{n}) : {f}",
                    c.pick(&["Add", "Mul", "Maximum"])
                ),
                3 => format!(
                    "%a{n} = Cast(%{x}) {{dst_type = {}}} : {}\n  %b{n} = Cast(%a{n}) {{dst_type = f32}} : {f}\n  \
                     %t{n} = Muls(%b{n}) {{value = 0.01}} : {f}",
                    ["f16", "bf16"][n % 2],
                    text(["f16", "bf16"][n % 2], &own)
                ),
                4 => {
                    let (op, attrs) = c.pick(&[
                        ("Celu", " {alpha = 0.5}"),
                        ("ThresholdedRelu", " {alpha = 0.31372}"),
                        ("Shrink", " {lambd = 0.31372, bias = 0.125}"),
                        ("Swish", " {scale = 1.5}"),
                    ]);
                    format!("%t{n} = {op}(%{x}){attrs} : {f}")
                }
                _ => format!("%t{n} = LpNormalization(%{x}) {{p = {}}} : {f}", 1 + n % 2),
            };
            writeln!(out, "  {lines}").unwrap();
            used.insert(x.clone());
            values.push((format!("t{n}"), own));
            continue;
        }
        match c.below(12) {
            0 | 1 => drop(put!(c.pick(&["Tanh", "Neg", "Relu", "Abs", "Sigmoid", "Softplus"]), [x], "", own)),
            2 => drop(put!("LeakyRelu", [x], " {negative_slope = 0.25}", own)),
            3..6 => {
                let other = values[c.below(values.len())].clone();
                let Some(to) = broadcast(&own, &other.1) else { continue };
                let op = c.pick(&["Add", "Sub", "Mul", "Maximum", "Minimum"]);
                let k = if c.below(2) == 0 {
                    put!(op, [x, other], "", to.clone())
                } else {
                    put!(op, [other, x], "", to.clone())
                };
                // Half types have few digits, so their sums must stay small.
                if op == "Mul" || (half && matches!(op, "Add" | "Sub")) {
                    put!("Tanh", [values[k]], "", to);
                }
            }
            6 | 7 if !own.is_empty() => {
                let n = 1 + c.below(own.len().min(2));
                let keep = c.below(4) > 0;
                let op = c.pick(&["ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceSumD"]);
                let to = if keep { kept(n) } else { own[..own.len() - n].to_vec() };
                let k = put!(op, [x], &format!(" {{{}, keep_dims = {keep}}}", axes(n)), to.clone());
                if op == "ReduceSumD" {
                    put!("Tanh", [values[k]], "", to);
                }
            }
            8 if !own.is_empty() => {
                // A softmax.
                let m = put!("ReduceMaxD", [x], " {axes = [-1], keep_dims = true}", kept(1));
                let d = put!("Sub", [x, values[m]], "", own.clone());
                let e = put!("Exp", [values[d]], "", own.clone());
                let s = put!("ReduceSumD", [values[e]], " {axes = [-1], keep_dims = true}", kept(1));
                put!("RealDiv", [values[e], values[s]], "", own);
            }
            9 if !own.is_empty() => {
                // A normalisation by distances from the mean, over one or two axes.
                let n = 1 + c.below(own.len().min(2));
                let attrs = format!(" {{{}, keep_dims = true}}", axes(n));
                let m = put!("ReduceMeanD", [x], &attrs, kept(n));
                let d = put!("Sub", [x, values[m]], "", own.clone());
                let q = put!("Square", [values[d]], "", own.clone());
                let v = put!("ReduceMeanD", [values[q]], &attrs, kept(n));
                let a = put!("Adds", [values[v]], " {value = 0.5}", kept(n));
                let r = put!("Rsqrt", [values[a]], "", kept(n));
                put!("Mul", [values[d], values[r]], "", own);
            }
            10 if !own.is_empty() => {
                // A reduction over the first axis, which no cluster takes.
                let mut to = own.clone();
                to[0] = "1".into();
                put!("ReduceMaxD", [x], " {axes = [0], keep_dims = true}", to);
            }
            _ => drop(put!("Adds", [x], " {value = -0.75}", own)),
        }
    }
    let mut results: Vec<String> =
        values[inputs..].iter().filter(|v| !used.contains(&v.0)).map(|v| format!("%{}", v.0)).collect();
    // Also return a value that may be read inside the graph.
    if values.len() > inputs {
        let inner = format!("%{}", values[inputs + c.below(values.len() - inputs)].0);
        if !results.contains(&inner) {
            results.push(inner);
        }
    } else {
        put!("Neg", [values[0]], "", sizes);
        results.push("%v0".into());
    }
    let given = values[..inputs].iter().map(|v| v.1.clone()).collect();
    Made { text: format!("{out}  return {}\n}}\n", results.join(", ")), inputs: given, half, open }
}

/// Bytes of f32 numbers from -2 to 2, different for each input.
fn numbers(n: usize, input: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (((i * 37 + input * 11 + i / 7) % 97) as f32 / 24.0 - 2.0).to_le_bytes()).collect()
}

fn wide(t: &HostTensor) -> Vec<f64> {
    ConstTensor::new(t.dtype, &t.dims, Blob::copy_of(t.bytes())).unwrap().to_f64(1 << 24).unwrap()
}

/// The model compiled with these options, and its operators, each with its number of outputs.
fn loaded(s: &Session, d: &Path, options: &[(&str, &str)]) -> (Vec<String>, Model) {
    let mut map = OptionMap::default();
    options.iter().for_each(|(k, v)| map.set(k, v, "the test").unwrap());
    let c = s.compile("m", s.import(d.join("m.ge"), "").unwrap(), &map, &ge::session::Quiet).unwrap();
    let parts = c.model.parts.iter().flat_map(|p| &p.graphs);
    let nodes = c.model.graphs.iter().chain(parts).flat_map(|g| &g.nodes);
    let ops = nodes.map(|n| format!("{}/{}", n.op, n.outputs.len())).collect();
    c.write_om(&d.join("m.om")).unwrap();
    (ops, s.load_om(d.join("m.om")).unwrap())
}

/// With clusters, f32 outputs have the same bits as without; half types are rounded less often. The
/// `cpu` engine computes node by node in double precision.
#[test]
fn clusters_leave_the_numbers_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (d, s) = (dir.path(), session());
    let rounds = long_of(1500).unwrap_or(80);
    let (mut taken, mut several, mut fewer) = (0, 0, 0);
    for seed in 0..rounds {
        let m = graph(seed);
        std::fs::write(d.join("m.ge"), &m.text).unwrap();
        let (ops, on) = loaded(&s, d, &[]);
        let (apart, off) = loaded(&s, d, &[("ge.optimizationSwitch", APART)]);
        let (_, cpu) = loaded(&s, d, &[("ge.exec.exclude_engines", "AiCore|AiVector")]);
        taken += u64::from(ops.iter().any(|o| o.starts_with("FusedCluster/")));
        several += u64::from(ops.iter().any(|o| o.starts_with("FusedCluster/") && o != "FusedCluster/1"));
        fewer += u64::from(ops.len() < apart.len());
        for open in if m.open { &[1u64, 6][..] } else { &[0] } {
            let given: Vec<HostTensor> = m
                .inputs
                .iter()
                .enumerate()
                .map(|(i, sizes)| {
                    let dims: Vec<u64> = sizes.iter().map(|d| d.parse().unwrap_or(*open)).collect();
                    let n = dims.iter().product::<u64>() as usize;
                    HostTensor::from_bytes(DType::F32, &dims, &numbers(n, i)).unwrap()
                })
                .collect();
            let run = |m: &Model| m.run(&given).unwrap();
            let (on, off, cpu) = (run(&on), run(&off), run(&cpu));
            for (k, ((on, off), cpu)) in on.iter().zip(&off).zip(&cpu).enumerate() {
                let what = format!("seed {seed} output {k}, B = {open}\n{}\n{ops:?}", m.text);
                assert!(on.dims == off.dims && on.dims == cpu.dims, "{what}");
                assert!(m.half || on.bytes() == off.bytes(), "other bits: {what}");
                let near = if m.half { 6e-2 } else { 1e-4 };
                for ((a, b), c) in wide(on).iter().zip(wide(off)).zip(wide(cpu)) {
                    let fits = |w: f64| (a - w).abs() <= near * w.abs().max(1.0);
                    assert!(fits(b) && fits(c), "{a}, {b} without, {c} of cpu: {what}");
                }
            }
        }
    }
    println!("{rounds} graphs: {taken} with clusters, {several} with several outputs, {fewer} of fewer nodes");
    assert!(taken * 2 > rounds && several * 4 > rounds && fewer * 2 > rounds, "{taken}, {several}, {fewer}");
}
