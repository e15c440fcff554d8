//! `MultiBatchClonePass`: turns a model that is to run at several sizes into a `Case` with one
//! graph for each (gears).
//!
//! Before: `graph @main(%x: f32[b,3]) attributes {_gear_dims = ["b"], _gears = [[1], [4]]} { … }`
//! After: `graph @main(%x: f32[4,3], %ascend_mbatch_shape_data: i32[1]) { %i = MapIndex(%ascend_mbatch_shape_data, %table)
//! %c = Case(%i, %x) {_batch_num = 2, branches = [@main_ascend_mbatch_batch_0, @main_ascend_mbatch_batch_1]} … }`
//! When: the root graph names its gears, and each of them sets every unknown size of the inputs.
//! Refuses: inputs with memory that the model writes to; sizes of inputs that no gear sets (an
//! error, because nothing could be planned).
//! Keeps: inputs and outputs with their names; a node `n` becomes `n_ascend_mbatch_batch_<i>` in
//! the branch of gear i.
//! Source: 003 §8, facts 4.3 and 8.7. Cost: the nodes of the model for each gear; constants are
//! shared.
use crate::error::{CompileError, Result};
use crate::pass::PassContext;
use crate::pass::declare::graph_pass;
use ge_codes::Code;
use ge_ir::{AttrValue, ConstTensor, DType, Dim, Graph, Model, Node, NodeId, Shape, TensorDesc, ValueRef};
use ge_model::gears::{self, BATCH_NUM, OPEN, SELECTOR, SUFFIX, VIEW};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::AttrMap;
use ge_plugin_api::types::tensor::Container;
use std::collections::HashMap;

graph_pass!(
    MultiBatchClonePass,
    O0,
    "a root graph with gears -> `MapIndex` and a `Case` over one graph of known shapes for each gear",
    needs "gears that leave no size of an input open",
    keeps "inputs and outputs with their names; weights, which all gears share",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let root = &model.graphs()[gi];
    let Some((names, values)) = gears::wanted(root.attrs()).filter(|_| gi == 0) else { return Ok(Vec::new()) };
    if root.find(SELECTOR).is_some() {
        cx.refuse(SELECTOR, "the gears are there already");
        return Ok(Vec::new());
    }
    let c = Clone { model, root, names: &names, values: &values };
    c.check()?;
    let mut p = Patch::starting_at(root.next_id());
    // Graphs are removed before new ones are made.
    c.choice(&mut p, &(0..values.len()).map(|i| named(root.name(), i)).collect::<Vec<_>>());
    for g in model.graphs().iter().skip(1).rev() {
        p.push(Edit::RemoveGraph(g.name().into()));
    }
    (0..values.len()).for_each(|i| c.branch(&mut p, i));
    for g in model.graphs().iter().skip(1) {
        (0..values.len()).for_each(|i| c.subgraph(&mut p, g, i));
    }
    cx.changes += values.len() as u64;
    Ok(p.into_edits().into())
}

struct Clone<'m> {
    model: &'m Model,
    root: &'m Graph,
    names: &'m [String],
    values: &'m [Vec<u64>],
}

/// The name of a node or graph in the branch of a gear.
fn named(name: &str, gear: usize) -> String {
    format!("{name}{SUFFIX}{gear}")
}

