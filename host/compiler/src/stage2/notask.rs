//! Shared by `ConcatNotaskPass` and `PackNotaskPass`: the chain of checks in the order of document
//! 000, 4.2 and facts 6, one function per check, where the first failure is recorded as the reason,
//! and the attributes of 000, 3.1.
use crate::feature::control_flow::lower::REF_INPUT;
use crate::feature::shared_memory::Rules;
use crate::feature::shared_memory::memory_type::memory_of;
use crate::pass::PassContext;
use ge_ir::{DType, Graph, Model, Node, TensorDesc, ValueRef};
use ge_plugin_api::ops::IN_PLACE;
use ge_plugin_api::patch::{Edit, Patch};
use std::collections::HashSet;

/// Attribute that locks a producer's output descriptor.
pub const LOCK: &str = "can_reused_for_concat_optimize";
/// Maximum length of a chain of views that is followed.
const DEPTH: usize = 100;

/// The reason why a node keeps its task.
pub type Refusal = String;

/// The differences between concat and pack.
pub trait Kind {
    /// Operator types.
    fn ops(&self) -> &'static [&'static str];
    /// The check `CheckFormat`.
    fn check_format(&self, g: &Graph, n: &Node) -> Result<(), Refusal>;
    /// The check `CheckDim`.
    fn check_dim(&self, g: &Graph, n: &Node) -> Result<(), Refusal>;
}

/// Runs the chain on every node of the root graph.
pub fn run(kind: &dyn Kind, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Vec<Edit> {
    // Only the given graph's own nodes are visited, not those of subgraphs (facts 6).
    if gi != 0 {
        return Vec::new();
    }
    let g = &model.graphs()[gi];
    let mut patch = Patch::starting_at(g.next_id());
    let mut chain = Chain { g, locked: HashSet::new(), marked: HashSet::new() };
    for n in g.nodes().filter(|n| kind.ops().contains(&n.op())) {
        cx.visits += 1;
        match chain.check(kind, cx, n) {
            Ok(sources) => {
                for a in ["_no_task", "_nopadding_continuous_input", "_output_reuse_input"] {
                    patch.set_attr(n.id(), a, true);
                }
                patch.set_attr(n.id(), "_reuse_input_on_dim_index", 0i64);
                for v in sources {
                    if let Some(d) = g.desc(v) {
                        let mut d: TensorDesc = d.clone();
                        d.attrs.set(LOCK, false);
                        patch.push(Edit::SetOutput(v.node, v.output, d));
                    }
                    chain.locked.insert(v);
                }
                chain.marked.insert(n.id());
                cx.changes += 1;
            }
            Err(why) => cx.refuse(n.name(), why),
        }
    }
    patch.into_edits().into()
}

struct Chain<'g> {
    g: &'g Graph,
    /// Outputs of producers that this run has locked.
    locked: HashSet<ValueRef>,
    /// Nodes that this run has marked.
    marked: HashSet<ge_ir::NodeId>,
}

