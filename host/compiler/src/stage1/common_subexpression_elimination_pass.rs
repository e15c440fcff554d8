//! `CommonSubexpressionEliminationPass`: equal nodes over equal inputs become one.
//!
//! Before: `%a = Relu(%x)  %b = Relu(%x)`   After: reads of `%b` read `%a`
//! When: type, attributes, inputs and output descriptors are equal.
//! Refuses: random, stateful and communication operators; control inputs; subgraphs.
//! Keeps: the first of them, with its name; control followers of the second follow the first.
//! Source: 003 §2.2, facts 4.4 (1_1, 4). Cost: each node once; attributes compared only where type and inputs agree.
use crate::error::Result;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::{Key, Model, Node, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;

/// See the module.
pub struct CommonSubexpressionEliminationPass;

fn refusal(flags_of: u64, n: &Node) -> Option<&'static str> {
    if flags_of & flags::RANDOM != 0 {
        return Some("its output is random");
    }
    if flags_of & (flags::STATEFUL | flags::COMMUNICATION) != 0 {
        return Some("it acts beyond its outputs");
    }
    if !n.controls().is_empty() {
        return Some("it waits for others by control edges");
    }
    if !n.subgraphs().is_empty() {
        return Some("it names subgraphs");
    }
    None
}

impl GraphPass for CommonSubexpressionEliminationPass {
    fn name(&self) -> &'static str {
        "CommonSubexpressionEliminationPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "equal nodes over equal inputs -> one"
    }
    fn needs(&self) -> &'static str {
        "type, attributes, inputs and output descriptors are equal"
    }
    fn keeps(&self) -> &'static str {
        "the first of them, with its name; control followers of the second follow the first"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut r = Rewriter::new(g);
        let mut known: HashMap<(Key, Vec<ValueRef>), Vec<&Node>> = HashMap::new();
        for n in g.nodes() {
            // Sources are told apart by more than their attributes; nodes without a prototype may
            // do anything.
            if n.inputs().is_empty() || n.outputs().is_empty() || cx.toolbox.op(n.op_key()).is_none() {
                continue;
            }
            if n.attr("_inserted_by").is_some() || n.op() == "Identity" {
                continue;
            }
            cx.visits += 1;
            let key = (n.op_key(), n.inputs().iter().map(|v| r.resolve(*v)).collect::<Vec<_>>());
            let list = known.entry(key).or_default();
            let twin =
                list.iter().find(|m| ge_ir::graph::same_work(m.attrs(), n.attrs()) && m.outputs() == n.outputs());
            let Some(twin) = twin else {
                list.push(n);
                continue;
            };
            match refusal(cx.op_flags(n), n) {
                Some(why) => cx.refuse(n.name(), why),
                None => r.replace_all(n, twin),
            }
        }
        Ok(r.finish(cx))
    }
}
