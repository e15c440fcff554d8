//! An output that lies in an input's memory (`ge.exec.outputReuseInputMemIndexes`) may only be
//! written when nobody reads the input any more. Where the graph itself does not guarantee this,
//! the output gets a copy that waits for the readers.
use super::Walk;
use super::readers::ancestors;
use crate::error::{CompileError, Result};
use crate::feature::io_reuse::IoReuse;
use crate::feature::shared_memory::Rules;
use crate::options::Options;
use crate::toolbox::Toolbox;
use ge_ir::graph::NodeSet;
use ge_ir::{Graph, Model, Node, NodeId, ValueRef};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::AttrMap;

/// Inserts the copies. Cost: one walk over the graph for each pair.
pub(super) fn run(model: &mut Model, toolbox: &Toolbox, options: &Options, io: &IoReuse) -> Result<()> {
    for (input, output) in io.pairs() {
        let pair = Pair { model, toolbox, rules: Rules::new(toolbox), options };
        let Some((out, v, wait)) = pair.copy(input, output) else { continue };
        let g = model.root();
        let mut p = Patch::starting_at(g.next_id());
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", Walk::WHO);
        attrs.set("_inserted_for", format!("output {output} lies in input {input}, which others read").as_str());
        let desc = g.desc(v).cloned().unwrap_or_default();
        let name = format!("{}_output_{output}_in_place", g.get(v.node).map_or("", Node::name));
        let id = p.add("Identity", &name, &[v], vec![ge_ir::TensorDesc { attrs: AttrMap::default(), ..desc }], attrs);
        p.set_input(out, output, ValueRef::new(id, 0));
        wait.into_iter().for_each(|r| p.push(Edit::AddControl(r, id)));
        let applied = model.apply(0, p.into_edits().into());
        applied.map_err(|source| CompileError::Patch { who: Walk::WHO.into(), source })?;
        model.compact();
    }
    Ok(())
}

struct Pair<'a> {
    model: &'a Model,
    toolbox: &'a Toolbox,
    rules: Rules<'a>,
    options: &'a Options,
}

impl Pair<'_> {
    /// The copy that a pair needs: the NetOutput node, the value to copy, and the nodes that the
    /// copy waits for. `None` if the pair needs no copy.
    fn copy(&self, input: u32, output: u32) -> Option<(NodeId, ValueRef, Vec<NodeId>)> {
        let g = self.model.root();
        let out = g.net_output()?;
        let v = out.input(output as usize).filter(|v| !v.is_absent())?;
        let index = |n: &&Node| n.op() == "Data" && n.attrs().int("index").unwrap_or(0) == i64::from(input);
        let data = g.nodes().find(index)?;
        let readers = self.readers(g, data);
        let writer = g.get(v.node)?;
        let before = ancestors(g, writer.id());
        let mut late: Vec<NodeId> = readers.into_iter().filter(|r| !before.contains(*r) && *r != out.id()).collect();
        let sole = !self.rules.derives(writer) && writer.op() != "Data";
        if sole && (late.is_empty() || (late == [writer.id()] && self.in_place(g, data, writer, v))) {
            return None;
        }
        late.retain(|r| *r != writer.id());
        Some((out.id(), v, late))
    }

    /// All nodes that read the memory of an input, directly or through views and parts of it.
    fn readers(&self, g: &Graph, data: &Node) -> Vec<NodeId> {
        let mut out = Vec::new();
        let mut seen = NodeSet::new(g);
        let mut todo = vec![data.id()];
        while let Some(n) = todo.pop().and_then(|id| g.get(id)) {
            for u in (0..n.outputs().len()).flat_map(|k| n.uses(k)) {
                let Some(r) = g.get(u.node).filter(|r| seen.insert(r.id())) else { continue };
                if self.rules.derives(r) {
                    todo.push(r.id());
                }
                out.push(r.id());
            }
        }
        out.sort_unstable();
        out
    }

    /// Whether the only reader of the input can write its output over it.
    fn in_place(&self, g: &Graph, data: &Node, writer: &Node, v: ValueRef) -> bool {
        let Some(engine) = writer.attrs().str("_engine").and_then(|e| self.toolbox.engine_named(e)) else {
            return false;
        };
        if self.options.no_reuse {
            return false;
        }
        let alone = data.uses(0).len() == 1 && data.outputs().len() == 1 && g.users(v).len() == 1;
        let plain = |n: &Node| !n.attrs().flag("no_reuse_mem_flag") && n.attr("memory").is_none();
        let context = self.toolbox.lend(self.model, 0);
        let view = context.graph();
        let node = view.node(writer.id());
        let params = self.toolbox.engine(engine).object.calc_op_running_param(&node, &self.toolbox.target);
        let at = params.ok().and_then(|p| p.inplace.get(v.output as usize).copied()).unwrap_or(-1);
        let from = usize::try_from(at).ok().and_then(|i| writer.input(i));
        alone && plain(writer) && from.is_some_and(|f| f.node == data.id())
    }
}
