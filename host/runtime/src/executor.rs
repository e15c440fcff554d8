//! Runs loaded models with one call to the device. Inputs and outputs use the caller's memory where
//! it is 64-byte aligned; otherwise they are copied, and the copies are counted. An input that the
//! model overwrites is copied too, unless the caller gives it away.
use crate::capture::{Captured, Captures, MARKS};
use crate::error::RuntimeError;
use crate::load::LoadedModel;
use crate::ports::Output;
use crate::variables::Held;
use ge_plugin_api::device::{Allocation, AllocationKind, Base, RunReport, TaskProfile};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use smallvec::SmallVec;
use std::sync::Arc;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Whether the device records the start and end of each task.
    pub profile: bool,
}

/// Result of a run.
pub struct RunOutcome {
    /// Outputs, in graph order.
    pub outputs: Vec<HostTensor>,
    /// The device's report of the run.
    pub report: RunReport,
    /// Number of inputs that were copied because they were not aligned or because the model
    /// overwrites them.
    pub copied_inputs: usize,
    /// What every node wrote, in node order. Empty unless the model was loaded with `capture`.
    pub captured: Vec<Captured>,
    /// The gear that ran; `None` if the model has no gears.
    pub gear: Option<usize>,
    /// Each launch of a model of unknown shapes; empty unless a profile was requested.
    pub parts: Vec<Part>,
    /// Nodes executed by the host; empty unless a profile was requested.
    pub hosted: Vec<HostStep>,
}

/// A node of a model of unknown shapes that the host executed, with times since the start of the
/// run.
pub struct HostStep {
    /// Name of the graph that contains the node.
    pub graph: String,
    /// Name of the node.
    pub node: String,
    /// Operator type of the node.
    pub op: String,
    /// Start time in nanoseconds.
    pub start_ns: u64,
    /// End time in nanoseconds.
    pub end_ns: u64,
}

/// One launch of a model of unknown shapes.
pub struct Part {
    pub(crate) model: Arc<LoadedModel>,
    /// Name of the graph whose nodes were launched.
    pub graph: String,
    /// The device's report, with times since the start of the run.
    pub report: RunReport,
}

impl Part {
    /// The model that was launched.
    pub fn model(&self) -> &ge_model::CompiledModel {
        self.model.compiled()
    }
}

