//! Handles of what plugins provide. Every error of a call names the plugin and the call. Results
//! are checked against what was asked, so that wrong answers of a plugin are found at the interface
//! and not where they are used.
use crate::devices::OpenDevice;
use crate::kernels;
use crate::owner::Owner;
use crate::services::{Offer, with_offer};
use crate::tasks::{self, Broken, Granted};
use crate::watch::{self, Call};
use ge_plugin_api::device::{DeviceInfo, DeviceObject, DeviceTask, ModelObject, SocSpec};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::engine::{
    EngineInfo, EngineObject, Hook, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, Variant,
};
use ge_plugin_api::frontend::{FileRef, FrontendObject, ImportOptions, RelativeFiles};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::ops::{OpProto, OpSetObject, ParamKind};
use ge_plugin_api::pass::{PassInfo, PassObject};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::range::Range;
use ge_plugin_api::task::{ContextType, Task};
use ge_plugin_api::types::{AttrMap, DType, TensorDesc};
use ge_plugin_api::view::{Graph, Node};
use ge_plugin_api::{Error, Result};
use std::fmt;
use std::sync::Arc;

macro_rules! handle {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $vis:vis $field:ident: $t:ty),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone)]
        pub struct $name {
            pub(crate) owner: Arc<Owner>,
            /// Position of its plugin in `Registry::plugins`.
            pub plugin: usize,
            $($(#[$fm])* $vis $field: $t,)*
        }
        impl $name {
            /// The plugin behind this handle.
            pub fn owner(&self) -> &Owner {
                &self.owner
            }
        }
    };
}

handle! {
    /// An engine.
    EngineHandle {
        /// What the engine says of itself.
        pub info: EngineInfo,
        /// Whether `plugins.toml` excludes it. An excluded engine is given no nodes, but it still
        /// runs the tasks that an OM assigns to it.
        pub excluded: bool,
        pub(crate) object: &'static EngineObject,
    }
}
handle! {
    /// An operator prototype.
    OpHandle {
        /// The prototype.
        pub proto: Arc<OpProto>,
        pub(crate) set: &'static OpSetObject,
        pub(crate) index: usize,
    }
}
handle! {
    /// A front end.
    FrontendHandle {
        /// Name of the framework.
        pub framework: String,
        pub(crate) object: &'static FrontendObject,
        pub(crate) offer: Arc<Offer>,
    }
}
handle! {
    /// A pass.
    PassHandle {
        /// What the pass says of itself.
        pub info: PassInfo,
        pub(crate) object: &'static PassObject,
    }
}
handle! {
    /// A device library.
    DeviceHandle {
        /// What the device library says of itself.
        pub info: DeviceInfo,
        pub(crate) object: &'static DeviceObject,
    }
}

impl fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine {} of {}", self.info.name, self.owner)
    }
}
impl fmt::Debug for OpHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {} of {}", self.proto.name, self.owner)
    }
}
impl fmt::Debug for FrontendHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "front end {} of {}", self.framework, self.owner)
    }
}
impl fmt::Debug for PassHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pass {} of {}", self.info.name, self.owner)
    }
}
impl fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} of {}", self.info.name, self.owner)
    }
}

