//! Runs one node through an engine in the order of the host: op store, running parameters, kernel,
//! task list, loading, launch. Each launch runs block by block, as in [`super::run_blocks`].
use super::blocks::{Arg, Launch, read, update, write};
use crate::abi::ROption;
use crate::device::SocSpec;
use crate::diagnostic::{Error, Result};
use crate::engine::{ArgInfo, Engine, LoadRequest, Support, Target, TaskContext};
use crate::kernel::{Access, HostTensor};
use crate::task::{Task, TaskType};
use crate::types::TensorDesc;
use crate::view::Node;

/// A SoC with eight cube cores and sixteen vector cores, for tests.
pub fn test_soc() -> SocSpec {
    SocSpec {
        name: "test".into(),
        aic_cores: 8,
        aiv_cores: 16,
        prefetch_num: 8,
        memory_bytes: 1 << 34,
        streams_normal: 1024,
        tasks_normal: 1024,
        max_events: 65536,
        max_notifies: 1024,
        ..SocSpec::default()
    }
}

/// A target with that SoC.
pub fn test_target() -> Target {
    Target { soc: test_soc(), deterministic: true, online: false, rank_size: 1 }
}

/// Runs a node on an engine and returns its outputs. `inputs` has one tensor for each input of the
/// node.
///
/// # Errors
/// Fails if the engine refuses the node or returns an error, if a task is neither a launch nor a
/// copy, if [`super::run_blocks`] would fail, or if nothing writes an output.
pub fn run_node(engine: &dyn Engine, node: &Node<'_>, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    if let Support::No(why) = engine.supports(node) {
        return Err(Error::unsupported(format!("the engine refuses `{}` ({}): {why}", node.name(), node.op())));
    }
    let target = test_target();
    let params = engine.calc_op_running_param(node, &target)?;
    let kernel = engine.compile(node, &target)?;
    let binary = kernel.as_ref().map(|k| k.binary.clone()).unwrap_or_default();
    let context = TaskContext { target, kernel: ROption::from(kernel), rank_size: 1 };
    let tasks = engine.generate_task(node, &context)?;
    if params.task_count != 0 && params.task_count as usize != tasks.len() {
        let (said, made) = (params.task_count, tasks.len());
        return Err(Error::failed(format!("calc_op_running_param says {said} tasks, generate_task makes {made}")));
    }
    let mut run = Run { node, inputs, outputs: Vec::new(), written: Vec::new(), workspaces: Vec::new() };
    for (k, d) in node.outputs().iter().enumerate() {
        let sizes = d.shape.sizes().ok_or_else(|| Error::failed(format!("output {k} has open sizes")))?;
        run.outputs.push(HostTensor::zeroed(d.dtype, &sizes)?);
        run.written.push(false);
    }
    run.workspaces = params.workspaces.iter().map(|w| vec![0u8; w.bytes as usize]).collect();
    for (k, task) in tasks.iter().enumerate() {
        let step = match &task.kernel {
            ROption::RSome(_) => run.launch(engine, task, &binary),
            ROption::RNone if task.kind() == TaskType::MEMCPY_ASYNC => run.copy(task),
            ROption::RNone => Err(Error::unsupported(format!("a test runs no {}", task.kind()))),
        };
        step.map_err(|e| {
            e.with(|mut d| {
                d.message = format!("task {k}: {}", d.message).into();
                d
            })
        })?;
    }
    match run.written.iter().position(|w| !w) {
        Some(k) => Err(Error::failed(format!("no task of `{}` writes output {k}", node.name()))),
        None => Ok(run.outputs),
    }
}

/// What an item of an args format refers to.
enum Item {
    Input(usize),
    Output(usize),
    Workspace(usize),
    Nothing,
}

struct Run<'r> {
    node: &'r Node<'r>,
    inputs: &'r [HostTensor],
    outputs: Vec<HostTensor>,
    written: Vec<bool>,
    workspaces: Vec<Vec<u8>>,
}

