//! Compiles and runs samples and graphs: blocks between guard pages, each run twice and compared
//! with another engine, on every SoC of the simulator.
use super::Beside;
use super::samples::{Given, Sample};
use crate::options::OptionMap;
use crate::session::{Quiet, Session};
use crate::{Error, ErrorKind, Result};
use ge_ir::builder::Builder;
use ge_plugin::sample::SampleGraph;
use ge_plugin::services::{is_cancelled, set_cancelled};
use ge_plugin::{EngineHandle, OpHandle};
use ge_plugin_api::engine::flags;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Blob, ConstTensor, DType, TensorDesc};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time after which a run is cancelled; kernels are running by then.
const AT_WORK: Duration = Duration::from_millis(5);
/// A cancelled run must end within this time.
const SOON: Duration = Duration::from_secs(1);

/// Result of trying a sample.
pub enum Tried {
    /// The operator has no such node, or the engine does not accept it.
    NotTaken,
    /// The same, found only by compiling it.
    InVain,
    /// It ran; no other engine accepts it.
    Alone,
    /// It ran and agrees with the engine of this name.
    Against(String),
}

/// Graphs that are run with and without the plugin, each with its description.
pub const GRAPHS: &[(&str, &str)] = &[
    (
        "of element-wise operators",
        "graph @main(%x: f32[3,5]) {
  %a = Relu(%x) : f32[3,5]
  %b = Abs(%x) : f32[3,5]
  %c = Abs(%b) : f32[3,5]
  %d = Add(%a, %c) : f32[3,5]
  %e = Sigmoid(%d) : f32[3,5]
  %f = Mul(%d, %e) : f32[3,5]
  return %f, %c
}
",
    ),
    (
        "of matrices",
        "graph @main(%x: f32[4,8], %w: f32[8,6]) {
  %m = MatMulV2(%x, %w) : f32[4,6]
  %r = Relu(%m) : f32[4,6]
  %s = SoftmaxV2(%r) : f32[4,6]
  %t = Transpose(%s, %p) : f32[6,4]
  %p = Const() {value = dense<i64[2]: 1 0>} : i64[2]
  return %t
}
",
    ),
];

/// The sessions, each opened once.
pub struct Runs<'b> {
    pub beside: &'b Beside,
    /// Name of the plugin.
    name: String,
    guarded: Result<Session>,
    /// One session per SoC with different parameters, by name.
    socs: Vec<(String, Session)>,
}

