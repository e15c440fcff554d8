//! Cost of a call through the plugin interface compared with a direct call of the same trait
//! object; the minimum of many measurements.
use ge_plugin_api::Result;
use ge_plugin_api::engine::{Engine, EngineInfo, EngineObject, Support};
use ge_plugin_api::kernel::{HostKernel, KernelCtx};
use ge_plugin_api::view::Node;
use std::hint::black_box;
use std::time::Instant;

struct Small;

fn nothing(_: &mut KernelCtx<'_>) -> Result<()> {
    Ok(())
}

impl Engine for Small {
    fn info(&self) -> EngineInfo {
        EngineInfo::new("Small", 1)
    }
    fn op_types(&self) -> Vec<String> {
        Vec::new()
    }
    fn supports(&self, _: &Node<'_>) -> Support {
        Support::Yes
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        const RUN: fn(&mut KernelCtx<'_>) -> Result<()> = nothing;
        (op.len() == 3).then_some(&RUN as &dyn HostKernel)
    }
}

/// Nanoseconds per call: the minimum of 20 measurements of a million calls.
fn least(mut f: impl FnMut() -> bool) -> f64 {
    const CALLS: u32 = 1_000_000;
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(f());
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    best
}

fn main() {
    let direct: Box<dyn Engine> = Box::new(Small);
    let over = EngineObject::from_box(Box::new(Small));
    let a = least(|| black_box(&direct).host_kernel(black_box("Add")).is_some());
    let b = least(|| black_box(&over).has_host_kernel(black_box("Add")));
    println!("direct {a:.2} ns, over the interface {b:.2} ns, more {:.2} ns", b - a);
}