impl EngineHandle {
    /// Name of the engine.
    pub fn name(&self) -> &str {
        &self.info.name
    }
    /// Whether it has all the given flags ([`ge_plugin_api::engine::flags`]).
    pub fn has(&self, flags: u64) -> bool {
        self.info.flags & flags == flags
    }
    fn watched<T>(&self, call: &str, node: &str, op: &str, f: impl FnOnce() -> T) -> T {
        watch::call(&Call { plugin: &self.owner.name, part: &self.info.name, call, node, op }, f)
    }
    fn call<T>(&self, call: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.call_for(call, "", "", f)
    }
    fn call_for<T>(&self, call: &str, node: &str, op: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.watched(call, node, op, f).map_err(|e| self.owner.named(&format!("{}.{call}", self.info.name), e))
    }
    fn node_call<T>(&self, call: &str, node: &Node<'_>, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.call_for(call, node.name(), node.op(), f).map_err(|e| e.at_node(node.name(), node.op()))
    }
    fn lie(
        &self,
        call: &str,
        node: &Node<'_>,
        what: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        self.owner
            .lies(&format!("{}.{call}", self.info.name), what, found, expected)
            .node(node.name(), node.op())
            .of(ErrorKind::PLUGIN)
    }
    /// Operator types in its op store.
    pub fn op_types(&self) -> Result<Vec<String>> {
        self.call("op_types", || self.object.op_types())
    }
    /// Whether it takes a node, and if not, why. A refusal without a reason gets a default reason.
    pub fn supports(&self, node: &Node<'_>) -> Result<Support> {
        Ok(match self.node_call("supports", node, || self.object.supports(node))? {
            Support::No(why) if why.trim().is_empty() => Support::no("gave no reason"),
            s => s,
        })
    }
    /// The edits that its graph optimizer records at a hook.
    pub fn optimize(&self, hook: Hook, graph: &Graph<'_>) -> Result<Vec<Edit>> {
        self.watched("optimize", graph.name(), "", || self.object.optimize(hook, graph))
            .map_err(|e| self.owner.named(&format!("{}.{hook}", self.info.name), e))
    }
    /// Types and formats that it offers for a node; empty if it takes the node only as it is.
    pub fn variants(&self, node: &Node<'_>, target: &Target) -> Result<Vec<Variant>> {
        let v = self.node_call("variants", node, || self.object.variants(node, target))?;
        let (i, o) = (node.inputs().len(), node.outputs().len());
        for x in &v {
            let found = (x.input_types.len(), x.input_formats.len(), x.output_types.len(), x.output_formats.len());
            if found != (i, i, o, o) {
                return Err(self.lie(
                    "variants",
                    node,
                    "a variant has other numbers of inputs and outputs than the node",
                    format!("{found:?}"),
                    format!("{:?}", (i, i, o, o)),
                ));
            }
        }
        Ok(v)
    }
    /// The output sizes, workspaces, streams and sync resources that a node needs.
    pub fn calc_op_running_param(&self, node: &Node<'_>, target: &Target) -> Result<RunningParams> {
        const CALL: &str = "calc_op_running_param";
        let p = self.node_call(CALL, node, || self.object.calc_op_running_param(node, target))?;
        tasks::workspaces(&p, &target.soc).map_err(|broken| self.breaks(node, CALL, &broken))?;
        let outputs = node.outputs();
        for (n, what) in [(p.output_bytes.len(), "sizes of outputs"), (p.inplace.len(), "in-place outputs")] {
            if n != 0 && n != outputs.len() {
                return Err(self.lie(CALL, node, what, n.to_string(), format!("0 or {}", outputs.len())));
            }
        }
        for (k, (said, d)) in p.output_bytes.iter().zip(outputs).enumerate() {
            let need = d.data_bytes().unwrap_or(0);
            if *said != 0 && *said < need {
                let what = format!("output {k} is too small for its type and shape");
                return Err(self.lie(CALL, node, &what, format!("{said} bytes"), format!("{need} bytes")));
            }
        }
        for (k, i) in p.inplace.iter().enumerate() {
            if *i >= 0 && usize::try_from(*i).is_ok_and(|i| node.input(i).is_none()) {
                let what = format!("output {k} lies in an input that the node does not have");
                return Err(self.lie(CALL, node, &what, i.to_string(), format!("below {}", node.inputs().len())));
            }
        }
        Ok(p)
    }
    /// Compiles the node's kernel; `None` if the node needs none.
    pub fn compile(&self, node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
        let k = self.node_call("compile", node, || self.object.compile(node, target))?;
        if k.as_ref().is_some_and(|k| k.name.is_empty()) {
            return Err(self.lie("compile", node, "a kernel without a name", "an empty name", "a name"));
        }
        Ok(k)
    }
    /// Generates the node's task list, without checking it.
    pub fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        self.node_call("generate_task", node, || self.object.generate_task(node, context))
    }
    /// Generates the node's task list and checks it against the rules of task lists.
    pub fn tasks(&self, node: &Node<'_>, context: &TaskContext, has: &Granted<'_>) -> Result<Vec<Task>> {
        let tasks = self.generate_task(node, context)?;
        self.check_tasks(node, &tasks, has)?;
        Ok(tasks)
    }
    /// Checks a task list from this engine against the rules of task lists.
    ///
    /// # Errors
    /// Returns the broken rule and blames engine and plugin (GE-E0522, exit 5).
    pub fn check_tasks(&self, node: &Node<'_>, list: &[Task], has: &Granted<'_>) -> Result<()> {
        tasks::check(list, has).map_err(|broken| self.breaks(node, "generate_task", &broken))
    }
    fn breaks(&self, node: &Node<'_>, call: &str, broken: &Broken) -> Error {
        let (name, owner) = (&self.info.name, &self.owner);
        let remedy = format!(
            "the engine's author: {}; until then `exclude_engines = [\"{name}\"]` at plugin `{}` in plugins.toml leaves the engine out",
            broken.rule.remedy(),
            owner.name
        );
        Diagnostic::error(format!("engine {name} of {owner}: {broken}"))
            .node(node.name(), node.op())
            .subject(call)
            .help(remedy)
            .raise(ge_codes::TASK_RULES)
    }
    /// Lets the engine make final changes to the node's tasks; their number must not change.
    pub fn update_task(&self, node: &Node<'_>, tasks: Vec<Task>) -> Result<Vec<Task>> {
        let n = tasks.len();
        let t = self.node_call("update_task", node, || self.object.update_task(node, tasks))?;
        if t.len() != n {
            return Err(self.lie("update_task", node, "another number of tasks", t.len().to_string(), n.to_string()));
        }
        Ok(t)
    }
    /// Estimated run time of the node in ns; 0 if unknown.
    pub fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        self.watched("time_ns", node.name(), node.op(), || self.object.time_ns(node, soc))
    }
    /// Number of arithmetic operations of the node's kernel; 0 if unknown.
    pub fn operations(&self, node: &Node<'_>) -> Result<u64> {
        self.node_call("operations", node, || self.object.operations(node))
    }
    /// Alternative ways in which the node's kernel may divide its work.
    pub fn schedules(&self, node: &Node<'_>) -> Result<Vec<String>> {
        self.node_call("schedules", node, || self.object.schedules(node))
    }
    /// The kind of cores that the node's kernel runs on.
    pub fn core(&self, node: &Node<'_>) -> Result<ContextType> {
        let core = self.node_call("core", node, || self.object.core(node))?;
        if !core.is_kernel() {
            return Err(self.lie(
                "core",
                node,
                "cores that no kernel runs on",
                core.to_string(),
                "AICORE, AIV, MIX_AIC or MIX_AIV",
            ));
        }
        Ok(core)
    }
    /// Operators with a tiling function, and where each runs.
    pub fn tilings(&self) -> Result<Vec<(String, String)>> {
        self.call("tilings", || self.object.tilings())
    }
    /// Loads a task onto a device model. `index` is its position in the model; `resolved` is the
    /// task as the host resolved it. Its kernels run guarded: errors in one name the plugin,
    /// engine, kernel, node and task.
    pub fn load_task(
        &self,
        request: &LoadRequest,
        index: usize,
        device: &ModelObject,
        resolved: DeviceTask,
    ) -> Result<()> {
        let load = |m: &ModelObject| {
            self.call_for("load_task", &request.node, &request.op, || self.object.load_task(request, m.sink(resolved)))
        };
        kernels::lend(&self.owner, &self.info.name, request, index, device, load)
            .map_err(|e| e.at_node(&request.node, &request.op))
    }
    /// Whether the engine has a host kernel for an operator.
    pub fn has_host_kernel(&self, op: &str) -> bool {
        self.watched("has_host_kernel", "", "", || self.object.has_host_kernel(op))
    }
    /// Runs a host kernel, which allocates its outputs of the given types.
    pub fn run_host_kernel(
        &self,
        op: &str,
        node: &str,
        attrs: &AttrMap,
        inputs: &[Option<TensorView<'_>>],
        outputs: &[DType],
    ) -> Result<Vec<HostTensor>> {
        const CALL: &str = "run_host_kernel";
        let run = || self.object.run_host_kernel(op, node, attrs, inputs, outputs);
        let made = self.call_for(CALL, node, op, run).map_err(|e| e.at_node(node, op))?;
        let call = format!("{}.{CALL}", self.info.name);
        let lie = |what: String, found: String, expected: String| {
            Err(self.owner.lies(&call, what, found, expected).node(node, op).of(ErrorKind::PLUGIN))
        };
        if made.len() != outputs.len() {
            return lie("another number of outputs".into(), made.len().to_string(), outputs.len().to_string());
        }
        for (k, (t, want)) in made.iter().zip(outputs).enumerate() {
            if t.dtype != *want && *want != DType::UNKNOWN {
                return lie(format!("output {k} is of another type"), t.dtype.to_string(), want.to_string());
            }
        }
        Ok(made)
    }
}

