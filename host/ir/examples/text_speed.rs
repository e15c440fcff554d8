//! Measures print, parse and verify on a graph with many nodes: `cargo run -p ge-ir --example
//! text_speed [NODES]`.
use ge_ir::builder::Builder;
use ge_ir::text::{NoFiles, parse, to_string};
use ge_ir::verify::{NoOps, UnknownOps, VerifyOptions, verify_with};
use ge_ir::{DType, Shape, TensorDesc};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(100_000), |a| a.parse())?;
    let d = || TensorDesc::new(DType::F16, Shape::of(&[256, 12288]));
    let mut b = Builder::new("main");
    let mut values = vec![b.input("x", d())];
    let start = Instant::now();
    for i in 0..count {
        let (p, q) = (values[values.len() - 1], values[(i * 7919) % values.len()]);
        let n = b.node("Add").name(&format!("layer.{}/add_{i}", i / 100)).input(p).input(q);
        let n = n.attr("axis", 1i64).attr("_engine", "AIcoreEngine").attr("perm", vec![0i64, 2, 1]);
        values.push(n.output(d()).build());
    }
    b.output("y", values[values.len() - 1]);
    let model = b.build()?;
    println!("build  {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let text = to_string(&model)?;
    println!("print  {:8.1} ms, {} bytes", start.elapsed().as_secs_f64() * 1e3, text.len());
    let start = Instant::now();
    let back = parse(&text, "speed.ge", &NoFiles).map_err(|d| format!("{d:?}"))?;
    println!("parse  {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let options = VerifyOptions { unknown_ops: UnknownOps::Allow, ..VerifyOptions::default() };
    let start = Instant::now();
    verify_with(&back, &NoOps, options).map_err(|d| format!("{d:?}"))?;
    println!("verify {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    println!("equal  {} {:8.1} ms", back == model, start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
