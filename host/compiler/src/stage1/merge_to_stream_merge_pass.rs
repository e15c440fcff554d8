//! `MergeToStreamMergePass`: where the two sides of a switch meet, each side wakes the stream that
//! continues after them.
//!
//! Before: `%m = Merge(%a, %b)`   After: `%ca = MemcpyAsync(%a, %m_memory)  %cb = MemcpyAsync(%b,
//! %m_memory)`, both in the same memory, `%m_StreamActive_0` and `_1` after everything that their
//! side does, `%m = StreamMerge(%ca, %cb)` on a stream that both wake
//! When: a `Merge` of the two sides of a `Switch`, or one of a loop, which reads one memory
//! already.
//! Refuses (an error that names the node): values of different shapes; graphs whose regions do not
//! nest.
//! Keeps: names; the index of the side taken (output 1) is merged in the same way if it is read.
//! Source: 003 §2.2, facts 4.4 (1_3), 8.6 (all inputs of a `StreamMerge` share one address). Cost:
//! nodes and edges times the depth.
use crate::error::Result;
use crate::feature::control_flow::lower::{REF_INPUT, refused};
use crate::feature::control_flow::regions::{self, Group, Region, Regions};
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, Graph, Key, Model, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

graph_pass!(
    MergeToStreamMergePass,
    O0,
    "`Merge(a, b)` -> `StreamMerge` over copies in one memory, and a `StreamActive` at the end of each side",
    needs "the two sides of a `Switch`, or a loop",
    keeps "names, and the index of the side where it is read",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if !g.nodes().any(|n| matches!(n.op(), "Merge" | "RefMerge")) {
        return Ok(Vec::new());
    }
    let Some(all) = Regions::of(g)? else { return Ok(Vec::new()) };
    let mut r = Rewriter::new(g);
    cx.visits += g.len() as u64;
    for l in &all.loops {
        let label = g.get(l.cond).map_or("", Node::name);
        for m in l.carried.iter().filter_map(|c| g.get(c.merge)).filter(|m| m.op() != "StreamMerge") {
            if !m.uses(1).is_empty() {
                return Err(refused(m, "whether a value is the first of its loop is not known on the device"));
            }
            becomes_stream_merge(&mut r, m, label);
        }
    }
    for (k, group) in all.groups() {
        if group.merges.iter().any(|(m, _)| g.get(*m).is_some_and(|m| m.op() != "StreamMerge")) {
            end(g, &all, k, group, &mut r)?;
        }
    }
    Ok(r.finish(cx))
}

fn becomes_stream_merge(r: &mut Rewriter<'_>, m: &Node, label: &str) {
    r.patch.push(Edit::SetOp(m.id(), Key::new("StreamMerge")));
    r.patch.set_attr(m.id(), "_stream_label", label);
    r.count();
}

/// Ends both sides of a group: inserts the copies and one StreamActive for each side, and converts
/// the merges.
fn end(g: &Graph, all: &Regions, k: u32, group: &Group, r: &mut Rewriter<'_>) -> Result<()> {
    let Some(label) = group.merges.first().and_then(|(m, _)| g.get(*m)).map(Node::name) else { return Ok(()) };
    let actives = [0u8, 1].map(|side| {
        let mut attrs = AttrMap::default();
        attrs.set("_active_label_list", vec![label.to_owned()]);
        let id = r.patch.add("StreamActive", &format!("{label}_StreamActive_{side}"), &[], vec![], attrs);
        for n in all.last(g, Region::Side(k, side)) {
            r.patch.push(Edit::AddControl(n.id(), id));
        }
        id
    });
    for (m, sides) in group.merges.iter().filter_map(|(m, s)| g.get(*m).map(|m| (m, s))) {
        let join = Join { g, all, k, group, sides: *sides, actives };
        let inputs: Vec<ValueRef> = m.inputs().to_vec();
        let desc = m.outputs().first().cloned().unwrap_or_default();
        for (i, v) in inputs.iter().enumerate() {
            let d = g.desc(*v).cloned().unwrap_or_default();
            if d.dtype != desc.dtype || !d.shape.is_static() || d.shape != desc.shape {
                let what = format!("input {i} is {}{}, its output {}{}", d.dtype, d.shape, desc.dtype, desc.shape);
                return Err(refused(m, &format!("{what}: its shapes are not static")));
            }
        }
        let copies = join.copies(r, m.name(), &inputs, &desc);
        r.patch.push(Edit::SetInputs(m.id(), copies.into()));
        actives.iter().for_each(|a| r.patch.push(Edit::AddControl(*a, m.id())));
        becomes_stream_merge(r, m, label);
        if !m.uses(1).is_empty() {
            join.index(r, m, label)?;
        }
    }
    Ok(())
}