impl Clone<'_> {
    /// A descriptor with the sizes of a gear.
    fn at(&self, d: &TensorDesc, gear: usize) -> TensorDesc {
        let size = |d: &Dim| gears::size(*d, self.names, &self.values[gear]).map_or(*d, Dim::known);
        if d.shape.is_unranked() || d.shape.is_static() {
            return d.clone();
        }
        TensorDesc { shape: Shape::new(d.shape.dims().iter().map(size)), ..d.clone() }
    }

    /// A descriptor at the gear for which it has the most bytes.
    fn largest(&self, d: &TensorDesc) -> TensorDesc {
        let all = (0..self.values.len()).map(|i| self.at(d, i));
        all.reduce(|a, b| if b.data_bytes() > a.data_bytes() { b } else { a }).unwrap_or_else(|| d.clone())
    }

    fn check(&self) -> Result<()> {
        let refused = |n: &Node, why: String, code: Code| {
            let d = Diagnostic::error(format!("`{}` ({}) cannot have gears: {why}", n.name(), n.op()));
            let help = "a gear sets every open size: name the others with `--dim`, or give them with `--input-shape`";
            CompileError::model(code, d.node(n.name(), n.op()).help(help))
        };
        let memory = |n: &&Node| matches!(n.op(), "RefData" | "AippData");
        if let Some(n) = self.model.graphs().iter().flat_map(Graph::nodes).find(memory) {
            return Err(refused(n, "its memory is the caller's, of one size".into(), ge_codes::OPEN_GEAR));
        }
        for n in self.root.data_nodes() {
            // The sizes in a sequence or an optional are known only in a run.
            let Some(d) = n.outputs().first().filter(|d| d.container == Container::TENSOR) else { continue };
            if (0..self.values.len()).any(|i| !self.at(d, i).is_static()) {
                return Err(refused(
                    n,
                    format!("it is {}{}, {} set no other size", d.dtype, d.shape, self.names.join(", ")),
                    ge_codes::GEARS,
                ));
            }
        }
        Ok(())
    }

    /// Makes the graph of a gear: its inputs have the gear's shapes, its nodes have names of their
    /// own.
    fn branch(&self, p: &mut Patch, gear: usize) {
        let name = named(self.root.name(), gear);
        p.in_graph(&name, NodeId(0));
        let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
        let mut ends = None;
        for n in self.root.nodes() {
            if n.op() == "NetOutput" {
                ends = Some(n);
                continue;
            }
            if n.op() != "Data" {
                self.node(p, n, gear, &mut nodes);
                continue;
            }
            let Some(d) = n.outputs().first() else { continue };
            let mut attrs = AttrMap::default();
            attrs.set("index", n.attrs().int("index").unwrap_or(0));
            let (own, given) = (self.at(d, gear), self.largest(d));
            let open = !d.shape.is_static();
            let mut id = p.add("Data", &named(n.name(), gear), &[], vec![given], attrs);
            if open {
                let name = format!("{}/view", named(n.name(), gear));
                id = p.add(VIEW, &name, &[ValueRef::new(id, 0)], vec![own], AttrMap::default());
            }
            nodes.insert(n.id(), id);
        }
        if let Some(n) = ends {
            let id =
                p.add("NetOutput", &format!("{name}/NetOutput"), &values(n, &nodes), Vec::new(), AttrMap::default());
            controls(p, n, id, &nodes);
        }
    }

    /// Makes the copy of a called graph for a gear.
    fn subgraph(&self, p: &mut Patch, g: &Graph, gear: usize) {
        p.in_graph(&named(g.name(), gear), NodeId(0));
        let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
        g.nodes().for_each(|n| self.node(p, n, gear, &mut nodes));
    }

    fn node(&self, p: &mut Patch, n: &Node, gear: usize, nodes: &mut HashMap<NodeId, NodeId>) {
        let mut attrs = n.attrs().to_map();
        for a in n.attrs().iter() {
            if let Some(v) = renamed(&a.value, gear) {
                attrs.set(a.key, v);
            }
        }
        // Variables of the same name are one variable.
        let name = if n.op() == "Variable" { n.name().to_owned() } else { named(n.name(), gear) };
        let outputs = n.outputs().iter().map(|d| self.at(d, gear)).collect();
        let id = p.add(n.op(), &name, &values(n, nodes), outputs, attrs);
        nodes.insert(n.id(), id);
        controls(p, n, id, nodes);
    }

    /// Rewrites the root graph: inputs of the largest sizes, and the choice.
    fn choice(&self, p: &mut Patch, branches: &[String]) {
        let data = self.root.data_nodes();
        for n in &data {
            p.push(Edit::SetOutputs(n.id(), n.outputs().iter().map(|d| self.largest(d)).collect()));
            let set = |d: &Dim| gears::size(*d, self.names, &self.values[0]).is_some();
            let open = |d: &Dim| d.symbol_name().filter(|_| set(d)).unwrap_or("");
            let open: Vec<&str> = n.outputs().iter().flat_map(|d| d.shape.dims()).map(open).collect();
            if open.iter().any(|s| !s.is_empty()) {
                p.set_attr(n.id(), OPEN, AttrValue::Strs(open.into_iter().map(Into::into).collect()));
            }
        }
        let numbers: Vec<i32> = self.values.iter().flatten().map(|n| *n as i32).collect();
        let mut attrs = AttrMap::default();
        attrs.set("index", data.len() as i64);
        let width = self.names.len() as u64;
        let sizes = TensorDesc::new(DType::I32, Shape::of(&[width]));
        let selector = ValueRef::new(p.add("Data", SELECTOR, &[], vec![sizes], attrs), 0);
        let Some(table) = ConstTensor::of(&[numbers.len() as u64], &numbers) else { return };
        let table = p.constant("ascend_mbatch_gears", table);
        let index = TensorDesc::new(DType::I32, Shape::scalar());
        let index = p.add("MapIndex", "ascend_mbatch_index", &[selector, table], vec![index], AttrMap::default());
        let mut inputs = vec![ValueRef::new(index, 0)];
        let mut sorted = data.clone();
        sorted.sort_by_key(|n| n.attrs().int("index").unwrap_or(0));
        inputs.extend(sorted.iter().map(|n| n.value(0)));
        let Some(out) = self.root.net_output() else { return };
        let given = |v: &ValueRef| {
            let d = self.root.desc(*v).cloned().unwrap_or_else(TensorDesc::unknown);
            TensorDesc::new(d.dtype, Shape::unranked())
        };
        let outputs: Vec<TensorDesc> = out.inputs().iter().map(given).collect();
        let mut attrs = AttrMap::default();
        attrs.set(BATCH_NUM, self.values.len() as i64);
        let graphs = branches.iter().map(|b| AttrValue::Graph(b.as_str().into()));
        attrs.set("branches", AttrValue::List(graphs.collect()));
        if out.attrs().strs("_output_names").is_none() {
            let name = |v: &ValueRef| {
                let own = self.root.get(v.node).map_or("", Node::name);
                if v.output == 0 { own.to_owned() } else { format!("{own}:{}", v.output) }
            };
            let names = out.inputs().iter().map(|v| name(v).as_str().into());
            p.set_attr(out.id(), "_output_names", AttrValue::Strs(names.collect()));
        }
        let count = outputs.len() as u32;
        let case = p.add("Case", "ascend_mbatch_case", &inputs, outputs, attrs);
        p.push(Edit::SetInputs(out.id(), (0..count).map(|k| ValueRef::new(case, k)).collect()));
        for n in self.root.nodes().rev().filter(|n| !matches!(n.op(), "Data" | "NetOutput")) {
            p.remove(n.id());
        }
    }
}

fn values(n: &Node, nodes: &HashMap<NodeId, NodeId>) -> Vec<ValueRef> {
    let one = |v: &ValueRef| nodes.get(&v.node).map_or(ValueRef::ABSENT, |id| ValueRef::new(*id, v.output));
    n.inputs().iter().map(|v| if v.is_absent() { *v } else { one(v) }).collect()
}

fn controls(p: &mut Patch, n: &Node, id: NodeId, nodes: &HashMap<NodeId, NodeId>) {
    for c in n.controls().iter().filter_map(|c| nodes.get(c)) {
        p.push(Edit::AddControl(*c, id));
    }
}

/// An attribute that names graphs, with the names changed to those of a gear; `None` for other
/// attributes.
fn renamed(v: &AttrValue, gear: usize) -> Option<AttrValue> {
    match v {
        AttrValue::Graph(g) => Some(AttrValue::Graph(named(g, gear).as_str().into())),
        AttrValue::List(l) if l.iter().any(|v| matches!(v, AttrValue::Graph(_))) => {
            Some(AttrValue::List(l.iter().map(|v| renamed(v, gear).unwrap_or_else(|| v.clone())).collect()))
        }
        _ => None,
    }
}