impl Run<'_> {
    fn items(&self, format: &str) -> Result<Vec<Item>> {
        let bad = |what: &str| Error::failed(format!("`{format}` {what}"));
        let mut out = Vec::new();
        for item in format.split_inclusive('}') {
            let inner =
                item.strip_prefix('{').and_then(|i| i.strip_suffix('}')).ok_or_else(|| bad("is no args format"))?;
            let name = inner.strip_suffix('*').unwrap_or(inner);
            let index = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
            let found = match (index("ws"), index("i"), index("o")) {
                (Some(n), ..) if n < self.workspaces.len() => Item::Workspace(n),
                (_, Some(n), _) if n < self.inputs.len() => Item::Input(n),
                (_, _, Some(n)) if n < self.outputs.len() => Item::Output(n),
                _ if name.is_empty() => Item::Nothing,
                _ => return Err(bad(&format!("names `{inner}`, which a test of this node does not have"))),
            };
            out.push(found);
        }
        Ok(out)
    }

    fn launch(&mut self, engine: &dyn Engine, task: &Task, binary: &[u8]) -> Result<()> {
        let ROption::RSome(launch) = &task.kernel else { return Ok(()) };
        let items = self.items(&launch.args_format)?;
        let mut args = Vec::new();
        for i in &items {
            let arg = |kind: &str, n: usize, desc: Option<TensorDesc>, bytes: usize| ArgInfo {
                kind: kind.into(),
                index: n as u32,
                desc: desc.into(),
                bytes: bytes as u64,
            };
            args.push(match *i {
                Item::Input(n) => arg("i", n, self.node.input_desc(n).cloned(), self.inputs[n].bytes().len()),
                Item::Output(n) => arg("o", n, self.node.outputs().get(n).cloned(), self.outputs[n].bytes().len()),
                Item::Workspace(n) => arg("w", n, None, self.workspaces[n].len()),
                Item::Nothing => arg("", 0, None, 0),
            });
        }
        let request = LoadRequest {
            node: self.node.name().into(),
            op: self.node.op().into(),
            attrs: self.node.attrs().iter().cloned().collect::<crate::abi::RVec<_>>().into(),
            task: task.clone(),
            binary: binary.into(),
            args: args.into(),
            rank: 0,
            rank_size: 1,
        };
        let kernel = engine.load_kernel(&request)?;
        if kernel.access.len() != items.len() {
            let (has, named) = (kernel.access.len(), items.len());
            return Err(Error::failed(format!("the kernel has {has} arguments, the args format names {named}")));
        }
        // Each item gets its own copy, even if the same argument is named twice.
        let mut held: Vec<Vec<u8>> = items
            .iter()
            .map(|i| match *i {
                Item::Input(n) => self.inputs[n].bytes().to_vec(),
                Item::Output(n) => self.outputs[n].bytes().to_vec(),
                Item::Workspace(n) => self.workspaces[n].clone(),
                Item::Nothing => Vec::new(),
            })
            .collect();
        let given: Vec<Arg<'_>> = held
            .iter_mut()
            .zip(&kernel.access)
            .map(|(bytes, a)| match *a {
                Access::READ => read(bytes.as_slice()),
                Access::WRITE => write(bytes.as_mut_slice()),
                _ => update(bytes.as_mut_slice()),
            })
            .collect();
        let run = Launch::new(&kernel).blocks(launch.block_dim).tiling(&launch.tiling).tiling_key(launch.tiling_key);
        run.partly().run(&given)?;
        drop(given);
        for ((i, bytes), a) in items.iter().zip(held).zip(&kernel.access).filter(|(_, a)| **a != Access::READ) {
            match *i {
                Item::Output(n) => {
                    self.outputs[n].bytes_mut().copy_from_slice(&bytes);
                    self.written[n] = true;
                }
                Item::Workspace(n) => self.workspaces[n] = bytes,
                Item::Input(n) => return Err(Error::failed(format!("the kernel declares input {n} as {a}"))),
                Item::Nothing => {}
            }
        }
        Ok(())
    }

    fn copy(&mut self, task: &Task) -> Result<()> {
        let items = self.items(&task.operands)?;
        let bytes = match items.first() {
            Some(Item::Input(n)) => self.inputs[*n].bytes().to_vec(),
            Some(Item::Output(n)) => self.outputs[*n].bytes().to_vec(),
            Some(Item::Workspace(n)) => self.workspaces[*n].clone(),
            _ => return Err(Error::failed("a copy names no source")),
        };
        let to = match items.get(1) {
            Some(Item::Output(n)) => {
                self.written[*n] = true;
                self.outputs[*n].bytes_mut()
            }
            Some(Item::Workspace(n)) => self.workspaces[*n].as_mut_slice(),
            _ => return Err(Error::failed("a copy names no output and no workspace to copy to")),
        };
        let n = bytes.len().min(to.len());
        to[..n].copy_from_slice(&bytes[..n]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::SimpleEngine;
    use crate::kernel::KernelCtx;
    use crate::testing::TestGraph;
    use crate::types::DType;

    fn double(ctx: &mut KernelCtx<'_>) -> Result<()> {
        let x = ctx.input(0)?;
        let mut y = ctx.alloc_output(0, x.dims)?;
        for (y, x) in y.values::<f32>()?.iter_mut().zip(x.values::<f32>()?) {
            *y = 2.0 * x;
        }
        Ok(())
    }
    crate::register_kernel!("TestEngine", "Double", [DType::F32], double, when: |node| {
        match node.input_desc(0).and_then(|d| d.shape.rank()) {
            Some(0) => Err("a scalar is not worth it".to_owned()),
            _ => Ok(()),
        }
    });

    #[test]
    fn a_node_runs_from_store_to_numbers_and_refusals_are_told() {
        let engine = SimpleEngine::new("TestEngine");
        let mut g = TestGraph::new();
        let x = g.input("x", DType::F32, &[2]);
        g.add("Double", "y", &[x]);
        let s = g.input("s", DType::F32, &[]);
        g.add("Double", "z", &[s]);
        let x = HostTensor::from_bytes(DType::F32, &[2], &[1.0f32, -3.0].map(f32::to_le_bytes).concat()).expect("fits");
        let y = run_node(&engine, &g.node("y"), &[x]).expect("runs");
        assert_eq!(y[0].view().values::<f32>().expect("f32"), [2.0, -6.0]);
        let e = run_node(&engine, &g.node("z"), &[]).expect_err("refused");
        assert!(e.to_string().contains("a scalar is not worth it"), "{e}");
    }
}