/// An input of a run.
pub(crate) enum Arg<'a> {
    /// Memory that the run only reads.
    Lent(TensorView<'a>),
    /// Memory that the run also writes to, of the size that the model requires.
    Room(&'a mut HostTensor),
}

/// Inputs, by number, in memory that the run may write to.
pub(crate) type Own = Vec<(usize, HostTensor)>;

/// Feature maps of one run. Most models have one, which is stored without an allocation.
pub(crate) type Maps = SmallVec<[Base; 1]>;

/// Alignment in bytes that zero copy requires.
pub(crate) const ALIGN: usize = 64;

impl LoadedModel {
    /// Runs once. Inputs are in graph order, with the model's types and shapes. An input that the
    /// model overwrites is copied.
    pub fn run(&self, inputs: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        if let Some(gears) = &self.compiled.gears {
            return self.run_gear(gears, inputs, options);
        }
        self.check_inputs(inputs)?;
        let mut addresses = Vec::with_capacity(inputs.len());
        let mut own: Own = Vec::new();
        for (k, i) in inputs.iter().enumerate() {
            addresses.push(self.address(k, i, &mut own)?);
        }
        let copied = own.len();
        self.launch(&addresses, (own, copied), inputs, options)
    }

    /// Runs once on inputs of which some are memory that the run writes to. Without capture only:
    /// where node outputs are captured, such memory is an internal error.
    pub(crate) fn run_args<'a>(
        &self,
        args: impl ExactSizeIterator<Item = Arg<'a>>,
        options: RunOptions,
    ) -> Result<RunOutcome, RuntimeError> {
        if self.captures.is_some() {
            let mut views: Vec<TensorView<'_>> = Vec::with_capacity(args.len());
            for a in args {
                let Arg::Lent(t) = a else {
                    return Err(ge_plugin_api::Error::internal("a state grows where tensors are gathered").into());
                };
                views.push(t);
            }
            return self.run(&views, options);
        }
        self.check_count(args.len())?;
        let mut addresses = Vec::with_capacity(args.len());
        let mut own: Own = Vec::new();
        for (k, (a, port)) in args.zip(&self.ports.inputs).enumerate() {
            let (bytes, address) = match a {
                Arg::Room(t) => (t.bytes().len(), t.bytes_mut().as_mut_ptr() as u64),
                Arg::Lent(t) => (t.bytes.len(), self.address(k, &t, &mut own)?),
            };
            if bytes as u64 != port.room {
                let text = format!("input {k} of a plan has {bytes} bytes, not {}", port.room);
                return Err(ge_plugin_api::Error::internal(text).into());
            }
            addresses.push(address);
        }
        let copied = own.len();
        self.launch(&addresses, (own, copied), &[], options)
    }

    /// Runs once on inputs that the caller gives away: none is copied, even if the model overwrites
    /// it. (Models with gears or capture still copy where needed.)
    pub fn run_owned(&self, mut inputs: Vec<HostTensor>, options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        self.run_taking(&mut inputs, options)
    }

    /// Like [`run_owned`](Self::run_owned), but if the run fails, the caller has all inputs back.
    /// They are unchanged, except for those that the model overwrites if it had begun to run.
    pub fn run_taking(&self, inputs: &mut Vec<HostTensor>, options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
        if self.captures.is_some() || self.compiled.gears.is_some() {
            // Capture needs the original inputs after the run, and inputs of a gear may be smaller
            // than the memory that the largest gear needs.
            return self.run(&views, options);
        }
        self.check_inputs(&views)?;
        let addresses: Vec<u64> = inputs.iter_mut().map(|t| t.bytes_mut().as_mut_ptr() as u64).collect();
        let mut own: Own = std::mem::take(inputs).into_iter().enumerate().collect();
        let out = self.launch_on(&addresses, (&mut own, 0), &[], options);
        if out.is_err() {
            own.sort_by_key(|(k, _)| *k);
            inputs.extend(own.into_iter().map(|(_, t)| t));
        }
        out
    }

    /// Runs once on inputs that the caller keeps. After the run, a `RefData` input holds what the
    /// model wrote to it; other inputs that the model overwrites are copied first. A model with
    /// gears has no `RefData`, so it runs like [`run`](Self::run).
    pub fn run_mut(&self, inputs: &mut [HostTensor], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        if self.compiled.gears.is_some() {
            let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
            return self.run(&views, options);
        }
        self.check_inputs(&inputs.iter().map(HostTensor::view).collect::<Vec<_>>())?;
        let mut addresses = Vec::with_capacity(inputs.len());
        let mut own: Own = Vec::new();
        for (k, i) in inputs.iter_mut().enumerate() {
            if self.overwrites(k) && !self.is_reference(k) {
                let mut copy = HostTensor::from_bytes(i.dtype, &i.dims, i.bytes())?;
                addresses.push(copy.bytes_mut().as_mut_ptr() as u64);
                own.push((k, copy));
            } else {
                addresses.push(i.bytes_mut().as_mut_ptr() as u64);
            }
        }
        let copied = own.len();
        // Capture needs the inputs as they were before the run, so copy them.
        let before: Vec<HostTensor> = if self.captures.is_none() {
            Vec::new()
        } else {
            let copy = |t: &HostTensor| HostTensor::from_bytes(t.dtype, &t.dims, t.bytes());
            inputs.iter().map(copy).collect::<Result<_, _>>()?
        };
        let views: Vec<TensorView<'_>> = before.iter().map(HostTensor::view).collect();
        self.launch(&addresses, (own, copied), &views, options)
    }

    /// Whether an input is a `RefData`, whose memory the model may write so that the caller sees
    /// it.
    fn is_reference(&self, input: usize) -> bool {
        let nodes = self.compiled.graphs.first().map_or(&[][..], |g| g.nodes.as_slice());
        let index = i64::try_from(input).unwrap_or(-1);
        nodes.iter().any(|n| n.op == "RefData" && n.attrs.int("index").unwrap_or(0) == index)
    }

    /// Whether a run may overwrite an input.
    pub(crate) fn overwrites(&self, input: usize) -> bool {
        self.ports.inputs.get(input).is_some_and(|i| i.overwritten)
    }

    /// Address from which input `k` is read: its own memory or a copy that is added to `own`.
    fn address(&self, k: usize, t: &TensorView<'_>, own: &mut Own) -> Result<u64, RuntimeError> {
        if t.bytes.as_ptr().align_offset(ALIGN) == 0 && !self.overwrites(k) {
            return Ok(t.bytes.as_ptr() as u64);
        }
        let mut copy = HostTensor::from_bytes(t.dtype, t.dims, t.bytes)?;
        let address = copy.bytes_mut().as_mut_ptr() as u64;
        own.push((k, copy));
        Ok(address)
    }

    /// Adds the outputs, each in its own memory or in the memory of the input that it replaces.
    fn outputs(&self, own: &mut Own, outputs: &mut Vec<HostTensor>) -> Result<(), RuntimeError> {
        for (k, o) in self.ports.outputs.iter().enumerate() {
            let of = o.of_input.and_then(|i| own.iter().position(|(k, _)| *k == i));
            outputs.push(match of {
                Some(at) => {
                    let (_, mut t) = own.swap_remove(at);
                    t.dtype = o.dtype;
                    t.dims = o.dims.as_slice().into();
                    t
                }
                None => self.output(o).map_err(|_| self.no_memory(k, o))?,
            });
        }
        Ok(())
    }

    /// Gives the inputs whose memory outputs had taken back to `own`.
    fn inputs_of(&self, outputs: Vec<HostTensor>, own: &mut Own) {
        for (o, mut t) in self.ports.outputs.iter().zip(outputs) {
            let Some((k, port)) = o.of_input.and_then(|k| Some((k, self.ports.inputs.get(k)?))) else { continue };
            if own.iter().all(|(other, _)| *other != k) {
                t.dtype = port.dtype;
                t.dims = port.dims.as_slice().into();
                own.push((k, t));
            }
        }
    }

    /// Memory for an output: a tensor that a caller gave back, or zeroed memory.
    fn output(&self, o: &Output) -> Result<HostTensor, RuntimeError> {
        let Some(bytes) = o.bytes else { return Ok(HostTensor::zeroed(o.dtype, &o.dims)?) };
        let Some(mut t) = self.spare.take(bytes) else { return Ok(HostTensor::with_len(o.dtype, &o.dims, bytes)?) };
        t.dtype = o.dtype;
        t.dims = o.dims.as_slice().into();
        Ok(t)
    }

    /// The error for an output of the model that no memory holds.
    fn no_memory(&self, k: usize, o: &Output) -> RuntimeError {
        let name = self.compiled.outputs.get(k).map_or("", |i| i.name.as_str());
        let maker = self.compiled.graphs.first().and_then(|g| g.nodes.iter().find(|n| n.name == name));
        let bytes = o.bytes.map_or(String::new(), |b| format!(" ({b} bytes)"));
        Diagnostic::error(format!("no memory for `{name}`, {}{:?}{bytes}", o.dtype, o.dims))
            .node(name, maker.map_or("output", |n| n.op.as_str()))
            .help("give smaller inputs, or let the process have more memory")
            .of(ErrorKind::FAILED)
            .into()
    }

    /// Takes back outputs of earlier runs that nobody reads any more; later runs reuse their
    /// memory.
    pub fn give_back(&self, outputs: Vec<HostTensor>) {
        self.spare.put(outputs);
    }

    /// One launch. `own` are inputs in memory that the run may write to; `copied_inputs` is how
    /// many of them are copies.
    pub(crate) fn launch(
        &self,
        addresses: &[u64],
        (mut own, copied_inputs): (Own, usize),
        inputs: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<RunOutcome, RuntimeError> {
        self.launch_on(addresses, (&mut own, copied_inputs), inputs, options)
    }

    /// One launch on `own`, which has all of them again if it fails.
    fn launch_on(
        &self,
        addresses: &[u64],
        (own, copied_inputs): (&mut Own, usize),
        inputs: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<RunOutcome, RuntimeError> {
        let mut outputs = Vec::with_capacity(self.ports.outputs.len());
        let ran = self.outputs(own, &mut outputs).and_then(|()| self.execute(addresses, &mut outputs, inputs, options));
        match ran {
            Ok((report, captured)) => Ok(RunOutcome {
                outputs,
                report,
                copied_inputs,
                captured,
                gear: None,
                parts: Vec::new(),
                hosted: Vec::new(),
            }),
            Err(e) => {
                self.inputs_of(outputs, own);
                Err(e)
            }
        }
    }

    /// Executes the model on inputs and outputs that have their memory.
    fn execute(
        &self,
        addresses: &[u64],
        outputs: &mut [HostTensor],
        inputs: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<(RunReport, Vec<Captured>), RuntimeError> {
        self.weights.run();
        let mut held = Held::take(&self.variables, &self.context)?;
        let mut marks = self.captures.as_ref().map(Captures::marks).transpose()?;
        let maps = self.take_maps()?;
        let mut bases = self.with_maps(&maps);
        for (b, a) in bases.iter_mut().zip(&self.allocations) {
            match a.kind {
                AllocationKind::INPUT if a.index == MARKS => {
                    let address = marks.as_mut().map_or(0, |m| m.bytes_mut().as_mut_ptr() as u64);
                    *b = Base { address, bytes: a.bytes };
                }
                AllocationKind::INPUT => *b = Base { address: addresses[a.index as usize], bytes: a.bytes },
                AllocationKind::OUTPUT => {
                    let address = outputs[a.index as usize].bytes_mut().as_mut_ptr() as u64;
                    *b = Base { address, bytes: a.bytes };
                }
                _ => {}
            }
        }
        for (index, base) in held.bases() {
            let is = |a: &Allocation| a.kind == AllocationKind::VARIABLES && a.index == index;
            if let Some(at) = self.allocations.iter().position(is) {
                bases[at] = base;
            }
        }
        let result = match self.streams.of_run() {
            Ok(_streams) => self.device.execute(&bases, options.profile).map_err(RuntimeError::from),
            Err(e) => Err(e),
        };
        if result.is_err() {
            held.give_back();
        }
        let captured = match (&result, &self.captures, &marks) {
            (Ok(_), Some(c), Some(marks)) => c.collect(&self.compiled, &self.context, &maps, marks, inputs),
            _ => Ok(Vec::new()),
        };
        self.give_maps(maps);
        let mut report = result?;
        if self.numbering.differs() {
            // The profile lists tasks of the model: drop the loader's copies and map device tasks
            // back.
            let tasks = report.tasks.iter().filter_map(|t| {
                let task = self.numbering.in_model(t.task)?;
                Some(TaskProfile { task, ..t.clone() })
            });
            report.tasks = tasks.collect();
        }
        Ok((report, captured?))
    }

    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<(), RuntimeError> {
        self.check_count(inputs.len())?;
        for (k, (i, w)) in inputs.iter().zip(&self.ports.inputs).enumerate() {
            if i.dtype != w.dtype || !i.dims.iter().eq(&w.dims) || Some(i.bytes.len() as u64) != w.bytes {
                return Err(RuntimeError::Input {
                    name: self.compiled.inputs[k].name.clone(),
                    found: format!("{}{:?}", i.dtype, i.dims),
                    expected: format!("{}{:?}", w.dtype, w.dims),
                });
            }
        }
        self.check_fixed(inputs)
    }

    /// Checks that there are as many inputs as the model takes.
    pub(crate) fn check_count(&self, found: usize) -> Result<(), RuntimeError> {
        let want = &self.compiled.inputs;
        if found == want.len() {
            return Ok(());
        }
        let names = want.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", ");
        Err(RuntimeError::Input {
            name: "(all)".into(),
            found: format!("{found} inputs"),
            expected: format!("{}: {names}", want.len()),
        })
    }

    /// Checks that inputs with a value fixed at compile time have that value.
    pub(crate) fn check_fixed(&self, inputs: &[TensorView<'_>]) -> Result<(), RuntimeError> {
        self.fixed.check(&self.compiled, |k| inputs.get(k).map(|i| i.bytes))
    }

    /// Feature maps for one run: an idle set, or a new one.
    pub(crate) fn take_maps(&self) -> Result<Maps, RuntimeError> {
        if let Some(pool) = &self.maps {
            let mut maps = Maps::new();
            for a in self.allocations.iter().filter(|a| a.kind == AllocationKind::FEATURE_MAP) {
                match pool.take(a.memory, a.bytes) {
                    Ok(map) => maps.push(map),
                    Err(e) => {
                        self.give_maps(maps);
                        return Err(self.no_maps(e));
                    }
                }
            }
            return Ok(maps);
        }
        if let Some(m) = self.idle.lock().unwrap_or_else(|e| e.into_inner()).pop() {
            return Ok(m);
        }
        let mut maps = Maps::new();
        for a in self.allocations.iter().filter(|a| a.kind == AllocationKind::FEATURE_MAP) {
            let address = if a.bytes == 0 { Ok(0) } else { self.context.alloc(a.memory, a.bytes) };
            match address {
                Ok(address) => maps.push(Base { address, bytes: a.bytes }),
                Err(e) => {
                    self.free_maps(&maps);
                    return Err(self.no_maps(e.into()));
                }
            }
        }
        match self.contexts.fill(&self.context, &self.with_maps(&maps)) {
            Ok(()) => Ok(maps),
            Err(e) => {
                self.free_maps(&maps);
                Err(e)
            }
        }
    }

    /// Explains that a device has no memory for the values of a run: names the node with the
    /// largest one.
    fn no_maps(&self, why: RuntimeError) -> RuntimeError {
        let RuntimeError::Border(e) = why else { return why };
        let nodes = self.compiled.graphs.iter().flat_map(|g| &g.nodes);
        let values = nodes.flat_map(|n| n.outputs.iter().map(move |d| (d.data_bytes().unwrap_or(0), n, d)));
        let Some((bytes, n, d)) = values.max_by_key(|(bytes, ..)| *bytes) else { return e.into() };
        let largest = format!("the largest value of this run is {}{}, {bytes} bytes", d.dtype, d.shape);
        let help = "give smaller inputs, or take a device or process with more memory";
        e.at_node(&n.name, n.op.as_str()).with(|d| d.note(largest.as_str()).help(help)).into()
    }

    /// Gives feature maps back after a run.
    pub(crate) fn give_maps(&self, maps: Maps) {
        match &self.maps {
            Some(pool) => {
                let kinds = self.allocations.iter().filter(|a| a.kind == AllocationKind::FEATURE_MAP);
                kinds.zip(maps).for_each(|(a, m)| pool.give(a.memory, m));
            }
            None => self.idle.lock().unwrap_or_else(|e| e.into_inner()).push(maps),
        }
    }

    fn free_maps(&self, maps: &[Base]) {
        for m in maps.iter().filter(|m| m.address != 0) {
            let _ = self.context.free(m.address);
        }
    }

    /// Bases of all allocations with one set of feature maps; inputs and outputs are filled in
    /// later.
    fn with_maps(&self, maps: &[Base]) -> Vec<Base> {
        let mut bases = self.bases.clone();
        let feature = bases.iter_mut().zip(&self.allocations).filter(|(_, a)| a.kind == AllocationKind::FEATURE_MAP);
        feature.zip(maps).for_each(|((b, _), m)| *b = *m);
        bases
    }
}
