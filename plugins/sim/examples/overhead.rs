//! Measures the cost of a task beyond its kernel: `cargo run -p ge-sim --example overhead`. It
//! launches an empty kernel 1,000 times on one stream, and on four streams with events, and prints
//! nanoseconds per task, best of 20 runs.
use ge_plugin_api::Result;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::*;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, block_kernel};
use ge_plugin_api::task::TaskType;
use ge_sim::context::Context;
use ge_sim::options::Options;
use std::time::Instant;

struct Tiny;
impl BlockKernel for Tiny {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        let x = call.input::<f32>(0)?[0];
        call.output::<f32>(1, 0..1)?[0] = x + 1.0;
        Ok(())
    }
}

fn measure(name: &str, streams: usize, options: &[(String, String)]) -> Result<()> {
    let soc = ge_sim::soc::by_name("sim")?;
    let context = Context::open(soc.clone(), Options::parse(options)?);
    let stream = StreamSpec { head: true, ..StreamSpec::default() };
    let events = if streams > 1 { 999 } else { 0 };
    let model = context.create_model(ModelSpec {
        name: "tiny".into(),
        soc,
        streams: vec![stream; streams].into(),
        events,
        allocations: vec![Allocation {
            kind: AllocationKind::VARIABLES,
            memory: MemoryKind::HBM,
            bytes: 1 << 16,
            index: 0,
        }]
        .into(),
        ..ModelSpec::default()
    })?;
    let place = |k: u64| Place { allocation: 0, offset: k * 64, bytes: 4, rank: u32::MAX };
    let kernel = model.register(block_kernel(Box::new(Tiny), vec![4, 4], vec![Access::READ, Access::WRITE], 0))?;
    let mut tasks = 0u64;
    let mut bind = |kind: TaskType, stream: usize, numbers: Vec<i64>, args: Vec<Place>| {
        tasks += 1;
        let kernel = if kind == TaskType::KERNEL { ROption::RSome(kernel) } else { ROption::RNone };
        model.bind(DeviceTask {
            kind: kind.code(),
            stream: stream as u32,
            kernel,
            block_dim: 1,
            numbers: numbers.into(),
            args: args.into(),
            ..DeviceTask::default()
        })
    };
    for k in 0..1000u64 {
        let s = k as usize % streams;
        if streams > 1 && k > 0 {
            bind(TaskType::EVENT_WAIT, s, vec![k as i64 - 1], vec![])?;
        }
        bind(TaskType::KERNEL, s, vec![], vec![place(k % 1000), place((k + 1) % 1000)])?;
        if streams > 1 && k < 999 {
            bind(TaskType::EVENT_RECORD, s, vec![k as i64], vec![])?;
        }
    }
    model.seal()?;
    let memory = context.alloc(MemoryKind::HBM, 1 << 16)?;
    let bases = [Base { address: memory, bytes: 1 << 16 }];
    let mut best = u128::MAX;
    for _ in 0..20 {
        let begin = Instant::now();
        model.execute(&bases, false)?;
        best = best.min(begin.elapsed().as_nanos());
    }
    println!("{name}: {tasks} tasks, {:.1} ns a task", best as f64 / tasks as f64);
    Ok(())
}

fn main() -> Result<()> {
    let o = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    measure("one stream", 1, &[])?;
    measure("four streams, 999 events", 4, &[])?;
    measure("one stream, simulated clock", 1, &[o("time", "model")])?;
    measure("one stream, check_races", 1, &[o("check_races", "true")])?;
    measure("four streams, check_races", 4, &[o("check_races", "true")])
}