impl OpHandle {
    /// The error for the first input whose type the prototype does not accept, if there is one.
    fn wrong_input(&self, node: &Node<'_>) -> Option<Error> {
        let dynamic = self.proto.inputs.iter().any(|s| s.kind == ParamKind::DYNAMIC);
        let specs = self.proto.inputs.iter().enumerate().filter(|_| !dynamic);
        let (k, s, found) = specs
            .filter_map(|(k, s)| Some((k, s, node.input_desc(k)?.dtype)))
            .find(|(_, s, d)| *d != DType::UNKNOWN && !s.types.is_empty() && !s.types.contains(d))?;
        let types: Vec<&str> = s.types.iter().map(|t| t.name()).collect();
        let (name, op) = (node.name(), node.op());
        let e = Diagnostic::error(format!("`{name}` ({op}) takes no {found}"))
            .code(ge_codes::NO_PROTOTYPE)
            .node(name, op)
            .subject(format!("input {k} `{}`", s.name))
            .found(found.name(), types.join(", "))
            .help("change the type in the model, by a Cast in front of the node");
        Some(e.of(ErrorKind::UNSUPPORTED))
    }
    /// Operator type.
    pub fn name(&self) -> &str {
        &self.proto.name
    }
    /// Infers the outputs of a node. Checks that the prototype allows their number, that they cover
    /// the node's own outputs, and that the prototype allows their types.
    pub fn infer(&self, node: &Node<'_>) -> Result<Vec<TensorDesc>> {
        let call = || format!("infer of {}", self.proto.name);
        let at = Call { plugin: &self.owner.name, part: "", call: "infer", node: node.name(), op: node.op() };
        let out = watch::call(&at, || self.set.infer(self.index, node))
            .map_err(|e| self.owner.named(&call(), e).at_node(node.name(), node.op()))?;
        let lie = |what: String, found: String, expected: String| {
            Err(self.owner.lies(&call(), what, found, expected).node(node.name(), node.op()).of(ErrorKind::PLUGIN))
        };
        let specs = &self.proto.outputs;
        let required = specs.iter().filter(|s| s.kind == ParamKind::REQUIRED).count();
        let dynamic = specs.iter().any(|s| s.kind == ParamKind::DYNAMIC);
        let least = required.max(node.outputs().len());
        if out.len() < least || (!dynamic && out.len() > specs.len()) {
            let expected = match (dynamic, least == specs.len()) {
                (true, _) => format!("at least {least}"),
                (false, true) => least.to_string(),
                (false, false) => format!("{least} to {}", specs.len()),
            };
            return lie("another number of outputs".into(), out.len().to_string(), expected);
        }
        if !dynamic {
            for (k, (d, s)) in out.iter().zip(specs.iter()).enumerate() {
                if d.dtype != DType::UNKNOWN && !s.types.is_empty() && !s.types.contains(&d.dtype) {
                    // If an input has a type that the operator does not accept, the result is not
                    // the plugin's fault.
                    if let Some(e) = self.wrong_input(node) {
                        return Err(e);
                    }
                    let types: Vec<&str> = s.types.iter().map(|t| t.name()).collect();
                    return lie(
                        format!("output {k} is of a type that the prototype excludes"),
                        d.dtype.to_string(),
                        types.join(", "),
                    );
                }
            }
        }
        Ok(out)
    }
    /// Value ranges of a node's outputs if its inputs stay within theirs; `None` if the prototype
    /// does not say.
    pub fn ranges(&self, node: &Node<'_>, inputs: &[Range]) -> Result<Option<Vec<Range>>> {
        let call = || format!("ranges of {}", self.proto.name);
        let at = Call { plugin: &self.owner.name, part: "", call: "ranges", node: node.name(), op: node.op() };
        let said = watch::call(&at, || self.set.ranges(self.index, node, inputs))
            .map_err(|e| self.owner.failed(&call(), e).at_node(node.name(), node.op()))?;
        match said {
            Some(r) if r.len() < node.outputs().len() => {
                let (found, expected) = (r.len().to_string(), format!("at least {}", node.outputs().len()));
                let lie = self.owner.lies(&call(), "too few ranges", found, expected);
                Err(lie.node(node.name(), node.op()).of(ErrorKind::PLUGIN))
            }
            said => Ok(said),
        }
    }
}