impl<'b> Runs<'b> {
    pub fn new(beside: &'b Beside, name: &str) -> Runs<'b> {
        let mut seen = BTreeSet::new();
        let device = beside.with.device("sim");
        let names = device.map_or(Vec::new(), |d| d.info.socs.iter().map(|s| s.to_string()).collect());
        let new = |soc: &String| {
            let spec = device.and_then(|d| d.soc(soc).ok())?;
            let numbers = ge_plugin_api::device::SocSpec { name: Default::default(), ..spec };
            seen.insert(format!("{numbers:?}")).then_some(())
        };
        let mut new = new;
        let distinct: Vec<String> = names.into_iter().filter(|s| new(s).is_some()).collect();
        let socs = distinct
            .into_iter()
            .filter_map(|s| beside.session(true, Some(&s), false).ok().map(|session| (s, session)))
            .collect();
        Runs { beside, name: name.to_owned(), guarded: beside.session(true, Some("sim"), true), socs }
    }

    /// Runs one node on an engine. `everywhere`: also on all SoCs.
    pub fn sample(
        &self,
        e: &EngineHandle,
        op: &OpHandle,
        sample: &Sample,
        everywhere: bool,
    ) -> core::result::Result<Tried, String> {
        let session = self.guarded.as_ref().map_err(|e| e.to_string())?;
        if !taken(e, op, sample) {
            return Ok(Tried::NotTaken);
        }
        let Some(mine) = self.compiled(session, op.name(), e.name(), sample)? else { return Ok(Tried::InVain) };
        let shown = || show(op.name(), sample);
        let judge = self.judge(e, op, sample);
        let right = match &judge {
            Some(other) => {
                self.compiled(session, op.name(), other, sample)?.and_then(|m| Some(run(session, m, 1).ok()?.0))
            }
            None => None,
        };
        let (first, second) = match run(session, mine, 2) {
            Ok((first, second)) => (first, second),
            // If the other engine cannot compute it either, the numbers are not valid for the
            // operator.
            Err(e) if judge.is_some() && right.is_none() && !is_fault(&e) => return Ok(Tried::InVain),
            Err(e) if judge.is_none() && !is_fault(&e) => return Ok(Tried::InVain),
            Err(e) => return Err(format!("{}: {e}", shown())),
        };
        if !first.iter().zip(&second).all(|(a, b)| a.bytes() == b.bytes()) {
            return Err(format!("{}: two runs on the same inputs give other bytes", shown()));
        }
        if let Some(right) = &right
            && let Some(what) = differs(&first, right, sample)
        {
            return Err(format!("{}: {what}, {} has the other number", shown(), judge.unwrap_or_default()));
        }
        for (soc, session) in self.socs.iter().filter(|_| everywhere) {
            let Some(m) = self.compiled(session, op.name(), e.name(), sample)? else { continue };
            let (there, _) = run(session, m, 1).map_err(|e| format!("{} on {soc}: {e}", shown()))?;
            if let Some(what) = differs(&there, &first, sample) {
                return Err(format!("{}: {what} on {soc}, and the other number on sim", shown()));
            }
        }
        Ok(match right {
            Some(_) => Tried::Against(judge.unwrap_or_default()),
            None => Tried::Alone,
        })
    }

    /// Another engine that accepts the sample; preferably of another plugin, then one with the flag
    /// `AICPU`, then the cheapest.
    fn judge(&self, e: &EngineHandle, op: &OpHandle, sample: &Sample) -> Option<String> {
        let mut others: Vec<&EngineHandle> = self.beside.with.engines().iter().collect();
        others.retain(|o| o.name() != e.name() && super::runs_alone(o));
        // An engine of the same plugin may share its arithmetic, so it is the last choice.
        others.sort_by_key(|o| (o.owner().name == self.name, !o.has(flags::AICPU), o.info.cost));
        let of =
            |o: &&&EngineHandle| o.op_types().is_ok_and(|t| t.iter().any(|t| t == op.name())) && taken(o, op, sample);
        others.iter().find(of).map(|o| o.name().to_owned())
    }

    /// The sample compiled for an engine; `None` if the engine did not get the node.
    fn compiled(
        &self,
        session: &Session,
        op: &str,
        engine: &str,
        sample: &Sample,
    ) -> core::result::Result<Option<ge_model::CompiledModel>, String> {
        let Ok(model) = model(op, engine, sample) else { return Ok(None) };
        let mut options = OptionMap::default();
        let _ = options.set_pair("ge.exec.precision_mode=must_keep_origin_dtype");
        match session.compile("sample", model, &options, &Quiet) {
            // A model whose sizes are settled by the run has no tasks yet.
            Ok(c) if c.model.is_dynamic() || c.model.graphs.is_empty() => Ok(None),
            Ok(c) => {
                let at = c.model.graphs.iter().flat_map(|g| &g.nodes).find(|n| n.name == "y");
                Ok(at.is_some_and(|n| n.engine == engine).then_some(c.model))
            }
            Err(e) if is_fault(&e) => Err(format!("{}: {e}", show(op, sample))),
            Err(_) => Ok(None),
        }
    }

    /// Cancels the run of a sample while a kernel is running: the engine's kernels must end within
    /// a second.
    pub fn cancelled(&self, e: &EngineHandle, op: &OpHandle, sample: &Sample) -> core::result::Result<(), String> {
        let say = |e: Error| format!("{}: {e}", show(op.name(), sample));
        let session = self.guarded.as_ref().map_err(|e| e.to_string())?;
        let Some(mine) = self.compiled(session, op.name(), e.name(), sample)? else { return Ok(()) };
        let loaded = session.load(mine).map_err(say)?;
        let inputs = loaded.random_inputs(7).map_err(say)?;
        let said = std::thread::scope(|scope| {
            let begin = scope.spawn(|| {
                std::thread::sleep(AT_WORK);
                set_cancelled(true);
                Instant::now()
            });
            let mut last = Ok(());
            while last.is_ok() && !is_cancelled() {
                last = loaded.run(&inputs).map(drop);
            }
            let begin = begin.join().unwrap_or_else(|_| Instant::now());
            (last, begin.elapsed())
        });
        set_cancelled(false);
        match said {
            (_, time) if time > SOON => {
                let late = format!("a cancelled kernel took {:.1} s to return", time.as_secs_f32());
                Err(format!("{}: {late}", show(op.name(), sample)))
            }
            (Err(e), _) if is_fault(&e) => Err(say(e)),
            _ => Ok(()),
        }
    }

    /// Runs a graph of other plugins' operators: it must give the same numbers with and without the
    /// plugin.
    pub fn graph(&self, text: &str) -> core::result::Result<(), String> {
        let say = |e: Error| e.to_string();
        let go = |with: bool| -> Result<Vec<HostTensor>> {
            let session = self.beside.session(with, Some("sim"), false)?;
            let model = crate::session::import::parse_text("graph.ge".as_ref(), text.as_bytes())?;
            let compiled = session.compile("graph", model, &OptionMap::default(), &Quiet)?;
            Ok(run(&session, compiled.model, 1)?.0)
        };
        // If the graph fails without the plugin, it proves nothing about the plugin.
        let Ok(right) = go(false) else { return Ok(()) };
        let mine = go(true).map_err(say)?;
        let near = Sample { inputs: Vec::new(), outputs: right.len(), attrs: Default::default() };
        match differs(&mine, &right, &near) {
            Some(what) => Err(format!("{what}, without the plugin the other number")),
            None => Ok(()),
        }
    }
}

/// The node of a sample with the given outputs.
fn graph(op: &OpHandle, sample: &Sample, outputs: Vec<TensorDesc>) -> SampleGraph {
    let of = |i: &Given| match i {
        Given::Absent => None,
        Given::Data(d) => Some((d.clone(), None)),
        Given::Const(c) => Some((c.desc(), Some(c.clone()))),
    };
    let inputs = sample.inputs.iter().map(of).collect();
    SampleGraph::over(op.name(), inputs, outputs, sample.attrs.clone()).flags(op.proto.flags)
}

/// The outputs that the prototype infers; `None` if it rejects the node.
pub fn inferred(op: &OpHandle, sample: &Sample) -> Option<Vec<TensorDesc>> {
    op.infer(&graph(op, sample, vec![TensorDesc::unknown(); sample.outputs]).node()).ok()
}

/// Whether the prototype and the engine accept the sample.
fn taken(e: &EngineHandle, op: &OpHandle, sample: &Sample) -> bool {
    let Some(outputs) = inferred(op, sample) else { return false };
    let known = outputs.iter().all(TensorDesc::is_static);
    known && e.supports(&graph(op, sample, outputs).node()).is_ok_and(|s| s.takes())
}

/// The graph of a sample.
fn model(op: &str, engine: &str, sample: &Sample) -> Result<ge_ir::Model> {
    let mut b = Builder::new("main");
    let mut values = Vec::new();
    for (k, i) in sample.inputs.iter().enumerate() {
        values.push(match i {
            Given::Absent => None,
            Given::Data(d) => Some(b.input(&format!("x{k}"), d.clone())),
            Given::Const(c) => Some(b.constant(&format!("c{k}"), c.clone())),
        });
    }
    let mut node = b.node(op).name("y").attr("_engine", engine);
    for v in values {
        node = node.opt_input(v);
    }
    for a in sample.attrs.iter() {
        node = node.attr(a.key.as_str(), a.value.clone());
    }
    let outputs = node.build_n(sample.outputs);
    outputs.into_iter().enumerate().for_each(|(k, v)| b.output(&format!("y{k}"), v));
    b.build().map_err(|e| Error::failed(format!("{e:?}")))
}

/// Returns the outputs of the first run and of the last.
fn run(session: &Session, m: ge_model::CompiledModel, times: usize) -> Result<(Vec<HostTensor>, Vec<HostTensor>)> {
    let loaded = session.load(m)?;
    let inputs = loaded.random_inputs(7)?;
    let first = loaded.run(&inputs)?;
    let mut last = loaded.run(&inputs)?;
    for _ in 2..times {
        last = loaded.run(&inputs)?;
    }
    Ok((first, last))
}

/// Whether an error is a fault of the plugin; a refusal with a reason is not.
pub fn is_fault(e: &Error) -> bool {
    [ErrorKind::PLUGIN, ErrorKind::PANIC, ErrorKind::INTERNAL, ErrorKind::DEVICE].contains(&e.kind)
}

pub fn show(op: &str, sample: &Sample) -> String {
    let of = |i: &Given| match i {
        Given::Absent => "absent".to_owned(),
        Given::Data(d) => format!("{}{}", d.dtype, d.shape),
        Given::Const(c) => format!("{:?}", c.to_i64(8).unwrap_or_default()),
    };
    let inputs: Vec<String> = sample.inputs.iter().map(of).collect();
    let attrs: Vec<String> = sample.attrs.iter().map(|a| format!("{} = {:?}", a.key.as_str(), a.value)).collect();
    format!("{op}({}) {{{}}}", inputs.join(", "), attrs.join(", "))
}

fn numbers(t: &HostTensor) -> Vec<f64> {
    let whole = ConstTensor::new(t.dtype, &t.dims, Blob::copy_of(t.bytes()));
    whole.and_then(|c| c.to_f64(usize::MAX)).unwrap_or_else(|| t.bytes().iter().map(|b| f64::from(*b)).collect())
}

/// Describes the first difference that is too large for rounding in the sample's narrowest type.
pub fn differs(found: &[HostTensor], right: &[HostTensor], sample: &Sample) -> Option<String> {
    let narrow = |t: DType| matches!(t, DType::F16 | DType::BF16);
    let of = |i: &Given| if let Given::Data(d) = i { narrow(d.dtype) } else { false };
    let half = sample.inputs.iter().any(of) || right.iter().any(|t| narrow(t.dtype));
    let whole = if half { 5e-2 } else { 2e-3 };
    for (k, (a, b)) in found.iter().zip(right).enumerate() {
        if (a.dtype, &a.dims) != (b.dtype, &b.dims) {
            return Some(format!("output {k} is {}{:?}, it should be {}{:?}", a.dtype, a.dims, b.dtype, b.dims));
        }
        let (x, y) = (numbers(a), numbers(b));
        let most = y.iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
        // Integers computed with rounding may differ by one.
        let step = if a.dtype.is_int() && half { 1.0 } else { 0.0 };
        let near = |x: f64, y: f64| {
            x == y
                || (x.is_nan() && y.is_nan())
                || (x - y).abs() <= step + if a.dtype.is_int() { 0.0 } else { whole * most }
        };
        if let Some(at) = x.iter().zip(&y).position(|(x, y)| !near(*x, *y)) {
            return Some(format!("element {at} of output {k} is {} and not {}", x[at], y[at]));
        }
    }
    None
}