struct Join<'g> {
    g: &'g Graph,
    all: &'g Regions,
    k: u32,
    group: &'g Group,
    sides: [u8; 2],
    actives: [NodeId; 2],
}

impl Join<'_> {
    /// Copies the inputs into one memory, each on its side.
    fn copies(&self, r: &mut Rewriter<'_>, name: &str, inputs: &[ValueRef], desc: &TensorDesc) -> Vec<ValueRef> {
        let held = r.patch.add("NoOp", &format!("{name}_memory"), &[], vec![desc.clone()], AttrMap::default());
        let held = ValueRef::new(held, 0);
        let mut out = Vec::new();
        for (i, v) in inputs.iter().enumerate() {
            let side = Region::Side(self.k, self.sides[i]);
            let found = self.g.get(v.node);
            let ours = found
                .filter(|c| c.op() == "MemcpyAsync" && c.attrs().str("_inserted_by") == Some("MergeInputMemcpyPass"));
            let id = match ours {
                Some(c) => {
                    let from = c.input(0).unwrap_or(ValueRef::ABSENT);
                    r.patch.push(Edit::SetInputs(c.id(), vec![from, held].into()));
                    r.patch.set_attr(c.id(), REF_INPUT, 1i64);
                    c.id()
                }
                None => {
                    let mut attrs = AttrMap::default();
                    attrs.set("_inserted_by", "MergeToStreamMergePass");
                    attrs.set(REF_INPUT, 1i64);
                    r.patch.add("MemcpyAsync", &format!("{name}_copy_{i}"), &[*v, held], vec![desc.clone()], attrs)
                }
            };
            let stands = found.map(|n| if regions::is_switch(n) { side } else { self.all.at(n.id()) });
            if stands != Some(side) {
                // The value exists regardless of the side, but its copy must still belong to the
                // side.
                let through = self.group.switches.first().map(|s| ValueRef::new(*s, u32::from(self.sides[i])));
                let side = r.patch.add(
                    "NoOp",
                    &format!("{name}_side_{i}"),
                    &[through.unwrap_or(*v)],
                    vec![],
                    AttrMap::default(),
                );
                r.patch.push(Edit::AddControl(side, id));
            }
            r.patch.push(Edit::AddControl(id, self.actives[usize::from(self.sides[i])]));
            out.push(ValueRef::new(id, 0));
        }
        out
    }

    /// Merges the index of the input that was taken, as a number.
    fn index(&self, r: &mut Rewriter<'_>, m: &Node, label: &str) -> Result<()> {
        let desc = m.outputs().get(1).cloned().unwrap_or_default();
        let numbers: Option<Vec<ConstTensor>> = (0..2)
            .map(|i| {
                let dims = desc.shape.sizes()?;
                if desc.dtype == ge_ir::DType::I64 {
                    ConstTensor::of(&dims, &[i64::from(i)])
                } else {
                    ConstTensor::of(&dims, &[i])
                }
            })
            .collect();
        let numbers = numbers.ok_or_else(|| refused(m, "its output 1 is not one number"))?;
        let name = format!("{}_index", m.name());
        let inputs: Vec<ValueRef> =
            numbers.into_iter().enumerate().map(|(i, t)| r.patch.constant(&format!("{name}_{i}"), t)).collect();
        let copies = self.copies(r, &name, &inputs, &desc);
        let mut attrs = AttrMap::default();
        attrs.set("_stream_label", label);
        let outputs = vec![desc.clone(), desc];
        let merge = r.patch.add("StreamMerge", &name, &copies, outputs, attrs);
        self.actives.iter().for_each(|a| r.patch.push(Edit::AddControl(*a, merge)));
        r.patch.replace_uses(m.value(1), ValueRef::new(merge, 0));
        Ok(())
    }
}
