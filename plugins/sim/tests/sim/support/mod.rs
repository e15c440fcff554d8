//! Builds models in a few lines: kernels are closures over u64 words of a feature map, an input and
//! an output.
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::*;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, block_kernel};
use ge_plugin_api::task::TaskType;
use ge_plugin_api::{Error, Result};
use ge_sim::context::Context;
use ge_sim::options::Options;
use ge_sim::soc;

/// Number of words in each allocation.
pub const WORDS: u64 = 4096;
pub const FEATURES: u32 = 0;
pub const INPUT: u32 = 1;
pub const OUTPUT: u32 = 2;
pub const READ: Access = Access::READ;
pub const WRITE: Access = Access::WRITE;
pub const READ_WRITE: Access = Access::READ_WRITE;

pub type Body = Box<dyn Fn(&BlockArgs<'_>) -> Result<()> + Send + Sync>;
/// The function of a kernel, and how it accesses its arguments.
pub type Code = (Body, Vec<Access>);
struct Closure(Body);
impl BlockKernel for Closure {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        (self.0)(call)
    }
}

pub fn device(options: &[(&str, &str)]) -> Context {
    let o: Vec<(String, String)> = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Context::open(soc::by_name("sim").unwrap(), Options::parse(&o).unwrap())
}

/// A range of words in an allocation.
pub fn words(allocation: u32, first: u64, count: u64) -> Place {
    Place { allocation, offset: first * 8, bytes: count * 8, rank: u32::MAX }
}

pub struct Net<'a> {
    pub context: &'a Context,
    pub spec: ModelSpec,
    pub tasks: Vec<(DeviceTask, Option<Code>)>,
}

pub fn net(context: &Context, streams: usize, events: u32) -> Net<'_> {
    let allocation = |kind, index| Allocation { kind, memory: MemoryKind::HBM, bytes: WORDS * 8, index };
    let spec = ModelSpec {
        name: "net".into(),
        soc: soc::by_name("sim").unwrap(),
        streams: vec![StreamSpec { head: true, huge: false, priority: 4, tasks: 0 }; streams].into(),
        events,
        allocations: vec![
            allocation(AllocationKind::FEATURE_MAP, 0),
            allocation(AllocationKind::INPUT, 0),
            allocation(AllocationKind::OUTPUT, 0),
        ]
        .into(),
        rank_size: 1,
        ..ModelSpec::default()
    };
    Net { context, spec, tasks: Vec::new() }
}

impl Net<'_> {
    /// Adds a task without a kernel and returns its id.
    pub fn task(&mut self, kind: TaskType, stream: u32, numbers: &[i64], args: &[Place]) -> u32 {
        let id = self.tasks.len() as u32;
        let node = format!("{}_{id}", kind.name().to_lowercase());
        let task = DeviceTask {
            kind: kind.code(),
            stream,
            numbers: numbers.into(),
            args: args.into(),
            node: node.as_str().into(),
            op: "Test".into(),
            engine: "TestEngine".into(),
            ..DeviceTask::default()
        };
        self.tasks.push((task, None));
        id
    }
    /// Adds a kernel task and returns its id.
    pub fn kernel(
        &mut self,
        node: &str,
        stream: u32,
        blocks: u32,
        args: &[(Place, Access)],
        body: impl Fn(&BlockArgs<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> u32 {
        let id = self.task(TaskType::KERNEL, stream, &[], &args.iter().map(|a| a.0).collect::<Vec<_>>());
        let last = self.tasks.last_mut().unwrap();
        last.0.node = node.into();
        last.0.block_dim = blocks;
        last.0.time_ns = 1000;
        last.1 = Some((Box::new(body), args.iter().map(|a| a.1).collect()));
        id
    }
    /// Adds a kernel task that writes one value to all of `out`: `mix` of its inputs, starting from
    /// `salt`.
    pub fn mix(&mut self, node: &str, stream: u32, inputs: &[Place], out: Place, salt: u64) -> u32 {
        let mut args: Vec<(Place, Access)> = inputs.iter().map(|p| (*p, Access::READ)).collect();
        args.push((out, Access::WRITE));
        let n = inputs.len();
        self.kernel(node, stream, 1, &args, move |call| {
            let mut v = salt;
            for i in 0..n {
                for w in call.input::<u64>(i)? {
                    v = mix(v, *w);
                }
            }
            call.output::<u64>(n, 0..call.len(n) / 8)?.fill(v);
            Ok(())
        })
    }
    pub fn build(self) -> Result<Box<dyn DeviceModel>> {
        let m = self.context.create_model(self.spec)?;
        for (mut task, body) in self.tasks {
            if let Some((body, access)) = body {
                let lens = task.args.iter().map(|a| a.bytes).collect();
                task.kernel = ROption::RSome(m.register(block_kernel(Box::new(Closure(body)), lens, access, 128))?);
            }
            m.bind(task)?;
        }
        m.seal()?;
        Ok(m)
    }
}

pub fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ b
}

/// Memory for a run.
pub struct Memory {
    pub features: Vec<u64>,
    pub input: Vec<u64>,
    pub output: Vec<u64>,
}
pub fn memory() -> Memory {
    let n = WORDS as usize;
    Memory { features: vec![u64::MAX; n], input: (0..WORDS).collect(), output: vec![0; n] }
}
impl Memory {
    pub fn bases(&mut self) -> [Base; 3] {
        [&mut self.features, &mut self.input, &mut self.output]
            .map(|v| Base { address: v.as_mut_ptr() as u64, bytes: WORDS * 8 })
    }
}

/// The complete text of an error.
pub fn text(e: &Error) -> String {
    let d = &e.diagnostics[0];
    let notes: Vec<&str> = d.notes.iter().map(|n| n.as_str()).collect();
    format!("{e}\n{}\n{}", notes.join("\n"), d.help)
}

pub fn failure<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("must fail"),
        Err(e) => text(&e),
    }
}