impl FrontendHandle {
    fn at<'a>(&'a self, call: &'a str) -> Call<'a> {
        Call { plugin: &self.owner.name, part: &self.framework, call, ..Call::default() }
    }
    /// Whether a file belongs to this framework.
    pub fn recognises(&self, file: &FileRef) -> bool {
        watch::call(&self.at("recognises"), || self.object.recognises(file))
    }
    /// Imports a file and returns the edits that build its graphs. During the import, the front end
    /// sees the mappings and prototypes of this registry.
    pub fn import(&self, file: &FileRef, options: &ImportOptions, files: &dyn RelativeFiles) -> Result<Vec<Edit>> {
        with_offer(&self.offer, || watch::call(&self.at("import"), || self.object.import(file, options, files)))
            .map_err(|e| self.owner.named(&format!("import of `{}`", file.path), e))
    }
}

impl PassHandle {
    /// Name of the pass.
    pub fn name(&self) -> &str {
        &self.info.name
    }
    /// The edits that it records for a graph. Every error except a cancellation counts as a failure
    /// of the plugin (exit 5).
    pub fn run(&self, graph: &Graph<'_>) -> Result<Vec<Edit>> {
        let at = Call { plugin: &self.owner.name, part: &self.info.name, call: "run", node: graph.name(), op: "" };
        watch::call(&at, || self.object.run(graph))
            .map_err(|e| self.owner.failed(&format!("pass {}", self.info.name), e))
    }
}

impl DeviceHandle {
    fn at<'a>(&'a self, call: &'a str) -> Call<'a> {
        Call { plugin: &self.owner.name, part: &self.info.name, call, ..Call::default() }
    }
    /// Name of the device library.
    pub fn name(&self) -> &str {
        &self.info.name
    }
    fn named<T>(&self, call: &str, r: Result<T>) -> Result<T> {
        r.map_err(|e| self.owner.named(&format!("{}.{call}", self.info.name), e))
    }
    /// The description of a SoC, by name.
    pub fn soc(&self, name: &str) -> Result<SocSpec> {
        self.named("soc", watch::call(&self.at("soc"), || self.object.soc(name)))
    }
    /// The description of a SoC, from the text of its file.
    pub fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec> {
        self.named("soc_from_text", watch::call(&self.at("soc_from_text"), || self.object.soc_from_text(file, text)))
    }
    /// Opens a device.
    pub fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<OpenDevice> {
        let context = self.named("open", watch::call(&self.at("open"), || self.object.open(id, soc, options)))?;
        Ok(OpenDevice::new(self.owner.clone(), self.name(), context))
    }
}