impl Chain<'_> {
    /// Runs the whole chain. Returns the producers' outputs that the node would take over.
    fn check(&self, kind: &dyn Kind, cx: &PassContext<'_>, n: &Node) -> Result<Vec<ValueRef>, Refusal> {
        if n.attrs().flag("_no_task") {
            return Err("it is without a task already".into());
        }
        self.scene()?;
        self.known_shapes(n)?;
        self.known_graph()?;
        let sources = self.inputs(cx, n)?;
        kind.check_format(self.g, n)?;
        kind.check_dim(self.g, n)?;
        self.outputs(cx, n)?;
        self.lx_fusion(n)?;
        Ok(sources)
    }

    /// 4.2.1: single operators, and discontiguous memory.
    fn scene(&self) -> Result<(), Refusal> {
        if self.g.attrs().flag("_single_op_scene") {
            return Err("the graph is a single operator".into());
        }
        if self.g.attrs().flag("_memory_discontiguous_allocation") {
            return Err("the graph's memory is not allocated in one run".into());
        }
        Ok(())
    }
    /// 4.2.1: unknown shapes of the node.
    fn known_shapes(&self, n: &Node) -> Result<(), Refusal> {
        for (i, v) in n.inputs().iter().enumerate() {
            if !self.g.desc(*v).is_some_and(|d| d.shape.is_static()) {
                return Err(format!("the shape of input {i} is not known"));
            }
        }
        if n.outputs().iter().any(|d| !d.shape.is_static()) {
            return Err("the shape of its output is not known".into());
        }
        Ok(())
    }
    /// 4.2.1: the graph has unknown shapes.
    fn known_graph(&self) -> Result<(), Refusal> {
        if self.g.attrs().flag("_dynamic_shape_partitioned") {
            return Err("the graph is partitioned by dynamic shapes".into());
        }
        Ok(())
    }

    /// 4.2.2: runs all checks on each input, in order.
    fn inputs(&self, cx: &PassContext<'_>, n: &Node) -> Result<Vec<ValueRef>, Refusal> {
        let mut sources: Vec<ValueRef> = Vec::with_capacity(n.inputs().len());
        let mut met = HashSet::with_capacity(n.inputs().len());
        if n.inputs().is_empty() {
            return Err("it has no inputs".into());
        }
        for (i, &v) in n.inputs().iter().enumerate() {
            let Some(d) = self.g.desc(v) else { return Err(format!("input {i} is absent")) };
            is_scalar(i, d)?;
            is_aligned(i, d, n.inputs().len())?;
            let source = self.source(cx, v);
            if !met.insert(source) {
                return Err(format!("input {i} comes from the same output as another input"));
            }
            let Some(p) = self.g.get(source.node) else { return Err(format!("input {i} has no producer")) };
            valid_type(i, p)?;
            no_subgraph(i, p)?;
            self.not_locked(i, source)?;
            self.not_model_output(cx, i, source)?;
            self.valid_attrs(cx, i, p)?;
            sources.push(source);
        }
        self.same_memory(&sources)?;
        Ok(sources)
    }
    /// The output that provides a value's memory, found through views.
    fn source(&self, cx: &PassContext<'_>, mut v: ValueRef) -> ValueRef {
        for _ in 0..DEPTH {
            match self.g.get(v.node) {
                Some(n) if v.output == 0 && rules(cx).is_view(n) => match n.input(0) {
                    Some(up) => v = up,
                    None => break,
                },
                _ => break,
            }
        }
        v
    }
    fn not_locked(&self, i: usize, v: ValueRef) -> Result<(), Refusal> {
        let by_attr = self.g.desc(v).is_some_and(|d| d.attrs.bool(LOCK) == Some(false));
        if by_attr || self.locked.contains(&v) {
            return Err(format!("input {i} is taken by another node without a task"));
        }
        Ok(())
    }
    /// Fails if a value, itself or through views, is also a model output.
    fn not_model_output(&self, cx: &PassContext<'_>, i: usize, v: ValueRef) -> Result<(), Refusal> {
        let mut todo = vec![v];
        let mut seen = 0;
        while let Some(v) = todo.pop() {
            for u in self.g.users(v) {
                let Some(r) = self.g.get(u.node) else { continue };
                if r.op() == "NetOutput" {
                    return Err(format!("input {i} is a model output too"));
                }
                if u.input == 0 && rules(cx).is_view(r) && seen < DEPTH {
                    seen += 1;
                    todo.push(r.value(0));
                }
            }
        }
        Ok(())
    }
    fn valid_attrs(&self, cx: &PassContext<'_>, i: usize, p: &Node) -> Result<(), Refusal> {
        let say = |what: &str| Err(format!("the producer of input {i}, `{}`, {what}", p.name()));
        let a = p.attrs();
        if a.flag("continuous_input") {
            return say("has continuous inputs");
        }
        if a.flag("continuous_output") {
            return say("has continuous outputs");
        }
        if rules(cx).is_reference(p) || p.attr(REF_INPUT).is_some() || p.attrs().flag(IN_PLACE) {
            return say("writes into its input");
        }
        if a.ints("atomic_output_index").is_some_and(|l| !l.is_empty()) {
            return say("has an atomic output");
        }
        if is_virtual(p) || self.marked.contains(&p.id()) {
            return say("has no task");
        }
        Ok(())
    }
    fn same_memory(&self, sources: &[ValueRef]) -> Result<(), Refusal> {
        let mut kinds = sources.iter().map(|v| self.memory_of(*v));
        let Some(first) = kinds.next() else { return Ok(()) };
        match kinds.find(|k| *k != first) {
            Some(other) => Err(format!("its inputs lie in {first} and in {other} memory")),
            None => Ok(()),
        }
    }
    fn memory_of(&self, v: ValueRef) -> String {
        let Some(n) = self.g.get(v.node) else { return "HBM".into() };
        memory_type(n, v.output as usize)
    }

    /// 4.2.4: no successor may be without a task already; views are looked through.
    fn outputs(&self, cx: &PassContext<'_>, n: &Node) -> Result<(), Refusal> {
        let mut todo = vec![n.value(0)];
        for _ in 0..DEPTH {
            let Some(v) = todo.pop() else { break };
            for u in self.g.users(v) {
                let Some(r) = self.g.get(u.node) else { continue };
                if is_virtual(r) || self.marked.contains(&r.id()) {
                    return Err(format!("its reader `{}` has no task", r.name()));
                }
                if u.input == 0 && rules(cx).is_view(r) {
                    todo.push(r.value(0));
                }
            }
        }
        Ok(())
    }

    /// 4.2.5: no on-chip memory, and no `lxslice` in the name of the node or of a neighbour.
    fn lx_fusion(&self, n: &Node) -> Result<(), Refusal> {
        let near = n
            .inputs()
            .iter()
            .map(|v| v.node)
            .chain(n.outputs().iter().enumerate().flat_map(|(k, _)| n.uses(k).iter().map(|u| u.node)));
        for v in n.inputs() {
            let m = self.memory_of(*v);
            if matches!(m.as_str(), "L1" | "L2" | "UB") {
                return Err(format!("an input lies in {m} memory"));
            }
        }
        let m = memory_type(n, 0);
        if matches!(m.as_str(), "L1" | "L2" | "UB") {
            return Err(format!("its output lies in {m} memory"));
        }
        let lx = |n: &Node| n.name().contains("lxslice");
        if lx(n) {
            return Err("it is part of an LxFusion slice".into());
        }
        for id in near {
            if let Some(r) = self.g.get(id).filter(|r| lx(r)) {
                return Err(format!("its neighbour `{}` is part of an LxFusion slice", r.name()));
            }
        }
        Ok(())
    }
}

fn rules<'t>(cx: &PassContext<'t>) -> Rules<'t> {
    Rules::new(cx.toolbox)
}
fn is_scalar(i: usize, d: &TensorDesc) -> Result<(), Refusal> {
    if d.origin_shape().rank() == Some(0) { Err(format!("input {i} is a scalar")) } else { Ok(()) }
}
fn is_aligned(i: usize, d: &TensorDesc, count: usize) -> Result<(), Refusal> {
    match d.data_bytes() {
        _ if count == 1 => Ok(()),
        Some(b) if b > 0 && b % 32 == 0 => Ok(()),
        Some(b) => Err(format!("input {i} has {b} bytes, not a multiple of 32")),
        None => Err(format!("the size of input {i} is not known")),
    }
}
fn valid_type(i: usize, p: &Node) -> Result<(), Refusal> {
    if matches!(p.op(), "Data" | "RefData" | "AippData" | "Variable" | "Constant" | "Const" | "FileConstant") {
        return Err(format!("input {i} comes from `{}` ({})", p.name(), p.op()));
    }
    Ok(())
}
fn no_subgraph(i: usize, p: &Node) -> Result<(), Refusal> {
    if p.subgraphs().is_empty() {
        Ok(())
    } else {
        Err(format!("the producer of input {i}, `{}`, has a subgraph", p.name()))
    }
}
/// Whether a node has an attribute of nodes without a task, in either spelling (DESIGN 7).
fn is_virtual(n: &Node) -> bool {
    ["_no_task", "_output_reuse_input", "_nopadding_continuous_input", "_no_padding_continuous_input"]
        .iter()
        .any(|a| n.attrs().flag(*a))
}
/// Memory type of an output; HBM if none is given.
fn memory_type(n: &Node, k: usize) -> String {
    memory_of(n, k).unwrap_or_else(|| "HBM".into())
}

/// 4.2.3 for one input of a concat along an axis of the original shape.
pub fn check_axis(d: &TensorDesc, axis: i64) -> Result<(), Refusal> {
    use ge_plugin_api::types::format;
    let (origin, dims) = (d.origin_format(), d.origin_shape());
    let rank = dims.rank().ok_or("its rank is not known")?;
    let sizes = dims.sizes().ok_or("an original size is not known")?;
    let Some(axis) = dims.axis(axis) else { return Err(format!("axis {axis} is not one of {rank}")) };
    let undefined = || format!("axis {axis} of {origin} has no place in {}", d.format);
    let mapped = |a: usize| format::axis_mapping(origin, rank, a, d.format);
    let real = *mapped(axis).ok_or_else(undefined)?.first().ok_or_else(undefined)?;
    let unit = aligned_unit(d.dtype, origin, rank, d.format).ok_or_else(undefined)?;
    let running = d.shape.sizes().ok_or("a run-time size is not known")?;
    if let Some(at) = running.iter().take(real).position(|s| *s != 1) {
        return Err(format!("axis {at} before the concat axis has size {}", running[at]));
    }
    // Other original axes may be merged into the same run-time axis. Those before the concat axis
    // must have size 1 (4.2.3).
    let mut members: Vec<usize> = (0..rank).filter(|a| mapped(*a).is_some_and(|m| m.first() == Some(&real))).collect();
    members.sort_by_key(|a| merge_rank(origin, rank, *a));
    for &m in members.iter().take_while(|m| **m != axis) {
        if sizes[m] != 1 {
            return Err(format!("original axis {m} before the concat axis has size {}", sizes[m]));
        }
    }
    if sizes[axis] % unit[axis].max(1) != 0 {
        return Err(format!("the concat axis has size {}, padded to a multiple of {}", sizes[axis], unit[axis]));
    }
    Ok(())
}

fn aligned_unit(t: DType, origin: ge_ir::Format, rank: usize, to: ge_ir::Format) -> Option<Vec<u64>> {
    ge_plugin_api::types::format::axis_alignment(origin, rank, to, t)
}

/// Rank of an axis among those merged into one: batch, channels, height, width in four-dimensional
/// formats; otherwise the axis itself.
fn merge_rank(origin: ge_ir::Format, rank: usize, axis: usize) -> usize {
    use ge_ir::Format;
    let letters = match origin {
        Format::NHWC => "NHWC",
        Format::HWCN => "HWCN",
        _ => "NCHW",
    };
    if rank != 4 {
        return axis;
    }
    let letter = letters.as_bytes().get(axis).copied().unwrap_or(b'N');
    b"NCHW".iter().position(|l| *l == letter).unwrap_or(axis)
}
